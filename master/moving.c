/* What goes elsewhere although nothing is broken: what lies on servers that are drained, replicas
 * that share a failure domain, and what makes one server fuller or busier than another.
 *
 * This file decides *what* leaves (a member's `leaving`) and asks primaries to give their leases up
 * (LEASE-5: what is under way commits, and the holder releases). The copying, and that nothing goes
 * before its replacement is there (KEEP-2), is repair.c's.
 *
 * Whether a drained server is still needed is found out by a census: a walk over all chunks, in
 * pieces, every second while something is drained. What a census says holds if it began after the
 * operator's word. The same walk finds what had better lie elsewhere. */
#include "master/moving.h"

#include "master/grants/leases.h"
#include "master/growth/preallocated.h"
#include "master/inventory/health.h"
#include "master/inventory/placement.h"
#include "master/listing.h"
#include "master/sessions/reach.h"
#include "master/sessions/registration.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static bool drained(const struct lh_m_server *s)
{
    return s->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
}

/* Has a census counted what is on the server since the operator's last word? */
static bool counted(const struct lh_master *m, const struct lh_m_server *s)
{
    return m->moving.complete >= s->census.first;
}

bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s)
{
    return drained(s) && counted(m, s) && s->census.needed == 0 && s->held_count == 0;
}

uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!drained(s))
        return 0;
    return counted(m, s) ? s->census.needed : s->replicas;
}

/* Is there anything to be done yet for what the operator wants of the server? */
static bool draining(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!drained(s) || lh_m_forgotten(s))
        return false;
    return !lh_m_safe_to_stop(m, s) || s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
}

static bool anybody_drains(const struct lh_master *m)
{
    const struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    if (draining(m, s))
        return true;
    return false;
}

/* ---- Moves. */

static const struct lh_m_move *move_of(
    const struct lh_master *m, uint64_t chunk, const struct lh_m_server *from)
{
    for (unsigned i = 0; i < m->moving.move_count; i++) {
        const struct lh_m_move *move = &m->moving.moves[i];
        if (move->chunk == chunk && move->from == from && !move->moved)
            return move;
    }
    return NULL;
}

/* Of moves that ended: their places are free again. */
static void settle_moves(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    unsigned left = 0;

    for (unsigned i = 0; i < v->move_count; i++) {
        struct lh_m_move move = v->moves[i];
        const struct lh_m_chunk *c = lh_m_chunk_find(m, move.chunk);
        bool member = c != NULL && lh_m_member(c, move.from) != NULL;
        if (!move.moved && !member) {
            LH_MARK("move-done");
            move.moved = true;
            move.until = lh_instant_add(m->now, m->config.move_settle);
        } else if (!move.moved && drained(move.from)) {
            continue;
        } else if (lh_instant_reached(m->now, move.until)) {
            if (!move.moved)
                LH_MARK("move-given-up");
            continue;
        }
        v->moves[left++] = move;
    }
    v->move_count = left;
}

static unsigned space_moves(const struct lh_master *m)
{
    unsigned count = 0;

    for (unsigned i = 0; i < m->moving.move_count; i++)
        count += m->moving.moves[i].for_space;
    return count;
}

static uint64_t bytes_of(const struct lh_m_chunk *c)
{
    return c->sealed ? c->length : c->file->chunk_size;
}

/* Per mille of the capacity that are in use. */
static unsigned used(const struct lh_m_server *s)
{
    uint64_t most = s->capacity_bytes, free_bytes = s->free_bytes < most ? s->free_bytes : most;

    return most == 0 ? 1000u : (unsigned)((unsigned __int128)(most - free_bytes) * 1000 / most);
}

/* Is `s` in a failure domain that no member but `leaving` lies in? */
static bool apart(
    const struct lh_m_chunk *c, const struct lh_m_member *leaving, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (&c->members[i] != leaving && lh_m_same_domain(c->members[i].server, s))
            return false;
    return true;
}

/* Sees to it that `member` leaves if a better place is there now: one in a domain of its own and,
 * for the sake of space, on a server that is clearly emptier. */
static void try_move(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member, bool for_space)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_server *to;

    if (v->tries == 0 || v->move_count >= m->config.moves_max || v->move_count == LH_M_MOVES)
        return;
    v->tries--;
    member->leaving = true; /* it does not keep its domain from others then */
    bool better = lh_m_place(m, bytes_of(c), 1, c->members, c->member_count, &to) == 1 &&
                  apart(c, member, to) &&
                  (!for_space || used(to) + m->config.space_band / 2 < used(member->server));
    if (!better) {
        member->leaving = false;
        return;
    }
    if (for_space)
        LH_MARK("move-for-space");
    v->moves[v->move_count++] = (struct lh_m_move){
        .chunk = c->id,
        .from = member->server,
        .for_space = for_space,
        .until = lh_instant_add(m->now, m->config.move_timeout),
    };
    lh_m_attend(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": its replica on %s is to go elsewhere, for the sake of %s",
        c->id, c->file->path, member->server->id, for_space ? "space" : "failure domains");
}

/* A member that shares its failure domain with another one; of the two the newer, but rather not
 * the primary. NULL: there is none. */
static struct lh_m_member *crowded(const struct lh_m_chunk *c)
{
    for (uint32_t i = 1; i < c->member_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (lh_m_same_domain(c->members[i].server, c->members[j].server))
                return &c->members[c->holder == c->members[i].server ? j : i];
    return NULL;
}

/* In how many failure domains are the chunk's members? */
static size_t domains_of(const struct lh_m_chunk *c)
{
    size_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i && first; j++)
            first = !lh_m_same_domain(c->members[i].server, c->members[j].server);
        count += first;
    }
    return count;
}

/* A chunk that is as it should be: may one of its replicas lie better elsewhere? */
static void look_for_better(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_member *member = crowded(c);

    if (member != NULL && domains_of(c) < v->domains) {
        try_move(m, c, member, false);
        return;
    }
    if (v->fullest == NULL || !c->sealed || space_moves(m) >= m->config.space_moves)
        return;
    member = lh_m_member(c, v->fullest);
    if (member != NULL)
        try_move(m, c, member, true);
}

/* ---- The census. */

static void count(struct lh_master *m, struct lh_m_chunk *c)
{
    uint32_t good_ones = 0, staying = 0;
    bool moving = false;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        bool leaving = drained(member->server) || move_of(m, c->id, member->server) != NULL;
        bool is_good = lh_m_member_health(m, c, member) == LH_M_GOOD;
        if (member->leaving != leaving)
            lh_m_attend(m, c);
        member->leaving = leaving;
        moving = moving || leaving;
        good_ones += is_good;
        staying += is_good && !leaving;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_member *member = &c->members[i];
        struct lh_m_server *s = member->server;
        s->census.members_so_far++;
        /* A replica that is of no use, or not complete yet, is needed by nobody. */
        if (staying >= c->file->replication || member->lost || member->joining)
            continue;
        s->census.needed_so_far++;
        if (drained(s) && c->file->replication > m->moving.wanted_so_far)
            m->moving.wanted_so_far = c->file->replication;
    }
    if (good_ones < c->file->replication && c->created)
        m->moving.degraded_so_far++;
    if (!moving && good_ones == c->member_count && good_ones >= c->file->replication &&
        c->created && (c->sealed || !c->intent_to_seal) && lh_m_is_durable(m, c->ticket))
        look_for_better(m, c);
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

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
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
    if ((s->census.members > 0 || s->session != 0) && (s->failing || !lh_m_reachable(m, s)))
        return false;
    return true;
}

/* May the master move what is well where it is? */
static bool may_balance(const struct lh_master *m)
{
    return m->config.balance && m->moving.complete > 0 && m->moving.degraded == 0 &&
           m->behind == NULL && all_reachable(m) && !anybody_drains(m);
}

/* Whose replicas should move for the sake of space; NULL: all are about as full. */
static struct lh_m_server *fullest(const struct lh_master *m)
{
    struct lh_m_server *most = NULL, *s;
    unsigned least = 1000;

    if (!may_balance(m))
        return NULL;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        if (drained(s) || !lh_m_reachable(m, s) || s->capacity_bytes == 0)
            continue;
        if (most == NULL || used(s) > used(most))
            most = s;
        if (used(s) < least)
            least = used(s);
    }
    return most != NULL && used(most) > least + m->config.space_band ? most : NULL;
}

static void begin_census(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_server *s;

    settle_moves(m);
    v->fullest = fullest(m);
    v->domains = count_domains(m);
    v->counting = true;
    v->next_chunk = 0;
    v->begun++;
    v->degraded_so_far = 0;
    v->wanted_so_far = 0;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        s->census.members_so_far = s->census.needed_so_far = 0;
        s->census.copying = s->copies_in > 0;
    }
}

/* Are too few servers left for what is to go elsewhere? Then `text` says so. */
static bool too_few_left(
    const struct lh_master *m, const struct lh_m_server *s, char *text, size_t text_size)
{
    const struct lh_m_server *other;
    unsigned left = 0;

    TAILQ_FOREACH(other, &m->all_servers, all_link)
    left += !drained(other) && lh_m_live(m, other);
    if (!drained(s) || !counted(m, s) || s->census.needed == 0 || left >= m->moving.wanted)
        return false;
    snprintf(text, text_size,
        "%" PRIu64 " replicas on chunkserver %s have nowhere to go: %u chunkservers are left, and "
        "files ask for %u; add chunkservers, or take the drain of one back",
        s->census.needed, s->id, left, m->moving.wanted);
    return true;
}

static void note_obstacle(struct lh_master *m, struct lh_m_server *s)
{
    char text[LH_TEXT_BYTES];
    bool too_few = too_few_left(m, s, text, sizeof text);

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
    s->incarnation = s->registration = 0;
    s->machine_id[0] = s->address[0] = s->failure_domain[0] = 0;
    s->capacity_bytes = s->free_bytes = s->replicas = s->placed_bytes = 0;
    s->failing = false;
    lh_m_dirty_server(m, s);
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
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        s->census.members = s->census.members_so_far;
        s->census.needed = s->census.needed_so_far;
        /* It may have become a member of a chunk behind the census's back. */
        if (drained(s) && (s->census.copying || s->copies_in > 0))
            s->census.first = v->begun + 1;
        if (s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING && !lh_m_forgotten(s) &&
            counted(m, s) && s->census.members == 0 && s->held_count == 0)
            forget(m, s);
        note_obstacle(m, s);
    }
    struct lh_duration pause = anybody_drains(m) ? m->config.census_draining : m->config.census;
    pause = lh_duration_add(pause, lh_nanoseconds((uint64_t)HASH_COUNT(m->chunks) * 10000u));
    v->next_census = lh_instant_add(m->now, pause);
}

static void go_on_counting(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_chunk key = {.id = v->next_chunk};
    struct lh_m_chunk *c = RB_NFIND(lh_m_all, &m->all, &key);

    v->tries = m->config.moving_tries;
    for (size_t i = 0; c != NULL && i < m->config.step_work; i++) {
        v->next_chunk = c->id + 1;
        count(m, c);
        c = RB_NEXT(lh_m_all, &m->all, c);
    }
    if (c == NULL)
        end_census(m);
}

/* ---- Primaries. */

/* Could another member than its primary take the chunk over, one with fewer than `below` leases? */
static bool another_can(const struct lh_master *m, const struct lh_m_chunk *c, size_t below)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = c->members[i].server;
        if (s != c->holder && !drained(s) && s->held_count < below &&
            lh_m_can_lead(m, &c->members[i]))
            return true;
    }
    return false;
}

static unsigned being_recalled(const struct lh_m_server *s)
{
    const struct lh_m_chunk *c;
    unsigned count = 0;

    TAILQ_FOREACH(c, &s->todo, todo_link)
    count += c->recalling;
    return count;
}

/* Asks a draining server for a few of its leases. One that nobody else could take stays. */
static void recall_some(struct lh_master *m, struct lh_m_server *s)
{
    unsigned asked = being_recalled(s);
    size_t looked = 0, held = s->held_count;

    while (asked < m->config.drain_recalls && looked < held && looked < m->config.step_work) {
        struct lh_m_chunk *c = TAILQ_FIRST(&s->held);
        /* To the end, so that those which stay do not keep the others from being looked at. */
        TAILQ_REMOVE(&s->held, c, held_link);
        TAILQ_INSERT_TAIL(&s->held, c, held_link);
        looked++;
        if (c->recalling || c->sealed || c->intent_to_seal)
            continue;
        if (!another_can(m, c, SIZE_MAX)) {
            LH_MARK("drain-lease-stays");
            continue;
        }
        LH_MARK("drain-recalls");
        lh_m_recall(m, c);
        asked++;
    }
}

static void recall_from_drained(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    if (drained(s) && s->held_count > 0)
        recall_some(m, s);
}

/* The busiest server with fewer than `below` leases, and how many the least busy one has. */
static struct lh_m_server *busiest(const struct lh_master *m, size_t below, size_t *least)
{
    struct lh_m_server *most = NULL, *s;

    *least = SIZE_MAX;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        if (drained(s) || s->failing || !lh_m_reachable(m, s))
            continue;
        if (s->held_count < *least)
            *least = s->held_count;
        if (s->held_count < below && (most == NULL || s->held_count > most->held_count))
            most = s;
    }
    return most;
}

/* One lease of the busiest server that has one which a less busy server could have. Afterwards the
 * two are nearer to each other and in the same order, so nothing goes to and fro. */
static void balance_primaries(struct lh_master *m)
{
    size_t below = SIZE_MAX, least, looked = 0;
    struct lh_m_server *s;

    if (!may_balance(m))
        return;
    while (looked < m->config.step_work && (s = busiest(m, below, &least)) != NULL) {
        size_t slack = s->held_count / 5 > 2 ? s->held_count / 5 : 2;
        struct lh_m_chunk *c;
        if (s->held_count - least <= slack || being_recalled(s) > 0)
            return;
        TAILQ_FOREACH(c, &s->held, held_link)
        {
            if (++looked > m->config.step_work)
                return;
            if (c->sealed || c->intent_to_seal || !lh_m_has_primary(m, c) ||
                !another_can(m, c, s->held_count - 1))
                continue;
            LH_MARK("balance-recalls");
            lh_m_recall(m, c);
            return;
        }
        below = s->held_count;
    }
}

/* ---- The clock of all this. */

static void advance(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;

    if (!v->counting && lh_instant_reached(m->now, v->next_census))
        begin_census(m);
    if (v->counting) {
        go_on_counting(m);
        if (!v->counting)
            balance_primaries(m);
    }
    recall_from_drained(m);
    lh_m_timer_arm(m, &v->timer, v->counting ? m->now : v->next_census);
}

static void on_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    (void)timer;
    advance(m);
}

void lh_m_moving_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        s->away_since = m->now;
        s->census.first = 1;
    }
    m->moving.next_census = m->now;
    m->moving.timer.fire = on_timer;
    lh_m_timer_arm(m, &m->moving.timer, m->now);
}

void lh_m_moving_kick(struct lh_master *m)
{
    lh_m_timer_arm(m, &m->moving.timer, m->now);
}

/* ---- SetServer. */

/* Spares with a replica there are given back: they would be moved as soon as they are used. */
static void drop_spares(struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_m_spare *spare, *next;

    HASH_ITER(hh, m->spares, spare, next)
    for (uint32_t i = 0; i < spare->member_count; i++)
        if (spare->members[i].server == s) {
            LH_MARK("drain-drops-spare");
            lh_m_spare_drop(m, spare->file);
            break;
        }
}

static void set_admin(struct lh_master *m, struct lh_m_server *s, Leasehold__ServerAdmin admin)
{
    s->admin = admin;
    lh_m_dirty_server(m, s);
    if (drained(s))
        drop_spares(m, s);
    lh_m_unsettled(m);
    /* What was counted so far was counted under other orders. */
    s->census.first = m->moving.begun + 1;
    free(s->census.obstacle);
    s->census.obstacle = NULL;
    m->moving.counting = false;
    m->moving.next_census = m->now;
    lh_fx_log(m->fx, LH_INFO, "chunkserver %s: %s, by the operator's word", s->id,
        admin == LEASEHOLD__SERVER_ADMIN__ACTIVE     ? "takes leases and replicas"
        : admin == LEASEHOLD__SERVER_ADMIN__DRAINING ? "drained"
                                                     : "decommissioned");
    lh_m_touch_waited(m);
    lh_m_patrol(m);
}

/* The server that the request names. NULL: `*error` and `text` say why. */
static struct lh_m_server *named_server(const struct lh_master *m,
    const Leasehold__SetServerRequest *request, int *error, char *text, size_t text_size)
{
    struct lh_m_server *s;

    *error = LH_OK;
    if ((unsigned)request->admin > LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING) {
        *error = LH_ERR_INVALID_ARGUMENT;
        snprintf(text, text_size, "what a chunkserver should be is not known to this release");
        return NULL;
    }
    HASH_FIND_STR(m->servers, request->server_id, s);
    if (s == NULL || (s->incarnation == 0 && !drained(s))) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(text, text_size,
            "no chunkserver \"%.128s\" has registered: `leasehold servers` lists those that have",
            request->server_id);
        return NULL;
    }
    if (lh_m_forgotten(s) && request->admin == LEASEHOLD__SERVER_ADMIN__DRAINING) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(
            text, text_size, "chunkserver %s was decommissioned: there is nothing to drain", s->id);
        return NULL;
    }
    return s;
}

void lh_m_set_server(struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request)
{
    Leasehold__SetServerReply reply = LEASEHOLD__SET_SERVER_REPLY__INIT;
    Leasehold__ServerInfo info;
    char text[LH_TEXT_BYTES];
    int error;
    struct lh_m_server *s = named_server(m, request, &error, text, sizeof text);

    if (s == NULL) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, 1, &reply.base);
        return;
    }
    if (s->admin != request->admin) {
        set_admin(m, s, request->admin);
        advance(m);
    }
    lh_m_server_view(m, s, &info);
    reply.server = &info;
    if (too_few_left(m, s, text, sizeof text))
        reply.error_text = text; /* done as asked, but to be known */
    lh_m_reply(m, link, s->ticket, &reply.base);
}
