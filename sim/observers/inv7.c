/* INV-7: with clocks outside rho INV-1 and INV-2 may break, and with them the freshness of what a
 * primary answers to readers (APP-6). INV-3 to INV-5 still hold. In such a run the others are
 * counted and do not fail: that they are seen at all proves that the observers can see.
 *
 * Only what compares two clocks is excused. What a node reckons on its own clock alone, it has to
 * reckon rightly whatever the rates are. */
#include "sim/observers/internal.h"

#include <stdarg.h>
#include <stdio.h>

void lh_ob_fail_unless_excused(struct lh_sim_observers *o, const char *rule, uint64_t chunk,
    uint64_t *seen, const char *format, ...)
{
    char text[512];
    va_list args;

    if (o->config.clocks_beyond_rho) {
        ++*seen;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_sim_fail(o->sim, rule, chunk, "%s", text);
}
