/* The service: kinds, and what ends by itself. lease.c has the life of one lease, client.c clients
 * and what they show. */
#include "lease/service.h"

#include "base/assert.h"
#include "base/probe.h"
#include "lease/service_internal.h"

static void end_wait(void *core, struct lh_timer *timer);

void lh_leases_init(
    struct lh_leases *l, void *core, struct lh_timers *timers, void (*waited)(void *core))
{
    *l = (struct lh_leases){.core = core, .timers = timers, .waited = waited, .wait_over = true};
    l->engine = lh_grantor_create(0);
    l->wait_timer.fire = end_wait;
    TAILQ_INIT(&l->waiting);
}

void lh_leases_deinit(struct lh_leases *l)
{
    lh_grantor_destroy(l->engine);
}

void lh_leases_kind(struct lh_leases *l, unsigned kind, const struct lh_lease_owner *owner,
    struct lh_duration term, bool unrecorded)
{
    LH_ASSERT(kind < LH_LEASE_KINDS && l->kinds[kind].owner == NULL);
    l->kinds[kind].owner = owner;
    l->kinds[kind].term = term;
    l->kinds[kind].unrecorded = unrecorded;
}

void lh_leases_light_kind(
    struct lh_leases *l, unsigned kind, const struct lh_untracked_owner *owner, bool unrecorded)
{
    LH_ASSERT(
        kind < LH_LEASE_KINDS && l->kinds[kind].owner == NULL && l->kinds[kind].untracked == NULL);
    l->kinds[kind].untracked = owner;
    l->kinds[kind].unrecorded = unrecorded;
}

void lh_leases_client_kind(
    struct lh_leases *l, unsigned kind, const struct lh_lease_client_owner *owner)
{
    LH_ASSERT(kind < LH_LEASE_CLIENT_KINDS && l->clients[kind] == NULL);
    l->clients[kind] = owner;
}

/* The wait of this lease is over. It goes on if its holder has shown it. */
static void wait_no_more(struct lh_leases *l, struct lh_lease *lease)
{
    TAILQ_REMOVE(&l->waiting, lease, waiting_link);
    lease->waiting = false;
    if (lh_lease_in_force(l, lease)) {
        LH_MARK("lease-outlives-restart-wait");
    } else {
        LH_MARK("lease-over-after-restart-wait");
        lh_lease_over(l, lease, LH_LEASE_WAITED,
            "is over: granted before this master started, not shown since");
    }
}

/* At most `work` of its leases in a step. What is left is looked at in the next one. */
static bool end_waits_of(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease, *next;
    size_t count = 0;

    for (lease = TAILQ_FIRST(&client->held); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, held_link);
        if (!lease->waiting)
            continue;
        if (count++ == l->work)
            return false;
        wait_no_more(l, lease);
    }
    return true;
}

/* LEASE-9. */
static void promises_over(struct lh_leases *l, struct lh_lease_client *client)
{
    const struct lh_lease_client_owner *owner = l->clients[client->kind];

    if (!end_waits_of(l, client)) {
        client->promised = lh_grantor_session_open(l->engine, l->now, lh_nanoseconds(0), client);
        return;
    }
    LH_MARK("promises-over");
    lh_lease_client_settled(l, client);
    if (owner->settled != NULL)
        owner->settled(l->core, client);
}

static void session_expired(
    struct lh_leases *l, struct lh_lease_client *client, lh_session_id session)
{
    if (client->promised == session) {
        promises_over(l, client);
        return;
    }
    if (client->former == session) {
        lh_lease_client_drop_promised(l, client);
        client->former = 0;
    } else if (client->session == session) {
        client->session = 0;
        client->confirmed = false;
    } else {
        return; /* it has opened another since */
    }
    l->clients[client->kind]->ended(l->core, client);
}

static void lease_expired(struct lh_leases *l, const struct lh_lease_info *info)
{
    const struct lh_lease_owner *owner = l->kinds[lh_lease_kind(info->key)].owner;

    if (owner == NULL) {
        l->kinds[lh_lease_kind(info->key)].untracked->ended(
            l->core, lh_lease_id(info->key), info->context);
        return;
    }
    struct lh_lease *lease = owner->find(l->core, lh_lease_id(info->key), info->context);

    if (lease == NULL || lease->holder == NULL || lease->session != info->session)
        return;
    bool known = lease->session == lease->holder->session && lease->holder->confirmed;
    if (!lease->waiting || known) {
        LH_MARK("lease-run-out");
        lh_lease_over(l, lease, LH_LEASE_EXPIRED, "has run out");
        return;
    }
    /* Continued, and the answer may have been lost: what a former grantor promised runs on, until
     * the wait ends at the latest (LEASE-7). A holder that has the answer acts on no other term
     * than ours. */
    LH_MARK("lease-ended-in-restart-wait");
    lease->session = 0;
    lease->confirmed = lease->sent = false;
    lh_lease_changed(lease);
    owner->lost_session(l->core, lease);
}

static void end_wait(void *core, struct lh_timer *timer)
{
    struct lh_leases *l = LH_OWNER(timer, struct lh_leases, wait_timer);
    struct lh_lease *lease;

    for (size_t i = 0; i < l->work && (lease = TAILQ_FIRST(&l->waiting)) != NULL; i++)
        wait_no_more(l, lease);
    if (!TAILQ_EMPTY(&l->waiting)) {
        lh_timer_set(l->timers, timer, l->now);
    } else if (!l->wait_over) {
        l->wait_over = true;
        l->waited(core);
    }
}

void lh_leases_start(struct lh_leases *l, struct lh_instant now, struct lh_instant wait_end)
{
    l->now = now;
    l->wait_end = wait_end;
    l->wait_over = false;
    lh_timer_set(l->timers, &l->wait_timer, wait_end);
}

void lh_leases_step(struct lh_leases *l, struct lh_instant now, size_t work)
{
    struct lh_expired what;

    l->now = now;
    l->work = work;
    for (size_t i = 0; i < work && lh_grantor_expire(l->engine, now, &what); i++) {
        if (what.is_session)
            session_expired(l, what.context, what.session);
        else
            lease_expired(l, &what.lease);
    }
}

struct lh_instant lh_leases_deadline(const struct lh_leases *l)
{
    return lh_grantor_deadline(l->engine);
}
