/* What is served where, and the life of a visit. */
#include "master/page/page.h"

#include "base/alloc.h"
#include "master/page/internal.h"
#include "runtime/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nothing from elsewhere, nothing inline, and nobody shows it in a frame of theirs. */
#define POLICY                                                                                     \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "                 \
    "frame-ancestors 'none'"

enum MHD_Result lh_page_respond(struct lh_visit *v, unsigned status, const char *type,
    const char *cache, struct MHD_Response *response)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy", POLICY},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };

    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, cache);
    enum MHD_Result result = MHD_queue_response(v->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result lh_page_refuse(struct lh_visit *v, unsigned status, int error, const char *text)
{
    struct lh_json json = {0};
    const char *name = lh_error_name(error);

    lh_json_raw(&json, "{\"error\":");
    lh_json_string(&json, name, strlen(name));
    lh_json_raw(&json, ",\"error_text\":");
    lh_json_string(&json, text, strlen(text));
    lh_json_raw(&json, "}\n");
    struct MHD_Response *response =
        MHD_create_response_from_buffer(json.size, json.bytes, MHD_RESPMEM_MUST_COPY);
    lh_json_deinit(&json);
    if (response != NULL && status == MHD_HTTP_SERVICE_UNAVAILABLE)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "2");
    return lh_page_respond(v, status, "application/json", "no-store", response);
}

static const struct lh_asset *asset_at(const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (size_t i = 0; i < lh_page_asset_count; i++)
        if (strcmp(lh_page_assets[i].path, path) == 0)
            return &lh_page_assets[i];
    return NULL;
}

static enum MHD_Result serve_asset(struct lh_visit *v, const struct lh_asset *asset)
{
    return lh_page_respond(v, MHD_HTTP_OK, asset->type, "no-cache",
        MHD_create_response_from_buffer(
            asset->size, (void *)(uintptr_t)asset->bytes, MHD_RESPMEM_PERSISTENT));
}

/* ---- What the server calls (runtime/observe.h). */

static void *begin(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct lh_visit *v = lh_alloc(sizeof *v);

    v->page = arg;
    v->connection = connection;
    v->malformed = !lh_uri_parse(&v->uri, uri);
    return v;
}

static const char *header(const struct lh_visit *v, const char *name)
{
    const char *value = MHD_lookup_connection_value(v->connection, MHD_HEADER_KIND, name);

    return value == NULL ? "" : value;
}

/* Another site's page in this visitor's browser may not ask, and cannot pretend to be ours by a
 * name that it has led here. With TLS the browser itself compares the name with the certificate. */
static bool is_foreign(const struct lh_visit *v)
{
    const char *host = header(v, MHD_HTTP_HEADER_HOST);

    return (v->page->config.tls == NULL && host[0] != '\0' &&
               !lh_uri_is_host(host, v->page->config.hosts)) ||
           (strcmp(header(v, "Sec-Fetch-Site"), "cross-site") == 0 &&
               strncmp(v->uri.path, "/api/", 5) == 0);
}

static bool serve(void *arg, void *visit, int *result)
{
    struct lh_visit *v = visit;
    const struct lh_asset *asset;

    (void)arg;
    if (!v->malformed && is_foreign(v))
        *result = lh_page_refuse(v, MHD_HTTP_MISDIRECTED_REQUEST, LH_ERR_PERMISSION,
            "the page answers to addresses, to localhost and to the names of --http-host, and to "
            "no page of another site");
    else if (v->malformed)
        *result = lh_page_refuse(v, MHD_HTTP_BAD_REQUEST, LH_ERR_INVALID_ARGUMENT,
            "the address cannot be read: it has a broken escape, a parameter without a value or "
            "twice, or is too long");
    else if ((asset = asset_at(v->uri.path)) != NULL)
        *result = serve_asset(v, asset);
    else if (strcmp(v->uri.path, "/api/live") == 0)
        *result = lh_page_view(v);
    else if (!lh_page_is_call(v->uri.path))
        return false;
    else if (v->state == LH_VISIT_NEW && !v->page->config.is_responsive(v->page->config.arg))
        *result = lh_page_refuse(v, MHD_HTTP_SERVICE_UNAVAILABLE, LH_ERR_UNAVAILABLE,
            "the core is busy with one step, or hangs in it");
    else
        *result = lh_page_call(v);
    return true;
}

static bool is_endless(void *arg, void *visit)
{
    (void)arg;
    return ((const struct lh_visit *)visit)->views;
}

static void end(void *arg, void *visit)
{
    struct lh_page *page = arg;
    struct lh_visit *v = visit;

    pthread_mutex_lock(&page->lock);
    if (v->views)
        lh_page_view_end(v);
    if (v->ask != NULL && v->state == LH_VISIT_ANSWERED)
        lh_page_ask_free(v->ask);
    else if (v->ask != NULL)
        v->ask->visit = NULL; /* its question still comes back */
    pthread_mutex_unlock(&page->lock);
    lh_uri_deinit(&v->uri);
    free(v);
}

/* ---- */

int lh_page_start(
    const struct lh_page_config *config, struct lh_page **out, char *why, size_t why_size)
{
    struct lh_page *page = lh_alloc(sizeof *page);
    const struct lh_observe_config observe = {
        .listen = config->listen,
        .live = config->live,
        .is_responsive = config->is_responsive,
        .metrics = config->metrics,
        .ready = config->ready,
        .tls = config->tls,
        .arg = config->arg,
        .site = {.connections_max = LH_PAGE_CONNECTIONS_MAX,
            .begin = begin,
            .serve = serve,
            .is_endless = is_endless,
            .end = end,
            .arg = page},
    };

    *out = page; /* somebody may ask, and be answered, before this returns */
    page->config = *config;
    LIST_INIT(&page->asks);
    TAILQ_INIT(&page->viewers);
    pthread_mutex_init(&page->lock, NULL);
    int error = lh_page_notifier_start(page, why, why_size);
    if (error == LH_OK)
        error = lh_observe_start(&observe, &page->observe, why, why_size);
    if (error != LH_OK) {
        lh_page_stop(page);
        lh_page_destroy(page);
        *out = NULL;
        return error;
    }
    return LH_OK;
}

int lh_page_port(const struct lh_page *page)
{
    return lh_observe_port(page->observe);
}

void lh_page_stop(struct lh_page *page)
{
    struct lh_ask *ask;

    if (page == NULL)
        return;
    pthread_mutex_lock(&page->lock);
    page->stopping = true;
    LIST_FOREACH(ask, &page->asks, link)
    if (ask->visit != NULL && ask->visit->state == LH_VISIT_ASKED) {
        /* The visit goes on without its answer: the server ends no connection that waits. */
        struct lh_visit *v = ask->visit;
        ask->visit = NULL;
        v->ask = NULL;
        v->state = LH_VISIT_ANSWERED;
        MHD_resume_connection(v->connection);
    }
    pthread_mutex_unlock(&page->lock);
    lh_page_notifier_stop(page);
    lh_observe_stop(page->observe);
    page->observe = NULL;
}

void lh_page_destroy(struct lh_page *page)
{
    struct lh_ask *ask;

    if (page == NULL)
        return;
    while ((ask = LIST_FIRST(&page->asks)) != NULL)
        lh_page_ask_free(ask);
    pthread_mutex_destroy(&page->lock);
    free(page);
}
