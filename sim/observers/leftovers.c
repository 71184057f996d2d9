/* What a master has told a server to remove is removed at last, or the server has refused that
 * (KEEP-3): the order may have been lost with its stream, and whoever gave it may have been right
 * to think the server alive. */
#include "sim/observers/leftovers.h"

#include <inttypes.h>
#include <stdio.h>

void lh_ob_leftovers_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    uint32_t server = lh_ob_actor(o, s->peer)->number;
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REMOVE)
        lh_ob_replica(lh_ob_chunk(o, m->remove->chunk), server)->to_go = true;
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_CREATE)
        lh_ob_replica(lh_ob_chunk(o, m->create->chunk), server)->to_go = false;
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_COPY)
        lh_ob_replica(lh_ob_chunk(o, m->copy->chunk), server)->to_go = false;
}

void lh_ob_leftovers_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_MASTER || s->method != LH_METHOD_SESSION || s->message == NULL ||
        s->peer == NULL)
        return;
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
    uint32_t server = lh_ob_actor(o, s->peer)->number;
    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REMOVED &&
        m->removed->error == LEASEHOLD__ERROR_CODE__STALE_VERSION)
        lh_ob_replica(lh_ob_chunk(o, m->removed->chunk), server)->to_go = false;
    /* What is half made it removes by itself, or tells of it when it registers. */
    if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_CREATED &&
        m->created->error != LEASEHOLD__ERROR_CODE__OK)
        lh_ob_replica(lh_ob_chunk(o, m->created->chunk), server)->to_go = false;
}

bool lh_ob_leftovers_none(struct lh_sim_observers *o, uint64_t *chunk, char *text, size_t text_size)
{
    struct chunk *c, *next;

    if (o->restored)
        return true; /* nothing is deleted until an operator has looked (KEEP-4) */
    HASH_ITER(hh, o->chunks, c, next) {
        if (c->hopeless)
            continue; /* an extra may have become the last that there is of it */
        for (uint32_t i = 0; i < o->server_count; i++) {
            if (!lh_ob_replica(c, i)->to_go || lh_sim_is_scrapped(o->servers[i]->node) ||
                lh_sim_is_draining(o->cluster, i + 1) || /* its name is refused when it is empty */
                !lh_ob_kernel(o, c, i)->valid)
                continue;
            (void)snprintf(text, text_size,
                "%s was told to remove its replica of chunk %" PRIu64 ", and it is still there",
                o->servers[i]->name, c->id);
            *chunk = c->id;
            return false;
        }
    }
    return true;
}
