/* What a person may look at: names, who holds them, who waits, and why. */
#include "base/plural.h"
#include "lease/term.h"
#include "master/locks/internal.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"

#include <inttypes.h>
#include <stdarg.h>

/* One name, as it is listed. Owns its arrays and sentences; other texts are the tables'. */
struct view {
    Leasehold__NameInfo info;
    Leasehold__LockHolder *holders;
    Leasehold__LockWaiter *waiters;
    size_t holder_capacity, waiter_capacity, sentence_capacity, most;
};

struct listing {
    struct view *views;
    size_t count, capacity, bytes;
    uint32_t *seen; /* numbers of the names that were looked at */
    size_t seen_count, seen_capacity;
};

static uint64_t ms_since(const struct lh_master *m, struct lh_instant then)
{
    return lh_duration_ms(lh_instant_until(then, m->now));
}

/* ---- Sentences. */

static void say_text(void *arg, const char *sentence)
{
    struct view *v = arg;

    LH_GROW(v->info.sentences, v->sentence_capacity, v->info.n_sentences + 1);
    v->info.sentences[v->info.n_sentences++] = lh_strdup(sentence);
}

__attribute__((format(printf, 2, 3))) static void say(struct view *v, const char *format, ...)
{
    char text[2 * LH_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say_text(v, text);
}

static double seconds(uint64_t ms)
{
    return (double)ms / 1000;
}

static void say_holder(struct view *v, const Leasehold__LockHolder *h)
{
    char asked[128] = "";

    if (h->recalled)
        snprintf(asked, sizeof asked, "; recalled %.1f s ago, %s", seconds(h->recalled_ms),
            h->refused ? "its holder keeps it"
            : h->cut   ? "it yields"
                       : "no answer");
    say(v, "held%s by %.128s of host %.128s, process %.128s, token %" PRIu64 ", %s %.1f s%s",
        h->mode == LEASEHOLD__LOCK_MODE__SHARED ? " shared" : "",
        h->label[0] != 0 ? h->label : "a session without a label",
        h->host[0] != 0 ? h->host : "(unknown)", h->process[0] != 0 ? h->process : "(unknown)",
        h->token, h->cut ? "cancelled or given up: it is over in" : "ends unless renewed in",
        seconds(h->left_ms), asked);
}

static void say_lock(const struct lh_master *m, struct view *v)
{
    const Leasehold__NameInfo *info = &v->info;

    if (info->n_holders == 0 && !lh_m_programs_awaited(m))
        say(v, "nobody holds a lock on it");
    for (size_t i = 0; i < info->n_holders; i++)
        say_holder(v, &v->holders[i]);
    if (info->waiting > 0)
        say(v, "%" PRIu64 " %s", info->waiting,
            info->waiting == 1 ? "request waits" : "requests wait");
    if (info->waiting > 0 && info->n_waiters == 0)
        say(v, "the sessions of these requests have no stream now, or do not take their answers: "
               "they are passed over until they do");
    if (lh_m_programs_awaited(m))
        say(v,
            "this master has just started, and %zu session%s of before %s not come back: until "
            "then, or until %s over, no lock is granted",
            m->leases.away, lh_plural(m->leases.away),
            lh_one_or_many(m->leases.away, "has", "have"),
            lh_one_or_many(m->leases.away, "its term is", "their terms are"));
}

/* ---- Views. */

/* TIME-4: the holder counts from when it sent its last heartbeat, which was not later than this. */
static uint64_t holder_left_ms(
    const struct lh_master *m, const struct lh_m_program *p, struct lh_instant end)
{
    struct lh_instant own = lh_instant_add(p->session.client.received_at,
        lh_term_for_holder(p->session.client.term, m->config.drift_ppm));

    return lh_duration_ms(lh_instant_until(m->now, lh_instant_before(own, end) ? own : end));
}

static bool add_holder(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, void *arg)
{
    struct view *v = arg;
    const struct lh_m_lock_request *c = lh_m_lock_request_of(n, p);
    struct lh_lease_info info;

    if (v->info.n_holders >= v->most ||
        !lh_untracked_find(&m->leases, &p->session.client, lh_m_lock_key(n), &info))
        return false;
    LH_GROW(v->holders, v->holder_capacity, v->info.n_holders + 1);
    Leasehold__LockHolder *h = &v->holders[v->info.n_holders++];
    leasehold__lock_holder__init(h);
    h->session = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    h->label = p->label;
    h->host = p->host;
    h->process = p->process;
    h->mode = info.mode == LH_LEASE_SHARED ? LEASEHOLD__LOCK_MODE__SHARED
                                           : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    h->token = info.version;
    h->left_ms = lh_duration_ms(lh_instant_until(m->now, info.end));
    h->holder_left_ms = holder_left_ms(m, p, info.end);
    h->cut = info.own_end.ns != UINT64_MAX;
    h->held_ms = ms_since(m, (struct lh_instant){n->held_since * UINT64_C(1000000000)});
    if (c == NULL || c->state != LH_M_LOCK_REQUEST_HELD)
        return true;
    h->held_ms = ms_since(m, c->since);
    h->info = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)c->info, .len = c->info_size};
    h->recalled = c->recalled;
    h->recalled_ms = c->recalled ? ms_since(m, c->recalled_at) : 0;
    h->refused = c->refused;
    h->slots = c->slots;
    return true;
}

static void add_waiters(const struct lh_master *m, const struct lh_m_name *n, struct view *v)
{
    struct lh_m_lock_request *c;

    if (n->more->lock_state == NULL)
        return;
    v->info.waiting = n->more->lock_state->waiting;
    RB_FOREACH(c, lh_m_queue, &n->more->lock_state->queue) {
        if (v->info.n_waiters >= v->most)
            return;
        LH_GROW(v->waiters, v->waiter_capacity, v->info.n_waiters + 1);
        Leasehold__LockWaiter *w = &v->waiters[v->info.n_waiters++];
        leasehold__lock_waiter__init(w);
        w->session = (ProtobufCBinaryData){.data = c->program->id, .len = sizeof c->program->id};
        w->label = c->program->label;
        w->host = c->program->host;
        w->mode = c->shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
        w->waited_ms = ms_since(m, c->since);
    }
}

static void view_name(struct lh_master *m, struct lh_m_name *n,
    const Leasehold__ListNamesRequest *request, struct view *v)
{
    *v = (struct view){.most = request->exact ? m->config.list_default : m->config.names_shown};
    leasehold__name_info__init(&v->info);
    v->info.name = n->text;
    m->locks.in_hand = n;
    lh_m_each_holder(m, n, add_holder, v);
    m->locks.in_hand = NULL;
    add_waiters(m, n, v);
    v->info.holders = lh_alloc_array(v->info.n_holders + 1, sizeof *v->info.holders);
    v->info.waiters = lh_alloc_array(v->info.n_waiters + 1, sizeof *v->info.waiters);
    for (size_t i = 0; i < v->info.n_holders; i++)
        v->info.holders[i] = &v->holders[i];
    for (size_t i = 0; i < v->info.n_waiters; i++)
        v->info.waiters[i] = &v->waiters[i];
    if (request->explain)
        say_lock(m, v);
    if (m->values_owner != NULL)
        m->values_owner->describe(m, n, &v->info, request->explain ? say_text : NULL, v);
}

static void view_free(struct view *v)
{
    for (size_t i = 0; i < v->info.n_sentences; i++)
        free(v->info.sentences[i]);
    free(v->info.sentences);
    free(v->info.holders);
    free(v->info.waiters);
    free(v->holders);
    free(v->waiters);
    free(v->info.value);
}

/* ---- The call. */

static struct lh_m_name *first_of(
    const struct lh_master *m, const Leasehold__ListNamesRequest *request)
{
    bool resumes = request->after[0] != 0 && strcmp(request->after, request->prefix) >= 0;
    struct lh_m_name *n;

    if (request->exact)
        return lh_m_name_find(m, request->prefix);
    n = lh_m_name_from(m, resumes ? request->after : request->prefix);
    return n != NULL && resumes && strcmp(n->text, request->after) == 0 ? lh_m_name_next(n) : n;
}

/* Adds the name to the page. False: it is full without it. */
static bool add_name(struct lh_master *m, struct listing *l, struct lh_m_name *n,
    const Leasehold__ListNamesRequest *request)
{
    LH_GROW(l->views, l->capacity, l->count + 1);
    LH_GROW(l->seen, l->seen_capacity, l->seen_count + 1);
    l->seen[l->seen_count++] = n->number;
    view_name(m, n, request, &l->views[l->count]);
    if (!lh_m_page_takes(m, &l->bytes, &l->views[l->count].info.base)) {
        view_free(&l->views[l->count]);
        return false;
    }
    l->count++;
    return true;
}

/* Looking at who holds a name may have found that nobody does any more. */
static void settle(struct lh_master *m, struct listing *l)
{
    for (size_t i = 0; i < l->seen_count; i++)
        lh_m_lock_touch(m, lh_m_name_by_number(m, l->seen[i]));
    free(l->seen);
}

static void reply_with(
    struct lh_master *m, uint64_t link, struct listing *l, Leasehold__ListNamesReply *reply)
{
    reply->names = lh_alloc_array(l->count + 1, sizeof *reply->names);
    reply->n_names = l->count;
    for (size_t i = 0; i < l->count; i++)
        reply->names[i] = &l->views[i].info;
    reply->waiting = lh_m_programs_awaited(m);
    reply->sessions_away = m->leases.away;
    if (reply->waiting)
        reply->waiting_ms = lh_duration_ms(lh_instant_until(m->now, lh_m_programs_back_by(m)));
    lh_m_reply(m, link, 1, &reply->base);
    free(reply->names);
    for (size_t i = 0; i < l->count; i++)
        view_free(&l->views[i]);
    free(l->views);
}

void lh_m_list_names(struct lh_master *m, uint64_t link, const Leasehold__ListNamesRequest *request)
{
    Leasehold__ListNamesReply reply = LEASEHOLD__LIST_NAMES_REPLY__INIT;
    struct listing l = {0};
    char text[LH_TEXT_BYTES];
    uint32_t limit = lh_m_page_size(request->limit, m->config.list_default, m->config.list_max);
    size_t prefix_size = strlen(request->prefix);
    int error = lh_path_prefix_check(request->prefix, text, sizeof text);

    if (error == LH_OK)
        error = lh_path_prefix_check(request->after, text, sizeof text);
    if (error != LH_OK) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, 1, &reply.base);
        return;
    }
    for (struct lh_m_name *n = first_of(m, request);
         n != NULL && !lh_m_is_lookup(n->text) && /* these come last */
         strncmp(n->text, request->prefix, prefix_size) == 0;
         n = request->exact ? NULL : lh_m_name_next(n)) {
        if (l.count == limit || !add_name(m, &l, n, request)) {
            reply.more = true;
            break;
        }
    }
    if (request->exact && l.count == 0) {
        reply.error = lh_m_wire_error(LH_ERR_NOT_FOUND);
        reply.error_text = "nobody uses this name now: it has no lock and no value";
    }
    reply_with(m, link, &l, &reply);
    settle(m, &l);
}
