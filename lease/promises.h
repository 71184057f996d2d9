/* What a machine remembers, while it is up, of the promises that grantors on it made: for each
 * client, when the last one was made to it (LEASE-9). A grantor that starts need not wait for a
 * client's whole term from its start on, but from that moment on.
 *
 * It lies in memory that outlives the process, and not the boot: the driver gives it to the core
 * that writes it. So what was promised is noted before the step ends that promised it, and before
 * anything of that step leaves. A process may be killed between any two stores to it. */
#pragma once

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_PROMISES_FORMAT 1u
#define LH_PROMISES_PLACE  192u

struct lh_promises {
    uint64_t format;
    uint64_t slots;                /* a power of two */
    char place[LH_PROMISES_PLACE]; /* where its readings of the clock mean anything */
    uint64_t reign;     /* the name of the last one that may have promised (SES-9); 0: none has */
    uint64_t commits;   /* of that one's store: so many were durable, or more; ... */
    uint64_t begun;     /* ... and so many have been begun, or fewer */
    uint64_t before_ns; /* all that is not noted was promised before this reading */
    uint64_t made_ns[]; /* by a hash of the client: before this reading was promised what was
                           promised to it; 0: see `before_ns` */
};

/* Bytes of one with so many slots. Clients that share a slot are waited for as the last of them. */
size_t lh_promises_size(size_t slots);

/* Takes memory of that size as it was found, all-zero if it is new. What is of another place is
 * forgotten. `place` names the boot, the clock and the memory itself. */
void lh_promises_open(struct lh_promises *p, size_t slots, const char *place);

/* ---- NULL is one that remembers nothing. */

/* A grantor starts at `now`. Its store's last reign has that name (0: none), and it has had so many
 * commits. Unless that is what this memory is of, all of it is forgotten. */
void lh_promises_begin(
    struct lh_promises *p, uint64_t reign, uint64_t commits, struct lh_instant now);

/* Another commit begins, the one of that number: this step's, so nothing of it has left yet. */
void lh_promises_commit(struct lh_promises *p, uint64_t number);

/* The reign of that name is durable, with so many commits: it may promise from now on. */
void lh_promises_durable(struct lh_promises *p, uint64_t reign, uint64_t commits);

/* The client is promised something at `now`. `client`: a hash of what names it across starts. */
void lh_promises_note(struct lh_promises *p, uint64_t client, struct lh_instant now);

/* A reading at or after the one at which the client was last promised anything, before the start
 * at `now`; never later than `now`. */
struct lh_instant lh_promises_made(
    const struct lh_promises *p, uint64_t client, struct lh_instant now);
