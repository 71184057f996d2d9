#include "base/probe.h"

#include <string.h>

/* The linker's names for the sections' ends; weak, for a program without any. */
extern struct lh_probe __start_lh_mark_places[] __attribute__((weak));
extern struct lh_probe __stop_lh_mark_places[] __attribute__((weak));
extern struct lh_probe __start_lh_plant_places[] __attribute__((weak));
extern struct lh_probe __stop_lh_plant_places[] __attribute__((weak));

struct lh_probe *lh_marks(size_t *count)
{
    *count = (size_t)(__stop_lh_mark_places - __start_lh_mark_places);
    return __start_lh_mark_places;
}

struct lh_probe *lh_plants(size_t *count)
{
    *count = (size_t)(__stop_lh_plant_places - __start_lh_plant_places);
    return __start_lh_plant_places;
}

bool lh_plant(const char *name, bool on)
{
    size_t count;
    struct lh_probe *plants = lh_plants(&count);
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(plants[i].name, name) != 0)
            continue;
        plants[i].value = on;
        found = true;
    }
    return found;
}

void lh_plant_none(void)
{
    size_t count;
    struct lh_probe *plants = lh_plants(&count);

    for (size_t i = 0; i < count; i++)
        plants[i].value = 0;
}
