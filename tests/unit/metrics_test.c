/* Figures as text, and who may ask for them. */
#include "base/metrics.h"
#include "runtime/observe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void a_family_is_its_help_its_type_and_its_samples(void **state)
{
    struct lh_metrics m = {0};
    const struct lh_label labels[] = {{"server", "cs1"}, {"kind", "sealed"}};

    (void)state;
    lh_metrics_family(&m, "leasehold_copies_total", LH_METRIC_COUNTER, "Copies done.");
    lh_metrics_count(&m, labels, 2, 18446744073709551615u);
    lh_metrics_single(&m, "leasehold_files", LH_METRIC_GAUGE, "Files.", 3);
    assert_string_equal(m.text, "# HELP leasehold_copies_total Copies done.\n"
                                "# TYPE leasehold_copies_total counter\n"
                                "leasehold_copies_total{server=\"cs1\",kind=\"sealed\"} "
                                "18446744073709551615\n"
                                "# HELP leasehold_files Files.\n"
                                "# TYPE leasehold_files gauge\n"
                                "leasehold_files 3\n");
    lh_metrics_deinit(&m);
}

static void a_label_may_hold_anything(void **state)
{
    struct lh_metrics m = {0};
    const struct lh_label label = {"server", "a\"b\\c\nd"};

    (void)state;
    lh_metrics_family(&m, "x", LH_METRIC_GAUGE, "X.");
    lh_metrics_value(&m, &label, 1, 0.25);
    assert_non_null(strstr(m.text, "x{server=\"a\\\"b\\\\c\\nd\"} 0.25\n"));
    lh_metrics_deinit(&m);
}

static void a_histogram_counts_upwards(void **state)
{
    struct lh_metrics m = {0};
    struct lh_histogram h = {0};

    (void)state;
    lh_histogram_note(&h, lh_nanoseconds(50000)); /* a bound belongs to its bucket */
    lh_histogram_note(&h, lh_milliseconds(3));
    lh_histogram_note_many(&h, lh_seconds(100), 2);
    lh_metrics_family(&m, "t_seconds", LH_METRIC_HISTOGRAM, "T.");
    lh_metrics_histogram(&m, NULL, 0, &h);
    assert_non_null(strstr(m.text, "t_seconds_bucket{le=\"5e-05\"} 1\n"));
    assert_non_null(strstr(m.text, "t_seconds_bucket{le=\"0.0025\"} 1\n"));
    assert_non_null(strstr(m.text, "t_seconds_bucket{le=\"0.005\"} 2\n"));
    assert_non_null(strstr(m.text, "t_seconds_bucket{le=\"60\"} 2\n"));
    assert_non_null(strstr(m.text, "t_seconds_bucket{le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(m.text, "t_seconds_sum 200.00305\n"));
    assert_non_null(strstr(m.text, "t_seconds_count 4\n"));
    lh_metrics_deinit(&m);
}

/* ---- Over HTTP. */

struct server {
    bool ready, silent, hangs;
};

static bool live(void *arg, char *why, size_t why_size)
{
    const struct server *s = arg;

    (void)snprintf(why, why_size, "the loop has stood still");
    return !s->silent;
}

static bool is_responsive(void *arg)
{
    return !((const struct server *)arg)->hangs;
}

static void metrics(void *arg, struct lh_metrics *out)
{
    assert_false(((const struct server *)arg)->hangs);
    lh_metrics_single(out, "leasehold_test", LH_METRIC_GAUGE, "A test.", 7);
}

static bool ready(void *arg, char *why, size_t why_size)
{
    const struct server *s = arg;

    assert_false(s->hangs);
    (void)snprintf(why, why_size, "no session with the master");
    return s->ready;
}

/* A connection from 127.0.0.`from`. */
static int connect_from(unsigned from, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, own = at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    own.sin_port = 0;
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* What a request is answered with, whole. */
static void ask(int port, const char *request, char *answer, size_t size)
{
    int fd = connect_from(1, port);
    size_t have = 0;
    ssize_t got;

    assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    while (have < size - 1 && (got = read(fd, answer + have, size - 1 - have)) > 0)
        have += (size_t)got;
    answer[have] = '\0';
    (void)close(fd);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void an_operator_asks(void **state)
{
    struct server s = {.ready = true};
    const struct lh_observe_config config = {.listen = "127.0.0.1:0",
        .live = live,
        .is_responsive = is_responsive,
        .metrics = metrics,
        .ready = ready,
        .arg = &s};
    struct lh_observe *o;
    char why[256], answer[65536];

    (void)state;
    assert_int_equal(lh_observe_start(&config, &o, why, sizeof why), LH_OK);
    int port = lh_observe_port(o);
    ask(port, GET("/metrics"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    assert_non_null(strstr(answer, "text/plain; version=0.0.4"));
    assert_non_null(strstr(answer, "\nleasehold_test 7\n"));
    assert_non_null(strstr(answer, "\nprocess_resident_memory_bytes "));
    ask(port, GET("/readyz"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    s.ready = false;
    ask(port, GET("/readyz"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "no session with the master\n"));
    ask(port, GET("/healthz"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    s.silent = true;
    ask(port, GET("/healthz"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "the loop has stood still\n"));
    s.hangs = s.ready = true; /* and would not return */
    ask(port, GET("/readyz"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    ask(port, GET("/metrics"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    ask(port, GET("/secret"), answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 404"));
    ask(port,
        "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 405"));
    ask(port, "\r\nnonsense\r\n\r\n", answer, sizeof answer);
    assert_null(strstr(answer, "200 OK"));
    lh_observe_stop(o);
}

/* Sends `request`, and says whether anything came back. */
static bool is_answered(int fd, const char *request)
{
    char answer[4096];

    (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
    return read(fd, answer, sizeof answer) > 0;
}

static void whoever_is_slow_gives_way_to_others(void **state)
{
    static const char whole[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                      part[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
    struct server s = {.ready = true};
    const struct lh_observe_config config = {.listen = "127.0.0.1:0",
        .live = live,
        .is_responsive = is_responsive,
        .metrics = metrics,
        .ready = ready,
        .arg = &s};
    struct lh_observe *o;
    char why[256];
    int slow[2 * LH_OBSERVE_CONNECTIONS_MAX];

    (void)state;
    assert_int_equal(lh_observe_start(&config, &o, why, sizeof why), LH_OK);
    int port = lh_observe_port(o);
    /* More than there may be, of two addresses: each has begun a request. */
    for (unsigned i = 0; i < 2 * LH_OBSERVE_CONNECTIONS_MAX; i++) {
        slow[i] = connect_from(2 + i % 2, port);
        assert_int_equal(send(slow[i], part, sizeof part - 1, MSG_NOSIGNAL), sizeof part - 1);
    }
    for (unsigned from = 1; from < 4; from++) {
        int fd = connect_from(from, port);
        assert_true(is_answered(fd, whole));
        (void)close(fd);
    }
    assert_false(is_answered(slow[0], "\r\n"));
    for (unsigned i = 0; i < 2 * LH_OBSERVE_CONNECTIONS_MAX; i++)
        (void)close(slow[i]);
    lh_observe_stop(o);
}

static void an_address_must_be_one_and_free(void **state)
{
    struct server s = {.ready = true};
    struct lh_observe_config config = {.live = live,
        .is_responsive = is_responsive,
        .metrics = metrics,
        .ready = ready,
        .arg = &s};
    struct lh_observe *first, *second;
    char why[256], listen[32];

    (void)state;
    config.listen = "nine thousand";
    assert_int_equal(lh_observe_start(&config, &first, why, sizeof why), LH_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why, "host:port"));
    config.listen = "127.0.0.1:0";
    assert_int_equal(lh_observe_start(&config, &first, why, sizeof why), LH_OK);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", lh_observe_port(first));
    config.listen = listen;
    assert_int_equal(lh_observe_start(&config, &second, why, sizeof why), LH_ERR_ADDRESS_IN_USE);
    assert_non_null(strstr(why, listen));
    lh_observe_stop(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_its_help_its_type_and_its_samples),
        cmocka_unit_test(a_label_may_hold_anything),
        cmocka_unit_test(a_histogram_counts_upwards),
        cmocka_unit_test(an_operator_asks),
        cmocka_unit_test(whoever_is_slow_gives_way_to_others),
        cmocka_unit_test(an_address_must_be_one_and_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
