/* From method and direction to message types, and from messages to bytes and back.
 *
 * The bulk bytes of a message (its payload field: AppendRequest.batch, ReplicateRequest.batches,
 * ReadReply.batches) never pass through protobuf-c: on sending, the field is left out of the
 * struct and its bytes go beside it; on receiving, they are cut out of the received buffer by
 * reference. */
#ifndef LH_PROTO_CODEC_H
#define LH_PROTO_CODEC_H

#include "base/step.h"

#include <protobuf-c/protobuf-c.h>

/* What a method is, for drivers. */
struct lh_method_info {
    const char *path; /* "/leasehold.Master/Create" */
    bool request_stream, reply_stream;
    const ProtobufCMessageDescriptor *request, *reply;
    uint32_t request_payload, reply_payload; /* field number of the payload; 0: none */
};

/* `method` is above LH_METHOD_NONE and below LH_METHOD_COUNT. Static. */
const struct lh_method_info *lh_method_info(enum lh_method method);

/* LH_METHOD_NONE when no method has that path. `path` need not end in NUL. */
enum lh_method lh_method_by_path(const char *path, size_t size);

/* Emits LH_FX_SEND of `message` (its payload field left empty); takes over `payload`'s slices, NULL
 * for none. */
void lh_fx_send(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload);

/* Served unary link: the reply, then the end. */
void lh_fx_reply(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload);

enum lh_direction { LH_REQUEST, LH_REPLY };

/* The bytes that go on the wire for a SEND effect: its header followed, if there is a payload, by
 * the payload field's tag and length and the payload itself. Takes over both bufs. */
struct lh_buf lh_wire_encode(enum lh_method method, enum lh_direction direction,
    struct lh_buf *header, struct lh_buf *payload);

/* Decodes one received message. On success `*message` is the generated struct, to be freed with
 * lh_wire_free(), its payload field empty, and `*payload` refers to the payload's bytes in `bytes`
 * (`bytes` may be cleared afterwards). MALFORMED: not a message of that type; nothing is set. The
 * size was limited by whoever received it. */
LH_MUST_USE int lh_wire_decode(enum lh_method method, enum lh_direction direction,
    const struct lh_buf *bytes, ProtobufCMessage **message, struct lh_buf *payload);

void lh_wire_free(ProtobufCMessage *message);

/* Messages longer than this are refused by every receiver. */
#define LH_MESSAGE_BYTES_MAX (40u << 20)

#endif
