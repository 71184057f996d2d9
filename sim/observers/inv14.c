/* INV-14: tokens of a name rise in the order of the grants, while clock rates are within rho. With
 * any clocks they rise within a reign, and none is given twice; but those who share a tenure have
 * one token (NL-2). */
#include "sim/observers/leases.h"

#include <inttypes.h>
#include <string.h>

#define REIGN(token) ((token) >> 40)

static bool is_again(
    const struct lgrant *g, const uint8_t *session, uint64_t request, uint64_t token)
{
    return g->token == token && g->request == request &&
           memcmp(g->session, session, SESSION_ID) == 0;
}

/* By a grant of an earlier reign, and a clock that was wrong. */
static bool may_be_excused(const struct lname *n, uint64_t token)
{
    for (size_t i = 0; i < n->grant_count; i++)
        if (n->grants[i].token == token ||
            (n->grants[i].token > token && REIGN(n->grants[i].token) == REIGN(token)))
            return false;
    return true;
}

void lh_ob_inv14_granted(struct lh_sim_observers *o, const uint8_t *session, uint64_t request,
    struct lname *n, bool shared, uint64_t token)
{
    for (size_t i = 0; i < n->grant_count; i++)
        if (is_again(&n->grants[i], session, request, token))
            return;
    bool joins = shared && n->highest_shared && token == n->highest;
    if (token == 0 || (token <= n->highest && !joins)) {
        if (token != 0 && may_be_excused(n, token))
            lh_ob_fail_unless_excused(o, "INV-14", 0, &o->seen_inv14,
                "%s is granted with token %" PRIu64 " after %" PRIu64, n->text, token, n->highest);
        else
            lh_sim_fail(o->sim, "INV-14", 0, "%s is granted with token %" PRIu64 " after %" PRIu64,
                n->text, token, n->highest);
    }
    LH_GROW(n->grants, n->grant_capacity, n->grant_count + 1);
    struct lgrant *g = &n->grants[n->grant_count++];
    *g = (struct lgrant){
        .token = token, .request = request, .shared = shared, .at = lh_sim_now(o->sim)};
    memcpy(g->session, session, SESSION_ID);
    if (token > n->highest) {
        n->highest = token;
        n->highest_shared = shared;
    }
}

void lh_ob_inv14_acquired(
    struct lh_sim_observers *o, const struct lsession *s, struct lname *n, uint64_t token)
{
    for (size_t i = n->grant_count; i-- > 0;)
        if (n->grants[i].token == token && memcmp(n->grants[i].session, s->id, SESSION_ID) == 0)
            return;
    for (size_t i = 0; i < o->leases->late_count; i++)
        if (o->leases->late[i] == token)
            return;
    lh_sim_fail(o->sim, "INV-14", 0,
        "%s is told that it holds %s with token %" PRIu64 ", which no master has given it",
        s->client->name, n->text, token);
}

uint64_t lh_ob_inv14_highest(const struct lname *n, uint64_t before)
{
    uint64_t highest = 0;

    for (size_t i = 0; i < n->grant_count; i++)
        if (n->grants[i].at < before && n->grants[i].token > highest)
            highest = n->grants[i].token;
    return highest;
}
