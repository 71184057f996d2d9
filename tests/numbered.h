/* Append messages that stand for a number, for tests of what carries messages. */
#pragma once

#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

static inline void send_number(
    struct lh_effects *fx, uint64_t link, uint64_t number, struct lh_buf *payload)
{
    Leasehold__AppendPart part = LEASEHOLD__APPEND_PART__INIT, *parts[] = {&part};
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;

    part.lane = number;
    m.parts = parts;
    m.n_parts = 1;
    lh_fx_send(fx, link, &m.base, payload);
}

static inline uint64_t number_sent(const void *request)
{
    const Leasehold__AppendRequest *m = request;

    return m->n_parts == 0 ? 0 : m->parts[0]->lane;
}

/* The number is its lane. */
static inline void answer_number(
    struct lh_effects *fx, uint64_t link, Leasehold__AppendAnswer answer, bool notify)
{
    Leasehold__AppendAnswer *answers[] = {&answer};
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;

    m.answers = answers;
    m.n_answers = 1;
    (notify ? lh_fx_send_notified : lh_fx_send)(fx, link, &m.base, NULL);
}

static inline const Leasehold__AppendAnswer *number_answered(const void *reply)
{
    static const Leasehold__AppendAnswer none = LEASEHOLD__APPEND_ANSWER__INIT;
    const Leasehold__AppendReply *m = reply;

    return m->n_answers == 0 ? &none : m->answers[0];
}
