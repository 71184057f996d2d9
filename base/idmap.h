/* Records by a number, in the order of numbers. Numbers are given out rising, so nearly all records
 * are added at the end; then a record costs little more than a pointer.
 *
 * The map is a row of pages, each a sorted array of pointers. A record's number is its first field,
 * so the map keeps none, and the record must not change it while it is in the map. Mostly the
 * number tells where it is, the page and the place within it; else it is searched for. Adding in
 * the middle moves part of a page. Nothing here owns the records.
 *
 * A map may keep a word beside each record (`words`): 4 bytes, where a field of the record's own
 * would cost an allocator's step of 16. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_idmap_page;

struct lh_idmap {
    struct lh_idmap_place {
        uint64_t first; /* the least number in the page */
        struct lh_idmap_page *page;
    } * places;
    size_t place_count, place_capacity;
    size_t count; /* of records */
    bool words;   /* there is one beside each record; set while the map is empty */
};

/* An empty map is all zeros, but for `words`. */
void lh_idmap_deinit(struct lh_idmap *map);

/* `record` points to its uint64_t number, which is not in the map. */
void lh_idmap_add(struct lh_idmap *map, void *record);
/* The record is in the map. */
void lh_idmap_remove(struct lh_idmap *map, const void *record);
/* NULL: none has that number. */
void *lh_idmap_find(const struct lh_idmap *map, uint64_t id);
/* The record with the least number that is not below `id`; NULL: there is none. */
void *lh_idmap_from(const struct lh_idmap *map, uint64_t id);
/* The record with the greatest number; NULL: there is none. */
void *lh_idmap_last(const struct lh_idmap *map);

/* The word beside that record, 0 at first; good until the map changes. NULL: there is no record. */
uint32_t *lh_idmap_word(const struct lh_idmap *map, uint64_t id);

/* All records, in order. The loop's body may add others, and remove this one before it frees it. */
#define LH_IDMAP_FOREACH(record, map)                                                              \
    for (uint64_t lh_idmap_at_ = 0, lh_idmap_more_ = 1;                                            \
         lh_idmap_more_ && ((record) = lh_idmap_from((map), lh_idmap_at_)) != NULL &&              \
         (lh_idmap_at_ = *(const uint64_t *)(const void *)(record) + 1,                            \
         lh_idmap_more_ = lh_idmap_at_ != 0, 1);)
