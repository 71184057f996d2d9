/* What a server tells the service manager that started it, if one did: how it does, and that its
 * core goes on. */
#pragma once

#include "runtime/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct lh_manager;

/* Starts a thread that looks whether the loop goes on (lh_loop_beat()), and satisfies a manager
 * that watches as long as it does: a loop that hangs gets the process killed. It touches nothing
 * else, so that a disk that hangs does not. One per process. NULL: there is no thread to be had;
 * `why` has a sentence. */
struct lh_manager *lh_manager_start(struct lh_loop *loop, char *why, size_t why_size);
/* NULL is allowed. */
void lh_manager_stop(struct lh_manager *m);

/* Whether the loop has gone on within the last seconds; if not, `why` is a sentence. Any thread, at
 * any time; waits for nothing. */
bool lh_manager_is_live(char *why, size_t why_size);

/* Says how the server does, if that is new; `ready` false: `why`. */
void lh_manager_status(struct lh_manager *m, bool ready, const char *why);

/* The server reads its options again, and has done so. */
void lh_manager_reloading(void);
void lh_manager_reloaded(void);
