/* Replies that say no more than what is durable. */
#include "master/tables/replies.h"

#include "master/tables/call.h"
#include "master/tables/tables.h"

uint64_t lh_m_ticket(const struct lh_master *m, const struct lh_m_file *f)
{
    if (f == NULL)
        return m->commit.namespace_ticket;
    /* Whoever had its path before, and whoever has it next, changes with a commit of this file. */
    return f->ticket > m->commit.term_ticket ? f->ticket : m->commit.term_ticket;
}

/* Every reply has one. */
static unsigned error_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *error =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "error");
    Leasehold__ErrorCode code = LEASEHOLD__ERROR_CODE__OK;

    if (error != NULL)
        memcpy(&code, (const char *)message + error->offset, sizeof code);
    return (unsigned)code < LH_ERROR_NUMBERS ? (unsigned)code : 0;
}

/* Nobody knows when the commit will be done: whoever asks is not left waiting for it. */
static void refuse_starved(struct lh_master *m, uint64_t link)
{
    lh_fx_close(m->fx, link, LH_ERR_UNAVAILABLE,
        "the master has no room for its metadata (or no memory), and tries again; what was asked "
        "for may be done yet");
}

/* HA-12: is this an answer that repeats of its call are to be given, too? A refusal of the master's
 * that may pass is none. */
static bool is_kept(const struct lh_master *m, uint64_t link, unsigned error)
{
    return m->calls.taken.client != 0 && m->calls.taken.link == link &&
           (error == LEASEHOLD__ERROR_CODE__OK ||
               (m->calls.taken.repeated && error != LEASEHOLD__ERROR_CODE__UNAVAILABLE));
}

void lh_m_reply(
    struct lh_master *m, uint64_t link, uint64_t ticket, const ProtobufCMessage *message)
{
    unsigned error = error_of(message);

    m->counts.errors[error]++;
    if (is_kept(m, link, error)) {
        lh_m_call_keep(m, message);
        if (!LH_PLANTED("call-result-not-stored"))
            ticket = m->commit.next_ticket;
    }
    if (link == 0)
        return; /* its caller is gone, and may repeat it */
    if (lh_m_is_durable(m, ticket)) {
        lh_fx_reply(m->fx, link, message, NULL);
        return;
    }
    if (m->starved) {
        refuse_starved(m, link);
        return;
    }
    struct lh_m_reply *r = lh_alloc(sizeof *r);
    r->ticket = ticket;
    r->link = link;
    r->message = lh_wire_pack(message);
    /* Nearly always the newest ticket: look for the place from the end. */
    struct lh_m_reply *before = TAILQ_LAST(&m->commit.replies, lh_m_reply_queue);
    while (before != NULL && before->ticket > ticket)
        before = TAILQ_PREV(before, lh_m_reply_queue, queue);
    if (before == NULL)
        TAILQ_INSERT_HEAD(&m->commit.replies, r, queue);
    else
        TAILQ_INSERT_AFTER(&m->commit.replies, before, r, queue);
}

void lh_m_refuse(
    struct lh_master *m, uint64_t link, enum lh_method method, int error, const char *why)
{
    const ProtobufCMessageDescriptor *type = lh_method_info(method)->reply;
    ProtobufCMessage *reply = lh_alloc(type->sizeof_message);
    Leasehold__ErrorCode code = lh_m_wire_error(error);

    protobuf_c_message_init(type, reply);
    memcpy((char *)reply + protobuf_c_message_descriptor_get_field_by_name(type, "error")->offset,
        &code, sizeof code);
    memcpy(
        (char *)reply + protobuf_c_message_descriptor_get_field_by_name(type, "error_text")->offset,
        &why, sizeof why);
    lh_m_reply(m, link, lh_m_ticket(m, NULL), reply);
    free(reply);
}

void lh_m_replies_durable(struct lh_master *m)
{
    struct lh_m_reply *r;

    while ((r = TAILQ_FIRST(&m->commit.replies)) != NULL && lh_m_is_durable(m, r->ticket)) {
        TAILQ_REMOVE(&m->commit.replies, r, queue);
        struct lh_effect *e = lh_effects_add(m->fx, LH_FX_SEND);
        e->link = r->link;
        e->header = lh_buf_take(&r->message);
        lh_fx_close(m->fx, r->link, LH_OK, NULL);
        free(r);
    }
}

void lh_m_replies_starved(struct lh_master *m)
{
    struct lh_m_reply *r;

    while ((r = TAILQ_FIRST(&m->commit.replies)) != NULL) {
        TAILQ_REMOVE(&m->commit.replies, r, queue);
        refuse_starved(m, r->link);
        lh_buf_clear(&r->message);
        free(r);
    }
}
