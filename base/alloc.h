/* Memory that is there, or the process ends with a message: no caller can do anything sensible
 * about a failed small allocation, and half-handled ones are where invariants die. Sizes that come
 * from a network or a disk are checked against a limit before they get here. */
#pragma once

#include <stddef.h>

/* Zeroed. Release with free(). Never NULL. */
void *lh_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *lh_alloc_array(size_t count, size_t size) __attribute__((malloc, returns_nonnull));

/* As realloc(); what is added is not zeroed. */
void *lh_realloc_array(void *p, size_t count, size_t size) __attribute__((returns_nonnull));

char *lh_strdup(const char *s) __attribute__((malloc, returns_nonnull));

/* The record whose field `pointer` points to. */
#define LH_OWNER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* Grows `array` (of `*capacity` elements) to hold at least `needed`, doubling. */
#define LH_GROW(array, capacity, needed)                                                           \
    do {                                                                                           \
        if ((needed) > (capacity)) {                                                               \
            size_t lh_grow_n_ = (capacity) == 0 ? 8 : (size_t)(capacity);                          \
            while (lh_grow_n_ < (size_t)(needed))                                                  \
                lh_grow_n_ *= 2;                                                                   \
            (array) = lh_realloc_array((array), lh_grow_n_, sizeof *(array));                      \
            (capacity) = (__typeof__(capacity))lh_grow_n_;                                         \
        }                                                                                          \
    } while (0)
