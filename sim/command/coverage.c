#include "sim/command/coverage.h"

#include "base/alloc.h"
#include "base/probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

size_t lh_sim_coverage_count(void)
{
    size_t count;

    (void)lh_marks(&count);
    return count;
}

void lh_sim_coverage_reset(void)
{
    size_t count;
    struct lh_probe *marks = lh_marks(&count);

    for (size_t i = 0; i < count; i++)
        marks[i].value = 0;
}

void lh_sim_coverage_read(uint64_t *counts)
{
    size_t count;
    const struct lh_probe *marks = lh_marks(&count);

    for (size_t i = 0; i < count; i++)
        counts[i] = marks[i].value;
}

static int by_place(const void *a, const void *b)
{
    const struct lh_probe *x = *(const struct lh_probe *const *)a;
    const struct lh_probe *y = *(const struct lh_probe *const *)b;
    int order = strcmp(x->file, y->file);

    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

/* The linker's order means nothing to a reader. To be freed. */
static const struct lh_probe **in_order(size_t *count)
{
    const struct lh_probe *marks = lh_marks(count);
    const struct lh_probe **order = lh_alloc_array(*count, sizeof *order);

    for (size_t i = 0; i < *count; i++)
        order[i] = &marks[i];
    qsort(order, *count, sizeof *order, by_place);
    return order;
}

static void print_place(FILE *to, const struct lh_probe *mark)
{
    (void)fprintf(to, "%-44s %s:%" PRIu64 "\n", mark->name, mark->file, mark->line);
}

void lh_sim_coverage_list(FILE *to)
{
    size_t count;
    const struct lh_probe **order = in_order(&count);

    for (size_t i = 0; i < count; i++)
        print_place(to, order[i]);
    free(order);
}

size_t lh_sim_coverage_print(FILE *to, const uint64_t *counts, bool only_missing)
{
    size_t count, missing = 0;
    const struct lh_probe **order = in_order(&count);
    const struct lh_probe *marks = lh_marks(&count);

    for (size_t i = 0; i < count; i++) {
        uint64_t n = counts[order[i] - marks];
        missing += n == 0;
        if (to == NULL || (only_missing && n > 0))
            continue;
        if (only_missing)
            (void)fputs("  ", to);
        else
            (void)fprintf(to, "%12" PRIu64 "  ", n);
        print_place(to, order[i]);
    }
    free(order);
    return missing;
}
