/* Links over real sockets, by each transport: what arrives, in which order, and what each way of
 * ending looks like. A few calls are made as a stranger's client would. */
#include "base/alloc.h"
#include "base/crc32c.h"
#include "grpc/rpc.h"
#include "proto/codec.h"
#include "proto/health.pb-c.h"
#include "runtime/transport.h"
#include "tests/unit/stranger.h"
#include "wire/sockets/sockets.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

/* What carries the links; all but what a stranger does goes through the door. */
static const struct lh_transport_methods *tested = &lh_rpc_transport;

/* ---- one end ---- */

struct end {
    struct lh_transport *transport;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Behaviour of the served side. */
    bool mute; /* does not answer */
    bool deaf; /* does not even read */
    int refuse_with;
    bool patient; /* does not soon give a silent peer up */
    struct lh_duration connect_timeout;
    /* What happened. */
    struct lh_transport_link *link; /* the last one opened to us, with a reference */
    int opened, messages, closed, released;
    size_t bytes, last_size;
    uint32_t last_crc, first_byte;
    int error;
    char text[200];
    bool disorder;
};

static void changed(struct end *e)
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
        bool expected_ = (condition);                                                              \
        pthread_mutex_unlock(&(e)->lock);                                                          \
        if (!expected_)                                                                            \
            fail_msg("%s", #condition);                                                            \
    } while (0)

static void serve_opened(
    void *arg, struct lh_transport_link *link, enum lh_method method, const char *peer)
{
    struct end *e = arg;

    (void)method;
    assert_non_null(peer);
    assert_string_equal(lh_transport_link_identity(link), "");
    pthread_mutex_lock(&e->lock);
    e->opened++;
    struct lh_transport_link *before = e->link;
    e->link = link;
    changed(e);
    if (before != NULL)
        lh_transport_link_unref(before);
    if (e->refuse_with != 0)
        lh_transport_link_close(link, e->refuse_with, "not today: later");
    else if (!e->deaf)
        lh_transport_link_read(link);
    lh_transport_link_flush(link);
}

static void note(struct end *e, const struct lh_buf *bytes)
{
    uint8_t first = 0;

    pthread_mutex_lock(&e->lock);
    e->messages++;
    e->bytes += bytes->size;
    e->last_size = bytes->size;
    e->last_crc = lh_buf_crc32c(bytes, 0, bytes->size, 0);
    if (lh_buf_read(bytes, 0, &first, 1) && first != (uint8_t)e->messages)
        e->disorder = true;
    changed(e);
}

static void serve_message(void *arg, struct lh_transport_link *link, struct lh_buf bytes)
{
    struct end *e = arg;

    note(e, &bytes);
    if (e->mute)
        lh_buf_clear(&bytes);
    else
        lh_transport_link_send(link, bytes);
    if (!e->deaf)
        lh_transport_link_read(link);
    lh_transport_link_flush(link);
}

static void call_message(void *arg, struct lh_transport_link *link, struct lh_buf bytes)
{
    const struct end *e = arg;

    note(arg, &bytes);
    lh_buf_clear(&bytes);
    if (!e->deaf)
        lh_transport_link_read(link);
    lh_transport_link_flush(link);
}

static void end_closed(void *arg, struct lh_transport_link *link, int error, const char *text)
{
    struct end *e = arg;

    (void)link;
    pthread_mutex_lock(&e->lock);
    e->closed++;
    e->error = error;
    snprintf(e->text, sizeof e->text, "%s", text == NULL ? "" : text);
    changed(e);
}

static void end_released(void *arg, struct lh_transport_link *link)
{
    struct end *e = arg;

    (void)link;
    pthread_mutex_lock(&e->lock);
    e->released++;
    changed(e);
}

static const char *const services[] = {"leasehold.Master", "leasehold.Leases", NULL};

static struct lh_transport_config config_of(struct end *e, const char *listen)
{
    return (struct lh_transport_config){
        .listen = listen,
        .threads = 2,
        .queue_calls = 3, /* so that there are many queues */
        .keepalive = lh_milliseconds(e->patient ? 60000 : 300),
        .keepalive_timeout = lh_milliseconds(e->patient ? 60000 : 300),
        .connect_timeout = e->connect_timeout,
        .services = services,
        .arg = e,
        .on_opened = serve_opened,
        .on_message = listen != NULL ? serve_message : call_message,
        .on_closed = end_closed,
        .on_released = end_released,
    };
}

static void end_begin(struct end *e, const char *listen)
{
    struct lh_transport_config config = config_of(e, listen);
    char why[200];

    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (lh_transport_create(tested, &config, &e->transport, why, sizeof why) != LH_OK)
        fail_msg("%s", why);
    lh_transport_start(e->transport);
}

static void end_finish(struct end *e)
{
    lh_transport_destroy(e->transport);
    if (e->link != NULL)
        lh_transport_link_unref(e->link);
    e->link = NULL;
}

static void address_of(const struct end *server, char *to, size_t size)
{
    snprintf(to, size, "127.0.0.1:%d", lh_transport_port(server->transport));
}

static struct lh_transport_link *call(
    struct end *client, enum lh_method method, const char *address, struct lh_duration timeout)
{
    struct lh_transport_link *link =
        lh_transport_link_open(client->transport, method, address, timeout);

    lh_transport_link_read(link);
    return link;
}

static struct lh_buf pattern(size_t size, uint8_t first)
{
    uint8_t *to;
    struct lh_buf b = lh_buf_alloc(size, &to);

    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(i * 2654435761u >> 13);
    if (size > 0)
        to[0] = first;
    return b;
}

/* ---- messages ---- */

static void messages_come_back_whole_and_in_order(void **state)
{
    struct end server = {0}, client = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    for (int i = 1; i <= 300; i++) {
        lh_transport_link_send(link, pattern((size_t)(i * i), (uint8_t)i));
        if (i % 7 == 0)
            lh_transport_link_flush(link);
    }
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.messages == 300);
    EXPECT(&server, !server.disorder);
    EXPECT(&client, !client.disorder);
    EXPECT(&client, client.bytes == 9045050);

    lh_transport_link_close(link, LH_OK, NULL);
    lh_transport_link_flush(link);
    lh_transport_link_unref(link);
    WAIT_UNTIL(&server, server.closed == 1);
    EXPECT(&server, server.error == LH_ERR_CANCELLED);
    WAIT_UNTIL(&client, client.released == 1);
    EXPECT(&client, client.closed == 0); /* who closes is not told */
    end_finish(&client);
    end_finish(&server);
    EXPECT(&server, server.released == 1);
}

static void a_message_of_many_large_and_small_slices_keeps_its_bytes(void **state)
{
    struct end server = {0}, client = {0};
    struct lh_buf message = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    for (size_t i = 0; i < 200; i++) {
        struct lh_buf piece = pattern(i % 3 == 0 ? 150000 : i, 1);
        lh_buf_append(&message, &piece, 0, piece.size);
        lh_buf_clear(&piece);
    }
    size_t size = message.size;
    uint32_t crc = lh_buf_crc32c(&message, 0, size, 0);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, message);
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.messages == 1);
    EXPECT(&client, client.last_size == size);
    EXPECT(&client, client.last_crc == crc);
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&server);
}

static void who_does_not_read_is_sent_no_more(void **state)
{
    struct end server = {.deaf = true}, client = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    for (uint8_t i = 1; i <= 3; i++)
        lh_transport_link_send(link, pattern(10, i));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&server, server.opened == 1);
    EXPECT(&server, server.messages == 0);
    struct lh_transport_link *served = server.link;
    for (int i = 1; i <= 3; i++) {
        lh_transport_link_read(served);
        lh_transport_link_flush(served);
        WAIT_UNTIL(&client, client.messages == i);
        EXPECT(&server, server.messages == i);
    }
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&server);
}

/* ---- ends ---- */

static void a_served_link_ends_with_its_error_and_text(void **state)
{
    struct end server = {.refuse_with = LH_ERR_STALE_VERSION}, client = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, pattern(10, 1));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.closed == 1);
    EXPECT(&client, client.error == LH_ERR_STALE_VERSION);
    EXPECT(&client, strcmp(client.text, "not today: later") == 0);
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&server);
    EXPECT(&server, server.closed == 0);
}

static void a_deadline_ends_the_link(void **state)
{
    struct end server = {.mute = true}, client = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, lh_milliseconds(100));
    lh_transport_link_send(link, pattern(10, 1));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.closed == 1);
    EXPECT(&client, client.error == LH_ERR_DEADLINE_EXCEEDED);
    WAIT_UNTIL(&server, server.closed == 1);
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&server);
}

static void a_link_that_is_started_late_has_as_long_to_connect(void **state)
{
    struct end server = {0}, client = {.connect_timeout = lh_seconds(1)};
    const struct timespec longer = {.tv_sec = 1, .tv_nsec = 10000000};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, pattern(10, 1));
    nanosleep(&longer, NULL);
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.messages == 1 || client.closed == 1);
    EXPECT(&client, client.messages == 1);
    lh_transport_link_close(link, LH_OK, NULL);
    lh_transport_link_flush(link);
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&server);
}

static void a_closed_link_is_dead_at_once(void **state)
{
    struct end client = {0};

    (void)state;
    end_begin(&client, NULL);
    struct lh_transport_link *link =
        call(&client, LH_METHOD_APPEND, "127.0.0.1:1", LH_DURATION_FOREVER);
    lh_transport_link_close(link, LH_OK, NULL); /* before it was even started */
    lh_transport_link_send(link, pattern(10, 1));
    lh_transport_link_flush(link);
    lh_transport_link_unref(link);
    EXPECT(&client, client.released == 1);
    EXPECT(&client, client.closed == 0);
    end_finish(&client);
}

static void nobody_there_is_unavailable_and_later_somebody_is(void **state)
{
    struct end server = {0}, client = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_finish(&server);

    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.closed == 1);
    EXPECT(&client, client.error == LH_ERR_UNAVAILABLE);
    EXPECT(&client, strcmp(client.text, "") != 0);
    lh_transport_link_unref(link);

    struct end again = {0};
    end_begin(&again, address);
    bool answered = false;
    for (int tries = 2; !answered; tries++) {
        link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
        lh_transport_link_send(link, pattern(10, 1));
        lh_transport_link_flush(link);
        WAIT_UNTIL(&client, client.closed == tries || (answered = client.messages == 1));
        lh_transport_link_unref(link);
        usleep(10000);
        assert_true(tries < 500);
    }
    end_finish(&client);
    end_finish(&again);
}

static void an_oversized_message_ends_its_link_alone(void **state)
{
    /* So many bytes take a sanitizer's build longer than an end that is not patient waits. */
    struct end server = {.patient = true}, client = {.patient = true};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *bad = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(bad, pattern(LH_MESSAGE_BYTES_MAX + 1, 1));
    lh_transport_link_flush(bad);
    WAIT_UNTIL(&client, client.closed == 1);
    EXPECT(&client, client.error == LH_ERR_TOO_LARGE);
    lh_transport_link_unref(bad);
    EXPECT(&server, server.messages == 0);

    struct lh_transport_link *good = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(good, pattern(LH_MESSAGE_BYTES_MAX, 1));
    lh_transport_link_flush(good);
    WAIT_UNTIL(&client, client.messages == 1 || client.closed == 2);
    EXPECT(&client, client.bytes == LH_MESSAGE_BYTES_MAX);
    lh_transport_link_unref(good);
    end_finish(&client);
    end_finish(&server);
}

struct caller {
    struct end *client;
    const char *address;
    unsigned seed;
};

enum { CALLERS = 4, CALLS = 150 };

/* Opens, sends, reads, flushes and closes in every order that the seed gives. */
static void *call_wildly(void *arg)
{
    const struct caller *c = arg;
    uint32_t random = c->seed;

    for (int i = 0; i < CALLS; i++) {
        struct lh_transport_link *link =
            call(c->client, LH_METHOD_APPEND, c->address, LH_DURATION_FOREVER);
        for (int step = 0; step < 6; step++) {
            random = random * 1664525u + 1013904223u;
            if (random >> 30 == 0)
                lh_transport_link_send(link, pattern(random >> 16 & 0xfff, 1));
            else if (random >> 30 == 1)
                lh_transport_link_read(link);
            else if (random >> 29 == 4)
                lh_transport_link_close(link, LH_OK, NULL);
            else
                lh_transport_link_flush(link);
        }
        lh_transport_link_close(link, LH_OK, NULL);
        lh_transport_link_flush(link);
        lh_transport_link_unref(link);
    }
    return NULL;
}

static void every_link_is_released_however_it_was_used(void **state)
{
    struct end server = {0}, client = {0};
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){&client, address, i + 1};
        pthread_create(&threads[i], NULL, call_wildly, &callers[i]);
    }
    for (unsigned i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    WAIT_UNTIL(&client, client.released == CALLERS * CALLS);
    EXPECT(&client, client.closed == 0);
    end_finish(&client);
    end_finish(&server);
    EXPECT(&server, server.released == server.opened);
    EXPECT(&server, server.closed == server.opened);
}

enum { STREAMS = 400 };

/* More than there can be queues for, were each to have no more than its share. */
static void many_streams_stand_at_once_and_all_are_answered(void **state)
{
    static struct lh_transport_link *links[STREAMS];
    struct end server = {.patient = true}, client = {.patient = true};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    for (int i = 0; i < STREAMS; i++)
        links[i] = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < STREAMS; i++) {
            lh_transport_link_send(links[i], pattern(100, 1));
            lh_transport_link_flush(links[i]);
        }
        WAIT_UNTIL(&client, client.messages == round * STREAMS);
    }
    for (int i = 0; i < STREAMS; i += 2) {
        lh_transport_link_close(links[i], LH_OK, NULL);
        lh_transport_link_flush(links[i]);
    }
    WAIT_UNTIL(&server, server.closed == STREAMS / 2);
    for (int i = 1; i < STREAMS; i += 2) {
        lh_transport_link_send(links[i], pattern(100, 1));
        lh_transport_link_flush(links[i]);
    }
    WAIT_UNTIL(&client, client.messages == 3 * STREAMS + STREAMS / 2);
    for (int i = 0; i < STREAMS; i++)
        lh_transport_link_unref(links[i]);
    end_finish(&client);
    end_finish(&server);
    EXPECT(&server, server.released == STREAMS);
    EXPECT(&client, client.released == STREAMS);
}

/* Destroyed while everything is moving. */
static void a_shutdown_in_mid_traffic_ends_cleanly(void **state)
{
    struct end server = {0}, client = {0};
    struct lh_transport_link *links[20];
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    for (int i = 0; i < 20; i++) {
        links[i] = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
        for (int m = 0; m < 20; m++)
            lh_transport_link_send(links[i], pattern(50000, 1));
        lh_transport_link_flush(links[i]);
    }
    WAIT_UNTIL(&client, client.messages >= 10);
    end_finish(&server);
    WAIT_UNTIL(&client, client.closed == 20);
    EXPECT(&server, server.released == server.opened);
    for (int i = 0; i < 20; i++) {
        lh_transport_link_send(links[i], pattern(10, 1)); /* in vain, but harmless */
        lh_transport_link_flush(links[i]);
        lh_transport_link_unref(links[i]);
    }
    end_finish(&client);
    EXPECT(&client, client.released == 20);
}

/* ---- a peer in another process ---- */

static _Noreturn void serve_in_child(void)
{
    struct end server = {0};

    end_begin(&server, "127.0.0.1:0");
    printf("%d\n", lh_transport_port(server.transport));
    fflush(stdout);
    for (;;)
        pause();
}

static pid_t spawn_server(char *address, size_t size)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)"rpc_test",
        (char *)(tested == &lh_wire_transport ? "--serve-wire" : "--serve"), NULL};
    int pipe_fds[2], port;
    pid_t pid;

    assert_int_equal(pipe(pipe_fds), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    FILE *f = fdopen(pipe_fds[0], "r");
    assert_int_equal(fscanf(f, "%d", &port), 1);
    fclose(f);
    snprintf(address, size, "127.0.0.1:%d", port);
    return pid;
}

/* Signal by signal: a killed process resets its connections, a stopped one just says nothing. */
static void a_peer_lost_by(int signal_number)
{
    struct end client = {0};
    char address[64];
    pid_t pid = spawn_server(address, sizeof address);

    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, pattern(10, 1));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.messages == 1);
    kill(pid, signal_number);
    WAIT_UNTIL(&client, client.closed == 1);
    EXPECT(&client, client.error == LH_ERR_UNAVAILABLE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    lh_transport_link_unref(link);
    end_finish(&client);
}

static void a_killed_peer_is_unavailable(void **state)
{
    (void)state;
    a_peer_lost_by(SIGKILL);
}

static void a_peer_that_falls_silent_is_noticed(void **state)
{
    (void)state;
    a_peer_lost_by(SIGSTOP);
}

/* It has all descriptors, and keeps connections open that are closed here. Half of the servers fall
 * silent first, so that what they send when they are killed is for a connection that is gone. */
static void a_forked_child_harms_nobody(void **state)
{
    enum { SERVERS = 6 };
    struct end client = {0};
    char address[64];
    pid_t children[SERVERS];

    (void)state;
    end_begin(&client, NULL);
    for (int i = 1; i <= SERVERS; i++) {
        pid_t server = spawn_server(address, sizeof address);
        struct lh_transport_link *link =
            call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
        lh_transport_link_send(link, pattern(10, (uint8_t)i));
        lh_transport_link_flush(link);
        WAIT_UNTIL(&client, client.messages == i);
        children[i - 1] = fork();
        if (children[i - 1] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* it has the test's output, too */
            for (;;)
                pause();
        }
        kill(server, i % 2 == 0 ? SIGSTOP : SIGKILL);
        WAIT_UNTIL(&client, client.closed == i);
        lh_transport_link_unref(link);
        WAIT_UNTIL(&client, client.released == i);
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    end_finish(&client);
    for (int i = 0; i < SERVERS; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

/* ---- addresses ---- */

static void expect_refused(const char *listen, int expected, const char *names)
{
    struct end e = {0};
    struct lh_transport_config config = config_of(&e, listen);
    struct lh_transport *transport;
    char why[200] = "";

    assert_int_equal(lh_transport_create(tested, &config, &transport, why, sizeof why), expected);
    if (strstr(why, names) == NULL)
        fail_msg("'%s' does not name '%s'", why, names);
}

static void an_address_that_cannot_be_listened_on_is_refused_by_name(void **state)
{
    struct end server = {0}, local = {0};
    char address[64], path[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    expect_refused(address, LH_ERR_ADDRESS_IN_USE, address);

    snprintf(path, sizeof path, "unix:/tmp/rpc_test.%d.sock", (int)getpid());
    end_begin(&local, path);
    assert_int_equal(lh_transport_port(local.transport), 0);
    expect_refused(path, LH_ERR_ADDRESS_IN_USE, path);
    expect_refused("unix:/nowhere/at/all/socket", LH_ERR_SYSTEM, "No such file");
    expect_refused("127.0.0.1", LH_ERR_INVALID_ARGUMENT, "'127.0.0.1' is not an address");
    expect_refused("127.0.0.1:port", LH_ERR_INVALID_ARGUMENT, "not an address");
    expect_refused(":80", LH_ERR_INVALID_ARGUMENT, "not an address");
    expect_refused("192.0.2.1:7400", LH_ERR_UNAVAILABLE, "not an address of this machine");
    expect_refused("no.such.host.invalid:7400", LH_ERR_INVALID_ARGUMENT, "resolved");
    end_finish(&server);

    struct end client = {0};
    end_begin(&client, NULL);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, path, LH_DURATION_FOREVER);
    lh_transport_link_send(link, pattern(10, 1));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.messages == 1);
    lh_transport_link_unref(link);
    end_finish(&client);
    end_finish(&local);
    unlink(path + strlen("unix:"));
}

/* A server of an older release: whoever calls it notices nothing. */
static void a_server_without_the_wire_is_called_over_grpc(void **state)
{
    const struct lh_transport_methods *before = tested;
    struct end server = {0}, client = {0};
    struct lh_transport_link *links[3];
    char address[64];

    (void)state;
    tested = &lh_rpc_transport;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    tested = &lh_wire_transport;
    end_begin(&client, NULL);
    tested = before;
    for (int i = 0; i < 3; i++) {
        links[i] = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
        lh_transport_link_send(links[i], pattern(10, 1));
        if (i != 1)
            lh_transport_link_flush(links[i]);
        if (i == 1)
            WAIT_UNTIL(&client, client.messages >= 1);
    }
    lh_transport_link_flush(links[1]);
    WAIT_UNTIL(&client, client.messages == 3);
    for (int i = 0; i < 3; i++)
        lh_transport_link_send(links[i], pattern(10, 1));
    for (int i = 0; i < 3; i++)
        lh_transport_link_flush(links[i]);
    WAIT_UNTIL(&client, client.messages == 6);
    lh_transport_link_close(links[0], LH_OK, NULL);
    lh_transport_link_flush(links[0]);
    WAIT_UNTIL(&server, server.closed == 1);
    EXPECT(&client, client.closed == 0);
    end_finish(&server);
    WAIT_UNTIL(&client, client.closed == 2);
    for (int i = 0; i < 3; i++)
        lh_transport_link_unref(links[i]);
    end_finish(&client);
    EXPECT(&client, client.released == 3);
}

#define CONNECTIONS 64
#define EACH        300

static struct {
    pthread_mutex_t lock;
    struct lh_transport_link *links[CONNECTIONS];
    int count;
    atomic_int messages;
} many = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_opened(
    void *arg, struct lh_transport_link *link, enum lh_method method, const char *peer)
{
    (void)arg;
    (void)method;
    (void)peer;
    pthread_mutex_lock(&many.lock);
    many.links[many.count++] = link;
    pthread_mutex_unlock(&many.lock);
}

static void count_message(void *arg, struct lh_transport_link *link, struct lh_buf bytes)
{
    (void)arg;
    (void)link;
    lh_buf_clear(&bytes);
    atomic_fetch_add(&many.messages, 1);
}

static void *ask_all(void *arg)
{
    (void)arg;
    while (atomic_load(&many.messages) < CONNECTIONS * EACH) {
        pthread_mutex_lock(&many.lock);
        int count = many.count;
        pthread_mutex_unlock(&many.lock);
        for (int i = 0; i < count; i++) {
            lh_transport_link_read(many.links[i]);
            lh_transport_link_flush(many.links[i]);
        }
    }
    return NULL;
}

/* Each asking has a loop look at a connection, while it looks at others. */
static void many_connections_are_looked_at_whoever_asks(void **state)
{
    struct end server = {0}, client = {.patient = true};
    struct lh_transport_config config = config_of(&server, "0.0.0.0:0");
    struct lh_transport_link *links[CONNECTIONS];
    pthread_t threads[3];
    char address[64], why[200];

    (void)state;
    config.on_opened = keep_opened;
    config.on_message = count_message;
    many.count = 0;
    atomic_store(&many.messages, 0);
    pthread_mutex_init(&server.lock, NULL);
    pthread_cond_init(&server.changed, NULL);
    assert_int_equal(
        lh_transport_create(tested, &config, &server.transport, why, sizeof why), LH_OK);
    lh_transport_start(server.transport);
    end_begin(&client, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        snprintf(
            address, sizeof address, "127.0.0.%d:%d", i + 1, lh_transport_port(server.transport));
        links[i] = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
        for (int j = 0; j < EACH; j++)
            lh_transport_link_send(links[i], pattern(10, 1));
        lh_transport_link_flush(links[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        lh_transport_link_unref(links[i]);
    end_finish(&client);
    end_finish(&server);
    for (int i = 0; i < CONNECTIONS; i++)
        lh_transport_link_unref(many.links[i]);
    EXPECT(&server, server.released == CONNECTIONS);
}

/* However late it is asked for. */
static void what_came_before_a_good_end_outlives_its_connection(void **state)
{
    struct end server = {.mute = true}, client = {.deaf = true};
    char address[64];

    (void)state;
    if (tested != &lh_wire_transport)
        return;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    end_begin(&client, NULL);
    struct lh_transport_link *other = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(other, pattern(10, 1));
    lh_transport_link_flush(other);
    WAIT_UNTIL(&server, server.messages == 1);
    struct lh_transport_link *link = call(&client, LH_METHOD_APPEND, address, LH_DURATION_FOREVER);
    lh_transport_link_send(link, pattern(10, 2));
    lh_transport_link_flush(link);
    WAIT_UNTIL(&server, server.messages == 2);
    for (uint8_t i = 1; i <= 3; i++)
        lh_transport_link_send(server.link, pattern(10, i));
    lh_transport_link_close(server.link, LH_OK, NULL);
    lh_transport_link_flush(server.link);
    WAIT_UNTIL(&client, client.messages == 1);
    end_finish(&server);
    WAIT_UNTIL(&client, client.closed == 1); /* the other one: the connection is lost */
    EXPECT(&client, client.error == LH_ERR_UNAVAILABLE);
    for (int i = 2; i <= 3; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        lh_transport_link_read(link);
        lh_transport_link_flush(link);
        WAIT_UNTIL(&client, client.messages == i);
    }
    lh_transport_link_read(link);
    lh_transport_link_flush(link);
    WAIT_UNTIL(&client, client.closed == 2);
    EXPECT(&client, client.error == LH_OK);
    EXPECT(&client, !client.disorder);
    lh_transport_link_unref(other);
    lh_transport_link_unref(link);
    end_finish(&client);
    EXPECT(&client, client.released == 2);
}

/* ---- strangers ---- */

/* gRPC's status codes, as they are on the wire. */
enum {
    STATUS_OK = 0,
    INVALID_ARGUMENT = 3,
    NOT_FOUND = 5,
    RESOURCE_EXHAUSTED = 8,
    UNIMPLEMENTED = 12
};

static void expect_status(struct lh_stranger *s, int status, const char *message)
{
    char text[200];

    assert_int_equal(lh_stranger_end(s, text, sizeof text), status);
    assert_string_equal(text, message);
}

static void an_unknown_method_is_unimplemented(void **state)
{
    struct end server = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    expect_status(lh_stranger_call(address, "/leasehold.Master/Fly", "x", 1), UNIMPLEMENTED,
        "UNIMPLEMENTED: no such method");
    EXPECT(&server, server.opened == 0);
    end_finish(&server);
}

static void a_unary_call_without_a_request_is_malformed(void **state)
{
    struct end server = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    expect_status(lh_stranger_call(address, "/leasehold.Master/Stat", NULL, 0), INVALID_ARGUMENT,
        "MALFORMED: the call ended without a request");
    EXPECT(&server, server.error == LH_ERR_MALFORMED);
    EXPECT(&server, server.closed == 1);
    end_finish(&server);
}

static void a_stranger_s_oversized_message_is_refused(void **state)
{
    struct end server = {0};
    char address[64], text[200];
    char *large = lh_alloc(LH_MESSAGE_BYTES_MAX + 1);

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    struct lh_stranger *s =
        lh_stranger_call(address, "/leasehold.ChunkServer/Append", large, LH_MESSAGE_BYTES_MAX + 1);
    assert_int_equal(lh_stranger_end(s, text, sizeof text), RESOURCE_EXHAUSTED);
    WAIT_UNTIL(&server, server.closed == 1);
    EXPECT(&server, server.messages == 0);
    end_finish(&server);
    free(large);
}

/* The end of a stream's requests is not the end of the link: answers still go out. */
static void a_half_closed_stream_is_still_answered(void **state)
{
    struct end server = {0};
    char address[64], reply[10];
    size_t size;

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    struct lh_stranger *s = lh_stranger_call(address, "/leasehold.ChunkServer/Append", "\1x", 2);
    assert_true(lh_stranger_read(s, reply, sizeof reply, &size));
    assert_int_equal(size, 2);
    EXPECT(&server, server.closed == 0);
    lh_transport_link_close(server.link, LH_OK, NULL);
    lh_transport_link_flush(server.link);
    expect_status(s, STATUS_OK, "");
    end_finish(&server);
}

/* ---- health ---- */

static int read_health(struct lh_stranger *s)
{
    uint8_t reply[2] = {0};
    size_t size;

    if (!lh_stranger_read(s, reply, sizeof reply, &size))
        return -1;
    assert_int_equal(size, 2); /* field 1, one-byte varint */
    return reply[1];
}

/* The health, or the negative status if there was no answer. */
static int check(const char *address, const char *request, size_t size)
{
    struct lh_stranger *s =
        lh_stranger_call(address, "/grpc.health.v1.Health/Check", request, size);
    char text[200];
    int health = read_health(s);
    int status = lh_stranger_end(s, text, sizeof text);

    return status == STATUS_OK ? health : -status;
}

static void end_watch(struct lh_stranger *s)
{
    char text[200];

    lh_stranger_cancel(s);
    (void)lh_stranger_end(s, text, sizeof text);
}

#define SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define UNKNOWN     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

static void health_is_told_and_its_changes_too(void **state)
{
    struct end server = {0};
    char address[64];

    (void)state;
    end_begin(&server, "127.0.0.1:0");
    address_of(&server, address, sizeof address);
    assert_int_equal(check(address, "", 0), NOT_SERVING);
    assert_int_equal(check(address, "\n\20leasehold.Master", 18), NOT_SERVING);
    assert_int_equal(check(address, "\n\1x", 3), -NOT_FOUND);
    assert_int_equal(check(address, "\377", 1), -INVALID_ARGUMENT);

    struct lh_stranger *s = lh_stranger_call(address, "/grpc.health.v1.Health/Watch", "", 0);
    assert_int_equal(read_health(s), NOT_SERVING);
    lh_transport_set_serving(server.transport, true, false);
    assert_int_equal(read_health(s), SERVING);
    assert_int_equal(check(address, "", 0), SERVING);
    assert_int_equal(check(address, "\n\20leasehold.Leases", 18), NOT_SERVING);
    end_watch(s);

    /* A standby's services are not served: they have a state of their own. */
    s = lh_stranger_call(address, "/grpc.health.v1.Health/Watch", "\n\20leasehold.Master", 18);
    assert_int_equal(read_health(s), NOT_SERVING);
    lh_transport_set_serving(server.transport, true, true);
    assert_int_equal(read_health(s), SERVING);
    assert_int_equal(check(address, "\n\20leasehold.Leases", 18), SERVING);
    end_watch(s);

    s = lh_stranger_call(address, "/grpc.health.v1.Health/Watch", "\n\1x", 3);
    assert_int_equal(read_health(s), UNKNOWN);
    end_watch(s);
    end_finish(&server);
    EXPECT(&server, server.opened == 0);
}

/* ---- gRPC's locks ---- */

/* The last test, since it is for the whole process. */
static void the_order_of_grpc_s_locks_is_not_checked_in_a_server(void **state)
{
    (void)state;
    lh_rpc_trust_locks();
    lh_stranger_lock_in_both_orders();
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--serve-wire") == 0)
        tested = &lh_wire_transport;
    if (argc == 2 && strncmp(argv[1], "--serve", 7) == 0)
        serve_in_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back_whole_and_in_order),
        cmocka_unit_test(a_message_of_many_large_and_small_slices_keeps_its_bytes),
        cmocka_unit_test(who_does_not_read_is_sent_no_more),
        cmocka_unit_test(a_served_link_ends_with_its_error_and_text),
        cmocka_unit_test(a_deadline_ends_the_link),
        cmocka_unit_test(a_link_that_is_started_late_has_as_long_to_connect),
        cmocka_unit_test(a_closed_link_is_dead_at_once),
        cmocka_unit_test(nobody_there_is_unavailable_and_later_somebody_is),
        cmocka_unit_test(an_oversized_message_ends_its_link_alone),
        cmocka_unit_test(every_link_is_released_however_it_was_used),
        cmocka_unit_test(many_streams_stand_at_once_and_all_are_answered),
        cmocka_unit_test(a_shutdown_in_mid_traffic_ends_cleanly),
        cmocka_unit_test(a_killed_peer_is_unavailable),
        cmocka_unit_test(a_peer_that_falls_silent_is_noticed),
        cmocka_unit_test(a_forked_child_harms_nobody),
        cmocka_unit_test(an_address_that_cannot_be_listened_on_is_refused_by_name),
        cmocka_unit_test(a_server_without_the_wire_is_called_over_grpc),
        cmocka_unit_test(many_connections_are_looked_at_whoever_asks),
        cmocka_unit_test(what_came_before_a_good_end_outlives_its_connection),
        cmocka_unit_test(an_unknown_method_is_unimplemented),
        cmocka_unit_test(a_unary_call_without_a_request_is_malformed),
        cmocka_unit_test(a_stranger_s_oversized_message_is_refused),
        cmocka_unit_test(a_half_closed_stream_is_still_answered),
        cmocka_unit_test(health_is_told_and_its_changes_too),
        cmocka_unit_test(the_order_of_grpc_s_locks_is_not_checked_in_a_server),
    };
    int failed = cmocka_run_group_tests_name("over gRPC", tests, NULL, NULL);
    tested = &lh_wire_transport;
    return failed + cmocka_run_group_tests_name("over the wire", tests, NULL, NULL);
}
