/* Text from strangers: peers, the command line, the operating system. Any bytes may come; what is
 * kept, sent or shown is UTF-8, and what is shown on a terminal moves nothing but the cursor, one
 * place to the right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character that begins at `at` (Unicode 15, table 3-7: no overlong forms, no
 * surrogates), of `size` that are there; 0: none does. `*character` is it, and may be NULL. */
size_t lh_utf8_char(const void *at, size_t size, uint32_t *character);

bool lh_utf8_is_valid(const void *bytes, size_t size);

/* Puts '?' in the place of each byte that belongs to no character. */
void lh_utf8_mend(void *bytes, size_t size);

/* Whether a terminal shows it as it is. It does not: control characters; what changes the
 * direction of writing, so that a path reads otherwise than it is; separators of lines. */
bool lh_char_is_plain(uint32_t character);

/* Bytes that one byte of text may become when it is shown. */
#define LH_TEXT_SHOWN_MAX 6

/* Writes `text` with what is not plain as \xHH (bytes) or \uHHHH (characters), cut to whole ones
 * where `room` ends. Returns the length; `to` ends in NUL if there is any room. */
size_t lh_text_show(char *to, size_t room, const char *text);
