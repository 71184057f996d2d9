/* From method and direction to message types, and from messages to bytes and back.
 *
 * The bulk bytes of a message (its payload field: AppendRequest.batch, ReplicateRequest.batches,
 * ReadReply.batches) never pass through protobuf-c: on sending, the field is left out of the
 * struct and its bytes go beside it; on receiving, they are cut out of the received buffer by
 * reference.
 *
 * A large payload travels in pieces: several messages of the same type, all but the last with their
 * field `more` set, which is number 14. The first has no bytes of the payload, so that it arrives
 * at once and its receiver knows of the rest. On a slow link that is of use long before a payload
 * is too large for one message. A message without that field is never larger than a piece. */
#pragma once

#include "base/step.h"

#include <protobuf-c/protobuf-c.h>

/* Whose a method is: who is meant by whoever calls it. */
enum lh_server_kind { LH_SERVER_MASTER, LH_SERVER_CHUNKSERVER, LH_SERVER_ETCD, LH_SERVER_KINDS };

/* What a method is, for drivers. */
struct lh_method_info {
    const char *path;                  /* "/leasehold.Master/Create" */
    bool request_stream, reply_stream; /* several messages; a single one may come in pieces */
    const ProtobufCMessageDescriptor *request, *reply;
    uint32_t request_payload, reply_payload; /* field number of the payload; 0: none */
    enum lh_server_kind server;
    bool foreign; /* called, never served: not a service of ours */
};

/* `method` is above LH_METHOD_NONE and below LH_METHOD_COUNT. Static. */
const struct lh_method_info *lh_method_info(enum lh_method method);

/* LH_METHOD_NONE when no method that is served has that path. `path` need not end in NUL. */
enum lh_method lh_method_by_path(const char *path, size_t size);

/* Which cluster a request names, by its hash (docs/protocol.md, SES-10); 0: none, or a request of
 * its type does not. */
uint64_t lh_request_cluster(const ProtobufCMessage *request);
/* Names it; a request of a type that does not is left as it is. */
void lh_request_name_cluster(ProtobufCMessage *request, uint64_t cluster);

/* The bytes of a message. In a reply's strings each byte that is no UTF-8 goes as '?'. */
struct lh_buf lh_wire_pack(const ProtobufCMessage *message);
/* The same for the packed bytes of a message that becomes a part of a reply. */
void lh_wire_mend(const ProtobufCMessageDescriptor *type, uint8_t *bytes, size_t size);

/* Emits LH_FX_SEND of `message` (its payload field left empty); takes over `payload`'s slices, NULL
 * for none. In a reply's strings each byte that is no UTF-8 goes as '?'. */
void lh_fx_send(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload);

/* The same, and LH_IN_SENT comes when it has left. */
void lh_fx_send_notified(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload);

/* Served unary link: the reply, then the end. */
void lh_fx_reply(
    struct lh_effects *fx, uint64_t link, const ProtobufCMessage *message, struct lh_buf *payload);

enum lh_direction { LH_REQUEST, LH_REPLY };

/* The bytes of a message that goes on the wire in one: its header followed, if there is a payload,
 * by the payload field's tag and length and the payload itself. Takes over both bufs. */
struct lh_buf lh_wire_encode(enum lh_method method, enum lh_direction direction,
    struct lh_buf *header, struct lh_buf *payload);

/* May a large payload of such a message travel in pieces? */
bool lh_wire_in_pieces(enum lh_method method, enum lh_direction direction);

/* What goes on the wire for a SEND effect, message by message, to `put`, which takes them over: one
 * if its payload is no larger than `alone_bytes`; otherwise a first one without it, and pieces of
 * `piece_bytes`. `last`: all of it has been put. Takes over both bufs. */
void lh_wire_send(enum lh_method method, enum lh_direction direction, struct lh_buf *header,
    struct lh_buf *payload, size_t alone_bytes, size_t piece_bytes,
    void (*put)(void *arg, struct lh_buf bytes, bool last), void *arg);

/* Decodes one received message. On success `*message` is the generated struct, to be freed with
 * lh_wire_free(), its payload field empty, and `*payload` refers to the payload's bytes in `bytes`
 * (`bytes` may be cleared afterwards). Strings of replies are UTF-8: what was none is '?'.
 * MALFORMED: not a message of that type; nothing is set. The
 * size was limited by whoever received it. */
LH_MUST_USE int lh_wire_decode(enum lh_method method, enum lh_direction direction,
    const struct lh_buf *bytes, ProtobufCMessage **message, struct lh_buf *payload);

void lh_wire_free(ProtobufCMessage *message);

/* A message that has begun to arrive on one link; zeroed at first. */
struct lh_wire_arrival {
    ProtobufCMessage *first; /* the first piece, without its payload; NULL: nothing has begun */
    struct lh_buf payload;   /* so far */
};

/* Takes the next decoded message of a link; it may be a piece. LH_OK: `*message` and `*payload` are
 * a whole one now, all pieces together. WOULD_BLOCK: they were taken over, more is to come.
 * TOO_LARGE: the pieces are more than one message may have; nothing was taken. */
LH_MUST_USE int lh_wire_arrive(
    struct lh_wire_arrival *arrival, ProtobufCMessage **message, struct lh_buf *payload);

void lh_wire_arrival_deinit(struct lh_wire_arrival *arrival);

/* Requests of unary methods are refused by servers beyond this: the largest is a change with a
 * value of 64 KiB and its names. */
#define LH_UNARY_REQUEST_BYTES_MAX (72u << 10)

/* One message on the wire; larger ones are refused by every receiver. What is left of it beside a
 * payload that it carries whole is ample for its other fields. */
#define LH_WIRE_MESSAGE_BYTES_MAX ((1u << 20) + (64u << 10))

/* A payload that came in pieces; the link ends with TOO_LARGE beyond it. */
#define LH_MESSAGE_BYTES_MAX (40u << 20)

/* What a driver sends in one message, and in one piece of a larger one, unless it is told
 * otherwise. Pieces cost what messages cost: of 128 KiB they took a quarter more of the processors'
 * time for the same records than these. What is no larger than a piece is no sooner there for a
 * first message without bytes, and would cost two messages. */
#define LH_PIECE_BYTES (1u << 20)
#define LH_ALONE_BYTES LH_PIECE_BYTES
