/* Lines to stderr that nobody waits for: a thread writes them, while the others go on. Whoever
 * reads them may be slow, or stopped, or gone, and a file may be on a disk that does not answer.
 *
 * Lines wait in memory, LH_SINK_WAITING_MAX bytes of them at most. Those beyond are dropped, and so
 * are those that cannot be written. How many is counted, and said as soon as lines are taken again:
 * where the gap is, between the lines before and behind it.
 *
 * One sink per process. Any thread, but for lh_sink_start(), lh_sink_to() and lh_sink_on_gap(),
 * which come before there are others. */
#pragma once

#include "base/time.h"

#include <stddef.h>
#include <stdint.h>

#define LH_SINK_WAITING_MAX ((size_t)256 << 10)

/* Starts the thread, and has lh_say() write this way, too. Before it, lines are written by whoever
 * puts them. Without the memory for a thread it stays so. Calling it again changes nothing. */
void lh_sink_start(void);

/* Writes to `fd` instead of stderr, for tests. */
void lh_sink_to(int fd);

/* How a gap is said: puts a line, with its newline, into `to` and returns its length. */
#define LH_SINK_GAP_BYTES 256u
typedef size_t lh_sink_gap(char *to, size_t size, uint64_t lines);
void lh_sink_on_gap(lh_sink_gap *say);

/* `text` is a line with its newline, or several; it is copied, and written as a whole. */
void lh_sink_put(const char *text, size_t size);

/* Waits until all has been written, at most so long. */
void lh_sink_flush(struct lh_duration most);

/* Lines dropped since the process began. */
uint64_t lh_sink_dropped(void);
