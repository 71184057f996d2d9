/* What the machines of wire/ may do: checked by the bytes that they write and take, and by what
 * their owners put and get. A run fails ("check") if
 *   - anything but the messages of a link comes out of it, whole and in their order;
 *   - a link ends well before all of its messages were delivered;
 *   - a message is said to have left of which a byte has not;
 *   - a whole message waits although its link's owner asks for one;
 *   - a link with something to send waits for more than one frame of another one;
 *   - a call is served beyond its deadline, though its opener cannot say that it ended. */
#include "sim/world/wire.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int which_of(const struct end *end)
{
    return end == &end->link->ends[1];
}

static void wrong(const struct wired *wired, const char *what)
{
    struct lh_sim *sim = wired->connection->sim;

    lh_sim_fail(sim, "check", 0,
        "wire: %s (connection %" PRIu64 " from %s to %s, link %" PRIu64 " %s)", what,
        wired->connection->number, wired->link.ends[0].node->name, wired->link.ends[1].node->name,
        wired->id, lh_method_info(wired->link.method)->path);
}

void lh_sim_wire_way_init(struct way *way)
{
    way->eligible_from = way->last_frame = UINT64_MAX;
}

void lh_sim_wire_way_deinit(struct way *way)
{
    free(way->checksums);
    free(way->notifies);
}

/* ---- whose turn it is ---- */

static void look(struct wired *wired, int which, bool again)
{
    struct way *way = &wired->ways[which];
    bool open = !way->ended && (which == 1 || wired->mux[0] != NULL);
    bool can = open && (which == 1 || wired->opened) && way->put > way->written &&
               (way->within || way->credit > 0);

    if (!can)
        way->eligible_from = UINT64_MAX;
    else if (again || way->eligible_from == UINT64_MAX)
        way->eligible_from = wired->connection->sides[which].writes.bytes;
}

/* Two frames of one link, with none of another one between them that was ready before both were
 * chosen. */
static void check_turns(struct wired *wired, int which, uint64_t began)
{
    struct connection *c = wired->connection;
    const struct lh_sim_wire_config *config = &c->sim->network.wire;
    uint64_t before = wired->ways[which].last_frame;
    uint64_t chosen = config->stage_bytes + 2 * config->frame_bytes + 4096;

    wired->ways[which].last_frame = began;
    if (before == UINT64_MAX)
        return;
    for (struct wired *other = c->links; other != NULL; other = other->hh.next) {
        uint64_t since = other->ways[which].eligible_from;
        if (other != wired && since < before && before - since > chosen) {
            wrong(other, "a link waits while another one sends");
            return;
        }
    }
}

/* ---- frames ---- */

static void frame_written(struct connection *c, int which, const struct frames_seen *seen)
{
    struct wired *wired = lh_sim_wire_find(c, seen->frame.link);

    if (wired == NULL)
        return;
    struct way *way = &wired->ways[which];
    if (seen->frame.type == LH_FRAME_OPEN) {
        wired->opened = true;
        look(wired, which, false);
    }
    if (seen->frame.type != LH_FRAME_MESSAGE)
        return;
    way->credit -= seen->frame.length + (way->within ? 0 : 64);
    way->within = (seen->frame.flags & LH_FRAME_MORE) != 0;
    way->written += !way->within;
    look(wired, which, true);
    check_turns(wired, which, seen->began);
}

static void frame_taken(struct connection *c, int which, const struct frames_seen *seen)
{
    struct side *side = &c->sides[which];
    struct wired *wired = lh_sim_wire_find(c, seen->frame.link);
    struct lh_hello hello;

    if (seen->frame.type == LH_FRAME_HELLO && !side->greeted &&
        lh_hello_get(seen->body, seen->body_size, &hello)) {
        side->greeted = true;
        side->window = hello.window;
        for (wired = c->links; wired != NULL; wired = wired->hh.next) {
            wired->ways[which].credit = hello.window;
            look(wired, which, false);
        }
        return;
    }
    if (wired == NULL)
        return;
    if (seen->frame.type == LH_FRAME_CREDIT) {
        wired->ways[which].credit += lh_get32(seen->body);
        look(wired, which, false);
    } else if (seen->frame.type == LH_FRAME_CLOSE) {
        wired->ways[which].ended = true;
        look(wired, which, false);
    } else if (seen->frame.type == LH_FRAME_MESSAGE && (seen->frame.flags & LH_FRAME_MORE) == 0) {
        wired->ways[!which].taken++;
    }
}

static void see(struct connection *c, int which, struct frames_seen *seen, const uint8_t *bytes,
    size_t size, void (*whole)(struct connection *, int, const struct frames_seen *))
{
    while (size > 0) {
        size_t n;
        if (!seen->in_body) {
            if (seen->header_size == 0)
                seen->began = seen->bytes;
            n = LH_FRAME_BYTES - seen->header_size;
            n = n < size ? n : size;
            memcpy(seen->header + seen->header_size, bytes, n);
            seen->header_size += n;
            if (seen->header_size == LH_FRAME_BYTES) {
                uint32_t checksum;
                lh_frame_get(seen->header, &seen->frame, &checksum);
                seen->in_body = true;
                seen->body_size = 0;
            }
        } else {
            size_t left = seen->frame.length - seen->body_size;
            n = left < size ? left : size;
            for (size_t i = 0; i < n && seen->body_size + i < sizeof seen->body; i++)
                seen->body[seen->body_size + i] = bytes[i];
            seen->body_size += n;
        }
        bytes += n;
        size -= n;
        seen->bytes += n;
        if (seen->in_body && seen->body_size == seen->frame.length) {
            seen->in_body = false;
            seen->header_size = 0;
            if (seen->body_size > sizeof seen->body)
                seen->body_size = sizeof seen->body;
            whole(c, which, seen);
        }
    }
}

void lh_sim_wire_saw_written(struct connection *c, int which, const uint8_t *bytes, size_t size)
{
    see(c, which, &c->sides[which].writes, bytes, size, frame_written);
}

void lh_sim_wire_saw_taken(struct connection *c, int which, const uint8_t *bytes, size_t size)
{
    see(c, which, &c->sides[which].takes, bytes, size, frame_taken);
}

/* ---- messages ---- */

void lh_sim_wire_saw_put(struct end *end, const struct lh_buf *bytes, bool notify)
{
    struct wired *wired = end->wired;
    struct way *way = &wired->ways[which_of(end)];

    if (way->first > 0 && way->first == way->count)
        way->first = way->count = 0;
    LH_GROW(way->checksums, way->capacity, way->count + 1);
    way->checksums[way->count++] = lh_buf_crc32c(bytes, 0, bytes->size, (uint32_t)bytes->size);
    way->put++;
    if (notify) {
        LH_GROW(way->notifies, way->notify_capacity, way->notify_count + 1);
        way->notifies[way->notify_count++] = way->put;
    }
    look(wired, which_of(end), false);
}

bool lh_sim_wire_saw_delivered(struct end *end, const struct lh_buf *bytes)
{
    struct way *way = &end->wired->ways[!which_of(end)];

    way->delivered++;
    if (way->first == way->count) {
        wrong(end->wired, "a message was delivered that nobody sent");
        return false;
    }
    if (way->checksums[way->first++] !=
        lh_buf_crc32c(bytes, 0, bytes->size, (uint32_t)bytes->size)) {
        wrong(end->wired, "another message was delivered than was sent, or a part of one");
        return false;
    }
    return true;
}

bool lh_sim_wire_saw_sent(struct end *end)
{
    struct way *way = &end->wired->ways[which_of(end)];

    if (way->notify_first == way->notify_count) {
        wrong(end->wired, "more messages were said to have left than were asked about");
        return false;
    }
    if (way->notifies[way->notify_first++] > way->written) {
        wrong(end->wired, "a message is said to have left of which a byte has not");
        return false;
    }
    return true;
}

bool lh_sim_wire_saw_closed(struct end *end, int error)
{
    struct wired *wired = end->wired;

    if (which_of(end) == 1 || error != LH_OK)
        return true;
    if (!wired->finished) {
        wrong(wired, "a link ended well that its server has not ended so");
        return false;
    }
    if (wired->ways[1].delivered < wired->ways[1].put) {
        wrong(wired, "the end of a link came before its last message");
        return false;
    }
    return true;
}

/* Its time is over, and the machine has nothing in mind that would end it; but one that stood still
 * comes to that in a moment. */
static bool is_overdue(const struct connection *c, const struct wired *wired)
{
    const struct side *side = &c->sides[1];

    return wired->own && wired->own_ends != 0 && wired->mux[1] != NULL &&
           lh_sim_clock(side->node).ns > wired->own_ends &&
           !lh_instant_reached(lh_sim_clock(side->node), lh_mux_deadline(side->mux));
}

void lh_sim_wire_saw_drained(struct connection *c, int which)
{
    for (struct wired *wired = c->links; wired != NULL; wired = wired->hh.next) {
        const struct way *way = &wired->ways[!which];
        if (wired->mux[which] != NULL && wired->reading[which] && way->taken > way->delivered) {
            wrong(wired, "a whole message waits though its link's owner asks for one");
            return;
        }
        if (which == 1 && is_overdue(c, wired)) {
            wrong(wired, "a call is served beyond its deadline");
            return;
        }
    }
}
