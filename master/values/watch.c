/* Streams of Watch (VAL-6). A watcher follows the history of changes, each as far as it has
 * come, and has one reply in flight at a time; what gathers is the history, and a step does only so
 * much for all, so their queues are not flow/outbox.h. One that the history does not reach back for
 * begins again: with the values that are there as of one revision, page by page in the order of
 * names, and then with what has changed since. What it has is whole when it has caught up; only
 * then `more` is false. */
#include "master/tables/replies.h"
#include "master/values/internal.h"

/* ---- Queues: busy, idle, or with a reply in flight and in neither. */

static void put(struct lh_master *m, struct lh_m_watcher *w, bool busy)
{
    w->busy = busy;
    w->in_flight = false;
    TAILQ_INSERT_TAIL(busy ? &m->value_state->busy : &m->value_state->idle, w, queue);
}

static void take(struct lh_master *m, struct lh_m_watcher *w)
{
    if (!w->in_flight)
        TAILQ_REMOVE(w->busy ? &m->value_state->busy : &m->value_state->idle, w, queue);
    w->in_flight = true;
}

static void drop(struct lh_master *m, struct lh_m_watcher *w)
{
    take(m, w);
    lh_link_forget(&m->links, &w->link);
    m->value_state->watcher_count--;
    free(w->prefix);
    free(w->after);
    free(w);
}

void lh_m_watch_wake(struct lh_master *m)
{
    struct lh_m_watcher *w;

    TAILQ_FOREACH(w, &m->value_state->idle, queue)
        w->busy = true; /* each is looked at next anyway */
    TAILQ_CONCAT(&m->value_state->busy, &m->value_state->idle, queue);
}

/* ---- Replies. */

struct reply {
    Leasehold__WatchReply message;
    Leasehold__WatchEvent *events, **pointers;
    size_t capacity, pointer_capacity, bytes;
};

static void reply_begin(const struct lh_m_watcher *w, struct reply *r)
{
    *r = (struct reply){.bytes = 0};
    leasehold__watch_reply__init(&r->message);
    r->message.reset = w->state == LH_M_WATCH_BEGINS;
}

static void reply_free(struct reply *r)
{
    free(r->events);
    free(r->pointers);
}

static bool is_full(const struct lh_master *m, const struct reply *r)
{
    return r->bytes >= m->config.watch_bytes || r->message.n_events >= m->config.watch_events;
}

static void add(const struct lh_m_watcher *w, struct reply *r, const char *name, uint64_t revision,
    const struct lh_buf *bytes, const uint8_t *session)
{
    size_t n = r->message.n_events;

    LH_GROW(r->events, r->capacity, n + 1);
    Leasehold__WatchEvent *e = &r->events[n];
    leasehold__watch_event__init(e);
    e->name = (char *)(uintptr_t)name;
    e->revision = revision;
    e->removed = bytes == NULL;
    if (bytes != NULL && bytes->size > 0 && !w->keys_only) {
        e->value.data = (uint8_t *)(uintptr_t)lh_buf_slices_const(bytes)->data;
        e->value.len = bytes->size;
    }
    if (session != NULL) {
        e->session.data = (uint8_t *)(uintptr_t)session;
        e->session.len = LH_M_SESSION_ID_BYTES;
    }
    r->message.n_events++;
    r->bytes += strlen(name) + e->value.len + 64;
}

static void send(struct lh_master *m, struct lh_m_watcher *w, struct reply *r)
{
    r->message.more = w->resetting;
    r->message.next = w->resetting ? 0 : w->next; /* who goes on from there begins again */
    LH_GROW(r->pointers, r->pointer_capacity, r->message.n_events);
    for (size_t i = 0; i < r->message.n_events; i++)
        r->pointers[i] = &r->events[i];
    r->message.events = r->pointers;
    m->counts.watch_events += r->message.n_events;
    take(m, w);
    lh_fx_send_notified(m->fx, w->link.id, &r->message.base, NULL);
}

/* ---- What there is. */

static bool is_under(const struct lh_m_watcher *w, const char *name)
{
    return strncmp(name, w->prefix, strlen(w->prefix)) == 0;
}

static void begin(struct lh_master *m, struct lh_m_watcher *w)
{
    LH_MARK("watch-reset");
    m->counts.watch_resets++;
    w->state = LH_M_WATCH_BEGINS;
    w->resetting = true;
    w->next = m->value_state->durable + 1;
    free(w->after);
    w->after = NULL;
}

/* Does the history have everything from there on? Revisions may leap: then a watcher that was
 * told of one that is not on record has seen what is no more (KEEP-4). */
static bool is_followed_from(const struct lh_master *m, uint64_t revision)
{
    const struct lh_m_value_change *c;

    if (revision == m->value_state->durable + 1)
        return true;
    if (revision == 0 || revision > m->value_state->durable)
        return false;
    c = lh_m_history_from(m, revision - 1);
    return c != NULL && c->revision <= revision;
}

static void set_after(struct lh_m_watcher *w, const char *name)
{
    char *copy = lh_strdup(name);

    free(w->after);
    w->after = copy;
}

static struct lh_m_name *next_name(const struct lh_master *m, const struct lh_m_watcher *w)
{
    struct lh_m_name *n = lh_m_name_from(m, w->after == NULL ? w->prefix : w->after);

    return n != NULL && w->after != NULL && strcmp(n->text, w->after) == 0 ? lh_m_name_next(n) : n;
}

/* True: all names have been looked at. A value that has changed since the reset began is left
 * out: its change follows. What is being committed may be lost yet, so the page ends before it
 * (`*waits`): the watcher would miss the value as it was. */
static bool add_page(struct lh_master *m, struct lh_m_watcher *w, struct reply *r, bool *waits)
{
    struct lh_m_name *n = next_name(m, w), *last = NULL;

    for (; n != NULL && is_under(w, n->text); n = lh_m_name_next(n)) {
        const struct lh_m_pending_changes *g = n->more->changing;
        const struct lh_m_value *v = n->more->value;
        *waits = g != NULL && g->phase == LH_M_COMMITTED;
        if (*waits || is_full(m, r) || (last != NULL && m->value_state->left.work == 0))
            break;
        lh_m_spend(m->value_state);
        last = n;
        if (v != NULL && v->revision < w->next)
            add(w, r, n->text, v->revision, &v->bytes, v->attached ? v->session : NULL);
    }
    if (last != NULL)
        set_after(w, last->text);
    return n == NULL || !is_under(w, n->text);
}

/* True: it has come to the last change that is durable. */
static bool add_changes(struct lh_master *m, struct lh_m_watcher *w, struct reply *r)
{
    const struct lh_m_value_change *c;
    uint64_t first = w->next;

    while ((c = lh_m_history_from(m, w->next)) != NULL && c->revision <= m->value_state->durable) {
        if (is_full(m, r) || (w->next > first && m->value_state->left.work == 0))
            return false;
        lh_m_spend(m->value_state);
        w->next = c->revision + 1;
        if (!is_under(w, c->name) || (r->message.n_events > 0 && LH_PLANTED("watch-event-lost")))
            continue;
        add(w, r, c->name, c->revision, c->removed ? NULL : &c->bytes,
            c->attached ? c->session : NULL);
    }
    if (w->next <= m->value_state->durable)
        w->next = m->value_state->durable + 1; /* the history ends before a leap */
    return true;
}

static void advance(struct lh_master *m, struct lh_m_watcher *w)
{
    bool waits = false, whole = false;
    struct reply r;

    if (w->state == LH_M_WATCH_BEGINS || !is_followed_from(m, w->next))
        begin(m, w);
    reply_begin(w, &r);
    if (w->state != LH_M_WATCH_FOLLOWS) {
        w->state = LH_M_WATCH_PAGES;
        if (add_page(m, w, &r, &waits))
            w->state = LH_M_WATCH_FOLLOWS;
    }
    if (w->state == LH_M_WATCH_FOLLOWS)
        whole = add_changes(m, w, &r);
    bool ends = whole && w->resetting;
    w->resetting = w->resetting && !whole;
    if (r.message.n_events > 0 || r.message.reset || ends)
        send(m, w, &r);
    else
        put(m, w, !whole && !waits);
    reply_free(&r);
}

void lh_m_watch_step(struct lh_master *m)
{
    struct lh_m_watcher *w;

    while (m->value_state->left.work > 0 && (w = TAILQ_FIRST(&m->value_state->busy)) != NULL) {
        TAILQ_REMOVE(&m->value_state->busy, w, queue);
        w->in_flight = true;
        advance(m, w);
        lh_m_spend(m->value_state);
    }
}

/* ---- Streams. */

static void refuse(struct lh_master *m, uint64_t link, int error, const char *text)
{
    Leasehold__WatchReply reply = LEASEHOLD__WATCH_REPLY__INIT;

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    lh_m_reply(m, link, 0, &reply.base);
}

void lh_m_watch_message(struct lh_master *m, uint64_t link, const Leasehold__WatchRequest *request)
{
    struct lh_m_watcher *w;

    m->counts.calls[LH_METHOD_WATCH]++;
    if (strlen(request->prefix) > LH_M_NAME_BYTES_MAX) {
        refuse(m, link, LH_ERR_INVALID_ARGUMENT, "a name has at most 1024 bytes");
        return;
    }
    if (m->value_state->watcher_count + lh_m_lock_watchers(m) >= m->config.watchers_max) {
        refuse(m, link, LH_ERR_NO_MEMORY, "there are as many watchers as there may be");
        return;
    }
    if (request->locks) {
        lh_m_lock_watch(m, link, request->prefix);
        return;
    }
    w = lh_alloc(sizeof *w);
    w->link.user = &lh_m_watch_links;
    w->prefix = lh_strdup(request->prefix);
    w->keys_only = request->keys_only;
    w->next = request->from;
    if (w->next > 1 && LH_PLANTED("watch-event-twice"))
        w->next--;
    w->state = request->from == 0 ? LH_M_WATCH_BEGINS : LH_M_WATCH_FOLLOWS;
    lh_link_serve(&m->links, &w->link, link);
    m->value_state->watcher_count++;
    put(m, w, true);
}

static void sent(void *core, struct lh_link *link)
{
    struct lh_m_watcher *w = LH_OWNER(link, struct lh_m_watcher, link);

    if (w->in_flight)
        put(core, w, true);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)error;
    (void)text;
    drop(core, LH_OWNER(link, struct lh_m_watcher, link));
}

const struct lh_link_user lh_m_watch_links = {.sent = sent, .closed = closed};

void lh_m_watch_end(struct lh_master *m, int error, const char *text)
{
    struct lh_link *l, *next;

    lh_m_lock_watch_end(m, error, text);
    LH_LINKS_FOREACH(&m->links, &lh_m_watch_links, l, next) {
        if (m->fx != NULL)
            lh_fx_close(m->fx, l->id, error, text);
        drop(m, LH_OWNER(l, struct lh_m_watcher, link));
    }
}
