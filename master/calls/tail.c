/* Calls that wait until a file has a primary: OpenTail and Recall. They cause what they wait for: a
 * next chunk after a durable seal, a grant of a free lease. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/seal/seal.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* ---- Progress. */

/* Is a primary there that this caller may be sent to? */
static bool tail_ready(
    const struct lh_master *m, const struct lh_m_waiter *w, const struct lh_m_chunk *tail)
{
    if (tail == NULL || tail->sealed || !lh_m_has_primary(m, tail) ||
        !lh_m_looks_alive(m, lh_m_holder(tail)))
        return false;
    /* TOK-2: who appends is sent to a version that was granted under its token. */
    if (!w->reads && !(lh_m_token_is_fence(w) && lh_m_fence_carried(tail)))
        return false;
    if (lh_m_unbacked_for(m, w) != NULL) {
        LH_MARK("tail-waits-for-a-backed-seal");
        return false;
    }
    if (lh_instant_reached(m->now, w->deadline))
        return true;
    /* It was told that the chunk is full: its seal is on the way. A newer version means that the
     * primary which said so is gone, and its successor has to say it again. */
    if (w->full_chunk == tail->id && w->failed_version == 0 &&
        tail->version <= w->arrival_version) {
        LH_MARK("tail-waits-for-seal");
        return false;
    }
    /* A hint, no proof (INV-9): the primary keeps its lease, but may be the last to know. */
    if (lh_m_chunk_is_lost_to(tail, w) && w->failed_version == tail->version &&
        lh_instant_before(m->now, w->hold_until) &&
        !lh_instant_before(w->arrived_at, lh_m_holder(tail)->session.client.received_at)) {
        LH_MARK("tail-held-back-by-hint");
        return false;
    }
    return true;
}

static bool recall_ready(const struct lh_master *m, const struct lh_m_waiter *w)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, w->chunk);

    if (c == NULL || c->sealed)
        return true;
    if (w->only_release)
        return !lh_m_held(m, c) ||
               (!c->active->grant->lease.recalling && c->version > w->from_version);
    return c->version > w->from_version && lh_m_held(m, c) && lh_m_has_primary(m, c);
}

/* Does anybody want the file's tail to have a primary? */
static bool wanted(const struct lh_m_file *f, const struct lh_m_chunk *tail)
{
    const struct lh_m_waiter *w;

    TAILQ_FOREACH(w, &f->active->waiters, file_link)
        if (w->kind == LH_WAIT_TAIL ||
            (tail != NULL && !w->only_release && w->chunk == tail->id && !tail->sealed))
            return true;
    return false;
}

void lh_m_file_advance(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *tail = lh_m_tail(f);

    lh_m_tokens_admit(m, f);
    if (tail != NULL && lh_m_seal_found(m, tail))
        return; /* the end of its commit comes here again */
    lh_m_roll_consider(m, f);
    if (wanted(f, tail)) {
        /* SEAL-1: the next chunk only after the seal is durable. */
        if (tail == NULL || (tail->sealed && lh_m_is_durable(m, tail->active->ticket))) {
            int error = lh_m_create_chunk(m, f);
            (void)error; /* whoever waits hears of it at the deadline, if it stays so */
        } else if (!tail->sealed && !tail->intent_to_seal && lh_m_creation_done(tail) &&
                   !lh_m_held(m, tail) && !lh_m_roll_damaged(m, tail)) {
            lh_m_grant_free(m, tail);
        }
        tail = lh_m_tail(f);
    }
    struct lh_m_waiter *w, *next;
    for (w = TAILQ_FIRST(&f->active->waiters); w != NULL; w = next) {
        next = TAILQ_NEXT(w, file_link);
        if (w->kind == LH_WAIT_TAIL ? tail_ready(m, w, tail) : recall_ready(m, w))
            lh_m_answer(m, w, LH_OK, "");
    }
}

static void waiter_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_waiter *w = LH_OWNER(timer, struct lh_m_waiter, timer);
    char text[LH_TEXT_BYTES];

    if (!lh_instant_reached(m->now, w->deadline)) {
        lh_timer_set(&m->timers, timer, w->deadline);
        lh_m_touch(m, w->file);
        return;
    }
    if (w->kind == LH_WAIT_TAIL ? tail_ready(m, w, lh_m_tail(w->file)) : recall_ready(m, w)) {
        lh_m_answer(m, w, LH_OK, "");
        return;
    }
    const struct lh_m_chunk *unbacked = lh_m_unbacked_for(m, w);
    if (unbacked != NULL) {
        lh_m_describe_unbacked(m, unbacked, text, sizeof text);
        lh_m_answer(m, w, LH_ERR_UNAVAILABLE, text);
        return;
    }
    if (w->kind == LH_WAIT_TAIL && !w->reads && !lh_m_token_is_fence(w)) {
        lh_m_describe_awaited(w, text, sizeof text);
        lh_m_answer(m, w, LH_ERR_UNAVAILABLE, text);
        return;
    }
    int error = lh_m_why_not(m, w->file, text, sizeof text);
    lh_m_answer(m, w, error, text);
}

/* ---- The calls. */

static int check_room(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    if (f->active->waiter_count < m->config.waiters_file_max &&
        m->waiter_count < m->config.waiters_max)
        return LH_OK;
    snprintf(text, text_size, "too many calls wait for \"%.256s\" or for other files", f->path);
    return LH_ERR_NO_MEMORY;
}

static struct lh_m_waiter *wait_for(
    struct lh_master *m, struct lh_m_file *f, enum lh_m_wait kind, uint64_t link, uint64_t wait_ms)
{
    struct lh_m_waiter *w = lh_alloc(sizeof *w);

    w->kind = kind;
    w->file = f;
    w->arrived_at = m->now;
    w->deadline = lh_instant_add(m->now, lh_milliseconds(wait_ms));
    w->hold_until = m->now;
    w->timer.fire = waiter_timer;
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    if (TAILQ_EMPTY(&fm->waiters))
        TAILQ_INSERT_TAIL(&m->waited, fm, waited_link);
    TAILQ_INSERT_TAIL(&fm->waiters, w, file_link);
    fm->waiter_count++;
    w->link.user = &lh_m_waiter_links;
    lh_link_serve(&m->links, &w->link, link);
    m->waiter_count++;
    lh_timer_set(&m->timers, &w->timer, w->deadline);
    lh_m_touch(m, f);
    return w;
}

void lh_m_open_tail(struct lh_master *m, uint64_t link, const Leasehold__OpenTailRequest *request)
{
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f =
        lh_m_file_named(m, request->file, request->path, &error, text, sizeof text);

    if (f != NULL)
        error = lh_m_token_check(request, text, sizeof text);
    if (f != NULL && error == LH_OK)
        error = check_room(m, f, text, sizeof text);
    if (error != LH_OK) {
        Leasehold__OpenTailReply reply = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, lh_m_ticket(m, f), &reply.base);
        return;
    }
    uint64_t wait_ms =
        request->wait_ms < LH_OPEN_TAIL_WAIT_MS_MAX ? request->wait_ms : LH_OPEN_TAIL_WAIT_MS_MAX;
    struct lh_m_waiter *w = wait_for(m, f, LH_WAIT_TAIL, link, wait_ms);
    struct lh_m_chunk *tail = lh_m_tail(f);
    w->full_chunk = request->full_chunk;
    w->failed_chunk = request->failed_chunk;
    w->failed_version = request->failed_version;
    w->unsettled_chunk = request->unsettled_chunk;
    w->reads = request->reads;
    w->token = request->token;
    w->lock_name = request->token == 0 ? NULL : lh_strdup(request->lock_name);
    struct lh_m_chunk *unbacked = lh_m_unbacked_for(m, w);
    if (unbacked != NULL) {
        lh_m_set_urgent(m, unbacked); /* a master that has started since does not know it */
        lh_m_enqueue(m, unbacked);
    }
    w->arrival_version = tail == NULL ? 0 : tail->version;
    if (tail != NULL && lh_m_chunk_is_lost_to(tail, w)) {
        w->hold_until = lh_instant_add(
            m->now, lh_m_rolls(m, f) ? m->config.suspect_after
                                     : lh_duration_min(m->heartbeat, m->config.suspect_hold));
        if (lh_instant_before(w->hold_until, w->deadline))
            lh_timer_set(&m->timers, &w->timer, w->hold_until);
        if (LH_PLANTED("hint-takes-lease") && lh_m_held(m, tail))
            lh_m_recall(m, tail);
        if (lh_m_held(m, tail))
            lh_m_consent_client(m, tail);
    }
}

/* The chunk that a Recall names, unsealed and with room for one more waiter. */
static struct lh_m_chunk *recalled_chunk(const struct lh_master *m,
    const Leasehold__RecallRequest *request, int *error, char *text, size_t text_size)
{
    struct lh_m_chunk *c;

    *error = LH_OK;
    if (request->chunk != 0) {
        c = lh_m_chunk_find(m, request->chunk);
        if (c == NULL) {
            *error = LH_ERR_NOT_FOUND;
            snprintf(text, text_size, "chunk %" PRIu64 " does not exist", request->chunk);
            return NULL;
        }
        if (c->file->trashed) {
            *error = LH_ERR_NOT_FOUND;
            snprintf(text, text_size,
                "chunk %" PRIu64 " of \"%.256s\" is in the trash: its lease is given up already",
                c->id, c->file->path);
            return NULL;
        }
    } else {
        struct lh_m_file *f = lh_m_file_named(m, 0, request->path, error, text, text_size);
        if (f == NULL)
            return NULL;
        c = lh_m_tail(f);
        if (c == NULL) {
            *error = LH_ERR_NOT_FOUND;
            snprintf(text, text_size, "\"%.256s\" has no chunk yet", f->path);
            return NULL;
        }
    }
    if (c->sealed || !c->created) {
        *error = LH_ERR_INVALID_ARGUMENT;
        snprintf(text, text_size, "chunk %" PRIu64 " of \"%.256s\" is %s: nobody holds its lease",
            c->id, c->file->path, c->sealed ? "sealed" : "being created");
        return NULL;
    }
    *error = check_room(m, c->file, text, text_size);
    return *error == LH_OK ? c : NULL;
}

void lh_m_recall_call(struct lh_master *m, uint64_t link, const Leasehold__RecallRequest *request)
{
    char text[LH_TEXT_BYTES];
    int error;
    struct lh_m_chunk *c = recalled_chunk(m, request, &error, text, sizeof text);

    if (c == NULL) {
        Leasehold__RecallReply reply = LEASEHOLD__RECALL_REPLY__INIT;
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        reply.chunk = request->chunk;
        lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
        return;
    }
    /* Nobody has to wait longer than any lease can last. */
    uint64_t longest_ms = lh_duration_ms(m->config.chunk_term) * 2;
    struct lh_m_waiter *w = wait_for(m, c->file, LH_WAIT_RECALL, link,
        request->wait_ms < longest_ms ? request->wait_ms : longest_ms);
    w->chunk = c->id;
    w->from_version = c->version;
    w->only_release = request->only_release;
    if (lh_m_held(m, c)) {
        w->old_primary = lh_strdup(lh_m_holder(c)->id);
        lh_m_recall(m, c);
    } else {
        w->old_primary = lh_strdup("");
    }
}
