/* Room on the disk, reserved ahead of a log's end.
 *
 * A log that has its room goes on when others fill the disk, and its file lies in few pieces. But
 * most files stay small. So nothing is reserved for a log before it has some length, then as much
 * again as it holds, and once it has grown a large piece, some times what it grew lately: the rest
 * of its chunk if it is written fast. What lies behind its end is given back when it is sealed,
 * when nothing was written to it for a while, and at a start. Only a write says that the disk is
 * full: a reservation that fails is tried again further on.
 *
 * A log that grows is expected to grow as much again as it did lately, and a new one by a little.
 * What is not reserved of that is not offered to the master as free. One that rests takes only what
 * it holds. Not the rest of the chunk of each: of thousands of files that are created, or grow
 * slowly, all free space would be promised to what never takes it, and others wait. */
#include "chunkserver/log/space.h"

#include "base/assert.h"
#include "chunkserver/log/internal.h"

/* So many times what a log grew lately is reserved ahead. */
#define RESERVED_TIMES 4u

/* `bytes`, or `least` if that is more; at most `most`. */
static uint64_t between(uint64_t least, uint64_t bytes, uint64_t most)
{
    uint64_t some = bytes > least ? bytes : least;

    return some < most ? some : most;
}

/* Of the one that was written to longest ago. */
static struct lh_instant rests_at(const struct lh_cs_logs *logs)
{
    return lh_instant_add(logs->internal->space.growing->space.grown_at,
        lh_milliseconds(logs->cs->config.bounds.reserve_idle_ms));
}

static void leave(struct lh_cs_replica *r)
{
    struct lh_cs_logs *logs = r->logs;

    if (!r->active->space.growing)
        return;
    struct lh_cs_active *mo = lh_cs_move(r);
    mo->space.growing = false;
    DL_DELETE2(logs->internal->space.growing, mo, space.before, space.after);
}

static void count(struct lh_cs_replica *r, struct lh_cs_active *mo)
{
    struct lh_duration whole = lh_milliseconds(r->logs->cs->config.bounds.reserve_idle_ms);
    bool rested = !mo->space.growing;

    if (!rested && lh_instant_before(r->logs->cs->now, lh_instant_add(mo->space.since, whole)))
        return;
    mo->space.grew = rested || r->end < mo->space.from ? 0 : r->end - mo->space.from;
    mo->space.from = rested ? r->written : r->end;
    mo->space.since = r->logs->cs->now;
}

/* Since the time before the present one, or in that. */
static uint64_t grown_lately(const struct lh_cs_replica *r)
{
    uint64_t from = r->active->space.from, now = r->end > from ? r->end - from : 0;

    return now > r->active->space.grew ? now : r->active->space.grew;
}

void lh_cs_space_grows(struct lh_cs_replica *r)
{
    struct lh_cs_logs *logs = r->logs;
    struct lh_cs_active *mo = lh_cs_move(r);

    count(r, mo);
    leave(r);
    mo->space.growing = true;
    mo->space.grown_at = r->logs->cs->now;
    DL_APPEND2(logs->internal->space.growing, mo, space.before, space.after);
    if (!lh_timer_is_set(&logs->internal->space.timer))
        lh_timer_set(&r->logs->cs->timers, &logs->internal->space.timer, rests_at(logs));
}

/* So much is reserved ahead of a log of `length` bytes. A reservation holds up the file's writes:
 * one that has grown has few of them. */
static uint64_t ahead_of(const struct lh_cs_replica *r, uint64_t length)
{
    const struct lh_chunkserver_bounds *b = &r->logs->cs->config.bounds;
    uint64_t lately = grown_lately(r) * RESERVED_TIMES; /* of a chunk, which has 1 GiB at most */

    if (length < b->reserve_grown_bytes)
        return length;
    return between(b->reserve_grown_bytes, lately, b->reserve_most_bytes);
}

static void reserved(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;
    struct lh_cs_active *mo = lh_cs_move(r);

    (void)bytes;
    mo->space.reserving = false;
    if (error == LH_OK) {
        mo->space.reserved = mo->space.tried;
        return;
    }
    LH_MARK("reserve-fails");
    /* A full disk may have given what it had: others need that as much. */
    if (r->state == LH_CS_REPLICA_READY)
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_TRIM});
}

static const struct lh_cs_disk_user reservation = {.done = reserved, .unleased = true};

void lh_cs_space_ahead(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    uint64_t length = r->written + mo->writing, room = r->header.chunk_size - length;
    bool whole = LH_PLANTED("whole-chunk-reserved");
    uint64_t ahead = whole ? room : ahead_of(r, length);

    if (ahead > room)
        ahead = room;
    if (mo->space.reserving ||
        (length < r->logs->cs->config.bounds.reserve_least_bytes && !whole) ||
        length < mo->space.again_at || length + ahead <= mo->space.reserved || ahead == 0)
        return;
    mo->space.reserving = true;
    mo->space.tried = length + ahead;
    mo->space.again_at = mo->space.tried - ahead / 4;
    lh_cs_disk_ask(r->logs, &reservation, r, NULL,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_RESERVE, .length = LH_LOG_START + mo->space.tried});
}

void lh_cs_space_given_back(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = lh_cs_move(r);

    mo->space.reserved = mo->space.tried = 0;
}

void lh_cs_space_rests(struct lh_cs_replica *r)
{
    leave(r);
    if (r->active->space.again_at > 0)
        lh_cs_move(r)->space.again_at = 0;
    if (r->active->space.tried > r->end && !LH_PLANTED("whole-chunk-reserved")) {
        LH_MARK("reserve-given-back");
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_TRIM});
    }
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs_internal, space.timer)->logs;

    (void)core;
    while (logs->internal->space.growing != NULL &&
           lh_instant_reached(logs->cs->now, rests_at(logs))) {
        struct lh_cs_replica *r = logs->internal->space.growing->replica;
        lh_cs_space_rests(r);
        lh_cs_replica_pump(r);
    }
    if (logs->internal->space.growing != NULL)
        lh_timer_set(&logs->cs->timers, &logs->internal->space.timer, rests_at(logs));
}

void lh_cs_space_init(struct lh_cs_logs *logs)
{
    logs->internal->space.timer.fire = look;
}

uint64_t lh_cs_space_promised(const struct lh_cs_logs *logs)
{
    const struct lh_cs_active *mo;
    uint64_t sum = 0;

    DL_FOREACH2(logs->internal->space.growing, mo, space.after) {
        const struct lh_cs_replica *r = mo->replica;
        uint64_t has = mo->space.reserved > r->end ? mo->space.reserved : r->end;
        uint64_t likely = r->end + between(logs->cs->config.bounds.reserve_least_bytes,
                                       grown_lately(r), r->header.chunk_size - r->end);
        sum += likely > has ? likely - has : 0;
    }
    return sum;
}

uint64_t lh_cs_logs_free_bytes(const struct lh_cs_logs *logs)
{
    uint64_t promised = lh_cs_space_promised(logs);

    return logs->cs->config.free_bytes > promised ? logs->cs->config.free_bytes - promised : 0;
}
