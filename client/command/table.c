/* Tables on a terminal; see table.h. */
#include "client/command/table.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/command/command.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES_MAX 1200u

static void add(struct lh_table *table, const char *text)
{
    LH_GROW(table->cells, table->capacity, table->count + 1);
    table->cells[table->count++] = lh_strdup(text);
}

void lh_table_init(struct lh_table *table, const char *const *titles)
{
    *table = (struct lh_table){0};
    for (; titles[table->columns] != NULL; table->columns++)
        add(table, titles[table->columns]);
    LH_ASSERT(table->columns > 0 && table->columns <= LH_TABLE_COLUMNS_MAX);
}

void lh_table_deinit(struct lh_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct lh_table){0};
}

void lh_table_add(struct lh_table *table, const char *format, ...)
{
    char text[CELL_BYTES_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(table, lh_command_shown(text));
}

/* What `text`, which is UTF-8, takes on a terminal, but for characters that are wide or none. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void lh_table_print(const struct lh_table *table)
{
    size_t rows = table->count / table->columns;
    size_t widths[LH_TABLE_COLUMNS_MAX] = {0};
    bool right[LH_TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < table->columns; c++) {
        right[c] = table->cells[c][0] == '>';
        for (size_t r = 0; r < rows; r++) {
            size_t width = characters(table->cells[r * table->columns + c]);
            if (r == 0 && right[c])
                width--;
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            const char *cell = table->cells[r * table->columns + c];
            if (r == 0 && right[c])
                cell++;
            const char *gap = c + 1 < table->columns ? "  " : "\n";
            int pad = (int)(widths[c] - characters(cell));
            if (right[c])
                (void)printf("%*s%s%s", pad, "", cell, gap);
            else if (c + 1 < table->columns)
                (void)printf("%s%*s%s", cell, pad, "", gap);
            else
                (void)printf("%s%s", cell, gap);
        }
    }
}
