/* What can be wrong with etcd, beside what can be wrong with its members' machines. */
#include "sim/etcd/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void look_now(struct lh_sim_etcd *e)
{
    lh_etcd_wake(e, lh_sim_now(e->sim));
}

void lh_sim_etcd_lose_quorum(struct lh_sim_etcd *e, bool lost)
{
    if (e->quorum_lost == lost)
        return;
    lh_sim_note(e->sim, lost ? "etcd has no quorum" : "etcd has a quorum again");
    e->quorum_lost = lost;
    look_now(e);
}

void lh_sim_etcd_elect(struct lh_sim_etcd *e, bool electing, uint32_t lost_per_million)
{
    if (e->electing == electing)
        return;
    lh_sim_note(e->sim, electing ? "etcd elects a leader" : "etcd has a leader again");
    e->electing = electing;
    e->lost_in_election = lost_per_million;
    look_now(e);
}

static void set_rate(struct lh_sim_etcd *e, uint32_t *rate, uint32_t per_million, const char *what)
{
    if (*rate == per_million)
        return;
    lh_sim_note(e->sim, "etcd: %" PRIu32 " of a million %s", per_million, what);
    *rate = per_million;
}

void lh_sim_etcd_fail_after(struct lh_sim_etcd *e, uint32_t per_million)
{
    set_rate(e, &e->fail_after, per_million, "requests fail when they have taken effect");
}

void lh_sim_etcd_fail_before(struct lh_sim_etcd *e, uint32_t per_million)
{
    set_rate(e, &e->fail_before, per_million, "requests fail before they take effect");
}

void lh_sim_etcd_apply_late(struct lh_sim_etcd *e, uint32_t per_million, struct lh_duration most)
{
    set_rate(e, &e->late, per_million, "proposals take effect late");
    e->late_most = most;
}

void lh_sim_etcd_lag(struct lh_sim_etcd *e, size_t index, struct lh_duration extra)
{
    LH_ASSERT(index < e->config.members);
    struct member *m = &e->members[index];

    if (m->extra == extra.ns)
        return;
    if (extra.ns == 0)
        lh_sim_note(e->sim, "%s does not lag any more", lh_sim_name(m->node));
    else
        lh_sim_note(e->sim, "%s applies everything %" PRIu64 " ms late", lh_sim_name(m->node),
            lh_duration_ms(extra));
    if (m->apply_at != UINT64_MAX && extra.ns < m->extra) {
        m->apply_to = e->log_count - 1;
        m->apply_at = lh_sim_now(e->sim) + lh_etcd_draw(e, &e->config.apply) + extra.ns;
        lh_etcd_wake(e, m->apply_at);
    }
    m->extra = extra.ns;
}

static void each_stream(struct lh_sim_etcd *e, void (*visit)(struct lh_sim_etcd *, struct stream *))
{
    for (size_t i = 0; i < e->config.members; i++)
        for (struct stream *s = e->members[i].streams; s != NULL; s = s->next)
            visit(e, s);
    look_now(e);
}

static void break_one(struct lh_sim_etcd *e, struct stream *s)
{
    (void)e;
    s->broken = true;
}

void lh_sim_etcd_break_watches(struct lh_sim_etcd *e)
{
    lh_sim_note(e->sim, "the watches of etcd break");
    each_stream(e, break_one);
}

static void hurry(struct lh_sim_etcd *e, struct stream *s)
{
    if (s->due_at != UINT64_MAX)
        s->due_at = lh_sim_now(e->sim);
}

void lh_sim_etcd_lag_watches(struct lh_sim_etcd *e, struct lh_duration extra)
{
    bool sooner = extra.ns < e->watch_extra.ns;

    if (e->watch_extra.ns == extra.ns)
        return;
    if (extra.ns == 0)
        lh_sim_note(e->sim, "watches of etcd do not lag any more");
    else
        lh_sim_note(e->sim, "watches of etcd are %" PRIu64 " ms late", lh_duration_ms(extra));
    e->watch_extra = extra;
    if (sooner)
        each_stream(e, hurry);
}

void lh_sim_etcd_lose_events(struct lh_sim_etcd *e, uint32_t per_million)
{
    set_rate(e, &e->lose_events, per_million, "revisions are lost by a watch");
}

static void doom(struct lh_sim_etcd *e, struct stream *s)
{
    (void)e;
    for (struct watch *w = s->watches; w != NULL; w = w->next)
        w->doomed = true;
}

void lh_sim_etcd_cancel_watches(struct lh_sim_etcd *e)
{
    lh_sim_note(e->sim, "the watches of etcd are canceled as compacted");
    each_stream(e, doom);
}

static void spare(struct lh_sim_etcd *e, struct stream *s)
{
    (void)e;
    for (struct watch *w = s->watches; w != NULL; w = w->next)
        w->doomed = false;
}

void lh_sim_etcd_compact(struct lh_sim_etcd *e, int64_t kept)
{
    int64_t revision = e->store.revision - kept;

    if (lh_etcd_do_compact(e, revision) == NULL)
        lh_sim_note(e->sim, "etcd is compacted at revision %" PRId64, revision);
}

void lh_sim_etcd_no_space(struct lh_sim_etcd *e, bool full)
{
    if (e->full == full)
        return;
    lh_sim_note(e->sim, full ? "the quota of etcd is used up" : "etcd has free space again");
    e->full = full;
    e->full_is_certain = false;
}

void lh_sim_etcd_nearly_full(struct lh_sim_etcd *e, bool full)
{
    if (e->nearly_full == full)
        return;
    lh_sim_note(e->sim, full ? "etcd's file has grown large" : "etcd's file is small again");
    e->nearly_full = full;
}

void lh_sim_etcd_snapshot(struct lh_sim_etcd *e)
{
    lh_sim_note(e->sim, "a snapshot of etcd at revision %" PRId64, e->store.revision);
    if (e->has_kept)
        lh_etcd_store_deinit(&e->kept);
    lh_etcd_store_copy(&e->kept, &e->store);
    e->kept_forgotten = e->forgotten;
    e->has_kept = true;
}

bool lh_sim_etcd_restore(struct lh_sim_etcd *e)
{
    if (!e->has_kept)
        return false;
    lh_sim_note(e->sim, "etcd is restored: from revision %" PRId64 " back to %" PRId64,
        e->store.revision, e->kept.revision);
    lh_etcd_requests_end(e, &lh_etcd_stopped_refusal);
    lh_etcd_store_deinit(&e->store);
    lh_etcd_store_copy(&e->store, &e->kept);
    e->forgotten = e->kept_forgotten;
    e->restores++;
    e->log[0] = (struct entry){e->store.revision, e->store.compacted};
    e->log_count = 1;
    for (size_t i = 0; i < e->config.members; i++) {
        struct member *m = &e->members[i];
        m->applied = m->apply_to = m->goal = 0;
        m->apply_at = UINT64_MAX;
    }
    each_stream(e, break_one);
    for (size_t i = 0; i < e->observer_count; i++)
        if (e->observers[i].restored != NULL)
            e->observers[i].restored(e->observers[i].arg, e->store.revision);
    return true;
}

void lh_sim_etcd_flip(struct lh_sim_etcd *e, size_t index, bool flips)
{
    LH_ASSERT(index < e->config.members);
    struct member *m = &e->members[index];

    if (flips == (m->damage != 0))
        return;
    lh_sim_note(e->sim, flips ? "the file of %s has flipped bits" : "the file of %s is whole again",
        lh_sim_name(m->node));
    m->damage = flips ? lh_prng_next(lh_etcd_random(e)) | 1 : 0;
}

/* ---- Hands. */

static bool is_of_map(const struct lh_etcd_line *l)
{
    const struct lh_sim_etcd_record *r = &l->records[0]->seen;

    return memmem(r->key, r->key_size, "map/", 4) != NULL;
}

static void written_by_hand(struct lh_sim_etcd *e)
{
    e->store.revision++;
    lh_etcd_log(e);
}

bool lh_sim_etcd_meddle(struct lh_sim_etcd *e, bool flip)
{
    struct lh_etcd_store *s = &e->store;
    int64_t at = s->revision + 1;
    size_t count = 0, chosen = 0;

    for (size_t i = 0; i < s->count; i++)
        if (is_of_map(s->lines[i]) && lh_etcd_line_at(s->lines[i], s->revision) != NULL &&
            lh_prng_below(lh_etcd_random(e), ++count) == 0)
            chosen = i;
    if (count == 0)
        return false;
    struct lh_etcd_record *was = s->lines[chosen]->records[s->lines[chosen]->count - 1];
    was->references++;
    LH_GROW(e->meddled, e->meddled_capacity, e->meddled_count + 1);
    e->meddled[e->meddled_count++] = (struct meddled){was, at};
    if (flip && was->seen.value_size > 0) {
        ProtobufCBinaryData value = lh_etcd_bytes(was->seen.value, was->seen.value_size);
        value.data[lh_prng_below(lh_etcd_random(e), value.len)] ^= 4;
        lh_etcd_store_put(s, at, was->seen.key, was->seen.key_size, value.data, value.len);
        free(value.data);
    } else {
        struct lh_etcd_range one = {.key = was->seen.key, .key_size = was->seen.key_size};
        (void)lh_etcd_store_delete(s, at, &one);
    }
    lh_sim_note(
        e->sim, "a hand %s a key of etcd, in revision %" PRId64, flip ? "changes" : "deletes", at);
    written_by_hand(e);
    return true;
}

/* That key is of no concern to an operator any more. */
static void forget_meddled(struct lh_sim_etcd *e, const struct lh_etcd_range *range)
{
    size_t kept = 0;

    for (size_t i = 0; i < e->meddled_count; i++) {
        const struct lh_sim_etcd_record *was = &e->meddled[i].was->seen;
        if (lh_etcd_in_range(range, was->key, was->key_size))
            lh_etcd_record_unref(e->meddled[i].was);
        else
            e->meddled[kept++] = e->meddled[i];
    }
    e->meddled_count = kept;
}

void lh_etcd_decides(struct lh_sim_etcd *e, const Etcdserverpb__TxnRequest *r)
{
    for (size_t i = 0; e->meddled_count > 0 && i < r->n_success; i++) {
        const Etcdserverpb__RequestOp *op = r->success[i];
        if (op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE)
            continue;
        const Etcdserverpb__DeleteRangeRequest *d = op->request_delete_range;
        forget_meddled(e, &(struct lh_etcd_range){.key = d->key.data,
                              .key_size = d->key.len,
                              .end = d->range_end.data,
                              .end_size = d->range_end.len});
    }
}

void lh_sim_etcd_put_back(struct lh_sim_etcd *e)
{
    struct lh_etcd_store *s = &e->store;

    for (size_t i = e->meddled_count; i-- > 0;) {
        const struct lh_sim_etcd_record *was = &e->meddled[i].was->seen;
        struct lh_etcd_range one = {.key = was->key, .key_size = was->key_size};
        size_t line = lh_etcd_store_first(s, &one);
        const struct lh_etcd_line *l = line < s->count ? s->lines[line] : NULL;
        bool same = l != NULL &&
                    lh_etcd_in_range(&one, l->records[0]->seen.key, l->records[0]->seen.key_size);
        if (!same || l->records[l->count - 1]->seen.mod_revision == e->meddled[i].at) {
            lh_sim_note(e->sim, "an operator puts a key of etcd back");
            lh_etcd_store_put(
                s, s->revision + 1, was->key, was->key_size, was->value, was->value_size);
            written_by_hand(e);
            /* What a hand had made of it before is what is there again. */
            for (size_t j = 0; j < i; j++)
                if (e->meddled[j].at == was->mod_revision)
                    e->meddled[j].at = s->revision;
        }
        lh_etcd_record_unref(e->meddled[i].was);
    }
    e->meddled_count = 0;
}

void lh_sim_etcd_mend(struct lh_sim_etcd *e)
{
    lh_sim_etcd_put_back(e);
    lh_sim_etcd_lose_quorum(e, false);
    lh_sim_etcd_elect(e, false, 0);
    lh_sim_etcd_fail_after(e, 0);
    lh_sim_etcd_fail_before(e, 0);
    lh_sim_etcd_apply_late(e, 0, lh_nanoseconds(0));
    lh_sim_etcd_lose_events(e, 0);
    lh_sim_etcd_lag_watches(e, lh_nanoseconds(0));
    lh_sim_etcd_no_space(e, false);
    lh_sim_etcd_nearly_full(e, false);
    for (size_t i = 0; i < e->config.members; i++)
        lh_sim_etcd_lag(e, i, lh_nanoseconds(0));
    for (size_t i = 0; i < e->config.members; i++)
        lh_sim_etcd_flip(e, i, false);
    each_stream(e, spare);
}
