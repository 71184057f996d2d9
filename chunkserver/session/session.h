/* The session with the master: the lease that covers all the others (SES-1 to SES-6). And what the
 * master commands within it. */
#pragma once

#include "chunkserver/serve/serve.h"

struct lh_cs_session;

/* Links on which somebody asks who this is (SES-8). */
extern const struct lh_cs_link_user lh_cs_identify_links;

struct lh_cs_session *lh_cs_session_create(struct lh_cs_host *cs, struct lh_cs_logs *logs,
    struct lh_cs_primaries *primaries, struct lh_cs_serving *serving);
void lh_cs_session_destroy(struct lh_cs_session *s);

/* All logs are read back: registers. */
void lh_cs_session_start(struct lh_cs_session *s);
void lh_cs_session_close(struct lh_cs_session *s);
/* Before that: true while the master may not have got everything that was sent, the releases above
 * all. Closing an opened link can lose it; the stream is ordered, so the answer to a last heartbeat
 * says that it has arrived. */
bool lh_cs_session_final_heartbeat(struct lh_cs_session *s);
/* This process has slept: the master was not silent for as long as the clock says. */
void lh_cs_session_discount_pause(struct lh_cs_session *s, struct lh_duration slept);
/* The disk does not answer, and every lease was given up (SES-6). */
bool lh_cs_session_is_failing(const struct lh_cs_session *s);
/* Of one that is failing: what it has can be read (REC-8). */
bool lh_cs_session_is_read_only(const struct lh_cs_session *s);
/* As lh_finder_trouble(). */
bool lh_cs_session_trouble(const struct lh_cs_session *s, char *text);
