/* What happens to locks: while anybody watches, the last events are kept. */
#include "master/locks/watch.h"

void lh_m_lock_event_drop(struct lh_master *m)
{
    struct lh_m_lock_watching *w = m->locks.watching;
    struct lh_m_lock_event **e = lh_m_lock_event_slot(m, w->first++);

    w->bytes -= (*e)->size;
    free(*e);
    *e = NULL;
}

static char *put(char *to, const char **field, const char *text)
{
    size_t size = strlen(text) + 1;

    *field = memcpy(to, text, size);
    return to + size;
}

static struct lh_m_lock_event *event_of(struct lh_master *m, const struct lh_m_name *n,
    const struct lh_m_program *p, Leasehold__LockEventKind kind, uint64_t token)
{
    const struct lh_m_lock_request *c = lh_m_lock_request_of(n, p);
    struct lh_lease_info lease;
    size_t size = strlen(n->text) + strlen(p->label) + strlen(p->host) + strlen(p->process) + 4;

    if (c != NULL && c->state != LH_M_LOCK_REQUEST_HELD)
        c = NULL;
    size_t info_size = c == NULL ? 0 : c->info_size;
    struct lh_m_lock_event *e = lh_alloc(sizeof *e + size + info_size);
    e->kind = kind;
    e->shared = c != NULL && c->shared;
    e->token = token;
    if (kind == LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT &&
        lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &lease))
        e->end = lease.end;
    memcpy(e->session, p->id, sizeof e->session);
    e->size = LH_M_LOCK_EVENT_OVERHEAD + size + info_size;
    e->info_size = info_size;
    char *to = put(e->bytes, &e->name, n->text);
    to = put(to, &e->label, p->label);
    to = put(to, &e->host, p->host);
    to = put(to, &e->process, p->process);
    if (info_size > 0)
        e->info = memcpy(to, c->info, info_size);
    return e;
}

static void wake(struct lh_m_lock_watching *w)
{
    struct lh_m_lock_watcher *idle;

    TAILQ_FOREACH(idle, &w->idle, queue)
        idle->busy = true;
    TAILQ_CONCAT(&w->busy, &w->idle, queue);
}

void lh_m_lock_happened(struct lh_master *m, const struct lh_m_name *n,
    const struct lh_m_program *p, Leasehold__LockEventKind kind, uint64_t token)
{
    struct lh_m_lock_watching *w = m->locks.watching;

    if (w == NULL)
        return;
    struct lh_m_lock_event *e = event_of(m, n, p, kind, token);
    while (w->first <= w->last && (w->last + 1 - w->first == m->config.lock_events ||
                                      w->bytes >= m->config.lock_events_bytes))
        lh_m_lock_event_drop(m);
    *lh_m_lock_event_slot(m, ++w->last) = e;
    w->bytes += e->size;
    wake(w);
}
