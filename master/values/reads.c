/* Reading values: on session streams, with cache leases (VAL-1), and without a session. */
#include "lease/term.h"
#include "master/tables/replies.h"
#include "master/values/internal.h"
#include "master/values/lookups.h"

/* ---- On a session's stream. */

static void say(struct lh_master *m, struct lh_m_program *p, Leasehold__ValueRead *read)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;

    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE;
    answer.value = read;
    lh_m_reply_answer(m, p, &answer);
}

static void say_error(
    struct lh_master *m, struct lh_m_program *p, uint64_t id, int error, const char *text)
{
    Leasehold__ValueRead read = LEASEHOLD__VALUE_READ__INIT;

    read.id = id;
    read.error = lh_m_wire_error(error);
    read.text = (char *)(uintptr_t)text;
    say(m, p, &read);
}

static void fill_value(
    const struct lh_m_name *name, const Leasehold__ReadValue *asked, Leasehold__ValueRead *read)
{
    const struct lh_m_value *v = name == NULL ? NULL : name->more->value;

    if (v == NULL) {
        read->error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
        return;
    }
    read->revision = v->revision;
    read->same = asked->revision == v->revision;
    if (!read->same && v->bytes.size > 0) {
        read->value.data = (uint8_t *)(uintptr_t)lh_buf_slices_const(&v->bytes)->data;
        read->value.len = v->bytes.size;
    }
}

/* The lease, or the time for which the value can be taken for current without one. Both count from
 * the last heartbeat, so the time that has passed since is added (TIME-4). */
static void fill_lease(
    struct lh_master *m, struct lh_m_program *p, const char *text, Leasehold__ValueRead *read)
{
    const struct lh_m_policy *policy = lh_m_policy_of(m, text);
    struct lh_m_name *name = lh_m_name_find(m, text);
    struct lh_duration term = lh_duration_add(
        lh_m_is_lookup(text) ? lh_m_lookup_term(m) : lh_m_value_term(m, name, policy),
        lh_instant_until(p->session.client.received_at, m->now));

    if (policy->broadcast)
        return; /* nothing is kept of who reads it (VAL-5) */
    read->term_ns = lh_term_for_holder(term, m->config.drift_ppm).ns;
    if (policy->no_lease)
        return;
    if (lh_m_leases_full(m) || p->caches >= m->config.program_locks_max) {
        LH_MARK("no-cache-lease-left");
        read->term_ns = 0;
        return;
    }
    name = lh_m_name_get(m, text);
    read->leased = lh_m_cache_grant(m, p, name, term);
    if (!read->leased) {
        read->term_ns = 0;
        lh_m_name_settle(m, name);
        return;
    }
    m->counts.caches_granted++;
}

static bool is_leased(const struct lh_master *m, const char *text)
{
    const struct lh_m_policy *policy = lh_m_policy_of(m, text);

    return !policy->broadcast && !policy->no_lease;
}

void lh_m_answer_read(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__ReadValue *asked, struct lh_m_name *name)
{
    struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);
    bool lookup = lh_m_is_lookup(asked->name);
    Leasehold__ValueRead read = LEASEHOLD__VALUE_READ__INIT;
    uint8_t bytes[LH_M_LOOKUP_BYTES];

    read.id = asked->id;
    read.stamp = p->session.stamp;
    read.prefix = (char *)(uintptr_t)lh_m_broadcast_of(m, asked->name, &read.prefix_revision);
    if (lookup)
        lh_m_lookup_fill(m, asked, &read, bytes);
    else
        fill_value(name, asked, &read);
    /* VAL-2 (2): who is given a lease now is not told to drop it. What is promised instead ends
     * before the change. */
    if (lh_m_gives_no_lease(g)) {
        LH_MARK("read-without-lease-while-changing");
        read.changing = g->number;
        if (asked->lease && is_leased(m, asked->name) &&
            !(lookup && read.error != LEASEHOLD__ERROR_CODE__OK))
            read.term_ns =
                lh_term_for_holder(lh_m_pending_changes_promise(m, p, g), m->config.drift_ppm).ns;
        if (asked->lease && LH_PLANTED("lease-given-while-changing")) {
            read.changing = 0;
            read.leased = true;
            read.term_ns = lh_term_for_holder(p->term, m->config.drift_ppm).ns;
        }
    } else if (asked->lease && !(lookup && read.error != LEASEHOLD__ERROR_CODE__OK)) {
        fill_lease(m, p, asked->name, &read);
    }
    say(m, p, &read);
}

void lh_m_value_read(struct lh_master *m, struct lh_m_program *p, const Leasehold__ReadValue *asked)
{
    char why[LH_TEXT_BYTES];

    if (lh_m_is_lookup(asked->name))
        m->counts.lookups++;
    else
        m->counts.value_reads++;
    if (lh_m_cached_name_check(p, asked->name, why, sizeof why) != LH_OK) {
        say_error(m, p, asked->id, LH_ERR_INVALID_ARGUMENT, why);
        return;
    }
    struct lh_m_name *name = lh_m_name_find(m, asked->name);
    struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);
    if (g == NULL || g->phase == LH_M_DROPPING ||
        (g->phase == LH_M_ANSWERING && STAILQ_EMPTY(&g->reads))) {
        lh_m_answer_read(m, p, asked, name);
        return;
    }
    /* VAL-2 (4): what is being committed may be lost yet, and the old value is it no more. */
    if (m->value_state->read_count >= m->config.reads_waiting_max) {
        say_error(m, p, asked->id, LH_ERR_UNAVAILABLE,
            "too many reads wait for changes that are being committed: try again");
        return;
    }
    LH_MARK("read-waits-for-commit");
    struct lh_m_waiting_read *r = lh_alloc(sizeof *r);
    r->link = p->session.link;
    r->id = asked->id;
    r->revision = asked->revision;
    r->lease = asked->lease;
    STAILQ_INSERT_TAIL(&g->reads, r, next);
    m->value_state->read_count++;
}

void lh_m_value_dropped(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__Dropped *dropped)
{
    struct lh_m_name *name = lh_m_name_find(m, dropped->name);
    const struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);

    if (name == NULL)
        return;
    /* Of an earlier change: since then the program may have been given another lease. */
    if (g == NULL || g->phase != LH_M_DROPPING || g->number != dropped->change) {
        LH_MARK("old-drop-confirmation");
        if (!LH_PLANTED("old-drop-confirmation-counts"))
            return;
    }
    lh_m_cache_release(m, p, name);
}

/* ---- Without a session. */

void lh_m_value_info(const struct lh_m_value *v, bool with_bytes, Leasehold__ValueInfo *info)
{
    info->name = v->name->text;
    info->revision = v->revision;
    info->size = v->bytes.size;
    info->token = v->token;
    if (v->attached) {
        info->session.data = (uint8_t *)(uintptr_t)v->session;
        info->session.len = sizeof v->session;
    }
    if (with_bytes && v->bytes.size > 0) {
        info->value.data = (uint8_t *)(uintptr_t)lh_buf_slices_const(&v->bytes)->data;
        info->value.len = v->bytes.size;
    }
}

void lh_m_get(struct lh_master *m, uint64_t link, const Leasehold__GetRequest *request)
{
    Leasehold__GetReply reply = LEASEHOLD__GET_REPLY__INIT;
    Leasehold__ValueInfo info = LEASEHOLD__VALUE_INFO__INIT;
    char why[LH_TEXT_BYTES];
    uint64_t ticket = 0;

    m->counts.value_reads++;
    if (lh_m_name_check(request->name, why, sizeof why) != LH_OK) {
        reply.error = LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT;
        reply.error_text = why;
        lh_m_reply(m, link, 0, &reply.base);
        return;
    }
    const struct lh_m_name *name = lh_m_name_find(m, request->name);
    const struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);
    reply.store_revision = m->value_state->durable;
    if (g != NULL && g->phase == LH_M_COMMITTED) {
        ticket = g->ticket; /* VAL-2 (4): the answer waits */
        reply.store_revision = g->revision;
    }
    if (name == NULL || name->more->value == NULL) {
        reply.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    } else {
        reply.same = request->revision != 0 && request->revision == name->more->value->revision;
        lh_m_value_info(name->more->value, !reply.same, &info);
        reply.value = &info;
    }
    reply.ttl_ms = lh_duration_ms(lh_m_value_term(m, name, lh_m_policy_of(m, request->name)));
    lh_m_reply(m, link, ticket, &reply.base);
}
