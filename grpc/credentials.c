/* TLS as gRPC has it: credentials of channels and of the listener, who makes a call, and handshakes
 * that failed.
 *
 * gRPC asks for the listener's certificate with each connection, so that a renewed one is shown to
 * the next. A channel has what it was made with: there is another one once that has been renewed
 * (channel.c). Both sides show a certificate, and both check the other's; a client also checks that
 * the server's is for the host that it dialled, and of the server that it means (answers.c). TLS
 * 1.2 and later: gRPC has no other. */
#include "grpc/credentials.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/say.h"
#include "grpc/answers.h"
#include "grpc/internal.h"

#include <stdlib.h>
#include <string.h>

grpc_channel_credentials *lh_rpc_channel_credentials(
    struct lh_tls *tls, struct answerer *answerer, uint64_t *generation)
{
    grpc_ssl_verify_peer_options verify;

    if (tls == NULL)
        return grpc_insecure_credentials_create();
    struct lh_tls_pem *pem = lh_tls_current(tls);
    grpc_ssl_pem_key_cert_pair pair = {.private_key = pem->key, .cert_chain = pem->cert};
    if (answerer != NULL)
        lh_rpc_answerer_verify(answerer, &verify);
    grpc_channel_credentials *credentials = grpc_ssl_credentials_create_ex(
        pem->ca, pem->key == NULL ? NULL : &pair, answerer == NULL ? NULL : &verify, NULL);
    LH_ASSERT(credentials != NULL);
    *generation = pem->generation;
    lh_tls_pem_unref(pem);
    return credentials;
}

/* One call at a time: gRPC holds a lock. */
static grpc_ssl_certificate_config_reload_status fetch(
    void *arg, grpc_ssl_server_certificate_config **config)
{
    struct lh_rpc *rpc = arg;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;

    lh_tls_housekeep(rpc->tls);
    struct lh_tls_pem *pem = lh_tls_current(rpc->tls);
    if (pem->generation != rpc->served_generation) {
        const grpc_ssl_pem_key_cert_pair pair = {pem->key, pem->cert};
        *config = grpc_ssl_server_certificate_config_create(pem->ca, &pair, 1);
        rpc->served_generation = pem->generation;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    lh_tls_pem_unref(pem);
    return status;
}

grpc_server_credentials *lh_rpc_server_credentials(struct lh_rpc *rpc)
{
    if (rpc->tls == NULL)
        return grpc_insecure_server_credentials_create();
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, fetch, rpc));
}

/* ---- who makes a call ---- */

bool lh_rpc_identity(
    const struct lh_rpc *rpc, grpc_call *call, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    const grpc_auth_property *p;
    struct lh_tls_names names = {0};

    identity[0] = '\0';
    if (rpc->tls == NULL)
        return true;
    grpc_auth_context *context = grpc_call_auth_context(call);
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
    while ((p = grpc_auth_property_iterator_next(&at)) != NULL)
        lh_tls_names_add_uri(&names, p->value, p->value_length);
    at = grpc_auth_context_find_properties_by_name(context, GRPC_X509_SUBJECT_PROPERTY_NAME);
    p = grpc_auth_property_iterator_next(&at);
    if (p != NULL) {
        names.subject = p->value;
        names.subject_size = p->value_length;
    }
    bool known = lh_tls_names_choose(&names, identity);
    grpc_auth_context_release(context);
    return known;
}

/* ---- handshakes ---- */

void lh_rpc_hear_grpc(gpr_log_func_args *args)
{
    static const char mark[] = "Handshake failed with ";
    const char *text = strstr(args->message, mark);

    if (text != NULL)
        lh_tls_note_failed_handshake(text + sizeof mark - 1);
    else if (strstr(args->message, "assertion failed") != NULL) /* the process ends with it */
        lh_say_last("gRPC: %s at %s:%d\n", args->message, args->file, args->line);
}
