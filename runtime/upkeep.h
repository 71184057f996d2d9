/* What a server does again and again beside its core, in a thread of its own: it may touch a disk
 * that hangs, or options on one, and the main thread is left to signals. */
#pragma once

#include "runtime/manager.h"
#include "runtime/server.h"

struct lh_upkeep;

/* Starts a thread that calls `update` and `ready` of the server about every LH_SERVER_UPDATE_MS,
 * and tells the manager. What is pointed to must stay. NULL: there is no thread to be had; `why`
 * has a sentence. */
struct lh_upkeep *lh_upkeep_start(
    const struct lh_server *server, struct lh_manager *manager, char *why, size_t why_size);

/* Has `reload` called soon, by the thread. */
void lh_upkeep_reload(struct lh_upkeep *upkeep);

/* Ends the thread; waits for what it is about. NULL is allowed. */
void lh_upkeep_stop(struct lh_upkeep *upkeep);

/* The process is ending, and ends after `most` whatever hangs: a disk, the core, a library. What
 * was answered is durable by then, and the rest is as after a crash. */
void lh_upkeep_end_within(const char *component, struct lh_duration most);
