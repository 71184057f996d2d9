/* Operations on a machine's files: how long they take, and what becomes of them when their process
 * or the machine goes down. What else they meet is set in disk_faults.c. */
#include "sim/world/disk.h"
#include "sim/world/internal.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512u

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
    bool lies;      /* SYNC: it does nothing, and says that it has succeeded */
    uint64_t knows; /* SYNC: the last change that the core knew of when it emitted it */
    uint64_t size;  /* RESERVE: the file's when it began, to which room behind it is cut */
};

/* Each of these does the operation in the kernel's view and returns what the process is told. */

static int do_create(struct disk *d, const struct disk_op *op)
{
    if (lh_sim_files_find(&d->files, op->file) != NULL)
        return LH_ERR_ALREADY_EXISTS;
    if (op->length > d->capacity || d->files.used > d->capacity - op->length)
        return LH_ERR_DISK_FULL;
    lh_sim_files_create(&d->files, op->file, op->length);
    return LH_OK;
}

/* The disk writes at a wrong place. It knows nothing of files' ends, and so moves none but that of
 * the file that was meant. */
static int write_elsewhere(struct lh_sim_node *node, const struct disk_op *op)
{
    struct disk *d = &node->disk;
    struct lh_sim_file *meant = lh_sim_files_find(&d->files, op->file);
    struct lh_sim_file *hit = lh_sim_files_find(&d->files, d->wrong_file);
    uint64_t end = op->offset + op->data.size;

    if (meant == NULL)
        return LH_ERR_NOT_FOUND;
    d->misdirect = false;
    lh_sim_note(node->sim,
        "%s writes %" PRIu64 " bytes of file %" PRIu64 " at %" PRIu64 " to file %" PRIu64
        " at %" PRIu64,
        node->name, op->data.size, op->file, op->offset, d->wrong_file, d->wrong_offset);
    if (hit != NULL && d->wrong_offset < hit->cache.size) {
        uint64_t room = hit->cache.size - d->wrong_offset;
        uint64_t size = op->data.size < room ? op->data.size : room;
        lh_sim_files_write(&d->files, hit, d->wrong_offset, &op->data, size);
        lh_sim_notify_disk(node, hit->number, LH_DISK_WRITE, d->wrong_offset, size, LH_ERR_CLOSED);
    }
    if (end > meant->cache.size) {
        uint8_t *zeros;
        struct lh_buf gap = lh_buf_alloc(end - meant->cache.size, &zeros);
        memset(zeros, 0, gap.size);
        lh_sim_files_write(&d->files, meant, meant->cache.size, &gap, gap.size);
        lh_buf_clear(&gap);
    }
    /* What is there now nobody wrote either. */
    lh_sim_notify_disk(node, op->file, LH_DISK_WRITE, op->offset, op->data.size, LH_ERR_CLOSED);
    return LH_OK;
}

static int do_write(struct lh_sim_node *node, const struct disk_op *op, uint64_t size, int error)
{
    struct disk *d = &node->disk;
    struct lh_sim_file *f = lh_sim_files_find(&d->files, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    uint64_t end = op->offset + size, there = lh_sim_file_allocated(f);
    if (end > there && d->files.used + (end - there) > d->capacity) {
        error = LH_ERR_DISK_FULL;
        size = lh_prng_below(&node->sim->streams[LH_SIM_DISK], size);
        if (op->offset + size > there)
            size = op->offset < there ? there - op->offset : 0;
    }
    lh_sim_files_write(&d->files, f, op->offset, &op->data, size);
    return error;
}

static int do_reserve(struct disk *d, const struct disk_op *op)
{
    struct lh_sim_file *f = lh_sim_files_find(&d->files, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    uint64_t there = lh_sim_file_allocated(f);
    uint64_t room = d->files.used < d->capacity ? d->capacity - d->files.used : 0;
    if (op->length > there && op->length - there > room) {
        lh_sim_files_reserve(&d->files, f, there + room); /* as ext4: what there is, it takes */
        return LH_ERR_DISK_FULL;
    }
    /* Room is given back by cutting the file to the length that it had: not of a file that is
     * written to. */
    if (op->length == 0 && f->cache.size > op->size)
        lh_sim_files_truncate(&d->files, f, op->size);
    lh_sim_files_reserve(&d->files, f, op->length);
    return LH_OK;
}

static int do_truncate(struct disk *d, const struct disk_op *op)
{
    struct lh_sim_file *f = lh_sim_files_find(&d->files, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    lh_sim_files_truncate(&d->files, f, op->length);
    return LH_OK;
}

static int do_read(const struct disk *d, const struct disk_op *op, struct lh_buf *result)
{
    const struct lh_sim_file *f = lh_sim_files_find(&d->files, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    if (op->offset < f->cache.size) {
        uint64_t left = f->cache.size - op->offset;
        *result = lh_buf_copy(f->cache.data + op->offset, op->length < left ? op->length : left);
    }
    return LH_OK;
}

static int do_sync(struct lh_sim_node *node, const struct disk_op *op)
{
    struct lh_sim_file *f = lh_sim_files_find(&node->disk.files, op->file);

    if (f == NULL)
        return LH_ERR_NOT_FOUND;
    if (op->lies && lh_sim_file_claim(f, op->knows)) {
        lh_sim_note(node->sim, "a sync of file %" PRIu64 " at %s succeeds in words alone", op->file,
            node->name);
        lh_sim_notify_disk(node, op->file, LH_DISK_SYNC, 0, 0, LH_ERR_CLOSED);
        return LH_OK;
    }
    lh_sim_file_sync(f, op->knows, op->fault == LH_OK ? NULL : &node->sim->streams[LH_SIM_DISK]);
    f->failed = f->failed || op->fault != LH_OK;
    return op->fault;
}

static int do_replace(struct disk *d, const struct disk_op *op)
{
    if (lh_sim_files_find(&d->files, op->file) == NULL)
        return LH_ERR_NOT_FOUND;
    lh_sim_files_rename(&d->files, op->file, op->file & ~LH_NEW_FILE);
    return LH_OK;
}

static int do_remove(struct disk *d, const struct disk_op *op)
{
    lh_sim_files_remove(&d->files, op->file);
    lh_sim_files_remove(&d->files, op->file | LH_NEW_FILE);
    return LH_OK;
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

static bool is_refused(const struct disk *d, enum lh_disk_op op)
{
    return op == LH_DISK_SYNC ? d->refuses_sync : op != LH_DISK_READ;
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
        .knows = d->files.changes,
        .prev = d->last_running};
    if (e->op == LH_DISK_RESERVE) {
        const struct lh_sim_file *f = lh_sim_files_find(&d->files, e->file);
        op->size = f == NULL ? 0 : f->cache.size;
    }
    if (d->starved) {
        op->fault = LH_ERR_SHORTAGE;
    } else if (d->shut && op->op != LH_DISK_READ) {
        op->fault = LH_ERR_IO;
        if (d->failed_at == 0 && (op->op == LH_DISK_SYNC || op->file == LH_PROBE_FILE))
            d->failed_at = node->sim->now;
    } else if (d->refuses != LH_OK && is_refused(d, op->op)) {
        op->fault = d->refuses;
    } else if (d->faults[op->op].count > 0) {
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

/* There is no descriptor or no memory for it. A sync was not tried, and has failed no page. */
static int do_not(struct lh_sim_node *node, struct disk_op *op, struct lh_buf *result)
{
    if (op->op != LH_DISK_WRITE)
        return op->fault;
    (void)do_write(
        node, op, lh_prng_below(&node->sim->streams[LH_SIM_DISK], op->data.size + 1), op->fault);
    *result = lh_buf_ref(&op->data);
    return op->fault;
}

/* A file that has another name now, by which no process looks for it. */
static void set_aside(struct lh_sim_node *node, uint64_t file)
{
    lh_sim_files_remove(&node->disk.files, file);
    lh_sim_notify_disk(node, file, LH_DISK_REMOVE, 0, 0, LH_ERR_CLOSED);
}

static int perform(struct lh_sim_node *node, struct disk_op *op, struct lh_buf *result)
{
    struct lh_sim_file *f = lh_sim_files_find(&node->disk.files, op->file);
    if (op->fault == LH_ERR_SHORTAGE)
        return do_not(node, op, result);
    bool opens = op->op != LH_DISK_CREATE && op->op != LH_DISK_REMOVE;
    if (f != NULL && f->unreported && opens) {
        f->unreported = false;
        lh_sim_file_drop_cache(&node->disk.files, f);
        return LH_ERR_UNSYNCED;
    }
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
        if (f != NULL && f->failed)
            set_aside(node, op->file); /* its name is free */
        return do_create(&node->disk, op);
    case LH_DISK_TRUNCATE:
        return do_truncate(&node->disk, op);
    case LH_DISK_RESERVE:
        return do_reserve(&node->disk, op);
    case LH_DISK_READ:
        return do_read(&node->disk, op, result);
    case LH_DISK_REPLACE:
        return do_replace(&node->disk, op);
    default:
        return do_remove(&node->disk, op);
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
    lh_sim_notify_disk(node, op->file, op->op, op->offset,
        op->op == LH_DISK_WRITE  ? op->data.size
        : op->op == LH_DISK_READ ? in.payload.size
                                 : op->length,
        in.error);
    free_op(op);
    lh_sim_feed(node, &in, NULL);
    lh_buf_clear(&in.payload);
}

/* Some whole sectors of a write, from its front: how far it came before its process was killed. */
static uint64_t torn(struct lh_prng *random, uint64_t size)
{
    uint64_t sectors = lh_prng_below(random, size / SECTOR + 1);

    return sectors * SECTOR;
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
    lh_buf_clear(&ignored);
    lh_sim_notify_disk(node, op->file, op->op, op->offset,
        op->op == LH_DISK_WRITE ? op->data.size : op->length,
        op->op == LH_DISK_SYNC && op->fault != LH_OK ? op->fault : LH_ERR_CLOSED);
}

/* The process that was to ask about them is gone (lh_sim_disk_shut_down()). */
static void settle_claims(struct lh_sim_node *node)
{
    struct disk *d = &node->disk;
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];
    bool asked = d->failed_at != 0 && !d->stalled && !d->starved &&
                 node->sim->now - d->failed_at >= LH_SIM_TIME_TO_ASK.ns;

    for (size_t i = 0; i < d->files.count; i++)
        if (d->files.list[i]->first != NULL)
            lh_sim_file_sync(d->files.list[i], UINT64_MAX, asked ? random : NULL);
    d->failed_at = 0;
}

void lh_sim_disk_shut_down(struct lh_sim_node *node)
{
    struct disk *d = &node->disk;

    if (d->shut)
        return;
    lh_sim_note(node->sim, "the file system of %s shuts itself down", node->name);
    d->shut = true;
    d->failed_at = 0;
    for (struct disk_op *op = d->running; op != NULL; op = op->next)
        if (op->op == LH_DISK_SYNC && op->fault == LH_OK)
            op->lies = lh_prng_below(&node->sim->streams[LH_SIM_DISK], 2) == 0;
}

void lh_sim_disk_drop(struct lh_sim_node *node, bool machine)
{
    struct disk *d = &node->disk;

    d->misdirect = false; /* it was the write of a process that is told */
    while (d->running != NULL) {
        struct disk_op *op = d->running;
        unlink_op(d, op);
        leave_unknown(node, op);
        op->dropped = true;
        if (op->waiting)
            free_op(op);
    }
    if (d->shut)
        settle_claims(node);
    if (!machine)
        return;
    lh_sim_files_lose_power(&d->files, &node->sim->streams[LH_SIM_DISK]);
    d->shut = false; /* the next boot mounts it */
}

void lh_sim_disk_init(struct disk *d)
{
    *d = (struct disk){.capacity = UINT64_MAX};
}

void lh_sim_disk_deinit(struct disk *d)
{
    lh_sim_files_deinit(&d->files);
    while (d->running != NULL) {
        struct disk_op *next = d->running->next;
        free_op(d->running);
        d->running = next;
    }
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

static int meet_first_sync(struct disk *d)
{
    struct disk_fault *fault = &d->faults[LH_DISK_SYNC];

    if (fault->count == 0 || fault->error == LH_ERR_SHORTAGE)
        return d->shut ? LH_ERR_IO : LH_OK;
    fault->count--;
    return fault->error;
}

void lh_sim_disk_sync_all(struct lh_sim_node *node)
{
    struct lh_prng *random = &node->sim->streams[LH_SIM_DISK];

    for (size_t i = node->disk.files.count; i-- > 0;)
        if ((node->disk.files.list[i]->number & LH_NEW_FILE) != 0)
            lh_sim_files_remove(&node->disk.files, node->disk.files.list[i]->number);
    for (size_t i = 0; i < node->disk.files.count; i++) {
        struct lh_sim_file *f = node->disk.files.list[i];
        if (f->first != NULL) {
            int error = meet_first_sync(&node->disk);
            f->failed = f->failed || error != LH_OK;
            lh_sim_file_sync(f, UINT64_MAX, error == LH_OK ? NULL : random);
            lh_sim_notify_disk(node, f->number, LH_DISK_SYNC, 0, 0, error);
        }
        f->unreported = f->failed;
    }
}

size_t lh_sim_files(const struct lh_sim_node *node, uint64_t **files)
{
    size_t count = node->disk.files.count;

    *files = lh_alloc_array(count, sizeof **files);
    for (size_t i = 0; i < count; i++)
        (*files)[i] = node->disk.files.list[i]->number;
    return count;
}

const uint8_t *lh_sim_file(const struct lh_sim_node *node, uint64_t file, uint64_t *size)
{
    const struct lh_sim_file *f = lh_sim_files_find(&node->disk.files, file);

    return f == NULL ? NULL : lh_sim_file_cache(f, size);
}

const uint8_t *lh_sim_platter(const struct lh_sim_node *node, uint64_t file, uint64_t *size)
{
    const struct lh_sim_file *f = lh_sim_files_find(&node->disk.files, file);

    return f == NULL || !f->on_platter ? NULL : lh_sim_file_platter(f, size);
}
