/* Bytes that arrive become events of links. */
#include "wire/internal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

#define PINGS_MAX 100u /* in a second */

static struct link *link_of(struct lh_mux *mux, uint32_t id)
{
    return lh_idmap_find(&mux->links, id);
}

static void count_second(struct lh_mux *mux)
{
    if (lh_instant_until(mux->second, mux->now).ns < lh_seconds(1).ns)
        return;
    mux->second = mux->now;
    mux->begun = mux->cancelled = mux->pings = 0;
}

/* ---- the connection ---- */

static void take_hello(struct lh_mux *mux)
{
    struct lh_hello *peer = &mux->peer;

    if (mux->greeted) {
        lh_mux_violated(mux, "a second greeting");
    } else if (!lh_hello_get(mux->control, mux->frame.length, peer)) {
        lh_mux_violated(mux, "no greeting of this protocol");
    } else if (peer->version_min > LH_MUX_VERSION || peer->version_max < LH_MUX_VERSION) {
        lh_mux_violated(mux, "only versions of the protocol that are not spoken here");
    } else {
        mux->greeted = true;
        for (struct link *link = lh_idmap_from(&mux->links, 0); link != NULL;
             link = lh_idmap_from(&mux->links, link->base.id + 1))
            link->credit = LH_PLANTED("first-window-is-zero") ? 0 : peer->window;
    }
}

static void take_ping(struct lh_mux *mux)
{
    count_second(mux);
    if (++mux->pings > PINGS_MAX)
        lh_mux_violated(mux, "too many pings");
    else
        mux->pongs_due = 1; /* one answers all */
}

static void take_goaway(struct lh_mux *mux)
{
    char text[LH_FRAME_TEXT_BYTES_MAX + 1];
    uint32_t last;
    int error;

    if (!lh_close_get(mux->control, mux->frame.length, &last, &error, text)) {
        lh_mux_violated(mux, "a malformed GOAWAY");
        return;
    }
    mux->peer_going = true;
    if (mux->config.serves)
        return;
    for (struct link *link = lh_idmap_from(&mux->links, (uint64_t)last + 1); link != NULL;) {
        uint64_t id = link->base.id;
        lh_mux_end_link(mux, link, LH_ERR_UNAVAILABLE, text, true);
        link = lh_idmap_from(&mux->links, id + 1);
    }
}

/* ---- links ---- */

static void take_open(struct lh_mux *mux)
{
    uint16_t number;
    uint32_t timeout_ms, id = mux->frame.link;

    if (!mux->config.serves || id <= mux->last_link || id > UINT32_MAX / 2 ||
        !lh_open_get(mux->control, mux->frame.length, &number, &timeout_ms)) {
        lh_mux_violated(mux, "a malformed opening of a link");
        return;
    }
    if (mux->counted >= mux->config.links_max) {
        lh_mux_violated(mux, "more links than may be open");
        return;
    }
    count_second(mux);
    mux->begun++;
    enum lh_method method = lh_mux_method_of(number);
    struct link *link =
        lh_mux_add_link(mux, id, method == LH_METHOD_NONE ? LH_METHOD_STAT : method);
    link->counted = true;
    mux->counted++;
    if (mux->going || method == LH_METHOD_NONE) {
        lh_mux_close(mux, &link->base, mux->going ? LH_ERR_UNAVAILABLE : LH_ERR_UNIMPLEMENTED,
            mux->going ? "the server is going away" : "no such method");
        return;
    }
    link->opened_due = true;
    link->call_ends =
        timeout_ms == 0 ? LH_INSTANT_NEVER : lh_instant_add(mux->now, lh_milliseconds(timeout_ms));
    if (LH_PLANTED("served-beyond-its-deadline"))
        link->call_ends = LH_INSTANT_NEVER;
    struct lh_instant ends = link->call_ends;
    if (link->unary_request)
        ends = lh_instant_min(ends, lh_instant_add(mux->now, mux->config.request_timeout));
    lh_timer_set(&mux->timers, &link->timer, ends);
    ready_add(mux, link);
}

static void take_credit(struct lh_mux *mux, struct link *link)
{
    if (mux->frame.length != LH_CREDIT_BYTES || lh_get32(mux->control) == 0) {
        lh_mux_violated(mux, "malformed credit");
        return;
    }
    if (link == NULL)
        return;
    link->credit += lh_get32(mux->control);
    if (link->credit > UINT32_MAX)
        lh_mux_violated(mux, "more credit than there is");
    else
        lh_mux_offer(mux, link);
}

static void take_close(struct lh_mux *mux, struct link *link)
{
    char text[LH_FRAME_TEXT_BYTES_MAX + 1];
    uint32_t ignored;
    int error;

    if (!lh_close_get(mux->control, mux->frame.length, &ignored, &error, text)) {
        lh_mux_violated(mux, "a malformed end of a link");
        return;
    }
    if (mux->config.serves) {
        count_second(mux);
        mux->cancelled++;
        if (mux->config.cancels_max != 0 && mux->cancelled > mux->config.cancels_max &&
            mux->begun > mux->config.cancels_max) {
            lh_mux_violated(mux, "more cancelled calls in a second than may be");
            return;
        }
    }
    if (link == NULL)
        return;
    /* Who cancels hears nothing of the link any more. */
    link->close_due = false;
    link->ended_by_peer = true;
    if (mux->config.serves && link->counted) { /* the peer may open another one at once */
        link->counted = false;
        mux->counted--;
    }
    if (mux->config.serves)
        lh_mux_end_link(mux, link, LH_ERR_CANCELLED, "the peer cancelled the call", true);
    else if (link->begun && error == LH_OK)
        lh_mux_violated(mux, "a good end within a message");
    else
        lh_mux_end_link(mux, link, error, text, false);
}

static void take_control(struct lh_mux *mux)
{
    uint8_t type = mux->frame.type;
    uint32_t id = mux->frame.link;
    bool of_link = type == LH_FRAME_OPEN || type == LH_FRAME_CREDIT || type == LH_FRAME_CLOSE;

    if (!mux->greeted && type != LH_FRAME_HELLO) {
        lh_mux_violated(mux, "something before its greeting");
        return;
    }
    if (of_link != (id != 0)) {
        lh_mux_violated(mux, "a frame of the wrong link");
        return;
    }
    struct link *link = of_link && type != LH_FRAME_OPEN ? link_of(mux, id) : NULL;
    bool never = id > mux->last_link || (link != NULL && link->open_due);
    if (of_link && type != LH_FRAME_OPEN && never) {
        lh_mux_violated(mux, "a frame of a link that was never opened");
        return;
    }
    switch (type) {
    case LH_FRAME_HELLO:
        take_hello(mux);
        break;
    case LH_FRAME_OPEN:
        take_open(mux);
        break;
    case LH_FRAME_CREDIT:
        take_credit(mux, link);
        break;
    case LH_FRAME_CLOSE:
        take_close(mux, link);
        break;
    case LH_FRAME_PING:
        take_ping(mux);
        break;
    case LH_FRAME_PONG:
        break; /* that something came is all that it says */
    default:
        take_goaway(mux);
        break;
    }
}

/* ---- messages ---- */

static size_t largest(const struct lh_mux *mux, const struct link *link)
{
    size_t max = mux->config.message_max;

    if (mux->config.serves && link->unary_request && max > LH_UNARY_REQUEST_BYTES_MAX)
        max = LH_UNARY_REQUEST_BYTES_MAX;
    return max;
}

/* Ends a link for what the peer sends on it: the other links of the connection go on. */
static void refuse_link(struct lh_mux *mux, struct link *link, int error, const char *text)
{
    link->close_due = true;
    link->close_error = error;
    link->close_text = lh_strdup(text);
    lh_mux_drop_queue(mux, link);
    lh_mux_offer(mux, link);
    lh_mux_end_link(mux, link, mux->config.serves ? LH_ERR_CANCELLED : error, text, true);
}

/* The frame's header is there, and its link is `mux->into`. */
static void begin_message(struct lh_mux *mux)
{
    struct link *link = mux->into;

    if (!mux->greeted || mux->frame.link == 0 || mux->frame.link > mux->last_link ||
        (link != NULL && link->open_due)) {
        lh_mux_violated(mux, "a message of a link that was never opened");
        return;
    }
    if (link == NULL)
        return;
    if (link->closed || link->end_due) { /* late */
        mux->into = NULL;
        return;
    }
    if (!link->begun) {
        bool second = link->got_message && link->one_message;
        if (link->allowed <= 0 || second) {
            lh_mux_violated(mux, second ? "a second message of a call" : "more than it may");
            return;
        }
        link->begun = true;
        link->allowed -= LH_MUX_MESSAGE_COST;
    }
    link->allowed -= mux->frame.length;
    if (link->arriving.size + mux->frame.length > largest(mux, link) &&
        !LH_PLANTED("message-limit-ignored"))
        refuse_link(mux, link, LH_ERR_TOO_LARGE, "larger than a message may be");
}

/* Few bytes of a large block are copied: who sends them slowly would have all of it kept. Those of
 * one message lie together; `ahead` more may follow. */
static void gather(
    struct lh_mux *mux, struct link *link, const uint8_t *bytes, size_t n, size_t ahead)
{
    struct lh_buf *to = &link->arriving;

    while (n > 0) {
        if (link->gather_left == 0) {
            size_t size = ahead < mux->config.refer_bytes ? ahead : mux->config.refer_bytes;
            lh_mux_end_gather(link);
            size = size < n ? n : size;
            struct lh_buf fresh = lh_buf_alloc(size, &link->gather_next);
            link->gather_block = lh_buf_slices(&fresh)->block;
            link->gather_left = size;
        }
        size_t k = n < link->gather_left ? n : link->gather_left;
        memcpy(link->gather_next, bytes, k);
        struct lh_slice *last = to->count == 0 ? NULL : &lh_buf_slices(to)[to->count - 1];
        if (last != NULL && last->block == link->gather_block) {
            last->size += k;
            to->size += k;
        } else {
            lh_block_ref(link->gather_block);
            lh_buf_push(to, link->gather_block, link->gather_next, k);
        }
        link->gather_next += k;
        link->gather_left -= k;
        bytes += k;
        n -= k;
        ahead -= k;
    }
}

void lh_mux_end_gather(struct link *link)
{
    if (link->gather_block != NULL)
        lh_block_unref(link->gather_block);
    link->gather_block = NULL;
    link->gather_left = 0;
}

static void end_message(struct lh_mux *mux)
{
    struct link *link = mux->into;

    mux->into = NULL;
    if (link == NULL || (mux->frame.flags & LH_FRAME_MORE) != 0)
        return;
    lh_mux_end_gather(link);
    link->begun = false;
    link->got_message = true;
    if (mux->config.serves && link->unary_request)
        lh_timer_set(&mux->timers, &link->timer, link->call_ends);
    link->inbox_bytes += link->arriving.size;
    lh_mux_messages_add(&link->inbox, lh_buf_take(&link->arriving), false);
    if (link->wanted)
        ready_add(mux, link);
}

/* ---- frames ---- */

static void begin_frame(struct lh_mux *mux)
{
    lh_frame_get(mux->header, &mux->frame, &mux->checksum);
    const char *fault = lh_frame_fault(&mux->frame);
    if (fault != NULL) {
        lh_mux_violated(mux, fault);
        return;
    }
    mux->in_body = true;
    mux->body_read = 0;
    mux->into = NULL;
    if (mux->frame.type == LH_FRAME_MESSAGE) {
        mux->into = link_of(mux, mux->frame.link);
        if (mux->into == NULL && LH_PLANTED("late-frame-to-another-link"))
            mux->into = lh_idmap_from(&mux->links, mux->frame.link);
        begin_message(mux);
    }
}

static void end_frame(struct lh_mux *mux)
{
    mux->in_body = false;
    mux->header_size = 0;
    if (mux->checksum != mux->frame.checksum)
        lh_mux_violated(mux, "a frame with a wrong checksum");
    else if (mux->frame.type == LH_FRAME_MESSAGE)
        end_message(mux);
    else
        take_control(mux);
}

static void take_body(struct lh_mux *mux, struct lh_block *block, const uint8_t *bytes, size_t n)
{
    if (mux->body_read < mux->frame.covered) {
        size_t left = mux->frame.covered - mux->body_read;
        mux->checksum = lh_crc32c(mux->checksum, bytes, n < left ? n : left);
    }
    if (mux->frame.type != LH_FRAME_MESSAGE) {
        memcpy(mux->control + mux->body_read, bytes, n);
    } else if (mux->into != NULL) {
        struct link *link = mux->into;
        if (n < mux->config.refer_bytes) {
            gather(mux, link, bytes, n, mux->frame.length - mux->body_read);
        } else {
            lh_mux_end_gather(link);
            lh_block_ref(block);
            lh_buf_push(&link->arriving, block, bytes, n);
        }
        mux->waiting_bytes += n;
    }
    mux->body_read += (uint32_t)n;
}

void lh_mux_take(struct lh_mux *mux, struct lh_block *block, const uint8_t *bytes, size_t size,
    struct lh_instant now)
{
    mux->now = mux->heard = now;
    mux->ping_sent = LH_INSTANT_NEVER;
    while (size > 0 && mux->broken == NULL) {
        if (!mux->in_body) {
            size_t n = LH_FRAME_BYTES - mux->header_size;
            n = n < size ? n : size;
            memcpy(mux->header + mux->header_size, bytes, n);
            mux->header_size += n;
            bytes += n;
            size -= n;
            if (mux->header_size < LH_FRAME_BYTES)
                break;
            begin_frame(mux);
        }
        if (mux->broken != NULL)
            break;
        size_t n = mux->frame.length - mux->body_read;
        n = n < size ? n : size;
        if (n > 0)
            take_body(mux, block, bytes, n);
        bytes += n;
        size -= n;
        if (mux->body_read == mux->frame.length)
            end_frame(mux);
    }
}
