/* Messages as JSON, requests from parameters, and addresses taken apart. */
#include "master/page/json.h"
#include "master/page/uri.h"
#include "proto/leasehold.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *json_of(const ProtobufCMessage *message)
{
    struct lh_json json = {0};

    lh_json_message(&json, message);
    char *text = malloc(json.size + 1);
    assert_non_null(text);
    memcpy(text, json.bytes, json.size);
    text[json.size] = '\0';
    lh_json_deinit(&json);
    return text;
}

static void assert_json(const ProtobufCMessage *message, const char *wanted)
{
    char *text = json_of(message);

    assert_string_equal(text, wanted);
    free(text);
}

static void scalars_and_what_is_absent(void **state)
{
    Leasehold__LeaseEvent e = LEASEHOLD__LEASE_EVENT__INIT;
    Leasehold__Member member = LEASEHOLD__MEMBER__INIT, *members[] = {&member, &member};
    Leasehold__ChunkInfo c = LEASEHOLD__CHUNK_INFO__INIT;

    (void)state;
    e.version = UINT64_MAX;
    e.kind = LEASEHOLD__LEASE_EVENT_KIND__LEASE_RENEWED;
    e.holder = (char *)(uintptr_t) "cs\"1\\\n\x01\xff";
    assert_json(&e.base,
        "{\"kind\":\"LEASE_RENEWED\",\"ago_ms\":\"0\",\"holder\":\"cs\\\"1\\\\\\u000a\\u0001?\","
        "\"session\":\"\",\"version\":\"18446744073709551615\",\"left_ms\":\"0\","
        "\"count\":\"0\",\"why\":\"\"}");
    e.kind = (Leasehold__LeaseEventKind)99; /* of a newer schema */
    char *text = json_of(&e.base);
    assert_non_null(strstr(text, "\"kind\":99,"));
    free(text);
    member.server_id = (char *)(uintptr_t) "a";
    c.n_members = 2;
    c.members = members;
    text = json_of(&c.base);
    assert_non_null(strstr(text,
        "\"members\":[{\"server_id\":\"a\",\"address\":\"\",\"joining\":false},{\"server_id\""));
    free(text);
    Leasehold__OpenTailReply tail = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    text = json_of(&tail.base);
    assert_null(strstr(text, "primary")); /* a message that is not there */
    free(text);
}

/* A capability opens the chunk to whoever has it. */
static void secrets_are_not_there(void **state)
{
    Leasehold__ChunkInfo with = LEASEHOLD__CHUNK_INFO__INIT;

    (void)state;
    with.capability = (ProtobufCBinaryData){6, (uint8_t *)(uintptr_t) "secret"};
    char *text = json_of(&with.base);
    assert_null(strstr(text, "capability"));
    free(text);
}

static void bytes_are_base64_and_of_a_oneof_one_is_there(void **state)
{
    static const char *const wanted[] = {"\"\"", "\"AA==\"", "\"AAH/\"", "\"AAH/fg==\""};
    static const size_t sizes[] = {0, 1, 3, 4};
    uint8_t bytes[] = {0, 1, 255, 126};
    Leasehold__ListSessionsRequest r = LEASEHOLD__LIST_SESSIONS_REQUEST__INIT;
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Withdraw withdraw = LEASEHOLD__WITHDRAW__INIT;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        r.after = (ProtobufCBinaryData){.len = sizes[i], .data = bytes};
        char *text = json_of(&r.base);
        assert_non_null(strstr(text, wanted[i]));
        free(text);
    }
    assert_json(&op.base, "{}");
    op.op_case = LEASEHOLD__LEASE_OP__OP_WITHDRAW;
    op.withdraw = &withdraw;
    assert_json(&op.base, "{\"withdraw\":{\"id\":\"0\"}}");
}

static void parameters_set_fields(void **state)
{
    char why[200];
    ProtobufCMessage *m = calloc(1, sizeof(Leasehold__ListNamesRequest));

    (void)state;
    assert_non_null(m);
    leasehold__list_names_request__init((Leasehold__ListNamesRequest *)m);
    assert_true(lh_json_set(m, "prefix", "/a \xc3\xa4", why, sizeof why));
    assert_true(lh_json_set(m, "limit", "4294967295", why, sizeof why));
    assert_true(lh_json_set(m, "exact", "true", why, sizeof why));
    static const char *const wrong[][2] = {{"limit", "4294967296"}, {"limit", "-1"}, {"limit", ""},
        {"limit", " 1"}, {"limit", "1x"}, {"exact", "yes"}, {"nothing", "1"}, {"", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(lh_json_set(m, wrong[i][0], wrong[i][1], why, sizeof why));
    const Leasehold__ListNamesRequest *r = (const Leasehold__ListNamesRequest *)m;
    assert_string_equal(r->prefix, "/a \xc3\xa4");
    assert_int_equal(r->limit, 4294967295);
    protobuf_c_message_free_unpacked(m, NULL);

    m = calloc(1, sizeof(Leasehold__ListSessionsRequest));
    assert_non_null(m);
    leasehold__list_sessions_request__init((Leasehold__ListSessionsRequest *)m);
    assert_false(lh_json_set(m, "after", "0", why, sizeof why));
    assert_false(lh_json_set(m, "after", "0g", why, sizeof why));
    assert_true(lh_json_set(m, "after", "00ff", why, sizeof why));
    assert_int_equal(((Leasehold__ListSessionsRequest *)m)->after.data[1], 255);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void addresses(void **state)
{
    static const char *const wrong[] = {"/a?", "/a?x", "/a?x=1&", "/a?x=1&x=2", "/a?x=%", "/a?x=%4",
        "/a?x=%4g", "/a?x=%00", "/a?x=%ff", "/a?=1", "/a?X=1", "/a?a=&b=&c=&d=&e=&f=&g=&h=&i="};
    struct lh_uri uri;

    (void)state;
    assert_true(lh_uri_parse(&uri, "/api/files?prefix=%2Fa%20%C3%A4+b&limit=3"));
    assert_string_equal(uri.path, "/api/files");
    assert_int_equal(uri.count, 2);
    assert_string_equal(uri.parameters[0].value, "/a \xc3\xa4+b");
    assert_string_equal(uri.parameters[1].name, "limit");
    lh_uri_deinit(&uri);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(lh_uri_parse(&uri, wrong[i]));
    char *large = malloc(LH_URI_BYTES_MAX + 2);
    assert_non_null(large);
    memset(large, 'a', LH_URI_BYTES_MAX + 1);
    large[LH_URI_BYTES_MAX + 1] = '\0';
    assert_false(lh_uri_parse(&uri, large));
    large[LH_URI_BYTES_MAX] = '\0';
    assert_true(lh_uri_parse(&uri, large));
    lh_uri_deinit(&uri);
    free(large);
}

static void hosts(void **state)
{
    static const char *const ours[] = {"127.0.0.1", "127.0.0.1:7480", "10.1.2.3", "[::1]",
        "[fe80::1]:80", "localhost", "LocalHost:7480", "page.example", "PAGE.example:1", "b"};
    static const char *const others[] = {"", ":", ":80", "evil.example", "127.0.0.1.evil.example",
        "127.0.0.1:80:90", "localhost.evil.example", "localhost:x", "localhost:123456", "[::1",
        "[::1]x", "::1", "[127.0.0.1]", "[localhost]", "page.example,b", "page", "1.2.3",
        "age.example"};

    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_true(lh_uri_is_host(ours[i], "page.example,b"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(lh_uri_is_host(others[i], "page.example,b"));
    assert_false(lh_uri_is_host("page.example", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_and_what_is_absent),
        cmocka_unit_test(secrets_are_not_there),
        cmocka_unit_test(bytes_are_base64_and_of_a_oneof_one_is_there),
        cmocka_unit_test(parameters_set_fields),
        cmocka_unit_test(addresses),
        cmocka_unit_test(hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
