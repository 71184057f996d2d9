#include "base/text.h"

#include <stdio.h>
#include <string.h>

size_t lh_utf8_char(const void *at, size_t size, uint32_t *character)
{
    const uint8_t *s = at;
    uint32_t c;

    if (size == 0 || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    if (s[0] < 0x80) {
        c = s[0];
        size = 1;
    } else {
        size_t whole = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
        uint8_t low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
        uint8_t high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
        if (size < whole || s[1] < low || s[1] > high)
            return 0;
        c = s[0] & (0xffu >> (whole + 1));
        for (size_t i = 1; i < whole; i++) {
            if (s[i] < 0x80 || s[i] > 0xbf)
                return 0;
            c = c << 6 | (s[i] & 0x3f);
        }
        size = whole;
    }
    if (character != NULL)
        *character = c;
    return size;
}

bool lh_utf8_is_valid(const void *bytes, size_t size)
{
    const uint8_t *at = bytes, *end = at + size;

    while (at < end) {
        size_t n = lh_utf8_char(at, (size_t)(end - at), NULL);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

void lh_utf8_mend(void *bytes, size_t size)
{
    uint8_t *at = bytes, *end = at + size;

    while (at < end) {
        size_t n = lh_utf8_char(at, (size_t)(end - at), NULL);
        if (n == 0)
            *at = '?';
        at += n == 0 ? 1 : n;
    }
}

bool lh_char_is_plain(uint32_t c)
{
    return !(c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
             (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069));
}

size_t lh_text_show(char *to, size_t room, const char *text)
{
    size_t size = strlen(text), length = 0;

    if (room == 0)
        return 0;
    for (size_t at = 0; at < size;) {
        char shown[LH_TEXT_SHOWN_MAX + 1];
        uint32_t c = 0;
        size_t n = lh_utf8_char(text + at, size - at, &c);
        if (n > 0 && lh_char_is_plain(c)) {
            memcpy(shown, text + at, n);
            shown[n] = '\0';
        } else if (n > 1) {
            snprintf(shown, sizeof shown, "\\u%04x", c & 0xffff);
        } else {
            snprintf(shown, sizeof shown, "\\x%02x", (unsigned)(uint8_t)text[at]);
        }
        size_t m = strlen(shown);
        if (length + m >= room)
            break;
        memcpy(to + length, shown, m);
        length += m;
        at += n == 0 ? 1 : n;
    }
    to[length] = '\0';
    return length;
}
