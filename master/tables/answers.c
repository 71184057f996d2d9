/* What is said to programs. It has a sender of its own, not flow/outbox.h: several messages are in
 * flight, up to bounds for each program and for all, and programs have their turns in the order in
 * which something was said to them. */
#include "master/tables/answers.h"

/* Field numbers and wire types of LeaseSessionReply.answers and of LeaseAnswers.answers. */
#define REPLY_TAG  ((uint8_t)(LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS << 3 | 2))
#define ANSWER_TAG ((uint8_t)(1 << 3 | 2))

/* A tag of one byte and a length. */
#define FRAME_ROOM 6u

/* Memory for answers that a program keeps; there may be many programs. */
#define KEPT 64u

/* Beside the frame this is ample for a message's limit. */
#define GATHERED_ROOM (LH_WIRE_MESSAGE_BYTES_MAX - 64u)

static size_t put_frame(uint8_t *to, uint8_t tag, size_t size)
{
    size_t n = 0;

    to[n++] = tag;
    for (; size >= 0x80; size >>= 7)
        to[n++] = (uint8_t)(size | 0x80);
    to[n++] = (uint8_t)size;
    return n;
}

/* Another message is on its way: a program that does not take its answers is not read (and then its
 * session ends), so that they do not pile up. */
static void sends(struct lh_master *m, struct lh_m_program *p, size_t size)
{
    p->out.in_flight++;
    p->out.unsent += (uint32_t)size;
    m->programs.unsent += size;
    if (p->out.held || (p->out.in_flight <= m->config.program_sends &&
                           p->out.unsent <= m->config.program_send_bytes))
        return;
    LH_MARK("program-takes-no-answers");
    p->out.held = true;
    lh_fx_hold(m->fx, p->session.link);
}

/* What was gathered goes out. */
static void leave(struct lh_master *m, struct lh_m_program *p)
{
    uint8_t frame[FRAME_ROOM], *to;
    size_t size = p->out.size;

    p->out.size = 0;
    if (size == 0 || p->session.link == 0)
        return;
    size_t head = put_frame(frame, REPLY_TAG, size);
    struct lh_effect *e = lh_effects_add(m->fx, LH_FX_SEND);
    e->link = p->session.link;
    e->header = lh_buf_alloc(head + size, &to);
    e->notify = true;
    memcpy(to, frame, head);
    memcpy(to + head, p->out.bytes, size);
    if (p->out.capacity > KEPT) {
        free(p->out.bytes);
        p->out.bytes = NULL;
        p->out.capacity = 0;
    }
    sends(m, p, head + size);
}

void lh_m_reply_answer(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseAnswer *answer)
{
    size_t size = leasehold__lease_answer__get_packed_size(answer);

    if (p->session.link == 0)
        return;
    if (p->out.size + FRAME_ROOM + size > GATHERED_ROOM)
        leave(m, p);
    if (!p->out.gathers)
        TAILQ_INSERT_TAIL(&m->programs.saying, p, out.link);
    p->out.gathers = true;
    LH_GROW(p->out.bytes, p->out.capacity, p->out.size + FRAME_ROOM + size);
    p->out.size += put_frame(p->out.bytes + p->out.size, ANSWER_TAG, size);
    leasehold__lease_answer__pack(answer, p->out.bytes + p->out.size);
    lh_wire_mend(&leasehold__lease_answer__descriptor, p->out.bytes + p->out.size, size);
    p->out.size += size;
}

void lh_m_reply_granted(struct lh_master *m, struct lh_m_program *p, uint64_t id, uint64_t token)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Granted granted = LEASEHOLD__GRANTED__INIT;

    granted.id = id;
    granted.token = token;
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED;
    answer.granted = &granted;
    lh_m_reply_answer(m, p, &answer);
}

void lh_m_reply_queued(
    struct lh_master *m, struct lh_m_program *p, uint64_t id, uint64_t queued, uint64_t ahead)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Queued q = LEASEHOLD__QUEUED__INIT;

    q.id = id;
    q.queued = queued;
    q.ahead = ahead;
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED;
    answer.queued = &q;
    lh_m_reply_answer(m, p, &answer);
}

void lh_m_reply_refused(struct lh_master *m, struct lh_m_program *p, uint64_t id, const char *name,
    int error, const char *text)
{
    Leasehold__LeaseAnswer answer = LEASEHOLD__LEASE_ANSWER__INIT;
    Leasehold__Refused refused = LEASEHOLD__REFUSED__INIT;

    refused.id = id;
    refused.name = (char *)(uintptr_t)name;
    refused.error = lh_m_wire_error(error);
    refused.text = (char *)(uintptr_t)text;
    answer.answer_case = LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED;
    answer.refused = &refused;
    lh_m_reply_answer(m, p, &answer);
}

void lh_m_reply_message(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseSessionReply *reply)
{
    if (p->session.link == 0)
        return;
    leave(m, p);
    lh_fx_send_notified(m->fx, p->session.link, &reply->base, NULL);
    sends(m, p, m->fx->items[m->fx->count - 1].header.size);
}

void lh_m_reply_left(struct lh_master *m, struct lh_m_program *p)
{
    if (p->out.in_flight == 0)
        return;
    /* Which one it was is not known: the average, and in the end all. */
    uint32_t size = p->out.unsent / p->out.in_flight--;
    p->out.unsent -= size;
    m->programs.unsent -= size;
    if (!p->out.held || p->out.in_flight > m->config.program_sends / 2 ||
        p->out.unsent > m->config.program_send_bytes / 2)
        return;
    p->out.held = false;
    lh_fx_unhold(m->fx, p->session.link);
}

void lh_m_reply_nothing(struct lh_master *m, struct lh_m_program *p)
{
    m->programs.unsent -= p->out.unsent;
    p->out.unsent = 0;
    p->out.size = 0;
    p->out.in_flight = 0;
    p->out.held = false;
}

bool lh_m_takes_too_little(const struct lh_master *m, const struct lh_m_program *p)
{
    return m->programs.unsent > m->config.programs_send_bytes &&
           p->out.unsent + p->out.size > m->config.program_send_bytes;
}

void lh_m_answers_step(struct lh_master *m)
{
    struct lh_m_program *p;

    while ((p = TAILQ_FIRST(&m->programs.saying)) != NULL) {
        TAILQ_REMOVE(&m->programs.saying, p, out.link);
        p->out.gathers = false;
        leave(m, p);
    }
}
