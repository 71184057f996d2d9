/* What a chunkserver does with the holding side of the engine. */
#include "base/probe.h"
#include "sim/smallscope/engine_world.h"

void holder_begin(struct holder *h)
{
    /* A table that holds nothing is as good as a new one, and is not to be paid for. */
    lh_holder_session_end(h->table);
    lh_holder_forget(h->table, CHUNK);
    h->incarnation = 1;
    h->number = 0;
    h->released = 0;
}

void holder_restart(struct lh_engine *e, uint32_t i)
{
    struct holder *h = &e->holders[i];
    uint32_t incarnation = h->incarnation + 1;

    holder_begin(h);
    h->incarnation = incarnation;
    say(e, "%s crashes and starts again, as incarnation %u\n", holder_name(i), incarnation);
}

void holder_register(struct lh_engine *e, uint32_t i)
{
    struct holder *h = &e->holders[i];
    uint32_t version = (uint32_t)lh_holder_version(h->table, CHUNK);

    /* LEASE-7: it shows what it believes that it holds. */
    if (!lh_holder_may_act(h->table, CHUNK, version, h->now))
        version = 0;
    h->number++;
    say(e, "%s registers, registration %u of incarnation %u, showing ", holder_name(i), h->number,
        h->incarnation);
    say(e, version == 0 ? "no lease\n" : "its lease at version %u\n", version);
    emit(e, (struct message){.kind = REGISTER,
                .holder = i,
                .incarnation = h->incarnation,
                .number = h->number,
                .version = version,
                .stamp = h->now});
}

void holder_heartbeats(struct lh_engine *e, uint32_t i)
{
    const struct holder *h = &e->holders[i];
    struct message m = {.kind = HEARTBEAT,
        .holder = i,
        .session = (uint32_t)lh_holder_session(h->table),
        .stamp = h->now};

    if (m.session == 0)
        return;
    emit(e, m);
    m.version = (uint32_t)lh_holder_version(h->table, CHUNK);
    if (m.version != 0)
        emit(e, m);
}

void holder_release(struct lh_engine *e, uint32_t i)
{
    struct holder *h = &e->holders[i];
    uint32_t version = (uint32_t)lh_holder_version(h->table, CHUNK);

    lh_holder_release(h->table, CHUNK, version);
    h->released = version;
    say(e, "%s releases version %u\n", holder_name(i), version);
    emit(e, (struct message){.kind = RELEASE,
                .holder = i,
                .session = (uint32_t)lh_holder_session(h->table),
                .version = version});
}

/* TIME-4: a term counts from when its request was sent. */
static struct lh_instant counts_from(const struct holder *h, const struct message *m)
{
    return LH_PLANTED("holder-counts-from-receipt") ? h->now : m->stamp;
}

static int on_registered(struct holder *h, const struct message *m)
{
    struct lh_instant from = counts_from(h, m);
    int error = LH_OK;

    /* An answer to another registration, or this one's again. */
    if (m->incarnation != h->incarnation || m->number != h->number ||
        m->session == lh_holder_session(h->table))
        return LH_ERR_STALE_REGISTRATION;
    lh_holder_session_begin(h->table, m->session, from, m->session_term);
    if (m->version != 0)
        error = lh_holder_continue(h->table, m->session, CHUNK, m->version, from, m->lease_term);
    lh_holder_session_settle(h->table, NULL, NULL);
    return error;
}

static int on_answer(struct holder *h, const struct message *m)
{
    struct lh_instant from = counts_from(h, m);
    int error = lh_holder_session_renew(h->table, m->session, from, m->session_term);

    if (error == LH_OK && m->version != 0)
        error = lh_holder_extend(h->table, m->session, CHUNK, m->version, from, m->lease_term);
    return error;
}

void holder_receive(struct lh_engine *e, const struct message *m)
{
    struct holder *h = &e->holders[m->holder];
    int error;

    if (m->kind == REGISTERED)
        error = on_registered(h, m);
    else if (m->kind == ANSWER)
        error = on_answer(h, m);
    else
        error = lh_holder_grant(
            h->table, m->session, CHUNK, m->version, counts_from(h, m), m->lease_term);
    say(e, "; %s %s\n", holder_name(m->holder), error == LH_OK ? "takes it" : lh_error_text(error));
}
