/* One writer's way from chunk to chunk: the calls on appenders. */
#pragma once

#include "client/core/state.h"

void lh_client_appender_open(struct lh_client *c, struct lh_appender_open_call *call);
void lh_client_appender_close(struct lh_appender_close_call *call);
void lh_client_appender_submit(struct lh_submit_call *call);
/* opening.c: the client has created that file; whoever opens it next will append to it. */
void lh_client_opening_expect(struct lh_client *c, const char *path);
void lh_client_opening_expect_none(struct lh_client *c);
void lh_client_appenders_end(struct lh_client *c, bool complete);
void lh_client_appenders_check(const struct lh_client *c);
