#include "tls/context.h"

#include "base/assert.h"
#include "base/say.h"
#include "tls/certificate.h"
#include "tls/gate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define ALPN      "\x0b" LH_TLS_PROTOCOL
#define ALPN_SIZE (sizeof ALPN - 1)
/* What a client of ours offers: gRPC's protocol too, so that a server without ours can say so. */
#define OFFER      ALPN "\x02h2"
#define OFFER_SIZE (sizeof OFFER - 1)

static bool has_ours(const unsigned char *list, size_t size)
{
    for (size_t at = 0; at < size; at += 1 + (size_t)list[at])
        if (size - at >= ALPN_SIZE && memcmp(list + at, ALPN, ALPN_SIZE) == 0)
            return true;
    return false;
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_size,
    const unsigned char *in, unsigned in_size, void *arg)
{
    (void)ssl;
    (void)arg;
    if (!has_ours(in, in_size))
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = (const unsigned char *)ALPN + 1;
    *out_size = ALPN_SIZE - 1;
    return SSL_TLSEXT_ERR_OK;
}

static void trust(SSL_CTX *context, const char *ca)
{
    STACK_OF(X509) *authorities = lh_certificates_read(ca);

    for (int i = 0; i < sk_X509_num(authorities); i++) {
        X509 *one = sk_X509_value(authorities, i);
        (void)X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one);
        (void)SSL_CTX_add_client_CA(context, one);
    }
    sk_X509_pop_free(authorities, X509_free);
}

static void show(SSL_CTX *context, const struct lh_tls_pem *pem)
{
    STACK_OF(X509) *chain = lh_certificates_read(pem->cert);
    BIO *from = BIO_new_mem_buf(pem->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(from, NULL, NULL, NULL);

    for (int i = 0; i < sk_X509_num(chain); i++) {
        X509 *one = sk_X509_value(chain, i);
        if (i == 0)
            (void)SSL_CTX_use_certificate(context, one);
        else
            (void)SSL_CTX_add1_chain_cert(context, one);
    }
    if (key != NULL)
        (void)SSL_CTX_use_PrivateKey(context, key);
    EVP_PKEY_free(key);
    BIO_free(from);
    sk_X509_pop_free(chain, X509_free);
}

SSL_CTX *lh_tls_context(const struct lh_tls_pem *pem, bool serves)
{
    lh_openssl_enter();
    SSL_CTX *context = SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method());
    LH_ASSERT(context != NULL);

    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                           SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(context, 0);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_verify(
        context, SSL_VERIFY_PEER | (serves ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    trust(context, pem->ca);
    if (pem->cert != NULL)
        show(context, pem);
    if (serves)
        SSL_CTX_set_alpn_select_cb(context, choose, NULL);
    else
        (void)SSL_CTX_set_alpn_protos(context, (const unsigned char *)OFFER, OFFER_SIZE);
    ERR_clear_error();
    lh_openssl_leave();
    return context;
}

void lh_tls_context_free(SSL_CTX *context)
{
    lh_openssl_enter();
    SSL_CTX_free(context);
    lh_openssl_leave();
}

void lh_tls_expect_host(SSL *ssl, const char *host)
{
    unsigned char ip[16];
    bool is_ip = inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1;

    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_ip) {
        (void)X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    } else {
        (void)SSL_set1_host(ssl, host);
        (void)SSL_set_tlsext_host_name(ssl, host);
    }
}

bool lh_tls_peer_of(const SSL *ssl, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    lh_openssl_enter();
    X509 *leaf = SSL_get1_peer_certificate(ssl);
    bool known = leaf != NULL && lh_certificate_name(leaf, identity);

    if (leaf == NULL)
        (void)snprintf(identity, LH_LINK_IDENTITY_MAX + 1, "there is no certificate");
    X509_free(leaf);
    lh_openssl_leave();
    return known;
}

bool lh_tls_speaks_ours(const SSL *ssl)
{
    const unsigned char *name;
    unsigned size;

    SSL_get0_alpn_selected(ssl, &name, &size);
    return size == ALPN_SIZE - 1 && memcmp(name, ALPN + 1, size) == 0;
}

/* ---- what a client offers ---- */

static int look(SSL *ssl, int *alert, void *arg)
{
    enum lh_tls_offer *offer = SSL_get_app_data(ssl);
    const unsigned char *list;
    size_t size;

    (void)arg;
    *alert = SSL_AD_INTERNAL_ERROR;
    *offer = LH_TLS_NOT_OFFERED;
    /* Two bytes of the list's length are before it. */
    if (SSL_client_hello_get0_ext(
            ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &list, &size) == 1 &&
        size > 2 && has_ours(list + 2, size - 2))
        *offer = LH_TLS_OFFERED;
    return SSL_CLIENT_HELLO_ERROR; /* that was all */
}

SSL_CTX *lh_tls_offer_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    LH_ASSERT(context != NULL);
    SSL_CTX_set_client_hello_cb(context, look, NULL);
    return context;
}

enum lh_tls_offer lh_tls_offer(SSL_CTX *context, const uint8_t *bytes, size_t size)
{
    enum lh_tls_offer offer = LH_TLS_MORE_BYTES;
    SSL *ssl = SSL_new(context);
    BIO *from = BIO_new_mem_buf(bytes, (int)size), *to = BIO_new(BIO_s_mem());

    LH_ASSERT(ssl != NULL && from != NULL && to != NULL);
    BIO_set_mem_eof_return(from, -1);
    SSL_set_bio(ssl, from, to);
    SSL_set_app_data(ssl, &offer);
    int done = SSL_accept(ssl);
    if (offer == LH_TLS_MORE_BYTES && SSL_get_error(ssl, done) != SSL_ERROR_WANT_READ)
        offer = LH_TLS_NOT_OFFERED; /* no ClientHello at all */
    ERR_clear_error();
    SSL_free(ssl);
    return offer;
}

void lh_tls_say_failure(const SSL *ssl, char *text, size_t size)
{
    long verified = SSL_get_verify_result(ssl);
    unsigned long error = ERR_peek_error();

    if (verified != X509_V_OK)
        (void)snprintf(
            text, size, "certificate verify failed: %s", X509_verify_cert_error_string(verified));
    else if (error != 0 && ERR_reason_error_string(error) != NULL)
        (void)snprintf(text, size, "TLS: %s", ERR_reason_error_string(error));
    else
        (void)snprintf(text, size, "the connection ended during the TLS handshake");
    ERR_clear_error();
}
