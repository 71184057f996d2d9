/* One lease and its holder, from its grant to its end (LEASE-1 to LEASE-5). */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"
#include "lease/service_internal.h"

#include <stdlib.h>

void lh_lease_init(struct lh_lease *lease, unsigned kind, uint64_t id)
{
    LH_ASSERT(kind < LH_LEASE_KINDS && id <= LH_LEASE_ID_LAST);
    *lease = (struct lh_lease){.key = (uint64_t)kind << 60 | id};
}

/* LEASE-8: what the holder, by all that it has said in this session, may act on. What this grantor
 * means to do next, or a term of its own that ends, does not change it. */
static void sum_update(struct lh_lease *lease)
{
    struct lh_lease_client *holder = lease->holder;
    uint64_t version = lease->confirmed && lease->session != 0 && lease->session == holder->session
                           ? lease->version
                           : 0;

    if (version == lease->summed_version)
        return;
    if (lease->summed_version != 0)
        lh_lease_sum_remove(&holder->sum, lh_lease_id(lease->key), lease->summed_version);
    if (version != 0)
        lh_lease_sum_add(&holder->sum, lh_lease_id(lease->key), version);
    lease->summed_version = version;
}

static void todo_update(struct lh_lease *lease)
{
    bool wanted = !lease->ending && (!lease->confirmed || lease->recalling);

    if (wanted == lease->in_todo)
        return;
    if (wanted)
        TAILQ_INSERT_TAIL(&lease->holder->todo, lease, todo_link);
    else
        TAILQ_REMOVE(&lease->holder->todo, lease, todo_link);
    lease->in_todo = wanted;
}

void lh_lease_changed(struct lh_lease *lease)
{
    todo_update(lease);
    sum_update(lease);
}

static void take(struct lh_lease *lease, struct lh_lease_client *holder, uint64_t process)
{
    LH_ASSERT(lease->holder == NULL);
    lease->holder = holder;
    lease->process = process;
    TAILQ_INSERT_TAIL(&holder->held, lease, held_link);
    holder->count++;
}

static void drop(struct lh_leases *l, struct lh_lease *lease)
{
    struct lh_lease_client *holder = lease->holder;

    if (lease->waiting)
        TAILQ_REMOVE(&l->waiting, lease, waiting_link);
    if (lease->in_todo)
        TAILQ_REMOVE(&holder->todo, lease, todo_link);
    if (lease->summed_version != 0)
        lh_lease_sum_remove(&holder->sum, lh_lease_id(lease->key), lease->summed_version);
    TAILQ_REMOVE(&holder->held, lease, held_link);
    holder->count--;
    *lease = (struct lh_lease){.key = lease->key, .version = lease->version};
}

static const struct lh_lease_owner *owner_of(
    const struct lh_leases *l, const struct lh_lease *lease)
{
    return l->kinds[lh_lease_kind(lease->key)].owner;
}

int lh_lease_engage(struct lh_leases *l, const struct lh_lease *lease,
    struct lh_lease_client *client, lh_session_id session, uint64_t version,
    enum lh_lease_mode mode)
{
    return lh_grantor_grant(l->engine, lease->key, version, mode, session, l->now,
        client->received_at, l->kinds[lh_lease_kind(lease->key)].term);
}

int lh_lease_grant(struct lh_leases *l, struct lh_lease *lease, struct lh_lease_client *client,
    uint64_t version, enum lh_lease_mode mode)
{
    if (l->kinds[lh_lease_kind(lease->key)].unrecorded && l->away > 0)
        return LH_ERR_LEASE_HELD; /* LEASE-7: whose, nobody knows */
    int error = lh_lease_engage(l, lease, client, client->session, version, mode);
    if (error != LH_OK)
        return error;
    take(lease, client, client->process);
    lease->session = client->session;
    lease->version = version;
    lease->mode = mode;
    lh_lease_changed(lease);
    return LH_OK;
}

void lh_lease_raise(struct lh_leases *l, struct lh_lease *lease, uint64_t version)
{
    int error = lh_lease_engage(l, lease, lease->holder, lease->session, version, lease->mode);

    LH_ASSERT(error == LH_OK);
    lease->version = version;
    lease->sent = lease->confirmed = false; /* `recalling` carries over (LEASE-5) */
    lh_lease_changed(lease);
}

bool lh_lease_renew(struct lh_leases *l, struct lh_lease *lease)
{
    LH_ASSERT(!lease->ending);
    return lh_lease_engage(l, lease, lease->holder, lease->session, lease->version, lease->mode) ==
           LH_OK;
}

void lh_lease_sent(struct lh_lease *lease)
{
    lease->sent = true;
}

void lh_lease_confirm(struct lh_lease *lease)
{
    lease->confirmed = true;
    lh_lease_changed(lease);
}

bool lh_lease_extendable(
    const struct lh_lease *lease, const struct lh_lease_client *client, uint64_t version)
{
    return lease->holder == client && lease->version == version &&
           (!lease->ending || LH_PLANTED("extended-after-intent"));
}

void lh_lease_extend_many(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_lease *const *leases, size_t count, int *results)
{
    if (count == 0)
        return;
    struct lh_lease_name *names = lh_alloc_array(count, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = (struct lh_lease_name){.key = leases[i]->key, .version = leases[i]->version};
    /* LEASE-4: the engine refuses those that are being recalled. */
    lh_grantor_extend_many(l->engine, client->session, l->now, client->received_at,
        l->kinds[lh_lease_kind(leases[0]->key)].term, names, count, results);
    free(names);
}

void lh_lease_let_end(struct lh_lease *lease)
{
    lease->ending = true;
    lh_lease_changed(lease);
}

void lh_lease_to_last(struct lh_lease *lease)
{
    TAILQ_REMOVE(&lease->holder->held, lease, held_link);
    TAILQ_INSERT_TAIL(&lease->holder->held, lease, held_link);
}

void lh_lease_reorder(struct lh_leases *l, struct lh_lease *lease)
{
    lh_lease_to_last(lease);
    if (lease->in_todo) {
        TAILQ_REMOVE(&lease->holder->todo, lease, todo_link);
        TAILQ_INSERT_TAIL(&lease->holder->todo, lease, todo_link);
    }
    if (lease->waiting) {
        TAILQ_REMOVE(&l->waiting, lease, waiting_link);
        TAILQ_INSERT_TAIL(&l->waiting, lease, waiting_link);
    }
}

bool lh_lease_recall(struct lh_leases *l, struct lh_lease *lease)
{
    if (lease->recalling || lease->ending)
        return false;
    if (lease->waiting)
        LH_MARK("recall-in-restart-wait");
    lease->recalling = true;
    int error = lh_grantor_recall(l->engine, lease->key);
    (void)error; /* NOT_LEASED while it is `waiting` alone: remembered here */
    lh_lease_changed(lease);
    return true;
}

void lh_lease_over(
    struct lh_leases *l, struct lh_lease *lease, enum lh_lease_end end, const char *why)
{
    struct lh_lease_past past = {
        .holder = lease->holder, .end = end, .why = why, .recalling = lease->recalling};

    LH_ASSERT(past.holder != NULL);
    if (lease->session != 0) {
        /* Whether the engine still had it does not matter. */
        int error = lh_grantor_release(l->engine, lease->key, lease->version, lease->session);
        (void)error;
    }
    drop(l, lease);
    owner_of(l, lease)->over(l->core, lease, &past);
}

void lh_lease_forget(struct lh_leases *l, struct lh_lease *lease)
{
    if (lease->holder != NULL)
        drop(l, lease);
}

void lh_lease_restore(struct lh_leases *l, struct lh_lease *lease, struct lh_lease_client *holder,
    uint64_t process, uint64_t version)
{
    take(lease, holder, process);
    lease->version = version;
    lease->waiting = true; /* LEASE-7 */
    TAILQ_INSERT_TAIL(&l->waiting, lease, waiting_link);
    if (!lh_timer_is_set(&l->wait_timer))
        lh_timer_set(l->timers, &l->wait_timer, l->wait_end);
    lh_lease_changed(lease);
}

bool lh_lease_is_of(const struct lh_lease *lease, const struct lh_lease_client *client)
{
    return lease->holder == client && lease->process == client->process;
}

bool lh_lease_in_force(const struct lh_leases *l, const struct lh_lease *lease)
{
    struct lh_lease_info info;

    return lease->session != 0 &&
           lh_grantor_find_of(l->engine, lease->key, lease->session, l->now, &info);
}

struct lh_instant lh_lease_wait_end(const struct lh_leases *l, const struct lh_lease *lease)
{
    lh_session_id promised = lease->holder->promised;

    return promised == 0 ? l->wait_end : lh_grantor_session_end_of(l->engine, promised);
}

bool lh_lease_held(const struct lh_leases *l, const struct lh_lease *lease)
{
    return lease->waiting || lh_lease_in_force(l, lease);
}

bool lh_lease_current(const struct lh_leases *l, const struct lh_lease *lease)
{
    return lease->session != 0 && !lease->ending && lease->session == lease->holder->session &&
           lh_lease_in_force(l, lease);
}

struct lh_instant lh_lease_free_at(const struct lh_leases *l, const struct lh_lease *lease)
{
    struct lh_instant end = lease->waiting ? lh_lease_wait_end(l, lease) : l->now;

    if (lh_lease_in_force(l, lease))
        end = lh_instant_max(end, lh_grantor_free_at(l->engine, lease->key, l->now));
    return end;
}
