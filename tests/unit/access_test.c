/* Who may do what (access/access.h), as ACC says it. */
#include "access/access.h"

#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char text[LH_ACCESS_TEXT_MAX];
static struct lh_access *table;

static int set_up(void **state)
{
    (void)state;
    table = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lh_access_free(table);
    return 0;
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void read_table(const char *lines)
{
    char why[256];

    assert_int_equal(lh_access_parse(lines, strlen(lines), &table, why, sizeof why), LH_OK);
}

static void table_is_wrong(const char *lines, const char *because)
{
    char why[256] = "";
    struct lh_access *none = NULL;

    assert_int_equal(
        lh_access_parse(lines, strlen(lines), &none, why, sizeof why), LH_ERR_MALFORMED);
    assert_null(none);
    if (strstr(why, because) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, because);
}

static bool may(const char *identity, enum lh_method method)
{
    return lh_access_call(table, identity, method, NULL, NULL, text) == LH_OK;
}

static bool may_create(const char *identity, const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    return lh_access_call(table, identity, LH_METHOD_CREATE, &r.base, NULL, text) == LH_OK;
}

static bool may_list(const char *identity, const char *prefix)
{
    Leasehold__ListRequest r = LEASEHOLD__LIST_REQUEST__INIT;

    r.prefix = (char *)(uintptr_t)prefix;
    return lh_access_call(table, identity, LH_METHOD_LIST, &r.base, NULL, text) == LH_OK;
}

#define READER "leasehold://reader/web"
#define WRITER "leasehold://writer/ingest"
#define ADMIN  "leasehold://admin/eve"
#define SERVER "leasehold://chunkserver/cs1"
#define MASTER "leasehold://master/m1"

/* ---- Roles. */

static void without_certificates_everybody_may_everything(void **state)
{
    (void)state;
    for (int method = LH_METHOD_NONE + 1; method < LH_METHOD_COUNT; method++) {
        assert_true(may("", (enum lh_method)method));
        assert_true(may(NULL, (enum lh_method)method));
    }
    assert_int_equal(lh_access_server(NULL, "", "cs1", text), LH_OK);
    assert_int_equal(lh_access_name(NULL, NULL, LH_RIGHT_ADMIN, "/", true, text), LH_OK);
}

/* Each right, and who has it. */
static void a_role_has_its_rights_and_no_other(void **state)
{
    static const struct {
        enum lh_right right;
        bool reader, writer, admin, server, master;
    } rows[] = {
        {LH_RIGHT_LOOK, true, true, true, true, true},
        {LH_RIGHT_READ, true, true, true, false, false},
        {LH_RIGHT_WRITE, false, true, true, false, false},
        {LH_RIGHT_ADMIN, false, false, true, false, false},
        {LH_RIGHT_FETCH, true, true, true, true, false},
        {LH_RIGHT_SERVE, false, false, false, true, false},
    };
    struct lh_party p;

    (void)state;
    assert_int_equal(sizeof rows / sizeof rows[0], LH_RIGHTS);
    for (size_t i = 0; i < LH_RIGHTS; i++) {
        lh_access_party(NULL, READER, &p);
        assert_int_equal(lh_party_may(&p, rows[i].right), rows[i].reader);
        lh_access_party(NULL, WRITER, &p);
        assert_int_equal(lh_party_may(&p, rows[i].right), rows[i].writer);
        lh_access_party(NULL, ADMIN, &p);
        assert_int_equal(lh_party_may(&p, rows[i].right), rows[i].admin);
        lh_access_party(NULL, SERVER, &p);
        assert_int_equal(lh_party_may(&p, rows[i].right), rows[i].server);
        lh_access_party(NULL, MASTER, &p);
        assert_int_equal(lh_party_may(&p, rows[i].right), rows[i].master);
        lh_access_party(NULL, "CN=somebody", &p);
        assert_false(lh_party_may(&p, rows[i].right));
    }
}

static void every_method_that_is_served_needs_something(void **state)
{
    (void)state;
    for (int method = LH_METHOD_NONE + 1; method < LH_METHOD_COUNT; method++) {
        bool served = !lh_method_info((enum lh_method)method)->foreign;
        assert_int_equal(lh_access_needs((enum lh_method)method) != LH_RIGHTS, served);
        assert_int_equal(may("CN=somebody", (enum lh_method)method), !served);
    }
}

/* The table names fields of the messages: a request of each method is looked at, empty. */
static void the_fields_of_the_table_are_there(void **state)
{
    (void)state;
    for (int method = LH_METHOD_NONE + 1; method < LH_METHOD_COUNT; method++) {
        struct lh_buf bytes = {0}, payload;
        ProtobufCMessage *request;
        if (lh_method_info((enum lh_method)method)->foreign)
            continue;
        assert_int_equal(
            lh_wire_decode((enum lh_method)method, LH_REQUEST, &bytes, &request, &payload), LH_OK);
        bool server = lh_access_needs((enum lh_method)method) == LH_RIGHT_SERVE;
        assert_int_equal(lh_access_call(table, server ? SERVER : ADMIN, (enum lh_method)method,
                             request, NULL, text),
            LH_OK);
        assert_int_equal(
            lh_access_call(table, "CN=somebody", (enum lh_method)method, request, NULL, text),
            LH_ERR_PERMISSION);
        lh_wire_free(request);
    }
}

static void a_role_that_is_none_may_nothing(void **state)
{
    static const char *const odd[] = {"leasehold://", "leasehold://writer", "leasehold://writer/",
        "leasehold:///x", "leasehold://root/x", "leasehold://none/x", "Leasehold://writer/x",
        "leasehold://writers/x", "x", " "};

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        assert_false(may(odd[i], LH_METHOD_MASTERS));
}

static void a_refusal_says_who_lacks_what(void **state)
{
    (void)state;
    assert_false(may(READER, LH_METHOD_REMOVE));
    assert_string_equal(text,
        READER " has the role reader and may not write (/leasehold.Master/Remove): that needs the "
               "role writer or admin");
    read_table(WRITER " writer /logs/");
    assert_false(may_create(WRITER, "/other"));
    assert_string_equal(text,
        WRITER " does not reach \"/other\": none of its prefixes in the table of roles covers it");
}

static void a_weaker_request_needs_less(void **state)
{
    Leasehold__GarbageRequest g = LEASEHOLD__GARBAGE_REQUEST__INIT;
    Leasehold__OpenTailRequest t = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    assert_int_equal(lh_access_call(NULL, READER, LH_METHOD_GARBAGE, &g.base, NULL, text), LH_OK);
    g.resume = true;
    assert_int_equal(
        lh_access_call(NULL, READER, LH_METHOD_GARBAGE, &g.base, NULL, text), LH_ERR_PERMISSION);
    t.path = "/a";
    assert_int_equal(
        lh_access_call(NULL, READER, LH_METHOD_OPEN_TAIL, &t.base, NULL, text), LH_ERR_PERMISSION);
    t.reads = true;
    assert_int_equal(lh_access_call(NULL, READER, LH_METHOD_OPEN_TAIL, &t.base, NULL, text), LH_OK);
}

static const char *secret_path(const void *core, uint64_t number)
{
    (void)core;
    return number == 404 ? NULL : "/secret/s";
}

/* ACC-3: whoever asks by number is not told the path. */
static void a_refusal_of_a_number_names_no_path(void **state)
{
    const struct lh_access_paths paths = {.of_file = secret_path, .of_chunk = secret_path};
    Leasehold__LocateRequest locate = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__ExplainRequest explain = LEASEHOLD__EXPLAIN_REQUEST__INIT;
    Leasehold__ListEventsRequest events = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;
    Leasehold__RestoreRequest restore = LEASEHOLD__RESTORE_REQUEST__INIT;
    Leasehold__RemoveRequest remove = LEASEHOLD__REMOVE_REQUEST__INIT;
    const struct {
        enum lh_method method;
        ProtobufCMessage *request;
        const char *named;
    } rows[] = {
        {LH_METHOD_LOCATE, &locate.base, "file 7:"},
        {LH_METHOD_EXPLAIN, &explain.base, "chunk 7:"},
        {LH_METHOD_LIST_EVENTS, &events.base, "chunk 7:"},
        {LH_METHOD_RESTORE, &restore.base, "file 7:"},
        {LH_METHOD_REMOVE, &remove.base, "file 7:"},
    };

    (void)state;
    read_table(WRITER " writer /logs/");
    locate.file = restore.file = remove.file = explain.chunk = events.chunk = 7;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(
            lh_access_call(table, WRITER, rows[i].method, rows[i].request, &paths, text),
            LH_ERR_PERMISSION);
        assert_null(strstr(text, "secret"));
        if (strstr(text, rows[i].named) == NULL)
            fail_msg("\"%s\" does not say %s", text, rows[i].named);
    }
}

static void a_lock_that_a_tail_is_opened_with_is_reached_too(void **state)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    read_table(WRITER " writer /logs/");
    r.path = "/logs/a";
    r.lock_name = "/logs/lock";
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_OPEN_TAIL, &r.base, NULL, text), LH_OK);
    r.lock_name = "/secret/lock";
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_OPEN_TAIL, &r.base, NULL, text), LH_ERR_PERMISSION);
}

static void a_rule_concerns_who_reaches_a_name_that_it_is_for(void **state)
{
    (void)state;
    read_table(WRITER " writer /logs/ /queue\n");
    assert_true(lh_access_concerns(table, WRITER, "/"));
    assert_true(lh_access_concerns(table, WRITER, "/lo"));
    assert_true(lh_access_concerns(table, WRITER, "/logs/"));
    assert_true(lh_access_concerns(table, WRITER, "/logs/a"));
    assert_false(lh_access_concerns(table, WRITER, "/secret/"));
    assert_false(lh_access_concerns(table, WRITER, "/logs0"));
    assert_true(lh_access_concerns(table, ADMIN, "/secret/"));
    assert_true(lh_access_concerns(table, "", "/secret/"));
}

/* ---- Servers. */

static void a_chunkserver_has_one_name(void **state)
{
    (void)state;
    read_table("\"CN=store 2\" chunkserver cs2\nCN=nameless chunkserver\n");
    assert_int_equal(lh_access_server(table, SERVER, "cs1", text), LH_OK);
    assert_int_equal(lh_access_server(table, SERVER, "cs2", text), LH_ERR_PERMISSION);
    assert_non_null(strstr(text, "--server-id"));
    assert_int_equal(lh_access_server(table, "CN=store 2", "cs2", text), LH_OK);
    assert_int_equal(lh_access_server(table, "CN=store 2", "cs1", text), LH_ERR_PERMISSION);
    assert_int_equal(lh_access_server(table, "CN=nameless", "cs1", text), LH_ERR_PERMISSION);
    assert_int_equal(lh_access_server(table, ADMIN, "eve", text), LH_ERR_PERMISSION);
}

/* ---- Paths. */

static void prefixes_bound_what_is_reached(void **state)
{
    (void)state;
    read_table(WRITER " writer /logs/ /queue\n");
    assert_true(may_create(WRITER, "/logs/a"));
    assert_true(may_create(WRITER, "/logs/a/b"));
    assert_false(may_create(WRITER, "/logs"));
    assert_false(may_create(WRITER, "/logsx"));
    assert_true(may_create(WRITER, "/queue"));
    assert_true(may_create(WRITER, "/queue/a"));
    assert_false(may_create(WRITER, "/queues"));
    assert_true(may_create("leasehold://writer/other", "/anything"));

    assert_true(may_list(WRITER, "/logs/"));
    assert_true(may_list(WRITER, "/logs/we"));
    assert_false(may_list(WRITER, "/logs"));
    assert_false(may_list(WRITER, "/"));
    assert_false(may_list(WRITER, ""));
    assert_false(may_list(WRITER, "/queue")); /* "/queues" begins so, too */
    assert_true(may_list(WRITER, "/queue/"));
}

static void the_root_is_everything(void **state)
{
    Leasehold__ListLeasesRequest r = LEASEHOLD__LIST_LEASES_REQUEST__INIT;

    (void)state;
    read_table(READER " reader /\n" WRITER " writer /logs/\n");
    assert_true(may_list(READER, ""));
    assert_true(may_list(READER, "/x"));
    assert_int_equal(
        lh_access_call(table, READER, LH_METHOD_LIST_LEASES, &r.base, NULL, text), LH_OK);
    assert_int_equal(lh_access_call(table, WRITER, LH_METHOD_LIST_LEASES, &r.base, NULL, text),
        LH_ERR_PERMISSION);
}

static void both_names_of_a_request_are_looked_at(void **state)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;
    Leasehold__ChangeRequest c = LEASEHOLD__CHANGE_REQUEST__INIT;

    (void)state;
    read_table(WRITER " writer /mine/\n");
    r.from = "/mine/a";
    r.to = "/mine/b";
    assert_int_equal(lh_access_call(table, WRITER, LH_METHOD_RENAME, &r.base, NULL, text), LH_OK);
    r.to = "/theirs/b";
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_RENAME, &r.base, NULL, text), LH_ERR_PERMISSION);
    r.from = "/theirs/b";
    r.to = "/mine/a";
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_RENAME, &r.base, NULL, text), LH_ERR_PERMISSION);
    c.name = "/mine/v";
    assert_int_equal(lh_access_call(table, WRITER, LH_METHOD_CHANGE, &c.base, NULL, text), LH_OK);
    c.lock = "/theirs/l";
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_CHANGE, &c.base, NULL, text), LH_ERR_PERMISSION);
}

static const char *path_of(const void *core, uint64_t number)
{
    (void)core;
    return number == 1 ? "/mine/a" : number == 2 ? "/theirs/a" : NULL;
}

/* A file is reached by its number as by its path, and its path in the request says nothing then. */
static void a_number_hides_no_path(void **state)
{
    const struct lh_access_paths paths = {.of_file = path_of, .of_chunk = path_of};
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__ExplainRequest e = LEASEHOLD__EXPLAIN_REQUEST__INIT;

    (void)state;
    read_table(WRITER " writer /mine/\n");
    r.path = "/mine/a";
    r.file = 2;
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_REMOVE, &r.base, &paths, text), LH_ERR_PERMISSION);
    r.path = "/theirs/a";
    r.file = 1;
    assert_int_equal(lh_access_call(table, WRITER, LH_METHOD_REMOVE, &r.base, &paths, text), LH_OK);
    r.file = 3; /* there is none: whoever carries it out says so */
    assert_int_equal(lh_access_call(table, WRITER, LH_METHOD_REMOVE, &r.base, &paths, text), LH_OK);
    e.chunk = 2;
    assert_int_equal(
        lh_access_call(table, WRITER, LH_METHOD_EXPLAIN, &e.base, &paths, text), LH_ERR_PERMISSION);
}

/* ---- The table's form. */

static void a_table_has_comments_quotes_and_empty_lines(void **state)
{
    (void)state;
    read_table("# who\n\n  \t\r\n" READER "\tnone # not any more\n"
               "\"CN=build host,O=Example\"   writer  \"/with space/\"  # and a word\r\n"
               "CN=last admin");
    assert_false(may(READER, LH_METHOD_MASTERS));
    assert_true(may_create("CN=build host,O=Example", "/with space/x"));
    assert_false(may_create("CN=build host,O=Example", "/with"));
    assert_true(may("CN=last", LH_METHOD_SET_SERVER));
    assert_false(may("CN=build host", LH_METHOD_MASTERS));
}

static void what_is_wrong_with_a_table_is_said(void **state)
{
    (void)state;
    table_is_wrong("CN=x\n", "line 1: the role is missing");
    table_is_wrong("\n\nCN=x root\n", "line 3: the role is none of");
    table_is_wrong("CN=x reader logs/\n", "line 1: a prefix does not begin");
    table_is_wrong("CN=x admin /\n", "only readers and writers have prefixes");
    table_is_wrong("CN=x chunkserver a b\n", "one --server-id");
    table_is_wrong("\"CN=x reader\n", "a quotation mark");
    table_is_wrong("\"\" reader\n", "a word is empty");
    table_is_wrong("CN=x reader\nCN=y reader\nCN=x writer\n", "CN=x has two lines");
}

static bool same_in(const char *lines, const char *identity)
{
    struct lh_access *other = NULL;
    char why[256];

    assert_int_equal(lh_access_parse(lines, strlen(lines), &other, why, sizeof why), LH_OK);
    bool same = lh_access_same(table, other, identity);
    lh_access_free(other);
    return same;
}

static void two_tables_are_compared_for_one_identity(void **state)
{
    (void)state;
    read_table("CN=a writer /x/ /y/\nCN=b reader\n");
    assert_true(same_in("CN=c admin\nCN=a writer /x/ /y/ # moved\n", "CN=a"));
    assert_true(same_in("", "CN=nobody"));
    assert_false(same_in("CN=a writer /x/ /y/\n", "CN=b"));
    assert_false(same_in("CN=nobody none\n", "CN=nobody"));
    assert_false(same_in("CN=a reader /x/ /y/\n", "CN=a"));
    assert_false(same_in("CN=a writer /x/\n", "CN=a"));
    assert_false(same_in("CN=a writer /x/ /z/\n", "CN=a"));
}

static void a_table_that_is_swapped_counts_from_the_next_call(void **state)
{
    const char *lines = "CN=a reader\n";
    struct lh_access *other = NULL;
    char why[256];

    (void)state;
    read_table("CN=a writer\n");
    assert_true(may("CN=a", LH_METHOD_APPEND));
    assert_int_equal(lh_access_parse(lines, strlen(lines), &other, why, sizeof why), LH_OK);
    lh_access_swap(table, other);
    assert_false(may("CN=a", LH_METHOD_APPEND));
    assert_true(may("CN=a", LH_METHOD_READ));
    lh_access_free(other); /* what was said before */
    assert_true(may("CN=a", LH_METHOD_READ));
}

/* ---- Who answers (ACC-8). */

static bool answers(const char *identity, enum lh_server_kind kind, const char *name, bool apart)
{
    text[0] = 0;
    return lh_access_answers(table, identity, kind, name, apart, text) == LH_OK;
}

static void who_answers_has_the_role_that_is_meant(void **state)
{
    (void)state;
    read_table("\"CN=store 7\" chunkserver cs7\n\"CN=m\" master\n\"CN=kv\" etcd\n"
               "leasehold://master/former none\nleasehold://writer/now chunkserver cs9\n");
    /* Without certificates anybody. */
    assert_true(answers("", LH_SERVER_MASTER, NULL, false));
    assert_true(answers("", LH_SERVER_CHUNKSERVER, "cs1", false));

    assert_true(answers(MASTER, LH_SERVER_MASTER, NULL, false));
    assert_false(answers(SERVER, LH_SERVER_MASTER, NULL, false));
    assert_non_null(strstr(text, "the role chunkserver; the role master is meant"));
    assert_false(answers(ADMIN, LH_SERVER_MASTER, NULL, false));
    assert_false(answers("leasehold://master/former", LH_SERVER_MASTER, NULL, false));
    assert_true(answers("CN=m", LH_SERVER_MASTER, NULL, false));
    assert_false(answers("CN=n", LH_SERVER_MASTER, NULL, false));

    assert_true(answers(SERVER, LH_SERVER_CHUNKSERVER, "cs1", false));
    assert_true(answers(SERVER, LH_SERVER_CHUNKSERVER, NULL, false));
    assert_false(answers(SERVER, LH_SERVER_CHUNKSERVER, "cs", false));
    assert_non_null(strstr(text, "the role chunkserver and the name cs is meant"));
    assert_false(answers(MASTER, LH_SERVER_CHUNKSERVER, "m1", false));
    assert_true(answers("CN=store 7", LH_SERVER_CHUNKSERVER, "cs7", false));
    assert_false(answers("CN=store 7", LH_SERVER_CHUNKSERVER, "cs1", false));
    assert_true(answers("leasehold://writer/now", LH_SERVER_CHUNKSERVER, "cs9", false));
}

/* Its authority may be one that signs for nobody else. */
static void etcd_answers_with_its_role_or_is_of_its_own_authority(void **state)
{
    (void)state;
    read_table("\"CN=kv\" etcd\n\"CN=w\" writer\n");
    for (int apart = 0; apart < 2; apart++) {
        assert_true(answers("leasehold://etcd/e1", LH_SERVER_ETCD, NULL, apart));
        assert_true(answers("CN=kv", LH_SERVER_ETCD, NULL, apart));
        assert_false(answers(SERVER, LH_SERVER_ETCD, NULL, apart));
        assert_false(answers(MASTER, LH_SERVER_ETCD, NULL, apart));
        assert_false(answers("CN=w", LH_SERVER_ETCD, NULL, apart));
        assert_int_equal(answers("CN=member", LH_SERVER_ETCD, NULL, apart), apart);
        assert_false(answers("CN=member", LH_SERVER_MASTER, NULL, apart));
        assert_false(answers("CN=member", LH_SERVER_CHUNKSERVER, NULL, apart));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(without_certificates_everybody_may_everything),
        STORY(a_role_has_its_rights_and_no_other),
        STORY(every_method_that_is_served_needs_something),
        STORY(the_fields_of_the_table_are_there),
        STORY(a_role_that_is_none_may_nothing),
        STORY(a_refusal_says_who_lacks_what),
        STORY(a_weaker_request_needs_less),
        STORY(a_refusal_of_a_number_names_no_path),
        STORY(a_lock_that_a_tail_is_opened_with_is_reached_too),
        STORY(a_rule_concerns_who_reaches_a_name_that_it_is_for),
        STORY(a_chunkserver_has_one_name),
        STORY(prefixes_bound_what_is_reached),
        STORY(the_root_is_everything),
        STORY(both_names_of_a_request_are_looked_at),
        STORY(a_number_hides_no_path),
        STORY(a_table_has_comments_quotes_and_empty_lines),
        STORY(what_is_wrong_with_a_table_is_said),
        STORY(two_tables_are_compared_for_one_identity),
        STORY(who_answers_has_the_role_that_is_meant),
        STORY(etcd_answers_with_its_role_or_is_of_its_own_authority),
        STORY(a_table_that_is_swapped_counts_from_the_next_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
