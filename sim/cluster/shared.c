/* Masters that share a store in etcd. Observers and questions look at a store as one master has it:
 * here is one, of a node without a process, that takes every commit as soon as it counts. */
#include "sim/cluster/internal.h"
#include "sim/world/disk.h"

#include "proto/stored.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "cluster/"

static const char *const prefixes[] = {PREFIX, "another/", LH_SIM_NO_PREFIX};

/* ---- The masters. ---- */

static void say_where(const struct lh_sim_cluster *c, struct lh_reign_config *config)
{
    char text[512];

    config->member_count = (uint32_t)lh_sim_etcd_members(c->shared.etcd);
    for (uint32_t i = 0; i < config->member_count; i++)
        config->members[i] = lh_sim_name(lh_sim_etcd_member(c->shared.etcd, i));
    lh_reign_config_fill(config);
    int error = lh_reign_config_check(config, text, sizeof text);
    LH_ASSERT(error == LH_OK);
}

void lh_sim_reign_config(
    const struct master *m, enum lh_sim_prefix prefix, struct lh_reign_config *config)
{
    *config = m->cluster->config.reigns;
    config->master = m->running;
    config->id = config->address = m->name;
    config->prefix = prefixes[prefix];
    say_where(m->cluster, config);
}

static bool reigns_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct master *self = arg;
    struct lh_sim_cluster *c = self->cluster;
    struct lh_reign_config config;

    self->running = c->config.master;
    self->running.seed = lh_prng_next(lh_sim_random(c->sim));
    lh_sim_remember(self, node, &self->running);
    lh_sim_give_capabilities(c, node, &self->running);
    self->runs_at = self->prefix;
    lh_sim_reign_config(self, self->runs_at, &config);
    config.process = self->process = lh_mix64(self->running.seed) | 1;
    *core = lh_reigns_core(lh_reigns_create(&config));
    return true;
}

static void reigns_check(void *arg, void *self)
{
    (void)arg;
    lh_reigns_check(self);
}

static void reigns_destroy(void *arg, void *self)
{
    (void)arg;
    lh_reigns_destroy(self);
}

const struct lh_sim_role lh_sim_reigns_role = {
    .start = reigns_start, .check = reigns_check, .destroy = reigns_destroy};

static struct master *master_of(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    for (size_t i = 0; i < c->config.masters; i++)
        if (c->masters[i].node == node)
            return &c->masters[i];
    return NULL;
}

bool lh_sim_reign_of(
    const struct lh_sim_cluster *c, const struct lh_sim_node *node, struct lh_reign_state *state)
{
    const void *core = lh_sim_core(node);
    const struct master *m = master_of(c, node);

    if (c->shared.etcd == NULL || core == NULL || m == NULL || m->prefix != LH_SIM_PREFIX_OWN)
        return false;
    lh_reigns_state(core, state);
    return true;
}

/* NULL: it is neither a master nor a chunkserver. */
static enum lh_sim_prefix *prefix_of(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    struct master *m = master_of(c, node);

    for (size_t i = 0; i < c->config.servers; i++)
        if (c->server_nodes[i] == node)
            return &c->servers[i].prefix;
    return m == NULL ? NULL : &m->prefix;
}

void lh_sim_set_prefix(
    struct lh_sim_cluster *c, const struct lh_sim_node *node, enum lh_sim_prefix prefix)
{
    enum lh_sim_prefix *of = prefix_of(c, node);

    if (of != NULL)
        *of = prefix;
}

bool lh_sim_is_foreign(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    return master_of(c, node) == NULL && *prefix_of(c, node) != LH_SIM_PREFIX_OWN;
}

bool lh_sim_mend_prefix(struct lh_sim_cluster *c, struct lh_sim_node *node)
{
    enum lh_sim_prefix *prefix = prefix_of(c, node);

    if (prefix == NULL || *prefix == LH_SIM_PREFIX_OWN)
        return false;
    if (lh_sim_is_up(node))
        lh_sim_crash(node);
    *prefix = LH_SIM_PREFIX_OWN;
    return true;
}

void lh_sim_mend_prefixes(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < lh_sim_node_count(c->sim); i++)
        (void)lh_sim_mend_prefix(c, lh_sim_node(c->sim, i));
}

/* ---- Who begins clusters (HA-13). ---- */

static bool has_begun(const struct beginner *b)
{
    char head[32];

    (void)snprintf(head, sizeof head, "%shead", prefixes[b->prefix]);
    return lh_sim_etcd_get(b->cluster->shared.etcd, head, strlen(head)) != NULL;
}

void lh_sim_known_cluster(const struct lh_sim_cluster *c, char id[LH_CLUSTER_ID_BYTES])
{
    uint64_t seed = c->config.master.seed;

    id[0] = 0;
    if (!c->config.newcomers)
        lh_master_draw_cluster(c->shared.etcd != NULL ? seed : lh_sim_master_seed(c, 1), id);
}

bool lh_sim_shared_rests(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    for (int i = 0; c->shared.etcd != NULL && i < LH_SIM_PREFIX_NONE; i++)
        if (c->shared.beginners[i].node == node)
            return has_begun(&c->shared.beginners[i]);
    return node == c->shared.store;
}

static bool beginner_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct beginner *self = arg;
    struct lh_sim_cluster *c = self->cluster;
    struct lh_reign_config config = c->config.reigns;
    const char *prefix = prefixes[self->prefix];
    config.task = LH_REIGN_INIT;
    config.master = c->config.master;
    if (self->prefix != LH_SIM_PREFIX_OWN)
        config.master.seed = lh_mix64(config.master.seed);
    config.id = config.address = lh_sim_name(node);
    config.prefix = prefix;
    say_where(c, &config);
    *core = lh_reigns_core(lh_reigns_create(&config));
    return true;
}

static const struct lh_sim_role beginner_role = {
    .start = beginner_start, .check = reigns_check, .destroy = reigns_destroy};

struct lh_sim_etcd *lh_sim_shared_etcd(const struct lh_sim_cluster *c)
{
    return c->shared.etcd;
}

/* ---- What they write. ---- */

static const uint8_t *behind(const char *what, const uint8_t *key, size_t size, size_t *rest)
{
    size_t n = strlen(what);

    if (size < n || memcmp(key, what, n) != 0)
        return NULL;
    *rest = size - n;
    return key + n;
}

static uint8_t *copy_of(const void *data, size_t size)
{
    uint8_t *copy = lh_alloc(size + 1);

    memcpy(copy, data, size);
    return copy;
}

static void add(struct lh_change **changes, size_t *count, size_t *capacity, const uint8_t *key,
    size_t key_size, const uint8_t *value, size_t value_size)
{
    LH_GROW(*changes, *capacity, *count + 1);
    (*changes)[(*count)++] = (struct lh_change){.key = copy_of(key, key_size),
        .key_size = (uint32_t)key_size,
        .value = value == NULL ? NULL : copy_of(value, value_size),
        .value_size = (uint32_t)value_size};
}

static void add_piece(struct lh_change **changes, size_t *count, size_t *capacity,
    const uint8_t *value, size_t value_size)
{
    LeaseholdStored__Piece *piece = leasehold_stored__piece__unpack(NULL, value_size, value);

    LH_ASSERT(piece != NULL);
    for (size_t i = 0; i < piece->n_changes; i++) {
        const LeaseholdStored__Change *c = piece->changes[i];
        add(changes, count, capacity, c->key.data, c->key.len, c->gone ? NULL : c->value.data,
            c->value.len);
    }
    leasehold_stored__piece__free_unpacked(piece, NULL);
}

/* What a transaction, or a store, says. */
struct copy {
    LeaseholdStored__Head *head;
    struct lh_change *changes;
    size_t count, capacity;
};

/* One key: into the list if it is of the map or a piece of a commit. */
static void read_key(
    struct copy *to, const uint8_t *key, size_t key_size, const uint8_t *value, size_t value_size)
{
    size_t size;
    const uint8_t *rest = behind(PREFIX "map/", key, key_size, &size);

    if (rest != NULL)
        add(&to->changes, &to->count, &to->capacity, rest, size, value, value_size);
    else if (value != NULL && behind(PREFIX "pieces/", key, key_size, &size) != NULL)
        add_piece(&to->changes, &to->count, &to->capacity, value, value_size);
    else if (value != NULL && behind(PREFIX "head", key, key_size, &size) != NULL)
        to->head = leasehold_stored__head__unpack(NULL, value_size, value);
}

/* What masters say, not what etcd shows of it: a master removes a pair also when a hand has deleted
 * it before, and of that etcd shows nothing. They remove pairs one by one. */
static void read_operation(struct shared *s, const Etcdserverpb__RequestOp *op, struct copy *to)
{
    size_t size;

    if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
        const ProtobufCBinaryData *gone = &op->request_delete_range->key;
        read_key(to, gone->data, gone->len, NULL, 0);
    }
    if (op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT)
        return;
    const ProtobufCBinaryData *key = &op->request_put->key, *value = &op->request_put->value;
    if (behind(PREFIX "pieces/", key->data, key->len, &size) != NULL)
        add_piece(&s->pieces, &s->piece_count, &s->piece_capacity, value->data, value->len);
    else
        read_key(to, key->data, key->len, value->data, value->len);
}

const struct lh_change *lh_sim_shared_commit(const struct lh_sim_cluster *c, size_t *count)
{
    *count = c->shared.change_count;
    return c->shared.changes;
}

void lh_sim_shared_head(const struct lh_sim_cluster *c, uint64_t *reign, uint64_t *number)
{
    *reign = c->shared.reign;
    *number = c->shared.number;
}

static void take(struct lh_sim_cluster *c, struct lh_change *changes, size_t count)
{
    /* The store keeps keys and values: what is told needs its own. */
    struct lh_change *copies = NULL;
    size_t copied = 0, capacity = 0;

    for (size_t i = 0; i < count; i++)
        add(&copies, &copied, &capacity, changes[i].key, changes[i].key_size, changes[i].value,
            changes[i].value_size);
    c->shared.changes = copies;
    c->shared.change_count = copied;
    lh_sim_store_change(c->shared.store, changes, count);
    c->shared.changes = NULL;
    c->shared.change_count = 0;
    lh_changes_free(copies, copied);
}

static void forget_pieces(struct shared *s)
{
    lh_changes_free(s->pieces, s->piece_count);
    s->pieces = NULL;
    s->piece_count = s->piece_capacity = 0;
}

static void take_pieces(struct lh_sim_cluster *c)
{
    struct shared *s = &c->shared;

    take(c, s->pieces, s->piece_count);
    s->piece_count = 0; /* their keys and values are taken over */
    forget_pieces(s);
}

static void applied(void *arg, const struct lh_sim_etcd_applied *txn)
{
    struct lh_sim_cluster *c = arg;
    struct shared *s = &c->shared;
    struct copy said = {0};

    for (size_t i = 0; txn->succeeded && i < txn->request->n_success; i++)
        read_operation(s, txn->request->success[i], &said);
    if (said.head == NULL) {
        lh_changes_free(said.changes, said.count);
        return; /* a master's record */
    }
    s->reign = said.head->reign;
    s->number = said.head->number;
    if (said.head->number == 1 && said.head->pieces == 0)
        forget_pieces(s);
    if (said.head->pieces > 0 && s->named == 0)
        take_pieces(c);
    s->named = said.head->pieces;
    leasehold_stored__head__free_unpacked(said.head, NULL);
    if (said.count > 0)
        take(c, said.changes, said.count);
    free(said.changes);
}

bool lh_sim_shared_restored(const struct lh_sim_cluster *c)
{
    return c->shared.restored;
}

/* ---- An older copy. ---- */

static void copy_one(void *arg, const struct lh_sim_etcd_record *r)
{
    read_key(arg, r->key, r->key_size, r->value, r->value_size);
}

/* What the store has goes first; a piece that was put and not named counts here, too: nobody looks
 * closely any more. */
static void restored(void *arg, int64_t revision)
{
    struct lh_sim_cluster *c = arg;
    struct shared *s = &c->shared;
    struct copy copy = {0};

    (void)revision;
    s->restored = true;
    for (size_t i = 0; i < lh_sim_store_count(s->store); i++) {
        const struct lh_sim_pair *p = lh_sim_store_pair(s->store, i);
        add(&copy.changes, &copy.count, &copy.capacity, p->key, p->key_size, NULL, 0);
    }
    lh_sim_etcd_each(s->etcd, PREFIX, strlen(PREFIX), copy_one, &copy);
    take(c, copy.changes, copy.count);
    free(copy.changes);
    forget_pieces(s);
    s->reign = copy.head == NULL ? 0 : copy.head->reign;
    s->number = copy.head == NULL ? 0 : copy.head->number;
    s->named = copy.head == NULL ? 0 : copy.head->pieces;
    if (copy.head != NULL)
        leasehold_stored__head__free_unpacked(copy.head, NULL);
}

static bool never(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    (void)arg;
    (void)node;
    (void)core;
    return false;
}

void lh_sim_shared_init(struct lh_sim_cluster *c)
{
    struct shared *s = &c->shared;
    static const struct lh_sim_role nothing = {.start = never};

    c->config.etcd.members = c->config.etcd_members;
    s->etcd = lh_sim_etcd_create(c->sim, &c->config.etcd);
    s->store = lh_sim_add(c->sim, "store", &nothing, NULL);
    for (int i = 0; i < LH_SIM_PREFIX_NONE; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "init%d", i + 1);
        s->beginners[i] = (struct beginner){.cluster = c, .prefix = (enum lh_sim_prefix)i};
        s->beginners[i].node = lh_sim_add(c->sim, name, &beginner_role, &s->beginners[i]);
    }
    lh_sim_etcd_observe(s->etcd,
        &(struct lh_sim_etcd_observer){.arg = c, .applied = applied, .restored = restored});
}

void lh_sim_shared_deinit(struct lh_sim_cluster *c)
{
    if (c->shared.etcd == NULL)
        return;
    lh_changes_free(c->shared.pieces, c->shared.piece_count);
    lh_sim_etcd_destroy(c->shared.etcd);
}
