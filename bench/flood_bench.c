/* A peer that takes what it can get: HTTP/2 by hand, so that ten thousand connections cost it
 * little. bench/flood and process_flood_test drive it.
 *
 *   --idle N      connections that answer signs of life and do nothing else
 *   --slow N      by turns: a preface of a byte a second, half a preface, half a TLS handshake, and
 *                 a call whose message comes a byte a second
 *   --calls N     calls in flight, of --method with an empty message, at most --rate a second
 *   --connects N  connections begun and dropped a second, at once or after --hold-ms; with
 *                 --tls-dir handshakes begun, with --finish and finished
 *   --serve PORT  nothing of these: accepts connections there and closes them, as a server that
 *                 does no work
 *
 * What the server closes is opened again some time later. Prints "ready" when each connection was
 * opened once, and counts at the end of its input. */
#include "base/alloc.h"
#include "bench/flood_connects.h"
#include "bench/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS      UINT64_C(1000000000)
#define AGAIN_NS       (SECOND_NS / 2)
#define BEGUN_AT_ONCE  200u
#define PER_CONNECTION 512u /* calls */
#define EVENTS         512

enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS, PING = 6, GOAWAY, WINDOW_UPDATE };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4 };
enum kind { IDLE, DRIP, HALF, HALF_TLS, HALF_CALL, CALLER };

static struct {
    const char *address, *source, *method;
    uint64_t sources, idle, slow, calls, rate, port;
} o;
static struct lh_flood_connects connects;

static const struct lh_flag table[] = {
    {LH_FLAG("address", STRING, &o.address, NULL), .help = "of the server"},
    {LH_FLAG("source", STRING, &o.source, "127.0.0.2"), .help = "the first address to call from"},
    {LH_FLAG("sources", UINT, &o.sources, "1"), .min = 1, .max = 250,
        .help = "addresses from that on, for idle and slow connections"},
    {LH_FLAG("idle", UINT, &o.idle, "0"), .max = 100000, .help = "idle connections"},
    {LH_FLAG("slow", UINT, &o.slow, "0"), .max = 100000, .help = "slow ones"},
    {LH_FLAG("calls", UINT, &o.calls, "0"), .max = 100000, .help = "calls in flight"},
    {LH_FLAG("method", STRING, &o.method, "/grpc.health.v1.Health/Check"), .help = "of the calls"},
    {LH_FLAG("rate", UINT, &o.rate, "0"), .help = "calls a second; 0: as many as go"},
    {LH_FLAG("connects", UINT, &connects.rate, "0"), .help = "connections dropped a second"},
    {LH_FLAG("hold-ms", UINT, &connects.hold_ms, "0"), .max = 10000, .help = "before the drop"},
    {LH_FLAG("tls-dir", STRING, &connects.tls_dir, NULL), .help = "dropped ones begin TLS"},
    {LH_FLAG("finish", BOOL, &connects.finish, "false"), .help = "and finish its handshake"},
    {LH_FLAG("serve", UINT, &o.port, "0"), .max = 65535, .help = "port where to close what comes"},
};

struct connection {
    enum kind kind;
    unsigned number; /* which of the sources */
    int fd;
    bool connected, spoke;
    uint64_t again; /* when to open it; 0: it is */
    size_t dripped;
    uint8_t header[9];
    unsigned header_seen, payload_seen;
    uint32_t payload_left;
    uint8_t payload[8];
    unsigned in_flight, wanted, taken; /* calls; bytes of replies */
    uint32_t stream;
    uint8_t out[1 << 15];
    size_t out_size;
};

static struct {
    uint64_t opened, connected, closed, begun, answered, dropped, failed;
} count;

static struct sockaddr_in server;
static int events;
static struct connection **all;
static size_t all_count;
static double call_credit;

static const uint8_t greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
#define GREETING_BYTES (sizeof greeting) /* with the 0 of the string: the last byte of the frame */
static const uint8_t hello[] = {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 1, 2, 3, 4};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- what is sent ---- */

static void flush(struct connection *c)
{
    while (c->fd >= 0 && c->out_size > 0) {
        ssize_t n = send(c->fd, c->out, c->out_size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return;
        memmove(c->out, c->out + n, c->out_size - (size_t)n);
        c->out_size -= (size_t)n;
    }
}

static bool put(struct connection *c, const void *bytes, size_t size)
{
    if (sizeof c->out - c->out_size < size)
        return false;
    memcpy(c->out + c->out_size, bytes, size);
    c->out_size += size;
    return true;
}

static bool put_frame(struct connection *c, uint8_t kind, uint8_t flags, uint32_t stream,
    const void *payload, size_t size)
{
    const uint8_t header[9] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, kind,
        flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),
        (uint8_t)stream};

    if (sizeof c->out - c->out_size < sizeof header + size)
        return false;
    return put(c, header, sizeof header) && (size == 0 || put(c, payload, size));
}

static size_t literal(uint8_t *to, const char *name, uint8_t index, const char *value)
{
    size_t n = 0;

    if (name == NULL) {
        to[n++] = index; /* without a place in the table: below 15 */
    } else {
        to[n++] = 0;
        to[n++] = (uint8_t)strlen(name);
        memcpy(to + n, name, strlen(name));
        n += strlen(name);
    }
    to[n++] = (uint8_t)strlen(value);
    memcpy(to + n, value, strlen(value));
    return n + strlen(value);
}

/* Headers of a call, and a message of `size` zeros of which `sent` go out. */
static bool put_call(struct connection *c, uint32_t size, size_t sent, bool end)
{
    uint8_t block[400] = {0x83, 0x86}, message[64] = {[4] = (uint8_t)size};
    size_t n = 2;

    if (sizeof c->out - c->out_size < 600)
        return false;
    n += literal(block + n, NULL, 4, o.method);
    n += literal(block + n, NULL, 1, "localhost");
    n += literal(block + n, "content-type", 0, "application/grpc");
    n += literal(block + n, "te", 0, "trailers");
    c->stream = c->stream == 0 ? 1 : c->stream + 2;
    return put_frame(c, HEADERS, END_HEADERS, c->stream, block, n) &&
           put_frame(c, DATA, end ? END_STREAM : 0, c->stream, message, 5 + sent);
}

static void put_window(struct connection *c)
{
    const uint8_t more[4] = {(uint8_t)(c->taken >> 24), (uint8_t)(c->taken >> 16),
        (uint8_t)(c->taken >> 8), (uint8_t)c->taken};

    if (c->taken > 16384 && put_frame(c, WINDOW_UPDATE, 0, 0, more, sizeof more))
        c->taken = 0;
}

/* ---- one connection ---- */

static void close_it(struct connection *c, uint64_t now)
{
    const struct linger hard = {.l_onoff = 1};

    if (c->fd >= 0) {
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        (void)close(c->fd);
        count.closed++;
    }
    c->fd = -1;
    c->connected = c->spoke = false;
    c->header_seen = c->payload_seen = c->payload_left = c->in_flight = c->taken = c->stream = 0;
    c->out_size = c->dripped = 0;
    c->again = now + AGAIN_NS;
}

static int begin(unsigned number)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)inet_pton(AF_INET, o.source, &from.sin_addr);
    from.sin_addr.s_addr = htonl(ntohl(from.sin_addr.s_addr) + number % (unsigned)o.sources);
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
        (connect(fd, (struct sockaddr *)&server, sizeof server) == 0 || errno == EINPROGRESS))
        return fd;
    (void)close(fd);
    return -1;
}

static void open_it(struct connection *c, uint64_t now)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};

    c->fd = begin(c->number);
    c->again = c->fd < 0 ? now + AGAIN_NS : 0;
    if (c->fd < 0) {
        count.failed++;
        return;
    }
    count.opened++;
    (void)epoll_ctl(events, EPOLL_CTL_ADD, c->fd, &e);
}

static void call_more(struct connection *c)
{
    while (
        c->in_flight < c->wanted && (o.rate == 0 || call_credit >= 1) && put_call(c, 0, 0, true)) {
        c->in_flight++;
        count.begun++;
        call_credit -= 1;
    }
}

/* The socket takes bytes. */
static void speak(struct connection *c)
{
    if (!c->connected) {
        c->connected = true;
        count.connected++;
    }
    if (!c->spoke && c->kind == HALF_TLS)
        (void)put(c, hello, sizeof hello);
    else if (!c->spoke && c->kind == HALF)
        (void)put(c, greeting, 12);
    else if (!c->spoke && c->kind != DRIP)
        (void)put(c, greeting, GREETING_BYTES);
    if (!c->spoke && c->kind == HALF_CALL)
        (void)put_call(c, 60, 0, false);
    c->spoke = true;
    if (c->kind == CALLER)
        call_more(c);
    flush(c);
}

/* One more byte of those that take their time. */
static void drip(struct connection *c)
{
    static const uint8_t zero;

    if (!c->connected)
        return;
    if (c->kind == DRIP && c->dripped < GREETING_BYTES)
        (void)put(c, greeting + c->dripped++, 1);
    if (c->kind == HALF_CALL && c->dripped++ < 59)
        (void)put_frame(c, DATA, 0, c->stream, &zero, 1);
    flush(c);
}

static void frame_ended(struct connection *c)
{
    uint8_t kind = c->header[3], flags = c->header[4];

    if (kind == PING && (flags & ACK) == 0)
        (void)put_frame(c, PING, ACK, 0, c->payload, 8);
    if (kind == SETTINGS && (flags & ACK) == 0)
        (void)put_frame(c, SETTINGS, ACK, 0, NULL, 0);
    bool over = kind == RST_STREAM || (kind == HEADERS && (flags & END_STREAM) != 0);
    if (over && c->kind == CALLER && c->in_flight > 0) {
        c->in_flight--;
        count.answered++;
    }
    if (over && c->kind == HALF_CALL) {
        count.dropped++;
        c->dripped = 0;
        (void)put_call(c, 60, 0, false);
    }
}

static void take(struct connection *c, const uint8_t *at, size_t size)
{
    while (size > 0) {
        size_t n = 1;
        if (c->header_seen < 9) {
            c->header[c->header_seen++] = *at;
            if (c->header_seen == 9) {
                c->payload_left = (uint32_t)c->header[0] << 16 | (uint32_t)c->header[1] << 8 |
                                  (uint32_t)c->header[2];
                c->payload_seen = 0;
                c->taken += c->header[3] == DATA ? c->payload_left : 0;
            }
        } else {
            n = size < c->payload_left ? size : c->payload_left;
            for (size_t i = 0; i < n && c->payload_seen < sizeof c->payload; i++)
                c->payload[c->payload_seen++] = at[i];
            c->payload_left -= (uint32_t)n;
        }
        at += n;
        size -= n;
        if (c->header_seen == 9 && c->payload_left == 0) {
            frame_ended(c);
            c->header_seen = 0;
        }
    }
}

static void on_event(struct connection *c, uint32_t what, uint64_t now)
{
    static uint8_t bytes[1 << 16];

    if ((what & EPOLLOUT) != 0 && (what & (EPOLLERR | EPOLLHUP)) == 0)
        speak(c);
    while ((what & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            close_it(c, now);
            return;
        }
        if (c->kind != DRIP && c->kind != HALF && c->kind != HALF_TLS)
            take(c, bytes, (size_t)n);
    }
    put_window(c);
    if (c->kind == CALLER && c->spoke)
        call_more(c);
    flush(c);
}

/* ---- all of them ---- */

static void add(enum kind kind, unsigned wanted)
{
    struct connection *c = lh_alloc(sizeof *c);

    c->kind = kind;
    c->number = kind == CALLER ? 0 : (unsigned)all_count;
    c->fd = -1;
    c->again = 1;
    c->wanted = wanted;
    all[all_count++] = c;
}

/* What is due by the clock, about a hundred times a second. */
static void tick(uint64_t now, uint64_t passed)
{
    static uint64_t dripped;
    unsigned begun = 0;
    bool drips = now - dripped >= SECOND_NS;

    dripped = drips ? now : dripped;
    call_credit += (double)o.rate * (double)passed / 1e9;
    call_credit = call_credit > (double)o.rate ? (double)o.rate : call_credit;
    for (size_t i = 0; i < all_count; i++) {
        struct connection *c = all[i];
        if (c->again != 0 && c->again <= now && begun++ < BEGUN_AT_ONCE)
            open_it(c, now);
        else if (drips && c->kind != IDLE && c->kind != CALLER)
            drip(c);
        else if (c->kind == CALLER && c->spoke) {
            call_more(c);
            flush(c);
        }
    }
    lh_flood_connects_tick(&connects, now, passed, greeting, GREETING_BYTES);
}

static bool input_over(void)
{
    char any[64];
    ssize_t n = read(STDIN_FILENO, any, sizeof any);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void run(void)
{
    struct epoll_event got[EVENTS];
    uint64_t last = now_ns(), looked = 0, all_wanted = all_count;
    bool ready = false;

    for (;;) {
        int n = epoll_wait(events, got, EVENTS, 10);
        uint64_t now = now_ns();
        for (int i = 0; i < n; i++) {
            struct connection *c = got[i].data.ptr;
            if (c->fd >= 0)
                on_event(c, got[i].events, now);
        }
        if (now - last >= SECOND_NS / 100) {
            tick(now, now - last);
            last = now;
        }
        if (!ready && count.connected >= all_wanted) {
            ready = true;
            puts("ready");
            (void)fflush(stdout);
        }
        if (now - looked < SECOND_NS / 20)
            continue;
        looked = now;
        if (input_over())
            return;
    }
}

static void print(void)
{
    unsigned open = 0;

    for (size_t i = 0; i < all_count; i++)
        open += all[i]->connected;
    printf("{\"open\": %u, \"connected\": %" PRIu64 ", \"closed\": %" PRIu64 ", \"calls\": %" PRIu64
           ", \"answered\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"connects\": %" PRIu64
           ", \"finished\": %" PRIu64 ", \"failed\": %" PRIu64 "}\n",
        open, count.connected, count.closed, count.begun, count.answered, count.dropped,
        connects.begun, connects.finished, count.failed + connects.failed);
}

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "flood_bench",
        .usage = "--address HOST:PORT [OPTION]...",
        .summary = "Takes connections and calls of a server without end.",
        LH_FLAG_ROWS(table),
    };
    struct rlimit files;
    char host[64] = "";
    unsigned port = 0;

    lh_bench_options(&flags, argc, argv);
    if (o.port != 0) {
        lh_flood_serve((unsigned)o.port);
        fprintf(stderr, "flood_bench: cannot listen on port %" PRIu64 "\n", o.port);
        return 1;
    }
    if (o.address == NULL || sscanf(o.address, "%63[0-9.]:%u", host, &port) != 2 ||
        strlen(o.method) > 120) {
        fprintf(stderr, "flood_bench: --address is to be an IPv4 address and a port\n");
        return 64;
    }
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, host, &server.sin_addr);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    connects.begin = begin;
    if (!lh_flood_connects_init(&connects))
        return 64;
    events = epoll_create1(EPOLL_CLOEXEC);
    all = lh_alloc_array(o.idle + o.slow + o.calls / PER_CONNECTION + 2, sizeof(void *));
    for (uint64_t i = 0; i < o.idle; i++)
        add(IDLE, 0);
    for (uint64_t i = 0; i < o.slow; i++)
        add((enum kind)(DRIP + i % 4), 0);
    for (uint64_t left = o.calls, n; left > 0; left -= n) {
        n = left < PER_CONNECTION ? left : PER_CONNECTION;
        add(CALLER, (unsigned)n);
    }
    run();
    print();
    return 0;
}
