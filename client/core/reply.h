/* What the servers' replies have in common, and telling a caller how his call has ended. */
#pragma once

#include "client/core/client.h"

/* The error and text fields that every reply has; `*text` is never NULL. */
int lh_client_reply_error(const void *reply, const char **text);

/* What a program hears of that error, if it hears of it: it can do nothing about a capability that
 * nobody takes (ACC-5), which is as good as a server that is not there. */
int lh_client_reason(int error);

/* A message of the caller's own, to be freed with lh_wire_free(). */
ProtobufCMessage *lh_client_copy_message(const ProtobufCMessage *m);

void lh_client_complete(struct lh_client *c, struct lh_call *call, int error, const char *text);
