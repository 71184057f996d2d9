/* libFuzzer target: a master among others (world.h), and an etcd behind it whose answers and whose
 * content are damaged, or are written by others. */
#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/world.h"
#include "master/reigns/reigns.h"
#include "proto/etcd.pb-c.h"
#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"
#include "sim/etcd/txn.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "a/l/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- Etcd: one that all members show alike. */

static struct lh_etcd_store store;
static uint64_t watching; /* the link of the newest watch; 0: there is none */
static int64_t shown;     /* to it: changes up to this revision */

static struct lh_etcd_view view(void)
{
    return (struct lh_etcd_view){
        .cluster_id = 1, .member_id = 1, .term = 1, .revision = store.revision, .compacted = -1};
}

static void put(const void *key, size_t key_size, const void *value, size_t value_size)
{
    lh_etcd_store_put(&store, store.revision + 1, key, key_size, value, value_size);
    store.revision++;
}

/* The answer comes off the wire with a byte changed, now and then, or what etcd refuses with. */
static void reply(struct world *w, uint64_t link, enum lh_method method, const ProtobufCMessage *m)
{
    static const char *const refusals[] = {"etcdserver: request timed out",
        "etcdserver: mvcc: required revision has been compacted",
        "etcdserver: mvcc: required revision is a future revision",
        "etcdserver: invalid auth token", "etcdserver: permission denied",
        "etcdserver: authentication is not enabled", "etcdserver: mvcc: database space exceeded",
        NULL};
    struct link *l = world_link(w, method);
    uint8_t how = take_byte(&w->in);

    if (l == NULL || l->id != link)
        return;
    if (how < 208) {
        world_say(w, l, m, NULL);
        return;
    }
    if (how < 224) {
        world_end(w, l, LH_ERR_UNAVAILABLE, refusals[how % 8]);
        return;
    }
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = lh_alloc(size + 1);
    (void)protobuf_c_message_pack(m, bytes);
    for (unsigned n = how % 4; n > 0 && size > 0; n--) {
        uint64_t at = take_number(&w->in, 2);
        bytes[at % size] ^= take_byte(&w->in);
    }
    ProtobufCMessage *damaged = protobuf_c_message_unpack(m->descriptor, NULL, size, bytes);
    free(bytes);
    if (damaged == NULL) {
        world_end(w, l, LH_ERR_MALFORMED, "it cannot be read");
        return;
    }
    world_say(w, l, damaged, NULL);
    lh_wire_free(damaged);
}

static void answer_read(struct world *w, struct link *l, const ProtobufCMessage *m)
{
    const struct lh_etcd_refusal *refusal;
    struct lh_etcd_view v = view();
    ProtobufCMessage *to =
        l->method == LH_METHOD_ETCD_RANGE
            ? &lh_etcd_do_range(&store, &v, (const Etcdserverpb__RangeRequest *)m, &refusal)->base
            : &lh_etcd_do_txn(&store, &v, (const Etcdserverpb__TxnRequest *)m, &refusal)->base;

    if (refusal != NULL) {
        world_end(w, l, refusal->error, refusal->text);
        return;
    }
    reply(w, l->id, l->method, to);
    lh_wire_free(to);
}

/* The next change that the watch has not shown. */
static bool show_change(struct world *w)
{
    size_t first = lh_etcd_store_change(&store, shown + 1), count = 0;
    Etcdserverpb__WatchResponse to = ETCDSERVERPB__WATCH_RESPONSE__INIT;
    Etcdserverpb__Event events[256], *list[256];
    Etcdserverpb__KeyValue values[256];

    if (first == store.change_count)
        return false;
    shown = store.changes[first]->seen.mod_revision;
    for (size_t i = first; i < store.change_count && count < 256; i++, count++) {
        const struct lh_sim_etcd_record *seen = &store.changes[i]->seen;
        if (seen->mod_revision != shown)
            break;
        etcdserverpb__event__init(&events[count]);
        etcdserverpb__key_value__init(&values[count]);
        list[count] = &events[count];
        events[count].kv = &values[count];
        events[count].type = seen->version == 0 ? ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE
                                                : ETCDSERVERPB__EVENT__EVENT_TYPE__PUT;
        values[count].key = (ProtobufCBinaryData){seen->key_size, (uint8_t *)seen->key};
        values[count].value = (ProtobufCBinaryData){seen->value_size, (uint8_t *)seen->value};
        values[count].mod_revision = seen->mod_revision;
    }
    to.n_events = count;
    to.events = list;
    reply(w, watching, LH_METHOD_ETCD_WATCH, &to.base);
    return true;
}

static void answer(struct world *w, struct link *l, const ProtobufCMessage *m)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__CompactionResponse compacted = ETCDSERVERPB__COMPACTION_RESPONSE__INIT;
    Etcdserverpb__StatusResponse status = ETCDSERVERPB__STATUS_RESPONSE__INIT;
    Etcdserverpb__AuthenticateResponse who = ETCDSERVERPB__AUTHENTICATE_RESPONSE__INIT;
    const Etcdserverpb__WatchRequest *watch = (const Etcdserverpb__WatchRequest *)m;

    if ((l->id & LH_LINK_SERVED) != 0)
        return;
    header.revision = store.revision;
    switch (l->method) {
    case LH_METHOD_ETCD_RANGE:
    case LH_METHOD_ETCD_TXN:
        answer_read(w, l, m);
        break;
    case LH_METHOD_ETCD_WATCH:
        watching = l->id;
        shown = watch->create_request == NULL ? 0 : watch->create_request->start_revision - 1;
        break;
    case LH_METHOD_ETCD_COMPACT:
        compacted.header = &header;
        reply(w, l->id, l->method, &compacted.base);
        break;
    case LH_METHOD_ETCD_STATUS:
        status.header = &header;
        status.leader = 1;
        reply(w, l->id, l->method, &status.base);
        break;
    case LH_METHOD_ETCD_AUTHENTICATE:
        who.header = &header;
        who.token = (char *)"t";
        reply(w, l->id, l->method, &who.base);
        break;
    default: /* another master, which hangs */
        break;
    }
}

/* ---- The core. */

/* What a copy of a store begins with. */
static void fill(struct lh_reigns *r)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    struct lh_change *pairs = lh_alloc(sizeof *pairs);

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)"c";
    record.master_term = record.next_file = record.next_chunk = 7;
    pairs->key_size = 1;
    pairs->key = lh_alloc(1);
    pairs->key[0] = 'M';
    pairs->value_size = (uint32_t)protobuf_c_message_get_packed_size(&record.base);
    pairs->value = lh_alloc(pairs->value_size);
    (void)protobuf_c_message_pack(&record.base, pairs->value);
    lh_reigns_fill(r, pairs, 1, record.master_term);
}

static void start(struct world *w, struct lh_core *core)
{
    struct lh_reign_config config = {.id = "m1",
        .address = "m1:1",
        .prefix = PREFIX,
        .members = {"e1:1", "e2:1"},
        .member_count = 2,
        .reign_term = lh_seconds(2),
        .elsewhere = "lmdb:/d"};
    char text[512];

    config.master = lh_master_config_default();
    config.master.seed = w->starts;
    if ((w->small & 1) != 0) {
#define X(name, preset, least, what) config.name = least;
        LH_REIGN_COUNTS(X)
#undef X
    }
    if ((w->small & 2) != 0)
        config.user = config.password = "u";
    config.task = (enum lh_reign_task)((w->small >> 2) % 3);
    if (config.task == LH_REIGN_TAKE)
        config.even_if_moved_to = "";
    lh_reign_config_fill(&config);
    LH_ASSERT(lh_reign_config_check(&config, text, sizeof text) == LH_OK);
    struct lh_reigns *r = lh_reigns_create(&config);
    if (config.task == LH_REIGN_FILL)
        fill(r);
    *core = lh_reigns_core(r);
}

static void check(void *self)
{
    lh_reigns_check(self);
}

static void destroy(void *self)
{
    lh_reigns_destroy(self);
}

static void completed(struct world *w, void *call, int error)
{
    (void)w;
    (void)call;
    (void)error;
}

/* ---- Others who write. */

static LeaseholdStored__Head *read_head(void)
{
    struct lh_etcd_range range = {(const uint8_t *)PREFIX "head", NULL, strlen(PREFIX "head"), 0};
    size_t at = lh_etcd_store_first(&store, &range);
    const struct lh_sim_etcd_record *now =
        at < store.count ? lh_etcd_line_at(store.lines[at], store.revision) : NULL;

    if (now == NULL || now->key_size != range.key_size ||
        memcmp(now->key, range.key, range.key_size) != 0)
        return NULL;
    return leasehold_stored__head__unpack(NULL, now->value_size, now->value);
}

/* The next write of another master, as it would be but for a field or two. */
static void write_head(struct world *w, unsigned how)
{
    LeaseholdStored__Head *last = read_head(), head = LEASEHOLD_STORED__HEAD__INIT;
    LeaseholdStored__Settings settings = LEASEHOLD_STORED__SETTINGS__INIT;
    struct lh_master_config config = lh_master_config_default();
    uint8_t bytes[256];

    settings.drift_ppm = config.drift_ppm;
    settings.session_term_ns = config.session_term.ns;
    settings.chunk_term_ns = config.chunk_term.ns;
    head.settings = &settings;
    head.format = 1;
    head.reign = head.number = head.start = 1;
    head.master_id = head.address = (char *)"m2";
    head.reign_term_ns = lh_seconds(2).ns;
    if (last != NULL && (how & 1) != 0) { /* of the same reign */
        head.reign = last->reign;
        head.number = last->number + 1;
        head.start = last->start;
    } else if (last != NULL) {
        head.reign = last->reign + 1;
        head.follows = last->number;
    }
    if ((how & 2) != 0)
        head.state = take_byte(&w->in) % 5;
    if ((how & 4) != 0)
        head.pieces = take_byte(&w->in) % 4;
    if ((how & 8) != 0)
        *((how & 1) != 0 ? &head.number : &head.reign) = UINT64_MAX >> take_byte(&w->in) % 64;
    put(PREFIX "head", strlen(PREFIX "head"), bytes, leasehold_stored__head__pack(&head, bytes));
    if (last != NULL)
        leasehold_stored__head__free_unpacked(last, NULL);
}

/* A record of any kind, under a name of its kind. */
static void write_record(struct world *w)
{
    static const struct {
        const char *name;
        size_t room; /* behind it */
        const ProtobufCMessageDescriptor *type;
    } kinds[] = {
        {"head", 0, &leasehold_stored__head__descriptor},
        {"pieces/\0\0\0\0\0\0\0", 1, &leasehold_stored__piece__descriptor},
        {"records/", 2, &leasehold_stored__master_record__descriptor},
        {"map/M", 0, &leasehold_stored__master__descriptor},
        {"map/f\0\0\0\0\0\0\0", 1, &leasehold_stored__file__descriptor},
        {"map/q/", 1, &leasehold_stored__policy__descriptor},
    };
    static const size_t sizes[] = {4, 14, 8, 5, 12, 6};
    size_t kind = take_byte(&w->in) % (sizeof kinds / sizeof kinds[0]);
    uint8_t key[64] = PREFIX;
    size_t size = strlen(PREFIX);

    memcpy(key + size, kinds[kind].name, sizes[kind]);
    size += sizes[kind];
    for (size_t i = 0; i < kinds[kind].room; i++)
        key[size++] = take_byte(&w->in);
    ProtobufCMessage *m = make_message(&w->said, kinds[kind].type, &w->in);
    size_t value_size = protobuf_c_message_get_packed_size(m);
    uint8_t *value = lh_alloc(value_size + 1);
    (void)protobuf_c_message_pack(m, value);
    put(key, size, value, value_size);
    free(value);
    lh_wire_free(m);
}

static void damage(struct world *w)
{
    uint8_t which = take_byte(&w->in), bytes[4096];
    uint64_t at = take_number(&w->in, 2);
    const struct lh_sim_etcd_record *now =
        store.count == 0 ? NULL : lh_etcd_line_at(store.lines[which % store.count], store.revision);

    if (now == NULL || now->value_size == 0 || now->value_size > sizeof bytes)
        return;
    memcpy(bytes, now->value, now->value_size);
    bytes[at % now->value_size] ^= take_byte(&w->in);
    uint8_t key[256];
    size_t key_size = now->key_size < sizeof key ? now->key_size : sizeof key;
    memcpy(key, now->key, key_size);
    put(key, key_size, bytes, now->value_size);
}

static void drop(struct world *w)
{
    uint8_t which = take_byte(&w->in);

    if (store.count == 0)
        return;
    const struct lh_sim_etcd_record *last =
        lh_etcd_line_at(store.lines[which % store.count], store.revision);
    if (last == NULL)
        return;
    struct lh_etcd_range range = {last->key, NULL, last->key_size, 0};
    if (lh_etcd_store_delete(&store, store.revision + 1, &range) > 0)
        store.revision++;
}

/* A commit of the acting master's. */
static void ask(struct world *w, unsigned what)
{
    struct link *l =
        world_open(w, (what & 1) != 0 ? LH_METHOD_SET_POLICY : LH_METHOD_MASTERS, "peer:1");
    Leasehold__SetPolicyRequest policy = LEASEHOLD__SET_POLICY_REQUEST__INIT;
    Leasehold__MastersRequest masters = LEASEHOLD__MASTERS_REQUEST__INIT;
    Leasehold__Policy of = LEASEHOLD__POLICY__INIT;

    if (l == NULL)
        return;
    of.prefix = (char *)((what & 2) != 0 ? "/a" : "/b");
    of.no_recall = true;
    policy.policy = &of;
    world_say(w, l, (what & 1) != 0 ? &policy.base : &masters.base, NULL);
}

static void usual(struct world *w, unsigned what)
{
    switch (what % 8) {
    case 0:
        ask(w, what / 8);
        break;
    case 1:
        write_head(w, what / 8);
        break;
    case 2:
        write_record(w);
        break;
    case 3:
        damage(w);
        break;
    case 4:
        drop(w);
        break;
    default:
        if (watching != 0 && show_change(w) && what % 8 > 5)
            while (show_change(w) && !w->stopped)
                ;
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct part part = {.first = LH_METHOD_SESSION,
        .last = LH_METHOD_LIST_POLICIES,
        .start = start,
        .check = check,
        .destroy = destroy,
        .usual = usual,
        .answer = answer,
        .completed = completed};
    struct world *w = lh_alloc(sizeof *w);

    lh_etcd_store_init(&store);
    watching = 0;
    shown = 0;
    world_run(w, &part, data, size);
    lh_etcd_store_deinit(&store);
    free(w);
    return 0;
}
