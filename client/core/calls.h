/* What a program asks of its client (client.h): a struct for each call. Those of leases are in
 * leases.h. */
#pragma once

#include "base/step.h"
#include "finder/finder.h"

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    /* NULL; or of a call that the core makes itself: its end, instead of LH_FX_COMPLETE. */
    void (*completed)(struct lh_call *call, int error);
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
