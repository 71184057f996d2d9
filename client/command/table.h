/* Tables on a terminal: columns as wide as their widest cell. */
#pragma once

#include <stddef.h>

#define LH_TABLE_COLUMNS_MAX 12u

struct lh_table {
    size_t columns;
    char **cells; /* row by row; the header row first */
    size_t count, capacity;
};

/* `titles` is NULL-terminated, at most LH_TABLE_COLUMNS_MAX long. A title that begins with '>'
 * makes its column right-aligned. */
void lh_table_init(struct lh_table *table, const char *const *titles);
void lh_table_deinit(struct lh_table *table);

/* The next cell, left to right, row by row. */
void lh_table_add(struct lh_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints the header and all whole rows to stdout. */
void lh_table_print(const struct lh_table *table);
