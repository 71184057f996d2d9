/* Text for whoever reads stderr, as it is. A process whose work must not wait for that reader says
 * how it writes without waiting: lh_say_through(), as runtime/sink.h does. */
#pragma once

#include <stddef.h>

/* All of a text is one write. Any thread. Until lh_say_through() it waits as write(2) does. */
void lh_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For a process that is about to abort: takes no memory, and at most a few seconds even where
 * nobody reads. A longer text than 1 KiB is cut. */
void lh_say_last(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How text is written from now on. Neither may block; `last` returns when the text has been
 * written, or cannot be. Before there are other threads. */
struct lh_say_way {
    void (*say)(const char *text, size_t size);
    void (*last)(const char *text, size_t size);
};
void lh_say_through(const struct lh_say_way *way);
