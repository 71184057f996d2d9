#include "client/command/authority.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* An empty one: nobody is asked on a terminal. */
static char no_password[] = "";

/* What OpenSSL has noted of it is forgotten: the next one to look would take it for its own. */
#define fail(error, ...) (ERR_clear_error(), lh_why(error, why, why_size, __VA_ARGS__))

/* Clocks of two nodes may differ by this much. */
#define BACKDATE_SECONDS 300

#define NAME_BYTES_MAX 63u
#define HOST_BYTES_MAX 253u
#define URI_PREFIX     "leasehold://"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static const struct {
    const char *name;
    bool serves;
} roles[] = {
    {"master", true},
    {"chunkserver", true},
    {"etcd", true}, /* the masters' store, with no right here */
    {"admin", false},
    {"writer", false},
    {"reader", false},
};

static char *path_in(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = lh_alloc(size);

    (void)snprintf(path, size, "%s/%s", dir, name);
    return path;
}

/* ---- files ---- */

static bool is_there(const char *dir, const char *name)
{
    char *path = path_in(dir, name);
    bool there = access(path, F_OK) == 0;

    free(path);
    return there;
}

/* The whole of `content` under that name, or what was there before. */
static int replace_file(
    const char *dir, const char *name, BIO *content, mode_t mode, char *why, size_t why_size)
{
    char *path = path_in(dir, name), *temporary = lh_alloc(strlen(path) + 8), *bytes;
    long size = BIO_get_mem_data(content, &bytes);

    (void)sprintf(temporary, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    bool good = fd >= 0 && write(fd, bytes, (size_t)size) == size && fchmod(fd, mode) == 0 &&
                fsync(fd) == 0;
    int reason = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && rename(temporary, path) != 0) {
        good = false;
        reason = errno;
    }
    if (!good && fd >= 0)
        (void)unlink(temporary);
    int error = good ? LH_OK : fail(LH_ERR_IO, "cannot write %s: %s", path, strerror(reason));
    free(temporary);
    free(path);
    return error;
}

static int write_key(const char *dir, const char *name, EVP_PKEY *key, char *why, size_t why_size)
{
    BIO *text = BIO_new(BIO_s_secmem());
    int error = PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL) == 1
                    ? replace_file(dir, name, text, 0600, why, why_size)
                    : fail(LH_ERR_SYSTEM, "OpenSSL cannot write the key");

    BIO_free(text);
    return error;
}

static int write_certificate(
    const char *dir, const char *name, X509 *certificate, char *why, size_t why_size)
{
    BIO *text = BIO_new(BIO_s_mem());
    int error = PEM_write_bio_X509(text, certificate) == 1
                    ? replace_file(dir, name, text, 0644, why, why_size)
                    : fail(LH_ERR_SYSTEM, "OpenSSL cannot write the certificate");

    BIO_free(text);
    return error;
}

static int make_dir(const char *dir, mode_t mode, char *why, size_t why_size)
{
    if (mkdir(dir, mode) == 0 || errno == EEXIST)
        return LH_OK;
    return fail(LH_ERR_IO, "cannot create %s: %s", dir, strerror(errno));
}

static int read_certificate(const char *path, X509 **certificate, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return fail(errno == ENOENT ? LH_ERR_NOT_FOUND : LH_ERR_IO, "cannot open %s: %s", path,
            strerror(errno));
    *certificate = PEM_read_X509(file, NULL, NULL, no_password);
    (void)fclose(file);
    if (*certificate != NULL)
        return LH_OK;
    return fail(LH_ERR_CORRUPT, "%s has no certificate in PEM", path);
}

static int read_key(const char *path, EVP_PKEY **key, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return fail(errno == ENOENT ? LH_ERR_NOT_FOUND : LH_ERR_IO, "cannot open %s: %s", path,
            strerror(errno));
    *key = PEM_read_PrivateKey(file, NULL, NULL, no_password);
    (void)fclose(file);
    if (*key != NULL)
        return LH_OK;
    return fail(LH_ERR_CORRUPT, "%s has no private key in PEM", path);
}

/* ---- certificates ---- */

static bool extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool good = e != NULL && X509_add_ext(certificate, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[16];
    BIGNUM *number = NULL;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and always as long */
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool good =
        number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return good;
}

/* What all have. */
static X509 *begin_certificate(EVP_PKEY *key, const char *name, struct lh_duration valid)
{
    X509 *c = X509_new();
    X509_NAME *subject = X509_get_subject_name(c);
    time_t now = time(NULL);
    int64_t seconds = (int64_t)(valid.ns / UINT64_C(1000000000));

    if (X509_set_version(c, 2) == 1 && set_serial(c) &&
        X509_NAME_add_entry_by_txt(
            subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) == 1 &&
        X509_time_adj_ex(X509_getm_notBefore(c), 0, -BACKDATE_SECONDS, &now) != NULL &&
        X509_time_adj_ex(X509_getm_notAfter(c), (int)(seconds / 86400), seconds % 86400, &now) !=
            NULL &&
        X509_set_pubkey(c, key) == 1)
        return c;
    X509_free(c);
    return NULL;
}

int lh_authority_make(
    const char *dir, struct lh_duration valid, bool force, char *why, size_t why_size)
{
    int error = make_dir(dir, 0700, why, why_size);

    if (error != LH_OK)
        return error;
    if (!force && (is_there(dir, LH_AUTHORITY_KEY) || is_there(dir, LH_AUTHORITY_CERT)))
        return fail(LH_ERR_ALREADY_EXISTS,
            "there is an authority in %s; with --force another one replaces it, and what it has "
            "signed is worth nothing any more",
            dir);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *c = key == NULL ? NULL : begin_certificate(key, "Leasehold authority", valid);
    bool good = c != NULL && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
                extend(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                extend(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                extend(c, c, NID_subject_key_identifier, "hash") &&
                X509_sign(c, key, EVP_sha256()) > 0;
    if (!good)
        error = fail(LH_ERR_SYSTEM, "OpenSSL cannot make the certificate");
    if (error == LH_OK)
        error = write_key(dir, LH_AUTHORITY_KEY, key, why, why_size);
    if (error == LH_OK)
        error = write_certificate(dir, LH_AUTHORITY_CERT, c, why, why_size);
    X509_free(c);
    EVP_PKEY_free(key);
    return error;
}

/* ---- names ---- */

static int check_who(const char *who, bool *serves, char *why, size_t why_size)
{
    const char *slash = strchr(who, '/');
    size_t length = slash == NULL ? 0 : strlen(slash + 1);

    if (length == 0 || length > NAME_BYTES_MAX || strspn(slash + 1, LETTERS "._-") != length ||
        slash[1] == '.')
        return fail(LH_ERR_INVALID_ARGUMENT,
            "\"%s\" is not ROLE/NAME, with a name of at most %u letters, digits, '.', '_' and '-'",
            who, NAME_BYTES_MAX);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strlen(roles[i].name) == (size_t)(slash - who) &&
            strncmp(roles[i].name, who, (size_t)(slash - who)) == 0) {
            *serves = roles[i].serves;
            return LH_OK;
        }
    }
    return fail(LH_ERR_INVALID_ARGUMENT,
        "\"%.*s\" is no role: there are master, chunkserver, etcd, admin, writer and reader",
        (int)(slash - who), who);
}

static bool add_name(GENERAL_NAMES *names, int type, void *value)
{
    GENERAL_NAME *name = GENERAL_NAME_new();

    if (value == NULL || name == NULL)
        return false;
    GENERAL_NAME_set0_value(name, type, value);
    return sk_GENERAL_NAME_push(names, name) > 0;
}

static bool add_text(GENERAL_NAMES *names, int type, const char *text)
{
    ASN1_IA5STRING *value = ASN1_IA5STRING_new();

    return ASN1_STRING_set(value, text, -1) == 1 && add_name(names, type, value);
}

/* Digits behind the last dot: of an IP address, which this is not, or of nothing. */
static bool ends_in_number(const char *host)
{
    const char *dot = strrchr(host, '.'), *last = dot != NULL ? dot + 1 : host;

    return strspn(last, "0123456789") == strlen(last);
}

/* An IP address or a name, which may begin with "*." */
static bool add_host(GENERAL_NAMES *names, const char *host)
{
    unsigned char ip[16];
    size_t length = strlen(host), bytes = 0;

    if (inet_pton(AF_INET, host, ip) == 1)
        bytes = 4;
    else if (inet_pton(AF_INET6, host, ip) == 1)
        bytes = 16;
    if (bytes != 0) {
        ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
        return ASN1_STRING_set(value, ip, (int)bytes) == 1 && add_name(names, GEN_IPADD, value);
    }
    const char *plain = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    if (length > HOST_BYTES_MAX || ends_in_number(plain) ||
        strspn(plain, LETTERS "._-") != strlen(plain))
        return false;
    return add_text(names, GEN_DNS, host);
}

static int add_names(X509 *c, const struct lh_authority_wish *wish, char *why, size_t why_size)
{
    char uri[sizeof URI_PREFIX + 16 + NAME_BYTES_MAX];
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    int error = LH_OK;

    (void)snprintf(uri, sizeof uri, URI_PREFIX "%s", wish->who);
    bool good = add_text(names, GEN_URI, uri);
    for (size_t i = 0; good && i < wish->host_count && error == LH_OK; i++)
        if (!add_host(names, wish->hosts[i]))
            error = fail(LH_ERR_INVALID_ARGUMENT,
                "\"%s\" is no host: give a name or an IP address, without a port", wish->hosts[i]);
    good = good && X509_add1_ext_i2d(c, NID_subject_alt_name, names, 0, 0) == 1;
    GENERAL_NAMES_free(names);
    if (error == LH_OK && !good)
        return fail(LH_ERR_SYSTEM, "OpenSSL cannot make the certificate");
    return error;
}

char *lh_authority_folder(const char *dir, const char *who)
{
    char *path = path_in(dir, who), *slash = strrchr(path, '/');

    if (strchr(who, '/') != NULL)
        *slash = '-';
    return path;
}

/* ---- issuing ---- */

/* No certificate is valid for longer than the one that signed it. */
static struct lh_duration at_most(struct lh_duration valid, const X509 *authority)
{
    int days = 0, seconds = 0;

    if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(authority)) != 1 || days < 0 ||
        seconds < 0)
        return (struct lh_duration){0};
    return lh_duration_min(valid, lh_seconds((uint64_t)days * 86400 + (uint64_t)seconds));
}

static int issue(X509 *authority, EVP_PKEY *signer, const struct lh_authority_wish *wish,
    bool serves, EVP_PKEY *key, X509 **out, char *why, size_t why_size)
{
    X509 *c = begin_certificate(key, wish->who, at_most(wish->valid, authority));
    bool good =
        c != NULL && X509_set_issuer_name(c, X509_get_subject_name(authority)) == 1 &&
        extend(c, authority, NID_basic_constraints, "critical,CA:FALSE") &&
        extend(c, authority, NID_key_usage, "critical,digitalSignature") &&
        extend(c, authority, NID_ext_key_usage, serves ? "serverAuth,clientAuth" : "clientAuth") &&
        extend(c, authority, NID_subject_key_identifier, "hash") &&
        extend(c, authority, NID_authority_key_identifier, "keyid:always");
    int error = good ? add_names(c, wish, why, why_size)
                     : fail(LH_ERR_SYSTEM, "OpenSSL cannot make the certificate");

    if (error == LH_OK && X509_sign(c, signer, EVP_sha256()) <= 0)
        error = fail(LH_ERR_SYSTEM, "OpenSSL cannot sign the certificate");
    if (error == LH_OK)
        *out = c;
    else
        X509_free(c);
    return error;
}

static int write_node(
    const char *to, X509 *authority, EVP_PKEY *key, X509 *certificate, char *why, size_t why_size)
{
    int error = make_dir(to, 0755, why, why_size);

    if (error == LH_OK)
        error = write_certificate(to, LH_AUTHORITY_CERT, authority, why, why_size);
    if (error == LH_OK)
        error = write_key(to, LH_NODE_KEY, key, why, why_size);
    return error == LH_OK ? write_certificate(to, LH_NODE_CERT, certificate, why, why_size) : error;
}

static int check_wish(const struct lh_authority_wish *wish, const char *to, bool force,
    bool *serves, char *why, size_t why_size)
{
    int error = check_who(wish->who, serves, why, why_size);

    if (error != LH_OK)
        return error;
    if (*serves && wish->host_count == 0)
        return fail(LH_ERR_INVALID_ARGUMENT,
            "%s is a server: give --host, each name and IP address that others reach it at",
            wish->who);
    if (!force && (is_there(to, LH_NODE_KEY) || is_there(to, LH_NODE_CERT)))
        return fail(LH_ERR_ALREADY_EXISTS,
            "there is a certificate or a key in %s; --force replaces them", to);
    return LH_OK;
}

int lh_authority_issue(const char *dir, const struct lh_authority_wish *wish, const char *to,
    bool force, char *why, size_t why_size)
{
    char *cert_path = path_in(dir, LH_AUTHORITY_CERT), *key_path = path_in(dir, LH_AUTHORITY_KEY);
    X509 *authority = NULL, *certificate = NULL;
    EVP_PKEY *signer = NULL, *key = NULL;
    bool serves = false;
    int error = check_wish(wish, to, force, &serves, why, why_size);

    if (error == LH_OK)
        error = read_certificate(cert_path, &authority, why, why_size);
    if (error == LH_OK)
        error = read_key(key_path, &signer, why, why_size);
    if (error == LH_OK && X509_check_private_key(authority, signer) != 1)
        error = fail(LH_ERR_CORRUPT, "%s is not the key of %s", key_path, cert_path);
    if (error == LH_OK && (key = EVP_EC_gen("P-256")) == NULL)
        error = fail(LH_ERR_SYSTEM, "OpenSSL cannot make a key");
    if (error == LH_OK)
        error = issue(authority, signer, wish, serves, key, &certificate, why, why_size);
    if (error == LH_OK)
        error = write_node(to, authority, key, certificate, why, why_size);
    X509_free(certificate);
    X509_free(authority);
    EVP_PKEY_free(key);
    EVP_PKEY_free(signer);
    free(cert_path);
    free(key_path);
    return error;
}
