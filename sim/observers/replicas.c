/* What the servers' disks hold of each chunk, as far as it is looked at again and again. */
#include "sim/observers/internal.h"
#include "sim/world/disk.h"

#include <string.h>

struct replica *lh_ob_replica(struct chunk *c, uint32_t server)
{
    return &c->replicas[server];
}

const struct lh_sim_header *lh_ob_kernel(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    struct replica *r = &c->replicas[server];
    uint64_t size = 0;

    if (!r->kernel_known) {
        const uint8_t *bytes = lh_sim_file(o->servers[server]->node, c->id, &size);
        r->kernel = lh_sim_header_read(bytes, size);
        r->kernel_known = true;
    }
    return &r->kernel;
}

const struct lh_sim_header *lh_ob_platter(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    struct replica *r = &c->replicas[server];
    uint64_t size = 0;

    if (!r->platter_known) {
        const uint8_t *bytes = lh_sim_platter(o->servers[server]->node, c->id, &size);
        r->platter = lh_sim_header_read(bytes, size);
        r->platter_known = true;
    }
    return &r->platter;
}

const uint8_t *lh_ob_log(struct lh_sim_observers *o, const struct chunk *c, uint32_t server,
    bool platter, uint64_t *size)
{
    const struct lh_sim_node *node = o->servers[server]->node;
    const uint8_t *bytes =
        platter ? lh_sim_platter(node, c->id, size) : lh_sim_file(node, c->id, size);

    if (bytes == NULL)
        return NULL;
    uint64_t front = *size < LH_SIM_LOG_START ? *size : LH_SIM_LOG_START;
    *size -= front;
    return bytes + front;
}

bool lh_ob_unverified(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
    const struct actor *a = o->servers[server];
    uint8_t boot[sizeof h->equal_boot] = {0};
    uint64_t number = lh_sim_memory(a->node);

    if (h->sealed || h->version == 0)
        return false;
    if (h->synced) /* found in doubt by a later process (FAIL-5) */
        return h->truncated && memcmp(h->equal_boot, boot, sizeof boot) == 0;
    if (c->replicas[server].in_doubt)
        return true;
    memcpy(boot, &number, sizeof number);
    return a->dark || memcmp(h->equal_boot, boot, sizeof boot) != 0;
}

bool lh_ob_lost(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct replica *r = &c->replicas[server];

    return r->damaged || r->lost || lh_ob_kernel(o, c, server)->lost;
}

bool lh_ob_touched(const struct chunk *c)
{
    for (size_t i = 0; i < c->member_count; i++)
        if (c->replicas[c->members[i].server].damaged)
            return true;
    return false;
}

bool lh_ob_full_member(const struct chunk *c, uint32_t server)
{
    for (size_t i = 0; i < c->member_count; i++)
        if (c->members[i].server == server)
            return !c->members[i].joining;
    return false;
}

bool lh_ob_good(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct replica *r = &c->replicas[server];

    if (!c->known || c->removed || c->hopeless || r->damaged || r->lost ||
        !lh_ob_full_member(c, server))
        return false;
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);
    return h->valid && !h->lost && !h->copying && !lh_ob_unverified(o, c, server) &&
           lh_ob_roll_covers(o, c, server);
}

void lh_ob_reconsider(struct lh_sim_observers *o, struct chunk *c)
{
    for (size_t i = 0; i < c->member_count; i++)
        if (lh_ob_good(o, c, c->members[i].server))
            return;
    c->hopeless = c->hopeless || lh_ob_touched(c);
}

bool lh_ob_on_platter(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);

    return h->synced || h->sealed;
}

static void damage(struct lh_sim_observers *o, struct chunk *c, struct replica *r)
{
    r->damaged = true;
    r->damaged_at = lh_sim_now(o->sim);
    lh_ob_reconsider(o, c);
}

static void header_changed(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    struct replica *r = &c->replicas[server];
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);

    if (h->sealed && !r->seal_seen && !r->damaged) {
        r->seal_seen = true;
        c->seal_recorders |= UINT64_C(1) << (server % 64);
        lh_ob_inv4_seal_recorded(o, c, server);
    }
    lh_ob_inv4_header_written(o, c, server);
    lh_ob_commit_check(o, c, server, 0, c->committed, "its header was written");
}

/* The new file is durable: what was known of the old one is over. A copy adds up to the seal
 * (REC-9); what was rewritten (FAIL-5) lacks what the old one's disk had lost. */
static void replaced(struct lh_sim_observers *o, const struct actor *a, struct chunk *c)
{
    struct replica *r = &c->replicas[a->number];

    r->kernel_known = false;
    r->lost = r->in_doubt = r->sync_failed = r->refused = false;
    /* A header that rot had put back is carried over. */
    bool put_back = r->header_damaged && lh_ob_kernel(o, c, a->number)->version < r->floor;
    r->header_damaged = r->anew_damaged || put_back;
    r->damaged = r->header_damaged || (r->damaged && !lh_ob_kernel(o, c, a->number)->sealed);
    r->damaged_at = lh_sim_now(o->sim);
    r->anew_damaged = false;
    r->astray = r->truncated = r->header_written = false;
    r->platter_known = false;
    r->logged_at = lh_sim_now(o->sim);
    header_changed(o, c, a->number);
    lh_ob_inv3_header(o, c, a->number);
}

void lh_ob_replicas_disk(struct lh_sim_observers *o, struct actor *a, uint64_t file,
    enum lh_disk_op op, uint64_t offset, uint64_t length, int error)
{
    if (a->part != PART_SERVER || file == LH_PROBE_FILE || op == LH_DISK_READ ||
        op == LH_DISK_RESERVE)
        return;
    struct chunk *c = lh_ob_chunk(o, file & ~LH_NEW_FILE);
    struct replica *r = &c->replicas[a->number];
    /* While a process dies its world has ended already; else nobody asked for this. */
    bool by_itself = error == LH_ERR_CLOSED && a->alive == lh_sim_is_up(a->node);

    if ((file & LH_NEW_FILE) != 0 && op != LH_DISK_REPLACE) { /* nobody counts on it yet */
        r->anew_damaged = by_itself || (r->anew_damaged && op != LH_DISK_CREATE);
        return;
    }
    if (by_itself) {
        r->misled = op == LH_DISK_SYNC && (r->misled || !r->damaged);
        damage(o, c, r);
        r->header_damaged = r->header_damaged || offset < LH_SIM_LOG_START;
    }
    if (error == LH_ERR_SHORTAGE && op != LH_DISK_WRITE)
        return; /* nothing was done */
    switch (op) {
    case LH_DISK_CREATE:
    case LH_DISK_REMOVE: /* both by an order to copy it, maybe */
        if (error == LH_OK || error == LH_ERR_CLOSED)
            *r = (struct replica){.released = r->released,
                .fenced_heard = r->fenced_heard,
                .copy_ordered_at = r->copy_ordered_at};
        break;
    case LH_DISK_REPLACE:
        if (error == LH_OK || error == LH_ERR_CLOSED)
            replaced(o, a, c);
        break;
    case LH_DISK_WRITE:
        if (offset >= LH_SIM_LOG_START)
            r->logged_at = lh_sim_now(o->sim);
        if (offset < LH_SIM_LOG_START) {
            r->kernel_known = false;
            r->header_written = true;
            if (by_itself)
                r->platter_known = false;
            header_changed(o, c, a->number);
        } else if (offset - LH_SIM_LOG_START < c->committed) {
            lh_ob_commit_check(o, c, a->number, offset - LH_SIM_LOG_START,
                offset - LH_SIM_LOG_START + length, "it was written to");
        }
        break;
    case LH_DISK_TRUNCATE:
        /* What a seal or a copy cuts off is told to nobody before it is synced; what lies before it
         * may be. */
        r->truncated =
            error == LH_OK && r->seal_notified == 0 && r->copy_ordered_at < a->started_at;
        r->truncated_at = lh_sim_now(o->sim);
        if (length < LH_SIM_LOG_START + c->committed)
            lh_ob_commit_check(o, c, a->number, 0, c->committed, "it was cut");
        break;
    case LH_DISK_SYNC:
        r->truncated = false;
        if (error != LH_OK && error != LH_ERR_CLOSED) { /* FAIL-5 */
            r->in_doubt = true;
            r->astray = r->astray || a->alive != lh_sim_is_up(a->node);
            lh_ob_reconsider(o, c);
        }
        if (r->header_written) {
            r->header_written = false;
            r->platter_known = false;
            lh_ob_inv3_header(o, c, a->number);
        }
        break;
    case LH_DISK_RESERVE:
    case LH_DISK_OPS:
    case LH_DISK_READ:
        break;
    }
}

/* FAIL-5: what a sync has lied about, and what was never synced, its server has asked about. */
static void after_mount(struct lh_sim_observers *o, struct actor *a)
{
    struct chunk *c, *next;

    HASH_ITER(hh, o->chunks, c, next) {
        struct replica *r = &c->replicas[a->number];
        r->kernel_known = r->platter_known = r->header_written = r->astray = false;
        r->damaged = r->damaged && (!r->misled || r->in_doubt || r->seal_seen);
        if (!c->removed && !r->in_doubt)
            lh_ob_commit_check(o, c, a->number, 0, c->committed, "its disk was mounted again");
    }
}

static void after_power_loss(struct lh_sim_observers *o, struct actor *a)
{
    struct chunk *c, *next;

    HASH_ITER(hh, o->chunks, c, next) {
        struct replica *r = &c->replicas[a->number];
        r->kernel_known = r->platter_known = r->header_written = false;
        r->seal_seen = r->astray = r->in_doubt = false;
        if (c->removed)
            continue;
        lh_ob_inv3_header(o, c, a->number);
        if (!c->known || !lh_ob_full_member(c, a->number))
            continue;
        lh_ob_reconsider(o, c);
        r->seal_seen = lh_ob_kernel(o, c, a->number)->sealed;
        lh_ob_commit_check(o, c, a->number, 0, c->committed, "its machine lost power");
    }
}

static void after_start(struct lh_sim_observers *o, const struct actor *a)
{
    struct chunk *c, *next;

    HASH_ITER(hh, o->chunks, c, next) {
        struct replica *r = &c->replicas[a->number];
        r->said = r->released = r->seal_notified = r->listed_at = 0;
        r->sync_failed = r->refused = r->truncated = r->ordered = false;
        r->kernel_known = r->kernel_known && !r->in_doubt; /* what the disk has is read */
        /* A mark whose sync has failed may be in memory alone. */
        const struct lh_sim_header *found =
            r->in_doubt ? lh_ob_platter(o, c, a->number) : lh_ob_kernel(o, c, a->number);
        r->lost = found->lost;
    }
}

void lh_ob_replicas_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    if (a->part != PART_SERVER)
        return;
    if (what == LH_SIM_LIFE_POWER_LOST)
        after_power_loss(o, a);
    else if (what == LH_SIM_LIFE_MOUNTED)
        after_mount(o, a);
    else if (what == LH_SIM_LIFE_STARTED)
        after_start(o, a);
}
