#include "sim/run/nemesis.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "sim/world/watch.h"

#include <stdlib.h>
#include <string.h>

/* A deed that belongs to an earlier one. */
struct follow_up {
    struct follow_up *next;
    struct lh_sim_nemesis *nemesis;
    struct lh_sim_who who;
};

struct lh_sim_nemesis {
    struct lh_sim_cluster *cluster;
    struct lh_sim_actor *actor;
    struct lh_sim *sim;
    struct lh_sim_temper temper;
    struct lh_prng random;
    void (*did)(void *arg, const struct lh_sim_action *action);
    void *arg;
    bool resting;
    uint64_t quiet_until;
    size_t servers, clients;
    uint64_t damaged; /* a bit for each chunkserver whose replicas it has spoilt */
    uint32_t power_left;
    struct follow_up *follow_ups; /* done or not: freed at the end */
    struct lh_sim_node *prey;     /* of the ambush that is under way; NULL: none */
};

/* ---- Chances ---- */

static uint64_t below(struct lh_sim_nemesis *n, uint64_t bound)
{
    return lh_prng_below(&n->random, bound);
}

static bool chance(struct lh_sim_nemesis *n, uint32_t of_hundred)
{
    return below(n, 100) < of_hundred;
}

/* Short ones as likely as long ones: every power of two between the two has the same chance. */
static uint64_t spread(struct lh_sim_nemesis *n, uint64_t min, uint64_t max)
{
    uint32_t doublings = 0;

    min += min == 0;
    if (max <= min)
        return min;
    while (min << doublings < max / 2)
        doublings++;
    uint64_t low = min << below(n, doublings + 1);
    uint64_t drawn = low + below(n, low);
    return drawn < max ? drawn : max;
}

static struct lh_duration drawn(struct lh_sim_nemesis *n, const struct lh_sim_range *range)
{
    return lh_nanoseconds(spread(n, range->min.ns, range->max.ns));
}

/* From far below a term to well beyond it. */
static struct lh_duration a_while(struct lh_sim_nemesis *n)
{
    return lh_nanoseconds(spread(n, n->temper.term.ns >> 10, n->temper.term.ns * 3));
}

/* ---- Whom ---- */

static struct lh_sim_who server(size_t number)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_SERVER, .number = (uint32_t)number};
}

static struct lh_sim_who master(void)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_MASTER};
}

static struct lh_sim_who client(size_t number)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_CLIENT, .number = (uint32_t)number};
}

/* Nodes are counted as the cluster adds them: the master, chunkservers, clients. */
static struct lh_sim_who nth(const struct lh_sim_nemesis *n, size_t index)
{
    return index == 0 ? master() : index <= n->servers ? server(index) : client(index - n->servers);
}

static size_t index_of(const struct lh_sim_nemesis *n, const struct lh_sim_node *node)
{
    size_t i = 0;

    while (lh_sim_node(n->sim, i) != node)
        i++;
    return i;
}

static size_t nodes(const struct lh_sim_nemesis *n)
{
    return 1 + n->servers + n->clients;
}

/* NULL: there is no file yet. Valid until the master's store changes. */
static const char *some_path(struct lh_sim_nemesis *n)
{
    size_t count = lh_sim_file_count(n->cluster);

    return count == 0 ? NULL : lh_sim_file_path(n->cluster, below(n, count));
}

/* The prey of an ambush, if it is a chunkserver; the primary of some file, which matters most; or
 * any. */
static struct lh_sim_who some_server(struct lh_sim_nemesis *n)
{
    const char *path;

    if (n->prey != NULL) {
        size_t index = index_of(n, n->prey);
        if (index >= 1 && index <= n->servers)
            return server(index);
    }
    if (chance(n, 40) && (path = some_path(n)) != NULL) {
        struct lh_sim_chunk tail;
        struct lh_sim_node *node =
            lh_sim_tail(n->cluster, path, &tail) ? lh_sim_primary(n->cluster, tail.chunk) : NULL;
        if (node != NULL)
            return server(index_of(n, node));
    }
    return server(1 + below(n, n->servers));
}

static struct lh_sim_who some_node(struct lh_sim_nemesis *n)
{
    if (n->prey != NULL)
        return nth(n, index_of(n, n->prey));
    return chance(n, 60) ? some_server(n) : nth(n, below(n, nodes(n)));
}

static bool same(const struct lh_sim_who *a, const struct lh_sim_who *b)
{
    return a->kind == b->kind && a->number == b->number;
}

static struct lh_sim_who another_node(struct lh_sim_nemesis *n, const struct lh_sim_who *than)
{
    struct lh_sim_who who = nth(n, below(n, nodes(n)));

    while (same(&who, than))
        who = nth(n, below(n, nodes(n)));
    return who;
}

/* ---- Deeds ---- */

static bool perform(struct lh_sim_nemesis *n, struct lh_sim_action *a)
{
    a->at = lh_sim_now(n->sim);
    if (!lh_sim_act(n->actor, a))
        return false;
    n->did(n->arg, a);
    return true;
}

static bool does(
    struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who, uint64_t hold)
{
    struct lh_sim_action a = lh_sim_action_default(kind);

    a.who = who;
    a.hold.ns = hold;
    return perform(n, &a);
}

static bool between(struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who,
    struct lh_sim_who peer, uint64_t hold)
{
    struct lh_sim_action a = lh_sim_action_default(kind);

    a.who = who;
    a.peer = peer;
    a.hold.ns = hold;
    return perform(n, &a);
}

/* Some things last until they are mended, most end by themselves. */
static uint64_t hold(struct lh_sim_nemesis *n)
{
    return chance(n, 25) ? 0 : a_while(n).ns;
}

static void power(struct lh_sim_nemesis *n)
{
    if (n->power_left == 0)
        return;
    if (does(n, LH_SIM_ACT_POWER_LOSS, some_server(n), a_while(n).ns) &&
        n->power_left != UINT32_MAX)
        n->power_left--;
}

/* What was acknowledged in `buffered` files may be gone; it must be reported (REC-2a). */
static void rack(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = {.kind = LH_SIM_WHO_SERVERS};

    if (n->power_left == UINT32_MAX)
        does(n, LH_SIM_ACT_POWER_LOSS, who, a_while(n).ns);
}

static void hit_master(struct lh_sim_nemesis *n)
{
    switch (below(n, 4)) {
    case 0:
        does(n, LH_SIM_ACT_CRASH, master(), a_while(n).ns);
        break;
    case 1:
        does(n, LH_SIM_ACT_POWER_LOSS, master(), a_while(n).ns);
        break;
    case 2:
        does(n, LH_SIM_ACT_PAUSE, master(), a_while(n).ns);
        break;
    default:
        does(n, LH_SIM_ACT_RESTART, master(), 0);
        break;
    }
}

static void hit_client(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = client(1 + below(n, n->clients));

    if (chance(n, 50))
        does(n, LH_SIM_ACT_CRASH, who, a_while(n).ns);
    else
        does(n, LH_SIM_ACT_PAUSE, who, a_while(n).ns);
}

static void pause_server(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);

    a.who = some_server(n);
    a.hold = a_while(n);
    a.in_step = chance(n, 50);
    perform(n, &a);
}

/* Two sides that do not hear each other, or a ring in which each hears its neighbours alone. */
static void partition(struct lh_sim_nemesis *n)
{
    uint64_t sides = lh_prng_next(&n->random), length = hold(n);
    bool ring = chance(n, 25);

    for (size_t a = 0; a < nodes(n); a++)
        for (size_t b = a + 1; b < nodes(n); b++) {
            bool neighbours = b == a + 1 || (a == 0 && b + 1 == nodes(n));
            if (ring ? neighbours : (sides >> a & 1) == (sides >> b & 1))
                continue;
            between(n, LH_SIM_ACT_ISOLATE, nth(n, a), nth(n, b), length);
        }
}

static void cut_primary(struct lh_sim_nemesis *n)
{
    struct lh_sim_who primary = some_server(n);

    switch (below(n, 3)) {
    case 0:
        between(n, LH_SIM_ACT_ISOLATE, primary, master(), hold(n));
        break;
    case 1:
        between(n, LH_SIM_ACT_CUT, primary, master(), hold(n));
        break;
    default:
        between(n, LH_SIM_ACT_CUT, master(), primary, hold(n));
        break;
    }
}

static void recall(struct lh_sim_nemesis *n)
{
    const char *path = some_path(n);

    if (path == NULL)
        return;
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_RECALL : LH_SIM_ACT_RELEASE);
    (void)snprintf(a.path, sizeof a.path, "%s", path);
    a.client = 1 + (uint32_t)below(n, n->clients);
    perform(n, &a);
}

/* A primary that nobody can reach in time to tell it that it is none any more. */
static void outlive(struct lh_sim_nemesis *n)
{
    struct lh_sim_who primary = some_server(n), member = server(1 + below(n, n->servers));
    struct lh_sim_action late = lh_sim_action_default(LH_SIM_ACT_TIMERS);
    uint64_t length = n->temper.term.ns + a_while(n).ns;

    if (chance(n, 50)) {
        struct lh_sim_action clock = lh_sim_action_default(LH_SIM_ACT_CLOCK);
        clock.who = primary;
        clock.ppm = -n->temper.drift_ppm;
        perform(n, &clock);
    }
    between(n, LH_SIM_ACT_ISOLATE, primary, master(), length);
    switch (same(&primary, &member) ? 0 : below(n, 3)) {
    case 0:
        late.who = primary;
        late.delay = lh_nanoseconds(spread(n, n->temper.term.ns / 2, n->temper.term.ns * 4));
        perform(n, &late);
        break;
    case 1:
        between(n, LH_SIM_ACT_ISOLATE, primary, member, length);
        break;
    default:
        between(n, LH_SIM_ACT_CLOG, primary, member, length);
        break;
    }
}

/* The next process of that server, while news of the last one are under way. */
static void next_process(void *arg)
{
    struct follow_up *f = arg;

    if (!f->nemesis->resting)
        does(f->nemesis, LH_SIM_ACT_RESTART, f->who, 0);
}

static void restart_soon(struct lh_sim_nemesis *n, struct lh_sim_who who, uint64_t within)
{
    struct follow_up *f = lh_alloc(sizeof *f);

    *f = (struct follow_up){n->follow_ups, n, who};
    n->follow_ups = f;
    lh_sim_at(n->sim, lh_nanoseconds(spread(n, within / 64, within)), next_process, f);
}

static void be_late(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SLOW);
    struct lh_sim_who who = some_server(n);
    bool to_master = chance(n, 50);

    a.who = to_master ? who : master();
    a.peer = to_master ? master() : who;
    a.delay = lh_nanoseconds(spread(n, n->temper.term.ns / 4, n->temper.term.ns * 3));
    a.hold = a_while(n);
    perform(n, &a);
    if (!to_master) {
        recall(n);
        return;
    }
    between(n, LH_SIM_ACT_BREAK, who, master(), 0);
    restart_soon(n, who, a.delay.ns);
}

static void slow(struct lh_sim_nemesis *n)
{
    bool narrow = chance(n, 30);
    struct lh_sim_action a = lh_sim_action_default(narrow ? LH_SIM_ACT_BANDWIDTH : LH_SIM_ACT_SLOW);

    a.who = some_node(n);
    a.peer = another_node(n, &a.who);
    a.hold.ns = hold(n);
    if (narrow)
        a.number = spread(n, 2000, 2000000);
    else
        a.delay = lh_nanoseconds(spread(n, 100000, n->temper.term.ns * 2));
    perform(n, &a);
}

static void blind(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = some_node(n);

    if (chance(n, 50))
        between(n, LH_SIM_ACT_BLIND, who, another_node(n, &who), hold(n));
    else
        between(n, LH_SIM_ACT_BREAK_AT, who, another_node(n, &who), 0);
}

/* One link; or FoundationDB's swizzle: all links of a node are clogged one after another and open
 * again in another order, since each has its own length. */
static void clog_links(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = some_node(n);

    if (chance(n, 50)) {
        between(n, LH_SIM_ACT_CLOG, who, another_node(n, &who), a_while(n).ns);
        return;
    }
    for (size_t i = 0; i < nodes(n); i++) {
        struct lh_sim_who peer = nth(n, i);
        if (same(&who, &peer))
            continue;
        between(n, LH_SIM_ACT_CLOG, who, peer, a_while(n).ns);
        between(n, LH_SIM_ACT_CLOG, peer, who, a_while(n).ns);
    }
}

/* Clocks sit at the edges as often as in between. */
static void drift(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_CLOCK);
    int32_t edge = n->temper.drift_ppm;

    if (chance(n, 20)) {
        a.kind = LH_SIM_ACT_TIMERS;
        a.who = some_node(n);
        a.delay = lh_nanoseconds(spread(n, 10000, n->temper.term.ns / 2));
        perform(n, &a);
        return;
    }
    a.who = chance(n, 30) ? master() : some_node(n);
    switch (below(n, 4)) {
    case 0:
        a.ppm = edge;
        break;
    case 1:
        a.ppm = -edge;
        break;
    default:
        a.ppm = (int32_t)below(n, 2 * (uint64_t)edge + 1) - edge;
        break;
    }
    perform(n, &a);
}

static void jump(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_WALL);

    a.who = some_node(n);
    a.number = UINT64_C(1600000000000) + below(n, UINT64_C(200000000000));
    perform(n, &a);
}

static void stall(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 60) ? LH_SIM_ACT_STALL : LH_SIM_ACT_SLOW_DISK);

    a.who = some_server(n);
    a.hold.ns = hold(n);
    if (a.kind == LH_SIM_ACT_SLOW_DISK)
        a.delay = lh_nanoseconds(spread(n, 1000000, n->temper.term.ns));
    perform(n, &a);
}

static void fill(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ROOM);

    a.who = some_server(n);
    a.number = below(n, 4 * LH_CHUNK_BYTES_MIN);
    a.hold.ns = hold(n);
    perform(n, &a);
}

/* The atlas: replicas are spoilt at so many machines and no more: nothing copies them anew. */
static bool may_damage(struct lh_sim_nemesis *n, struct lh_sim_who *who)
{
    *who = some_server(n);
    uint64_t bit = UINT64_C(1) << who->number;

    if ((n->damaged & bit) != 0)
        return true;
    if (n->temper.damage_servers == 0)
        return false;
    n->temper.damage_servers--;
    n->damaged |= bit;
    return true;
}

static void fail_disk(struct lh_sim_nemesis *n)
{
    static const enum lh_disk_op ops[] = {LH_DISK_WRITE, LH_DISK_SYNC, LH_DISK_READ, LH_DISK_CREATE,
        LH_DISK_TRUNCATE, LH_DISK_REMOVE};
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_FAIL_DISK);

    if (!may_damage(n, &a.who))
        return;
    a.op = ops[chance(n, 60) ? 1 : below(n, sizeof ops / sizeof ops[0])];
    a.count = 1 + (uint32_t)below(n, 3);
    bool grows = a.op == LH_DISK_WRITE || a.op == LH_DISK_CREATE;
    a.error = grows && chance(n, 40) ? LH_ERR_DISK_FULL : LH_ERR_IO;
    perform(n, &a);
}

/* Where some batch begins in a chunk's file: as long as all are of one size, at a multiple of the
 * first one's. */
static uint64_t some_batch(struct lh_sim_nemesis *n, const uint8_t *file, uint64_t size)
{
    uint32_t first;

    if (size < LH_LOG_START + LH_BATCH_HEADER_BYTES)
        return below(n, size);
    memcpy(&first, file + LH_LOG_START + 8, sizeof first);
    if (first == 0 || first > size - LH_LOG_START)
        return below(n, size);
    return LH_LOG_START + below(n, (size - LH_LOG_START) / first) * first;
}

/* A bit, or the next write: it lands somewhere, or just where another batch is. */
static void rot(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 60) ? LH_SIM_ACT_ROT : LH_SIM_ACT_MISDIRECT);
    struct lh_sim_node *node;
    const uint8_t *file = NULL;
    uint64_t *files, size;

    if (!may_damage(n, &a.who))
        return;
    node = lh_sim_server(n->cluster, a.who.number);
    size_t count = lh_sim_files(node, &files);
    if (count > 0) {
        struct lh_sim_chunk tail;
        const char *path = some_path(n);
        a.chunk.number = files[below(n, count)];
        /* What is still appended to is read back and compared; a sealed chunk is not. */
        if (path != NULL && chance(n, 60) && lh_sim_tail(n->cluster, path, &tail))
            a.chunk.number = tail.chunk;
        file = a.chunk.number == 0 ? NULL : lh_sim_file(node, a.chunk.number, &size);
    }
    free(files);
    if (file == NULL || size == 0)
        return;
    bool whole = a.kind == LH_SIM_ACT_MISDIRECT && chance(n, 60);
    a.number = whole ? some_batch(n, file, size) : below(n, size);
    a.mask = 1u << below(n, 8);
    if (perform(n, &a) && whole)
        restart_soon(n, a.who, n->temper.term.ns);
}

/* Other terms count from the master's next start, which comes at once. */
static void change_settings(struct lh_sim_nemesis *n)
{
    const struct lh_master_config *now = lh_sim_master_config(n->cluster);
    uint64_t session =
        spread(n, n->temper.term_min.ns, n->temper.term.ns * (chance(n, 50) ? 2 : 6));
    uint64_t chunk = session + below(n, session * 4);
    struct lh_sim_action s = lh_sim_action_default(LH_SIM_ACT_SESSION_TERM);
    struct lh_sim_action c = lh_sim_action_default(LH_SIM_ACT_CHUNK_TERM);

    s.hold.ns = session;
    c.hold.ns = chunk;
    /* In between, too, a chunk's term is at least a session's. */
    if (session > now->chunk_term.ns) {
        perform(n, &c);
        perform(n, &s);
    } else {
        perform(n, &s);
        perform(n, &c);
    }
    does(n, LH_SIM_ACT_RESTART, master(), 0);
}

static void start_master(void *arg)
{
    struct lh_sim_nemesis *n = arg;

    if (!n->resting)
        does(n, LH_SIM_ACT_START, master(), 0);
}

/* The master stops with the error, and its supervisor starts it again. */
static void fail_store(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_FAIL_STORE);

    a.who = master();
    a.error = LH_ERR_IO;
    if (perform(n, &a))
        lh_sim_at(n->sim, a_while(n), start_master, n);
}

static void misbehave(struct lh_sim_nemesis *n, enum lh_sim_mischief what)
{
    struct lh_sim_who who;

    switch (what) {
    case LH_SIM_MISCHIEF_CRASH:
        does(n, LH_SIM_ACT_CRASH, some_server(n), hold(n));
        break;
    case LH_SIM_MISCHIEF_RESTART:
        does(n, LH_SIM_ACT_RESTART, some_server(n), 0);
        break;
    case LH_SIM_MISCHIEF_POWER:
        power(n);
        break;
    case LH_SIM_MISCHIEF_RACK:
        rack(n);
        break;
    case LH_SIM_MISCHIEF_MASTER:
        hit_master(n);
        break;
    case LH_SIM_MISCHIEF_CLIENT:
        hit_client(n);
        break;
    case LH_SIM_MISCHIEF_PAUSE:
        pause_server(n);
        break;
    case LH_SIM_MISCHIEF_STOP:
        does(n, LH_SIM_ACT_STOP, some_server(n), a_while(n).ns);
        break;
    case LH_SIM_MISCHIEF_ISOLATE:
        does(n, LH_SIM_ACT_ISOLATE, some_node(n), hold(n));
        break;
    case LH_SIM_MISCHIEF_PARTITION:
        partition(n);
        break;
    case LH_SIM_MISCHIEF_ONE_WAY:
        who = some_node(n);
        between(n, LH_SIM_ACT_CUT, who, another_node(n, &who), hold(n));
        break;
    case LH_SIM_MISCHIEF_PRIMARY_CUT:
        cut_primary(n);
        break;
    case LH_SIM_MISCHIEF_OUTLIVE:
        outlive(n);
        break;
    case LH_SIM_MISCHIEF_ESTRANGE:
        between(n, LH_SIM_ACT_ISOLATE, client(1 + below(n, n->clients)), some_server(n), hold(n));
        break;
    case LH_SIM_MISCHIEF_LATE:
        be_late(n);
        break;
    case LH_SIM_MISCHIEF_BREAK:
        who = some_node(n);
        between(n, LH_SIM_ACT_BREAK, who, another_node(n, &who), 0);
        break;
    case LH_SIM_MISCHIEF_SLOW:
        slow(n);
        break;
    case LH_SIM_MISCHIEF_BLIND:
        blind(n);
        break;
    case LH_SIM_MISCHIEF_CLOG:
        clog_links(n);
        break;
    case LH_SIM_MISCHIEF_DRIFT:
        drift(n);
        break;
    case LH_SIM_MISCHIEF_WALL:
        jump(n);
        break;
    case LH_SIM_MISCHIEF_STALL:
        stall(n);
        break;
    case LH_SIM_MISCHIEF_FULL:
        fill(n);
        break;
    case LH_SIM_MISCHIEF_IO_ERROR:
        fail_disk(n);
        break;
    case LH_SIM_MISCHIEF_ROT:
        rot(n);
        break;
    case LH_SIM_MISCHIEF_RECALL:
        recall(n);
        break;
    case LH_SIM_MISCHIEF_SETTINGS:
        change_settings(n);
        break;
    case LH_SIM_MISCHIEF_STORE:
        fail_store(n);
        break;
    case LH_SIM_MISCHIEF_COUNT:
        LH_UNREACHABLE();
    }
}

/* Mends one node, or, now and then, everything. */
static void mend(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = nth(n, below(n, nodes(n)));

    if (chance(n, 20)) {
        struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_MEND);
        perform(n, &a);
        return;
    }
    does(n, LH_SIM_ACT_RESUME, who, 0);
    does(n, LH_SIM_ACT_START, who, 0);
    does(n, LH_SIM_ACT_REJOIN, who, 0);
    does(n, LH_SIM_ACT_UNSTALL, who, 0);
}

/* ---- When ---- */

static bool anything_pending(const struct lh_sim_nemesis *n)
{
    for (const struct lh_sim_program *p = lh_sim_program_next(n->cluster, NULL); p != NULL;
         p = lh_sim_program_next(n->cluster, p))
        if (lh_sim_program_status(p).pending > 0)
            return true;
    return false;
}

static enum lh_sim_mischief choose(struct lh_sim_nemesis *n)
{
    uint64_t sum = 0;

    for (int i = 0; i < LH_SIM_MISCHIEF_COUNT; i++)
        sum += n->temper.weights[i];
    uint64_t at = below(n, sum);
    int i = 0;
    while (at >= n->temper.weights[i])
        at -= n->temper.weights[i++];
    return (enum lh_sim_mischief)i;
}

static void tick(void *arg)
{
    struct lh_sim_nemesis *n = arg;

    if (n->resting)
        return;
    if (lh_sim_now(n->sim) >= n->quiet_until && (anything_pending(n) || chance(n, 25))) {
        if (chance(n, n->temper.mend_percent))
            mend(n);
        else
            misbehave(n, choose(n));
        if (chance(n, n->temper.quiet_percent))
            n->quiet_until = lh_sim_now(n->sim) + drawn(n, &n->temper.quiet).ns;
    }
    lh_sim_at(n->sim, drawn(n, &n->temper.pace), tick, n);
}

/* What a single process or link can suffer at a given moment. */
static void strike(void *arg)
{
    static const enum lh_sim_mischief sudden[] = {LH_SIM_MISCHIEF_CRASH, LH_SIM_MISCHIEF_RESTART,
        LH_SIM_MISCHIEF_POWER, LH_SIM_MISCHIEF_PAUSE, LH_SIM_MISCHIEF_ISOLATE,
        LH_SIM_MISCHIEF_BREAK, LH_SIM_MISCHIEF_STALL, LH_SIM_MISCHIEF_IO_ERROR};
    struct lh_sim_nemesis *n = arg;
    enum lh_sim_mischief what = sudden[below(n, sizeof sudden / sizeof sudden[0])];

    if (!n->resting && n->temper.weights[what] > 0) {
        size_t index = index_of(n, n->prey);
        if (index == 0)
            hit_master(n);
        else if (index <= n->servers)
            misbehave(n, what);
    }
    n->prey = NULL;
}

/* The moments at which a promise is being made. */
static bool is_delicate(const struct lh_sim_sight *s)
{
    const struct lh_effect *e = s->effect;

    switch (e->kind) {
    case LH_FX_PERSIST:
        return true;
    case LH_FX_DISK:
        return e->op != LH_DISK_WRITE && e->op != LH_DISK_READ;
    case LH_FX_SEND:
        return s->method == LH_METHOD_SESSION || s->method == LH_METHOD_SETTLE ||
               (s->method == LH_METHOD_REPLICATE && s->payload->size == 0);
    default:
        return false;
    }
}

static void lie_in_wait(void *arg, const struct lh_sim_sight *s)
{
    struct lh_sim_nemesis *n = arg;

    if (n->resting || n->prey != NULL || lh_sim_now(n->sim) < n->quiet_until || !is_delicate(s) ||
        below(n, 1000) >= n->temper.ambush_permille)
        return;
    n->prey = s->node;
    lh_sim_at(n->sim, lh_nanoseconds(spread(n, 1000, 4000000)), strike, n);
}

/* One that the network's delays leave time to renew. */
static struct lh_duration shortest_term(const struct lh_sim_settings *settings)
{
    uint64_t shortest = settings->delay.max.ns * 12;

    if (shortest < LH_SESSION_TERM_MIN_NS)
        shortest = LH_SESSION_TERM_MIN_NS;
    return lh_nanoseconds(
        shortest < settings->session_term.ns ? shortest : settings->session_term.ns);
}

/* Most kinds do not happen in most runs: what is left meets more often (swarm testing, Groce and
 * others, 2012). */
void lh_sim_temper_draw(
    struct lh_sim_temper *t, const struct lh_sim_settings *settings, struct lh_prng *random)
{
    struct lh_sim_nemesis n = {.random = *random};
    uint64_t fastest = spread(&n, 1000000, 400000000);
    bool synced = true;

    *t = (struct lh_sim_temper){
        .pace = {lh_nanoseconds(fastest), lh_nanoseconds(fastest << (1 + below(&n, 6)))},
        .quiet = {settings->session_term, lh_nanoseconds(settings->session_term.ns * 3)},
        .quiet_percent = (uint32_t)below(&n, 12),
        .mend_percent = 5 + (uint32_t)below(&n, 40),
        .ambush_permille = chance(&n, 50) ? 0 : 1 + (uint32_t)below(&n, 30),
        .drift_ppm = (int32_t)settings->drift_ppm,
        .term = settings->session_term,
        .term_min = shortest_term(settings),
    };
    for (int i = 0; i < LH_SIM_MISCHIEF_COUNT; i++)
        if (chance(&n, 40))
            t->weights[i] = 1 + (uint32_t)below(&n, 10);
    t->weights[below(&n, LH_SIM_MISCHIEF_COUNT)] = 5;
    for (uint32_t i = 0; i < settings->file_count; i++)
        synced = synced && settings->files[i].synced;
    /* In a `buffered` file a second machine may take with it what a first one had lost (REC-2a);
     * with two members left one that is spoilt leaves the file without appends for good. */
    bool spoils = settings->replication >= 3 && chance(&n, 30);
    t->damage_servers = spoils ? 1 : 0;
    t->power_losses = synced ? UINT32_MAX : spoils ? 0 : 1;
    if (!spoils)
        t->weights[LH_SIM_MISCHIEF_IO_ERROR] = t->weights[LH_SIM_MISCHIEF_ROT] = 0;
    *random = n.random;
}

struct lh_sim_nemesis *lh_sim_nemesis_start(struct lh_sim_cluster *c, struct lh_sim_actor *actor,
    const struct lh_sim_temper *temper, uint64_t seed,
    void (*did)(void *arg, const struct lh_sim_action *action), void *arg)
{
    struct lh_sim_nemesis *n = lh_alloc(sizeof *n);
    bool any = false;

    *n = (struct lh_sim_nemesis){
        .cluster = c,
        .actor = actor,
        .sim = lh_sim_world(c),
        .temper = *temper,
        .random = {lh_mix64(seed)},
        .did = did,
        .arg = arg,
        .servers = lh_sim_servers(c),
        .clients = lh_sim_clients(c),
        .power_left = temper->power_losses,
    };
    for (int i = 0; i < LH_SIM_MISCHIEF_COUNT; i++)
        any = any || temper->weights[i] > 0;
    n->resting = !any || temper->pace.max.ns == 0;
    if (n->resting)
        return n;
    lh_sim_watch(n->sim, &(struct lh_sim_watcher){.arg = n, .does = lie_in_wait});
    lh_sim_at(n->sim, drawn(n, &temper->pace), tick, n);
    return n;
}

void lh_sim_nemesis_rest(struct lh_sim_nemesis *n)
{
    n->resting = true;
}

void lh_sim_nemesis_destroy(struct lh_sim_nemesis *n)
{
    while (n->follow_ups != NULL) {
        struct follow_up *next = n->follow_ups->next;
        free(n->follow_ups);
        n->follow_ups = next;
    }
    free(n);
}
