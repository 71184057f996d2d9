#include "master/tables/reign.h"

#include "master/tables/dirty.h"
#include "master/tables/tables.h"

/* The first one that is not below. */
static size_t place_of(const struct lh_m_reigns *r, uint64_t number)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->items[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_at(struct lh_master *m, size_t at)
{
    struct lh_m_reigns *r = &m->reigns;

    lh_m_pair_drop(m, &r->items[at].pair);
    r->count--;
    memmove(&r->items[at], &r->items[at + 1], (r->count - at) * sizeof *r->items);
}

struct lh_m_reign *lh_m_reign_find(const struct lh_master *m, uint64_t number)
{
    const struct lh_m_reigns *r = &m->reigns;
    size_t at = place_of(r, number);

    return at < r->count && r->items[at].number == number ? &r->items[at] : NULL;
}

uint64_t lh_m_reign_name(const struct lh_master *m, uint64_t number)
{
    const struct lh_m_reign *reign = lh_m_reign_find(m, number);

    return reign == NULL ? 0 : reign->name;
}

void lh_m_reign_load(struct lh_master *m, uint64_t number, uint64_t name, bool restored)
{
    struct lh_m_reigns *r = &m->reigns;
    size_t at = place_of(r, number);

    if (at == r->count || r->items[at].number != number) {
        LH_GROW(r->items, r->capacity, r->count + 1);
        memmove(&r->items[at + 1], &r->items[at], (r->count - at) * sizeof *r->items);
        r->items[at] = (struct lh_m_reign){.number = number};
        r->count++;
    }
    r->items[at].name = name;
    r->items[at].restored = restored;
    if (restored && number > r->restored)
        r->restored = number;
}

void lh_m_reign_forget(struct lh_master *m, uint64_t number)
{
    const struct lh_m_reign *reign = lh_m_reign_find(m, number);

    if (reign != NULL)
        remove_at(m, (size_t)(reign - m->reigns.items));
}

void lh_m_reign_begin(struct lh_master *m, uint64_t name, bool restored)
{
    struct lh_m_reigns *r = &m->reigns;

    LH_ASSERT(name != 0 && !r->dirty);
    while (r->count > 0 && r->items[r->count - 1].number > m->term)
        remove_at(m, r->count - 1); /* the store was damaged: no master writes it */
    lh_m_reign_load(m, m->term, name, restored);
    r->dirty = true;
    if (r->count > m->config.reigns_max) {
        r->forgotten = r->items[0].number;
        remove_at(m, 0);
    }
    lh_m_dirty_master(m);
}
