/* The one stream from this server to another.
 *
 * When a message goes: flow/outbox.h; whose part is in it: flow/turns.h. It has about `pair_bytes`.
 * How much of one chunk may be unanswered is that chunk's own affair (sending.c).
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
    lh_outbox_touch(&pair->primaries->touched_pairs, &pair->outbox);
}

static void free_pair(struct lh_cs_pair *pair)
{
    struct lh_cs_ended_feed *e, *next;

    LH_ASSERT(pair->members == NULL);
    lh_timer_unset(&pair->primaries->cs->timers, &pair->idle);
    lh_outbox_forget(&pair->primaries->touched_pairs, &pair->outbox);
    DL_FOREACH_SAFE(pair->ended, e, next) {
        free(e);
    }
    HASH_DEL(pair->primaries->pairs, pair);
    free(pair->address);
    free(pair);
}

static void enlist(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;
    bool little = lh_cs_member_waiting(m) <= pair->primaries->cs->config.bounds.small_bytes;

    lh_turns_enlist(&pair->turns, &m->turn, little);
}

/* It has been told, or never will be. */
static void forget_unreported(struct lh_cs_member *m)
{
    if (m->unreported)
        DL_DELETE2(m->pair->unreported, m, unreported_prev, unreported_next);
    m->unreported = false;
}

static void take_out(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;

    lh_turns_unlist(&m->turn);
    forget_unreported(m);
    HASH_DEL(pair->members, m);
    m->pair = NULL;
}

/* The stream is gone, for all chunks. */
static void all_down(struct lh_cs_pair *pair)
{
    struct lh_cs_member *m, *next;

    if (HASH_COUNT(pair->members) > 1)
        LH_MARK("pair-lost-by-many-chunks");
    HASH_ITER(hh, pair->members, m, next) {
        take_out(m);
        lh_cs_member_down(m);
    }
    free_pair(pair);
}

static void too_long_idle(void *core, struct lh_timer *timer)
{
    struct lh_cs_pair *pair = LH_OWNER(timer, struct lh_cs_pair, idle);

    (void)core;
    LH_MARK("pair-idle");
    lh_cs_link_close(pair->primaries->cs, pair->link, LH_OK, NULL);
    free_pair(pair);
}

/* ---- who takes part ---- */

static struct lh_cs_pair *find_pair(struct lh_cs_primaries *primaries, const char *address)
{
    struct lh_cs_pair *pair;

    HASH_FIND_STR(primaries->pairs, address, pair);
    if (pair != NULL)
        return pair;
    pair = lh_alloc(sizeof *pair);
    pair->primaries = primaries;
    pair->address = lh_strdup(address);
    pair->idle.fire = too_long_idle;
    pair->progress_at = primaries->cs->now;
    HASH_ADD_KEYPTR(hh, primaries->pairs, pair->address, strlen(pair->address), pair);
    pair->link = lh_cs_link_open(
        primaries->cs, &pair_links, pair, LH_METHOD_REPLICATE, address, LH_DURATION_FOREVER)
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
    struct lh_cs_primaries *primaries = m->primary->primaries;
    struct lh_cs_pair *pair = find_pair(primaries, m->address);

    LH_ASSERT(m->pair == NULL);
    if (find_member(pair, m->chunk) != NULL)
        return false;
    if (pair->members != NULL)
        LH_MARK("pair-shared");
    lh_timer_unset(&primaries->cs->timers, &pair->idle);
    m->pair = pair;
    m->feed = ++primaries->feeds;
    HASH_ADD(hh, pair->members, chunk, sizeof m->chunk, m);
    lh_cs_pair_ready(m);
    return true;
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
        DL_APPEND(pair->ended, e);
        touch(pair);
    }
    if (pair->members == NULL)
        lh_timer_set(&pair->primaries->cs->timers, &pair->idle,
            lh_instant_add(pair->primaries->cs->now,
                lh_milliseconds(pair->primaries->cs->config.bounds.pair_idle_ms)));
}

void lh_cs_pair_ready(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;

    if (pair == NULL || lh_turn_waits(&m->turn))
        return;
    if (m->state != LH_CS_MEMBER_DOWN && !lh_cs_member_awaited(m))
        m->progress_at = pair->primaries->cs->now; /* from now on it is waited for */
    enlist(m);
    touch(pair);
    if (pair->outbox.in_flight > 0)
        lh_cs_primary_set_timer(m->primary);
}

void lh_cs_pair_committed(struct lh_cs_member *m)
{
    if (m->pair == NULL || m->unreported)
        return;
    DL_APPEND2(m->pair->unreported, m, unreported_prev, unreported_next);
    m->unreported = true;
}

void lh_cs_pair_unstick(struct lh_cs_member *m)
{
    struct lh_cs_pair *pair = m->pair;
    struct lh_cs_host *cs = m->primary->primaries->cs;

    if (pair == NULL || pair->outbox.in_flight == 0 || LH_PLANTED("part-waits-unnoticed"))
        return;
    struct lh_instant since = lh_instant_max(pair->writing_since, pair->progress_at);
    if (!lh_instant_reached(cs->now, lh_instant_add(since, cs->config.member_timeout)))
        return;
    LH_MARK("pair-stuck");
    lh_cs_link_close(cs, pair->link, LH_ERR_CANCELLED, NULL);
    all_down(pair);
}

/* ---- sending ---- */

struct outgoing {
    Leasehold__ReplicatePart *parts, **list;
    size_t count, capacity;
    struct lh_buf bytes;
};

static Leasehold__ReplicatePart *next_part(struct outgoing *o)
{
    LH_GROW(o->parts, o->capacity, o->count + 1);
    return &o->parts[o->count];
}

static void put_ends(struct lh_cs_pair *pair, struct outgoing *o, uint64_t parts)
{
    while (pair->ended != NULL && o->count < parts) {
        struct lh_cs_ended_feed *e = pair->ended;
        Leasehold__ReplicatePart *part = next_part(o);
        o->count++;
        leasehold__replicate_part__init(part);
        part->kind = LEASEHOLD__REPLICATE_KIND__END;
        part->chunk = e->chunk;
        part->version = e->version;
        part->feed = e->feed;
        DL_DELETE(pair->ended, e);
        free(e);
    }
}

/* One turn of a chunk. */
static void put_next(struct lh_cs_member *m, struct outgoing *o, uint64_t most)
{
    if (!lh_cs_member_next(m, next_part(o), &o->bytes, most))
        return;
    o->count++;
    forget_unreported(m); /* every part says what is committed */
    enlist(m);
}

/* A message goes anyway. */
static void report_unreported(struct lh_cs_pair *pair, struct outgoing *o, uint64_t parts)
{
    while (pair->unreported != NULL && o->count > 0 && o->count < parts) {
        struct lh_cs_member *m = pair->unreported;
        forget_unreported(m);
        if (lh_cs_member_notify(m, next_part(o)))
            o->count++;
    }
}

static void put_parts(struct lh_cs_pair *pair, struct outgoing *o)
{
    const struct lh_chunkserver_bounds *b = &pair->primaries->cs->config.bounds;
    struct lh_turn *turn;
    uint64_t most;

    put_ends(pair, o, b->pair_parts);
    struct lh_turns_message message = {.parts_most = b->pair_parts,
        .bytes_most = b->pair_bytes,
        .little_bytes = b->small_bytes,
        .parts = o->count};
    while ((turn = lh_turns_next(&pair->turns, &message, &most)) != NULL) {
        put_next(LH_OWNER(turn, struct lh_cs_member, turn), o, most);
        message.parts = o->count;
        message.bytes = o->bytes.size;
    }
    report_unreported(pair, o, b->pair_parts);
}

static void send_message(struct lh_cs_pair *pair)
{
    struct lh_cs_host *cs = pair->primaries->cs;
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    struct outgoing o = {0};

    put_parts(pair, &o);
    if (o.count > 0) {
        q.n_parts = o.count;
        q.parts = o.list = lh_realloc_array(NULL, o.count, sizeof *q.parts);
        for (size_t i = 0; i < o.count; i++)
            q.parts[i] = &o.parts[i];
        if (o.parts[0].chunk != o.parts[o.count - 1].chunk)
            LH_MARK("pair-message-of-many-chunks");
        q.cluster = pair->named ? 0 : lh_cs_cluster_name(cs);
        pair->named = pair->named || q.cluster != 0;
        pair->writing_since = cs->now;
        lh_outbox_send(&pair->outbox, cs->fx, pair->link, &q.base, &o.bytes);
    }
    free(o.list);
    free(o.parts);
}

static bool has_something(const struct lh_cs_pair *pair)
{
    return !lh_turns_are_over(&pair->turns) || pair->ended != NULL;
}

void lh_cs_pairs_flush(struct lh_cs_primaries *primaries)
{
    struct lh_outbox *o;

    while ((o = lh_outbox_next(&primaries->touched_pairs)) != NULL) {
        struct lh_cs_pair *pair = LH_OWNER(o, struct lh_cs_pair, outbox);
        if (pair->outbox.in_flight == 0)
            send_message(pair);
        else if (has_something(pair))
            LH_MARK("pair-gathers");
    }
}

/* ---- what comes ---- */

static void sent(struct lh_cs_link *l)
{
    struct lh_cs_pair *pair = l->owner;

    lh_outbox_left(&pair->outbox);
    if (has_something(pair))
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
    touch(pair);
}

static void closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    all_down(gone->owner);
}

void lh_cs_pairs_deinit(struct lh_cs_primaries *primaries)
{
    struct lh_cs_pair *pair, *next;

    HASH_ITER(hh, primaries->pairs, pair, next) {
        free_pair(pair);
    }
}
