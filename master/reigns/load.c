/* Loading a copy of the store, page by page as it was at one revision (HA-8). */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdlib.h>

static void ask_range(struct lh_reigns *r, enum lh_r_purpose purpose, const struct lh_r_bytes *from,
    const struct lh_r_bytes *end, int64_t revision)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;

    request.key = (ProtobufCBinaryData){from->size, from->data};
    if (end != NULL) {
        request.range_end = (ProtobufCBinaryData){end->size, end->data};
        request.limit = r->config.page_keys;
    }
    request.revision = revision;
    lh_r_call_begin(r, purpose, LH_METHOD_ETCD_RANGE, &request.base);
}

static void ask_head(struct lh_reigns *r, enum lh_r_purpose purpose)
{
    struct lh_r_bytes key = lh_r_key(r, LH_R_HEAD);

    ask_range(r, purpose, &key, NULL, 0);
    free(key.data);
}

void lh_r_learn(struct lh_reigns *r)
{
    ask_head(r, LH_R_READ);
}

void lh_r_ask(struct lh_reigns *r)
{
    ask_head(r, LH_R_ASK);
}

static void ask_page(struct lh_reigns *r)
{
    struct lh_r_bytes end = lh_r_key(r, r->copy.in_map ? LH_R_MAP_END : LH_R_END);

    ask_range(r, LH_R_READ, &r->copy.from, &end,
        LH_PLANTED("pages-of-different-revisions") ? 0 : r->copy.revision);
    free(end.data);
}

/* A head of the store, as it is read. False: the operator was told; another member is asked, or the
 * process ends. */
static bool head_is_ours(struct lh_reigns *r, const LeaseholdStored__Head *said)
{
    if (said == NULL) {
        lh_r_unfit(r,
            "its head is not what a master has written: is this prefix another program's? If all "
            "members have it so, restore the store from a backup (docs/operations.md, "
            "\"Restoring\"), or give another prefix");
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

    if (reign == r->top_reign && number > 0 && r->top_name != 0 && said->start != r->top_name)
        return lh_r_other_history(r, reign);
    if (reign > r->top_reign || (reign == r->top_reign && number >= r->top_number))
        return false;
    if (said == NULL) {
        lh_fx_log(r->fx, LH_ERROR,
            "etcd has no key %s%s any more, and this master has seen it: somebody has deleted it. "
            "Its last bytes are in etcd's history: stop all masters and put them back, as "
            "\"A key that was deleted or changed\" in docs/operations.md says",
            r->config.prefix, LH_R_HEAD);
        lh_r_stop_with(r, LH_ERR_CORRUPT);
        return true;
    }
    lh_fx_log(r->fx, LH_ERROR,
        "etcd was restored from an older copy: the head is number %" PRIu64 " of reign %" PRIu64
        ", and number %" PRIu64 " of reign %" PRIu64
        " was seen. Start one master with --restored, and see \"Restoring\" in docs/operations.md",
        number, reign, r->top_number, r->top_reign);
    lh_r_stop_with(r, LH_ERR_CORRUPT);
    return true;
}

static void learned(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    lh_r_copy_clear(r);
    r->known_reign = r->top_reign;
    r->known_name = r->top_name;
    r->copy.revision = reply->header->revision;
    r->copy.learned_at = r->now;
    if (reply->n_kvs > 0) {
        const Etcdserverpb__KeyValue *kv = reply->kvs[0];
        LeaseholdStored__Head *said = lh_r_head_read(kv->value.data, kv->value.len);
        if (!head_is_ours(r, said) || went_back(r, said)) {
            lh_r_head_free(said);
            return;
        }
        lh_r_take_head(r, lh_r_bytes_copy(kv->value.data, kv->value.len), said, kv->mod_revision);
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
    if (error == LH_ERR_CORRUPT && !LH_PLANTED("standby-ends-over-damage")) {
        lh_r_unfit(r, text);
        return false;
    }
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
            lh_r_put_piece(r, piece, kv->value.data, kv->value.len);
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
}

void lh_r_read_failed(struct lh_reigns *r, const char *text)
{
    LH_MARK("compacted-while-loading");
    lh_r_anew(r, text);
}
