/* A hierarchical timing wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP
 * 1987): eight levels, one for each byte of a 64-bit time in ns, 256 slots each, so that it is
 * exact to the nanosecond and has no horizon. An item lies on the level of the highest byte in
 * which its time differs from the wheel's; it comes down at most once per level, and usually skips
 * the finest ones because time has moved on. Inside lease/ only.
 *
 * Items are elements of an lh_segments, named by number (1 to 2^31 - 1), and are linked through a
 * struct lh_wheel_link within them. The wheel does not keep an item's time: the owner may let it
 * move later without telling the wheel (that is what makes renewals cheap), and decides when the
 * item comes due whether its time has really come. A time that moves earlier needs a remove and an
 * insert. */
#pragma once

#include "base/time.h"
#include "lease/segments.h"

#include <stddef.h>
#include <stdint.h>

#define LH_WHEEL_LEVELS 8
#define LH_WHEEL_SLOTS  256
#define LH_WHEEL_DUE    (LH_WHEEL_LEVELS * LH_WHEEL_SLOTS) /* the list of what has come due */

/* Circular lists: a number with this bit is a list's head, one without it an item. */
#define LH_WHEEL_HEAD (UINT32_C(1) << 31)

struct lh_wheel_link {
    uint32_t next;
    uint32_t prev;
};

struct lh_wheel {
    const struct lh_segments *items;
    size_t offset;   /* of the link within an item */
    uint64_t time;   /* every slot that begins by now has been emptied into the due list */
    uint32_t levels; /* bit n: level n is not empty */
    uint64_t occupied[LH_WHEEL_LEVELS][LH_WHEEL_SLOTS / 64];
    struct lh_wheel_link heads[LH_WHEEL_DUE + 1];
};

void lh_wheel_init(struct lh_wheel *w, const struct lh_segments *items, size_t offset);

/* `i` must not be in the wheel. A time that has passed comes due at once. */
void lh_wheel_insert(struct lh_wheel *w, uint32_t i, struct lh_instant when);

/* `i` must be in the wheel. */
void lh_wheel_remove(struct lh_wheel *w, uint32_t i);

/* An item whose slot has begun by `now`, 0 if there is none. It stays in the wheel: the caller
 * either removes it or, when its time lies later, removes and inserts it again. Earlier slots
 * first; within a slot in the order of insertion. */
uint32_t lh_wheel_due(struct lh_wheel *w, struct lh_instant now);

/* No item has come due before this. LH_INSTANT_NEVER: the wheel is empty. */
struct lh_instant lh_wheel_deadline(const struct lh_wheel *w);

/* Asserts that links and bits agree and calls `visit` for each item with the earliest time that its
 * place stands for. Returns the number of items, in which one in a slot that is not marked as
 * occupied is missing: compare it with what should be there. */
uint32_t lh_wheel_check(const struct lh_wheel *w,
    void (*visit)(const void *arg, uint32_t i, struct lh_instant from), const void *arg);
