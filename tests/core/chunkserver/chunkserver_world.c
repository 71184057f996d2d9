#include "tests/core/chunkserver/chunkserver_world.h"

#include "base/alloc.h"
#include "base/cluster.h"
#include "lease/term.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PPM 10000u

static const char *const names[ENDPOINTS] = {"a", "b", "c", "d", "master", "client", "standby"};

static int endpoint_of(const char *server)
{
    size_t name_size;
    const char *address = lh_server_address(server, &name_size);

    for (int i = 0; i < ENDPOINTS; i++)
        if (strcmp(names[i], address) == 0)
            return i;
    return -1;
}

/* ------------------------------------------------------------------------------------------------
 * Links. */

static void post(
    struct world *w, struct wire *l, bool to_server, enum lh_input_kind kind, int error)
{
    LH_GROW(w->packets, w->packet_capacity, w->packet_count + 1);
    w->packets[w->packet_count++] =
        (struct packet){.wire = l, .to_server = to_server, .kind = kind, .error = error};
}

static void post_bytes(struct world *w, struct wire *l, bool to_server, struct lh_buf bytes)
{
    post(w, l, to_server, LH_IN_MESSAGE, LH_OK);
    w->packets[w->packet_count - 1].bytes = bytes;
}

static void take_packet(struct world *w, size_t i)
{
    memmove(w->packets + i, w->packets + i + 1, (w->packet_count - i - 1) * sizeof w->packets[0]);
    w->packet_count--;
}

static void drop_packets(struct world *w, const struct wire *l, bool to_server)
{
    for (size_t i = w->packet_count; i-- > 0;) {
        if (w->packets[i].wire != l || w->packets[i].to_server != to_server)
            continue;
        lh_buf_clear(&w->packets[i].bytes);
        take_packet(w, i);
    }
}

static struct wire *wire_open(
    struct world *w, enum lh_method method, int client, uint64_t link, int server)
{
    struct wire *l = lh_alloc(sizeof *l);

    assert_true(w->wire_count < sizeof w->wires / sizeof w->wires[0]);
    w->wires[w->wire_count++] = l;
    *l = (struct wire){.method = method, .client = client, .server = server, .client_link = link};
    if (server < 0 || w->gone[server] ||
        (server < NODES && w->nodes[server].cs == NULL && !w->played[server])) {
        l->server_gone = true;
        post(w, l, false, LH_IN_LINK_CLOSED, LH_ERR_UNAVAILABLE);
        return l;
    }
    l->server_link = ++w->next_link | LH_LINK_SERVED;
    post(w, l, true, LH_IN_LINK_OPENED, LH_OK);
    return l;
}

static struct wire *wire_of(struct world *w, int node, uint64_t link)
{
    for (size_t i = w->wire_count; i-- > 0;) {
        struct wire *l = w->wires[i];
        if ((link & LH_LINK_SERVED) != 0 ? l->server == node && l->server_link == link
                                         : l->client == node && l->client_link == link)
            return l;
    }
    fail_msg("a core named a link that there is not");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Disks. */

struct file *node_file(struct world *w, int node, uint64_t id)
{
    for (size_t i = 0; i < 8; i++)
        if (w->nodes[node].files[i].cache != NULL && w->nodes[node].files[i].id == id)
            return &w->nodes[node].files[i];
    return NULL;
}

static void file_resize(struct file *f, size_t size)
{
    f->cache = lh_realloc_array(f->cache, 1, size + 1);
    if (size > f->size)
        memset(f->cache + f->size, 0, size - f->size);
    f->size = size;
}

static void file_clear(struct file *f)
{
    free(f->cache);
    free(f->durable);
    *f = (struct file){0};
}

static uint8_t *copy(const uint8_t *bytes, size_t size)
{
    uint8_t *c = lh_realloc_array(NULL, 1, size + 1);

    memcpy(c, bytes, size);
    return c;
}

static void make_durable(struct file *f, const void *bytes, size_t size)
{
    free(f->durable);
    f->durable = copy(bytes, size);
    f->durable_size = size;
    f->durable_there = true;
}

void node_put_file(struct world *w, int node, uint64_t id, const void *bytes, size_t size)
{
    struct file *f = node_file(w, node, id);

    for (size_t i = 0; f == NULL && i < 8; i++)
        if (w->nodes[node].files[i].cache == NULL)
            f = &w->nodes[node].files[i];
    assert_non_null(f);
    file_clear(f);
    f->id = id;
    f->cache = copy(bytes, size);
    f->size = size;
    make_durable(f, bytes, size);
}

static void disk_begin(struct world *w, int node, struct lh_effect *e)
{
    struct file *f = node_file(w, node, e->file);

    LH_GROW(w->ops, w->op_capacity, w->op_count + 1);
    struct disk_op *o = &w->ops[w->op_count++];
    *o = (struct disk_op){
        .node = node,
        .ticket = e->ticket,
        .file = e->file,
        .offset = e->offset,
        .length = e->length,
        .op = e->op,
        .data = lh_buf_take(&e->payload),
    };
    if (o->op == LH_DISK_SYNC && f != NULL) {
        o->covered = copy(f->cache, f->size);
        o->covered_size = f->size;
    }
}

static int disk_apply(struct world *w, struct disk_op *o, struct lh_buf *read)
{
    struct node *n = &w->nodes[o->node];
    struct file *f = node_file(w, o->node, o->file);

    if (n->starved) {
        *read = lh_buf_take(&o->data);
        return LH_ERR_SHORTAGE;
    }
    if (o->op == LH_DISK_READ ? n->unreadable : n->read_only && o->op != LH_DISK_SYNC)
        return LH_ERR_PERMISSION; /* EROFS */
    if (n->bad_byte > 0 && o->op == LH_DISK_READ && o->file == CHUNK && o->offset <= n->bad_byte &&
        n->bad_byte - o->offset < o->length)
        return LH_ERR_IO;
    if (n->fail_error != LH_OK && n->fail_op == o->op && n->fail_file == o->file &&
        n->fail_after-- == 0) {
        int error = n->fail_error;
        n->fail_error = LH_OK;
        if (error == LH_ERR_SHORTAGE)
            *read = lh_buf_take(&o->data);
        if (o->op == LH_DISK_RESERVE && error == LH_ERR_DISK_FULL)
            f->reserved = (size_t)o->length - 1; /* so does ext4: what there was is taken */
        return error;
    }
    if (n->sync_bad && o->op == LH_DISK_SYNC && (o->file & ~LH_NEW_FILE) == CHUNK)
        return LH_ERR_IO;
    if (o->op == LH_DISK_CREATE) {
        if (f != NULL)
            return LH_ERR_ALREADY_EXISTS;
        for (f = n->files; f->cache != NULL; f++)
            ;
        f->id = o->file;
        file_resize(f, 0);
        return LH_OK;
    }
    if (o->op == LH_DISK_REMOVE) {
        struct file *new_one = node_file(w, o->node, o->file | LH_NEW_FILE);
        if (f != NULL)
            file_clear(f);
        if (new_one != NULL && new_one != f)
            file_clear(new_one);
        return LH_OK;
    }
    if (o->op == LH_DISK_REPLACE) {
        struct file *old = node_file(w, o->node, o->file & ~LH_NEW_FILE);
        assert_non_null(f);
        if (old != NULL)
            file_clear(old);
        f->id = o->file & ~LH_NEW_FILE;
        return LH_OK;
    }
    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    switch (o->op) {
    case LH_DISK_WRITE:
        if (o->offset + o->data.size > f->size)
            file_resize(f, o->offset + o->data.size);
        assert_true(lh_buf_read(&o->data, 0, f->cache + o->offset, o->data.size));
        break;
    case LH_DISK_SYNC:
        make_durable(f, o->covered, o->covered_size);
        break;
    case LH_DISK_READ: {
        size_t left = o->offset < f->size ? f->size - o->offset : 0;
        *read = lh_buf_copy(
            f->cache + (left > 0 ? o->offset : 0), o->length < left ? (size_t)o->length : left);
        break;
    }
    case LH_DISK_RESERVE:
        f->reserved = (size_t)o->length;
        break;
    default:
        file_resize(f, (size_t)o->length);
        break;
    }
    return LH_OK;
}

void node_fail_disk(struct world *w, int node, enum lh_disk_op op, unsigned after, int error)
{
    w->nodes[node].fail_error = error;
    w->nodes[node].fail_op = op;
    w->nodes[node].fail_after = after;
    w->nodes[node].fail_file = CHUNK;
}

/* ------------------------------------------------------------------------------------------------
 * Cores. */

/* What a machine that went down had in its memory is gone, and it does not deny it (REC-2a). */
static bool unverified(const struct world *w, int node)
{
    struct lh_replica_status s;

    return w->nodes[node].cs == NULL || !lh_chunkserver_replica(w->nodes[node].cs, CHUNK, &s) ||
           s.unverified || s.version == 0; /* its header has not been read yet */
}

/* APP-3: every member has it as durably as was promised. */
static void check_durable(struct world *w, const struct acked *a)
{
    struct lh_buf batch = {0};

    for (int i = 0; i < NODES; i++) {
        struct file *f = node_file(w, i, CHUNK);
        if ((w->members & 1u << i) == 0 || (!w->synced && unverified(w, i)))
            continue;
        assert_non_null(f);
        const uint8_t *bytes = w->synced ? f->durable : f->cache;
        size_t size = w->synced ? f->durable_size : f->size;
        assert_true(size >= LH_LOG_START + a->offset + LH_BATCH_HEADER_BYTES);
        batch = lh_buf_copy(bytes + LH_LOG_START + a->offset, size - LH_LOG_START - a->offset);
        struct lh_batch_header h;
        assert_int_equal(lh_batch_check(&batch, 0, UINT32_MAX, &h), LH_OK);
        assert_true(h.writer == a->writer && h.sequence == a->sequence);
        lh_buf_clear(&batch);
    }
}

/* At the moment when a client is answered; before it hears of it, machines may go down. */
static void check_answer(struct world *w, const struct wire *l, const struct lh_buf *bytes)
{
    ProtobufCMessage *m;
    struct lh_buf none;

    assert_int_equal(lh_wire_decode(l->method, LH_REPLY, bytes, &m, &none), LH_OK);
    const Leasehold__AppendReply *r = (const Leasehold__AppendReply *)m;
    for (size_t i = 0; i < r->n_answers; i++)
        for (size_t j = 0; j < r->answers[i]->n_stored; j++) {
            const Leasehold__Stored *stored = r->answers[i]->stored[j];
            check_durable(w, &(struct acked){.writer = stored->writer,
                                 .sequence = stored->sequence,
                                 .offset = stored->offset});
        }
    lh_wire_free(m);
}

static void keep(struct node *n, const struct lh_change *c)
{
    if (c->key_size != strlen(LH_SCRUB_KEY) || memcmp(c->key, LH_SCRUB_KEY, c->key_size) != 0)
        return;
    assert_true(c->value_size <= LH_SCRUB_TEXT_MAX && c->value_size < sizeof n->scrub);
    memcpy(n->scrub, c->value, c->value_size);
    n->scrub[c->value_size] = '\0';
}

static void carry_out(struct world *w, int node, struct lh_effect *e)
{
    struct wire *l;

    switch (e->kind) {
    case LH_FX_OPEN:
        wire_open(w, e->method, node, e->link, endpoint_of(e->text));
        break;
    case LH_FX_SEND: {
        l = wire_of(w, node, e->link);
        bool to_server = (e->link & LH_LINK_SERVED) == 0;
        assert_false(to_server ? l->client_gone : l->server_gone);
        struct lh_buf bytes =
            lh_wire_encode(l->method, to_server ? LH_REQUEST : LH_REPLY, &e->header, &e->payload);
        if (l->method == LH_METHOD_APPEND)
            check_answer(w, l, &bytes);
        if (to_server ? l->server_gone : l->client_gone)
            lh_buf_clear(&bytes);
        else
            post_bytes(w, l, to_server, bytes);
        if (e->notify)
            post(w, l, !to_server, LH_IN_SENT, LH_OK);
        break;
    }
    case LH_FX_CLOSE:
        l = wire_of(w, node, e->link);
        if ((e->link & LH_LINK_SERVED) != 0) {
            assert_false(l->server_gone);
            l->server_gone = true;
            drop_packets(w, l, true);
            if (!l->client_gone)
                post(w, l, false, LH_IN_LINK_CLOSED, e->error);
        } else {
            assert_false(l->client_gone);
            l->client_gone = true;
            drop_packets(w, l, false);
            if (!l->server_gone)
                post(w, l, true, LH_IN_LINK_CLOSED, LH_ERR_CANCELLED);
        }
        break;
    case LH_FX_HOLD:
    case LH_FX_UNHOLD:
        l = wire_of(w, node, e->link);
        l->held[(e->link & LH_LINK_SERVED) != 0] = e->kind == LH_FX_HOLD;
        break;
    case LH_FX_DISK:
        disk_begin(w, node, e);
        break;
    case LH_FX_PERSIST:
        for (size_t i = 0; i < e->change_count; i++)
            keep(&w->nodes[node], &e->changes[i]);
        break;
    case LH_FX_STOPPED:
        w->nodes[node].stopped = true;
        w->nodes[node].stopped_error = e->error;
        break;
    case LH_FX_LOG:
        if (getenv("LH_TEST_LOG") != NULL)
            (void)fprintf(stderr, "%9.3f %s: %s\n", (double)w->now.ns / 1e9, names[node], e->text);
        break;
    default:
        break;
    }
}

void node_input(struct world *w, int node, struct lh_input in)
{
    struct lh_effects fx = {0};

    in.now = w->now;
    lh_chunkserver_step(w->nodes[node].cs, &in, &fx);
    lh_chunkserver_check(w->nodes[node].cs);
    lh_buf_clear(&in.payload);
    for (size_t i = 0; i < fx.count; i++)
        carry_out(w, node, &fx.items[i]);
    lh_effects_deinit(&fx);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

void node_start(struct world *w, int node)
{
    struct node *n = &w->nodes[node];
    const char *masters[] = {names[MASTER], names[STANDBY]};
    uint64_t chunks[8];
    size_t count = 0;

    for (size_t i = 0; i < 8; i++) {
        if (n->files[i].cache == NULL)
            continue;
        /* As lh_files_create() does. */
        make_durable(&n->files[i], n->files[i].cache, n->files[i].size);
        chunks[count++] = n->files[i].id;
    }
    qsort(chunks, count, sizeof chunks[0], by_number);
    n->incarnation += !n->read_only;
    n->processes++;
    struct lh_chunkserver_config config = {
        .server_id = names[node],
        .address = names[node],
        .machine_id = names[node],
        .cluster_id = n->cluster,
        .incarnation = n->incarnation,
        .process = n->processes,
        .read_only = n->read_only,
        .boot_id = {n->boot},
        .masters = masters,
        .master_count = w->masters == 0 ? 1 : w->masters,
        .chunks = chunks,
        .chunk_count = count,
        .repair_rate = w->repair_rate,
        .pending_bytes_max = w->pending_bytes,
        .scrub_period = w->scrub_period,
        .scrub_rate = w->scrub_rate,
        .scrub_position = n->scrub,
        .bounds = w->bounds,
        .capabilities = w->capabilities,
    };
    n->cs = lh_chunkserver_create(&config);
    n->stopped = false;
    node_input(w, node, (struct lh_input){.kind = LH_IN_TIMER});
}

static void forget_session(struct node *n)
{
    n->session_wire = NULL;
    n->session = 0;
    if (n->registered != NULL)
        lh_wire_free(&n->registered->base);
    n->registered = NULL;
}

/* What was not synced is gone, or some of its pages are, in no order; so it is with a new
 * length. */
static void lose_power(struct world *w, struct file *f)
{
    const size_t page = 4096;
    struct file was = *f;
    bool longer = w->torn && lh_prng_below(&w->prng, 2) == 0;

    f->cache = copy(was.durable, was.durable_size);
    f->size = was.durable_size;
    if (longer)
        file_resize(f, was.size);
    for (size_t at = 0; w->torn && at < f->size && at < was.size; at += page) {
        size_t end = at + page;
        end = end < f->size ? end : f->size;
        end = end < was.size ? end : was.size;
        if (lh_prng_below(&w->prng, 2) == 0)
            memcpy(f->cache + at, was.cache + at, end - at);
    }
    free(was.cache);
}

void node_kill(struct world *w, int node, bool power)
{
    struct node *n = &w->nodes[node];

    lh_chunkserver_destroy(n->cs);
    n->cs = NULL;
    for (size_t i = 0; i < w->wire_count; i++) {
        struct wire *l = w->wires[i];
        /* What was sent may have arrived or not. */
        bool arrives = lh_prng_below(&w->prng, 2) == 0;
        if (l->client == node && !l->client_gone) {
            l->client_gone = true;
            drop_packets(w, l, false);
            if (!arrives && !l->server_gone)
                drop_packets(w, l, true);
            if (!l->server_gone)
                post(w, l, true, LH_IN_LINK_CLOSED, LH_ERR_UNAVAILABLE);
        } else if (l->server == node && !l->server_gone) {
            l->server_gone = true;
            drop_packets(w, l, true);
            if (!arrives)
                drop_packets(w, l, false);
            if (!l->client_gone)
                post(w, l, false, LH_IN_LINK_CLOSED, LH_ERR_UNAVAILABLE);
        }
    }
    for (size_t i = w->op_count; i-- > 0;) {
        if (w->ops[i].node != node)
            continue;
        lh_buf_clear(&w->ops[i].data);
        free(w->ops[i].covered);
        w->ops[i] = w->ops[--w->op_count];
    }
    forget_session(n);
    if (!power)
        return;
    n->boot++;
    for (size_t i = 0; i < 8; i++) {
        struct file *f = &n->files[i];
        if (f->cache != NULL && !f->durable_there) {
            file_clear(f);
        } else if (f->cache != NULL) {
            lose_power(w, f);
        }
    }
}

struct lh_replica_status node_status(struct world *w, int node)
{
    struct lh_replica_status s;

    assert_true(lh_chunkserver_replica(w->nodes[node].cs, CHUNK, &s));
    return s;
}

/* ------------------------------------------------------------------------------------------------
 * The master. */

void master_send(struct world *w, int node, Leasehold__SessionReply *m)
{
    struct lh_effects fx = {0};
    struct wire *l = w->nodes[node].session_wire;

    assert_non_null(l);
    lh_fx_send(&fx, l->server_link, &m->base, NULL);
    struct lh_buf none = {0};
    post_bytes(
        w, l, false, lh_wire_encode(LH_METHOD_SESSION, LH_REPLY, &fx.items[0].header, &none));
    lh_effects_deinit(&fx);
}

static uint64_t term_ns(uint64_t ms)
{
    return lh_term_for_holder(lh_milliseconds(ms), PPM).ns;
}

struct keys {
    Leasehold__CapabilityKey items[LH_CAPABILITY_KEYS], *list[LH_CAPABILITY_KEYS];
    size_t count;
};

static void tell_keys(struct world *w, struct keys *k)
{
    k->count = 0;
    if (w->issuer == NULL)
        return;
    lh_capability_issuer_housekeep(w->issuer, w->now);
    for (; k->count < w->issuer->count; k->count++) {
        struct lh_capability_key *from = &w->issuer->keys[k->count];
        Leasehold__CapabilityKey *to = k->list[k->count] = &k->items[k->count];
        leasehold__capability_key__init(to);
        to->number = from->number;
        to->secret = (ProtobufCBinaryData){sizeof from->secret, from->secret};
        to->age_ns = lh_instant_until(from->introduced, w->now).ns;
    }
}

static char *cluster_of(const struct world *w, int master)
{
    const char *cluster = master != w->active && w->elsewhere != NULL ? w->elsewhere : w->cluster;

    return (char *)(uintptr_t)(cluster == NULL ? "cluster" : cluster);
}

static void on_register(struct world *w, int node, const Leasehold__Register *reg)
{
    struct node *n = &w->nodes[node];
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered r = LEASEHOLD__REGISTERED__INIT;
    Leasehold__Continued continued[8];
    Leasehold__Continued *list[8];

    if (reg->challenge != w->challenge) {
        r.error = LEASEHOLD__ERROR_CODE__STALE_REGISTRATION;
        r.error_text = (char *)(uintptr_t) "";
        r.stamp = reg->stamp;
        w->refusals++;
        r.challenge = w->challenge;
        w->challenge += w->challenge_changes;
        m.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
        m.registered = &r;
        master_send(w, node, &m);
        return;
    }
    n->session = ++w->sessions;
    n->stamp = reg->stamp;
    n->registrations++;
    for (size_t i = 0; w->master_continues && i < reg->n_held; i++) {
        leasehold__continued__init(&continued[i]);
        continued[i].chunk = reg->held[i]->chunk;
        continued[i].version = reg->held[i]->version;
        continued[i].term_ns = term_ns(CHUNK_TERM_MS);
        list[r.n_continued++] = &continued[i];
    }
    r.continued = list;
    r.session = n->session;
    r.master_term = w->master_term;
    r.stamp = reg->stamp;
    r.term_ns = term_ns(SESSION_TERM_MS);
    r.heartbeat_ns = lh_milliseconds(SESSION_TERM_MS / 3).ns;
    r.cluster_id = cluster_of(w, n->session_wire->server);
    char *both[] = {(char *)(uintptr_t)names[MASTER], (char *)(uintptr_t)names[STANDBY]};
    r.masters = both;
    r.n_masters = w->lists ? 2 : 0;
    struct keys keys;
    tell_keys(w, &keys);
    r.keys = keys.list;
    r.n_keys = keys.count;
    uint8_t lead_key[LH_CAPABILITY_SECRET_BYTES];
    if (w->issuer != NULL) {
        lh_capability_lead_key(w->issuer, names[node], lead_key);
        r.lead_key = (ProtobufCBinaryData){sizeof lead_key, lead_key};
    }
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    m.registered = &r;
    master_send(w, node, &m);
}

static void on_heartbeat(struct world *w, int node, const Leasehold__Heartbeat *hb)
{
    struct node *n = &w->nodes[node];
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__HeartbeatReply r = LEASEHOLD__HEARTBEAT_REPLY__INIT;
    Leasehold__Continued extended[8];
    Leasehold__Continued *list[8];

    assert_true(hb->session == n->session);
    n->stamp = hb->stamp;
    n->heard.copy_progress = 0;
    n->heard.leases = (unsigned)hb->leases->count;
    n->heard.leases_hash = hb->leases->hash;
    r.show_leases = w->master_asks;
    w->master_asks = false;
    for (size_t i = 0; i < hb->n_copies; i++)
        if (hb->copies[i]->chunk == CHUNK)
            n->heard.copy_progress = hb->copies[i]->length;
    for (size_t i = 0; i < hb->n_active; i++) {
        leasehold__continued__init(&extended[i]);
        extended[i].chunk = hb->active[i]->chunk;
        extended[i].version = hb->active[i]->version;
        extended[i].term_ns = term_ns(CHUNK_TERM_MS);
        list[r.n_extended++] = &extended[i];
    }
    r.extended = list;
    r.session = n->session;
    r.master_term = w->master_term;
    r.stamp = hb->stamp;
    r.term_ns = term_ns(SESSION_TERM_MS);
    struct keys keys;
    tell_keys(w, &keys);
    r.keys = keys.list;
    r.n_keys = keys.count;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    m.heartbeat = &r;
    master_send(w, node, &m);
}

#define HEAR(what, ...)                                                                            \
    do {                                                                                           \
        unsigned n_ = h->what.n + 1;                                                               \
        h->what = (__typeof__(h->what)){__VA_ARGS__};                                              \
        h->what.n = n_;                                                                            \
    } while (0)

/* True: the message is kept. */
static bool master_hears(struct world *w, int node, Leasehold__SessionRequest *m)
{
    struct heard *h = &w->nodes[node].heard;

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_REGISTER: {
        struct node *n = &w->nodes[node];
        if (n->registered != NULL)
            lh_wire_free(&n->registered->base);
        n->registered = m;
        on_register(w, node, m->register_);
        return true;
    }
    case LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT:
        on_heartbeat(w, node, m->heartbeat);
        h->heartbeat.n++;
        h->heartbeat.failing = m->heartbeat->failing;
        h->heartbeat.read_only = m->heartbeat->read_only;
        h->heartbeat.bytes = m->heartbeat->free_bytes;
        h->ordered = m->heartbeat->bytes_ordered;
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        HEAR(confirm, .version = m->confirm->version, .error = -(int)m->confirm->error);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        HEAR(release, .version = m->release->version, .ran_out = m->release->ran_out);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SHOWN:
        assert_true(m->shown->n_leases <= 1); /* there is one chunk */
        HEAR(shown, .version = m->shown->n_leases == 0 ? 0 : m->shown->leases[0]->version);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        HEAR(seal, .version = m->seal->version, .length = m->seal->length);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED:
        HEAR(recovered, .version = m->recovered->version, .length = m->recovered->length);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED: {
        unsigned members = 0;
        for (size_t i = 0; i < m->member_failed->n_server_ids; i++)
            members |= 1u << endpoint_of(m->member_failed->server_ids[i]);
        HEAR(failed, .version = m->member_failed->version, .members = members,
            .appends_wait = m->member_failed->appends_wait, .unsure = m->member_failed->unsure);
        break;
    }
    case LEASEHOLD__SESSION_REQUEST__BODY_CREATED:
        HEAR(created, .error = -(int)m->created->error);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_LOST:
        HEAR(lost, .version = m->lost->version, .error = -(int)m->lost->error,
            .kept = m->lost->kept);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS:
        HEAR(loss, .version = m->possible_loss->version, .length = m->possible_loss->length);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED:
        HEAR(recorded, .version = m->seal_recorded->version, .error = -(int)m->seal_recorded->error,
            .kept = m->seal_recorded->kept);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        HEAR(fenced, .version = m->fenced->version, .error = -(int)m->fenced->error,
            .length = m->fenced->length, .checksum = m->fenced->checksum,
            .unverified = m->fenced->unverified, .truncated = m->fenced->truncated,
            .committed = m->fenced->committed, .primary = m->fenced->primary,
            .damaged = m->fenced->damaged);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        HEAR(copied, .version = m->copied->version, .length = m->copied->length,
            .sealed = m->copied->sealed, .bytes = m->copied->copied_bytes,
            .error = -(int)m->copied->error);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_REMOVED:
        HEAR(removed, .error = -(int)m->removed->error);
        break;
    default:
        fail_msg("an unknown message to the master");
    }
    return false;
}

void heard_clear(struct world *w)
{
    for (int i = 0; i < NODES; i++)
        w->nodes[i].heard = (struct heard){0};
}

void master_create(struct world *w, unsigned members)
{
    for (int i = 0; i < NODES; i++) {
        if ((members & 1u << i) == 0)
            continue;
        Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
        Leasehold__CreateReplica create = LEASEHOLD__CREATE_REPLICA__INIT;
        create.session = w->nodes[i].session;
        create.chunk = CHUNK;
        create.chunk_size = w->chunk_size;
        create.durability =
            w->synced ? LEASEHOLD__DURABILITY__SYNCED : LEASEHOLD__DURABILITY__BUFFERED;
        create.master_term = w->master_term;
        m.body_case = LEASEHOLD__SESSION_REPLY__BODY_CREATE;
        m.create = &create;
        master_send(w, i, &m);
    }
}

ProtobufCBinaryData master_lead(
    struct world *w, int node, int member, uint64_t version, uint8_t bytes[LH_CAPABILITY_BYTES])
{
    const struct lh_lead lead = {.chunk = CHUNK, .version = version, .holder = names[node]};

    if (w->issuer == NULL)
        return (ProtobufCBinaryData){0};
    lh_capability_give_lead(w->issuer, names[member], &lead, bytes);
    return (ProtobufCBinaryData){LH_CAPABILITY_BYTES, bytes};
}

void master_grant(struct world *w, int node, uint64_t version, unsigned members, uint32_t min)
{
    struct node *n = &w->nodes[node];
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Grant g = LEASEHOLD__GRANT__INIT;
    Leasehold__Member info[NODES];
    Leasehold__Member *list[NODES];
    ProtobufCBinaryData leads[NODES];
    uint8_t lead_bytes[NODES][LH_CAPABILITY_BYTES];

    for (int i = 0; i < NODES; i++) {
        if ((members & 1u << i) == 0)
            continue;
        leasehold__member__init(&info[i]);
        info[i].server_id = (char *)(uintptr_t)names[i];
        leads[g.n_leads++] =
            i == node ? (ProtobufCBinaryData){0} : master_lead(w, node, i, version, lead_bytes[i]);
        info[i].joining = (w->joining & 1u << i) != 0;
        /* A server without a session has no address known to the master. */
        info[i].address = (char *)(uintptr_t)(w->nodes[i].session == 0 ? "" : names[i]);
        list[g.n_members++] = &info[i];
    }
    g.members = list;
    g.leads = leads;
    g.session = n->session;
    g.chunk = CHUNK;
    g.version = version;
    g.stamp = n->stamp;
    g.term_ns = term_ns(CHUNK_TERM_MS);
    g.min_replicas = min;
    g.chunk_size = w->chunk_size;
    g.master_term = w->master_term;
    g.fence = w->fence;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_GRANT;
    m.grant = &g;
    w->members = members;
    master_send(w, node, &m);
}

void master_fence(struct world *w, int node, uint64_t version)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Fence f = LEASEHOLD__FENCE__INIT;

    f.session = w->nodes[node].session;
    f.chunk = CHUNK;
    f.version = version;
    f.master_term = w->master_term;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_FENCE;
    m.fence = &f;
    master_send(w, node, &m);
}

void master_inquire(struct world *w, int node)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Inquiry q = LEASEHOLD__INQUIRY__INIT;

    q.session = w->nodes[node].session;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_INQUIRY;
    m.inquiry = &q;
    master_send(w, node, &m);
}

void master_recall(struct world *w, int node, uint64_t version)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecallLease r = LEASEHOLD__RECALL_LEASE__INIT;

    r.session = w->nodes[node].session;
    r.chunk = CHUNK;
    r.version = version;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECALL;
    m.recall = &r;
    master_send(w, node, &m);
}

void master_record_seal(
    struct world *w, int node, uint64_t version, uint64_t length, uint64_t checksum)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecordSeal r = LEASEHOLD__RECORD_SEAL__INIT;

    r.session = w->nodes[node].session;
    r.chunk = CHUNK;
    r.version = version;
    r.length = length;
    r.checksum = checksum;
    r.master_term = w->master_term;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL;
    m.record_seal = &r;
    master_send(w, node, &m);
}

void master_remove(struct world *w, int node, uint64_t version)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RemoveReplica r = LEASEHOLD__REMOVE_REPLICA__INIT;

    r.session = w->nodes[node].session;
    r.chunk = CHUNK;
    r.version = version;
    r.master_term = w->master_term;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_REMOVE;
    m.remove = &r;
    master_send(w, node, &m);
}

void master_copy(struct world *w, int node, uint64_t version, bool sealed, uint64_t length,
    uint64_t checksum, unsigned sources)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CopyReplica copy = LEASEHOLD__COPY_REPLICA__INIT;
    Leasehold__Member info[NODES];
    Leasehold__Member *list[NODES];

    for (int i = 0; i < NODES; i++) {
        if ((sources & 1u << i) == 0)
            continue;
        leasehold__member__init(&info[i]);
        info[i].server_id = info[i].address = (char *)(uintptr_t)names[i];
        list[copy.n_sources++] = &info[i];
    }
    copy.sources = list;
    copy.session = w->nodes[node].session;
    copy.chunk = CHUNK;
    copy.version = version;
    copy.chunk_size = w->chunk_size;
    copy.durability = w->synced ? LEASEHOLD__DURABILITY__SYNCED : LEASEHOLD__DURABILITY__BUFFERED;
    copy.sealed = sealed;
    copy.length = length;
    copy.checksum = checksum;
    copy.master_term = w->master_term;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_COPY;
    m.copy = &copy;
    master_send(w, node, &m);
}

/* ------------------------------------------------------------------------------------------------
 * Clients. */

static struct conn *conn_open(struct world *w, int node, enum lh_method method)
{
    struct conn *c = lh_alloc(sizeof *c);

    assert_true(w->conn_count < sizeof w->conns / sizeof w->conns[0]);
    w->conns[w->conn_count++] = c;
    c->world = w;
    c->node = node;
    c->wire = wire_open(w, method, CLIENT, ++w->next_link, node);
    c->wire->conn = c;
    return c;
}

static void conn_send(struct conn *c, const ProtobufCMessage *m, struct lh_buf *payload)
{
    struct lh_effects fx = {0};

    if (c->wire->server_gone || c->wire->client_gone) {
        if (payload != NULL)
            lh_buf_clear(payload);
        return;
    }
    lh_request_name_cluster((ProtobufCMessage *)(uintptr_t)m, lh_cluster_hash(c->world->names));
    lh_fx_send(&fx, c->wire->client_link, m, payload);
    post_bytes(c->world, c->wire, true,
        lh_wire_encode(c->wire->method, LH_REQUEST, &fx.items[0].header, &fx.items[0].payload));
    lh_effects_deinit(&fx);
}

void hang_up(struct conn *c)
{
    if (c->wire->client_gone)
        return;
    c->wire->client_gone = true;
    drop_packets(c->world, c->wire, false);
    if (!c->wire->server_gone)
        post(c->world, c->wire, true, LH_IN_LINK_CLOSED, LH_ERR_CANCELLED);
}

static void note_stored(struct conn *c, const Leasehold__Stored *s)
{
    struct world *w = c->world;
    struct acked a = {.writer = s->writer, .sequence = s->sequence, .offset = s->offset};

    c->stored[c->stored_count++] = (struct stored){
        .writer = s->writer, .sequence = s->sequence, .offset = s->offset, .count = s->count};
    for (size_t i = 0; i < w->acked_count; i++) {
        if (w->acked[i].writer == a.writer && w->acked[i].sequence == a.sequence) {
            assert_true(w->acked[i].offset == a.offset); /* a repeat: its first position */
            return;
        }
    }
    assert_true(w->acked_count < sizeof w->acked / sizeof w->acked[0]);
    w->acked[w->acked_count++] = a;
}

static void lane_hears(struct conn *c, const Leasehold__AppendAnswer *m)
{
    for (size_t i = 0; i < m->n_stored; i++)
        note_stored(c, m->stored[i]);
    c->opened = c->opened || m->opened;
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        c->error = lh_error_from_wire(m->error);
        c->text = m->error_text;
        c->closed = c->closed || (m->writer == 0 && m->lane == c->lane);
    }
}

static void conn_hears(struct conn *c, ProtobufCMessage *m, struct lh_buf payload)
{
    assert_true(c->count < REPLIES_MAX);
    c->replies[c->count] = m;
    c->payloads[c->count++] = payload;
    if (c->wire->method != LH_METHOD_APPEND)
        return;
    const Leasehold__AppendReply *r = (const Leasehold__AppendReply *)m;
    c->alive_ms = r->alive_ms;
    c->arriving += r->arriving != 0;
    c->alive += r->n_answers == 0 && r->error == LEASEHOLD__ERROR_CODE__OK;
    for (size_t i = 0; i < r->n_answers; i++)
        lane_hears(c, r->answers[i]);
    if (r->error != LEASEHOLD__ERROR_CODE__OK) {
        c->error = lh_error_from_wire(r->error);
        c->text = r->error_text;
    }
}

void append_parts(struct conn *c, Leasehold__AppendPart *parts, size_t count, struct lh_buf *bytes)
{
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;
    Leasehold__AppendPart *list[8];

    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        parts[i].chunk = parts[i].chunk == 0 ? CHUNK : parts[i].chunk;
        parts[i].version = c->version;
        list[i] = &parts[i];
    }
    m.parts = list;
    m.n_parts = count;
    conn_send(c, &m.base, bytes);
}

struct conn *appender(
    struct world *w, int node, uint64_t version, uint64_t writer, uint64_t first_sequence)
{
    struct conn *c = conn_open(w, node, LH_METHOD_APPEND);

    c->version = version;
    c->writer = writer;
    c->lane = 1;
    join_stream(c, writer, first_sequence);
    return c;
}

void join_stream(struct conn *c, uint64_t writer, uint64_t first_sequence)
{
    Leasehold__AppendPart m = LEASEHOLD__APPEND_PART__INIT;

    m.lane = c->lane;
    m.writer = writer;
    m.first_sequence = first_sequence;
    m.token = c->world->token;
    m.capability = c->world->capability;
    append_parts(c, &m, 1, NULL);
}

struct lh_buf make_batch(uint64_t writer, uint64_t sequence, uint32_t count, uint32_t size)
{
    struct lh_batch_builder b;
    uint8_t *record = lh_alloc(size + 1);

    lh_batch_builder_init(&b, LH_BATCH_FRAME_BYTES + count * (LH_RECORD_HEADER_BYTES + size));
    for (uint32_t i = 0; i < count; i++) {
        struct lh_prng p = {writer * 1000003 + sequence + i};
        for (uint32_t j = 0; j < size; j++)
            record[j] = (uint8_t)lh_prng_next(&p);
        assert_true(lh_batch_builder_add(&b, record, size));
    }
    free(record);
    return lh_batch_builder_finish(&b, writer, sequence);
}

void append_bytes(struct conn *c, struct lh_buf batch)
{
    Leasehold__AppendPart m = LEASEHOLD__APPEND_PART__INIT;

    m.lane = c->lane;
    m.bytes = batch.size;
    append_parts(c, &m, 1, &batch);
}

void driver_says(struct conn *c, enum lh_input_kind kind)
{
    node_input(c->world, c->node,
        (struct lh_input){.kind = kind, .link = c->wire->server_link, .method = c->wire->method});
}

void append(struct conn *c, uint64_t sequence, uint32_t size)
{
    append_bytes(c, make_batch(c->writer, sequence, 1, size));
}

bool answered(const struct conn *c, uint64_t sequence)
{
    for (size_t i = 0; i < c->stored_count; i++)
        if (c->stored[i].sequence == sequence)
            return true;
    return false;
}

uint64_t position(const struct conn *c, uint64_t sequence)
{
    for (size_t i = 0; i < c->stored_count; i++)
        if (c->stored[i].sequence == sequence)
            return c->stored[i].offset;
    fail_msg("%" PRIu64 " was not acknowledged (%s: %s)", sequence, lh_error_name(c->error),
        c->text == NULL ? "" : c->text);
    return 0;
}

struct conn *reader(struct world *w, int node, Leasehold__ReadRequest q)
{
    struct conn *c = conn_open(w, node, LH_METHOD_READ);

    q.chunk = CHUNK;
    conn_send(c, &q.base, NULL);
    return c;
}

struct conn *settler(struct world *w, int node, uint64_t version, uint64_t writer)
{
    struct conn *c = conn_open(w, node, LH_METHOD_SETTLE);
    Leasehold__SettleRequest q = LEASEHOLD__SETTLE_REQUEST__INIT;

    q.chunk = CHUNK;
    q.version = version;
    q.writer = writer;
    q.capability = w->capability;
    conn_send(c, &q.base, NULL);
    return c;
}

struct conn *feeder(struct world *w, int node)
{
    return conn_open(w, node, LH_METHOD_REPLICATE);
}

void feed(struct conn *c, Leasehold__ReplicatePart part, struct lh_buf *batches)
{
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    Leasehold__ReplicatePart *parts[] = {&part};

    part.chunk = CHUNK;
    part.bytes = batches == NULL ? 0 : batches->size;
    if (part.kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
        c->feed++;
    if (part.feed == 0)
        part.feed = c->feed;
    q.parts = parts;
    q.n_parts = 1;
    conn_send(c, &q.base, batches);
}

void play(struct world *w, int node)
{
    node_kill(w, node, false);
    settle(w);
    w->played[node] = true;
    w->nodes[node].session = ++w->sessions; /* the master knows its address */
}

void play_reply(
    struct world *w, enum lh_method method, const ProtobufCMessage *m, struct lh_buf *payload)
{
    struct lh_effects fx = {0};
    struct wire *l = w->played_wire[method];

    assert_false(l->client_gone || l->server_gone);
    lh_fx_send(&fx, l->server_link, m, payload);
    post_bytes(
        w, l, false, lh_wire_encode(method, LH_REPLY, &fx.items[0].header, &fx.items[0].payload));
    lh_effects_deinit(&fx);
}

void play_answer(struct world *w, Leasehold__ReplicateAnswer m)
{
    Leasehold__ReplicateReply reply = LEASEHOLD__REPLICATE_REPLY__INIT;
    Leasehold__ReplicateAnswer *answers[] = {&m};

    m.chunk = CHUNK;
    m.feed = w->played_feed;
    reply.answers = answers;
    reply.n_answers = 1;
    play_reply(w, LH_METHOD_REPLICATE, &reply.base, NULL);
    settle(w);
}

const Leasehold__ReadReply *read_reply(const struct conn *c)
{
    assert_int_equal(c->count, 1);
    return (const Leasehold__ReadReply *)c->replies[0];
}

const Leasehold__SettleReply *settle_reply(const struct conn *c)
{
    assert_int_equal(c->count, 1);
    return (const Leasehold__SettleReply *)c->replies[0];
}

const Leasehold__ReplicateAnswer *feed_reply(const struct conn *c, size_t i)
{
    for (size_t at = 0; at < c->count; at++) {
        const Leasehold__ReplicateReply *reply = (const void *)c->replies[at];
        if (i < reply->n_answers)
            return reply->answers[i];
        i -= reply->n_answers;
    }
    fail_msg("there is no such answer");
    return NULL;
}

size_t feed_replies(const struct conn *c)
{
    size_t count = 0;

    for (size_t at = 0; at < c->count; at++)
        count += ((const Leasehold__ReplicateReply *)(const void *)c->replies[at])->n_answers;
    return count;
}

/* ------------------------------------------------------------------------------------------------
 * What happens next. */

static void note_played_feed(struct world *w, const Leasehold__ReplicateRequest *q)
{
    for (size_t i = 0; i < q->n_parts; i++)
        if (q->parts[i]->kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
            w->played_feed = q->parts[i]->feed;
}

/* The question who acts is answered by both masters. */
static void answer_masters(struct world *w, struct wire *l)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    struct lh_effects fx = {0};
    struct lh_buf none = {0};
    bool active = l->server == w->active;

    w->asked++;
    if (w->master_deaf)
        return;
    m.reign = active ? w->master_term : w->other_term;
    m.acting = active || w->other_acts;
    m.cluster_id = cluster_of(w, l->server);
    if (!m.acting)
        m.active = (char *)(uintptr_t)names[w->active];
    lh_fx_send(&fx, l->server_link, &m.base, NULL);
    post_bytes(w, l, false, lh_wire_encode(l->method, LH_REPLY, &fx.items[0].header, &none));
    lh_effects_deinit(&fx);
    l->server_gone = true;
    post(w, l, false, LH_IN_LINK_CLOSED, LH_OK);
}

/* True: the message is kept. */
static bool master_gets(struct world *w, struct wire *l, enum lh_input_kind kind, void *m)
{
    struct node *n = &w->nodes[l->client];

    if (l->method == LH_METHOD_MASTERS) {
        if (m != NULL && !l->client_gone)
            answer_masters(w, l);
    } else if (kind == LH_IN_LINK_OPENED && l->server != w->active && !w->other_acts) {
        l->server_gone = true;
        drop_packets(w, l, true);
        if (!l->client_gone)
            post(w, l, false, LH_IN_LINK_CLOSED, LH_ERR_NOT_ACTIVE);
    } else if (kind == LH_IN_LINK_OPENED && !l->client_gone) {
        n->session_wire = l;
    } else if (kind == LH_IN_LINK_CLOSED && n->session_wire == l) {
        forget_session(n);
    } else if (m != NULL && n->session_wire == l && !w->master_deaf) {
        return master_hears(w, l->client, m);
    }
    return false;
}

/* Whose certificate comes with what that endpoint sends. */
static const char *certificate(const struct world *w, int of)
{
    static char identity[64];

    if (of == CLIENT)
        return w->certificate == NULL ? "" : w->certificate;
    (void)snprintf(identity, sizeof identity, "leasehold://%s/%s",
        of < NODES ? "chunkserver" : "master", names[of]);
    return identity;
}

/* SES-10: the first message of every call from server to server says it, and no other one. */
static void check_cluster(struct wire *l, const ProtobufCMessage *m)
{
    if (l->client >= NODES || l->server >= NODES)
        return;
    assert_true(l->named != (lh_request_cluster(m) != 0));
    l->named = true;
}

static void deliver(struct world *w, struct packet p)
{
    struct wire *l = p.wire;
    int to = p.to_server ? l->server : l->client;
    ProtobufCMessage *m = NULL;
    struct lh_buf payload = {0};

    if (p.kind == LH_IN_MESSAGE) {
        assert_int_equal(
            lh_wire_decode(l->method, p.to_server ? LH_REQUEST : LH_REPLY, &p.bytes, &m, &payload),
            LH_OK);
        lh_buf_clear(&p.bytes);
        if (p.to_server)
            check_cluster(l, m);
    }
    if (p.kind == LH_IN_LINK_CLOSED) {
        if (p.to_server)
            l->server_gone = true;
        else
            l->client_gone = true;
    }
    if (to == MASTER || to == STANDBY) {
        if (master_gets(w, l, p.kind, m))
            m = NULL;
    } else if (to < NODES && w->nodes[to].cs == NULL && !w->played[to]) {
        ; /* it is down */
    } else if (to < NODES && w->played[to]) {
        if (p.kind == LH_IN_LINK_OPENED)
            w->played_wire[l->method] = l;
        if (m != NULL && l->method == LH_METHOD_REPLICATE)
            note_played_feed(w, (const void *)m);
    } else if (to == CLIENT) {
        if (m != NULL) {
            conn_hears(l->conn, m, lh_buf_take(&payload));
            m = NULL;
        } else {
            l->conn->closed = true;
            l->conn->closed_error = p.error;
        }
    } else {
        node_input(w, to,
            (struct lh_input){
                .kind = p.kind,
                .link = p.to_server ? l->server_link : l->client_link,
                .method = l->method,
                .message = m,
                .payload = lh_buf_take(&payload),
                .error = p.error,
                .text = "",
                .identity = certificate(w, p.to_server ? l->client : l->server),
            });
    }
    lh_buf_clear(&payload);
    lh_wire_free(m);
}

static void complete(struct world *w, struct disk_op o)
{
    struct lh_buf read = {0};
    int error = disk_apply(w, &o, &read);

    lh_buf_clear(&o.data);
    free(o.covered);
    node_input(w, o.node,
        (struct lh_input){
            .kind = LH_IN_DISK,
            .ticket = o.ticket,
            .file = o.file,
            .op = o.op,
            .error = error,
            .payload = read,
        });
}

void disk_complete(struct world *w, size_t i)
{
    struct disk_op o = w->ops[i];

    w->ops[i] = w->ops[--w->op_count];
    complete(w, o);
}

void break_wire(struct world *w, struct wire *l)
{
    drop_packets(w, l, false);
    drop_packets(w, l, true);
    if (!l->client_gone)
        post(w, l, false, LH_IN_LINK_CLOSED, LH_ERR_UNAVAILABLE);
    if (!l->server_gone)
        post(w, l, true, LH_IN_LINK_CLOSED, LH_ERR_UNAVAILABLE);
}

/* The first of its link's direction, and nobody holds it up. */
static bool deliverable(const struct world *w, size_t i)
{
    const struct packet *p = &w->packets[i];
    int from = p->to_server ? p->wire->client : p->wire->server;
    int to = p->to_server ? p->wire->server : p->wire->client;

    if (w->unread && p->wire->client == CLIENT && (p->kind == LH_IN_SENT || !p->to_server))
        return false;
    if (p->kind == LH_IN_SENT)
        return true;
    if (from >= 0 && w->stalled[from][to])
        return false;
    if (p->wire->held[p->to_server] && p->kind == LH_IN_MESSAGE)
        return false;
    for (size_t j = 0; j < i; j++)
        if (w->packets[j].wire == p->wire && w->packets[j].to_server == p->to_server &&
            w->packets[j].kind != LH_IN_SENT)
            return false;
    return true;
}

static bool is_stalled(const struct world *w, const struct disk_op *op)
{
    const struct node *n = &w->nodes[op->node];

    return n->disk_stalled || (n->reads_stalled && op->op == LH_DISK_READ);
}

static bool happen(struct world *w)
{
    size_t choices = 0, pick = SIZE_MAX;
    bool is_packet = false;

    for (size_t i = 0; i < w->packet_count; i++) {
        if (deliverable(w, i) && lh_prng_below(&w->prng, ++choices) == 0) {
            pick = i;
            is_packet = true;
        }
    }
    for (size_t i = 0; i < w->op_count; i++) {
        if (!is_stalled(w, &w->ops[i]) && lh_prng_below(&w->prng, ++choices) == 0) {
            pick = i;
            is_packet = false;
        }
    }
    if (choices == 0)
        return false;
    if (is_packet) {
        struct packet p = w->packets[pick];
        take_packet(w, pick);
        deliver(w, p);
    } else {
        disk_complete(w, pick);
    }
    return true;
}

void settle(struct world *w)
{
    unsigned steps = 0;

    for (;;) {
        bool timer = false;
        while (happen(w))
            assert_true(++steps < 100000);
        for (int i = 0; i < NODES; i++) {
            struct node *n = &w->nodes[i];
            if (n->cs == NULL || !lh_instant_reached(w->now, lh_chunkserver_deadline(n->cs)))
                continue;
            node_input(w, i, (struct lh_input){.kind = LH_IN_TIMER});
            /* A timer that is due again at once would keep a real server's processor busy. */
            assert_false(lh_instant_reached(w->now, lh_chunkserver_deadline(n->cs)));
            timer = true;
        }
        if (!timer)
            return;
    }
}

void pass(struct world *w, uint64_t ms)
{
    struct lh_instant until = lh_instant_add(w->now, lh_milliseconds(ms));

    settle(w);
    while (lh_instant_before(w->now, until)) {
        struct lh_instant next = until;
        for (int i = 0; i < NODES; i++)
            if (w->nodes[i].cs != NULL)
                next = lh_instant_min(next, lh_chunkserver_deadline(w->nodes[i].cs));
        w->now = next;
        settle(w);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Beginning and end. */

struct world *world_create(uint64_t seed, bool synced)
{
    struct world *w = lh_alloc(sizeof *w);

    w->prng.state = seed;
    w->synced = synced;
    w->chunk_size = CHUNK_SIZE;
    w->now = (struct lh_instant){1000000000};
    w->master_term = 1;
    w->active = MASTER;
    w->master_continues = true;
    w->scrub_period = LH_DURATION_FOREVER;
    for (int i = 0; i < NODES; i++) {
        w->nodes[i].boot = 1;
        node_start(w, i);
    }
    settle(w);
    return w;
}

void world_destroy(struct world *w)
{
    for (int i = 0; i < NODES; i++) {
        if (w->nodes[i].cs != NULL)
            node_kill(w, i, false);
        for (size_t j = 0; j < 8; j++)
            file_clear(&w->nodes[i].files[j]);
    }
    for (size_t i = 0; i < w->packet_count; i++)
        lh_buf_clear(&w->packets[i].bytes);
    for (size_t i = 0; i < w->conn_count; i++) {
        for (size_t j = 0; j < w->conns[i]->count; j++) {
            lh_wire_free(w->conns[i]->replies[j]);
            lh_buf_clear(&w->conns[i]->payloads[j]);
        }
        free(w->conns[i]);
    }
    for (size_t i = 0; i < w->wire_count; i++)
        free(w->wires[i]);
    free(w->packets);
    free(w->ops);
    free(w);
}

void check_logs(struct world *w, unsigned members)
{
    const struct file *first = NULL;
    size_t length = 0;

    for (int i = 0; i < NODES; i++) {
        if ((members & 1u << i) == 0)
            continue;
        const struct file *f = node_file(w, i, CHUNK);
        size_t end = (size_t)node_status(w, i).length;
        assert_non_null(f);
        assert_true(f->size >= LH_LOG_START + end);
        if (first == NULL) {
            first = f;
            length = end;
            unsigned found = 0;
            struct lh_buf log = lh_buf_copy(f->cache + LH_LOG_START, end);
            struct lh_batch_header h;
            uint64_t checksum = lh_log_seed(CHUNK);
            for (size_t at = 0; at < end; at += h.size) {
                assert_int_equal(lh_log_check(&log, at, UINT32_MAX, &checksum, &h), LH_OK);
                for (size_t j = 0; j < w->acked_count; j++) {
                    if (w->acked[j].writer != h.writer || w->acked[j].sequence != h.sequence)
                        continue;
                    assert_true(w->acked[j].offset == at); /* exactly once, and there */
                    found++;
                }
            }
            lh_buf_clear(&log);
            assert_int_equal(found, w->acked_count);
        } else {
            assert_int_equal(end, length);
            assert_memory_equal(f->cache + LH_LOG_START, first->cache + LH_LOG_START, length);
        }
    }
}
