/* Files and their names. There are no directories: a path is one string, ordered by its bytes. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/growth/growth.h"
#include "master/keep/keep.h"
#include "master/tables/dirty.h"
#include "master/tables/path.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_file_purge(struct lh_master *m, struct lh_m_file *f)
{
    lh_m_dirty_file(m, f);
    lh_m_fail_waiters(m, f, LH_ERR_NOT_FOUND, "the file was removed");
    lh_m_prealloc_drop(m, f);
    for (size_t i = 0; i < f->chunk_count; i++)
        lh_m_chunk_remove(m, lh_m_file_chunk(f, i));
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    if (fm->in_work)
        TAILQ_REMOVE(&m->work, fm, work_link);
    fm->in_work = false;
    lh_timer_unset(&m->timers, &fm->timer);
    lh_timer_unset(&m->timers, &fm->trash_timer);
    lh_m_file_leave(m, f);
    lh_idmap_remove(&m->files, f);
    f->removed = true; /* and freed by the step's commit */
}

/* The file that a Create asks for, checked; defaults filled in. */
static int check_create(const struct lh_master *m, const Leasehold__CreateRequest *request,
    Leasehold__FileInfo *wanted, char *text, size_t text_size)
{
    int error = lh_path_check(request->path, text, text_size);

    if (error != LH_OK)
        return error;
    leasehold__file_info__init(wanted);
    wanted->durability = request->durability;
    wanted->replication = request->replication == 0 ? m->config.replication : request->replication;
    wanted->min_replicas = request->min_replicas;
    if (wanted->min_replicas == 0)
        wanted->min_replicas = wanted->replication < m->config.min_replicas
                                   ? wanted->replication
                                   : m->config.min_replicas;
    wanted->chunk_size = request->chunk_size == 0 ? m->config.chunk_size : request->chunk_size;
    if (request->durability != LEASEHOLD__DURABILITY__BUFFERED &&
        request->durability != LEASEHOLD__DURABILITY__SYNCED) {
        snprintf(text, text_size, "durability %d is neither buffered (0) nor synced (1)",
            (int)request->durability);
        return LH_ERR_INVALID_ARGUMENT;
    }
    wanted->on_primary_loss = request->on_primary_loss;
    if (wanted->on_primary_loss == LEASEHOLD__ON_PRIMARY_LOSS__AS_CONFIGURED)
        wanted->on_primary_loss = (Leasehold__OnPrimaryLoss)m->config.on_primary_loss;
    if (wanted->on_primary_loss != LEASEHOLD__ON_PRIMARY_LOSS__ROLL &&
        wanted->on_primary_loss != LEASEHOLD__ON_PRIMARY_LOSS__WAIT) {
        snprintf(text, text_size,
            "on_primary_loss %d is neither as configured (0) nor roll (1) nor wait (2)",
            (int)request->on_primary_loss);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (wanted->replication > LH_REPLICATION_MAX) {
        snprintf(text, text_size, "replication %u is above the limit of %u", wanted->replication,
            LH_REPLICATION_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (wanted->min_replicas > wanted->replication) {
        snprintf(text, text_size, "min_replicas %u is above replication %u", wanted->min_replicas,
            wanted->replication);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (wanted->chunk_size < LH_CHUNK_BYTES_MIN || wanted->chunk_size > LH_CHUNK_BYTES_MAX) {
        snprintf(text, text_size, "chunk_size %" PRIu64 " is not between %u and %u bytes",
            wanted->chunk_size, LH_CHUNK_BYTES_MIN, LH_CHUNK_BYTES_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (lh_m_file_by_path(m, request->path) != NULL) {
        snprintf(text, text_size, "\"%.256s\" exists already", request->path);
        return LH_ERR_ALREADY_EXISTS;
    }
    if (m->store_fills != NULL) {
        LH_MARK("create-while-the-store-fills");
        snprintf(text, text_size, "%s", m->store_fills);
        return LH_ERR_DISK_FULL;
    }
    return LH_OK;
}

void lh_m_create(struct lh_master *m, uint64_t link, const Leasehold__CreateRequest *request)
{
    Leasehold__CreateReply reply = LEASEHOLD__CREATE_REPLY__INIT;
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;
    char text[LH_TEXT_BYTES];
    int error = check_create(m, request, &info, text, sizeof text);

    if (error != LH_OK) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
        return;
    }
    struct lh_m_file *f = lh_m_file_new(m, m->next_file++, request->path, false);
    f->durability = (uint8_t)info.durability;
    f->replication = (uint8_t)info.replication;
    f->min_replicas = (uint8_t)info.min_replicas;
    f->chunk_size = info.chunk_size;
    f->created_unix_ms = m->wall_ms;
    f->on_primary_loss = (uint8_t)info.on_primary_loss;
    lh_m_dirty_master(m);
    lh_m_dirty_file(m, f);
    lh_fx_log(m->fx, LH_INFO, "file %" PRIu64 " \"%s\" created: %u replicas, at least %u, %s",
        f->id, f->path, f->replication, f->min_replicas,
        f->durability == LEASEHOLD__DURABILITY__SYNCED ? "synced" : "buffered");
    lh_m_file_info(f, &info);
    reply.info = &info;
    lh_m_reply(m, link, lh_m_ticket(m, f), &reply.base);
}

void lh_m_stat(struct lh_master *m, uint64_t link, const Leasehold__StatRequest *request)
{
    Leasehold__StatReply reply = LEASEHOLD__STAT_REPLY__INIT;
    Leasehold__FileInfo info;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f = lh_m_file_named(m, 0, request->path, &error, text, sizeof text);

    if (f != NULL) {
        lh_m_file_info(f, &info);
        reply.info = &info;
    } else {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
    }
    lh_m_reply(m, link, lh_m_ticket(m, f), &reply.base);
}

static void rename_later(struct lh_master *m, uint64_t link, const void *request)
{
    lh_m_rename(m, link, request);
}

void lh_m_rename(struct lh_master *m, uint64_t link, const Leasehold__RenameRequest *request)
{
    Leasehold__RenameReply reply = LEASEHOLD__RENAME_REPLY__INIT;
    char text[LH_TEXT_BYTES];
    int error = LH_OK;
    struct lh_m_file *f = lh_m_file_named(m, 0, request->from, &error, text, sizeof text);

    if (f != NULL)
        error = lh_path_check(request->to, text, sizeof text);
    if (error == LH_OK && lh_m_file_by_path(m, request->to) != NULL) {
        error = LH_ERR_ALREADY_EXISTS;
        snprintf(text, sizeof text, "\"%.256s\" exists already; remove it first", request->to);
    }
    if (error == LH_OK && m->lookup_owner->path_changes(
                              m, link, f->path, LH_METHOD_RENAME, &request->base, rename_later))
        return; /* VAL-7 */
    if (error == LH_OK) {
        lh_fx_log(m->fx, LH_INFO, "file %" PRIu64 " \"%s\" renamed to \"%s\"", f->id, f->path,
            request->to);
        if (f->chunk_count > 0)
            LH_MARK("rename-of-file-with-chunks");
        lh_m_file_leave(m, f);
        free(f->path);
        f->path = lh_strdup(request->to);
        lh_m_file_enter(m, f);
        lh_m_dirty_file(m, f);
    } else {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
    }
    lh_m_reply(m, link, lh_m_ticket(m, NULL), &reply.base);
}
