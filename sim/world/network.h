/* The network between nodes: cuts, breaks, delays, limits. */
#pragma once

#include "sim/world/world.h"

/* Nothing arrives from `from` at `to` any more. Both ends of their links notice after a while; what
 * was sent arrives when the cut is healed before that. */
void lh_sim_cut(struct lh_sim_node *from, struct lh_sim_node *to);
void lh_sim_heal(struct lh_sim_node *from, struct lh_sim_node *to);
bool lh_sim_is_cut(const struct lh_sim_node *from, const struct lh_sim_node *to);

/* Both directions; NULL for `b`: from and to all others. */
void lh_sim_isolate(struct lh_sim_node *a, struct lh_sim_node *b);
void lh_sim_rejoin(struct lh_sim_node *a, struct lh_sim_node *b);

/* Every link between them breaks now: an unknown suffix of what was sent is lost, each end hears of
 * it at its own time. */
void lh_sim_break(struct lh_sim_node *a, struct lh_sim_node *b);

/* Every stream of that method that `opener` has opened is half-closed: its peer hears that nothing
 * more comes, and nothing does, whatever the core still says. */
void lh_sim_half_close(struct lh_sim_node *opener, enum lh_method method);

/* Every link between them breaks at `at` alone, as when something in between forgot it: `other`
 * notices only by the silence. */
void lh_sim_break_at(struct lh_sim_node *at, struct lh_sim_node *other);

/* Nothing moves from `from` to `to` until it is unclogged; then all of it arrives. Other than with
 * a cut, the connection is well and nobody notices anything. */
void lh_sim_clog(struct lh_sim_node *from, struct lh_sim_node *to);
void lh_sim_unclog(struct lh_sim_node *from, struct lh_sim_node *to);
bool lh_sim_is_clogged(const struct lh_sim_node *from, const struct lh_sim_node *to);

/* Whether ends of links at `at` ever notice by themselves that `peer` is silent (config.notice). If
 * not, only a call's deadline or news from the peer ends them. At first they do. */
void lh_sim_set_notices(struct lh_sim_node *at, struct lh_sim_node *peer, bool notices);

/* Everything sent from now on takes this much longer. */
void lh_sim_slow(struct lh_sim_node *from, struct lh_sim_node *to, struct lh_duration extra);
struct lh_duration lh_sim_slowed_by(const struct lh_sim_node *from, const struct lh_sim_node *to);

/* All that is sent from now on goes through a line of so many bytes a second, in order, before its
 * delay begins. 0: without limit, as at first. */
void lh_sim_set_bandwidth(
    struct lh_sim_node *from, struct lh_sim_node *to, uint64_t bytes_per_second);

/* Whenever `of` is down, its address is that of `by`: who calls it reaches that one, which has a
 * certificate of its own. */
void lh_sim_take_address(struct lh_sim_node *of, struct lh_sim_node *by);

/* From now on nobody gets a new connection to that node, nor does it get one to anybody:
 * descriptors have run out. What is there goes on. */
void lh_sim_deafen(struct lh_sim_node *node, bool deaf);

/* From now on nobody gets a new connection to that node; it gets them to others. Its address leads
 * nowhere, or what is between lets nothing through. */
void lh_sim_hide(struct lh_sim_node *node, bool hidden);

/* From now on who connects to that node's address gets `to`, which has taken it over. NULL: the
 * node has it again. */
void lh_sim_mislead(struct lh_sim_node *node, struct lh_sim_node *to);

/* No cut, clog, delay or limit between any two any more; everybody notices silence, and nobody is
 * deaf, hidden or misleading. */
void lh_sim_mend_network(struct lh_sim *sim);

/* Messages that have arrived at cores. */
uint64_t lh_sim_delivered(const struct lh_sim *sim);
