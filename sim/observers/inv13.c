/* INV-13: no two programs believe at the same time that they hold conflicting locks, while clock
 * rates are within rho. A belief can only begin, or reach further, in a step of its client that
 * takes something from the master, so only then is it looked at, with each clock at that true
 * moment. And what has run out has (PS-3). */
#include "sim/observers/leases.h"

#include "utlist.h"

#include <inttypes.h>

struct counted {
    uint32_t holders;
    uint32_t fewest; /* slots that any of them named; 0: none did */
    bool exclusive;
    const struct lsession *other; /* another one of them */
    uint64_t other_token;
};

static struct counted count(
    struct lh_sim_observers *o, const struct lname *name, const struct lsession *but)
{
    struct counted c = {0};
    struct lsession *s;
    struct held *h;

    DL_FOREACH(o->leases->sessions, s)
        LL_FOREACH(s->held, h) {
            if (h->name != name || !lh_ob_lock_believed(s, h))
                continue;
            c.holders++;
            c.exclusive = c.exclusive || !h->shared;
            if (h->slots != 0 && (c.fewest == 0 || h->slots < c.fewest))
                c.fewest = h->slots;
            if (s != but) {
                c.other = s;
                c.other_token = h->token;
            }
        }
    return c;
}

static void check(struct lh_sim_observers *o, const struct lsession *s, const struct held *h)
{
    struct counted c = count(o, h->name, s);

    if (c.holders < 2 || (!c.exclusive && (c.fewest == 0 || c.holders <= c.fewest)))
        return;
    lh_ob_fail_unless_excused(o, "INV-13", 0, &o->seen_inv13,
        "%s (token %" PRIu64 ") and %s (token %" PRIu64 ") both believe that they hold %s, %s",
        s->client->name, h->token, c.other == NULL ? "itself" : c.other->client->name,
        c.other_token, h->name->text,
        c.exclusive ? "one of them exclusively" : "which has fewer slots");
}

void lh_ob_inv13_stepped(struct lh_sim_observers *o, const struct actor *a)
{
    struct lsession *s;
    struct held *h;

    if (!lh_sim_is_up(a->node))
        return;
    DL_FOREACH(o->leases->sessions, s) {
        if (s->client != a)
            continue;
        LL_FOREACH(s->held, h) {
            if (failed(o))
                return;
            if (!lh_ob_lock_believed(s, h))
                h->over = true;
            else if (h->over)
                lh_sim_fail(o->sim, "INV-13", 0,
                    "%s believes in its lock on %s (token %" PRIu64 ") again, which had run out "
                    "(PS-3)",
                    s->client->name, h->name->text, h->token);
            else
                check(o, s, h);
        }
    }
}
