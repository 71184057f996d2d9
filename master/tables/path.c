#include "master/tables/path.h"

#include "base/text.h"
#include "master/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int check_bytes(const char *path, char *text, size_t text_size)
{
    size_t size = strlen(path);

    if (size > LH_PATH_BYTES_MAX) {
        snprintf(text, text_size, "the path has %zu bytes; at most %u are allowed", size,
            LH_PATH_BYTES_MAX);
        return LH_ERR_TOO_LARGE;
    }
    for (size_t at = 0; at < size;) {
        uint32_t c;
        size_t n = lh_utf8_char(path + at, size - at, &c);
        if (n == 0) {
            snprintf(text, text_size, "the path is not valid UTF-8: byte 0x%02x at offset %zu",
                (unsigned)(uint8_t)path[at], at);
            return LH_ERR_INVALID_ARGUMENT;
        }
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            snprintf(text, text_size, "the path has a control character at offset %zu", at);
            return LH_ERR_INVALID_ARGUMENT;
        }
        at += n;
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
