/* The one stream from this server to another.
 *
 * When a part goes. With nothing being written, at the end of the step in which it became due; what
 * becomes due while a message is being written goes with the next one. So messages grow with the
 * load, one part waits for nobody, and there is no timer in it. Chunks take turns, `turn_bytes` a
 * turn, and a message has `pair_bytes` at most: a part waits for at most two messages, however much
 * other chunks have to send. How much of one chunk may be unanswered is that chunk's own affair
 * (sending.c), so one that waits holds up no other.
 *
 * Feeds. A member that joins begins a feed under a number of its own, and what comes back names it.
 * An answer to a feed that has ended finds nobody, whatever chunk, version or member it was for. */
#include "chunkserver/primary/pair.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/primary/members.h"

#include <stdlib.h>
#include <string.h>

/* The table of a stream's members grows. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS      2U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 1U

static void closed(struct lh_cs_link *gone, const char *text);
static void message(struct lh_cs_link *l, const void *message, struct lh_buf *payload);
static void sent(struct lh_cs_link *l);

static const struct lh_cs_link_user pair_links = {
    .message = message, .closed = closed, .sent = sent};

static void touch(struct lh_cs_pair *pair)
{
    if (pair->touched)
        return;
    pair->touched = true;
    LL_PREPEND2(pair->room->touched_pairs, pair, next_touched);
}

static void free_pair(struct lh_cs_pair *pair)
{
    struct lh_cs_ended_feed *e, *next;

    LH_ASSERT(pair->members == NULL);
    lh_timer_unset(&pair->room->cs->timers, &pair->idle);
    if (pair->touched)
        LL_DELETE2(pair->room->touched_pairs, pair, next_touched);
    LL_FOREACH_SAFE(pair->ended, e, next) {
        free(e);
    }
    HASH_DEL(pair->room->pairs, pair);
    free(pair->address);
    free(pair);
}

static void too_long_idle(void *core, struct lh_timer *timer)
{
    struct lh_cs_pair *pair = LH_OWNER(timer, struct lh_cs_pair, idle);

    (void)core;
    LH_MARK("pair-idle");
    lh_cs_link_close(pair->room->cs, pair->link, LH_OK, NULL);
    free_pair(pair);
}

/* ---- who takes part ---- */

static struct lh_cs_pair *find_pair(struct lh_cs_primaries *room, const char *address)
{
    struct lh_cs_pair *pair;

    HASH_FIND_STR(room->pairs, address, pair);
    if (pair != NULL)
        return pair;
    pair = lh_alloc(sizeof *pair);
    pair->room = room;
    pair->address = lh_strdup(address);
    pair->idle.fire = too_long_idle;
    HASH_ADD_KEYPTR(hh, room->pairs, pair->address, strlen(pair->address), pair);
    pair->link = lh_cs_link_open(
        room->cs, &pair_links, pair, LH_METHOD_REPLICATE, address, LH_DURATION_FOREVER)
                     ->id;
    return pair;
}

static struct lh_cs_member *find_member(const struct lh_cs_pair *pair, uint64_t chunk)
{
    struct lh_cs_member *m;

    HASH_FIND(hh, pair->members, &chunk, sizeof chunk, m);
    return m;
}

bool lh_cs_pair_join(struct lh_cs_member *m)
{
    struct lh_cs_primaries *room = m->primary->room;
    struct lh_cs_pair *pair = find_pair(room, m->address);

    LH_ASSERT(m->pair == NULL);
    if (find_member(pair, m->chunk) != NULL)
        return false;
    if (pair->members != NULL)
        LH_MARK("pair-shared");
    lh_timer_unset(&room->cs->timers, &pair->idle);
    m->pair = pair;
    m->feed = ++room->feeds;
    HASH_ADD(hh, pair->members, chunk, sizeof m->chunk, m);
    lh_cs_pair_ready(m);
    return true;
}

static void take_out(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;

    if (m->ready)
        DL_DELETE(pair->ready, m);
    m->ready = false;
    HASH_DEL(pair->members, m);
    m->pair = NULL;
}

void lh_cs_pair_leave(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;

    if (pair == NULL)
        return;
    take_out(m);
    if (m->adopt_sent) {
        struct lh_cs_ended_feed *e = lh_alloc(sizeof *e);
        *e = (struct lh_cs_ended_feed){
            .chunk = m->chunk, .version = m->primary->version, .feed = m->feed};
        LL_APPEND(pair->ended, e);
        touch(pair);
    }
    if (pair->members == NULL)
        lh_timer_set(&pair->room->cs->timers, &pair->idle,
            lh_instant_add(
                pair->room->cs->now, lh_milliseconds(pair->room->cs->config.bounds.pair_idle_ms)));
}

void lh_cs_pair_ready(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;

    if (pair == NULL || m->ready)
        return;
    m->ready = true;
    DL_APPEND(pair->ready, m);
    touch(pair);
}

/* ---- sending ---- */

struct outgoing {
    Leasehold__ReplicatePart *parts, **list;
    size_t count, capacity, most;
    struct lh_buf bytes;
    uint64_t bytes_most;
};

static bool has_room(struct outgoing *o)
{
    if (o->count == o->most || o->bytes.size >= o->bytes_most)
        return false;
    LH_GROW(o->parts, o->capacity, o->count + 1);
    return true;
}

static void put_ends(struct lh_cs_pair *pair, struct outgoing *o)
{
    while (pair->ended != NULL && has_room(o)) {
        struct lh_cs_ended_feed *e = pair->ended;
        Leasehold__ReplicatePart *part = &o->parts[o->count++];
        leasehold__replicate_part__init(part);
        part->kind = LEASEHOLD__REPLICATE_KIND__END;
        part->chunk = e->chunk;
        part->version = e->version;
        part->feed = e->feed;
        LL_DELETE(pair->ended, e);
        free(e);
    }
}

/* One turn of the chunk whose turn it is. */
static void put_next(struct lh_cs_pair *pair, struct outgoing *o)
{
    struct lh_cs_member *m = pair->ready;
    uint64_t most = o->bytes_most - o->bytes.size, turn = pair->room->cs->config.bounds.turn_bytes;

    DL_DELETE(pair->ready, m);
    m->ready = false;
    if (pair->ready != NULL && most > turn)
        most = turn;
    if (!lh_cs_member_next(m, &o->parts[o->count], &o->bytes, most))
        return;
    o->count++;
    m->ready = true;
    DL_APPEND(pair->ready, m);
}

static void send_message(struct lh_cs_pair *pair)
{
    const struct lh_chunkserver_bounds *b = &pair->room->cs->config.bounds;
    struct lh_cs_host *cs = pair->room->cs;
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    struct outgoing o = {.most = b->pair_parts, .bytes_most = b->pair_bytes};

    put_ends(pair, &o);
    while (pair->ready != NULL && has_room(&o))
        put_next(pair, &o);
    if (o.count > 0) {
        q.n_parts = o.count;
        q.parts = o.list = lh_realloc_array(NULL, o.count, sizeof *q.parts);
        for (size_t i = 0; i < o.count; i++)
            q.parts[i] = &o.parts[i];
        if (o.count > 1 && o.parts[0].chunk != o.parts[o.count - 1].chunk)
            LH_MARK("pair-message-of-many-chunks");
        pair->writing = true;
        lh_fx_send_told(cs->fx, pair->link, &q.base, &o.bytes);
    }
    free(o.list);
    free(o.parts);
}

void lh_cs_pairs_flush(struct lh_cs_primaries *room)
{
    while (room->touched_pairs != NULL) {
        struct lh_cs_pair *pair = room->touched_pairs;
        LL_DELETE2(room->touched_pairs, pair, next_touched);
        pair->touched = false;
        if (!pair->writing)
            send_message(pair);
        else if (pair->ready != NULL)
            LH_MARK("pair-gathers");
    }
}

/* ---- what comes ---- */

static void sent(struct lh_cs_link *l)
{
    struct lh_cs_pair *pair = l->owner;

    pair->writing = false;
    if (pair->ready != NULL || pair->ended != NULL)
        touch(pair);
}

static void message(struct lh_cs_link *l, const void *message, struct lh_buf *payload)
{
    const Leasehold__ReplicateReply *reply = message;
    struct lh_cs_pair *pair = l->owner;

    (void)payload;
    for (size_t i = 0; i < reply->n_answers; i++) {
        const Leasehold__ReplicateAnswer *a = reply->answers[i];
        struct lh_cs_member *m = find_member(pair, a->chunk);
        if (LH_PLANTED("answer-to-another-chunk") && pair->members != NULL) {
            lh_cs_member_answered(pair->members, a);
            continue;
        }
        if (m != NULL && m->feed == a->feed)
            lh_cs_member_answered(m, a);
        else
            LH_MARK("answer-of-an-ended-feed");
    }
}

static void closed(struct lh_cs_link *gone, const char *text)
{
    struct lh_cs_pair *pair = gone->owner;
    struct lh_cs_member *m, *next;

    (void)text;
    if (HASH_COUNT(pair->members) > 1)
        LH_MARK("pair-lost-by-many-chunks");
    HASH_ITER(hh, pair->members, m, next) {
        take_out(m);
        lh_cs_member_down(m);
    }
    free_pair(pair);
}

void lh_cs_pairs_deinit(struct lh_cs_primaries *room)
{
    struct lh_cs_pair *pair, *next;

    HASH_ITER(hh, room->pairs, pair, next) {
        free_pair(pair);
    }
}
