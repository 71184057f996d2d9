#include "lease/promises.h"

#include "base/assert.h"
#include "base/prng.h"
#include "base/probe.h"

#include <string.h>

/* Stores are made in the order in which they stand here, and each of them whole or not at all. */
static void set(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
}

static uint64_t *slot(struct lh_promises *p, uint64_t client)
{
    return &p->made_ns[lh_mix64(client) & (p->slots - 1)];
}

size_t lh_promises_size(size_t slots)
{
    return sizeof(struct lh_promises) + slots * sizeof(uint64_t);
}

void lh_promises_open(struct lh_promises *p, size_t slots, const char *place)
{
    LH_ASSERT(slots > 0 && (slots & (slots - 1)) == 0 && strlen(place) < sizeof p->place);
    bool is_ours = p->format == LH_PROMISES_FORMAT && p->slots == slots;

    if (is_ours &&
        (strncmp(p->place, place, sizeof p->place) == 0 || LH_PLANTED("promises-of-another-boot")))
        return;
    set(&p->reign, 0);
    set(&p->format, 0);
    set(&p->slots, slots);
    memset(p->place, 0, sizeof p->place);
    memcpy(p->place, place, strlen(place));
    set(&p->format, LH_PROMISES_FORMAT);
}

/* Otherwise another reign has promised since, of which nothing is known here; or the store lacks
 * commits that this memory has seen, and with them perhaps who was promised something; or it has
 * commits that this memory has not seen: the memory was put back. */
static bool fits(const struct lh_promises *p, uint64_t reign, uint64_t commits)
{
    if (p->reign != 0 && LH_PLANTED("promises-of-another-reign"))
        return true;
    return p->reign != 0 && p->reign == reign && p->commits <= commits && commits <= p->begun;
}

void lh_promises_begin(
    struct lh_promises *p, uint64_t reign, uint64_t commits, struct lh_instant now)
{
    if (p == NULL)
        return;
    if (fits(p, reign, commits)) {
        LH_MARK("promises-remembered");
        return;
    }
    set(&p->reign, 0);
    set(&p->before_ns, now.ns);
    for (size_t i = 0; i < p->slots; i++)
        set(&p->made_ns[i], 0);
}

void lh_promises_commit(struct lh_promises *p, uint64_t number)
{
    if (p != NULL)
        set(&p->begun, number);
}

void lh_promises_durable(struct lh_promises *p, uint64_t reign, uint64_t commits)
{
    if (p == NULL)
        return;
    set(&p->commits, commits);
    set(&p->reign, reign);
}

void lh_promises_note(struct lh_promises *p, uint64_t client, struct lh_instant now)
{
    if (p == NULL || LH_PLANTED("promise-not-noted"))
        return;
    uint64_t *made = slot(p, client);
    if (*made < now.ns)
        set(made, now.ns);
}

struct lh_instant lh_promises_made(
    const struct lh_promises *p, uint64_t client, struct lh_instant now)
{
    if (p == NULL)
        return now;
    uint64_t made = *slot((struct lh_promises *)(uintptr_t)p, client);
    return lh_instant_min(now, (struct lh_instant){made == 0 ? p->before_ns : made});
}
