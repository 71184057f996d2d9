/* What the files that make up a story share. Inside sim/report/ only. */
#pragma once

#include "sim/report/story.h"
#include "sim/world/watch.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/leasehold.pb-c.h"

#include <uthash.h>

/* A message that has not arrived yet; only of those that become arrows. */
struct pending {
    struct pending *next;
    uint64_t ordinal; /* of all messages in this direction of the link */
    struct lh_sim_arrow arrow;
};

/* What earlier messages of a link said, since later ones do not repeat it. */
struct link {
    uint64_t number;
    int opener;
    uint64_t chunk, version;
    char *path;
    struct direction {
        uint64_t sent, taken;
        struct pending *first, *last;
    } directions[2]; /* LH_REQUEST, LH_REPLY */
    UT_hash_handle hh;
};

/* One side's belief that a lease or a session runs. */
struct belief {
    bool open;
    struct lh_sim_span span;
    struct lh_instant end;               /* on the believer's clock */
    uint64_t looked_at, looked_at_clock; /* when it was last seen running: true time and clock */
    uint64_t look_at;                    /* not needed before this; true time */
};

/* Everybody's beliefs about one chunk. */
struct chunk {
    uint64_t chunk;
    bool active; /* in the story's list */
    bool sealed;
    bool confirmed, waiting; /* as the master has it */
    struct belief given;
    struct belief *held; /* by node */
    UT_hash_handle hh;
};

struct server {
    struct belief given, held;
    uint64_t session;  /* the last that a registration was answered with */
    const char *cause; /* of what it gives up in the step under way */
};

/* A fault whose end is waited for. */
struct fault {
    bool open;
    struct lh_sim_span span;
};

struct lh_sim_story {
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;
    struct lh_sim_listener listener;
    bool ending, ended;
    size_t nodes;

    struct link *links;
    bool said; /* in the step under way */
    struct {
        bool there;
        char text[256];
    } log; /* of the step under way, told if nothing else is */

    struct chunk *chunks;
    struct chunk **active; /* those whose beliefs may change */
    size_t active_count, active_capacity;
    struct {
        bool there;
        uint64_t at;
        struct chunk *chunk;
        int node;
        bool given;
    } first;                    /* belief to end, while they are looked through */
    struct server *servers;     /* by node */
    struct lh_sim_node *master; /* whose beliefs about what is given these are */
    const char *master_cause;   /* why a lease may end in the master's step under way */
    uint64_t next_look;         /* no belief ends before this; true time */

    struct lock_held *locks; /* of programs (story_leases.c) */

    bool faults_changed; /* something was noted: the state is looked at when it has changed */
    uint64_t faults_at;
    struct fault *down, *paused, *stalled, *drift; /* by node */
    struct fault *cut, *slow, *clogged;            /* [from * nodes + to] */
};

/* story.c */
/* `t.at` 0: now. */
void lh_sim_narrate(struct lh_sim_story *s, struct lh_sim_transition t, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void lh_sim_narrate_span(struct lh_sim_story *s, struct lh_sim_span *span, uint64_t end);
int lh_sim_index(const struct lh_sim_story *s, const struct lh_sim_node *node);
bool lh_sim_is_chunkserver(const struct lh_sim_story *s, int index);
struct lh_sim_node *lh_sim_at_index(const struct lh_sim_story *s, int index);

/* story_said.c: messages in words. `link` is the message's. */
const char *lh_sim_error_name(Leasehold__ErrorCode code);
/* The node's, of the chunk and version that the message names, if any; the second with its peer. */
struct lh_sim_transition lh_sim_about(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, const ProtobufCMessage *m);
struct lh_sim_transition lh_sim_towards(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, const ProtobufCMessage *m);
/* What a SessionRequest or SessionReply carries; NULL: nothing that is known. */
const ProtobufCMessage *lh_sim_body_of(const ProtobufCMessage *m);
void lh_sim_say(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *link);
/* As it arrives. */
void lh_sim_hear(struct lh_sim_story *s, const struct lh_sim_sight *sight);
/* False: it is not drawn. */
bool lh_sim_arrow_of(const struct lh_sim_sight *sight, struct lh_sim_arrow *arrow);

/* story_beliefs.c */
void lh_sim_beliefs_begin(struct lh_sim_story *s);
/* A message names the chunk. */
struct chunk *lh_sim_chunk_named(struct lh_sim_story *s, uint64_t chunk);
/* Ends what ended by the clocks since this was called last. */
void lh_sim_beliefs_poll(struct lh_sim_story *s);
/* Looks at every clock now: one of them is about to change its rate. */
void lh_sim_beliefs_look(struct lh_sim_story *s);
/* Looks at everything that the step of this node may have changed. */
void lh_sim_beliefs_stepped(struct lh_sim_story *s, struct lh_sim_node *node);
void lh_sim_beliefs_process_ended(struct lh_sim_story *s, struct lh_sim_node *node);
void lh_sim_beliefs_end(struct lh_sim_story *s);
void lh_sim_beliefs_deinit(struct lh_sim_story *s);

/* story_faults.c */
void lh_sim_faults_begin(struct lh_sim_story *s);
void lh_sim_faults_noted(struct lh_sim_story *s, const char *text);
void lh_sim_faults_poll(struct lh_sim_story *s);
void lh_sim_faults_lives(struct lh_sim_story *s, struct lh_sim_node *node, enum lh_sim_life what);
void lh_sim_faults_end(struct lh_sim_story *s);
void lh_sim_faults_deinit(struct lh_sim_story *s);

/* story_leases.c: sessions, locks, caches and changes of programs. */
void lh_sim_say_program(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__LeaseSessionRequest *m);
void lh_sim_say_to_program(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__LeaseSessionReply *m);
void lh_sim_locks_takes(struct lh_sim_story *s, const struct lh_sim_sight *sight);
void lh_sim_locks_does(struct lh_sim_story *s, const struct lh_sim_sight *sight);
void lh_sim_locks_poll(struct lh_sim_story *s);
void lh_sim_locks_stepped(struct lh_sim_story *s, struct lh_sim_node *node);
void lh_sim_locks_process_ended(struct lh_sim_story *s, struct lh_sim_node *node);
void lh_sim_locks_end(struct lh_sim_story *s);
/* False: it is none of these calls, or a refusal. */
bool lh_sim_say_lease_call(struct lh_sim_story *s, const struct lh_sim_sight *sight);
bool lh_sim_say_lease_reply(struct lh_sim_story *s, const struct lh_sim_sight *sight);

/* story_keep.c: messages that story_said.c does not tell of. */
void lh_sim_say_kept_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionRequest *m);
void lh_sim_say_kept_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionReply *m);
