/* The library: what is asked of the master. Each function builds a request, waits for the reply and
 * copies it into the public structs. */
#include "client/library.h"

#include "base/alloc.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* `*reply` is to be freed with lh_wire_free(), also after an error; NULL: nobody answered. */
static int ask(struct lh_cluster *cluster, enum lh_method method, const ProtobufCMessage *request,
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

static void free_reply(void *reply)
{
    if (reply != NULL)
        lh_wire_free(reply);
}

/* protobuf-c never writes through the strings of a message that is being packed. */
static char *wire_string(const char *s)
{
    char *unconst;

    memcpy(&unconst, &s, sizeof unconst);
    return unconst;
}

static int missing(const char *what)
{
    return lh_fail(LH_ERR_INVALID_ARGUMENT, "%s is NULL", what);
}

static int bad_reply(void *reply)
{
    free_reply(reply);
    return lh_fail(LH_ERR_MALFORMED, "the master's answer lacks its main part");
}

static void copy_info(struct lh_file_info *to, const Leasehold__FileInfo *from)
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
    };
}

void lh_file_info_deinit(struct lh_file_info *info)
{
    free(info->path);
    *info = (struct lh_file_info){0};
}

int lh_create(struct lh_cluster *cluster, const char *path, const struct lh_file_options *options,
    uint64_t timeout_ms, struct lh_file_info *info)
{
    Leasehold__CreateRequest m = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__CreateReply *reply;

    if (cluster == NULL || path == NULL)
        return missing("cluster or path");
    m.path = wire_string(path);
    if (options != NULL) {
        if (options->durability != LH_BUFFERED && options->durability != LH_SYNCED)
            return lh_fail(
                LH_ERR_INVALID_ARGUMENT, "no such durability: %d", (int)options->durability);
        m.durability = options->durability == LH_SYNCED ? LEASEHOLD__DURABILITY__SYNCED
                                                        : LEASEHOLD__DURABILITY__BUFFERED;
        m.replication = options->replication;
        m.min_replicas = options->min_replicas;
        m.chunk_size = options->chunk_size;
    }
    int error = ask(cluster, LH_METHOD_CREATE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK && info != NULL) {
        if (reply->info == NULL)
            return bad_reply(reply);
        copy_info(info, reply->info);
    }
    free_reply(reply);
    return error;
}

int lh_stat(
    struct lh_cluster *cluster, const char *path, uint64_t timeout_ms, struct lh_file_info *info)
{
    Leasehold__StatRequest m = LEASEHOLD__STAT_REQUEST__INIT;
    Leasehold__StatReply *reply;

    if (cluster == NULL || path == NULL || info == NULL)
        return missing("cluster, path or info");
    m.path = wire_string(path);
    int error = ask(cluster, LH_METHOD_STAT, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        if (reply->info == NULL)
            return bad_reply(reply);
        copy_info(info, reply->info);
    }
    free_reply(reply);
    return error;
}

int lh_list(struct lh_cluster *cluster, const char *prefix, const char *after, uint32_t limit,
    uint64_t timeout_ms, struct lh_file_list *list)
{
    Leasehold__ListRequest m = LEASEHOLD__LIST_REQUEST__INIT;
    Leasehold__ListReply *reply;

    if (cluster == NULL || list == NULL)
        return missing("cluster or list");
    m.prefix = wire_string(prefix == NULL ? "" : prefix);
    m.after = wire_string(after == NULL ? "" : after);
    m.limit = limit;
    int error = ask(cluster, LH_METHOD_LIST, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_file_list){.count = reply->n_files, .more = reply->more};
        list->files = lh_alloc_array(list->count, sizeof *list->files);
        for (size_t i = 0; i < list->count; i++)
            copy_info(&list->files[i], reply->files[i]);
    }
    free_reply(reply);
    return error;
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
        return missing("cluster or path");
    m.from = wire_string(from);
    m.to = wire_string(to);
    int error = ask(cluster, LH_METHOD_RENAME, &m.base, 0, timeout_ms, &reply);
    free_reply(reply);
    return error;
}

int lh_remove(struct lh_cluster *cluster, const char *path, uint64_t timeout_ms)
{
    Leasehold__RemoveRequest m = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__RemoveReply *reply;

    if (cluster == NULL || path == NULL)
        return missing("cluster or path");
    m.path = wire_string(path);
    int error = ask(cluster, LH_METHOD_REMOVE, &m.base, 0, timeout_ms, &reply);
    free_reply(reply);
    return error;
}

static void copy_chunk(struct lh_chunk_info *to, const Leasehold__ChunkInfo *from)
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
    }
}

int lh_locate(struct lh_cluster *cluster, const char *path, uint64_t offset, uint32_t limit,
    uint64_t timeout_ms, struct lh_chunk_list *list)
{
    Leasehold__LocateRequest m = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__LocateReply *reply;

    if (cluster == NULL || path == NULL || list == NULL)
        return missing("cluster, path or list");
    m.path = wire_string(path);
    m.offset = offset;
    m.limit = limit;
    int error = ask(cluster, LH_METHOD_LOCATE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_chunk_list){.count = reply->n_chunks, .more = reply->more};
        list->chunks = lh_alloc_array(list->count, sizeof *list->chunks);
        for (size_t i = 0; i < list->count; i++)
            copy_chunk(&list->chunks[i], reply->chunks[i]);
    }
    free_reply(reply);
    return error;
}

void lh_chunk_list_deinit(struct lh_chunk_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct lh_chunk_info *c = &list->chunks[i];
        for (size_t j = 0; j < c->member_count; j++) {
            free(c->members[j].server_id);
            free(c->members[j].address);
        }
        free(c->members);
        free(c->primary);
    }
    free(list->chunks);
    *list = (struct lh_chunk_list){0};
}

int lh_leases(struct lh_cluster *cluster, uint64_t after_chunk, uint32_t limit, bool all,
    uint64_t timeout_ms, struct lh_lease_list *list)
{
    Leasehold__ListLeasesRequest m = LEASEHOLD__LIST_LEASES_REQUEST__INIT;
    Leasehold__ListLeasesReply *reply;

    if (cluster == NULL || list == NULL)
        return missing("cluster or list");
    m.after_chunk = after_chunk;
    m.limit = limit;
    m.all = all;
    int error = ask(cluster, LH_METHOD_LIST_LEASES, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_lease_list){.count = reply->n_leases, .more = reply->more};
        list->leases = lh_alloc_array(list->count, sizeof *list->leases);
        for (size_t i = 0; i < list->count; i++) {
            const Leasehold__Lease *from = reply->leases[i];
            list->leases[i] = (struct lh_lease_info){
                .chunk = from->chunk,
                .path = lh_strdup(from->path),
                .version = from->version,
                .primary = lh_strdup(from->primary),
                .address = lh_strdup(from->address),
                .state = lh_strdup(from->state),
                .left_ms = from->left_ms,
                .appends = from->appends,
                .session_live = from->session_live,
                .members = from->members,
                .replication = from->replication,
            };
        }
    }
    free_reply(reply);
    return error;
}

void lh_lease_list_deinit(struct lh_lease_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->leases[i].path);
        free(list->leases[i].primary);
        free(list->leases[i].address);
        free(list->leases[i].state);
    }
    free(list->leases);
    *list = (struct lh_lease_list){0};
}

int lh_servers(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_server_list *list)
{
    Leasehold__ListServersRequest m = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    Leasehold__ListServersReply *reply;

    if (cluster == NULL || list == NULL)
        return missing("cluster or list");
    int error = ask(cluster, LH_METHOD_LIST_SERVERS, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_server_list){
            .count = reply->n_servers,
            .master_term = reply->master_term,
            .cluster_id = lh_strdup(reply->cluster_id),
            .session_term_ms = reply->session_term_ms,
            .chunk_term_ms = reply->chunk_term_ms,
        };
        list->servers = lh_alloc_array(list->count, sizeof *list->servers);
        for (size_t i = 0; i < list->count; i++) {
            const Leasehold__ServerInfo *from = reply->servers[i];
            list->servers[i] = (struct lh_server_info){
                .server_id = lh_strdup(from->server_id),
                .address = lh_strdup(from->address),
                .failure_domain = lh_strdup(from->failure_domain),
                .incarnation = from->incarnation,
                .session_left_ms = from->session_left_ms,
                .capacity_bytes = from->capacity_bytes,
                .free_bytes = from->free_bytes,
                .replicas = from->replicas,
                .primaries = from->primaries,
                .live = from->live,
                .failing = from->failing,
                .reachable = from->reachable,
            };
        }
    }
    free_reply(reply);
    return error;
}

void lh_server_list_deinit(struct lh_server_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->servers[i].server_id);
        free(list->servers[i].address);
        free(list->servers[i].failure_domain);
    }
    free(list->servers);
    free(list->cluster_id);
    *list = (struct lh_server_list){0};
}

#define RECALL_WAIT_MS_MAX 60000u

int lh_recall(struct lh_cluster *cluster, uint64_t chunk, const char *path, bool only_release,
    uint64_t timeout_ms, struct lh_recall_result *result)
{
    Leasehold__RecallRequest m = LEASEHOLD__RECALL_REQUEST__INIT;
    Leasehold__RecallReply *reply;

    if (cluster == NULL || (chunk == 0 && path == NULL))
        return missing("cluster, or chunk and path,");
    m.chunk = chunk;
    m.path = wire_string(path == NULL ? "" : path);
    m.only_release = only_release;
    /* The master's own waiting ends before the timeout, so that its answer still arrives. */
    m.wait_ms = timeout_ms - (timeout_ms / 4 < 1000 ? timeout_ms / 4 : 1000);
    if (m.wait_ms > RECALL_WAIT_MS_MAX)
        m.wait_ms = RECALL_WAIT_MS_MAX;
    int error = ask(cluster, LH_METHOD_RECALL, &m.base, m.wait_ms, timeout_ms, &reply);
    if (result != NULL && reply != NULL && (error == LH_OK || error == LH_ERR_LEASE_HELD))
        *result = (struct lh_recall_result){
            .chunk = reply->chunk,
            .version = reply->version,
            .old_primary = lh_strdup(reply->old_primary),
            .new_primary = lh_strdup(reply->new_primary),
            .lease_left_ms = reply->lease_left_ms,
        };
    else if (result != NULL && error == LH_ERR_LEASE_HELD)
        *result = (struct lh_recall_result){0};
    free_reply(reply);
    return error;
}

void lh_recall_result_deinit(struct lh_recall_result *result)
{
    free(result->old_primary);
    free(result->new_primary);
    *result = (struct lh_recall_result){0};
}
