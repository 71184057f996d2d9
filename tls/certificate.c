#include "tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* An empty one: nobody is asked on a terminal. */
static char no_password[] = "";

/* Certificates in one file, an authority's or a chain. More of an authority are no use to anybody
 * and a cost to every handshake. */
#define CERTIFICATES_MAX 256

static int refuse(char *why, size_t why_size, const char *file, const char *what)
{
    ERR_clear_error();
    (void)snprintf(why, why_size, "%s %s", file, what);
    return LH_ERR_INVALID_ARGUMENT;
}

STACK_OF(X509) * lh_certificates_read(const char *text)
{
    BIO *from = BIO_new_mem_buf(text, -1);
    STACK_OF(X509) *all = sk_X509_new_null();
    X509 *one;

    while (sk_X509_num(all) <= CERTIFICATES_MAX &&
           (one = PEM_read_bio_X509(from, NULL, NULL, no_password)) != NULL)
        sk_X509_push(all, one);
    bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    BIO_free(from);
    if (whole && sk_X509_num(all) > 0)
        return all;
    sk_X509_pop_free(all, X509_free);
    return NULL;
}

static int check_key(const struct lh_tls_files *names, const struct lh_tls_pem *pem, X509 *leaf,
    char *why, size_t why_size)
{
    char text[4300];
    BIO *from = BIO_new_mem_buf(pem->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(from, NULL, NULL, no_password);

    BIO_free(from);
    if (key == NULL)
        return refuse(why, why_size, names->key_file,
            "has no private key in PEM, or one that is damaged or has a password");
    bool fits = X509_check_private_key(leaf, key) == 1;
    EVP_PKEY_free(key);
    if (fits)
        return LH_OK;
    (void)snprintf(text, sizeof text, "is not the key of the certificate in %s", names->cert_file);
    return refuse(why, why_size, names->key_file, text);
}

static int64_t unix_time(const ASN1_TIME *time)
{
    struct tm tm;

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static int check_time(
    const struct lh_tls_files *names, X509 *leaf, int64_t *not_after, char *why, size_t why_size)
{
    char when[32], text[80];
    int64_t from = unix_time(X509_get0_notBefore(leaf)),
            until = unix_time(X509_get0_notAfter(leaf));
    time_t now = time(NULL), at = now < from ? from : until;
    struct tm tm;

    *not_after = until;
    if (now >= from && now < until)
        return LH_OK;
    (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&at, &tm));
    (void)snprintf(text, sizeof text,
        now < from ? "is not valid before %s" : "has expired: it was valid until %s", when);
    return refuse(why, why_size, names->cert_file, text);
}

int lh_certificate_signed(STACK_OF(X509) * authorities, STACK_OF(X509) * chain, int purpose)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();

    for (int i = 0; i < sk_X509_num(authorities); i++)
        (void)X509_STORE_add_cert(store, sk_X509_value(authorities, i));
    bool good = X509_STORE_CTX_init(context, store, sk_X509_value(chain, 0), chain) == 1 &&
                X509_STORE_CTX_set_purpose(context, purpose) == 1 && X509_verify_cert(context) == 1;
    int verdict = good ? X509_V_OK : X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return good || verdict != X509_V_OK ? verdict : X509_V_ERR_UNSPECIFIED;
}

/* As the other side will: by the authority, for that purpose. */
static int check_signed(const struct lh_tls_files *names, STACK_OF(X509) * authorities,
    STACK_OF(X509) * chain, int purpose, char *why, size_t why_size)
{
    char text[4500];
    int error = lh_certificate_signed(authorities, chain, purpose);

    if (error == X509_V_OK)
        return LH_OK;
    if (error == X509_V_ERR_INVALID_PURPOSE)
        (void)snprintf(text, sizeof text,
            "is not for %s: its extended key usage needs serverAuth and clientAuth in a server, "
            "since that calls others, and clientAuth in a client",
            purpose == X509_PURPOSE_SSL_SERVER ? "servers" : "clients");
    else
        (void)snprintf(text, sizeof text, "was not signed by an authority in %s: %s",
            names->ca_file, X509_verify_cert_error_string(error));
    return refuse(why, why_size, names->cert_file, text);
}

static int check_own(const struct lh_tls_files *names, enum lh_tls_use use,
    STACK_OF(X509) * authorities, struct lh_tls_pem *pem, char *why, size_t why_size)
{
    STACK_OF(X509) *chain = lh_certificates_read(pem->cert);

    if (chain == NULL)
        return refuse(
            why, why_size, names->cert_file, "has no certificate in PEM, or one that is damaged");
    X509 *leaf = sk_X509_value(chain, 0);
    int error = check_key(names, pem, leaf, why, why_size);
    if (error == LH_OK)
        error = check_time(names, leaf, &pem->not_after_unix, why, why_size);
    if (error == LH_OK && use != LH_TLS_FOREIGN)
        error = check_signed(names, authorities, chain, X509_PURPOSE_SSL_CLIENT, why, why_size);
    if (error == LH_OK && use == LH_TLS_SERVES)
        error = check_signed(names, authorities, chain, X509_PURPOSE_SSL_SERVER, why, why_size);
    sk_X509_pop_free(chain, X509_free);
    return error;
}

int lh_certificate_check(const struct lh_tls_files *names, enum lh_tls_use use,
    struct lh_tls_pem *pem, char *why, size_t why_size)
{
    STACK_OF(X509) *authorities = lh_certificates_read(pem->ca);

    pem->not_after_unix = 0;
    if (authorities == NULL)
        return refuse(
            why, why_size, names->ca_file, "has no certificate in PEM, or one that is damaged");
    int error = pem->cert == NULL ? LH_OK : check_own(names, use, authorities, pem, why, why_size);
    sk_X509_pop_free(authorities, X509_free);
    return error;
}

static bool name_of(const GENERAL_NAME *n, int type, char *host, size_t host_size)
{
    if (n->type != type)
        return false;
    const unsigned char *data = ASN1_STRING_get0_data(n->d.ia5);
    size_t size = (size_t)ASN1_STRING_length(n->d.ia5);
    if (type == GEN_IPADD)
        return inet_ntop(size == 4 ? AF_INET : AF_INET6, data, host, (socklen_t)host_size) != NULL;
    if (size == 0 || size >= host_size || memchr(data, 0, size) != NULL)
        return false;
    memcpy(host, data, size);
    host[size] = '\0';
    return true;
}

bool lh_certificate_host(const char *cert, char *host, size_t host_size)
{
    static const int types[] = {GEN_DNS, GEN_IPADD};
    STACK_OF(X509) *chain = lh_certificates_read(cert);
    bool found = false;

    if (chain == NULL)
        return false;
    GENERAL_NAMES *names =
        X509_get_ext_d2i(sk_X509_value(chain, 0), NID_subject_alt_name, NULL, NULL);
    for (size_t t = 0; t < 2; t++)
        for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++)
            found = name_of(sk_GENERAL_NAME_value(names, i), types[t], host, host_size);
    GENERAL_NAMES_free(names);
    sk_X509_pop_free(chain, X509_free);
    ERR_clear_error();
    return found;
}
