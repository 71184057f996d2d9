/* How far long work is; see progress.h. */
#include "client/command/progress.h"

#include "client/command/command.h"

#include <stdarg.h>
#include <unistd.h>

#define QUIET_MS    2000u  /* work that takes no longer says nothing */
#define TERMINAL_MS 250u   /* between two texts on a terminal */
#define LINES_MS    10000u /* elsewhere */

void lh_progress_begin(struct lh_progress *p)
{
    *p = (struct lh_progress){
        .next_ms = lh_command_now_ms() + QUIET_MS,
        .terminal = isatty(STDERR_FILENO) == 1,
    };
}

bool lh_progress_due(const struct lh_progress *p)
{
    return lh_command_now_ms() >= p->next_ms;
}

void lh_progress_show(struct lh_progress *p, const char *format, ...)
{
    if (!lh_progress_due(p))
        return;
    va_list args;
    va_start(args, format);
    if (p->terminal)
        (void)fputs("\r\033[K", stderr);
    char text[1024];
    (void)vsnprintf(text, sizeof text, format, args);
    (void)fputs(lh_command_shown(text), stderr);
    if (!p->terminal)
        (void)fputc('\n', stderr);
    (void)fflush(stderr);
    va_end(args);
    p->shown = true;
    p->next_ms = lh_command_now_ms() + (p->terminal ? TERMINAL_MS : LINES_MS);
}

void lh_progress_clear(struct lh_progress *p)
{
    if (p->shown && p->terminal)
        (void)fputs("\r\033[K", stderr);
    p->shown = false;
}
