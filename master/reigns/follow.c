/* The copy of the store that a standby has (HA-8): loaded (load.c), then followed by watching from
 * there. Each revision is one transaction of a reign, and puts the head: so whether one is missing
 * shows in the heads' numbers, whatever etcd loses. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdlib.h>

static void events_clear(struct lh_r_events *e)
{
    lh_changes_free(e->changes, e->count);
    free(e->pieces);
    lh_r_bytes_clear(&e->head);
    *e = (struct lh_r_events){0};
}

void lh_r_copy_clear(struct lh_reigns *r)
{
    struct lh_r_copy *c = &r->copy;

    lh_r_bytes_clear(&c->head);
    lh_r_bytes_clear(&c->from);
    lh_r_overlay_clear(&c->overlay);
    lh_r_head_free(c->said);
    events_clear(&c->events);
    for (size_t i = 0; i < c->piece_count; i++)
        lh_r_bytes_clear(&c->pieces[i]);
    free(c->pieces);
    *c = (struct lh_r_copy){0};
}

void lh_r_take_head(
    struct lh_reigns *r, struct lh_r_bytes bytes, LeaseholdStored__Head *said, int64_t revision)
{
    struct lh_r_copy *c = &r->copy;

    lh_r_bytes_clear(&c->head);
    lh_r_head_free(c->said);
    c->head = bytes;
    c->said = said;
    c->head_revision = revision;
    if (c->learned_at.ns == 0 || !LH_PLANTED("candidate-forgets-news"))
        c->learned_at = r->now;
    if (said->reign > r->top_reign ||
        (said->reign == r->top_reign && said->number > r->top_number)) {
        r->top_reign = said->reign;
        r->top_number = said->number;
        r->top_name = said->state == LEASEHOLD_STORED__HEAD__STATE__ACTING ||
                              said->state == LEASEHOLD_STORED__HEAD__STATE__RESIGNED
                          ? said->start
                          : 0;
    }
    lh_r_move_notice(r);
}

void lh_r_copy_take_head(struct lh_reigns *r, const void *data, size_t size,
    LeaseholdStored__Head *said, int64_t revision)
{
    lh_r_take_head(r, lh_r_bytes_copy(data, size), said, revision);
}

void lh_r_copy_put_head(struct lh_reigns *r, struct lh_r_bytes head, int64_t revision)
{
    lh_r_take_head(r, head, lh_r_head_own(&head), revision);
}

/* ---- Pieces. */

void lh_r_put_piece(struct lh_reigns *r, uint64_t index, const void *data, size_t size)
{
    struct lh_r_copy *c = &r->copy;

    if (index >= r->config.pieces_max)
        return; /* none of ours */
    while (c->piece_count <= index) {
        LH_GROW(c->pieces, c->piece_capacity, c->piece_count + 1);
        c->pieces[c->piece_count++] = (struct lh_r_bytes){0};
    }
    lh_r_bytes_clear(&c->pieces[index]);
    if (data != NULL)
        c->pieces[index] = lh_r_bytes_copy(data, size);
}

bool lh_r_pieces_read(struct lh_reigns *r, uint64_t count, struct lh_change **changes, size_t *n)
{
    size_t capacity = 0;

    *changes = NULL;
    *n = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct lh_r_bytes *from = i < r->copy.piece_count ? &r->copy.pieces[i] : NULL;
        LeaseholdStored__Piece *piece =
            from == NULL || from->data == NULL
                ? NULL
                : leasehold_stored__piece__unpack(NULL, from->size, from->data);
        if (piece == NULL) {
            lh_changes_free(*changes, *n);
            *changes = NULL;
            return false;
        }
        for (size_t j = 0; j < piece->n_changes; j++) {
            const LeaseholdStored__Change *c = piece->changes[j];
            struct lh_r_bytes key = lh_r_bytes_copy(c->key.data, c->key.len);
            struct lh_r_bytes value = {0};
            if (!c->gone)
                value = lh_r_bytes_copy(c->value.data, c->value.len);
            LH_GROW(*changes, capacity, *n + 1);
            (*changes)[(*n)++] =
                (struct lh_change){key.data, value.data, (uint32_t)key.size, (uint32_t)value.size};
        }
        leasehold_stored__piece__free_unpacked(piece, NULL);
    }
    return true;
}

/* ---- Watching. */

void lh_r_watch(struct lh_reigns *r)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    struct lh_r_bytes from = lh_r_key(r, LH_R_HEAD), end = lh_r_key(r, LH_R_END);

    create.key = (ProtobufCBinaryData){from.size, from.data};
    create.range_end = (ProtobufCBinaryData){end.size, end.data};
    /* One that the copy has already: of a watch that begins exactly where the history was compacted
     * etcd shows no removals. */
    create.start_revision = r->copy.revision;
    create.fragment = true;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    lh_r_call_begin(r, LH_R_WATCH, LH_METHOD_ETCD_WATCH, &request.base);
    free(from.data);
    free(end.data);
}

void lh_r_watch_over(struct lh_reigns *r)
{
    events_clear(&r->copy.events);
    r->watch_at = lh_instant_add(r->now, r->config.retry_after);
}

/* Is it the write that comes directly after the one that the copy has? */
static bool comes_next(const struct lh_r_copy *c, const LeaseholdStored__Head *next)
{
    if (c->said == NULL)
        return next->reign == 1 && next->number == 1;
    if (next->reign == c->said->reign)
        return next->number == c->said->number + 1 && next->start == c->said->start;
    /* What came last in a reign may be what was not shown: its successor says which it followed. It
     * may be above the next one (SES-9). */
    return next->number == 1 && next->reign > c->said->reign &&
           (next->follows == c->said->number || LH_PLANTED("end-of-reign-not-noticed"));
}

static bool amend(struct lh_reigns *r, const struct lh_change *changes, size_t count)
{
    char text[512];

    if (count == 0 || lh_master_amend(r->master, changes, count, text, sizeof text) == LH_OK)
        return true;
    lh_r_anew(r, text);
    return false;
}

/* What changed in the map, in one commit; the pieces' table takes the rest. */
static bool take_events(struct lh_reigns *r, struct lh_r_events *e)
{
    size_t of_map = 0;

    for (size_t i = 0; i < e->count; i++) {
        struct lh_change c = e->changes[i];
        if (e->pieces[i] != UINT64_MAX) {
            lh_r_put_piece(r, e->pieces[i], c.value, c.value_size);
            continue;
        }
        e->changes[i] = e->changes[of_map];
        e->changes[of_map++] = c;
    }
    return amend(r, e->changes, of_map);
}

/* ACTING: its own writes, and what others have done. */
static void look_at(struct lh_reigns *r, const struct lh_r_events *e)
{
    r->copy.revision = e->revision;
    if (!e->has_head && !e->head_gone && !lh_r_mend_note(r, e))
        lh_fx_log(r->fx, LH_ERROR,
            "somebody who is no master has changed keys under %s, and not all of them are written "
            "again: the copy in this master's memory is the only good one; take a backup of what "
            "there is (docs/operations.md, \"Restoring\")",
            r->config.prefix);
}

/* All events of one revision are there. False: the copy is loaded again. */
static bool apply(struct lh_reigns *r, struct lh_r_events *e)
{
    struct lh_r_copy *c = &r->copy;

    if (!e->has_head && !e->head_gone && e->count == 0)
        return true;
    if (e->revision <= c->revision)
        return true;
    if (r->phase == LH_REIGN_ACTING) {
        look_at(r, e);
        return true;
    }
    if (!e->has_head && !e->head_gone && lh_r_mend_note(r, e)) {
        c->revision = e->revision;
        return true;
    }
    LeaseholdStored__Head *said = e->has_head ? lh_r_head_read(e->head.data, e->head.size) : NULL;
    if (said == NULL || said->format > LH_REIGN_FORMAT ||
        (!comes_next(c, said) && !LH_PLANTED("gap-not-noticed"))) {
        LH_MARK("copy-has-a-gap");
        lh_r_head_free(said);
        lh_r_anew(r, said == NULL ? "somebody else writes under this prefix"
                                  : "etcd did not show all changes");
        return false;
    }
    if (!lh_r_move_follows(r, said)) {
        lh_r_head_free(said);
        return false;
    }
    uint64_t before = c->said != NULL ? c->said->pieces : 0;
    uint64_t named = said->pieces;
    lh_r_mend_forget(r, e);
    if (!take_events(r, e)) {
        lh_r_head_free(said);
        return false;
    }
    lh_r_take_head(r, e->head, said, e->revision);
    e->head = (struct lh_r_bytes){0};
    c->revision = e->revision;
    c->followed = true;
    if (!lh_r_agrees(r)) /* seen to act, not only to have acted once */
        return false;
    r->claims_lost = r->late_answers = 0;
    r->claim_at = (struct lh_instant){0}; /* the claim was lost over another head */
    if (named > 0 && before == 0) {
        struct lh_change *changes;
        size_t count;
        LH_MARK("pieces-are-followed");
        if (!lh_r_pieces_read(r, named, &changes, &count)) {
            lh_r_anew(r, "a part of a commit was not shown");
            return false;
        }
        bool taken = amend(r, changes, count);
        lh_changes_free(changes, count);
        return taken;
    }
    return true;
}

static void add_event(struct lh_reigns *r, struct lh_r_events *e, const Etcdserverpb__Event *event)
{
    const Etcdserverpb__KeyValue *kv = event->kv;
    bool gone = event->type == ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE;
    size_t size, key_size;
    uint64_t piece = UINT64_MAX;
    const uint8_t *name = lh_r_name_in(r, &kv->key, &size);

    if (name == NULL)
        return;
    e->revision = kv->mod_revision;
    if (lh_r_is_head(name, size)) {
        lh_r_bytes_clear(&e->head);
        e->has_head = !gone;
        e->head_gone = gone;
        if (!gone)
            e->head = lh_r_bytes_copy(kv->value.data, kv->value.len);
        return;
    }
    const uint8_t *key = lh_r_in_map(name, size, &key_size);
    if (key == NULL && !lh_r_is_piece(name, size, &piece))
        return;
    size_t capacity = e->capacity;
    LH_GROW(e->changes, capacity, e->count + 1);
    LH_GROW(e->pieces, e->capacity, e->count + 1);
    struct lh_change *c = &e->changes[e->count];
    *c = (struct lh_change){0};
    if (key != NULL) {
        c->key = lh_r_bytes_copy(key, key_size).data;
        c->key_size = (uint32_t)key_size;
    }
    if (!gone && r->phase != LH_REIGN_ACTING) { /* who acts knows what it has written */
        c->value = lh_r_bytes_copy(kv->value.data, kv->value.len).data;
        c->value_size = (uint32_t)kv->value.len;
    }
    e->pieces[e->count++] = piece;
}

void lh_r_watch_reply(struct lh_reigns *r, const Etcdserverpb__WatchResponse *reply)
{
    struct lh_r_events *e = &r->copy.events;

    if (reply->canceled) {
        if (reply->compact_revision != 0 && r->phase != LH_REIGN_ACTING) {
            lh_r_anew(r, "etcd has compacted what this copy needs");
            return;
        }
        /* ACTING: what others did before that is found when the store is loaded. */
        if (reply->compact_revision > r->copy.revision)
            r->copy.revision = reply->compact_revision;
        lh_r_call_end(r, LH_R_WATCH);
        lh_r_token_refused(r, reply->cancel_reason);
        lh_r_watch_over(r);
        return;
    }
    for (size_t i = 0; i < reply->n_events; i++) {
        if (reply->events[i]->kv == NULL)
            continue;
        if (e->revision != 0 && reply->events[i]->kv->mod_revision != e->revision) {
            if (!apply(r, e))
                return;
            events_clear(e);
        }
        add_event(r, e, reply->events[i]);
    }
    if (reply->fragment)
        return; /* more of the same revision may follow */
    if (apply(r, e))
        events_clear(e);
}
