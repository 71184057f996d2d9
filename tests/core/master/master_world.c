#include "tests/core/master/master_world.h"

#include "base/alloc.h"
#include "base/seal.h"
#include "proto/stored.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

    return order != 0 ? order : a_size < b_size ? -1 : a_size > b_size;
}

static uint8_t *copy(const uint8_t *from, size_t size)
{
    uint8_t *to = lh_alloc(size + 1);

    memcpy(to, from, size);
    return to;
}

/* Where the key is, or would be. */
static size_t place_of(const struct world *w, const uint8_t *key, size_t size, bool *there)
{
    size_t low = 0, high = w->store_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(w->store[middle].key, w->store[middle].key_size, key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there =
        low < w->store_count && compare(w->store[low].key, w->store[low].key_size, key, size) == 0;
    return low;
}

const struct pair *world_find(const struct world *w, const void *key, size_t key_size)
{
    bool there;
    size_t at = place_of(w, key, key_size, &there);

    return there ? &w->store[at] : NULL;
}

void world_apply(struct world *w, const struct lh_change *change)
{
    bool there;
    size_t at = place_of(w, change->key, change->key_size, &there);

    if (there) {
        free(w->store[at].key);
        free(w->store[at].value);
        w->store_count--;
        memmove(&w->store[at], &w->store[at + 1], (w->store_count - at) * sizeof *w->store);
    }
    if (change->value == NULL)
        return;
    LH_GROW(w->store, w->store_capacity, w->store_count + 1);
    memmove(&w->store[at + 1], &w->store[at], (w->store_count - at) * sizeof *w->store);
    w->store[at] = (struct pair){copy(change->key, change->key_size),
        copy(change->value, change->value_size), change->key_size, change->value_size};
    w->store_count++;
}

void world_free_store(struct world *w)
{
    for (size_t i = 0; i < w->store_count; i++) {
        free(w->store[i].key);
        free(w->store[i].value);
    }
    free(w->store);
    w->store = NULL;
    w->store_count = w->store_capacity = 0;
}

static void free_changes(struct commit *commit)
{
    lh_changes_free(commit->changes, commit->count);
}

/* In `methods`: the core ended the link and may not name it again. LH_METHOD_NONE: the peer did. */
#define ENDED LH_METHOD_COUNT

static bool is_open(const struct world *w, uint64_t link)
{
    enum lh_method method = w->methods[link & ~LH_LINK_SERVED];

    return method != LH_METHOD_NONE && method != ENDED;
}

/* A receiver takes '?' for what is no UTF-8 in a reply; one that is not ours refuses the whole
 * message. So nothing of the kind may be sent. */
static void is_sent_as_it_is_read(const struct lh_buf *sent, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *read = lh_alloc(size + 1), *bytes = lh_alloc(sent->size + 1);

    protobuf_c_message_pack(message, read);
    assert_true(lh_buf_read(sent, 0, bytes, sent->size));
    assert_int_equal(size, sent->size);
    assert_memory_equal(read, bytes, size);
    free(bytes);
    free(read);
}

static struct called *called_on(struct world *w, uint64_t link)
{
    for (size_t i = 0; i < w->called_count; i++)
        if (w->called[i].link == link)
            return &w->called[i];
    return NULL;
}

/* Of a link that the master opened. */
static void carry_out_call(struct world *w, struct lh_effect *e)
{
    struct called *called = called_on(w, e->link);

    if (e->kind == LH_FX_OPEN) {
        assert_null(called);
        assert_int_equal(e->method, LH_METHOD_IDENTIFY);
        assert_true(w->called_count < sizeof w->called / sizeof w->called[0]);
        called = &w->called[w->called_count++];
        called->link = e->link;
        snprintf(called->address, sizeof called->address, "%s", e->text);
        return;
    }
    assert_non_null(called);
    if (e->kind == LH_FX_CLOSE)
        called->link = 0;
}

static void carry_out(struct world *w, struct lh_effect *e)
{
    struct line line = {.link = e->link};

    if ((e->link & LH_LINK_SERVED) == 0 && (e->link & LH_MASTER_LINK) != 0) {
        carry_out_call(w, e);
        return;
    }
    switch (e->kind) {
    case LH_FX_PERSIST:
        LH_GROW(w->commits, w->commit_capacity, w->commit_count + 1);
        w->commits[w->commit_count++] = (struct commit){e->ticket, e->changes, e->change_count};
        e->changes = NULL;
        e->change_count = 0;
        return;
    case LH_FX_SEND:
        line.method = w->methods[e->link & ~LH_LINK_SERVED];
        assert_int_not_equal(line.method, ENDED);
        if (line.method == LH_METHOD_NONE)
            return; /* the peer is gone: ignored, as every driver does */
        assert_int_equal(
            lh_wire_decode(line.method, LH_REPLY, &e->header, &line.message, &e->payload), LH_OK);
        is_sent_as_it_is_read(&e->header, line.message);
        break;
    case LH_FX_CLOSE:
        line.method = w->methods[e->link & ~LH_LINK_SERVED];
        assert_int_not_equal(line.method, ENDED);
        if (line.method == LH_METHOD_NONE)
            return;
        line.error = e->error;
        w->methods[e->link & ~LH_LINK_SERVED] = ENDED;
        break;
    case LH_FX_HOLD:
    case LH_FX_UNHOLD:
        w->held = e->kind == LH_FX_HOLD ? e->link : 0;
        return;
    case LH_FX_STOPPED:
        w->stopped = true;
        w->stop_error = e->error;
        return;
    case LH_FX_LOG:
        if (getenv("LH_TEST_LOG") != NULL)
            print_message("[%9.3f] %s\n", (double)w->now.ns / 1e9, e->text);
        if (e->level == LH_ERROR)
            snprintf(w->complaint, sizeof w->complaint, "%s", e->text);
        return;
    default:
        fail_msg("an effect that a master has no use for: %d", (int)e->kind);
    }
    LH_GROW(w->lines, w->line_capacity, w->line_count + 1);
    w->lines[w->line_count++] = line;
}

static void same_bytes(const void *a, size_t a_size, const void *b, size_t b_size)
{
    assert_int_equal(a_size, b_size);
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL)
        assert_memory_equal(a, b, a_size);
}

static void same_changes(const struct lh_effect *a, const struct lh_effect *b)
{
    assert_int_equal(a->change_count, b->change_count);
    for (size_t i = 0; i < a->change_count; i++) {
        const struct lh_change *x = &a->changes[i], *y = &b->changes[i];
        same_bytes(x->key, x->key_size, y->key, y->key_size);
        same_bytes(x->value, x->value_size, y->value, y->value_size);
    }
}

static void same_buf(const struct lh_buf *a, const struct lh_buf *b)
{
    uint8_t *left = lh_alloc(a->size + 1), *right = lh_alloc(b->size + 1);

    assert_true(lh_buf_read(a, 0, left, a->size) && lh_buf_read(b, 0, right, b->size));
    same_bytes(left, a->size, right, b->size);
    free(left);
    free(right);
}

/* All that a master's effects have. */
static void same_effects(const struct lh_effects *a, const struct lh_effects *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        const struct lh_effect *x = &a->items[i], *y = &b->items[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->link, y->link);
        assert_int_equal(x->ticket, y->ticket);
        assert_int_equal(x->error, y->error);
        assert_int_equal(x->level, y->level);
        assert_int_equal(x->text == NULL, y->text == NULL);
        if (x->text != NULL)
            assert_string_equal(x->text, y->text);
        same_buf(&x->header, &y->header);
        same_buf(&x->payload, &y->payload);
        same_changes(x, y);
    }
    assert_int_equal(a->count, b->count);
}

static int compare_changes(const void *a, const void *b)
{
    const struct lh_change *x = a, *y = b;

    return compare(x->key, x->key_size, y->key, y->key_size);
}

void world_same_records(struct lh_master *m, struct lh_master *other)
{
    struct lh_effects fx = {0}, other_fx = {0};

    lh_master_records(m, &fx);
    lh_master_records(other, &other_fx);
    qsort(fx.items[0].changes, fx.items[0].change_count, sizeof(struct lh_change), compare_changes);
    qsort(other_fx.items[0].changes, other_fx.items[0].change_count, sizeof(struct lh_change),
        compare_changes);
    same_effects(&fx, &other_fx);
    lh_effects_deinit(&fx);
    lh_effects_deinit(&other_fx);
}

static void step_twin(struct world *w, struct lh_input *in)
{
    if (w->twin == NULL)
        return;
    lh_master_step(w->twin, in, &w->twin_fx);
    if (!w->unchecked)
        lh_master_check(w->twin);
    same_effects(&w->fx, &w->twin_fx);
    assert_int_equal(lh_master_deadline(w->m).ns, lh_master_deadline(w->twin).ns);
    lh_effects_clear(&w->twin_fx);
}

static void step(struct world *w, struct lh_input *in)
{
    in->now = w->now;
    in->wall_ms = 1700000000000u + w->now.ns / 1000000u;
    lh_master_step(w->m, in, &w->fx);
    step_twin(w, in);
    if (!w->unchecked)
        lh_master_check(w->m);
    for (size_t i = 0; i < w->fx.count; i++)
        carry_out(w, &w->fx.items[i]);
    lh_effects_clear(&w->fx);
    if (!w->hold_commits)
        world_commit_all(w);
}

static void complete(struct world *w, int error)
{
    assert_true(w->commit_count > 0);
    struct commit first = w->commits[0];
    w->commit_count--;
    memmove(w->commits, w->commits + 1, w->commit_count * sizeof *w->commits);
    if (error == LH_OK && w->committed != NULL)
        w->committed(first.changes, first.count);
    if (error == LH_OK)
        for (size_t i = 0; i < first.count; i++)
            world_apply(w, &first.changes[i]);
    free_changes(&first);
    struct lh_input in = {.kind = LH_IN_PERSISTED, .ticket = first.ticket, .error = error};
    step(w, &in);
}

void world_commit(struct world *w)
{
    bool hold = w->hold_commits;

    w->hold_commits = true;
    complete(w, LH_OK);
    w->hold_commits = hold;
}

void world_commit_all(struct world *w)
{
    while (w->commit_count > 0)
        world_commit(w);
}

void world_commit_fails(struct world *w, int error)
{
    bool hold = w->hold_commits;

    w->hold_commits = true;
    complete(w, error);
    w->hold_commits = hold;
}

void world_commit_waits(struct world *w)
{
    struct lh_input in = {.kind = LH_IN_PERSISTED, .error = LH_ERR_SHORTAGE};

    assert_true(w->commit_count > 0 && w->hold_commits);
    in.ticket = w->commits[0].ticket;
    step(w, &in);
}

static const struct line *end_of(const struct world *w, uint64_t link)
{
    for (size_t i = 0; i < w->line_count; i++)
        if (w->lines[i].link == link && w->lines[i].message == NULL)
            return &w->lines[i];
    return NULL;
}

int world_end(const struct world *w, uint64_t link)
{
    const struct line *end = end_of(w, link);

    return end == NULL ? LH_OK : end->error;
}

bool world_ended(const struct world *w, uint64_t link)
{
    return end_of(w, link) != NULL;
}

static void seal(struct pair *pair, uint64_t *hash)
{
    size_t size = pair->value_size;

    (void)lh_seal_look(pair->key, pair->key_size, pair->value, &size, hash);
    pair->value = realloc(pair->value, size + LH_SEAL_BYTES);
    assert_non_null(pair->value);
    lh_seal_write(pair->value + size, *hash);
    pair->value_size = (uint32_t)(size + LH_SEAL_BYTES);
}

void world_seal(struct pair *pair)
{
    uint64_t hash;

    seal(pair, &hash);
}

void world_as_written(struct world *w)
{
    struct pair *master = NULL;
    uint64_t pairs = 0, sum = 0, hash;

    for (size_t i = 0; i < w->store_count; i++) {
        seal(&w->store[i], &hash);
        if (w->store[i].key[0] == 'M') {
            master = &w->store[i];
            continue;
        }
        pairs++;
        sum += (uint32_t)hash & ~UINT32_C(3);
    }
    assert_non_null(master);
    LeaseholdStored__Master *record = lh_master_record_read(master->value, master->value_size);
    record->pairs = pairs;
    record->sum = sum;
    record->bare = 0;
    free(master->value);
    master->value = lh_master_record_write(record, &master->value_size);
    leasehold_stored__master__free_unpacked(record, NULL);
}

int world_load(struct world *w)
{
    int error = LH_OK;

    w->m = lh_master_create(&w->config);
    for (size_t i = 0; i < w->store_count && error == LH_OK; i++)
        error = lh_master_load(w->m, w->store[i].key, w->store[i].key_size, w->store[i].value,
            w->store[i].value_size, w->load_text, sizeof w->load_text);
    return error != LH_OK ? error : lh_master_loaded(w->m, w->load_text, sizeof w->load_text);
}

static void start(struct world *w)
{
    struct lh_input in = {.kind = LH_IN_TIMER};
    bool hold = w->hold_commits;

    assert_int_equal(world_load(w), LH_OK);
    w->twin = w->successor;
    w->successor = NULL;
    if (w->twin != NULL)
        world_same_records(w->m, w->twin);
    w->hold_commits = false;
    step(w, &in);
    w->hold_commits = hold;
}

void world_open(struct world *w)
{
    char text[256];

    memset(w, 0, sizeof *w);
    w->config = lh_master_config_default();
    w->config.seed = 7;
    w->config.reign_followed = true; /* a start that grants nothing is a story of its own (NL-2a) */
    w->config.chunk_size = 1u << 20;
    assert_int_equal(lh_master_config_check(&w->config, text, sizeof text), LH_OK);
    w->now = (struct lh_instant){1000000000};
    start(w);
}

static void drop_commits(struct world *w)
{
    for (size_t i = 0; i < w->commit_count; i++)
        free_changes(&w->commits[i]);
    w->commit_count = 0;
}

static void free_lines(struct world *w)
{
    for (size_t i = 0; i < w->line_count; i++)
        lh_wire_free(w->lines[i].message);
    w->line_count = 0;
}

void world_crash(struct world *w)
{
    drop_commits(w);
    free_lines(w);
    memset(w->methods, 0, sizeof w->methods);
    w->called_count = 0;
    lh_master_destroy(w->m);
    lh_master_destroy(w->twin);
    w->twin = NULL;
    w->stopped = false;
    if (w->crashed != NULL)
        w->crashed();
    start(w);
}

void world_close(struct world *w)
{
    drop_commits(w);
    free_lines(w);
    world_free_store(w);
    free(w->commits);
    free(w->lines);
    lh_effects_deinit(&w->fx);
    lh_effects_deinit(&w->twin_fx);
    lh_master_destroy(w->m);
    lh_master_destroy(w->twin);
    lh_master_destroy(w->successor);
}

void world_stop(struct world *w)
{
    struct lh_input in = {.kind = LH_IN_STOP};

    step(w, &in);
}

void world_advance(struct world *w, uint64_t ms)
{
    struct lh_instant end = lh_instant_add(w->now, lh_milliseconds(ms));

    for (unsigned i = 0; i < 100000; i++) {
        struct lh_input in = {.kind = LH_IN_TIMER};
        struct lh_instant at = lh_master_deadline(w->m);
        if (lh_instant_before(end, at))
            break;
        w->now = lh_instant_max(w->now, at);
        step(w, &in);
        assert_true(i < 99999);
    }
    w->now = end;
}

uint64_t world_open_link(struct world *w, enum lh_method method)
{
    uint64_t number = ++w->next_link;

    assert_true(number < sizeof w->methods / sizeof w->methods[0]);
    w->methods[number] = method;
    struct lh_input in = {.kind = LH_IN_LINK_OPENED,
        .identity = w->identity,
        .link = number | LH_LINK_SERVED,
        .method = method,
        .text = w->peer != NULL ? w->peer : "peer"};
    step(w, &in);
    return in.link;
}

void world_message(struct world *w, uint64_t link, const void *message)
{
    struct lh_input in = {.kind = LH_IN_MESSAGE,
        .link = link,
        .method = w->methods[link & ~LH_LINK_SERVED],
        .identity = w->identity,
        .message = message};

    if (is_open(w, link))
        step(w, &in);
}

void world_sent(struct world *w, uint64_t link)
{
    struct lh_input in = {
        .kind = LH_IN_SENT, .link = link, .method = w->methods[link & ~LH_LINK_SERVED]};

    step(w, &in);
}

void world_break_link(struct world *w, uint64_t link)
{
    struct lh_input in = {.kind = LH_IN_LINK_CLOSED,
        .link = link,
        .method = w->methods[link & ~LH_LINK_SERVED],
        .error = LH_ERR_UNAVAILABLE};

    if (!is_open(w, link))
        return;
    w->methods[link & ~LH_LINK_SERVED] = LH_METHOD_NONE;
    step(w, &in);
}

uint64_t world_called(const struct world *w, const char *address)
{
    for (size_t i = 0; i < w->called_count; i++)
        if (w->called[i].link != 0 && strcmp(w->called[i].address, address) == 0)
            return w->called[i].link;
    return 0;
}

void world_identify(struct world *w, uint64_t call, const char *id, uint64_t process)
{
    Leasehold__IdentifyReply reply = LEASEHOLD__IDENTIFY_REPLY__INIT;
    struct lh_input in = {
        .kind = LH_IN_MESSAGE, .link = call, .method = LH_METHOD_IDENTIFY, .message = &reply};

    assert_int_not_equal(call, 0);
    reply.server_id = (char *)(uintptr_t)id;
    reply.process = process;
    step(w, &in);
}

void world_call_fails(struct world *w, uint64_t call, int error)
{
    struct lh_input in = {
        .kind = LH_IN_LINK_CLOSED, .link = call, .method = LH_METHOD_IDENTIFY, .error = error};

    assert_int_not_equal(call, 0);
    called_on(w, call)->link = 0;
    step(w, &in);
}

uint64_t world_call(struct world *w, enum lh_method method, const void *message)
{
    uint64_t link = world_open_link(w, method);

    world_message(w, link, message);
    return link;
}

const void *world_reply(struct world *w, uint64_t link)
{
    for (size_t i = 0; i < w->line_count; i++)
        if (w->lines[i].link == link && w->lines[i].message != NULL)
            return w->lines[i].message;
    return NULL;
}

const Leasehold__SessionReply *world_next(
    struct world *w, uint64_t link, Leasehold__SessionReply__BodyCase body)
{
    for (size_t i = 0; i < w->line_count; i++) {
        struct line *l = &w->lines[i];
        if (l->link != link || l->taken || l->message == NULL)
            continue;
        const Leasehold__SessionReply *reply = (const void *)l->message;
        if (reply->body_case == body) {
            l->taken = true;
            return reply;
        }
    }
    return NULL;
}

void world_drop_lines(struct world *w)
{
    for (size_t i = 0; i < w->line_count; i++)
        w->lines[i].taken = true;
}

void world_forget_lines(struct world *w)
{
    free_lines(w);
}

/* The clocks of all show the same. */
static void told_keys(
    const struct world *w, struct server *s, size_t count, Leasehold__CapabilityKey *const *keys)
{
    s->keys_notified = count;
    for (size_t i = 0; s->keys != NULL && i < count; i++) {
        assert_int_equal(keys[i]->secret.len, LH_CAPABILITY_SECRET_BYTES);
        lh_capability_learn(s->keys, keys[i]->number, keys[i]->secret.data, w->now,
            lh_nanoseconds(keys[i]->age_ns));
    }
}

bool server_register_with(struct world *w, struct server *s,
    const Leasehold__ReplicaReport *replicas, size_t replica_count,
    const Leasehold__ChunkVersion *held, size_t held_count)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;
    Leasehold__ReplicaReport **replica_pointers =
        lh_alloc_array(replica_count, sizeof *replica_pointers);
    Leasehold__ChunkVersion *held_pointers[64];
    char address[64];

    if (s->free_bytes == 0)
        s->free_bytes = 1u << 30;
    snprintf(address, sizeof address, "%s%s", s->address != NULL ? s->address : s->id,
        s->address != NULL ? "" : ":7401");
    r.server_id = (char *)(uintptr_t)s->id;
    r.incarnation = s->incarnation;
    r.process = s->nameless ? 0 : s->process != 0 ? s->process : s->incarnation;
    r.registration = s->registration;
    r.challenge = s->challenge;
    r.read_only = s->read_only;
    r.identifies = s->identifies;
    r.master_term_seen = s->term_seen;
    r.reign_name_seen = s->name_seen;
    r.machine_id = (char *)(uintptr_t)(s->machine == NULL ? s->id : s->machine);
    r.address = address;
    r.capacity_bytes = 1u << 30;
    r.free_bytes = s->free_bytes;
    if (s->domain != NULL)
        r.failure_domain = (char *)(uintptr_t)s->domain;
    r.stamp = w->now.ns;
    r.piece = s->piece;
    r.more = s->more;
    r.leases_shown = s->leases_shown;
    r.last_chunk = s->last_chunk;
    for (size_t i = 0; i < replica_count; i++)
        replica_pointers[i] = (Leasehold__ReplicaReport *)(uintptr_t)&replicas[i];
    for (size_t i = 0; i < held_count; i++)
        held_pointers[i] = (Leasehold__ChunkVersion *)(uintptr_t)&held[i];
    r.n_replicas = replica_count;
    r.replicas = replica_pointers;
    r.n_held = held_count;
    r.held = held_pointers;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &r;
    if (s->link == 0 || !is_open(w, s->link))
        s->link = world_open_link(w, LH_METHOD_SESSION);
    world_message(w, s->link, &request);
    free(replica_pointers);
    const Leasehold__SessionReply *reply =
        world_next(w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    s->challenged = reply == NULL ? 0 : reply->registered->challenge;
    if (reply == NULL || reply->registered->error != LEASEHOLD__ERROR_CODE__OK)
        return false;
    s->session = reply->registered->session;
    assert_true(s->name_seen == reply->registered->reign_name_seen);
    s->term_seen = reply->registered->master_term;
    s->name_seen = reply->registered->reign_name;
    s->last_stamp = reply->registered->stamp;
    told_keys(w, s, reply->registered->n_keys, reply->registered->keys);
    if (s->led != NULL && reply->registered->lead_key.len == LH_CAPABILITY_SECRET_BYTES)
        lh_capability_learn(s->led, reply->registered->master_term,
            reply->registered->lead_key.data, w->now, lh_nanoseconds(0));
    return true;
}

bool server_register(struct world *w, struct server *s)
{
    return server_register_with(w, s, NULL, 0, NULL, 0);
}

void server_send(struct world *w, struct server *s, Leasehold__SessionRequest *request)
{
    world_message(w, s->link, request);
}

bool server_heartbeat_active(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, bool *extended)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat h = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__ChunkVersion active = LEASEHOLD__CHUNK_VERSION__INIT;
    Leasehold__ChunkVersion *pointer = &active;

    h.session = s->session;
    h.stamp = w->now.ns;
    h.last_stamp = s->last_stamp;
    h.free_bytes = s->free_bytes;
    h.failing = s->failing || s->read_only;
    h.read_only = s->read_only;
    h.batches_ordered = s->ordered;
    h.bytes_ordered = s->ordered * 100;
    active.chunk = chunk;
    active.version = version;
    h.n_active = chunk != 0;
    h.active = &pointer;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &h;
    server_send(w, s, &request);
    const Leasehold__SessionReply *reply =
        world_next(w, s->link, LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT);
    if (reply == NULL || reply->heartbeat->error != LEASEHOLD__ERROR_CODE__OK)
        return false;
    s->last_stamp = reply->heartbeat->stamp;
    told_keys(w, s, reply->heartbeat->n_keys, reply->heartbeat->keys);
    if (extended != NULL)
        *extended = reply->heartbeat->n_extended == 1;
    return true;
}

bool server_heartbeat(struct world *w, struct server *s)
{
    return server_heartbeat_active(w, s, 0, 0, NULL);
}

void server_created(struct world *w, struct server *s, uint64_t chunk, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCreated created = LEASEHOLD__REPLICA_CREATED__INIT;

    created.session = s->session;
    created.chunk = chunk;
    created.error = (Leasehold__ErrorCode)-error;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CREATED;
    request.created = &created;
    server_send(w, s, &request);
}

void server_confirm(struct world *w, struct server *s, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__GrantConfirm confirm = LEASEHOLD__GRANT_CONFIRM__INIT;

    confirm.session = s->session;
    confirm.chunk = chunk;
    confirm.version = version;
    confirm.error = (Leasehold__ErrorCode)-error;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
    request.confirm = &confirm;
    server_send(w, s, &request);
}

void server_release(struct world *w, struct server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Release release = LEASEHOLD__RELEASE__INIT;

    release.session = s->session;
    release.chunk = chunk;
    release.version = version;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RELEASE;
    request.release = &release;
    server_send(w, s, &request);
}

void server_recovered(struct world *w, struct server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Recovered recovered = LEASEHOLD__RECOVERED__INIT;

    recovered.session = s->session;
    recovered.chunk = chunk;
    recovered.version = version;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED;
    request.recovered = &recovered;
    server_send(w, s, &request);
}

void server_copied(struct world *w, struct server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied copied = LEASEHOLD__REPLICA_COPIED__INIT;

    copied.session = s->session;
    copied.chunk = chunk;
    copied.version = version;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    request.copied = &copied;
    server_send(w, s, &request);
}

void server_seal(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t length)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealReport seal = LEASEHOLD__SEAL_REPORT__INIT;

    seal.session = s->session;
    seal.chunk = chunk;
    seal.version = version;
    seal.length = length;
    seal.checksum = length * 31;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL;
    request.seal = &seal;
    server_send(w, s, &request);
}

static void tell_failed(struct world *w, struct server *s, uint64_t chunk, uint64_t version,
    const char *member, const Leasehold__MemberFailed *how)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__MemberFailed failed = *how;
    char *ids[1] = {(char *)(uintptr_t)member};

    failed.session = s->session;
    failed.chunk = chunk;
    failed.version = version;
    failed.n_server_ids = 1;
    failed.server_ids = ids;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED;
    request.member_failed = &failed;
    server_send(w, s, &request);
}

void server_member_failed(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, const char *member)
{
    Leasehold__MemberFailed how = LEASEHOLD__MEMBER_FAILED__INIT;

    tell_failed(w, s, chunk, version, member, &how);
}

void server_waits_for_member(struct world *w, struct server *s, uint64_t chunk, uint64_t version,
    const char *member, bool appends_wait)
{
    Leasehold__MemberFailed how = LEASEHOLD__MEMBER_FAILED__INIT;

    how.appends_wait = appends_wait;
    tell_failed(w, s, chunk, version, member, &how);
}

void server_is_unsure(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, const char *member)
{
    Leasehold__MemberFailed how = LEASEHOLD__MEMBER_FAILED__INIT;

    how.appends_wait = how.unsure = true;
    tell_failed(w, s, chunk, version, member, &how);
}

void server_tell_fenced(struct world *w, struct server *s, Leasehold__Fenced *fenced)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;

    fenced->session = s->session;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_FENCED;
    request.fenced = fenced;
    server_send(w, s, &request);
}

static Leasehold__Fenced log_of(uint64_t chunk, uint64_t version, uint64_t length)
{
    Leasehold__Fenced fenced = LEASEHOLD__FENCED__INIT;

    fenced.chunk = chunk;
    fenced.version = version;
    fenced.length = length;
    fenced.checksum = length * 31;
    return fenced;
}

void server_fenced(struct world *w, struct server *s, uint64_t chunk, uint64_t version, int error,
    uint64_t length, uint64_t committed, bool unverified)
{
    Leasehold__Fenced fenced = log_of(chunk, version, length);

    fenced.error = (Leasehold__ErrorCode)-error;
    fenced.committed = committed;
    fenced.unverified = unverified;
    server_tell_fenced(w, s, &fenced);
}

void server_fenced_cut(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t length)
{
    Leasehold__Fenced fenced = log_of(chunk, version, length);

    fenced.truncated = true;
    server_tell_fenced(w, s, &fenced);
}

void server_fenced_as_primary(
    struct world *w, struct server *s, uint64_t chunk, uint64_t version, uint64_t committed)
{
    Leasehold__Fenced fenced = log_of(chunk, version, committed);

    fenced.committed = committed;
    fenced.primary = true;
    server_tell_fenced(w, s, &fenced);
}

void server_removed(struct world *w, struct server *s, uint64_t chunk, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaRemoved removed = LEASEHOLD__REPLICA_REMOVED__INIT;

    removed.session = s->session;
    removed.chunk = chunk;
    removed.error = (Leasehold__ErrorCode)-error;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REMOVED;
    request.removed = &removed;
    server_send(w, s, &request);
}

const Leasehold__Grant *server_grant(struct world *w, struct server *s)
{
    const Leasehold__SessionReply *reply =
        world_next(w, s->link, LEASEHOLD__SESSION_REPLY__BODY_GRANT);

    return reply == NULL ? NULL : reply->grant;
}
