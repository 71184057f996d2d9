#include "wire/sockets/secure.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "tls/gate.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A record of TLS. */
#define RECORD_BYTES (16u << 10)
/* What is kept of memory that was needed once. */
#define KEPT_BYTES (64u << 10)

struct bytes {
    uint8_t *at;
    size_t size, capacity;
};

struct secure {
    int fd;
    pthread_mutex_t lock; /* for what OpenSSL touches: `ssl`, `made`, `read_error` */
    SSL *ssl;
    struct bytes made; /* to be sent */
    int read_error;    /* of the last recv(2) */
    bool failed;       /* something could not be encrypted */
    /* The writer's. */
    struct bytes sending;
    size_t sent, plain;
};

/* ---- the socket, as OpenSSL sees it ---- */

static int read_socket(BIO *bio, char *to, int size)
{
    struct secure *s = BIO_get_data(bio);
    ssize_t n = recv(s->fd, to, (size_t)size, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    s->read_error = n < 0 ? errno : 0;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static int write_memory(BIO *bio, const char *from, int size)
{
    struct secure *s = BIO_get_data(bio);

    LH_GROW(s->made.at, s->made.capacity, s->made.size + (size_t)size);
    memcpy(s->made.at + s->made.size, from, (size_t)size);
    s->made.size += (size_t)size;
    return size;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leasehold");
    LH_ASSERT(method != NULL);
    (void)BIO_meth_set_read(method, read_socket);
    (void)BIO_meth_set_write(method, write_memory);
    (void)BIO_meth_set_ctrl(method, control);
}

/* ---- life ---- */

struct secure *lh_secure_create(SSL_CTX *context, int fd, const char *host)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct secure *s = lh_alloc(sizeof *s);

    lh_openssl_enter();
    pthread_once(&once, make_method);
    pthread_mutex_init(&s->lock, NULL);
    s->fd = fd;
    s->ssl = SSL_new(context);
    BIO *bio = BIO_new(method);
    LH_ASSERT(s->ssl != NULL && bio != NULL);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    if (host != NULL) {
        lh_tls_expect_host(s->ssl, host);
        SSL_set_connect_state(s->ssl);
    } else {
        SSL_set_accept_state(s->ssl);
    }
    lh_openssl_leave();
    return s;
}

void lh_secure_destroy(struct secure *s)
{
    if (s == NULL)
        return;
    lh_openssl_enter();
    SSL_free(s->ssl);
    lh_openssl_leave();
    pthread_mutex_destroy(&s->lock);
    free(s->made.at);
    free(s->sending.at);
    free(s);
}

const SSL *lh_secure_ssl(const struct secure *s)
{
    return s->ssl;
}

/* To call OpenSSL. */
static void enter(struct secure *s)
{
    lh_openssl_enter();
    pthread_mutex_lock(&s->lock);
}

static void leave(struct secure *s)
{
    pthread_mutex_unlock(&s->lock);
    lh_openssl_leave();
}

/* ---- sending ---- */

/* Takes what was made over to be sent. */
static void take_made(struct secure *s)
{
    struct bytes empty = s->sending;

    s->sending = s->made;
    s->sent = 0;
    s->made = empty;
    s->made.size = 0;
}

static ssize_t send_rest(struct secure *s)
{
    while (s->sent < s->sending.size) {
        ssize_t n = send(
            s->fd, s->sending.at + s->sent, s->sending.size - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        s->sent += (size_t)n;
    }
    size_t plain = s->plain;
    s->plain = s->sent = s->sending.size = 0;
    if (s->sending.capacity > KEPT_BYTES) {
        free(s->sending.at);
        s->sending = (struct bytes){0};
    }
    return (ssize_t)plain;
}

bool lh_secure_has_output(struct secure *s)
{
    pthread_mutex_lock(&s->lock);
    bool has = s->made.size > 0;
    pthread_mutex_unlock(&s->lock);
    return has || s->sent < s->sending.size;
}

ssize_t lh_secure_send(struct secure *s)
{
    if (s->sent == s->sending.size) {
        pthread_mutex_lock(&s->lock);
        take_made(s);
        pthread_mutex_unlock(&s->lock);
    }
    if (s->failed) {
        errno = EPIPE;
        return -1;
    }
    return send_rest(s);
}

static void encrypt_record(struct secure *s, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        int n = SSL_write(s->ssl, bytes, (int)size);
        if (n <= 0) { /* it writes to memory: what fails is broken for good */
            s->failed = true;
            break;
        }
        bytes += n;
        size -= (size_t)n;
    }
    ERR_clear_error();
}

void lh_secure_encrypt(struct secure *s, const struct lh_mux_part *parts, size_t count)
{
    uint8_t record[RECORD_BYTES];
    size_t used = 0;

    enter(s);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = parts[i].bytes;
        size_t left = parts[i].size;
        s->plain += left;
        while (left > 0) {
            size_t n = left < sizeof record - used ? left : sizeof record - used;
            if (n == sizeof record) { /* a whole one needs no copy */
                encrypt_record(s, bytes, n);
            } else {
                memcpy(record + used, bytes, n);
                used += n;
            }
            if (used == sizeof record) {
                encrypt_record(s, record, used);
                used = 0;
            }
            bytes += n;
            left -= n;
        }
    }
    encrypt_record(s, record, used);
    leave(s);
}

/* ---- the handshake ---- */

enum lh_secure_step lh_secure_handshake(struct secure *s, char *why, size_t why_size)
{
    enum lh_secure_step step = LH_SECURE_MORE;

    enter(s);
    ERR_clear_error();
    int done = SSL_do_handshake(s->ssl);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(s->ssl, done);
    if (done == 1) {
        step = LH_SECURE_DONE;
    } else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        step = LH_SECURE_FAILED;
        lh_tls_say_failure(s->ssl, why, why_size);
    }
    ERR_clear_error();
    if (s->sent == s->sending.size)
        take_made(s);
    leave(s);
    (void)send_rest(
        s); /* an alert, too; what the socket does not take is sent with the next event */
    return step;
}

/* ---- reading ---- */

ssize_t lh_secure_read(struct secure *s, uint8_t *to, size_t most)
{
    size_t got = 0;
    int n = 1, error = SSL_ERROR_NONE;

    enter(s);
    while (got < most) {
        n = SSL_read(s->ssl, to + got, (int)(most - got));
        if (n <= 0) {
            error = SSL_get_error(s->ssl, n);
            break;
        }
        got += (size_t)n;
    }
    int system_error = s->read_error;
    ERR_clear_error();
    leave(s);
    if (got > 0)
        return (ssize_t)got;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (error == SSL_ERROR_ZERO_RETURN || system_error == 0)
        return 0;
    errno = system_error;
    return -1;
}
