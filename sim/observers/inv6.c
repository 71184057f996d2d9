/* INV-6: appends are linearizable, and all readers see one order.
 *
 * The committed logs are one order for each file. A batch that takes its place there was submitted
 * with these very bytes, is there once, comes after all that was acknowledged before it was
 * submitted, and right after its writer's batch before it. Who is told that a batch is stored, or
 * is given one to read, is told of that place. */
#include "sim/observers/history.h"

#include <inttypes.h>

static bool wrong(struct lh_sim_observers *o, const struct chunk *c, const struct lh_sim_batch *b,
    const char *what)
{
    lh_sim_fail(o->sim, "INV-6", c->id,
        "at %" PRIu64 " of chunk %" PRIu64 ": batch %" PRIu64 "+%u of writer %" PRIx64 " %s",
        b->offset, c->id, b->sequence, b->count, b->writer, what);
    return false;
}

/* Where the furthest batch begins that was acknowledged before `at`, plus one; 0: none was. And
 * where all of those end. */
static struct ack acknowledged_before(const struct file *f, uint64_t at)
{
    size_t low = 0, high = f->ack_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->acks[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? (struct ack){0} : f->acks[low - 1];
}

/* INV-16, TOK-2: nothing that was appended with a lower token, or with none, comes after what was
 * appended with a higher one. */
static bool in_order_of_tokens(struct lh_sim_observers *o, const struct chunk *c,
    const struct lh_sim_batch *b, const struct writer *w)
{
    struct file *f = lh_ob_file_find(o, c->file);
    uint64_t at = c->start + b->offset;

    if (f == NULL)
        return true;
    if (w->token > f->token) {
        f->token = w->token;
        f->token_begin = at;
        return true;
    }
    if (w->token == f->token || at < f->token_begin)
        return true;
    lh_sim_fail(o->sim, "INV-16", c->id,
        "at %" PRIu64 " of chunk %" PRIu64 ": batch %" PRIu64 "+%u of writer %" PRIx64
        " was appended with token %" PRIu64 ", behind one with token %" PRIu64,
        b->offset, c->id, b->sequence, b->count, b->writer, w->token, f->token);
    return false;
}

bool lh_ob_inv6_placed(struct lh_sim_observers *o, struct chunk *c, const struct lh_sim_batch *b)
{
    const struct file *f = lh_ob_file_find(o, c->file);
    struct writer *w;

    HASH_FIND(hh, o->history->writers, &b->writer, sizeof b->writer, w);
    struct submitted *s = w == NULL ? NULL : lh_ob_submitted(w, b->sequence);
    if (s == NULL || s->count != b->count || s->size != b->size || s->crc != b->crc)
        return wrong(o, c, b, "was never sent");
    /* What nobody can judge any more, or was reported lost (REC-2a), wherever it was seen since. */
    if (s->chunk != NULL && (s->chunk->hopeless || (s->chunk->loss_reported && s->chunk->sealed &&
                                                       s->offset >= s->chunk->length)))
        s->lost = true;
    bool again =
        w->strange && s->chunk != c; /* who settles nothing may repeat it in the next one */
    if (s->chunk != NULL && !s->lost && !again) {
        lh_sim_fail(o->sim, "INV-6", c->id,
            "batch %" PRIu64 "+%u of writer %" PRIx64 " is there twice: at %" PRIu64
            " of chunk %" PRIu64 " and at %" PRIu64 " of chunk %" PRIu64,
            b->sequence, b->count, b->writer, s->offset, s->chunk->id, b->offset, c->id);
        return false;
    }
    /* The writer's batch before this one; not seen where no good member was left to look at. */
    const struct submitted *before = s == w->batches ? NULL : s - 1;
    uint64_t first = before == NULL ? 1 : before->sequence + before->count;
    if (w->strange)
        before = NULL;
    else if (first != b->sequence || (before != NULL && before->chunk == NULL && !o->nobody_left))
        return wrong(o, c, b, "comes after a gap in its writer's sequence");
    if (before != NULL && before->chunk != NULL && !before->lost &&
        before->chunk->file == c->file && !before->chunk->hopeless &&
        before->chunk->start + before->offset >= c->start + b->offset) {
        lh_sim_fail(o->sim, "INV-6", c->id,
            "at %" PRIu64 " of chunk %" PRIu64 ", which begins at %" PRIu64 ": batch %" PRIu64
            "+%u of writer %" PRIx64 " lies before "
            "its writer's batch before it, at %" PRIu64 " of chunk %" PRIu64
            ", which begins at %" PRIu64,
            b->offset, c->id, c->start, b->sequence, b->count, b->writer, before->offset,
            before->chunk->id, before->chunk->start);
        return false;
    }
    struct ack ack = acknowledged_before(f, s->sent_at);
    if (ack.end > 0 && ack.begin >= c->start + b->offset && !f->loss_reported)
        return wrong(
            o, c, b, "lies before a batch of this file that was acknowledged before it was sent");
    if (!in_order_of_tokens(o, c, b, w))
        return false;
    s->chunk = c;
    s->offset = b->offset;
    s->lost = false;
    return true;
}

void lh_ob_inv6_lost(struct lh_sim_observers *o, const struct lh_sim_batch *b)
{
    struct writer *w;

    HASH_FIND(hh, o->history->writers, &b->writer, sizeof b->writer, w);
    struct submitted *s = w == NULL ? NULL : lh_ob_submitted(w, b->sequence);
    if (s == NULL)
        return;
    s->lost = true;
    struct file *f = lh_ob_file_find(o, s->chunk->file);
    if (f != NULL)
        f->loss_reported = true;
}

void lh_ob_inv6_acknowledged(struct lh_sim_observers *o, const struct call *call, uint64_t offset)
{
    struct submitted *s = lh_ob_submitted(call->writer, call->sequence);

    if (s->chunk != NULL && s->chunk->hopeless)
        return;
    if (s->chunk == NULL || s->lost) {
        const struct file *of = lh_ob_file_find(o, call->writer->file);
        bool gone = of == NULL || of->removed; /* with its chunks, and who looked after them */
        if (!o->nobody_left && !s->lost && !gone)
            lh_sim_fail(o->sim, "INV-4", 0,
                "%s was told that batch %" PRIu64 "+%u of writer %" PRIx64 " is stored at %" PRIu64
                ", and it is not committed anywhere",
                call->client->name, s->sequence, s->count, call->writer->id, offset);
        return;
    }
    if (s->chunk->start + s->offset != offset) {
        lh_sim_fail(o->sim, "INV-4", s->chunk->id,
            "%s was told that batch %" PRIu64 "+%u of writer %" PRIx64 " is stored at %" PRIu64
            " of the file, and it is at %" PRIu64 " (%" PRIu64 " of chunk %" PRIu64 ")",
            call->client->name, s->sequence, s->count, call->writer->id, offset,
            s->chunk->start + s->offset, s->offset, s->chunk->id);
        return;
    }
    struct file *f = lh_ob_file_find(o, s->chunk->file);
    struct ack last = f->ack_count == 0 ? (struct ack){0} : f->acks[f->ack_count - 1];
    if (f->ack_count > 0 && last.begin >= offset)
        return; /* one that lies behind it was acknowledged before */
    LH_GROW(f->acks, f->ack_capacity, f->ack_count + 1);
    f->acks[f->ack_count++] =
        (struct ack){.at = lh_sim_now(o->sim), .begin = offset, .end = offset + s->size};
}

/* ---- Readers ---- */

/* The chunk of the file that holds this byte of it. */
static struct chunk *chunk_at(const struct file *f, uint64_t offset)
{
    size_t low = 0, high = f->chunk_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (f->chunks[middle]->start <= offset)
            low = middle;
        else
            high = middle;
    }
    return high == 0 ? NULL : f->chunks[low];
}

/* What a reader was given may have been fetched before committed records were lost (REC-2a). Others
 * stand there now, perhaps those of a later chunk, whose place in the file follows from the lengths
 * of all before it. */
static bool lost_before(const struct file *f, uint64_t offset)
{
    for (size_t i = 0; i < f->chunk_count; i++) {
        const struct chunk *c = f->chunks[i];
        if (c->start > offset)
            break;
        if (c->hopeless || (c->loss_reported && offset - c->start >= c->kept))
            return true;
    }
    return false;
}

static void check_fetched(
    struct lh_sim_observers *o, const struct call *call, const struct lh_fetch_call *fetch)
{
    const struct file *f = lh_ob_file_find(o, call->reader->file);
    struct lh_sim_batch b;

    for (uint64_t at = 0; at < fetch->batches.size; at += b.size) {
        uint64_t offset = fetch->offset + at;
        const struct chunk *c = chunk_at(f, offset);
        if (c == NULL || f->removed || c->removed)
            return;
        bool sound = lh_sim_batch_in(&fetch->batches, at, &b);
        const struct lh_sim_batch *want = lh_ob_committed_at(c, offset - c->start);
        if (c->hopeless || (want == NULL && (o->nobody_left || c->loss_reported)))
            return;
        if (sound && want != NULL && want->crc == b.crc && want->size == b.size &&
            want->writer == b.writer && want->sequence == b.sequence)
            continue;
        if (lost_before(f, offset))
            return;
        if (sound && lh_ob_touched(c))
            continue; /* of a misdirected write: see inv4.c */
        lh_sim_fail(o->sim, "INV-6", c->id,
            "%s was given something else to read at %" PRIu64
            " of %s than is committed there (%" PRIu64 " of "
            "chunk %" PRIu64 ")",
            call->client->name, offset, f->path, offset - c->start, c->id);
        return;
    }
}

void lh_ob_inv6_fetched(struct lh_sim_observers *o, const struct call *call,
    const struct lh_fetch_call *fetch, int error)
{
    struct reader *r = call->reader;

    if (r == NULL || r->file == 0)
        return;
    const struct file *f = lh_ob_file_find(o, r->file);
    if (error == LH_OK) {
        if (fetch->offset != r->position)
            lh_sim_fail(o->sim, "INV-6", 0,
                "%s got %" PRIu64 " of %s after %" PRIu64 ": no growing prefix", call->client->name,
                fetch->offset, f->path, r->position);
        else
            check_fetched(o, call, fetch);
        /* A gap that was reported is no hole (REC-9a). */
        r->position =
            fetch->gap.member_count > 0 ? fetch->gap.to : fetch->offset + fetch->batches.size;
    } else if (error == LH_ERR_CLOSED && !f->removed && !f->loss_reported && !o->nobody_left) {
        uint64_t end = acknowledged_before(f, call->begun).end;
        if (r->position < end)
            lh_ob_fail_unless_excused(o, "INV-6", 0, &o->seen_inv1,
                "%s was told that %s ends at %" PRIu64 ", and %" PRIu64
                " were acknowledged before it asked",
                call->client->name, f->path, r->position, end);
    }
}
