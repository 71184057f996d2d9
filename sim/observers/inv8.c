/* INV-8: after faults stop, every pending append and read is answered within a bounded time: the
 * largest term plus a constant.
 *
 * Exempt are files of which damage has left nothing to bring back: then nothing may be answered
 * wrongly, but no answer is due; and all of them where damage goes beyond what the protocol
 * survives. While a tail has too few members it takes no appends, and what waits is not due: the
 * clock begins when it has enough again. That it gets them is KEEP-1's (keep.c). */
#include "sim/observers/history.h"

#include <inttypes.h>

static bool usable(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    uint64_t size = 0;

    if (!lh_ob_full_member(c, server) || lh_ob_lost(o, c, server) ||
        !lh_ob_kernel(o, c, server)->valid)
        return false;
    /* A master whose clock runs as it likes gives others up early, and then this one may be the
     * last. */
    if (o->config.clocks_beyond_rho && lh_sim_is_scrapped(o->servers[server]->node))
        return false;
    /* A seal may outlive its bytes, when the machines of a buffered file go down all at once. */
    return !c->sealed || (lh_ob_log(o, c, server, false, &size) != NULL && size >= c->length);
}

/* REC-2a: it has what is committed, and knows it. */
static bool verified(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
    uint64_t size = 0, known = h->committed > c->committed ? h->committed : c->committed;

    return !lh_ob_unverified(o, c, server) && lh_ob_log(o, c, server, false, &size) != NULL &&
           size >= known;
}

/* A chunk's members as they are now. */
struct standing {
    size_t left;              /* usable */
    size_t sure, untruncated; /* of these verified, and able to say so; of these not truncated */
    size_t away;              /* on a machine that never comes back, and nobody has said so */
};

static struct standing look_at(struct lh_sim_observers *o, struct chunk *c)
{
    struct standing s = {0};

    for (size_t i = 0; i < c->member_count; i++) {
        uint32_t server = c->members[i].server;
        bool scrapped = lh_sim_is_scrapped(o->servers[server]->node);
        bool sure = verified(o, c, server) && !scrapped;
        if (scrapped)
            s.away += !lh_sim_is_decommissioned(o->cluster, server + 1);
        if (!usable(o, c, server))
            continue;
        s.left++;
        s.sure += sure;
        s.untruncated += sure && !lh_ob_kernel(o, c, server)->truncated;
    }
    return s;
}

/* Those who are there may all lack what was acknowledged: they wait for the one who will never be
 * back, until an operator says that it will not (REC-2a, FAIL-3). */
static bool waits_for_ever(const struct chunk *c, struct standing s)
{
    return !c->sealed && s.untruncated == 0 && s.sure < 2 && s.away > 0;
}

bool lh_ob_inv8_exempt(struct lh_sim_observers *o, struct file *f)
{
    bool exempt = false;

    if (o->ruin)
        return true;
    for (size_t i = 0; i < f->chunk_count; i++) {
        struct chunk *c = f->chunks[i];
        if (c->removed || !c->created)
            continue;
        struct standing s = look_at(o, c);
        if (!c->sealed && s.left < f->min_replicas)
            f->short_at = lh_sim_now(o->sim);
        exempt = exempt || s.left == 0 || waits_for_ever(c, s);
    }
    return exempt;
}

static bool any_exempt(struct lh_sim_observers *o)
{
    struct file *f, *next;
    bool any = false;

    HASH_ITER(hh, o->files, f, next)
        any = any || (!f->removed && lh_ob_inv8_exempt(o, f));
    return any;
}

static uint64_t bound(const struct lh_sim_observers *o)
{
    return o->longest_term.ns + o->longest_term.ns / 10 + o->config.patience.ns;
}

/* Must it be answered by now? */
static bool is_due(struct lh_sim_observers *o, const struct call *call, const char **what)
{
    struct file *f;

    if (call->call->kind == LH_CALL_SUBMIT && call->writer != NULL) {
        *what = "an append";
        f = call->writer->file == 0 ? NULL : lh_ob_file_find(o, call->writer->file);
    } else if (call->call->kind == LH_CALL_FETCH && call->reader != NULL) {
        *what = "a read";
        f = call->reader->file == 0 ? NULL : lh_ob_file_find(o, call->reader->file);
        if (call->reader->follows && (f == NULL || f->ack_count == 0 ||
                                         call->reader->position >= f->acks[f->ack_count - 1].end))
            return false; /* it waits at the end */
    } else {
        return false; /* it has a deadline of its own */
    }
    if (f == NULL)
        return !any_exempt(o); /* it is not sure which file that is */
    return !f->removed && !f->trashed && !lh_ob_inv8_exempt(o, f) &&
           (f->short_at == 0 || lh_sim_now(o->sim) - f->short_at >= bound(o));
}

static void check(struct lh_sim_observers *o)
{
    uint64_t now = lh_sim_now(o->sim), oldest = UINT64_MAX;
    const char *what = NULL;
    struct call *call;

    for (call = o->history->calls; call != NULL; call = call->next) {
        uint64_t since = call->begun > o->over_at ? call->begun : o->over_at;
        if (now - since < bound(o)) {
            oldest = since;
            break; /* all others are younger */
        }
        if (!is_due(o, call, &what))
            continue;
        lh_sim_fail(o->sim, "INV-8", 0,
            "%s of %s that was asked at %" PRIu64 " ms is not answered %" PRIu64
            " ms after the faults ended",
            what, call->client->name, call->begun / 1000000, (now - o->over_at) / 1000000);
        return;
    }
    o->next_due = oldest == UINT64_MAX ? now + bound(o) : oldest + bound(o);
    /* What is not due now may become so (a follower that new bytes have come for). */
    if (o->next_due > now + UINT64_C(1000000000))
        o->next_due = now + UINT64_C(1000000000);
}

void lh_ob_inv8_takes(struct lh_sim_observers *o)
{
    if (o->over && lh_sim_now(o->sim) >= o->next_due)
        check(o);
}

void lh_ob_inv8_end(struct lh_sim_observers *o)
{
    if (o->over)
        check(o);
}
