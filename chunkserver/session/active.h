/* Which master this server registers with (HA-10). */
#pragma once

#include "base/step.h"
#include "base/timers.h"
#include "finder/finder.h"

struct lh_cs_session;

struct lh_cs_active_master {
    struct lh_finder finder;
    uint64_t links[LH_MASTERS_MAX];   /* the questions of a round, by place; 0: none */
    struct lh_timer timer;            /* the finder's */
    struct lh_timer silence;          /* set while a heartbeat is unanswered: ask others then */
    struct lh_instant trouble_logged; /* last; 0: never */
    uint64_t choice; /* that the session's link goes or went to, last: its number ... */
    char *address;   /* ... and where it is */
};

void lh_cs_active_init(struct lh_cs_session *s);
void lh_cs_active_deinit(struct lh_cs_session *s);
/* Nothing is asked any more. */
void lh_cs_active_stop(struct lh_cs_session *s);

/* There is none to connect to yet: all are asked first. */
bool lh_cs_active_seeks(struct lh_cs_session *s);
/* The address to connect to, taken note of. */
const char *lh_cs_active_take(struct lh_cs_session *s);
/* The session's link is over, or its master has refused this server. */
void lh_cs_active_failed(struct lh_cs_session *s, int error);
/* Its master has named its cluster ("": it did not). False: another one than this server's. */
bool lh_cs_active_is_ours(struct lh_cs_session *s, const char *cluster);
/* It has registered this server. */
void lh_cs_active_registered(struct lh_cs_session *s, const Leasehold__Registered *m);
/* It was sent a heartbeat, and has answered the last one. */
void lh_cs_active_heartbeat(struct lh_cs_session *s);
void lh_cs_active_answered(struct lh_cs_session *s);

/* session.c: another choice was made, or the same one again. */
void lh_cs_session_chosen(struct lh_cs_session *s);
