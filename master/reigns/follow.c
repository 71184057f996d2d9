/* The copy of the store that a standby has: loaded page by page as it was at one revision, then
 * followed by watching from there (HA-8). Each revision is one transaction of a reign, and puts the
 * head: so whether one is missing shows in the heads' numbers, whatever etcd loses. */
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

static void take_head(
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
    }
    lh_r_move_notice(r);
}

void lh_r_copy_take_head(struct lh_reigns *r, const void *data, size_t size,
    LeaseholdStored__Head *said, int64_t revision)
{
    take_head(r, lh_r_bytes_copy(data, size), said, revision);
}

void lh_r_copy_put_head(struct lh_reigns *r, struct lh_r_bytes head, int64_t revision)
{
    take_head(r, head, lh_r_head_own(&head), revision);
}

/* ---- Pieces. */

static void put_piece(struct lh_reigns *r, uint64_t index, const void *data, size_t size)
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

/* ---- Loading. */

static void ask_range(struct lh_reigns *r, const struct lh_r_bytes *from,
    const struct lh_r_bytes *end, int64_t revision)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;

    request.key = (ProtobufCBinaryData){from->size, from->data};
    if (end != NULL) {
        request.range_end = (ProtobufCBinaryData){end->size, end->data};
        request.limit = r->config.page_keys;
    }
    request.revision = revision;
    lh_r_call_begin(r, LH_R_READ, LH_METHOD_ETCD_RANGE, &request.base);
}

void lh_r_learn(struct lh_reigns *r)
{
    struct lh_r_bytes key = lh_r_key(r, LH_R_HEAD);

    ask_range(r, &key, NULL, 0);
    free(key.data);
}

static void ask_page(struct lh_reigns *r)
{
    struct lh_r_bytes end = lh_r_key(r, r->copy.in_map ? LH_R_MAP_END : LH_R_END);

    ask_range(
        r, &r->copy.from, &end, LH_PLANTED("pages-of-different-revisions") ? 0 : r->copy.revision);
    free(end.data);
}

/* A head of the store, as it is read. False: the operator was told, and the process ends. */
static bool head_is_ours(struct lh_reigns *r, const LeaseholdStored__Head *said)
{
    if (said == NULL) {
        lh_fx_log(r->fx, LH_ERROR,
            "the head in etcd (%s%s) cannot be read: is this prefix another program's? Restore the "
            "store from a backup, or give another prefix",
            r->config.prefix, LH_R_HEAD);
        lh_r_stop_with(r, LH_ERR_CORRUPT);
        return false;
    }
    if (said->format > LH_REIGN_FORMAT) {
        lh_fx_log(r->fx, LH_ERROR,
            "the store in etcd was written in format %u by a newer release; this one reads up to "
            "%u: start the newer release",
            said->format, LH_REIGN_FORMAT);
        lh_r_stop_with(r, LH_ERR_WRONG_FORMAT);
        return false;
    }
    return true;
}

/* KEEP-4: what this process has seen before is not in the store any more. Without a head (NULL)
 * whoever wrote the last one may still act, and nothing is begun in its place. */
static bool went_back(struct lh_reigns *r, const LeaseholdStored__Head *said)
{
    uint64_t reign = said == NULL ? 0 : said->reign, number = said == NULL ? 0 : said->number;

    if (reign > r->top_reign || (reign == r->top_reign && number >= r->top_number))
        return false;
    lh_fx_log(r->fx, LH_ERROR,
        "etcd was restored from an older copy: the head is number %" PRIu64 " of reign %" PRIu64
        " (0: there is none), and number %" PRIu64 " of reign %" PRIu64
        " was seen. Start one master with --restored, and see \"Restoring\" in docs/operations.md",
        number, reign, r->top_number, r->top_reign);
    lh_r_stop_with(r, LH_ERR_CORRUPT);
    return true;
}

static void learned(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    lh_r_copy_clear(r);
    r->copy.revision = reply->header->revision;
    r->copy.learned_at = r->now;
    if (reply->n_kvs > 0) {
        const Etcdserverpb__KeyValue *kv = reply->kvs[0];
        LeaseholdStored__Head *said = lh_r_head_read(kv->value.data, kv->value.len);
        if (!head_is_ours(r, said) || went_back(r, said)) {
            lh_r_head_free(said);
            return;
        }
        take_head(r, lh_r_bytes_copy(kv->value.data, kv->value.len), said, kv->mod_revision);
    } else if (went_back(r, NULL)) {
        return;
    }
    if (!lh_r_move_allows(r))
        return;
    lh_r_new_copy(r);
    r->copy.from = lh_r_key(r, LH_R_PIECE);
    lh_r_enter(r, LH_REIGN_LOADING);
    ask_page(r);
}

static bool not_loaded(struct lh_reigns *r, int error, const char *text)
{
    lh_fx_log(r->fx, LH_ERROR, "etcd, %s: %s", r->config.prefix, text);
    lh_r_stop_with(r, error);
    return false;
}

static bool load_pair(struct lh_reigns *r, const Etcdserverpb__KeyValue *kv)
{
    size_t size, key_size;
    uint64_t piece;
    const uint8_t *name = lh_r_name_in(r, &kv->key, &size);
    char text[512];

    if (name == NULL)
        return true;
    const uint8_t *key = lh_r_in_map(name, size, &key_size);
    if (key == NULL) {
        if (lh_r_is_piece(name, size, &piece))
            put_piece(r, piece, kv->value.data, kv->value.len);
        return true;
    }
    int error =
        lh_r_overlay_load(r, key, key_size, kv->value.data, kv->value.len, text, sizeof text);
    return error == LH_OK || not_loaded(r, error, text);
}

static void loaded(struct lh_reigns *r)
{
    char text[512];
    int error = lh_r_overlay_end(r, text, sizeof text);

    if (error != LH_OK) {
        (void)not_loaded(r, error, text);
        return;
    }
    lh_r_bytes_clear(&r->copy.from);
    lh_r_follows(r);
}

/* Then comes the map. */
static void pieces_loaded(struct lh_reigns *r)
{
    if (!lh_r_overlay_begin(r)) {
        (void)not_loaded(
            r, LH_ERR_CORRUPT, "a part of a commit is missing; restore the store from a backup");
        return;
    }
    lh_r_bytes_clear(&r->copy.from);
    r->copy.from = lh_r_key(r, LH_R_MAP);
    r->copy.in_map = true;
    ask_page(r);
}

static void page(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    for (size_t i = 0; i < reply->n_kvs; i++)
        if (!load_pair(r, reply->kvs[i]))
            return;
    if (!reply->more || reply->n_kvs == 0) {
        if (r->copy.in_map)
            loaded(r);
        else
            pieces_loaded(r);
        return;
    }
    /* The first key behind the last one. */
    const ProtobufCBinaryData *last = &reply->kvs[reply->n_kvs - 1]->key;
    lh_r_bytes_clear(&r->copy.from);
    r->copy.from = lh_r_bytes_copy(last->data, last->len);
    r->copy.from.data[r->copy.from.size++] = 0; /* there is room for it */
    ask_page(r);
}

void lh_r_read_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    if (reply->header == NULL)
        lh_r_anew(r, "etcd's answer has no header");
    else if (r->phase == LH_REIGN_LEARNING)
        learned(r, reply);
    else if (r->phase == LH_REIGN_LOADING)
        page(r, reply);
    else if (r->phase == LH_REIGN_STANDBY)
        lh_r_head_is(r, reply->n_kvs > 0 ? reply->kvs[0]->mod_revision : 0);
}

void lh_r_read_failed(struct lh_reigns *r, const char *text)
{
    LH_MARK("compacted-while-loading");
    lh_r_anew(r, text);
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
    uint64_t more = next->reign - c->said->reign;
    /* What came last in a reign may be what was not shown: its successor says which it followed.
     * One that was started with --restored skips as many reigns as no lost events can be. */
    return next->number == 1 && (more == 1 || more == 1 + LH_MASTER_RESTORED_LEAP) &&
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
            put_piece(r, e->pieces[i], c.value, c.value_size);
            continue;
        }
        e->changes[i] = e->changes[of_map];
        e->changes[of_map++] = c;
    }
    return amend(r, e->changes, of_map);
}

/* All events of one revision are there. False: the copy is loaded anew. */
static bool apply(struct lh_reigns *r, struct lh_r_events *e)
{
    struct lh_r_copy *c = &r->copy;

    if (!e->has_head && !e->head_gone && e->count == 0)
        return true;
    if (e->revision <= c->revision)
        return true;
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
    bool same_reign = c->said != NULL && said->reign == c->said->reign;
    uint64_t named = said->pieces;
    if (!take_events(r, e)) {
        lh_r_head_free(said);
        return false;
    }
    take_head(r, e->head, said, e->revision);
    e->head = (struct lh_r_bytes){0};
    c->revision = e->revision;
    if (!lh_r_agrees(r)) /* seen to act, not only to have acted once */
        return false;
    r->claims_lost = 0;
    r->claim_at = (struct lh_instant){0}; /* the claim was lost over another head */
    if (named > 0 && before == 0 && same_reign) {
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
    if (!gone) {
        c->value = lh_r_bytes_copy(kv->value.data, kv->value.len).data;
        c->value_size = (uint32_t)kv->value.len;
    }
    e->pieces[e->count++] = piece;
}

void lh_r_watch_reply(struct lh_reigns *r, const Etcdserverpb__WatchResponse *reply)
{
    struct lh_r_events *e = &r->copy.events;

    if (reply->canceled) {
        if (reply->compact_revision != 0) {
            lh_r_anew(r, "etcd has compacted what this copy needs");
            return;
        }
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
