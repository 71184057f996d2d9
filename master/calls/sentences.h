#ifndef LH_MASTER_CALLS_SENTENCES_H
#define LH_MASTER_CALLS_SENTENCES_H

#include "master/tables/tables.h"

#define LH_WHEN_BYTES 32u

struct lh_m_sentences {
    char **items;
    size_t count, capacity;
};

__attribute__((format(printf, 2, 3))) void lh_m_say(
    struct lh_m_sentences *s, const char *format, ...);
/* "850 ms", "8.2 s", "3 min 20 s", "5 h 2 min". Returns `text`. */
const char *lh_m_how_long(struct lh_duration d, char text[LH_WHEN_BYTES]);
/* Appends `id` to a list "a, b, c". */
void lh_m_add_name(char *list, size_t size, const char *id);

#endif
