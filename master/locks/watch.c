/* Streams of Watch that ask for locks. The last events are kept in memory while anybody watches,
 * and each watcher follows them as far as it has come, with one reply in flight at a time; in
 * queues of their own, as those of values are (values/watch.c). It begins with the locks that are
 * in force, page by page in the order of names and, under one name, of sessions; what happens
 * meanwhile to a lock that was in a page follows, and what happens to one that was not is in its
 * page. So a stream's events are a history that could have been. A watcher that does not read in
 * time finds that its next event is not kept any more: it begins again. */
#include "master/locks/watch.h"
#include "master/tables/replies.h"

/* ---- Replies. */

struct reply {
    Leasehold__WatchReply message;
    struct said {
        Leasehold__LockEvent event;
        Leasehold__LockHolder holder;
    } * said;
    size_t capacity, bytes;
};

static bool is_full(const struct lh_master *m, const struct reply *r)
{
    return r->bytes >= m->config.watch_bytes || r->message.n_locks >= m->config.watch_events;
}

static Leasehold__LockHolder *say(
    struct reply *r, Leasehold__LockEventKind kind, const char *name, size_t bytes)
{
    size_t n = r->message.n_locks;

    LH_GROW(r->said, r->capacity, n + 1);
    r->message.n_locks++;
    struct said *s = &r->said[n];
    leasehold__lock_event__init(&s->event);
    leasehold__lock_holder__init(&s->holder);
    s->event.kind = kind;
    s->event.name = (char *)(uintptr_t)name;
    r->bytes += bytes;
    return &s->holder;
}

static Leasehold__LockMode mode_of(bool shared)
{
    return shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
}

static void say_event(const struct lh_master *m, struct reply *r, struct lh_m_lock_event *e)
{
    Leasehold__LockHolder *h = say(r, e->kind, e->name, e->size);

    h->session = (ProtobufCBinaryData){.data = e->session, .len = sizeof e->session};
    h->label = (char *)(uintptr_t)e->label;
    h->host = (char *)(uintptr_t)e->host;
    h->process = (char *)(uintptr_t)e->process;
    h->mode = mode_of(e->shared);
    h->token = e->token;
    h->cut = e->kind == LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT;
    h->left_ms = h->cut ? lh_duration_ms(lh_instant_until(m->now, e->end)) : 0;
    h->info = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)e->info, .len = e->info_size};
}

static void send(struct lh_master *m, struct lh_m_lock_watcher *w, struct reply *r)
{
    Leasehold__LockEvent **pointers = lh_alloc_array(r->message.n_locks + 1, sizeof *pointers);

    for (size_t i = 0; i < r->message.n_locks; i++) {
        r->said[i].event.holder = &r->said[i].holder;
        pointers[i] = &r->said[i].event;
    }
    r->message.locks = pointers;
    r->message.more = w->pages;
    m->counts.watch_events += r->message.n_locks;
    w->in_flight = true;
    lh_fx_send_notified(m->fx, w->link.id, &r->message.base, NULL);
    free(pointers);
}

/* ---- What is there. */

static bool is_under(const struct lh_m_lock_watcher *w, const char *name)
{
    return strncmp(name, w->prefix, strlen(w->prefix)) == 0;
}

/* Do the pages have that session's lock on the name, if there is one? */
static bool is_passed(const struct lh_m_lock_cursor *at, const char *name, const uint8_t *session)
{
    int order = at->name == NULL ? 1 : strcmp(name, at->name);

    return order < 0 ||
           (order == 0 && (at->whole || memcmp(session, at->session, sizeof at->session) <= 0));
}

static void set_cursor(struct lh_m_lock_cursor *at, const char *name, bool whole)
{
    char *copy = lh_strdup(name);

    free(at->name);
    at->name = copy;
    at->whole = whole;
}

struct page {
    struct lh_m_lock_watcher *w;
    struct reply *r;
    bool full; /* it ends at a session under the name */
};

static bool add_holder(
    struct lh_master *m, const struct lh_m_name *n, struct lh_m_program *p, struct page *page)
{
    const struct lh_m_lock_request *c = lh_m_lock_request_of(n, p);
    struct lh_lease_info info;

    if (is_passed(&page->w->at, n->text, p->id) ||
        !lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info))
        return true;
    page->full = is_full(m, page->r);
    if (page->full)
        return false;
    size_t info_size = c == NULL || c->state != LH_M_LOCK_REQUEST_HELD ? 0 : c->info_size;
    Leasehold__LockHolder *h = say(page->r, LEASEHOLD__LOCK_EVENT_KIND__LOCK_GRANTED, n->text,
        LH_M_LOCK_EVENT_OVERHEAD + strlen(n->text) + info_size);
    h->session = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    h->label = p->label;
    h->host = p->host;
    h->process = p->process;
    h->mode = mode_of(info.mode == LH_LEASE_SHARED);
    h->token = info.version;
    h->cut = info.own_end.ns != UINT64_MAX;
    h->left_ms = h->cut ? lh_duration_ms(lh_instant_until(m->now, info.end)) : 0;
    if (info_size > 0)
        h->info = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)c->info, .len = info_size};
    memcpy(page->w->at.session, p->id, sizeof page->w->at.session);
    return true;
}

/* Looking on ends nothing: what is over and was not collected is left for whoever comes next. */
static void add_holders(struct lh_master *m, const struct lh_m_name *n, struct page *page)
{
    struct lh_lease_info info;
    struct lh_m_lock_request *c;

    if (!lh_grantor_find(m->leases.engine, lh_m_lock_key(n), m->now, &info))
        return;
    if (info.mode == LH_LEASE_EXCLUSIVE) {
        (void)add_holder(m, n, lh_m_client_program(info.context), page);
        return;
    }
    RB_FOREACH(c, lh_m_lock_requests_here, &n->more->lock_state->requests) {
        if (c->state == LH_M_LOCK_REQUEST_HELD && !add_holder(m, n, c->program, page))
            return;
    }
}

/* The first name that the pages do not have all of; NULL: there is none. */
static struct lh_m_name *next_name(const struct lh_master *m, const struct lh_m_lock_watcher *w)
{
    const struct lh_m_lock_cursor *at = &w->at;
    struct lh_m_name *n = lh_m_name_from(m, at->name == NULL ? w->prefix : at->name);

    if (n != NULL && at->name != NULL && at->whole && strcmp(n->text, at->name) == 0)
        n = lh_m_name_next(n);
    return n != NULL && is_under(w, n->text) ? n : NULL;
}

/* Names before `next_name()` are all passed, so within the page the cursor need not follow. */
static void add_page(struct lh_master *m, struct lh_m_lock_watcher *w, struct reply *r)
{
    struct lh_m_lock_watching *all = m->locks.watching;
    struct page page = {.w = w, .r = r};
    struct lh_m_name *n = next_name(m, w), *last = NULL;

    for (; n != NULL && is_under(w, n->text); n = lh_m_name_next(n)) {
        if (is_full(m, r) || (last != NULL && all->work == 0))
            break;
        add_holders(m, n, &page);
        last = n;
        if (page.full)
            break;
        all->work -= all->work > 0;
    }
    if (last != NULL)
        set_cursor(&w->at, last->text, !page.full);
    w->pages = page.full || (n != NULL && is_under(w, n->text));
    w->ends = !w->pages;
}

/* ---- A watcher goes on. */

static void begin(struct lh_master *m, struct lh_m_lock_watcher *w)
{
    LH_MARK("lock-watch-reset");
    m->counts.watch_resets++;
    w->next = m->locks.watching->last + 1;
    w->begins = w->pages = true;
    w->ends = false;
    free(w->at.name);
    w->at.name = NULL;
}

/* True: it has come to the last one. */
static bool add_events(struct lh_master *m, struct lh_m_lock_watcher *w, struct reply *r)
{
    struct lh_m_lock_watching *all = m->locks.watching;

    for (; w->next <= all->last; w->next++) {
        struct lh_m_lock_event *e = *lh_m_lock_event_slot(m, w->next);
        if (is_full(m, r) || all->work == 0)
            return false;
        all->work--;
        if (r->message.n_locks > 0 && LH_PLANTED("lock-event-lost"))
            continue;
        if (is_under(w, e->name) && (!w->pages || is_passed(&w->at, e->name, e->session)))
            say_event(m, r, e);
    }
    return true;
}

static void advance(struct lh_master *m, struct lh_m_lock_watcher *w)
{
    struct lh_m_lock_watching *all = m->locks.watching;
    struct reply r = {.bytes = 0};

    if (w->begins || w->next < all->first)
        begin(m, w);
    leasehold__watch_reply__init(&r.message);
    r.message.reset = w->begins;
    w->begins = false;
    bool caught_up = add_events(m, w, &r);
    if (caught_up && w->pages)
        add_page(m, w, &r);
    if (r.message.n_locks > 0 || r.message.reset || w->ends) {
        send(m, w, &r);
        w->ends = false;
    } else {
        w->busy = w->pages || !caught_up;
        if (w->busy)
            TAILQ_INSERT_TAIL(&all->busy, w, queue);
        else
            TAILQ_INSERT_TAIL(&all->idle, w, queue);
    }
    free(r.said);
}

void lh_m_lock_watch_step(struct lh_master *m)
{
    struct lh_m_lock_watching *all = m->locks.watching;
    struct lh_m_lock_watcher *w;

    if (all == NULL)
        return;
    all->work = m->config.step_work;
    while (all->work > 0 && (w = TAILQ_FIRST(&all->busy)) != NULL) {
        TAILQ_REMOVE(&all->busy, w, queue);
        w->busy = false;
        all->work--;
        advance(m, w);
    }
    if (!TAILQ_EMPTY(&all->busy))
        lh_timer_set(&m->timers, &m->locks.work_timer, m->now);
}

/* ---- Streams. */

size_t lh_m_lock_watchers(const struct lh_master *m)
{
    return m->locks.watching == NULL ? 0 : m->locks.watching->count;
}

static struct lh_m_lock_watching *watching(struct lh_master *m)
{
    struct lh_m_lock_watching *all = m->locks.watching;

    if (all != NULL)
        return all;
    all = m->locks.watching = lh_alloc(sizeof *all);
    TAILQ_INIT(&all->busy);
    TAILQ_INIT(&all->idle);
    all->ring = lh_alloc_array(m->config.lock_events, sizeof(struct lh_m_lock_event *));
    all->first = 1;
    return all;
}

static void sent(void *core, struct lh_link *link)
{
    struct lh_m_lock_watcher *w = LH_OWNER(link, struct lh_m_lock_watcher, link);
    struct lh_master *m = core;

    if (!w->in_flight)
        return;
    w->in_flight = false;
    w->busy = true;
    TAILQ_INSERT_TAIL(&m->locks.watching->busy, w, queue);
}

static void drop(struct lh_master *m, struct lh_m_lock_watcher *w)
{
    struct lh_m_lock_watching *all = m->locks.watching;

    if (w->busy)
        TAILQ_REMOVE(&all->busy, w, queue);
    else if (!w->in_flight)
        TAILQ_REMOVE(&all->idle, w, queue);
    lh_link_forget(&m->links, &w->link);
    free(w->prefix);
    free(w->at.name);
    free(w);
    if (--all->count > 0)
        return;
    while (all->first <= all->last)
        lh_m_lock_event_drop(m);
    free(all->ring);
    free(all);
    m->locks.watching = NULL;
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)error;
    (void)text;
    drop(core, LH_OWNER(link, struct lh_m_lock_watcher, link));
}

static const struct lh_link_user watcher_links = {.sent = sent, .closed = closed};

void lh_m_lock_watch(struct lh_master *m, uint64_t link, const char *prefix)
{
    struct lh_m_lock_watching *all = watching(m);
    struct lh_m_lock_watcher *w = lh_alloc(sizeof *w);

    w->link.user = &watcher_links;
    w->prefix = lh_strdup(prefix);
    w->begins = w->busy = true;
    lh_link_serve(&m->links, &w->link, link);
    all->count++;
    TAILQ_INSERT_TAIL(&all->busy, w, queue);
}

void lh_m_lock_watch_end(struct lh_master *m, int error, const char *text)
{
    struct lh_link *l, *next;

    LH_LINKS_FOREACH(&m->links, &watcher_links, l, next) {
        if (m->fx != NULL)
            lh_fx_close(m->fx, l->id, error, text);
        drop(m, LH_OWNER(l, struct lh_m_lock_watcher, link));
    }
}

void lh_m_lock_watch_check(const struct lh_master *m)
{
    const struct lh_m_lock_watching *all = m->locks.watching;
    const struct lh_m_lock_watcher *w;
    struct lh_link *l, *next;
    size_t queued = 0, in_flight = 0, bytes = 0;

    if (all == NULL)
        return;
    TAILQ_FOREACH(w, &all->idle, queue) {
        LH_ASSERT(!w->busy && !w->in_flight && !w->pages && w->next == all->last + 1);
        queued++;
    }
    TAILQ_FOREACH(w, &all->busy, queue) {
        LH_ASSERT(w->busy && !w->in_flight);
        queued++;
    }
    LH_LINKS_FOREACH(&m->links, &watcher_links, l, next)
        in_flight += LH_OWNER(l, struct lh_m_lock_watcher, link)->in_flight;
    LH_ASSERT(queued + in_flight == all->count);
    LH_ASSERT(all->first <= all->last + 1);
    LH_ASSERT(all->last + 1 - all->first <= m->config.lock_events);
    for (uint64_t i = all->first; i <= all->last; i++)
        bytes += (*lh_m_lock_event_slot(m, i))->size;
    LH_ASSERT(bytes == all->bytes);
}
