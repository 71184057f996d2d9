/* What the chunkserver core's files share. Not for anybody else. */
#ifndef LH_CHUNKSERVER_INTERNAL_H
#define LH_CHUNKSERVER_INTERNAL_H

#include "base/probe.h"
#include "base/timers.h"
#include "chunkserver/chunkserver.h"
#include "chunkserver/counts.h"
#include "chunkserver/header.h"
#include "chunkserver/pacing.h"
#include "chunkserver/writers.h"
#include "lease/holder.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <uthash.h>
#include <utlist.h>

struct primary;
struct member;
struct stream;

/* ------------------------------------------------------------------------------------------------
 * Links and tickets: who is concerned by an input. */

enum link_kind {
    LINK_MASTER,    /* ours, SESSION; owner: none */
    LINK_MEMBER,    /* ours, REPLICATE to a member of a chunk that we are primary of */
    LINK_FETCH,     /* ours, READ of what a member's log has and ours lacks; owner: the primary */
    LINK_COPY,      /* ours, READ of what a copy lacks; owner: the copying */
    LINK_APPEND,    /* served; owner: a stream */
    LINK_SECONDARY, /* served REPLICATE; owner: the replica, once adopted, else NULL */
    LINK_READ,      /* served; owner: a reading, once it asked */
    LINK_SETTLE     /* served; owner: a settling, once it asked */
};

struct link {
    uint64_t id;
    enum link_kind kind;
    void *owner;
    struct lh_duration silence; /* ours: it is over when nothing comes for so long */
    bool arriving;              /* a message has begun and is not whole */
    struct lh_instant arriving_since;
    struct lh_timer timer; /* when its silence has lasted too long */
    bool held;                /* SECONDARY: LH_FX_HOLD is in force */
    struct link *prev, *next; /* of those that are */
    UT_hash_handle hh;
};

enum ticket_kind {
    TICKET_HEADER, /* the first read of a file, and the sync of a sealed one */
    TICKET_SCAN,
    TICKET_WRITE, /* of the log */
    TICKET_SYNC,  /* of the log */
    TICKET_RESERVE, /* of room for the log */
    TICKET_JOB,   /* a step of the running job */
    TICKET_READ,  /* owner: a reading */
    TICKET_COPY,  /* owner: a member that lacks bytes */
    TICKET_SCRUB, /* owner: the scrub; NULL: it has turned away from the replica */
    TICKET_PROBE
};

/* A disk operation under way, or waiting because the machine was short of what it needs. An owner
 * that dies before it completes sets `owner` to NULL. */
struct ticket {
    uint64_t id;
    enum ticket_kind kind;
    struct replica *replica;
    void *owner;
    struct lh_instant began;
    enum lh_disk_op op;
    uint64_t offset, length;
    struct lh_buf bytes; /* waiting: what it writes */
    bool starved;        /* it met a shortage at least once */
    bool waiting;        /* and is to be asked again */
    struct ticket *prev, *next; /* of those that are starved */
    UT_hash_handle hh;
};

/* Operations that could not be begun for want of descriptors or memory (see disk.c). */
struct shortage {
    struct ticket *starved; /* that met it and are not complete */
    uint64_t times;         /* that anything met it, since it began */
    struct lh_duration pause;
    struct lh_timer timer;
};

/* ------------------------------------------------------------------------------------------------
 * Replicas. */

enum replica_state {
    REPLICA_CREATING,
    REPLICA_LOADING,  /* its header is being read */
    REPLICA_SCANNING, /* its log is being read back */
    REPLICA_CUTTING,  /* its file is being cut; then it is read back once more */
    REPLICA_READY,
    REPLICA_LOST, /* unreadable, failed or marked so (FAIL-4, FAIL-5) */
    REPLICA_REMOVING
};

enum job_kind {
    JOB_CREATE,
    JOB_ADOPT,
    JOB_CONFIRM,
    JOB_SEAL,
    JOB_CUT,
    JOB_COPY, /* says that it is incomplete, then cuts the log to `length` (REC-4) */
    JOB_TRIM, /* gives back what is reserved behind the log's end */
    JOB_LOSE,
    JOB_REMOVE
};
enum job_origin { FOR_MASTER, FOR_PRIMARY, FOR_SECONDARY, FOR_COPYING, FOR_NOBODY };

/* A change of a replica that runs alone: after every byte accepted before it was written, and
 * before any accepted after it. */
struct job {
    enum job_kind kind;
    enum job_origin origin;
    uint64_t link;    /* FOR_SECONDARY: whom to answer */
    uint64_t session; /* FOR_MASTER: in which session it was asked */
    uint64_t version;
    uint64_t length;
    uint64_t checksum;
    bool at_start;    /* JOB_CUT: what goes was no whole batch when the log was read back */
    uint64_t barrier; /* the log's end when it was submitted */
    int step;
    struct job *next;
};

/* Whole batches that were accepted and go to the disk with one write. */
struct log_write {
    struct lh_buf bytes;
    struct log_write *prev, *next;
};

struct replica {
    uint64_t chunk;
    struct lh_chunkserver *cs;
    enum replica_state state;
    struct lh_chunk_header header; /* as durable, or being written by the running job */
    bool headless;                 /* no valid header was found */
    bool read_back; /* from the disk, since equality was last confirmed: `checksum` is the disk's */
    bool header_synced;            /* its version is on the disk for sure */
    bool header_unsynced;          /* it was written, not synced; the other slot is on the disk */
    bool loading;                  /* registration waits for its header and log to be read */
    int loss_untold;               /* why it was lost, after a registration that called it good */
    bool creation_untold;          /* it was created after a registration that did not name it */
    uint64_t adopting;             /* the highest version adopted or being adopted */
    bool incomplete;               /* REC-4: nobody's full member until it is copied or has joined;
                                      on the disk before the first foreign byte is */
    bool misfit;                   /* incomplete, and it was no prefix of the primary's log */
    bool added_up;                 /* a copy of this life has compared it with the seal */
    struct copying *copying;       /* not NULL: it is being copied to */

    uint64_t end;          /* bytes accepted */
    uint64_t checksum;     /* running checksum at `end` */
    uint64_t written;      /* bytes in the operating system's hands */
    uint64_t synced;       /* bytes known to be on the disk */
    uint64_t committed;    /* as far as known here (APP-6) */
    struct log_write *writes;  /* not yet handed to the disk, in order: [end - unwritten, end) */
    struct log_write *filling; /* the last of them, if it may grow */
    uint64_t unwritten;
    uint64_t writing; /* bytes of the write under way, 0: none */
    uint64_t syncing;      /* the sync under way covers this length; 0: none */
    struct lh_instant sync_begun_at;

    uint64_t reserved;   /* bytes of the log that have room for sure */
    uint64_t reserving;  /* a reservation up to here is under way; 0: none */
    uint64_t reserve_at; /* the length at which more is to be reserved */
    bool growing;        /* it was created or written to lately: in the server's list of those */
    struct lh_instant grown_at;
    struct replica *grown_before, *grown_after;

    struct lh_writers writers;
    bool writers_known; /* false for a sealed log that was not read back since the start */

    bool kept_table; /* sealed: its writer table is in memory, and in the server's list of those */
    struct lh_instant table_asked_at;
    struct replica *table_before, *table_after;

    struct job *jobs; /* the first is running if `job_running` */
    bool job_running;
    unsigned outstanding; /* tickets under way */

    bool scanning;           /* reads of a scan are under way */
    uint64_t scan_at;        /* log offset of the next scan read */
    struct lh_buf scan_rest; /* read, not yet a whole batch */

    uint64_t secondary_link; /* the primary that feeds this replica; 0: none */
    struct lh_instant secondary_told; /* when that primary was last told that bytes come */
    bool secondary_adopted;  /* its ADOPT was answered: bytes may come */
    bool differs; /* from what the primary says it should be: the stream ended with that */
    uint64_t acked;          /* the durable length that it was told */
    struct primary *primary; /* not NULL: this server is (becoming) the primary */
    struct {             /* what this server had committed when it was fenced as the primary */
        uint64_t version; /* by which; 0: it was not */
        uint64_t length, checksum;
    } fenced;

    struct reading *readings;   /* waiting for more committed bytes */
    struct settling *settlings; /* waiting for the seal or for the writer table */
    UT_hash_handle hh;
};

/* ------------------------------------------------------------------------------------------------
 * The primary part of a replica. */

enum primary_state {
    PRIMARY_ADOPTING,   /* its own header is being written */
    PRIMARY_GATHERING,  /* members adopt and report (REC-2) */
    PRIMARY_FETCHING,   /* a member's log is longer: get the rest */
    PRIMARY_EQUALIZING, /* members are brought to the same end and confirm it */
    PRIMARY_OPEN,       /* takes appends */
    PRIMARY_SEALING,    /* orders no more; what is under way commits, every member has it all, then
                           SEAL-1 */
    PRIMARY_RECALLED    /* orders no more; what is under way commits, then Release */
};

enum member_state {
    MEMBER_DOWN,       /* no link; tried again at `retry_at` */
    MEMBER_ADOPTING,   /* ADOPT sent */
    MEMBER_ADOPTED,    /* reported; the target is not known yet */
    MEMBER_COPYING,    /* being sent [sent, target), then CONFIRM */
    MEMBER_CONFIRMING, /* CONFIRM sent */
    MEMBER_EQUAL       /* confirmed equality at this version */
};

struct member {
    struct primary *primary;
    char *server_id;
    char *address;
    enum member_state state;
    uint64_t link;
    uint64_t length;    /* durable there, as last reported */
    uint64_t sent;      /* log bytes sent */
    uint64_t checksum;  /* ADOPT's report */
    uint64_t committed; /* ADOPT's report */
    bool doubted;                       /* REC-2a */
    bool cut;                           /* FAIL-3 */
    bool joining;                       /* not a full member yet (REC-4) */
    uint64_t target, target_checksum;   /* CONFIRM is due at this length */
    uint64_t ends[LH_FLIGHT_MESSAGES_MAX]; /* of the APPEND messages unanswered, oldest first */
    unsigned unanswered;
    uint64_t committed_sent;
    struct ticket *copy;           /* a read of old bytes under way */
    uint64_t from;                 /* log length that it reported: copying begins there */
    bool differs;                  /* it said that its log is another one */
    bool fits;                     /* as far as it goes it is the same, as that shows */
    bool checking;                 /* our own log is read instead, or is to be */
    uint64_t checked, checked_sum; /* so much of it was read; the running checksum there */
    uint64_t check_end, check_sum; /* how much is to be read, and what it should add up to */
    struct lh_instant progress_at; /* last sign of progress, or when there began to be something
                                      to wait for */
    struct lh_instant advanced_at; /* when its length last grew, or something began to be owed */
    struct lh_instant forgiven; /* `progress_at` as a pause of ours has moved it */
    struct lh_instant retry_at;
    struct lh_duration backoff;
    struct lh_instant reported_at; /* MemberFailed sent; zero: not */
    bool misfit;                   /* its log is not what it should be, and ours is */
    bool said;                     /* the operator was told that it fails */
    bool refused;                  /* it answered with an error that waiting does not mend */
};

/* A batch that was ordered and is not committed. */
struct uncommitted {
    uint64_t offset;
    uint64_t writer;
    uint64_t sequence;
    uint32_t count;
    uint64_t stream; /* link of the append stream to answer; 0: none any more */
    uint64_t checksum; /* running checksum behind it */
    struct lh_instant ordered_at;
    struct lh_buf bytes;
};

struct primary {
    struct replica *replica;
    uint64_t version;
    uint32_t min_replicas;
    enum primary_state state;
    struct member *members; /* the others, in the grant's order */
    size_t member_count;
    bool self_equal; /* our own JOB_CONFIRM is done */
    uint64_t committed_checksum; /* OPEN: running checksum at the replica's `committed` */
    bool was_cut; /* our log, when recovery went on with it (FAIL-3) */
    uint64_t fetch_link;
    struct member *fetch_from;
    uint64_t appends;          /* batches ordered since the grant */
    uint64_t appends_extended; /* of them, at the last extension asked (LEASE-4) */
    struct lh_timer timer;
    struct lh_instant drain_until; /* SEALING, RECALLED: when to stop waiting */
    struct lh_instant notice_at;   /* when to tell idle members the committed length */

    struct uncommitted *queue; /* a ring, in offset order without gaps */
    size_t queue_first, queue_count, queue_capacity;

    struct stream *streams;
    struct primary *prev, *next; /* of the server */
};

/* A writer on an append stream. */
struct stream_writer {
    uint64_t id;
    uint64_t first_sequence;
    bool opened;         /* the opening was answered */
    bool refused;        /* what still comes of it is ignored, until it is opened again */
    unsigned unanswered; /* batches */
};

/* One client's append stream for a chunk. */
struct stream {
    uint64_t link;
    uint64_t chunk;
    uint64_t version;
    struct primary *primary;
    bool held;                /* LH_FX_HOLD is in force */
    bool arriving;            /* a message has begun and is not whole */
    bool half_closed;         /* nothing more will come: it ends when all is answered */
    struct lh_instant spoken; /* when it was last sent anything, or was opened */
    struct stream_writer *writers;
    size_t writer_count, writer_capacity;
    Leasehold__Stored stored[LH_REPLY_BATCHES_MAX]; /* committed, to go with the next reply */
    unsigned stored_count;
    bool touched; /* by a commit that is being answered: in its list */
    struct stream *next_touched;
    struct stream *prev, *next; /* of the primary */
    struct stream *next_half_closed;
};

/* ------------------------------------------------------------------------------------------------
 * Reads. */

struct reading {
    uint64_t link;
    struct replica *replica;
    uint64_t version;
    uint64_t offset;
    uint64_t max_bytes;
    bool recovery;
    bool paced; /* a replica is being copied (REC-4) */
    bool require_primary;
    uint64_t limit;          /* the read under way stops here */
    uint64_t asked;          /* bytes that it is to bring */
    struct lh_instant until; /* waits for more until then */
    struct ticket *ticket;
    struct lh_timer timer;
    struct reading *prev, *next;
};

struct settling {
    uint64_t link;
    struct replica *replica;
    uint64_t version;
    uint64_t writer;
    struct lh_instant until; /* waits for the seal until then */
    struct lh_timer timer;
    struct settling *prev, *next;
};

/* ------------------------------------------------------------------------------------------------
 * Copying (REC-4). */

struct source {
    char *server_id;
    char *address;
};

struct copying {
    struct replica *replica;
    /* What the master asked for. */
    uint64_t version;
    uint64_t chunk_size;
    uint8_t durability;
    bool sealed;
    uint64_t length, checksum; /* sealed */
    struct source *sources;
    size_t source_count;

    size_t source;     /* the one in use, or tried next */
    size_t failed;     /* sources that failed since the last bytes came */
    size_t unfit;      /* of these: no batch of theirs begins where this log ends */
    uint64_t link;     /* a read under way; 0: none */
    bool from_start;   /* it only asks for the beginning, to see that the source is there */
    uint64_t reserved; /* bytes that it may bring, taken from the pace */
    uint64_t copied;   /* bytes that came over the network */
    uint64_t cut_to;   /* the log is cut to this before anything else; UINT64_MAX: it is not */
    bool marked;       /* JOB_COPY was submitted, or the mark was there at the start */
    bool met;          /* a source answered: what is here may be given up */
    bool made_anew;    /* the file is not the one that was lost */
    bool restarted;    /* it did not add up once, and was begun anew from nothing */
    bool sealing;      /* all of it is here and agrees; the seal is being written */
    bool caught_up;    /* unsealed: all that the source said was committed is here, or nearly */
    bool told;         /* and the master has been told so */
    int error;         /* why the replica was lost meanwhile */
    struct lh_instant progress_at, retry_at, forgotten_at;
    struct lh_duration backoff;
    struct lh_timer timer;
    struct copying *prev, *next;
};

/* ------------------------------------------------------------------------------------------------
 * Scrubbing (FAIL-4). */

struct scrub {
    struct lh_timer timer;
    struct pacing pace;
    bool stopped;
    uint64_t *chunks; /* of this pass, ascending */
    size_t count, next;
    struct lh_instant pass_began;
    struct lh_duration age;      /* of the pass at that moment: an earlier process began it */
    uint64_t finished;           /* the last chunk of the pass that was read; 0: none */
    unsigned unsaved;            /* chunks since the position was kept */
    struct lh_instant saved_at;

    struct replica *replica; /* under way; NULL: none */
    uint64_t at;             /* log offset behind the last whole batch that was checked */
    uint64_t checksum;       /* running checksum there */
    uint64_t asked;          /* bytes of the read under way */
    struct lh_buf rest;      /* read, not yet a whole batch: it begins at `at` */
    struct ticket *ticket;
    uint64_t passes, read, found;
};

/* ------------------------------------------------------------------------------------------------
 * The server. */

enum session_state { SESSION_DOWN, SESSION_REGISTERING, SESSION_LIVE };

enum timer_kind {
    TIMER_SESSION,
    TIMER_PRIMARY,
    TIMER_READING,
    TIMER_SETTLING,
    TIMER_ALIVE,
    TIMER_COPYING,
    TIMER_LINK,
    TIMER_SCRUB,
    TIMER_SHORTAGE,
    TIMER_SPACE,
    TIMER_TABLES
};

/* A seal that the master has not confirmed yet (SEAL-1: resent until confirmed). */
struct unconfirmed_seal {
    uint64_t chunk;
    uint64_t version;
    uint64_t length;
    uint64_t checksum;
    UT_hash_handle hh;
};

/* A possible loss (REC-2a) that the master perhaps has not heard of. Nothing answers its report; an
 * answer to a later heartbeat of the same session shows that it arrived. */
struct untold_loss {
    struct untold_loss *next;
    uint64_t chunk, version, length;
    uint64_t session;   /* in which it was sent last; 0: not yet */
    uint64_t heartbeat; /* the stamp of the last heartbeat sent before it */
};

struct session {
    enum session_state state;
    uint64_t link;
    size_t master; /* index of the address in use */
    uint64_t registration;
    uint64_t stamp;      /* of the registration under way, or of the last one */
    uint64_t stamp_sent; /* the largest stamp sent in this session */
    uint64_t last_stamp; /* of the last answer received (SES-4) */
    uint64_t farewell;   /* the last heartbeat's, before a clean stop; 0: not sent */
    struct lh_instant answered_at, forgiven;
    struct lh_duration heartbeat;
    struct lh_instant heartbeat_at; /* the next one is due */
    struct lh_instant retry_at;     /* SESSION_DOWN */
    struct lh_duration backoff;
    struct lh_instant unreachable_told; /* when the log was last told so; 0: not in this outage */
    uint64_t master_term;
    struct lh_timer timer;
    bool failing; /* SES-6 */
    bool probing;
    bool probe_failed; /* with an error; not `probing` any more */
    bool probe_created;
};

struct lh_chunkserver {
    struct lh_chunkserver_config config; /* strings and arrays are ours */
    char *cluster_id;

    /* Of the step under way. */
    struct lh_instant now;
    struct lh_effects *fx;

    struct link *links;
    struct ticket *tickets;
    struct lh_instant disk_quiet_since; /* while tickets are out: when the last one came back, or
                                           the first of these went (SES-6) */
    struct lh_instant disk_forgiven;
    uint64_t next_link, next_ticket;
    struct shortage shortage;
    struct lh_timers timers;

    struct replica *replicas;
    bool started;
    size_t loading;   /* replicas whose header or log is still being read at start */
    size_t load_next; /* index into config.chunks of the next one to load */

    struct replica *growing; /* those written to lately, longest ago first (space.c) */
    struct lh_timer space_timer;
    struct replica *tables; /* sealed, with their writer tables; asked longest ago first */
    size_t table_count;
    struct lh_timer tables_timer;
    uint64_t unwritten;  /* bytes accepted in all replicas and not written */
    struct link *feeds;  /* replicate streams that are held because of it */

    struct primary *primaries;
    struct lh_holder *holder;
    struct session session;
    struct unconfirmed_seal *seals;
    struct untold_loss *losses;

    struct copying *copies;
    struct pacing copy_in, copy_out; /* bytes received and served (REC-4) */
    uint64_t copied_in, copied_out;
    struct lh_chunkserver_counts counts;
    struct scrub scrub;

    uint64_t pending_bytes; /* uncommitted, in all primaries */
    bool holding;           /* streams are held because of it */

    struct lh_timer alive_timer; /* signs of life; set while an append stream waits for an answer,
                                    and while messages arrive */
    struct stream *half_closed;  /* that wait for the last answers */

    bool stopping;
    bool stopped;
    struct lh_instant stop_at; /* stop regardless */
};

/* chunkserver.c */
/* A link that a peer opened. */
struct link *link_add(struct lh_chunkserver *cs, uint64_t id, enum link_kind kind, void *owner);
/* It ends, as if by itself, when nothing at all comes for `silence`. */
struct link *link_open(struct lh_chunkserver *cs, enum link_kind kind, void *owner,
    enum lh_method method, const char *address, struct lh_duration silence);
struct link *link_find(struct lh_chunkserver *cs, uint64_t id);
/* Drops our record of a link that has ended. */
void link_forget(struct lh_chunkserver *cs, uint64_t id);
/* Closes and forgets it; a link that is gone already is ignored. */
void link_close(struct lh_chunkserver *cs, uint64_t id, int error, const char *text);
/* It has ended: forgets it and tells its owner. */
void link_closed(struct lh_chunkserver *cs, struct link *l, const char *text);
/* A part of a message has come; a whole one has; nothing more will. */
void link_progress(struct lh_chunkserver *cs, struct link *l);
void link_whole(struct lh_chunkserver *cs, struct link *l);
void link_half_closed(struct lh_chunkserver *cs, struct link *l);
void link_timer(struct lh_chunkserver *cs, struct link *l);
void server_stop_if_done(struct lh_chunkserver *cs);

/* disk.c */
struct ticket *disk(struct lh_chunkserver *cs, enum ticket_kind kind, struct replica *r,
    void *owner, enum lh_disk_op op, uint64_t offset, uint64_t length, struct lh_buf *data);
void disk_done(struct lh_chunkserver *cs, struct lh_input *in);
/* What waits because of a shortage is tried once more. */
void disk_ask_again(struct lh_chunkserver *cs);
/* SES-6: has nothing been completed, or something not been begun, for so long? */
bool disk_stands_still(const struct lh_chunkserver *cs, struct lh_duration limit);

/* session.c */
/* The present session with the master; 0: none. */
static inline uint64_t session_id(const struct lh_chunkserver *cs)
{
    return lh_holder_session(cs->holder);
}
/* From when on a term counts that answers what was sent with this stamp (TIME-4). */
static inline struct lh_instant term_begins(const struct lh_chunkserver *cs, uint64_t stamp)
{
    return LH_PLANTED("holder-counts-from-receipt") ? cs->now : (struct lh_instant){stamp};
}
void session_start(struct lh_chunkserver *cs);
void session_message(struct lh_chunkserver *cs, const Leasehold__SessionReply *m);
void session_link_closed(struct lh_chunkserver *cs, const char *why);
void session_timer(struct lh_chunkserver *cs);
void session_close(struct lh_chunkserver *cs);
/* Before that: true while the master may not have got everything that was sent, the releases above
 * all. Closing an opened link can lose it; the stream is ordered, so the answer to a last heartbeat
 * says that it has arrived. */
bool session_farewell(struct lh_chunkserver *cs);
/* Tells the master of a possible loss, in this session or, if that breaks first, in a later one. */
void session_tell_loss(
    struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, uint64_t length);
void session_probe_done(struct lh_chunkserver *cs, enum lh_disk_op op, int error);
bool session_send(struct lh_chunkserver *cs, Leasehold__SessionRequest *m);
/* The message names the present session, and no older master than the newest one seen. */
bool session_named(const struct lh_chunkserver *cs, uint64_t session, uint64_t master_term);

/* showing.c */
/* Every lease that may be acted on, and how many; what has run out ends first. Free them with
 * showing_free(). */
size_t showing_fill(struct lh_chunkserver *cs, Leasehold__ChunkVersion ***leases);
void showing_free(Leasehold__ChunkVersion **leases, size_t count);
/* The leases that the master has been told of, as a heartbeat carries them (LEASE-8). */
void showing_sum(struct lh_chunkserver *cs, Leasehold__LeaseSum *sum);
/* The master believes otherwise. */
void showing_answer(struct lh_chunkserver *cs);

/* orders.c */
void orders_message(struct lh_chunkserver *cs, const Leasehold__SessionReply *m);
/* Reports of full chunks that the master has not answered (SEAL-1). */
void orders_resend_seals(struct lh_chunkserver *cs);
void orders_job_done(struct lh_chunkserver *cs, struct replica *r, const struct job *j, int error);
void orders_release(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, bool ran_out);
/* The message alone: whoever sends it has ended the lease here before. */
void orders_tell_release(
    struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, bool ran_out);
void orders_replica_lost(struct lh_chunkserver *cs, struct replica *r, int error);
/* A session has begun: tells of replicas that were lost, or created, after its registration was
 * sent. */
void orders_tell_untold(struct lh_chunkserver *cs);
void orders_confirm_grant(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, int error);
/* This version is not acted on, now or later (LEASE-6): as a release of it. */
void orders_refuse_grant(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, int error);
void orders_report_seal(struct lh_chunkserver *cs, struct replica *r, uint64_t version);

/* fencing.c */
void fencing_message(struct lh_chunkserver *cs, const Leasehold__Fence *m);
void fencing_job_done(struct lh_chunkserver *cs, struct replica *r, const struct job *j, int error);

/* replica.c */
struct replica *replica_find(struct lh_chunkserver *cs, uint64_t chunk);
struct replica *replica_add(struct lh_chunkserver *cs, uint64_t chunk, enum replica_state state);
void replica_free(struct replica *r);
uint64_t replica_durable(const struct replica *r);
bool replica_doubted(const struct replica *r);
/* The master has sealed the chunk (SEAL-1); recorded here or about to be. */
bool replica_sealing(const struct replica *r);
/* The seal is recorded, and its header is on the disk. */
bool replica_sealed_durably(const struct replica *r);
bool replica_usable(const struct replica *r); /* READY and not sealed or being sealed */
/* Accepts one checked batch at the log's end. False: it breaks its writer's sequence. */
bool replica_accept(struct replica *r, const struct lh_batch_header *h, struct lh_buf *bytes);
/* Forgets what was accepted and not handed to the disk; `end` is the caller's business. */
void replica_drop_unwritten(struct replica *r);
void replica_pump(struct replica *r);
void replica_disk_done(struct replica *r, enum ticket_kind kind, enum lh_disk_op op, int error);
/* Of no use any more (FAIL-4, FAIL-5): ends every role of it, marks it, reports it. */
void replica_lose(struct replica *r, int error, uint64_t offset);
/* The committed length that this replica may show rises to `committed`, if it has that much. */
uint64_t replica_known_committed(const struct replica *r);
void replica_note_committed(struct replica *r, uint64_t committed);

/* space.c */
/* A log was made, or was given bytes to write: it is expected to grow on. */
void space_grows(struct replica *r);
/* Reserves more, if it is time. */
void space_ahead(struct replica *r);
void space_reserved(struct replica *r, int error);
/* What was reserved is given back: a job says so. */
void space_given_back(struct replica *r);
/* It grows no more. */
void space_rests(struct replica *r);
void space_timer(struct lh_chunkserver *cs);
/* Bytes that growing logs may still take: not to be promised to others. */
uint64_t space_promised(const struct lh_chunkserver *cs);
/* What is offered to the master. */
uint64_t space_free(const struct lh_chunkserver *cs);

/* jobs.c */
void replica_submit(struct replica *r, struct job job);
/* May the first job run now? */
bool jobs_ready(const struct replica *r);
/* Begins it. */
void jobs_begin(struct replica *r);
/* A disk operation of the running job is done. The replica may be freed here. */
void jobs_disk_done(struct replica *r, enum lh_disk_op op, int error);
/* Those that wait cannot be done any more; the one that runs ends by itself. */
void jobs_drop_waiting(struct replica *r, int error);

/* copying.c */
void copying_message(struct lh_chunkserver *cs, const Leasehold__CopyReplica *m);
void copying_received(struct copying *c, const Leasehold__ReadReply *m, struct lh_buf *batches);
void copying_link_closed(struct copying *c);
void copying_progress(struct copying *c);
void copying_timer(struct copying *c);
/* Something about the replica has changed: goes on if it can. The copying may end here. */
void copying_pump(struct copying *c);
void copying_job_done(struct replica *r, const struct job *j, int error);
/* Ends it without a word to the master. What is here stays, and stays incomplete. */
void copying_end(struct copying *c);
/* Ends it with an error that the master is told. */
void copying_fail(struct copying *c, int error);
/* A new session: what is not asked for in it is given up after a while. */
void copying_session_begins(struct lh_chunkserver *cs);

/* scrub.c */
void scrub_start(struct lh_chunkserver *cs);
void scrub_timer(struct lh_chunkserver *cs);
void scrub_disk_done(struct lh_chunkserver *cs, int error, struct lh_buf *bytes);
/* The replica's log is not, or no longer, what is being read: it is left alone in this pass. */
void scrub_turn_away(struct replica *r);
/* Keeps the position, before a clean stop, and ends. */
void scrub_stop(struct lh_chunkserver *cs);

/* scan.c */
void scan_load_more(struct lh_chunkserver *cs);
/* The replica is read back, or given up: the registration waits for it no longer. */
void scan_loaded(struct replica *r);
void scan_header_done(struct replica *r, int error, struct lh_buf *bytes);
void scan_header_synced(struct replica *r, int error);
/* The last look at a sealed one is done. */
void scan_sealed(struct replica *r);
void scan_start(struct replica *r);
void scan_read_done(struct replica *r, int error, struct lh_buf *bytes);

/* secondary.c */
void secondary_message(struct lh_chunkserver *cs, struct link *l,
    const Leasehold__ReplicateRequest *m, struct lh_buf *batches);
void secondary_link_closed(struct lh_chunkserver *cs, struct link *l);
/* A part of a message has come: its primary hears of it. */
void secondary_progress(struct replica *r);
void secondary_durable(struct replica *r);
/* Less is to be written: primaries that were held are heard again. */
void secondary_release_pressure(struct lh_chunkserver *cs);
void secondary_job_done(struct replica *r, const struct job *j, int error);
/* The replica serves its primary no longer: answers with `error` and ends the stream. */
void secondary_end(struct replica *r, int error);

/* primary.c */
void primary_grant(struct replica *r, const Leasehold__Grant *g);
/* The grant of this version was sent again: members may be found elsewhere by now, or have become
 * full ones. */
void primary_addresses(struct primary *p, const Leasehold__Grant *g);
/* Ends the primary part and says nothing of its lease: a new version of it begins, or a seal report
 * gives it up. Streams are told `error`. Every other end is one of those below. */
void primary_discard(struct primary *p, int error);
/* Stops ordering; commits what is under way, then releases the lease. */
void primary_recall(struct primary *p);
/* Gives the lease up at once, whatever is under way (its outcome is unknown to the clients). */
void primary_abandon(struct primary *p, int error);
/* The lease has run out on this server's clock; the master may think otherwise, and is told. */
void primary_run_out(struct primary *p);
bool primary_may_act(const struct primary *p);
/* Members that are not joining, this server included: what `min_replicas` counts (REC-4). */
size_t primary_full_members(const struct primary *p);
void primary_local_durable(struct primary *p);
void primary_timer(struct primary *p);
void primary_set_timer(struct primary *p);
/* Takes one checked batch of `w`: orders it, recognises it, or refuses its writer. False: the chunk
 * takes no more now. Nothing is sent before primary_pump(). */
bool primary_order(struct primary *p, struct stream *s, struct stream_writer *w,
    const struct lh_batch_header *h, struct lh_buf *bytes);
/* Sends and writes what was ordered; ends a drained primary (then `p` is gone). */
void primary_pump(struct primary *p);
void primary_member_changed(struct primary *p);
void primary_fenced(struct primary *p, uint64_t version);
struct uncommitted *primary_queue_at(struct primary *p, size_t index);
/* Index in the queue of the batch at log offset `offset`, which must be one's beginning. */
size_t primary_queue_index(struct primary *p, uint64_t offset);
/* False: no batch ends at log offset `offset`. Below the queue that is not known: true. */
bool primary_batch_ends(struct primary *p, uint64_t offset);
/* Members have to make progress now: somebody waits for them. */
bool primary_needs_members(const struct primary *p);
/* Tells the master which members fail (REC-3, FAIL-1). */
void primary_report_failed(struct primary *p);

/* recovery.c */
/* A member or this replica has come further: takes the next step of the recovery, if all have come
 * as far as it needs. */
void primary_recover(struct primary *p);
/* Does what the logs of those who have adopted this version say suffice for all that was
 * acknowledged (REC-2a, FAIL-3)? Once the recovery is complete it does. */
bool primary_is_sure(const struct primary *p);
/* A job of this primary's own replica, adopting or confirming, has ended. */
void primary_job_done(struct primary *p, const struct job *j, int error);
void primary_fetched(struct primary *p, const Leasehold__ReadReply *m, struct lh_buf *batches);
void primary_fetch_failed(struct primary *p);
/* Back to gathering: the member that was fetched from has to report first. */
void primary_fetch_cancel(struct primary *p);
/* Tells the master that recovery at this version is complete. */
void primary_tell_recovered(struct primary *p);

/* members.c */
void member_init(struct member *m, struct primary *p, const Leasehold__Member *info);
void member_deinit(struct member *m);
void member_connect(struct member *m);
/* What the grant says of it by now: where it is to be reached ("" is ignored), and whether it has
 * joined for good. */
void member_told(struct member *m, const Leasehold__Member *info);
/* May its log decide anything in a recovery? Not while it is joining (REC-4). */
bool member_counts(const struct member *m);
void member_message(struct member *m, const Leasehold__ReplicateReply *reply);
void member_link_closed(struct member *m);
void member_set_target(struct member *m, uint64_t length, uint64_t checksum);
/* Sends what may be sent now. */
void member_pump(struct member *m);
void member_copied(struct member *m, int error, struct lh_buf *bytes);
void member_timer(struct member *m);
struct lh_instant member_deadline(const struct member *m);
void member_notice(struct member *m);

/* appending.c */
void stream_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__AppendRequest *m,
    struct lh_buf *batch);
void stream_link_closed(struct lh_chunkserver *cs, struct link *l);
/* A part of a message has come. */
void stream_progress(struct stream *s);
/* Nothing more will come: the stream ends once all that came is answered. */
void stream_half_closed(struct stream *s);
void streams_close_answered(struct lh_chunkserver *cs);
/* The primary takes appends now: answers openings that waited. */
void stream_open_all(struct primary *p);
/* Ends one stream with an answer; batches of it that are unanswered are unknown to the client. */
void stream_end(struct stream *s, int error, const char *text);
/* Closes one writer on the stream with an answer; the others go on. */
void stream_refuse_writer(struct stream *s, struct stream_writer *w, int error, const char *text);
void stream_end_all(struct primary *p, int error, const char *text);
void stream_hold_all(struct primary *p);
void stream_stored(struct stream *s, const struct uncommitted *u);
void stream_flush(struct stream *s);
/* Tells clients that wait and have heard nothing for a while that this server lives. */
void streams_show_life(struct lh_chunkserver *cs);
/* Does any client of this primary wait, for an append or for its stream to open? */
bool streams_wait(const struct primary *p);
/* Is a message of any of them on its way? */
bool streams_arrive(const struct primary *p);
void streams_release_pressure(struct lh_chunkserver *cs);

/* reading.c */
void reading_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__ReadRequest *m);
void reading_disk_done(struct reading *rd, int error, struct lh_buf *bytes);
void reading_timer(struct reading *rd);
void reading_link_closed(struct lh_chunkserver *cs, struct link *l);
/* The committed length rose, the chunk was sealed, or the replica changed: look again. */
void readings_wake(struct replica *r);
void readings_refuse_all(struct replica *r, int error);

/* settling.c */
/* The writer table of a sealed log is in memory, or is asked for: it stays a while. */
void settling_keeps(struct replica *r);
void settling_forgets(struct replica *r);
void settling_tables_timer(struct lh_chunkserver *cs);
void settling_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__SettleRequest *m);
void settling_link_closed(struct lh_chunkserver *cs, struct link *l);
void settling_timer(struct settling *st);
/* The chunk was sealed, or the replica has changed: look again. */
void settlings_look(struct replica *r);
/* The log was read back for them. */
void settlings_answer(struct replica *r);
void settlings_refuse_all(struct replica *r, int error);

#endif
