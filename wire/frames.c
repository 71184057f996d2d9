#include "wire/frames.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"

#include <string.h>

#define CHECKSUM_AT 12u
static const uint8_t magic[8] = {'l', 'e', 'a', 's', 'e', 'h', 'l', 'd'};

static void put24(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
    to[2] = (uint8_t)(v >> 16);
}

static uint32_t get24(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16;
}

static void put16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

static uint16_t get16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

uint32_t lh_frame_put(uint8_t to[LH_FRAME_BYTES], const struct lh_frame *frame)
{
    to[0] = frame->type;
    put24(to + 1, frame->length);
    put24(to + 4, frame->covered);
    to[7] = frame->flags;
    lh_put32(to + 8, frame->link);
    return lh_crc32c(0, to, CHECKSUM_AT);
}

void lh_frame_put_checksum(uint8_t to[LH_FRAME_BYTES], uint32_t checksum)
{
    lh_put32(to + CHECKSUM_AT, checksum);
}

void lh_frame_get(const uint8_t from[LH_FRAME_BYTES], struct lh_frame *frame, uint32_t *checksum)
{
    *frame = (struct lh_frame){
        .type = from[0],
        .length = get24(from + 1),
        .covered = get24(from + 4),
        .flags = from[7],
        .link = lh_get32(from + 8),
        .checksum = lh_get32(from + CHECKSUM_AT),
    };
    *checksum = lh_crc32c(0, from, CHECKSUM_AT);
}

const char *lh_frame_fault(const struct lh_frame *frame)
{
    bool message = frame->type == LH_FRAME_MESSAGE;

    if (frame->type < LH_FRAME_HELLO || frame->type >= LH_FRAME_TYPES_END)
        return "a frame of an unknown type";
    if (frame->covered > frame->length)
        return "a checksum over more than the frame";
    if (frame->length > (message ? LH_FRAME_BODY_BYTES_MAX : LH_FRAME_CONTROL_BYTES_MAX))
        return "a frame that is too long";
    if (!message && frame->covered != frame->length)
        return "a frame without a checksum";
    if (message && (frame->flags & LH_FRAME_MORE) != 0 && frame->length < LH_FRAME_MORE_BYTES_MIN)
        return "a message in too small pieces";
    return NULL;
}

void lh_hello_put(uint8_t to[LH_HELLO_BYTES], const struct lh_hello *hello)
{
    memset(to, 0, LH_HELLO_BYTES);
    memcpy(to, magic, sizeof magic);
    put16(to + 8, hello->version_min);
    put16(to + 10, hello->version_max);
    to[12] = hello->connection_class;
    lh_put32(to + 16, hello->window);
    lh_put32(to + 20, hello->links_max);
    lh_put32(to + 24, hello->message_max);
    lh_put64(to + 32, hello->features);
}

bool lh_hello_get(const uint8_t *from, size_t size, struct lh_hello *hello)
{
    if (size < LH_HELLO_BYTES || memcmp(from, magic, sizeof magic) != 0)
        return false;
    *hello = (struct lh_hello){
        .version_min = get16(from + 8),
        .version_max = get16(from + 10),
        .connection_class = from[12],
        .window = lh_get32(from + 16),
        .links_max = lh_get32(from + 20),
        .message_max = lh_get32(from + 24),
        .features = lh_get64(from + 32),
    };
    return true;
}

void lh_open_put(uint8_t to[LH_OPEN_BYTES], uint16_t method, uint32_t timeout_ms)
{
    put16(to, method);
    put16(to + 2, 0);
    lh_put32(to + 4, timeout_ms);
}

bool lh_open_get(const uint8_t *from, size_t size, uint16_t *method, uint32_t *timeout_ms)
{
    if (size < LH_OPEN_BYTES)
        return false;
    *method = get16(from);
    *timeout_ms = lh_get32(from + 4);
    return true;
}

size_t lh_close_put(uint8_t to[LH_CLOSE_BYTES_MAX], uint32_t last_link, int error, const char *text)
{
    size_t size = text == NULL ? 0 : strnlen(text, LH_FRAME_TEXT_BYTES_MAX);

    lh_put32(to, (uint32_t)-error);
    lh_put32(to + 4, last_link);
    if (size > 0)
        memcpy(to + 8, text, size);
    return 8 + size;
}

bool lh_close_get(const uint8_t *from, size_t size, uint32_t *last_link, int *error,
    char text[LH_FRAME_TEXT_BYTES_MAX + 1])
{
    if (size < 8 || size > LH_CLOSE_BYTES_MAX)
        return false;
    uint32_t number = lh_get32(from);
    /* An error of a newer release: what is certain is that the call was not answered. */
    *error = number < LH_ERROR_NUMBERS ? -(int)number : LH_ERR_UNAVAILABLE;
    *last_link = lh_get32(from + 4);
    size_t length = strnlen((const char *)from + 8, size - 8);
    memcpy(text, from + 8, length);
    text[length] = '\0';
    return true;
}
