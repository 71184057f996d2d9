/* Calls that wait until a file has a primary: OpenTail and Recall. They cause what they wait for: a
 * next chunk after a durable seal, a grant of a free lease. */
#include "master/tail.h"

#include "master/grants/consent.h"
#include "master/grants/leases.h"
#include "master/growth/creation.h"
#include "master/inventory/health.h"
#include "master/listing.h"
#include "master/namespace.h"
#include "master/seal/roll.h"
#include "master/seal/roll_length.h"
#include "master/sessions/reach.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>
#include <stdarg.h>

static struct lh_m_chunk *tail_of(const struct lh_m_file *f)
{
    return f->chunk_count == 0 ? NULL : f->chunks[f->chunk_count - 1];
}

void lh_m_waiter_free(struct lh_master *m, struct lh_m_waiter *w)
{
    struct lh_m_file *f = w->file;

    lh_m_timer_disarm(m, &w->timer);
    TAILQ_REMOVE(&f->waiters, w, file_link);
    f->waiter_count--;
    if (f->waiter_count == 0)
        TAILQ_REMOVE(&m->waited, f, waited_link);
    HASH_DELETE(hh, m->waiters, w);
    free(w->old_primary);
    free(w);
}

void lh_m_waiter_closed(struct lh_master *m, uint64_t link)
{
    struct lh_m_waiter *w;

    HASH_FIND(hh, m->waiters, &link, sizeof link, w);
    if (w != NULL)
        lh_m_waiter_free(m, w);
}

/* ---- Answers. */

/* Where the caller may have to settle what it sent: in the chunk that it names, or that was full;
 * or, if it lost a primary, in the newest one that is sealed, should the file have rolled over
 * meanwhile. */
static struct lh_m_chunk *settled_for(const struct lh_master *m, const struct lh_m_waiter *w)
{
    const struct lh_m_file *f = w->file;
    struct lh_m_chunk *c =
        lh_m_chunk_find(m, w->unsettled_chunk != 0 ? w->unsettled_chunk : w->full_chunk);

    if (w->unsettled_chunk == 0 && w->full_chunk == 0 && w->failed_version != 0)
        for (size_t i = f->chunk_count; i > 0 && c == NULL && i + 2 > f->chunk_count; i--)
            if (f->chunks[i - 1]->sealed)
                c = f->chunks[i - 1];
    return c != NULL && c->file == f && c->sealed ? c : NULL;
}

/* The sealed chunk in which the caller has to settle and cannot yet, as what is sealed there is on
 * too few disks (FAIL-2a); NULL: none. */
static struct lh_m_chunk *unbacked_for(const struct lh_master *m, const struct lh_m_waiter *w)
{
    struct lh_m_chunk *c = w->unsettled_chunk == 0 ? NULL : settled_for(m, w);

    return c == NULL || lh_m_backed(m, c) ? NULL : c;
}

/* Members that can be asked now come first. */
static void best_first(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view)
{
    size_t count = 0;

    for (int good = 1; good >= 0; good--)
        for (uint32_t i = 0; i < c->member_count; i++) {
            const struct lh_m_member *member = &c->members[i];
            int this_one = !member->suspect && !member->joining && !member->lost &&
                           !member->stale && lh_m_looks_alive(m, member->server);
            if (this_one == good)
                view->pointers[count++] = &view->members[i];
        }
}

static void answer_tail(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    Leasehold__OpenTailReply reply = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    Leasehold__FileInfo info;
    Leasehold__Member primary = LEASEHOLD__MEMBER__INIT;
    struct lh_m_chunk_view tail_view, settled_view;
    const struct lh_m_file *f = w->file;
    const struct lh_m_chunk *tail = tail_of(f);

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    lh_m_file_info(f, &info);
    reply.info = &info;
    if (tail != NULL && tail->created) {
        lh_m_chunk_view(m, tail, &tail_view);
        reply.chunk = &tail_view.info;
    }
    if (error == LH_OK) {
        lh_histogram_note(&m->counts.tail_wait, lh_instant_until(w->arrived_at, m->now));
        primary.server_id = tail->holder->id;
        primary.address = tail->holder->address;
        reply.primary = &primary;
    } else if (tail != NULL) {
        uint64_t left_ms = lh_duration_ms(lh_m_lease_left(m, tail));
        uint64_t retry_ms = lh_duration_ms(m->heartbeat);
        reply.lease_left_ms = left_ms;
        reply.retry_after_ms =
            error == LH_ERR_LEASE_HELD && left_ms < retry_ms ? left_ms : retry_ms;
    } else {
        reply.retry_after_ms = lh_duration_ms(m->heartbeat);
    }
    const struct lh_m_chunk *settled = settled_for(m, w);
    if (settled != NULL && lh_m_backed(m, settled)) {
        lh_m_chunk_view(m, settled, &settled_view);
        best_first(m, settled, &settled_view);
        reply.settled = &settled_view.info;
    }
    lh_m_reply(m, w->link, lh_m_ticket(m, f), &reply.base);
}

static void answer_recall(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    Leasehold__RecallReply reply = LEASEHOLD__RECALL_REPLY__INIT;
    const struct lh_m_chunk *c = lh_m_chunk_find(m, w->chunk);

    reply.error = lh_m_wire_error(error);
    reply.error_text = (char *)(uintptr_t)text;
    reply.chunk = w->chunk;
    reply.old_primary = w->old_primary;
    if (c != NULL) {
        reply.version = c->version;
        if (lh_m_held(m, c) && lh_m_has_primary(m, c))
            reply.new_primary = c->holder->id;
        if (error != LH_OK)
            reply.lease_left_ms = lh_duration_ms(lh_m_lease_left(m, c));
    }
    lh_m_reply(m, w->link, lh_m_ticket(m, w->file), &reply.base);
}

/* Answers and frees it. */
static void answer(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text)
{
    if (w->kind == LH_WAIT_TAIL)
        answer_tail(m, w, error, text);
    else
        answer_recall(m, w, error, text);
    lh_m_waiter_free(m, w);
}

void lh_m_fail_waiters(struct lh_master *m, struct lh_m_file *f, int error, const char *text)
{
    struct lh_m_waiter *w;
    struct lh_m_file *each;

    if (f != NULL) {
        while ((w = TAILQ_FIRST(&f->waiters)) != NULL)
            answer(m, w, error, text);
        return;
    }
    while ((each = TAILQ_FIRST(&m->waited)) != NULL)
        lh_m_fail_waiters(m, each, error, text);
}

__attribute__((format(printf, 3, 4))) static void add(
    char *text, size_t text_size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, text_size - used, format, args);
    va_end(args);
}

/* Names the members that are missed, if any. */
static void say_missing(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size)
{
    const char *separator = "; missing: ";

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        if (health == LH_M_GOOD && lh_m_looks_alive(m, member->server))
            continue;
        add(text, text_size, "%s%.64s (%s)", separator, member->server->id,
            health == LH_M_GOOD ? "does not answer" : lh_m_health_text(health));
        separator = ", ";
    }
}

/* The file's next chunk has no place. */
static void say_no_place(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    const struct lh_m_server *s;
    unsigned live = 0, drained = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        bool counts = lh_m_live(m, s) && !s->failing;
        live += counts;
        drained += counts && s->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
    }
    snprintf(text, text_size,
        "\"%.256s\" needs a new chunk on at least %u chunkservers with room for %" PRIu64
        " bytes; %u are alive",
        f->path, f->min_replicas, f->chunk_size, live);
    if (drained > 0)
        add(text, text_size, ", %u of them drained", drained);
}

/* The tail is free, and nobody can have it. */
static void say_nobody_can(
    const struct lh_master *m, const struct lh_m_chunk *tail, char *text, size_t text_size)
{
    enum { LOST, JOINING, AWAY, FAILING, REFUSED, REASONS };
    static const char *const words[REASONS] = {
        [LOST] = "without a good replica",
        [JOINING] = "joining",
        [AWAY] = "away",
        [FAILING] = "with a failing disk",
        [REFUSED] = "refused a moment ago",
    };
    unsigned counts[REASONS] = {0}, drained = 0;
    const char *separator = ": ";

    for (uint32_t i = 0; i < tail->member_count; i++) {
        const struct lh_m_member *member = &tail->members[i];
        const struct lh_m_server *s = member->server;
        counts[member->lost            ? LOST
               : member->joining       ? JOINING
               : !lh_m_reachable(m, s) ? AWAY
               : s->failing            ? FAILING
                                       : REFUSED]++;
        drained += s->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
    }
    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\": none of its %u members can be primary now", tail->id,
        tail->file->path, tail->member_count);
    for (size_t i = 0; i < REASONS; i++)
        if (counts[i] > 0) {
            add(text, text_size, "%s%u %s", separator, counts[i], words[i]);
            separator = ", ";
        }
    if (drained > 0)
        add(text, text_size, "; %u of them on drained servers", drained);
}

/* The tail is being sealed, because its primary is lost (FAIL-2a). */
static void say_rolling(const struct lh_m_chunk *tail, char *text, size_t text_size)
{
    const struct lh_m_roll *roll = tail->roll;

    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\" is being sealed, because its primary is lost: ", tail->id,
        tail->file->path);
    if (roll->decided)
        add(text, text_size, "at %" PRIu64 " bytes, and the next chunk is being created",
            roll->length);
    else
        add(text, text_size, "%u of %u members have said how much they have", roll->answer_count,
            tail->member_count);
}

/* What the caller sent was sealed by a log that is on too few disks. */
static void say_unbacked(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size)
{
    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\" was sealed by the log of a single member, and what was "
        "under way is answered once that is on %u disks: it is being copied",
        c->id, c->file->path, c->file->min_replicas);
    say_missing(m, c, text, text_size);
}

/* Why there is no primary now. `text` is where a sentence may be written. */
static int why_not(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    const struct lh_m_chunk *tail = tail_of(f);

    if (tail == NULL || (tail->sealed && lh_m_is_durable(m, tail->ticket))) {
        say_no_place(m, f, text, text_size);
        return LH_ERR_NOT_ENOUGH_SERVERS;
    }
    if (!tail->created && tail->unable != NULL) {
        snprintf(text, text_size,
            "\"%.256s\": %s cannot create a replica of its next chunk: %s; free space or add "
            "servers",
            f->path, tail->unable->id, lh_error_text(tail->unable_error));
        return tail->unable_error == LH_ERR_DISK_FULL ? LH_ERR_DISK_FULL
                                                      : LH_ERR_NOT_ENOUGH_SERVERS;
    }
    if (tail->roll != NULL) {
        LH_MARK("no-tail-rolling-over");
        say_rolling(tail, text, text_size);
        return LH_ERR_UNAVAILABLE;
    }
    if (tail->sealed) {
        snprintf(
            text, text_size, "\"%.256s\": the seal of its last chunk is being written", f->path);
        return LH_ERR_UNAVAILABLE;
    }
    if (!tail->created && !lh_m_creation_done(tail)) {
        snprintf(text, text_size, "\"%.256s\": its next chunk is being created", f->path);
        return LH_ERR_UNAVAILABLE;
    }
    if (lh_m_held(m, tail)) {
        if (tail->waiting)
            LH_MARK("no-tail-in-restart-wait");
        else
            LH_MARK("no-tail-lease-held");
        snprintf(text, text_size,
            "chunk %" PRIu64 " of \"%.256s\": %s holds the lease at version %" PRIu64
            " for up to another %" PRIu64 " ms and %s",
            tail->id, f->path, tail->holder->id, tail->granted_version,
            lh_duration_ms(lh_m_lease_left(m, tail)),
            tail->recalling   ? "was asked to give it up"
            : tail->confirmed ? "does not answer"
            : tail->waiting   ? "has not registered with this master yet"
                              : "has not confirmed it yet");
        if (tail->recalling && tail->holder->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE)
            add(text, text_size, ", as it is drained");
        return LH_ERR_LEASE_HELD;
    }
    LH_MARK("no-tail-not-leased");
    say_nobody_can(m, tail, text, text_size);
    return LH_ERR_NOT_LEASED;
}

/* ---- Progress. */

/* Is a primary there that this caller may be sent to? */
static bool tail_ready(
    const struct lh_master *m, const struct lh_m_waiter *w, const struct lh_m_chunk *tail)
{
    if (tail == NULL || tail->sealed || !lh_m_has_primary(m, tail) ||
        !lh_m_looks_alive(m, tail->holder))
        return false;
    if (unbacked_for(m, w) != NULL) {
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
    if (w->failed_chunk == tail->id && w->failed_version == tail->version &&
        lh_instant_before(m->now, w->hold_until) &&
        !lh_instant_before(w->arrived_at, tail->holder->received_at)) {
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
        return !lh_m_held(m, c) || (!c->recalling && c->version > w->from_version);
    return c->version > w->from_version && lh_m_held(m, c) && lh_m_has_primary(m, c);
}

/* Does anybody want the file's tail to have a primary? */
static bool wanted(const struct lh_m_file *f, const struct lh_m_chunk *tail)
{
    const struct lh_m_waiter *w;

    TAILQ_FOREACH(w, &f->waiters, file_link)
    if (w->kind == LH_WAIT_TAIL ||
        (tail != NULL && !w->only_release && w->chunk == tail->id && !tail->sealed))
        return true;
    return false;
}

void lh_m_file_advance(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *tail = tail_of(f);

    lh_m_roll_consider(m, f);
    if (wanted(f, tail)) {
        /* SEAL-1: the next chunk only after the seal is durable. */
        if (tail == NULL || (tail->sealed && lh_m_is_durable(m, tail->ticket))) {
            int error = lh_m_create_chunk(m, f);
            (void)error; /* whoever waits hears of it at the deadline, if it stays so */
        } else if (!tail->sealed && !tail->intent_to_seal && lh_m_creation_done(tail) &&
                   !lh_m_held(m, tail)) {
            lh_m_grant_free(m, tail);
        }
        tail = tail_of(f);
    }
    struct lh_m_waiter *w, *next;
    for (w = TAILQ_FIRST(&f->waiters); w != NULL; w = next) {
        next = TAILQ_NEXT(w, file_link);
        if (w->kind == LH_WAIT_TAIL ? tail_ready(m, w, tail) : recall_ready(m, w))
            answer(m, w, LH_OK, "");
    }
}

static void waiter_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    struct lh_m_waiter *w = LH_M_OWNER(timer, struct lh_m_waiter, timer);
    char text[LH_TEXT_BYTES];

    if (!lh_instant_reached(m->now, w->deadline)) {
        lh_m_timer_arm(m, timer, w->deadline);
        lh_m_touch(m, w->file);
        return;
    }
    if (w->kind == LH_WAIT_TAIL ? tail_ready(m, w, tail_of(w->file)) : recall_ready(m, w)) {
        answer(m, w, LH_OK, "");
        return;
    }
    const struct lh_m_chunk *unbacked = unbacked_for(m, w);
    if (unbacked != NULL) {
        say_unbacked(m, unbacked, text, sizeof text);
        answer(m, w, LH_ERR_UNAVAILABLE, text);
        return;
    }
    int error = why_not(m, w->file, text, sizeof text);
    answer(m, w, error, text);
}

/* ---- The calls. */

static int check_room(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    if (f->waiter_count < m->config.waiters_file_max &&
        HASH_COUNT(m->waiters) < m->config.waiters_max)
        return LH_OK;
    snprintf(text, text_size, "too many calls wait for \"%.256s\" or for other files", f->path);
    return LH_ERR_NO_MEMORY;
}

static struct lh_m_waiter *wait_for(
    struct lh_master *m, struct lh_m_file *f, enum lh_m_wait kind, uint64_t link, uint64_t wait_ms)
{
    struct lh_m_waiter *w = lh_alloc(sizeof *w);

    w->kind = kind;
    w->link = link;
    w->file = f;
    w->arrived_at = m->now;
    w->deadline = lh_instant_add(m->now, lh_milliseconds(wait_ms));
    w->hold_until = m->now;
    w->timer.fire = waiter_timer;
    if (TAILQ_EMPTY(&f->waiters))
        TAILQ_INSERT_TAIL(&m->waited, f, waited_link);
    TAILQ_INSERT_TAIL(&f->waiters, w, file_link);
    f->waiter_count++;
    HASH_ADD(hh, m->waiters, link, sizeof w->link, w);
    lh_m_timer_arm(m, &w->timer, w->deadline);
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
    struct lh_m_chunk *tail = tail_of(f);
    w->full_chunk = request->full_chunk;
    w->failed_version = request->failed_version;
    w->unsettled_chunk = request->unsettled_chunk;
    struct lh_m_chunk *unbacked = unbacked_for(m, w);
    if (unbacked != NULL) {
        unbacked->urgent = true; /* a master that has started since does not know it */
        lh_m_attend(m, unbacked);
    }
    w->arrival_version = tail == NULL ? 0 : tail->version;
    if (tail != NULL && w->failed_version != 0 && w->failed_version == tail->version &&
        (w->full_chunk == 0 || w->full_chunk == tail->id)) {
        w->failed_chunk = tail->id;
        w->hold_until = lh_instant_add(
            m->now, lh_m_rolls(m, f) ? m->config.suspect_after
                                     : lh_duration_min(m->heartbeat, m->config.suspect_hold));
        if (lh_instant_before(w->hold_until, w->deadline))
            lh_m_timer_arm(m, &w->timer, w->hold_until);
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
        c = tail_of(f);
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
        w->old_primary = lh_strdup(c->holder->id);
        lh_m_recall(m, c);
    } else {
        w->old_primary = lh_strdup("");
    }
}
