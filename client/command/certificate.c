/* What a certificate says; the other half of authority.h. */
#include "client/command/authority.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define URI_PREFIX "leasehold://"

/* An empty one: nobody is asked on a terminal. */
static char no_password[] = "";

static int64_t unix_time(const ASN1_TIME *time)
{
    struct tm tm;

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static char *name_text(const X509_NAME *name)
{
    BIO *to = BIO_new(BIO_s_mem());
    char *bytes;

    (void)X509_NAME_print_ex(to, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
    long size = BIO_get_mem_data(to, &bytes);
    char *text = lh_alloc((size_t)size + 1);
    memcpy(text, bytes, (size_t)size);
    BIO_free(to);
    return text;
}

/* The names of that kind; `prefix`: only those that begin with it. */
static void add_names(FILE *to, const GENERAL_NAMES *names, int type, const char *prefix)
{
    char ip[INET6_ADDRSTRLEN];

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
        if (n->type != type)
            continue;
        const char *text = (const char *)ASN1_STRING_get0_data(n->d.ia5);
        size_t size = (size_t)ASN1_STRING_length(n->d.ia5);
        if (type == GEN_IPADD) {
            text = inet_ntop(size == 4 ? AF_INET : AF_INET6, text, ip, sizeof ip);
            if ((size != 4 && size != 16) || text == NULL)
                continue;
            size = strlen(text);
        }
        if (size >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0)
            (void)fprintf(to, "%s%.*s", ftell(to) > 0 ? "," : "", (int)size, text);
    }
}

static void take_names(X509 *certificate, struct lh_certificate_facts *facts)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t size = 0;

    FILE *to = open_memstream(&facts->identity, &size);
    add_names(to, names, GEN_URI, URI_PREFIX);
    (void)fclose(to);
    to = open_memstream(&facts->hosts, &size);
    add_names(to, names, GEN_DNS, "");
    add_names(to, names, GEN_IPADD, "");
    (void)fclose(to);
    GENERAL_NAMES_free(names);
}

int lh_certificate_read(
    const char *path, struct lh_certificate_facts *facts, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        int error = errno == ENOENT ? LH_ERR_NOT_FOUND : LH_ERR_IO;
        (void)snprintf(why, why_size, "cannot open %s: %s", path, strerror(errno));
        return error;
    }
    X509 *c = PEM_read_X509(file, NULL, NULL, no_password);
    (void)fclose(file);
    ERR_clear_error();
    if (c == NULL) {
        (void)snprintf(why, why_size, "%s has no certificate in PEM", path);
        return LH_ERR_CORRUPT;
    }
    *facts = (struct lh_certificate_facts){
        .subject = name_text(X509_get_subject_name(c)),
        .issuer = name_text(X509_get_issuer_name(c)),
        .from_unix = unix_time(X509_get0_notBefore(c)),
        .until_unix = unix_time(X509_get0_notAfter(c)),
        .authority = X509_check_ca(c) != 0,
    };
    take_names(c, facts);
    X509_free(c);
    return LH_OK;
}

void lh_certificate_facts_deinit(struct lh_certificate_facts *facts)
{
    free(facts->subject);
    free(facts->issuer);
    free(facts->identity);
    free(facts->hosts);
}
