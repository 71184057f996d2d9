/* Appenders (APP-4, APP-5): each one writer's way from chunk to chunk; and the streams, one to each
 * server, that carry what they append. */
#pragma once

#include "client/core/names/names.h"

struct lh_client_appenders;

struct lh_client_appenders *lh_client_appenders_create(
    struct lh_client_host *c, struct lh_client_names *names);
/* All have ended, and the streams. */
void lh_client_appenders_destroy(struct lh_client_appenders *all);
void lh_client_appenders_check(const struct lh_client_appenders *all);

void lh_client_appender_open(struct lh_client_appenders *all, struct lh_appender_open_call *call);
void lh_client_appender_close(struct lh_appender_close_call *call);
void lh_client_appender_submit(struct lh_submit_call *call);
void lh_client_appenders_end(struct lh_client_appenders *all, bool complete);

/* Ends a step: sends what gathered in it, ends lanes that all have left. */
void lh_client_appenders_flush(struct lh_client_appenders *all);
/* Closes all streams; no writer is on a lane. */
void lh_client_appenders_end_streams(struct lh_client_appenders *all);
