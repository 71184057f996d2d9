/* Changes of values as they are asked for, judged and applied (VAL-2, VAL-3, VAL-4). */
#include "base/plural.h"
#include "master/tables/replies.h"
#include "master/values/internal.h"

#include <inttypes.h>

/* ---- (4): conditions. */

static bool is_attached_still(const struct lh_m_value *v, const struct lh_m_change *c)
{
    return v != NULL && v->leaving && v->revision == c->revision;
}

static int judge_token(struct lh_master *m, const struct lh_m_name *name,
    const struct lh_m_change *c, char *text, size_t text_size)
{
    const struct lh_m_value *v = name->more->value;
    const char *lock = c->lock == NULL ? name->text : c->lock;

    if (LH_PLANTED("stale-token-change-applied"))
        return LH_OK;
    if (c->token != 0 && !lh_m_lock_in_force(m, lock, c->token)) {
        LH_MARK("change-with-stale-token");
        snprintf(text, text_size, "the lock on \"%.256s\" is not held with token %" PRIu64, lock,
            c->token);
        return LH_ERR_STALE_TOKEN;
    }
    if (c->token == 0 && !c->force && v != NULL && v->token != 0) {
        snprintf(text, text_size,
            "the value was changed with token %" PRIu64
            " of a lock: name the token of a lock that is held, or force the change",
            v->token);
        return LH_ERR_STALE_TOKEN;
    }
    return LH_OK;
}

static int judge_revision(
    const struct lh_m_name *name, const struct lh_m_change *c, char *text, size_t text_size)
{
    uint64_t revision = lh_m_revision_of(name);

    if (c->if_revision && c->revision != revision && revision != 0) {
        snprintf(text, text_size, "the value has revision %" PRIu64, revision);
        return LH_ERR_ALREADY_EXISTS;
    }
    if (revision == 0 && (c->remove || (c->if_revision && c->revision != 0))) {
        snprintf(text, text_size, "there is no value");
        return LH_ERR_NOT_FOUND;
    }
    return LH_OK;
}

static int judge_bounds(struct lh_master *m, const struct lh_m_name *name,
    const struct lh_m_change *c, char *text, size_t text_size)
{
    const struct lh_m_value *v = name->more->value;
    const struct lh_m_program *p;

    if (c->remove)
        return LH_OK;
    if (m->store_fills != NULL) { /* HA-11 */
        snprintf(text, text_size, "%s", m->store_fills);
        return LH_ERR_DISK_FULL;
    }
    if ((v == NULL && m->values.count >= m->config.values_max) ||
        m->values.bytes - (v == NULL ? 0 : v->bytes.size) + c->size > m->config.values_bytes_max) {
        snprintf(text, text_size, "there are as many values as there may be: delete some");
        return LH_ERR_NO_MEMORY;
    }
    if (!c->attach)
        return LH_OK;
    p = lh_m_program_find(m, c->session);
    if (p == NULL || p->over) {
        LH_MARK("change-attached-to-ended-session");
        snprintf(text, text_size, "the session that the value is to be attached to is over");
        return LH_ERR_UNKNOWN_SESSION;
    }
    if (p->attached_count >= m->config.attached_max && (v == NULL || v->program != p)) {
        snprintf(text, text_size, "as many values are attached to the session as may be");
        return LH_ERR_NO_MEMORY;
    }
    return LH_OK;
}

static int judge(struct lh_master *m, const struct lh_m_name *name, const struct lh_m_change *c,
    char *text, size_t text_size)
{
    int error = judge_token(m, name, c, text, text_size);

    if (error == LH_OK)
        error = judge_revision(name, c, text, text_size);
    return error != LH_OK ? error : judge_bounds(m, name, c, text, text_size);
}

int lh_m_change_judge(struct lh_master *m, const struct lh_m_name *name,
    const struct lh_m_change *c, char *text, size_t text_size)
{
    text[0] = 0;
    if (c->follows) /* it was put again meanwhile: the last put alone attaches (VAL-4) */
        return is_attached_still(name->more->value, c) ? LH_OK : LH_ERR_NOT_FOUND;
    if (LH_PLANTED("conditions-checked-too-early"))
        return c->remove ? judge_revision(name, c, text, text_size) : LH_OK;
    return judge(m, name, c, text, text_size);
}

void lh_m_change_refuse(struct lh_master *m, struct lh_m_change *c, int error, const char *text)
{
    Leasehold__ChangeReply reply = LEASEHOLD__CHANGE_REPLY__INIT;
    const struct lh_m_pending_changes *g = c->changing;

    if (!c->follows) {
        m->counts.changes_refused++;
        reply.error = lh_m_wire_error(error);
        reply.error_text = (char *)(uintptr_t)text;
        reply.revision = lh_m_revision_of(g->name);
        lh_m_pending_answer(m, &c->call, g->phase == LH_M_COMMITTED ? g->ticket : 0, &reply.base);
    }
    lh_m_change_free(m, c);
}

uint64_t lh_m_change_apply(struct lh_master *m, struct lh_m_name *name, struct lh_m_change *c)
{
    Leasehold__ChangeReply reply = LEASEHOLD__CHANGE_REPLY__INIT;
    struct lh_m_program *p = c->attach ? lh_m_program_find(m, c->session) : NULL;

    m->counts.changes++;
    if (c->remove)
        reply.revision = lh_m_value_remove(m, name);
    else
        reply.revision = lh_m_value_put(m, name, &c->bytes, c->token, p);
    if (c->follows) {
        LH_MARK("attached-value-deleted");
        return reply.revision;
    }
    lh_m_pending_answer(m, &c->call, m->commit.next_ticket, &reply.base);
    return reply.revision;
}

/* ---- (1): it comes. */

static struct lh_m_change *change_of_timer(struct lh_timer *timer)
{
    return LH_OWNER(timer, struct lh_m_change, timer);
}

/* It has changed nothing, and never will. Caches that were told have dropped the value, or will. */
static void too_late(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_change *c = change_of_timer(timer);
    struct lh_m_pending_changes *g = c->changing;
    char text[LH_TEXT_BYTES];

    LH_MARK("change-waited-too-long");
    if (lh_m_programs_awaited(m))
        snprintf(
            text, sizeof text, "nothing was changed: sessions of the last master are not back yet");
    else if (g->name->caches > 0)
        snprintf(text, sizeof text,
            "nothing was changed: %" PRIu32 " %s the value and %s not answer", g->name->caches,
            lh_one_or_many(g->name->caches, "session caches", "sessions cache"),
            lh_one_or_many(g->name->caches, "does", "do"));
    else
        snprintf(text, sizeof text, "nothing was changed: %s",
            g->phase == LH_M_DROPPING && TAILQ_FIRST(&g->changes) == c
                ? "what readers were promised is not over yet"
                : "other changes of the value come first");
    lh_m_change_refuse(m, c, LH_ERR_LEASE_HELD, text);
    lh_m_pending_changes_work(m, g);
}

static struct lh_duration wait_of(const struct lh_master *m, uint64_t wait_ms)
{
    struct lh_duration asked = lh_milliseconds(wait_ms);

    if (wait_ms == 0) /* with the longest session every cache is over */
        return lh_duration_max(m->config.change_wait, m->config.program_term_max);
    return lh_duration_min(asked, m->config.change_wait_max);
}

static int check_request(
    struct lh_master *m, const Leasehold__ChangeRequest *request, char *text, size_t text_size)
{
    int error = lh_m_name_check(request->name, text, text_size);

    if (error == LH_OK && !request->remove)
        error = lh_m_name_check_kept("the name of a value", request->name, text, text_size);
    if (error == LH_OK && request->lock[0] != 0)
        error = lh_m_name_check(request->lock, text, text_size);
    if (error != LH_OK)
        return error;
    if (request->value.len > LH_M_VALUE_BYTES_MAX) {
        snprintf(text, text_size, "a value has at most %u bytes", LH_M_VALUE_BYTES_MAX);
        return LH_ERR_TOO_LARGE;
    }
    if (request->attach.len != 0 && request->attach.len != LH_M_SESSION_ID_BYTES) {
        snprintf(text, text_size, "a session's id has %u bytes", LH_M_SESSION_ID_BYTES);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (!request->remove && m->store_fills != NULL) {
        snprintf(text, text_size, "%s", m->store_fills);
        return LH_ERR_DISK_FULL;
    }
    return LH_OK;
}

bool lh_m_change_fits(const struct lh_master *m, const struct lh_m_name *name, size_t size)
{
    const struct lh_m_pending_changes *g = lh_m_pending_changes_of(name);

    return (g == NULL || g->change_count < m->config.changes_max) &&
           m->value_state->change_count < m->config.changes_waiting_max &&
           m->value_state->change_bytes + size <= m->config.changes_bytes_max;
}

static int check_bounds(const struct lh_master *m, const Leasehold__ChangeRequest *request,
    char *text, size_t text_size)
{
    if (lh_m_change_fits(m, lh_m_name_find(m, request->name), request->value.len))
        return LH_OK;
    snprintf(text, text_size, "too many changes of this value, or of all values, wait");
    return LH_ERR_NO_MEMORY;
}

static struct lh_m_change *change_of(const Leasehold__ChangeRequest *request)
{
    struct lh_m_change *c = lh_alloc(sizeof *c);

    c->remove = request->remove;
    c->if_revision = request->if_revision;
    c->revision = request->revision;
    c->token = request->token;
    c->force = request->force;
    c->lock = request->lock[0] == 0 ? NULL : lh_strdup(request->lock);
    c->attach = request->attach.len > 0 && !request->remove;
    if (c->attach)
        memcpy(c->session, request->attach.data, sizeof c->session);
    if (!request->remove && request->value.len > 0)
        c->bytes = lh_buf_copy(request->value.data, request->value.len);
    c->timer.fire = too_late;
    return c;
}

static void refuse_at_once(
    struct lh_master *m, uint64_t link, const char *name, int error, const char *text)
{
    Leasehold__ChangeReply reply = LEASEHOLD__CHANGE_REPLY__INIT;
    const struct lh_m_pending_changes *g = lh_m_pending_changes_of(lh_m_name_find(m, name));

    m->counts.changes_refused++;
    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    reply.revision = lh_m_revision_of(lh_m_name_find(m, name));
    lh_m_reply(m, link, g != NULL && g->phase == LH_M_COMMITTED ? g->ticket : 0, &reply.base);
}

void lh_m_change(struct lh_master *m, uint64_t link, const Leasehold__ChangeRequest *request)
{
    char text[LH_TEXT_BYTES];
    int error = check_request(m, request, text, sizeof text);

    if (error == LH_OK)
        error = check_bounds(m, request, text, sizeof text);
    if (error != LH_OK) {
        refuse_at_once(m, link, request->name, error, text);
        return;
    }
    struct lh_m_change *c = change_of(request);
    struct lh_m_name *name = lh_m_name_get(m, request->name);
    lh_m_pending_begin(m, &c->call, link);
    lh_m_change_add(m, name, c);
    lh_timer_set(&m->timers, &c->timer, lh_instant_add(m->now, wait_of(m, request->wait_ms)));
    if (!LH_PLANTED("conditions-checked-too-early"))
        return;
    error = judge(m, name, c, text, sizeof text);
    if (error != LH_OK)
        lh_m_change_refuse(m, c, error, text);
}
