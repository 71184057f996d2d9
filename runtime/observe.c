#include "runtime/observe.h"

#include "admission/admission.h"
#include "base/alloc.h"
#include "runtime/process_metrics.h"
#include "runtime/thread.h"
#include "runtime/visitors.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TIMEOUT_SECONDS 5u

/* From a request's begin, or its connection's, to the end of its answer. */
#define AGE_SECONDS 15u

#define HEALTH_BYTES 512u
#define HANGS        "the core is busy with one step, or hangs in it"

#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct lh_observe {
    struct lh_observe_config config;
    struct MHD_Daemon *daemon;
    struct lh_visitors *visitors;
    int port;
};

/* From a request's first line to the end of its answer. */
struct request {
    bool begun;    /* its headers have been seen */
    void *of_site; /* the site's part of it; NULL: there is no site */
};

static struct lh_visitor *visitor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info == NULL ? NULL : info->socket_context;
}

static enum MHD_Result answer(
    struct MHD_Connection *connection, unsigned status, const char *type, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);

    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_metrics(struct lh_observe *o, struct MHD_Connection *connection)
{
    struct lh_metrics out = {0};

    if (!o->config.is_responsive(o->config.arg))
        return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", HANGS "\n");
    o->config.metrics(o->config.arg, &out);
    lh_process_metrics(&out);
    enum MHD_Result result =
        answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", out.text);
    lh_metrics_deinit(&out);
    return result;
}

/* `why` is as long as HEALTH_BYTES, and has room for a newline. */
static enum MHD_Result answer_health(struct MHD_Connection *connection, bool well, char *why)
{
    if (well)
        return answer(connection, MHD_HTTP_OK, "text/plain", "ok\n");
    memcpy(why + strlen(why), "\n", 2);
    return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", why);
}

static bool is_ready(struct lh_observe *o, char *why, size_t why_size)
{
    if (o->config.is_responsive(o->config.arg))
        return o->config.ready(o->config.arg, why, why_size);
    (void)snprintf(why, why_size, "%s", HANGS);
    return false;
}

static enum MHD_Result serve(void *arg, struct MHD_Connection *connection, const char *url,
    const char *method, const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct lh_observe *o = arg;
    struct request *request = *state;
    char why[HEALTH_BYTES] = "";
    int result;

    (void)version;
    (void)upload;
    if (!request->begun) { /* answered right now the connection could not be used again */
        request->begun = true;
        return MHD_YES;
    }
    if (*upload_size != 0) { /* nothing takes a body: read it and forget it */
        *upload_size = 0;
        return MHD_YES;
    }
    lh_visitor_asked(o->visitors, visitor_of(connection), false);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET\n");
    if (request->of_site != NULL && strcmp(method, "GET") == 0 &&
        o->config.site.serve(o->config.site.arg, request->of_site, &result)) {
        if (o->config.site.is_endless(o->config.site.arg, request->of_site))
            lh_visitor_asked(o->visitors, visitor_of(connection), true);
        return (enum MHD_Result)result;
    }
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(o, connection);
    if (strcmp(url, "/healthz") == 0)
        return answer_health(connection, o->config.live(o->config.arg, why, sizeof why - 1), why);
    if (strcmp(url, "/readyz") == 0)
        return answer_health(connection, is_ready(o, why, sizeof why - 1), why);
    return answer(connection, MHD_HTTP_NOT_FOUND, "text/plain",
        o->config.site.begin != NULL ? "there are /, /api/NAME, /metrics, /healthz and /readyz\n"
                                     : "there are /metrics, /healthz and /readyz\n");
}

static void *begin(void *arg, const char *uri, struct MHD_Connection *connection)
{
    const struct lh_observe_site *site = &((struct lh_observe *)arg)->config.site;
    struct request *request = lh_alloc(sizeof *request);

    if (site->begin != NULL)
        request->of_site = site->begin(site->arg, uri, connection);
    return request;
}

static void end(
    void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why)
{
    const struct lh_observe *o = arg;
    const struct lh_observe_site *site = &o->config.site;
    struct request *request = *state;

    (void)why;
    *state = NULL;
    if (request != NULL && request->of_site != NULL)
        site->end(site->arg, request->of_site);
    free(request);
    lh_visitor_answered(o->visitors, visitor_of(connection));
}

static void enter_or_leave(void *arg, struct MHD_Connection *connection, void **visitor,
    enum MHD_ConnectionNotificationCode what)
{
    const struct lh_observe *o = arg;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        lh_visitor_leave(o->visitors, *visitor);
        return;
    }
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *visitor = lh_visitor_enter(o->visitors, fd,
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
}

/* "host:port" or "[v6]:port" taken apart. */
static bool split(const char *listen, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(listen, ':');

    if (colon == NULL || colon[1] == '\0')
        return false;
    size_t size = (size_t)(colon - listen);
    if (size >= 2 && listen[0] == '[' && listen[size - 1] == ']') {
        listen++;
        size -= 2;
    }
    if (size == 0 || size >= host_size)
        return false;
    memcpy(host, listen, size);
    host[size] = '\0';
    *port = colon + 1;
    return true;
}

/* What the one server of this process shows: GnuTLS calls without an argument of ours. */
static struct lh_tls *_Atomic shown;

/* What the next who connects is shown; GnuTLS frees all of it. */
static int show_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
    gnutls_pcert_st **certs, unsigned *cert_count, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_count,
    gnutls_privkey_t *key, unsigned *flags)
{
    struct lh_tls_pem *pem = lh_tls_current(atomic_load(&shown));
    const gnutls_datum_t cert_text = {(unsigned char *)pem->cert, (unsigned)strlen(pem->cert)};
    const gnutls_datum_t key_text = {(unsigned char *)pem->key, (unsigned)strlen(pem->key)};
    unsigned count = LH_TLS_CHAIN_MAX;
    gnutls_pcert_st *chain = gnutls_malloc(count * sizeof *chain);
    gnutls_privkey_t private = NULL;

    (void)session;
    (void)info;
    int error = chain == NULL ? -1
                              : gnutls_pcert_list_import_x509_raw(
                                    chain, &count, &cert_text, GNUTLS_X509_FMT_PEM, 0);
    bool have_chain = error == 0;
    if (error == 0)
        error = gnutls_privkey_init(&private);
    if (error == 0)
        error = gnutls_privkey_import_x509_raw(private, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0);
    lh_tls_pem_unref(pem);
    if (error == 0) {
        *certs = chain;
        *cert_count = count;
        *ocsp = NULL;
        *ocsp_count = 0;
        *key = private;
        *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
        return 0;
    }
    for (unsigned i = 0; have_chain && i < count; i++)
        gnutls_pcert_deinit(&chain[i]);
    gnutls_free(chain);
    if (private != NULL)
        gnutls_privkey_deinit(private);
    return -1;
}

static int start(struct lh_observe *o, const struct addrinfo *at, char *why, size_t why_size)
{
    /* Not select(), which knows no descriptor above 1023. */
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_ALLOW_SUSPEND_RESUME;
    unsigned given = o->config.site.connections_max;
    unsigned most = given != 0 ? given : LH_OBSERVE_CONNECTIONS_MAX;
    struct lh_tls_pem *pem = o->config.tls == NULL ? NULL : lh_tls_current(o->config.tls);
    /* Clients are asked for a certificate of this authority. */
    bool asks = pem != NULL && o->config.site.begin != NULL;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)show_certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_VERSIONS},
        {asks ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, asks ? pem->ca : NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    const struct lh_visitors_config visitors = {.max = most,
        .address_max = most / LH_OBSERVE_ADDRESS_SHARE,
        .age_max = lh_seconds(AGE_SECONDS)};
    o->visitors = lh_visitors_create(&visitors, why, why_size);
    if (o->visitors == NULL) {
        if (pem != NULL)
            lh_tls_pem_unref(pem);
        return LH_ERR_SYSTEM;
    }
    if (o->config.tls != NULL) {
        flags |= MHD_USE_TLS;
        atomic_store(&shown, o->config.tls);
    }
    if (at->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    errno = 0;
    o->daemon = MHD_start_daemon(flags, 0, NULL, NULL, serve, o, MHD_OPTION_SOCK_ADDR, at->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, 2 * most, /* the visitors' is reached first */
        MHD_OPTION_NOTIFY_CONNECTION, enter_or_leave, o, MHD_OPTION_CONNECTION_TIMEOUT,
        TIMEOUT_SECONDS, MHD_OPTION_URI_LOG_CALLBACK, begin, o, MHD_OPTION_NOTIFY_COMPLETED, end, o,
        MHD_OPTION_ARRAY, o->config.tls != NULL ? tls : none, MHD_OPTION_END);
    if (pem != NULL)
        lh_tls_pem_unref(pem); /* the server has its own copy of what it needs */
    if (o->daemon == NULL && lh_error_from_errno(errno) == LH_ERR_SHORTAGE)
        return lh_why(LH_ERR_SYSTEM, why, why_size,
            "cannot serve metrics on %s: %s; " LH_THREAD_LIMITS ", or " LH_DESCRIPTOR_LIMIT,
            o->config.listen, strerror(errno));
    if (o->daemon == NULL) {
        (void)snprintf(why, why_size, "cannot serve metrics on %s: %s", o->config.listen,
            errno == 0 ? "the address is in use or is not this machine's" : strerror(errno));
        return LH_ERR_ADDRESS_IN_USE;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(o->daemon, MHD_DAEMON_INFO_BIND_PORT);
    o->port = info == NULL ? 0 : info->port;
    /* An operator is to see what is wrong also when there are too many connections. */
    info = MHD_get_daemon_info(o->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    if (info != NULL)
        lh_connections_exempt(info->listen_fd);
    return LH_OK;
}

int lh_observe_start(
    const struct lh_observe_config *config, struct lh_observe **observe, char *why, size_t why_size)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *at = NULL;
    char host[256];
    const char *port;

    if (!split(config->listen, host, sizeof host, &port) ||
        getaddrinfo(host, port, &hints, &at) != 0) {
        (void)snprintf(why, why_size,
            "cannot serve metrics on \"%s\": give host:port, for example 127.0.0.1:9400",
            config->listen);
        return LH_ERR_INVALID_ARGUMENT;
    }
    struct lh_observe *o = lh_alloc(sizeof *o);
    o->config = *config;
    int error = start(o, at, why, why_size);
    freeaddrinfo(at);
    if (error != LH_OK) {
        lh_visitors_destroy(o->visitors);
        free(o);
        return error;
    }
    *observe = o;
    return LH_OK;
}

bool lh_observe_identity(
    struct lh_tls *tls, struct MHD_Connection *connection, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct lh_tls_der certs[LH_TLS_CHAIN_MAX];
    unsigned count = 0;

    identity[0] = '\0';
    if (tls == NULL)
        return true;
    const gnutls_datum_t *shown_certs =
        info == NULL ? NULL : gnutls_certificate_get_peers(info->tls_session, &count);
    if (shown_certs == NULL || count == 0) {
        (void)snprintf(identity, LH_LINK_IDENTITY_MAX + 1, "%s", LH_OBSERVE_NOBODY);
        return true;
    }
    for (unsigned i = 0; i < count && i < LH_TLS_CHAIN_MAX; i++)
        certs[i] = (struct lh_tls_der){shown_certs[i].data, shown_certs[i].size};
    return lh_tls_peer(tls, certs, count < LH_TLS_CHAIN_MAX ? count : LH_TLS_CHAIN_MAX, identity);
}

int lh_observe_port(const struct lh_observe *observe)
{
    return observe->port;
}

void lh_observe_stop(struct lh_observe *observe)
{
    if (observe == NULL)
        return;
    MHD_stop_daemon(observe->daemon);
    lh_visitors_destroy(observe->visitors);
    free(observe);
}
