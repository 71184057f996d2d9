/* What is going to happen: events ordered by (true time, sequence), so that equal times keep the
 * order in which they were scheduled and a run has one order only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lh_sim_event_kind {
    LH_SIM_EV_TIMER,   /* the node's core may have reached its deadline */
    LH_SIM_EV_DELIVER, /* `about` is a link: the next thing arrives at end `which` */
    LH_SIM_EV_SENT,    /* `about` is a link: what end `which` sent has left */
    LH_SIM_EV_TIMEOUT, /* `about` is a link: the call's deadline has come at its opener */
    LH_SIM_EV_SILENCE, /* `about` is a link: end `which` would by now notice its peer's silence */
    LH_SIM_EV_DISK,    /* `about` is an operation: it completes */
    LH_SIM_EV_COMMIT,  /* `about` is a commit of the metadata store: it completes */
    LH_SIM_EV_CALL,    /* `about` is a call of the program that embeds the core */
    LH_SIM_EV_STOP,    /* the process is asked to end */
    LH_SIM_EV_SCRIPT,  /* `script(arg)` */
    LH_SIM_EV_WIRE,    /* `about` is a connection: `number` happens at side `which` */
};

struct lh_sim_event {
    uint64_t at;
    uint64_t sequence;
    enum lh_sim_event_kind kind;
    uint32_t node; /* whom it concerns; events wait while that node is paused */
    uint64_t life; /* of that node: an event of an earlier life is void */
    uint32_t which;
    uint64_t number;
    void *about;
    void (*script)(void *arg);
};

struct lh_sim_queue_key {
    uint64_t at;
    uint64_t sequence;
    uint32_t slot;
};

struct lh_sim_queue {
    struct lh_sim_queue_key *heap;
    size_t count, capacity;
    struct lh_sim_event *slots;
    size_t slot_count, slot_capacity;
    uint32_t *free_slots;
    size_t free_count, free_capacity;
    uint64_t sequence;
};

/* Gives the event its sequence number. */
void lh_sim_queue_push(struct lh_sim_queue *q, struct lh_sim_event e);

/* The earliest; the queue is not empty. */
struct lh_sim_event lh_sim_queue_pop(struct lh_sim_queue *q);

void lh_sim_queue_deinit(struct lh_sim_queue *q);
