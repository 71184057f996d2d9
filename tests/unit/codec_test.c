/* Stories about the codec: the bulk bytes go around protobuf-c, and every peer's order of fields is
 * understood; bytes that are no message are refused whole. */
#include "base/prng.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Leasehold__AppendRequest opening(void)
{
    static Leasehold__AppendPart part = LEASEHOLD__APPEND_PART__INIT, *parts[] = {&part};
    Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;

    part.chunk = 7;
    part.version = 300;
    part.writer = UINT64_MAX;
    part.first_sequence = 1;
    m.parts = parts;
    m.n_parts = 1;
    return m;
}

/* What lh_fx_send() and the wire make of a message and its payload. */
static struct lh_buf on_the_wire(enum lh_method method, enum lh_direction direction,
    const ProtobufCMessage *message, const char *payload)
{
    struct lh_effects fx = {0};
    struct lh_buf bulk =
        payload == NULL ? (struct lh_buf){0} : lh_buf_copy(payload, strlen(payload));

    lh_fx_send(&fx, 1, message, &bulk);
    struct lh_buf wire =
        lh_wire_encode(method, direction, &fx.items[0].header, &fx.items[0].payload);
    lh_effects_deinit(&fx);
    return wire;
}

static void assert_payload(struct lh_buf *payload, const char *expected)
{
    char got[64];

    assert_int_equal(payload->size, strlen(expected));
    assert_true(lh_buf_read(payload, 0, got, payload->size));
    assert_memory_equal(got, expected, payload->size);
    lh_buf_clear(payload);
}

/* Decodes an AppendRequest that opening() and `payload` made; checks every field. */
static void assert_decodes(const struct lh_buf *wire, const char *payload)
{
    ProtobufCMessage *message;
    struct lh_buf bulk;

    assert_int_equal(lh_wire_decode(LH_METHOD_APPEND, LH_REQUEST, wire, &message, &bulk), LH_OK);
    const Leasehold__AppendRequest *m = (const Leasehold__AppendRequest *)message;
    assert_int_equal(m->n_parts, 1);
    assert_int_equal(m->parts[0]->chunk, 7);
    assert_int_equal(m->parts[0]->version, 300);
    assert_true(m->parts[0]->writer == UINT64_MAX);
    assert_int_equal(m->parts[0]->first_sequence, 1);
    assert_int_equal(m->batches.len, 0);
    assert_payload(&bulk, payload);
    lh_wire_free(message);
}

static int decode_error(
    enum lh_method method, enum lh_direction direction, const void *bytes, size_t size)
{
    struct lh_buf wire = lh_buf_copy(bytes, size);
    ProtobufCMessage *message = (ProtobufCMessage *)1;
    struct lh_buf bulk = {.size = 99};
    int error = lh_wire_decode(method, direction, &wire, &message, &bulk);

    if (error == LH_OK) {
        lh_wire_free(message);
        lh_buf_clear(&bulk);
    } else { /* nothing was set */
        assert_ptr_equal(message, (ProtobufCMessage *)1);
        assert_int_equal(bulk.size, 99);
    }
    lh_buf_clear(&wire);
    return error;
}

static void a_message_and_its_payload_come_back_as_they_were(void **state)
{
    Leasehold__AppendRequest m = opening();
    struct lh_buf wire = on_the_wire(LH_METHOD_APPEND, LH_REQUEST, &m.base, "the batch");

    (void)state;
    assert_decodes(&wire, "the batch");
    lh_buf_clear(&wire);
    wire = on_the_wire(LH_METHOD_APPEND, LH_REQUEST, &m.base, NULL);
    assert_decodes(&wire, "");
    lh_buf_clear(&wire);
}

struct put {
    unsigned count, last;
};

static void count_put(void *arg, struct lh_buf bytes, bool last)
{
    struct put *put = arg;

    assert_int_equal(put->last, 0); /* nothing comes behind it */
    put->count++;
    put->last += last;
    lh_buf_clear(&bytes);
}

/* So that who asked for it hears once that a message has left, when all of it has. */
static void only_one_of_the_pieces_is_the_last(void **state)
{
    static const struct {
        size_t size;
        unsigned pieces;
    } cases[] = {{0, 1}, {8, 1}, {9, 4}, {12, 4}, {13, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Leasehold__AppendRequest m = LEASEHOLD__APPEND_REQUEST__INIT;
        struct lh_buf payload = lh_buf_copy("thirteen byte", cases[i].size);
        struct lh_effects fx = {0};
        struct put put = {0};
        lh_fx_send_notified(&fx, 1, &m.base, &payload);
        lh_wire_send(LH_METHOD_APPEND, LH_REQUEST, &fx.items[0].header, &fx.items[0].payload, 8, 4,
            count_put, &put);
        assert_int_equal(put.count, cases[i].pieces);
        assert_int_equal(put.last, 1);
        lh_effects_deinit(&fx);
    }
}

/* Any gRPC client can speak to us: what we send is what protobuf-c itself would have packed. */
static void the_wire_is_plain_protocol_buffers(void **state)
{
    Leasehold__AppendRequest m = opening();
    struct lh_buf wire = on_the_wire(LH_METHOD_APPEND, LH_REQUEST, &m.base, "the batch");
    uint8_t ours[128], plain[128];

    (void)state;
    m.batches = (ProtobufCBinaryData){9, (uint8_t *)(uintptr_t) "the batch"};
    size_t size = leasehold__append_request__pack(&m, plain);
    assert_int_equal(wire.size, size);
    assert_true(lh_buf_read(&wire, 0, ours, size));
    assert_memory_equal(ours, plain, size);
    lh_buf_clear(&wire);
}

static void the_payload_is_not_copied_in_or_out(void **state)
{
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    struct lh_effects fx = {0};
    struct lh_buf bulk = lh_buf_copy("0123456789", 10);
    const uint8_t *where = lh_buf_slices(&bulk)[0].data;
    ProtobufCMessage *message;

    (void)state;
    lh_fx_send(&fx, 1, &m.base, &bulk);
    struct lh_buf wire =
        lh_wire_encode(LH_METHOD_READ, LH_REPLY, &fx.items[0].header, &fx.items[0].payload);
    assert_int_equal(lh_wire_decode(LH_METHOD_READ, LH_REPLY, &wire, &message, &bulk), LH_OK);
    lh_buf_clear(&wire); /* the payload lives on */
    assert_ptr_equal(lh_buf_slices(&bulk)[0].data, where);
    assert_payload(&bulk, "0123456789");
    lh_wire_free(message);
    lh_effects_deinit(&fx);
}

/* The fields of opening() and the payload "bulk", one by one, so that they can be
 * ordered at will. */
static const struct {
    uint8_t bytes[24];
    size_t size;
} fields[] = {
    {{0x0a, 18, 0x10, 7, 0x18, 0xac, 0x02, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0x01, 0x28, 1},
        20},
    {{0x70, 0}, 2},
    {{0x7a, 4, 'b', 'u', 'l', 'k'}, 6},
};
#define FIELDS (sizeof fields / sizeof fields[0])

static void the_payload_may_lie_anywhere_in_the_message(void **state)
{
    (void)state;
    for (size_t place = 0; place < FIELDS; place++) {
        for (size_t step = 1; step <= 24; step++) {
            uint8_t bytes[64];
            size_t size = 0, next = 0;
            for (size_t i = 0; i < FIELDS; i++) {
                size_t f = i == place ? FIELDS - 1 : next++;
                memcpy(bytes + size, fields[f].bytes, fields[f].size);
                size += fields[f].size;
            }
            struct lh_buf wire = {0};
            for (size_t at = 0; at < size; at += step) {
                struct lh_buf part = lh_buf_copy(bytes + at, size - at < step ? size - at : step);
                lh_buf_append(&wire, &part, 0, part.size);
                lh_buf_clear(&part);
            }
            assert_decodes(&wire, "bulk");
            lh_buf_clear(&wire);
        }
    }
}

static void of_two_payloads_the_last_one_counts(void **state)
{
    static const uint8_t first[] = {0x7a, 3, 'o', 'l', 'd'};
    Leasehold__AppendRequest m = opening();
    struct lh_buf rest = on_the_wire(LH_METHOD_APPEND, LH_REQUEST, &m.base, "new");

    (void)state;
    struct lh_buf wire = lh_buf_copy(first, sizeof first);
    lh_buf_append(&wire, &rest, 0, rest.size);
    assert_decodes(&wire, "new");
    lh_buf_clear(&rest);
    lh_buf_clear(&wire);
}

static void fields_that_we_do_not_know_yet_are_skipped(void **state)
{
    static const uint8_t unknown[] = {
        0xa0, 0x06, 0x05,                                 /* 100: varint */
        0xa9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8,               /* 101: fixed64 */
        0xb2, 0x06, 0x06, 0x7a, 0x04, 'l', 'i', 'e', 's', /* 102: bytes that look like a payload */
        0xbd, 0x06, 1, 2, 3, 4,                           /* 103: fixed32 */
    };
    Leasehold__AppendRequest m = opening();
    struct lh_buf wire = lh_buf_copy(unknown, sizeof unknown);
    struct lh_buf rest = on_the_wire(LH_METHOD_APPEND, LH_REQUEST, &m.base, "truth");

    (void)state;
    lh_buf_append(&wire, &rest, 0, rest.size);
    lh_buf_clear(&rest);
    assert_decodes(&wire, "truth");
    lh_buf_clear(&wire);
}

static void a_message_cut_within_a_field_is_malformed(void **state)
{
    uint8_t bytes[64];
    size_t size = 0;
    bool whole[64] = {[0] = true};

    (void)state;
    for (size_t i = 0; i < FIELDS; i++) {
        memcpy(bytes + size, fields[i].bytes, fields[i].size);
        size += fields[i].size;
        whole[size] = true;
    }
    for (size_t cut = 0; cut <= size; cut++)
        assert_int_equal(decode_error(LH_METHOD_APPEND, LH_REQUEST, bytes, cut),
            whole[cut] ? LH_OK : LH_ERR_MALFORMED);
}

static void bytes_that_are_no_message_are_malformed(void **state)
{
    static const uint8_t group[] = {0x0b}, end_group[] = {0x0c}, wire_type_7[] = {0x0f, 0};
    static const uint8_t endless[] = {
        0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t too_long[] = {
        0x7a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'x'};

    (void)state;
    assert_int_equal(decode_error(LH_METHOD_APPEND, LH_REQUEST, group, 1), LH_ERR_MALFORMED);
    assert_int_equal(decode_error(LH_METHOD_APPEND, LH_REQUEST, end_group, 1), LH_ERR_MALFORMED);
    assert_int_equal(decode_error(LH_METHOD_APPEND, LH_REQUEST, wire_type_7, 2), LH_ERR_MALFORMED);
    assert_int_equal(
        decode_error(LH_METHOD_APPEND, LH_REQUEST, endless, sizeof endless), LH_ERR_MALFORMED);
    assert_int_equal(
        decode_error(LH_METHOD_APPEND, LH_REQUEST, too_long, sizeof too_long), LH_ERR_MALFORMED);
    /* A method without a payload takes the other way through the decoder. */
    assert_int_equal(decode_error(LH_METHOD_CREATE, LH_REQUEST, group, 1), LH_ERR_MALFORMED);
    assert_int_equal(decode_error(LH_METHOD_SESSION, LH_REPLY, "\x0a\x05", 2), LH_ERR_MALFORMED);
}

/* A thousand random changes of a message: decoded or refused, never a wild read (the sanitizer
 * build is where this earns its keep). */
static void random_damage_is_survived(void **state)
{
    uint8_t bytes[64];
    size_t size = 0;
    struct lh_prng random = {1};

    (void)state;
    for (size_t i = 0; i < FIELDS; i++) {
        memcpy(bytes + size, fields[i].bytes, fields[i].size);
        size += fields[i].size;
    }
    for (int i = 0; i < 20000; i++) {
        uint8_t damaged[64];
        memcpy(damaged, bytes, size);
        for (uint64_t n = 1 + lh_prng_below(&random, 4); n > 0; n--)
            damaged[lh_prng_below(&random, size)] = (uint8_t)lh_prng_next(&random);
        for (int m = LH_METHOD_NONE + 1; m < LH_METHOD_COUNT; m++) {
            int error =
                decode_error((enum lh_method)m, i % 2 == 0 ? LH_REQUEST : LH_REPLY, damaged, size);
            assert_true(error == LH_OK || error == LH_ERR_MALFORMED);
        }
    }
}

static void an_empty_message_is_all_defaults(void **state)
{
    ProtobufCMessage *message;
    struct lh_buf empty = {0}, bulk;

    (void)state;
    for (int m = LH_METHOD_NONE + 1; m < LH_METHOD_COUNT; m++) {
        for (int d = LH_REQUEST; d <= LH_REPLY; d++) {
            assert_int_equal(
                lh_wire_decode((enum lh_method)m, (enum lh_direction)d, &empty, &message, &bulk),
                LH_OK);
            assert_int_equal(bulk.size, 0);
            lh_wire_free(message);
        }
    }
    lh_wire_free(NULL);
}

/* The decoder would take what lies before the NUL for the whole, as here "/a" for the path. */
static void a_string_with_a_nul_in_it_is_malformed(void **state)
{
    static const uint8_t create[] = {0x0a, 4, '/', 'a', 0, 'b'};
    static const uint8_t nested[] = {
        0x1a, 6, 0x12, 4, '/', 'a', 0, 'b'}; /* CreateReply.info.path */
    ProtobufCMessage *message;
    struct lh_buf payload;

    (void)state;
    struct lh_buf b = lh_buf_copy(create, sizeof create);
    assert_int_equal(
        lh_wire_decode(LH_METHOD_CREATE, LH_REQUEST, &b, &message, &payload), LH_ERR_MALFORMED);
    lh_buf_clear(&b);
    b = lh_buf_copy(nested, sizeof nested);
    assert_int_equal(
        lh_wire_decode(LH_METHOD_CREATE, LH_REPLY, &b, &message, &payload), LH_ERR_MALFORMED);
    lh_buf_clear(&b);
}

/* Other implementations refuse a message whose strings are no UTF-8. */
static void replies_are_utf8_when_they_go_and_when_they_come(void **state)
{
    Leasehold__Member member = LEASEHOLD__MEMBER__INIT;
    Leasehold__Member *members[] = {&member};
    Leasehold__ChunkInfo chunk = LEASEHOLD__CHUNK_INFO__INIT;
    Leasehold__ChunkInfo *chunks[] = {&chunk};
    Leasehold__LocateReply m = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__StatRequest stat = LEASEHOLD__STAT_REQUEST__INIT;
    struct lh_effects fx = {0};
    struct lh_buf none = {0}, bytes;
    ProtobufCMessage *message;

    (void)state;
    member.address = "\xff:7";
    chunk.members = members;
    chunk.n_members = 1;
    m.chunks = chunks;
    m.n_chunks = 1;
    m.error_text = "cut within \xc3\xa4\xc3";
    lh_fx_send(&fx, LH_LINK_SERVED | 5, &m.base, NULL);
    Leasehold__LocateReply *sent =
        (Leasehold__LocateReply *)protobuf_c_message_unpack(m.base.descriptor, NULL,
            fx.items[0].header.size, lh_buf_slices(&fx.items[0].header)[0].data);
    assert_string_equal(sent->chunks[0]->members[0]->address, "?:7");
    assert_string_equal(sent->error_text, "cut within \xc3\xa4?");
    lh_wire_free(&sent->base);

    /* From a server that does not take such care. */
    bytes = lh_buf_copy("\x12\x03\xe2\x82!", 5);
    assert_int_equal(lh_wire_decode(LH_METHOD_LOCATE, LH_REPLY, &bytes, &message, &none), LH_OK);
    assert_string_equal(((Leasehold__LocateReply *)message)->error_text, "?\x3f!");
    lh_wire_free(message);
    lh_buf_clear(&bytes);

    /* A path is what somebody said, and is to be refused as that. */
    stat.path = "/\xff";
    lh_fx_send(&fx, 6, &stat.base, NULL);
    assert_int_equal(
        lh_wire_decode(LH_METHOD_STAT, LH_REQUEST, &fx.items[1].header, &message, &none), LH_OK);
    assert_string_equal(((Leasehold__StatRequest *)message)->path, "/\xff");
    lh_wire_free(message);
    lh_effects_deinit(&fx);
}

static void methods_are_found_by_their_paths(void **state)
{
    (void)state;
    for (int m = LH_METHOD_NONE + 1; m < LH_METHOD_COUNT; m++) {
        const struct lh_method_info *info = lh_method_info((enum lh_method)m);
        assert_int_equal(lh_method_by_path(info->path, strlen(info->path)),
            info->foreign ? LH_METHOD_NONE : (enum lh_method)m);
        assert_int_equal(lh_method_by_path(info->path, strlen(info->path) - 1), LH_METHOD_NONE);
        assert_non_null(info->request);
        assert_non_null(info->reply);
    }
    assert_int_equal(lh_method_by_path("/leasehold.Master/Nothing", 25), LH_METHOD_NONE);
    assert_int_equal(lh_method_by_path("", 0), LH_METHOD_NONE);
}

static void a_reply_is_sent_and_then_the_link_closed(void **state)
{
    Leasehold__RenameReply m = LEASEHOLD__RENAME_REPLY__INIT;
    struct lh_effects fx = {0};

    (void)state;
    m.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    lh_fx_reply(&fx, LH_LINK_SERVED | 5, &m.base, NULL);
    assert_int_equal(fx.count, 2);
    assert_int_equal(fx.items[0].kind, LH_FX_SEND);
    assert_int_equal(fx.items[1].kind, LH_FX_CLOSE);
    assert_int_equal(fx.items[1].error, LH_OK);
    assert_true(fx.items[0].link == fx.items[1].link);
    lh_effects_deinit(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_and_its_payload_come_back_as_they_were),
        cmocka_unit_test(only_one_of_the_pieces_is_the_last),
        cmocka_unit_test(the_wire_is_plain_protocol_buffers),
        cmocka_unit_test(the_payload_is_not_copied_in_or_out),
        cmocka_unit_test(the_payload_may_lie_anywhere_in_the_message),
        cmocka_unit_test(of_two_payloads_the_last_one_counts),
        cmocka_unit_test(fields_that_we_do_not_know_yet_are_skipped),
        cmocka_unit_test(a_message_cut_within_a_field_is_malformed),
        cmocka_unit_test(bytes_that_are_no_message_are_malformed),
        cmocka_unit_test(random_damage_is_survived),
        cmocka_unit_test(an_empty_message_is_all_defaults),
        cmocka_unit_test(a_string_with_a_nul_in_it_is_malformed),
        cmocka_unit_test(replies_are_utf8_when_they_go_and_when_they_come),
        cmocka_unit_test(methods_are_found_by_their_paths),
        cmocka_unit_test(a_reply_is_sent_and_then_the_link_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
