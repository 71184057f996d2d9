/* INV-3: versions of a chunk only rise, across restarts of every node: in the master's store, in
 * what a server says, and in a replica's header on the platter once a version was confirmed
 * (FENCE-1). */
#include "sim/observers/internal.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <utlist.h>

void lh_ob_inv3_master_term(struct lh_sim_observers *o, uint64_t term)
{
    if (term < o->master_term)
        lh_sim_fail(o->sim, "INV-3", 0,
            "the master's term fell from %" PRIu64 " to %" PRIu64 " (LEASE-7)", o->master_term,
            term);
    o->master_term = term;
}

void lh_ob_inv3_stored(struct lh_sim_observers *o, struct chunk *c, uint64_t version)
{
    if (version < c->highest)
        lh_sim_fail(o->sim, "INV-3", c->id,
            "chunk %" PRIu64 " went from version %" PRIu64 " to %" PRIu64 " in the store", c->id,
            c->highest, version);
    else
        c->highest = version;
}

/* The header on the platter, wherever it may have changed. */
void lh_ob_inv3_header(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    struct replica *r = lh_ob_replica(c, server);

    if (r->floor == 0 || r->damaged)
        return;
    const struct lh_sim_header *h = lh_ob_platter(o, c, server);
    if (!h->valid || h->version < r->floor)
        lh_sim_fail(o->sim, "INV-3", c->id,
            "%s confirmed version %" PRIu64 " of chunk %" PRIu64
            ", and its disk holds version %" PRIu64,
            o->servers[server]->name, r->floor, c->id, h->valid ? h->version : 0);
}

/* From now on it confirms nothing below, and its disk remembers that. */
static void confirmed(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, uint64_t version)
{
    struct chunk *c = lh_ob_chunk(o, chunk);
    struct replica *r = lh_ob_replica(c, a->number);

    if (version < r->floor) {
        lh_sim_fail(o->sim, "INV-3", chunk,
            "%s confirms something at version %" PRIu64 " of chunk %" PRIu64
            ", and has confirmed version %" PRIu64 " "
            "before (FENCE-1)",
            a->name, version, chunk, r->floor);
        return;
    }
    if (version == r->floor)
        return;
    r->floor = version;
    lh_ob_inv3_header(o, c, a->number);
}

static void said(
    struct lh_sim_observers *o, const struct actor *a, uint64_t chunk, uint64_t version)
{
    struct replica *r = lh_ob_replica(lh_ob_chunk(o, chunk), a->number);

    if (version < r->said)
        lh_sim_fail(o->sim, "INV-3", chunk,
            "%s says that chunk %" PRIu64 " has version %" PRIu64 " there, and said %" PRIu64
            " before",
            a->name, chunk, version, r->said);
    else
        r->said = version;
}

struct fed *lh_ob_fed(const struct note *n, const Leasehold__ReplicateAnswer *answer)
{
    struct fed *f;

    LL_FOREACH(n->fed, f) {
        if (f->chunk == answer->chunk)
            return f->feed == answer->feed ? f : NULL;
    }
    return NULL;
}

static void note_part(struct note *n, const Leasehold__ReplicatePart *m)
{
    struct fed *f;

    LL_SEARCH_SCALAR(n->fed, f, chunk, m->chunk);
    if (f == NULL) {
        f = lh_alloc(sizeof *f);
        f->chunk = m->chunk;
        LL_PREPEND(n->fed, f);
    }
    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT) {
        f->version = m->version;
        f->feed = m->feed;
        f->confirm_first = f->confirm_count = 0;
    }
    if (m->kind != LEASEHOLD__REPLICATE_KIND__CONFIRM || f->feed != m->feed)
        return;
    LH_GROW(f->confirms, f->confirm_capacity, f->confirm_count + 1);
    f->confirms[f->confirm_count++] = (struct confirm){m->length, m->checksum};
}

void lh_ob_note_replicate(struct note *n, const Leasehold__ReplicateRequest *m)
{
    for (size_t i = 0; i < m->n_parts; i++)
        note_part(n, m->parts[i]);
}

static void answers(struct lh_sim_observers *o, const struct actor *a, const struct note *n,
    const Leasehold__ReplicateAnswer *m)
{
    const struct fed *f = n == NULL ? NULL : lh_ob_fed(n, m);

    if (m->version != 0)
        said(o, a, m->chunk, m->version);
    if (f != NULL && m->error == LEASEHOLD__ERROR_CODE__OK)
        confirmed(o, a, f->chunk, f->version);
}

void lh_ob_inv3_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_SERVER || s->message == NULL || s->effect->kind != LH_FX_SEND)
        return;
    if (s->method == LH_METHOD_SESSION) {
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM &&
            m->confirm->error == LEASEHOLD__ERROR_CODE__OK)
            confirmed(o, a, m->confirm->chunk, m->confirm->version);
        else if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_FENCED &&
                 m->fenced->error == LEASEHOLD__ERROR_CODE__OK &&
                 !m->fenced->primary) /* whose word counts also from memory (REC-7) */
            confirmed(o, a, m->fenced->chunk, m->fenced->version);
    } else if (s->method == LH_METHOD_REPLICATE && s->direction == LH_REPLY) {
        const Leasehold__ReplicateReply *m = (const Leasehold__ReplicateReply *)s->message;
        for (size_t i = 0; i < m->n_answers; i++)
            answers(o, a, lh_ob_note(o, s->link), m->answers[i]);
    } else if (s->method == LH_METHOD_APPEND && s->direction == LH_REPLY) {
        const Leasehold__AppendReply *m = (const Leasehold__AppendReply *)s->message;
        const struct note *n = lh_ob_note(o, s->link);
        for (size_t i = 0; n != NULL && i < m->n_answers; i++) {
            const struct laned *l = lh_ob_lane(n, m->answers[i]->lane);
            if (l != NULL && m->answers[i]->n_stored > 0)
                confirmed(o, a, l->chunk, l->version);
        }
    }
}
