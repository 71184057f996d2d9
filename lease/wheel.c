#include "lease/wheel.h"

#include "base/assert.h"

static struct lh_wheel_link *link_of(struct lh_wheel *w, uint32_t i)
{
    if ((i & LH_WHEEL_HEAD) != 0)
        return &w->heads[i & ~LH_WHEEL_HEAD];
    unsigned char *item = lh_segments_at(w->items, i, w->items->element);
    return (struct lh_wheel_link *)(void *)(item + w->offset);
}

static bool is_empty(const struct lh_wheel *w, uint32_t list)
{
    return w->heads[list].next == (list | LH_WHEEL_HEAD);
}

static void set_empty(struct lh_wheel *w, uint32_t list)
{
    w->heads[list].next = list | LH_WHEEL_HEAD;
    w->heads[list].prev = list | LH_WHEEL_HEAD;
}

static void mark_occupied(struct lh_wheel *w, uint32_t list)
{
    uint32_t level = list / LH_WHEEL_SLOTS;
    uint32_t slot = list % LH_WHEEL_SLOTS;
    w->occupied[level][slot / 64] |= UINT64_C(1) << (slot % 64);
    w->levels |= UINT32_C(1) << level;
}

static void mark_free(struct lh_wheel *w, uint32_t list)
{
    if (list == LH_WHEEL_DUE)
        return;
    uint32_t level = list / LH_WHEEL_SLOTS;
    uint32_t slot = list % LH_WHEEL_SLOTS;
    uint64_t *words = w->occupied[level];
    words[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    if ((words[0] | words[1] | words[2] | words[3]) == 0)
        w->levels &= ~(UINT32_C(1) << level);
}

/* When slot `list` begins, given that it is not before the wheel's time. */
static uint64_t slot_start(const struct lh_wheel *w, uint32_t list)
{
    uint32_t level = list / LH_WHEEL_SLOTS;
    uint64_t slot = list % LH_WHEEL_SLOTS;
    uint64_t above = level == LH_WHEEL_LEVELS - 1 ? 0 : ~UINT64_C(0) << (8 * (level + 1));
    return (w->time & above) | slot << (8 * level);
}

/* The earliest occupied slot; false if the wheel has none. Everything on a level lies beyond the
 * wheel's present slot of that level, everything on a lower one within it: the lowest level
 * wins. */
static bool first_slot(const struct lh_wheel *w, uint32_t *list)
{
    if (w->levels == 0)
        return false;
    uint32_t level = (uint32_t)__builtin_ctz(w->levels);
    uint32_t word = 0;
    while (w->occupied[level][word] == 0)
        word++;
    uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(w->occupied[level][word]);
    *list = level * LH_WHEEL_SLOTS + slot;
    return true;
}

static void splice_to_due(struct lh_wheel *w, uint32_t list)
{
    struct lh_wheel_link from = w->heads[list];
    struct lh_wheel_link *due = &w->heads[LH_WHEEL_DUE];
    link_of(w, from.next)->prev = due->prev;
    link_of(w, due->prev)->next = from.next;
    link_of(w, from.prev)->next = LH_WHEEL_DUE | LH_WHEEL_HEAD;
    due->prev = from.prev;
    set_empty(w, list);
    mark_free(w, list);
}

void lh_wheel_init(struct lh_wheel *w, const struct lh_segments *items, size_t offset)
{
    *w = (struct lh_wheel){.items = items, .offset = offset};
    for (uint32_t list = 0; list <= LH_WHEEL_DUE; list++)
        set_empty(w, list);
}

void lh_wheel_insert(struct lh_wheel *w, uint32_t i, struct lh_instant when)
{
    LH_ASSERT(i != 0 && (i & LH_WHEEL_HEAD) == 0);
    uint64_t time = when.ns > w->time ? when.ns : w->time;
    uint64_t differing = time ^ w->time;
    uint32_t level = differing == 0 ? 0 : (63 - (uint32_t)__builtin_clzll(differing)) / 8;
    uint32_t list = level * LH_WHEEL_SLOTS + (uint32_t)(time >> (8 * level)) % LH_WHEEL_SLOTS;

    struct lh_wheel_link *head = &w->heads[list];
    struct lh_wheel_link *item = link_of(w, i);
    item->next = list | LH_WHEEL_HEAD;
    item->prev = head->prev;
    link_of(w, head->prev)->next = i;
    head->prev = i;
    mark_occupied(w, list);
}

void lh_wheel_remove(struct lh_wheel *w, uint32_t i)
{
    struct lh_wheel_link *item = link_of(w, i);
    link_of(w, item->next)->prev = item->prev;
    link_of(w, item->prev)->next = item->next;
    if (item->next == item->prev && (item->next & LH_WHEEL_HEAD) != 0)
        mark_free(w, item->next & ~LH_WHEEL_HEAD);
}

uint32_t lh_wheel_due(struct lh_wheel *w, struct lh_instant now)
{
    uint32_t list;
    while (first_slot(w, &list) && slot_start(w, list) <= now.ns)
        splice_to_due(w, list);
    /* No occupied slot begins by `now`, so none changes its level by this. */
    if (now.ns > w->time)
        w->time = now.ns;
    return is_empty(w, LH_WHEEL_DUE) ? 0 : w->heads[LH_WHEEL_DUE].next;
}

struct lh_instant lh_wheel_deadline(const struct lh_wheel *w)
{
    uint32_t list;
    if (!is_empty(w, LH_WHEEL_DUE))
        return (struct lh_instant){w->time};
    if (!first_slot(w, &list))
        return LH_INSTANT_NEVER;
    return (struct lh_instant){slot_start(w, list)};
}

static uint32_t check_list(const struct lh_wheel *w, uint32_t list, struct lh_instant from,
    void (*visit)(const void *arg, uint32_t i, struct lh_instant from), const void *arg)
{
    struct lh_wheel *links =
        (struct lh_wheel *)w; /* link_of() has no const twin; nothing changes */
    uint32_t before = list | LH_WHEEL_HEAD;
    uint32_t items = 0;
    for (uint32_t i = w->heads[list].next; (i & LH_WHEEL_HEAD) == 0; i = link_of(links, i)->next) {
        LH_ASSERT(link_of(links, i)->prev == before);
        visit(arg, i, from);
        before = i;
        items++;
    }
    LH_ASSERT(w->heads[list].prev == before);
    return items;
}

uint32_t lh_wheel_check(const struct lh_wheel *w,
    void (*visit)(const void *arg, uint32_t i, struct lh_instant from), const void *arg)
{
    uint32_t items = check_list(w, LH_WHEEL_DUE, (struct lh_instant){0}, visit, arg);
    for (uint32_t level = 0; level < LH_WHEEL_LEVELS; level++) {
        uint64_t any = 0;
        for (uint32_t word = 0; word < LH_WHEEL_SLOTS / 64; word++) {
            uint64_t bits = w->occupied[level][word];
            any |= bits;
            for (; bits != 0; bits &= bits - 1) {
                uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
                uint32_t list = level * LH_WHEEL_SLOTS + slot;
                struct lh_instant from = {slot_start(w, list)};
                LH_ASSERT(!is_empty(w, list) && from.ns >= w->time);
                items += check_list(w, list, from, visit, arg);
            }
        }
        LH_ASSERT((any != 0) == ((w->levels >> level & 1) != 0));
    }
    return items;
}
