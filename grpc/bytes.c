/* Counted buffers to gRPC's slices and back, without copying bulk. */
#include "grpc/bytes.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

/* A slice of its own costs gRPC an allocation and a place in the iovec: what is smaller than this
 * is cheaper to copy together. */
#define COPY_MAX 512u

struct received {
    struct lh_block block;
    grpc_byte_buffer *bytes;
};

static void received_release(struct lh_block *block)
{
    struct received *r = (struct received *)block;

    grpc_byte_buffer_destroy(r->bytes);
    free(r);
}

static void slice_release(void *block)
{
    lh_block_unref(block);
}

struct lh_buf lh_rpc_bytes_in(grpc_byte_buffer *received)
{
    struct lh_buf b = {0};

    LH_ASSERT(received->type == GRPC_BB_RAW);
    if (received->data.raw.compression != GRPC_COMPRESS_NONE) {
        /* gRPC has uncompressed what it knows how to before it hands a message out. What is left
         * will not parse; it is for the decoder to say so. */
        grpc_byte_buffer_destroy(received);
        return b;
    }

    struct received *r = lh_realloc_array(NULL, 1, sizeof *r);
    atomic_init(&r->block.references, 1);
    r->block.release = received_release;
    r->bytes = received;
    grpc_slice_buffer *slices = &received->data.raw.slice_buffer;
    for (size_t i = 0; i < slices->count; i++) {
        grpc_slice *s = &slices->slices[i];
        lh_block_ref(&r->block);
        lh_buf_push(&b, &r->block, GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s));
    }
    lh_block_unref(&r->block);
    return b;
}

/* The number of slices from `first` on that are copied together, and their bytes. */
static uint32_t small_run(
    const struct lh_slice *slices, uint32_t first, uint32_t count, size_t *bytes)
{
    uint32_t n = 0;

    *bytes = 0;
    while (first + n < count && slices[first + n].size <= COPY_MAX)
        *bytes += slices[first + n++].size;
    return n;
}

grpc_byte_buffer *lh_rpc_bytes_out(struct lh_buf bytes)
{
    const struct lh_slice *slices = lh_buf_slices_const(&bytes);
    grpc_slice few[8];
    grpc_slice *out = bytes.count <= 8 ? few : lh_realloc_array(NULL, bytes.count, sizeof *out);
    size_t n = 0;

    for (uint32_t i = 0; i < bytes.count;) {
        size_t size;
        uint32_t run = small_run(slices, i, bytes.count, &size);
        if (run == 0) {
            lh_block_ref(slices[i].block);
            out[n++] = grpc_slice_new_with_user_data(
                (void *)(uintptr_t)slices[i].data, slices[i].size, slice_release, slices[i].block);
            i++;
            continue;
        }
        grpc_slice *s = &out[n++];
        *s = grpc_slice_malloc(size);
        uint8_t *to = GRPC_SLICE_START_PTR(*s);
        for (; run > 0; run--, i++) {
            memcpy(to, slices[i].data, slices[i].size);
            to += slices[i].size;
        }
    }
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(out, n);
    for (size_t i = 0; i < n; i++)
        grpc_slice_unref(out[i]);
    if (out != few)
        free(out);
    lh_buf_clear(&bytes);
    return b;
}
