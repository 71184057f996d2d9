/* The nodes: what a main.c does for each core, done by the world. */
#include "sim/cluster/cluster.h"

#include "sim/cluster/internal.h"
#include "sim/cluster/stranger.h"
#include "sim/world/disk.h"

#include "lease/promises.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct lh_sim_cluster_config lh_sim_cluster_config_default(uint64_t seed)
{
    struct lh_sim_cluster_config config = {
        .world = lh_sim_config_default(seed),
        .master = lh_master_config_default(),
        .masters = 1,
        .etcd = lh_sim_etcd_config_default(),
        .servers = 3,
        .clients = 1,
    };

    config.master.seed = seed;
    config.master.chunk_size = 64u << 10;
    config.master.on_primary_loss = LH_LOSS_WAIT;
    config.master.trash_retention = lh_nanoseconds(0);
    config.master.balance = false;
    config.server.scrub_period = LH_DURATION_FOREVER;
    return config;
}

/* ---- The master ---- */

static uint64_t stored_term(struct lh_sim_node *node)
{
    uint64_t term = 0;

    for (size_t i = 0; i < lh_sim_store_count(node); i++) {
        const struct lh_sim_pair *p = lh_sim_store_pair(node, i);
        if (p->key_size != 1 || memcmp(p->key, "M", 1) != 0)
            continue;
        LeaseholdStored__Master *record =
            leasehold_stored__master__unpack(NULL, p->value_size, p->value);
        if (record != NULL)
            term = record->master_term;
        leasehold_stored__master__free_unpacked(record, NULL);
    }
    return term;
}

void lh_sim_master_restored(struct lh_sim_cluster *c)
{
    c->config.master.restored = true;
    c->masters[0].restored_term = stored_term(c->masters[0].node);
}

const struct lh_master_config *lh_sim_running_config(
    const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    size_t i = 0;

    while (c->masters[i].node != node)
        i++;
    return &c->masters[i].running;
}

void lh_sim_remember(
    struct master *self, const struct lh_sim_node *node, struct lh_master_config *config)
{
    char place[LH_PROMISES_PLACE];

    if (self->promises == NULL)
        self->promises = lh_alloc(lh_promises_size(LH_SIM_PROMISES));
    snprintf(place, sizeof place, "boot %" PRIu64, lh_sim_boot(node));
    lh_promises_open(self->promises, LH_SIM_PROMISES, place);
    config->promises = self->promises;
}

void lh_sim_give_capabilities(
    struct lh_sim_cluster *c, const struct lh_sim_node *node, struct lh_master_config *config)
{
    struct lh_prng random = {lh_mix64(c->config.world.seed ^ lh_sim_incarnation(node))};

    for (const char *name = lh_sim_name(node); *name != '\0'; name++)
        random.state = lh_mix64(random.state ^ (uint8_t)*name);
    config->capabilities = c->config.capabilities;
    for (size_t i = 0; i < sizeof config->capability_secret; i++)
        config->capability_secret[i] = (uint8_t)lh_prng_next(&random);
}

uint64_t lh_sim_master_seed(const struct lh_sim_cluster *c, uint64_t process)
{
    return lh_mix64(c->config.master.seed ^ process);
}

static bool master_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct master *self = arg;
    struct lh_sim_cluster *c = self->cluster;
    char text[512];

    if (stored_term(node) > self->restored_term)
        c->config.master.restored = false;
    int error = lh_master_config_check(&c->config.master, text, sizeof text);
    LH_ASSERT(error == LH_OK);
    self->running = c->config.master;
    /* Until something is stored its cluster has not begun: it is drawn as the first time. */
    self->running.seed =
        lh_sim_master_seed(c, lh_sim_store_count(node) == 0 ? 1 : lh_sim_incarnation(node));
    lh_sim_give_capabilities(c, node, &self->running);
    lh_sim_remember(self, node, &self->running);
    struct lh_master *m = lh_master_create(&self->running);
    for (size_t i = 0; i < lh_sim_store_count(node); i++) {
        const struct lh_sim_pair *p = lh_sim_store_pair(node, i);
        error = lh_master_load(m, p->key, p->key_size, p->value, p->value_size, text, sizeof text);
        if (error != LH_OK) {
            lh_sim_fail(c->sim, "check", 0, "the master cannot load its store: %s", text);
            lh_master_destroy(m);
            return false;
        }
    }
    error = lh_master_loaded(m, text, sizeof text);
    if (error != LH_OK) {
        lh_sim_fail(c->sim, "check", 0, "the master cannot load its store: %s", text);
        lh_master_destroy(m);
        return false;
    }
    *core = lh_master_core(m);
    return true;
}

static void master_check(void *arg, void *self)
{
    (void)arg;
    lh_master_check(self);
}

static void master_destroy(void *arg, void *self)
{
    (void)arg;
    lh_master_destroy(self);
}

static const struct lh_sim_role master_role = {
    .start = master_start, .check = master_check, .destroy = master_destroy};

/* ---- Chunkservers ---- */

/* A disk without a limit reports this much. */
#define ROOMY (UINT64_C(1) << 40)

static uint64_t capacity_of(const struct lh_sim_node *node)
{
    uint64_t capacity = lh_sim_disk_capacity_of(node);

    return capacity < ROOMY ? capacity : ROOMY;
}

static uint64_t free_of(const struct lh_sim_node *node)
{
    uint64_t capacity = capacity_of(node), used = lh_sim_disk_used(node);

    return used < capacity ? capacity - used : 0;
}

static bool server_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct server *s = arg;
    struct lh_chunkserver_config config = s->cluster->config.server;
    const struct lh_sim_pair *id =
        lh_sim_store_get(node, LH_CLUSTER_ID_KEY, strlen(LH_CLUSTER_ID_KEY));
    const struct lh_sim_pair *term =
        lh_sim_store_get(node, LH_MASTER_TERM_KEY, strlen(LH_MASTER_TERM_KEY));
    const struct lh_sim_pair *scrub = lh_sim_store_get(node, LH_SCRUB_KEY, strlen(LH_SCRUB_KEY));
    char cluster_id[256] = "", digits[48] = "", scrub_position[LH_SCRUB_TEXT_MAX + 1] = "";
    uint64_t boot = lh_sim_memory(node);
    uint64_t *files;

    if (s->cluster->shared.etcd != NULL)
        lh_sim_known_cluster(s->cluster, cluster_id);
    if (id != NULL) {
        LH_ASSERT(id->value_size < sizeof cluster_id);
        memset(cluster_id, 0, sizeof cluster_id);
        memcpy(cluster_id, id->value, id->value_size);
    }
    if (s->prefix != LH_SIM_PREFIX_OWN)
        (void)snprintf(cluster_id, sizeof cluster_id, "%s", LH_SIM_OTHER_CLUSTER);
    if (term != NULL) {
        LH_ASSERT(term->value_size < sizeof digits);
        memcpy(digits, term->value, term->value_size);
    }
    if (scrub != NULL) {
        LH_ASSERT(scrub->value_size < sizeof scrub_position);
        memcpy(scrub_position, scrub->value, scrub->value_size);
    }
    config.scrub_position = scrub_position;
    config.capabilities = s->cluster->config.capabilities;
    lh_cs_term_read(digits, &config.master_term, &config.reign_name);
    config.server_id = s->name;
    config.address = s->name;
    config.failure_domain = s->name;
    config.machine_id = s->machine;
    config.cluster_id = cluster_id;
    config.incarnation = lh_sim_stored_incarnation(node);
    config.process = lh_sim_incarnation(node); /* the world does not copy data directories */
    config.read_only = config.incarnation != config.process;
    memcpy(config.boot_id, &boot, sizeof boot);
    config.masters = s->cluster->master_names;
    config.master_count = s->cluster->config.masters;
    lh_sim_disk_sync_all(node);
    config.chunk_count = lh_sim_files(node, &files);
    config.chunks = files;
    config.capacity_bytes = capacity_of(node);
    config.free_bytes = free_of(node);
    *core = lh_chunkserver_core(lh_chunkserver_create(&config));
    free(files);
    return true;
}

static void server_check(void *arg, void *self)
{
    (void)arg;
    lh_chunkserver_check(self);
}

static void server_destroy(void *arg, void *self)
{
    (void)arg;
    lh_chunkserver_destroy(self);
}

static const struct lh_sim_role server_role = {
    .start = server_start, .check = server_check, .destroy = server_destroy};

/* Once a second, as main.c does. */
static void measure_space(void *arg)
{
    struct lh_sim_cluster *c = arg;

    for (size_t i = 0; i < c->config.servers; i++) {
        struct lh_sim_node *node = c->server_nodes[i];
        if (lh_sim_is_up(node) && !lh_sim_is_paused(node))
            lh_chunkserver_set_space(lh_sim_core(node), capacity_of(node), free_of(node));
    }
    lh_sim_at(c->sim, lh_seconds(1), measure_space, c);
}

const struct lh_chunkserver *lh_sim_chunkserver(const struct lh_sim_node *node)
{
    return lh_sim_core(node);
}

bool lh_sim_may_act(const struct lh_sim_node *node, uint64_t chunk)
{
    const struct lh_chunkserver *cs = lh_sim_core(node);
    uint64_t version;

    return cs != NULL && lh_chunkserver_may_act(cs, chunk, lh_sim_clock(node), &version);
}

/* ---- All together ---- */

struct lh_sim_cluster *lh_sim_cluster_create(const struct lh_sim_cluster_config *config)
{
    struct lh_sim_cluster *c = lh_alloc(sizeof *c);
    char name[16];

    c->config = *config;
    c->sim = lh_sim_create(&config->world);
    c->masters = lh_alloc_array(config->masters, sizeof *c->masters);
    c->master_names = lh_alloc_array(config->masters, sizeof(char *));
    for (size_t i = 0; i < config->masters; i++) {
        struct master *m = &c->masters[i];
        m->cluster = c;
        (void)snprintf(m->name, sizeof m->name, i == 0 ? "m" : "m%u", (unsigned)(i + 1));
        c->master_names[i] = m->name;
        m->node = lh_sim_add(
            c->sim, m->name, config->etcd_members > 0 ? &lh_sim_reigns_role : &master_role, m);
    }
    c->servers = lh_alloc_array(config->servers, sizeof *c->servers);
    c->server_nodes = lh_alloc_array(config->servers, sizeof(struct lh_sim_node *));
    for (size_t i = 0; i < config->servers; i++) {
        struct server *s = &c->servers[i];
        s->cluster = c;
        (void)snprintf(s->name, sizeof s->name, "cs%u", (unsigned)(i + 1));
        (void)snprintf(s->machine, sizeof s->machine, "machine-%u", (unsigned)(i + 1));
        c->server_nodes[i] = lh_sim_add(c->sim, s->name, &server_role, s);
    }
    c->client_nodes = lh_alloc_array(config->clients, sizeof(struct lh_sim_node *));
    for (size_t i = 0; i < config->clients; i++) {
        (void)snprintf(name, sizeof name, "c%u", (unsigned)(i + 1));
        c->client_nodes[i] = lh_sim_add(c->sim, name, &lh_sim_client_role, c);
    }
    c->strangers = lh_alloc_array(config->strangers, sizeof(struct lh_sim_stranger *));
    for (size_t i = 0; i < config->strangers; i++) {
        (void)snprintf(name, sizeof name, "x%u", (unsigned)(i + 1));
        c->strangers[i] = lh_sim_stranger_create(c, (uint32_t)(i + 1));
        (void)lh_sim_add(c->sim, name, &lh_sim_stranger_role, c->strangers[i]);
    }
    lh_sim_roles_init(c);
    if (config->etcd_members > 0)
        lh_sim_shared_init(c);
    lh_sim_watchers_init(c);
    measure_space(c);
    return c;
}

void lh_sim_cluster_destroy(struct lh_sim_cluster *c)
{
    lh_sim_destroy(c->sim);
    lh_sim_shared_deinit(c);
    lh_sim_programs_deinit(c);
    lh_sim_guard_deinit(c);
    lh_sim_requests_deinit(c);
    lh_sim_questions_deinit(c);
    lh_sim_roles_deinit(c);
    for (size_t i = 0; i < c->config.strangers; i++)
        lh_sim_stranger_destroy(c->strangers[i]);
    free(c->strangers);
    for (size_t i = 0; i < c->config.masters; i++)
        free(c->masters[i].promises);
    free(c->masters);
    free(c->master_names);
    free(c->servers);
    free(c->server_nodes);
    free(c->client_nodes);
    free(c);
}

struct lh_sim *lh_sim_world(struct lh_sim_cluster *c)
{
    return c->sim;
}

struct lh_sim_node *lh_sim_master(struct lh_sim_cluster *c)
{
    struct lh_sim_node *best = c->masters[0].node;
    struct lh_reign_state state;
    uint64_t reign = 0;

    for (size_t i = 0; i < c->config.masters; i++)
        if (lh_sim_reign_of(c, c->masters[i].node, &state) && state.phase == LH_REIGN_ACTING &&
            state.reign > reign) {
            best = c->masters[i].node;
            reign = state.reign;
        }
    return best;
}

struct lh_sim_node *lh_sim_store(struct lh_sim_cluster *c)
{
    return c->shared.store != NULL ? c->shared.store : c->masters[0].node;
}

const struct lh_master *lh_sim_acting_core(struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    struct lh_reign_state state;

    if (c->shared.store == NULL)
        return lh_sim_core(node);
    return lh_sim_reign_of(c, node, &state) && state.phase == LH_REIGN_ACTING
               ? lh_reigns_master(lh_sim_core(node))
               : NULL;
}

struct lh_sim_node *lh_sim_master_at(struct lh_sim_cluster *c, size_t number)
{
    LH_ASSERT(number >= 1 && number <= c->config.masters);
    return c->masters[number - 1].node;
}

struct lh_sim_node *lh_sim_server(struct lh_sim_cluster *c, size_t number)
{
    LH_ASSERT(number >= 1 && number <= c->config.servers);
    return c->server_nodes[number - 1];
}

struct lh_sim_node *lh_sim_client(struct lh_sim_cluster *c, size_t number)
{
    LH_ASSERT(number >= 1 && number <= c->config.clients);
    return c->client_nodes[number - 1];
}

size_t lh_sim_masters(const struct lh_sim_cluster *c)
{
    return c->config.masters;
}

size_t lh_sim_servers(const struct lh_sim_cluster *c)
{
    return c->config.servers;
}

size_t lh_sim_clients(const struct lh_sim_cluster *c)
{
    return c->config.clients;
}

size_t lh_sim_file_count(struct lh_sim_cluster *c)
{
    lh_sim_read_store(c);
    return c->file_count;
}

const char *lh_sim_file_path(const struct lh_sim_cluster *c, size_t index)
{
    LH_ASSERT(index < c->file_count);
    return c->files[index].path;
}

struct lh_master_config *lh_sim_master_config(struct lh_sim_cluster *c)
{
    return &c->config.master;
}

bool lh_sim_all_in_session(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < c->config.servers; i++) {
        const struct lh_sim_node *node = c->server_nodes[i];
        bool in_session = lh_sim_is_up(node) &&
                          lh_chunkserver_in_session(lh_sim_chunkserver(node), lh_sim_clock(node));
        if (!in_session && !lh_sim_is_scrapped(node) && !lh_sim_is_decommissioned(c, i + 1))
            return false;
    }
    return true;
}

static bool all_in_session(void *arg)
{
    return lh_sim_all_in_session(arg);
}

void lh_sim_start_all(struct lh_sim_cluster *c)
{
    for (size_t i = 0; i < lh_sim_node_count(c->sim); i++)
        if (!lh_sim_shared_rests(c, lh_sim_node(c->sim, i)))
            lh_sim_start(lh_sim_node(c->sim, i));
}

bool lh_sim_cluster_start(struct lh_sim_cluster *c, struct lh_duration bound)
{
    lh_sim_start_all(c);
    return lh_sim_run_until(c->sim, all_in_session, c, bound);
}

int lh_sim_create_file(
    struct lh_sim_cluster *c, const char *path, const struct lh_sim_file_options *options)
{
    Leasehold__CreateRequest request = LEASEHOLD__CREATE_REQUEST__INIT;

    request.path = (char *)(uintptr_t)path;
    if (options != NULL) {
        request.durability =
            options->synced ? LEASEHOLD__DURABILITY__SYNCED : LEASEHOLD__DURABILITY__BUFFERED;
        request.replication = options->replication;
        request.min_replicas = options->min_replicas;
        request.chunk_size = options->chunk_size;
        request.on_primary_loss = (Leasehold__OnPrimaryLoss)options->on_loss;
    }
    return lh_sim_ask(c, 1, LH_METHOD_CREATE, &request.base, lh_seconds(10), NULL);
}
