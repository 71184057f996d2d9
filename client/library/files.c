/* The library: the namespace, as the master knows it. Each function builds a request, waits for the
 * reply and copies it into the public structs. */
#include "client/library/library.h"

#include "base/alloc.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

int lh_ask(struct lh_cluster *cluster, enum lh_method method, const ProtobufCMessage *request,
    uint64_t patience_ms, uint64_t timeout_ms, void *reply)
{
    struct lh_master_call call = {
        .call.kind = LH_CALL_MASTER,
        .method = method,
        .request = request,
        .patience = lh_milliseconds(patience_ms),
        .deadline = lh_deadline(timeout_ms),
    };
    int error = lh_call_wait(cluster, &call.call);

    memcpy(reply, &call.reply, sizeof call.reply);
    return error;
}

void lh_free_reply(void *reply)
{
    if (reply != NULL)
        lh_wire_free(reply);
}

char *lh_wire_string(const char *s)
{
    char *unconst;

    memcpy(&unconst, &s, sizeof unconst);
    return unconst;
}

int lh_missing(const char *what)
{
    return lh_fail(LH_ERR_INVALID_ARGUMENT, "%s is NULL", what);
}

int lh_bad_reply(void *reply)
{
    lh_free_reply(reply);
    return lh_fail(LH_ERR_MALFORMED, "the master's answer lacks its main part");
}

/* The wire's numbers are the header's; what a newer master may add is no choice of ours. */
_Static_assert((int)LH_LOSS_ROLL == LEASEHOLD__ON_PRIMARY_LOSS__ROLL &&
                   (int)LH_LOSS_WAIT == LEASEHOLD__ON_PRIMARY_LOSS__WAIT,
    "leasehold.h and the schema differ");

static enum lh_on_primary_loss on_primary_loss(int wire)
{
    return wire == LH_LOSS_ROLL || wire == LH_LOSS_WAIT ? (enum lh_on_primary_loss)wire
                                                        : LH_LOSS_AS_CONFIGURED;
}

void lh_copy_file(struct lh_file_info *to, const Leasehold__FileInfo *from)
{
    *to = (struct lh_file_info){
        .file = from->file,
        .path = lh_strdup(from->path),
        .durability = from->durability == LEASEHOLD__DURABILITY__SYNCED ? LH_SYNCED : LH_BUFFERED,
        .replication = from->replication,
        .min_replicas = from->min_replicas,
        .chunk_size = from->chunk_size,
        .chunks = from->chunks,
        .sealed_length = from->sealed_length,
        .created_unix_ms = from->created_unix_ms,
        .on_primary_loss = on_primary_loss((int)from->on_primary_loss),
        .trashed = from->trashed,
        .trash_left_ms = from->trash_left_ms,
        .lock_name = lh_strdup(from->lock_name),
        .fence = from->fence,
    };
}

void lh_file_info_deinit(struct lh_file_info *info)
{
    free(info->path);
    free(info->lock_name);
    *info = (struct lh_file_info){0};
}

int lh_create(struct lh_cluster *cluster, const char *path, const struct lh_file_options *options,
    uint64_t timeout_ms, struct lh_file_info *info)
{
    Leasehold__CreateRequest m = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__CreateReply *reply;

    if (cluster == NULL || path == NULL)
        return lh_missing("cluster or path");
    m.path = lh_wire_string(path);
    if (options != NULL) {
        if (options->durability != LH_BUFFERED && options->durability != LH_SYNCED)
            return lh_fail(
                LH_ERR_INVALID_ARGUMENT, "no such durability: %d", (int)options->durability);
        if (on_primary_loss((int)options->on_primary_loss) != options->on_primary_loss)
            return lh_fail(LH_ERR_INVALID_ARGUMENT, "no such choice for the loss of a primary: %d",
                (int)options->on_primary_loss);
        m.on_primary_loss = (Leasehold__OnPrimaryLoss)options->on_primary_loss;
        m.durability = options->durability == LH_SYNCED ? LEASEHOLD__DURABILITY__SYNCED
                                                        : LEASEHOLD__DURABILITY__BUFFERED;
        m.replication = options->replication;
        m.min_replicas = options->min_replicas;
        m.chunk_size = options->chunk_size;
    }
    int error = lh_ask(cluster, LH_METHOD_CREATE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK && info != NULL) {
        if (reply->info == NULL)
            return lh_bad_reply(reply);
        lh_copy_file(info, reply->info);
    }
    lh_free_reply(reply);
    return error;
}

int lh_stat(
    struct lh_cluster *cluster, const char *path, uint64_t timeout_ms, struct lh_file_info *info)
{
    Leasehold__StatRequest m = LEASEHOLD__STAT_REQUEST__INIT;
    Leasehold__StatReply *reply;

    if (cluster == NULL || path == NULL || info == NULL)
        return lh_missing("cluster, path or info");
    m.path = lh_wire_string(path);
    int error = lh_ask(cluster, LH_METHOD_STAT, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        if (reply->info == NULL)
            return lh_bad_reply(reply);
        lh_copy_file(info, reply->info);
    }
    lh_free_reply(reply);
    return error;
}

static int list_files(struct lh_cluster *cluster, const Leasehold__ListRequest *m,
    uint64_t timeout_ms, struct lh_file_list *list)
{
    Leasehold__ListReply *reply;
    int error = lh_ask(cluster, LH_METHOD_LIST, &m->base, 0, timeout_ms, &reply);

    if (error == LH_OK) {
        *list = (struct lh_file_list){.count = reply->n_files, .more = reply->more};
        list->files = lh_alloc_array(list->count, sizeof *list->files);
        for (size_t i = 0; i < list->count; i++)
            lh_copy_file(&list->files[i], reply->files[i]);
    }
    lh_free_reply(reply);
    return error;
}

int lh_list(struct lh_cluster *cluster, const char *prefix, const char *after, uint32_t limit,
    uint64_t timeout_ms, struct lh_file_list *list)
{
    Leasehold__ListRequest m = LEASEHOLD__LIST_REQUEST__INIT;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    m.prefix = lh_wire_string(prefix == NULL ? "" : prefix);
    m.after = lh_wire_string(after == NULL ? "" : after);
    m.limit = limit;
    return list_files(cluster, &m, timeout_ms, list);
}

int lh_trash(struct lh_cluster *cluster, const char *prefix, const char *after, uint64_t after_file,
    uint32_t limit, uint64_t timeout_ms, struct lh_file_list *list)
{
    Leasehold__ListRequest m = LEASEHOLD__LIST_REQUEST__INIT;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    m.trash = true;
    m.prefix = lh_wire_string(prefix == NULL ? "" : prefix);
    m.after = lh_wire_string(after == NULL ? "" : after);
    m.after_file = after_file;
    m.limit = limit;
    return list_files(cluster, &m, timeout_ms, list);
}

void lh_file_list_deinit(struct lh_file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        lh_file_info_deinit(&list->files[i]);
    free(list->files);
    *list = (struct lh_file_list){0};
}

int lh_rename(struct lh_cluster *cluster, const char *from, const char *to, uint64_t timeout_ms)
{
    Leasehold__RenameRequest m = LEASEHOLD__RENAME_REQUEST__INIT;
    Leasehold__RenameReply *reply;

    if (cluster == NULL || from == NULL || to == NULL)
        return lh_missing("cluster or path");
    m.from = lh_wire_string(from);
    m.to = lh_wire_string(to);
    int error = lh_ask(cluster, LH_METHOD_RENAME, &m.base, 0, timeout_ms, &reply);
    lh_free_reply(reply);
    return error;
}

int lh_remove(struct lh_cluster *cluster, const char *path, const struct lh_remove_options *options,
    uint64_t timeout_ms, struct lh_remove_result *result)
{
    Leasehold__RemoveRequest m = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__RemoveReply *reply;

    if (cluster == NULL || (path == NULL && (options == NULL || options->file == 0)))
        return lh_missing("cluster, or path and file,");
    m.path = lh_wire_string(path == NULL ? "" : path);
    if (options != NULL) {
        m.now = options->now;
        m.file = options->file;
    }
    int error = lh_ask(cluster, LH_METHOD_REMOVE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK && result != NULL)
        *result =
            (struct lh_remove_result){.file = reply->file, .trash_left_ms = reply->trash_left_ms};
    lh_free_reply(reply);
    return error;
}

int lh_restore(struct lh_cluster *cluster, const char *path, uint64_t file, const char *to,
    uint64_t timeout_ms, struct lh_file_info *info)
{
    Leasehold__RestoreRequest m = LEASEHOLD__RESTORE_REQUEST__INIT;
    Leasehold__RestoreReply *reply;

    if (cluster == NULL || (path == NULL && file == 0))
        return lh_missing("cluster, or path and file,");
    m.path = lh_wire_string(path == NULL ? "" : path);
    m.file = file;
    m.to = lh_wire_string(to == NULL ? "" : to);
    int error = lh_ask(cluster, LH_METHOD_RESTORE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK && info != NULL) {
        if (reply->info == NULL)
            return lh_bad_reply(reply);
        lh_copy_file(info, reply->info);
    }
    lh_free_reply(reply);
    return error;
}

void lh_copy_chunk(struct lh_chunk_info *to, const Leasehold__ChunkInfo *from)
{
    *to = (struct lh_chunk_info){
        .chunk = from->chunk,
        .version = from->version,
        .start = from->start,
        .length = from->length,
        .sealed = from->sealed,
        .primary = lh_strdup(from->primary),
        .members = lh_alloc_array(from->n_members, sizeof *to->members),
        .member_count = from->n_members,
    };
    for (size_t i = 0; i < from->n_members; i++) {
        to->members[i].server_id = lh_strdup(from->members[i]->server_id);
        to->members[i].address = lh_strdup(from->members[i]->address);
        to->members[i].joining = from->members[i]->joining;
    }
}

int lh_locate(struct lh_cluster *cluster, const char *path, uint64_t offset, uint32_t limit,
    uint64_t timeout_ms, struct lh_chunk_list *list)
{
    Leasehold__LocateRequest m = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__LocateReply *reply;

    if (cluster == NULL || path == NULL || list == NULL)
        return lh_missing("cluster, path or list");
    m.path = lh_wire_string(path);
    m.offset = offset;
    m.limit = limit;
    int error = lh_ask(cluster, LH_METHOD_LOCATE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_chunk_list){.count = reply->n_chunks, .more = reply->more};
        list->chunks = lh_alloc_array(list->count, sizeof *list->chunks);
        for (size_t i = 0; i < list->count; i++)
            lh_copy_chunk(&list->chunks[i], reply->chunks[i]);
    }
    lh_free_reply(reply);
    return error;
}

void lh_free_chunk(struct lh_chunk_info *chunk)
{
    for (size_t i = 0; i < chunk->member_count; i++) {
        free(chunk->members[i].server_id);
        free(chunk->members[i].address);
    }
    free(chunk->members);
    free(chunk->primary);
    *chunk = (struct lh_chunk_info){0};
}

void lh_chunk_list_deinit(struct lh_chunk_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        lh_free_chunk(&list->chunks[i]);
    free(list->chunks);
    *list = (struct lh_chunk_list){0};
}
