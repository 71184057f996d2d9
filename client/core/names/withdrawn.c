/* Requests that were withdrawn after they were sent: the master may have granted one before it
 * knew. It says nothing of a withdrawal, so the grant itself, or the answer to a later
 * heartbeat, settles it. */
#include "client/core/names/locks.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A request that was withdrawn after it was sent. It may have been granted before the master
 * knew. */
struct lh_client_withdrawn {
    UT_hash_handle of_name, of_id; /* one of a name at a time: the next one is held back */
    uint64_t id;
    struct lh_client_op *op; /* not sent yet */
    uint64_t stamp; /* of the first heartbeat after it; its answer comes behind every such grant */
    char name[];
};

static struct lh_client_withdrawn *find(const struct lh_client_session *s, const char *name)
{
    struct lh_client_withdrawn *w;

    HASH_FIND(of_name, s->names->withdrawn, name, strlen(name), w);
    return w;
}

bool lh_client_is_withdrawn(const struct lh_client_session *s, const char *name)
{
    return find(s, name) != NULL;
}

void lh_client_withdraw(struct lh_client_lock *l)
{
    struct lh_client_session *s = l->session;
    struct lh_client_op *op;

    if (l->op != NULL || l->asked_on != s->stream)
        return; /* the master never heard of it */
    struct lh_client_withdrawn *w = lh_alloc(sizeof *w + strlen(l->name) + 1);
    op = lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_WITHDRAW, 0, &w->op);
    if (op == NULL) {
        free(w); /* it is not shown */
        return;
    }
    op->body.withdraw.id = l->id;
    w->id = l->id;
    strcpy(w->name, l->name);
    HASH_ADD(of_name, s->names->withdrawn, name, strlen(w->name), w);
    HASH_ADD(of_id, s->names->withdrawn_ids, id, sizeof w->id, w);
}

static void free_withdrawn(struct lh_client_session *s, struct lh_client_withdrawn *w)
{
    HASH_DELETE(of_name, s->names->withdrawn, w);
    HASH_DELETE(of_id, s->names->withdrawn_ids, w);
    if (w->op != NULL)
        lh_client_op_drop(s, w->op);
    free(w);
}

/* A request that was held back goes. */
static void resolve(struct lh_client_session *s, struct lh_client_withdrawn *w)
{
    struct lh_client_lock *l = lh_client_lock_named(s, w->name);

    free_withdrawn(s, w);
    if (l != NULL && !lh_client_lock_is_held(l) && l->asked_on != s->stream)
        lh_client_acquire_send(l);
}

void lh_client_withdrawn_beat(struct lh_client_session *s, uint64_t stamp)
{
    struct lh_client_withdrawn *w, *after;

    HASH_ITER(of_name, s->names->withdrawn, w, after)
        if (w->op == NULL && w->stamp == 0)
            w->stamp = stamp;
}

void lh_client_withdrawn_clear(struct lh_client_session *s)
{
    while (s->names->withdrawn != NULL)
        free_withdrawn(s, s->names->withdrawn);
}

void lh_client_withdrawn_resolve(struct lh_client_session *s, uint64_t stamp)
{
    struct lh_client_withdrawn *w, *after;

    HASH_ITER(of_name, s->names->withdrawn, w, after)
        if (w->stamp != 0 && w->stamp <= stamp)
            resolve(s, w);
}

/* The withdrawal and the grant crossed. */
void lh_client_granted_late(struct lh_client_session *s, const Leasehold__Granted *m)
{
    struct lh_client_withdrawn *w;
    uint64_t id = m->id;

    HASH_FIND(of_id, s->names->withdrawn_ids, &id, sizeof id, w);
    if (w == NULL)
        return;
    LH_MARK("grant-after-withdrawal");
    lh_client_release_send(s, w->name, m->token);
    resolve(s, w);
}
