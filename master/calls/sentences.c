/* Sentences for the operator. */
#include "master/calls/internal.h"

#include "master/tables/tables.h"

#include <inttypes.h>
#include <stdarg.h>

void lh_m_say(struct lh_m_sentences *s, const char *format, ...)
{
    char text[2 * LH_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    LH_GROW(s->items, s->capacity, s->count + 1);
    s->items[s->count++] = lh_strdup(text);
}

const char *lh_m_how_long(struct lh_duration d, char text[LH_WHEN_BYTES])
{
    uint64_t ms = lh_duration_ms(d), s = ms / 1000;

    if (ms < 1000)
        snprintf(text, LH_WHEN_BYTES, "%" PRIu64 " ms", ms);
    else if (s < 60)
        snprintf(text, LH_WHEN_BYTES, "%" PRIu64 ".%" PRIu64 " s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(text, LH_WHEN_BYTES, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
    else
        snprintf(text, LH_WHEN_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s % 3600 / 60);
    return text;
}

void lh_m_add_name(char *list, size_t size, const char *id)
{
    size_t used = strlen(list);

    snprintf(list + used, size - used, "%s%s", used == 0 ? "" : ", ", id);
}
