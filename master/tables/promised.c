#include "master/tables/promised.h"

#include "base/prng.h"
#include "lease/restart.h"

/* By what names it in every start. */
static uint64_t hash_of_server(const struct lh_m_server *s)
{
    return lh_mix_text(0, s->id);
}

static uint64_t hash_of_program(const struct lh_m_program *p)
{
    uint64_t hash;

    memcpy(&hash, p->id, sizeof hash); /* it is random */
    return hash;
}

void lh_m_promises_begin(struct lh_master *m)
{
    /* An older store names others as holders, or nobody (KEEP-4). */
    uint64_t last = m->config.restored ? 0 : lh_m_reign_name(m, m->term);

    lh_promises_begin(m->config.promises, last, m->commits, m->now);
}

void lh_m_promises_commit(struct lh_master *m)
{
    lh_promises_commit(m->config.promises, m->commits + m->commit.next_ticket - 1);
}

void lh_m_promises_durable(struct lh_master *m)
{
    lh_promises_durable(
        m->config.promises, lh_m_reign_name(m, m->term), m->commits + m->commit.durable);
}

void lh_m_promises_to_servers(struct lh_master *m, struct lh_duration longest)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        struct lh_instant made = lh_promises_made(m->config.promises, hash_of_server(s), m->now);
        if (s->session.client.count > 0 && lh_instant_before(made, m->now))
            lh_lease_client_promised(&m->leases, &s->session.client, made, longest);
    }
}

struct lh_instant lh_m_promised_to_program(const struct lh_master *m, const struct lh_m_program *p)
{
    return lh_promises_made(m->config.promises, hash_of_program(p), m->now);
}

void lh_m_promise_to_server(struct lh_master *m, const struct lh_m_server *s)
{
    if (m->config.promises != NULL)
        lh_promises_note(m->config.promises, hash_of_server(s), m->now);
}

void lh_m_promise_to_program(struct lh_master *m, const struct lh_m_program *p)
{
    lh_promises_note(m->config.promises, hash_of_program(p), m->now);
}
