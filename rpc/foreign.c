/* Servers that are not ours: what etcd's connections and calls need that ours do not. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "proto/codec.h"
#include "rpc/internal.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* etcd ends a connection that is probed more often than every five seconds, or while it has no call
 * (GRPCKeepAliveMinTime; GOAWAY "too_many_pings"). Calls that cannot wait so long have a deadline
 * of their own. */
#define KEEPALIVE_MS         10000
#define KEEPALIVE_TIMEOUT_MS 3000

/* More than any certificate or key has. */
#define TLS_FILE_BYTES_MAX (1u << 20)

size_t lh_rpc_foreign_args(grpc_arg *args)
{
    size_t n = 0;

#define INT(key, value) args[n++] = lh_rpc_int_arg(key, value)
    INT(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)LH_MESSAGE_BYTES_MAX);
    INT(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)LH_MESSAGE_BYTES_MAX);
    INT(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    INT(GRPC_ARG_ENABLE_CHANNELZ, 0);

    INT(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS);
    INT(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS);
    INT(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
    /* A watch on which nothing happens is probed on and on. */
    INT(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);

    /* Of the settings for our own servers, those that concern what arrives here: large pages come
     * without a wait for each 64 KiB. The bandwidth-delay probe is a ping, too. */
    INT(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
    INT(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    INT(GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10);
#undef INT
    return n;
}

/* ---- calls ---- */

size_t lh_rpc_foreign_metadata(const struct lh_rpc_link *link, grpc_metadata *metadata)
{
    size_t n = 0;

    if (!lh_method_info(link->method)->foreign)
        return 0;
    memset(metadata, 0, FOREIGN_METADATA_MAX * sizeof *metadata);
    /* A member that has no leader refuses at once, so that certainly nothing was done and another
     * member can be asked, instead of after seven seconds, and ends a watch instead of falling
     * silent. Status alone is to be had without a leader: it says whether there is one. */
    if (link->method != LH_METHOD_ETCD_STATUS) {
        metadata[n].key = grpc_slice_from_static_string("hasleader");
        metadata[n++].value = grpc_slice_from_static_string("true");
    }
    if (link->token != NULL) {
        metadata[n].key = grpc_slice_from_static_string("token");
        metadata[n++].value = grpc_slice_from_copied_string(link->token);
    }
    return n;
}

void lh_rpc_link_set_token(struct lh_rpc_link *link, const char *token)
{
    grpc_slice value = grpc_slice_from_copied_string(token);
    bool legal = grpc_header_nonbin_value_is_legal(value) != 0;

    grpc_slice_unref(value);
    pthread_mutex_lock(&link->lock);
    if (legal) {
        link->token = lh_strdup(token);
    } else { /* the call does not come to be; the flush reports it */
        link->over = true;
        link->ended = true;
        link->end_error = LH_ERR_MALFORMED;
        link->end_text = lh_strdup("the token has bytes that a call's metadata cannot carry");
    }
    pthread_mutex_unlock(&link->lock);
}

/* ---- TLS ---- */

/* The whole file as a string, or NULL with a sentence in `why`. It has to contain `mark`: gRPC says
 * of a wrong file only that the connection failed. */
static char *read_pem(
    const char *path, const char *mark, const char *what, int *error, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        *error = lh_error_from_errno(errno);
        (void)snprintf(
            why, why_size, "cannot open %s, %s of etcd: %s", path, what, strerror(errno));
        return NULL;
    }
    char *text = lh_alloc(TLS_FILE_BYTES_MAX + 1); /* zeroed, so it ends in NUL */
    errno = 0;
    size_t size = fread(text, 1, TLS_FILE_BYTES_MAX, file);
    *error = LH_OK;
    if (ferror(file)) {
        *error = lh_error_from_errno(errno);
        (void)snprintf(
            why, why_size, "cannot read %s, %s of etcd: %s", path, what, strerror(errno));
    } else if (strlen(text) != size || strstr(text, mark) == NULL) {
        *error = LH_ERR_INVALID_ARGUMENT;
        (void)snprintf(
            why, why_size, "%s, %s of etcd, is not in PEM: it has no \"%s\"", path, what, mark);
    }
    (void)fclose(file);
    if (*error == LH_OK)
        return text;
    explicit_bzero(text, TLS_FILE_BYTES_MAX);
    free(text);
    return NULL;
}

static void forget(char *text)
{
    if (text == NULL)
        return;
    explicit_bzero(text, strlen(text));
    free(text);
}

int lh_rpc_foreign_credentials(const struct lh_rpc_tls *tls, grpc_channel_credentials **credentials,
    char *why, size_t why_size)
{
    char *ca = NULL, *certificate = NULL, *key = NULL;
    int error = LH_OK;

    *credentials = NULL;
    if ((tls->cert_file == NULL) != (tls->key_file == NULL)) {
        (void)snprintf(why, why_size,
            "a client certificate for etcd needs its key, and a key its "
            "certificate: name both files or none");
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (tls->ca_file == NULL && tls->cert_file != NULL) {
        (void)snprintf(why, why_size,
            "a client certificate for etcd needs the file of the CA that etcd's own is checked by");
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (tls->ca_file == NULL)
        return LH_OK;
    ca = read_pem(tls->ca_file, "-----BEGIN CERTIFICATE-----", "the CA", &error, why, why_size);
    if (error == LH_OK && tls->cert_file != NULL)
        certificate = read_pem(tls->cert_file, "-----BEGIN CERTIFICATE-----",
            "the client certificate", &error, why, why_size);
    if (error == LH_OK && tls->key_file != NULL)
        key =
            read_pem(tls->key_file, "PRIVATE KEY-----", "the client's key", &error, why, why_size);
    if (error == LH_OK) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = certificate};
        *credentials = grpc_ssl_credentials_create(ca, key == NULL ? NULL : &pair, NULL, NULL);
        LH_ASSERT(*credentials != NULL);
    }
    free(ca);
    free(certificate);
    forget(key);
    return error;
}
