/* What a listener of a server lets through, with sockets of this machine. */
#include "admission/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PEER_RATE 5u
#define FRUITLESS 1000u

static int listener;

static int listen_here(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 128), 0);
    return fd;
}

/* A connection from 127.0.0.`from`, which waits in the listener's queue. */
static int connect_from(unsigned from)
{
    struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from)};
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, size), 0);
    return fd;
}

/* Broken at once, with a reset. */
static void break_off(int fd)
{
    const struct linger hard = {.l_onoff = 1};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
    close(fd);
}

static int accept_one(struct sockaddr_in *from)
{
    socklen_t size = sizeof *from;

    return lh_connections_accept(
        accept4, listener, (struct sockaddr *)from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static struct lh_connections_figures figures(void)
{
    struct lh_connections_figures f;

    lh_connections_figures(&f);
    return f;
}

static int limit(void **state)
{
    const struct lh_connections_config config = {
        .max = 100, .peer_max = 50, .peer_rate = PEER_RATE, .fruitless_max = FRUITLESS};

    (void)state;
    lh_connections_limit(&config);
    listener = listen_here();
    return 0;
}

static int end(void **state)
{
    (void)state;
    return close(listener);
}

/* gRPC gives as much work to such a connection as to any, and nobody may count it: the socket does
 * not know any more whose it was. */
static void a_connection_that_broke_in_the_queue_is_closed_and_not_handed_on(void **state)
{
    struct lh_connections_figures before = figures();
    struct sockaddr_in from = {0};

    (void)state;
    for (unsigned i = 0; i < 10 * PEER_RATE; i++)
        break_off(connect_from(2));
    int honest = connect_from(3);
    int fd = accept_one(&from);
    assert_true(fd >= 0);
    assert_int_equal(ntohl(from.sin_addr.s_addr), INADDR_LOOPBACK + 2);
    assert_int_equal(accept_one(&from), -1);
    assert_int_equal(errno, EAGAIN);
    struct lh_connections_figures after = figures();
    assert_int_equal(after.gone - before.gone, 10 * PEER_RATE);
    assert_int_equal(after.accepted - before.accepted, 1);
    assert_int_equal(after.refused, before.refused);
    close(fd);
    close(honest);
}

static bool is_short_of_descriptors;

static int accept_with_luck(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (!is_short_of_descriptors)
        return accept4(fd, address, size, flags);
    errno = EMFILE;
    return -1;
}

/* The edge came with the connection. Nobody else comes, and the listener is woken all the same. */
static void a_connection_that_nobody_could_take_is_taken_later(void **state)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 77}, found = {0};
    int set = epoll_create1(EPOLL_CLOEXEC);

    (void)state;
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event), 0);
    lh_connections_watched(set, listener, &event);
    int honest = connect_from(4);
    assert_int_equal(epoll_wait(set, &found, 1, 10000), 1);
    is_short_of_descriptors = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            lh_connections_accept(accept_with_luck, listener, NULL, NULL, SOCK_CLOEXEC), -1);
        assert_int_equal(errno, EAGAIN);
        found.data.u64 = 0;
        assert_int_equal(epoll_wait(set, &found, 1, 10000), 1);
        assert_int_equal(found.data.u64, 77);
    }
    is_short_of_descriptors = false;
    int fd = lh_connections_accept(accept_with_luck, listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    close(honest);
    close(set);
}

static void connections_beyond_a_peer_s_rate_are_closed_and_others_come_in(void **state)
{
    struct lh_connections_figures before = figures();
    struct sockaddr_in from = {0};
    int many[10 * PEER_RATE], taken[10 * PEER_RATE + 1];
    unsigned n = 0, of_other = 0;

    (void)state;
    for (unsigned i = 0; i < 10 * PEER_RATE; i++)
        many[i] = connect_from(4);
    int honest = connect_from(5);
    while ((taken[n] = accept_one(&from)) >= 0) {
        of_other += ntohl(from.sin_addr.s_addr) == INADDR_LOOPBACK + 4;
        n++;
    }
    struct lh_connections_figures after = figures();
    assert_int_equal(of_other, 1);
    assert_in_range(n, 2 * PEER_RATE, 9 * PEER_RATE); /* some time may have passed */
    assert_int_equal(after.refused_peer - before.refused_peer, 10 * PEER_RATE + 1 - n);
    assert_int_equal(after.gone, before.gone);
    for (unsigned i = 0; i < n; i++)
        close(taken[i]);
    for (unsigned i = 0; i < 10 * PEER_RATE; i++)
        close(many[i]);
    close(honest);
}

/* What is no longer there is not counted, whatever else has its descriptor by now. */
static void closed_connections_are_forgotten(void **state)
{
    struct sockaddr_in from;
    int clients[30], taken[30];

    (void)state;
    unsigned before = (unsigned)figures().open;
    for (unsigned i = 0; i < 30; i++) {
        clients[i] = connect_from(10 + i);
        taken[i] = accept_one(&from);
        assert_true(taken[i] >= 0);
    }
    assert_int_equal(figures().open, before + 30);
    for (unsigned i = 0; i < 30; i += 2)
        close(taken[i]);
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(other, taken[0]);
    assert_int_equal(figures().open, before + 15);
    close(other);
    for (unsigned i = 1; i < 30; i += 2)
        close(taken[i]);
    for (unsigned i = 0; i < 30; i++)
        close(clients[i]);
    assert_int_equal(figures().open, before);
}

/* ---- what nothing comes of ---- */

static bool receive(int fd, size_t bytes)
{
    static uint8_t some[16 * FRUITLESS];
    const struct iovec part = {some, sizeof some};

    memset(some, 0x17, sizeof some); /* no HTTP/2: as what is encrypted */
    return lh_connections_received(fd, &part, 1, bytes);
}

static struct lh_connection *calls(int client)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    char ip[INET_ADDRSTRLEN], text[64];
    bool cut;

    assert_int_equal(getsockname(client, (struct sockaddr *)&at, &size), 0);
    assert_non_null(inet_ntop(AF_INET, &at.sin_addr, ip, sizeof ip));
    snprintf(text, sizeof text, "ipv4:%s:%u", ip, (unsigned)ntohs(at.sin_port));
    struct lh_connection *c = lh_connections_call(text, &cut);
    assert_false(cut);
    return c;
}

static bool is_cut(int client)
{
    char byte;

    return recv(client, &byte, 1, MSG_DONTWAIT) == 0;
}

static void who_sends_what_nothing_comes_of_is_cut(void **state)
{
    struct lh_connections_figures before = figures();
    struct sockaddr_in from;
    int client = connect_from(9), fd = accept_one(&from);

    (void)state;
    assert_true(receive(fd, FRUITLESS));
    /* A call, or a message of one, and it begins again. */
    struct lh_connection *c = calls(client);
    assert_true(receive(fd, FRUITLESS));
    lh_connections_heard(c);
    assert_true(receive(fd, FRUITLESS));
    lh_connections_call_ended(c); /* of which nothing is kept any more, but what came since */
    assert_false(is_cut(client));
    assert_false(receive(fd, 1));
    assert_true(is_cut(client));
    assert_int_equal(figures().cut_fruitless - before.cut_fruitless, 1);
    close(fd);
    close(client);
}

/* All together: of the address that has most, and there of the connection that has most. */
static void too_much_of_all_together_ends_with_who_has_most(void **state)
{
    struct lh_connections_figures before = figures();
    int client[40], fd[40], count = 0;
    struct sockaddr_in from;

    (void)state;
    for (unsigned address = 20; address < 24; address++)
        for (unsigned i = 0; i < 2 * PEER_RATE; i++, count++) {
            client[count] = connect_from(address);
            fd[count] = accept_one(&from);
            assert_true(fd[count] >= 0);
        }
    /* Of 32 * FRUITLESS all but a little: the third address has most, and its second most. */
    uint64_t all = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = i == 21 ? FRUITLESS : i / 10 == 2 ? FRUITLESS * 9 / 10 : FRUITLESS * 7 / 10;
        assert_true(receive(fd[i], bytes));
        all += bytes;
    }
    assert_true(all < 33 * FRUITLESS);
    while (all < 33 * FRUITLESS) {
        size_t bytes = FRUITLESS / 100;
        for (int i = 0; i < 10 && all < 33 * FRUITLESS; i++, all += bytes)
            assert_true(receive(fd[i], bytes));
    }
    assert_int_equal(figures().cut_fruitless - before.cut_fruitless, 1);
    for (int i = 0; i < count; i++) {
        assert_int_equal(is_cut(client[i]), i == 21);
        close(fd[i]);
        close(client[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_broke_in_the_queue_is_closed_and_not_handed_on),
        cmocka_unit_test(a_connection_that_nobody_could_take_is_taken_later),
        cmocka_unit_test(connections_beyond_a_peer_s_rate_are_closed_and_others_come_in),
        cmocka_unit_test(closed_connections_are_forgotten),
        cmocka_unit_test(who_sends_what_nothing_comes_of_is_cut),
        cmocka_unit_test(too_much_of_all_together_ends_with_who_has_most),
    };

    return cmocka_run_group_tests(tests, limit, end);
}
