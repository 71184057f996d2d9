/* What a server tells the service manager that started it, if one did: that it is up, how it does,
 * and that its core goes on. */
#pragma once

#include "base/time.h"
#include "runtime/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_manager {
    struct lh_loop *loop;
    struct lh_duration ping; /* so often the watchdog is satisfied; FOREVER: there is none */
    struct lh_instant pinged;
    uint64_t beats;
    char status[256];
};

void lh_manager_init(struct lh_manager *m, struct lh_loop *loop);

/* How long may pass until the next lh_manager_tick(), at most `wanted`. */
struct lh_duration lh_manager_interval(const struct lh_manager *m, struct lh_duration wanted);

/* Says how the server does (`ready` false: `why`), and satisfies the watchdog if the core was
 * stepped since the last time (lh_loop_beat()): a core that hangs gets the process killed. */
void lh_manager_tick(struct lh_manager *m, bool ready, const char *why);

/* The server reads its options again, and has done so. */
void lh_manager_reloading(void);
void lh_manager_reloaded(void);
