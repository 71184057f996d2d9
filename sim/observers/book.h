/* The lease book: who may act on which chunk until when, reckoned from what was sent and received,
 * from true clock readings and from the master's settings (TIME-4), not from what nodes believe and
 * not from the terms that answers carry.
 *
 * It has two sides. What the master *promised* counts from when it said so: it has to wait for that
 * whether or not the answer arrives. What a holder *holds* counts from when it was told. */
#ifndef LH_SIM_BOOK_H
#define LH_SIM_BOOK_H

#include "base/time.h"
#include "sim/world/world.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_sim_book;

struct lh_sim_book_session {
    uint64_t session;           /* as on the wire */
    uint64_t incarnation;       /* of the process that registered */
    struct lh_instant holder;   /* the holder's end, on its clock; by what it was told */
    struct lh_instant promised; /* the same, by what the master said */
    struct lh_instant grantor;  /* until when the master has to wait, on the master's clock */
};

/* The session that the server (counted from 1) has; false: none since its process started. */
bool lh_sim_book_session(
    const struct lh_sim_book *book, size_t server, struct lh_sim_book_session *session);

struct lh_sim_book_lease {
    size_t server; /* from 1 */
    uint64_t session, version;
    bool held;                  /* the holder was told of it and has not given it up */
    struct lh_instant holder;   /* its end on the holder's clock, its session's included; only when
                                   `held` */
    struct lh_instant promised; /* the same, by what the master said */
    struct lh_instant grantor;  /* until when the master has to wait, on the master's clock */
};

/* The promises about a chunk that have not been given back, newest last: at most `max` are put into
 * `leases`. Some may have run out. */
size_t lh_sim_book_leases(
    const struct lh_sim_book *book, uint64_t chunk, struct lh_sim_book_lease *leases, size_t max);

/* The first true moment (ns) at which the node's clock shows `local` if its rate stays as it is;
 * now, if it does already. */
uint64_t lh_sim_book_when(const struct lh_sim_node *node, struct lh_instant local);

#endif
