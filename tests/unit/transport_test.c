/* What all transports make of a config. */
#include "runtime/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_time_of_0_is_the_default(void **state)
{
    const struct lh_transport_config none = {.listen = "here"};

    (void)state;
    struct lh_transport_config c = lh_transport_defaults(&none);
    assert_int_equal(lh_duration_ms(c.keepalive), 2000);
    assert_int_equal(lh_duration_ms(c.keepalive_timeout), 2000);
    assert_int_equal(lh_duration_ms(c.connect_timeout), 2000);
    assert_int_equal(lh_duration_ms(c.grace), 200);
    assert_int_equal(lh_duration_ms(c.reply_timeout), 10000);
    assert_int_equal(lh_duration_ms(c.handshake_timeout), 20000);
    assert_int_equal(lh_duration_ms(c.request_timeout), 30000);
    assert_int_equal(c.idle_timeout.ns, 0); /* which is none */
    assert_string_equal(c.listen, "here");
}

static void any_other_time_stays(void **state)
{
    struct lh_duration one = lh_milliseconds(1);
    const struct lh_transport_config given = {.keepalive = one,
        .keepalive_timeout = one,
        .connect_timeout = one,
        .grace = one,
        .reply_timeout = one,
        .handshake_timeout = one,
        .idle_timeout = one,
        .request_timeout = one};

    (void)state;
    struct lh_transport_config c = lh_transport_defaults(&given);
    const struct lh_duration all[] = {c.keepalive, c.keepalive_timeout, c.connect_timeout, c.grace,
        c.reply_timeout, c.handshake_timeout, c.idle_timeout, c.request_timeout};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_int_equal(all[i].ns, one.ns);
}

static void any_file_asks_for_tls(void **state)
{
    const struct lh_tls_files none = {0}, ca = {.ca_file = "a"}, cert = {.cert_file = "a"},
                              key = {.key_file = "a"};

    (void)state;
    assert_false(lh_tls_is_wanted(&none));
    assert_true(lh_tls_is_wanted(&ca));
    assert_true(lh_tls_is_wanted(&cert)); /* which is refused, for what it lacks */
    assert_true(lh_tls_is_wanted(&key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_of_0_is_the_default),
        cmocka_unit_test(any_other_time_stays),
        cmocka_unit_test(any_file_asks_for_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
