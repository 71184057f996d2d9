/* The library: one replica at one server, for checking. Nothing here goes on to another member. */
#include "client/library/capabilities.h"

#include "base/alloc.h"
#include "batch/batch.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE_BYTES (4u << 20)

/* Behind every log's end: an answer says how the replica is, and carries no bytes. */
#define BEHIND_THE_END ((uint64_t)INT64_MAX)

/* A request with what is kept for its chunk (ACC-5). */
static int read_once(struct lh_cluster *cluster, const char *address, Leasehold__ReadRequest *m,
    struct lh_instant deadline, struct lh_server_call *call)
{
    char *prefix;

    *call = (struct lh_server_call){0};
    if (lh_process_check(cluster) != LH_OK)
        return LH_ERR_CLOSED;
    m->capability = lh_capabilities_of(cluster->capabilities, m->chunk, &prefix);
    *call = (struct lh_server_call){
        .call.kind = LH_CALL_SERVER,
        .address = address,
        .method = LH_METHOD_READ,
        .request = &m->base,
        .deadline = deadline,
    };
    int error = lh_call_wait(cluster, &call->call);
    free(m->capability.data);
    free(prefix);
    return error;
}

/* Lists the chunk again, as it was listed: the program may not see more than that, and the file
 * may have another path by now. PERMISSION: it may not see that any more, either. */
static int renew(struct lh_cluster *cluster, uint64_t chunk, uint64_t timeout_ms)
{
    struct lh_chunk_state_list listed = {0};
    char *prefix, why[LH_CALL_TEXT_BYTES];
    ProtobufCBinaryData old = lh_capabilities_of(cluster->capabilities, chunk, &prefix);
    int error = lh_chunks(cluster, prefix, chunk - 1, 1, timeout_ms, &listed);

    free(old.data);
    free(prefix);
    if (error == LH_OK) {
        lh_chunk_state_list_deinit(&listed);
    } else if (error != LH_ERR_PERMISSION) {
        (void)snprintf(why, sizeof why, "%s", lh_last_error());
        error = lh_fail(LH_ERR_STALE_CAPABILITY, "the master gave no new capability: %s", why);
    }
    return error;
}

/* `*reply` as with lh_ask(). A capability that does not hold any more is replaced once. */
static int read_at(struct lh_cluster *cluster, const char *address, uint64_t chunk, uint64_t offset,
    uint64_t bytes, bool resync, uint64_t timeout_ms, Leasehold__ReadReply **reply,
    struct lh_buf *batches)
{
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;
    struct lh_server_call call;

    m.chunk = chunk;
    m.offset = offset;
    m.max_bytes = bytes;
    m.resync = resync;
    int error = read_once(cluster, address, &m, lh_deadline(timeout_ms), &call);
    if (error == LH_ERR_STALE_CAPABILITY && (error = renew(cluster, chunk, timeout_ms)) == LH_OK) {
        lh_free_reply(call.reply);
        lh_buf_clear(&call.payload);
        error = read_once(cluster, address, &m, lh_deadline(timeout_ms), &call);
    }
    *reply = (Leasehold__ReadReply *)call.reply;
    *batches = lh_buf_take(&call.payload);
    return error;
}

int lh_replica_stat(struct lh_cluster *cluster, const char *address, uint64_t chunk,
    uint64_t timeout_ms, struct lh_replica_status *status)
{
    Leasehold__ReadReply *reply;
    struct lh_buf batches;

    if (cluster == NULL || address == NULL || status == NULL)
        return lh_missing("cluster, address or status");
    int error =
        read_at(cluster, address, chunk, BEHIND_THE_END, 1, false, timeout_ms, &reply, &batches);
    /* A sealed log says that it ends before that offset. */
    if (error == LH_ERR_INVALID_ARGUMENT && reply != NULL && reply->sealed)
        error = LH_OK;
    if (error == LH_OK)
        *status = (struct lh_replica_status){
            .version = reply->version,
            .committed = reply->committed,
            .sealed = reply->sealed,
            .primary = reply->primary,
        };
    lh_buf_clear(&batches);
    lh_free_reply(reply);
    return error;
}

/* Moves `scan` over the whole batches at the start of `batches`. */
static int check_batches(const struct lh_buf *batches, uint64_t end, struct lh_replica_scan *scan)
{
    for (size_t at = 0; at < batches->size;) {
        struct lh_batch_header h;
        uint64_t checksum = scan->checksum;
        int error = lh_log_check(batches, at, LH_BATCH_BYTES_LIMIT, &checksum, &h);
        if (error != LH_OK)
            return lh_fail(LH_ERR_CORRUPT, "the batch at %" PRIu64 " is damaged: %s", scan->offset,
                error == LH_ERR_WOULD_BLOCK ? "it is cut off" : lh_error_text(error));
        if (h.size > end - scan->offset)
            return lh_fail(LH_ERR_MALFORMED,
                "the batch at %" PRIu64 " does not end at %" PRIu64 " or before", scan->offset,
                end);
        scan->checksum = checksum;
        scan->offset += h.size;
        at += h.size;
    }
    return LH_OK;
}

int lh_replica_check(struct lh_cluster *cluster, const char *address, uint64_t chunk, uint64_t end,
    uint64_t timeout_ms, struct lh_replica_scan *scan)
{
    Leasehold__ReadReply *reply;
    struct lh_buf batches;

    if (cluster == NULL || address == NULL || scan == NULL)
        return lh_missing("cluster, address or scan");
    if (scan->offset == 0)
        scan->checksum = lh_log_seed(chunk); /* of an empty log, too */
    if (scan->offset >= end)
        return LH_END;
    uint64_t left = end - scan->offset;
    int error = read_at(cluster, address, chunk, scan->offset,
        left < PIECE_BYTES ? left : PIECE_BYTES, false, timeout_ms, &reply, &batches);
    if (error == LH_OK && batches.size == 0)
        error = lh_fail(
            LH_ERR_MALFORMED, "the log ends at %" PRIu64 ", before %" PRIu64, scan->offset, end);
    else if (error == LH_ERR_INVALID_ARGUMENT)
        error = LH_ERR_MALFORMED; /* sealed, and shorter */
    if (error == LH_OK)
        error = check_batches(&batches, end, scan);
    lh_buf_clear(&batches);
    lh_free_reply(reply);
    return error;
}

static void take_damage(const Leasehold__ReadReply *reply, struct lh_replica_damage *damage)
{
    damage->batches = lh_alloc_array(reply->n_damaged, sizeof *damage->batches);
    damage->batch_count = reply->n_damaged;
    for (size_t i = 0; i < reply->n_damaged; i++) {
        const Leasehold__DamagedBatch *d = reply->damaged[i];
        damage->batches[i] =
            (struct lh_damaged_batch){d->offset, d->size, d->count, d->writer, d->sequence};
    }
}

/* Checks the one batch that a server gave behind damage: what it could fit is not known. */
static int check_first(const struct lh_buf *batches, uint64_t end, struct lh_replica_scan *scan)
{
    struct lh_batch_header h;
    int error = lh_batch_check(batches, 0, LH_BATCH_BYTES_LIMIT, &h);

    if (error == LH_OK && (scan->offset > end || h.size > end - scan->offset))
        error = LH_ERR_MALFORMED;
    if (error != LH_OK)
        return lh_fail(LH_ERR_MALFORMED, "the answer has no whole batch: %s", lh_error_text(error));
    bool fits = lh_log_fits(batches, 0, &h, &scan->checksum); /* it becomes the stored one */
    (void)fits;
    scan->offset += h.size;
    return LH_OK;
}

int lh_replica_resync(struct lh_cluster *cluster, const char *address, uint64_t chunk, uint64_t end,
    uint64_t timeout_ms, struct lh_replica_scan *scan, struct lh_replica_damage *damage)
{
    Leasehold__ReadReply *reply;
    struct lh_buf batches;

    if (cluster == NULL || address == NULL || scan == NULL || damage == NULL)
        return lh_missing("cluster, address, scan or damage");
    *damage = (struct lh_replica_damage){.from = scan->offset, .to = end};
    if (scan->offset >= end)
        return LH_END;
    int error =
        read_at(cluster, address, chunk, scan->offset, 1, true, timeout_ms, &reply, &batches);
    if (reply != NULL && !reply->resynced)
        error = lh_fail(LH_ERR_UNIMPLEMENTED,
            "the chunkserver at %s cannot look behind damage: it is of an older release", address);
    if (error == LH_OK) {
        take_damage(reply, damage);
        if (batches.size > 0 && reply->offset < end) {
            damage->to = scan->offset = reply->offset;
            error = check_first(&batches, end, scan);
        } else {
            scan->offset = end;
            error = LH_END;
        }
    }
    if (error < 0)
        lh_replica_damage_deinit(damage);
    lh_buf_clear(&batches);
    lh_free_reply(reply);
    return error;
}

void lh_replica_damage_deinit(struct lh_replica_damage *damage)
{
    free(damage->batches);
    *damage = (struct lh_replica_damage){0};
}
