/* Files of bytes, twice: as the kernel shows them to a process, and as they are on the platter.
 * What a process did and has not synced lies in between: a process crash keeps it, a power loss
 * keeps, drops or tears each piece by itself, and a sync takes to the platter exactly what the
 * driver contract says it covers (base/step.h). */
#include "sim/world/internal.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR 512u

struct bytes {
    uint8_t *data;
    uint64_t size, capacity;
};

/* A change that the kernel has made and the platter perhaps not. The core knows of it: it was told
 * when the change was made, so the next sync covers it. */
struct change {
    struct change *next;
    enum lh_disk_op op; /* CREATE, WRITE, TRUNCATE */
    uint64_t offset, length;
    struct lh_buf data;
};

struct file {
    struct file *next;
    uint64_t number;
    uint64_t reserved; /* bytes preallocated */
    bool on_platter;   /* its directory entry is */
    struct bytes cache, platter;
    struct change *first, *last; /* unsynced, in order */
};

struct disk_op {
    struct disk_op *next;
    uint64_t ticket;
    uint64_t file;
    enum lh_disk_op op;
    uint64_t offset, length;
    struct lh_buf data;
    int fault;
    bool dropped;            /* the process that wanted it is gone */
    bool waiting;            /* it would have completed, but the disk is stalled */
    struct change **covered; /* SYNC: what it takes to the platter */
    size_t covered_count;
};

static void resize(struct bytes *b, uint64_t size)
{
    if (size > b->size) {
        LH_GROW(b->data, b->capacity, size);
        memset(b->data + b->size, 0, size - b->size);
    }
    b->size = size;
}

static void write_bytes(struct bytes *b, uint64_t offset, const struct lh_buf *data, uint64_t size)
{
    if (size == 0)
        return;
    if (b->size < offset + size)
        resize(b, offset + size);
    bool whole = lh_buf_read(data, 0, b->data + offset, size);
    LH_ASSERT(whole);
}

static struct file **slot_of(struct disk *d, uint64_t number)
{
    struct file **f = &d->files;

    while (*f != NULL && (*f)->number < number)
        f = &(*f)->next;
    return f;
}

static struct file *find_file(const struct disk *d, uint64_t number)
{
    struct file *f = d->files;

    while (f != NULL && f->number < number)
        f = f->next;
    return f != NULL && f->number == number ? f : NULL;
}

static void free_change(struct change *c)
{
    lh_buf_clear(&c->data);
    free(c);
}

static void free_file(struct file *f)
{
    while (f->first != NULL) {
        struct change *next = f->first->next;
        free_change(f->first);
        f->first = next;
    }
    free(f->cache.data);
    free(f->platter.data);
    free(f);
}

static void remove_file(struct disk *d, uint64_t number)
{
    struct file **slot = slot_of(d, number);
    struct file *f = *slot;

    if (f == NULL || f->number != number)
        return;
    /* A sync of it under way has nothing left to take to the platter. */
    for (struct disk_op *op = d->running; op != NULL; op = op->next)
        if (op->file == number)
            op->covered_count = 0;
    *slot = f->next;
    free_file(f);
}

static uint64_t allocated(const struct file *f)
{
    return f->cache.size > f->reserved ? f->cache.size : f->reserved;
}

static uint64_t used(const struct disk *d)
{
    uint64_t bytes = 0;

    for (const struct file *f = d->files; f != NULL; f = f->next)
        bytes += allocated(f);
    return bytes;
}

/* Does a change to the platter, or as much of it as `size` says of a write. */
static void to_platter(struct file *f, const struct change *c, uint64_t size)
{
    switch (c->op) {
    case LH_DISK_CREATE:
        f->on_platter = true;
        break;
    case LH_DISK_WRITE:
        write_bytes(&f->platter, c->offset, &c->data, size);
        break;
    case LH_DISK_TRUNCATE:
        resize(&f->platter, c->length);
        break;
    default:
        LH_UNREACHABLE();
    }
}

static struct change *remember(struct file *f, const struct disk_op *op)
{
    struct change *c = lh_alloc(sizeof *c);

    *c = (struct change){
        .op = op->op, .offset = op->offset, .length = op->length, .data = lh_buf_ref(&op->data)};
    if (f->last != NULL)
        f->last->next = c;
    else
        f->first = c;
    f->last = c;
    return c;
}

static void forget(struct file *f, const struct change *c)
{
    struct change **slot = &f->first;

    f->last = NULL;
    while (*slot != NULL) {
        if (*slot == c) {
            struct change *next = c->next;
            free_change(*slot);
            *slot = next;
        } else {
            f->last = *slot;
            slot = &(*slot)->next;
        }
    }
}

/* Each of these does the operation in the kernel's view and returns what the process is told. */

static int do_create(struct disk *d, const struct disk_op *op)
{
    struct file **slot = slot_of(d, op->file);

    if (*slot != NULL && (*slot)->number == op->file)
        return LH_ERR_ALREADY_EXISTS;
    if (op->length > d->capacity || used(d) > d->capacity - op->length)
        return LH_ERR_DISK_FULL;
    struct file *f = lh_alloc(sizeof *f);
    f->number = op->file;
    f->reserved = op->length;
    f->next = *slot;
    *slot = f;
    remember(f, op);
    return LH_OK;
}

/* Bytes [from, to) of `data`, written at `offset` + `from`. */
static void change_bytes(
    struct file *f, uint64_t offset, const struct lh_buf *data, uint64_t from, uint64_t to)
{
    struct disk_op part = {.op = LH_DISK_WRITE, .offset = offset + from};

    lh_buf_append(&part.data, data, from, to - from);
    write_bytes(&f->cache, part.offset, &part.data, to - from);
    remember(f, &part);
    lh_buf_clear(&part.data);
}

/* The disk writes at a wrong place. It knows nothing of files' ends, and so moves none but that of
 * the file that was meant. */
static int write_elsewhere(struct lh_sim_node *node, const struct disk_op *op)
{
    struct disk *d = &node->disk;
    struct file *meant = find_file(d, op->file), *hit = find_file(d, d->wrong_file);
    uint64_t end = op->offset + op->data.size;

    if (meant == NULL)
        return LH_ERR_NOT_FOUND;
    d->misdirect = false;
    lh_sim_note(node->sim, "%s writes %llu bytes of file %llu at %llu to file %llu at %llu",
        node->name, (unsigned long long)op->data.size, (unsigned long long)op->file,
        (unsigned long long)op->offset, (unsigned long long)d->wrong_file,
        (unsigned long long)d->wrong_offset);
    if (hit != NULL && d->wrong_offset < hit->cache.size) {
        uint64_t room = hit->cache.size - d->wrong_offset;
        uint64_t size = op->data.size < room ? op->data.size : room;
        change_bytes(hit, d->wrong_offset, &op->data, 0, size);
        lh_sim_tell_disk(node, hit->number, LH_DISK_WRITE, d->wrong_offset, size, LH_ERR_CLOSED);
    }
    if (end > meant->cache.size) {
        uint8_t *zeros;
        struct lh_buf gap = lh_buf_alloc(end - meant->cache.size, &zeros);
        memset(zeros, 0, gap.size);
        change_bytes(meant, meant->cache.size, &gap, 0, gap.size);
        lh_buf_clear(&gap);
    }
    return LH_OK;
}

static int do_write(struct lh_sim_node *node, struct disk_op *op, uint64_t size, int error)
{
    struct file *f = find_file(&node->disk, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    uint64_t end = op->offset + size;
    if (end > allocated(f) && used(&node->disk) + (end - allocated(f)) > node->disk.capacity) {
        error = LH_ERR_DISK_FULL;
        size = lh_prng_below(&node->sim->streams[LH_SIM_DISK], size);
        if (op->offset + size > allocated(f))
            size = op->offset < allocated(f) ? allocated(f) - op->offset : 0;
    }
    write_bytes(&f->cache, op->offset, &op->data, size);
    struct change *c = remember(f, op);
    struct lh_buf written = {0};
    lh_buf_append(&written, &c->data, 0, size);
    lh_buf_clear(&c->data);
    c->data = written;
    return error;
}

static int do_truncate(struct disk *d, const struct disk_op *op)
{
    struct file *f = find_file(d, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    resize(&f->cache, op->length);
    remember(f, op);
    return LH_OK;
}

static int do_read(const struct disk *d, const struct disk_op *op, struct lh_buf *result)
{
    const struct file *f = find_file(d, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    if (op->offset < f->cache.size) {
        uint64_t left = f->cache.size - op->offset;
        *result = lh_buf_copy(f->cache.data + op->offset, op->length < left ? op->length : left);
    }
    return LH_OK;
}

/* Some whole sectors of a write, from its front: how far it came before its process was killed. */
static uint64_t torn(struct lh_prng *random, uint64_t size)
{
    uint64_t sectors = lh_prng_below(random, size / SECTOR + 1);

    return sectors * SECTOR;
}

/* What a power loss leaves of a write when it tears it: any of the sectors that it covers, and
 * perhaps the file's new end without the bytes before it. */
static void tear(struct lh_prng *random, struct file *f, const struct change *c)
{
    struct lh_buf part = {0};
    uint64_t next;

    for (uint64_t from = 0; from < c->data.size; from = next) {
        next = from + SECTOR - (c->offset + from) % SECTOR;
        if (next > c->data.size)
            next = c->data.size;
        if (lh_prng_below(random, 2) == 0)
            continue;
        lh_buf_append(&part, &c->data, from, next - from);
        write_bytes(&f->platter, c->offset + from, &part, part.size);
        lh_buf_clear(&part);
    }
    if (c->offset + c->data.size > f->platter.size && lh_prng_below(random, 4) == 0)
        resize(&f->platter, c->offset + c->data.size);
}

static int do_sync(struct lh_sim_node *node, const struct disk_op *op)
{
    struct file *f = find_file(&node->disk, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    for (size_t i = 0; i < op->covered_count; i++) {
        struct change *c = op->covered[i];
        /* After a failed sync the pages count as clean: no later sync covers them (FAIL-5). */
        if (op->fault == LH_OK || lh_prng_below(&node->sim->streams[LH_SIM_DISK], 2) == 0)
            to_platter(f, c, c->data.size);
        for (struct disk_op *other = node->disk.running; other != NULL; other = other->next)
            for (size_t j = 0; j < other->covered_count; j++)
                if (other->covered[j] == c)
                    other->covered[j--] = other->covered[--other->covered_count];
        forget(f, c);
    }
    return op->fault;
}

static void cover(struct disk *d, struct disk_op *op)
{
    struct file *f = find_file(d, op->file);
    size_t count = 0;

    if (f == NULL)
        return;
    for (struct change *c = f->first; c != NULL; c = c->next)
        count++;
    op->covered = lh_alloc_array(count, sizeof(struct change *));
    for (struct change *c = f->first; c != NULL; c = c->next)
        op->covered[op->covered_count++] = c;
}

static uint64_t duration(struct lh_sim_node *node, enum lh_disk_op op)
{
    const struct lh_sim_config *config = &node->sim->config;
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];
    const struct lh_sim_range *range = op == LH_DISK_SYNC   ? &config->sync
                                       : op == LH_DISK_READ ? &config->read
                                                            : &config->write;

    return lh_sim_draw(random, range) + lh_sim_draw_tail(random, &config->disk_tail) +
           node->disk.extra;
}

static void schedule(struct lh_sim_node *node, struct disk_op *op, uint64_t delay)
{
    lh_sim_schedule(node->sim, node->sim->now + delay,
        (struct lh_sim_event){
            .kind = LH_SIM_EV_DISK, .node = node->index, .life = node->life, .about = op});
}

void lh_sim_disk_submit(struct lh_sim_node *node, struct lh_effect *e)
{
    struct disk_op *op = lh_alloc(sizeof *op);
    struct disk_op **last = &node->disk.running;

    *op = (struct disk_op){.ticket = e->ticket,
        .file = e->file,
        .op = e->op,
        .offset = e->offset,
        .length = e->length,
        .data = lh_buf_take(&e->payload)};
    if (node->disk.faults[op->op].count > 0) {
        node->disk.faults[op->op].count--;
        op->fault = node->disk.faults[op->op].error;
    }
    if (op->op == LH_DISK_SYNC)
        cover(&node->disk, op);
    while (*last != NULL)
        last = &(*last)->next;
    *last = op;
    schedule(node, op, duration(node, op->op));
}

static void free_op(struct disk_op *op)
{
    lh_buf_clear(&op->data);
    free(op->covered);
    free(op);
}

static void unlink_op(struct disk *d, struct disk_op *op)
{
    struct disk_op **slot = &d->running;

    while (*slot != op)
        slot = &(*slot)->next;
    *slot = op->next;
}

static int perform(struct lh_sim_node *node, struct disk_op *op, struct lh_buf *result)
{
    switch (op->op) {
    case LH_DISK_SYNC:
        return do_sync(node, op);
    case LH_DISK_WRITE:
        if (node->disk.misdirect && op->fault == LH_OK)
            return write_elsewhere(node, op);
        return do_write(node, op,
            op->fault == LH_OK ? op->data.size
                               : lh_prng_below(&node->sim->streams[LH_SIM_DISK], op->data.size + 1),
            op->fault);
    default:
        break;
    }
    if (op->fault != LH_OK)
        return op->fault;
    switch (op->op) {
    case LH_DISK_CREATE:
        return do_create(&node->disk, op);
    case LH_DISK_TRUNCATE:
        return do_truncate(&node->disk, op);
    case LH_DISK_READ:
        return do_read(&node->disk, op, result);
    default:
        remove_file(&node->disk, op->file);
        return LH_OK;
    }
}

void lh_sim_disk_done(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct lh_sim_node *node = sim->nodes[e->node];
    struct disk_op *op = e->about;

    if (op->dropped) {
        free_op(op);
        return;
    }
    if (node->disk.stalled) {
        op->waiting = true;
        return;
    }
    struct lh_input in = {.kind = LH_IN_DISK, .ticket = op->ticket, .file = op->file, .op = op->op};
    unlink_op(&node->disk, op);
    in.error = perform(node, op, &in.payload);
    lh_sim_hash_in(sim, lh_buf_crc32c(&in.payload, 0, in.payload.size, 0));
    lh_sim_tell_disk(node, op->file, op->op, op->offset,
        op->op == LH_DISK_WRITE  ? op->data.size
        : op->op == LH_DISK_READ ? in.payload.size
                                 : op->length,
        in.error);
    free_op(op);
    lh_sim_feed(node, &in, NULL);
    lh_buf_clear(&in.payload);
}

/* The process ended with this operation under way. */
static void leave_unknown(struct lh_sim_node *node, struct disk_op *op)
{
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];
    struct lh_buf ignored = {0};

    if (op->op == LH_DISK_READ || lh_prng_below(random, 2) == 0)
        return;
    if (op->op == LH_DISK_WRITE && lh_prng_below(random, 2) == 0)
        (void)do_write(node, op, torn(random, op->data.size), op->fault);
    else
        (void)perform(node, op, &ignored);
    lh_sim_tell_disk(node, op->file, op->op, op->offset,
        op->op == LH_DISK_WRITE ? op->data.size : op->length, LH_ERR_CLOSED);
}

static void lose_power(struct lh_sim_node *node)
{
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];
    struct file **slot = &node->disk.files;

    while (*slot != NULL) {
        struct file *f = *slot;
        while (f->first != NULL) {
            struct change *c = f->first;
            switch (lh_prng_below(random, 4)) {
            case 0: /* only a write can be there in part */
                if (c->op == LH_DISK_WRITE)
                    tear(random, f, c);
                break;
            case 1:
                break;
            default:
                to_platter(f, c, c->data.size);
            }
            forget(f, c);
        }
        if (!f->on_platter) {
            *slot = f->next;
            free_file(f);
            continue;
        }
        resize(&f->cache, 0);
        resize(&f->cache, f->platter.size);
        if (f->platter.size > 0)
            memcpy(f->cache.data, f->platter.data, f->platter.size);
        slot = &f->next;
    }
}

void lh_sim_disk_drop(struct lh_sim_node *node, bool machine)
{
    struct disk *d = &node->disk;

    while (d->running != NULL) {
        struct disk_op *op = d->running;
        d->running = op->next;
        leave_unknown(node, op);
        op->dropped = true;
        if (op->waiting)
            free_op(op);
    }
    if (machine)
        lose_power(node);
}

void lh_sim_disk_init(struct disk *d)
{
    *d = (struct disk){.capacity = UINT64_MAX};
}

void lh_sim_disk_deinit(struct disk *d)
{
    while (d->files != NULL) {
        struct file *next = d->files->next;
        free_file(d->files);
        d->files = next;
    }
    while (d->running != NULL) {
        struct disk_op *next = d->running->next;
        free_op(d->running);
        d->running = next;
    }
}

void lh_sim_disk_capacity(struct lh_sim_node *node, uint64_t bytes)
{
    if (node->disk.capacity == bytes)
        return;
    if (bytes == UINT64_MAX)
        lh_sim_note(node->sim, "the disk of %s has room again", node->name);
    else
        lh_sim_note(
            node->sim, "the disk of %s holds %llu bytes", node->name, (unsigned long long)bytes);
    node->disk.capacity = bytes;
}

uint64_t lh_sim_disk_capacity_of(const struct lh_sim_node *node)
{
    return node->disk.capacity;
}

uint64_t lh_sim_disk_used(const struct lh_sim_node *node)
{
    return used(&node->disk);
}

void lh_sim_disk_stall(struct lh_sim_node *node, bool stalled)
{
    if (node->disk.stalled == stalled)
        return;
    lh_sim_note(node->sim, "the disk of %s %s", node->name, stalled ? "stalls" : "goes on");
    node->disk.stalled = stalled;
    if (stalled)
        return;
    for (struct disk_op *op = node->disk.running; op != NULL; op = op->next) {
        if (!op->waiting)
            continue;
        op->waiting = false;
        schedule(node, op, duration(node, op->op));
    }
}

bool lh_sim_disk_is_stalled(const struct lh_sim_node *node)
{
    return node->disk.stalled;
}

void lh_sim_disk_slow(struct lh_sim_node *node, struct lh_duration extra)
{
    if (node->disk.extra == extra.ns)
        return;
    lh_sim_note(node->sim, "what the disk of %s does takes %llu ms longer", node->name,
        (unsigned long long)lh_duration_ms(extra));
    node->disk.extra = extra.ns;
}

void lh_sim_disk_fail(struct lh_sim_node *node, enum lh_disk_op op, int error, uint32_t count)
{
    if (count > 0)
        lh_sim_note(node->sim, "the next %u times that %s wants to %s a file fail: %s", count,
            node->name, lh_sim_disk_op_name(op), lh_error_name(error));
    node->disk.faults[op].error = error;
    node->disk.faults[op].count = count;
}

void lh_sim_disk_misdirect(struct lh_sim_node *node, uint64_t file, uint64_t offset)
{
    node->disk.misdirect = true; /* noted when it happens */
    node->disk.wrong_file = file;
    node->disk.wrong_offset = offset;
}

void lh_sim_mend_disk(struct lh_sim_node *node)
{
    struct disk *d = &node->disk;

    lh_sim_disk_capacity(node, UINT64_MAX);
    lh_sim_disk_slow(node, lh_nanoseconds(0));
    d->misdirect = false;
    for (size_t op = 0; op < sizeof d->faults / sizeof d->faults[0]; op++)
        d->faults[op].count = 0;
    lh_sim_disk_stall(node, false);
}

size_t lh_sim_files(const struct lh_sim_node *node, uint64_t **files)
{
    size_t count = 0;

    for (const struct file *f = node->disk.files; f != NULL; f = f->next)
        count++;
    *files = lh_alloc_array(count, sizeof **files);
    count = 0;
    for (const struct file *f = node->disk.files; f != NULL; f = f->next)
        (*files)[count++] = f->number;
    return count;
}

static const uint8_t *show(const struct bytes *b, uint64_t *size)
{
    static const uint8_t nothing[1];

    *size = b->size;
    return b->size == 0 ? nothing : b->data;
}

const uint8_t *lh_sim_file(const struct lh_sim_node *node, uint64_t file, uint64_t *size)
{
    const struct file *f = find_file(&node->disk, file);

    return f == NULL ? NULL : show(&f->cache, size);
}

const uint8_t *lh_sim_platter(const struct lh_sim_node *node, uint64_t file, uint64_t *size)
{
    const struct file *f = find_file(&node->disk, file);

    return f == NULL || !f->on_platter ? NULL : show(&f->platter, size);
}

void lh_sim_file_rot(struct lh_sim_node *node, uint64_t file, uint64_t offset, uint8_t mask)
{
    struct file *f = find_file(&node->disk, file);

    LH_ASSERT(f != NULL && offset < f->cache.size);
    lh_sim_note(node->sim, "%s: bits of byte %llu of file %llu turn over", node->name,
        (unsigned long long)offset, (unsigned long long)file);
    f->cache.data[offset] ^= mask;
    if (offset < f->platter.size)
        f->platter.data[offset] ^= mask;
    lh_sim_tell_disk(node, file, LH_DISK_WRITE, offset, 1, LH_ERR_CLOSED);
}
