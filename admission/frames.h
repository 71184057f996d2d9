/* How far what a peer has sent over a connection was taken apart as HTTP/2, for the calls that it
 * opens and cancels, and for the headers of one that never end. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_FRAME_HEADER_BYTES 9u

/* The headers of one call, at most: gRPC refuses those of more than 8 KiB, when it has all of
 * them. */
#define LH_FRAMES_BLOCK_BYTES_MAX (64u << 10)
#define LH_FRAMES_BLOCK_MAX       64u

/* Zeroed at first. */
struct lh_frames {
    bool opaque; /* not HTTP/2 as we know it */
    uint8_t preface_seen, header_seen;
    uint8_t header[LH_FRAME_HEADER_BYTES];
    uint32_t body_left;
    /* Of the call whose headers have begun: bytes and frames so far. */
    uint64_t block_bytes;
    unsigned block_frames;
    bool block_too_long;       /* for good */
    unsigned begun, cancelled; /* calls; the caller's to set back */
};

/* The next bytes. */
void lh_frames_take(struct lh_frames *frames, const uint8_t *at, size_t size);
