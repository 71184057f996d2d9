/* What the requests on a link were about, of which answers do not speak. */
#include "sim/observers/internal.h"

#include <stdlib.h>
#include <utlist.h>

struct note *lh_ob_note(const struct lh_sim_observers *o, uint64_t link)
{
    struct note *n;

    HASH_FIND(hh, o->notes, &link, sizeof link, n);
    return n;
}

static void forget_note(struct lh_sim_observers *o, struct note *n)
{
    struct fed *f, *next;
    struct laned *l, *next_lane;

    HASH_DELETE(hh, o->notes, n);
    lh_buf_clear(&n->rest);
    LL_FOREACH_SAFE(n->lanes, l, next_lane) {
        free(l);
    }
    LL_FOREACH_SAFE(n->fed, f, next) {
        free(f->confirms);
        free(f);
    }
    free(n);
}

static struct note *get_note(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    struct note *n = lh_ob_note(o, s->link);

    if (n != NULL)
        return n;
    n = lh_alloc(sizeof *n);
    n->link = s->link;
    n->actor = (uint32_t)(a - o->actors);
    n->method = s->method;
    HASH_ADD(hh, o->notes, link, sizeof n->link, n);
    return n;
}

struct laned *lh_ob_lane(const struct note *n, uint64_t lane)
{
    struct laned *l;

    LL_SEARCH_SCALAR(n->lanes, l, lane, lane);
    return l;
}

/* What it is first said to be for counts. */
static void note_lane(struct note *n, const Leasehold__AppendPart *m)
{
    if (m->end || lh_ob_lane(n, m->lane) != NULL)
        return;
    struct laned *l = lh_alloc(sizeof *l);
    l->lane = m->lane;
    l->chunk = m->chunk;
    l->version = m->version;
    LL_PREPEND(n->lanes, l);
}

/* A chunkserver is asked something. */
static void note_request(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    struct note *n;

    switch (s->method) {
    case LH_METHOD_APPEND: {
        const Leasehold__AppendRequest *m = (const Leasehold__AppendRequest *)s->message;
        for (size_t i = 0; i < m->n_parts; i++)
            note_lane(get_note(o, a, s), m->parts[i]);
        break;
    }
    case LH_METHOD_REPLICATE:
        lh_ob_note_replicate(get_note(o, a, s), (const Leasehold__ReplicateRequest *)s->message);
        break;
    case LH_METHOD_READ: {
        const Leasehold__ReadRequest *m = (const Leasehold__ReadRequest *)s->message;
        n = get_note(o, a, s);
        n->chunk = m->chunk;
        n->version = m->version;
        n->offset = m->offset;
        n->require_primary = m->require_primary;
        n->recovery = m->mode == LEASEHOLD__READ_MODE__RECOVERY;
        n->acknowledged_at = lh_ob_chunk(o, m->chunk)->acknowledged;
        break;
    }
    case LH_METHOD_SETTLE: {
        const Leasehold__SettleRequest *m = (const Leasehold__SettleRequest *)s->message;
        n = get_note(o, a, s);
        n->chunk = m->chunk;
        n->version = m->version;
        n->writer = m->writer;
        break;
    }
    default:
        break;
    }
}

void lh_ob_links_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_SERVER)
        return;
    if (s->message != NULL && s->direction == LH_REQUEST) {
        note_request(o, a, s);
    } else if (s->input->kind == LH_IN_LINK_CLOSED && s->direction == LH_REQUEST) {
        struct note *n = lh_ob_note(o, s->link);
        if (n != NULL)
            forget_note(o, n);
    }
}

static void note_ends(const struct note *n, const Leasehold__AppendReply *m)
{
    for (size_t i = 0; n != NULL && i < m->n_answers; i++) {
        struct laned *l = lh_ob_lane(n, m->answers[i]->lane);
        if (l != NULL && m->answers[i]->error != LEASEHOLD__ERROR_CODE__OK &&
            m->answers[i]->writer == 0)
            l->over = true;
    }
}

/* After everybody has seen the end of the link. */
void lh_ob_links_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_SERVER && s->effect->kind == LH_FX_SEND && s->message != NULL &&
        s->method == LH_METHOD_APPEND && s->direction == LH_REPLY)
        note_ends(lh_ob_note(o, s->link), (const Leasehold__AppendReply *)s->message);
    if (a->part != PART_SERVER || s->effect->kind != LH_FX_CLOSE || s->direction != LH_REPLY)
        return;
    struct note *n = lh_ob_note(o, s->link);
    if (n != NULL)
        forget_note(o, n);
}

void lh_ob_links_lives(struct lh_sim_observers *o, const struct actor *a, enum lh_sim_life what)
{
    struct note *n, *next;

    if (what != LH_SIM_LIFE_STARTED)
        return;
    HASH_ITER(hh, o->notes, n, next) {
        if (&o->actors[n->actor] == a)
            forget_note(o, n);
    }
}

void lh_ob_links_deinit(struct lh_sim_observers *o)
{
    struct note *n, *next;

    HASH_ITER(hh, o->notes, n, next) {
        forget_note(o, n);
    }
}
