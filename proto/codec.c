#include "proto/codec.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "proto/etcd.pb-c.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

#define SAME(name, number, grpc, advice, text)                                                     \
    _Static_assert(LEASEHOLD__ERROR_CODE__##name == (number), "wire and code agree on " #name);
LH_ERRORS(SAME)
#undef SAME

#define OURS(server, service, name, Lower, req_stream, rep_stream, req_payload, rep_payload)       \
    {                                                                                              \
        "/leasehold." service "/" name, req_stream, rep_stream,                                    \
            &leasehold__##Lower##_request__descriptor, &leasehold__##Lower##_reply__descriptor,    \
            req_payload, rep_payload, server, false                                                \
    }
#define M(...) OURS(LH_SERVER_MASTER, __VA_ARGS__)
#define C(...) OURS(LH_SERVER_CHUNKSERVER, "ChunkServer", __VA_ARGS__)
/* A method of etcd's: unary, or a stream both ways. */
#define ETCD(service, name, Lower, stream)                                                         \
    {                                                                                              \
        "/etcdserverpb." service "/" name, stream, stream,                                         \
            &etcdserverpb__##Lower##_request__descriptor,                                          \
            &etcdserverpb__##Lower##_response__descriptor, 0, 0, LH_SERVER_ETCD, true              \
    }

static const struct lh_method_info methods[LH_METHOD_COUNT] = {
    [LH_METHOD_SESSION] = M("Master", "Session", session, true, true, 0, 0),
    [LH_METHOD_CREATE] = M("Master", "Create", create, false, false, 0, 0),
    [LH_METHOD_STAT] = M("Master", "Stat", stat, false, false, 0, 0),
    [LH_METHOD_LIST] = M("Master", "List", list, false, false, 0, 0),
    [LH_METHOD_RENAME] = M("Master", "Rename", rename, false, false, 0, 0),
    [LH_METHOD_REMOVE] = M("Master", "Remove", remove, false, false, 0, 0),
    [LH_METHOD_LOCATE] = M("Master", "Locate", locate, false, false, 0, 0),
    [LH_METHOD_OPEN_TAIL] = M("Master", "OpenTail", open_tail, false, false, 0, 0),
    [LH_METHOD_LIST_LEASES] = M("Master", "ListLeases", list_leases, false, false, 0, 0),
    [LH_METHOD_LIST_SERVERS] = M("Master", "ListServers", list_servers, false, false, 0, 0),
    [LH_METHOD_RECALL] = M("Master", "Recall", recall, false, false, 0, 0),
    [LH_METHOD_RESTORE] = M("Master", "Restore", restore, false, false, 0, 0),
    [LH_METHOD_SET_SERVER] = M("Master", "SetServer", set_server, false, false, 0, 0),
    [LH_METHOD_EXPLAIN] = M("Master", "Explain", explain, false, false, 0, 0),
    [LH_METHOD_LIST_CHUNKS] = M("Master", "ListChunks", list_chunks, false, false, 0, 0),
    [LH_METHOD_GARBAGE] = M("Master", "Garbage", garbage, false, false, 0, 0),
    [LH_METHOD_MASTERS] = M("Master", "Masters", masters, false, false, 0, 0),
    [LH_METHOD_TRANSFER] = M("Master", "Transfer", transfer, false, false, 0, 0),
    [LH_METHOD_FORGET_MASTER] = M("Master", "ForgetMaster", forget_master, false, false, 0, 0),
    [LH_METHOD_LIST_EVENTS] = M("Master", "ListEvents", list_events, false, false, 0, 0),
    [LH_METHOD_LEASE_SESSION] = M("Leases", "Session", lease_session, true, true, 0, 0),
    [LH_METHOD_GET] = M("Leases", "Get", get, false, false, 0, 0),
    [LH_METHOD_CHANGE] = M("Leases", "Change", change, false, false, 0, 0),
    [LH_METHOD_WATCH] = M("Leases", "Watch", watch, true, true, 0, 0),
    [LH_METHOD_CANCEL] = M("Leases", "Cancel", cancel, false, false, 0, 0),
    [LH_METHOD_LIST_NAMES] = M("Leases", "ListNames", list_names, false, false, 0, 0),
    [LH_METHOD_LIST_SESSIONS] = M("Leases", "ListSessions", list_sessions, false, false, 0, 0),
    [LH_METHOD_SET_POLICY] = M("Leases", "SetPolicy", set_policy, false, false, 0, 0),
    [LH_METHOD_LIST_POLICIES] = M("Leases", "ListPolicies", list_policies, false, false, 0, 0),
    [LH_METHOD_APPEND] = C("Append", append, true, true, 15, 0),
    [LH_METHOD_REPLICATE] = C("Replicate", replicate, true, true, 15, 0),
    [LH_METHOD_READ] = C("Read", read, false, false, 0, 15),
    [LH_METHOD_SETTLE] = C("Settle", settle, false, false, 0, 0),
    [LH_METHOD_IDENTIFY] = C("Identify", identify, false, false, 0, 0),
    [LH_METHOD_ETCD_RANGE] = ETCD("KV", "Range", range, false),
    [LH_METHOD_ETCD_TXN] = ETCD("KV", "Txn", txn, false),
    [LH_METHOD_ETCD_COMPACT] = ETCD("KV", "Compact", compaction, false),
    [LH_METHOD_ETCD_WATCH] = ETCD("Watch", "Watch", watch, true),
    [LH_METHOD_ETCD_STATUS] = ETCD("Maintenance", "Status", status, false),
    [LH_METHOD_ETCD_AUTHENTICATE] = ETCD("Auth", "Authenticate", authenticate, false),
};

const struct lh_method_info *lh_method_info(enum lh_method method)
{
    LH_ASSERT(method > LH_METHOD_NONE && method < LH_METHOD_COUNT);
    return &methods[method];
}

enum lh_method lh_method_by_path(const char *path, size_t size)
{
    for (int m = LH_METHOD_NONE + 1; m < LH_METHOD_COUNT; m++)
        if (!methods[m].foreign && strlen(methods[m].path) == size &&
            memcmp(methods[m].path, path, size) == 0)
            return (enum lh_method)m;
    return LH_METHOD_NONE;
}

/* NULL: requests of its type name no cluster. */
static void *cluster_of(const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "cluster");

    return f == NULL || f->type != PROTOBUF_C_TYPE_FIXED64 ? NULL
                                                           : (char *)(uintptr_t)request + f->offset;
}

uint64_t lh_request_cluster(const ProtobufCMessage *request)
{
    const void *at = cluster_of(request);
    uint64_t cluster = 0;

    if (at != NULL)
        memcpy(&cluster, at, sizeof cluster);
    return cluster;
}

void lh_request_name_cluster(ProtobufCMessage *request, uint64_t cluster)
{
    void *at = cluster_of(request);

    if (at != NULL)
        memcpy(at, &cluster, sizeof cluster);
}

#define WIRE_VARINT  0u
#define WIRE_FIXED64 1u
#define WIRE_BYTES   2u
#define WIRE_FIXED32 5u

static bool flat_varint(uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

static bool may_have_strings(const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].type == PROTOBUF_C_TYPE_STRING ||
            type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
            return true;
    return false;
}

/* Looks at all strings of a packed message. False: it is malformed, or one has a NUL byte;
 * protobuf-c ends a string at the first: "/a", NUL, "b" would be taken for "/a". With `mend` what
 * is no UTF-8 becomes '?': a string of Protocol Buffers is UTF-8, and others than we refuse the
 * whole message otherwise. */
static bool strings_are_sound(
    const ProtobufCMessageDescriptor *type, uint8_t *at, const uint8_t *end, bool mend)
{
    if (!may_have_strings(type))
        return true;
    while (at < end) {
        uint64_t tag, size = 0;
        if (!flat_varint(&at, end, &tag))
            return false;
        unsigned wire = tag & 7;
        if (wire == WIRE_VARINT || wire == WIRE_BYTES) {
            if (!flat_varint(&at, end, &size))
                return false;
            if (wire == WIRE_VARINT)
                continue;
        } else if (wire == WIRE_FIXED64 || wire == WIRE_FIXED32) {
            size = wire == WIRE_FIXED64 ? 8 : 4;
        } else {
            return false;
        }
        if (size > (uint64_t)(end - at))
            return false;
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
        if (f != NULL && wire == WIRE_BYTES) {
            if (f->type == PROTOBUF_C_TYPE_STRING && memchr(at, 0, size) != NULL)
                return false;
            if (f->type == PROTOBUF_C_TYPE_STRING && mend)
                lh_utf8_mend(at, size);
            if (f->type == PROTOBUF_C_TYPE_MESSAGE &&
                !strings_are_sound(f->descriptor, at, at + size, mend))
                return false;
        }
        at += size;
    }
    return true;
}

static bool is_reply(const ProtobufCMessageDescriptor *type)
{
    for (int m = LH_METHOD_NONE + 1; m < LH_METHOD_COUNT; m++)
        if (methods[m].reply == type)
            return true;
    return false;
}

/* What was cut to fit a buffer, or echoed. */
void lh_wire_mend(const ProtobufCMessageDescriptor *type, uint8_t *bytes, size_t size)
{
    (void)strings_are_sound(type, bytes, bytes + size, true);
}

struct lh_buf lh_wire_pack(const ProtobufCMessage *message)
{
    uint8_t *to;
    struct lh_buf bytes = lh_buf_alloc(protobuf_c_message_get_packed_size(message), &to);

    protobuf_c_message_pack(message, to);
    /* A request is left as it is: a path is what the program said, and the master says what is
     * wrong with it. */
    if (is_reply(message->descriptor))
        lh_wire_mend(message->descriptor, to, bytes.size);
    return bytes;
}

void lh_fx_send(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload)
{
    struct lh_effect *e = lh_effects_add(fx, LH_FX_SEND);

    e->link = link;
    e->header = lh_wire_pack(message);
    if (payload != NULL)
        e->payload = lh_buf_take(payload);
}

void lh_fx_send_notified(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload)
{
    lh_fx_send(fx, link, message, payload);
    fx->items[fx->count - 1].notify = true;
}

void lh_fx_reply(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload)
{
    lh_fx_send(fx, link, message, payload);
    lh_fx_close(fx, link, LH_OK, NULL);
}

static uint32_t payload_field(enum lh_method method, enum lh_direction direction)
{
    const struct lh_method_info *info = lh_method_info(method);

    return direction == LH_REQUEST ? info->request_payload : info->reply_payload;
}

/* Protocol Buffers' variable-length integer; `to` has room for 10 bytes. */
static size_t put_varint(uint8_t *to, uint64_t value)
{
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

static void append_copy(struct lh_buf *to, const void *bytes, size_t size)
{
    struct lh_buf copy = lh_buf_copy(bytes, size);

    lh_buf_append(to, &copy, 0, size);
    lh_buf_clear(&copy);
}

struct lh_buf lh_wire_encode(enum lh_method method, enum lh_direction direction,
    struct lh_buf *header, struct lh_buf *payload)
{
    struct lh_buf wire = lh_buf_take(header);

    if (payload->size > 0) {
        uint32_t field = payload_field(method, direction);
        LH_ASSERT(field != 0);
        uint8_t prefix[20];
        size_t n = put_varint(prefix, (uint64_t)field << 3 | WIRE_BYTES);
        n += put_varint(prefix + n, payload->size);
        append_copy(&wire, prefix, n);
        lh_buf_append(&wire, payload, 0, payload->size);
        lh_buf_clear(payload);
    }
    return wire;
}

/* Field `more`, true. */
#define MORE_FIELD 14u
static const uint8_t more_is_set[] = {MORE_FIELD << 3 | WIRE_VARINT, 1};

bool lh_wire_in_pieces(enum lh_method method, enum lh_direction direction)
{
    const struct lh_method_info *info = lh_method_info(method);

    return protobuf_c_message_descriptor_get_field(
               direction == LH_REQUEST ? info->request : info->reply, MORE_FIELD) != NULL;
}

void lh_wire_send(enum lh_method method, enum lh_direction direction, struct lh_buf *header,
    struct lh_buf *payload, size_t alone_bytes, size_t piece_bytes,
    void (*put)(void *arg, struct lh_buf bytes, bool last), void *arg)
{
    struct lh_buf whole = lh_buf_take(payload), rest = lh_buf_take(header);
    size_t at = 0;

    LH_ASSERT(piece_bytes > 0);
    if (!lh_wire_in_pieces(method, direction))
        alone_bytes = LH_PIECE_BYTES;
    if (whole.size > alone_bytes) {
        append_copy(&rest, more_is_set, sizeof more_is_set);
        put(arg, rest, false);
        rest = (struct lh_buf){0};
    }
    while (whole.size > alone_bytes && whole.size - at > piece_bytes) {
        struct lh_buf more = lh_buf_copy(more_is_set, sizeof more_is_set);
        struct lh_buf piece = {0};
        lh_buf_append(&piece, &whole, at, piece_bytes);
        put(arg, lh_wire_encode(method, direction, &more, &piece), false);
        at += piece_bytes;
    }
    struct lh_buf last = {0};
    lh_buf_append(&last, &whole, at, whole.size - at);
    lh_buf_clear(&whole);
    put(arg, lh_wire_encode(method, direction, &rest, &last), true);
}

/* Reads a varint at `*at`; false when it is cut off or longer than ten bytes. */
static bool get_varint(const struct lh_buf *b, size_t *at, uint64_t *value)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte;
        if (!lh_buf_read(b, *at, &byte, 1))
            return false;
        (*at)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *value = v;
            return true;
        }
    }
    return false;
}

/* Finds where the last occurrence of `field` lies among the message's top-level fields (the last
 * one counts, as everywhere in Protocol Buffers). `*begin` is where its tag starts. False:
 * malformed. Without the field, `*size` is 0 and `*begin` and `*end` are the message's end. */
static bool find_payload(
    const struct lh_buf *b, uint32_t field, size_t *begin, size_t *data, size_t *size)
{
    size_t at = 0;

    *begin = *data = b->size;
    *size = 0;
    while (at < b->size) {
        size_t start = at;
        uint64_t tag, n = 0;
        if (!get_varint(b, &at, &tag))
            return false;
        switch (tag & 7) {
        case WIRE_VARINT:
            if (!get_varint(b, &at, &n))
                return false;
            n = 0;
            break;
        case WIRE_FIXED64:
            n = 8;
            break;
        case WIRE_FIXED32:
            n = 4;
            break;
        case WIRE_BYTES:
            if (!get_varint(b, &at, &n))
                return false;
            break;
        default:
            return false;
        }
        if (n > b->size - at)
            return false;
        if (tag == ((uint64_t)field << 3 | WIRE_BYTES)) {
            *begin = start;
            *data = at;
            *size = (size_t)n;
        }
        at += (size_t)n;
    }
    return true;
}

/* A stranger may send the payload field more than once; all but the last were decoded as usual. */
static void drop_earlier_payload(ProtobufCMessage *message, uint32_t field)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(message->descriptor, field);
    ProtobufCBinaryData *earlier = (void *)((uint8_t *)message + f->offset);

    free(earlier->data);
    *earlier = (ProtobufCBinaryData){0};
}

int lh_wire_decode(enum lh_method method, enum lh_direction direction, const struct lh_buf *bytes,
    ProtobufCMessage **message, struct lh_buf *payload)
{
    const struct lh_method_info *info = lh_method_info(method);
    const ProtobufCMessageDescriptor *type = direction == LH_REQUEST ? info->request : info->reply;
    uint32_t field = payload_field(method, direction);
    struct lh_buf rest = {0};
    struct lh_buf cut = {0};

    if (field != 0) {
        size_t begin, data, size;
        if (!find_payload(bytes, field, &begin, &data, &size))
            return LH_ERR_MALFORMED;
        lh_buf_append(&rest, bytes, 0, begin);
        lh_buf_append(&rest, bytes, data + size, bytes->size - data - size);
        lh_buf_append(&cut, bytes, data, size);
    } else {
        lh_buf_append(&rest, bytes, 0, bytes->size);
    }

    /* What is left is small, except when a stranger put its bytes elsewhere: flatten it. */
    uint8_t small[512];
    uint8_t *flat = rest.size <= sizeof small ? small : lh_realloc_array(NULL, 1, rest.size);
    bool whole = lh_buf_read(&rest, 0, flat, rest.size);
    LH_ASSERT(whole);
    ProtobufCMessage *decoded = NULL;
    if (strings_are_sound(type, flat, flat + rest.size, direction == LH_REPLY))
        decoded = protobuf_c_message_unpack(type, NULL, rest.size, flat);
    if (flat != small)
        free(flat);
    lh_buf_clear(&rest);
    if (decoded == NULL) {
        lh_buf_clear(&cut);
        return LH_ERR_MALFORMED;
    }
    if (field != 0)
        drop_earlier_payload(decoded, field);
    *message = decoded;
    *payload = cut;
    return LH_OK;
}

void lh_wire_free(ProtobufCMessage *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

/* ---- pieces ---- */

static protobuf_c_boolean *more_of(ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(message->descriptor, MORE_FIELD);

    return f == NULL || f->type != PROTOBUF_C_TYPE_BOOL ? NULL
                                                        : (void *)((uint8_t *)message + f->offset);
}

/* Slices cost memory of their own: a stranger's pieces must not be all slices and no bytes. */
static bool too_fine(const struct lh_buf *payload)
{
    return payload->count > 1024 && payload->size / payload->count < 128;
}

int lh_wire_arrive(struct lh_wire_arrival *a, ProtobufCMessage **message, struct lh_buf *payload)
{
    protobuf_c_boolean *more = more_of(*message);
    bool is_last = more == NULL || !*more;

    if (a->first == NULL && is_last)
        return LH_OK;
    if (payload->size > LH_MESSAGE_BYTES_MAX - a->payload.size || too_fine(&a->payload))
        return LH_ERR_TOO_LARGE;
    if (a->first == NULL) {
        *more = false;
        *a = (struct lh_wire_arrival){*message, lh_buf_take(payload)};
        return LH_ERR_WOULD_BLOCK;
    }
    lh_buf_append(&a->payload, payload, 0, payload->size);
    lh_buf_clear(payload);
    lh_wire_free(*message);
    if (!is_last)
        return LH_ERR_WOULD_BLOCK;
    *message = a->first;
    *payload = a->payload;
    *a = (struct lh_wire_arrival){0};
    return LH_OK;
}

void lh_wire_arrival_deinit(struct lh_wire_arrival *a)
{
    lh_wire_free(a->first);
    lh_buf_clear(&a->payload);
    *a = (struct lh_wire_arrival){0};
}
