/* What the room keeps with a replica, and what happens to that. */
#include "chunkserver/serve/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/serve/copying.h"
#include "chunkserver/serve/reading.h"
#include "chunkserver/serve/settling.h"

#include <stdlib.h>

const struct lh_cs_served lh_cs_unserved;

struct lh_cs_serving *lh_cs_serving_create(struct lh_cs_host *cs, struct lh_cs_logs *logs)
{
    struct lh_cs_serving *serving = lh_alloc(sizeof *serving);

    serving->cs = cs;
    serving->logs = logs;
    serving->copy_in.rate = serving->copy_out.rate = cs->config.repair_rate;
    serving->scrub.cs = cs;
    serving->scrub.logs = logs;
    logs->rooms[LH_CS_SLOT_SERVED] = serving;
    return serving;
}

void lh_cs_serving_destroy(struct lh_cs_serving *serving)
{
    lh_timer_unset(&serving->cs->timers, &serving->scrub.timer);
    free(serving);
}

struct lh_cs_serving_figures lh_cs_serving_figures(const struct lh_cs_serving *serving)
{
    struct lh_cs_serving_figures f = {
        .copied_in = serving->copied_in,
        .copied_out = serving->copied_out,
        .scrub.passes = serving->scrub.passes,
        .scrub.read = serving->scrub.read,
        .scrub.found = serving->scrub.found,
        .scrub.chunk = serving->scrub.finished,
        .scrub.rate = serving->scrub.rate,
    };
    const struct lh_cs_copying *c;

    DL_COUNT(serving->copies, c, f.copies);
    return f;
}

void lh_cs_serving_check(const struct lh_cs_replica *r)
{
    const struct lh_cs_served *s = lh_cs_served(r);

    LH_ASSERT(!r->incomplete || s->readings == NULL);
    LH_ASSERT(s->copying == NULL || s->copying->replica == r);
}

struct lh_cs_served *lh_cs_serve(struct lh_cs_replica *r)
{
    if (r->slots[LH_CS_SLOT_SERVED] == NULL)
        r->slots[LH_CS_SLOT_SERVED] = lh_alloc(sizeof(struct lh_cs_served));
    lh_cs_stir(r);
    return r->slots[LH_CS_SLOT_SERVED];
}

static void forget(struct lh_cs_replica *r)
{
    free(r->slots[LH_CS_SLOT_SERVED]);
    r->slots[LH_CS_SLOT_SERVED] = NULL;
}

/* What it was fenced with matters until it is sealed: no fence of that version is answered then. */
void lh_cs_serving_settled(struct lh_cs_replica *r)
{
    const struct lh_cs_served *s = lh_cs_served(r);

    bool notified = s->fenced.version != 0 || s->word.version != 0;

    if (s->feed == NULL && (!notified || r->header.sealed) && s->copying == NULL && !s->diverged &&
        s->readings == NULL && s->settlings == NULL)
        forget(r);
}

void lh_cs_serving_removed(struct lh_cs_replica *r)
{
    const struct lh_cs_served *s = lh_cs_served(r);

    LH_ASSERT(s->readings == NULL && s->settlings == NULL);
    lh_cs_copying_stop(r);
    lh_cs_scrub_turn_away(&lh_cs_serving_of(r)->scrub, r);
    forget(r);
}

void lh_cs_serving_pumped(struct lh_cs_replica *r)
{
    if (lh_cs_served(r)->copying != NULL)
        lh_cs_copying_pump(lh_cs_served(r)->copying);
}

void lh_cs_serving_readable(struct lh_cs_replica *r)
{
    lh_cs_readings_look(r);
    lh_cs_settlings_look(r);
}

void lh_cs_serving_refuse(struct lh_cs_replica *r, int error)
{
    lh_cs_readings_refuse_all(r, error);
    lh_cs_settlings_refuse_all(r, error);
}

void lh_cs_serving_end(struct lh_cs_replica *r)
{
    lh_cs_secondary_end(r, LH_ERR_NOT_FOUND);
    if (lh_cs_served(r)->copying != NULL)
        LH_MARK("copy-removed");
    lh_cs_copying_stop(r);
    lh_cs_scrub_turn_away(&lh_cs_serving_of(r)->scrub, r);
    lh_cs_serving_refuse(r, LH_ERR_NO_REPLICA);
}

void lh_cs_serving_cut_back(struct lh_cs_replica *r, int error)
{
    lh_cs_secondary_end(r, error);
    if (lh_cs_served(r)->copying != NULL)
        lh_cs_copying_fail(lh_cs_served(r)->copying, error);
}

void lh_cs_serving_lost(struct lh_cs_replica *r, int error)
{
    const struct lh_cs_served *s = lh_cs_served(r);

    r->added_up = false;
    lh_cs_secondary_end(r, error);
    lh_cs_serving_refuse(r, LH_ERR_CORRUPT);
    if (s->copying != NULL)
        s->copying->error = error;
    lh_cs_scrub_turn_away(&lh_cs_serving_of(r)->scrub, r);
}

void lh_cs_serving_differs(struct lh_cs_replica *r)
{
    lh_cs_scrub_soon(&lh_cs_serving_of(r)->scrub, r);
}
