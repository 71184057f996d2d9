/* Which master is asked, and who waits until that is known (HA-10). */
#pragma once

#include "base/timers.h"
#include "client/core/link.h"
#include "finder/finder.h"
#include "proto/leasehold.pb-c.h"

/* Whoever talks to the active master: a request, a session, a watch. Lives inside its owner. */
struct lh_client_seeker {
    uint64_t choice; /* the finder's number of the master that was chosen last, ... */
    char *address;   /* ... where that is (NULL: there was none), ... */
    uint64_t reign;  /* ... and its reign, as far as is known; 0: not */
    struct lh_client_seeker **list;       /* NULL, or one of those below, ... */
    struct lh_client_seeker *prev, *next; /* ... with these */
    /* It waited, and may go to a master now: lh_client_active_choose(). */
    void (*go_on)(struct lh_client_seeker *seeker);
    /* Its master is silent, or its reign is over, and another one has been found to act. */
    void (*elsewhere)(struct lh_client_seeker *seeker);
};

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
    struct lh_client_seeker *waiting;     /* for a master to be asked */
    struct lh_client_seeker *doubting;    /* its master, the choice, has been silent for a while */
    struct lh_client_seeker *moved;       /* likewise, and the choice is another one by now */
    struct lh_client_seeker *attached;    /* has a stream on which nothing is asked now */
    uint64_t judged_choice, judged_reign; /* by which it was decided who of them is where */
    char *refused; /* why a master would not say who acts; NULL: none, or one has said it since */
};

void lh_client_active_init(struct lh_client *c, const struct lh_client_config *config);
/* Ends the round; no request waits any more. */
void lh_client_active_stop(struct lh_client *c);
void lh_client_active_deinit(struct lh_client *c);
void lh_client_active_check(const struct lh_client *c);

/* Whether requests may go to the choice now. */
bool lh_client_active_ready(const struct lh_client *c);

/* It goes to the choice. */
void lh_client_active_choose(struct lh_client *c, struct lh_client_seeker *seeker);
/* It has gone there. If others doubt the choice already, so does this one. */
void lh_client_active_asked(struct lh_client *c, struct lh_client_seeker *seeker);
/* It has a stream there that stays, and whatever was asked on it is answered: it is called
 * elsewhere() when a master of a higher reign is chosen, whoever found that one. */
void lh_client_active_attached(struct lh_client *c, struct lh_client_seeker *seeker);
/* It waits until it may; then its go_on() is called. */
void lh_client_active_wait(struct lh_client *c, struct lh_client_seeker *seeker);
/* It does not wait, or doubt, any more. */
void lh_client_active_leave(struct lh_client *c, struct lh_client_seeker *seeker);
/* Leaves, and is freed. */
void lh_client_active_forget(struct lh_client *c, struct lh_client_seeker *seeker);

/* The master that it chose is silent: another one may act by now, and then its elsewhere() is
 * called. To be called again while the silence lasts. */
void lh_client_active_doubt(struct lh_client *c, struct lh_client_seeker *seeker);

/* The master that it chose did not answer, or has refused as one that does not act. */
void lh_client_active_failed(struct lh_client *c, const struct lh_client_seeker *seeker, int error);
/* Whether there is another choice by now, or none: then no pause is needed the first time. */
bool lh_client_active_moved(const struct lh_client *c, const struct lh_client_seeker *seeker);
/* The master that it chose acts, in that reign (0: it did not say). */
void lh_client_active_acts(
    struct lh_client *c, const struct lh_client_seeker *seeker, uint64_t reign);

/* LH_CALL_KNOWN_MASTERS. */
void lh_client_active_list(struct lh_client *c, struct lh_known_masters_call *call);

/* The master that it chose has named its cluster ("": it did not). False: another one than this
 * client's (SES-10). */
bool lh_client_active_is_ours(
    struct lh_client *c, const struct lh_client_seeker *seeker, const char *cluster);

/* As calls name this client's cluster. */
uint64_t lh_client_active_cluster(const struct lh_client *c);

/* Likewise, by what it greets a session with. */
void lh_client_active_greeted(
    struct lh_client *c, struct lh_client_seeker *seeker, const Leasehold__Greeting *greeting);

/* The master that it chose has answered that to a request of that method. */
void lh_client_active_answered(struct lh_client *c, const struct lh_client_seeker *seeker,
    enum lh_method method, const void *reply);
