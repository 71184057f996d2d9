/* A call happens once (HA-12). Requests that change names, files or servers may carry an id of
 * their client's. What such a call was answered is in the commit with what it changed, so a repeat
 * is answered likewise, here or by the next master, and changes nothing.
 *
 * A call may be answered in a later step (tables/pending.h). A repeat that comes meanwhile waits in
 * its place.
 *
 * A refusal changed nothing. That of a first message is not kept: if its answer is lost, nobody has
 * heard of it, and the repeat may succeed. That of a repeat is kept: the message before it may
 * still be on its way, and must not be carried out after the client was told that it was not.
 *
 * A call whose answer may have gone before its time is refused, as a first message too: it may be
 * one that others have overtaken. */
#include "master/calls/calls.h"

#include "base/crc32c.h"
#include "master/calls/internal.h"
#include "master/tables/call.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

/* NULL: it has none. */
static const Leasehold__CallId *id_of(const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "call");
    const Leasehold__CallId *id = NULL;

    if (field != NULL)
        memcpy(&id, (const char *)request + field->offset, sizeof id);
    return id == NULL || id->client == 0 ? NULL : id;
}

/* What each try says again: the id, whose master is meant, and how long there is left to wait. */
static const char *const of_a_try[] = {"call", "cluster", "wait_ms"};

/* Of what is asked, without the first `count` of those. */
static uint32_t checksum(enum lh_method method, const ProtobufCMessage *request, size_t count)
{
    const char *name = lh_method_info(method)->path;
    ProtobufCMessage *bare = lh_alloc(request->descriptor->sizeof_message);
    const uint64_t none = 0; /* also a message that is not there */

    memcpy(bare, request, request->descriptor->sizeof_message);
    for (size_t i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(request->descriptor, of_a_try[i]);
        if (field != NULL)
            memcpy((char *)bare + field->offset, &none, sizeof none);
    }
    size_t size = protobuf_c_message_get_packed_size(bare);
    uint8_t *bytes = lh_alloc(size);
    protobuf_c_message_pack(bare, bytes);
    uint32_t crc = lh_crc32c(lh_crc32c(0, name, strlen(name)), bytes, size);
    free(bytes);
    free(bare);
    return crc;
}

/* Earlier releases counted all but the id, also a cluster that a newer client has named, which they
 * do not know. What they have kept is there after an upgrade. */
static bool is_another(
    uint32_t kept, uint32_t crc, enum lh_method method, const ProtobufCMessage *request)
{
    return kept != crc && kept != checksum(method, request, 2) &&
           kept != checksum(method, request, 1);
}

/* The path that the answer will name, as far as the request says it; NULL: it does not. */
static const char *answered_path(enum lh_method method, const ProtobufCMessage *request)
{
    if (method == LH_METHOD_CREATE)
        return ((const Leasehold__CreateRequest *)request)->path;
    if (method == LH_METHOD_RESTORE) {
        const Leasehold__RestoreRequest *m = (const Leasehold__RestoreRequest *)request;
        return m->to[0] != 0 ? m->to : m->path;
    }
    return NULL;
}

/* ---- Answers. */

/* The file that an answer is about; NULL: none. */
static Leasehold__FileInfo *file_in(enum lh_method method, ProtobufCMessage *reply)
{
    if (method == LH_METHOD_CREATE)
        return ((Leasehold__CreateReply *)reply)->info;
    return method == LH_METHOD_RESTORE ? ((Leasehold__RestoreReply *)reply)->info : NULL;
}

static void answer_again(struct lh_master *m, uint64_t link, enum lh_method method,
    const ProtobufCMessage *request, const struct lh_m_call *call)
{
    ProtobufCMessage *reply = protobuf_c_message_unpack(
        lh_method_info(method)->reply, NULL, call->reply_size, call->reply);
    const char *path = answered_path(method, request);

    if (reply == NULL) {
        lh_m_refuse(m, link, method, LH_ERR_INVALID_ARGUMENT,
            "this call's id is another call's, of another kind");
        return;
    }
    Leasehold__FileInfo *info = file_in(method, reply);
    char *own = info == NULL ? NULL : info->path;
    if (own != NULL && own[0] == 0 && path != NULL)
        info->path = (char *)(uintptr_t)path;
    LH_MARK("call-repeated");
    m->counts.calls_repeated++;
    lh_m_reply(m, link, LH_PLANTED("call-answered-before-durable") ? 0 : call->ticket, reply);
    if (info != NULL)
        info->path = own;
    protobuf_c_message_free_unpacked(reply, NULL);
}

/* Is a call to be refused that neither is known nor waits? */
static bool refuse_unknown(
    struct lh_master *m, uint64_t link, enum lh_method method, const Leasehold__CallId *id)
{
    if (lh_m_call_maybe_forgotten(m, id->client, id->number) &&
        !LH_PLANTED("forgotten-call-carried-out")) {
        LH_MARK("call-refused-as-forgotten");
        m->counts.calls_forgotten++;
        lh_m_refuse(m, link, method, LH_ERR_UNAVAILABLE,
            "this call may have been carried out; so much was changed since that its answer is "
            "not kept any more");
        return true;
    }
    if (lh_m_calls_full(m)) {
        lh_m_refuse(m, link, method, LH_ERR_UNAVAILABLE,
            "more clients changed something a short while ago than this master can remember");
        return true;
    }
    return false;
}

bool lh_m_once_begin(
    struct lh_master *m, uint64_t link, enum lh_method method, const ProtobufCMessage *request)
{
    const Leasehold__CallId *id = id_of(request);

    if (id == NULL)
        return false;
    if (id->number == 0) {
        lh_m_refuse(m, link, method, LH_ERR_INVALID_ARGUMENT, "calls are counted from 1");
        return true;
    }
    uint32_t crc = checksum(method, request, sizeof of_a_try / sizeof *of_a_try);
    const struct lh_m_call *call = lh_m_call_find(m, id->client, id->number);
    struct lh_m_pending *pending = lh_m_pending_find(m, id->client, id->number);
    if (LH_PLANTED("call-applied-twice"))
        call = NULL, pending = NULL;
    if ((call != NULL && is_another(call->request, crc, method, request)) ||
        (pending != NULL && pending->request != crc)) {
        lh_m_refuse(m, link, method, LH_ERR_INVALID_ARGUMENT,
            "this call's id is another call's: draw the client's number at random, and count its "
            "calls");
        return true;
    }
    if (call != NULL) {
        answer_again(m, link, method, request, call);
        return true;
    }
    if (pending != NULL) {
        m->counts.calls_repeated++;
        lh_m_pending_repeat(m, pending, link);
        return true;
    }
    if (refuse_unknown(m, link, method, id))
        return true;
    m->calls.taken.link = link;
    m->calls.taken.client = id->client;
    m->calls.taken.number = id->number;
    m->calls.taken.request = crc;
    m->calls.taken.repeated = id->repeated;
    m->calls.taken.path = answered_path(method, request);
    return false;
}

void lh_m_once_end(struct lh_master *m)
{
    memset(&m->calls.taken, 0, sizeof m->calls.taken);
}
