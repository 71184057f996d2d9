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
        u->status_at = lh_instant_add(r->now, r->config.records_every);
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

/* HA-11: at the quota not even the head can be written, so nothing new is taken well before. */
static bool fills(const struct lh_reigns *r)
{
    return r->store_bytes / r->config.full_percent >= r->config.quota_bytes / 100;
}

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

void lh_r_status_know(struct lh_reigns *r)
{
    if (r->phase == LH_REIGN_ACTING)
        lh_master_store_fills(r->master, r->store_fills ? r->store_trouble : NULL);
}

void lh_r_status_reply(struct lh_reigns *r, const Etcdserverpb__StatusResponse *reply)
{
    bool was = r->store_trouble != NULL;

    if (reply->version[0] != 0 && strncmp(reply->version, "3.", 2) != 0) {
        lh_fx_log(r->fx, LH_ERROR,
            "etcd says that it is version %.40s: this release speaks with etcd 3 only",
            reply->version);
        lh_r_stop_with(r, LH_ERR_WRONG_FORMAT);
        return;
    }
    r->store_bytes = reply->db_size > 0 ? (uint64_t)reply->db_size : 0;
    r->store_fills = fills(r);
    free(r->store_trouble);
    r->store_trouble = NULL;
    if (r->store_fills)
        r->store_trouble = say_fills(r);
    else if (reply->n_errors > 0)
        r->store_trouble = lh_strdup(reply->errors[0]);
    else if (reply->leader == 0)
        r->store_trouble = lh_strdup("the members have no leader");
    if (r->store_trouble != NULL && !was)
        lh_fx_log(r->fx, LH_ERROR, "etcd complains: %.400s", r->store_trouble);
    lh_r_status_know(r);
}
