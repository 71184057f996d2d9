/* Log lines for the operator, one per event, to stderr.
 *
 * As text:  2026-01-31T12:00:00.123Z INFO  master: granted chunk 7 version 3 to cs2
 * as JSON:  {"time":"2026-01-31T12:00:00.123Z","level":"info","component":"master","message":"..."}
 *
 * A line is written with one write(2), so lines of several threads and processes do not mix. With
 * lh_sink_start() (runtime/sink.h) nobody waits for that.
 *
 * A text that comes more than four times within five seconds is counted instead. Once they are over
 * the next line, or the process's end, brings it out with the number: " (repeated 812 times)", as
 * JSON "repeated":812. */
#pragma once

#include "base/step.h"

#include <stdbool.h>

/* What is below `threshold` is dropped. At first: text, LH_INFO, stderr. Call before other threads
 * log. */
void lh_log_setup(enum lh_level threshold, bool json);

/* `component` says which part speaks; static. The message is one line without a final newline; a
 * longer one than 2 KiB is cut. Any thread. */
void lh_log(enum lh_level level, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Says now what was counted, and waits a second at most until all lines have been written. */
void lh_log_flush(void);

/* "debug", "info", "warn", "error". Static. */
const char *lh_level_name(enum lh_level level);
