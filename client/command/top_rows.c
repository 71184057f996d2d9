/* Rows of text for a terminal; see top_rows.h. */
#include "client/command/top_rows.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define TEXT_BYTES     6144u /* of a row before it is cut off: a path, and what is beside it */
#define COLUMN_MAX     40u   /* what a column takes that is not the last one */
#define COLUMN_SPACE   2u
#define UTF8_BYTES_MAX 4u

/* --- characters --------------------------------------------------------------------------- */

/* The next character of `text`, which is not at its end: its bytes, and the columns it takes. What
 * the locale does not show takes one, as '?' (`*bytes` are then not its own). */
static size_t next(const char *text, const char **bytes, size_t *size, unsigned *columns)
{
    uint32_t c = 0;
    size_t n = lh_utf8_char(text, strnlen(text, UTF8_BYTES_MAX), &c);
    int width = n == 0 || !lh_char_is_plain(c) ? -1 : wcwidth((wchar_t)c);

    *bytes = width > 0 ? text : "?";
    *size = width > 0 ? n : 1;
    *columns = width > 0 ? (unsigned)width : 1;
    return n == 0 ? 1 : n;
}

unsigned lh_top_width(const char *text)
{
    unsigned width = 0;

    while (*text != '\0') {
        const char *bytes;
        size_t size;
        unsigned columns;
        text += next(text, &bytes, &size, &columns);
        width += columns;
    }
    return width;
}

/* `text` as a terminal can show it, in at most `width` columns (0: any number). */
static char *fitted(const char *text, unsigned width)
{
    char *shown = lh_alloc(strlen(text) * LH_TEXT_SHOWN_MAX + 1);
    unsigned at = 0;
    size_t length = 0;

    (void)lh_text_show(shown, strlen(text) * LH_TEXT_SHOWN_MAX + 1, text);
    for (const char *from = shown; *from != '\0';) {
        const char *bytes;
        size_t size;
        unsigned columns;
        from += next(from, &bytes, &size, &columns);
        if (width != 0 && at + columns > width)
            break;
        memmove(shown + length, bytes, size); /* not behind `from`: it never grows */
        length += size;
        at += columns;
    }
    shown[length] = '\0';
    return shown;
}

/* --- rows --------------------------------------------------------------------------------- */

static void add(struct lh_top_rows *rows, enum lh_top_style style, const char *text)
{
    LH_GROW(rows->items, rows->capacity, rows->count + 1);
    rows->items[rows->count++] = (struct lh_top_row){style, fitted(text, rows->width)};
}

void lh_top_rows_deinit(struct lh_top_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->items[i].text);
    free(rows->items);
    *rows = (struct lh_top_rows){.width = rows->width};
}

void lh_top_row(struct lh_top_rows *rows, enum lh_top_style style, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(rows, style, text);
}

void lh_top_row_ends(
    struct lh_top_rows *rows, enum lh_top_style style, const char *left, const char *right)
{
    char *start = fitted(left, rows->width), *end = fitted(right, rows->width);
    unsigned taken = lh_top_width(start), more = lh_top_width(end);

    if (rows->width == 0)
        lh_top_row(rows, style, "%s%s%s", start, more > 0 ? "  " : "", end);
    else if (taken + COLUMN_SPACE + more <= rows->width)
        lh_top_row(rows, style, "%s%*s%s", start, (int)(rows->width - taken - more), "", end);
    else
        lh_top_row(rows, style, "%s%*s", start, (int)(rows->width - taken), "");
    free(start);
    free(end);
}

/* Bytes of `text` that one row of `width` columns takes: whole words, if there are any. */
static size_t part_of(const char *text, unsigned width)
{
    size_t at = 0, word = 0;
    unsigned taken = 0;

    while (text[at] != '\0') {
        const char *bytes;
        size_t size;
        unsigned columns;
        if (text[at] == ' ')
            word = at;
        size_t n = next(text + at, &bytes, &size, &columns);
        if (taken + columns > width)
            return word > 0 ? word : at > 0 ? at : n;
        taken += columns;
        at += n;
    }
    return at;
}

void lh_top_sentence(
    struct lh_top_rows *rows, enum lh_top_style style, const char *mark, const char *sentence)
{
    unsigned indent = lh_top_width(mark);
    char *text = fitted(sentence, 0);
    const char *at = text;

    do {
        size_t n = rows->width > indent ? part_of(at, rows->width - indent) : strlen(at);
        if (rows->width == 0)
            n = strlen(at);
        lh_top_row(rows, style, "%*s%.*s", (int)indent, at == text ? mark : "", (int)n, at);
        at += n;
        at += strspn(at, " ");
    } while (*at != '\0');
    free(text);
}

/* --- tables ------------------------------------------------------------------------------- */

void lh_top_table_init(struct lh_top_table *table, const char *const *titles)
{
    *table = (struct lh_top_table){.titles = titles};
    while (titles[table->columns] != NULL)
        table->columns++;
    LH_ASSERT(table->columns <= LH_TOP_COLUMNS_MAX);
}

void lh_top_table_row(struct lh_top_table *table, enum lh_top_style style)
{
    LH_ASSERT(table->count == table->rows * table->columns);
    LH_GROW(table->styles, table->row_capacity, table->rows + 1);
    table->styles[table->rows++] = style;
}

void lh_top_cell(struct lh_top_table *table, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    bool last = table->count % table->columns + 1 == table->columns;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    LH_GROW(table->cells, table->capacity, table->count + 1);
    table->cells[table->count++] = fitted(text, last ? 0 : COLUMN_MAX);
}

static const char *title_of(const struct lh_top_table *table, size_t column)
{
    const char *title = table->titles[column];
    return title[0] == '>' ? title + 1 : title;
}

/* `row` counts from 1; 0 is the title. */
static const char *cell_of(const struct lh_top_table *table, size_t row, size_t column)
{
    return row == 0 ? title_of(table, column) : table->cells[(row - 1) * table->columns + column];
}

static void put_row(
    const struct lh_top_table *table, size_t row, const unsigned *widths, struct lh_top_rows *rows)
{
    char text[TEXT_BYTES * 2];
    size_t length = 0;

    for (size_t c = 0; c < table->columns && length < TEXT_BYTES; c++) {
        const char *cell = cell_of(table, row, c);
        int pad = (int)(widths[c] - lh_top_width(cell));
        bool right = table->titles[c][0] == '>', last = c + 1 == table->columns;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%*s%.*s%*s", right ? pad : 0, "",
                (int)TEXT_BYTES - 1, cell, last ? 0 : (right ? 0 : pad) + (int)COLUMN_SPACE, "");
    }
    lh_top_row(
        rows, row == 0 ? LH_TOP_TITLE : table->styles[row - 1], "%.*s", (int)TEXT_BYTES - 1, text);
}

void lh_top_table_end(struct lh_top_table *table, struct lh_top_rows *rows)
{
    unsigned widths[LH_TOP_COLUMNS_MAX] = {0};

    LH_ASSERT(table->count == table->rows * table->columns);
    for (size_t r = 0; r <= table->rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            unsigned width = lh_top_width(cell_of(table, r, c));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t r = 0; r <= table->rows; r++)
        put_row(table, r, widths, rows);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->styles);
    *table = (struct lh_top_table){0};
}
