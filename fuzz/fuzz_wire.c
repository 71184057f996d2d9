/* libFuzzer target: the machine of wire/. The first byte chooses:
 *   - a server or a client is sent bytes, as they are or as frames with the right checksum, in any
 *     pieces, while its owner opens, reads, answers and closes;
 *   - two machines talk over pipes that take and deliver any part of what there is. Messages have
 *     numbers: what is delivered is whole and in order. In the end all is carried, and nothing
 *     waits: each link that was ended well brought all of its messages, and no bytes are kept. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "proto/codec.h"
#include "wire/frames.h"
#include "wire/mux.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t left;
};

static uint8_t next(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static uint32_t next32(struct input *in)
{
    uint32_t value = next(in);

    return value | (uint32_t)next(in) << 8 | (uint32_t)next(in) << 16 | (uint32_t)next(in) << 24;
}

static const struct lh_instant start = {1000000000};

static struct lh_mux_config config_of(struct input *in, bool serves)
{
    static const uint32_t windows[] = {1, 100, 5000, 65536, 1u << 20};
    static const uint32_t stages[] = {1, 1000, 256u << 10};

    return (struct lh_mux_config){
        .serves = serves,
        .window = windows[next(in) % 5],
        .links_max = 16 + next(in) % 32,
        .cancels_max = serves ? next(in) % 2 * 20 : 0,
        .message_max = 8192,
        .frame_bytes = next(in) % 2 == 0 ? LH_FRAME_MORE_BYTES_MIN : 64u << 10,
        .refer_bytes = next(in) % 2 == 0 ? 0 : 500,
        .stage_bytes = stages[next(in) % 3],
        .hello_timeout = lh_seconds(5),
        .ping_after = lh_seconds(2),
        .ping_timeout = lh_seconds(2),
        .request_timeout = lh_seconds(3),
    };
}

static const enum lh_method methods[] = {LH_METHOD_APPEND, LH_METHOD_STAT, LH_METHOD_READ,
    LH_METHOD_SESSION, LH_METHOD_CREATE, LH_METHOD_WATCH};

#define METHODS (sizeof methods / sizeof *methods)

/* ---- against a stranger's bytes ---- */

#define KNOWN 24u

struct alone {
    struct lh_mux *mux;
    struct lh_instant now;
    bool serves;
    struct lh_mux_link *links[KNOWN];
};

static void take(struct lh_mux *mux, const uint8_t *bytes, size_t size, struct lh_instant now)
{
    uint8_t *copy;

    if (size == 0)
        return;
    struct lh_buf block = lh_buf_alloc(size, &copy);
    memcpy(copy, bytes, size);
    lh_mux_take(mux, lh_buf_slices(&block)->block, copy, size, now);
    lh_buf_clear(&block);
}

static void events(struct alone *a)
{
    struct lh_mux_event e;

    while ((e = lh_mux_next(a->mux)).kind != LH_MUX_NOTHING) {
        if (e.kind == LH_MUX_MESSAGE) {
            LH_ASSERT(e.bytes.size <= 8192);
            lh_buf_clear(&e.bytes);
        } else if (e.kind == LH_MUX_CLOSED) {
            struct lh_mux_link **known = e.owner;
            *known = NULL;
            free(e.text);
        } else {
            size_t i = 0;
            while (i < KNOWN && a->links[i] != NULL)
                i++;
            if (i == KNOWN) {
                lh_mux_close(a->mux, e.link, LH_ERR_SHORTAGE, "enough");
                continue;
            }
            a->links[i] = e.link;
            e.link->owner = &a->links[i];
        }
    }
    while (lh_mux_next_sent(a->mux) != NULL)
        ;
}

static void write_all(struct alone *a)
{
    struct lh_mux_part parts[8];
    size_t n, size;

    do {
        size = 0;
        n = lh_mux_output(a->mux, parts, 8, a->now);
        for (size_t i = 0; i < n; i++)
            size += parts[i].size;
        lh_mux_written(a->mux, size);
    } while (size > 0);
}

static void own(struct alone *a, struct input *in)
{
    uint8_t what = next(in), i = next(in) % KNOWN;
    uint8_t *bytes;

    if (a->links[i] == NULL) {
        if (a->serves || !lh_mux_may_open(a->mux))
            return;
        a->links[i] = lh_mux_open(a->mux, methods[what % METHODS],
            what % 3 == 0 ? lh_milliseconds(100) : LH_DURATION_FOREVER, &a->links[i], a->now);
        return;
    }
    switch (what % 4) {
    case 0:
        lh_mux_close(a->mux, a->links[i], what & 4 ? LH_OK : LH_ERR_NOT_FOUND, "text");
        a->links[i] = NULL;
        break;
    case 1: {
        struct lh_buf message = lh_buf_alloc((size_t)what * 8, &bytes);
        memset(bytes, what, (size_t)what * 8);
        lh_mux_put(a->mux, a->links[i], message, what % 8 < 4);
        break;
    }
    default:
        lh_mux_read(a->mux, a->links[i]);
        break;
    }
}

/* A frame with its checksum. */
static void take_frame(struct alone *a, struct input *in)
{
    uint8_t bytes[LH_FRAME_BYTES + 2048];
    struct lh_frame frame = {.type = (uint8_t)(LH_FRAME_HELLO + next(in) % 8),
        .flags = next(in) % 2,
        .link = next(in) % 32};

    frame.length = next(in) % 4 == 0 ? next32(in) % 2048 : next(in) % 64u;
    if (frame.type == LH_FRAME_HELLO)
        frame.length = LH_HELLO_BYTES;
    if (frame.type == LH_FRAME_OPEN)
        frame.length = LH_OPEN_BYTES;
    if (frame.type == LH_FRAME_CREDIT)
        frame.length = LH_CREDIT_BYTES;
    frame.covered = frame.length;
    uint32_t checksum = lh_frame_put(bytes, &frame);
    for (size_t i = 0; i < frame.length; i++)
        bytes[LH_FRAME_BYTES + i] = next(in);
    if (frame.type == LH_FRAME_HELLO)
        lh_hello_put(bytes + LH_FRAME_BYTES, &(struct lh_hello){.version_min = 1,
                                                 .version_max = 1,
                                                 .window = next32(in),
                                                 .links_max = next(in),
                                                 .message_max = 8192});
    if (frame.type == LH_FRAME_OPEN)
        lh_open_put(bytes + LH_FRAME_BYTES, next(in) % 40, next(in));
    struct lh_buf body = lh_buf_copy(bytes + LH_FRAME_BYTES, frame.length);
    lh_frame_put_checksum(bytes, lh_buf_crc32c(&body, 0, frame.length, checksum));
    lh_buf_clear(&body);
    size_t all = LH_FRAME_BYTES + frame.length, first = next(in) % (all + 1);
    take(a->mux, bytes, first, a->now);
    take(a->mux, bytes + first, all - first, a->now);
}

static void against_bytes(struct input *in, bool serves, bool frames)
{
    struct alone a = {.now = start, .serves = serves};
    struct lh_mux_config config = config_of(in, serves);

    a.mux = lh_mux_create(&config, a.now);
    while (in->left > 0) {
        uint8_t what = next(in);
        if (what % 4 == 0)
            own(&a, in);
        if (what % 16 == 1) {
            a.now = lh_instant_add(a.now, lh_milliseconds(next(in) * 20u));
            lh_mux_tick(a.mux, a.now);
        }
        if (frames) {
            take_frame(&a, in);
        } else {
            size_t n = what < in->left ? what : in->left;
            take(a.mux, in->data, n, a.now);
            in->data += n;
            in->left -= n;
        }
        events(&a);
        write_all(&a);
    }
    LH_ASSERT(lh_mux_links(a.mux) < 4096);
    lh_mux_break(a.mux, "the end");
    events(&a);
    for (size_t i = 0; i < KNOWN; i++)
        LH_ASSERT(a.links[i] == NULL);
    LH_ASSERT(lh_mux_links(a.mux) == 0 && lh_mux_waiting_bytes(a.mux) == 0);
    lh_mux_destroy(a.mux);
}

/* ---- two of them ---- */

#define LINKS 12u

struct talk {
    struct lh_mux_link *mux[2];
    bool known[2]; /* its owner at that end has it */
    bool finished; /* served: ended well */
    bool cancelled;
    uint32_t put[2], got[2]; /* from that end */
    bool single[2];
};

struct side {
    struct lh_mux *mux;
    uint8_t *bytes; /* on their way to it */
    size_t size, capacity;
};

struct pair {
    struct side sides[2];
    struct talk talks[LINKS];
    struct lh_instant now;
    size_t opened;
};

static struct talk *talk_of(struct pair *p, struct lh_mux_link *link)
{
    /* Links are opened one after another, and have the numbers 1, 2, ... */
    LH_ASSERT(link->id >= 1 && link->id <= p->opened);
    return &p->talks[link->id - 1];
}

static void put(struct pair *p, struct talk *t, int from, size_t size)
{
    uint8_t *bytes;

    if (!t->known[from] || (t->single[from] && t->put[from] > 0))
        return;
    struct lh_buf message = lh_buf_alloc(4 + size, &bytes);
    memset(bytes, (int)(size % 251), 4 + size);
    lh_put32(bytes, t->put[from]++);
    lh_mux_put(p->sides[from].mux, t->mux[from], message, size % 2 == 0);
}

static void got(struct talk *t, int to, struct lh_buf *bytes)
{
    uint8_t number[4];

    LH_ASSERT(bytes->size >= 4 && lh_buf_read(bytes, 0, number, 4));
    LH_ASSERT(lh_get32(number) == t->got[!to]++);
    for (size_t i = 4; i < bytes->size; i++) {
        uint8_t byte;
        (void)lh_buf_read(bytes, i, &byte, 1);
        LH_ASSERT(byte == (bytes->size - 4) % 251);
        if (i > 64)
            break;
    }
    lh_buf_clear(bytes);
}

static void events_of(struct pair *p, int at, bool reads)
{
    struct lh_mux_event e;

    while ((e = lh_mux_next(p->sides[at].mux)).kind != LH_MUX_NOTHING) {
        if (e.kind == LH_MUX_OPENED) {
            struct talk *t = talk_of(p, e.link);
            LH_ASSERT(at == 1 && !t->known[1]);
            t->known[1] = true;
            t->mux[1] = e.link;
            e.link->owner = t;
            lh_mux_read(p->sides[1].mux, e.link);
        } else if (e.kind == LH_MUX_MESSAGE) {
            struct talk *t = e.owner;
            LH_ASSERT(t->known[at]);
            got(t, at, &e.bytes);
            if (reads)
                lh_mux_read(p->sides[at].mux, e.link);
        } else {
            struct talk *t = e.owner;
            LH_ASSERT(t->known[at]);
            t->known[at] = false;
            if (at == 0 && e.error == LH_OK)
                LH_ASSERT(t->finished && t->got[1] == t->put[1]);
            free(e.text);
        }
    }
    struct lh_mux_link *sent;
    while ((sent = lh_mux_next_sent(p->sides[at].mux)) != NULL)
        LH_ASSERT(talk_of(p, sent)->known[at]);
}

static void write_some(struct pair *p, int from, size_t most)
{
    struct side *to = &p->sides[!from];
    struct lh_mux_part parts[4];
    size_t n = lh_mux_output(p->sides[from].mux, parts, 4, p->now), written = 0;

    for (size_t i = 0; i < n && written < most; i++) {
        size_t size = parts[i].size < most - written ? parts[i].size : most - written;
        LH_GROW(to->bytes, to->capacity, to->size + size);
        memcpy(to->bytes + to->size, parts[i].bytes, size);
        to->size += size;
        written += size;
    }
    lh_mux_written(p->sides[from].mux, written);
}

static void read_some(struct pair *p, int at, size_t most)
{
    struct side *s = &p->sides[at];
    size_t n = s->size < most ? s->size : most;

    take(s->mux, s->bytes, n, p->now);
    if (n > 0)
        memmove(s->bytes, s->bytes + n, s->size - n);
    s->size -= n;
}

static void act(struct pair *p, struct input *in)
{
    uint8_t what = next(in), which = next(in);
    struct talk *t = &p->talks[which % LINKS];
    int at = which / LINKS % 2;

    switch (what % 8) {
    case 0:
        if (p->opened < LINKS) {
            enum lh_method method = methods[which % METHODS];
            const struct lh_method_info *info = lh_method_info(method);
            t = &p->talks[p->opened++];
            t->single[0] = !info->request_stream;
            t->single[1] = !info->reply_stream;
            t->known[0] = true;
            t->mux[0] = lh_mux_open(p->sides[0].mux, method, LH_DURATION_FOREVER, t, p->now);
        }
        break;
    case 1:
    case 2:
        put(p, t, at, (size_t)next(in) * (what < 64 ? 16 : 1));
        break;
    case 3:
        write_some(p, at, 1 + (size_t)next(in) * 16);
        break;
    case 4:
        read_some(p, at, 1 + (size_t)next(in) * 16);
        break;
    case 5:
        events_of(p, at, what < 128);
        break;
    case 6:
        if (t->known[at])
            lh_mux_read(p->sides[at].mux, t->mux[at]);
        break;
    default:
        if (!t->known[at])
            break;
        t->known[at] = false;
        t->finished |= at == 1 && what < 128;
        t->cancelled |= at == 0;
        lh_mux_close(p->sides[at].mux, t->mux[at], what < 128 ? LH_OK : LH_ERR_NOT_FOUND, "");
        break;
    }
}

/* Until nothing moves. */
static void carry_all(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < p->opened; k++)
            if (p->talks[k].known[i])
                lh_mux_read(p->sides[i].mux, p->talks[k].mux[i]);
    for (size_t quiet = 0, rounds = 0; quiet < 2; rounds++) {
        LH_ASSERT(rounds < 100000);
        quiet++;
        for (int i = 0; i < 2; i++) {
            size_t before = p->sides[!i].size;
            write_some(p, i, SIZE_MAX);
            if (p->sides[!i].size > before || p->sides[i].size > 0)
                quiet = 0;
            read_some(p, i, SIZE_MAX);
            events_of(p, i, true);
        }
    }
}

static void two_talk(struct input *in)
{
    struct pair p = {.now = start};

    for (int i = 0; i < 2; i++) {
        struct lh_mux_config config = config_of(in, i == 1);
        config.cancels_max = 0;
        p.sides[i].mux = lh_mux_create(&config, p.now);
    }
    while (in->left > 0)
        act(&p, in);
    carry_all(&p);
    for (size_t i = 0; i < p.opened; i++) {
        struct talk *t = &p.talks[i];
        if (t->known[0] && t->known[1]) /* nothing is lost, and nothing stands still */
            LH_ASSERT(t->got[0] == t->put[0] && t->got[1] == t->put[1]);
        LH_ASSERT(t->known[0] == t->known[1]);
    }
    for (int i = 0; i < 2; i++) {
        LH_ASSERT(lh_mux_broken(p.sides[i].mux) == NULL);
        LH_ASSERT(lh_mux_queued_bytes(p.sides[i].mux) == 0);
        LH_ASSERT(lh_mux_waiting_bytes(p.sides[i].mux) == 0);
        lh_mux_destroy(p.sides[i].mux);
        free(p.sides[i].bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t kind = next(&in) % 8;

    if (kind < 4)
        against_bytes(&in, kind % 2 == 0, kind < 2);
    else
        two_talk(&in);
    return 0;
}
