/* `leasehold top`: asks the masters, now and then, in a thread of its own: a master that does not
 * answer must not keep the terminal waiting. */
#pragma once

#include "client/command/top.h"

/* Asks once, in the caller's thread: each call for at most `timeout_ms`. Locks are looked at for
 * the view of locks alone. */
struct lh_top_sample *lh_top_ask(
    struct lh_cluster *cluster, enum lh_top_view view, uint64_t timeout_ms);

struct lh_top_feed;

/* NULL: no thread or descriptor can be had. It goes on until the process ends, which may happen in
 * the middle of a call: nothing is changed by any. */
struct lh_top_feed *lh_top_feed_start(
    struct lh_cluster *cluster, enum lh_top_view view, uint64_t interval_ms, uint64_t timeout_ms);
/* Readable when there is a sample to take. */
int lh_top_feed_fd(const struct lh_top_feed *feed);
/* The newest sample that was not taken yet, which is the caller's then; NULL: none. */
struct lh_top_sample *lh_top_feed_take(struct lh_top_feed *feed);
/* For which view it asks; asks at once if that changes what it asks for. */
void lh_top_feed_view(struct lh_top_feed *feed, enum lh_top_view view);
void lh_top_feed_pause(struct lh_top_feed *feed, bool pause);
