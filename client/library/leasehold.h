/* Leasehold, the C client: append-only files, stored on several servers.
 *
 * A file is an ordered sequence of records. Any number of programs append to it at the same time
 * and any number read it. A record that was acknowledged is stored on every member of its chunk's
 * replica set, once, at a position that never changes; the records of one appender stay in their
 * order.
 *
 *   struct lh_cluster *cluster;
 *   struct lh_appender *appender;
 *   struct lh_position at;
 *
 *   lh_cluster_open("10.0.0.1:7400,10.0.0.2:7400", NULL, &cluster);
 *   lh_appender_open(cluster, "/logs/web", NULL, 10000, &appender);
 *   lh_append(appender, "hello", 5, 10000, &at);
 *
 * docs/example.c is a whole program, docs/api.md an introduction.
 *
 * CAVEATS
 *
 * - A timeout does not decide whether a record is stored. LH_ERR_DEADLINE_EXCEEDED from lh_append()
 *   means that the record is not acknowledged *yet*: the appender continues to try, and lh_flush()
 *   returns the outcome. Appending the same record again would store it twice.
 * - An appender that has failed stays failed: every later call on it returns the same error. A
 *   record that it had not acknowledged by then may be stored or not. A program that must know
 *   reads the file's end (its records should contain something to recognise them by), then opens a
 *   new appender.
 * - "Exactly once" is per appender: it holds through lost connections, primaries and masters, not
 *   through the end of the process. When a process dies, a record that was not acknowledged may be
 *   stored or not.
 * - lh_create(), lh_rename(), lh_remove() and lh_restore() happen once, even if an answer is lost
 *   and the library sends the call again. After LH_ERR_UNAVAILABLE, LH_ERR_DEADLINE_EXCEEDED or
 *   LH_ERR_CANCELLED it is not known whether the call was carried out, or still will be. Any other
 *   error says that it was not. A master older than the library does not keep this promise.
 * - Nothing works in a child of fork() that was opened before: calls return LH_ERR_CLOSED, and
 *   closing does nothing. The child opens a cluster of its own. It cannot if its parent had used
 *   gRPC: then it begins with exec(), or is forked before its parent opens its first cluster.
 *   The parent does not notice.
 * - A reader's record points into the reader's memory and is valid until the next call on that
 *   reader.
 * - Closing a cluster, an appender or a reader while another thread is in a call on it is a bug
 *   in the program. Close appenders and readers before their cluster.
 * - Callbacks come from one thread of the library per cluster, one at a time. A slow callback
 *   delays the others and, through the memory limit, in the end the appends.
 * - The library never prints and never installs a signal handler. Of the environment it reads
 *   LEASEHOLD_TRANSPORT alone, if the options name no transport. It starts threads when a cluster
 *   is opened. If it gets no memory for its small structures, it aborts the process.
 *
 * CONVENTIONS
 *
 * Functions return LH_OK (0), LH_END or LH_GAP (1, 2; readers only) or a negative error below, and
 * fill their output arguments only when they return LH_OK, unless they say otherwise.
 * lh_last_error() then says in a sentence what happened to which thing.
 *
 * Timeouts are in milliseconds from the call. LH_NO_TIMEOUT waits for ever; 0 does not wait at
 * all, which is useful only where it is mentioned. Sizes are in bytes. Strings are UTF-8 and end in
 * NUL. The library copies the strings that it keeps.
 *
 * Threads: every function may be called by any thread at any time, on the same handle too, except
 * that a reader belongs to one thread at a time, and except as the Caveats say of closing.
 *
 * Options structs: zero all bytes first (`= {0}`); a zero field means its default. NULL for the
 * whole struct means all defaults. */
#ifndef LEASEHOLD_H
#define LEASEHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LH_VERSION_MAJOR 0
#define LH_VERSION_MINOR 1

#define LH_NO_TIMEOUT UINT64_MAX

/* ---- Errors ---- */

#define LH_OK 0

/* Not an error: a reader that does not follow has returned everything that was there. */
#define LH_END 1

/* Not an error either: a reader with `skip_damaged` has come to bytes that no member can give, and
 * goes on behind them. lh_reader_gap() says which. */
#define LH_GAP 2

/* An argument is NULL, malformed or out of its range. Correct the program. */
#define LH_ERR_INVALID_ARGUMENT (-1)
/* No such file (or it was removed meanwhile), chunk or server. Create it, or correct the name. */
#define LH_ERR_NOT_FOUND (-2)
/* The path is taken. Use the file that is there or another path. */
#define LH_ERR_ALREADY_EXISTS (-3)
/* No master, or no server of the chunk, could be reached within the timeout. Check the addresses
 * and that the servers run; the same call may succeed later. For calls that change a file's name
 * the outcome may be unknown, see the Caveats. */
#define LH_ERR_UNAVAILABLE (-4)
/* The timeout came first. For an append, or a call that changes a file's name, the outcome is
 * unknown, see the Caveats. For other calls: repeat the call, with a longer timeout if it keeps
 * happening. After a primary died, appends wait for its lease to run out: `leasehold leases` shows
 * for how long. */
#define LH_ERR_DEADLINE_EXCEEDED (-5)
/* The chunk has moved on to a newer version, another server or a next chunk. The library handles
 * these four itself; they are seen only as the reason in lh_last_error(). */
#define LH_ERR_STALE_VERSION (-6)
#define LH_ERR_NOT_PRIMARY   (-7)
#define LH_ERR_NO_REPLICA    (-8)
#define LH_ERR_CHUNK_FULL    (-9)
/* The servers have other records with this appender's sequence numbers. The appender has failed;
 * report it as a bug. */
#define LH_ERR_OUT_OF_SEQUENCE (-10)
/* The record is longer than lh_appender_record_max(). Split it or, up to LH_RECORD_BYTES_MAX,
 * create the file with larger chunks: lh_chunk_size_for(). */
#define LH_ERR_TOO_LARGE (-11)
/* A server's disk is full. Free space or add servers; appending then continues by itself, unless
 * the time `give_up_ms` of the appender is over. */
#define LH_ERR_DISK_FULL (-12)
/* A server's disk failed. A reader tries other replicas by itself; if this is returned there was
 * none. */
#define LH_ERR_IO (-13)
/* Stored data does not match its checksum on any replica. Report it to the operators of the
 * cluster. A reader with `skip_damaged` goes on behind the damage. */
#define LH_ERR_CORRUPT (-14)
/* Between servers only; as LH_ERR_UNAVAILABLE if ever seen. */
#define LH_ERR_UNKNOWN_SESSION    (-15)
#define LH_ERR_STALE_MASTER       (-16)
#define LH_ERR_STALE_REGISTRATION (-17)
/* Fewer live servers than the file's replication. Start servers or create with a smaller
 * replication. */
#define LH_ERR_NOT_ENOUGH_SERVERS (-18)
/* The handle was closed while the call, or the record, was in flight. */
#define LH_ERR_CANCELLED (-19)
/* The server is going down. Repeat the call. */
#define LH_ERR_SHUTTING_DOWN (-20)
/* A server sent, or refused as malformed, something that the other side should never have sent.
 * Check that all parts have compatible versions. */
#define LH_ERR_MALFORMED (-21)
/* Errors at the start of a server; never returned by this library. */
#define LH_ERR_IN_USE         (-22)
#define LH_ERR_WRONG_FORMAT   (-23)
#define LH_ERR_WRONG_IDENTITY (-24)
#define LH_ERR_ADDRESS_IN_USE (-25)
/* A server is over a memory limit. Repeat the call later. */
#define LH_ERR_NO_MEMORY (-26)
/* The server is too old to know this call. Upgrade it. */
#define LH_ERR_UNIMPLEMENTED (-27)
/* Another server still holds the lease, no server holds it, or a new primary is being brought up to
 * date. The library waits by itself until this is over; lh_recall() may return LEASE_HELD when its
 * wait was too short: the lease runs out in `lease_left_ms`. */
#define LH_ERR_LEASE_HELD (-28)
#define LH_ERR_RECOVERING (-29)
#define LH_ERR_NOT_LEASED (-32)
/* The appender holds as many bytes as its memory limit allows. The record was *not* taken: wait
 * for callbacks and append it again, or give lh_append_async() a timeout. */
#define LH_ERR_WOULD_BLOCK (-30)
/* The appender or cluster is being closed. */
#define LH_ERR_CLOSED     (-31)
#define LH_ERR_PERMISSION (-33)
/* The operating system refused something (threads, sockets). lh_last_error() names it. */
#define LH_ERR_SYSTEM (-34)
/* This process, or a server, has no descriptors or no memory left for the moment. Repeat the call
 * later; `ulimit -n` may be too low. */
#define LH_ERR_SHORTAGE (-35)
/* The lock is not held with this token any more (or never was), or another program has been
 * admitted with a higher one. What was not acknowledged is unknown. Stop acting as the owner; to go
 * on, acquire the lock again and open a new appender with its new token. */
#define LH_ERR_STALE_TOKEN (-37)
/* Between the library and servers only: the library asks the master again and goes on. */
#define LH_ERR_STALE_CAPABILITY (-38)

/* The error's name without its prefix ("STALE_VERSION"), "OK", or "UNKNOWN".
 * Static, never NULL. */
const char *lh_error_name(int error);

/* One phrase for a person. Static, never NULL. */
const char *lh_error_text(int error);

/* Whether the same call may succeed later without a correction of the program or its arguments.
 * Not a reason to repeat an append: see the Caveats. */
bool lh_error_may_retry(int error);

/* What went wrong in the last call of this thread that returned an error: a sentence that names
 * the thing and, where one is known, what to do. In a callback: of the callback's error. Never
 * NULL; valid until this thread's next call into the library. */
const char *lh_last_error(void);

/* ---- The cluster ---- */

struct lh_cluster;

struct lh_cluster_options {
    /* How long one try of a call waits for a server before it tries another one. 5000 if 0. This is
     * not the timeout of a call: a call tries until its own timeout. */
    uint64_t try_timeout_ms;
    /* The longest pause between two tries; pauses grow from 10 ms and vary randomly.
     * 1000 if 0. */
    uint64_t backoff_max_ms;
    /* Bytes that all appenders of the cluster together may hold on their way. 512 MiB if 0. When
     * they do, each may hold its share of it, and one record in any case. */
    uint64_t memory_bytes_max;
    /* Called with a sentence that says which server a call waits for, after 2 s, 4 s, 8 s and so
     * on, so that a program can show it. Not called for reads, which may wait for records that are
     * not appended yet, nor for appends. Called in the thread of the call, with no lock held. It
     * must not use the cluster. NULL: no callback. */
    void (*on_waiting)(void *arg, const char *text);
    void *on_waiting_arg;
    /* TLS, for a cluster whose servers speak it: a directory with the files ca.pem (the authority
     * whose certificates are trusted), cert.pem (the certificate to show) and key.pem (its key); or
     * the files themselves, each of which also replaces the one in the directory. The certificate
     * of each server has to be for the host that it is reached at. Renewed files are used for new
     * connections within seconds, and nothing else changes. NULL: without TLS. Copied. */
    const char *tls_dir;
    const char *tls_ca, *tls_cert, *tls_key;
    /* So many paths are remembered with the files that they lead to, those that were used last: for
     * a program that opens the same files again and again. lh_appender_open() without a token and
     * lh_reader_open() then ask no master for a file that is remembered, and are as certain as if
     * they had: a rename or removal waits until this program has forgotten the path, or, if it does
     * not answer, for its session's term. Readers also begin with the chunks that were seen last.
     * The session is the library's own ("lookups of files"). 0: none are remembered, and there is
     * no session. */
    uint32_t lookups_max;
    /* How servers are called: "wire", the project's own protocol, or "grpc". NULL: as the
     * environment variable LEASEHOLD_TRANSPORT says, and otherwise by the wire. */
    const char *transport;
};

/* Opens a cluster and starts the library's threads for it. `masters` is the master's address,
 * host:port. Of a cluster with several masters it is a list with commas, of any of them, at most
 * 16: the library finds the active one, follows it, and learns of the others. Nothing is contacted
 * yet.
 *   INVALID_ARGUMENT  an address is malformed, or stands there twice; or there are too many; or a
 *                     file for TLS is missing, damaged, expired, of another key or authority
 *   SYSTEM            no thread or socket is available */
int lh_cluster_open(
    const char *masters, const struct lh_cluster_options *options, struct lh_cluster **cluster);

/* Closes connections, stops the threads and frees. All appenders and readers must be closed
 * before. NULL is allowed. */
void lh_cluster_close(struct lh_cluster *cluster);

/* ---- Files ---- */

enum lh_durability {
    LH_BUFFERED = 0, /* acknowledged: in the operating system's hands on every member */
    LH_SYNCED = 1    /* acknowledged: on every member's disk (fdatasync) */
};

/* What happens to appends when the primary of a file's last chunk is lost. */
enum lh_on_primary_loss {
    LH_LOSS_AS_CONFIGURED = 0, /* the master's default */
    LH_LOSS_ROLL = 1,          /* that chunk is sealed, and the file continues in the next */
    LH_LOSS_WAIT = 2           /* appends wait until the lost primary's lease is over */
};

struct lh_file_options {
    enum lh_durability durability;
    uint32_t replication;  /* servers that keep each record; 0: the master's default */
    uint32_t min_replicas; /* with fewer than this, no appends; 0: the master's default */
    uint64_t chunk_size;   /* bytes, 64 KiB to 1 GiB; 0: the master's default */
    enum lh_on_primary_loss on_primary_loss;
};

struct lh_file_info {
    uint64_t file; /* the file's id, which a rename does not change */
    char *path;
    enum lh_durability durability;
    uint32_t replication, min_replicas;
    uint64_t chunk_size;      /* bytes */
    uint64_t chunks;          /* chunks so far */
    uint64_t sealed_length;   /* bytes in all chunks but the one that still grows */
    uint64_t created_unix_ms; /* wall clock of the master; for showing, not for deciding */
    enum lh_on_primary_loss on_primary_loss;
    bool trashed;           /* removed, and can be restored ... */
    uint64_t trash_left_ms; /* ... for this much time of a running master */
    char *lock_name;        /* it takes appends under this lock only; "": under none ... */
    uint64_t fence;         /* ... with this token, or a higher one while the lock is held */
};

/* Frees what `info` owns, not the struct itself; zeroes it. Of a zeroed struct: does nothing. */
void lh_file_info_deinit(struct lh_file_info *info);

/* Creates an empty file. `options` may be NULL. `info` may be NULL; otherwise deinit it
 * afterwards.
 *   ALREADY_EXISTS      another call created it
 *   INVALID_ARGUMENT    the path is not absolute, has empty, "." or ".." parts or is too long, or
 *                       an option is out of its range
 *   NOT_ENOUGH_SERVERS, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_create(struct lh_cluster *cluster, const char *path, const struct lh_file_options *options,
    uint64_t timeout_ms, struct lh_file_info *info);

/* Describes the file. Deinit `info` afterwards.
 *   NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_stat(
    struct lh_cluster *cluster, const char *path, uint64_t timeout_ms, struct lh_file_info *info);

struct lh_file_list {
    struct lh_file_info *files;
    size_t count;
    bool more; /* ask again with `after` = the last path here */
};

/* Lists files whose path begins with `prefix` ("" or NULL: all), in the order of their bytes,
 * from the first that is greater than `after` (NULL: from the start), at most `limit` (0: the
 * master's default, 1000). Deinit the list afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_list(struct lh_cluster *cluster, const char *prefix, const char *after, uint32_t limit,
    uint64_t timeout_ms, struct lh_file_list *list);
void lh_file_list_deinit(struct lh_file_list *list);

/* Gives the file another path. Open appenders and readers stay with the file.
 *   NOT_FOUND        there is no file at `from`
 *   ALREADY_EXISTS   there is one at `to`
 *   INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_rename(struct lh_cluster *cluster, const char *from, const char *to, uint64_t timeout_ms);

struct lh_remove_options {
    bool now;      /* for good, without a stay in the trash */
    uint64_t file; /* if not 0: the file with this id; with `now` it may be in the trash */
};

struct lh_remove_result {
    uint64_t file;          /* the file's id, for lh_restore() */
    uint64_t trash_left_ms; /* it can be restored for this long; 0: it is gone */
};

/* Removes the file: into the trash, from where lh_restore() brings it back, and in time for good.
 * Its path is free at once, and its appenders and readers get NOT_FOUND. `path` may be NULL when
 * `options` names a file's id. `options` and `result` may be NULL.
 *   NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_remove(struct lh_cluster *cluster, const char *path, const struct lh_remove_options *options,
    uint64_t timeout_ms, struct lh_remove_result *result);

/* Lists what is in the trash and had a path that begins with `prefix` ("" or NULL: all), by path
 * and then id, behind (`after`, `after_file`) (NULL and 0: from the start), at most `limit` (0: the
 * master's default). `list->more`: ask again behind the path and id of the last file here. Deinit
 * the list afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_trash(struct lh_cluster *cluster, const char *prefix, const char *after, uint64_t after_file,
    uint32_t limit, uint64_t timeout_ms, struct lh_file_list *list);

/* Takes a file out of the trash: the one with the id `file` or, if that is 0, of those that had
 * this path the one removed last (`path` may be NULL otherwise). It gets the path `to`, or the one
 * that it had if `to` is NULL. `info` may be NULL; otherwise deinit it afterwards.
 *   NOT_FOUND        the trash has no such file (any more)
 *   ALREADY_EXISTS   another file has the path by now: give another `to`
 *   INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_restore(struct lh_cluster *cluster, const char *path, uint64_t file, const char *to,
    uint64_t timeout_ms, struct lh_file_info *info);

struct lh_member {
    char *server_id;
    char *address; /* "" when the server has no session with the master now */
    bool joining;  /* it is being brought up to date and does not count yet */
};

/* One piece of a file and where it is. */
struct lh_chunk_info {
    uint64_t chunk; /* id */
    uint64_t version;
    uint64_t start;  /* its first byte as an offset in the file */
    uint64_t length; /* bytes; 0 while not sealed */
    bool sealed;     /* it will never change again */
    char *primary;   /* server_id of the lease's holder, or "" */
    struct lh_member *members;
    size_t member_count;
};

struct lh_chunk_list {
    struct lh_chunk_info *chunks;
    size_t count;
    bool more; /* ask again with `offset` = start + length of the last one here */
};

/* Lists the file's chunks in order from the one that holds `offset`, at most `limit` (0: the
 * master's default). Deinit the list afterwards.
 *   NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_locate(struct lh_cluster *cluster, const char *path, uint64_t offset, uint32_t limit,
    uint64_t timeout_ms, struct lh_chunk_list *list);
void lh_chunk_list_deinit(struct lh_chunk_list *list);

/* ---- Operators ---- */

struct lh_lease_info {
    uint64_t chunk;
    char *path; /* of the chunk's file */
    uint64_t version;
    char *primary; /* server_id, or "" */
    char *address; /* the primary's, or "" */
    /* FREE, GRANTING, HELD, RECALLING, WAITING (the master restarted), EXPIRING (the file has gone
     * on in its next chunk; nobody gets this one any more) */
    char *state;
    uint64_t left_ms; /* until the lease runs out unless it is extended */
    uint64_t appends; /* batches since the grant, as of the last heartbeat */
    bool session_live;
    uint32_t members, replication;
};

struct lh_lease_list {
    struct lh_lease_info *leases;
    size_t count;
    bool more; /* ask again with `after_chunk` = the last chunk here */
};

/* Lists leases in the order of their chunks' ids, from the first above `after_chunk`, at most
 * `limit` (0: 1000); with `all` also chunks that take appends but that nobody holds now. Deinit
 * the list afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_leases(struct lh_cluster *cluster, uint64_t after_chunk, uint32_t limit, bool all,
    uint64_t timeout_ms, struct lh_lease_list *list);
void lh_lease_list_deinit(struct lh_lease_list *list);

/* What the operator wants of a chunkserver. */
enum lh_server_admin {
    LH_SERVER_ACTIVE = 0,
    LH_SERVER_DRAINING = 1,       /* gets nothing new, and what it has moves elsewhere */
    LH_SERVER_DECOMMISSIONING = 2 /* likewise; forgotten once nothing is left on it */
};

struct lh_server_info {
    char *server_id;
    char *address;
    char *failure_domain;
    char *obstacle; /* draining: why what is on it cannot move, a sentence; empty: nothing */
    uint64_t incarnation;
    uint64_t session_left_ms;
    uint64_t capacity_bytes, free_bytes;
    uint64_t replicas, primaries;
    bool live;      /* has a session */
    bool failing;   /* its disk does not answer */
    bool reachable; /* lately confirmed that it receives the master's answers */
    enum lh_server_admin admin;
    bool safe_to_stop;         /* draining, and nothing is left on it that any chunk needs */
    uint64_t replicas_to_move; /* draining: replicas that have no replacement yet */
    uint64_t away_ms;          /* without a session for this long */
    uint64_t grace_left_ms;    /* away: its replicas are copied elsewhere after this */
    uint64_t copies_in;        /* replicas that it is receiving */
    uint64_t copies_out;       /* replicas that others copy from it */
    /* What its process has ordered as primary, as of its last heartbeat, which came so long ago. */
    uint64_t batches_ordered, bytes_ordered, ordered_ago_ms;
    bool ordered_unreported; /* none of that process has come to this master: these are 0 */
    bool read_only;          /* `failing`: the disk refuses to write, and can be read */
    char *unheard; /* nothing is placed there, since the master did not hear it at its address: a
                      sentence, why; empty: it was heard, or has no session */
};

/* The repair of the whole cluster. */
struct lh_repair_info {
    uint64_t chunks_degraded;   /* fewer good replicas than their file asks for */
    uint64_t chunks_endangered; /* of these: a single good replica is left */
    uint64_t chunks_unreadable; /* of these: none is left or reachable */
    uint64_t copies_running, copies_waiting;
    uint64_t bytes_left;
    uint64_t bytes_per_second;        /* 0: not known yet */
    uint64_t left_ms;                 /* at that rate; 0: nothing to do, or not known */
    uint64_t copies_done, bytes_done; /* since the master's start */
};

/* What there is, and what the master has counted. An older master says nothing of it: all 0. */
struct lh_master_figures {
    uint64_t leases; /* in force: of chunks, and locks */
    uint64_t files;  /* those in the trash included */
    uint64_t chunks;
    uint64_t sessions;      /* of programs */
    uint64_t sessions_away; /* of these: of the last master, and not back */
    uint64_t names, locks, locks_waiting, values;
    uint64_t calls_waiting; /* for a primary */
    /* Since the master's start. */
    uint64_t leases_granted, leases_renewed, leases_recalled, leases_expired;
    uint64_t locks_granted, locks_released;
    uint64_t values_read, values_changed;
};

/* A chunkserver that the master refused lately and that has not registered since. Texts that it
 * chose are shown with what is not plain as \xHH or \uHHHH. */
struct lh_refused_info {
    char *server_id; /* that it gave; "": it was refused before it could */
    char *address;   /* likewise */
    char *peer;      /* where its last connection came from */
    char *identity;  /* by its certificate; "": it has none */
    char *text;      /* why, the last time: a sentence, ... */
    int error;       /* ... and LH_ERR_* */
    uint64_t times, ago_ms;
};

struct lh_server_list {
    struct lh_server_info *servers;
    size_t count;
    uint64_t master_term; /* counts the master's starts */
    char *cluster_id;
    uint64_t session_term_ms, chunk_term_ms; /* the lease terms in force */
    struct lh_repair_info repair;
    bool deleting;       /* false: the metadata looks like an older copy, and nothing is deleted */
    char *deleting_text; /* why not, or "" */
    struct lh_master_figures figures;
    struct lh_refused_info *refused; /* who was refused last is first */
    size_t refused_count;
};

/* Lists the chunkservers. Deinit the list afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_servers(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_server_list *list);
void lh_server_list_deinit(struct lh_server_list *list);
void lh_server_info_deinit(struct lh_server_info *info);

/* Drains a chunkserver (its leases and replicas move to others; `safe_to_stop` tells when that is
 * done), sends it away for good, or takes it back. Repeating it changes nothing. `info` may be
 * NULL; otherwise it is the server afterwards: deinit it.
 *   NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_set_server(struct lh_cluster *cluster, const char *server_id, enum lh_server_admin admin,
    uint64_t timeout_ms, struct lh_server_info *info);

/* ---- Masters ---- */

struct lh_master_info {
    char *master_id; /* its lasting name; "": it has none, or has never answered */
    char *address;
    bool answered; /* false: what follows is not known */
    char *trouble; /* why it did not answer, or "" */
    bool acting;   /* it is the active master, and acts */
    /* ACTIVE; UNCONFIRMED (it was active, and does not know whether it still is); STANDBY; WAITING
     * (its store has no cluster); LOADING (its copy of the store); RESIGNING */
    char *state;
    uint64_t state_ms; /* for so long; 0: not known */
    uint64_t reign;    /* the newest that it knows of */
    int64_t revision;  /* of etcd: up to here it knows the store */
    bool follows;      /* it stands by, and there is an active one to compare it with: */
    uint64_t behind;   /* revisions that the active one knows and it does not */
    /* Chunkservers: that reach it and are in session with it, if it is the active one; that find no
     * active master and reach it, if it stands by. A single master does not say. */
    uint64_t servers;
};

struct lh_master_list {
    struct lh_master_info *masters;
    size_t count;
    bool shared;    /* they share a store in etcd; false: a single master with a store of its own */
    char *active;   /* address of the one that acts, or "" */
    uint64_t reign; /* the newest that any of them knows of */
    uint64_t reign_term_ms; /* another one takes over after so much silence */
    uint64_t store_bytes;   /* what etcd's file takes; 0: not known */
    char *store_trouble;    /* what etcd's members complain of, or "" */
};

/* Asks every master: those that `cluster` was opened with, and those that they know of. One try
 * each, for 2 s at most. Deinit the list afterwards, also after UNAVAILABLE, which fills it.
 *   UNAVAILABLE   none has answered */
int lh_masters(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_master_list *list);
void lh_master_list_deinit(struct lh_master_list *list);

struct lh_transfer_result {
    char *from, *to;           /* ids of the masters that acted before and act now */
    uint64_t old_reign, reign; /* their reigns */
    uint64_t took_ms;          /* from the request until the other one was seen to act */
};

/* Has the active master resign, and waits until another one acts: `successor` (its id), if that
 * still stands by then; NULL or "": any. If `successor` is active already nothing happens. Appends
 * go on meanwhile, other calls wait. `result` may be NULL; otherwise deinit it afterwards.
 *   NOT_FOUND           no master has that id, or the master shares its store with no other
 *   NOT_ENOUGH_SERVERS  `successor`, or without it every other master, does not stand by
 *   UNAVAILABLE         no master acts
 *   DEADLINE_EXCEEDED   the active one was asked to resign, and nobody was seen to act since */
int lh_transfer(struct lh_cluster *cluster, const char *successor, uint64_t timeout_ms,
    struct lh_transfer_result *result);
void lh_transfer_result_deinit(struct lh_transfer_result *result);

/* Deletes the record that a master of that id, which is gone, left behind: it is in no list any
 * more, and no other one waits for it before it takes over.
 *   NOT_FOUND         there is no such record, or the master shares its store with no other
 *   IN_USE            it runs
 *   INVALID_ARGUMENT  it is the active one
 *   UNAVAILABLE       no master acts, or etcd does not answer it */
int lh_forget_master(struct lh_cluster *cluster, const char *master_id, uint64_t timeout_ms);

/* ---- Chunks ---- */

/* A replica of a chunk, as the master sees it. */
struct lh_replica_info {
    char *server_id;
    char *address; /* "" when the server has no session with the master now */
    /* GOOD; AWAY (no session, for less than the grace period); GONE (for longer); LOST (its bytes
     * are of no use); MISSING (its server has no such replica); STALE (to be refreshed); JOINING
     * (does not count yet); COPYING (no member yet); EXTRA (no member) */
    char *state;
    bool primary;
};

/* All that the master knows of a chunk. */
struct lh_chunk_state {
    struct lh_chunk_info info;
    char *path; /* of its file */
    uint64_t file;
    uint32_t replication, min_replicas;
    struct lh_replica_info *replicas;
    size_t replica_count;
    char *lease; /* as `state` in struct lh_lease_info */
    uint64_t lease_left_ms;
    bool rolling;      /* it is being sealed because its primary was lost */
    bool trashed;      /* its file is in the trash */
    bool created;      /* false: not all its replicas are created; it is empty */
    uint64_t checksum; /* sealed: of its whole log */
};

struct lh_chunk_state_list {
    struct lh_chunk_state *chunks;
    size_t count;
    bool more;     /* ask again with `after_chunk` = `next`, also if there is no chunk here */
    uint64_t next; /* `after_chunk` itself, unless the master has looked at others */
};

/* Lists the chunks of the files whose path begins with `prefix` ("" or NULL: all), those in the
 * trash included, by the chunks' ids from the first above `after_chunk`, at most `limit` (0: 1000).
 * Deinit the list afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_chunks(struct lh_cluster *cluster, const char *prefix, uint64_t after_chunk, uint32_t limit,
    uint64_t timeout_ms, struct lh_chunk_state_list *list);
void lh_chunk_state_list_deinit(struct lh_chunk_state_list *list);

struct lh_explanation {
    struct lh_file_info info;
    bool has_chunk; /* false: the file has no chunk yet; `chunk` is all zeros */
    struct lh_chunk_state chunk;
    bool writable;    /* an append would be ordered now */
    char **sentences; /* the state; who may act until when; what is missing and next */
    size_t sentence_count;
};

/* Why a chunk, or the last chunk of a file, is or is not writable, and what happens next. Names the
 * chunk by its id or, when `chunk` is 0, by the file's path (may be NULL otherwise). Deinit it
 * afterwards.
 *   NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_explain(struct lh_cluster *cluster, const char *path, uint64_t chunk, uint64_t timeout_ms,
    struct lh_explanation *explanation);
void lh_explanation_deinit(struct lh_explanation *explanation);

struct lh_garbage_info {
    bool deleting;             /* the master deletes replicas that nobody needs */
    char *why_not;             /* or "" */
    uint64_t files_trashed;    /* in the trash now */
    uint64_t replicas_extra;   /* of no use, and not deleted yet */
    uint64_t replicas_deleted; /* since the master's start */
};

/* Returns whether the master deletes replicas that nobody needs. With `resume` the master deletes
 * again after it had stopped because its metadata looked like an older copy. Only an operator who
 * has made sure that this metadata is the newest should use it. Deinit `info` afterwards.
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_garbage(
    struct lh_cluster *cluster, bool resume, uint64_t timeout_ms, struct lh_garbage_info *info);
void lh_garbage_info_deinit(struct lh_garbage_info *info);

/* ---- One replica, for checking ---- */

struct lh_replica_status {
    uint64_t version;
    uint64_t committed; /* bytes that it may show to readers; all of a sealed chunk */
    bool sealed;
    bool primary; /* it answers as the primary, under a valid lease */
};

/* Asks the chunkserver at `address`, and no other, for its replica of a chunk. One try.
 *   NO_REPLICA   it has none
 *   CORRUPT, IO  it has found the replica damaged, and shows nothing of it
 *   RECOVERING   it reads the replica back, or copies it: ask again later
 *   UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_replica_stat(struct lh_cluster *cluster, const char *address, uint64_t chunk,
    uint64_t timeout_ms, struct lh_replica_status *status);

/* How far a replica's log was read and found whole: all zeros is the log's beginning. */
struct lh_replica_scan {
    uint64_t offset;   /* bytes of the log */
    uint64_t checksum; /* running checksum of these bytes (docs/formats.md) */
};

/* Reads on in that server's replica, up to 4 MiB or one batch and never beyond `end` bytes, checks
 * each batch, and moves `scan` behind them. LH_END once `scan->offset` is `end`. After an error
 * `scan` stands where the whole bytes end.
 *   CORRUPT      what follows is damaged: the server says so, or its bytes are wrong
 *   MALFORMED    no batch ends at `end`, or the log is shorter
 *   and the errors of lh_replica_stat() */
int lh_replica_check(struct lh_cluster *cluster, const char *address, uint64_t chunk, uint64_t end,
    uint64_t timeout_ms, struct lh_replica_scan *scan);

/* A batch that a replica cannot give, but whose header it has. */
struct lh_damaged_batch {
    uint64_t offset; /* in the chunk */
    uint32_t size;
    uint32_t count; /* records */
    uint64_t writer, sequence;
};

/* What a replica has not: bytes of its log [from, to). */
struct lh_replica_damage {
    uint64_t from, to;
    struct lh_damaged_batch *batches; /* at most 64 */
    size_t batch_count;
};

/* Goes on in that server's replica behind what lh_replica_check() has found damaged: looks for the
 * next whole batch at or behind `scan->offset`, moves `scan` behind it, and says in `damage` what
 * lies before (`from` = `to`: nothing). LH_END: there is no such batch before `end`, where `scan`
 * then stands. Deinit `damage` after LH_OK and LH_END.
 *   the errors of lh_replica_stat() */
int lh_replica_resync(struct lh_cluster *cluster, const char *address, uint64_t chunk, uint64_t end,
    uint64_t timeout_ms, struct lh_replica_scan *scan, struct lh_replica_damage *damage);
void lh_replica_damage_deinit(struct lh_replica_damage *damage);

struct lh_recall_result {
    uint64_t chunk;
    uint64_t version;       /* after it */
    char *old_primary;      /* server_id, or "" */
    char *new_primary;      /* server_id, or "" */
    uint64_t lease_left_ms; /* with LEASE_HELD: the old lease may run this much longer */
};

/* Asks a chunk's primary to give up its lease and, unless `only_release`, gives the chunk to
 * another member. Names the chunk by its id or, when `chunk` is 0, by the path of the file whose
 * last chunk it is (`path` may be NULL otherwise). Appends in flight are not lost: appenders go
 * to the new primary. `result` may be NULL; otherwise deinit it afterwards, also after
 * LEASE_HELD, which fills it.
 *   LEASE_HELD   the primary did not answer within the timeout; nobody else can have the chunk
 *                before `lease_left_ms` has passed
 *   NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_recall(struct lh_cluster *cluster, uint64_t chunk, const char *path, bool only_release,
    uint64_t timeout_ms, struct lh_recall_result *result);
void lh_recall_result_deinit(struct lh_recall_result *result);

/* ---- Appending ---- */

/* Where a record is, which never changes. Positions in one file compare by offset, then index. */
struct lh_position {
    uint64_t offset; /* bytes from the file's start to the batch that the record came in */
    uint32_t index;  /* of the record in that batch, from 0 */
};

struct lh_appender;

struct lh_appender_options {
    /* Largest batch of records that is sent at once. 1 MiB if 0; cut to what the file's chunks
     * take (half a chunk, at most 32 MiB). At least 4 KiB. A longer record goes in a batch of its
     * own. */
    uint32_t batch_bytes_max;
    /* Bytes that may be taken but not yet acknowledged (and, with callbacks, reported). 32 MiB if
     * 0; raised to two batches if smaller. See also the cluster's limit for all appenders. */
    uint64_t memory_bytes_max;
    /* For how long the appender tries to store a record before it fails for good. 600,000
     * (10 min) if 0; LH_NO_TIMEOUT: for ever. Should exceed the cluster's chunk lease term (60 s
     * by default) and its grace period (5 min) by a minute or two: a file may wait that long for
     * a new primary, or for the replacement of members that are gone. */
    uint64_t give_up_ms;
    /* Exclusive appending, for a log that has one writer at a time: the name of a lock that this
     * program holds, and the token that it was granted with. Both, or NULL and 0. The name is
     * copied.
     *
     * From the first such appender on a file takes appends under that lock only, and only with the
     * highest token that was ever admitted. A higher one is admitted while its lock is held. It
     * ends all lower ones for good, also those of programs that sleep: LH_ERR_STALE_TOKEN.
     * Appenders with the same token go on side by side. So each new process acquires the lock
     * again. */
    const char *lock_name;
    uint64_t token;
};

/* Opens an appender on an existing file. Each appender has its own order; several may be open on
 * one file, in one program or many. `timeout_ms` is this call's only.
 *
 * With a token the call waits until the appender is admitted. From then on nothing is stored that
 * was appended with a lower one. So a program that takes a log over first opens its appender, then
 * reads the file to its end, and has everything that was acknowledged to its predecessor.
 *   NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED
 *   STALE_TOKEN     a higher token was admitted, or the lock is not held with this one, or the file
 *                   has another lock, or it has one and no token is named
 *   LEASE_HELD      with a token: the last primary is lost, and its lease not over yet
 *   UNIMPLEMENTED   with a token: the master is of an older release */
int lh_appender_open(struct lh_cluster *cluster, const char *path,
    const struct lh_appender_options *options, uint64_t timeout_ms, struct lh_appender **appender);

/* The longest record that this appender takes, in bytes: it depends on the file's chunk size. */
uint32_t lh_appender_record_max(const struct lh_appender *appender);

/* The longest record that any file takes; files whose chunks have 64 MiB or more do. */
#define LH_RECORD_BYTES_MAX 16777172u

/* The smallest power of two that, as a chunk size, allows records of so many bytes; 0: no chunk
 * size does. */
uint64_t lh_chunk_size_for(uint64_t record_bytes);

/* Appends one record (it may be empty) and waits until it is acknowledged. `position` may be
 * NULL. Several threads may do so on one appender: their records share batches.
 *   TOO_LARGE           not taken
 *   WOULD_BLOCK         not taken: no memory within the timeout (a timeout of 0 included), or
 *                       called in a callback while there is no memory
 *   DEADLINE_EXCEEDED   taken but not acknowledged yet: the appender continues to try. A failed
 *                       appender never returns this
 *   others              the appender has failed; the record is unknown, or not taken if it had
 *                       failed before: NOT_FOUND (the file was removed), STALE_TOKEN (another
 *                       owner has been admitted), OUT_OF_SEQUENCE, CLOSED,
 *                       or the reason of the last try when give_up_ms was over: UNAVAILABLE,
 *                       DISK_FULL, LEASE_HELD and the like */
int lh_append(struct lh_appender *appender, const void *record, size_t size, uint64_t timeout_ms,
    struct lh_position *position);

/* Called in the library's callback thread with the outcome of `count` records. Error LH_OK: they
 * are stored at `first`, and at the indexes following it. Otherwise they are unknown (not
 * LH_ERR_WOULD_BLOCK and the like: those were returned by the appending call, which has no
 * callback). Within one appender callbacks come in the order of the records; each record is
 * reported exactly once. The callback may call everything here except lh_flush() and closing. An
 * append in a callback does not wait for memory. */
typedef void (*lh_append_callback)(void *arg, int error, struct lh_position first, uint32_t count);

/* Appends one record without waiting for its acknowledgement; it is copied before the call
 * returns. While the memory limit is reached the call waits at most `timeout_ms` for memory (0: not
 * at all). `callback` may be NULL: then only lh_flush() and lh_appender_close() report errors.
 * Records appended one after another with the same callback and the same `arg` may be reported
 * together.
 *   WOULD_BLOCK   not taken: no memory
 *   TOO_LARGE     not taken
 *   others        not taken: the appender has failed before (as lh_append()) */
int lh_append_async(struct lh_appender *appender, const void *record, size_t size,
    lh_append_callback callback, void *arg, uint64_t timeout_ms);

struct lh_record_ref {
    const void *data;
    size_t size;
};

/* Appends `count` records in order, like `count` calls of lh_append_async(). `*taken` (not
 * NULL) is how many of them were taken, also when an error is returned: then the record at that
 * index was the first that was not. */
int lh_append_many(struct lh_appender *appender, const struct lh_record_ref *records, size_t count,
    lh_append_callback callback, void *arg, uint64_t timeout_ms, size_t *taken);

/* Waits until every record taken before this call is acknowledged and its callback has returned.
 * There is no need to flush for progress: records go out by themselves, the first at once and the
 * others as soon as an answer is back or a batch is full.
 *   DEADLINE_EXCEEDED   not all are acknowledged yet; the appender continues to try
 *   WOULD_BLOCK         called in a callback
 *   others              the appender has failed (as lh_append()) */
int lh_flush(struct lh_appender *appender, uint64_t timeout_ms);

/* What the appender has done, for progress displays. */
struct lh_appender_stats {
    uint64_t records_taken, records_stored;
    uint64_t bytes_stored; /* of records, without their framing */
    uint64_t batches_stored;
    struct lh_position last; /* of the last record stored, if any */
    uint64_t records_unsent; /* taken, and known not to be stored: the appender failed before it had
                                sent them. Of the rest that is not stored it is not known */
};
void lh_appender_stats(struct lh_appender *appender, struct lh_appender_stats *stats);

/* Flushes, then closes and frees, whatever the flush returned; returns the flush's result. The
 * outcome of records that are not acknowledged by then is unknown. They are reported to their
 * callbacks as LH_ERR_CANCELLED before this returns. NULL is allowed. Never from a callback. */
int lh_appender_close(struct lh_appender *appender, uint64_t timeout_ms);

/* ---- Reading ---- */

struct lh_reader;

struct lh_reader_options {
    /* Where to begin: zero for the file's start, a position from an appender or a reader
     * otherwise. */
    struct lh_position start;
    /* false: LH_END after the last record that was acknowledged when the end was reached. The
     *        primary is asked for the end: if there is none just then, the call waits for one.
     * true:  wait for more at the end. Shows a growing prefix, never a hole; a record may appear
     *        here some milliseconds after its acknowledgement. */
    bool follow;
    /* Bytes read ahead of the program. 8 MiB if 0; at least 1 MiB. */
    uint64_t readahead_bytes;
    /* false: CORRUPT at a batch that is damaged at every member of its chunk.
     * true:  LH_GAP there, and the next call goes on behind it. A member that does not answer may
     *        have the batch: nothing is skipped before each has answered, nor in a chunk that is
     *        not sealed. */
    bool skip_damaged;
};

struct lh_record {
    const void *data; /* the reader's, until the next call on it; not aligned */
    size_t size;
    struct lh_position position;
};

/* Opens a reader on an existing file. `timeout_ms` is this call's only. A wrong start is found
 * when reading.
 *   NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_reader_open(struct lh_cluster *cluster, const char *path,
    const struct lh_reader_options *options, uint64_t timeout_ms, struct lh_reader **reader);

/* Gives the next record. Every batch's checksum has been verified.
 *   LH_END              at the end of what is there (never when following); a later call looks
 *                       again
 *   DEADLINE_EXCEEDED   nothing yet; call again. With a timeout of 0: nothing read ahead
 *   LH_GAP              with `skip_damaged`: records that no member can give are left out here; see
 *                       lh_reader_gap()
 *   INVALID_ARGUMENT    the start is no position of this file
 *   CORRUPT             on every replica; the reader stays before the damage
 *   NOT_FOUND           the file was removed
 *   UNAVAILABLE, IO, NOT_LEASED, LEASE_HELD, RECOVERING and the like: why the reader
 *                       could not continue within the timeout; it keeps its place, call again */
int lh_reader_next(struct lh_reader *reader, uint64_t timeout_ms, struct lh_record *record);

/* A whole batch as it is stored (docs/formats.md), for programs that copy, or that do not want
 * one call per record. */
struct lh_batch {
    const void *data; /* the reader's, until the next call on it; `size` bytes, header included */
    size_t size;
    uint64_t offset;   /* of its first byte in the file */
    uint32_t count;    /* records */
    uint64_t writer;   /* who appended it */
    uint64_t sequence; /* of its first record, among the writer's */
};

/* Gives the next whole batch; after some of its records were read one by one, the batch after it.
 * Results as lh_reader_next(). */
int lh_reader_next_batch(struct lh_reader *reader, uint64_t timeout_ms, struct lh_batch *batch);

/* Iterates over the records of a batch of lh_reader_next_batch(): `*cursor` is 0 for the first
 * record and is advanced by each call. True with the record, false at the end. The record is valid
 * as long as the batch. */
bool lh_batch_next(const struct lh_batch *batch, size_t *cursor, const void **data, size_t *size);

/* What a member of a chunk answered that was asked for a batch. */
struct lh_gap_member {
    const char *server_id;
    int error; /* CORRUPT, NO_REPLICA or the like: lh_error_text() */
};

/* Bytes of a file that no member can give. */
struct lh_gap {
    uint64_t from, to; /* offsets in the file */
    uint64_t chunk;
    const struct lh_gap_member *members; /* all of the chunk; the reader's, until the next call */
    size_t member_count;
};

/* Says which gap the last call on the reader has returned LH_GAP for. INVALID_ARGUMENT: the last
 * call has not. */
int lh_reader_gap(const struct lh_reader *reader, struct lh_gap *gap);

/* The position of the record that lh_reader_next() would return next: where to start
 * another time. */
struct lh_position lh_reader_position(const struct lh_reader *reader);

/* Closes and frees. NULL is allowed. */
void lh_reader_close(struct lh_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
