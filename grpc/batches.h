/* The batches of a link. Each function starts one, without the link's lock; the caller has counted
 * it as in flight. */
#pragma once

#include <stdbool.h>

struct lh_rpc_link;
struct queued;

void lh_rpc_link_create_call(struct lh_rpc_link *link);

/* The batch that waits for an opened link's end. */
void lh_rpc_link_await_status(struct lh_rpc_link *link);

/* Starts the next send batch: a message, the status, or both. `last`: nothing is queued behind it.
 * Takes over `q`, which is NULL when there is only a status to send. */
void lh_rpc_link_start_send(
    struct lh_rpc_link *link, struct queued *q, bool last, bool status, bool initial);

void lh_rpc_link_start_read(struct lh_rpc_link *link);

/* Begins to wait for the peer's end of a served link, which it counts itself. */
void lh_rpc_link_await_end(struct lh_rpc_link *link);
