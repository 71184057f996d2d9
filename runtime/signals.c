#include "runtime/signals.h"

#include <signal.h>
#include <stddef.h>

static const int numbers[] = {SIGPIPE, SIGXFSZ};

#define COUNT (sizeof numbers / sizeof numbers[0])

static struct sigaction found[COUNT]; /* all zero is the default */

void lh_signals_ignore(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < COUNT; i++)
        (void)sigaction(numbers[i], &ignore, &found[i]);
}

void lh_signals_restore(void)
{
    for (size_t i = 0; i < COUNT; i++)
        (void)sigaction(numbers[i], &found[i], NULL);
}
