/* The session streams at the master: which one is a session's, and who is certain to have one or to
 * have none (INV-18). */
#include "sim/observers/leases.h"

#include "sim/cluster/internal.h"
#include "utlist.h"

#include <stdlib.h>
#include <string.h>

static bool is_id(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, SESSION_ID) == 0;
}

static struct lstream *stream_of(const struct lh_sim_observers *o, const uint8_t *session)
{
    struct lstream *t, *next;

    HASH_ITER(hh, o->leases->streams, t, next)
        if (t->attached && !t->over && is_id(t->session, session))
            return t;
    return NULL;
}

uint64_t lh_ob_tenths(struct lh_duration d, unsigned tenths)
{
    return d.ns / 10 * tenths;
}

/* It has a session at the master, for certain. */
bool lh_ob_lstream_alive(const struct lh_sim_observers *o, const uint8_t *session)
{
    const struct lstream *t = stream_of(o, session);
    struct lh_instant now = lh_sim_clock(o->master->node);

    return t != NULL && t->back && t->hears && now.ns - t->heard.ns < lh_ob_tenths(t->term, 8);
}

/* It has none, for certain. */
bool lh_ob_lstream_over(const struct lh_sim_observers *o, const uint8_t *session)
{
    const struct lstream *t = stream_of(o, session);
    struct lh_instant now = lh_sim_clock(o->master->node);

    return t != NULL && now.ns - t->renewed.ns > lh_ob_tenths(t->term, 12) + lh_seconds(1).ns;
}

void lh_ob_lstream_drop_shown(struct lstream *t)
{
    struct lwaiter *w, *next;
    struct shown_lock *k, *next_lock;

    DL_FOREACH_SAFE(t->shown, w, next) {
        DL_DELETE(t->shown, w);
        free(w);
    }
    LL_FOREACH_SAFE(t->shown_locks, k, next_lock) {
        LL_DELETE(t->shown_locks, k);
        free(k);
    }
}

void lh_ob_inv18_stream_gone(struct lh_sim_observers *o, struct lstream *t)
{
    lh_ob_lstream_drop_shown(t);
    HASH_DELETE(hh, o->leases->streams, t);
    free(t);
}

/* The program names the last answer that it has received; it left when it left, however long this
 * heartbeat was on its way. */
void lh_ob_lstream_hears(struct lstream *t, uint64_t last_stamp)
{
    t->hears = false;
    for (unsigned i = 0; i < LANSWERS && i < t->answer_count; i++)
        if (t->answers[i].stamp == last_stamp) {
            t->hears = true;
            t->heard = t->answers[i].at;
        }
}

void lh_ob_lstream_answers(const struct lh_sim_observers *o, struct lstream *t, uint64_t stamp)
{
    unsigned i = t->answer_count++ % LANSWERS;

    t->answers[i].stamp = stamp;
    t->answers[i].at = o->master->clock;
}

void lh_ob_lstream_attaches(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__Attach *m)
{
    struct lstream *other, *next;

    memcpy(t->session, m->session.data, SESSION_ID);
    t->number = m->stream;
    t->attached = true;
    t->renewed = o->master->clock;
    /* They may arrive in another order than the program opened them (PS-2). */
    HASH_ITER(hh, o->leases->streams, other, next)
        if (other != t && other->attached && is_id(other->session, t->session)) {
            other->over |= other->number < t->number;
            t->over |= other->number >= t->number;
        }
}
