/* Connections of an HTTP server: whose request is too old, and who gives way. */
#include "runtime/visitors.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX         6u
#define ADDRESS_MAX 3u

static struct lh_visitors *visitors;

struct guest {
    int here, there;
    struct lh_visitor *visitor;
};

static void begin(struct lh_duration age_max)
{
    const struct lh_visitors_config config = {MAX, ADDRESS_MAX, age_max};

    visitors = lh_visitors_create(&config, NULL, 0);
    assert_non_null(visitors);
}

/* From 10.0.0.`from`. */
static struct guest enter(unsigned from)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000u + from)};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct lh_visitor *visitor =
        lh_visitor_enter(visitors, fds[0], (const struct sockaddr *)&address);
    return (struct guest){fds[0], fds[1], visitor};
}

static bool is_cut(const struct guest *g)
{
    struct pollfd fd = {.fd = g->there, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void leave(struct guest *g)
{
    lh_visitor_leave(visitors, g->visitor);
    (void)close(g->here);
    (void)close(g->there);
}

static void an_address_makes_place_for_itself(void **state)
{
    struct guest other, g[ADDRESS_MAX + 2];

    (void)state;
    begin(lh_seconds(1000));
    other = enter(1);
    for (unsigned i = 0; i < ADDRESS_MAX + 2; i++)
        g[i] = enter(2);
    for (unsigned i = 0; i < ADDRESS_MAX + 2; i++)
        assert_int_equal(is_cut(&g[i]), i < 2);
    assert_false(is_cut(&other));
    for (unsigned i = 0; i < ADDRESS_MAX + 2; i++)
        leave(&g[i]);
    leave(&other);
    lh_visitors_destroy(visitors);
}

static void the_oldest_without_a_request_gives_way(void **state)
{
    struct guest g[MAX + 3];

    (void)state;
    begin(lh_seconds(1000));
    for (unsigned i = 0; i < MAX; i++)
        g[i] = enter(1 + i / 2);
    lh_visitor_asked(visitors, g[0].visitor, false);
    lh_visitor_answered(visitors, g[1].visitor); /* now the youngest */
    g[MAX] = enter(7);
    g[MAX + 1] = enter(8);
    for (unsigned i = 0; i < MAX + 2; i++)
        assert_int_equal(is_cut(&g[i]), i == 2 || i == 3);
    /* Where all are being answered the new one goes. */
    for (unsigned i = 0; i < MAX + 2; i++)
        lh_visitor_asked(visitors, g[i].visitor, i % 2 == 0);
    g[MAX + 2] = enter(9);
    for (unsigned i = 0; i < MAX + 3; i++)
        assert_int_equal(is_cut(&g[i]), i == 2 || i == 3 || i == MAX + 2);
    for (unsigned i = 0; i < MAX + 3; i++)
        leave(&g[i]);
    lh_visitors_destroy(visitors);
}

static void a_request_that_is_too_old_is_cut(void **state)
{
    struct guest waits, answered, endless;

    (void)state;
    begin(lh_milliseconds(300));
    endless = enter(1);
    lh_visitor_asked(visitors, endless.visitor, true);
    waits = enter(2);
    answered = enter(3);
    lh_visitor_asked(visitors, answered.visitor, false);
    while (!is_cut(&waits) || !is_cut(&answered))
        usleep(1000);
    assert_false(is_cut(&endless));
    leave(&waits);
    leave(&answered);
    leave(&endless);
    lh_visitors_destroy(visitors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_makes_place_for_itself),
        cmocka_unit_test(the_oldest_without_a_request_gives_way),
        cmocka_unit_test(a_request_that_is_too_old_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
