/* What a core takes in and what it wants done: the contract between a core and its driver.
 *
 * A core is a deterministic state machine. It does no I/O, starts no thread, reads no clock and
 * draws no random number of its own. Its driver (runtime/ with real sockets and disks, sim/ with
 * virtual ones) feeds it one input at a time and then carries out the effects *in their order*.
 * The order is the contract: what a message promises was made durable by an earlier effect whose
 * completion was the input that emitted the message.
 *
 * Links. All communication is by links: one link is one call of one gRPC method, streaming or not.
 *   - A core opens a link with LH_FX_OPEN under an id of its own choosing, which it never uses
 *     twice and whose highest bit is clear. Links that a peer opened have the highest bit set and
 *     are announced by LH_IN_LINK_OPENED.
 *   - Who answers a link that a core opened is who the core meant, or the link ends (ACC-8): the
 *     driver sees to that before anything is sent.
 *   - A link that a peer opened comes with the peer's identity: who it is by its certificate, which
 *     is of an authority that this node trusts. It is the certificate's one URI
 *     leasehold://ROLE/NAME, or else its subject ("CN=..."): never empty with TLS, and always ""
 *     without. What it may do access/ decides.
 *   - LH_FX_SEND sends one message on a link; messages arrive in order and whole, or not at all.
 *     While a large one is on its way, LH_IN_PROGRESS tells its receiver that another part has
 *     come: at its beginning and now and then. Whether the rest follows nobody knows.
 *   - LH_FX_CLOSE ends a link. On a served link it sends everything sent so far and then the
 *     status; on an opened link it cancels the call. After it the core gets no input for that link
 *     and may not name it again.
 *   - LH_IN_SENT says that a message whose SEND asked for it (`notify`) has left this process. The
 *     way is free for the next one; nothing is known of its arrival.
 *   - LH_IN_LINK_CLOSED says that the peer ended the link, or that the connection broke (an unknown
 *     suffix of what was sent is then lost). The driver forgets the link; the core must not close
 *     it and effects that it still emits for it are ignored.
 *   - LH_IN_HALF_CLOSED says that the peer of a served stream will send nothing more, and still
 *     listens. It comes behind the last message, at most once; the core ends the link.
 *   - Methods of etcd are opened like all others, at a member's address; grpc/rpc.h says which
 *     errors and texts their links end with.
 *   - A unary call is a link with one message each way; the served side closes it after the reply.
 *   - LH_FX_HOLD stops the reading of further messages from a link until LH_FX_UNHOLD; one message
 *     that was already under way may still arrive.
 *
 * Disk. A chunkserver's files are named by number (the chunk's id). Operations on one file may
 * complete in any order, except that
 *   - LH_DISK_SYNC covers exactly the writes, truncations and creation whose completion input was
 *     fed to the core before the sync was emitted;
 *   - the core itself never has two overlapping writes, or a truncation and a write beyond it,
 *     under way at once, nor a reservation that gives back and a write.
 * Every operation completes with one LH_IN_DISK carrying its ticket. Failed writes may have written
 * any part.
 *   - After a sync that failed, the disk has of the file what the last one that succeeded has
 *     covered, and of the rest any part. The file must not be synced again (FAIL-5). It is marked,
 *     and the mark outlives the process for as long as what is read from memory may differ from the
 *     disk. In a later process the first read of such a file, and of one of which something that a
 *     process before has written could not be brought to the disk (FAIL-5a), fails with UNSYNCED,
 *     once. From then on it is read from the disk itself.
 *   - SHORTAGE is no verdict: the machine had no descriptor or no memory for the operation. It was
 *     not done (of a write perhaps a part), and a write's bytes come back as the input's payload,
 *     so that the same can be asked again. A sync that was tried never ends so, whatever it says.
 *
 * Metadata. LH_FX_PERSIST commits a set of changes atomically; commits take effect in the order of
 * their emission and complete with LH_IN_PERSISTED, in that order too. After one has failed all
 * later ones do.
 *   - SHORTAGE is no completion: there is no room or no memory for the oldest one. It is tried on,
 *     and completes later. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_LINK_SERVED (UINT64_C(1) << 63)

/* Added to a file's number: the file that is to take its place. A process finds none at its
 * start. */
#define LH_NEW_FILE (UINT64_C(1) << 63)
/* The file that a chunkserver writes to see whether its disk answers (SES-6). */
#define LH_PROBE_FILE 0u

/* Bytes of a peer's identity. Who has a longer name is refused before a core hears of it. */
#define LH_LINK_IDENTITY_MAX 256

/* Every method of every service. The table in proto/codec.c gives names and message types. */
enum lh_method {
    LH_METHOD_NONE,
    /* leasehold.Master */
    LH_METHOD_SESSION,
    LH_METHOD_CREATE,
    LH_METHOD_STAT,
    LH_METHOD_LIST,
    LH_METHOD_RENAME,
    LH_METHOD_REMOVE,
    LH_METHOD_LOCATE,
    LH_METHOD_OPEN_TAIL,
    LH_METHOD_LIST_LEASES,
    LH_METHOD_LIST_SERVERS,
    LH_METHOD_RECALL,
    LH_METHOD_RESTORE,
    LH_METHOD_SET_SERVER,
    LH_METHOD_EXPLAIN,
    LH_METHOD_LIST_CHUNKS,
    LH_METHOD_GARBAGE,
    LH_METHOD_MASTERS,
    LH_METHOD_TRANSFER,
    LH_METHOD_FORGET_MASTER,
    LH_METHOD_LIST_EVENTS,
    /* leasehold.Leases, of the master too */
    LH_METHOD_LEASE_SESSION,
    LH_METHOD_GET,
    LH_METHOD_CHANGE,
    LH_METHOD_WATCH,
    LH_METHOD_CANCEL,
    LH_METHOD_LIST_NAMES,
    LH_METHOD_LIST_SESSIONS,
    LH_METHOD_SET_POLICY,
    LH_METHOD_LIST_POLICIES,
    /* leasehold.ChunkServer */
    LH_METHOD_APPEND,
    LH_METHOD_REPLICATE,
    LH_METHOD_READ,
    LH_METHOD_SETTLE,
    LH_METHOD_IDENTIFY,
    /* Of etcd, where masters keep their metadata; called, never served (proto/etcd.proto). */
    LH_METHOD_ETCD_RANGE,
    LH_METHOD_ETCD_TXN,
    LH_METHOD_ETCD_COMPACT,
    LH_METHOD_ETCD_WATCH,
    LH_METHOD_ETCD_STATUS,
    LH_METHOD_ETCD_AUTHENTICATE,
    LH_METHOD_COUNT
};

enum lh_disk_op {
    LH_DISK_CREATE,   /* a new empty file with `length` bytes preallocated; ALREADY_EXISTS if there;
                         its directory entry is durable once a later SYNC of it has completed */
    LH_DISK_WRITE,    /* `buf` at `offset`; extends the file */
    LH_DISK_SYNC,     /* fdatasync */
    LH_DISK_READ,     /* up to `length` bytes at `offset`; shorter only at the end of the file */
    LH_DISK_TRUNCATE, /* to `length` bytes */
    LH_DISK_REMOVE,   /* the file is gone, durably, when this completes; NOT_FOUND is success */
    LH_DISK_RESERVE,  /* room for its first `length` bytes, so that writing them will not find the
                         disk full; writes may be under way. 0: what is reserved behind its end is
                         given back, and nothing may be under way that changes the file. Changes
                         neither bytes nor length; not durable */
    LH_DISK_REPLACE,  /* the file, synced, takes the place of the one that it was made for
                         (LH_NEW_FILE) in one step, durably when this completes */
    LH_DISK_OPS
};

enum lh_input_kind {
    LH_IN_TIMER,       /* the core's deadline may have come; also harmless when it has not */
    LH_IN_LINK_OPENED, /* link, method, text: the peer's address; identity: who it is */
    LH_IN_MESSAGE,     /* link, method, message, payload; identity */
    LH_IN_PROGRESS,    /* link, method: a part of a message has arrived that is not whole yet */
    LH_IN_SENT,        /* link, method: what was sent with `notify` has left */
    LH_IN_HALF_CLOSED, /* link, method: no further message will come */
    LH_IN_LINK_CLOSED, /* link, method, error (LH_OK: the peer finished normally), text */
    LH_IN_DISK,        /* ticket, file, op, error, payload (of a read) */
    LH_IN_PERSISTED,   /* ticket, error */
    LH_IN_CALL,        /* call: a request of the program that embeds the core */
    LH_IN_STOP         /* shut down cleanly: release what is held, then LH_FX_STOPPED */
};

struct lh_input {
    enum lh_input_kind kind;
    struct lh_instant now; /* this node's clock, read when the input is fed */
    uint64_t wall_ms;      /* wall-clock milliseconds since 1970, for listings alone (TIME-2) */
    uint64_t link;
    enum lh_method method;
    const void *message;   /* the generated struct of this method and direction; the driver's */
    struct lh_buf payload; /* the message's bulk bytes, or what was read; the core may take it
                              (lh_buf_take), the driver clears what is left */
    uint64_t ticket;
    uint64_t file;
    enum lh_disk_op op;
    int error;            /* LH_OK or LH_ERR_* */
    const char *text;     /* may be NULL; the driver's */
    const char *identity; /* of LINK_OPENED, and of MESSAGE on a link that a peer opened: at most
                             LH_LINK_IDENTITY_MAX bytes; NULL is as ""; the driver's */
    void *call;
};

enum lh_effect_kind {
    LH_FX_OPEN,
    LH_FX_SEND,
    LH_FX_CLOSE,
    LH_FX_HOLD,
    LH_FX_UNHOLD,
    LH_FX_DISK,
    LH_FX_PERSIST,
    LH_FX_COMPLETE, /* the client core: `call` is done */
    LH_FX_LOG,      /* a line for the operator: level, text */
    LH_FX_STOPPED,  /* nothing is under way any more; the process may end. error: why, or LH_OK */
};

enum lh_level { LH_DEBUG, LH_INFO, LH_WARN, LH_ERROR };

/* The longest key that is put, and what every kind of store takes (LMDB's keys have no more): so a
 * commit never fails for it, and any store can be moved to another kind. */
#define LH_KEY_BYTES_MAX 511u

/* One change of a persisted batch: a put, or a delete when `value` is NULL. */
struct lh_change {
    uint8_t *key;
    uint8_t *value;
    uint32_t key_size;
    uint32_t value_size;
};

/* An array of changes, with their keys and values; all malloc'd. NULL is allowed. */
void lh_changes_free(struct lh_change *changes, size_t count);

struct lh_effect {
    enum lh_effect_kind kind;
    uint64_t link;
    enum lh_method method;      /* OPEN */
    char *text;                 /* OPEN: where, and perhaps who (lh_server_at()); CLOSE, LOG:
                                   text; owned */
    char *token;                /* OPEN, of a foreign method: who asks, sent as the call's metadata
                                   `token`; NULL: none; owned. A secret: never logged */
    struct lh_duration timeout; /* OPEN: the call's deadline from now, or LH_DURATION_FOREVER */
    struct lh_buf header;       /* SEND: the encoded message without its payload field */
    struct lh_buf payload;      /* SEND: the payload field's bytes (empty: the field is left out);
                                   DISK: what to write */
    bool notify;                /* SEND: LH_IN_SENT when it has left */
    uint64_t ticket;
    uint64_t file;
    enum lh_disk_op op;
    uint64_t offset;
    uint64_t length;
    bool for_reply; /* DISK, a read: a peer asked for these bytes. Refused with SHORTAGE while too
                       many replies are not being taken */
    struct lh_change *changes; /* PERSIST: owned */
    size_t change_count;
    int error; /* CLOSE, COMPLETE, STOPPED */
    enum lh_level level;
    void *call;
};

struct lh_effects {
    struct lh_effect *items;
    size_t count, capacity;
};

/* Appends a zeroed effect of that kind and returns it, valid until the next one is appended. */
struct lh_effect *lh_effects_add(struct lh_effects *fx, enum lh_effect_kind kind);

void lh_fx_open(struct lh_effects *fx, uint64_t link, enum lh_method method, const char *address,
    struct lh_duration timeout);
/* The same, of a foreign method. `token`: what etcd's Authenticate answered, copied; NULL: none. */
void lh_fx_open_with_token(struct lh_effects *fx, uint64_t link, enum lh_method method,
    const char *address, struct lh_duration timeout, const char *token);
void lh_fx_close(struct lh_effects *fx, uint64_t link, int error, const char *text);
void lh_fx_hold(struct lh_effects *fx, uint64_t link);
void lh_fx_unhold(struct lh_effects *fx, uint64_t link);
/* The chunkserver of that name, where it is called: "NAME at ADDRESS", malloc'd. With certificates
 * only the one that has this name answers there (ACC-8). An address alone stands for whichever
 * answers: of masters, and where the caller knows no name (""). "": the address is not known. */
char *lh_server_at(const char *name, const char *address);
/* The address in it. The name, if there is one, has `*name_size` bytes at its beginning. */
const char *lh_server_address(const char *server, size_t *name_size);
/* Takes over `data`'s slices (pass NULL for an operation without bytes). */
void lh_fx_disk(struct lh_effects *fx, uint64_t ticket, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, struct lh_buf *data);
void lh_fx_complete(struct lh_effects *fx, void *call, int error);
void lh_fx_stopped(struct lh_effects *fx, int error);
void lh_fx_log(struct lh_effects *fx, enum lh_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* lh_fx_persist() opens a batch; lh_fx_put() and lh_fx_delete() add to the last batch opened. Keys
 * and values are copied. */
void lh_fx_persist(struct lh_effects *fx, uint64_t ticket);
void lh_fx_put(
    struct lh_effects *fx, const void *key, size_t key_size, const void *value, size_t value_size);
void lh_fx_delete(struct lh_effects *fx, const void *key, size_t key_size);

/* Frees what the effects own and empties the list; keeps its memory for the next step. */
void lh_effects_clear(struct lh_effects *fx);
void lh_effects_deinit(struct lh_effects *fx);

/* Frees what one effect owns (a driver that took parts out leaves NULL or empty bufs behind). */
void lh_effect_deinit(struct lh_effect *e);

/* A core as its driver sees it. */
struct lh_core {
    void *self;
    /* Feeds one input and appends what must be done to `fx`. An input that makes no sense (an
     * unknown link, an unknown ticket) is ignored. */
    void (*step)(void *self, struct lh_input *in, struct lh_effects *fx);
    /* When the core next wants LH_IN_TIMER, or LH_INSTANT_NEVER. */
    struct lh_instant (*deadline)(const void *self);
};
