/* The library: what operators ask of the master. */
#include "client/library/capabilities.h"

#include "base/alloc.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- Leases ---- */

int lh_leases(struct lh_cluster *cluster, uint64_t after_chunk, uint32_t limit, bool all,
    uint64_t timeout_ms, struct lh_lease_list *list)
{
    Leasehold__ListLeasesRequest m = LEASEHOLD__LIST_LEASES_REQUEST__INIT;
    Leasehold__ListLeasesReply *reply;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    m.after_chunk = after_chunk;
    m.limit = limit;
    m.all = all;
    int error = lh_ask(cluster, LH_METHOD_LIST_LEASES, &m.base, 0, timeout_ms, &reply);
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
    lh_free_reply(reply);
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

/* ---- Servers ---- */

_Static_assert((int)LH_SERVER_DRAINING == LEASEHOLD__SERVER_ADMIN__DRAINING &&
                   (int)LH_SERVER_DECOMMISSIONING == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING,
    "leasehold.h and the schema differ");

static void copy_server(struct lh_server_info *to, const Leasehold__ServerInfo *from)
{
    *to = (struct lh_server_info){
        .server_id = lh_strdup(from->server_id),
        .address = lh_strdup(from->address),
        .failure_domain = lh_strdup(from->failure_domain),
        .obstacle = lh_strdup(from->obstacle),
        .unheard = lh_strdup(from->unheard),
        .incarnation = from->incarnation,
        .session_left_ms = from->session_left_ms,
        .capacity_bytes = from->capacity_bytes,
        .free_bytes = from->free_bytes,
        .replicas = from->replicas,
        .primaries = from->primaries,
        .live = from->live,
        .failing = from->failing,
        .reachable = from->reachable,
        .admin = (enum lh_server_admin)from->admin,
        .safe_to_stop = from->safe_to_stop,
        .replicas_to_move = from->replicas_to_move,
        .away_ms = from->away_ms,
        .grace_left_ms = from->grace_left_ms,
        .copies_in = from->copies_in,
        .copies_out = from->copies_out,
        .batches_ordered = from->batches_ordered,
        .bytes_ordered = from->bytes_ordered,
        .ordered_ago_ms = from->ordered_ago_ms,
        .ordered_unreported = from->ordered_unreported,
        .read_only = from->read_only,
    };
}

void lh_server_info_deinit(struct lh_server_info *info)
{
    free(info->server_id);
    free(info->address);
    free(info->failure_domain);
    free(info->obstacle);
    free(info->unheard);
    *info = (struct lh_server_info){0};
}

static void copy_repair(struct lh_repair_info *to, const Leasehold__RepairInfo *from)
{
    *to = (struct lh_repair_info){
        .chunks_degraded = from->chunks_degraded,
        .chunks_endangered = from->chunks_endangered,
        .chunks_unreadable = from->chunks_unreadable,
        .copies_running = from->copies_running,
        .copies_waiting = from->copies_waiting,
        .bytes_left = from->bytes_left,
        .bytes_per_second = from->bytes_per_second,
        .left_ms = from->left_ms,
        .copies_done = from->copies_done,
        .bytes_done = from->bytes_done,
    };
}

static void copy_figures(struct lh_master_figures *to, const Leasehold__MasterFigures *from)
{
    *to = (struct lh_master_figures){
        .leases = from->leases,
        .files = from->files,
        .chunks = from->chunks,
        .sessions = from->sessions,
        .sessions_away = from->sessions_away,
        .names = from->names,
        .locks = from->locks,
        .locks_waiting = from->locks_waiting,
        .values = from->values,
        .calls_waiting = from->calls_waiting,
        .leases_granted = from->leases_granted,
        .leases_renewed = from->leases_renewed,
        .leases_recalled = from->leases_recalled,
        .leases_expired = from->leases_expired,
        .locks_granted = from->locks_granted,
        .locks_released = from->locks_released,
        .values_read = from->values_read,
        .values_changed = from->values_changed,
    };
}

static void copy_refused(struct lh_refused_info *to, const Leasehold__RefusedServer *from)
{
    *to = (struct lh_refused_info){
        .server_id = lh_strdup(from->server_id),
        .address = lh_strdup(from->address),
        .peer = lh_strdup(from->peer),
        .identity = lh_strdup(from->identity),
        .text = lh_strdup(from->error_text),
        .error = lh_error_from_wire(from->error),
        .times = from->times,
        .ago_ms = from->ago_ms,
    };
}

static void refused_deinit(struct lh_refused_info *info)
{
    free(info->server_id);
    free(info->address);
    free(info->peer);
    free(info->identity);
    free(info->text);
}

int lh_servers(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_server_list *list)
{
    Leasehold__ListServersRequest m = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    Leasehold__ListServersReply *reply;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    int error = lh_ask(cluster, LH_METHOD_LIST_SERVERS, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_server_list){
            .count = reply->n_servers,
            .master_term = reply->master_term,
            .cluster_id = lh_strdup(reply->cluster_id),
            .session_term_ms = reply->session_term_ms,
            .chunk_term_ms = reply->chunk_term_ms,
            .deleting = reply->deleting,
            .deleting_text = lh_strdup(reply->deleting_text),
        };
        if (reply->repair != NULL)
            copy_repair(&list->repair, reply->repair);
        if (reply->figures != NULL)
            copy_figures(&list->figures, reply->figures);
        list->servers = lh_alloc_array(list->count, sizeof *list->servers);
        for (size_t i = 0; i < list->count; i++)
            copy_server(&list->servers[i], reply->servers[i]);
        list->refused_count = reply->n_refused;
        list->refused = lh_alloc_array(list->refused_count, sizeof *list->refused);
        for (size_t i = 0; i < list->refused_count; i++)
            copy_refused(&list->refused[i], reply->refused[i]);
    }
    lh_free_reply(reply);
    return error;
}

void lh_server_list_deinit(struct lh_server_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        lh_server_info_deinit(&list->servers[i]);
    free(list->servers);
    for (size_t i = 0; i < list->refused_count; i++)
        refused_deinit(&list->refused[i]);
    free(list->refused);
    free(list->cluster_id);
    free(list->deleting_text);
    *list = (struct lh_server_list){0};
}

int lh_set_server(struct lh_cluster *cluster, const char *server_id, enum lh_server_admin admin,
    uint64_t timeout_ms, struct lh_server_info *info)
{
    Leasehold__SetServerRequest m = LEASEHOLD__SET_SERVER_REQUEST__INIT;
    Leasehold__SetServerReply *reply;

    if (cluster == NULL || server_id == NULL)
        return lh_missing("cluster or server_id");
    if ((unsigned)admin > LH_SERVER_DECOMMISSIONING)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "no such state of a server: %d", (int)admin);
    m.server_id = lh_wire_string(server_id);
    m.admin = (Leasehold__ServerAdmin)admin;
    int error = lh_ask(cluster, LH_METHOD_SET_SERVER, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK && info != NULL) {
        if (reply->server == NULL)
            return lh_bad_reply(reply);
        copy_server(info, reply->server);
    }
    lh_free_reply(reply);
    return error;
}

/* ---- Chunks ---- */

static void copy_state(struct lh_chunk_state *to, const Leasehold__ChunkState *from)
{
    *to = (struct lh_chunk_state){
        .path = lh_strdup(from->path),
        .file = from->file,
        .replication = from->replication,
        .min_replicas = from->min_replicas,
        .replicas = lh_alloc_array(from->n_replicas, sizeof *to->replicas),
        .replica_count = from->n_replicas,
        .lease = lh_strdup(from->lease),
        .lease_left_ms = from->lease_left_ms,
        .rolling = from->rolling,
        .trashed = from->trashed,
        .created = from->created,
        .checksum = from->checksum,
    };
    lh_copy_chunk(&to->info, from->chunk);
    for (size_t i = 0; i < from->n_replicas; i++) {
        const Leasehold__ReplicaInfo *r = from->replicas[i];
        to->replicas[i] = (struct lh_replica_info){
            .server_id = lh_strdup(r->server_id),
            .address = lh_strdup(r->address),
            .state = lh_strdup(r->state),
            .primary = r->primary,
        };
    }
}

static void free_state(struct lh_chunk_state *s)
{
    lh_free_chunk(&s->info);
    for (size_t i = 0; i < s->replica_count; i++) {
        free(s->replicas[i].server_id);
        free(s->replicas[i].address);
        free(s->replicas[i].state);
    }
    free(s->replicas);
    free(s->path);
    free(s->lease);
    *s = (struct lh_chunk_state){0};
}

int lh_chunks(struct lh_cluster *cluster, const char *prefix, uint64_t after_chunk, uint32_t limit,
    uint64_t timeout_ms, struct lh_chunk_state_list *list)
{
    Leasehold__ListChunksRequest m = LEASEHOLD__LIST_CHUNKS_REQUEST__INIT;
    Leasehold__ListChunksReply *reply;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    m.prefix = lh_wire_string(prefix == NULL ? "" : prefix);
    m.after_chunk = after_chunk;
    m.limit = limit;
    uint64_t next = after_chunk;
    int error = lh_ask(cluster, LH_METHOD_LIST_CHUNKS, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        for (size_t i = 0; i < reply->n_chunks; i++) {
            if (reply->chunks[i]->chunk == NULL)
                return lh_bad_reply(reply);
            lh_capabilities_keep(cluster->capabilities, m.prefix, reply->chunks[i]->chunk);
            next = reply->chunks[i]->chunk->chunk;
        }
        if (reply->next > next)
            next = reply->next;
        if (reply->more && next <= after_chunk)
            return lh_bad_reply(reply); /* it would never end */
        *list = (struct lh_chunk_state_list){
            .count = reply->n_chunks, .more = reply->more, .next = next};
        list->chunks = lh_alloc_array(list->count, sizeof *list->chunks);
        for (size_t i = 0; i < list->count; i++)
            copy_state(&list->chunks[i], reply->chunks[i]);
    }
    lh_free_reply(reply);
    return error;
}

void lh_chunk_state_list_deinit(struct lh_chunk_state_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_state(&list->chunks[i]);
    free(list->chunks);
    *list = (struct lh_chunk_state_list){0};
}

int lh_explain(struct lh_cluster *cluster, const char *path, uint64_t chunk, uint64_t timeout_ms,
    struct lh_explanation *explanation)
{
    Leasehold__ExplainRequest m = LEASEHOLD__EXPLAIN_REQUEST__INIT;
    Leasehold__ExplainReply *reply;

    if (cluster == NULL || (chunk == 0 && path == NULL) || explanation == NULL)
        return lh_missing("cluster, explanation, or chunk and path,");
    m.path = lh_wire_string(path == NULL ? "" : path);
    m.chunk = chunk;
    int error = lh_ask(cluster, LH_METHOD_EXPLAIN, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        if (reply->info == NULL || (reply->chunk != NULL && reply->chunk->chunk == NULL))
            return lh_bad_reply(reply);
        *explanation = (struct lh_explanation){
            .has_chunk = reply->chunk != NULL,
            .writable = reply->writable,
            .sentences = lh_alloc_array(reply->n_sentences, sizeof *explanation->sentences),
            .sentence_count = reply->n_sentences,
        };
        lh_copy_file(&explanation->info, reply->info);
        if (reply->chunk != NULL)
            copy_state(&explanation->chunk, reply->chunk);
        for (size_t i = 0; i < reply->n_sentences; i++)
            explanation->sentences[i] = lh_strdup(reply->sentences[i]);
    }
    lh_free_reply(reply);
    return error;
}

void lh_explanation_deinit(struct lh_explanation *explanation)
{
    lh_file_info_deinit(&explanation->info);
    free_state(&explanation->chunk);
    for (size_t i = 0; i < explanation->sentence_count; i++)
        free(explanation->sentences[i]);
    free(explanation->sentences);
    *explanation = (struct lh_explanation){0};
}

/* ---- Garbage ---- */

int lh_garbage(
    struct lh_cluster *cluster, bool resume, uint64_t timeout_ms, struct lh_garbage_info *info)
{
    Leasehold__GarbageRequest m = LEASEHOLD__GARBAGE_REQUEST__INIT;
    Leasehold__GarbageReply *reply;

    if (cluster == NULL || info == NULL)
        return lh_missing("cluster or info");
    m.resume = resume;
    int error = lh_ask(cluster, LH_METHOD_GARBAGE, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK)
        *info = (struct lh_garbage_info){
            .deleting = reply->deleting,
            .why_not = lh_strdup(reply->why_not),
            .files_trashed = reply->files_trashed,
            .replicas_extra = reply->replicas_extra,
            .replicas_deleted = reply->replicas_deleted,
        };
    lh_free_reply(reply);
    return error;
}

void lh_garbage_info_deinit(struct lh_garbage_info *info)
{
    free(info->why_not);
    *info = (struct lh_garbage_info){0};
}

/* ---- Recalling ---- */

#define RECALL_WAIT_MS_MAX 60000u

int lh_recall(struct lh_cluster *cluster, uint64_t chunk, const char *path, bool only_release,
    uint64_t timeout_ms, struct lh_recall_result *result)
{
    Leasehold__RecallRequest m = LEASEHOLD__RECALL_REQUEST__INIT;
    Leasehold__RecallReply *reply;

    if (cluster == NULL || (chunk == 0 && path == NULL))
        return lh_missing("cluster, or chunk and path,");
    m.chunk = chunk;
    m.path = lh_wire_string(path == NULL ? "" : path);
    m.only_release = only_release;
    /* The master's own waiting ends before the timeout, so that its answer still arrives. */
    m.wait_ms = timeout_ms - (timeout_ms / 4 < 1000 ? timeout_ms / 4 : 1000);
    if (m.wait_ms > RECALL_WAIT_MS_MAX)
        m.wait_ms = RECALL_WAIT_MS_MAX;
    int error = lh_ask(cluster, LH_METHOD_RECALL, &m.base, m.wait_ms, timeout_ms, &reply);
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
    lh_free_reply(reply);
    return error;
}

void lh_recall_result_deinit(struct lh_recall_result *result)
{
    free(result->old_primary);
    free(result->new_primary);
    *result = (struct lh_recall_result){0};
}
