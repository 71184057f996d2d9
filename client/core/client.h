/* The client's core: what an embedding program asks for, and how it is done by links to the
 * masters and the chunkservers. Pure: see base/step.h for how it is driven. It never touches a
 * disk.
 *
 * The driver asks by LH_IN_CALL with one of the call structs below and is answered by
 * LH_FX_COMPLETE with the same pointer. A call belongs to the core from the step that it is fed
 * in until its completion; then its outputs are set. Every call completes exactly once;
 * LH_IN_STOP completes what is left with CANCELLED before STOPPED.
 *
 * Batches are packed outside (client/library/pending.c): the core gets whole ones, in any order,
 * and knows them by their sequence numbers. What it keeps of them is bounded by who submits
 * them.
 *
 * Files, by concern; each has its header, which is all that the others see of it:
 *   client.c        dispatch
 *   link.c          links, and whose they are
 *   active.c        which master is asked (HA-10)
 *   ask.c           requests to the active master and their repetition
 *   reply.c         what replies have in common, and the end of a call
 *   chunk.c         what the master says of a chunk
 *   stream.c        streams of appends, one to each server, with lane.c: what goes to one chunk
 *   appender.c      one writer's way from chunk to chunk (APP-4, APP-5), with opening.c, tail.c,
 *                   which finds the primary, and settling.c (APP-5a)
 *   reader.c        a reader's way from chunk to chunk, ahead of the program (APP-6)
 *   chunk_reader.c  a reader's bytes of one chunk, from one member or another (FAIL-4), with
 *                   read.c: one READ
 *   silent.c        servers that did not answer
 *   hedge.c         when a READ is late, and whether a second one may go out
 *   server.c        one question to one chunkserver
 * and of leases of the program (leases.h):
 *   session.c       the life of a session, with attach.c: its streams; session_show.c,
 *                   session_ops.c, session_events.c
 *   locks.c         locks, and requests for some, with withdrawn.c (NL)
 *   values.c        reads, with cache.c: the values that may be served, and broadcast.c (VAL)
 *   lookups.c       which file has a path, remembered (VAL-7), with hints.c: its chunks
 *   watch.c         changes of values, in order (VAL-6) */
#pragma once

#include "base/step.h"
#include "finder/finder.h"

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_client;

/* Strings are copied. Zero takes the default that stands beside it. */
struct lh_client_config {
    const char *const *masters;     /* addresses; the others that there are are learned (HA-10) */
    size_t master_count;            /* 1 to LH_MASTERS_MAX, all different */
    uint64_t seed;                  /* from a true source of randomness: writers' ids come of it */
    struct lh_duration try_timeout; /* 5 s: one request of which nothing is answered, or no more */
    struct lh_duration ask_masters_after; /* 500 ms: a request to the master is unanswered so long
                                             before the other masters are asked who acts */
    struct lh_duration stall_timeout; /* 5 s: appends without an answer, and without any of their
                                         bytes arriving, before a new stream */
    struct lh_duration hang_timeout;  /* 700 ms: the same, without any sign of life either */
    struct lh_duration settle_try;    /* 300 ms: one unanswered SETTLE, the first time round */
    struct lh_duration tail_wait;     /* 5 s: for how long the master may wait for a primary, ... */
    struct lh_duration new_file_wait; /* 500 ms: ... when a new file is opened */
    struct lh_duration poll_wait;     /* 10 s: for how long a server may wait for new bytes */
    struct lh_duration arrival_timeout; /* 10 min: an answer that has begun to come is whole by
                                           then, or comes from another server */
    struct lh_duration backoff_min;     /* 10 ms: the pause after the second failure in a row ... */
    struct lh_duration backoff_max; /* 1 s: ... doubling up to this, less up to half by chance */
    struct lh_duration silent_min;  /* 5 s: a server that did not answer is asked last ... */
    struct lh_duration silent_max;  /* 1 min: ... for that long, doubling up to this */
    struct lh_duration repeat_for;  /* 5 min: a call that changes something and whose outcome is not
                                      known is repeated for no longer (HA-12) */
    /* A READ that is late is asked of another member too; the first sound answer counts. */
    struct lh_duration late_first; /* 300 ms: late, as long as none was answered yet; ... */
    struct lh_duration late_min;   /* 50 ms: ... then late by what is usual, at least this ... */
    struct lh_duration late_max;   /* 2 s: ... and at most this */
    uint32_t hedge_percent;        /* 10: such second READs, of all; ... */
    uint32_t hedge_burst;          /* 4: ... beyond it so many, saved up when there were fewer */
    uint32_t read_bytes;           /* 2 MiB: of one READ */
    uint32_t chunks_ahead;         /* 2: of a file that a reader reads at once */
    uint32_t silent_servers;       /* 64: remembered; more of them are asked in vain again */
    /* How the appends of a lane gather. */
    uint32_t messages;           /* 2: unanswered at a time while they are small */
    uint64_t full_message_bytes; /* 256 KiB: one that is as large need not wait for others ... */
    uint64_t unanswered_bytes;   /* 16 MiB: ... while less than that is unanswered */
    uint64_t message_bytes;      /* 1 MiB: of one with several batches of a stream's only lane */
    /* How lanes share a stream. */
    uint64_t shared_bytes;  /* 512 KiB: about so much in a message; a larger batch goes in parts */
    uint64_t small_bytes;   /* 16 KiB: lanes with no more than this go before others */
    uint32_t message_parts; /* 256: in a message, and one more */
    uint32_t stream_lanes;  /* 4096: on one stream; its server takes 16384 */
    struct lh_duration stream_idle; /* 10 s: without a lane, before it is closed */
    uint32_t stream_writers;        /* 256: that ever join one lane; its server takes 1024 */
    /* Leases of the program (leases.h). */
    struct lh_duration suspended_after; /* a third of the session's term: a heartbeat is unanswered
                                           so long before the program hears of it */
    uint32_t sessions;                  /* 4096: at a time */
    uint32_t session_locks;             /* 65536: locks and requests for some, of one session */
    uint32_t session_reads;             /* 65536: reads of one session that wait for answers */
    uint32_t session_ops;      /* 262144: operations that wait until they can be sent; more of them,
                                       and the session attaches again */
    uint32_t session_prefixes; /* 64: that are broadcast and used by one session */
    uint64_t
        session_message_bytes; /* 512 KiB: about so much of operations, or shown, in a message */
    uint32_t cached_values;    /* 65536: of one session; ... */
    uint64_t cached_bytes;     /* 64 MiB: ... those go first that nobody used lately */
    /* Lookups of files (VAL-7). */
    uint32_t lookups_max;   /* paths whose files are remembered, within `cached_bytes`; 0: none */
    uint32_t lookup_chunks; /* 256: of a file, that are remembered for its readers, likewise */
    const char *lookups_host, *lookups_process; /* what a person should know of their session */
    uint32_t watches;                           /* 4096: at a time */
    uint32_t watch_replies; /* 16: of a watch, that the program has not asked for */
    struct lh_duration
        watch_doubt; /* 5 s: after so long without a change others are asked who acts */
    void (*guard)(void *guard_arg, bool on); /* around changes of what others read; NULL: none */
    void *guard_arg;
    struct lh_finder_config finder; /* how the active master is found */
    const char *cluster; /* that it belongs to; NULL: that of the master that it chooses first */
};

struct lh_client *lh_client_create(const struct lh_client_config *config);

/* Without an LH_IN_STOP before, calls under way never complete; they must still exist, so that
 * their batches can be dropped. */
void lh_client_destroy(struct lh_client *c);

void lh_client_step(struct lh_client *c, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_client_deadline(const struct lh_client *c);
struct lh_core lh_client_core(struct lh_client *c);

/* Walks the core's own invariants and asserts them. */
void lh_client_check(const struct lh_client *c);

enum lh_call_kind {
    LH_CALL_MASTER,         /* struct lh_master_call */
    LH_CALL_APPENDER_OPEN,  /* struct lh_appender_open_call */
    LH_CALL_APPENDER_CLOSE, /* struct lh_appender_close_call */
    LH_CALL_SUBMIT,         /* struct lh_submit_call */
    LH_CALL_READER_OPEN,    /* struct lh_reader_open_call */
    LH_CALL_READER_CLOSE,   /* struct lh_reader_close_call */
    LH_CALL_FETCH,          /* struct lh_fetch_call */
    LH_CALL_SERVER,         /* struct lh_server_call */
    LH_CALL_KNOWN_MASTERS,  /* struct lh_known_masters_call */
    /* leases.h */
    LH_CALL_SESSION_OPEN,  /* struct lh_session_open_call */
    LH_CALL_SESSION_CLOSE, /* struct lh_session_close_call */
    LH_CALL_SESSION_EVENT, /* struct lh_session_event_call */
    LH_CALL_ACQUIRE,       /* struct lh_acquire_call */
    LH_CALL_WITHDRAW,      /* struct lh_withdraw_call */
    LH_CALL_RELEASE,       /* struct lh_release_call */
    LH_CALL_YIELD,         /* struct lh_yield_call */
    LH_CALL_GET,           /* struct lh_get_call */
    LH_CALL_WATCH_OPEN,    /* struct lh_watch_open_call */
    LH_CALL_WATCH_NEXT,    /* struct lh_watch_next_call */
    LH_CALL_WATCH_CLOSE,   /* struct lh_watch_close_call */
    LH_CALL_LOOKUPS_END    /* struct lh_lookups_end_call */
};

#define LH_CALL_TEXT_BYTES 512

/* What every call begins with. */
struct lh_call {
    enum lh_call_kind kind;
    void *owner;                   /* the caller's: the core does not look at it */
    char text[LH_CALL_TEXT_BYTES]; /* out, of an error: a sentence */
};

/* A unary method of the master, repeated at the active one until it answers. Completes with the
 * reply's error; those that say "not now" of the master itself (UNAVAILABLE, SHUTTING_DOWN,
 * STALE_MASTER, NOT_ACTIVE) are repeated. At the deadline: the last try's error if there was one,
 * else DEADLINE_EXCEEDED. A call that changes something happens once, however often it is repeated
 * (HA-12); with UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED it is not known whether it has. */
struct lh_master_call {
    struct lh_call call;
    enum lh_method method;
    const ProtobufCMessage *request; /* the caller's until completion */
    struct lh_duration patience;     /* for how long the master itself may wait to answer */
    struct lh_instant deadline;
    ProtobufCMessage
        *reply; /* out, or NULL if no master answered; to be freed with lh_wire_free() */
    uint64_t id_client, id_number; /* out: what masters know it by, if it changes something */
};

struct lh_client_appender;

/* Completes when the file is known to exist. With a token it completes when the appender is
 * admitted (TOK-2): from then on nothing is stored that was appended with a lower one. STALE_TOKEN,
 * of it or of a batch: the appender is not admitted, and never will be. */
struct lh_appender_open_call {
    struct lh_call call;
    const char *path;
    const char *lock_name; /* copied; with `token`: of which lock that is */
    uint64_t token;        /* 0: it appends without one */
    struct lh_instant deadline;
    struct lh_duration give_up; /* a batch that is older than this makes the appender fail */
    struct lh_client_appender *appender; /* out: until an APPENDER_CLOSE of it is fed */
    uint64_t writer;                     /* out: must stand in its batches */
    uint64_t chunk_size;                 /* out: bounds its batches (APP-1) */
    uint64_t file;                       /* out: its id */
    bool from_cache;                     /* out: which file it is was remembered (VAL-7) */
};

/* Ends it: what is not acknowledged completes with CANCELLED, then this call. */
struct lh_appender_close_call {
    struct lh_call call;
    struct lh_client_appender *appender;
};

/* Stores one batch. Sequence numbers of an appender's batches begin at 1 and leave no gap, but the
 * calls may be fed in any order: a batch waits for those before it. Completes, in the order of
 * sequence numbers, with LH_OK once acknowledged, or with what made the appender fail: then it is
 * unknown whether this batch is stored, if it was `sent`. */
struct lh_submit_call {
    struct lh_call call;
    struct lh_client_appender *appender;
    struct lh_buf batch; /* the core's until completion; cleared then */
    uint64_t sequence;   /* of its first record */
    uint32_t count;      /* records */
    uint64_t offset;     /* out: of the batch in the file */
    /* The core's while the call is under way. */
    struct lh_submit_call *previous, *next;
    struct lh_instant submitted;
    struct lh_submit_call *waiting_previous, *waiting_next; /* to be sent on a lane */
    struct lh_client_message *message; /* that carries it, unanswered; NULL: none */
    bool in_flight;                    /* given to the present lane and not answered */
    /* Sent to the appender's unsettled chunk (APP-5a). Out, if the call fails: false: it is known
     * that the batch is not stored. */
    bool sent;
};

struct lh_client_reader;

/* Completes when the file is known to exist. */
struct lh_reader_open_call {
    struct lh_call call;
    const char *path;
    struct lh_instant deadline;
    uint64_t offset;                 /* of a batch in the file, or the file's end */
    bool skip_damaged;               /* FETCH reports damage as a gap, and goes on behind it */
    bool follow;                     /* FETCH waits at the end instead of completing with CLOSED */
    uint64_t readahead;              /* bytes that may be held or under way for it */
    struct lh_client_reader *reader; /* out: until a READER_CLOSE of it is fed */
    uint64_t file;                   /* out: its id */
    bool from_cache;                 /* out: which file it is was remembered (VAL-7) */
};

/* Ends it. A FETCH under way completes with CANCELLED, then this call. */
struct lh_reader_close_call {
    struct lh_call call;
    struct lh_client_reader *reader;
};

struct lh_client_gap_member {
    char *server_id;
    int error; /* that it has answered */
};

/* What no member of a chunk can give (REC-9a): bytes of the file [from, to). */
struct lh_client_gap {
    uint64_t from, to, chunk;
    struct lh_client_gap_member *members; /* all of them */
    size_t member_count;                  /* 0: there is no gap */
};
void lh_client_gap_deinit(struct lh_client_gap *gap);

/* The next bytes of the file; one FETCH per reader at a time. Completes with LH_OK and whole
 * batches whose checksums hold, or with a gap and no batches; with CLOSED at the end: every record
 * that was acknowledged before the call was fed has then been given out; with DEADLINE_EXCEEDED or
 * the last failure's error at the deadline; and with what asking again cannot help (NOT_FOUND,
 * CORRUPT, INVALID_ARGUMENT). After an error the reader stays where it is. */
struct lh_fetch_call {
    struct lh_call call;
    struct lh_client_reader *reader;
    struct lh_instant deadline;
    struct lh_buf batches;    /* out: the caller's to clear */
    uint64_t offset;          /* out: of the first batch in the file */
    struct lh_client_gap gap; /* out: the caller's to deinit */
};

/* A unary method of one chunkserver or master, tried once: for whoever wants to hear of that very
 * server.
 * Completes with the reply's error, with UNAVAILABLE when it cannot be reached, with
 * DEADLINE_EXCEEDED when it does not answer in time. */
struct lh_server_call {
    struct lh_call call;
    const char *address; /* the caller's until completion, like `request` */
    enum lh_method method;
    const ProtobufCMessage *request;
    struct lh_instant deadline;
    /* Out: NULL if it did not answer; to be freed with lh_wire_free(). */
    ProtobufCMessage *reply;
    struct lh_buf payload; /* out: the reply's bulk bytes; the caller's to clear */
};

/* The addresses of all masters that are known now. Completes at once. */
struct lh_known_masters_call {
    struct lh_call call;
    char *addresses[LH_MASTERS_MAX]; /* out: each to be freed by the caller */
    size_t count;                    /* out */
};
