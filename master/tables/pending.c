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

static void put_on(struct lh_master *m, struct lh_m_pending *p, uint64_t link)
{
    p->link = link;
    if (link != 0)
        HASH_ADD(hh, m->pendings.by_link, link, sizeof p->link, p);
}

static void take_off(struct lh_master *m, struct lh_m_pending *p)
{
    if (p->link != 0)
        HASH_DELETE(hh, m->pendings.by_link, p);
    p->link = 0;
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
    if (RB_INSERT(lh_m_pending_tree, &m->pendings.tree, p) != NULL)
        p->client = 0; /* only a master that does not look at ids begins it a second time */
}

struct lh_m_pending *lh_m_pending_find(const struct lh_master *m, uint64_t client, uint64_t number)
{
    struct lh_m_pending wanted = {.client = client, .number = number};

    return RB_FIND(
        lh_m_pending_tree, (struct lh_m_pending_tree *)(uintptr_t)&m->pendings.tree, &wanted);
}

struct lh_m_pending *lh_m_pending_on(const struct lh_master *m, uint64_t link)
{
    struct lh_m_pending *p;

    HASH_FIND(hh, m->pendings.by_link, &link, sizeof link, p);
    return p;
}

void lh_m_pending_repeat(struct lh_master *m, struct lh_m_pending *p, uint64_t link)
{
    uint64_t former = p->link;

    LH_MARK("pending-call-repeated");
    take_off(m, p);
    if (former != 0)
        lh_fx_close(m->fx, former, LH_ERR_UNAVAILABLE,
            "this call was repeated, and its repeat will be answered");
    put_on(m, p, link);
    p->repeated = true;
}

void lh_m_pending_closed(struct lh_master *m, uint64_t link)
{
    struct lh_m_pending *p = lh_m_pending_on(m, link);

    if (p != NULL)
        take_off(m, p);
}

void lh_m_pending_forget(struct lh_master *m, struct lh_m_pending *p)
{
    take_off(m, p);
    if (p->client != 0)
        RB_REMOVE(lh_m_pending_tree, &m->pendings.tree, p);
    p->client = 0;
}

void lh_m_pending_resume(struct lh_master *m, struct lh_m_pending *p)
{
    m->calls.taken = (struct lh_m_taken){.link = p->link,
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
    uint64_t link = p->link;

    lh_m_pending_resume(m, p);
    lh_m_reply(m, link, ticket, message);
    m->calls.taken = taken;
}

void lh_m_pending_fail(struct lh_master *m, struct lh_m_pending *p, int error, const char *text)
{
    if (p->link != 0)
        lh_fx_close(m->fx, p->link, error, text);
    lh_m_pending_forget(m, p);
}
