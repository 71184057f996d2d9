/* What OpenSSL needs to speak TLS with the files of tls.h: for a transport of ours, which reads
 * and writes its sockets itself. Both sides show a certificate and check the other's. TLS 1.2 and
 * 1.3, without compression, renegotiation, tickets or sessions that are taken up again: one would
 * keep an identity that was withdrawn. Any thread. */
#pragma once

#include "tls/tls.h"

#include <openssl/ssl.h>

/* As the protocol is called in a handshake (ALPN). */
#define LH_TLS_PROTOCOL "leasehold/1"

/* A context of what `pem` has, for one side. The contents were found usable before
 * (tls.h). */
SSL_CTX *lh_tls_context(const struct lh_tls_pem *pem, bool serves);
void lh_tls_context_free(SSL_CTX *context); /* NULL is allowed */

/* A connection's part of a client, for whoever answers at `host`: its certificate has to be for
 * that name or address. */
void lh_tls_expect_host(SSL *ssl, const char *host);

/* Who the other side's certificate says that it is, after the handshake. False: nobody, and
 * `identity` is a sentence why. */
bool lh_tls_peer_of(const SSL *ssl, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* Whether the other side has chosen to speak our protocol, after the handshake. */
bool lh_tls_speaks_ours(const SSL *ssl);

/* Whether a client that has sent these bytes offers to speak it; with a context for that alone. */
enum lh_tls_offer { LH_TLS_OFFERED, LH_TLS_NOT_OFFERED, LH_TLS_MORE_BYTES };
SSL_CTX *lh_tls_offer_context(void);
enum lh_tls_offer lh_tls_offer(SSL_CTX *context, const uint8_t *bytes, size_t size);

/* Why a handshake failed, in a sentence: of the thread's queue of OpenSSL, which is empty then.
 * `ssl` is that of a handshake. */
void lh_tls_say_failure(const SSL *ssl, char *text, size_t size);
