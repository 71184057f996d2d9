#include "sim/smallscope/cores.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "lease/term.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/cluster.h"
#include "sim/world/network.h"
#include "sim/world/watch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS     2u
#define PATH        "/log"
#define SESSION_MS  600u
#define LEASE_MS    900u
#define STEP_MS     300u
#define DELAY_US    200u
#define NOTICE_MS   50u
#define DRIFT_PPM   LH_DRIFT_PPM_MAX
#define PATIENCE_MS 10000u

/* In the order in which what is done at one moment is done. */
enum move_kind {
    MOVE_RATE, /* the argument: the node, 0 is the master */
    MOVE_RECALL,
    MOVE_LATE,    /* the argument: the chunkserver, from 1; with TO_MASTER: the other direction */
    MOVE_BREAK,   /* the argument: the chunkserver */
    MOVE_RESTART, /* the argument: the node */
    MOVE_TIME,
};

#define TO_MASTER 0x80u

struct lh_cores {
    struct lh_sim_cluster *cluster; /* NULL: nothing has begun */
    struct lh_sim *sim;
    uint64_t chunk; /* 0 until it is there */
    uint64_t version_acted;
    lh_move last; /* made at this moment; a step of time: none yet */
    uint64_t way; /* all moves made, in a number */
    char failure[512];
    FILE *words;
};

static struct lh_sim_node *node_of(struct lh_cores *c, unsigned number)
{
    return number == 0 ? lh_sim_master(c->cluster) : lh_sim_server(c->cluster, number);
}

static const char *name_of(unsigned number)
{
    static const char *const names[SERVERS + 1] = {"the master", "cs1", "cs2"};

    return names[number];
}

/* ---- What is checked. */

static bool acts(const struct lh_cores *c, const struct lh_sim_node *node, uint64_t *version)
{
    const struct lh_chunkserver *cs = lh_sim_core(node);

    return cs != NULL && lh_chunkserver_may_act(cs, c->chunk, lh_sim_clock(node), version);
}

static void stepped(void *arg, struct lh_sim_node *node)
{
    struct lh_cores *c = arg;
    unsigned acting = 0;
    uint64_t version;

    (void)node;
    if (c->chunk == 0)
        return;
    for (unsigned i = 1; i <= SERVERS; i++) {
        if (!acts(c, node_of(c, i), &version))
            continue;
        acting++;
        if (version < c->version_acted)
            lh_sim_fail(c->sim, "INV-3", c->chunk,
                "%s acts at version %" PRIu64 ", %" PRIu64 " was acted at before", name_of(i),
                version, c->version_acted);
        c->version_acted = version;
    }
    if (acting > 1)
        lh_sim_fail(c->sim, "INV-1", c->chunk, "both chunkservers may act as primary");
}

static void does(void *arg, const struct lh_sim_sight *sight)
{
    struct lh_cores *c = arg;
    uint64_t version;

    if (c->chunk == 0 || sight->method != LH_METHOD_SESSION || sight->message == NULL ||
        sight->direction != LH_REPLY)
        return;
    const Leasehold__SessionReply *reply = (const Leasehold__SessionReply *)sight->message;
    if (reply->body_case != LEASEHOLD__SESSION_REPLY__BODY_GRANT)
        return;
    for (unsigned i = 1; i <= SERVERS; i++) {
        const struct lh_sim_node *other = node_of(c, i);
        if (other != sight->peer && acts(c, other, &version))
            lh_sim_fail(c->sim, "INV-2", c->chunk,
                "version %" PRIu64 " is granted while %s may act at %" PRIu64,
                reply->grant->version, name_of(i), version);
    }
}

/* ---- The first state. */

static struct lh_sim_range exactly_us(uint64_t us)
{
    struct lh_duration d = lh_nanoseconds(us * 1000);

    return (struct lh_sim_range){d, d};
}

static void build(struct lh_cores *c)
{
    struct lh_sim_cluster_config config = lh_sim_cluster_config_default(1);

    config.world.delay = exactly_us(DELAY_US);
    config.world.notice = exactly_us(NOTICE_MS * 1000);
    config.world.write = config.world.sync = config.world.read = exactly_us(DELAY_US);
    config.world.commit = exactly_us(DELAY_US);
    config.world.timer_late = (struct lh_duration){0};
    config.world.check_every = UINT32_MAX;
    config.servers = SERVERS;
    config.clients = 1;
    config.master.session_term = lh_milliseconds(SESSION_MS);
    config.master.chunk_term = lh_milliseconds(LEASE_MS);
    config.master.drift_ppm = DRIFT_PPM;
    config.master.replication = SERVERS;
    config.master.min_replicas = 1;
    c->cluster = lh_sim_cluster_create(&config);
    c->sim = lh_sim_world(c->cluster);
    lh_sim_watch(c->sim, &(struct lh_sim_watcher){.arg = c, .stepped = stepped, .does = does});
}

/* Somebody wants a primary, and says that he cannot reach the one there is (INV-9: a hint). */
static void ask_for_primary(struct lh_cores *c)
{
    struct lh_sim_chunk tail;
    Leasehold__OpenTailRequest *request = lh_alloc(sizeof *request + sizeof PATH);

    leasehold__open_tail_request__init(request);
    request->path = (char *)(request + 1);
    memcpy(request->path, PATH, sizeof PATH);
    request->wait_ms = STEP_MS;
    if (lh_sim_tail(c->cluster, PATH, &tail)) {
        request->failed_chunk = tail.chunk;
        request->failed_version = tail.version;
    }
    lh_sim_ask_aside(c->cluster, 1, LH_METHOD_OPEN_TAIL, &request->base, lh_milliseconds(STEP_MS));
}

static bool has_primary(void *arg)
{
    struct lh_cores *c = arg;

    return lh_sim_open_primary(c->cluster, PATH) != NULL;
}

static void begin(void *self, FILE *words)
{
    struct lh_cores *c = self;
    const struct lh_duration patience = lh_milliseconds(PATIENCE_MS);
    struct lh_sim_chunk tail;

    if (c->cluster != NULL)
        lh_sim_cluster_destroy(c->cluster);
    *c = (struct lh_cores){.words = words, .last = MOVE_TIME << 8};
    build(c);
    bool is_up = lh_sim_cluster_start(c->cluster, patience);
    LH_ASSERT(is_up);
    int error = lh_sim_create_file(c->cluster, PATH, NULL);
    LH_ASSERT(error == LH_OK);
    lh_sim_set_rate(lh_sim_master(c->cluster), (int32_t)DRIFT_PPM);
    for (unsigned i = 1; i <= SERVERS; i++)
        lh_sim_set_rate(lh_sim_server(c->cluster, i), -(int32_t)DRIFT_PPM);
    ask_for_primary(c);
    bool has = lh_sim_run_until(c->sim, has_primary, c, patience);
    LH_ASSERT(has && lh_sim_tail(c->cluster, PATH, &tail));
    c->chunk = tail.chunk;
    if (words != NULL)
        fprintf(words,
            "A term is %u ms for a session, %u ms for a lease; clocks are up to %u %% off. %s is "
            "primary at version %" PRIu64 ".\n",
            SESSION_MS, LEASE_MS, DRIFT_PPM / 10000,
            lh_sim_name(lh_sim_primary(c->cluster, c->chunk)), tail.version);
}

/* ---- Moves. */

static lh_move move_of(enum move_kind kind, unsigned argument)
{
    return (lh_move)((unsigned)kind << 8 | argument);
}

/* What is done at one moment is done in the order of the moves' numbers. */
static void offer(const struct lh_cores *c, lh_move *list, size_t *count, lh_move move)
{
    if (c->last >> 8 == MOVE_TIME || move > c->last)
        list[(*count)++] = move;
}

static size_t moves(void *self, lh_move *list)
{
    const struct lh_cores *c = self;
    size_t n = 0;

    for (unsigned i = 0; i <= SERVERS; i++) {
        offer(c, list, &n, move_of(MOVE_RATE, i));
        offer(c, list, &n, move_of(MOVE_RESTART, i));
        if (i == 0)
            continue;
        offer(c, list, &n, move_of(MOVE_LATE, i));
        offer(c, list, &n, move_of(MOVE_LATE, i | TO_MASTER));
        offer(c, list, &n, move_of(MOVE_BREAK, i));
    }
    offer(c, list, &n, move_of(MOVE_RECALL, 0));
    list[n++] = move_of(MOVE_TIME, 0);
    return n;
}

static void say(const struct lh_cores *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct lh_cores *c, const char *format, ...)
{
    va_list args;

    if (c->words == NULL)
        return;
    va_start(args, format);
    vfprintf(c->words, format, args);
    va_end(args);
}

static void change_rate(struct lh_cores *c, unsigned i)
{
    struct lh_sim_node *node = node_of(c, i);
    int32_t rate = -lh_sim_rate(node);

    lh_sim_set_rate(node, rate);
    say(c, "from now on the clock of %s goes %s\n", name_of(i), rate > 0 ? "fast" : "slow");
}

static void recall(struct lh_cores *c)
{
    Leasehold__RecallRequest *request = lh_alloc(sizeof *request);

    leasehold__recall_request__init(request);
    request->chunk = c->chunk;
    lh_sim_ask_aside(c->cluster, 1, LH_METHOD_RECALL, &request->base, lh_milliseconds(STEP_MS));
    say(c, "an operator recalls the lease\n");
}

static void change_late(struct lh_cores *c, unsigned argument)
{
    unsigned i = argument & ~TO_MASTER;
    unsigned from = (argument & TO_MASTER) != 0 ? i : 0;
    unsigned to = i - from;
    struct lh_sim_node *a = node_of(c, from), *b = node_of(c, to);

    if (lh_sim_is_clogged(a, b)) {
        lh_sim_unclog(a, b);
        say(c, "what stood still from %s to %s goes on\n", name_of(from), name_of(to));
    } else {
        lh_sim_clog(a, b);
        say(c, "what goes from %s to %s stands still\n", name_of(from), name_of(to));
    }
}

static void restart(struct lh_cores *c, unsigned i)
{
    lh_sim_crash(node_of(c, i));
    lh_sim_start(node_of(c, i));
    say(c, "%s crashes and starts again\n", name_of(i));
}

static void make(void *self, lh_move move)
{
    struct lh_cores *c = self;
    unsigned argument = move & 0xff;
    uint64_t version;

    switch ((enum move_kind)(move >> 8)) {
    case MOVE_RATE:
        change_rate(c, argument);
        break;
    case MOVE_RECALL:
        recall(c);
        break;
    case MOVE_LATE:
        change_late(c, argument);
        break;
    case MOVE_BREAK:
        lh_sim_break(lh_sim_master(c->cluster), node_of(c, argument));
        say(c, "the connection of %s with the master breaks\n", name_of(argument));
        break;
    case MOVE_RESTART:
        restart(c, argument);
        break;
    case MOVE_TIME:
        ask_for_primary(c);
        lh_sim_run_for(c->sim, lh_milliseconds(STEP_MS));
        say(c, "%u ms pass\n", STEP_MS);
        for (unsigned i = 1; i <= SERVERS; i++)
            if (acts(c, node_of(c, i), &version))
                say(c, "     %s may act at version %" PRIu64 "\n", name_of(i), version);
        break;
    }
    c->last = move;
    c->way = lh_mix64(c->way + move + 1);
    if (lh_sim_failure(c->sim) != NULL)
        say(c, "     %s\n", lh_sim_failure(c->sim));
}

/* What waits in the cores and in the world cannot be looked at as a whole, so no two ways are known
 * to lead to the same state. */
static struct lh_fingerprint fingerprint(void *self)
{
    const struct lh_cores *c = self;

    return (struct lh_fingerprint){c->way, c->way};
}

static const char *violation(void *self)
{
    struct lh_cores *c = self;
    const char *failure = lh_sim_failure(c->sim);

    if (failure == NULL)
        return NULL;
    (void)snprintf(c->failure, sizeof c->failure, "%s", failure);
    return c->failure;
}

struct lh_cores *lh_cores_create(void)
{
    return lh_alloc(sizeof(struct lh_cores));
}

void lh_cores_destroy(struct lh_cores *c)
{
    if (c == NULL)
        return;
    if (c->cluster != NULL)
        lh_sim_cluster_destroy(c->cluster);
    free(c);
}

struct lh_space lh_cores_space(struct lh_cores *c)
{
    return (struct lh_space){
        .self = c,
        .begin = begin,
        .moves = moves,
        .make = make,
        .fingerprint = fingerprint,
        .violation = violation,
    };
}
