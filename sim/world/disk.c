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
    uint64_t number;    /* ascending within a disk */
    enum lh_disk_op op; /* CREATE, WRITE, TRUNCATE */
    uint64_t offset, length;
    struct lh_buf data;
};

struct file {
    uint64_t number;
    uint64_t reserved; /* bytes preallocated */
    bool on_platter;   /* its directory entry is */
    bool astray;       /* the platter may differ from the cache by more than the changes below */
    /* The platter is as the cache: it has no memory of its own. Most files are so most of the time;
     * what is about to change the cache calls part() first. */
    bool together;
    struct bytes cache, platter;
    struct change *first, *last; /* unsynced, in order */
};

struct disk_op {
    struct disk_op *next, *prev;
    uint64_t ticket;
    uint64_t file;
    enum lh_disk_op op;
    uint64_t offset, length;
    struct lh_buf data;
    int fault;
    bool dropped;   /* the process that wanted it is gone */
    bool waiting;   /* it would have completed, but the disk is stalled */
    uint64_t knows; /* SYNC: the last change that the core knew of when it emitted it */
};

/* A file gets so many bytes of memory, or as many as are reserved for it, with its first one. */
#define FIRST_BYTES (UINT64_C(256) << 10)

static void reserve_bytes(struct bytes *b, uint64_t size)
{
    LH_GROW(b->data, b->capacity, size);
}

static void resize(struct bytes *b, uint64_t size)
{
    if (size > b->size) {
        reserve_bytes(b, size);
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

/* Where the file of that number is in the list, or would be. */
static size_t position(const struct disk *d, uint64_t number)
{
    size_t low = 0, high = d->file_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->files[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct file *find_file(const struct disk *d, uint64_t number)
{
    size_t i = position(d, number);

    return i < d->file_count && d->files[i]->number == number ? d->files[i] : NULL;
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

static uint64_t allocated(const struct file *f)
{
    return f->cache.size > f->reserved ? f->cache.size : f->reserved;
}

static void remove_file(struct disk *d, uint64_t number)
{
    size_t i = position(d, number);

    if (i == d->file_count || d->files[i]->number != number)
        return;
    d->used -= allocated(d->files[i]);
    free_file(d->files[i]);
    memmove(&d->files[i], &d->files[i + 1], (--d->file_count - i) * sizeof *d->files);
}

static void copy_bytes(struct bytes *to, const struct bytes *from)
{
    resize(to, 0);
    resize(to, from->size);
    if (from->size > 0)
        memcpy(to->data, from->data, from->size);
}

/* The cache is about to change, and the platter is not. */
static void part(struct file *f)
{
    if (f->together)
        copy_bytes(&f->platter, &f->cache);
    f->together = false;
}

/* Files that have come to rest give memory back: there may be thousands that nobody will write
 * to any more. */
static void unite(struct file *f)
{
    if (f->together || f->astray || f->first != NULL || !f->on_platter)
        return;
    f->together = true;
    free(f->platter.data);
    f->platter = (struct bytes){0};
    if (f->cache.size > 0)
        f->cache.data = lh_realloc_array(f->cache.data, f->cache.size, 1);
    f->cache.capacity = f->cache.size;
}

static void resize_cache(struct disk *d, struct file *f, uint64_t size)
{
    uint64_t before = allocated(f);

    part(f);
    if (f->cache.capacity == 0 && size > 0)
        reserve_bytes(&f->cache, f->reserved < FIRST_BYTES ? f->reserved : FIRST_BYTES);
    resize(&f->cache, size);
    d->used += allocated(f) - before;
}

static void write_cache(
    struct disk *d, struct file *f, uint64_t offset, const struct lh_buf *data, uint64_t size)
{
    if (size == 0)
        return;
    part(f);
    if (f->cache.size < offset + size)
        resize_cache(d, f, offset + size);
    write_bytes(&f->cache, offset, data, size);
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

/* What was done to the cache and not yet to the platter. `size`: of a write, how much. */
static void remember(struct disk *d, struct file *f, const struct disk_op *op, uint64_t size)
{
    struct change *c = lh_alloc(sizeof *c);

    LH_ASSERT(!f->together);
    *c = (struct change){
        .number = ++d->changes, .op = op->op, .offset = op->offset, .length = op->length};
    if (op->op == LH_DISK_WRITE)
        lh_buf_append(&c->data, &op->data, 0, size);
    if (f->last != NULL)
        f->last->next = c;
    else
        f->first = c;
    f->last = c;
}

static void forget_first(struct file *f)
{
    struct change *c = f->first;

    f->first = c->next;
    if (f->first == NULL)
        f->last = NULL;
    free_change(c);
}

/* Each of these does the operation in the kernel's view and returns what the process is told. */

static int do_create(struct disk *d, const struct disk_op *op)
{
    size_t i = position(d, op->file);

    if (i < d->file_count && d->files[i]->number == op->file)
        return LH_ERR_ALREADY_EXISTS;
    if (op->length > d->capacity || d->used > d->capacity - op->length)
        return LH_ERR_DISK_FULL;
    for (size_t k = 0; k < d->file_count; k++)
        unite(d->files[k]);
    struct file *f = lh_alloc(sizeof *f);
    f->number = op->file;
    f->reserved = op->length;
    LH_GROW(d->files, d->file_capacity, d->file_count + 1);
    memmove(&d->files[i + 1], &d->files[i], (d->file_count++ - i) * sizeof *d->files);
    d->files[i] = f;
    d->used += allocated(f);
    remember(d, f, op, 0);
    return LH_OK;
}

/* The first `size` bytes of an operation's data, in the kernel's view. */
static void change_bytes(struct disk *d, struct file *f, const struct disk_op *op, uint64_t size)
{
    part(f);
    write_cache(d, f, op->offset, &op->data, size);
    remember(d, f, op, size);
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
        struct disk_op wrong = {
            .op = LH_DISK_WRITE, .offset = d->wrong_offset, .data = lh_buf_ref(&op->data)};
        uint64_t room = hit->cache.size - d->wrong_offset;
        uint64_t size = op->data.size < room ? op->data.size : room;
        change_bytes(d, hit, &wrong, size);
        lh_buf_clear(&wrong.data);
        lh_sim_tell_disk(node, hit->number, LH_DISK_WRITE, d->wrong_offset, size, LH_ERR_CLOSED);
    }
    if (end > meant->cache.size) {
        struct disk_op gap = {.op = LH_DISK_WRITE, .offset = meant->cache.size};
        uint8_t *zeros;
        gap.data = lh_buf_alloc(end - meant->cache.size, &zeros);
        memset(zeros, 0, gap.data.size);
        change_bytes(d, meant, &gap, gap.data.size);
        lh_buf_clear(&gap.data);
    }
    return LH_OK;
}

static int do_write(struct lh_sim_node *node, const struct disk_op *op, uint64_t size, int error)
{
    struct disk *d = &node->disk;
    struct file *f = find_file(d, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    uint64_t end = op->offset + size, there = allocated(f);
    if (end > there && d->used + (end - there) > d->capacity) {
        error = LH_ERR_DISK_FULL;
        size = lh_prng_below(&node->sim->streams[LH_SIM_DISK], size);
        if (op->offset + size > there)
            size = op->offset < there ? there - op->offset : 0;
    }
    change_bytes(d, f, op, size);
    return error;
}

static int do_truncate(struct disk *d, const struct disk_op *op)
{
    struct file *f = find_file(d, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    resize_cache(d, f, op->length);
    remember(d, f, op, 0);
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
    /* What a later sync has covered meanwhile is gone from the list. */
    while (f->first != NULL && f->first->number <= op->knows) {
        /* After a failed sync the pages count as clean: no later sync covers them (FAIL-5). */
        if (op->fault == LH_OK || lh_prng_below(&node->sim->streams[LH_SIM_DISK], 2) == 0)
            to_platter(f, f->first, f->first->data.size);
        else
            f->astray = true;
        forget_first(f);
    }
    return op->fault;
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
    struct disk *d = &node->disk;
    struct disk_op *op = lh_alloc(sizeof *op);

    *op = (struct disk_op){.ticket = e->ticket,
        .file = e->file,
        .op = e->op,
        .offset = e->offset,
        .length = e->length,
        .data = lh_buf_take(&e->payload),
        .knows = d->changes,
        .prev = d->last_running};
    if (d->faults[op->op].count > 0) {
        d->faults[op->op].count--;
        op->fault = d->faults[op->op].error;
    }
    if (op->prev != NULL)
        op->prev->next = op;
    else
        d->running = op;
    d->last_running = op;
    schedule(node, op, duration(node, op->op));
}

static void free_op(struct disk_op *op)
{
    lh_buf_clear(&op->data);
    free(op);
}

static void unlink_op(struct disk *d, struct disk_op *op)
{
    if (op->prev != NULL)
        op->prev->next = op->next;
    else
        d->running = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
    else
        d->last_running = op->prev;
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
    struct disk *d = &node->disk;
    size_t kept = 0;

    d->used = 0;
    for (size_t i = 0; i < d->file_count; i++) {
        struct file *f = d->files[i];
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
            forget_first(f);
        }
        if (!f->on_platter) {
            free_file(f);
            continue;
        }
        if (!f->together)
            copy_bytes(&f->cache, &f->platter);
        f->astray = false;
        d->used += allocated(f);
        d->files[kept++] = f;
    }
    d->file_count = kept;
}

void lh_sim_disk_drop(struct lh_sim_node *node, bool machine)
{
    struct disk *d = &node->disk;

    while (d->running != NULL) {
        struct disk_op *op = d->running;
        unlink_op(d, op);
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
    for (size_t i = 0; i < d->file_count; i++)
        free_file(d->files[i]);
    free(d->files);
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
    return node->disk.used;
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
    lh_sim_store_go_on(node);
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
    size_t count = node->disk.file_count;

    *files = lh_alloc_array(count, sizeof **files);
    for (size_t i = 0; i < count; i++)
        (*files)[i] = node->disk.files[i]->number;
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

    return f == NULL || !f->on_platter ? NULL : show(f->together ? &f->cache : &f->platter, size);
}

void lh_sim_file_rot(struct lh_sim_node *node, uint64_t file, uint64_t offset, uint8_t mask)
{
    struct file *f = find_file(&node->disk, file);

    LH_ASSERT(f != NULL && offset < f->cache.size);
    lh_sim_note(node->sim, "%s: bits of byte %llu of file %llu turn over", node->name,
        (unsigned long long)offset, (unsigned long long)file);
    f->cache.data[offset] ^= mask;
    if (!f->together && offset < f->platter.size)
        f->platter.data[offset] ^= mask;
    if (f->first != NULL)
        f->astray = true; /* one of these may bring the old byte to the platter */
    lh_sim_tell_disk(node, file, LH_DISK_WRITE, offset, 1, LH_ERR_CLOSED);
}
