/* Who somebody is by a certificate, for servers that are not gRPC's (ACC-1). What counts is what
 * lh_rpc_identity() takes from gRPC. */
#include "base/text.h"
#include "rpc/internal.h"
#include "rpc/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define CHAIN_MAX 16u

static bool refuse(char identity[LH_LINK_IDENTITY_MAX + 1], const char *what)
{
    (void)snprintf(identity, LH_LINK_IDENTITY_MAX + 1, "the certificate %s", what);
    return false;
}

/* NULL: one cannot be read, or there are too many. */
static STACK_OF(X509) * read_chain(const struct lh_tls_der *certs, size_t count)
{
    STACK_OF(X509) *chain = sk_X509_new_null();

    for (size_t i = 0; i < count && count <= CHAIN_MAX; i++) {
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

static void trust(X509_STORE *store, const char *ca)
{
    BIO *from = BIO_new_mem_buf(ca, -1);
    X509 *one;

    while ((one = PEM_read_bio_X509(from, NULL, NULL, NULL)) != NULL) {
        (void)X509_STORE_add_cert(store, one);
        X509_free(one);
    }
    BIO_free(from);
}

static bool is_signed(struct lh_tls *tls, STACK_OF(X509) * chain)
{
    struct lh_tls_pem *pem = lh_tls_current(tls);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();

    trust(store, pem->ca);
    lh_tls_pem_unref(pem);
    bool good = X509_STORE_CTX_init(context, store, sk_X509_value(chain, 0), chain) == 1 &&
                X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT) == 1 &&
                X509_verify_cert(context) == 1;
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return good;
}

/* All of it or nothing, as for names that gRPC brings. */
static bool take(const char *name, size_t size, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    if (size == 0 || size > LH_LINK_IDENTITY_MAX || memchr(name, 0, size) != NULL ||
        !lh_utf8_is_valid(name, size))
        return refuse(identity, "has a name that is too long or is not UTF-8");
    memcpy(identity, name, size);
    identity[size] = '\0';
    return true;
}

static bool take_subject(X509 *leaf, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    BIO *to = BIO_new(BIO_s_mem());
    char *text;

    (void)X509_NAME_print_ex(to, X509_get_subject_name(leaf), 0, XN_FLAG_RFC2253);
    long size = BIO_get_mem_data(to, &text);
    bool known = size > 0 ? take(text, (size_t)size, identity)
                          : refuse(identity, "names nobody: it has no URI " URI_PREFIX
                                             "ROLE/NAME and no subject");
    BIO_free(to);
    return known;
}

static bool take_name(X509 *leaf, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    const ASN1_STRING *ours = NULL;
    unsigned count = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
        if (n->type != GEN_URI ||
            (size_t)ASN1_STRING_length(n->d.uniformResourceIdentifier) <= strlen(URI_PREFIX) ||
            memcmp(ASN1_STRING_get0_data(n->d.uniformResourceIdentifier), URI_PREFIX,
                strlen(URI_PREFIX)) != 0)
            continue;
        ours = n->d.uniformResourceIdentifier;
        count++;
    }
    bool known = count > 1   ? refuse(identity, "names several identities (" URI_PREFIX ")")
                 : count > 0 ? take((const char *)ASN1_STRING_get0_data(ours),
                                   (size_t)ASN1_STRING_length(ours), identity)
                             : take_subject(leaf, identity);
    GENERAL_NAMES_free(names);
    return known;
}

bool lh_tls_peer(struct lh_tls *tls, const struct lh_tls_der *certs, size_t count,
    char identity[LH_LINK_IDENTITY_MAX + 1])
{
    STACK_OF(X509) *chain = read_chain(certs, count);
    bool known = chain == NULL            ? refuse(identity, "cannot be read")
                 : !is_signed(tls, chain) ? refuse(identity, "was not signed for clients by this "
                                                             "cluster's authority, or has expired")
                                          : take_name(sk_X509_value(chain, 0), identity);

    sk_X509_pop_free(chain, X509_free);
    ERR_clear_error();
    return known;
}
