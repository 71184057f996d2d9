/* What the room keeps with a replica, from its beginning to its end. */
#include "chunkserver/serve/serving.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/serve/copying.h"
#include "chunkserver/serve/reading.h"
#include "chunkserver/serve/secondary.h"
#include "chunkserver/serve/settling.h"

#include <stdlib.h>

void lh_cs_serving_init(struct lh_cs_serving *room, struct lh_cs_host *cs, struct lh_cs_logs *logs)
{
    room->cs = cs;
    room->logs = logs;
    room->copy_in.rate = room->copy_out.rate = cs->config.repair_rate;
    room->scrub.cs = cs;
    room->scrub.logs = logs;
}

void lh_cs_serving_added(struct lh_cs_serving *room, struct lh_cs_replica *r)
{
    struct lh_cs_served *s = lh_alloc(sizeof *s);

    s->room = room;
    r->slots[LH_CS_SLOT_SERVED] = s;
}

void lh_cs_serving_removed(struct lh_cs_replica *r)
{
    struct lh_cs_served *s = lh_cs_served(r);

    LH_ASSERT(s->readings == NULL && s->settlings == NULL);
    if (s->copying != NULL)
        lh_cs_copying_end(s->copying);
    lh_cs_scrub_turn_away(&s->room->scrub, r);
    r->slots[LH_CS_SLOT_SERVED] = NULL;
    free(s);
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

void lh_cs_serving_cut_back(struct lh_cs_replica *r, int error)
{
    lh_cs_secondary_end(r, error);
    if (lh_cs_served(r)->copying != NULL)
        lh_cs_copying_fail(lh_cs_served(r)->copying, error);
}

void lh_cs_serving_lost(struct lh_cs_replica *r, int error)
{
    struct lh_cs_served *s = lh_cs_served(r);

    s->added_up = false;
    lh_cs_secondary_end(r, error);
    lh_cs_serving_refuse(r, LH_ERR_CORRUPT);
    if (s->copying != NULL)
        s->copying->error = error;
    lh_cs_scrub_turn_away(&s->room->scrub, r);
}

void lh_cs_serving_differs(struct lh_cs_replica *r)
{
    lh_cs_scrub_soon(&lh_cs_served(r)->room->scrub, r);
}
