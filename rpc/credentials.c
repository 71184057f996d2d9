/* TLS as gRPC has it: credentials of channels and of the listener, and who a peer is.
 *
 * gRPC asks for the listener's certificate with each connection, so that a renewed one is shown to
 * the next. A channel has what it was made with: there is another one once that has been renewed
 * (channel.c). Both sides show a certificate, and both check the other's; a client also checks that
 * the server's is for the host that it dialled. TLS 1.2 and later: gRPC has no other. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "rpc/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


grpc_channel_credentials *lh_rpc_channel_credentials(struct lh_tls *tls, uint64_t *generation)
{
    if (tls == NULL)
        return grpc_insecure_credentials_create();
    struct lh_tls_pem *pem = lh_tls_current(tls);
    grpc_ssl_pem_key_cert_pair pair = {.private_key = pem->key, .cert_chain = pem->cert};
    grpc_channel_credentials *credentials =
        grpc_ssl_credentials_create(pem->ca, pem->key == NULL ? NULL : &pair, NULL, NULL);
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

    lh_tls_tend(rpc->tls);
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

/* ---- who a peer is ---- */

/* A name that is kept, compared and logged: all of it or nothing. */
static bool usable(const grpc_auth_property *p)
{
    return p->value_length > 0 && p->value_length <= IDENTITY_MAX &&
           memchr(p->value, 0, p->value_length) == NULL &&
           lh_utf8_is_valid(p->value, p->value_length);
}

static bool is_ours(const grpc_auth_property *p)
{
    size_t n = strlen(URI_PREFIX);

    return p->value_length > n && memcmp(p->value, URI_PREFIX, n) == 0;
}

bool lh_rpc_identity(const struct lh_rpc *rpc, grpc_call *call, char identity[IDENTITY_MAX + 1])
{
    const grpc_auth_property *p, *chosen = NULL;
    unsigned ours = 0;

    identity[0] = '\0';
    if (rpc->tls == NULL)
        return true;
    grpc_auth_context *context = grpc_call_auth_context(call);
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
    while ((p = grpc_auth_property_iterator_next(&at)) != NULL) {
        if (is_ours(p)) {
            chosen = p;
            ours++;
        }
    }
    if (ours == 0) {
        at = grpc_auth_context_find_properties_by_name(context, GRPC_X509_SUBJECT_PROPERTY_NAME);
        chosen = grpc_auth_property_iterator_next(&at);
    }
    bool known = chosen != NULL && ours <= 1 && usable(chosen);
    if (known) {
        memcpy(identity, chosen->value, chosen->value_length);
        identity[chosen->value_length] = '\0';
    } else {
        (void)snprintf(identity, IDENTITY_MAX + 1, "%s",
            ours > 1         ? "the certificate names several identities (" URI_PREFIX ")"
            : chosen == NULL ? "the certificate names nobody: it has no URI " URI_PREFIX
                               "ROLE/NAME and no subject"
                             : "the name in the certificate is too long or is not UTF-8");
    }
    grpc_auth_context_release(context);
    return known;
}

const char *lh_rpc_link_identity(const struct lh_rpc_link *link)
{
    return link->identity == NULL ? "" : link->identity;
}

/* ---- handshakes ---- */

void lh_rpc_hear_grpc(gpr_log_func_args *args)
{
    static const char mark[] = "Handshake failed with ";
    const char *text = strstr(args->message, mark);

    if (text != NULL)
        lh_tls_note_failed_handshake(text + sizeof mark - 1);
}
