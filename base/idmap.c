#include "base/idmap.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A page is 2,048 bytes, or with words 3,068 of 3,072, which allocators give without loss. */
#define PAGE_MAX 255u

struct lh_idmap_page {
    uint64_t count;
    void *records[PAGE_MAX];
    uint32_t words[]; /* PAGE_MAX, or none */
};

/* Records and their words go on from `from` at `to`, of a page or another one. */
static void move(const struct lh_idmap *map, struct lh_idmap_page *to_page, size_t to,
    const struct lh_idmap_page *page, size_t from, size_t count)
{
    memmove(&to_page->records[to], &page->records[from], count * sizeof *page->records);
    if (map->words)
        memmove(&to_page->words[to], &page->words[from], count * sizeof *page->words);
}

static uint64_t id_of(const void *record)
{
    return *(const uint64_t *)record;
}

/* Where `id` would be if all pages spanned as many numbers: nearly so, if they were given out
 * rising. It is not below the first number. */
static size_t guess(const struct lh_idmap *map, uint64_t id)
{
    size_t last = map->place_count - 1;
    uint64_t first = map->places[0].first, span = map->places[last].first - first;

    if (id - first >= span)
        return last;
    return (size_t)((double)(id - first) / (double)span * (double)last);
}

/* The page in which `id` is or belongs: the last one that does not begin above it, or the first.
 * There is one. Beside the guess in most cases; else both ends move away from it in steps that
 * double, and what is between them is halved. */
static size_t place_of(const struct lh_idmap *map, uint64_t id)
{
    if (id <= map->places[0].first)
        return 0;
    size_t low = guess(map, id), high = low + 1, count = map->place_count;

    for (size_t step = 1; map->places[low].first > id; step *= 2) {
        high = low;
        low -= step < low ? step : low;
    }
    for (size_t step = 1; high < count && map->places[high].first <= id; step *= 2) {
        low = high;
        high += step < count - high ? step : count - high;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->places[middle].first <= id)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many records of the page have a number below `id`? Numbers are distinct, so at most as many
 * as the numbers between; and if none is missing, exactly. */
static size_t below(const struct lh_idmap_place *place, uint64_t id)
{
    const struct lh_idmap_page *page = place->page;
    size_t low = 0, high = page->count;

    if (id <= place->first)
        return 0;
    if (id - place->first < high)
        high = (size_t)(id - place->first);
    if (id_of(page->records[high - 1]) < id)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (id_of(page->records[middle]) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct lh_idmap_page *page_add(struct lh_idmap *map, size_t at, uint64_t first)
{
    LH_GROW(map->places, map->place_capacity, map->place_count + 1);
    memmove(&map->places[at + 1], &map->places[at], (map->place_count - at) * sizeof *map->places);
    map->place_count++;
    size_t words = map->words ? PAGE_MAX * sizeof(uint32_t) : 0;
    map->places[at] =
        (struct lh_idmap_place){first, lh_alloc(sizeof *map->places[at].page + words)};
    return map->places[at].page;
}

static void page_remove(struct lh_idmap *map, size_t at)
{
    free(map->places[at].page);
    map->place_count--;
    memmove(&map->places[at], &map->places[at + 1], (map->place_count - at) * sizeof *map->places);
}

void lh_idmap_deinit(struct lh_idmap *map)
{
    for (size_t i = 0; i < map->place_count; i++)
        free(map->places[i].page);
    free(map->places);
    *map = (struct lh_idmap){.words = map->words};
}

/* The upper half of a full page goes into a new one behind it. */
static void split(struct lh_idmap *map, size_t at)
{
    struct lh_idmap_page *page = map->places[at].page;
    size_t stay = page->count / 2;
    struct lh_idmap_page *next = page_add(map, at + 1, id_of(page->records[stay]));

    next->count = page->count - stay;
    move(map, next, 0, page, stay, next->count);
    page->count = stay;
}

void lh_idmap_add(struct lh_idmap *map, void *record)
{
    uint64_t id = id_of(record);
    size_t at = 0;

    if (map->place_count == 0)
        page_add(map, 0, id);
    else
        at = place_of(map, id);
    if (map->places[at].page->count == PAGE_MAX) {
        if (at + 1 == map->place_count && below(&map->places[at], id) == PAGE_MAX)
            page_add(map, ++at, id); /* behind all others: those stay full */
        else
            split(map, at);
        at = place_of(map, id);
    }
    struct lh_idmap_page *page = map->places[at].page;
    size_t i = below(&map->places[at], id);
    LH_ASSERT(i == page->count || id_of(page->records[i]) != id);
    move(map, page, i + 1, page, i, page->count - i);
    page->records[i] = record;
    if (map->words)
        page->words[i] = 0;
    page->count++;
    map->places[at].first = id_of(page->records[0]);
    map->count++;
}

/* Two neighbours that fit into half a page become one. */
static void merge(struct lh_idmap *map, size_t at)
{
    if (at + 1 >= map->place_count)
        return;
    struct lh_idmap_page *page = map->places[at].page, *next = map->places[at + 1].page;
    if (page->count + next->count > PAGE_MAX / 2)
        return;
    move(map, page, page->count, next, 0, next->count);
    page->count += next->count;
    page_remove(map, at + 1);
}

void lh_idmap_remove(struct lh_idmap *map, const void *record)
{
    size_t at = place_of(map, id_of(record));
    struct lh_idmap_page *page = map->places[at].page;
    size_t i = below(&map->places[at], id_of(record));

    LH_ASSERT(i < page->count && page->records[i] == record);
    page->count--;
    move(map, page, i, page, i + 1, page->count - i);
    map->count--;
    if (page->count == 0) {
        page_remove(map, at);
        return;
    }
    map->places[at].first = id_of(page->records[0]);
    merge(map, at);
    if (at > 0)
        merge(map, at - 1);
}

void *lh_idmap_from(const struct lh_idmap *map, uint64_t id)
{
    if (map->place_count == 0)
        return NULL;
    size_t at = place_of(map, id);
    size_t i = below(&map->places[at], id);
    if (i < map->places[at].page->count)
        return map->places[at].page->records[i];
    return at + 1 < map->place_count ? map->places[at + 1].page->records[0] : NULL;
}

void *lh_idmap_last(const struct lh_idmap *map)
{
    if (map->place_count == 0)
        return NULL;
    const struct lh_idmap_page *page = map->places[map->place_count - 1].page;
    return page->records[page->count - 1];
}

void *lh_idmap_find(const struct lh_idmap *map, uint64_t id)
{
    void *record = lh_idmap_from(map, id);

    return record != NULL && id_of(record) == id ? record : NULL;
}

uint32_t *lh_idmap_word(const struct lh_idmap *map, uint64_t id)
{
    LH_ASSERT(map->words);
    if (map->place_count == 0)
        return NULL;
    struct lh_idmap_page *page = map->places[place_of(map, id)].page;
    size_t i = below(&map->places[place_of(map, id)], id);
    return i < page->count && id_of(page->records[i]) == id ? &page->words[i] : NULL;
}
