/* Strangers that append. */
#include "sim/cluster/stranger_internal.h"

#include "batch/batch.h"

/* A writer's batches are all of so many records; the n-th is always the same one. */
static uint32_t count_of(uint64_t writer)
{
    return 1 + (uint32_t)(writer % 3);
}

static struct lh_buf make_batch(uint64_t writer, uint64_t sequence)
{
    struct lh_prng bytes = {lh_mix64(writer ^ sequence)};
    struct lh_batch_builder b;
    uint8_t record[256];
    uint32_t count = count_of(writer);

    lh_batch_builder_init(
        &b, LH_BATCH_FRAME_BYTES + count * (LH_RECORD_HEADER_BYTES + (uint32_t)sizeof record));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = (uint32_t)lh_prng_below(&bytes, sizeof record);
        lh_sim_fill_record(record, size, writer, sequence + i);
        bool fits = lh_batch_builder_add(&b, record, size);
        LH_ASSERT(fits);
    }
    return lh_batch_builder_finish(&b, writer, sequence);
}

static void say_parts(struct lh_sim_stranger *x, const struct talk *t, Leasehold__AppendPart *parts,
    size_t count, struct lh_buf *bytes)
{
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;
    Leasehold__AppendPart *list[4];

    LH_ASSERT(count <= 4);
    for (size_t i = 0; i < count; i++)
        list[i] = &parts[i];
    m.parts = list;
    m.n_parts = count;
    lh_fx_send(x->fx, t->link, &m.base, bytes);
}

static Leasehold__AppendPart part_of(const struct talk *t, uint64_t bytes)
{
    Leasehold__AppendPart part = LEASEHOLD__APPEND_PART__INIT;

    part.lane = t->lane;
    part.chunk = t->chunk;
    part.version = t->version;
    part.bytes = bytes;
    return part;
}

static void open_writer(struct lh_sim_stranger *x, const struct talk *t)
{
    Leasehold__AppendPart part = part_of(t, 0);

    part.writer = t->writer;
    part.first_sequence = t->first;
    part.capability = lh_sim_x_capability(x, t->chunk);
    if (below(x, 16) == 0) { /* that nobody was ever given */
        LH_MARK("stranger-names-a-token");
        part.token = lh_prng_next(&x->random) | UINT64_C(1) << 63;
    }
    say_parts(x, t, &part, 1, NULL);
}

static struct talk *open_append(struct lh_sim_stranger *x, const struct lh_sim_chunk *c)
{
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);

    if (t == NULL || below(x, 2) == 0)
        t = lh_sim_x_begin(x, LH_METHOD_APPEND, lh_sim_x_server(x, c->chunk));
    else
        t = lh_sim_x_begin_beside(x, t);
    t->lane = ++x->lanes;
    t->chunk = c->chunk;
    t->version = c->version;
    t->writer = lh_mix64(lh_prng_next(&x->random)) | 1;
    t->first = 1;
    return t;
}

static void send_batch(struct lh_sim_stranger *x, const struct talk *t, struct lh_buf *batch)
{
    uint64_t cut = below(x, 2) == 0 ? 0 : below(x, batch->size + 1);
    Leasehold__AppendPart parts[] = {part_of(t, cut), part_of(t, batch->size - cut)};

    say_parts(x, t, cut == 0 ? parts + 1 : parts, cut == 0 || cut == batch->size ? 1 : 2, batch);
}

static void send_nth(struct lh_sim_stranger *x, const struct talk *t, uint64_t n)
{
    struct lh_buf batch = make_batch(t->writer, t->first + n * count_of(t->writer));

    send_batch(x, t, &batch);
}

/* As a program that is well: so it has something to lh_sim_x_repeat, and to leave gaps behind. */
static struct talk *append(struct lh_sim_stranger *x)
{
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);
    struct lh_sim_chunk c;

    if (t != NULL && t->opened && below(x, 4) != 0) {
        send_nth(x, t, t->next++);
        return t;
    }
    if (lh_sim_x_chunk(x, &c))
        open_writer(x, open_append(x, &c));
    return NULL;
}

void lh_sim_x_leave_gap(struct lh_sim_stranger *x)
{
    const struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);

    if (t == NULL || !t->opened || below(x, 2) == 0)
        t = append(x);
    if (t == NULL)
        return;
    LH_MARK("stranger-leaves-a-gap");
    send_nth(x, t, t->next + 1 + below(x, 3));
}

void lh_sim_x_repeat(struct lh_sim_stranger *x)
{
    const struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);

    if (t == NULL)
        return;
    LH_MARK("stranger-repeats");
    if (below(x, 3) == 0)
        open_writer(x, t);
    for (uint64_t i = below(x, 4); i > 0 && t->next > 0; i--)
        send_nth(x, t, below(x, t->next));
}

/* Of a chunk, a version, a writer or a sequence that is none. */
void lh_sim_x_open_wrongly(struct lh_sim_stranger *x)
{
    struct lh_sim_chunk c;

    if (!lh_sim_x_chunk(x, &c))
        return;
    struct talk *t = open_append(x, &c);
    switch (below(x, 5)) {
    case 0:
        LH_MARK("stranger-names-a-wrong-version");
        t->version = lh_sim_x_absurd(x, c.version);
        break;
    case 1:
        LH_MARK("stranger-names-an-unknown-chunk");
        t->chunk = lh_sim_x_absurd(x, c.chunk);
        break;
    case 2:
        LH_MARK("stranger-opens-no-writer");
        send_nth(x, t, 0);
        return;
    case 3:
        LH_MARK("stranger-begins-anywhere");
        t->first = lh_sim_x_absurd(x, 1);
        break;
    default:
        LH_MARK("stranger-writes-as-another");
        open_writer(x, t);
        t->writer++;
        send_nth(x, t, 0);
        return;
    }
    open_writer(x, t);
}

static void put(uint8_t *to, uint64_t value, size_t size)
{
    memcpy(to, &value, size);
}

/* A batch whose checksum is right and whose fields are not; or bytes that are none. */
void lh_sim_x_send_malformed(struct lh_sim_stranger *x)
{
    const struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);
    uint8_t bytes[1024];

    if (t == NULL || !t->opened)
        return;
    struct lh_buf good = make_batch(t->writer, t->first + t->next * count_of(t->writer));
    size_t size = good.size;
    LH_ASSERT(size <= sizeof bytes && lh_buf_read(&good, 0, bytes, size));
    lh_buf_clear(&good);
    LH_MARK("stranger-sends-absurd-lengths");
    switch (below(x, 7)) {
    case 0:
        size = below(x, size);
        break;
    case 1:
        put(bytes + 8, lh_sim_x_absurd(x, size), 4);
        break;
    case 2:
        put(bytes + 12, lh_sim_x_absurd(x, count_of(t->writer)), 4);
        break;
    case 3:
        put(bytes + 16, 0, 8);
        break;
    case 4:
        put(bytes + 24, UINT64_MAX - below(x, 4), 8);
        break;
    case 5:
        put(bytes + LH_BATCH_HEADER_BYTES, lh_sim_x_absurd(x, 10), 4);
        break;
    default:
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)lh_prng_next(&x->random);
        break;
    }
    if (size >= LH_BATCH_FRAME_BYTES) {
        struct lh_buf all = lh_buf_copy(bytes, size);
        put(bytes, lh_buf_crc32c(&all, 4, size - 4 - LH_BATCH_CHAIN_BYTES, 0), 4);
        lh_buf_clear(&all);
    }
    struct lh_buf bad = lh_buf_copy(bytes, size);
    send_batch(x, t, &bad);
}

/* Parts that name a wrong lane or a wrong length, and batches that never become whole. */
void lh_sim_x_mistake_lanes(struct lh_sim_stranger *x)
{
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_APPEND);

    if (t == NULL)
        return;
    struct lh_buf batch = make_batch(t->writer, t->first + t->next * count_of(t->writer));
    Leasehold__AppendPart part = part_of(t, batch.size);
    switch (below(x, 5)) {
    case 0:
        LH_MARK("stranger-names-a-wrong-lane");
        part.lane = lh_sim_x_absurd(x, t->lane);
        if (part.lane > x->lanes && part.lane < UINT32_MAX)
            x->lanes = part.lane;
        break;
    case 1:
        LH_MARK("stranger-uses-an-ended-lane");
        part = part_of(t, 0);
        part.end = true;
        say_parts(x, t, &part, 1, NULL);
        part = part_of(t, batch.size);
        part.writer = t->writer;
        part.first_sequence = t->first;
        t->opened = false;
        break;
    case 2:
        LH_MARK("stranger-sends-parts-that-do-not-add-up");
        part.bytes = lh_sim_x_absurd(x, batch.size);
        break;
    case 3: {
        LH_MARK("stranger-sends-half-a-batch");
        struct lh_buf half = {0};
        /* Without its chain, which a primary replaces, it would be as good as whole. */
        part.bytes = 1 + below(x, batch.size - LH_BATCH_CHAIN_BYTES - 1);
        lh_buf_append(&half, &batch, 0, part.bytes);
        lh_buf_clear(&batch);
        batch = half;
        break;
    }
    default:
        LH_MARK("stranger-names-another-chunk-on-a-lane");
        part.chunk = lh_sim_x_absurd(x, part.chunk);
        break;
    }
    say_parts(x, t, &part, 1, &batch);
    lh_buf_clear(&batch);
}
