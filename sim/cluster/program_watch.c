/* A program that is told of every change under a prefix (VAL-6), or of what happens to locks
 * (NL-6). It begins again where it was, now and then. */
#include "sim/cluster/program_internal.h"

#include "proto/codec.h"

#include <stdlib.h>

struct watching {
    struct lh_client_watch *watch; /* NULL: there is none */
    bool opening, closing;
    bool asked; /* for the next reply */
};

static void opened(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->watching->opening = false;
    if (r->error == LH_OK)
        p->watching->watch = r->u.watch_open.watch;
    lh_sim_p_discard(r);
}

static void begin(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_WATCH_OPEN, opened);

    p->watching->opening = true;
    r->u.watch_open.prefix = p->spec.path;
    r->u.watch_open.from = p->status.position;
    r->u.watch_open.locks = p->spec.locks;
    lh_sim_call(p->node, &r->u);
}

static void notified(struct request *r)
{
    struct lh_sim_program *p = r->program;
    const Leasehold__WatchReply *reply = (const Leasehold__WatchReply *)r->u.watch_next.reply;

    p->watching->asked = false;
    lh_sim_p_end(r);
    if (reply != NULL && r->error == LH_OK && !reply->more)
        p->status.position = reply->next;
    if (reply != NULL)
        lh_wire_free(r->u.watch_next.reply);
    r->u.watch_next.reply = NULL;
    lh_sim_request_done(p->cluster, r);
}

static void next(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_begin(p, LH_CALL_WATCH_NEXT, notified);

    p->watching->asked = true;
    r->u.watch_next.watch = p->watching->watch;
    r->u.watch_next.deadline = lh_instant_add(lh_sim_clock(p->node), lh_seconds(2));
    lh_sim_call(p->node, &r->u);
}

static void closed(struct request *r)
{
    r->program->watching->closing = false;
    lh_sim_p_discard(r);
}

static void close_watch(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_WATCH_CLOSE, closed);

    p->watching->closing = true;
    r->u.watch_close.watch = p->watching->watch;
    p->watching->watch = NULL;
    lh_sim_call(p->node, &r->u);
}

static void go_on(struct lh_sim_program *p)
{
    if (p->watching == NULL)
        p->watching = lh_alloc(sizeof *p->watching);
    struct watching *w = p->watching;
    if (w->opening || w->closing || w->asked)
        return;
    if (w->watch == NULL)
        begin(p);
    else if (lh_prng_below(&p->random, 100) == 0)
        close_watch(p);
    else
        next(p);
}

static bool wind_up(struct lh_sim_program *p)
{
    struct watching *w = p->watching;

    if (w == NULL)
        return true;
    if (w->watch != NULL && !w->asked)
        close_watch(p);
    return w->watch == NULL && !w->opening && !w->closing && !w->asked;
}

static void forget(struct lh_sim_program *p)
{
    if (p->watching != NULL)
        *p->watching = (struct watching){0};
}

static void deinit(struct lh_sim_program *p)
{
    free(p->watching);
}

const struct program_kind lh_sim_watcher_kind = {
    .go_on = go_on, .forget = forget, .wind_up = wind_up, .deinit = deinit};
