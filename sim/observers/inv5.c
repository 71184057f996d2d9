/* INV-5: two members never hold different bytes below a committed length. Whatever is called
 * committed is compared when it is (committed.c, under this name when a primary tells its members);
 * here is what must be so when all is well: members are identical to the end. */
#include "sim/observers/internal.h"

#include "sim/cluster/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A period of the scrub that is a part of a run. */
#define SOON lh_seconds(20)

/* What a disk has done by itself in a log the scrub finds, if there is one that comes by in time
 * (FAIL-4); in a header nobody finds it before the next start. */
static bool counts(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct replica *r = lh_ob_replica(c, server);
    struct lh_duration period = o->cluster->config.server.scrub_period;
    bool repaired = lh_sim_master_config(o->cluster)->repair_streams > 0;
    bool scrubbed = repaired && period.ns > 0 && period.ns <= SOON.ns;

    if (lh_sim_is_scrapped(o->servers[server]->node))
        return false; /* nothing is, there; that it is replaced if possible is KEEP-1's */
    /* What is on a server that is being emptied is neither refreshed nor copied again, only
     * replaced (KEEP-2); that the others have it is for keep.c to see. */
    if (lh_sim_is_draining(o->cluster, server + 1) &&
        (lh_ob_lost(o, c, server) || (c->sealed && !lh_ob_kernel(o, c, server)->sealed)))
        return false;
    return lh_ob_full_member(c, server) && (repaired || !lh_ob_lost(o, c, server)) &&
           (!r->damaged || (scrubbed && !r->header_damaged));
}

/* NULL: the replica is as it must be by itself. */
static const char *single(struct lh_sim_observers *o, struct chunk *c, uint32_t server)
{
    const struct lh_sim_header *h = lh_ob_kernel(o, c, server);

    if (!h->valid)
        return "has no replica";
    if (h->lost || lh_ob_replica(c, server)->lost)
        return "has lost its replica, which was not copied anew";
    if (h->copying)
        return "has an incomplete replica";
    if (h->version != c->version)
        return "does not have the newest version";
    if (h->sealed != c->sealed)
        return "does not know of the seal";
    if (c->sealed && (h->sealed_length != c->length || h->sealed_checksum != c->checksum))
        return "has recorded another seal";
    return NULL;
}

static const char *chunk_unequal(struct lh_sim_observers *o, struct chunk *c, uint32_t *server)
{
    const uint8_t *first = NULL;
    uint64_t first_size = 0, size;

    for (size_t i = 0; i < c->member_count; i++) {
        *server = c->members[i].server;
        if (!counts(o, c, *server))
            continue;
        const char *what = single(o, c, *server);
        if (what != NULL)
            return what;
        const uint8_t *log = lh_ob_log(o, c, *server, false, &size);
        if (log == NULL || (c->sealed && size != c->length))
            return "has a log of another length than the seal";
        if (first != NULL && (size != first_size || memcmp(log, first, size) != 0))
            return "has another log than the member before it";
        first = log;
        first_size = size;
    }
    return NULL;
}

bool lh_ob_inv5_equal(
    struct lh_sim_observers *o, bool but_recovering, uint64_t *chunk, char *text, size_t text_size)
{
    struct file *f, *next;

    HASH_ITER(hh, o->files, f, next) {
        if (f->removed || lh_ob_inv8_exempt(o, f))
            continue;
        for (size_t i = 0; i < f->chunk_count; i++) {
            struct chunk *c = f->chunks[i];
            uint32_t server = 0;
            /* Nobody has opened an idle tail since: its members may differ in what was never
             * acknowledged. */
            if (c->removed || c->hopeless || !c->created ||
                (!c->sealed && (f->trashed || c->acknowledged_at <= o->over_at)))
                continue;
            if (but_recovering && !c->sealed && c->recovered < c->version)
                continue;
            const char *what = chunk_unequal(o, c, &server);
            if (what == NULL)
                continue;
            (void)snprintf(text, text_size, "chunk %" PRIu64 " of %s, version %" PRIu64 ": %s %s",
                c->id, f->path, c->version, o->servers[server]->name, what);
            *chunk = c->id;
            return false;
        }
    }
    return true;
}
