#include "bench/flood_connects.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
#define HELD_MAX  65536u
#define BACKLOG   4096

/* In the order of their beginning, and so of their end. */
struct held {
    int fd;
    bool finished;
    SSL *tls;
    uint64_t until;
};

static struct held held[HELD_MAX];
static size_t held_first, held_count;
static SSL_CTX *context;
static uint8_t hello[4096]; /* the first flight of a handshake; a server cannot know it again */
static size_t hello_size;

static bool make_hello(void)
{
    SSL *tls = SSL_new(context);
    BIO *out = BIO_new(BIO_s_mem());

    SSL_set_bio(tls, BIO_new(BIO_s_mem()), out);
    (void)SSL_connect(tls);
    int n = BIO_read(out, hello, sizeof hello);
    hello_size = n > 0 ? (size_t)n : 0;
    SSL_free(tls);
    return n > 0;
}

bool lh_flood_connects_init(struct lh_flood_connects *c)
{
    static const uint8_t protocols[] = "\2h2";
    char ca[4200], cert[4200], key[4200];

    if (c->tls_dir == NULL)
        return true;
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", c->tls_dir);
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", c->tls_dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", c->tls_dir);
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to what the server has closed */
    context = SSL_CTX_new(TLS_client_method());
    (void)SSL_CTX_set_alpn_protos(context, protocols, sizeof protocols - 1);
    if (SSL_CTX_load_verify_locations(context, ca, NULL) == 1 &&
        SSL_CTX_use_certificate_chain_file(context, cert) == 1 &&
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 && make_hello())
        return true;
    fprintf(stderr, "flood_bench: ca.pem, cert.pem or key.pem of %s cannot be used\n", c->tls_dir);
    return false;
}

static void drop(int fd)
{
    const struct linger hard = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)close(fd);
}

static void begin(struct lh_flood_connects *c, uint64_t now, const void *plain, unsigned plain_size)
{
    int fd = held_count < HELD_MAX ? c->begin(0) : -1;
    SSL *tls = NULL;

    if (fd < 0) {
        c->failed++;
        return;
    }
    c->begun++;
    if (context == NULL) {
        (void)send(fd, plain, plain_size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (!c->finish) {
        (void)send(fd, hello, hello_size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
        tls = SSL_new(context);
        (void)SSL_set_fd(tls, fd);
        (void)SSL_connect(tls);
    }
    if (c->hold_ms == 0 && tls == NULL) {
        drop(fd);
        return;
    }
    held[(held_first + held_count++) % HELD_MAX] =
        (struct held){.fd = fd, .tls = tls, .until = now + c->hold_ms * NS_PER_MS};
}

void lh_flood_connects_tick(struct lh_flood_connects *c, uint64_t now_ns, uint64_t passed_ns,
    const void *plain, unsigned plain_size)
{
    static double due;

    for (size_t i = 0; i < held_count; i++) {
        struct held *h = &held[(held_first + i) % HELD_MAX];
        if (h->tls == NULL || h->finished)
            continue;
        h->finished = SSL_connect(h->tls) == 1;
        c->finished += h->finished;
    }
    while (held_count > 0 && held[held_first].until <= now_ns) {
        SSL_free(held[held_first].tls);
        drop(held[held_first].fd);
        held_first = (held_first + 1) % HELD_MAX;
        held_count--;
    }
    due += (double)c->rate * (double)passed_ns / 1e9;
    for (; due >= 1; due -= 1)
        begin(c, now_ns, plain, plain_size);
}

void lh_flood_serve(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)port)};
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, BACKLOG) != 0)
        return;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            drop(fd);
    }
}
