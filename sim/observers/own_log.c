/* INV-5, told from one server alone: whoever confirms that its log is equal at a length, or records
 * a seal, has a log there with that running checksum (REC-2, REC-5, SEAL-1).
 *
 * Nor does it answer a fence with a log that is incomplete (FAIL-2a).
 *
 * Full members' logs never differ below their ends, so comparing them looks superfluous. But behind
 * an older copy of the master's store a server that left the set long ago counts as a member again
 * (KEEP-4). Then nothing that was known before counts any more; this does. */
#include "sim/observers/own_log.h"

#include "sim/observers/internal.h"

#include "sim/world/disk.h"

#include <inttypes.h>

/* What a server was asked to confirm last, of one chunk. */
struct asked {
    uint64_t key[2]; /* chunk, server */
    UT_hash_handle hh;
    uint64_t feed, length, checksum;
};

struct own_logs {
    struct asked *asked;
};

/* Does the log have another running checksum at that length? Rot before it says nothing. */
static bool is_another(
    struct lh_sim_node *node, uint64_t chunk, uint64_t length, uint64_t checksum, uint64_t *found)
{
    uint64_t size;
    const uint8_t *bytes = lh_sim_file(node, chunk, &size);

    return bytes != NULL && size >= LH_SIM_LOG_START + length &&
           lh_sim_log_scan(
               chunk, bytes + LH_SIM_LOG_START, size - LH_SIM_LOG_START, length, found) == length &&
           *found != checksum;
}

static struct asked *find(const struct lh_sim_observers *o, const struct actor *a, uint64_t chunk)
{
    const uint64_t key[2] = {chunk, a->number};
    struct asked *asked;

    HASH_FIND(hh, o->own_logs->asked, key, sizeof key, asked);
    return asked;
}

static void is_asked(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__ReplicatePart *part)
{
    struct asked *asked = find(o, a, part->chunk);

    if (part->kind != LEASEHOLD__REPLICATE_KIND__CONFIRM)
        return;
    if (asked == NULL) {
        asked = lh_alloc(sizeof *asked);
        asked->key[0] = part->chunk;
        asked->key[1] = a->number;
        HASH_ADD(hh, o->own_logs->asked, key, sizeof asked->key, asked);
    }
    asked->feed = part->feed;
    asked->length = part->length;
    asked->checksum = part->checksum;
}

void lh_ob_own_log_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part != PART_SERVER || s->method != LH_METHOD_REPLICATE || s->message == NULL ||
        s->direction != LH_REQUEST)
        return;
    const Leasehold__ReplicateRequest *m = (const Leasehold__ReplicateRequest *)s->message;
    for (size_t i = 0; i < m->n_parts; i++)
        is_asked(o, a, m->parts[i]);
}

static void confirms(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__ReplicateAnswer *answer)
{
    const struct asked *asked = find(o, a, answer->chunk);
    uint64_t found;

    if (answer->kind != LEASEHOLD__REPLICATE_KIND__CONFIRM ||
        answer->error != LEASEHOLD__ERROR_CODE__OK || asked == NULL ||
        asked->feed != answer->feed ||
        !is_another(a->node, answer->chunk, asked->length, asked->checksum, &found))
        return;
    lh_sim_fail(o->sim, "INV-5", answer->chunk,
        "%s confirms that its log of chunk %" PRIu64 " is equal at %" PRIu64
        " with running checksum %016" PRIx64 ", and has %016" PRIx64 " there (REC-2)",
        a->name, answer->chunk, asked->length, asked->checksum, found);
}

/* FAIL-2a: what is incomplete gives no log; it is no full member's (REC-4). */
static void answers_fence(
    struct lh_sim_observers *o, const struct actor *a, const Leasehold__Fenced *fenced)
{
    uint64_t size;
    const uint8_t *bytes = lh_sim_file(a->node, fenced->chunk, &size);
    struct lh_sim_header h = lh_sim_header_read(bytes, size);

    if (fenced->error == LEASEHOLD__ERROR_CODE__OK && h.valid && h.copying)
        lh_sim_fail(o->sim, "INV-4", fenced->chunk,
            "%s answers a fence of chunk %" PRIu64 " with %" PRIu64
            " bytes, and its replica is incomplete (REC-4)",
            a->name, fenced->chunk, fenced->length);
}

void lh_ob_own_log_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_SERVER && s->method == LH_METHOD_SESSION && s->message != NULL &&
        s->effect->kind == LH_FX_SEND) {
        const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;
        if (m->body_case == LEASEHOLD__SESSION_REQUEST__BODY_FENCED)
            answers_fence(o, a, m->fenced);
    }
    if (a->part != PART_SERVER || s->method != LH_METHOD_REPLICATE || s->message == NULL ||
        s->direction != LH_REPLY || s->effect->kind != LH_FX_SEND)
        return;
    const Leasehold__ReplicateReply *m = (const Leasehold__ReplicateReply *)s->message;
    for (size_t i = 0; i < m->n_answers; i++)
        confirms(o, a, m->answers[i]);
}

void lh_ob_own_log_disk(struct lh_sim_observers *o, const struct actor *a, uint64_t file,
    enum lh_disk_op op, uint64_t offset)
{
    uint64_t size, found;

    if (a->part != PART_SERVER || file == LH_PROBE_FILE || op != LH_DISK_WRITE ||
        offset >= LH_SIM_LOG_START || (file & LH_NEW_FILE) != 0)
        return;
    const uint8_t *bytes = lh_sim_file(a->node, file, &size);
    struct lh_sim_header h = lh_sim_header_read(bytes, size);
    if (h.valid && h.sealed && !h.copying && !h.lost &&
        is_another(a->node, file, h.sealed_length, h.sealed_checksum, &found))
        lh_sim_fail(o->sim, "INV-5", file,
            "%s records that chunk %" PRIu64 " is sealed at %" PRIu64
            " with running checksum %016" PRIx64 ", and has %016" PRIx64 " there (REC-5)",
            a->name, file, h.sealed_length, h.sealed_checksum, found);
}

void lh_ob_own_log_init(struct lh_sim_observers *o)
{
    o->own_logs = lh_alloc(sizeof *o->own_logs);
}

void lh_ob_own_log_deinit(struct lh_sim_observers *o)
{
    struct asked *asked, *next;

    HASH_ITER(hh, o->own_logs->asked, asked, next) {
        HASH_DEL(o->own_logs->asked, asked);
        free(asked);
    }
    free(o->own_logs);
}
