/* The committed log of each chunk, batch for batch: it grows when somebody is told that more is
 * committed (a client, a member, a reader), and only by what every good member then holds, by the
 * observers' own reading: on the platter where the file is `synced` or the replica sealed, else in
 * the kernel's hands (APP-3). */
#include "sim/observers/internal.h"

#include <inttypes.h>
#include <string.h>

const struct lh_sim_batch *lh_ob_committed_at(const struct chunk *c, uint64_t offset)
{
    size_t low = 0, high = c->log_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->log[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->log_count && c->log[low].offset == offset ? &c->log[low] : NULL;
}

/* The good members' logs. */
struct copies {
    size_t count;
    struct copy {
        uint32_t server;
        const uint8_t *log;
        uint64_t size;
    } at[MEMBERS_MAX];
};

static void find_copies(struct lh_sim_observers *o, struct chunk *c, struct copies *copies)
{
    copies->count = 0;
    for (size_t i = 0; i < c->member_count; i++) {
        uint32_t server = c->members[i].server;
        if (!lh_ob_good(o, c, server))
            continue;
        struct copy *k = &copies->at[copies->count++];
        k->server = server;
        k->log = lh_ob_log(o, c, server, lh_ob_on_platter(o, c, server), &k->size);
        if (k->log == NULL)
            k->size = 0;
    }
}

uint64_t lh_ob_checksum(const struct chunk *c)
{
    return c->log_count == 0 ? lh_sim_checksum_of_nothing(c->id) : c->log[c->log_count - 1].chain;
}

/* Takes the batch that begins where the committed log ends. */
static bool take_batch(struct lh_sim_observers *o, struct chunk *c, const struct copies *copies,
    const char *rule, const char *who, const char *what)
{
    uint64_t at = c->committed;
    struct lh_sim_batch b;

    for (size_t i = 0; i < copies->count; i++) {
        const struct copy *k = &copies->at[i], *first = &copies->at[0];
        bool there =
            i == 0 ? lh_sim_batch_read(k->log, k->size, at, &b) &&
                         b.chain == lh_sim_checksum_after(lh_ob_checksum(c), &b)
                   : k->size >= at + b.size && memcmp(k->log + at, first->log + at, b.size) == 0;
        if (there)
            continue;
        lh_sim_fail(o->sim, rule, c->id,
            "%s %s chunk %" PRIu64 " at %" PRIu64 ", and %s, a full member at version %" PRIu64
            ", does not have it%s",
            who, what, c->id, at, o->servers[k->server]->name, c->version,
            lh_ob_on_platter(o, c, k->server) ? " on its disk" : "");
        return false;
    }
    if (!lh_ob_inv6_placed(o, c, &b))
        return false;
    LH_GROW(c->log, c->log_capacity, c->log_count + 1);
    c->log[c->log_count++] = b;
    c->committed += b.size;
    return true;
}

bool lh_ob_commit(struct lh_sim_observers *o, struct chunk *c, uint64_t length, const char *rule,
    const char *who, const char *what)
{
    struct copies copies;

    if (length <= c->committed || !c->known || c->removed)
        return true;
    if (c->sealed && length > c->length && !c->hopeless) {
        lh_sim_fail(o->sim, "INV-4", c->id,
            "%s %s chunk %" PRIu64 " up to %" PRIu64 ", and it is sealed at %" PRIu64, who, what,
            c->id, length, c->length);
        return false;
    }
    find_copies(o, c, &copies);
    if (copies.count == 0)
        return o->nobody_left = true; /* nobody is left whose bytes could tell */
    while (c->committed < length)
        if (!take_batch(o, c, &copies, rule, who, what))
            return false;
    if (c->committed == length)
        return true;
    lh_sim_fail(o->sim, rule, c->id,
        "%s %s chunk %" PRIu64 " up to %" PRIu64 ", where no batch ends", who, what, c->id, length);
    return false;
}

bool lh_ob_commit_batch(struct lh_sim_observers *o, struct chunk *c, uint64_t offset,
    const char *rule, const char *who, const char *what)
{
    struct copies copies;

    if (!lh_ob_commit(o, c, offset, rule, who, what))
        return false;
    if (offset != c->committed || !c->known || c->removed)
        return true;
    if (c->sealed && offset >= c->length && !c->hopeless) {
        lh_sim_fail(o->sim, rule, c->id,
            "%s %s chunk %" PRIu64 " at %" PRIu64 ", and it is sealed at %" PRIu64, who, what,
            c->id, offset, c->length);
        return false;
    }
    find_copies(o, c, &copies);
    if (copies.count == 0)
        return o->nobody_left = true;
    return take_batch(o, c, &copies, rule, who, what);
}

void lh_ob_commit_check(struct lh_sim_observers *o, struct chunk *c, uint32_t server, uint64_t from,
    uint64_t to, const char *why)
{
    uint64_t size;

    if (from >= c->committed || !lh_ob_good(o, c, server))
        return;
    bool platter = lh_ob_on_platter(o, c, server);
    const uint8_t *log = lh_ob_log(o, c, server, platter, &size);
    size_t i = c->log_count;
    while (i > 0 && c->log[i - 1].offset + c->log[i - 1].size > from)
        i--;
    for (; i < c->log_count && c->log[i].offset < to; i++) {
        const struct lh_sim_batch *want = &c->log[i];
        struct lh_sim_batch have;
        if (log != NULL && lh_sim_batch_read(log, size, want->offset, &have) &&
            have.crc == want->crc && have.size == want->size && have.writer == want->writer &&
            have.sequence == want->sequence)
            continue;
        lh_sim_fail(o->sim, "INV-4", c->id,
            "a batch (writer %" PRIx64 ", %" PRIu64 ") that was committed at %" PRIu64
            " of chunk %" PRIu64 " is not there any "
            "more at %s%s: %s",
            want->writer, want->sequence, want->offset, c->id, o->servers[server]->name,
            platter ? " on its disk" : "", why);
        return;
    }
}

void lh_ob_commit_reported(struct lh_sim_observers *o, struct chunk *c)
{
    struct copies copies;
    uint64_t longest = 0, size, checksum;

    find_copies(o, c, &copies);
    if (copies.count > 0 || !c->known || c->removed)
        return;
    for (size_t i = 0; i < c->member_count; i++) {
        const uint8_t *log = lh_ob_log(o, c, c->members[i].server, false, &size);
        uint64_t length = log == NULL ? 0 : lh_sim_log_scan(c->id, log, size, size, &checksum);
        if (length > longest)
            longest = length;
    }
    lh_ob_commit_lost(o, c, longest);
}

void lh_ob_commit_lost(struct lh_sim_observers *o, struct chunk *c, uint64_t length)
{
    if (!c->loss_reported || length < c->kept)
        c->kept = length;
    c->loss_reported = true;
    while (c->log_count > 0 &&
           c->log[c->log_count - 1].offset + c->log[c->log_count - 1].size > length) {
        lh_ob_inv6_lost(o, &c->log[c->log_count - 1]);
        c->committed = c->log[--c->log_count].offset;
    }
    if (c->acknowledged > c->committed)
        c->acknowledged = c->committed;
}
