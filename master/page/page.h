/* The page of a master (--http-listen), for people with a browser, and the same as JSON:
 *
 *   /              the page; it and what it loads are in the binary
 *   /api/NAME      one unary call of the master, as JSON (json.h); parameters are the request's
 *                  fields. Only calls that change nothing
 *   /api/live      server-sent events: figures of the master, each second
 *   /metrics, /healthz, /readyz   as --metrics-listen (runtime/observe.h)
 *
 * Only GET. What is asked of the core goes in as a question (runtime/questions.h), so the core
 * knows of calls only. Connections, viewers, questions and the bytes of an answer are bounded; a
 * viewer that does not read gets nothing new, and is cut off. */
#pragma once

#include "base/error.h"
#include "base/metrics.h"

#include <stdbool.h>
#include <stddef.h>

struct lh_loop;
struct lh_tls;
struct lh_question;
struct lh_page;

#define LH_PAGE_CONNECTIONS_MAX 128u
#define LH_PAGE_VIEWERS_MAX     32u   /* connections that follow /api/live */
#define LH_PAGE_BEHIND_S        10u   /* without having taken what it is sent, a viewer is cut */
#define LH_PAGE_QUESTIONS_MAX   32u   /* calls in flight */
#define LH_PAGE_ITEMS_MAX       1000u /* of a listing, in one answer */

struct lh_page_config {
    const char *listen;   /* host:port */
    const char *hosts;    /* names of it in browsers, beside addresses (lh_uri_is_host()) */
    struct lh_tls *tls;   /* NULL: HTTP */
    struct lh_loop *loop; /* with a core of lh_questions_core(); its completions go to
                             lh_page_completed() */
    /* As those of struct lh_observe_config. */
    bool (*live)(void *arg, char *why, size_t why_size);
    bool (*is_responsive)(void *arg);
    void (*metrics)(void *arg, struct lh_metrics *out);
    bool (*ready)(void *arg, char *why, size_t why_size);
    void *arg;
};

/* Serves from now on. Errors of lh_observe_start(). */
LH_MUST_USE int lh_page_start(
    const struct lh_page_config *config, struct lh_page **page, char *why, size_t why_size);
int lh_page_port(const struct lh_page *page);
/* The loop's `on_complete`. */
void lh_page_completed(struct lh_page *page, struct lh_question *question, int error);
/* Serves no more; the loop may still run. NULL is allowed. */
void lh_page_stop(struct lh_page *page);
/* After lh_loop_destroy(). NULL is allowed. */
void lh_page_destroy(struct lh_page *page);
