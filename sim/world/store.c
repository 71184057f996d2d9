/* The metadata store: commits take effect whole, in order, and are durable when they complete. A
 * crash leaves those under way done up to some point and not done from there on. */
#include "sim/world/disk.h"
#include "sim/world/internal.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

struct commit {
    struct commit *next;
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
    bool dropped;
    bool due;     /* its time has come, but the disk is stalled or an earlier commit is not done */
    bool starved; /* and its process was told that there is no room or no memory for it */
};

static int compare(const struct lh_sim_pair *pair, const void *key, size_t size)
{
    size_t common = pair->key_size < size ? pair->key_size : size;
    int order = memcmp(pair->key, key, common);

    return order != 0 ? order : (pair->key_size > size) - (pair->key_size < size);
}

/* The first pair whose key is not below `key`. */
static size_t position(const struct store *s, const void *key, size_t size)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&s->pairs[middle], key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void apply(struct store *s, struct lh_change *c)
{
    size_t i = position(s, c->key, c->key_size);
    bool there = i < s->count && compare(&s->pairs[i], c->key, c->key_size) == 0;

    if (there) {
        free(s->pairs[i].key);
        free(s->pairs[i].value);
        if (c->value == NULL) {
            memmove(&s->pairs[i], &s->pairs[i + 1], (--s->count - i) * sizeof *s->pairs);
            return;
        }
    } else {
        if (c->value == NULL)
            return;
        LH_GROW(s->pairs, s->capacity, s->count + 1);
        memmove(&s->pairs[i + 1], &s->pairs[i], (s->count++ - i) * sizeof *s->pairs);
    }
    s->pairs[i] = (struct lh_sim_pair){
        .key = c->key, .key_size = c->key_size, .value = c->value, .value_size = c->value_size};
    c->key = c->value = NULL; /* they are the store's now */
}

static void free_commit(struct commit *c)
{
    lh_changes_free(c->changes, c->count);
    free(c);
}

static void schedule(struct lh_sim_node *node, struct commit *c, uint64_t at)
{
    c->due = false;
    lh_sim_schedule(node->sim, at,
        (struct lh_sim_event){
            .kind = LH_SIM_EV_COMMIT, .node = node->index, .life = node->life, .about = c});
}

static uint64_t duration(struct lh_sim_node *node)
{
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];

    return lh_sim_draw(random, &node->sim->config.commit) +
           lh_sim_draw_tail(random, &node->sim->config.disk_tail) + node->disk.extra;
}

void lh_sim_store_go_on(struct lh_sim_node *node)
{
    struct commit *first = node->store.first;

    if (first != NULL && first->due)
        schedule(node, first, node->sim->now + duration(node));
}

void lh_sim_store_submit(struct lh_sim_node *node, struct lh_effect *e)
{
    struct store *s = &node->store;
    struct commit *c = lh_alloc(sizeof *c);

    for (size_t i = 0; i < e->change_count; i++) /* what a real store could not take */
        LH_ASSERT(e->changes[i].value == NULL || e->changes[i].key_size <= LH_KEY_BYTES_MAX);
    *c = (struct commit){.ticket = e->ticket, .changes = e->changes, .count = e->change_count};
    e->changes = NULL;
    e->change_count = 0;
    if (s->last != NULL)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
    schedule(node, c, node->sim->now + duration(node));
}

static void take_effect(struct lh_sim_node *node, struct commit *c)
{
    node->store.version++;
    for (size_t i = 0; i < c->count; i++)
        apply(&node->store, &c->changes[i]);
    lh_sim_notify_committed(node);
}

void lh_sim_store_change(struct lh_sim_node *node, struct lh_change *changes, size_t count)
{
    take_effect(node, &(struct commit){.changes = changes, .count = count});
    for (size_t i = 0; i < count; i++) {
        free(changes[i].key); /* those that the store did not keep */
        free(changes[i].value);
    }
}

void lh_sim_store_done(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct lh_sim_node *node = sim->nodes[e->node];
    struct store *s = &node->store;
    struct commit *c = e->about;

    if (c->dropped) {
        free_commit(c);
        return;
    }
    if (node->disk.stalled || s->first != c) {
        c->due = true;
        return;
    }
    if (node->disk.starved && s->failed == LH_OK) {
        struct lh_input in = {
            .kind = LH_IN_PERSISTED, .ticket = c->ticket, .error = LH_ERR_SHORTAGE};
        bool news = !c->starved;
        c->due = c->starved = true;
        if (news)
            lh_sim_feed(node, &in, NULL);
        return;
    }
    s->first = c->next;
    if (s->first == NULL)
        s->last = NULL;
    else if (s->first->due)
        schedule(node, s->first, sim->now);
    /* After one that failed all later ones do (metastore.h). Whether the first of them has
     * taken effect nobody knows before the store is opened again. */
    if (s->failed != LH_OK) {
        s->fail_next = LH_OK;
    } else if (s->fail_next != LH_OK) {
        s->failed = s->fail_next;
        s->fail_next = LH_OK;
        if (lh_prng_below(&sim->streams[LH_SIM_DISK], 2) == 0)
            take_effect(node, c);
    } else {
        take_effect(node, c);
    }
    struct lh_input in = {.kind = LH_IN_PERSISTED, .ticket = c->ticket, .error = s->failed};
    free_commit(c);
    lh_sim_feed(node, &in, NULL);
}

void lh_sim_store_drop(struct lh_sim_node *node)
{
    struct store *s = &node->store;
    uint64_t count = 0;

    for (struct commit *c = s->first; c != NULL; c = c->next)
        count++;
    uint64_t done =
        s->failed != LH_OK ? 0 : lh_prng_below(&node->sim->streams[LH_SIM_DISK], count + 1);
    while (s->first != NULL) {
        struct commit *c = s->first;
        s->first = c->next;
        if (done > 0) {
            take_effect(node, c);
            done--;
        }
        c->dropped = true; /* its event frees it, if there is one */
        if (c->due)
            free_commit(c);
    }
    s->last = NULL;
    s->failed = LH_OK; /* the next process opens it again */
}

static void free_pairs(struct lh_sim_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
    free(pairs);
}

static struct lh_sim_pair *copy_pairs(const struct lh_sim_pair *from, size_t count)
{
    struct lh_sim_pair *to = lh_alloc_array(count, sizeof *to);

    for (size_t i = 0; i < count; i++) {
        to[i] = (struct lh_sim_pair){.key = lh_alloc(from[i].key_size),
            .key_size = from[i].key_size,
            .value = lh_alloc(from[i].value_size),
            .value_size = from[i].value_size};
        memcpy(to[i].key, from[i].key, from[i].key_size);
        if (from[i].value_size > 0)
            memcpy(to[i].value, from[i].value, from[i].value_size);
    }
    return to;
}

void lh_sim_store_wipe(struct lh_sim_node *node)
{
    struct store *s = &node->store;

    LH_ASSERT(!node->up);
    free_pairs(s->pairs, s->count);
    s->pairs = NULL;
    s->count = s->capacity = 0;
    s->version++;
}

void lh_sim_store_copy(struct lh_sim_node *node)
{
    struct store *s = &node->store;

    lh_sim_note(node->sim, "a copy of the store of %s is kept", node->name);
    free_pairs(s->kept, s->kept_count);
    s->kept = copy_pairs(s->pairs, s->count);
    s->kept_count = s->count;
    s->has_kept = true;
}

bool lh_sim_store_restore(struct lh_sim_node *node)
{
    struct store *s = &node->store;

    if (!s->has_kept)
        return false;
    lh_sim_note(node->sim, "the store of %s is the older copy", node->name);
    lh_sim_store_wipe(node);
    s->pairs = copy_pairs(s->kept, s->kept_count);
    s->count = s->capacity = s->kept_count;
    lh_sim_notify_lives(node, LH_SIM_LIFE_RESTORED);
    return true;
}

void lh_sim_store_deinit(struct store *s)
{
    free_pairs(s->pairs, s->count);
    free_pairs(s->kept, s->kept_count);
    while (s->first != NULL) {
        struct commit *next = s->first->next;
        free_commit(s->first);
        s->first = next;
    }
}

size_t lh_sim_store_count(const struct lh_sim_node *node)
{
    return node->store.count;
}

const struct lh_sim_pair *lh_sim_store_pair(const struct lh_sim_node *node, size_t index)
{
    LH_ASSERT(index < node->store.count);
    return &node->store.pairs[index];
}

const struct lh_sim_pair *lh_sim_store_get(
    const struct lh_sim_node *node, const void *key, size_t key_size)
{
    const struct store *s = &node->store;
    size_t i = position(s, key, key_size);

    return i < s->count && compare(&s->pairs[i], key, key_size) == 0 ? &s->pairs[i] : NULL;
}

uint64_t lh_sim_store_version(const struct lh_sim_node *node)
{
    return node->store.version;
}

void lh_sim_store_fail(struct lh_sim_node *node, int error)
{
    if (error != LH_OK)
        lh_sim_note(node->sim, "the next commit of %s fails: %s", node->name, lh_error_name(error));
    node->store.fail_next = error;
}
