#include "sim/cluster/complain.h"

#include <stdarg.h>
#include <stdio.h>

bool lh_sim_complain(char *text, size_t text_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, text_size, format, args);
    va_end(args);
    return false;
}
