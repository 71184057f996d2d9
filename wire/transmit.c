/* What links have to send becomes frames, in an order that is chosen when they can be written. */
#include "wire/internal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

#define SCRATCH_BYTES (16u << 10)
/* A message of no more is copied behind its header. */
#define COPIED_BYTES 1024u
/* Of a message whose payload has a checksum of its own. */
#define COVERED_BYTES 512u

static void release_scratch(struct lh_block *block)
{
    free(block);
}

/* Memory for `size` bytes, and the block that has it, with a reference for the caller. */
static uint8_t *scratch(struct lh_mux *mux, size_t size, struct lh_block **block)
{
    if (mux->scratch != NULL && SCRATCH_BYTES - mux->scratch_used < size) {
        lh_block_unref(mux->scratch);
        mux->scratch = NULL;
    }
    if (mux->scratch == NULL) {
        struct lh_block *fresh = lh_realloc_array(NULL, 1, sizeof *fresh + SCRATCH_BYTES);
        atomic_init(&fresh->references, 1);
        fresh->release = release_scratch;
        mux->scratch = fresh;
        mux->scratch_bytes = (uint8_t *)(fresh + 1);
        mux->scratch_used = 0;
    }
    uint8_t *at = mux->scratch_bytes + mux->scratch_used;
    mux->scratch_used += size;
    lh_block_ref(mux->scratch);
    *block = mux->scratch;
    return at;
}

/* Adds a part; takes over the reference. What lies behind the last part joins it. */
static struct staged *stage(
    struct lh_mux *mux, struct lh_block *block, const uint8_t *bytes, size_t size)
{
    struct staged *last =
        mux->out_count == 0 ? NULL : &mux->out[mux->out_first + mux->out_count - 1];

    mux->out_bytes += size;
    if (last != NULL && last->block == block && last->bytes + last->size == bytes &&
        last->notify == NULL && block == mux->scratch) {
        last->size += size;
        lh_block_unref(block);
        return last;
    }
    if (mux->out_first + mux->out_count == mux->out_capacity && mux->out_first > 0) {
        memmove(mux->out, mux->out + mux->out_first, mux->out_count * sizeof *mux->out);
        mux->out_first = 0;
    }
    LH_GROW(mux->out, mux->out_capacity, mux->out_first + mux->out_count + 1);
    struct staged *s = &mux->out[mux->out_first + mux->out_count++];
    *s = (struct staged){.block = block, .bytes = bytes, .size = size};
    return s;
}

static void stage_control(
    struct lh_mux *mux, uint8_t type, uint32_t link, const uint8_t *body, size_t size)
{
    struct lh_block *block;
    uint8_t *at = scratch(mux, LH_FRAME_BYTES + size, &block);
    struct lh_frame frame = {
        .type = type, .length = (uint32_t)size, .covered = (uint32_t)size, .link = link};
    uint32_t checksum = lh_frame_put(at, &frame);

    if (size > 0)
        memcpy(at + LH_FRAME_BYTES, body, size);
    lh_frame_put_checksum(at, lh_crc32c(checksum, body, size));
    (void)stage(mux, block, at, LH_FRAME_BYTES + size);
}

static void stage_goaway(struct lh_mux *mux)
{
    uint8_t body[LH_CLOSE_BYTES_MAX];
    size_t size = lh_close_put(body, mux->goaway_last, mux->goaway_error, mux->goaway_text);

    stage_control(mux, LH_FRAME_GOAWAY, 0, body, size);
}

static void stage_hello(struct lh_mux *mux)
{
    uint8_t body[LH_HELLO_BYTES];
    const struct lh_hello hello = {
        .version_min = LH_MUX_VERSION,
        .version_max = LH_MUX_VERSION,
        .connection_class = (uint8_t)mux->config.class_,
        .window = mux->config.window,
        .links_max = mux->config.serves ? mux->config.links_max : 0,
        .message_max = mux->config.message_max,
    };

    lh_hello_put(body, &hello);
    stage_control(mux, LH_FRAME_HELLO, 0, body, sizeof body);
}

/* ---- links ---- */

static uint32_t id_of(const struct link *link)
{
    return (uint32_t)link->base.id;
}

static void stage_open(struct lh_mux *mux, struct link *link)
{
    uint8_t body[LH_OPEN_BYTES];
    uint64_t ms = 0;

    if (lh_timer_is_set(&link->timer)) {
        ms = lh_duration_ms(lh_instant_until(mux->now, link->timer.at));
        ms = ms == 0 ? 1 : ms > UINT32_MAX ? 0 : ms;
    }
    link->open_due = false;
    link->counted = true;
    mux->counted++;
    lh_open_put(body, lh_mux_method_number(link->base.method), (uint32_t)ms);
    stage_control(mux, LH_FRAME_OPEN, id_of(link), body, sizeof body);
}

/* The last it says. The link may be freed. */
static void stage_close(struct lh_mux *mux, struct link *link)
{
    uint8_t body[LH_CLOSE_BYTES_MAX];
    size_t size = lh_close_put(body, 0, link->close_error, link->close_text);

    stage_control(mux, LH_FRAME_CLOSE, id_of(link), body, size);
    link->close_due = false;
    sending_remove(mux, link);
    if (link->closed)
        lh_mux_free_link(mux, link);
}

static void stage_credit(struct lh_mux *mux, struct link *link)
{
    uint8_t body[LH_CREDIT_BYTES];

    lh_put32(body, link->to_grant);
    link->allowed += link->to_grant;
    link->to_grant = 0;
    granting_remove(mux, link);
    stage_control(mux, LH_FRAME_CREDIT, id_of(link), body, sizeof body);
}

/* How much of a frame's body is covered. */
static uint32_t covered(const struct lh_mux *mux, const struct link *link, uint32_t length)
{
    const struct lh_method_info *info = lh_method_info(link->base.method);
    bool payload = (mux->config.serves ? info->reply_payload : info->request_payload) != 0;

    return payload && length > COVERED_BYTES ? COVERED_BYTES : length;
}

/* Bytes [from, from + size) of a message, and their header, as parts by reference. */
static struct staged *stage_referred(
    struct lh_mux *mux, const struct lh_buf *bytes, size_t from, const struct lh_frame *frame)
{
    struct lh_block *block;
    uint8_t *at = scratch(mux, LH_FRAME_BYTES, &block);
    uint32_t checksum = lh_frame_put(at, frame);
    const struct lh_slice *slice = lh_buf_slices_const(bytes);
    size_t size = frame->length;

    checksum = lh_buf_crc32c(bytes, from, frame->covered, checksum);
    lh_frame_put_checksum(at, checksum);
    struct staged *last = stage(mux, block, at, LH_FRAME_BYTES);
    for (; size > 0; slice++) {
        if (from >= slice->size) {
            from -= slice->size;
            continue;
        }
        size_t n = slice->size - from < size ? slice->size - from : size;
        lh_block_ref(slice->block);
        last = stage(mux, slice->block, slice->data + from, n);
        size -= n;
        from = 0;
    }
    return last;
}

static struct staged *stage_copied(
    struct lh_mux *mux, const struct lh_buf *bytes, size_t from, const struct lh_frame *frame)
{
    struct lh_block *block;
    uint8_t *at = scratch(mux, LH_FRAME_BYTES + frame->length, &block);
    uint32_t checksum = lh_frame_put(at, frame);

    (void)lh_buf_read(bytes, from, at + LH_FRAME_BYTES, frame->length);
    lh_frame_put_checksum(at, lh_crc32c(checksum, at + LH_FRAME_BYTES, frame->covered));
    return stage(mux, block, at, LH_FRAME_BYTES + frame->length);
}

/* One frame of the queue's first message. */
static void stage_message(struct lh_mux *mux, struct link *link)
{
    struct lh_mux_message *message = link->queue.first;
    size_t from = link->sent_of_first, left = message->bytes.size - from;
    uint32_t most = mux->config.frame_bytes;
    bool more = left > most;
    struct lh_frame frame = {
        .type = LH_FRAME_MESSAGE,
        .flags = more ? LH_FRAME_MORE : 0,
        .length = more ? most : (uint32_t)left,
        .link = id_of(link),
    };

    frame.covered = covered(mux, link, frame.length);
    if (from == 0)
        link->credit -= LH_MUX_MESSAGE_COST;
    link->credit -= frame.length;
    struct staged *last = frame.length <= COPIED_BYTES
                              ? stage_copied(mux, &message->bytes, from, &frame)
                              : stage_referred(mux, &message->bytes, from, &frame);
    last->queued += frame.length;
    if (more) {
        link->sent_of_first += frame.length;
        return;
    }
    if (message->notify && !link->closed && LH_PLANTED("sent-before-it-left")) {
        link->notifies_written++;
        sent_add(mux, link);
    } else if (message->notify && !link->closed) {
        last->notify = link;
        link->notifies_staged++;
    }
    link->sent_of_first = 0;
    struct lh_buf bytes = lh_mux_messages_take(&link->queue);
    lh_buf_clear(&bytes);
}

/* Links are opened in the order of their numbers: a peer takes no smaller one any more. */
static bool may_open_next(const struct lh_mux *mux)
{
    return mux->waiting.first != NULL && lh_mux_may_begin(mux);
}

static void stage_next_open(struct lh_mux *mux)
{
    struct link *link = mux->waiting.first;

    waiting_remove(mux, link);
    stage_open(mux, link);
    lh_mux_offer(mux, link);
}

/* One frame of the link whose turn it is. */
static void stage_of_links(struct lh_mux *mux)
{
    struct link *link = mux->sending.first;

    if (!LH_PLANTED("one-link-sends-on"))
        sending_remove(mux, link);
    if (link->close_due && link->sent_of_first == 0 && LH_PLANTED("end-overtakes-messages")) {
        stage_close(mux, link);
        return;
    }
    if (lh_mux_may_send(link))
        stage_message(mux, link);
    if (link->close_due && link->queue.first == NULL)
        stage_close(mux, link);
    else
        lh_mux_offer(mux, link);
}

/* Chooses frames until there is enough to write. */
static void stage_some(struct lh_mux *mux)
{
    if (mux->hello_due) {
        mux->hello_due = false;
        stage_hello(mux);
    }
    while (mux->out_bytes < mux->config.stage_bytes) {
        if (mux->broken != NULL) {
            if (mux->last_word_due)
                stage_goaway(mux);
            mux->last_word_due = false;
            return;
        }
        if (mux->pongs_due > 0) {
            mux->pongs_due = 0;
            stage_control(mux, LH_FRAME_PONG, 0, NULL, 0);
        } else if (mux->ping_due) {
            mux->ping_due = false;
            stage_control(mux, LH_FRAME_PING, 0, NULL, 0);
        } else if (mux->goaway_due) {
            mux->goaway_due = false;
            stage_goaway(mux);
        } else if (mux->granting.first != NULL) {
            stage_credit(mux, mux->granting.first);
        } else if (may_open_next(mux)) {
            stage_next_open(mux);
        } else if (mux->sending.first != NULL) {
            stage_of_links(mux);
        } else {
            return;
        }
    }
}

bool lh_mux_has_output(const struct lh_mux *mux)
{
    if (mux->out_count > 0 || mux->hello_due)
        return true;
    if (mux->broken != NULL)
        return mux->last_word_due;
    return mux->pongs_due > 0 || mux->ping_due || mux->goaway_due || mux->granting.first != NULL ||
           mux->sending.first != NULL || may_open_next(mux);
}

size_t lh_mux_output(
    struct lh_mux *mux, struct lh_mux_part *parts, size_t max, struct lh_instant now)
{
    size_t n = 0;

    mux->now = lh_instant_max(mux->now, now);
    stage_some(mux);
    for (; n < mux->out_count && n < max; n++)
        parts[n] = (struct lh_mux_part){
            mux->out[mux->out_first + n].bytes, mux->out[mux->out_first + n].size};
    return n;
}

void lh_mux_written(struct lh_mux *mux, size_t bytes)
{
    mux->out_bytes -= bytes;
    while (bytes > 0) {
        struct staged *s = &mux->out[mux->out_first];
        size_t n = s->size < bytes ? s->size : bytes;
        size_t queued = n == s->size || s->queued < n ? s->queued : n;
        s->bytes += n;
        s->size -= n;
        s->queued -= queued;
        mux->queued_bytes -= queued;
        bytes -= n;
        if (s->size > 0)
            break;
        struct link *link = s->notify;
        lh_block_unref(s->block);
        mux->out_first++;
        mux->out_count--;
        if (link != NULL) {
            link->notifies_staged--;
            link->notifies_written++;
            sent_add(mux, link);
        }
    }
    if (mux->out_count == 0)
        mux->out_first = 0;
}
