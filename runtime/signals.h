/* Signals that say what an error says as well: that the reader of a pipe has ended (SIGPIPE), that
 * a file has reached the size that this process may give it (SIGXFSZ). By default they end the
 * process, whatever it was about. Here the write fails, with EPIPE or EFBIG. */
#pragma once

/* From now on they are ignored. To be called first in main(). */
void lh_signals_ignore(void);

/* They are as this process found them: for what it is to become by exec(), which may count on them.
 * Async-signal-safe. */
void lh_signals_restore(void);
