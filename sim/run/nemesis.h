/* Who breaks things. Its temperament is drawn per seed (a swarm: in one run only links break, in
 * another machines crash all the time), it is more likely to act while something is pending, leaves
 * quiet windows, and stays within what the protocol can survive (the atlas) unless told otherwise.
 * Everything that it does is an action that can be written down and done again without it. */
#ifndef LH_SIM_NEMESIS_H
#define LH_SIM_NEMESIS_H

#include "sim/cluster/cluster.h"
#include "sim/scenario/actor.h"
#include "sim/scenario/settings.h"

/* Kinds of mischief. Each has a weight of its own in a run, often 0. */
enum lh_sim_mischief {
    LH_SIM_MISCHIEF_CRASH,       /* a chunkserver's process is killed */
    LH_SIM_MISCHIEF_RESTART,     /* ... and started at once */
    LH_SIM_MISCHIEF_POWER,       /* a machine loses power */
    LH_SIM_MISCHIEF_RACK,        /* all machines of the cluster lose power at once */
    LH_SIM_MISCHIEF_MASTER,      /* the master is killed, or loses power */
    LH_SIM_MISCHIEF_CLIENT,      /* a client is killed */
    LH_SIM_MISCHIEF_PAUSE,       /* a process stands still, also in the middle of a step */
    LH_SIM_MISCHIEF_STOP,        /* a clean shutdown */
    LH_SIM_MISCHIEF_ISOLATE,     /* one node from some or all others */
    LH_SIM_MISCHIEF_PARTITION,   /* halves, or a ring */
    LH_SIM_MISCHIEF_ONE_WAY,     /* one direction of one link */
    LH_SIM_MISCHIEF_PRIMARY_CUT, /* a primary from the master, its clients still alive */
    LH_SIM_MISCHIEF_OUTLIVE,    /* ... so that it outlives its session: its timers are late, too, or
                                    what it sends to another member is */
    LH_SIM_MISCHIEF_ESTRANGE,   /* a client from one chunkserver alone */
    LH_SIM_MISCHIEF_LATE,       /* news between master and chunkserver come late, and are overtaken
                                    by a recall or by the next process */
    LH_SIM_MISCHIEF_BREAK,      /* connections */
    LH_SIM_MISCHIEF_SLOW,       /* links take longer, or carry less */
    LH_SIM_MISCHIEF_BLIND,      /* silence is not noticed; one end alone hears of a break */
    LH_SIM_MISCHIEF_CLOG,       /* links, or all links of a node one after another (swizzle) */
    LH_SIM_MISCHIEF_DRIFT,      /* clock rates; timers that are late */
    LH_SIM_MISCHIEF_WALL,       /* wall clocks jump */
    LH_SIM_MISCHIEF_STALL,      /* a disk does not answer, or slowly */
    LH_SIM_MISCHIEF_FULL,       /* a disk is nearly full */
    LH_SIM_MISCHIEF_IO_ERROR,   /* writes, syncs or reads fail (damage) */
    LH_SIM_MISCHIEF_ROT,        /* bits turn over; a write lands elsewhere (damage) */
    LH_SIM_MISCHIEF_RECALL,     /* an operator moves or releases leases */
    LH_SIM_MISCHIEF_SETTINGS,   /* the master starts again with other terms */
    LH_SIM_MISCHIEF_STORE,      /* a commit of the master's store fails */
    LH_SIM_MISCHIEF_LOSE_DISK,  /* a chunkserver comes back with an empty disk, or never (damage) */
    LH_SIM_MISCHIEF_HANG,       /* the primary of a file stands still, and its clients notice */
    LH_SIM_MISCHIEF_DRAIN,      /* an operator has servers emptied, and changes his mind */
    LH_SIM_MISCHIEF_TRASH,      /* files are removed and restored */
    LH_SIM_MISCHIEF_DEAFEN,     /* no new connections at a node: its descriptors have run out */
    LH_SIM_MISCHIEF_DOZE,       /* the master stands still for about a holder's term */
    LH_SIM_MISCHIEF_ONE_CLIENT, /* a client and a living primary, one way, for long */
    LH_SIM_MISCHIEF_HALF_CLOSE, /* a node says no more on its streams, and listens for ever */
    LH_SIM_MISCHIEF_COUNT
};

struct lh_sim_temper {
    uint32_t weights[LH_SIM_MISCHIEF_COUNT];
    struct lh_sim_range pace;    /* between two deeds; all 0: it rests for ever */
    struct lh_sim_range quiet;   /* of the quiet windows */
    uint32_t quiet_percent;      /* how likely one begins after a deed */
    uint32_t mend_percent;       /* how likely a deed is to mend something instead */
    uint32_t ambush_permille;    /* how likely a grant, a seal, a change of version, a sync, ... is
                                  followed by a deed at that very node within a millisecond */
    int32_t drift_ppm;           /* clocks are set to within this; beyond rho only in such runs */
    struct lh_duration term;     /* about as long as a session: durations are drawn around it */
    struct lh_duration term_min; /* new session terms are at least this long */
    /* The atlas: what the protocol survives. */
    uint32_t drains;         /* so many servers may be drained at a time */
    bool scraps;             /* a machine may be gone for good */
    uint32_t damage_servers; /* so many machines may have replicas spoilt for good */
    uint32_t power_losses;   /* so many machines may lose power; UINT32_MAX: any number */
};

/* Draws a temperament that suits the settings. */
void lh_sim_temper_draw(
    struct lh_sim_temper *temper, const struct lh_sim_settings *settings, struct lh_prng *random);

struct lh_sim_nemesis;

/* Begins to act after its first pause. `did(arg, action)` is told each action that was carried
 * out. */
struct lh_sim_nemesis *lh_sim_nemesis_start(struct lh_sim_cluster *c, struct lh_sim_actor *actor,
    const struct lh_sim_temper *temper, uint64_t seed,
    void (*did)(void *arg, const struct lh_sim_action *action), void *arg);

/* It does nothing more. */
void lh_sim_nemesis_rest(struct lh_sim_nemesis *n);
void lh_sim_nemesis_destroy(struct lh_sim_nemesis *n);

#endif
