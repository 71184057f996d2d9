/* Which master is asked, and the requests that wait until that is known (HA-10). */
#pragma once

#include "base/timers.h"
#include "client/core/link.h"
#include "finder/finder.h"

struct lh_client_ask;

/* One question of a round. */
struct lh_client_active_link {
    struct lh_client *client;
    struct lh_client_link link;
};

struct lh_client_active {
    struct lh_finder finder;
    struct lh_client_active_link links[LH_MASTERS_MAX]; /* by place */
    struct lh_timer timer;                              /* the finder's */
    /* Rounds are for these: */
    struct lh_client_ask *waiting;  /* for a master to be asked */
    struct lh_client_ask *doubting; /* its master has been silent for ask_masters_after */
};

void lh_client_active_init(struct lh_client *c, const struct lh_client_config *config);
/* Ends the round; no request waits any more. */
void lh_client_active_stop(struct lh_client *c);
void lh_client_active_deinit(struct lh_client *c);
void lh_client_active_check(const struct lh_client *c);

/* Whether requests may go to the choice now. */
bool lh_client_active_ready(const struct lh_client *c);

/* It waits until it may; then lh_client_ask_go_on() is called. */
void lh_client_active_wait(struct lh_client *c, struct lh_client_ask *ask);
/* It does not wait, or doubt, any more. */
void lh_client_active_leave(struct lh_client *c, struct lh_client_ask *ask);

/* It has gone to the choice. If others doubt that already, so does this one. */
void lh_client_active_asked(struct lh_client *c, struct lh_client_ask *ask);

/* The master that it asked is silent: another one may act by now, and then
 * lh_client_ask_elsewhere() is called. To be called again while the silence lasts. */
void lh_client_active_doubt(struct lh_client *c, struct lh_client_ask *ask);

/* LH_CALL_KNOWN_MASTERS. */
void lh_client_active_list(struct lh_client *c, struct lh_known_masters_call *call);

/* The choice of that number has answered that to a request of that method. */
void lh_client_active_answered(
    struct lh_client *c, uint64_t choice, enum lh_method method, const void *reply);
