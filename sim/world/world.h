/* A small deterministic world in which cores live: true time, clocks that drift, a network that
 * delays and breaks, disks that forget what was not synced, a metadata store with latency. It does
 * for a core everything that the driver contract of base/step.h asks of a driver, and nothing more:
 * no core knows that it is here.
 *
 * One thread; one queue of events; integers only. The same seed and the same calls give the same
 * run, and lh_sim_hash() tells two runs apart. Nothing happens but inside lh_sim_run*() and the
 * calls below; a core is never stepped from within another core's step.
 *
 * True time, in ns from the world's start, exists for the world and for observers alone: nodes get
 * their own clocks. */
#pragma once

#include "base/prng.h"
#include "base/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct lh_sim;
struct lh_sim_node;

#define LH_SIM_NODES_MAX 64

/* A duration drawn evenly from [min, max]. */
struct lh_sim_range {
    struct lh_duration min, max;
};

/* What sometimes comes on top of a duration: one in so many times, up to `most`, and the longer the
 * rarer. */
struct lh_sim_tail {
    uint32_t per_million; /* 0: never */
    struct lh_duration most;
};

struct lh_sim_config {
    uint64_t seed;
    struct lh_sim_range delay;     /* of a message, one way */
    struct lh_sim_tail delay_tail; /* of one that had to be sent again */
    struct lh_sim_range notice;    /* until an end of a link notices that its peer's machine is
                                      silent, or that nothing answers where it wants to connect */
    uint64_t piece_bytes;          /* of larger payloads the receiver hears while they come ... */
    struct lh_duration progress_interval;  /* ... this often at most; 0: of each piece */
    uint64_t wire; /* 0: links are carried as messages. Others: by the machines of wire/, over
                      pipes of bytes; 1: all is as shipped, more: sizes are drawn from it */
    struct lh_sim_range write, sync, read; /* disk; everything that is neither sync nor read counts
                                              as a write */
    struct lh_sim_range commit;            /* metadata store */
    struct lh_sim_tail disk_tail;          /* of any of these */
    struct lh_duration timer_late; /* timers fire up to this late: lh_sim_set_timer_late() */
    uint32_t check_every; /* a role's check() is called after every so many steps of a node, and
                             less often of one that keeps much; 1, the default: after each. Walking
                             a core costs more than a step of it. */
};

/* A local network and a fast disk. */
struct lh_sim_config lh_sim_config_default(uint64_t seed);

/* What kind of node it is. `arg` is what was given to lh_sim_add(). */
struct lh_sim_role {
    /* A process starts: makes a core out of what the machine has kept (lh_sim_incarnation(),
     * lh_sim_boot(), lh_sim_files(), lh_sim_store_get(), ...). False: it could not; `core` is not
     * touched and the node stays down. */
    bool (*start)(void *arg, struct lh_sim_node *node, struct lh_core *core);
    /* After every step, or every few (check_every): walks the core's own invariants. May be
     * NULL. */
    void (*check)(void *arg, void *self);
    /* The process is gone. */
    void (*destroy)(void *arg, void *self);
    /* LH_FX_COMPLETE. May be NULL for a core that completes no calls. */
    void (*completed)(void *arg, struct lh_sim_node *node, void *call, int error);
    /* The process ended with calls that were given to it and neither completed nor delivered. May
     * be NULL. */
    void (*abandoned)(void *arg, struct lh_sim_node *node, void *call);
};

struct lh_sim *lh_sim_create(const struct lh_sim_config *config);
void lh_sim_destroy(struct lh_sim *sim);

/* A machine with nothing running on it yet. Its name is its address. Strings are copied; `role` and
 * `arg` live as long as the world. The clock starts anywhere within the first hour of its machine,
 * and without rate error. */
struct lh_sim_node *lh_sim_add(
    struct lh_sim *sim, const char *name, const struct lh_sim_role *role, void *arg);

/* Who it is to others, by a certificate (base/step.h); "" if nothing is said. Before it runs. */
void lh_sim_identify(struct lh_sim_node *node, const char *identity);
const char *lh_sim_identity(const struct lh_sim_node *node);

size_t lh_sim_node_count(const struct lh_sim *sim);
struct lh_sim_node *lh_sim_node(struct lh_sim *sim, size_t index);
struct lh_sim_node *lh_sim_find(struct lh_sim *sim, const char *name); /* NULL: no such node */

/* ---- Time ---- */

uint64_t lh_sim_now(const struct lh_sim *sim); /* true ns */

/* Lets one event happen, or come to nothing. False: there is none, or something went wrong
 * (lh_sim_failure()). */
bool lh_sim_run_one(struct lh_sim *sim);

/* Lets everything happen that is due until then; true time is then exactly that. Returns early when
 * something went wrong. */
void lh_sim_run_for(struct lh_sim *sim, struct lh_duration d);

/* Runs until `met(arg)`, asked after every event, for at most `bound` of true time. True: it was
 * met. */
bool lh_sim_run_until(
    struct lh_sim *sim, bool (*met)(void *arg), void *arg, struct lh_duration bound);

/* Calls `script(arg)` at that moment from now. It may do anything that a caller may do but run. */
void lh_sim_at(
    struct lh_sim *sim, struct lh_duration from_now, void (*script)(void *arg), void *arg);

/* Everything that has happened, in one number: every event, input and effect, and the bytes of
 * messages and of disk operations. */
uint64_t lh_sim_hash(const struct lh_sim *sim);
uint64_t lh_sim_events(const struct lh_sim *sim);

/* Streams of numbers, each of them a function of the seed alone: who draws more from one changes
 * nothing about what others draw. The world draws from the first three. */
enum lh_sim_stream {
    LH_SIM_NETWORK,
    LH_SIM_DISK,
    LH_SIM_CLOCKS,
    LH_SIM_WORKLOAD,
    LH_SIM_NEMESIS,
    LH_SIM_OTHERS, /* tests; seeds of cores */
    LH_SIM_ETCD,   /* sim/etcd */
    LH_SIM_WIRE,
    LH_SIM_STREAMS
};

struct lh_prng *lh_sim_stream(struct lh_sim *sim, enum lh_sim_stream which);

/* LH_SIM_OTHERS. */
struct lh_prng *lh_sim_random(struct lh_sim *sim);

/* ---- Failures ---- */

/* Something is not as it must be: keeps the first such failure, with the moment, and stops the run.
 * `rule`, a string that lives as long as the world, says what was broken: "INV-1" to "INV-10",
 * "history" (what programs saw), or "check" (a core's or the world's own). `chunk`: 0 when it is
 * about no single one. */
void lh_sim_fail(struct lh_sim *sim, const char *rule, uint64_t chunk, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "INV-3 at 1234.567 ms: ..."; NULL: nothing has gone wrong. */
const char *lh_sim_failure(const struct lh_sim *sim);

/* Of a world with a failure: */
const char *lh_sim_failed_rule(const struct lh_sim *sim);
uint64_t lh_sim_failed_at(const struct lh_sim *sim); /* true ns */
uint64_t lh_sim_failed_chunk(const struct lh_sim *sim);

/* One line to `to` for each input and effect; NULL switches it off. */
void lh_sim_trace_to(struct lh_sim *sim, FILE *to);

/* Says in words what is done to the world, to the trace and to watchers. */
void lh_sim_note(struct lh_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Nodes ---- */

const char *lh_sim_name(const struct lh_sim_node *node);
struct lh_sim *lh_sim_of(struct lh_sim_node *node);
bool lh_sim_is_up(const struct lh_sim_node *node);
bool lh_sim_is_paused(const struct lh_sim_node *node);

/* The core's `self`, NULL while the node is down. */
void *lh_sim_core(const struct lh_sim_node *node);

/* Starts a process with a new incarnation. Nothing happens if it is up. */
void lh_sim_start(struct lh_sim_node *node);

/* kill -9: what the process wrote is in the kernel's hands and stays; what was under way may be
 * done, torn or not done. Its peers notice soon. */
void lh_sim_crash(struct lh_sim_node *node);

/* The machine goes down: of what was not synced, any subset is kept, and torn. Its peers notice
 * only by its silence. lh_sim_start() boots it with a new boot id. */
void lh_sim_power_loss(struct lh_sim_node *node);

/* The process does nothing until it is resumed; its clock, its disk and its connections go on. */
void lh_sim_pause(struct lh_sim_node *node);

/* As lh_sim_pause(), in the middle of the next step: the core has decided, but nothing of what it
 * wants is carried out before it is resumed (TIME-5). */
void lh_sim_pause_in_step(struct lh_sim_node *node);

/* Also takes back a lh_sim_pause_in_step() that has not happened yet. */
void lh_sim_resume(struct lh_sim_node *node);

/* Asks the process to end (LH_IN_STOP); it is down when it says LH_FX_STOPPED. */
void lh_sim_stop(struct lh_sim_node *node);

/* What the last LH_FX_STOPPED said; LH_ERR_CLOSED when there was none since the last start. */
int lh_sim_stopped_with(const struct lh_sim_node *node);

/* Feeds LH_IN_CALL; the node is up. */
void lh_sim_call(struct lh_sim_node *node, void *call);

/* The machine is gone for good: a process on it ends as by lh_sim_power_loss(), and none is ever
 * started again. */
void lh_sim_scrap(struct lh_sim_node *node);
bool lh_sim_is_scrapped(const struct lh_sim_node *node);

/* How often a process was started here, kept by the machine: 1 while the first one runs. */
uint64_t lh_sim_incarnation(const struct lh_sim_node *node);
/* The one that its directory has: that of a process before if this one could not write its own
 * (REC-8). */
uint64_t lh_sim_stored_incarnation(const struct lh_sim_node *node);
/* For so long no start of it can write its incarnation down. */
void lh_sim_keep_incarnation(struct lh_sim_node *node, struct lh_duration hold);

/* How often the machine was booted. Each boot has another clock, ahead of the last one's. */
uint64_t lh_sim_boot(const struct lh_sim_node *node);

/* In what the kernel keeps files' bytes: another number after each boot and each mount. */
uint64_t lh_sim_memory(const struct lh_sim_node *node);

/* ---- Clocks ---- */

/* What the node's clock shows now. */
struct lh_instant lh_sim_clock(const struct lh_sim_node *node);

/* From now on it gains exactly `rate_ppm` ns in each true ms; above -1,000,000. */
void lh_sim_set_rate(struct lh_sim_node *node, int32_t rate_ppm);
int32_t lh_sim_rate(const struct lh_sim_node *node);

/* Its wall clock jumps. */
void lh_sim_set_wall(struct lh_sim_node *node, uint64_t wall_ms);
uint64_t lh_sim_wall(const struct lh_sim_node *node);

/* Its timers from now on fire up to this late. */
void lh_sim_set_timer_late(struct lh_sim_node *node, struct lh_duration most);

/* The most that a timer of that node was ever late. */
struct lh_duration lh_sim_timer_latest(const struct lh_sim_node *node);
