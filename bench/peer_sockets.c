/* peer_locks.h of the peers that speak over plain sockets: Redis (RESP) and ZooKeeper (Jute).
 * Requests that come up while answers are read are sent together; a connection's answers come in
 * the order of its requests. */
#include "base/alloc.h"
#include "bench/peer_locks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX 512u
#define READ_BYTES        (256u << 10)
#define EVENTS_MAX        256

#define ZK_XID_NOTED    (-1)
#define ZK_NODE_EXISTS  (-110)
#define ZK_NO_NODE      (-101)
#define ZK_TERM_MS      600000u
#define ZK_HEADER_BYTES 16u /* xid, zxid, error of a reply */
#define SHA1_DIGITS     40u

struct pending {
    enum lh_bench_op op;
    uint64_t key;
};

struct connection {
    int fd;
    bool dirty; /* in `dirty` of the peer */
    uint64_t watched;
    uint8_t *out, *rest; /* to be sent; read, and not whole */
    size_t out_size, out_capacity, rest_size;
    struct pending *pending; /* a ring */
    uint64_t first, last, capacity;
};

struct reply {
    bool noted; /* else it answers the oldest request */
    bool ok, failed;
    uint64_t key; /* `noted` */
};

struct sockets {
    struct lh_bench_peer base;
    const struct wire *wire;
    const char *address;
    struct lh_bench_load *load;
    struct connection *connections; /* a client's, and at Redis those that watch behind all these */
    uint32_t clients, count;
    uint32_t *dirty;
    size_t dirty_count;
    int epoll;
    bool over, notify;
    char scripts[2][SHA1_DIGITS + 1]; /* Redis: release; and the same with a message to others */
    uint8_t scratch[READ_BYTES];
};

struct wire {
    /* After connecting; may block. */
    void (*hello)(struct sockets *s, int fd);
    size_t (*request)(const struct sockets *s, enum lh_bench_op op, uint64_t key, uint8_t *to);
    /* Returns the bytes of the first whole reply, 0: it is not whole. */
    size_t (*reply)(const uint8_t *from, size_t size, enum lh_bench_op op, struct reply *r);
    bool watches_apart; /* a connection that watches does nothing else */
};

/* ---- Redis. */

static const char RELEASE_SCRIPT[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
static const char RELEASE_TELL_SCRIPT[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('del',KEYS[1]) "
    "redis.call('publish',KEYS[1],'r') return 1 else return 0 end";

static void write_all(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        lh_bench_fail("cannot send: %s", strerror(errno));
}

static void read_all(int fd, void *to, size_t size)
{
    if (recv(fd, to, size, MSG_WAITALL) != (ssize_t)size)
        lh_bench_fail("no answer: %s", strerror(errno));
}

static void redis_load_script(int fd, const char *script, char digest[SHA1_DIGITS + 1])
{
    char text[REQUEST_BYTES_MAX], answer[5 + SHA1_DIGITS + 2]; /* "$40\r\n", the digest, "\r\n" */
    int size = snprintf(text, sizeof text, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
        strlen(script), script);

    write_all(fd, text, (size_t)size);
    read_all(fd, answer, sizeof answer);
    memcpy(digest, answer + 5, SHA1_DIGITS);
}

static void redis_hello(struct sockets *s, int fd)
{
    if (s->scripts[0][0] != '\0')
        return;
    redis_load_script(fd, RELEASE_SCRIPT, s->scripts[0]);
    redis_load_script(fd, RELEASE_TELL_SCRIPT, s->scripts[1]);
}

static size_t redis_request(
    const struct sockets *s, enum lh_bench_op op, uint64_t key, uint8_t *bytes)
{
    char *to = (char *)bytes, name[32], value[LH_BENCH_VALUE_BYTES + 1];
    int n = snprintf(name, sizeof name, "$17\r\nlock:%012" PRIu64 "\r\n", key);
    int size = 0;

    if (n < 0)
        abort();
    switch (op) {
    case LH_BENCH_ACQUIRE:
        size = snprintf(to, REQUEST_BYTES_MAX,
            "*6\r\n$3\r\nSET\r\n%s$5\r\nowner\r\n$2\r\nNX\r\n$2\r\nPX\r\n$6\r\n600000\r\n", name);
        break;
    case LH_BENCH_RELEASE:
        size = snprintf(to, REQUEST_BYTES_MAX,
            "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n%s$5\r\nowner\r\n",
            s->scripts[s->notify], name);
        break;
    case LH_BENCH_READ:
        size = snprintf(to, REQUEST_BYTES_MAX, "*2\r\n$3\r\nGET\r\n%s", name);
        break;
    case LH_BENCH_WRITE:
        memset(value, 'x', LH_BENCH_VALUE_BYTES);
        value[LH_BENCH_VALUE_BYTES] = '\0';
        size = snprintf(to, REQUEST_BYTES_MAX, "*3\r\n%s\r\n%s$%u\r\n%s\r\n",
            s->notify ? "$7\r\nPUBLISH" : "$3\r\nSET", name, LH_BENCH_VALUE_BYTES, value);
        break;
    case LH_BENCH_WATCH:
        size = snprintf(to, REQUEST_BYTES_MAX, "*2\r\n$9\r\nSUBSCRIBE\r\n%s", name);
        break;
    case LH_BENCH_NOTED:
        abort();
    }
    return (size_t)size;
}

/* The end of the value that begins at `at`; 0: it is not whole. */
static size_t resp_end(const uint8_t *from, size_t size, size_t at)
{
    const uint8_t *end = at < size ? memchr(from + at, '\n', size - at) : NULL;

    if (end == NULL)
        return 0;
    size_t next = (size_t)(end - from) + 1;
    long n = strtol((const char *)from + at + 1, NULL, 10); /* ends at the '\r' */
    if (from[at] == '$' && n >= 0)
        return next + (size_t)n + 2 <= size ? next + (size_t)n + 2 : 0;
    for (long i = 0; from[at] == '*' && i < n && next != 0; i++)
        next = resp_end(from, size, next);
    return next;
}

static size_t redis_reply(const uint8_t *from, size_t size, enum lh_bench_op op, struct reply *r)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n";
    size_t end = resp_end(from, size, 0);

    if (end == 0)
        return 0;
    *r = (struct reply){.ok = from[0] != '$' || from[1] != '-', .failed = from[0] == '-'};
    r->noted = end > sizeof message && memcmp(from, message, sizeof message - 1) == 0;
    if (op == LH_BENCH_RELEASE && from[1] == '0')
        r->failed = true;
    if (op == LH_BENCH_READ && !r->ok)
        r->failed = true;
    return end;
}

static const struct wire redis = {redis_hello, redis_request, redis_reply, true};

/* ---- ZooKeeper: numbers are big-endian, strings have their length before them. */

static uint8_t *put_int(uint8_t *to, int32_t n)
{
    uint32_t wire = htonl((uint32_t)n);

    memcpy(to, &wire, sizeof wire);
    return to + sizeof wire;
}

static uint8_t *put_text(uint8_t *to, const char *text, size_t size)
{
    to = put_int(to, (int32_t)size);
    memcpy(to, text, size);
    return to + size;
}

static int32_t int_at(const uint8_t *from)
{
    uint32_t wire;

    memcpy(&wire, from, sizeof wire);
    return (int32_t)ntohl(wire);
}

static void zk_hello(struct sockets *s, int fd)
{
    uint8_t hello[49] = {0}, answer[4 + 37];

    (void)s;
    put_int(hello, sizeof hello - 4);
    put_int(hello + 16, ZK_TERM_MS);
    put_int(hello + 28, 16); /* a password of a session that is to go on: there is none */
    write_all(fd, hello, sizeof hello);
    read_all(fd, answer, sizeof answer);
    if (int_at(answer + 8) < (int32_t)ZK_TERM_MS)
        lh_bench_fail("ZooKeeper gives terms of %d ms only: maxSessionTimeout", int_at(answer + 8));
}

static size_t zk_request(const struct sockets *s, enum lh_bench_op op, uint64_t key, uint8_t *bytes)
{
    static const int32_t TYPES[] = {[LH_BENCH_ACQUIRE] = 1,
        [LH_BENCH_RELEASE] = 2,
        [LH_BENCH_READ] = 4,
        [LH_BENCH_WRITE] = 5,
        [LH_BENCH_WATCH] = 3};
    char path[24], value[LH_BENCH_VALUE_BYTES];
    int path_size = snprintf(path, sizeof path, "/lock%012" PRIu64, key);
    uint8_t *to = put_int(put_int(bytes + 4, 1), TYPES[op]);

    (void)s;
    memset(value, 'x', sizeof value);
    to = put_text(to, path, (size_t)path_size);
    switch (op) {
    case LH_BENCH_ACQUIRE:
        to = put_text(to, "owner", 5);
        to = put_int(put_int(to, 1), 31); /* one rule: all rights, */
        to = put_text(put_text(to, "world", 5), "anyone", 6);
        to = put_int(to, 1); /* ephemeral */
        break;
    case LH_BENCH_RELEASE:
        to = put_int(to, -1); /* any version */
        break;
    case LH_BENCH_READ:
        *to++ = 0; /* no watch */
        break;
    case LH_BENCH_WRITE:
        to = put_int(put_text(to, value, sizeof value), -1);
        break;
    case LH_BENCH_WATCH:
        *to++ = 1;
        break;
    case LH_BENCH_NOTED:
        abort();
    }
    put_int(bytes, (int32_t)(to - bytes) - 4);
    return (size_t)(to - bytes);
}

static size_t zk_reply(const uint8_t *from, size_t size, enum lh_bench_op op, struct reply *r)
{
    size_t whole = size < 4 ? 0 : 4 + (size_t)int_at(from);

    if (whole == 0 || size < whole || whole < 4 + ZK_HEADER_BYTES)
        return 0;
    int32_t error = int_at(from + 16);
    *r = (struct reply){.ok = error == 0};
    if (int_at(from + 4) == ZK_XID_NOTED) { /* type, state, and the path: "/lock" and the key */
        r->noted = true;
        r->key = strtoull((const char *)from + 4 + ZK_HEADER_BYTES + 4 + 4 + 4 + 5, NULL, 10);
        return whole;
    }
    r->failed = error != 0 && !(op == LH_BENCH_ACQUIRE && error == ZK_NODE_EXISTS) &&
                !(op == LH_BENCH_WATCH && error == ZK_NO_NODE);
    return whole;
}

static const struct wire zookeeper = {zk_hello, zk_request, zk_reply, false};

/* ---- Connections. */

static int connect_to(const char *address)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET};

    snprintf(host, sizeof host, "%.*s", colon == NULL ? 0 : (int)(colon - address), address);
    if (colon == NULL || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        lh_bench_fail("%s is not an IPv4 address and a port", address);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        lh_bench_fail("%s: %s", address, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void push_pending(struct connection *c, enum lh_bench_op op, uint64_t key)
{
    if (c->last - c->first == c->capacity) {
        uint64_t capacity = c->capacity == 0 ? 4 : 2 * c->capacity;
        struct pending *ring = lh_alloc_array(capacity, sizeof *ring);
        for (uint64_t i = c->first; i < c->last; i++)
            ring[i % capacity] = c->pending[i % c->capacity];
        free(c->pending);
        c->pending = ring;
        c->capacity = capacity;
    }
    c->pending[c->last++ % c->capacity] = (struct pending){op, key};
}

/* The others are made when they are used first: there may not be descriptors for all of them. */
static void open_connection(struct sockets *s, uint32_t i)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
    struct connection *c = &s->connections[i];

    c->fd = connect_to(s->address);
    c->rest = lh_alloc(1);
    s->wire->hello(s, c->fd);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0)
        lh_bench_fail("epoll: %s", strerror(errno));
}

static void request(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key)
{
    struct sockets *s = (struct sockets *)peer;
    uint32_t i = op == LH_BENCH_WATCH && s->wire->watches_apart ? s->clients + client : client;
    struct connection *c = &s->connections[i];

    if (c->fd < 0)
        open_connection(s, i);
    if (c->out_capacity - c->out_size < REQUEST_BYTES_MAX) {
        c->out_capacity = 2 * c->out_capacity + REQUEST_BYTES_MAX;
        c->out = lh_realloc_array(c->out, c->out_capacity, 1);
    }
    c->out_size += s->wire->request(s, op, key, c->out + c->out_size);
    if (op == LH_BENCH_WATCH)
        c->watched = key;
    push_pending(c, op, key);
    if (!c->dirty)
        s->dirty[s->dirty_count++] = i;
    c->dirty = true;
}

/* What a socket does not take goes with the next answers: the server reads before it writes more.
 * */
static void flush(struct sockets *s)
{
    size_t left = 0;

    for (size_t i = 0; i < s->dirty_count; i++) {
        struct connection *c = &s->connections[s->dirty[i]];
        ssize_t n = send(c->fd, c->out, c->out_size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            lh_bench_fail("connection lost: %s", strerror(errno));
        if (n > 0) {
            c->out_size -= (size_t)n;
            memmove(c->out, c->out + n, c->out_size);
        }
        c->dirty = c->out_size > 0;
        if (c->dirty)
            s->dirty[left++] = s->dirty[i];
    }
    s->dirty_count = left;
}

static void take_reply(struct sockets *s, uint32_t i, const struct reply *r, enum lh_bench_op op)
{
    struct connection *c = &s->connections[i];
    uint32_t client = i % s->clients;

    if (r->failed)
        lh_bench_fail("operation %d was refused", (int)op);
    if (r->noted) {
        uint64_t key = s->wire->watches_apart ? c->watched : r->key;
        s->load->done(s->load, &s->base, client, LH_BENCH_NOTED, key, true);
        return;
    }
    if (c->first == c->last)
        lh_bench_fail("an answer to no request");
    struct pending p = c->pending[c->first++ % c->capacity];
    s->load->done(s->load, &s->base, client, p.op, p.key, r->ok);
}

static void receive(struct sockets *s, uint32_t i)
{
    struct connection *c = &s->connections[i];
    size_t at = 0, size = c->rest_size, n;

    memcpy(s->scratch, c->rest, size);
    ssize_t got = recv(c->fd, s->scratch + size, sizeof s->scratch - size, MSG_DONTWAIT);
    if (got <= 0)
        lh_bench_fail("connection lost: %s", got == 0 ? "closed" : strerror(errno));
    size += (size_t)got;
    do {
        enum lh_bench_op op =
            c->first < c->last ? c->pending[c->first % c->capacity].op : LH_BENCH_NOTED;
        struct reply r;
        n = s->wire->reply(s->scratch + at, size - at, op, &r);
        if (n > 0)
            take_reply(s, i, &r, op);
        at += n;
    } while (n > 0);
    c->rest_size = size - at;
    c->rest = lh_realloc_array(c->rest, c->rest_size + 1, 1);
    memcpy(c->rest, s->scratch + at, c->rest_size);
}

static void run(struct lh_bench_peer *peer, struct lh_bench_load *load)
{
    struct sockets *s = (struct sockets *)peer;
    struct epoll_event events[EVENTS_MAX];

    s->load = load;
    load->begin(load, peer);
    while (!s->over) {
        flush(s);
        int n = epoll_wait(s->epoll, events, EVENTS_MAX, s->dirty_count > 0 ? 1 : 60000);
        if (n == 0 && s->dirty_count == 0)
            lh_bench_fail("no answer in a minute");
        for (int i = 0; i < n && !s->over; i++)
            receive(s, events[i].data.u32);
    }
}

static void over(struct lh_bench_peer *peer)
{
    ((struct sockets *)peer)->over = true;
}

static struct sockets *sockets_create(const struct lh_bench_options *o, const struct wire *wire)
{
    struct sockets *s = lh_alloc(sizeof *s);
    struct rlimit files;

    s->base = (struct lh_bench_peer){.request = request, .run = run, .over = over};
    s->wire = wire;
    s->address = o->address;
    s->clients = (uint32_t)o->clients;
    s->count = wire->watches_apart && o->notify ? 2 * s->clients : s->clients;
    s->notify = o->notify;
    s->connections = lh_alloc_array(s->count, sizeof *s->connections);
    s->dirty = lh_alloc_array(s->count, sizeof *s->dirty);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (uint32_t i = 0; i < s->count; i++)
        s->connections[i].fd = -1;
    for (uint32_t i = 0; i < s->count && !o->sparing; i++)
        open_connection(s, i);
    return s;
}

struct lh_bench_peer *lh_bench_redis(const struct lh_bench_options *o)
{
    struct sockets *s = sockets_create(o, &redis);

    s->base.watch_stays = true;
    s->base.claims = true;
    return &s->base;
}

struct lh_bench_peer *lh_bench_zookeeper(const struct lh_bench_options *o)
{
    return &sockets_create(o, &zookeeper)->base;
}
