/* What a scenario may expect of a cluster: a question with yes or no for an answer, asked of true
 * time, the master's store, the nodes and the programs. The whole list stands in condition.c, as
 * patterns (phrase.h). */
#pragma once

#include "sim/observers/observers.h"
#include "sim/scenario/actor.h"

enum lh_sim_condition_kind {
    /* Primaries, by what they themselves believe. "Not" means that somebody else is. */
    LH_SIM_IF_PRIMARY = 1,
    LH_SIM_IF_PRIMARY_NOT,
    LH_SIM_IF_PRIMARY_NOBODY,
    LH_SIM_IF_PRIMARY_SOMEBODY,
    LH_SIM_IF_MAY_ACT,
    LH_SIM_IF_MAY_NOT_ACT,
    LH_SIM_IF_APPENDS, /* the tail has a primary that has recovered it and takes appends */
    LH_SIM_IF_NO_APPENDS,
    /* Chunks, as the master's store names them. */
    LH_SIM_IF_EXISTS,
    LH_SIM_IF_SEALED,
    LH_SIM_IF_SEALED_AT,
    LH_SIM_IF_UNSEALED,
    LH_SIM_IF_VERSION,
    LH_SIM_IF_VERSION_ABOVE,
    LH_SIM_IF_MEMBERS,
    LH_SIM_IF_MEMBER,
    LH_SIM_IF_NO_MEMBER,
    LH_SIM_IF_FILE,
    LH_SIM_IF_NO_FILE,
    LH_SIM_IF_CHUNKS, /* at least so many */
    /* Replicas. */
    LH_SIM_IF_REPLICA_LOST,
    LH_SIM_IF_REPLICA_UNVERIFIED,
    LH_SIM_IF_REPLICA_SEALED,
    LH_SIM_IF_REPLICA_MISSING,
    LH_SIM_IF_REPLICA_WHOLE, /* there, neither lost nor unverified */
    LH_SIM_IF_REPLICA_VERSION,
    LH_SIM_IF_REPLICA_SHORTER, /* than the longest one of that chunk */
    LH_SIM_IF_IDENTICAL,       /* all members of all chunks are there and equal to the end */
    /* Nodes. */
    LH_SIM_IF_SESSION,
    LH_SIM_IF_NO_SESSION,
    LH_SIM_IF_UP,
    LH_SIM_IF_DOWN,
    LH_SIM_IF_PAUSED,
    LH_SIM_IF_ACTIVE, /* a master whose reign is confirmed by its own clock */
    LH_SIM_IF_NOT_ACTIVE,
    LH_SIM_IF_NONE_ACTIVE,
    LH_SIM_IF_REIGN, /* of the newest write that has taken effect */
    LH_SIM_IF_REIGN_ABOVE,
    /* Programs. */
    LH_SIM_IF_ACKNOWLEDGED, /* at least so many batches */
    LH_SIM_IF_GAPS,         /* REC-9a */
    LH_SIM_IF_DONE,         /* all that it was to do was done, and none of it failed */
    LH_SIM_IF_FENCED_OUT,   /* a writer whose token is over (TOK-2) */
    LH_SIM_IF_WAITS,        /* something is under way */
    LH_SIM_IF_READ_ALL,     /* a reader is at the committed end of its file */
    LH_SIM_IF_READ_BYTES,   /* or has so much of it at least */
    LH_SIM_IF_HOLDS,        /* a locker has the lock on `path`, by its own clock */
    LH_SIM_IF_HOLDS_NOT,
    LH_SIM_IF_CACHES, /* it may serve the value of `path` from its memory, likewise */
    LH_SIM_IF_CACHES_NOT,
    /* Observers. */
    LH_SIM_IF_SEEN, /* `rule` was seen broken with clocks beyond rho (INV-7) */
};

struct lh_sim_condition {
    enum lh_sim_condition_kind kind;
    struct lh_sim_who who;
    struct lh_sim_where chunk;
    char path[LH_SIM_PATH_MAX + 1];
    char program[LH_SIM_PROGRAM_NAME_MAX + 1];
    char rule[8];
    uint64_t number;
};

#define LH_SIM_CONDITION_TEXT 512 /* bytes that hold any condition's text, or what is so instead */

/* Reads one, as a part of a line. False: `w` knows what would have been possible. */
bool lh_sim_condition_parse_words(struct lh_sim_condition *condition, struct lh_sim_words *w);
void lh_sim_condition_print(const struct lh_sim_condition *condition, char *text, size_t text_size);

/* Is it so now? Of what does not exist nothing is so, but "nobody", "no", "not" and "missing". */
bool lh_sim_condition_holds(const struct lh_sim_condition *condition, struct lh_sim_cluster *c,
    struct lh_sim_actor *actor, struct lh_sim_observers *o);

/* In words, how it is with what the condition is about. */
void lh_sim_condition_actual(const struct lh_sim_condition *condition, struct lh_sim_cluster *c,
    struct lh_sim_actor *actor, char *text, size_t text_size);

/* ---- condition_identical.c, for condition.c ---- */

/* All members of all its chunks are there and equal to the end. */
bool lh_sim_file_is_identical(struct lh_sim_cluster *c, const char *path);

/* ---- condition_reign.c, for condition.c ---- */

/* A condition about reigns; `node` NULL: nobody is it. */
bool lh_sim_reign_holds(
    const struct lh_sim_condition *k, struct lh_sim_cluster *c, const struct lh_sim_node *node);
/* Nothing, where masters share no etcd. */
void lh_sim_reign_actual(struct lh_sim_cluster *c, struct lh_sim_text *t);
