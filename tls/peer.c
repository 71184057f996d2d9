/* Who a peer is by its certificate (ACC-1): by one that the library behind a connection has
 * checked, or by one that is checked here. */
#include "base/text.h"
#include "tls/certificate.h"
#include "tls/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define URI_PREFIX "leasehold://"

static bool refuse(char identity[LH_LINK_IDENTITY_MAX + 1], const char *what)
{
    (void)snprintf(identity, LH_LINK_IDENTITY_MAX + 1, "%s", what);
    return false;
}

/* ---- names ---- */

void lh_tls_names_add_uri(struct lh_tls_names *names, const char *uri, size_t size)
{
    size_t n = strlen(URI_PREFIX);

    if (size <= n || memcmp(uri, URI_PREFIX, n) != 0)
        return;
    names->uris++;
    names->uri = uri;
    names->uri_size = size;
}

/* RFC 3986. Of other bytes gRPC makes something else than what the certificate has, so that a call
 * and a request for the page would come from two. */
static bool is_uri(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return true;
}

bool lh_tls_names_choose(const struct lh_tls_names *names, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    const char *name = names->uris > 0 ? names->uri : names->subject;
    size_t size = names->uris > 0 ? names->uri_size : names->subject_size;

    if (names->uris > 1)
        return refuse(identity, "the certificate names several identities (" URI_PREFIX ")");
    if (name == NULL)
        return refuse(identity,
            "the certificate names nobody: it has no URI " URI_PREFIX "ROLE/NAME and no subject");
    if (size == 0 || size > LH_LINK_IDENTITY_MAX || memchr(name, 0, size) != NULL ||
        !lh_utf8_is_valid(name, size))
        return refuse(identity, "the name in the certificate is too long or is not UTF-8");
    if (name == names->uri && !is_uri(name, size))
        return refuse(
            identity, "the certificate's URI " URI_PREFIX " has characters that no URI has");
    memcpy(identity, name, size);
    identity[size] = '\0';
    return true;
}

/* ---- certificates ---- */

/* NULL: one cannot be read, or there are too many. */
static STACK_OF(X509) * read_chain(const struct lh_tls_der *certs, size_t count)
{
    STACK_OF(X509) *chain = sk_X509_new_null();

    for (size_t i = 0; i < count && count <= LH_TLS_CHAIN_MAX; i++) {
        const unsigned char *at = certs[i].bytes;
        X509 *one = d2i_X509(NULL, &at, (long)certs[i].size);
        if (one != NULL)
            sk_X509_push(chain, one);
    }
    if (count > 0 && sk_X509_num(chain) == (int)count)
        return chain;
    sk_X509_pop_free(chain, X509_free);
    return NULL;
}

static bool is_signed(struct lh_tls *tls, STACK_OF(X509) * chain)
{
    struct lh_tls_pem *pem = lh_tls_current(tls);
    STACK_OF(X509) *authorities = lh_certificates_read(pem->ca);
    bool good = authorities != NULL &&
                lh_certificate_signed(authorities, chain, X509_PURPOSE_SSL_CLIENT) == X509_V_OK;

    sk_X509_pop_free(authorities, X509_free);
    lh_tls_pem_unref(pem);
    return good;
}

bool lh_certificate_name(X509 *leaf, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    GENERAL_NAMES *all = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    BIO *to = BIO_new(BIO_s_mem());
    struct lh_tls_names names = {0};
    char *subject;

    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(all, i);
        if (n->type == GEN_URI)
            lh_tls_names_add_uri(&names,
                (const char *)ASN1_STRING_get0_data(n->d.uniformResourceIdentifier),
                (size_t)ASN1_STRING_length(n->d.uniformResourceIdentifier));
    }
    (void)X509_NAME_print_ex(to, X509_get_subject_name(leaf), 0, XN_FLAG_RFC2253);
    long size = BIO_get_mem_data(to, &subject);
    if (size > 0) {
        names.subject = subject;
        names.subject_size = (size_t)size;
    }
    bool known = lh_tls_names_choose(&names, identity);
    BIO_free(to);
    GENERAL_NAMES_free(all);
    return known;
}

/* Takes over `from`; NULL is allowed. */
static bool name_of_first(BIO *from, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    X509 *leaf = from == NULL ? NULL : PEM_read_bio_X509(from, NULL, NULL, NULL);
    bool known = leaf == NULL ? refuse(identity, "the certificate cannot be read")
                              : lh_certificate_name(leaf, identity);

    X509_free(leaf);
    BIO_free(from);
    ERR_clear_error();
    return known;
}

bool lh_tls_owner_of_pem(const char *pem, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    return name_of_first(BIO_new_mem_buf(pem, -1), identity);
}

bool lh_tls_owner(const char *cert_file, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    return name_of_first(BIO_new_file(cert_file, "r"), identity);
}

/* gRPC looks at the subject, too, where there are no alternative names: such a certificate has no
 * URI, and is no server's. */
static bool is_for(X509 *leaf, const char *host)
{
    return X509_check_host(leaf, host, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1 ||
           X509_check_ip_asc(leaf, host, 0) == 1;
}

bool lh_tls_is_for(const char *cert_file, const char *address)
{
    const char *colon = strrchr(address, ':');
    char host[256];

    if (strncmp(address, "unix:", 5) == 0 || colon == NULL)
        return true;
    bool bare = address[0] == '[';
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * bare, address + bare);
    BIO *from = BIO_new_file(cert_file, "r");
    X509 *leaf = from == NULL ? NULL : PEM_read_bio_X509(from, NULL, NULL, NULL);
    bool good = leaf == NULL || is_for(leaf, host);
    X509_free(leaf);
    BIO_free(from);
    ERR_clear_error();
    return good;
}

bool lh_tls_peer(struct lh_tls *tls, const struct lh_tls_der *certs, size_t count,
    char identity[LH_LINK_IDENTITY_MAX + 1])
{
    STACK_OF(X509) *chain = read_chain(certs, count);
    bool known = chain == NULL ? refuse(identity, "the certificate cannot be read")
                 : !is_signed(tls, chain)
                     ? refuse(identity, "the certificate was not signed for clients by "
                                        "this cluster's authority, or has expired")
                     : lh_certificate_name(sk_X509_value(chain, 0), identity);

    sk_X509_pop_free(chain, X509_free);
    ERR_clear_error();
    return known;
}
