/* How far long work is, on stderr: a line that is written over on a terminal, now and then a line
 * of its own elsewhere. Work that is over soon shows nothing. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_progress {
    uint64_t next_ms; /* nothing is shown before that */
    bool terminal, shown;
};

void lh_progress_begin(struct lh_progress *p);

/* Shows the text if it is time for it; cheap otherwise, once lh_progress_due() is asked first. */
bool lh_progress_due(const struct lh_progress *p);
void lh_progress_show(struct lh_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the line off the terminal again: before other output, and at the end. */
void lh_progress_clear(struct lh_progress *p);
