/* What a program shows when it attaches, in one message or in pieces: it counts as a whole
 * (PS-2). */
#include "lease/term.h"
#include "master/locks/locks.h"
#include "master/programs/internal.h"
#include "master/tables/answers.h"

/* Pieces that have come on a stream. */
struct showing {
    Leasehold__Show **pieces;
    size_t count, capacity;
    size_t bytes, leases;
};

/* Of these a session has no more at any master. Each may be in use until the program has heard that
 * it does not go on: so all are taken, or none, and the session ends (PS-3). */
static bool has_too_many(
    const struct lh_master *m, const struct showing *s, const Leasehold__Show *show)
{
    return (s == NULL ? 0 : s->leases) + show->n_locks + show->n_values >
           m->config.program_locks_max;
}

void lh_m_showing_free(void *pieces)
{
    struct showing *s = pieces;

    for (size_t i = 0; i < s->count; i++)
        leasehold__show__free_unpacked(s->pieces[i], NULL);
    free(s->pieces);
    free(s);
}

/* Keeps a copy. False: it is too much. */
static bool keep(struct lh_master *m, struct lh_m_link *l, const Leasehold__Show *show)
{
    struct showing *s = l->pieces;
    size_t size = leasehold__show__get_packed_size(show);

    if (s == NULL)
        s = l->pieces = lh_alloc(sizeof *s);
    s->bytes += size;
    s->leases += show->n_locks + show->n_values;
    if (s->bytes >> 20 >= m->config.showing_mib_max)
        return false;
    uint8_t *bytes = lh_alloc(size + 1);
    leasehold__show__pack(show, bytes);
    LH_GROW(s->pieces, s->capacity, s->count + 1);
    s->pieces[s->count] = leasehold__show__unpack(NULL, size, bytes);
    LH_ASSERT(s->pieces[s->count] != NULL);
    s->count++;
    free(bytes);
    return true;
}

/* TIME-4: the session's term counts from the last piece. False: it is over. */
static bool renew(struct lh_master *m, struct lh_m_program *p, uint64_t stamp)
{
    struct lh_lease_client *client = &p->session.client;

    if (client->former != 0)
        lh_lease_client_open(&m->leases, client, p->term);
    else if (lh_lease_client_renew(&m->leases, client, m->now) != LH_OK)
        return false;
    p->session.stamp = stamp;
    /* It has received the greeting. */
    lh_m_session_confirmed(&p->session, p->session.answers[0].at);
    return true;
}

/* ACC-3: what it may not ask for any more it cannot go on with, either. */
static bool may_have(struct lh_master *m, const struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count, char *text)
{
    int error = LH_OK;

    if (p->identity == NULL)
        return true;
    for (size_t i = 0; i < count && error == LH_OK; i++) {
        const Leasehold__Show *s = pieces[i];
        for (size_t j = 0; j < s->n_locks && error == LH_OK; j++)
            error =
                lh_m_access_name(m, p->identity, LH_RIGHT_WRITE, s->locks[j]->name, false, text);
        for (size_t j = 0; j < s->n_values && error == LH_OK; j++)
            error =
                lh_m_access_name(m, p->identity, LH_RIGHT_READ, s->values[j]->name, false, text);
    }
    return error == LH_OK;
}

static void whole(
    struct lh_master *m, struct lh_m_link *l, const Leasehold__Show *const *pieces, size_t count)
{
    struct lh_m_program *p = lh_m_session_program(l->session);
    Leasehold__LeaseSessionReply reply = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__Shown shown = LEASEHOLD__SHOWN__INIT;
    char text[LH_ACCESS_TEXT_MAX];

    if (!may_have(m, p, pieces, count, text)) {
        lh_m_end_stream(m, l, LH_ERR_PERMISSION, text);
        return;
    }
    shown.stamp = pieces[count - 1]->stamp;
    if (!renew(m, p, shown.stamp)) {
        lh_m_refuse_unknown(m, l);
        return;
    }
    shown.term_ns = lh_term_for_holder(p->term, m->config.drift_ppm).ns;
    lh_m_locks_shown(m, p, pieces, count, &shown);
    if (m->values_owner != NULL)
        m->values_owner->shown(m, p, pieces, count, &shown);
    lh_lease_client_registered(&m->leases, &p->session.client, (struct lh_lease_process){0});
    p->back = true;
    lh_m_program_heard(m, p);
    reply.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN;
    reply.shown = &shown;
    lh_m_reply_message(m, p, &reply);
    lh_m_session_answered(m, &p->session, shown.stamp);
    free(shown.lost);
    free(shown.cut);
    free(shown.dropped);
    /* What is said of these the program takes only once it has heard what became of its showing. */
    lh_m_requests_shown(m, p, pieces, count);
    lh_m_locks_unpark(m, p);
    lh_m_programs_look(m);
}

void lh_m_on_show(struct lh_master *m, struct lh_m_link *l, const Leasehold__Show *show)
{
    struct lh_m_program *p = lh_m_session_program(l->session);

    if (!p->session.announced || (p->back && !LH_PLANTED("old-showing-believed"))) {
        lh_m_end_stream(m, l, LH_ERR_MALFORMED, "shown without, or before, a greeting");
        return;
    }
    if (has_too_many(m, l->pieces, show)) {
        lh_m_end_stream(m, l, LH_ERR_TOO_LARGE, "the session shows too much");
        return;
    }
    if (l->pieces == NULL && !show->more) {
        whole(m, l, &show, 1);
        return;
    }
    if (!keep(m, l, show)) {
        lh_m_end_stream(m, l, LH_ERR_TOO_LARGE, "the session shows too much");
        return;
    }
    if (show->more) {
        LH_MARK("showing-in-pieces");
        return;
    }
    struct showing *s = l->pieces;
    l->pieces = NULL;
    whole(m, l, (const Leasehold__Show *const *)s->pieces, s->count);
    lh_m_showing_free(s);
}
