/* A world of a few chunkserver cores. The test plays the master and the clients; between the
 * cores every message goes through the wire's bytes. What happens next among all that may happen
 * is drawn from a seed: links keep their order, disks do not.
 *
 * Disks lie in memory, twice: what the operating system holds, and what survives a loss of
 * power. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/capability.h"
#include "base/prng.h"
#include "batch/batch.h"
#include "chunkserver/chunkserver.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "tests/chained.h"

#define NODES           4
#define MASTER          NODES
#define CLIENT          (NODES + 1)
#define STANDBY         (NODES + 2) /* a second master */
#define ENDPOINTS       (NODES + 3)
#define CHUNK           7u
#define CHUNK_SIZE      LH_CHUNK_BYTES_MIN
#define SESSION_TERM_MS 9000u
#define CHUNK_TERM_MS   60000u

#define A 0
#define B 1
#define C 2
#define D 3

/* One file of a node's disk. */
struct file {
    uint64_t id;
    uint8_t *cache, *durable;
    size_t size, durable_size;
    size_t reserved; /* as the core asked last */
    bool durable_there;
};

struct disk_op {
    int node;
    uint64_t ticket, file, offset, length;
    enum lh_disk_op op;
    struct lh_buf data;
    uint8_t *covered; /* SYNC: the file as it was when the sync began */
    size_t covered_size;
};

struct wire {
    enum lh_method method;
    int client, server;
    uint64_t client_link, server_link;
    bool client_gone, server_gone;
    bool held[2];      /* the client's end, the server's: it is not read */
    bool named;        /* a message has said of which cluster the client is (SES-10) */
    struct conn *conn; /* of the test's own */
};

struct packet {
    struct wire *wire;
    bool to_server;
    enum lh_input_kind kind; /* LINK_OPENED, MESSAGE, LINK_CLOSED */
    struct lh_buf bytes;
    int error;
};

struct stored {
    uint64_t writer, sequence, offset;
    uint32_t count;
};

#define REPLIES_MAX 256

/* One call of the test to a core. */
struct conn {
    struct world *world;
    struct wire *wire;
    int node;
    uint64_t version, writer;
    uint64_t feed; /* REPLICATE: the number of the last one begun */
    bool closed;   /* or its lane has ended */
    int closed_error;
    ProtobufCMessage *replies[REPLIES_MAX];
    struct lh_buf payloads[REPLIES_MAX];
    size_t count;
    uint64_t lane; /* APPEND: of what is appended next */
    /* APPEND, gathered from the replies: */
    bool opened;
    uint64_t alive_ms; /* as the last one said */
    unsigned alive;    /* signs of life */
    unsigned arriving; /* replies that tell of something on its way */
    int error;
    const char *text;
    struct stored stored[REPLIES_MAX];
    size_t stored_count;
};

/* What the master heard of a node since heard_clear(); `n` counts, the rest is the last one's. */
struct heard {
    struct {
        unsigned n;
        uint64_t version, length;
        int error;
        unsigned members; /* bits */
        bool sealed, unverified, truncated, primary, appends_wait, unsure, failing, read_only,
            ran_out, kept, damaged;
        uint64_t checksum, committed, bytes;
    } confirm, release, seal, recovered, failed, created, lost, loss, recorded, fenced, copied,
        removed, heartbeat, shown;
    unsigned leases;        /* in the last heartbeat's sum, */
    uint64_t leases_hash;   /* and that */
    uint64_t ordered;       /* bytes, in the last heartbeat */
    uint64_t copy_progress; /* of CHUNK, in the last heartbeat; 0: none */
};

struct node {
    struct lh_chunkserver *cs; /* NULL: down */
    struct file files[8];
    uint64_t incarnation;
    const char *cluster; /* that it is of when it starts; NULL: of none yet */
    uint8_t boot;
    bool stopped;
    int stopped_error;
    bool disk_stalled, reads_stalled; /* nothing of its disk completes; no read of it does */
    bool starved;                     /* no operation can be begun: SHORTAGE */
    bool read_only;     /* the disk refuses to change anything, also a new incarnation at a start */
    bool sync_bad;      /* each sync of CHUNK fails, the new file's too */
    bool unreadable;    /* the disk refuses to read */
    uint64_t bad_byte;  /* of CHUNK's file: what reads it fails; 0: none */
    uint64_t processes; /* started so far */
    int fail_error;     /* the next operation of this kind fails */
    enum lh_disk_op fail_op;
    unsigned fail_after; /* so many of them succeed before */
    uint64_t fail_file;
    /* as the master sees it */
    struct wire *session_wire;
    uint64_t session, stamp;
    unsigned registrations;
    char scrub[64];                        /* the scrub's position, as it was kept */
    Leasehold__SessionRequest *registered; /* the last registration */
    struct heard heard;
};

struct acked {
    uint64_t writer, sequence, offset;
    uint32_t size;
};

struct world {
    struct node nodes[NODES];
    struct lh_instant now;
    struct lh_prng prng;
    bool synced;                         /* the durability of replicas to be created */
    uint64_t chunk_size;                 /* likewise */
    struct lh_chunkserver_bounds bounds; /* of servers that start */
    uint64_t repair_rate, scrub_rate;
    uint64_t pending_bytes;              /* of servers that start; 0: the default */
    struct lh_duration scrub_period;     /* of servers that start; FOREVER unless a story sets it */
    uint64_t fence;                      /* of grants that follow (TOK-2) */
    uint64_t token;                      /* of writers that follow */
    bool capabilities;                   /* servers that start ask for them (ACC-5), and ... */
    struct lh_capability_issuer *issuer; /* ... are told its keys; NULL: none */
    ProtobufCBinaryData capability;      /* that writers and settlers show from now on */
    const char *certificate;             /* of the test's own calls; NULL: they come without one */
    const char *names;                   /* the cluster that they say they are of; NULL: none */
    unsigned joining;                    /* bits: members that a grant names so (REC-4) */
    struct packet *packets;
    size_t packet_count, packet_capacity;
    struct disk_op *ops;
    size_t op_count, op_capacity;
    struct wire *wires[16384];
    size_t wire_count;
    struct conn *conns[4096];
    size_t conn_count;
    bool played[NODES];                        /* the test plays this server */
    struct wire *played_wire[LH_METHOD_COUNT]; /* the last call to such a server */
    uint64_t played_feed;                      /* the number of the last one that began there */
    uint64_t next_link;
    uint64_t sessions;
    uint64_t master_term;
    const char *cluster;    /* that masters say they are of; NULL: "cluster" */
    const char *elsewhere;  /* that the one that is not `active` says instead; NULL: the same */
    bool master_deaf;       /* answers nothing */
    uint64_t challenge;     /* the registrations without this one are refused (SES-1b) */
    bool challenge_changes; /* with each refusal */
    unsigned refusals;      /* of registrations */
    unsigned masters;       /* addresses that servers start with; 0: one */
    int active;             /* MASTER or STANDBY: its reign is `master_term` */
    bool other_acts;        /* the other one says so too, ... */
    uint64_t other_term;    /* ... in this reign; also if it does not */
    bool gone[ENDPOINTS];   /* nobody can connect to it */
    bool lists;             /* the active one's answers list both */
    unsigned asked;         /* how often a master was asked who acts */
    bool master_continues;  /* lets shown leases go on (LEASE-7) */
    bool master_asks;       /* for all leases, with the next answer (LEASE-8) */
    bool torn;              /* a loss of power leaves any part of what was not synced */
    bool stalled[ENDPOINTS][ENDPOINTS]; /* messages from, to: wait */
    bool unread;      /* nothing leaves any server for the test's clients, who do not read */
    unsigned members; /* bits: who must have a batch before it is acknowledged */
    struct acked acked[4096];
    size_t acked_count;
};

struct world *world_create(uint64_t seed, bool synced);
void world_destroy(struct world *w);

void node_start(struct world *w, int node);
/* The process dies; with `power` the machine does, and what was not synced is gone. */
void node_kill(struct world *w, int node, bool power);
void node_input(struct world *w, int node, struct lh_input in);
struct file *node_file(struct world *w, int node, uint64_t id); /* NULL: none */
/* Lays down a file of these bytes, durably; one that is there is replaced. */
void node_put_file(struct world *w, int node, uint64_t id, const void *bytes, size_t size);
/* The next operation `op` on the chunk's file (after `after` more) fails with `error`. */
void node_fail_disk(struct world *w, int node, enum lh_disk_op op, unsigned after, int error);
struct lh_replica_status node_status(struct world *w, int node);

/* Operation `i` of w->ops completes now, although its disk may be stalled. */
void disk_complete(struct world *w, size_t i);
/* The connection breaks: both ends hear of it. */
void break_wire(struct world *w, struct wire *l);

/* Lets everything happen that can happen without time passing. */
void settle(struct world *w);
/* Lets time pass, timers fire and everything happen. */
void pass(struct world *w, uint64_t ms);

/* The master's side. */
void master_send(struct world *w, int node, Leasehold__SessionReply *m);
void master_create(struct world *w, unsigned members);
void master_grant(struct world *w, int node, uint64_t version, unsigned members, uint32_t min);
/* What a Grant of that version to `node` has for that member (ACC-9), of `w->issuer`. */
ProtobufCBinaryData master_lead(
    struct world *w, int node, int member, uint64_t version, uint8_t bytes[LH_CAPABILITY_BYTES]);
void master_fence(struct world *w, int node, uint64_t version);
void master_inquire(struct world *w, int node);
void master_recall(struct world *w, int node, uint64_t version);
void master_record_seal(
    struct world *w, int node, uint64_t version, uint64_t length, uint64_t checksum);
void master_remove(struct world *w, int node, uint64_t version);
/* `sources`: bits. An unsealed chunk's copy has neither length nor checksum. */
void master_copy(struct world *w, int node, uint64_t version, bool sealed, uint64_t length,
    uint64_t checksum, unsigned sources);
void heard_clear(struct world *w);

/* A client's side. Batches of one record of `size` bytes whose content follows from writer and
 * sequence. */
struct conn *appender(
    struct world *w, int node, uint64_t version, uint64_t writer, uint64_t first_sequence);
/* One more writer, on the connection's lane. */
void join_stream(struct conn *c, uint64_t writer, uint64_t first_sequence);
struct lh_buf make_batch(uint64_t writer, uint64_t sequence, uint32_t count, uint32_t size);
void append(struct conn *c, uint64_t sequence, uint32_t size);
void append_bytes(struct conn *c, struct lh_buf batch);
/* Parts for CHUNK, or for the chunk that they name. */
void append_parts(struct conn *c, Leasehold__AppendPart *parts, size_t count, struct lh_buf *bytes);
void hang_up(struct conn *c);
/* The driver says this of the link: a part of a message has come, or nothing more will. */
void driver_says(struct conn *c, enum lh_input_kind kind);
/* The position that an acknowledgement gave; fails the test if there was none. */
uint64_t position(const struct conn *c, uint64_t sequence);
bool answered(const struct conn *c, uint64_t sequence);

struct conn *reader(struct world *w, int node, Leasehold__ReadRequest q);
struct conn *settler(struct world *w, int node, uint64_t version, uint64_t writer);
/* A stream as a primary's, to play one that misbehaves. */
struct conn *feeder(struct world *w, int node);
/* A part for CHUNK. ADOPT begins the connection's next feed, to which all that follows belongs. */
void feed(struct conn *c, Leasehold__ReplicatePart part, struct lh_buf *batches);

/* The test plays this server from now on: it takes calls, and answers what it is told to. */
void play(struct world *w, int node);
void play_reply(
    struct world *w, enum lh_method method, const ProtobufCMessage *m, struct lh_buf *payload);

const Leasehold__ReadReply *read_reply(const struct conn *c);
const Leasehold__SettleReply *settle_reply(const struct conn *c);
const Leasehold__ReplicateAnswer *feed_reply(const struct conn *c, size_t i);
size_t feed_replies(const struct conn *c);
/* What a played member says of CHUNK to the feed that was begun last; then all settles. */
void play_answer(struct world *w, Leasehold__ReplicateAnswer m);

/* Every acknowledged batch lies where it was said to lie, on each of `members` (INV-4), and
 * these are identical to the end (INV-5). */
void check_logs(struct world *w, unsigned members);
