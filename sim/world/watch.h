/* Who looks on while the world runs. A watcher sees what every node is told and what it does, in
 * decoded form and with true time (lh_sim_now()), and changes nothing: a run is the same with any
 * watchers. Observers that check invariants, the narrative, the timeline and the history of calls
 * are watchers.
 *
 * Within one event the order is: takes() for the input; the core steps; does() for each of the
 * step's effects just before it is carried out; stepped(). A node that is paused in the middle of a
 * step carries its effects out when it is resumed: does() and stepped() come then, or never, if it
 * crashes first. A step that ends the process ends with lives() and not with stepped(). */
#pragma once

#include "proto/codec.h"
#include "sim/world/world.h"

enum lh_sim_life {
    LH_SIM_LIFE_STARTED,    /* a process with a new incarnation; no input was fed yet */
    LH_SIM_LIFE_STOPPED,    /* it ended by itself (LH_FX_STOPPED) */
    LH_SIM_LIFE_CRASHED,    /* kill -9; the disk is as the kernel has it */
    LH_SIM_LIFE_POWER_LOST, /* the machine went down, with a process on it or without; the disk is
                               as the next boot will find it */
    LH_SIM_LIFE_PAUSED,
    LH_SIM_LIFE_RESUMED,  /* what waited has not happened yet */
    LH_SIM_LIFE_MOUNTED,  /* the disk is as it was written, and the machine was up all the time */
    LH_SIM_LIFE_RESTORED, /* its metadata store is an older one (lh_sim_store_restore()) */
};

/* One input or effect, with what the bare structs do not show. */
struct lh_sim_sight {
    struct lh_sim_node *node;       /* whose input or effect it is */
    const struct lh_input *input;   /* takes(); NULL in does() */
    const struct lh_effect *effect; /* does(); NULL in takes() */
    /* Of everything about a link (opened, message, closed; open, send, close, hold, unhold); else,
     * and when the link of an effect is closed already, 0 and NULL. */
    uint64_t link; /* the world's number of the link: the same at both ends, never used twice */
    enum lh_method method;
    struct lh_sim_node *peer;        /* the other end; NULL if its name names nobody */
    enum lh_direction direction;     /* of a message: LH_REQUEST goes to the server */
    const ProtobufCMessage *message; /* decoded, without its payload; NULL: it is no message */
    const struct lh_buf *payload;    /* of the message; NULL with it */
};

/* Pointers that a function is given are good until it returns. */
struct lh_sim_watcher {
    void *arg;
    /* Each may be NULL. */
    void (*takes)(void *arg, const struct lh_sim_sight *sight);
    void (*does)(void *arg, const struct lh_sim_sight *sight);
    void (*stepped)(void *arg, struct lh_sim_node *node);
    void (*lives)(void *arg, struct lh_sim_node *node, enum lh_sim_life what);
    /* A disk operation has taken effect in the kernel's view (lh_sim_file()) and, for a sync, on
     * the platter (lh_sim_platter()); the process is told next. `length`: the bytes of a write that
     * were asked for, of a read that were there, the new one of a truncated file. `error`: what the
     * process is told, or LH_ERR_CLOSED when nobody is told, because it is gone or because the disk
     * did it by itself; of a sync that fails always why, since what it covered counts as clean. Not
     * called for what a power loss does (lives()). */
    void (*disk)(void *arg, struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
        uint64_t offset, uint64_t length, int error);
    /* A commit of the metadata store has taken effect. */
    void (*committed)(void *arg, struct lh_sim_node *node);
    /* A line of lh_sim_note(): what was done to the world, in words. */
    void (*noted)(void *arg, const char *text);
};

/* Watchers are told in the order in which they were added. Copied; there until the world is
 * destroyed, which they do not hear of. Not from within a watcher. */
void lh_sim_watch(struct lh_sim *sim, const struct lh_sim_watcher *watcher);
