/* Deeds: what a nemesis does, and to whom. */
#include "sim/run/mischief.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <stdlib.h>
#include <string.h>

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

/* Descriptors have run out, at a server more often than elsewhere. */
static void deafen(struct lh_sim_nemesis *n)
{
    does(n, LH_SIM_ACT_DEAFEN, some_node(n), hold(n));
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

/* Descriptors or memory run out: for everything, or for what comes just now. */
static void starve(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_STARVE : LH_SIM_ACT_FAIL_DISK);

    a.who = some_server(n);
    if (a.kind == LH_SIM_ACT_STARVE) {
        a.hold.ns = hold(n);
        if (chance(n, 12))
            a.who = master();
    } else {
        a.op = (enum lh_disk_op)below(n, LH_DISK_OPS);
        a.count = 1 + (uint32_t)below(n, 10);
        a.error = LH_ERR_SHORTAGE;
    }
    perform(n, &a);
}

static void stall(struct lh_sim_nemesis *n)
{
    if (chance(n, 25)) {
        starve(n);
        return;
    }
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

/* The atlas: replicas are spoilt at so many machines and no more: two at once may be all. */
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

/* Where some batch begins in a chunk's file, or where the last one does; 0: it has none. */
static uint64_t some_batch(
    struct lh_sim_nemesis *n, const uint8_t *file, uint64_t size, bool is_last)
{
    uint64_t chosen = 0, count = 0;
    uint32_t bytes;

    for (uint64_t at = LH_LOG_START; at + LH_BATCH_FRAME_BYTES <= size; at += bytes) {
        memcpy(&bytes, file + at + 8, sizeof bytes);
        if (bytes < LH_BATCH_FRAME_BYTES)
            break;
        if (is_last || below(n, ++count) == 0)
            chosen = at;
    }
    return chosen;
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
    bool last = a.kind == LH_SIM_ACT_ROT && chance(n, 25);
    uint64_t batch = whole || last ? some_batch(n, file, size, last) : 0;
    a.number = whole && batch > 0 ? batch : batch + below(n, size - batch);
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

/* The disk of a machine is lost, with or without the machine. */
static void lose_disk(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who;

    if (!may_damage(n, &who))
        return;
    if (n->temper.scraps && !n->scrapped && chance(n, 30))
        n->scrapped = does(n, LH_SIM_ACT_SCRAP, who, 0);
    else
        does(n, LH_SIM_ACT_LOSE_DISK, who, a_while(n).ns);
}

/* Long enough for clients to lose patience, and often longer than its lease. */
static void hang(struct lh_sim_nemesis *n)
{
    const char *path = some_path(n);

    if (path == NULL)
        return;
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);
    a.who.kind = LH_SIM_WHO_PRIMARY;
    (void)snprintf(a.who.text, sizeof a.who.text, "%s", path);
    a.hold = lh_nanoseconds(spread(n, 500000000, n->temper.term.ns * 3 + 1000000000));
    a.in_step = chance(n, 30);
    perform(n, &a);
}

/* Those that the master empties, and those of which it may still hear that it should. */
static uint32_t count_draining(struct lh_sim_nemesis *n)
{
    uint32_t count = 0;

    for (size_t i = 1; i <= n->servers; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (lh_sim_is_draining(n->cluster, i))
            n->draining |= bit;
        else if ((n->undrained & bit) != 0)
            n->draining &= ~bit;
        count += (n->draining & bit) != 0;
    }
    return count;
}

static void drain(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_DRAIN);
    uint32_t draining = count_draining(n);

    a.client = 1 + (uint32_t)below(n, n->clients);
    a.who = server(1 + below(n, n->servers));
    if (lh_sim_now(n->sim) < n->drain_after)
        return;
    if (draining >= n->temper.drains) {
        if (draining == 0)
            return;
        while ((n->draining & UINT64_C(1) << a.who.number) == 0)
            a.who = server(1 + below(n, n->servers));
        a.kind = LH_SIM_ACT_UNDRAIN;
    } else if (chance(n, 25)) {
        a.kind = LH_SIM_ACT_DECOMMISSION;
    }
    uint64_t bit = UINT64_C(1) << a.who.number;
    if (!perform(n, &a))
        return;
    n->drain_after = lh_sim_now(n->sim) + UINT64_C(11000000000);
    n->draining |= bit;
    n->undrained = a.kind == LH_SIM_ACT_UNDRAIN ? n->undrained | bit : n->undrained & ~bit;
}

static void use_trash(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_REMOVE);
    const char *path = some_path(n);

    a.client = 1 + (uint32_t)below(n, n->clients);
    if (n->removed[0] != '\0' && chance(n, 70)) {
        a.kind = LH_SIM_ACT_RESTORE;
        memcpy(a.path, n->removed, sizeof a.path);
        n->removed[0] = '\0';
    } else if (path != NULL) {
        (void)snprintf(a.path, sizeof a.path, "%s", path);
        a.now = chance(n, 10);
        memcpy(n->removed, a.path, sizeof n->removed);
    } else {
        return;
    }
    perform(n, &a);
}

/* The master stands still for about as long as a holder's term: its answers come when the holder
 * has just given up, or is about to. */
static void doze(struct lh_sim_nemesis *n)
{
    uint64_t term = n->temper.term.ns;

    does(n, LH_SIM_ACT_PAUSE, master(), term / 2 + below(n, term));
}

/* As a stranger may; ours do not. */
static void half_close(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_HALF_CLOSE);

    a.method = chance(n, 60)   ? LH_METHOD_APPEND
               : chance(n, 60) ? LH_METHOD_REPLICATE
                               : LH_METHOD_SESSION;
    a.who = a.method == LH_METHOD_APPEND ? client(1 + below(n, n->clients)) : some_server(n);
    perform(n, &a);
}

/* A client and a primary that lives, one way, for long. */
static void cut_client(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = client(1 + below(n, n->clients)), primary = some_server(n);
    uint64_t length = n->temper.term.ns * 2 + a_while(n).ns;

    if (chance(n, 50))
        between(n, LH_SIM_ACT_CUT, who, primary, length);
    else
        between(n, LH_SIM_ACT_CUT, primary, who, length);
}

void lh_sim_misbehave(struct lh_sim_nemesis *n, enum lh_sim_mischief what)
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
    case LH_SIM_MISCHIEF_LOSE_DISK:
        lose_disk(n);
        break;
    case LH_SIM_MISCHIEF_HANG:
        hang(n);
        break;
    case LH_SIM_MISCHIEF_DRAIN:
        drain(n);
        break;
    case LH_SIM_MISCHIEF_TRASH:
        use_trash(n);
        break;
    case LH_SIM_MISCHIEF_DEAFEN:
        deafen(n);
        break;
    case LH_SIM_MISCHIEF_DOZE:
        doze(n);
        break;
    case LH_SIM_MISCHIEF_ONE_CLIENT:
        cut_client(n);
        break;
    case LH_SIM_MISCHIEF_HALF_CLOSE:
        half_close(n);
        break;
    case LH_SIM_MISCHIEF_COUNT:
        LH_UNREACHABLE();
    }
}

void lh_sim_strike(struct lh_sim_nemesis *n, enum lh_sim_mischief what)
{
    size_t index = index_of(n, n->prey);

    if (index == 0)
        hit_master(n);
    else if (index <= n->servers)
        lh_sim_misbehave(n, what);
}

void lh_sim_mend_some(struct lh_sim_nemesis *n)
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
