#include "admission/frames.h"

/* HTTP/2 (RFC 9113): a client begins with this, and frames of so large a header follow. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES      (sizeof preface - 1)
#define FRAME_HEADERS      1u
#define FRAME_RST_STREAM   3u
#define FRAME_CONTINUATION 9u
#define END_HEADERS        4u

static void take_header(struct lh_frames *f)
{
    uint8_t type = f->header[3], flags = f->header[4];

    f->header_seen = 0;
    f->body_left = (uint32_t)f->header[0] << 16 | (uint32_t)f->header[1] << 8 | f->header[2];
    f->begun += type == FRAME_HEADERS;
    f->cancelled += type == FRAME_RST_STREAM;
    if (type != FRAME_HEADERS && type != FRAME_CONTINUATION)
        return;
    f->block_bytes += f->body_left;
    f->block_frames++;
    f->block_too_long = f->block_too_long || f->block_bytes > LH_FRAMES_BLOCK_BYTES_MAX ||
                        f->block_frames > LH_FRAMES_BLOCK_MAX;
    if ((flags & END_HEADERS) != 0) {
        f->block_bytes = 0;
        f->block_frames = 0;
    }
}

void lh_frames_take(struct lh_frames *f, const uint8_t *at, size_t size)
{
    while (size > 0 && !f->opaque) {
        size_t n = 1;
        if (f->preface_seen < PREFACE_BYTES) {
            f->opaque = *at != (uint8_t)preface[f->preface_seen++];
        } else if (f->body_left > 0) {
            n = size < f->body_left ? size : f->body_left;
            f->body_left -= (uint32_t)n;
        } else {
            f->header[f->header_seen++] = *at;
            if (f->header_seen == LH_FRAME_HEADER_BYTES)
                take_header(f);
        }
        at += n;
        size -= n;
    }
}
