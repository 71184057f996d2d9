/* The census: a walk over all chunks, in pieces, that counts what is needed where, and finds what
 * had better lie elsewhere. What it says holds if it began after the operator's word. */
#include "master/keep/internal.h"

#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

static void count(struct lh_master *m, struct lh_m_chunk *c)
{
    uint32_t good_ones = 0, staying = 0;
    const struct lh_m_extra *e;
    bool moving = false;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        bool leaving = lh_m_drained(lh_m_server_of(m, member)) ||
                       lh_m_move_of(m, c->id, lh_m_server_of(m, member)) != NULL;
        bool is_good = lh_m_member_health(m, c, member) == LH_M_GOOD;
        if (member->leaving != leaving)
            lh_m_enqueue(m, c);
        member->leaving = leaving;
        moving = moving || leaving;
        good_ones += is_good;
        staying += is_good && !leaving;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        struct lh_m_server *s = lh_m_server_of(m, member);
        s->census.members_so_far++;
        if (!lh_m_member_needed(m, c, member, staying))
            continue;
        s->census.needed_so_far++;
        if (lh_m_drained(s) && c->file->replication > m->moving.wanted_so_far)
            m->moving.wanted_so_far = c->file->replication;
    }
    TAILQ_FOREACH(e, &c->active->extras, link)
        e->server->census.needed_so_far += lh_m_extra_needed(m, e);
    if (good_ones < c->file->replication && c->created)
        m->moving.degraded_so_far++;
    if (!moving && good_ones == c->member_count && good_ones >= c->file->replication &&
        c->created && (c->sealed || !c->intent_to_seal) && lh_m_is_durable(m, c->active->ticket))
        lh_m_move_look(m, c);
}

static int compare_domains(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* How many failure domains have a server that could take a replica? */
static size_t count_domains(const struct lh_master *m)
{
    char **names = lh_alloc_array(HASH_COUNT(m->servers) + 1, sizeof *names);
    size_t named = 0, domains = 0;
    const struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (!lh_m_fits(m, s, 0))
            continue;
        if (s->failure_domain[0] == 0)
            domains++; /* one of its own */
        else
            names[named++] = s->failure_domain;
    }
    qsort(names, named, sizeof *names, compare_domains);
    for (size_t i = 0; i < named; i++)
        domains += i == 0 || strcmp(names[i - 1], names[i]) != 0;
    free(names);
    return domains;
}

/* Does every server that may have replicas hear us? */
static bool all_reachable(const struct lh_master *m)
{
    const struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if ((s->census.members > 0 || s->session.client.session != 0) &&
            (s->space.failing || !lh_m_reachable(m, s)))
            return false;
    return true;
}

bool lh_m_may_balance(const struct lh_master *m)
{
    return m->config.balance && m->moving.complete > 0 && m->moving.degraded == 0 &&
           m->behind == NULL && all_reachable(m) && !lh_m_anybody_drains(m);
}

/* Whose replicas should move for the sake of space; NULL: all are about as full. */
static struct lh_m_server *fullest(const struct lh_master *m)
{
    struct lh_m_server *most = NULL, *s;
    unsigned least = 1000;

    if (!lh_m_may_balance(m))
        return NULL;
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (lh_m_drained(s) || !lh_m_reachable(m, s) || s->space.capacity_bytes == 0)
            continue;
        if (most == NULL || lh_m_used(s) > lh_m_used(most))
            most = s;
        if (lh_m_used(s) < least)
            least = lh_m_used(s);
    }
    return most != NULL && lh_m_used(most) > least + m->config.space_band ? most : NULL;
}

void lh_m_census_begin(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_server *s;

    lh_m_moves_settle(m);
    v->fullest = fullest(m);
    v->domains = count_domains(m);
    v->counting = true;
    v->next_chunk = 0;
    v->begun++;
    v->degraded_so_far = 0;
    v->wanted_so_far = 0;
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        s->census.members_so_far = s->census.needed_so_far = 0;
        s->census.copying = s->copies_in > 0;
        if (s->census.unseen && (lh_m_heard_out(s) || lh_m_is_gone(m, s))) {
            s->census.unseen = false;
            s->census.first = v->begun;
        }
    }
}

static void note_obstacle(struct lh_master *m, struct lh_m_server *s)
{
    char text[LH_TEXT_BYTES];
    bool too_few = lh_m_too_few_left(m, s, text, sizeof text);

    if (too_few && s->census.obstacle == NULL) {
        LH_MARK("drain-has-nowhere-to-go");
        lh_fx_log(m->fx, LH_WARN, "%s", text);
    }
    free(s->census.obstacle);
    s->census.obstacle = too_few ? lh_strdup(text) : NULL;
}

/* Nothing is left on it, and nobody waits for it to come back. */
static void forget(struct lh_master *m, struct lh_m_server *s)
{
    LH_MARK("server-forgotten");
    lh_fx_log(m->fx, LH_INFO,
        "chunkserver %s is decommissioned: nothing is left on it that any chunk needs", s->id);
    lh_m_dismiss(m, s);
    LH_ASSERT(lh_m_forgotten(s));
}

static void end_census(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_server *s;

    v->counting = false;
    v->complete = v->begun;
    v->degraded = v->degraded_so_far;
    v->wanted = v->wanted_so_far;
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        s->census.members = s->census.members_so_far;
        s->census.needed = s->census.needed_so_far;
        /* It may have become a member of a chunk behind the census's back. */
        if (lh_m_drained(s) && (s->census.copying || s->copies_in > 0))
            s->census.first = v->begun + 1;
        if (s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING && !lh_m_forgotten(s) &&
            lh_m_counted(m, s) && s->census.members == 0 && s->census.needed == 0 &&
            s->session.client.count == 0)
            forget(m, s);
        note_obstacle(m, s);
    }
    struct lh_duration pause =
        lh_m_anybody_drains(m) ? m->config.census_draining : m->config.census;
    v->next_census = lh_instant_add(m->now, lh_m_walk_pause(m, pause, m->config.census_chunk_ns));
}

void lh_m_census_go_on(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_chunk *c = lh_m_chunk_from(m, v->next_chunk);

    v->tries = m->config.moving_tries;
    for (size_t i = 0; c != NULL && i < m->config.walk_share; i++) {
        v->next_chunk = c->id + 1;
        count(m, c);
        c = lh_m_chunk_from(m, v->next_chunk);
    }
    if (c == NULL)
        end_census(m);
}
