/* INV-1: at most one node at a time believes that it may act as primary of a chunk, while clock
 * rates are within rho. And nobody believes it, or acts on it, beyond what the lease model gives it
 * (TIME-4, TIME-5): that is arithmetic on one clock and holds whatever the rates are.
 *
 * A belief can only begin, or reach further, in a step of its node that takes an answer of the
 * master, so only then is it looked at: that node's chunks, and whoever else may believe the same
 * of them. To act is to give a batch a place in the log, or to answer a read as the primary. */
#include "sim/observers/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* A batch that a server was sent when it had no right to order it. */
struct unfit {
    uint32_t server;
    uint64_t chunk, writer, sequence;
};

struct lease_watch {
    bool notified[LH_SIM_NODES_MAX];  /* by number: in the present step, something of leases */
    uint64_t named[LH_SIM_NODES_MAX]; /* ... by a grant of this chunk; 0: by no grant */
    struct unfit *unfit;
    size_t unfit_count, unfit_capacity;
};

bool lh_ob_believes(const struct actor *a, uint64_t chunk, struct lh_instant at, uint64_t *version)
{
    const struct lh_chunkserver *cs = lh_sim_core(a->node);

    return cs != NULL && lh_chunkserver_may_act(cs, chunk, at, version);
}

static void check_belief(struct lh_sim_observers *o, const struct actor *a, uint64_t chunk)
{
    struct lh_instant now = lh_sim_clock(a->node), end = {0};
    uint64_t version, given = 0, other;

    bool held = lh_ob_model_right(o, a, chunk, &given, &end);
    if (lh_ob_believes(a, chunk, now, &version)) {
        if (!held || version != given || !lh_instant_before(now, end)) {
            lh_sim_fail(o->sim, "INV-1", chunk,
                "%s believes that it may act on chunk %" PRIu64 " at version %" PRIu64 ", %s",
                a->name, chunk, version,
                !held              ? "which it was not given, or has given up"
                : version != given ? "and was given another version"
                                   : "and its lease has run out");
            return;
        }
        for (uint32_t i = 0; i < o->server_count; i++)
            if (o->servers[i] != a &&
                lh_ob_believes(o->servers[i], chunk, lh_sim_clock(o->servers[i]->node), &other))
                lh_ob_fail_unless_excused(o, "INV-1", chunk, &o->seen_inv1,
                    "%s (version %" PRIu64 ") and %s (version %" PRIu64
                    ") both may act as primary of chunk %" PRIu64,
                    a->name, version, o->servers[i]->name, other, chunk);
    }
    if (held && lh_instant_before(now, end) && lh_ob_believes(a, chunk, end, &version))
        lh_sim_fail(o->sim, "INV-1", chunk,
            "%s believes that it may act on chunk %" PRIu64 " at version %" PRIu64
            " for longer than it was "
            "given "
            "(TIME-4): beyond %" PRIu64 " on its clock, which shows %" PRIu64,
            a->name, chunk, version, end.ns, now.ns);
}

void lh_ob_inv1_stepped(struct lh_sim_observers *o, struct actor *a)
{
    struct lease_watch *w = o->inv1;

    if (!w->notified[a->number])
        return;
    w->notified[a->number] = false;
    for (size_t i = 0; i < lh_ob_model_held(o, a); i++)
        check_belief(o, a, lh_ob_model_held_chunk(o, a, i));
    if (w->named[a->number] != 0)
        check_belief(o, a, w->named[a->number]);
    w->named[a->number] = 0;
}

/* ---- Acting ---- */

/* May the server, by the model, do now what needs the lease? By the reading of the clock that it
 * was given for this step: a pause in the middle of the step it cannot know of. */
static bool may(const struct lh_sim_observers *o, const struct actor *a, uint64_t chunk,
    uint64_t version, struct lh_instant *end)
{
    uint64_t given;

    return lh_ob_model_right(o, a, chunk, &given, end) && given == version &&
           lh_instant_before(a->clock, *end);
}

static struct unfit *find_unfit(
    struct lease_watch *w, uint32_t server, uint64_t chunk, const struct lh_sim_batch *b)
{
    for (size_t i = 0; i < w->unfit_count; i++)
        if (w->unfit[i].server == server && w->unfit[i].chunk == chunk &&
            w->unfit[i].writer == b->writer && w->unfit[i].sequence == b->sequence)
            return &w->unfit[i];
    return NULL;
}

/* The chunk's primary sends bytes to a server, perhaps these. */
static void forget_unfit(struct lease_watch *w, uint32_t server, uint64_t chunk)
{
    for (size_t i = w->unfit_count; i-- > 0;)
        if (w->unfit[i].server == server && w->unfit[i].chunk == chunk)
            w->unfit[i] = w->unfit[--w->unfit_count];
}

/* Batches come to a server: with the right to order them, or another way, or without. */
static void batches_come(struct lh_sim_observers *o, const struct actor *a, uint64_t chunk,
    const struct lh_buf *bytes, bool fit)
{
    struct lease_watch *w = o->inv1;
    struct lh_sim_batch b;

    if (fit && w->unfit_count == 0)
        return;
    for (uint64_t at = 0; lh_sim_batch_in(bytes, at, &b); at += b.size) {
        struct unfit *u = find_unfit(w, a->number, chunk, &b);
        if (fit && u != NULL) {
            *u = w->unfit[--w->unfit_count];
        } else if (!fit && u == NULL) {
            LH_GROW(w->unfit, w->unfit_capacity, w->unfit_count + 1);
            w->unfit[w->unfit_count++] = (struct unfit){a->number, chunk, b.writer, b.sequence};
        }
    }
}

/* One of the batches may come in parts. It has come when it is whole. */
static void parts_come(struct lh_sim_observers *o, const struct actor *a, struct note *n,
    const Leasehold__AppendRequest *m, const struct lh_buf *bytes)
{
    struct lh_sim_batch b;
    struct lh_instant end;

    for (uint64_t i = 0, from = 0; i < m->n_parts && m->parts[i]->bytes <= bytes->size - from;
         from += m->parts[i++]->bytes) {
        const Leasehold__AppendPart *part = m->parts[i];
        bool goes_on = n->rest_lane == part->lane;
        struct lh_buf all = goes_on ? lh_buf_take(&n->rest) : (struct lh_buf){0};
        uint64_t at = 0;
        lh_buf_append(&all, bytes, from, part->bytes);
        const struct laned *l = lh_ob_lane(n, part->lane);
        if (l != NULL && !l->over)
            batches_come(o, a, part->chunk, &all, may(o, a, part->chunk, part->version, &end));
        while (lh_sim_batch_in(&all, at, &b))
            at += b.size;
        if (at < all.size) {
            lh_buf_clear(&n->rest);
            lh_buf_append(&n->rest, &all, at, all.size - at);
            n->rest_lane = part->lane;
        }
        lh_buf_clear(&all);
    }
}

void lh_ob_inv1_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    struct lease_watch *w = o->inv1;

    if (a->part != PART_SERVER || s->message == NULL)
        return;
    if (s->method == LH_METHOD_SESSION) {
        const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
        w->notified[a->number] = true;
        if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_GRANT)
            w->named[a->number] = m->grant->chunk;
    } else if (s->method == LH_METHOD_APPEND && s->payload->size > 0) {
        parts_come(
            o, a, lh_ob_note(o, s->link), (const Leasehold__AppendRequest *)s->message, s->payload);
    } else if (s->method == LH_METHOD_REPLICATE && s->direction == LH_REQUEST) {
        const Leasehold__ReplicateRequest *m = (const Leasehold__ReplicateRequest *)s->message;
        for (size_t i = 0; i < m->n_parts; i++)
            if (m->parts[i]->bytes > 0)
                forget_unfit(w, a->number, m->parts[i]->chunk);
    } else if (s->method == LH_METHOD_READ && s->direction == LH_REPLY && w->unfit_count > 0) {
        /* A primary's fetch of what it lacks; the reply does not name the chunk. */
        for (size_t i = 0; i < w->unfit_count; i++)
            batches_come(o, a, w->unfit[i].chunk, s->payload, true);
    }
}

static void check_write(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_effect *e)
{
    struct lh_sim_batch b;

    for (uint64_t at = 0; lh_sim_batch_in(&e->payload, at, &b); at += b.size)
        if (find_unfit(o->inv1, a->number, e->file, &b) != NULL)
            lh_sim_fail(o->sim, "INV-1", e->file,
                "%s ordered a batch (writer %" PRIx64 ", %" PRIu64 ") in chunk %" PRIu64
                ", which came to it when its "
                "lease had run out, or was not its (TIME-5)",
                a->name, b.writer, b.sequence, e->file);
}

void lh_ob_inv1_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    if (a->part != PART_SERVER)
        return;
    if (e->kind == LH_FX_DISK) {
        if (o->inv1->unfit_count > 0 && e->op == LH_DISK_WRITE && e->offset >= LH_SIM_LOG_START)
            check_write(o, a, e);
        return;
    }
    if (e->kind != LH_FX_SEND || s->method != LH_METHOD_READ || s->direction != LH_REPLY ||
        s->message == NULL)
        return;
    const Leasehold__ReadReply *m = (const Leasehold__ReadReply *)s->message;
    const struct note *n = lh_ob_note(o, s->link);
    struct lh_instant end;
    if (n == NULL || m->error != LEASEHOLD__ERROR_CODE__OK || n->recovery ||
        (!m->primary && !n->require_primary))
        return;
    if (!may(o, a, n->chunk, m->version, &end))
        lh_sim_fail(o->sim, "INV-1", n->chunk,
            "%s answered a read of chunk %" PRIu64 " as its primary at version %" PRIu64
            " without a lease in "
            "force (APP-6, TIME-5)",
            a->name, n->chunk, m->version);
}

void lh_ob_inv1_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    struct lease_watch *w = o->inv1;

    if (a->part != PART_SERVER || what != LH_SIM_LIFE_STARTED)
        return;
    w->notified[a->number] = false;
    w->named[a->number] = 0;
    for (size_t i = w->unfit_count; i > 0; i--)
        if (w->unfit[i - 1].server == a->number)
            w->unfit[i - 1] = w->unfit[--w->unfit_count];
}

void lh_ob_inv1_init(struct lh_sim_observers *o)
{
    o->inv1 = lh_alloc(sizeof *o->inv1);
}

void lh_ob_inv1_deinit(struct lh_sim_observers *o)
{
    free(o->inv1->unfit);
    free(o->inv1);
}
