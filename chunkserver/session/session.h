/* The session with the master: the lease that covers all the others (SES-1 to SES-6). */
#pragma once

#include "chunkserver/serve/serving.h"

struct lh_cs_session {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;
    struct lh_cs_primaries *primaries;
    struct lh_cs_serving *serving;

    char *cluster_id;
    size_t master;            /* index of the address in use */
    struct {                  /* registration.c: the one under way, or the last one (SES-1a) */
        uint64_t number;      /* 0: there was none */
        uint64_t pieces;      /* sent */
        uint64_t next;        /* replicas from this number on were not shown yet */
        uint64_t first, last; /* stamps of its pieces */
    } registration;
    uint64_t last_stamp; /* of the last answer received (SES-4) */
    uint64_t farewell;   /* the last heartbeat's, before a clean stop; 0: not sent */
    struct lh_instant answered_at;
    struct lh_instant forgiven; /* `answered_at` as a pause of ours has moved it */
    struct lh_duration heartbeat;
    struct lh_instant heartbeat_at; /* the next one is due */
    struct lh_instant retry_at;     /* there is no session */
    struct lh_duration backoff;
    struct lh_instant unreachable_logged; /* last; 0: not in this outage */
    struct lh_timer timer;
    struct {          /* probe.c */
        bool failing; /* SES-6: every lease was given up */
        bool probing;
        bool failed; /* with an error; not `probing` any more */
        bool created;
    } disk;
};

void lh_cs_session_init(
    struct lh_cs_session *s, struct lh_cs_primaries *primaries, struct lh_cs_serving *serving);
void lh_cs_session_deinit(struct lh_cs_session *s);

/* All logs are read back: registers. */
void lh_cs_session_start(struct lh_cs_session *s);
void lh_cs_session_close(struct lh_cs_session *s);
/* Before that: true while the master may not have got everything that was sent, the releases above
 * all. Closing an opened link can lose it; the stream is ordered, so the answer to a last heartbeat
 * says that it has arrived. */
bool lh_cs_session_farewell(struct lh_cs_session *s);
