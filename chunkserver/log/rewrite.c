/* After a sync that failed nobody knows which of the file's bytes are on the disk, and no later
 * sync of it tells (FAIL-5). But each batch says of itself whether it is whole and stands where
 * it belongs (APP-1). So what is read of the log is checked, written to another file and synced
 * there, and that one takes the place of the first. Nothing is lost if all of the log can still
 * be read; at the least there is what an earlier sync has covered. */
#include "chunkserver/log/rewrite.h"

#include "base/alloc.h"
#include "batch/batch.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/steps.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct lh_cs_rewriting {
    struct lh_chunk_header header; /* of the new file */
    uint64_t at;                   /* so much of the log was read */
    uint64_t good;                 /* and so much of it is whole, and in the new file */
    uint64_t checksum;             /* running checksum at `good` */
    struct lh_buf read;            /* from `good` on */
    bool ended;                    /* nothing whole follows */
};

void lh_cs_rewriting_free(struct lh_cs_rewriting *w)
{
    if (w == NULL)
        return;
    lh_buf_clear(&w->read);
    free(w);
}

struct lh_chunk_header lh_cs_rewriting_header(const struct lh_cs_job *j)
{
    return j->rewriting->header;
}

static bool ask(struct lh_cs_replica *r, struct lh_cs_job *j, lh_cs_job_step *next,
    const struct lh_cs_disk_request *request)
{
    j->next = next;
    lh_cs_disk_ask(r->logs, &lh_cs_job_disk, r, NULL, request);
    return false;
}

static bool of_new_file(struct lh_cs_replica *r, struct lh_cs_job *j, lh_cs_job_step *next,
    enum lh_disk_op op, uint64_t length)
{
    return ask(r, j, next, &(struct lh_cs_disk_request){.op = op, .length = length, .anew = true});
}

static bool write_new(struct lh_cs_replica *r, struct lh_cs_job *j, lh_cs_job_step *next,
    uint64_t offset, struct lh_buf *data)
{
    return ask(r, j, next,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_WRITE, .offset = offset, .data = data, .anew = true});
}

static bool done(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    (void)r;
    (void)j;
    return true;
}

static bool replace(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return of_new_file(r, j, done, LH_DISK_REPLACE, 0);
}

static bool sync_new(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return of_new_file(r, j, replace, LH_DISK_SYNC, 0);
}

/* Below these lengths everything was on the disk: what is not whole there has rotted. */
static bool is_rotten(const struct lh_cs_replica *r, const struct lh_cs_rewriting *w)
{
    return w->good < r->synced || w->good < r->header.equal_length ||
           (r->header.sealed && w->good < r->header.sealed_length);
}

/* REC-2a: of a buffered log acknowledged bytes may be missing now. */
static bool write_header(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    struct lh_cs_rewriting *w = j->rewriting;
    bool whole = w->good == j->length && w->checksum == j->checksum;

    if (is_rotten(r, w)) {
        LH_MARK("rewriting-finds-rot");
        lh_cs_replica_condemn(r, LH_ERR_CORRUPT, w->good);
        return true;
    }
    w->header = r->header;
    w->header.generation += 2;
    w->header.committed = lh_cs_replica_known_committed(r);
    if (!LH_PLANTED("rewritten-log-not-truncated"))
        w->header.truncated = lh_cs_replica_truncated(r);
    if (!whole) {
        LH_MARK("rewriting-finds-less");
        memset(w->header.equal_boot, 0, LH_BOOT_ID_BYTES);
    }
    r->end = r->written = w->good;
    r->checksum = w->checksum;
    if (r->committed > r->end)
        r->committed = r->end;
    struct lh_buf slot = lh_chunk_header_encode(r->chunk, &w->header);
    return write_new(r, j, sync_new, lh_chunk_header_offset(&w->header), &slot);
}

static bool read_more(struct lh_cs_replica *r, struct lh_cs_job *j);

/* The whole batches at the front of what was read, which stand where they belong. */
static size_t whole_batches(
    const struct lh_cs_replica *r, struct lh_cs_rewriting *w, uint64_t limit)
{
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    size_t at = 0;
    int error = LH_OK;

    while (at < w->read.size && w->good + at < limit) {
        struct lh_batch_header h;
        error = lh_batch_check(&w->read, at, batch_max, &h);
        if (error == LH_OK &&
            (h.size > limit - (w->good + at) || !lh_log_fits(&w->read, at, &h, &w->checksum)))
            error = LH_ERR_CORRUPT;
        if (error != LH_OK)
            break;
        at += h.size;
    }
    w->ended = w->ended || (error != LH_OK && error != LH_ERR_WOULD_BLOCK) || w->good + at == limit;
    return at;
}

static bool take(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    struct lh_cs_rewriting *w = j->rewriting;
    struct lh_buf batches = {0}, rest = {0};
    uint64_t offset = LH_LOG_START + w->good;
    size_t size = whole_batches(r, w, j->length);

    lh_buf_append(&batches, &w->read, 0, size);
    lh_buf_append(&rest, &w->read, size, w->read.size - size);
    lh_buf_clear(&w->read);
    w->read = rest;
    w->good += size;
    if (size > 0)
        return write_new(r, j, w->ended ? write_header : read_more, offset, &batches);
    return w->ended ? write_header(r, j) : read_more(r, j);
}

static bool read_more(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    struct lh_cs_rewriting *w = j->rewriting;

    if (w->good == j->length)
        return write_header(r, j);
    return ask(r, j, take,
        &(struct lh_cs_disk_request){.op = LH_DISK_READ,
            .offset = LH_LOG_START + w->at,
            .length = r->logs->cs->config.bounds.scan_bytes});
}

static bool create(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return of_new_file(r, j, read_more, LH_DISK_CREATE, LH_LOG_START);
}

/* One that an earlier attempt has left goes first. */
bool lh_cs_rewrite(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    j->rewriting = lh_alloc(sizeof *j->rewriting);
    j->rewriting->checksum = lh_log_seed(r->chunk);
    return of_new_file(r, j, create, LH_DISK_REMOVE, 0);
}

int lh_cs_rewriting_done(
    struct lh_cs_job *j, const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_rewriting *w = j->rewriting;

    if (t->op == LH_DISK_REMOVE && error == LH_ERR_NOT_FOUND)
        return LH_OK;
    if (t->op != LH_DISK_READ || error != LH_OK)
        return error;
    w->at += bytes->size;
    w->ended = bytes->size < t->length;
    lh_buf_append(&w->read, bytes, 0, bytes->size);
    return LH_OK;
}
