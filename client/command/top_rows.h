/* `leasehold top`: rows, sentences and tables, from any text. */
#pragma once

#include "client/command/top.h"

/* A row, cut off at the rows' width. */
void lh_top_row(struct lh_top_rows *rows, enum lh_top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A row with `right` at its right end, if that has room; filled up. */
void lh_top_row_ends(
    struct lh_top_rows *rows, enum lh_top_style style, const char *left, const char *right);
/* A sentence behind `mark`, in as many rows as it needs; the others begin below its text. */
void lh_top_sentence(
    struct lh_top_rows *rows, enum lh_top_style style, const char *mark, const char *sentence);

#define LH_TOP_COLUMNS_MAX 12u

/* A table that grows row by row. */
struct lh_top_table {
    const char *const *titles; /* NULL-terminated; '>' makes its column right-aligned */
    size_t columns;
    char **cells;
    size_t count, capacity;
    enum lh_top_style *styles; /* of each row */
    size_t rows, row_capacity;
};
void lh_top_table_init(struct lh_top_table *table, const char *const *titles);
/* Begins a row; its cells follow. */
void lh_top_table_row(struct lh_top_table *table, enum lh_top_style style);
void lh_top_cell(struct lh_top_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the title and all rows to `rows`, and frees the table. */
void lh_top_table_end(struct lh_top_table *table, struct lh_top_rows *rows);
