/* Clients: their sessions, and what they show of their leases: when they register (SES-5, SES-5a,
 * LEASE-7), and within a session when their sum is not ours (LEASE-8). */
#include "base/assert.h"
#include "base/probe.h"
#include "lease/service_internal.h"

void lh_lease_client_init(struct lh_lease_client *client, unsigned kind)
{
    *client = (struct lh_lease_client){.kind = kind};
    TAILQ_INIT(&client->held);
    TAILQ_INIT(&client->todo);
}

static void promise(struct lh_leases *l, struct lh_lease_client *client)
{
    const struct lh_lease_client_owner *owner = l->clients[client->kind];

    if (owner != NULL && owner->promised != NULL)
        owner->promised(l->core, client);
}

void lh_lease_client_restore(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_instant made, struct lh_duration term)
{
    LH_ASSERT(client->former == 0 && client->session == 0);
    client->former = lh_grantor_session_open(l->engine, l->now, term, client);
    lh_lease_client_promised(l, client, made, term);
    l->away++;
}

void lh_lease_client_promised(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_instant made, struct lh_duration term)
{
    LH_ASSERT(client->promised == 0 && made.ns <= l->now.ns);
    client->promised = lh_grantor_session_open(l->engine, made, term, client);
}

int lh_lease_client_await(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_duration term)
{
    int error = lh_grantor_session_renew(l->engine, client->promised, l->now, term);

    if (error == LH_OK)
        error = lh_grantor_session_renew(l->engine, client->former, l->now, term);
    if (error == LH_OK)
        promise(l, client);
    return error;
}

void lh_lease_client_settled(struct lh_leases *l, struct lh_lease_client *client)
{
    if (client->promised == 0)
        return;
    client->promised = 0;
    if (client->former != 0)
        l->away--;
}

void lh_lease_client_drop_promised(struct lh_leases *l, struct lh_lease_client *client)
{
    lh_grantor_session_end(l->engine, client->promised, NULL, NULL);
    lh_lease_client_settled(l, client);
}

void lh_lease_client_back(struct lh_leases *l, struct lh_lease_client *client)
{
    if (client->former == 0)
        return;
    lh_lease_client_drop_promised(l, client);
    lh_grantor_session_end(l->engine, client->former, NULL, NULL);
    client->former = 0;
}

void lh_lease_client_open(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_duration term)
{
    promise(l, client);
    client->session = lh_grantor_session_open(l->engine, l->now, term, client);
    client->term = term;
    client->received_at = l->now;
    client->confirmed = false;
    /* It has confirmed nothing in this session (LEASE-8). */
    struct lh_lease *lease;
    TAILQ_FOREACH(lease, &client->held, held_link)
        lease->summed_version = 0;
    client->sum = (struct lh_lease_sum){0};
}

int lh_lease_client_renew(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_instant received_at)
{
    int error = lh_grantor_session_renew(l->engine, client->session, received_at, client->term);

    if (error != LH_OK)
        return error;
    client->received_at = l->now;
    promise(l, client);
    return LH_OK;
}

void lh_lease_client_stop(struct lh_leases *l, struct lh_lease_client *client)
{
    lh_grantor_session_stop(l->engine, client->session, l->now);
    lh_grantor_session_stop(l->engine, client->former, l->now);
    lh_grantor_session_stop(l->engine, client->promised, l->now);
}

void lh_lease_client_close(struct lh_leases *l, struct lh_lease_client *client)
{
    lh_grantor_session_close(l->engine, client->session);
    client->session = 0;
    client->confirmed = false;
}

bool lh_lease_client_live(const struct lh_leases *l, const struct lh_lease_client *client)
{
    return client->session != 0 && lh_grantor_session_live(l->engine, client->session, l->now);
}

void lh_lease_client_dissolve(
    struct lh_leases *l, struct lh_lease_client *client, enum lh_lease_end end, const char *why)
{
    struct lh_lease *lease;

    while ((lease = TAILQ_FIRST(&client->held)) != NULL)
        lh_lease_over(l, lease, end, why);
    lh_lease_client_back(l, client);
    lh_lease_client_drop_promised(l, client);
    lh_grantor_session_end(l->engine, client->session, NULL, NULL);
    client->session = 0;
    client->confirmed = false;
}

struct lh_instant lh_lease_client_until(
    const struct lh_leases *l, const struct lh_lease_client *client)
{
    return lh_grantor_session_end_of(l->engine, client->session);
}

/* ---- Showing. */

/* The lease, in the engine or not, goes into its holder's new session. */
static bool enter_session(struct lh_leases *l, struct lh_lease *lease)
{
    struct lh_lease_client *holder = lease->holder;
    int error = LH_ERR_NOT_LEASED;

    /* Never shorter than what the old session promised: the holder may act on that until it hears
     * of the new one (TIME-4). */
    LH_ASSERT(!lease->ending || LH_PLANTED("continued-after-intent"));
    if (lease->session != 0)
        error = lh_grantor_continue(l->engine, lease->key, lease->version, lease->session,
            holder->session, l->now, holder->received_at, l->kinds[lh_lease_kind(lease->key)].term);
    if (error != LH_OK) /* it is `waiting` alone */
        error = lh_lease_engage(l, lease, holder, holder->session, lease->version, lease->mode);
    if (error != LH_OK) { /* without a record, two clients can show what conflicts */
        LH_ASSERT(l->kinds[lh_lease_kind(lease->key)].unrecorded);
        return false;
    }
    if (lease->recalling) {
        error = lh_grantor_recall(l->engine, lease->key);
        LH_ASSERT(error == LH_OK);
    }
    lease->session = holder->session;
    return true;
}

/* Exactly the lease that was granted goes on. */
static bool go_on(struct lh_leases *l, struct lh_lease *lease, uint64_t version)
{
    const struct lh_lease_client *holder = lease->holder;

    if (lease->process != holder->process || lease->version != version ||
        lease->session == holder->session ||
        (lease->ending && !LH_PLANTED("continued-after-intent")) || !lh_lease_held(l, lease) ||
        !enter_session(l, lease))
        return false;
    if (lease->waiting) {
        LH_MARK("lease-continued-after-restart");
        /* What the former grantor was told we do not know; the holder acts on it, that is enough.
         * It stays in `waiting`: if the answer is lost the old term runs on, so it is held until
         * the wait ends, whatever becomes of this session (LEASE-7). */
        lease->sent = lease->confirmed = true;
        if (LH_PLANTED("term-shortened-by-setting")) {
            TAILQ_REMOVE(&l->waiting, lease, waiting_link);
            lease->waiting = false;
        }
    } else if (!lease->confirmed) {
        lease->sent = false;
    } else {
        LH_MARK("lease-continued");
    }
    lh_lease_changed(lease);
    l->kinds[lh_lease_kind(lease->key)].owner->continued(l->core, lease);
    return true;
}

void lh_lease_client_show_begin(struct lh_leases *l, struct lh_lease_client *client)
{
    client->showing = ++l->showings;
}

struct lh_lease *lh_lease_client_shows(struct lh_leases *l, struct lh_lease_client *client,
    unsigned kind, uint64_t id, uint64_t version, bool continue_it)
{
    struct lh_lease *lease =
        id <= LH_LEASE_ID_LAST ? l->kinds[kind].owner->find(l->core, id, client) : NULL;

    if (lease == NULL || lease->holder != client)
        return NULL;
    lease->shown = client->showing;
    lease->shown_version = version;
    return !continue_it || go_on(l, lease, version) ? lease : NULL;
}

static bool is_shown(const struct lh_lease *lease)
{
    return lease->shown == lease->holder->showing;
}

/* LEASE-1: a grant is sent again until it is confirmed. Holder, process and version stay the same.
 * Whether a former grantor's grant arrived nobody knows; a holder that shows a lower version acts
 * on that one, and takes this one next (LEASE-3). */
static void carry_grants(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease;

    TAILQ_FOREACH(lease, &client->todo, todo_link) {
        bool lower = is_shown(lease) && lease->shown_version < lease->version;
        if (lease->session == client->session || lease->confirmed ||
            lease->process != client->process ||
            (lease->waiting ? !lower : !lh_lease_held(l, lease)) || !enter_session(l, lease))
            continue;
        LH_MARK("grant-carried-over");
        if (lease->waiting)
            LH_MARK("grant-of-former-master-carried-over");
        lease->sent = false;
    }
}

/* SES-5a: what this very process does not show it does not act on, now or later. Of an id of which
 * it shows any version nothing is freed: it may act on that one until it has the answer. */
static void free_unshown(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease, *next;

    for (lease = TAILQ_FIRST(&client->held); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, held_link);
        if (lease->session == client->session || is_shown(lease) ||
            lease->process != client->process || LH_PLANTED("unshown-lease-kept"))
            continue;
        LH_MARK("unshown-lease-freed");
        if (lease->waiting)
            LH_MARK("unshown-lease-freed-in-restart-wait");
        lh_lease_over(l, lease, LH_LEASE_UNSHOWN, "is free: its holder does not show it");
    }
}

static void disown(struct lh_leases *l, struct lh_lease *lease)
{
    lease->process = LH_LEASE_NOBODY;
    l->kinds[lh_lease_kind(lease->key)].owner->disowned(l->core, lease);
}

static void disown_unshown(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease;

    TAILQ_FOREACH(lease, &client->held, held_link) {
        if (lease->session != client->session && !is_shown(lease) &&
            lease->process == client->process)
            disown(l, lease);
    }
}

void lh_lease_client_registered(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_lease_process process)
{
    if (process.same)
        carry_grants(l, client);
    if (process.proven)
        free_unshown(l, client);
    else if (process.same && process.numbered)
        disown_unshown(l, client); /* granted to one that gave no number: this may be another */
    lh_lease_client_back(l, client);
}

void lh_lease_client_free_dead(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease, *next;

    for (lease = TAILQ_FIRST(&client->held); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, held_link);
        if (lease->process < client->process || LH_PLANTED("leases-freed-on-reregistration")) {
            LH_MARK("lease-freed-with-its-process");
            lh_lease_over(l, lease, LH_LEASE_DEAD, "is free: its process is dead");
        }
    }
}

void lh_lease_client_disown(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease;

    TAILQ_FOREACH(lease, &client->held, held_link) {
        if (lease->process == client->process)
            disown(l, lease);
    }
}

bool lh_lease_client_differs(const struct lh_lease_client *client, struct lh_lease_sum theirs)
{
    return !lh_lease_sum_equal(client->sum, theirs);
}

void lh_lease_client_resolved(struct lh_leases *l, struct lh_lease_client *client)
{
    struct lh_lease *lease, *next;

    /* The stream is ordered: it confirmed the lease before it sent this, and has ended it since. A
     * grant that it has not confirmed may still be on its way; that is sent again until it is
     * answered (LEASE-1). */
    for (lease = TAILQ_FIRST(&client->held); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, held_link);
        if (lease->summed_version != 0 && !is_shown(lease))
            lh_lease_over(l, lease, LH_LEASE_DIFFERED, "is over: its holder does not show it");
    }
}

void lh_lease_client_check(const struct lh_leases *l, const struct lh_lease_client *client)
{
    const struct lh_lease *lease;
    struct lh_lease_sum sum = {0};
    size_t held = 0;

    TAILQ_FOREACH(lease, &client->held, held_link) {
        struct lh_lease_info info;
        LH_ASSERT(lease->holder == client && (lease->session != 0 || lease->waiting));
        LH_ASSERT(lease->process <= client->process || lease->process == LH_LEASE_NOBODY);
        LH_ASSERT(!lease->confirmed || lease->sent);
        LH_ASSERT(lease->in_todo == (!lease->ending && (!lease->confirmed || lease->recalling)));
        LH_ASSERT(lease->summed_version == 0 ||
                  (lease->confirmed && lease->summed_version == lease->version));
        if (lease->summed_version != 0)
            lh_lease_sum_add(&sum, lh_lease_id(lease->key), lease->summed_version);
        if (lease->session != 0 &&
            lh_grantor_find_of(l->engine, lease->key, lease->session, l->now, &info))
            LH_ASSERT(info.version >= lease->version);
        held++;
    }
    LH_ASSERT(held == client->count && lh_lease_sum_equal(sum, client->sum));
    TAILQ_FOREACH(lease, &client->todo, todo_link)
        LH_ASSERT(lease->in_todo && lease->holder == client);
}
