/* What is done for etcd beside the protocol: its history is compacted some time behind, since etcd
 * keeps every revision until somebody says otherwise, and its size and complaints are asked for:
 * while its file is near its quota nothing new is taken. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void compact(struct lh_reigns *r, int64_t revision)
{
    Etcdserverpb__CompactionRequest request = ETCDSERVERPB__COMPACTION_REQUEST__INIT;

    LH_MARK("compacts");
    request.revision = revision;
    lh_r_call_begin(r, LH_R_COMPACT, LH_METHOD_ETCD_COMPACT, &request.base);
}

/* The newest revision that is old enough; those before it are forgotten. 0: none is. */
static int64_t behind(struct lh_reigns *r)
{
    struct lh_r_upkeep *u = &r->upkeep;
    int64_t revision = 0;
    size_t old = 0;

    while (old < u->count &&
           lh_instant_reached(r->now, lh_instant_add(u->seen[old].at, r->config.compact_behind)))
        revision = u->seen[old++].revision;
    u->count -= old;
    memmove(u->seen, u->seen + old, u->count * sizeof *u->seen);
    return revision;
}

/* While it learns, too: what etcd says of itself comes before a first claim then. */
static bool asks_status(const struct lh_reigns *r)
{
    if (r->config.task == LH_REIGN_AFTER_DEATH)
        return false;
    return r->phase == LH_REIGN_ACTING || r->phase == LH_REIGN_STANDBY ||
           r->phase == LH_REIGN_LEARNING;
}

void lh_r_upkeep_step(struct lh_reigns *r)
{
    struct lh_r_upkeep *u = &r->upkeep;

    if (!asks_status(r))
        return;
    if (lh_instant_reached(r->now, u->status_at) && !lh_r_call_is_open(r, LH_R_STATUS)) {
        Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;
        uint32_t count = r->config.member_count;
        u->status_at = lh_instant_add(r->now, lh_nanoseconds(r->config.records_every.ns / count));
        u->asked = (u->asked + 1) % count; /* each has a file of its own */
        r->calls[LH_R_STATUS].tried = u->asked;
        lh_r_call_begin(r, LH_R_STATUS, LH_METHOD_ETCD_STATUS, &request.base);
    }
    if (r->phase != LH_REIGN_ACTING || !lh_instant_reached(r->now, u->compact_at))
        return;
    u->compact_at = lh_instant_add(r->now, r->config.compact_every);
    if (u->count < r->config.revisions_kept) {
        LH_GROW(u->seen, u->capacity, u->count + 1);
        u->seen[u->count++] = (struct lh_r_seen){r->now, r->copy.head_revision};
    }
    int64_t revision = behind(r);
    if (revision > 0 && !lh_r_call_is_open(r, LH_R_COMPACT))
        compact(r, revision);
}

struct lh_instant lh_r_upkeep_deadline(const struct lh_reigns *r)
{
    struct lh_instant at = LH_INSTANT_NEVER;

    if (!asks_status(r))
        return at;
    if (!lh_r_call_is_open(r, LH_R_STATUS))
        at = r->upkeep.status_at;
    return r->phase == LH_REIGN_ACTING ? lh_instant_min(at, r->upkeep.compact_at) : at;
}

/* ---- What the members say of themselves. */

static void member_says(struct lh_reigns *r, uint32_t member, uint64_t bytes, const char *trouble)
{
    struct lh_r_member *m = &r->upkeep.members[member];

    m->bytes = bytes;
    free(m->trouble);
    m->trouble = trouble == NULL ? NULL : lh_strdup(trouble);
}

/* HA-11: at the quota not even the head can be written, so nothing new is taken well before. */
static char *say_fills(const struct lh_reigns *r)
{
    char text[400];

    snprintf(text, sizeof text,
        "etcd's file has grown to %" PRIu64 " MiB, and its quota is %" PRIu64
        " MiB: no file is created or gets a new chunk before there is room: defragment etcd's "
        "members (etcdctl defrag), remove files, or raise etcd's --quota-backend-bytes and the "
        "masters' --etcd-quota",
        r->store_bytes >> 20, r->config.quota_bytes >> 20);
    return lh_strdup(text);
}

/* The largest file counts, and any complaint. */
static void sum_up(struct lh_reigns *r)
{
    const char *trouble = NULL;
    bool was = r->store_trouble != NULL;

    r->store_bytes = 0;
    for (uint32_t i = 0; i < r->config.member_count; i++) {
        const struct lh_r_member *m = &r->upkeep.members[i];
        if (m->bytes > r->store_bytes)
            r->store_bytes = m->bytes;
        if (trouble == NULL)
            trouble = m->trouble;
    }
    r->store_fills = r->store_bytes / r->config.full_percent >= r->config.quota_bytes / 100;
    free(r->store_trouble);
    r->store_trouble = r->store_fills ? say_fills(r) : trouble != NULL ? lh_strdup(trouble) : NULL;
    if (r->store_trouble != NULL && !was)
        lh_fx_log(r->fx, LH_ERROR, "etcd complains: %.400s", r->store_trouble);
    lh_r_status_know(r);
}

void lh_r_status_know(struct lh_reigns *r)
{
    if (r->phase == LH_REIGN_ACTING)
        lh_master_store_fills(r->master, r->store_fills ? r->store_trouble : NULL);
}

void lh_r_status_reply(
    struct lh_reigns *r, uint32_t member, const Etcdserverpb__StatusResponse *reply)
{
    if (reply->version[0] != 0 && strncmp(reply->version, "3.", 2) != 0) {
        lh_fx_log(r->fx, LH_ERROR,
            "etcd at %s says that it is version %.40s: this release speaks with etcd 3 only",
            r->config.members[member], reply->version);
        lh_r_stop_with(r, LH_ERR_WRONG_FORMAT);
        return;
    }
    member_says(r, member, reply->db_size > 0 ? (uint64_t)reply->db_size : 0,
        reply->n_errors > 0  ? reply->errors[0]
        : reply->leader == 0 ? "the members have no leader"
                             : NULL);
    sum_up(r);
}

void lh_r_status_failed(struct lh_reigns *r, uint32_t member)
{
    member_says(r, member, 0, NULL);
    sum_up(r);
}

void lh_r_upkeep_clear(struct lh_reigns *r)
{
    for (uint32_t i = 0; i < r->config.member_count; i++)
        free(r->upkeep.members[i].trouble);
    free(r->upkeep.seen);
}
