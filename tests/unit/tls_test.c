/* TLS: the files and what is wrong with them, what renews them, and links between two ends that
 * show certificates. */
#include "access/access.h"
#include "base/alloc.h"
#include "client/command/authority.h"
#include "grpc/rpc.h"
#include "proto/codec.h"
#include "runtime/tls_options.h"
#include "runtime/transport.h"
#include "wire/sockets/sockets.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY lh_seconds(86400)

/* ---- an authority, and another one ---- */

static char folder[200];

static const char *in(const char *name)
{
    static char paths[16][300];
    static unsigned next;
    char *path = paths[next++ % 16];

    snprintf(path, 300, "%s/%s", folder, name);
    return path;
}

static void issue_for(const char *authority, const char *who, const char *to, const char *host,
    struct lh_duration valid)
{
    char why[700] = "";
    const struct lh_authority_wish wish = {
        .who = who, .hosts = &host, .host_count = host == NULL ? 0 : 1, .valid = valid};

    if (lh_authority_issue(in(authority), &wish, in(to), true, why, sizeof why) != LH_OK)
        fail_msg("%s", why);
}

static void issue(const char *who, const char *to)
{
    issue_for("ca", who, to, "127.0.0.1", DAY);
}

static int make_authorities(void **state)
{
    char why[700];

    (void)state;
    const char *base = getenv("TEST_TMPDIR");
    snprintf(folder, sizeof folder, "%s/tls_test.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL)
        return 1;
    for (int i = 0; i < 2; i++)
        if (lh_authority_make(in(i == 0 ? "ca" : "other"), DAY, false, why, sizeof why) != LH_OK)
            return 1;
    issue("master/m", "m");
    issue("admin/ann", "ann");
    issue_for("other", "admin/eve", "eve", NULL, DAY);
    return 0;
}

static struct lh_tls_files files_of(const char *node)
{
    char name[3][100];

    snprintf(name[0], 100, "%s/ca.pem", node);
    snprintf(name[1], 100, "%s/cert.pem", node);
    snprintf(name[2], 100, "%s/key.pem", node);
    return (struct lh_tls_files){in(name[0]), in(name[1]), in(name[2])};
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- files ---- */

static void expect_unusable(struct lh_tls_files files, enum lh_tls_use use, const char *sentence)
{
    struct lh_tls *tls;
    char why[700] = "";

    assert_int_equal(
        lh_tls_open(&files, use, NULL, &tls, why, sizeof why), LH_ERR_INVALID_ARGUMENT);
    if (strstr(why, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, why);
}

static void what_is_wrong_with_a_file_is_said_at_the_start(void **state)
{
    struct lh_tls_files good = files_of("m"), ann = files_of("ann"), bad;

    (void)state;
    write_text(in("garbage"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    bad = good;
    bad.key_file = "/nowhere/key.pem";
    expect_unusable(bad, LH_TLS_SERVES, "cannot open /nowhere/key.pem: No such file");
    bad = good;
    bad.cert_file = in("garbage");
    expect_unusable(
        bad, LH_TLS_SERVES, "garbage has no certificate in PEM, or one that is damaged");
    bad = good;
    bad.key_file = in("garbage");
    expect_unusable(bad, LH_TLS_SERVES, "garbage has no private key in PEM");
    bad = good;
    bad.key_file = ann.key_file;
    expect_unusable(bad, LH_TLS_SERVES, "is not the key of the certificate in");
    bad = good;
    bad.ca_file = in("other/ca.pem");
    expect_unusable(bad, LH_TLS_SERVES, "was not signed by an authority in");
    bad = good;
    bad.key_file = NULL;
    expect_unusable(bad, LH_TLS_CALLS, "TLS needs three files");
    expect_unusable(ann, LH_TLS_SERVES, "is not for servers");
    issue_for("ca", "admin/late", "late", NULL, lh_seconds(1));
    pause_ms(1100);
    expect_unusable(files_of("late"), LH_TLS_CALLS, "has expired: it was valid until");
}

static void the_files_of_etcd_need_not_be_of_its_authority(void **state)
{
    struct lh_tls_files files = files_of("eve");
    struct lh_tls *tls;
    char why[700];

    (void)state;
    files.ca_file = in("ca/ca.pem");
    assert_int_equal(lh_tls_open(&files, LH_TLS_FOREIGN, NULL, &tls, why, sizeof why), LH_OK);
    lh_tls_unref(tls);
    files = (struct lh_tls_files){.ca_file = in("ca/ca.pem")};
    assert_int_equal(lh_tls_open(&files, LH_TLS_FOREIGN, NULL, &tls, why, sizeof why), LH_OK);
    struct lh_tls_figures f = {0};
    lh_tls_figures(tls, &f);
    assert_int_equal(f.not_after_unix, 0);
    lh_tls_unref(tls);
}

static void options_name_a_directory_or_files(void **state)
{
    struct lh_tls_options o = {.dir = "/d", .files = {.key_file = "/k"}};
    char why[300];

    (void)state;
    assert_true(lh_tls_options_take(&o, why, sizeof why));
    assert_string_equal(o.files.ca_file, "/d/ca.pem");
    assert_string_equal(o.files.cert_file, "/d/cert.pem");
    assert_string_equal(o.files.key_file, "/k");
    lh_tls_options_free(&o);

    o = (struct lh_tls_options){.dir = "", .files = {.ca_file = ""}};
    assert_true(lh_tls_options_take(&o, why, sizeof why));
    assert_null(o.files.ca_file);
    assert_null(o.files.cert_file);

    o = (struct lh_tls_options){.files = {"/ca", NULL, "/k"}};
    assert_false(lh_tls_options_take(&o, why, sizeof why));
    assert_non_null(strstr(why, "--tls-cert is missing"));
}

/* ---- the authority ---- */

static void expect_not_issued(struct lh_authority_wish wish, int error, const char *sentence)
{
    char why[700] = "";

    wish.valid = DAY;
    assert_int_equal(lh_authority_issue(in("ca"), &wish, in("m"), false, why, sizeof why), error);
    if (strstr(why, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, why);
}

static void an_authority_issues_only_what_makes_sense(void **state)
{
    const char *const good = "127.0.0.1", *const port = "127.0.0.1:7400",
                      *const comma = "a,IP:1.1.1.1", *const digits = "10.0.0.999";

    (void)state;
    expect_not_issued(
        (struct lh_authority_wish){.who = "master"}, LH_ERR_INVALID_ARGUMENT, "is not ROLE/NAME");
    expect_not_issued((struct lh_authority_wish){.who = "master/a/b"}, LH_ERR_INVALID_ARGUMENT,
        "is not ROLE/NAME");
    expect_not_issued(
        (struct lh_authority_wish){.who = "admin/.."}, LH_ERR_INVALID_ARGUMENT, "is not ROLE/NAME");
    expect_not_issued((struct lh_authority_wish){.who = "king/a"}, LH_ERR_INVALID_ARGUMENT,
        "\"king\" is no role");
    expect_not_issued(
        (struct lh_authority_wish){.who = "master/m"}, LH_ERR_INVALID_ARGUMENT, "give --host");
    expect_not_issued(
        (struct lh_authority_wish){.who = "master/m", .hosts = &good, .host_count = 1},
        LH_ERR_ALREADY_EXISTS, "--force replaces them");
    char why[700];
    const struct lh_authority_wish bad[] = {
        {.who = "master/x", .hosts = &port, .host_count = 1, .valid = DAY},
        {.who = "master/x", .hosts = &comma, .host_count = 1, .valid = DAY},
        {.who = "master/x", .hosts = &digits, .host_count = 1, .valid = DAY}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lh_authority_issue(in("ca"), &bad[i], in("x"), false, why, sizeof why),
            LH_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(why, "is no host"));
    }
    assert_int_equal(access(in("x"), F_OK), -1);
    assert_int_equal(
        lh_authority_make(in("ca"), DAY, false, why, sizeof why), LH_ERR_ALREADY_EXISTS);
}

static void what_was_issued_can_be_shown_and_its_key_is_private(void **state)
{
    struct lh_certificate_facts f;
    struct stat st;
    char why[700];

    (void)state;
    assert_int_equal(lh_certificate_read(in("m/cert.pem"), &f, why, sizeof why), LH_OK);
    assert_string_equal(f.identity, "leasehold://master/m");
    assert_string_equal(f.hosts, "127.0.0.1");
    assert_string_equal(f.subject, "CN=master/m");
    assert_false(f.authority);
    assert_true(f.until_unix > time(NULL) && f.until_unix <= time(NULL) + 86400);
    lh_certificate_facts_deinit(&f);
    assert_int_equal(stat(in("m/key.pem"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(in("ca/ca.key.pem"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(lh_certificate_read(in("m/key.pem"), &f, why, sizeof why), LH_ERR_CORRUPT);
}

/* ---- two ends ---- */

struct end {
    struct lh_transport *transport;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char identity[LH_LINK_IDENTITY_MAX + 1]; /* of who called last */
    struct lh_transport_link *served;        /* the last one, with a reference */
    unsigned opened, messages, closed;
    atomic_uint asked; /* who may answer */
    int error;
    char text[400];
};

static void notify(struct end *e)
{
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

#define WAIT_UNTIL(e, condition)                                                                   \
    do {                                                                                           \
        pthread_mutex_lock(&(e)->lock);                                                            \
        while (!(condition))                                                                       \
            pthread_cond_wait(&(e)->changed, &(e)->lock);                                          \
        pthread_mutex_unlock(&(e)->lock);                                                          \
    } while (0)

#define EXPECT(e, condition)                                                                       \
    do {                                                                                           \
        pthread_mutex_lock(&(e)->lock);                                                            \
        bool it_is = (condition);                                                                  \
        pthread_mutex_unlock(&(e)->lock);                                                          \
        assert_true(it_is);                                                                        \
    } while (0)

static void on_opened(
    void *arg, struct lh_transport_link *link, enum lh_method method, const char *peer)
{
    struct end *e = arg;

    (void)method;
    (void)peer;
    pthread_mutex_lock(&e->lock);
    struct lh_transport_link *before = e->served;
    e->served = link;
    e->opened++;
    snprintf(e->identity, sizeof e->identity, "%s", lh_transport_link_identity(link));
    notify(e);
    if (before != NULL)
        lh_transport_link_unref(before);
    lh_transport_link_read(link);
    lh_transport_link_flush(link);
}

/* The served side sends back what it is sent. */
static void on_message(void *arg, struct lh_transport_link *link, struct lh_buf bytes)
{
    struct end *e = arg;

    pthread_mutex_lock(&e->lock);
    e->messages++;
    bool serves = e->served != NULL;
    notify(e);
    if (serves)
        lh_transport_link_send(link, bytes);
    else
        lh_buf_clear(&bytes);
    lh_transport_link_read(link);
    lh_transport_link_flush(link);
}

static void on_closed(void *arg, struct lh_transport_link *link, int error, const char *text)
{
    struct end *e = arg;

    (void)link;
    pthread_mutex_lock(&e->lock);
    e->closed++;
    e->error = error;
    snprintf(e->text, sizeof e->text, "%s", text == NULL ? "" : text);
    notify(e);
}

static atomic_uint logged_errors, logged_infos;

static void count_log(enum lh_level level, const char *text)
{
    (void)text;
    if (level == LH_ERROR)
        atomic_fetch_add(&logged_errors, 1);
    else if (level == LH_INFO)
        atomic_fetch_add(&logged_infos, 1);
}

/* What carries the links. */
static const struct lh_transport_methods *tested = &lh_rpc_transport;

/* The client's table of roles; NULL: none. */
static struct lh_access *roles;

static int may_answer(void *arg, enum lh_server_kind kind, const char *name, const char *identity,
    bool apart, char *text, size_t text_size)
{
    char why[LH_ACCESS_TEXT_MAX] = "";
    struct end *e = arg;

    atomic_fetch_add(&e->asked, 1);
    int error = lh_access_answers(roles, identity, kind, name, apart, why);
    snprintf(text, text_size, "%s", why);
    return error;
}

static bool calls_etcd;

/* `node` NULL: without TLS. */
static void begin(struct end *e, const char *listen, const char *node)
{
    struct lh_transport_config config = {
        .listen = listen,
        .threads = 2,
        .log = count_log,
        .arg = e,
        .on_opened = on_opened,
        .on_message = on_message,
        .on_closed = on_closed,
        .may_answer = may_answer,
    };
    char why[700];

    *e = (struct end){0};
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (node != NULL)
        config.tls = files_of(node);
    if (calls_etcd)
        config.foreign_tls = files_of(node);
    if (lh_transport_create(tested, &config, &e->transport, why, sizeof why) != LH_OK)
        fail_msg("%s", why);
    lh_transport_start(e->transport);
}

static void finish(struct end *e)
{
    lh_transport_destroy(e->transport);
    if (e->served != NULL)
        lh_transport_link_unref(e->served);
}

static void send_one(struct lh_transport_link *link)
{
    uint8_t *to;
    struct lh_buf bytes = lh_buf_alloc(100, &to);

    memset(to, 7, 100);
    lh_transport_link_send(link, bytes);
    lh_transport_link_flush(link);
}

/* A stream of the client's to the server. */
static struct lh_transport_link *call(struct end *client, const struct end *server)
{
    char address[64];

    snprintf(address, sizeof address, "127.0.0.1:%d", lh_transport_port(server->transport));
    struct lh_transport_link *link =
        lh_transport_link_open(client->transport, LH_METHOD_SESSION, address, lh_seconds(60));
    lh_transport_link_read(link);
    return link;
}

static void end_link(struct lh_transport_link *link)
{
    lh_transport_link_close(link, LH_ERR_CANCELLED, NULL);
    lh_transport_link_flush(link);
    lh_transport_link_unref(link);
}

static void a_link_comes_with_the_peers_identity(void **state)
{
    struct end server, client;

    (void)state;
    begin(&server, "127.0.0.1:0", "m");
    begin(&client, NULL, "ann");
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 1);
    EXPECT(&server, strcmp(server.identity, "leasehold://admin/ann") == 0);
    end_link(link);
    finish(&client);
    finish(&server);

    begin(&server, "127.0.0.1:0", NULL);
    begin(&client, NULL, NULL);
    link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 1);
    EXPECT(&server, strcmp(server.identity, "") == 0);
    end_link(link);
    finish(&client);
    finish(&server);
}

static void expect_no_link(const char *server_node, const char *client_node, const char *sentence)
{
    struct end server, client;

    begin(&server, "127.0.0.1:0", server_node);
    begin(&client, NULL, client_node);
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.closed == 1);
    assert_int_equal(client.error, LH_ERR_UNAVAILABLE);
    if (strstr(client.text, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, client.text);
    EXPECT(&server, server.opened == 0);
    lh_transport_link_unref(link);
    finish(&client);
    finish(&server);
}

static void append_file(const char *from, const char *to)
{
    char text[4096];
    FILE *source = fopen(from, "re"), *target = fopen(to, "ae");
    size_t n = fread(text, 1, sizeof text, source);

    fwrite(text, 1, n, target);
    fclose(source);
    fclose(target);
}

static void who_does_not_fit_is_refused_with_a_hint(void **state)
{
    (void)state;
    expect_no_link("m", NULL, "perhaps the server speaks TLS");
    expect_no_link(NULL, "ann", "the server does not speak TLS");
    expect_no_link("m", "eve", "is of an authority that is not trusted here");
    issue_for("ca", "master/far", "far", "192.0.2.1", DAY);
    expect_no_link("far", "ann", "is for other hosts than the one that was dialled");
    /* She trusts the server, which does not trust her. */
    append_file(in("ca/ca.pem"), in("eve/ca.pem"));
    expect_no_link("m", "eve", "perhaps the server does not trust this side's");
}

static void a_certificate_that_runs_out_meanwhile_is_refused(void **state)
{
    struct end server, client;

    (void)state;
    issue_for("ca", "admin/brief", "brief", NULL, lh_seconds(2));
    begin(&server, "127.0.0.1:0", "m");
    begin(&client, NULL, "brief");
    pause_ms(2100);
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.closed == 1);
    assert_int_equal(client.error, LH_ERR_UNAVAILABLE);
    EXPECT(&server, server.opened == 0);
    struct lh_transport_figures f;
    lh_transport_figures(server.transport, &f);
    assert_true(f.tls.handshakes_failed > 0);
    lh_transport_link_unref(link);
    finish(&client);
    finish(&server);
}

/* ---- who answers ---- */

/* One call of the method, at whoever serves there and is called by that name; false: it was refused
 * because of who answers, and nothing of it came there. */
static bool is_answered(
    struct end *client, const struct end *server, enum lh_method method, const char *name)
{
    char address[64];

    snprintf(address, sizeof address, "127.0.0.1:%d", lh_transport_port(server->transport));
    char *whom = lh_server_at(name, address);
    struct lh_transport_link *link =
        lh_transport_link_open(client->transport, method, whom, lh_seconds(60));
    pthread_mutex_lock(&client->lock);
    unsigned messages = client->messages, closed = client->closed;
    pthread_mutex_unlock(&client->lock);
    lh_transport_link_read(link);
    send_one(link);
    WAIT_UNTIL(client, client->messages > messages || client->closed > closed);
    pthread_mutex_lock(&client->lock);
    bool refused =
        client->messages == messages && strstr(client->text, "who answers there is") != NULL;
    int error = client->error;
    pthread_mutex_unlock(&client->lock);
    if (refused)
        assert_int_equal(error, LH_ERR_UNAVAILABLE);
    end_link(link);
    free(whom);
    return !refused;
}

/* ACC-8, each kind of call and each kind of certificate. Etcd's methods are not served here: they
 * are answered so. */
static void who_is_called_must_be_who_answers(void **state)
{
    static const struct {
        const char *who;
        bool master, server, cs1, cs2, etcd;
    } rows[] = {
        {"master/cs1", true, false, false, false, false},
        {"chunkserver/cs1", false, true, true, false, false},
        {"chunkserver/cs2", false, true, false, true, false},
        {"etcd/cs1", false, false, false, false, true},
    };
    struct end client;

    (void)state;
    calls_etcd = true;
    begin(&client, NULL, "ann");
    calls_etcd = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct end server;
        issue(rows[i].who, "answers");
        begin(&server, "127.0.0.1:0", "answers");
        EXPECT(&server, server.opened == 0);
        assert_int_equal(is_answered(&client, &server, LH_METHOD_SESSION, ""), rows[i].master);
        assert_int_equal(
            is_answered(&client, &server, LH_METHOD_LEASE_SESSION, ""), rows[i].master);
        assert_int_equal(is_answered(&client, &server, LH_METHOD_APPEND, ""), rows[i].server);
        assert_int_equal(is_answered(&client, &server, LH_METHOD_APPEND, "cs1"), rows[i].cs1);
        assert_int_equal(is_answered(&client, &server, LH_METHOD_REPLICATE, "cs2"), rows[i].cs2);
        assert_int_equal(is_answered(&client, &server, LH_METHOD_ETCD_WATCH, ""), rows[i].etcd);
        EXPECT(&server, (server.opened > 0) == (rows[i].master || rows[i].server));
        finish(&server);
    }
    finish(&client);
}

/* ACC-7: calls to somebody who may not answer any more end, and new ones find no connection. */
static void a_table_that_changes_ends_calls_to_who_may_not_answer_now(void **state)
{
    static const char lines[] = "leasehold://master/m none\n";
    struct end server, client;
    char why[256];

    (void)state;
    begin(&server, "127.0.0.1:0", "m");
    begin(&client, NULL, "ann");
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 1);
    lh_transport_ask_who_answers(client.transport);
    assert_true(is_answered(&client, &server, LH_METHOD_SESSION, ""));
    EXPECT(&client, client.closed == 0);

    assert_int_equal(lh_access_parse(lines, strlen(lines), &roles, why, sizeof why), LH_OK);
    lh_transport_ask_who_answers(client.transport);
    WAIT_UNTIL(&client, client.closed == 1);
    assert_int_equal(client.error, LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(client.text, "not the one that is meant any more"));
    lh_transport_link_unref(link);
    assert_false(is_answered(&client, &server, LH_METHOD_SESSION, ""));
    finish(&client);
    lh_access_free(roles);
    roles = NULL;
    finish(&server);
}

/* As a release before the wire, or one that keeps to gRPC. */
static void a_server_that_has_grpc_alone_is_asked_who_it_is(void **state)
{
    static const char lines[] = "leasehold://master/m none\n";
    const struct lh_transport_methods *before = tested;
    struct end server, client;
    char why[256];

    (void)state;
    tested = &lh_rpc_transport;
    begin(&server, "127.0.0.1:0", "m");
    tested = before;
    begin(&client, NULL, "ann");
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 1 || client.closed == 1);
    EXPECT(&client, client.messages == 1);
    assert_true(atomic_load(&client.asked) > 0);
    EXPECT(&server, strcmp(server.identity, "leasehold://admin/ann") == 0);
    assert_false(is_answered(&client, &server, LH_METHOD_APPEND, ""));

    assert_int_equal(lh_access_parse(lines, strlen(lines), &roles, why, sizeof why), LH_OK);
    lh_transport_ask_who_answers(client.transport);
    WAIT_UNTIL(&client, client.closed > 1);
    lh_transport_link_unref(link);
    finish(&client);
    lh_access_free(roles);
    roles = NULL;
    finish(&server);
}

/* ---- renewal ---- */

/* As a server does all the time, until so many were taken up or found unusable. */
static void housekeep_until(struct end *e, uint64_t renewed, uint64_t refused)
{
    struct lh_transport_figures f = {0};

    while (f.tls.renewed < renewed || f.tls.refused < refused) {
        pause_ms(20);
        lh_transport_housekeep(e->transport);
        lh_transport_figures(e->transport, &f);
    }
    assert_int_equal(f.tls.renewed, renewed);
    assert_int_equal(f.tls.refused, refused);
}

static struct {
    unsigned times;
    char text[300];
} ended;

static void hear_ended(enum lh_level level, const char *text)
{
    if (strstr(text, "has run out") == NULL)
        return;
    assert_int_equal(level, LH_ERROR);
    ended.times++;
    (void)snprintf(ended.text, sizeof ended.text, "%s", text);
}

/* Others refuse it then; the server's own log says why, once. */
static void a_server_says_that_its_certificate_has_run_out(void **state)
{
    const struct lh_tls_files files = files_of("brief");
    struct lh_tls_figures f = {0};
    struct lh_tls *tls;
    char why[700];

    (void)state;
    do
        issue_for("ca", "master/brief", "brief", "127.0.0.1", lh_seconds(2));
    while (lh_tls_open(&files, LH_TLS_SERVES, hear_ended, &tls, why, sizeof why) != LH_OK);
    while (ended.times == 0) {
        pause_ms(20);
        lh_tls_housekeep(tls);
    }
    assert_non_null(strstr(ended.text, "brief/cert.pem has run out"));
    issue_for("ca", "master/brief", "brief", "127.0.0.1", DAY);
    while (f.renewed == 0) {
        pause_ms(20);
        lh_tls_housekeep(tls);
        f = (struct lh_tls_figures){0};
        lh_tls_figures(tls, &f);
    }
    pause_ms(1100); /* it is looked at again */
    lh_tls_housekeep(tls);
    assert_int_equal(ended.times, 1);
    lh_tls_unref(tls);
}

static void renewed_files_are_for_new_connections_and_old_ones_go_on(void **state)
{
    struct end server, client;

    (void)state;
    issue("master/r", "r");
    issue("writer/before", "w");
    begin(&server, "127.0.0.1:0", "r");
    begin(&client, NULL, "w");
    struct lh_transport_link *old = call(&client, &server);
    send_one(old);
    WAIT_UNTIL(&client, client.messages == 1);

    /* A new authority, in two steps: trusted beside the old one, then it signs. */
    append_file(in("other/ca.pem"), in("r/ca.pem"));
    append_file(in("other/ca.pem"), in("w/ca.pem"));
    housekeep_until(&server, 1, 0);
    housekeep_until(&client, 1, 0);
    issue_for("other", "master/r", "r", "127.0.0.1", DAY);
    issue_for("other", "writer/after", "w", NULL, DAY);
    append_file(in("ca/ca.pem"), in("r/ca.pem"));
    append_file(in("ca/ca.pem"), in("w/ca.pem"));
    housekeep_until(&server, 2, 0);
    housekeep_until(&client, 2, 0);
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 2);
    EXPECT(&server, strcmp(server.identity, "leasehold://writer/after") == 0);
    send_one(old);
    WAIT_UNTIL(&client, client.messages == 3);
    EXPECT(&client, client.closed == 0);
    end_link(old);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 4);
    end_link(link);
    finish(&client);
    finish(&server);
}

static void files_that_are_no_use_are_told_once_and_the_old_ones_stay(void **state)
{
    struct end server, client;

    (void)state;
    issue("master/s", "s");
    begin(&server, "127.0.0.1:0", "s");
    begin(&client, NULL, "ann");
    atomic_store(&logged_errors, 0);
    atomic_store(&logged_infos, 0);
    write_text(in("s/cert.pem"), "no certificate\n");
    housekeep_until(&server, 0, 1);
    for (int i = 0; i < 70; i++) {
        pause_ms(20);
        lh_transport_housekeep(server.transport);
    }
    assert_int_equal(atomic_load(&logged_errors), 1);
    struct lh_transport_link *link = call(&client, &server);
    send_one(link);
    WAIT_UNTIL(&client, client.messages == 1);
    end_link(link);

    (void)unlink(in("s/key.pem"));
    housekeep_until(&server, 0, 2);
    issue("master/s", "s");
    housekeep_until(&server, 1, 2);
    assert_int_equal(atomic_load(&logged_errors), 2);
    assert_int_equal(atomic_load(&logged_infos), 1);
    finish(&client);
    finish(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_a_file_is_said_at_the_start),
        cmocka_unit_test(the_files_of_etcd_need_not_be_of_its_authority),
        cmocka_unit_test(options_name_a_directory_or_files),
        cmocka_unit_test(an_authority_issues_only_what_makes_sense),
        cmocka_unit_test(what_was_issued_can_be_shown_and_its_key_is_private),
        cmocka_unit_test(a_link_comes_with_the_peers_identity),
        cmocka_unit_test(who_does_not_fit_is_refused_with_a_hint),
        cmocka_unit_test(a_certificate_that_runs_out_meanwhile_is_refused),
        cmocka_unit_test(who_is_called_must_be_who_answers),
        cmocka_unit_test(a_table_that_changes_ends_calls_to_who_may_not_answer_now),
        cmocka_unit_test(a_server_that_has_grpc_alone_is_asked_who_it_is),
        cmocka_unit_test(a_server_says_that_its_certificate_has_run_out),
        cmocka_unit_test(renewed_files_are_for_new_connections_and_old_ones_go_on),
        cmocka_unit_test(files_that_are_no_use_are_told_once_and_the_old_ones_stay),
    };

    int failed = cmocka_run_group_tests_name("over gRPC", tests, make_authorities, NULL);
    tested = &lh_wire_transport;
    return failed + cmocka_run_group_tests_name("over the wire", tests, make_authorities, NULL);
}
