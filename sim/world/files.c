#include "sim/world/files.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR 512u

/* A change that the kernel has made and the platter perhaps not. The core knows of it: it was told
 * when the change was made, so the next sync covers it. */
struct lh_sim_change {
    struct lh_sim_change *next;
    uint64_t number;    /* ascending within a disk */
    enum lh_disk_op op; /* CREATE, WRITE, TRUNCATE */
    uint64_t offset, length;
    struct lh_buf data;
};

/* A file gets so many bytes of memory, or as many as are reserved for it, with its first one. */
#define FIRST_BYTES (UINT64_C(256) << 10)

static void reserve_bytes(struct lh_sim_bytes *b, uint64_t size)
{
    LH_GROW(b->data, b->capacity, size);
}

static void resize(struct lh_sim_bytes *b, uint64_t size)
{
    if (size > b->size) {
        reserve_bytes(b, size);
        memset(b->data + b->size, 0, size - b->size);
    }
    b->size = size;
}

static void write_bytes(
    struct lh_sim_bytes *b, uint64_t offset, const struct lh_buf *data, uint64_t size)
{
    if (size == 0)
        return;
    if (b->size < offset + size)
        resize(b, offset + size);
    bool whole = lh_buf_read(data, 0, b->data + offset, size);
    LH_ASSERT(whole);
}

/* Where the file of that number is in the list, or would be. */
static size_t position(const struct lh_sim_files *files, uint64_t number)
{
    size_t low = 0, high = files->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (files->list[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct lh_sim_file *lh_sim_files_find(const struct lh_sim_files *files, uint64_t number)
{
    size_t i = position(files, number);

    return i < files->count && files->list[i]->number == number ? files->list[i] : NULL;
}

static void free_change(struct lh_sim_change *c)
{
    lh_buf_clear(&c->data);
    free(c);
}

static void free_file(struct lh_sim_file *f)
{
    while (f->first != NULL) {
        struct lh_sim_change *next = f->first->next;
        free_change(f->first);
        f->first = next;
    }
    free(f->cache.data);
    free(f->platter.data);
    free(f);
}

uint64_t lh_sim_file_allocated(const struct lh_sim_file *f)
{
    return f->cache.size > f->reserved ? f->cache.size : f->reserved;
}

void lh_sim_files_remove(struct lh_sim_files *files, uint64_t number)
{
    size_t i = position(files, number);

    if (i == files->count || files->list[i]->number != number)
        return;
    files->used -= lh_sim_file_allocated(files->list[i]);
    free_file(files->list[i]);
    memmove(&files->list[i], &files->list[i + 1], (--files->count - i) * sizeof *files->list);
}

static void copy_bytes(struct lh_sim_bytes *to, const struct lh_sim_bytes *from)
{
    resize(to, 0);
    resize(to, from->size);
    if (from->size > 0)
        memcpy(to->data, from->data, from->size);
}

/* The cache is about to change, and the platter is not. */
static void part(struct lh_sim_file *f)
{
    if (f->together)
        copy_bytes(&f->platter, &f->cache);
    f->together = false;
}

/* Files that have come to rest give memory back: there may be thousands that nobody will write
 * to any more. */
static void unite(struct lh_sim_file *f)
{
    if (f->together || f->astray || f->first != NULL || !f->on_platter)
        return;
    f->together = true;
    free(f->platter.data);
    f->platter = (struct lh_sim_bytes){0};
    if (f->cache.size > 0)
        f->cache.data = lh_realloc_array(f->cache.data, f->cache.size, 1);
    f->cache.capacity = f->cache.size;
}

static void resize_cache(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t size)
{
    uint64_t before = lh_sim_file_allocated(f);

    part(f);
    if (f->cache.capacity == 0 && size > 0)
        reserve_bytes(&f->cache, f->reserved < FIRST_BYTES ? f->reserved : FIRST_BYTES);
    resize(&f->cache, size);
    files->used += lh_sim_file_allocated(f) - before;
}

static void to_platter(struct lh_sim_file *f, const struct lh_sim_change *c)
{
    switch (c->op) {
    case LH_DISK_CREATE:
        f->on_platter = true;
        break;
    case LH_DISK_WRITE:
        write_bytes(&f->platter, c->offset, &c->data, c->data.size);
        break;
    case LH_DISK_TRUNCATE:
        resize(&f->platter, c->length);
        break;
    default:
        LH_UNREACHABLE();
    }
}

/* What was done to the cache and not yet to the platter; `data` may be NULL. */
static void remember(struct lh_sim_files *files, struct lh_sim_file *f, enum lh_disk_op op,
    uint64_t offset, const struct lh_buf *data, uint64_t length)
{
    struct lh_sim_change *c = lh_alloc(sizeof *c);

    LH_ASSERT(!f->together);
    *c = (struct lh_sim_change){
        .number = ++files->changes, .op = op, .offset = offset, .length = length};
    if (data != NULL)
        lh_buf_append(&c->data, data, 0, length);
    if (f->last != NULL)
        f->last->next = c;
    else
        f->first = c;
    f->last = c;
}

static void forget_first(struct lh_sim_file *f)
{
    struct lh_sim_change *c = f->first;

    f->first = c->next;
    if (f->first == NULL)
        f->last = NULL;
    free_change(c);
}

void lh_sim_files_create(struct lh_sim_files *files, uint64_t number, uint64_t reserved)
{
    struct lh_sim_file *f = lh_alloc(sizeof *f);
    size_t i = position(files, number);

    LH_ASSERT(lh_sim_files_find(files, number) == NULL);
    for (size_t k = 0; k < files->count; k++)
        unite(files->list[k]);
    f->number = number;
    f->reserved = reserved;
    LH_GROW(files->list, files->capacity, files->count + 1);
    memmove(&files->list[i + 1], &files->list[i], (files->count++ - i) * sizeof *files->list);
    files->list[i] = f;
    files->used += lh_sim_file_allocated(f);
    remember(files, f, LH_DISK_CREATE, 0, NULL, reserved);
}

void lh_sim_files_write(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t offset,
    const struct lh_buf *data, uint64_t size)
{
    part(f);
    if (size > 0 && f->cache.size < offset + size)
        resize_cache(files, f, offset + size);
    write_bytes(&f->cache, offset, data, size);
    remember(files, f, LH_DISK_WRITE, offset, data, size);
}

void lh_sim_files_reserve(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t bytes)
{
    files->used -= lh_sim_file_allocated(f);
    f->reserved = bytes;
    files->used += lh_sim_file_allocated(f);
}

void lh_sim_files_truncate(struct lh_sim_files *files, struct lh_sim_file *f, uint64_t size)
{
    if (f->reserved > size) /* what lies behind a file's end goes with it */
        lh_sim_files_reserve(files, f, size);
    resize_cache(files, f, size);
    remember(files, f, LH_DISK_TRUNCATE, 0, NULL, size);
}

bool lh_sim_file_claim(struct lh_sim_file *f, uint64_t upto)
{
    if (f->first == NULL || f->first->number > upto)
        return false;
    f->claimed = upto;
    return true;
}

void lh_sim_file_sync(struct lh_sim_file *f, uint64_t upto, struct lh_prng *failing)
{
    if (upto >= f->claimed) {
        f->misled = f->misled || (f->claimed > 0 && failing != NULL);
        f->claimed = 0;
    }
    /* What a later sync has covered meanwhile is gone from the list. */
    while (f->first != NULL && f->first->number <= upto) {
        if (failing == NULL || lh_prng_below(failing, 2) == 0)
            to_platter(f, f->first);
        else
            f->astray = true;
        forget_first(f);
    }
}

void lh_sim_file_drop_cache(struct lh_sim_files *files, struct lh_sim_file *f)
{
    while (f->first != NULL)
        forget_first(f);
    files->used -= lh_sim_file_allocated(f);
    if (!f->together)
        copy_bytes(&f->cache, &f->platter);
    files->used += lh_sim_file_allocated(f);
    f->astray = false;
}

void lh_sim_files_mount(struct lh_sim_files *files)
{
    for (size_t i = files->count; i-- > 0;) {
        struct lh_sim_file *f = files->list[i];
        if (f->on_platter)
            lh_sim_file_drop_cache(files, f);
        else
            lh_sim_files_remove(files, f->number);
    }
}

void lh_sim_files_rename(struct lh_sim_files *files, uint64_t from, uint64_t to)
{
    size_t i = position(files, from);
    struct lh_sim_file *f = files->list[i];

    LH_ASSERT(f->number == from);
    memmove(&files->list[i], &files->list[i + 1], (--files->count - i) * sizeof *files->list);
    lh_sim_files_remove(files, to);
    i = position(files, to);
    memmove(&files->list[i + 1], &files->list[i], (files->count++ - i) * sizeof *files->list);
    files->list[i] = f;
    f->number = to;
    f->on_platter = true;
}

/* What a power loss leaves of a write when it tears it: any of the sectors that it covers, and
 * perhaps the file's new end without the bytes before it. */
static void tear(struct lh_prng *random, struct lh_sim_file *f, const struct lh_sim_change *c)
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

void lh_sim_files_lose_power(struct lh_sim_files *files, struct lh_prng *random)
{
    for (size_t i = 0; i < files->count; i++) {
        struct lh_sim_file *f = files->list[i];
        while (f->first != NULL) {
            struct lh_sim_change *c = f->first;
            switch (lh_prng_below(random, 4)) {
            case 0: /* only a write can be there in part */
                if (c->op == LH_DISK_WRITE)
                    tear(random, f, c);
                break;
            case 1:
                break;
            default:
                to_platter(f, c);
            }
            forget_first(f);
        }
        if (f->on_platter) /* the mark may be there */
            f->failed = f->failed && (f->misled || lh_prng_below(random, 2) == 0);
    }
    lh_sim_files_mount(files);
}

void lh_sim_file_turn_bits(struct lh_sim_file *f, uint64_t offset, uint8_t mask)
{
    LH_ASSERT(offset < f->cache.size);
    f->cache.data[offset] ^= mask;
    if (!f->together && offset < f->platter.size)
        f->platter.data[offset] ^= mask;
    if (f->first != NULL)
        f->astray = true; /* one of these may bring the old byte to the platter */
}

static const uint8_t *show(const struct lh_sim_bytes *b, uint64_t *size)
{
    static const uint8_t nothing[1];

    *size = b->size;
    return b->size == 0 ? nothing : b->data;
}

const uint8_t *lh_sim_file_cache(const struct lh_sim_file *f, uint64_t *size)
{
    return show(&f->cache, size);
}

const uint8_t *lh_sim_file_platter(const struct lh_sim_file *f, uint64_t *size)
{
    return show(f->together ? &f->cache : &f->platter, size);
}

void lh_sim_files_deinit(struct lh_sim_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free_file(files->list[i]);
    free(files->list);
    *files = (struct lh_sim_files){0};
}
