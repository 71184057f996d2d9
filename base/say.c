#include "base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LAST_BYTES  1024
#define SHORT_BYTES 2048

static void write_directly(const char *text, size_t size)
{
    /* Stderr that cannot be written is nowhere to be complained about. */
    (void)fwrite(text, 1, size, stderr);
}

static struct lh_say_way way = {write_directly, write_directly};

void lh_say_through(const struct lh_say_way *given)
{
    way = *given;
}

void lh_say(const char *format, ...)
{
    char text[SHORT_BYTES], *longer = NULL;
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(text, sizeof text, format, args);
    if (size >= (int)sizeof text && vasprintf(&longer, format, again) < 0) {
        longer = NULL; /* no memory: the beginning of it */
        size = (int)sizeof text - 1;
    }
    va_end(again);
    va_end(args);
    if (size > 0)
        way.say(longer != NULL ? longer : text, (size_t)size);
    free(longer);
}

void lh_say_last(const char *format, ...)
{
    char text[LAST_BYTES];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size > 0)
        way.last(text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}
