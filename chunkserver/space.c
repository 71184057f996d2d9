/* Room on the disk, reserved ahead of a log's end.
 *
 * A log that has its room goes on when others fill the disk, and its file lies in few pieces. But
 * most files stay small. So nothing is reserved for a log before it has some length, then as much
 * again as it holds, up to a bound; what lies behind its end is given back when it is sealed, when
 * nothing was written to it for a while, and at a start. Only a write says that the disk is full: a
 * reservation that fails is tried again further on.
 *
 * A log that grows is expected to fill its chunk, so the rest of that is not offered to the master
 * as free. One that rests takes only what it holds. */
#include "base/assert.h"
#include "chunkserver/internal.h"

static struct lh_instant rests_at(const struct replica *r)
{
    return lh_instant_add(r->grown_at, lh_milliseconds(r->cs->config.bounds.reserve_idle_ms));
}

static void leave(struct replica *r)
{
    if (r->growing)
        DL_DELETE2(r->cs->growing, r, grown_before, grown_after);
    r->growing = false;
}

void space_grows(struct replica *r)
{
    struct lh_chunkserver *cs = r->cs;

    leave(r);
    r->growing = true;
    r->grown_at = cs->now;
    DL_APPEND2(cs->growing, r, grown_before, grown_after);
    if (!lh_timer_is_set(&cs->space_timer))
        lh_timer_set(&cs->timers, &cs->space_timer, rests_at(r));
}

/* So much is reserved ahead of a log of `length` bytes. */
static uint64_t ahead_of(const struct replica *r, uint64_t length)
{
    const struct lh_chunkserver_bounds *b = &r->cs->config.bounds;

    return length < b->reserve_most_bytes ? length : b->reserve_most_bytes;
}

void space_ahead(struct replica *r)
{
    uint64_t length = r->written + r->writing, room = r->header.chunk_size - length;
    uint64_t ahead = ahead_of(r, length);

    if (r->reserving > 0 || length < r->cs->config.bounds.reserve_least_bytes ||
        length < r->reserve_at || r->reserved >= r->header.chunk_size || room == 0)
        return;
    r->reserving = length + (ahead < room ? ahead : room);
    disk(r->cs, TICKET_RESERVE, r, NULL, LH_DISK_RESERVE, 0, LH_LOG_START + r->reserving, NULL);
}

void space_reserved(struct replica *r, int error)
{
    uint64_t length = r->reserving;

    if (error == LH_OK)
        r->reserved = length;
    else
        LH_MARK("reserve-fails");
    r->reserving = 0;
    r->reserve_at = length - ahead_of(r, length) / 4;
}

void space_given_back(struct replica *r)
{
    r->reserved = r->reserve_at = 0;
}

void space_rests(struct replica *r)
{
    leave(r);
    if (r->reserved > r->end) {
        LH_MARK("reserve-given-back");
        replica_submit(r, (struct job){.kind = JOB_TRIM, .origin = FOR_NOBODY});
    }
}

void space_timer(struct lh_chunkserver *cs)
{
    while (cs->growing != NULL && lh_instant_reached(cs->now, rests_at(cs->growing))) {
        struct replica *r = cs->growing;
        space_rests(r);
        replica_pump(r);
    }
    if (cs->growing != NULL)
        lh_timer_set(&cs->timers, &cs->space_timer, rests_at(cs->growing));
}

uint64_t space_promised(const struct lh_chunkserver *cs)
{
    const struct replica *r;
    uint64_t sum = 0;

    DL_FOREACH2(cs->growing, r, grown_after)
    {
        uint64_t has = r->reserved > r->end ? r->reserved : r->end;
        sum += r->header.chunk_size - has;
    }
    return sum;
}

uint64_t space_free(const struct lh_chunkserver *cs)
{
    uint64_t promised = space_promised(cs);

    return cs->config.free_bytes > promised ? cs->config.free_bytes - promised : 0;
}
