/* Removed files. They stay in the trash for a while of a running master's time, keep their chunks,
 * take no appends, and can be restored (KEEP-5).
 *
 * The store has the time that was left when it was written last, rounded up. It is written again
 * after each eighth of the retention, so a restart gives a file up to that much time back, and
 * never takes any. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/tables/behind.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static void arm(struct lh_master *m, struct lh_m_file_active *fm)
{
    struct lh_duration tick =
        lh_duration_max(lh_nanoseconds(m->config.trash_retention.ns / 8), m->config.trash_tick);

    if (lh_m_deleting(m))
        lh_timer_set(&m->timers, &fm->trash_timer,
            lh_instant_add(fm->trash_from, lh_duration_min(tick, fm->trash_left)));
}

static void trash_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_file_active *fm = LH_OWNER(timer, struct lh_m_file_active, trash_timer);
    struct lh_m_file *f = fm->file;
    struct lh_duration left = lh_m_trash_left(m, f);

    if (!lh_m_deleting(m))
        return; /* KEEP-4: armed again once deletion is resumed */
    if (left.ns > 0) {
        fm->trash_left = left;
        fm->trash_from = m->now;
        lh_m_dirty_file(m, f);
        arm(m, fm);
        return;
    }
    if (m->purged >= m->config.step_work) {
        lh_timer_set(&m->timers, timer, m->now);
        return;
    }
    LH_MARK("trash-purged");
    m->purged += f->chunk_count + 1;
    lh_fx_log(m->fx, LH_INFO,
        "file %" PRIu64 " \"%s\": its time in the trash is over; it goes with %u chunks", f->id,
        f->path, f->chunk_count);
    lh_m_file_purge(m, f);
}

/* Asks whoever holds the tail's lease to give it up. */
static void recall_tail(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_chunk *tail = lh_m_tail(f);

    if (tail != NULL && !tail->sealed && lh_m_holder(tail) != NULL && lh_m_held(m, tail))
        lh_m_recall(m, tail);
}

void lh_m_trash_start(struct lh_master *m)
{
    struct lh_m_file *f;

    RB_FOREACH(f, lh_m_trash, &m->trash) {
        struct lh_m_file_active *fm = lh_m_move_file(m, f);
        fm->trash_timer.fire = trash_timer;
        fm->trash_from = m->now;
        if (fm->trash_number >= m->trash_number)
            m->trash_number = fm->trash_number + 1;
        arm(m, fm);
        recall_tail(m, f);
    }
}

static void into_trash(struct lh_master *m, struct lh_m_file *f)
{
    lh_m_fail_waiters(m, f, LH_ERR_NOT_FOUND, "the file was removed; it is in the trash");
    lh_m_prealloc_drop(m, f);
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    lh_timer_unset(&m->timers, &fm->timer);
    fm->place_in_full_until = LH_INSTANT_NEVER;
    lh_m_file_leave(m, f);
    f->trashed = true;
    fm->trash_number = m->trash_number++;
    fm->trash_left = m->config.trash_retention;
    fm->trash_from = m->now;
    fm->trash_timer.fire = trash_timer;
    lh_m_file_enter(m, f);
    arm(m, fm);
    recall_tail(m, f);
    lh_m_dirty_file(m, f);
}

/* The file that a Remove names. NULL: `*error` and `text` say why. */
static struct lh_m_file *to_remove(const struct lh_master *m,
    const Leasehold__RemoveRequest *request, int *error, char *text, size_t text_size)
{
    struct lh_m_file *f = request->file == 0 ? NULL : lh_m_file_by_id(m, request->file);

    if (f != NULL && f->trashed && request->now)
        return f;
    return lh_m_file_named(m, request->file, request->path, error, text, text_size);
}

static void remove_later(struct lh_master *m, uint64_t link, const void *request)
{
    lh_m_remove(m, link, request);
}

void lh_m_remove(struct lh_master *m, uint64_t link, const Leasehold__RemoveRequest *request)
{
    Leasehold__RemoveReply reply = LEASEHOLD__REMOVE_REPLY__INIT;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f = to_remove(m, request, &error, text, sizeof text);

    if (f != NULL && !f->trashed &&
        m->lookup_owner->path_changes(
            m, link, f->path, LH_METHOD_REMOVE, &request->base, remove_later))
        return; /* VAL-7 */
    if (f == NULL) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
    } else if (request->now || m->config.trash_retention.ns == 0) {
        reply.file = f->id;
        lh_fx_log(m->fx, LH_INFO, "file %" PRIu64 " \"%s\" removed for good, with %u chunks", f->id,
            f->path, f->chunk_count);
        lh_m_file_purge(m, f);
    } else {
        LH_MARK("remove-into-trash");
        into_trash(m, f);
        reply.file = f->id;
        reply.trash_left_ms = lh_duration_ms(lh_m_trash_left(m, f));
        lh_fx_log(m->fx, LH_INFO,
            "file %" PRIu64 " \"%s\" removed into the trash; it can be restored for %" PRIu64
            " s of a running master's time",
            f->id, f->path, reply.trash_left_ms / 1000);
    }
    lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
}

/* The file that a Restore names. NULL: `*error` and `text` say why. */
static struct lh_m_file *to_restore(const struct lh_master *m,
    const Leasehold__RestoreRequest *request, int *error, char *text, size_t text_size)
{
    struct lh_m_file *f;

    if (request->file != 0) {
        f = lh_m_file_by_id(m, request->file);
        if (f != NULL && f->trashed)
            return f;
        *error = LH_ERR_NOT_FOUND;
        if (f != NULL)
            snprintf(text, text_size, "file %" PRIu64 " is not in the trash: it is \"%.256s\"",
                f->id, f->path);
        else
            snprintf(text, text_size, "file %" PRIu64 " does not exist (any more)", request->file);
        return NULL;
    }
    *error = lh_path_check(request->path, text, text_size);
    if (*error != LH_OK)
        return NULL;
    f = lh_m_trash_find(m, request->path);
    if (f == NULL) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(text, text_size, "nothing in the trash was called \"%.256s\"", request->path);
    }
    return f;
}

static void out_of_trash(struct lh_master *m, struct lh_m_file *f, const char *path)
{
    lh_m_file_leave(m, f);
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    lh_timer_unset(&m->timers, &fm->trash_timer);
    if (strcmp(f->path, path) != 0) {
        char *copy = lh_strdup(path);
        free(f->path);
        f->path = copy;
    }
    f->trashed = false;
    fm->trash_number = 0;
    lh_m_file_enter(m, f);
    lh_m_dirty_file(m, f);
}

void lh_m_restore(struct lh_master *m, uint64_t link, const Leasehold__RestoreRequest *request)
{
    Leasehold__RestoreReply reply = LEASEHOLD__RESTORE_REPLY__INIT;
    Leasehold__FileInfo info;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f = to_restore(m, request, &error, text, sizeof text);
    const char *path = f == NULL ? NULL : request->to[0] == 0 ? f->path : request->to;

    if (f != NULL)
        error = lh_path_check(path, text, sizeof text);
    if (error == LH_OK && lh_m_file_by_path(m, path) != NULL) {
        LH_MARK("restore-path-taken");
        error = LH_ERR_ALREADY_EXISTS;
        snprintf(
            text, sizeof text, "\"%.256s\" exists already; restore it under another path", path);
    }
    if (error == LH_OK) {
        LH_MARK("file-restored");
        lh_fx_log(
            m->fx, LH_INFO, "file %" PRIu64 " \"%s\" restored as \"%s\"", f->id, f->path, path);
        out_of_trash(m, f, path);
        lh_m_file_info(f, &info);
        reply.info = &info;
    } else {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
    }
    lh_m_reply(m, link, lh_m_ticket(m, f), &reply.base);
}
