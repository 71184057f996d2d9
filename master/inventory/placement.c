/* Where new replicas go: distinct failure domains as far as there are enough, and among equals the
 * server with the most room and the least to do. None goes to a server that is drained. */
#include "master/inventory/inventory.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_reserve(struct lh_m_server *s, uint64_t bytes)
{
    s->space.placed_bytes =
        s->space.placed_bytes > UINT64_MAX - bytes ? UINT64_MAX : s->space.placed_bytes + bytes;
}

uint64_t lh_m_likely(const struct lh_master *m, const struct lh_m_file *f)
{
    uint64_t likely = m->config.place_likely_bytes;

    for (uint64_t i = f->chunk_count; i-- > 0 && f->chunk_count - i <= 2;) {
        const struct lh_m_chunk *c = lh_m_file_chunk(f, (uint32_t)i);
        if (c->sealed && c->length > likely)
            likely = c->length;
    }
    return likely < f->chunk_size ? likely : f->chunk_size;
}

void lh_m_avoid(struct lh_master *m, struct lh_m_server *s, struct lh_duration pause)
{
    s->space.avoid_until = lh_instant_add(m->now, pause);
}

void lh_m_note_missed(struct lh_master *m, struct lh_m_server *s)
{
    s->space.missed_at = m->now;
    lh_m_reach_doubt(m, s);
}

bool lh_m_missed(const struct lh_m_server *s)
{
    return lh_instant_before(s->session.client.received_at, s->space.missed_at);
}

bool lh_m_has_space(const struct lh_m_server *s, uint64_t bytes)
{
    return s->space.free_bytes >= s->space.placed_bytes &&
           s->space.free_bytes - s->space.placed_bytes >= bytes;
}

bool lh_m_fits(const struct lh_master *m, const struct lh_m_server *s, uint64_t bytes)
{
    if (lh_m_drained(s) || !lh_m_reached(s))
        return false;
    /* A server that has just registered may take a replica before it confirmed an answer: the
     * replica counts only once it is confirmed. */
    return lh_m_live(m, s) && s->session.announced && s->session.link != 0 && !s->space.failing &&
           (lh_m_reachable(m, s) || !s->session.client.confirmed) &&
           lh_instant_reached(m->now, s->space.avoid_until) && lh_m_has_space(s, bytes);
}

/* Free space in sixteenths of the capacity: small differences must not outweigh everything else. */
static unsigned space(const struct lh_m_server *s)
{
    uint64_t left = s->space.free_bytes - s->space.placed_bytes;

    return s->space.capacity_bytes == 0
               ? 0
               : (unsigned)((unsigned __int128)left * 16 / s->space.capacity_bytes);
}

/* Is `a` the better place? Strictly: ties go to the server that registered first. */
static bool better(const struct lh_m_server *a, const struct lh_m_server *b)
{
    if (space(a) != space(b))
        return space(a) > space(b);
    if (a->session.client.count != b->session.client.count)
        return a->session.client.count < b->session.client.count;
    if (a->space.placed_bytes != b->space.placed_bytes)
        return a->space.placed_bytes < b->space.placed_bytes;
    if (a->space.replicas != b->space.replicas)
        return a->space.replicas < b->space.replicas;
    return a->space.free_bytes > b->space.free_bytes;
}

bool lh_m_same_domain(const struct lh_m_server *a, const struct lh_m_server *b)
{
    return a->failure_domain[0] != 0 && strcmp(a->failure_domain, b->failure_domain) == 0;
}

/* Does the member keep others out of its domain? Not one whose replica the new one is to replace:
 * then the best place may well be beside it. */
static bool occupies(const struct lh_master *m, const struct lh_m_member *member)
{
    return !lh_m_leaving(m, member) && !member->lost;
}

void lh_m_join_failed(struct lh_master *m, struct lh_m_server *s)
{
    LH_MARK("join-rests");
    s->space.joins_from = lh_instant_add(m->now,
        lh_m_backoff(m->config.copy_retry, m->config.copy_retry_max, s->space.joins_failed++));
}

void lh_m_join_done(struct lh_m_server *s)
{
    s->space.joins_failed = 0;
    s->space.joins_from = (struct lh_instant){0};
}

bool lh_m_may_join(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_instant_reached(m->now, s->space.joins_from);
}

/* As lh_m_place(), on servers that are receiving fewer than `streams` replicas. `waited`: somebody
 * waits until the replicas are there. `joins`: they join an open chunk. */
static uint32_t place(struct lh_master *m, uint64_t bytes, uint32_t wanted, uint32_t streams,
    bool waited, bool joins, const struct lh_m_member *exclude, uint32_t exclude_count,
    struct lh_m_server **chosen)
{
    uint32_t count = 0;

    while (count < wanted) {
        struct lh_m_server *best = NULL, *s;
        bool best_apart = false;
        TAILQ_FOREACH(s, &m->all_servers, all_link) {
            bool used = s->copies_in >= streams || !lh_m_fits(m, s, bytes), apart = true;
            used = used || (waited && lh_m_missed(s)) || (joins && !lh_m_may_join(m, s));
            for (uint32_t i = 0; i < exclude_count && !used; i++) {
                used = lh_m_server_of(m, &exclude[i]) == s;
                apart = apart && !(occupies(m, &exclude[i]) &&
                                     lh_m_same_domain(lh_m_server_of(m, &exclude[i]), s));
            }
            for (uint32_t i = 0; i < count && !used; i++) {
                used = chosen[i] == s;
                apart = apart && !lh_m_same_domain(chosen[i], s);
            }
            if (used)
                continue;
            if (best == NULL || (apart && !best_apart) ||
                (apart == best_apart && better(s, best))) {
                best = s;
                best_apart = apart;
            }
        }
        if (best == NULL)
            break;
        chosen[count++] = best;
    }
    return count;
}

uint32_t lh_m_place(struct lh_master *m, uint64_t bytes, uint32_t wanted,
    const struct lh_m_member *exclude, uint32_t exclude_count, struct lh_m_server **chosen)
{
    return place(m, bytes, wanted, UINT32_MAX, true, false, exclude, exclude_count, chosen);
}

struct lh_m_server *lh_m_place_copy(struct lh_master *m, uint64_t bytes, bool joins,
    const struct lh_m_member *exclude, uint32_t exclude_count)
{
    struct lh_m_server *chosen = NULL;

    place(m, bytes, 1, m->config.repair_streams, false, joins, exclude, exclude_count, &chosen);
    return chosen;
}
