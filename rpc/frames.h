/* How far what a peer has sent over a connection was taken apart as HTTP/2, for the calls that it
 * opens and cancels. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_FRAME_HEADER_BYTES 9u

/* Zeroed at first. */
struct lh_frames {
    bool opaque; /* not HTTP/2 as we know it */
    uint8_t preface_seen, header_seen;
    uint8_t header[LH_FRAME_HEADER_BYTES];
    uint32_t body_left;
    unsigned begun, cancelled; /* calls; the caller's to set back */
};

/* The next bytes. */
void lh_frames_take(struct lh_frames *frames, const uint8_t *at, size_t size);
