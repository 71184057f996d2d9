#include "base/buf.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/crc32c.h"

#include <stdlib.h>
#include <string.h>

struct heap_block {
    struct lh_block block;
    uint8_t data[];
};

static void heap_block_release(struct lh_block *block)
{
    free(block);
}

void lh_block_unref(struct lh_block *block)
{
    if (atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        block->release(block);
}

static struct lh_buf buf_of(struct heap_block *h, size_t size, uint8_t **data)
{
    struct lh_buf b = {0};

    atomic_init(&h->block.references, 1);
    h->block.release = heap_block_release;
    *data = h->data;
    lh_buf_push(&b, &h->block, h->data, size);
    return b;
}

/* Not zeroed: the caller fills it, and blocks may be megabytes. */
struct lh_buf lh_buf_alloc(size_t size, uint8_t **data)
{
    struct heap_block *h = lh_realloc_array(NULL, 1, sizeof *h + size);

    return buf_of(h, size, data);
}

bool lh_buf_try_alloc(size_t size, struct lh_buf *b, uint8_t **data)
{
    struct heap_block *h = malloc(sizeof *h + size);

    if (h != NULL)
        *b = buf_of(h, size, data);
    return h != NULL;
}

struct lh_buf lh_buf_copy(const void *data, size_t size)
{
    uint8_t *to;
    struct lh_buf b = lh_buf_alloc(size, &to);

    if (size > 0)
        memcpy(to, data, size);
    return b;
}

void lh_buf_push(struct lh_buf *b, struct lh_block *block, const uint8_t *data, size_t size)
{
    if (size == 0) {
        lh_block_unref(block);
        return;
    }
    if (b->capacity == 0 && b->count == LH_BUF_INLINE) {
        struct lh_slice *heap = lh_realloc_array(NULL, 8, sizeof *heap);
        memcpy(heap, b->u.inlined, sizeof b->u.inlined);
        b->u.heap = heap;
        b->capacity = 8;
    } else if (b->capacity != 0 && b->count == b->capacity) {
        b->u.heap = lh_realloc_array(b->u.heap, (size_t)b->capacity * 2, sizeof *b->u.heap);
        b->capacity *= 2;
    }
    lh_buf_slices(b)[b->count++] = (struct lh_slice){block, data, size};
    b->size += size;
}

void lh_buf_append(struct lh_buf *b, const struct lh_buf *from, size_t offset, size_t size)
{
    const struct lh_slice *s = lh_buf_slices_const(from);

    LH_ASSERT(b != from);
    LH_ASSERT(offset <= from->size && size <= from->size - offset);
    for (; size > 0; s++) {
        if (offset >= s->size) {
            offset -= s->size;
            continue;
        }
        size_t n = s->size - offset < size ? s->size - offset : size;
        lh_block_ref(s->block);
        lh_buf_push(b, s->block, s->data + offset, n);
        offset = 0;
        size -= n;
    }
}

struct lh_buf lh_buf_ref(const struct lh_buf *from)
{
    struct lh_buf b = {0};

    lh_buf_append(&b, from, 0, from->size);
    return b;
}

bool lh_buf_read(const struct lh_buf *b, size_t offset, void *to, size_t size)
{
    const struct lh_slice *s = lh_buf_slices_const(b);
    uint8_t *out = to;

    if (offset > b->size || size > b->size - offset)
        return false;
    for (; size > 0; s++) {
        if (offset >= s->size) {
            offset -= s->size;
            continue;
        }
        size_t n = s->size - offset < size ? s->size - offset : size;
        memcpy(out, s->data + offset, n);
        out += n;
        offset = 0;
        size -= n;
    }
    return true;
}

uint32_t lh_buf_crc32c(const struct lh_buf *b, size_t offset, size_t size, uint32_t crc)
{
    const struct lh_slice *s = lh_buf_slices_const(b);

    LH_ASSERT(offset <= b->size && size <= b->size - offset);
    for (; size > 0; s++) {
        if (offset >= s->size) {
            offset -= s->size;
            continue;
        }
        size_t n = s->size - offset < size ? s->size - offset : size;
        crc = lh_crc32c(crc, s->data + offset, n);
        offset = 0;
        size -= n;
    }
    return crc;
}

void lh_buf_clear(struct lh_buf *b)
{
    struct lh_slice *s = lh_buf_slices(b);

    for (uint32_t i = 0; i < b->count; i++)
        lh_block_unref(s[i].block);
    if (b->capacity != 0)
        free(b->u.heap);
    *b = (struct lh_buf){0};
}
