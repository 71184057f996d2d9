/* What can be done to a running cluster (actor.h does it), by a nemesis, by a scenario file or by a
 * recorded run: a plain value, and the same as one line of text. Reading what was printed gives the
 * value back.
 *
 *   at 3s pause chunkserver 2 for 15s
 *   at 3.000214s cut client 1 -> primary of /log
 *   at 4s writer w2 at client 1 to /log records 1..4 bytes 0..300 every 1ms..5ms
 *
 * The whole list stands in action.c, as patterns (phrase.h). */
#pragma once

#include "sim/cluster/program.h"
#include "sim/scenario/phrase.h"

enum lh_sim_action_kind {
    /* Processes and machines. */
    LH_SIM_ACT_START = 1,
    LH_SIM_ACT_CRASH,      /* for `hold`: then it starts again */
    LH_SIM_ACT_RESTART,    /* crash and start */
    LH_SIM_ACT_POWER_LOSS, /* for `hold`: then it starts again */
    LH_SIM_ACT_PAUSE,      /* for `hold`; with `in_step` in the middle of its next step */
    LH_SIM_ACT_RESUME,
    LH_SIM_ACT_STOP,             /* a clean shutdown; for `hold` from now: then it starts again */
    LH_SIM_ACT_KEEP_INCARNATION, /* no start of it can write one down, for `hold` */
    /* Clocks. */
    LH_SIM_ACT_CLOCK,  /* to the rate error `ppm` */
    LH_SIM_ACT_WALL,   /* to `number` ms since 1970 */
    LH_SIM_ACT_TIMERS, /* late by up to `delay` */
    /* Links, each way apart or both. */
    LH_SIM_ACT_CUT, /* who -> peer, for `hold` */
    LH_SIM_ACT_HEAL,
    LH_SIM_ACT_ISOLATE, /* from `peer`, or from everybody, for `hold` */
    LH_SIM_ACT_REJOIN,
    LH_SIM_ACT_BREAK,
    LH_SIM_ACT_BREAK_AT,   /* at `who` alone: `peer` notices by the silence */
    LH_SIM_ACT_HALF_CLOSE, /* the streams of `method` that `who` opened */
    LH_SIM_ACT_SLOW,       /* who -> peer by `delay`, for `hold` */
    LH_SIM_ACT_BANDWIDTH,  /* who -> peer: `number` bytes a second, for `hold` */
    LH_SIM_ACT_CLOG,       /* who -> peer, for `hold` */
    LH_SIM_ACT_UNCLOG,
    LH_SIM_ACT_DEAFEN,  /* no new connection can be made there, nor from there, for `hold` */
    LH_SIM_ACT_HIDE,    /* likewise, but only to it, for `hold` */
    LH_SIM_ACT_MISLEAD, /* who connects to `who` gets `peer`, for `hold` */
    LH_SIM_ACT_BLIND,   /* `who` does not notice that `peer` is silent, for `hold` */
    /* Disks and the store. */
    LH_SIM_ACT_STALL, /* for `hold` */
    LH_SIM_ACT_UNSTALL,
    LH_SIM_ACT_STARVE,    /* no descriptors or memory for it, for `hold` */
    LH_SIM_ACT_REFUSE,    /* it refuses changes with `error`, for `hold` */
    LH_SIM_ACT_SHUT_DOWN, /* its file system, for `hold`; then it is mounted again */
    LH_SIM_ACT_SLOW_DISK, /* by `delay`, for `hold` */
    LH_SIM_ACT_CAPACITY,  /* `number` bytes in all, for `hold` */
    LH_SIM_ACT_ROOM,      /* `number` bytes more than are used, for `hold` */
    LH_SIM_ACT_FAIL_DISK, /* the next `count` operations `op` with `error` */
    LH_SIM_ACT_ROT,       /* the byte at `number` of a chunk's file: `mask` is turned over */
    LH_SIM_ACT_MISDIRECT, /* the next write, to the byte at `number` of a chunk's file */
    LH_SIM_ACT_FAIL_STORE,
    LH_SIM_ACT_LOSE_DISK,     /* down for `hold`, then it starts with an empty one */
    LH_SIM_ACT_SCRAP,         /* the machine is gone for good */
    LH_SIM_ACT_BACK_UP,       /* a copy of the store is kept ... */
    LH_SIM_ACT_RESTORE_STORE, /* ... and put in its place; the process starts again */
    /* The etcd that masters share (sim/etcd/etcd.h). */
    LH_SIM_ACT_ETCD_QUORUM,  /* it has none, for `hold` */
    LH_SIM_ACT_ETCD_AGREES,  /* it has one again */
    LH_SIM_ACT_ETCD_ELECTS,  /* and loses `count` of a million meanwhile, for `hold` */
    LH_SIM_ACT_ETCD_AFTER,   /* of a million `count` fail when they have taken effect, for `hold` */
    LH_SIM_ACT_ETCD_BEFORE,  /* ... before they do */
    LH_SIM_ACT_ETCD_LATE,    /* ... take effect up to `delay` later, for `hold` */
    LH_SIM_ACT_ETCD_LAG,     /* the member `who` applies everything `delay` later, for `hold` */
    LH_SIM_ACT_ETCD_BREAK,   /* all watches break */
    LH_SIM_ACT_ETCD_DELAY,   /* watches send events `delay` later, for `hold` */
    LH_SIM_ACT_ETCD_LOSE,    /* of a million revisions a watch never shows `count`, for `hold` */
    LH_SIM_ACT_ETCD_CANCEL,  /* all watches are canceled as compacted */
    LH_SIM_ACT_ETCD_COMPACT, /* but for the newest `number` revisions */
    LH_SIM_ACT_ETCD_FULL,    /* the quota is used up, for `hold` */
    LH_SIM_ACT_ETCD_NEARLY_FULL, /* its file says so, for `hold` */
    LH_SIM_ACT_ETCD_FLIP,        /* the member `who` reads flipped bits from its file, for `hold` */
    LH_SIM_ACT_ETCD_DELETE,      /* a hand that is no master's deletes a key of their map, ... */
    LH_SIM_ACT_ETCD_CHANGE,      /* ... or changes one */
    LH_SIM_ACT_ETCD_PUT_BACK,    /* an operator puts back what such hands have changed */
    LH_SIM_ACT_ETCD_KEEP,        /* a snapshot is kept ... */
    LH_SIM_ACT_ETCD_RESTORE,     /* ... and put in place of the state */
    LH_SIM_ACT_ASTRAY, /* the master `who` starts again with the prefix of another cluster, with
                          `now` of none, for `hold`; or the chunkserver as one of another cluster,
                          with the same chunks */
    /* Requests, given to a client without waiting for the answer. */
    LH_SIM_ACT_RECALL,
    LH_SIM_ACT_RELEASE,
    LH_SIM_ACT_CREATE,
    LH_SIM_ACT_RENAME,
    LH_SIM_ACT_REMOVE, /* with `now` for good */
    LH_SIM_ACT_RESTORE,
    LH_SIM_ACT_LIST,
    LH_SIM_ACT_DRAIN, /* `who` is to be emptied */
    LH_SIM_ACT_UNDRAIN,
    LH_SIM_ACT_DECOMMISSION,
    LH_SIM_ACT_RESUME_DELETING, /* after an older copy of the store (KEEP-4) */
    /* The master's settings, from its next start on. The chunk term is never below the session
     * term: the one that is set last moves the other. */
    LH_SIM_ACT_SESSION_TERM, /* to `hold` */
    LH_SIM_ACT_CHUNK_TERM,   /* to `hold` */
    LH_SIM_ACT_DRIFT,        /* to `count` ppm */
    /* The table of roles, which all nodes read at once (ACC-7). */
    LH_SIM_ACT_TAKE_RIGHTS, /* of the stranger `number` */
    LH_SIM_ACT_GIVE_RIGHTS, /* back to it */
    /* Programs. */
    LH_SIM_ACT_WRITER,
    LH_SIM_ACT_READER,
    LH_SIM_ACT_FILES,
    LH_SIM_ACT_LOCKER,
    LH_SIM_ACT_CACHER,
    LH_SIM_ACT_CHANGER,
    LH_SIM_ACT_WATCHER,
    LH_SIM_ACT_OPERATOR,
    LH_SIM_ACT_END, /* of the program `program.name` */
    /* Everything. */
    LH_SIM_ACT_LET,  /* `name` stands from now on for the node that `who` is now */
    LH_SIM_ACT_MEND, /* all faults end (healing.h) */
};

/* Names one node, or several; which ones is decided when the action is carried out. */
enum lh_sim_who_kind {
    LH_SIM_WHO_NOBODY,
    LH_SIM_WHO_MASTER,    /* "master 2"; "master": who acts, or else who reigned last */
    LH_SIM_WHO_ACTIVE,    /* "active master": nobody while none acts */
    LH_SIM_WHO_STANDBY,   /* "standby", "standby 2": those that are up and do not act */
    LH_SIM_WHO_ETCD,      /* "etcd member 2" */
    LH_SIM_WHO_SERVER,    /* "chunkserver 2", "cs2" */
    LH_SIM_WHO_CLIENT,    /* "client 1", "c1" */
    LH_SIM_WHO_PRIMARY,   /* "primary of /log": who may act on the tail; if nobody may, the holder
                             that the durable grant names */
    LH_SIM_WHO_SECONDARY, /* "secondary of /log", "secondary 2 of /log": its other members */
    LH_SIM_WHO_NAMED,     /* "Old": what an action LET said */
    LH_SIM_WHO_MASTERS,   /* "every master" */
    LH_SIM_WHO_ETCDS,     /* "every etcd member" */
    LH_SIM_WHO_SERVERS,   /* "every chunkserver" */
    LH_SIM_WHO_CLIENTS,   /* "every client" */
    LH_SIM_WHO_EVERYBODY,
};

struct lh_sim_who {
    enum lh_sim_who_kind kind;
    uint32_t number;                /* from 1; 0: of a master none in particular */
    char text[LH_SIM_PATH_MAX + 1]; /* a path or a name */
};

/* "chunk 7", "tail of /log", "chunk 1 of /log" (counted from 1). */
struct lh_sim_where {
    uint64_t number;                /* with a path: its place in the file, 0 the tail; else an id */
    char path[LH_SIM_PATH_MAX + 1]; /* "": `number` is the chunk's id */
};

/* Which members count depends on the kind; the others are as lh_sim_action_default() gives them. */
struct lh_sim_action {
    uint64_t at; /* true ns since the world's start */
    enum lh_sim_action_kind kind;
    struct lh_sim_who who, peer;
    struct lh_sim_where chunk;
    struct lh_duration hold; /* 0: until something else is said */
    struct lh_duration delay;
    uint64_t number;
    uint32_t count;
    uint32_t mask;
    uint32_t replication, min_replicas;
    uint64_t chunk_size;
    uint32_t client;
    int32_t ppm;
    int error;
    enum lh_disk_op op;
    enum lh_method method;
    bool in_step, synced, now;
    uint32_t on_loss; /* Leasehold__OnPrimaryLoss */
    char path[LH_SIM_PATH_MAX + 1], to[LH_SIM_PATH_MAX + 1];
    char name[LH_SIM_PROGRAM_NAME_MAX + 1];
    struct lh_sim_program_spec program;
};

/* An action of that kind with everything else at its default. */
struct lh_sim_action lh_sim_action_default(enum lh_sim_action_kind kind);

/* The action begins a program. */
bool lh_sim_action_begins(enum lh_sim_action_kind kind);

#define LH_SIM_ACTION_TEXT 512 /* bytes that hold any action's text */

/* "at 3s pause chunkserver 2 for 15s"; without `with_time` what follows the time. */
void lh_sim_action_print(
    const struct lh_sim_action *action, bool with_time, char *text, size_t text_size);

/* What lh_sim_action_print() gave, with its time. INVALID_ARGUMENT: `text` says what was found and
 * what would have been possible. */
LH_MUST_USE int lh_sim_action_parse(
    struct lh_sim_action *action, const char *line, char *text, size_t text_size);

/* The part behind the time, as one phrase among others of a line; `at` is not touched. False: `w`
 * knows what would have been possible. Words may be left. */
bool lh_sim_action_parse_words(struct lh_sim_action *action, struct lh_sim_words *w);

/* How many nodes of each kind there are. */
struct lh_sim_crew {
    size_t masters, etcd, servers, clients;
};

/* False: it asks for what no cluster of so many nodes has or can do; `text` says what. */
bool lh_sim_action_check(const struct lh_sim_action *action, const struct lh_sim_crew *crew,
    char *text, size_t text_size);

extern const struct lh_sim_slot_type lh_sim_slot_loss;  /* uint32_t: Leasehold__OnPrimaryLoss */
extern const struct lh_sim_slot_type lh_sim_slot_who;   /* struct lh_sim_who */
extern const struct lh_sim_slot_type lh_sim_slot_where; /* struct lh_sim_where */
