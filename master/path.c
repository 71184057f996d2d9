#include "master/path.h"

#include "master/master.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at `s` (Unicode 15, table 3-7: no overlong forms, no surrogates), 0
 * if there is none. The terminating NUL ends any sequence, so nothing is read beyond it. */
static size_t utf8_length(const uint8_t *s)
{
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    size_t more = s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint8_t low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i <= more; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return more + 1;
}

/* Control characters: C0, DEL, and C1 (which UTF-8 writes as c2 80 to c2 9f). */
static bool is_control(const uint8_t *s)
{
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

static int check_bytes(const char *path, char *text, size_t text_size)
{
    size_t size = strlen(path);

    if (size > LH_PATH_BYTES_MAX) {
        snprintf(text, text_size, "the path has %zu bytes; at most %u are allowed", size,
            LH_PATH_BYTES_MAX);
        return LH_ERR_TOO_LARGE;
    }
    for (const uint8_t *s = (const uint8_t *)path; *s != 0;) {
        size_t n = utf8_length(s);
        size_t at = (size_t)(s - (const uint8_t *)path);
        if (n == 0) {
            snprintf(
                text, text_size, "the path is not valid UTF-8: byte 0x%02x at offset %zu", *s, at);
            return LH_ERR_INVALID_ARGUMENT;
        }
        if (is_control(s)) {
            snprintf(text, text_size, "the path has a control character at offset %zu", at);
            return LH_ERR_INVALID_ARGUMENT;
        }
        s += n;
    }
    return LH_OK;
}

int lh_path_check(const char *path, char *text, size_t text_size)
{
    int error = check_bytes(path, text, text_size);

    if (error != LH_OK)
        return error;
    if (path[0] != '/') {
        snprintf(text, text_size, "the path \"%.64s\" must begin with \"/\"", path);
        return LH_ERR_INVALID_ARGUMENT;
    }
    unsigned number = 0;
    for (const char *part = path + 1;; part += strcspn(part, "/") + 1) {
        size_t size = strcspn(part, "/");
        number++;
        if (size == 0) {
            snprintf(text, text_size, "part %u of the path \"%.256s\" is empty", number, path);
            return LH_ERR_INVALID_ARGUMENT;
        }
        if ((size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.')) {
            snprintf(text, text_size, "part %u of the path \"%.256s\" is \"%.*s\"", number, path,
                (int)size, part);
            return LH_ERR_INVALID_ARGUMENT;
        }
        if (part[size] == 0)
            return LH_OK;
    }
}

int lh_path_prefix_check(const char *prefix, char *text, size_t text_size)
{
    return check_bytes(prefix, text, text_size);
}

int lh_name_check(const char *what, const char *name, size_t size_max, char *text, size_t text_size)
{
    size_t size = strlen(name);

    if (size == 0 || size > size_max) {
        snprintf(
            text, text_size, "the %s must have 1 to %zu bytes, it has %zu", what, size_max, size);
        return LH_ERR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            snprintf(text, text_size,
                "the %s has byte 0x%02x at offset %zu; only printable ASCII is allowed", what,
                (unsigned)(uint8_t)name[i], i);
            return LH_ERR_INVALID_ARGUMENT;
        }
    }
    return LH_OK;
}
