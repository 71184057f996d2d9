/* Handshakes of TLS take milliseconds each: threads of their own make them, so that no loop stands
 * still meanwhile. */
#include "admission/address.h"
#include "base/alloc.h"
#include "runtime/thread.h"
#include "tls/gate.h"
#include "wire/sockets/internal.h"
#include "wire/sockets/secure.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL_BYTES 1024u

/* ---- contexts ---- */

uint64_t lh_wire_generation(struct wire *wire)
{
    if (wire->tls == NULL)
        return 0;
    struct lh_tls_pem *pem = lh_tls_current(wire->tls);
    uint64_t generation = pem->generation;
    lh_tls_pem_unref(pem);
    return generation;
}

/* Of the present files; with a reference. */
static SSL_CTX *context_of(struct wire *wire, bool serves)
{
    struct lh_tls_pem *pem = lh_tls_current(wire->tls);
    struct tls_side *side = &wire->sides[serves];

    pthread_mutex_lock(&wire->lock);
    if (side->context == NULL || side->generation != pem->generation) {
        lh_tls_context_free(side->context);
        side->context = lh_tls_context(pem, serves);
        side->generation = pem->generation;
    }
    SSL_CTX *context = side->context;
    SSL_CTX_up_ref(context);
    pthread_mutex_unlock(&wire->lock);
    lh_tls_pem_unref(pem);
    return context;
}

static void host_of(const struct connection *c, char *host, size_t size)
{
    size_t name_size;
    const char *address = lh_server_address(c->server, &name_size);
    const char *port;

    /* Of what was connected to, everything but a Unix socket has a host. */
    if (lh_address_is_unix(address) || !lh_address_split(address, host, size, &port))
        (void)snprintf(host, size, "localhost");
}

static void begin_secure(struct connection *c)
{
    char host[256];
    lh_tls_housekeep(c->wire->tls); /* this thread may wait for files */
    SSL_CTX *context = context_of(c->wire, c->serves);

    if (!c->serves)
        host_of(c, host, sizeof host);
    c->secure = lh_secure_create(context, c->fd, c->serves ? NULL : host);
    lh_tls_context_free(context);
}

/* ---- who is there ---- */

static bool may_answer(struct connection *c, const char *identity, char *why)
{
    const struct lh_transport_config *config = &c->wire->config;
    size_t size;
    char name[LH_LINK_IDENTITY_MAX + 1];

    (void)lh_server_address(c->server, &size);
    (void)snprintf(name, sizeof name, "%.*s", (int)size, c->server);
    why[0] = '\0';
    return config->may_answer(config->arg, c->kind, size > 0 ? name : NULL, identity, false, why,
               REFUSAL_BYTES) == LH_OK;
}

/* Whether calls may be sent to whoever answers; else `why` says why not. */
static bool is_meant(struct connection *c, char *identity, char *why)
{
    const SSL *ssl = lh_secure_ssl(c->secure);

    if (!lh_tls_peer_of(ssl, identity)) {
        (void)snprintf(
            why, REFUSAL_BYTES, "who answers there shows a certificate of nobody: %s", identity);
        return false;
    }
    return may_answer(c, identity, why);
}

void lh_connection_ask_who_answers(struct connection *c)
{
    char why[REFUSAL_BYTES];

    pthread_mutex_lock(&c->lock);
    char *identity = c->serves || c->identity == NULL || c->state != CONNECTION_OPEN
                         ? NULL
                         : lh_strdup(c->identity);
    pthread_mutex_unlock(&c->lock);
    if (identity == NULL)
        return;
    if (!may_answer(c, identity, why)) {
        pthread_mutex_lock(&c->lock);
        lh_connection_break(c, "whoever answers there is not the one that is meant any more");
        pthread_mutex_unlock(&c->lock);
    }
    free(identity);
}

/* ---- a step ---- */

static const struct {
    const char *says, *hint;
} hints[] = {
    {"wrong version number", "the server does not speak TLS"},
    {"mismatch", "the server's certificate is for other hosts than the one that was dialled"},
    {"certificate verify failed", "the server's certificate has expired or is of an authority that "
                                  "is not trusted here"},
    {"", "perhaps the server does not trust this side's certificate: its log says why"},
};

static void failed(struct connection *c, const char *why)
{
    char text[REFUSAL_BYTES];
    size_t i = 0;

    if (c->serves) {
        lh_tls_note_failed_handshake(why);
        c->write_failed = true;
        lh_loop_kick(c);
        return;
    }
    while (strstr(why, hints[i].says) == NULL)
        i++;
    (void)snprintf(text, sizeof text, "%s (%s: %s)", hints[i].hint, c->server, why);
    lh_connection_break(c, text);
}

/* With the lock held. */
static void secured(struct connection *c, char *identity, const char *refusal)
{
    if (c->serves) {
        c->refusal = refusal == NULL ? NULL : lh_strdup(refusal);
        c->admitted = lh_connections_take(c->fd);
        lh_connection_begin_mux(c);
    } else if (refusal != NULL) {
        lh_connection_break(c, refusal);
        return;
    }
    if (!c->serves && !lh_tls_speaks_ours(lh_secure_ssl(c->secure))) {
        lh_connection_fall_back(c);
        return;
    }
    c->identity = lh_strdup(identity);
    c->state = CONNECTION_OPEN;
    c->read_due = true;
    lh_loop_kick(c);
}

static void finish(struct connection *c)
{
    char identity[LH_LINK_IDENTITY_MAX + 1], why[REFUSAL_BYTES];
    bool good, again;

    do { /* until nobody has changed meanwhile who may answer */
        unsigned asked = atomic_load(&c->wire->answers_asked);
        identity[0] = why[0] = '\0';
        good = c->serves ? lh_tls_peer_of(lh_secure_ssl(c->secure), identity)
                         : is_meant(c, identity, why);
        pthread_mutex_lock(&c->lock);
        again = asked != atomic_load(&c->wire->answers_asked);
        if (again)
            pthread_mutex_unlock(&c->lock);
    } while (again);
    const char *refusal = good ? NULL : c->serves ? identity : why;
    if (c->state == CONNECTION_SECURING)
        secured(c, c->serves && !good ? (char[]){""} : identity, refusal);
    pthread_mutex_unlock(&c->lock);
}

static void step(struct connection *c)
{
    char why[300] = "";

    pthread_mutex_lock(&c->lock);
    while (c->writing && c->state == CONNECTION_SECURING) {
        pthread_mutex_unlock(&c->lock);
        sched_yield();
        pthread_mutex_lock(&c->lock);
    }
    bool due = c->state == CONNECTION_SECURING;
    c->writing = c->writing || due; /* the descriptor is in hand */
    pthread_mutex_unlock(&c->lock);
    if (!due)
        return;
    if (c->secure == NULL)
        begin_secure(c);
    enum lh_secure_step done = lh_secure_handshake(c->secure, why, sizeof why);
    if (done == LH_SECURE_DONE)
        finish(c);
    pthread_mutex_lock(&c->lock);
    if (done == LH_SECURE_FAILED)
        failed(c, why);
    c->writing = false;
    pthread_mutex_unlock(&c->lock);
    lh_connection_service(c);
}

/* ---- the threads ---- */

static void *work(void *arg)
{
    struct wire *wire = arg;

    pthread_mutex_lock(&wire->handshakes_lock);
    for (;;) {
        while (wire->handshakes == NULL && !wire->handshakes_over)
            pthread_cond_wait(&wire->handshakes_changed, &wire->handshakes_lock);
        struct connection *c = wire->handshakes;
        if (c == NULL)
            break;
        wire->handshakes = c->next_handshake;
        c->handshake_waits = false;
        pthread_mutex_unlock(&wire->handshakes_lock);
        step(c);
        lh_connection_unref(c);
        pthread_mutex_lock(&wire->handshakes_lock);
    }
    pthread_mutex_unlock(&wire->handshakes_lock);
    lh_openssl_end_thread();
    return NULL;
}

/* One is enough; without any the handshakes wait for the next one that is asked for. */
static void start_threads(struct wire *wire)
{
    while (
        wire->handshake_threads < HANDSHAKE_THREADS &&
        lh_thread_start(&wire->handshakers[wire->handshake_threads], work, wire, NULL, 0) == LH_OK)
        wire->handshake_threads++;
}

void lh_connection_secure(struct connection *c)
{
    struct wire *wire = c->wire;

    pthread_mutex_lock(&wire->handshakes_lock);
    if (!wire->handshakes_over && wire->handshake_threads == 0)
        start_threads(wire);
    if (!c->handshake_waits && !wire->handshakes_over) {
        c->next_handshake = NULL;
        if (wire->handshakes == NULL)
            wire->last_handshake = &wire->handshakes;
        *wire->last_handshake = c;
        wire->last_handshake = &c->next_handshake;
        c->handshake_waits = true;
        lh_connection_ref(c);
        pthread_cond_signal(&wire->handshakes_changed);
    }
    pthread_mutex_unlock(&wire->handshakes_lock);
}

void lh_handshakes_end(struct wire *wire)
{
    pthread_mutex_lock(&wire->handshakes_lock);
    wire->handshakes_over = true;
    pthread_cond_broadcast(&wire->handshakes_changed);
    pthread_mutex_unlock(&wire->handshakes_lock);
    for (unsigned i = 0; i < wire->handshake_threads; i++)
        pthread_join(wire->handshakers[i], NULL);
    while (wire->handshakes != NULL) { /* there never was a thread for them */
        struct connection *c = wire->handshakes;
        wire->handshakes = c->next_handshake;
        lh_connection_unref(c);
    }
}
