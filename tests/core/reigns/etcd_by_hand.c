#include "tests/core/reigns/etcd_by_hand.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/seal.h"

#include <stdio.h>

static bool of_no_matter(const struct link *l)
{
    if (l->request == NULL)
        return false;
    switch (l->method) {
    case LH_METHOD_ETCD_STATUS:
    case LH_METHOD_ETCD_COMPACT:
        return true;
    case LH_METHOD_ETCD_RANGE: {
        const ProtobufCBinaryData *key = &((const Etcdserverpb__RangeRequest *)l->request)->key;
        return key->len > 10 && memcmp(key->data, PREFIX "records", 10) == 0;
    }
    case LH_METHOD_ETCD_TXN:
        return ((const Etcdserverpb__TxnRequest *)l->request)->n_compare == 0;
    default:
        return false;
    }
}

static void heard(struct world *w, struct lh_effect *e)
{
    struct link *l = NULL;

    for (size_t i = 0; i < w->count; i++)
        if (w->links[i].id == e->link)
            l = &w->links[i];
    bool served = (e->link & LH_LINK_SERVED) != 0;

    if (e->kind == LH_FX_OPEN) {
        LH_GROW(w->links, w->capacity, w->count + 1);
        w->links[w->count++] = (struct link){e->link, e->method, lh_strdup(e->text), NULL, true};
    } else if (e->kind == LH_FX_LOG && e->level >= LH_WARN) {
        (void)snprintf(w->said, sizeof w->said, "%s", e->text);
    } else if (e->kind == LH_FX_PERSIST) {
        lh_changes_free(w->persisted, w->persisted_count);
        w->persisted = e->changes;
        w->persisted_count = e->change_count;
        w->commits++;
        e->changes = NULL;
        e->change_count = 0;
    } else if (e->kind == LH_FX_STOPPED) {
        w->stopped = true;
        w->stop_error = e->error;
    } else if (served && world_ended(w, e->link) >= 0) {
        w->sent_behind_end++;
    } else if (served && e->kind == LH_FX_CLOSE) {
        assert_true(w->ended_count < 64);
        w->ended_with[w->ended_count] = e->error;
        w->ended[w->ended_count++] = e->link;
    } else if (served && e->kind == LH_FX_SEND) {
        struct lh_buf none;
        lh_buf_clear(&w->replied);
        w->replied = lh_buf_ref(&e->header);
        w->replies++;
        lh_wire_free(w->masters);
        w->masters = NULL;
        if (lh_wire_decode(LH_METHOD_MASTERS, LH_REPLY, &e->header, &w->masters, &none) != LH_OK)
            w->masters = NULL; /* another call's */
    } else if (!served && e->kind == LH_FX_SEND) {
        struct lh_buf none;
        assert_non_null(l);
        assert_int_equal(
            lh_wire_decode(l->method, LH_REQUEST, &e->header, &l->request, &none), LH_OK);
    } else if (!served && e->kind == LH_FX_CLOSE) {
        assert_non_null(l);
        l->open = false;
    }
}

static void step(struct world *w, struct lh_input *in)
{
    in->now = w->now;
    if (w->stopped)
        return;
    lh_reigns_step(w->r, in, &w->fx);
    for (size_t i = 0; i < w->fx.count; i++)
        heard(w, &w->fx.items[i]);
    lh_effects_clear(&w->fx);
    lh_reigns_check(w->r);
}

void world_feed(struct world *w, struct lh_input *in)
{
    step(w, in);
}

static void answer_what_is_of_no_matter(struct world *w)
{
    Etcdserverpb__TxnResponse txn = ETCDSERVERPB__TXN_RESPONSE__INIT;
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__StatusResponse status = ETCDSERVERPB__STATUS_RESPONSE__INIT;
    Etcdserverpb__CompactionResponse compaction = ETCDSERVERPB__COMPACTION_RESPONSE__INIT;

    const ProtobufCMessage *records = w->records == NULL ? &range.base : &w->records->base;

    status.leader = 1;
    if (w->version != NULL)
        status.version = w->version;
    for (size_t i = 0; i < w->count && !w->stopped; i++) {
        struct link *l = &w->links[i];
        if (!l->open || !of_no_matter(l))
            continue;
        w->records_put += l->method == LH_METHOD_ETCD_TXN;
        world_answer(w, l,
            l->method == LH_METHOD_ETCD_TXN      ? &txn.base
            : l->method == LH_METHOD_ETCD_RANGE  ? records
            : l->method == LH_METHOD_ETCD_STATUS ? &status.base
                                                 : &compaction.base);
    }
}

void world_begin(struct world *w, void (*change)(struct lh_reign_config *config))
{
    struct lh_reign_config config = {
        .id = "a",
        .address = "a:1",
        .prefix = PREFIX,
        .members = {"e1:1", "e2:1", "e3:1"},
        .member_count = 3,
        .reign_term = lh_seconds(2),
    };
    char text[200];

    *w = (struct world){.now = {1000}, .next_served = LH_LINK_SERVED | 1, .revision = 10};
    config.master = lh_master_config_default();
    config.master.seed = 1;
    lh_reign_config_fill(&config);
    if (change != NULL)
        change(&config);
    if (lh_reign_config_check(&config, text, sizeof text) != LH_OK)
        fail_msg("%s", text);
    w->r = lh_reigns_create(&config);
    world_run(w, 1);
}

void world_end(struct world *w)
{
    lh_reigns_destroy(w->r);
    lh_effects_deinit(&w->fx);
    lh_changes_free(w->persisted, w->persisted_count);
    for (size_t i = 0; i < w->count; i++) {
        free(w->links[i].address);
        lh_wire_free(w->links[i].request);
    }
    free(w->links);
    lh_wire_free(w->masters);
    lh_buf_clear(&w->replied);
}

void world_run(struct world *w, uint64_t ms)
{
    struct lh_instant until = lh_instant_add(w->now, lh_milliseconds(ms));

    while (!w->stopped) {
        struct lh_instant at = lh_instant_max(w->now, lh_reigns_deadline(w->r));
        if (!lh_instant_reached(until, at))
            break;
        w->now = at;
        step(w, &(struct lh_input){.kind = LH_IN_TIMER});
        answer_what_is_of_no_matter(w);
    }
    w->now = until;
    if (!w->stopped)
        step(w, &(struct lh_input){.kind = LH_IN_TIMER});
}

void world_committed(struct world *w, int error)
{
    step(w, &(struct lh_input){.kind = LH_IN_PERSISTED, .ticket = 1, .error = error});
}

void world_stop(struct world *w)
{
    step(w, &(struct lh_input){.kind = LH_IN_STOP});
}

struct link *world_link(struct world *w, enum lh_method method, size_t nth)
{
    for (size_t i = w->count; i-- > 0;)
        if (w->links[i].open && w->links[i].method == method && !of_no_matter(&w->links[i]) &&
            nth-- == 0)
            return &w->links[i];
    return NULL;
}

void world_answer(struct world *w, struct link *l, const ProtobufCMessage *message)
{
    assert_non_null(l);
    step(w, &(struct lh_input){
                .kind = LH_IN_MESSAGE, .link = l->id, .method = l->method, .message = message});
}

void world_fail(struct world *w, struct link *l, int error, const char *text)
{
    assert_non_null(l);
    l->open = false;
    step(w, &(struct lh_input){.kind = LH_IN_LINK_CLOSED,
                .link = l->id,
                .method = l->method,
                .error = error,
                .text = text});
}

/* ---- What etcd says. */

static bool is_name(const ProtobufCBinaryData *key, const char *name)
{
    size_t size = strlen(PREFIX);

    return key->len == size + strlen(name) && memcmp(key->data, PREFIX, size) == 0 &&
           memcmp(key->data + size, name, strlen(name)) == 0;
}

ProtobufCBinaryData world_put(const struct link *txn, const char *name)
{
    assert_non_null(txn);
    const Etcdserverpb__TxnRequest *request = (const Etcdserverpb__TxnRequest *)txn->request;

    for (size_t i = 0; i < request->n_success; i++)
        if (request->success[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT &&
            is_name(&request->success[i]->request_put->key, name))
            return request->success[i]->request_put->value;
    fail_msg("it does not put %s", name);
    return (ProtobufCBinaryData){0};
}

void world_applied(struct world *w, struct link *txn)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__TxnResponse reply = ETCDSERVERPB__TXN_RESPONSE__INIT;

    header.revision = ++w->revision;
    reply.header = &header;
    reply.succeeded = true;
    world_answer(w, txn, &reply.base);
}

static Etcdserverpb__KeyValue pair_of(const struct world_pair *p, uint8_t *key)
{
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    size_t prefix = strlen(PREFIX), size = strlen(p->name);

    memcpy(key, PREFIX, prefix);
    memcpy(key + prefix, p->name, size);
    kv.key = (ProtobufCBinaryData){prefix + size, key};
    /* A piece's index has zeros, which a name here cannot have. */
    if (strncmp(p->name, "pieces/", 7) == 0 && size == 8) {
        memset(key + prefix + 7, 0, 8);
        key[prefix + 14] = (uint8_t)(p->name[7] - '0');
        kv.key.len = prefix + 15;
    }
    kv.mod_revision = p->revision;
    if (p->value.data != NULL)
        kv.value = p->value;
    return kv;
}

void world_pairs(struct world *w, struct link *range, const struct world_pair *pairs, size_t count)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__RangeResponse reply = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__KeyValue kvs[8], *list[8];
    uint8_t keys[8][64];

    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        kvs[i] = pair_of(&pairs[i], keys[i]);
        list[i] = &kvs[i];
    }
    header.revision = w->revision;
    reply.header = &header;
    reply.n_kvs = count;
    reply.kvs = list;
    world_answer(w, range, &reply.base);
}

void world_events(struct world *w, const struct world_pair *pairs, size_t count)
{
    Etcdserverpb__WatchResponse reply = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    Etcdserverpb__KeyValue kvs[8];
    Etcdserverpb__Event events[8], *list[8];
    uint8_t keys[8][64];

    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        etcdserverpb__event__init(&events[i]);
        kvs[i] = pair_of(&pairs[i], keys[i]);
        events[i].kv = &kvs[i];
        if (pairs[i].value.data == NULL)
            events[i].type = ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE;
        list[i] = &events[i];
    }
    reply.n_events = count;
    reply.events = list;
    world_answer(w, world_link(w, LH_METHOD_ETCD_WATCH, 0), &reply.base);
}

void world_not_applied(
    struct world *w, struct link *txn, const ProtobufCBinaryData *head, int64_t revision)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__TxnResponse reply = ETCDSERVERPB__TXN_RESPONSE__INIT;
    Etcdserverpb__ResponseOp op = ETCDSERVERPB__RESPONSE_OP__INIT, *ops[1] = {&op};
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT, *kvs[1] = {&kv};

    header.revision = revision;
    reply.header = &header;
    reply.n_responses = 1;
    reply.responses = ops;
    op.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    op.response_range = &range;
    if (head != NULL) {
        kv.value = *head;
        kv.mod_revision = revision;
        range.n_kvs = 1;
        range.kvs = kvs;
    }
    world_answer(w, txn, &reply.base);
}

ProtobufCBinaryData world_pack_head(const LeaseholdStored__Head *said)
{
    size_t size = leasehold_stored__head__get_packed_size(said);
    ProtobufCBinaryData bytes = {size, lh_alloc(size + LH_SEAL_BYTES)};

    leasehold_stored__head__pack(said, bytes.data);
    if (said->format > LH_REIGN_FORMAT_BARE) {
        lh_seal_write(bytes.data + size, lh_seal_hash("head", 4, bytes.data, size));
        bytes.len += LH_SEAL_BYTES;
    }
    return bytes;
}

LeaseholdStored__Head *world_unpack_head(ProtobufCBinaryData head)
{
    uint64_t hash;

    (void)lh_seal_look("head", 4, head.data, &head.len, &hash);
    return leasehold_stored__head__unpack(NULL, head.len, head.data);
}

ProtobufCBinaryData world_head(uint64_t reign, uint64_t number, uint64_t start, uint64_t pieces)
{
    LeaseholdStored__Head head = LEASEHOLD_STORED__HEAD__INIT;

    head.format = LH_REIGN_FORMAT;
    head.reign = reign;
    head.number = number;
    head.start = start;
    head.master_id = (char *)(uintptr_t) "b";
    head.address = (char *)(uintptr_t) "b:1";
    head.reign_term_ns = lh_seconds(2).ns;
    head.pieces = pieces;
    head.follows = number == 1 ? 1 : 0; /* a claim that was not followed by anything */
    return world_pack_head(&head);
}

ProtobufCBinaryData world_head_of(
    ProtobufCBinaryData head, LeaseholdStored__Head__State state, const char *elsewhere)
{
    LeaseholdStored__Head *said = world_unpack_head(head);

    said->state = state;
    said->elsewhere = lh_strdup(elsewhere);
    ProtobufCBinaryData bytes = world_pack_head(said);
    leasehold_stored__head__free_unpacked(said, NULL);
    free(head.data);
    return bytes;
}

void world_hears_nothing(struct world *w, uint64_t ms, ProtobufCBinaryData head, int64_t revision)
{
    struct world_pair pair = {"head", head, revision};

    for (uint64_t run = 0; run < ms; run += 50) {
        struct link *asked = world_link(w, LH_METHOD_ETCD_RANGE, 0);
        if (asked != NULL)
            world_pairs(w, asked, &pair, 1);
        world_run(w, 50);
    }
}

ProtobufCBinaryData world_record(const char *cluster)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t)cluster;
    record.next_file = record.next_chunk = 1;
    size_t size = leasehold_stored__master__get_packed_size(&record);
    uint8_t *bytes = lh_alloc(size);
    leasehold_stored__master__pack(&record, bytes);
    return (ProtobufCBinaryData){size, bytes};
}

void world_loads_map(struct world *w)
{
    ProtobufCBinaryData record = world_record("c");

    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0),
        (struct world_pair[]){{"map/M", record, w->revision}}, 1);
    free(record.data);
}

void world_loads(struct world *w, ProtobufCBinaryData head)
{
    struct world_pair pair = {"head", head, w->revision};


    world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), &pair, head.data != NULL);
    if (!w->stopped) /* pieces */
        world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
    if (!w->stopped && head.data != NULL)
        world_loads_map(w);
    else if (!w->stopped)
        world_pairs(w, world_link(w, LH_METHOD_ETCD_RANGE, 0), NULL, 0);
}

void world_acts(struct world *w)
{
    ProtobufCBinaryData head =
        world_head_of(world_head(1, 1, 4, 0), LEASEHOLD_STORED__HEAD__STATE__RESIGNED, "");

    world_loads(w, head);
    free(head.data);
    world_run(w, 1);
    assert_int_equal(world_phase(w), LH_REIGN_CLAIMING);
    world_applied(w, world_link(w, LH_METHOD_ETCD_TXN, 0));
    assert_int_equal(world_phase(w), LH_REIGN_ACTING);
}

/* ---- Who calls it. */

uint64_t world_opens(struct world *w, enum lh_method method)
{
    uint64_t link = w->next_served++;

    step(w, &(struct lh_input){
                .kind = LH_IN_LINK_OPENED, .link = link, .method = method, .text = "c:1"});
    return link;
}

void world_says(
    struct world *w, uint64_t link, enum lh_method method, const ProtobufCMessage *message)
{
    step(w, &(struct lh_input){
                .kind = LH_IN_MESSAGE, .link = link, .method = method, .message = message});
}

void world_closes(struct world *w, uint64_t link)
{
    step(w, &(struct lh_input){
                .kind = LH_IN_LINK_CLOSED, .link = link, .error = LH_ERR_CANCELLED});
}

int world_ended(const struct world *w, uint64_t link)
{
    for (size_t i = 0; i < w->ended_count; i++)
        if (w->ended[i] == link)
            return w->ended_with[i];
    return -1;
}

enum lh_reign_phase world_phase(const struct world *w)
{
    struct lh_reign_state state;

    lh_reigns_state(w->r, &state);
    return state.phase;
}
