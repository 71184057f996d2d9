/* Counted buffers: bytes that many owners may refer to and nobody copies.
 *
 * A *block* is memory with a reference count and a way to release it (a gRPC slice, a malloc'd
 * area). A *slice* is a part of one block. A *buf* is a sequence of slices that reads as one run of
 * bytes; it owns one reference per slice. Bulk data goes through a node this way from the socket to
 * the disk and to the next hop.
 *
 * A buf is a plain value: it may be moved by assignment (the old copy must then not be used), and
 * an all-zero buf is an empty one. Reference counts are atomic, everything else belongs to one
 * thread at a time. Bytes are immutable once a second reference exists. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_block {
    _Atomic uint32_t references;
    void (*release)(struct lh_block *block); /* called by whoever drops the last reference */
};

struct lh_slice {
    struct lh_block *block;
    const uint8_t *data;
    size_t size;
};

#define LH_BUF_INLINE 2

struct lh_buf {
    size_t size;       /* bytes in all slices together */
    uint32_t count;    /* slices */
    uint32_t capacity; /* of `heap`; 0 while the slices fit inline */
    union {
        struct lh_slice inlined[LH_BUF_INLINE];
        struct lh_slice *heap;
    } u;
};

static inline struct lh_slice *lh_buf_slices(struct lh_buf *b)
{
    return b->capacity == 0 ? b->u.inlined : b->u.heap;
}

static inline const struct lh_slice *lh_buf_slices_const(const struct lh_buf *b)
{
    return b->capacity == 0 ? b->u.inlined : b->u.heap;
}

static inline void lh_block_ref(struct lh_block *block)
{
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
}

void lh_block_unref(struct lh_block *block);

/* A buf of one fresh block of `size` bytes; `*data` points at them, to be filled before the buf is
 * shared. */
struct lh_buf lh_buf_alloc(size_t size, uint8_t **data);

/* The same, for sizes at which it is no wonder if the memory is not there: false, and nothing. */
bool lh_buf_try_alloc(size_t size, struct lh_buf *b, uint8_t **data);

/* A buf with a copy of `data`. */
struct lh_buf lh_buf_copy(const void *data, size_t size);

/* Appends a slice; takes over the caller's reference to `block`. */
void lh_buf_push(struct lh_buf *b, struct lh_block *block, const uint8_t *data, size_t size);

/* Appends bytes [offset, offset + size) of `from` without copying them. Must be within it. */
void lh_buf_append(struct lh_buf *b, const struct lh_buf *from, size_t offset, size_t size);

/* A second buf over all of `from`'s bytes. */
struct lh_buf lh_buf_ref(const struct lh_buf *from);

/* Copies bytes [offset, offset + size) to `to`. False, and nothing copied: `b` is too short. */
bool lh_buf_read(const struct lh_buf *b, size_t offset, void *to, size_t size);

/* CRC32C of bytes [offset, offset + size), continued from `crc`. Must be within the buf. */
uint32_t lh_buf_crc32c(const struct lh_buf *b, size_t offset, size_t size, uint32_t crc);

/* Drops all slices; the buf is empty afterwards. */
void lh_buf_clear(struct lh_buf *b);

/* Takes the bytes out: returns the buf and leaves `b` empty. */
static inline struct lh_buf lh_buf_take(struct lh_buf *b)
{
    struct lh_buf taken = *b;
    *b = (struct lh_buf){0};
    return taken;
}
