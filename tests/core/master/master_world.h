/* A small world around one master core, for tests: its store, its peers, its clock. Chunkservers
 * and clients are links that the test speaks on by hand. The core's own invariants are checked
 * after every step. */
#pragma once

#include "base/step.h"
#include "master/master.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

struct pair {
    uint8_t *key, *value;
    uint32_t key_size, value_size;
};

struct commit {
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
};

/* What the master sent on a link, in order. */
struct line {
    uint64_t link;
    enum lh_method method;
    ProtobufCMessage *message; /* NULL: the end, with `error` */
    int error;
    bool taken;
};

/* A call of the master's, of whoever is at an address (SES-8). */
struct called {
    uint64_t link; /* 0: none, or it has ended */
    char address[64];
};

struct world {
    char complaint[512]; /* what was last logged as an error */
    struct lh_master_config config;
    struct lh_master *m;
    struct lh_effects fx;
    struct lh_instant now;
    bool hold_commits; /* commits wait for world_commit() */
    bool unchecked;    /* the invariants are not checked: for stories with many files */
    struct pair *store;
    size_t store_count, store_capacity;
    struct commit *commits;
    size_t commit_count, commit_capacity;
    struct line *lines;
    size_t line_count, line_capacity;
    enum lh_method methods[1 << 14]; /* of links, by number */
    uint64_t next_link;
    const char *identity;     /* of whoever opens a link or speaks now; NULL: nobody says */
    const char *peer;         /* where whoever opens a link comes from; NULL: "peer" */
    uint64_t held;            /* the link that was held last and is not read; 0: none */
    struct called called[64]; /* in the order in which they were made */
    size_t called_count;
    bool stopped;
    int stop_error;
    char load_text[512];

    /* Another core of the same life: it gets every input that `m` gets and must emit the same
     * effects, byte for byte. At the next start `successor`, which was loaded and amended to what
     * is stored then (lh_master_amend()), becomes it. NULL: none. The world's. */
    struct lh_master *twin, *successor;
    struct lh_effects twin_fx;
    /* Of the test: a commit is durable and about to be applied to the store; the master has died,
     * and starts again from the store now. NULL: nobody wants to know. */
    void (*committed)(const struct lh_change *changes, size_t count);
    void (*crashed)(void);
};

struct server {
    const char *id, *machine, *domain;
    uint64_t incarnation, registration;
    uint64_t process;        /* 0: its incarnation */
    bool nameless;           /* it tells no process number (SES-5a) */
    uint64_t challenge;      /* that its registrations show (SES-1b) */
    uint64_t challenged;     /* with the last refusal; 0: not */
    bool failing, read_only; /* as its heartbeats tell, and its registrations the latter */
    bool identifies;         /* it answers at its address (SES-8), which is "ID:7401" ... */
    const char *address;     /* ... or this one */
    uint64_t link, session, last_stamp;
    uint64_t free_bytes;
    uint64_t ordered;    /* batches, as its heartbeats tell; of 100 bytes each */
    uint64_t piece;      /* of a registration (SES-1a): what is registered next is this one, */
    bool more;           /* and others follow, */
    bool leases_shown;   /* but no leases */
    uint64_t last_chunk; /* the highest number of a replica, as it tells */
    uint64_t term_seen, name_seen;   /* of the last reign in which it registered (SES-9) */
    struct lh_capability_keys *keys; /* what it is told goes there (ACC-6); NULL: nowhere */
    size_t keys_notified;            /* with the last answer */
    struct lh_capability_keys *led;  /* likewise those that it is led by (ACC-9) */
};

void world_open(struct world *w);
void world_close(struct world *w);
/* The master dies and starts again from what is durable; all links are gone. */
void world_crash(struct world *w);
/* Loads the store into a fresh core; its error. */
int world_load(struct world *w);
/* The pair gets the seal that fits; ... and all pairs do, and the master's record counts them, as
 * if a master had written what the test has put into the store. */
void world_seal(struct pair *pair);
void world_as_written(struct world *w);
void world_stop(struct world *w);
/* Of the store alone: carries out a change; the pair of a key, NULL: there is none; forgets all. */
void world_apply(struct world *w, const struct lh_change *change);
const struct pair *world_find(const struct world *w, const void *key, size_t key_size);
void world_free_store(struct world *w);
/* Both have the same records: asserts it. Neither was stepped. */
void world_same_records(struct lh_master *m, struct lh_master *other);

void world_commit(struct world *w); /* the oldest commit under way becomes durable */
void world_commit_all(struct world *w);
void world_commit_fails(struct world *w, int error);
void world_commit_waits(struct world *w); /* there is no room for the oldest one */
/* What a link ended with; LH_OK also if it has not. */
int world_end(const struct world *w, uint64_t link);
bool world_ended(const struct world *w, uint64_t link);
/* Lets time pass, stopping at each of the core's deadlines. */
void world_advance(struct world *w, uint64_t ms);

uint64_t world_open_link(struct world *w, enum lh_method method);
void world_message(struct world *w, uint64_t link, const void *message);
void world_sent(struct world *w, uint64_t link); /* a message with `notify` has left */
void world_break_link(struct world *w, uint64_t link);

/* A unary call; its answer is world_reply()'s. */
uint64_t world_call(struct world *w, enum lh_method method, const void *message);
/* The answer, NULL if there is none yet. The world's. */
const void *world_reply(struct world *w, uint64_t link);

/* The oldest call of the master's to that address that has not ended; 0: none. */
uint64_t world_called(const struct world *w, const char *address);
/* What is there answers with that name and process, or the call fails. */
void world_identify(struct world *w, uint64_t call, const char *id, uint64_t process);
void world_call_fails(struct world *w, uint64_t call, int error);

/* The next message of that kind on a session's stream that was not taken yet; NULL: none. */
const Leasehold__SessionReply *world_next(
    struct world *w, uint64_t link, Leasehold__SessionReply__BodyCase body);
void world_drop_lines(struct world *w);   /* as if all that was sent so far had been taken */
void world_forget_lines(struct world *w); /* frees them */

/* Registers with what is set in `s`, showing `held` chunk versions; true: registered. */
bool server_register_with(struct world *w, struct server *s,
    const Leasehold__ReplicaReport *replicas, size_t replica_count,
    const Leasehold__ChunkVersion *held, size_t held_count);
bool server_register(struct world *w, struct server *s);
/* A heartbeat with the present time as stamp. True: answered without an error. */
bool server_heartbeat(struct world *w, struct server *s);
bool server_heartbeat_active(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, bool *extended);
void server_send(struct world *w, struct server *s, Leasehold__SessionRequest *request);
void server_created(struct world *w, struct server *s, uint64_t chunk, int error);
void server_confirm(struct world *w, struct server *s, uint64_t chunk, uint64_t version, int error);
void server_release(struct world *w, struct server *s, uint64_t chunk, uint64_t version);
/* Every member has confirmed that it equals the primary at this version (REC-2). */
void server_recovered(struct world *w, struct server *s, uint64_t chunk, uint64_t version);
/* A copy of an open chunk is complete (REC-4). */
void server_copied(struct world *w, struct server *s, uint64_t chunk, uint64_t version);
void server_seal(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t length);
void server_member_failed(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, const char *member);
/* Likewise, saying whether clients wait there. */
void server_waits_for_member(struct world *w, struct server *s, uint64_t chunk, uint64_t version,
    const char *member, bool appends_wait);
/* Fills the session in. */
void server_tell_fenced(struct world *w, struct server *s, Leasehold__Fenced *fenced);
/* The answer to a Fence; `error` not LH_OK: without a log. */
void server_fenced(struct world *w, struct server *s, uint64_t chunk, uint64_t version, int error,
    uint64_t length, uint64_t committed, bool unverified);
/* REC-2a, FAIL-3: of those that have answered nobody is known to have all that was acknowledged. */
void server_is_unsure(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, const char *member);
/* REC-2: that member's log is not what it should be. */
void server_fenced_cut(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t length);
void server_fenced_as_primary(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t committed);
void server_removed(struct world *w, struct server *s, uint64_t chunk, int error);
const Leasehold__Grant *server_grant(struct world *w, struct server *s);
