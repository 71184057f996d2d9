/* What each kind of job does. */
#include "chunkserver/log/steps.h"

#include "chunkserver/log/internal.h"
#include "chunkserver/log/rewrite.h"
#include "chunkserver/log/space.h"

#include <inttypes.h>
#include <string.h>

typedef lh_cs_job_step step;

/* ------------------------------------------------------------------------------------------------
 * What a step begins, and what follows it. */

static bool begin(
    struct lh_cs_replica *r, struct lh_cs_job *j, step *next, enum lh_disk_op op, uint64_t length)
{
    j->next = next;
    lh_cs_disk_ask(r->logs, &lh_cs_job_disk, r, NULL,
        &(struct lh_cs_disk_request){.op = op, .length = length});
    return false;
}

static bool sync_log(struct lh_cs_replica *r, struct lh_cs_job *j, step *next)
{
    return begin(r, j, next, LH_DISK_SYNC, 0);
}

static bool truncate_log(struct lh_cs_replica *r, struct lh_cs_job *j, step *next, uint64_t length)
{
    lh_cs_space_given_back(r);
    return begin(r, j, next, LH_DISK_TRUNCATE, LH_LOG_START + length);
}

static bool give_back(struct lh_cs_replica *r, struct lh_cs_job *j, step *next)
{
    lh_cs_space_given_back(r);
    return begin(r, j, next, LH_DISK_RESERVE, 0);
}

static bool write_header(struct lh_cs_replica *r, struct lh_cs_job *j, step *next)
{
    /* One of the slots is on the disk for sure: the other one is written. */
    j->unsynced_before = r->header_unsynced;
    r->header.generation += r->header_unsynced ? 2 : 1;
    r->header_unsynced = true;
    r->header.committed = lh_cs_replica_known_committed(r);
    struct lh_buf slot = lh_chunk_header_encode(r->chunk, &r->header);
    j->next = next;
    lh_cs_disk_ask(r->logs, &lh_cs_job_disk, r, NULL,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_WRITE, .offset = lh_chunk_header_offset(&r->header), .data = &slot});
    return false;
}

static bool done(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    (void)r;
    (void)j;
    return true;
}

/* REC-9: what was copied has been compared, and is on the disk. Only now the file goes that was
 * damaged. */
static bool take_place(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return !r->anew || begin(r, j, done, LH_DISK_REPLACE, 0);
}

/* ------------------------------------------------------------------------------------------------
 * What steps decide by. */

static bool marks_truncated(const struct lh_cs_replica *r, const struct lh_cs_job *j)
{
    return j->at_start && !r->header.truncated && !LH_PLANTED("cut-log-gives-a-length");
}

/* Does the header say already that the log was equal at `length`? So it is with a chunk that is
 * new. */
static bool vouches_for(const struct lh_cs_replica *r, uint64_t length)
{
    return r->header.equal_length == length && r->header.committed <= length &&
           !r->header.truncated &&
           memcmp(r->header.equal_boot, r->logs->cs->config.boot_id, LH_BOOT_ID_BYTES) == 0;
}

bool lh_cs_replica_is_vouched_for(const struct lh_cs_replica *r)
{
    return vouches_for(r, r->end) && !r->header.copying && !lh_cs_replica_unverified(r) &&
           !lh_cs_replica_truncated(r);
}

/* Must the header be on the disk before equality at `length` is confirmed? It names the boot
 * (REC-2a), and if that is there already only a length changes, to vouch for more of what is on the
 * disk. So while no machine goes down, a change of versions costs one sync. */
static bool must_be_verified(const struct lh_cs_replica *r, uint64_t length)
{
    return r->header.committed > length || r->header.equal_length > length ||
           memcmp(r->header.equal_boot, r->logs->cs->config.boot_id, LH_BOOT_ID_BYTES) != 0;
}

/* Is everything below the version that the header has on the disk? */
static bool adopt_needs_sync(const struct lh_cs_replica *r)
{
    if (LH_PLANTED("confirmed-before-durable") || LH_PLANTED("confirmed-with-unsynced-writes"))
        return false;
    return r->synced < r->end;
}

/* The log first: a header that vouches for bytes must not get to the disk before them. */
static bool log_goes_first(const struct lh_cs_replica *r, uint64_t length)
{
    return r->synced < length && !LH_PLANTED("equality-header-before-log") &&
           !LH_PLANTED("confirmed-with-unsynced-writes");
}

/* What was known to be committed behind `length` is not any more. */
static void forget_committed(struct lh_cs_replica *r, uint64_t length)
{
    if (r->header.committed > length)
        r->header.committed = length;
    if (r->committed > length)
        r->committed = length;
}

/* REC-4: whatever the header says besides, this is nobody's full member. Nothing that is here
 * counts as equal any more, so a torn tail may be anywhere. */
static void note_incomplete(struct lh_cs_replica *r, uint64_t length)
{
    r->header.copying = true;
    r->header.sealed = false;
    r->header.sealed_length = r->header.sealed_checksum = 0;
    r->header.equal_length = 0;
    memset(r->header.equal_boot, 0, LH_BOOT_ID_BYTES);
    forget_committed(r, length);
}

/* The master decides the seal, also if this server knows of more: a loss was reported (REC-2a),
 * or the master's metadata is an older copy (KEEP-4). */
static void seal_below(struct lh_cs_replica *r, uint64_t length)
{
    uint64_t committed = lh_cs_replica_known_committed(r);

    if (committed <= length)
        return;
    LH_MARK("seal-below-what-was-committed");
    lh_fx_log(r->logs->cs->fx, LH_ERROR,
        "chunk %" PRIu64 ": it is sealed at %" PRIu64 " bytes, and %" PRIu64
        " were acknowledged: records are lost",
        r->chunk, length, committed);
    forget_committed(r, length);
}

/* ------------------------------------------------------------------------------------------------
 * CREATE: whatever has no header goes first. */

static bool create_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool create_file_made(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return write_header(r, j, create_header_written);
}

static bool create_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    r->headless = false;
    return begin(r, j, create_file_made, LH_DISK_CREATE, LH_LOG_START);
}

static bool create(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (r->headless || r->anew)
        return begin(r, j, create_file, LH_DISK_REMOVE, 0);
    return create_file(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * ADOPT (FENCE-1): one sync covers the version and every write accepted below it. */

static bool adopt_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return LH_PLANTED("confirmed-before-durable") || sync_log(r, j, done);
}

static bool adopt(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (j->version <= r->header.version)
        return !adopt_needs_sync(r) || sync_log(r, j, done);
    r->header.version = j->version;
    if (LH_PLANTED("doubt-cleared-by-adopting"))
        memcpy(r->header.equal_boot, r->logs->cs->config.boot_id, LH_BOOT_ID_BYTES);
    return write_header(r, j, adopt_header_written);
}

/* ------------------------------------------------------------------------------------------------
 * CONFIRM (REC-2): the log is equal at this length. */

static bool confirm_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (LH_PLANTED("confirmed-with-unsynced-writes"))
        return true;
    return sync_log(r, j, done);
}

static bool confirm_header(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (vouches_for(r, j->length))
        return true;
    bool wait = must_be_verified(r, j->length);
    r->header.equal_length = j->length;
    r->header.copying = false; /* it has joined (REC-4) */
    r->header.truncated = false;
    if (r->header.committed > j->length)
        r->header.committed = j->length; /* lost everywhere, and reported (REC-2a) */
    memcpy(r->header.equal_boot, r->logs->cs->config.boot_id, LH_BOOT_ID_BYTES);
    return write_header(r, j, wait ? confirm_header_written : done);
}

static bool confirm(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return log_goes_first(r, j->length) ? sync_log(r, j, confirm_header) : confirm_header(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * COMPARE (REC-5): every batch carries the running checksum behind it, so eight bytes say whether
 * one ends at that length, and whether all before it is what was sealed. */

static bool compare(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (j->length < r->end && LH_PLANTED("longer-log-needs-a-source"))
        return true;
    if (j->length == 0 || j->length == r->end) {
        j->matches = j->checksum == (j->length == 0 ? lh_log_seed(r->chunk) : r->checksum) ||
                     LH_PLANTED("compared-by-length-alone");
        return true;
    }
    if (j->length > r->end || j->length < LH_BATCH_CHAIN_BYTES)
        return true; /* no batch of this log ends there */
    j->next = done;
    lh_cs_disk_ask(r->logs, &lh_cs_job_disk, r, NULL,
        &(struct lh_cs_disk_request){.op = LH_DISK_READ,
            .offset = LH_LOG_START + j->length - LH_BATCH_CHAIN_BYTES,
            .length = LH_BATCH_CHAIN_BYTES});
    return false;
}

/* ------------------------------------------------------------------------------------------------
 * SEAL (SEAL-1): the log first, as in CONFIRM: nothing is scanned any more below a seal. */

static bool seal_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, take_place);
}

static bool seal_header(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    seal_below(r, j->length);
    r->header.sealed = true;
    r->header.copying = r->header.truncated = false;
    r->header.version = j->version;
    r->header.sealed_length = j->length;
    r->header.sealed_checksum = j->checksum;
    return write_header(r, j, seal_header_written);
}

static bool seal_sync_log(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    bool cut = r->end > j->length || r->unrecorded;
    if ((r->synced < j->length || cut) && !LH_PLANTED("seal-header-before-log"))
        return sync_log(r, j, seal_header);
    return seal_header(r, j);
}

/* What is reserved goes before the header says so: nothing is looked for behind a sealed log. */
static bool seal(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (r->state == LH_CS_REPLICA_LOST)
        return seal_header(r, j); /* nothing is cut of what is damaged */
    /* What lies behind a seal that was kept in memory is in the file still. */
    if (r->end > j->length || r->unrecorded)
        return truncate_log(r, j, seal_sync_log, j->length);
    return r->active->space.tried > r->end ? give_back(r, j, seal_sync_log) : seal_sync_log(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * TRUNCATE. A tear looks like rot: from here on this log may be one that lacks something
 * (FAIL-3). */

static bool truncate_done(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return LH_PLANTED("cut-not-synced") || sync_log(r, j, done);
}

static bool truncate_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return truncate_log(r, j, truncate_done, j->length);
}

static bool truncate_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return LH_PLANTED("cut-before-its-mark-is-durable") ? truncate_file(r, j)
                                                        : sync_log(r, j, truncate_file);
}

/* REC-6: a header whose write was refused may be in its slot, and would be the next process's. */
static bool truncate(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (!marks_truncated(r, j) && !r->header_refused)
        return truncate_file(r, j);
    if (r->header_refused)
        LH_MARK("refused-header-is-replaced");
    r->header.truncated = r->header.truncated || marks_truncated(r, j);
    return write_header(r, j, truncate_mark_written);
}

/* ------------------------------------------------------------------------------------------------
 * COPY (REC-4): the mark, then the cut. */

static bool copy_truncated(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool copy_marked(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return r->written <= j->length || truncate_log(r, j, copy_truncated, j->length);
}

static bool copy_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, copy_marked);
}

static bool copy(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    note_incomplete(r, j->length);
    return write_header(r, j, copy_mark_written);
}

/* ------------------------------------------------------------------------------------------------
 * TRIM, LOSE, KEEP, REMOVE. */

static bool trim(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return give_back(r, j, done);
}

static bool lose_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool lose(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (r->headless || r->in_doubt)
        return true;
    r->header.lost = true;
    return write_header(r, j, lose_mark_written);
}

static bool keep(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool remove_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return begin(r, j, done, LH_DISK_REMOVE, 0);
}

step *const lh_cs_job_first_steps[] = {
    [LH_CS_JOB_CREATE] = create,
    [LH_CS_JOB_ADOPT] = adopt,
    [LH_CS_JOB_CONFIRM] = confirm,
    [LH_CS_JOB_COMPARE] = compare,
    [LH_CS_JOB_SEAL] = seal,
    [LH_CS_JOB_TRUNCATE] = truncate,
    [LH_CS_JOB_COPY] = copy,
    [LH_CS_JOB_TRIM] = trim,
    [LH_CS_JOB_LOSE] = lose,
    [LH_CS_JOB_REMOVE] = remove_file,
    [LH_CS_JOB_KEEP] = keep,
    [LH_CS_JOB_REWRITE] = lh_cs_rewrite,
};

enum lh_cs_create_left lh_cs_create_left(const struct lh_cs_job *j)
{
    if (j->next == create_file)
        return LH_CS_LEFT_WHAT_WAS_THERE;
    return j->next == create_header_written || j->next == done ? LH_CS_LEFT_NO_HEADER
                                                               : LH_CS_LEFT_NOTHING;
}
