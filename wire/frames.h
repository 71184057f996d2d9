/* The layout of a frame (docs/wire.md). All numbers are little-endian.
 *
 *   0  type      1 byte; above 0x80, so that no frame begins as HTTP/2 or as TLS does
 *   1  length    3 bytes: of the body behind the header
 *   4  covered   3 bytes: how many of the body's first bytes the checksum covers
 *   7  flags     1 byte
 *   8  link      4 bytes; 0: the connection
 *   12 checksum  4 bytes: CRC32C of the header's first 12 bytes and of what is covered
 *
 * It is a checksum against broken memory, not against attackers. What has a checksum of its own, as
 * batches of records have, is covered at its beginning alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_FRAME_BYTES 16u

enum lh_frame_type {
    LH_FRAME_HELLO = 0x81,
    LH_FRAME_OPEN,
    LH_FRAME_MESSAGE,
    LH_FRAME_CREDIT,
    LH_FRAME_CLOSE,
    LH_FRAME_PING,
    LH_FRAME_PONG,
    LH_FRAME_GOAWAY,
    LH_FRAME_TYPES_END
};

/* Of MESSAGE: the message goes on in a further frame of its link. */
#define LH_FRAME_MORE 1u

/* The body of any frame but MESSAGE. */
#define LH_FRAME_CONTROL_BYTES_MAX 576u
/* Of the text that CLOSE and GOAWAY carry. */
#define LH_FRAME_TEXT_BYTES_MAX 512u
/* Of a MESSAGE: a record of 64 KiB with what is around it fits into one. */
#define LH_FRAME_BODY_BYTES_MAX ((64u << 10) + 512u)
/* Of a MESSAGE that has more to come, at least. */
#define LH_FRAME_MORE_BYTES_MIN 1024u

struct lh_frame {
    uint8_t type, flags;
    uint32_t length, covered;
    uint32_t link;
    uint32_t checksum;
};

/* Writes the header, but for its checksum; returns the checksum so far, to be continued over what
 * is covered. */
uint32_t lh_frame_put(uint8_t to[LH_FRAME_BYTES], const struct lh_frame *frame);
void lh_frame_put_checksum(uint8_t to[LH_FRAME_BYTES], uint32_t checksum);

/* Reads a header. `*checksum` is as lh_frame_put() returns it. */
void lh_frame_get(const uint8_t from[LH_FRAME_BYTES], struct lh_frame *frame, uint32_t *checksum);

/* What is wrong with the lengths and the type of a header, whatever the link; NULL: nothing. */
const char *lh_frame_fault(const struct lh_frame *frame);

/* ---- bodies ---- */

#define LH_HELLO_BYTES 48u

struct lh_hello {
    uint16_t version_min, version_max;
    uint8_t connection_class;
    uint32_t window;      /* bytes of a link's messages that may wait for their owner */
    uint32_t links_max;   /* that its sender serves at once */
    uint32_t message_max; /* bytes of a message that its sender takes */
    uint64_t features;    /* bits; unknown ones mean nothing */
};

void lh_hello_put(uint8_t to[LH_HELLO_BYTES], const struct lh_hello *hello);
/* False: it is none. A longer one is of a newer version, and is read as far as it is known. */
bool lh_hello_get(const uint8_t *from, size_t size, struct lh_hello *hello);

#define LH_OPEN_BYTES 8u

/* `timeout_ms` 0: none. */
void lh_open_put(uint8_t to[LH_OPEN_BYTES], uint16_t method, uint32_t timeout_ms);
bool lh_open_get(const uint8_t *from, size_t size, uint16_t *method, uint32_t *timeout_ms);

#define LH_CREDIT_BYTES 4u

/* CLOSE: `last_link` is left out. */
#define LH_CLOSE_BYTES_MAX (8u + LH_FRAME_TEXT_BYTES_MAX)

/* Returns the size. A longer text is cut. `text` may be NULL. */
size_t lh_close_put(
    uint8_t to[LH_CLOSE_BYTES_MAX], uint32_t last_link, int error, const char *text);
/* `text` ends with NUL. */
bool lh_close_get(const uint8_t *from, size_t size, uint32_t *last_link, int *error,
    char text[LH_FRAME_TEXT_BYTES_MAX + 1]);
