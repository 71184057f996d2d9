/* Certificates looked at with OpenSSL: what would otherwise be found out only with the first
 * connection, of which gRPC then says that it failed. */
#pragma once

#include "base/error.h"
#include "tls/tls.h"

#include <openssl/x509.h>

/* Checks what the files `names` contained for that use. `*pem` is given the certificate's end.
 *   INVALID_ARGUMENT  `why` names the file */
LH_MUST_USE int lh_certificate_check(const struct lh_tls_files *names, enum lh_tls_use use,
    struct lh_tls_pem *pem, char *why, size_t why_size);

/* lh_tls_host() of a certificate in PEM. */
LH_MUST_USE bool lh_certificate_host(const char *cert, char *host, size_t host_size);

/* All certificates of a file's text, the caller's (sk_X509_pop_free()). NULL: none, or not only
 * such. */
LH_MUST_USE STACK_OF(X509) * lh_certificates_read(const char *text);

/* Who it says that its owner is, as lh_tls_peer(). */
bool lh_certificate_name(X509 *leaf, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* Was the first of `chain`, over the others, signed by one of `authorities` for that purpose
 * (X509_PURPOSE_SSL_CLIENT ...)? OpenSSL's verdict; X509_V_OK: it was. */
int lh_certificate_signed(STACK_OF(X509) * authorities, STACK_OF(X509) * chain, int purpose);
