#include "sim/scenario/actor.h"

#include "base/alloc.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/healing.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"

#include <stdlib.h>
#include <string.h>

/* What an action began and a later one may end. */
enum state {
    STATE_DOWN,
    STATE_PAUSE,
    STATE_CUT,
    STATE_ISOLATION,
    STATE_SLOW,
    STATE_BANDWIDTH,
    STATE_CLOG,
    STATE_DEAF,
    STATE_HIDDEN,
    STATE_MISLEADING,
    STATE_BLIND,
    STATE_STALL,
    STATE_STARVE,
    STATE_REFUSE,
    STATE_SHUT,
    STATE_SLOW_DISK,
    STATE_CAPACITY,
    /* Of the etcd that masters share: of no node, or of a member. */
    STATE_ETCD_QUORUM,
    STATE_ETCD_AFTER,
    STATE_ETCD_BEFORE,
    STATE_ETCD_LATE,
    STATE_ETCD_LAG,
    STATE_ETCD_DELAY,
    STATE_ETCD_LOSE,
    STATE_ETCD_FULL,
    STATE_ETCD_NEARLY_FULL,
    STATE_ETCD_ELECTS,
    STATE_ETCD_FLIP,
    STATE_ASTRAY
};

/* One such state of a node or a pair of nodes, and how often something was said about it: an end
 * that comes after something else was said is none. */
struct said {
    struct said *next;
    enum state state;
    struct lh_sim_node *node, *peer;
    uint64_t count;
};

/* To be ended at its time. */
struct ending {
    struct ending *next;
    struct lh_sim_actor *actor;
    struct said *said;
    uint64_t count;
};

struct name {
    struct name *next;
    char text[LH_SIM_PROGRAM_NAME_MAX + 1];
    struct lh_sim_node *node;
};

struct lh_sim_actor {
    struct lh_sim_cluster *cluster;
    struct said *said;
    struct ending *endings;
    struct name *names;
};

struct lh_sim_actor *lh_sim_actor_create(struct lh_sim_cluster *c)
{
    struct lh_sim_actor *actor = lh_alloc(sizeof *actor);

    actor->cluster = c;
    return actor;
}

void lh_sim_actor_destroy(struct lh_sim_actor *actor)
{
    while (actor->said != NULL) {
        struct said *next = actor->said->next;
        free(actor->said);
        actor->said = next;
    }
    while (actor->endings != NULL) {
        struct ending *next = actor->endings->next;
        free(actor->endings);
        actor->endings = next;
    }
    while (actor->names != NULL) {
        struct name *next = actor->names->next;
        free(actor->names);
        actor->names = next;
    }
    free(actor);
}

/* ---- Who and where ---- */

static struct name *find_name(struct lh_sim_actor *actor, const char *text)
{
    struct name *n = actor->names;

    while (n != NULL && strcmp(n->text, text) != 0)
        n = n->next;
    return n;
}

/* Who may act on the file's tail now, or else whom the store names; NULL: nobody. */
static struct lh_sim_node *holder_of(struct lh_sim_cluster *c, const struct lh_sim_chunk *tail)
{
    struct lh_sim_node *node = lh_sim_primary(c, tail->chunk);

    if (node == NULL && tail->holder[0] != '\0')
        node = lh_sim_find(lh_sim_world(c), tail->holder);
    return node;
}

static struct lh_sim_node *primary_of(struct lh_sim_cluster *c, const char *path)
{
    struct lh_sim_chunk tail;

    return lh_sim_tail(c, path, &tail) ? holder_of(c, &tail) : NULL;
}

static struct lh_sim_node *secondary_of(struct lh_sim_cluster *c, const char *path, uint32_t number)
{
    struct lh_sim_chunk tail;

    if (!lh_sim_tail(c, path, &tail))
        return NULL;
    const struct lh_sim_node *primary = holder_of(c, &tail);
    for (size_t i = 0; i < tail.member_count; i++) {
        struct lh_sim_node *node = lh_sim_find(lh_sim_world(c), tail.members[i].server);
        if (node != NULL && node != primary && --number == 0)
            return node;
    }
    return NULL;
}

/* NULL: none acts now. */
static struct lh_sim_node *active_master(struct lh_sim_cluster *c)
{
    struct lh_sim_node *node = lh_sim_master(c);

    return lh_sim_acting_core(c, node) != NULL ? node : NULL;
}

static struct lh_sim_node *standby(struct lh_sim_cluster *c, uint32_t number)
{
    const struct lh_sim_node *active = active_master(c);

    for (size_t i = 1; i <= lh_sim_masters(c); i++) {
        struct lh_sim_node *node = lh_sim_master_at(c, i);
        if (node != active && lh_sim_is_up(node) && --number == 0)
            return node;
    }
    return NULL;
}

static size_t etcd_members(const struct lh_sim_cluster *c)
{
    const struct lh_sim_etcd *etcd = lh_sim_shared_etcd(c);

    return etcd == NULL ? 0 : lh_sim_etcd_members(etcd);
}

struct nodes {
    struct lh_sim_node **to;
    size_t count, max;
};

static void add_node(struct nodes *n, struct lh_sim_node *node)
{
    if (node != NULL && n->count < n->max)
        n->to[n->count++] = node;
}

static void add_masters(struct nodes *n, struct lh_sim_cluster *c)
{
    if (lh_sim_shared_etcd(c) == NULL)
        add_node(n, lh_sim_master(c));
    for (size_t i = 1; lh_sim_shared_etcd(c) != NULL && i <= lh_sim_masters(c); i++)
        add_node(n, lh_sim_master_at(c, i));
}

static void add_etcd(struct nodes *n, struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < etcd_members(c); i++)
        add_node(n, lh_sim_etcd_member(lh_sim_shared_etcd(c), i));
}

size_t lh_sim_actor_resolve(struct lh_sim_actor *actor, const struct lh_sim_who *who,
    struct lh_sim_node **nodes, size_t max)
{
    struct lh_sim_cluster *c = actor->cluster;
    size_t servers = lh_sim_servers(c), clients = lh_sim_clients(c);
    struct nodes n = {.to = nodes, .max = max};

    switch (who->kind) {
    case LH_SIM_WHO_NOBODY:
        break;
    case LH_SIM_WHO_SERVER:
        if (who->number >= 1 && who->number <= servers)
            add_node(&n, lh_sim_server(c, who->number));
        break;
    case LH_SIM_WHO_CLIENT:
        if (who->number >= 1 && who->number <= clients)
            add_node(&n, lh_sim_client(c, who->number));
        break;
    case LH_SIM_WHO_PRIMARY:
        add_node(&n, primary_of(c, who->text));
        break;
    case LH_SIM_WHO_SECONDARY:
        add_node(&n, secondary_of(c, who->text, who->number));
        break;
    case LH_SIM_WHO_NAMED: {
        const struct name *name = find_name(actor, who->text);
        add_node(&n, name == NULL ? NULL : name->node);
        break;
    }
    case LH_SIM_WHO_MASTER:
        if (who->number <= lh_sim_masters(c))
            add_node(&n, who->number == 0 ? lh_sim_master(c) : lh_sim_master_at(c, who->number));
        break;
    case LH_SIM_WHO_ACTIVE:
        add_node(&n, active_master(c));
        break;
    case LH_SIM_WHO_STANDBY:
        add_node(&n, standby(c, who->number));
        break;
    case LH_SIM_WHO_ETCD:
        if (who->number >= 1 && who->number <= etcd_members(c))
            add_node(&n, lh_sim_etcd_member(lh_sim_shared_etcd(c), who->number - 1));
        break;
    case LH_SIM_WHO_MASTERS:
        add_masters(&n, c);
        break;
    case LH_SIM_WHO_ETCDS:
        add_etcd(&n, c);
        break;
    case LH_SIM_WHO_EVERYBODY:
        add_masters(&n, c);
        add_etcd(&n, c);
        __attribute__((fallthrough));
    case LH_SIM_WHO_SERVERS:
        for (size_t i = 1; i <= servers; i++)
            add_node(&n, lh_sim_server(c, i));
        if (who->kind == LH_SIM_WHO_SERVERS)
            break;
        __attribute__((fallthrough));
    case LH_SIM_WHO_CLIENTS:
        for (size_t i = 1; i <= clients; i++)
            add_node(&n, lh_sim_client(c, i));
        break;
    }
    return n.count;
}

bool lh_sim_actor_chunk(
    struct lh_sim_actor *actor, const struct lh_sim_where *where, struct lh_sim_chunk *chunk)
{
    struct lh_sim_cluster *c = actor->cluster;

    if (where->path[0] == '\0')
        return lh_sim_chunk(c, where->number, chunk);
    if (where->number == 0)
        return lh_sim_tail(c, where->path, chunk);
    return lh_sim_chunk_at(c, where->path, where->number - 1, chunk);
}

/* ---- What lasts ---- */

static struct said *find_said(struct lh_sim_actor *actor, enum state state,
    struct lh_sim_node *node, struct lh_sim_node *peer)
{
    struct said *s = actor->said;

    while (s != NULL && (s->state != state || s->node != node || s->peer != peer))
        s = s->next;
    if (s != NULL)
        return s;
    s = lh_alloc(sizeof *s);
    *s = (struct said){.next = actor->said, .state = state, .node = node, .peer = peer};
    actor->said = s;
    return s;
}

static size_t member_index(const struct lh_sim_etcd *etcd, const struct lh_sim_node *node)
{
    size_t i = 0;

    while (i < lh_sim_etcd_members(etcd) && lh_sim_etcd_member(etcd, i) != node)
        i++;
    return i;
}

/* What an operator does about a file system that has shut itself down. */
static void mount_again(struct lh_sim_node *node)
{
    bool up = lh_sim_is_up(node);

    lh_sim_disk_mount(node);
    if (up)
        lh_sim_start(node);
}

static void end_state(struct lh_sim_cluster *c, const struct said *s)
{
    struct lh_sim_etcd *etcd = lh_sim_shared_etcd(c);

    switch (s->state) {
    case STATE_DOWN:
        lh_sim_start(s->node);
        break;
    case STATE_PAUSE:
        lh_sim_resume(s->node);
        break;
    case STATE_CUT:
        lh_sim_heal(s->node, s->peer);
        break;
    case STATE_ISOLATION:
        lh_sim_rejoin(s->node, s->peer);
        break;
    case STATE_SLOW:
        lh_sim_slow(s->node, s->peer, lh_nanoseconds(0));
        break;
    case STATE_BANDWIDTH:
        lh_sim_set_bandwidth(s->node, s->peer, 0);
        break;
    case STATE_CLOG:
        lh_sim_unclog(s->node, s->peer);
        break;
    case STATE_DEAF:
        lh_sim_deafen(s->node, false);
        break;
    case STATE_HIDDEN:
        lh_sim_hide(s->node, false);
        break;
    case STATE_MISLEADING:
        lh_sim_mislead(s->node, NULL);
        break;
    case STATE_BLIND:
        lh_sim_set_notices(s->node, s->peer, true);
        break;
    case STATE_STALL:
        lh_sim_disk_stall(s->node, false);
        break;
    case STATE_STARVE:
        lh_sim_disk_starve(s->node, false);
        break;
    case STATE_REFUSE:
        lh_sim_disk_refuse(s->node, LH_OK);
        break;
    case STATE_SHUT:
        mount_again(s->node);
        break;
    case STATE_SLOW_DISK:
        lh_sim_disk_slow(s->node, lh_nanoseconds(0));
        break;
    case STATE_CAPACITY:
        lh_sim_disk_capacity(s->node, UINT64_MAX);
        break;
    case STATE_ASTRAY:
        if (lh_sim_mend_prefix(c, s->node)) /* or the faults ended before */
            lh_sim_start(s->node);
        break;
    case STATE_ETCD_QUORUM:
        lh_sim_etcd_lose_quorum(etcd, false);
        break;
    case STATE_ETCD_AFTER:
        lh_sim_etcd_fail_after(etcd, 0);
        break;
    case STATE_ETCD_BEFORE:
        lh_sim_etcd_fail_before(etcd, 0);
        break;
    case STATE_ETCD_LATE:
        lh_sim_etcd_apply_late(etcd, 0, lh_nanoseconds(0));
        break;
    case STATE_ETCD_LAG:
        lh_sim_etcd_lag(etcd, member_index(etcd, s->node), lh_nanoseconds(0));
        break;
    case STATE_ETCD_FLIP:
        lh_sim_etcd_flip(etcd, member_index(etcd, s->node), false);
        break;
    case STATE_ETCD_DELAY:
        lh_sim_etcd_lag_watches(etcd, lh_nanoseconds(0));
        break;
    case STATE_ETCD_LOSE:
        lh_sim_etcd_lose_events(etcd, 0);
        break;
    case STATE_ETCD_FULL:
        lh_sim_etcd_no_space(etcd, false);
        break;
    case STATE_ETCD_NEARLY_FULL:
        lh_sim_etcd_nearly_full(etcd, false);
        break;
    case STATE_ETCD_ELECTS:
        lh_sim_etcd_elect(etcd, false, 0);
        break;
    }
}

static void end_now(void *arg)
{
    struct ending *e = arg;

    for (struct ending **p = &e->actor->endings; *p != NULL; p = &(*p)->next) {
        if (*p != e)
            continue;
        *p = e->next;
        break;
    }
    if (e->count == e->said->count)
        end_state(e->actor->cluster, e->said);
    free(e);
}

/* Something is said about this state: what was said before no longer ends it. It ends by itself
 * after `hold`, or with 0 when somebody says so. */
static void say(struct lh_sim_actor *actor, enum state state, struct lh_sim_node *node,
    struct lh_sim_node *peer, struct lh_duration hold)
{
    struct said *s = find_said(actor, state, node, peer);

    s->count++;
    if (hold.ns == 0 || hold.ns == UINT64_MAX)
        return;
    struct ending *e = lh_alloc(sizeof *e);
    *e = (struct ending){.next = actor->endings, .actor = actor, .said = s, .count = s->count};
    actor->endings = e;
    lh_sim_at(lh_sim_world(actor->cluster), hold, end_now, e);
}

/* ---- The etcd that masters share ---- */

static bool act_on_etcd(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    struct lh_sim_etcd *etcd = lh_sim_shared_etcd(actor->cluster);

    switch (a->kind) {
    case LH_SIM_ACT_ETCD_QUORUM:
        say(actor, STATE_ETCD_QUORUM, NULL, NULL, a->hold);
        lh_sim_etcd_lose_quorum(etcd, true);
        return true;
    case LH_SIM_ACT_ETCD_AGREES:
        say(actor, STATE_ETCD_QUORUM, NULL, NULL, lh_nanoseconds(0));
        lh_sim_etcd_lose_quorum(etcd, false);
        return true;
    case LH_SIM_ACT_ETCD_ELECTS:
        say(actor, STATE_ETCD_ELECTS, NULL, NULL, a->hold);
        lh_sim_etcd_elect(etcd, true, a->count);
        return true;
    case LH_SIM_ACT_ETCD_AFTER:
        say(actor, STATE_ETCD_AFTER, NULL, NULL, a->hold);
        lh_sim_etcd_fail_after(etcd, a->count);
        return true;
    case LH_SIM_ACT_ETCD_BEFORE:
        say(actor, STATE_ETCD_BEFORE, NULL, NULL, a->hold);
        lh_sim_etcd_fail_before(etcd, a->count);
        return true;
    case LH_SIM_ACT_ETCD_LATE:
        say(actor, STATE_ETCD_LATE, NULL, NULL, a->hold);
        lh_sim_etcd_apply_late(etcd, a->count, a->delay);
        return true;
    case LH_SIM_ACT_ETCD_BREAK:
        lh_sim_etcd_break_watches(etcd);
        return true;
    case LH_SIM_ACT_ETCD_DELAY:
        say(actor, STATE_ETCD_DELAY, NULL, NULL, a->hold);
        lh_sim_etcd_lag_watches(etcd, a->delay);
        return true;
    case LH_SIM_ACT_ETCD_LOSE:
        say(actor, STATE_ETCD_LOSE, NULL, NULL, a->hold);
        lh_sim_etcd_lose_events(etcd, a->count);
        return true;
    case LH_SIM_ACT_ETCD_CANCEL:
        lh_sim_etcd_cancel_watches(etcd);
        return true;
    case LH_SIM_ACT_ETCD_COMPACT:
        lh_sim_etcd_compact(etcd, a->number > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)a->number);
        return true;
    case LH_SIM_ACT_ETCD_NEARLY_FULL:
        say(actor, STATE_ETCD_NEARLY_FULL, NULL, NULL, a->hold);
        lh_sim_etcd_nearly_full(etcd, true);
        return true;
    case LH_SIM_ACT_ETCD_FULL:
        say(actor, STATE_ETCD_FULL, NULL, NULL, a->hold);
        lh_sim_etcd_no_space(etcd, true);
        return true;
    case LH_SIM_ACT_ETCD_KEEP:
        lh_sim_etcd_snapshot(etcd);
        return true;
    case LH_SIM_ACT_ETCD_DELETE:
    case LH_SIM_ACT_ETCD_CHANGE:
        return lh_sim_etcd_meddle(etcd, a->kind == LH_SIM_ACT_ETCD_CHANGE);
    case LH_SIM_ACT_ETCD_PUT_BACK:
        lh_sim_etcd_put_back(etcd);
        return true;
    default:
        return lh_sim_etcd_restore(etcd);
    }
}

/* What befalls one member's copy of the store. */
static bool act_on_copy(
    struct lh_sim_actor *actor, const struct lh_sim_action *a, struct lh_sim_node *node)
{
    struct lh_sim_etcd *etcd = lh_sim_shared_etcd(actor->cluster);
    size_t index = etcd == NULL ? 0 : member_index(etcd, node);

    if (index >= etcd_members(actor->cluster))
        return false;
    if (a->kind == LH_SIM_ACT_ETCD_LAG) {
        say(actor, STATE_ETCD_LAG, node, NULL, a->hold);
        lh_sim_etcd_lag(etcd, index, a->delay);
    } else {
        say(actor, STATE_ETCD_FLIP, node, NULL, a->hold);
        lh_sim_etcd_flip(etcd, index, true);
    }
    return true;
}

/* ---- One node ---- */

/* `silently`: nobody says that the store is an older one (`--restored`). */
static bool restore_store(struct lh_sim_actor *actor, struct lh_sim_node *node, bool silently)
{
    if (lh_sim_shared_etcd(actor->cluster) != NULL)
        return false; /* masters have none of their own */
    lh_sim_crash(node);
    bool done = lh_sim_store_restore(node);
    if (done && node == lh_sim_master(actor->cluster) && !silently)
        lh_sim_master_restored(actor->cluster);
    lh_sim_start(node);
    return done;
}

static bool act_on_process(
    struct lh_sim_actor *actor, const struct lh_sim_action *a, struct lh_sim_node *node)
{
    bool up = lh_sim_is_up(node), paused = lh_sim_is_paused(node);

    switch (a->kind) {
    case LH_SIM_ACT_START:
        if (up || lh_sim_is_scrapped(node))
            return false;
        say(actor, STATE_DOWN, node, NULL, lh_nanoseconds(0));
        lh_sim_start(node);
        return true;
    case LH_SIM_ACT_CRASH:
    case LH_SIM_ACT_RESTART:
        if (!up)
            return false;
        say(actor, STATE_DOWN, node, NULL, a->hold);
        lh_sim_crash(node);
        if (a->kind == LH_SIM_ACT_RESTART)
            lh_sim_start(node);
        return true;
    case LH_SIM_ACT_POWER_LOSS:
        say(actor, STATE_DOWN, node, NULL, a->hold);
        lh_sim_power_loss(node);
        return true;
    case LH_SIM_ACT_PAUSE:
        if (!up || paused)
            return false;
        say(actor, STATE_PAUSE, node, NULL, a->hold);
        if (a->in_step)
            lh_sim_pause_in_step(node);
        else
            lh_sim_pause(node);
        return true;
    case LH_SIM_ACT_RESUME:
        say(actor, STATE_PAUSE, node, NULL, lh_nanoseconds(0));
        lh_sim_resume(node);
        return paused;
    case LH_SIM_ACT_KEEP_INCARNATION:
        lh_sim_keep_incarnation(node, a->hold);
        return true;
    case LH_SIM_ACT_ASTRAY:
        say(actor, STATE_ASTRAY, node, NULL, a->hold);
        if (up)
            lh_sim_crash(node);
        lh_sim_set_prefix(
            actor->cluster, node, a->now ? LH_SIM_PREFIX_NONE : LH_SIM_PREFIX_ANOTHER);
        lh_sim_start(node);
        return true;
    case LH_SIM_ACT_LOSE_DISK:
        if (lh_sim_is_scrapped(node))
            return false;
        say(actor, STATE_DOWN, node, NULL, a->hold);
        lh_sim_power_loss(node);
        lh_sim_wipe(node);
        return true;
    case LH_SIM_ACT_SCRAP:
        if (lh_sim_is_scrapped(node))
            return false;
        lh_sim_scrap(node);
        return true;
    case LH_SIM_ACT_BACK_UP:
        lh_sim_store_copy(node);
        return true;
    case LH_SIM_ACT_RESTORE_STORE:
        return restore_store(actor, node, a->now);
    case LH_SIM_ACT_STOP:
        if (!up || paused) /* a process that stands still hears of nothing */
            return false;
        say(actor, STATE_DOWN, node, NULL, a->hold);
        lh_sim_stop(node);
        return true;
    default:
        return false;
    }
}

/* A chunk's file at the node has that byte. */
static bool has_byte(struct lh_sim_actor *actor, const struct lh_sim_action *a,
    const struct lh_sim_node *node, uint64_t *file)
{
    struct lh_sim_chunk chunk;
    uint64_t size;

    if (!lh_sim_actor_chunk(actor, &a->chunk, &chunk))
        return false;
    *file = chunk.chunk;
    return lh_sim_file(node, chunk.chunk, &size) != NULL && a->number < size;
}

static bool act_on_disk(
    struct lh_sim_actor *actor, const struct lh_sim_action *a, struct lh_sim_node *node)
{
    uint64_t used = lh_sim_disk_used(node), file;

    switch (a->kind) {
    case LH_SIM_ACT_STALL:
        say(actor, STATE_STALL, node, NULL, a->hold);
        lh_sim_disk_stall(node, true);
        return true;
    case LH_SIM_ACT_UNSTALL:
        say(actor, STATE_STALL, node, NULL, lh_nanoseconds(0));
        lh_sim_disk_stall(node, false);
        return true;
    case LH_SIM_ACT_STARVE:
        say(actor, STATE_STARVE, node, NULL, a->hold);
        lh_sim_disk_starve(node, true);
        return true;
    case LH_SIM_ACT_REFUSE:
        say(actor, STATE_REFUSE, node, NULL, a->hold);
        lh_sim_disk_refuse(node, a->error);
        return true;
    case LH_SIM_ACT_SHUT_DOWN:
        say(actor, STATE_SHUT, node, NULL, a->hold);
        lh_sim_disk_shut_down(node);
        return true;
    case LH_SIM_ACT_SLOW_DISK:
        say(actor, STATE_SLOW_DISK, node, NULL, a->hold);
        lh_sim_disk_slow(node, a->delay);
        return true;
    case LH_SIM_ACT_CAPACITY:
        say(actor, STATE_CAPACITY, node, NULL, a->hold);
        lh_sim_disk_capacity(node, a->number);
        return true;
    case LH_SIM_ACT_ROOM:
        say(actor, STATE_CAPACITY, node, NULL, a->hold);
        lh_sim_disk_capacity(node, a->number > UINT64_MAX - used ? UINT64_MAX : used + a->number);
        return true;
    case LH_SIM_ACT_FAIL_DISK:
        lh_sim_disk_fail(node, a->op, a->error, a->count);
        return true;
    case LH_SIM_ACT_ROT:
        if (!has_byte(actor, a, node, &file))
            return false;
        lh_sim_file_rot(node, file, a->number, (uint8_t)a->mask);
        return true;
    case LH_SIM_ACT_MISDIRECT:
        if (!has_byte(actor, a, node, &file))
            return false;
        lh_sim_disk_misdirect(node, file, a->number);
        return true;
    case LH_SIM_ACT_FAIL_STORE:
        lh_sim_store_fail(node, a->error);
        return true;
    default:
        return false;
    }
}

static bool act_on_node(
    struct lh_sim_actor *actor, const struct lh_sim_action *a, struct lh_sim_node *node)
{
    switch (a->kind) {
    case LH_SIM_ACT_CLOCK:
        lh_sim_set_rate(node, a->ppm);
        return true;
    case LH_SIM_ACT_WALL:
        lh_sim_set_wall(node, a->number);
        return true;
    case LH_SIM_ACT_TIMERS:
        lh_sim_set_timer_late(node, a->delay);
        return true;
    case LH_SIM_ACT_ETCD_LAG:
    case LH_SIM_ACT_ETCD_FLIP:
        return act_on_copy(actor, a, node);
    case LH_SIM_ACT_DEAFEN:
        say(actor, STATE_DEAF, node, NULL, a->hold);
        lh_sim_deafen(node, true);
        return true;
    case LH_SIM_ACT_HIDE:
        say(actor, STATE_HIDDEN, node, NULL, a->hold);
        lh_sim_hide(node, true);
        return true;
    case LH_SIM_ACT_HALF_CLOSE:
        lh_sim_half_close(node, a->method);
        return true;
    case LH_SIM_ACT_ISOLATE:
        say(actor, STATE_ISOLATION, node, NULL, a->hold);
        lh_sim_isolate(node, NULL);
        return true;
    case LH_SIM_ACT_REJOIN:
        say(actor, STATE_ISOLATION, node, NULL, lh_nanoseconds(0));
        lh_sim_rejoin(node, NULL);
        return true;
    default:
        return act_on_process(actor, a, node) || act_on_disk(actor, a, node);
    }
}

/* ---- Two nodes ---- */

static bool act_on_pair(struct lh_sim_actor *actor, const struct lh_sim_action *a,
    struct lh_sim_node *node, struct lh_sim_node *peer)
{
    const struct lh_duration now_on = lh_nanoseconds(0);

    switch (a->kind) {
    case LH_SIM_ACT_CUT:
        say(actor, STATE_CUT, node, peer, a->hold);
        lh_sim_cut(node, peer);
        break;
    case LH_SIM_ACT_HEAL:
        say(actor, STATE_CUT, node, peer, now_on);
        lh_sim_heal(node, peer);
        break;
    case LH_SIM_ACT_ISOLATE:
        say(actor, STATE_ISOLATION, node, peer, a->hold);
        lh_sim_isolate(node, peer);
        break;
    case LH_SIM_ACT_REJOIN:
        say(actor, STATE_ISOLATION, node, peer, now_on);
        lh_sim_rejoin(node, peer);
        break;
    case LH_SIM_ACT_BREAK:
        lh_sim_break(node, peer);
        break;
    case LH_SIM_ACT_BREAK_AT:
        lh_sim_break_at(node, peer);
        break;
    case LH_SIM_ACT_SLOW:
        say(actor, STATE_SLOW, node, peer, a->hold);
        lh_sim_slow(node, peer, a->delay);
        break;
    case LH_SIM_ACT_BANDWIDTH:
        say(actor, STATE_BANDWIDTH, node, peer, a->hold);
        lh_sim_set_bandwidth(node, peer, a->number == UINT64_MAX ? 0 : a->number);
        break;
    case LH_SIM_ACT_CLOG:
        say(actor, STATE_CLOG, node, peer, a->hold);
        lh_sim_clog(node, peer);
        break;
    case LH_SIM_ACT_UNCLOG:
        say(actor, STATE_CLOG, node, peer, now_on);
        lh_sim_unclog(node, peer);
        break;
    case LH_SIM_ACT_MISLEAD:
        say(actor, STATE_MISLEADING, node, NULL, a->hold);
        lh_sim_mislead(node, peer);
        break;
    case LH_SIM_ACT_BLIND:
        say(actor, STATE_BLIND, node, peer, a->hold);
        lh_sim_set_notices(node, peer, false);
        break;
    default:
        return false;
    }
    return true;
}

/* ---- Requests ---- */

/* The request and its paths in one piece of memory: it outlives this moment. */
struct asking {
    union {
        ProtobufCMessage base;
        Leasehold__RecallRequest recall;
        Leasehold__CreateRequest create;
        Leasehold__RenameRequest rename;
        Leasehold__RemoveRequest remove;
        Leasehold__RestoreRequest restore;
        Leasehold__SetServerRequest set_server;
        Leasehold__GarbageRequest garbage;
        Leasehold__ListRequest list;
    } u;
    char path[LH_SIM_PATH_MAX + 1], to[LH_SIM_PATH_MAX + 1];
};

#define PATIENCE lh_seconds(10)

static bool ask(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    enum lh_method method = LH_METHOD_NONE;

    if (!lh_sim_is_up(lh_sim_client(actor->cluster, a->client)))
        return false;
    struct asking *q = lh_alloc(sizeof *q);
    memcpy(q->path, a->path, sizeof q->path);
    memcpy(q->to, a->to, sizeof q->to);
    switch (a->kind) {
    case LH_SIM_ACT_RECALL:
    case LH_SIM_ACT_RELEASE:
        leasehold__recall_request__init(&q->u.recall);
        q->u.recall.path = q->path;
        q->u.recall.only_release = a->kind == LH_SIM_ACT_RELEASE;
        q->u.recall.wait_ms = lh_duration_ms(PATIENCE);
        method = LH_METHOD_RECALL;
        break;
    case LH_SIM_ACT_CREATE:
        leasehold__create_request__init(&q->u.create);
        q->u.create.path = q->path;
        q->u.create.durability =
            a->synced ? LEASEHOLD__DURABILITY__SYNCED : LEASEHOLD__DURABILITY__BUFFERED;
        q->u.create.replication = a->replication;
        q->u.create.min_replicas = a->min_replicas;
        q->u.create.chunk_size = a->chunk_size;
        q->u.create.on_primary_loss = (Leasehold__OnPrimaryLoss)a->on_loss;
        method = LH_METHOD_CREATE;
        break;
    case LH_SIM_ACT_RENAME:
        leasehold__rename_request__init(&q->u.rename);
        q->u.rename.from = q->path;
        q->u.rename.to = q->to;
        method = LH_METHOD_RENAME;
        break;
    case LH_SIM_ACT_REMOVE:
        leasehold__remove_request__init(&q->u.remove);
        q->u.remove.path = q->path;
        q->u.remove.now = a->now;
        method = LH_METHOD_REMOVE;
        break;
    case LH_SIM_ACT_RESTORE:
        leasehold__restore_request__init(&q->u.restore);
        q->u.restore.path = q->path;
        q->u.restore.to = q->to;
        method = LH_METHOD_RESTORE;
        break;
    case LH_SIM_ACT_RESUME_DELETING:
        leasehold__garbage_request__init(&q->u.garbage);
        q->u.garbage.resume = true;
        method = LH_METHOD_GARBAGE;
        break;
    default:
        leasehold__list_request__init(&q->u.list);
        q->u.list.prefix = q->path;
        method = LH_METHOD_LIST;
        break;
    }
    lh_sim_ask_aside(actor->cluster, a->client, method, &q->u.base, PATIENCE);
    return true;
}

static Leasehold__ServerAdmin wanted(enum lh_sim_action_kind kind)
{
    return kind == LH_SIM_ACT_DRAIN     ? LEASEHOLD__SERVER_ADMIN__DRAINING
           : kind == LH_SIM_ACT_UNDRAIN ? LEASEHOLD__SERVER_ADMIN__ACTIVE
                                        : LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
}

static bool set_server(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    struct lh_sim_node *nodes[LH_SIM_NODES_MAX];
    size_t count = lh_sim_actor_resolve(actor, &a->who, nodes, LH_SIM_NODES_MAX);

    if (!lh_sim_is_up(lh_sim_client(actor->cluster, a->client)))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct asking *q = lh_alloc(sizeof *q);
        (void)snprintf(q->path, sizeof q->path, "%s", lh_sim_name(nodes[i]));
        leasehold__set_server_request__init(&q->u.set_server);
        q->u.set_server.server_id = q->path;
        q->u.set_server.admin = wanted(a->kind);
        lh_sim_ask_aside(
            actor->cluster, a->client, LH_METHOD_SET_SERVER, &q->u.set_server.base, PATIENCE);
    }
    return count > 0;
}

/* ---- The rest ---- */

static bool set_terms(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    struct lh_master_config *config = lh_sim_master_config(actor->cluster);

    switch (a->kind) {
    case LH_SIM_ACT_SESSION_TERM:
        config->session_term = a->hold;
        config->chunk_term = lh_duration_max(config->chunk_term, a->hold);
        return true;
    case LH_SIM_ACT_CHUNK_TERM:
        config->chunk_term = a->hold;
        config->session_term = lh_duration_min(config->session_term, a->hold);
        return true;
    default:
        config->drift_ppm = a->count;
        return true;
    }
}

static bool begin_program(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    if (lh_sim_program_find(actor->cluster, a->program.name) != NULL)
        return false;
    (void)lh_sim_program_start(actor->cluster, &a->program);
    return true;
}

static bool end_program(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    const struct lh_sim_program *p = lh_sim_program_find(actor->cluster, a->program.name);

    if (p == NULL || lh_sim_program_status(p).ended)
        return false;
    lh_sim_program_end((struct lh_sim_program *)(uintptr_t)p);
    return true;
}

static bool give_name(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    struct name *name = find_name(actor, a->name);
    struct lh_sim_node *node;

    if (lh_sim_actor_resolve(actor, &a->who, &node, 1) == 0)
        return false;
    if (name == NULL) {
        name = lh_alloc(sizeof *name);
        memcpy(name->text, a->name, sizeof name->text);
        name->next = actor->names;
        actor->names = name;
    }
    name->node = node;
    return true;
}

static bool mend(struct lh_sim_actor *actor)
{
    for (struct said *s = actor->said; s != NULL; s = s->next)
        s->count++;
    lh_sim_mend(actor->cluster);
    return true;
}

bool lh_sim_act(struct lh_sim_actor *actor, const struct lh_sim_action *a)
{
    struct lh_sim_cluster *c = actor->cluster;
    struct lh_sim_node *nodes[LH_SIM_NODES_MAX], *peers[LH_SIM_NODES_MAX];
    char text[LH_SIM_ACTION_TEXT];
    bool done = false;

    const struct lh_sim_crew crew = {
        lh_sim_masters(c), etcd_members(c), lh_sim_servers(c), lh_sim_clients(c)};
    if (!lh_sim_action_check(a, &crew, text, sizeof text))
        return false;
    switch (a->kind) {
    case LH_SIM_ACT_ETCD_QUORUM:
    case LH_SIM_ACT_ETCD_AGREES:
    case LH_SIM_ACT_ETCD_ELECTS:
    case LH_SIM_ACT_ETCD_AFTER:
    case LH_SIM_ACT_ETCD_BEFORE:
    case LH_SIM_ACT_ETCD_LATE:
    case LH_SIM_ACT_ETCD_BREAK:
    case LH_SIM_ACT_ETCD_DELAY:
    case LH_SIM_ACT_ETCD_LOSE:
    case LH_SIM_ACT_ETCD_CANCEL:
    case LH_SIM_ACT_ETCD_COMPACT:
    case LH_SIM_ACT_ETCD_FULL:
    case LH_SIM_ACT_ETCD_NEARLY_FULL:
    case LH_SIM_ACT_ETCD_DELETE:
    case LH_SIM_ACT_ETCD_CHANGE:
    case LH_SIM_ACT_ETCD_PUT_BACK:
    case LH_SIM_ACT_ETCD_KEEP:
    case LH_SIM_ACT_ETCD_RESTORE:
        return act_on_etcd(actor, a);
    case LH_SIM_ACT_RECALL:
    case LH_SIM_ACT_RELEASE:
    case LH_SIM_ACT_CREATE:
    case LH_SIM_ACT_RENAME:
    case LH_SIM_ACT_REMOVE:
    case LH_SIM_ACT_RESTORE:
    case LH_SIM_ACT_LIST:
    case LH_SIM_ACT_RESUME_DELETING:
        return ask(actor, a);
    case LH_SIM_ACT_DRAIN:
    case LH_SIM_ACT_UNDRAIN:
    case LH_SIM_ACT_DECOMMISSION:
        return set_server(actor, a);
    case LH_SIM_ACT_SESSION_TERM:
    case LH_SIM_ACT_CHUNK_TERM:
    case LH_SIM_ACT_DRIFT:
        return set_terms(actor, a);
    case LH_SIM_ACT_TAKE_RIGHTS:
    case LH_SIM_ACT_GIVE_RIGHTS:
        return lh_sim_set_rights(c, a->number, a->kind == LH_SIM_ACT_GIVE_RIGHTS);
    case LH_SIM_ACT_WRITER:
    case LH_SIM_ACT_READER:
    case LH_SIM_ACT_FILES:
    case LH_SIM_ACT_LOCKER:
    case LH_SIM_ACT_CACHER:
    case LH_SIM_ACT_CHANGER:
    case LH_SIM_ACT_WATCHER:
    case LH_SIM_ACT_OPERATOR:
        return begin_program(actor, a);
    case LH_SIM_ACT_END:
        return end_program(actor, a);
    case LH_SIM_ACT_LET:
        return give_name(actor, a);
    case LH_SIM_ACT_MEND:
        return mend(actor);
    default:
        break;
    }
    /* All are found before anything happens to the first: it may change who the others are. */
    size_t count = lh_sim_actor_resolve(actor, &a->who, nodes, LH_SIM_NODES_MAX);
    size_t peer_count = lh_sim_actor_resolve(actor, &a->peer, peers, LH_SIM_NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        if (a->peer.kind == LH_SIM_WHO_NOBODY)
            done = act_on_node(actor, a, nodes[i]) || done;
        for (size_t k = 0; k < peer_count; k++)
            if (nodes[i] != peers[k])
                done = act_on_pair(actor, a, nodes[i], peers[k]) || done;
    }
    return done;
}
