/* INV-15 of lookups (VAL-7): what a client would open from memory is the file that has the path, by
 * the commits of the master's store; and what was opened had the path at some moment since that was
 * asked. */
#include "sim/observers/history.h"
#include "sim/observers/leases.h"

#include "client/core/leases.h"

#include <inttypes.h>

static uint64_t file_now(const struct name *n)
{
    return n->count == 0 ? 0 : n->times[n->count - 1].file;
}

static void check(struct lh_sim_observers *o, const struct actor *a, const struct name *n)
{
    uint64_t file;

    if (failed(o) || !lh_sim_is_up(a->node) ||
        !lh_client_looked_up(lh_sim_core(a->node), n->path, lh_sim_clock(a->node), &file))
        return;
    if (file != file_now(n))
        lh_ob_fail_unless_excused(o, "INV-15", 0, &o->seen_inv15,
            "%s would open %s as file %" PRIu64 " from its memory, and it is %" PRIu64
            " now (VAL-7)",
            a->name, n->path, file, file_now(n));
}

void lh_ob_lookups_changed(struct lh_sim_observers *o, const struct name *n)
{
    for (size_t i = 0; i < o->actor_count; i++)
        if (o->actors[i].part == PART_CLIENT)
            check(o, &o->actors[i], n);
}

void lh_ob_lookups_stepped(struct lh_sim_observers *o, const struct actor *a)
{
    struct name *n, *next;

    HASH_ITER(hh, o->history->names, n, next)
        check(o, a, n);
}

void lh_ob_lookups_opened(struct lh_sim_observers *o, const struct call *call, const char *path,
    uint64_t file, bool from_cache)
{
    if (lh_ob_named(o, path, file, call->begun, lh_sim_now(o->sim)))
        return;
    lh_ob_fail_unless_excused(o, "INV-15", 0, &o->seen_inv15,
        "%s opened %s as file %" PRIu64 "%s, which had that path at no moment since it asked, at "
        "%" PRIu64 " ns (VAL-7)",
        call->client->name, path, file, from_cache ? " from its memory" : "", call->begun);
}
