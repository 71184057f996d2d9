/* Who breaks things. Its mix of faults is drawn per seed (a swarm: in one run only links break, in
 * another machines crash all the time), it is more likely to act while something is pending, leaves
 * quiet windows, and stays within what the protocol can survive (the atlas) unless told otherwise.
 * Everything that it does is an action that can be written down and done again without it. */
#pragma once

#include "sim/cluster/cluster.h"
#include "sim/scenario/actor.h"
#include "sim/scenario/settings.h"

/* Kinds of faults: what each does stands at its function, lh_sim_fault_NAME(). Each has a weight of
 * its own in a run, often 0. */
#define LH_SIM_FAULTS(F)                                                                           \
    F(CRASH, crash)                                                                                \
    F(RESTART, restart)                                                                            \
    F(POWER, power)                                                                                \
    F(RACK, rack)                                                                                  \
    F(MASTER, master)                                                                              \
    F(CLIENT, client)                                                                              \
    F(PAUSE, pause)                                                                                \
    F(STOP, stop)                                                                                  \
    F(ISOLATE, isolate)                                                                            \
    F(PARTITION, partition)                                                                        \
    F(ONE_WAY, one_way)                                                                            \
    F(PRIMARY_CUT, primary_cut)                                                                    \
    F(OUTLIVE, outlive)                                                                            \
    F(CLIENT_APART, client_apart)                                                                  \
    F(LATE, late)                                                                                  \
    F(BREAK, break)                                                                                \
    F(SLOW, slow)                                                                                  \
    F(BLIND, blind)                                                                                \
    F(CLOG, clog)                                                                                  \
    F(DRIFT, drift)                                                                                \
    F(WALL, wall)                                                                                  \
    F(STALL, stall)                                                                                \
    F(FULL, full)                                                                                  \
    F(IO_ERROR, io_error)                                                                          \
    F(ROT, rot)                                                                                    \
    F(RECALL, recall)                                                                              \
    F(SETTINGS, settings)                                                                          \
    F(STORE, store)                                                                                \
    F(LOSE_DISK, lose_disk)                                                                        \
    F(PRIMARY_PAUSE, primary_pause)                                                                \
    F(DRAIN, drain)                                                                                \
    F(TRASH, trash)                                                                                \
    F(DEAF, deaf)                                                                                  \
    F(MASTER_PAUSE, master_pause)                                                                  \
    F(CLIENT_ONE_WAY, client_one_way)                                                              \
    F(HALF_CLOSE, half_close)                                                                      \
    F(ROTTEN_END, rotten_end)                                                                      \
    F(SHUT_DOWN, shut_down)                                                                        \
    LH_SIM_FAULTS_OF_STRANGERS(F)                                                                  \
    LH_SIM_FAULTS_OF_MASTERS(F)                                                                    \
    LH_SIM_FAULTS_OF_LEASES(F)

/* Of strangers with certificates. */
#define LH_SIM_FAULTS_OF_STRANGERS(F) F(ROLES, roles)

/* Of programs with leases, and what they say to the master. */
#define LH_SIM_FAULTS_OF_LEASES(F)                                                                 \
    F(LEASE_BREAK, lease_break)                                                                    \
    F(LEASE_CUT, lease_cut)                                                                        \
    F(LEASE_SLEEP, lease_sleep)                                                                    \
    F(LEASE_LATE, lease_late)                                                                      \
    F(LEASE_EDGE, lease_edge)                                                                      \
    F(LEASE_RESTART, lease_restart)                                                                \
    F(LEASE_KILL, lease_kill)                                                                      \
    F(LEASE_CLOG, lease_clog)                                                                      \
    F(LEASE_STALE, lease_stale)                                                                    \
    F(LEASE_AGED, lease_aged)

/* Of masters that share an etcd, and of that; in the order in which they came to be. */
#define LH_SIM_FAULTS_OF_MASTERS(F)                                                                \
    F(ACTIVE_KILL, active_kill)                                                                    \
    F(ACTIVE_PAUSE, active_pause)                                                                  \
    F(ACTIVE_RESIGN, active_resign)                                                                \
    F(ACTIVE_CUT, active_cut)                                                                      \
    F(ACTIVE_LATE, active_late)                                                                    \
    F(STANDBY, standby)                                                                            \
    F(ETCD_DOWN, etcd_down)                                                                        \
    F(ETCD_MAJORITY, etcd_majority)                                                                \
    F(ETCD_CUT, etcd_cut)                                                                          \
    F(ETCD_QUORUM, etcd_quorum)                                                                    \
    F(ETCD_ERRORS, etcd_errors)                                                                    \
    F(ETCD_LATE, etcd_late)                                                                        \
    F(ETCD_LAG, etcd_lag)                                                                          \
    F(ETCD_WATCHES, etcd_watches)                                                                  \
    F(ETCD_COMPACT, etcd_compact)                                                                  \
    F(ETCD_FULL, etcd_full)                                                                        \
    F(ETCD_ELECTION, etcd_election)                                                                \
    F(ETCD_DAMAGE, etcd_damage)                                                                    \
    F(ASTRAY, astray)                                                                              \
    F(ACTIVE_APART, active_apart)

enum lh_sim_fault {
#define KIND(NAME, name) LH_SIM_FAULT_##NAME,
    LH_SIM_FAULTS(KIND)
#undef KIND
        LH_SIM_FAULT_COUNT
};

/* So many are drawn for every run; those behind them only where strangers have certificates ... */
#define LH_SIM_FAULTS_EVERYWHERE ((int)LH_SIM_FAULT_ROLES)
/* ... and from here on only where masters share an etcd. */
#define LH_SIM_FAULTS_BUT_MASTERS ((int)LH_SIM_FAULT_ACTIVE_KILL)
/* Those behind these only where programs have leases. */
#define LH_SIM_FAULTS_BUT_LEASES ((int)LH_SIM_FAULT_LEASE_BREAK)

struct lh_sim_fault_mix {
    uint32_t weights[LH_SIM_FAULT_COUNT];
    struct lh_sim_range pace;    /* between two faults; all 0: it rests for ever */
    struct lh_sim_range quiet;   /* of the quiet windows */
    uint32_t quiet_percent;      /* how likely one begins after a fault */
    uint32_t mend_percent;       /* how likely something is mended instead */
    uint32_t targeted_permille;  /* how likely a grant, a seal, a change of version, a sync, ... is
                                  followed by a fault at that very node within a millisecond */
    uint32_t starts_percent;     /* how likely a chunkserver that starts goes down again at one of
                                  * the first changes that it makes to its disk */
    int32_t drift_ppm;           /* clocks are set to within this; beyond rho only in such runs */
    struct lh_duration term;     /* about as long as a session: durations are drawn around it */
    struct lh_duration term_min; /* new session terms are at least this long */
    struct lh_duration reign;    /* T_reign; 0: masters share nothing */
    struct lh_duration lease;    /* about as long as a program's session; 0: there are none */
    uint32_t readers;            /* strangers that may read, by the table of roles */
    /* The atlas: what the protocol survives. */
    uint32_t drains;         /* so many servers may be drained at a time */
    bool scraps;             /* a machine may be gone for good */
    uint32_t damage_servers; /* so many machines may have replicas spoilt for good */
    uint32_t power_losses;   /* so many machines may lose power; UINT32_MAX: any number */
};

/* Draws a mix that suits the settings. */
void lh_sim_fault_mix_draw(
    struct lh_sim_fault_mix *mix, const struct lh_sim_settings *settings, struct lh_prng *random);

/* Adds what can befall masters that share an etcd, for settings that have one. */
void lh_sim_fault_mix_draw_masters(
    struct lh_sim_fault_mix *mix, const struct lh_sim_settings *settings, struct lh_prng *random);

/* Adds what can befall programs with leases. */
void lh_sim_fault_mix_draw_leases(
    struct lh_sim_fault_mix *mix, const struct lh_sim_settings *settings, struct lh_prng *random);

struct lh_sim_nemesis;

/* Begins to act after its first pause. `did(arg, action)` is told each action that was carried
 * out. */
struct lh_sim_nemesis *lh_sim_nemesis_start(struct lh_sim_cluster *c, struct lh_sim_actor *actor,
    const struct lh_sim_fault_mix *mix, uint64_t seed,
    void (*did)(void *arg, const struct lh_sim_action *action), void *arg);

/* It does nothing more. */
void lh_sim_nemesis_rest(struct lh_sim_nemesis *n);
void lh_sim_nemesis_destroy(struct lh_sim_nemesis *n);
