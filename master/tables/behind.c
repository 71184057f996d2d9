#include "master/tables/behind.h"

#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <stdarg.h>

bool lh_m_deleting(const struct lh_master *m)
{
    return m->behind == NULL || LH_PLANTED("garbage-goes-on-after-restore");
}

void lh_m_set_behind(struct lh_master *m, const char *format, ...)
{
    char text[LH_TEXT_BYTES];
    va_list args;

    if (m->behind != NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    m->behind = lh_strdup(text);
    lh_m_dirty_master(m);
    lh_fx_log(m->fx, LH_ERROR,
        "%s. Nothing is deleted any more, and the trash keeps what it has, until somebody has "
        "looked and says \"leasehold garbage --resume\"",
        text);
}
