#include "fuzz/world.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* Files are as small as the writes are; what lies beyond is not kept. */
#define FILE_BYTES_MAX (1u << 18)

static enum lh_direction incoming(const struct link *l)
{
    return (l->id & LH_LINK_SERVED) != 0 ? LH_REQUEST : LH_REPLY;
}

/* ---- Links ---- */

static struct link *find(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < w->link_count; i++)
        if (w->links[i].id == id)
            return &w->links[i];
    return NULL;
}

static void forget(struct world *w, uint64_t id)
{
    struct link *l = find(w, id);

    if (l == NULL)
        return;
    memmove(l, l + 1, (size_t)(w->links + w->link_count - l - 1) * sizeof *l);
    w->link_count--;
}

struct link *world_link(struct world *w, enum lh_method method)
{
    for (size_t i = w->link_count; i > 0; i--)
        if (w->links[i - 1].method == method)
            return &w->links[i - 1];
    return NULL;
}

void world_end(struct world *w, struct link *l, int error, const char *text)
{
    uint64_t id = l->id;
    enum lh_method method = l->method;

    forget(w, id);
    world_step(w,
        &(struct lh_input){
            .kind = LH_IN_LINK_CLOSED, .link = id, .method = method, .error = error, .text = text});
}

static struct link *add_link(struct world *w, uint64_t id, enum lh_method method)
{
    w->links[w->link_count++] = (struct link){.id = id, .method = method};
    return &w->links[w->link_count - 1];
}

struct link *world_open(struct world *w, enum lh_method method, const char *peer)
{
    uint64_t id = LH_LINK_SERVED | ++w->served;

    if (w->link_count == LINKS_MAX || w->stopped)
        return NULL;
    add_link(w, id, method);
    world_step(w,
        &(struct lh_input){
            .kind = LH_IN_LINK_OPENED, .link = id, .method = method, .text = peer, .identity = ""});
    return find(w, id);
}

/* As it comes off the wire. */
void world_say(struct world *w, struct link *l, const ProtobufCMessage *m, struct lh_buf *payload)
{
    const struct lh_method_info *info = lh_method_info(l->method);
    bool request = incoming(l) == LH_REQUEST;
    bool stream = request ? info->request_stream : info->reply_stream;
    bool bulk = (request ? info->request_payload : info->reply_payload) != 0;
    size_t size = protobuf_c_message_get_packed_size(m);
    struct lh_input in = {.kind = LH_IN_MESSAGE, .link = l->id, .method = l->method};
    ProtobufCMessage *decoded;
    struct lh_buf none = {0};
    uint8_t *to;

    if ((l->spoken && !stream) || l->held == 1 || l->half || w->stopped)
        return;
    l->spoken = true;
    l->held -= l->held > 0;
    struct lh_buf header = lh_buf_alloc(size, &to);
    (void)protobuf_c_message_pack(m, to);
    struct lh_buf wire =
        lh_wire_encode(l->method, incoming(l), &header, bulk && payload != NULL ? payload : &none);
    if (lh_wire_decode(l->method, incoming(l), &wire, &decoded, &in.payload) == LH_OK) {
        in.message = decoded;
        world_step(w, &in);
        lh_buf_clear(&in.payload);
        lh_wire_free(decoded);
    }
    lh_buf_clear(&wire);
}

/* ---- Disks ---- */

static struct file *find_file(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < FILES_MAX; i++)
        if (w->files[i].there && w->files[i].id == id)
            return &w->files[i];
    return NULL;
}

static void drop_file(struct file *f)
{
    free(f->bytes);
    *f = (struct file){0};
}

static void resize(struct file *f, uint64_t size)
{
    if (size > FILE_BYTES_MAX)
        size = FILE_BYTES_MAX;
    f->bytes = lh_realloc_array(f->bytes, 1, size + 1);
    if (size > f->size)
        memset(f->bytes + f->size, 0, size - f->size);
    f->size = size;
}

static int create_file(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (w->files[i].there)
            continue;
        w->files[i] = (struct file){.id = id, .there = true};
        resize(&w->files[i], 0);
        return LH_OK;
    }
    return LH_ERR_DISK_FULL;
}

static int carry_out_op(struct world *w, struct disk_op *o, struct lh_buf *read)
{
    struct file *f = find_file(w, o->file);

    if (o->op == LH_DISK_CREATE)
        return f != NULL ? LH_ERR_ALREADY_EXISTS : create_file(w, o->file);
    if (o->op == LH_DISK_REMOVE && f != NULL)
        drop_file(f);
    if (o->op == LH_DISK_REMOVE && (f = find_file(w, o->file | LH_NEW_FILE)) != NULL)
        drop_file(f);
    if (o->op == LH_DISK_REMOVE)
        return LH_OK;
    if (o->op == LH_DISK_REPLACE && f != NULL) {
        struct file *old = find_file(w, o->file & ~LH_NEW_FILE);
        if (old != NULL)
            drop_file(old);
        f->id = o->file & ~LH_NEW_FILE;
        return LH_OK;
    }
    if (f == NULL && o->file == 0) /* the probe's */
        return LH_OK;
    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    switch (o->op) {
    case LH_DISK_WRITE:
        if (o->offset + o->data.size > FILE_BYTES_MAX)
            return LH_ERR_DISK_FULL;
        if (o->offset + o->data.size > f->size)
            resize(f, o->offset + o->data.size);
        (void)lh_buf_read(&o->data, 0, f->bytes + o->offset, o->data.size);
        return LH_OK;
    case LH_DISK_READ: {
        size_t left = o->offset < f->size ? f->size - o->offset : 0;
        *read =
            lh_buf_copy(f->bytes + (left > 0 ? o->offset : 0), o->length < left ? o->length : left);
        return LH_OK;
    }
    case LH_DISK_TRUNCATE:
        resize(f, o->length);
        return LH_OK;
    default:
        return LH_OK;
    }
}

static void complete_op(struct world *w, size_t i, int error)
{
    struct disk_op o = w->ops[i];
    struct lh_input in = {
        .kind = LH_IN_DISK, .ticket = o.ticket, .file = o.file, .op = o.op, .error = error};

    memmove(w->ops + i, w->ops + i + 1, (w->op_count - i - 1) * sizeof w->ops[0]);
    w->op_count--;
    if (error == LH_OK)
        in.error = carry_out_op(w, &o, &in.payload);
    if (in.error != LH_OK)
        lh_buf_clear(&in.payload);
    lh_buf_clear(&o.data);
    world_step(w, &in);
    lh_buf_clear(&in.payload);
}

static int some_error(struct world *w)
{
    static const int errors[] = {LH_ERR_IO, LH_ERR_DISK_FULL, LH_ERR_NOT_FOUND, LH_ERR_NO_MEMORY,
        LH_ERR_ALREADY_EXISTS, LH_ERR_UNAVAILABLE, LH_ERR_PERMISSION, LH_ERR_SYSTEM};

    return errors[take_byte(&w->in) % 8];
}

/* Some byte of some file, or of what is stored, is another one. */
static void rot(struct world *w)
{
    uint8_t which = take_byte(&w->in);
    uint64_t at = take_number(&w->in, 2);

    if (w->part->store_rots && w->stored_count > 0) {
        struct pair *p = &w->stored[which % w->stored_count];
        if (p->value_size > 0)
            p->value[at % p->value_size] ^= take_byte(&w->in);
        w->damaged = true;
        return;
    }
    struct file *f = &w->files[which % FILES_MAX];
    if (f->there && f->size > 0)
        f->bytes[at % f->size] ^= take_byte(&w->in);
}

/* ---- The store ---- */

static int compare(const struct pair *p, const uint8_t *key, uint32_t size)
{
    uint32_t least = p->key_size < size ? p->key_size : size;
    int order = memcmp(p->key, key, least);

    return order != 0 ? order : (p->key_size > size) - (p->key_size < size);
}

static uint8_t *copy(const uint8_t *bytes, uint32_t size)
{
    uint8_t *c = lh_alloc(size + 1u);

    memcpy(c, bytes, size);
    return c;
}

static void put(struct world *w, const struct lh_change *change)
{
    size_t i = 0;

    while (i < w->stored_count && compare(&w->stored[i], change->key, change->key_size) < 0)
        i++;
    bool there = i < w->stored_count && compare(&w->stored[i], change->key, change->key_size) == 0;
    if (there) {
        free(w->stored[i].key);
        free(w->stored[i].value);
        memmove(w->stored + i, w->stored + i + 1, (w->stored_count - i - 1) * sizeof *w->stored);
        w->stored_count--;
    }
    if (change->value == NULL)
        return;
    LH_ASSERT(w->stored_count < STORED_MAX);
    memmove(w->stored + i + 1, w->stored + i, (w->stored_count - i) * sizeof *w->stored);
    w->stored[i] = (struct pair){copy(change->key, change->key_size),
        copy(change->value, change->value_size), change->key_size, change->value_size};
    w->stored_count++;
}

const struct pair *world_stored(const struct world *w, const char *key)
{
    for (size_t i = 0; i < w->stored_count; i++)
        if (compare(&w->stored[i], (const uint8_t *)key, (uint32_t)strlen(key)) == 0)
            return &w->stored[i];
    return NULL;
}

void world_forget_store(struct world *w)
{
    for (size_t i = 0; i < w->stored_count; i++) {
        free(w->stored[i].key);
        free(w->stored[i].value);
    }
    w->stored_count = 0;
    w->damaged = false;
}

static void free_commit(struct commit *c)
{
    lh_changes_free(c->changes, c->count);
}

static void complete_commit(struct world *w, int error)
{
    struct commit c;

    if (w->commit_count == 0 || w->store_hangs)
        return;
    c = w->commits[0];
    w->commit_count--;
    memmove(w->commits, w->commits + 1, w->commit_count * sizeof c);
    w->store_failed = w->store_failed || error != LH_OK || w->stored_count + c.count > STORED_MAX;
    for (size_t i = 0; i < c.count && !w->store_failed; i++)
        put(w, &c.changes[i]);
    free_commit(&c);
    world_step(w, &(struct lh_input){.kind = LH_IN_PERSISTED,
                      .ticket = c.ticket,
                      .error = w->store_failed ? LH_ERR_IO : LH_OK});
}

/* ---- Effects ---- */

static void sent(struct world *w, struct lh_effect *e)
{
    struct link *l = find(w, e->link);
    ProtobufCMessage *m;
    struct lh_buf payload = {0};

    if (l == NULL)
        return;
    enum lh_direction out = incoming(l) == LH_REQUEST ? LH_REPLY : LH_REQUEST;
    struct lh_buf wire = lh_wire_encode(l->method, out, &e->header, &e->payload);
    int error = lh_wire_decode(l->method, out, &wire, &m, &payload);
    LH_ASSERT(error == LH_OK);
    l->notified = l->notified || e->notify;
    hear(&w->said, m);
    if (w->friendly && w->part->answer != NULL && w->heard_count < HEARD_MAX)
        w->heard[w->heard_count++] = (struct heard){l->id, m};
    else
        lh_wire_free(m);
    lh_buf_clear(&payload);
    lh_buf_clear(&wire);
}

static void carry_out(struct world *w, struct lh_effect *e)
{
    struct link *l = find(w, e->link);

    switch (e->kind) {
    case LH_FX_OPEN:
        LH_ASSERT(l == NULL && (e->link & LH_LINK_SERVED) == 0);
        if (w->link_count < LINKS_MAX) /* else nobody ever answers */
            add_link(w, e->link, e->method);
        break;
    case LH_FX_SEND:
        sent(w, e);
        break;
    case LH_FX_CLOSE:
        forget(w, e->link);
        break;
    case LH_FX_HOLD:
        if (l != NULL)
            l->held = 2;
        break;
    case LH_FX_UNHOLD:
        if (l != NULL)
            l->held = 0;
        break;
    case LH_FX_DISK:
        if (w->op_count == OPS_MAX)
            break;
        w->ops[w->op_count++] = (struct disk_op){.ticket = e->ticket,
            .file = e->file,
            .offset = e->offset,
            .length = e->length,
            .op = e->op,
            .data = lh_buf_take(&e->payload)};
        break;
    case LH_FX_PERSIST:
        for (size_t i = 0; i < e->change_count; i++) /* what a real store could not take */
            LH_ASSERT(e->changes[i].value == NULL || e->changes[i].key_size <= LH_KEY_BYTES_MAX);
        w->store_hangs = w->store_hangs || w->commit_count == OPS_MAX;
        if (w->store_hangs)
            break;
        w->commits[w->commit_count++] = (struct commit){e->ticket, e->changes, e->change_count};
        e->changes = NULL;
        e->change_count = 0;
        break;
    case LH_FX_COMPLETE:
        w->part->completed(w, e->call, e->error);
        break;
    case LH_FX_STOPPED:
        w->stopped = true;
        break;
    case LH_FX_LOG:
        break;
    }
}

void world_step(struct world *w, struct lh_input *in)
{
    struct lh_effects fx = {0};

    if (w->stopped)
        return;
    in->now = w->now;
    in->wall_ms = w->now.ns / 1000000;
    w->core.step(w->core.self, in, &fx);
    w->part->check(w->core.self);
    (void)w->core.deadline(w->core.self);
    for (size_t i = 0; i < fx.count; i++)
        carry_out(w, &fx.items[i]);
    lh_effects_deinit(&fx);
}

/* ---- What happens ---- */

static void tell_sent(struct world *w)
{
    for (size_t i = 0; i < w->link_count; i++) {
        struct link l = w->links[i];
        w->links[i].notified = false;
        if (l.notified)
            world_step(w, &(struct lh_input){.kind = LH_IN_SENT, .link = l.id, .method = l.method});
    }
}

static void tick(struct world *w)
{
    uint8_t how = take_byte(&w->in);
    struct lh_instant deadline = w->core.deadline(w->core.self);

    if (how < 128 && lh_instant_before(w->now, deadline) && deadline.ns < UINT64_MAX / 2)
        w->now = deadline;
    else if (how >= 192)
        w->now = lh_instant_add(w->now, lh_nanoseconds(UINT64_C(1000) << (how - 192) % 32));
    tell_sent(w);
    world_step(w, &(struct lh_input){.kind = LH_IN_TIMER});
}

static void end_process(struct world *w)
{
    for (size_t i = 0; i < w->op_count; i++)
        lh_buf_clear(&w->ops[i].data);
    for (size_t i = 0; i < w->commit_count; i++)
        free_commit(&w->commits[i]);
    w->op_count = w->commit_count = w->link_count = 0;
    w->part->destroy(w->core.self);
    w->store_failed = w->store_hangs = w->stopped = false;
}

static void begin_process(struct world *w)
{
    w->starts++;
    w->part->start(w, &w->core);
    world_step(w, &(struct lh_input){.kind = LH_IN_TIMER});
}

static void open_any(struct world *w)
{
    unsigned methods = w->part->last - w->part->first + 1u;

    if (w->part->first == LH_METHOD_NONE)
        return; /* it serves nothing */
    (void)world_open(w, (enum lh_method)(w->part->first + take_byte(&w->in) % methods), "peer:1");
}

static void say_any(struct world *w)
{
    if (w->link_count == 0)
        return;
    uint8_t which = take_byte(&w->in);
    struct link *l = &w->links[w->link_count - 1 - which % w->link_count];
    const struct lh_method_info *info = lh_method_info(l->method);
    ProtobufCMessage *m =
        make_message(&w->said, incoming(l) == LH_REQUEST ? info->request : info->reply, &w->in);
    struct lh_buf payload = make_batches(&w->said, &w->in, last_said(&w->said, "checksum"));

    world_say(w, l, m, &payload);
    lh_buf_clear(&payload);
    lh_wire_free(m);
}

static void close_any(struct world *w)
{
    if (w->link_count == 0)
        return;
    struct link *which = &w->links[take_byte(&w->in) % w->link_count], l = *which;
    if (incoming(&l) == LH_REQUEST && lh_method_info(l.method)->request_stream && !l.half &&
        (take_byte(&w->in) & 3) == 0) {
        which->half = true;
        world_step(
            w, &(struct lh_input){.kind = LH_IN_HALF_CLOSED, .link = l.id, .method = l.method});
        return;
    }
    int error = (take_byte(&w->in) & 1) != 0 ? LH_OK : some_error(w);
    world_end(w, which, error, "the peer is gone");
}

static void answer_all(struct world *w)
{
    for (unsigned n = 0; w->heard_count > 0; n++) {
        struct heard h = w->heard[0];
        struct link *l = find(w, h.link);
        memmove(w->heard, w->heard + 1, --w->heard_count * sizeof h);
        if (l != NULL && !w->stopped && n < HEARD_MAX)
            w->part->answer(w, l, h.message);
        lh_wire_free(h.message);
    }
}

/* All that is under way is done, and what follows from it. */
static void settle(struct world *w)
{
    for (unsigned i = 0; i < 64 && !w->stopped && w->op_count + w->commit_count > 0; i++) {
        if (w->op_count > 0)
            complete_op(w, 0, LH_OK);
        complete_commit(w, LH_OK);
        answer_all(w);
    }
}

static void happen(struct world *w)
{
    uint8_t what = take_byte(&w->in);

    if (w->stopped) {
        end_process(w);
        begin_process(w);
    }
    if (what >= 128) {
        w->part->usual(w, what - 128u);
        return;
    }
    switch (what % 16) {
    case 0:
    case 1:
        tick(w);
        break;
    case 2:
    case 3:
        open_any(w);
        break;
    case 4:
    case 5:
    case 6:
        say_any(w);
        break;
    case 7:
        close_any(w);
        break;
    case 8:
        if (w->op_count > 0)
            complete_op(w, take_byte(&w->in) % w->op_count, LH_OK);
        break;
    case 9:
        if (w->op_count > 0)
            complete_op(w, take_byte(&w->in) % w->op_count, some_error(w));
        break;
    case 10:
        complete_commit(w, LH_OK);
        break;
    case 11:
        if (what == 11)
            complete_commit(w, LH_ERR_IO);
        else
            rot(w);
        break;
    case 12:
        w->friendly = !w->friendly;
        break;
    case 13:
        if (what == 13) {
            world_step(w, &(struct lh_input){.kind = LH_IN_STOP});
        } else if (what == 29) {
            end_process(w);
            begin_process(w);
        }
        break;
    default:
        settle(w);
        break;
    }
}

void world_run(struct world *w, const struct part *part, const uint8_t *data, size_t size)
{
    w->part = part;
    w->in = (struct bytes){data, size};
    w->now = lh_instant_add((struct lh_instant){0}, lh_seconds(1000));
    w->small = take_byte(&w->in) & 15;
    w->friendly = true;
    begin_process(w);
    while (w->in.left > 0) {
        happen(w);
        answer_all(w);
    }
    end_process(w);
    w->friendly = false;
    answer_all(w);
    for (size_t i = 0; i < FILES_MAX; i++)
        drop_file(&w->files[i]);
    world_forget_store(w);
}
