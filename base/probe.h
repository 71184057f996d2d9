/* Places in the cores that the simulator can see, and break.
 *
 * LH_MARK("name") counts how often a run came by: a branch that no run ever takes is not tested.
 * LH_PLANTED("name") is a mistake that can be switched on by its name, to see that an observer
 * finds it: `if (!LH_PLANTED("acknowledged-before-sync")) wait_for_the_sync();`.
 *
 * Both exist only where LH_PROBED is defined, in the simulator's build of the cores (cores.bzl). In
 * the product a mark is nothing and a planted bug is `false`. Names are lower-case words joined by
 * hyphens; a name may stand at several places. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_probe {
    const char *name;
    const char *file; /* where it stands */
    uint64_t line;
    uint64_t value; /* a mark: how often it was passed. A planted bug: not 0 while it is on */
};

#ifdef LH_PROBED

/* The linker puts them side by side, so that one that was never reached is in the list too. Nothing
 * else is called like a list: under LTO the assembler would take one for the other. */
#define LH_PROBE_DEFINE(list, name_)                                                               \
    static struct lh_probe lh_probe_here                                                           \
        __attribute__((section(list), used, aligned(8))) = {name_, __FILE__, __LINE__, 0}

#define LH_MARK(name)                                                                              \
    do {                                                                                           \
        LH_PROBE_DEFINE("lh_mark_places", name);                                                   \
        lh_probe_here.value++;                                                                     \
    } while (0)

#define LH_PLANTED(name)                                                                           \
    (__extension__({                                                                               \
        LH_PROBE_DEFINE("lh_plant_places", name);                                                  \
        lh_probe_here.value != 0;                                                                  \
    }))

#else

#define LH_MARK(name)    ((void)0)
#define LH_PLANTED(name) false

#endif

/* All marks of the program, each place for itself; `*count` may be 0. Theirs is the memory. */
struct lh_probe *lh_marks(size_t *count);

/* All places of planted bugs, as lh_marks(). */
struct lh_probe *lh_plants(size_t *count);

/* Switches a planted bug on or off at every place of that name. False: there is no such name. */
bool lh_plant(const char *name, bool on);

/* Switches all of them off. */
void lh_plant_none(void);
