/* Calls that wait for their answer. Those with an id are found by it, so that a repeat does not
 * begin the same thing a second time. */
#include "master/tables/pending.h"

#include "master/tables/replies.h"
#include "master/tables/tables.h"

static int compare_ids(const struct lh_m_pending *a, const struct lh_m_pending *b)
{
    if (a->client != b->client)
        return a->client < b->client ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(lh_m_pending_tree, lh_m_pending, place, compare_ids)

/* The call goes on when its link is over: its repeat may come. */
static const struct lh_link_user pending_links = {.closed = NULL};

static void put_on(struct lh_master *m, struct lh_m_pending *p, uint64_t link)
{
    p->link.user = &pending_links;
    if (link != 0)
        lh_link_serve(&m->links, &p->link, link);
}

void lh_m_pending_begin(struct lh_master *m, struct lh_m_pending *p, uint64_t link)
{
    *p = (struct lh_m_pending){0};
    put_on(m, p, link);
    if (m->calls.taken.client == 0 || m->calls.taken.link != link)
        return;
    p->client = m->calls.taken.client;
    p->number = m->calls.taken.number;
    p->request = m->calls.taken.request;
    p->repeated = m->calls.taken.repeated;
    if (RB_INSERT(lh_m_pending_tree, &m->pendings, p) != NULL)
        p->client = 0; /* only a master that does not look at ids begins it a second time */
}

struct lh_m_pending *lh_m_pending_find(const struct lh_master *m, uint64_t client, uint64_t number)
{
    struct lh_m_pending wanted = {.client = client, .number = number};

    return RB_FIND(lh_m_pending_tree, (struct lh_m_pending_tree *)(uintptr_t)&m->pendings, &wanted);
}

void lh_m_pending_repeat(struct lh_master *m, struct lh_m_pending *p, uint64_t link)
{
    LH_MARK("pending-call-repeated");
    lh_link_close(&m->links, m->fx, &p->link, LH_ERR_UNAVAILABLE,
        "this call was repeated, and its repeat will be answered");
    put_on(m, p, link);
    p->repeated = true;
}

void lh_m_pending_forget(struct lh_master *m, struct lh_m_pending *p)
{
    lh_link_forget(&m->links, &p->link);
    if (p->client != 0)
        RB_REMOVE(lh_m_pending_tree, &m->pendings, p);
    p->client = 0;
}

void lh_m_pending_resume(struct lh_master *m, struct lh_m_pending *p)
{
    m->calls.taken = (struct lh_m_taken){.link = p->link.id,
        .client = p->client,
        .number = p->number,
        .request = p->request,
        .repeated = p->repeated};
    lh_m_pending_forget(m, p);
}

void lh_m_pending_answer(
    struct lh_master *m, struct lh_m_pending *p, uint64_t ticket, const ProtobufCMessage *message)
{
    struct lh_m_taken taken = m->calls.taken; /* another call may be the step's */
    uint64_t link = p->link.id;

    lh_m_pending_resume(m, p);
    lh_m_reply(m, link, ticket, message);
    m->calls.taken = taken;
}

void lh_m_pending_fail(struct lh_master *m, struct lh_m_pending *p, int error, const char *text)
{
    lh_link_close(&m->links, m->fx, &p->link, error, text);
    lh_m_pending_forget(m, p);
}
