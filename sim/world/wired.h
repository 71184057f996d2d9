/* The wire as the other files of the world know it. Inside sim/world only. */
#pragma once

#include "sim/world/queue.h"
#include "sim/world/world.h"

struct connection;
struct end;

/* How the wire carries links (wire_config.c); bytes, but for what says otherwise. */
struct lh_sim_wire_config {
    bool on;
    uint32_t window, session_window, links_max, message_max, frame_bytes, stage_bytes;
    uint32_t refer_bytes;
    uint64_t alone_bytes, piece_bytes;
    uint64_t capacity; /* of a pipe */
    uint64_t rate;     /* of a pipe, a second; 0: without limit */
    struct lh_duration ping_after, ping_timeout, hello_timeout, request_timeout, unused;
    uint32_t own_per_thousand;   /* of links come with one of the world's own */
    uint32_t going_per_thousand; /* after so many of the links that it serves an end goes away */
};

struct lh_sim_wire_config lh_sim_wire_config_draw(const struct lh_sim_config *world);

void lh_sim_wire_open(struct lh_sim_node *node, const struct lh_effect *e);
void lh_sim_wire_send(struct end *end, struct lh_effect *e);
void lh_sim_wire_close(struct end *end, const struct lh_effect *e);
void lh_sim_wire_hold(struct end *end, bool held);
void lh_sim_wire_event(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_wire_unref(struct connection *c);
void lh_sim_wire_deinit(struct lh_sim *sim);
/* As the functions of links: the process is gone; the ways between two are free again; all breaks,
 * or for `at` alone; nothing has to wait for a slow line any more. */
void lh_sim_wire_drop(struct lh_sim_node *node, bool machine);
void lh_sim_wire_move_on(struct lh_sim_node *a, struct lh_sim_node *b);
void lh_sim_wire_break(struct lh_sim_node *a, struct lh_sim_node *b);
void lh_sim_wire_break_at(struct lh_sim_node *at, struct lh_sim_node *other);
void lh_sim_wire_hurry(struct lh_sim *sim);
