/* What a server tells the service manager that started it, if one did: how it does, and that its
 * core goes on. */
#pragma once

#include "runtime/loop.h"

#include <stdbool.h>

struct lh_manager;

/* Where the manager watches, starts a thread that satisfies it as long as the core is stepped
 * (lh_loop_beat()): a core that hangs gets the process killed. It touches nothing else, so that a
 * disk that hangs does not. */
struct lh_manager *lh_manager_start(struct lh_loop *loop);
void lh_manager_stop(struct lh_manager *m);

/* Says how the server does, if that is new; `ready` false: `why`. */
void lh_manager_status(struct lh_manager *m, bool ready, const char *why);

/* The server reads its options again, and has done so. */
void lh_manager_reloading(void);
void lh_manager_reloaded(void);
