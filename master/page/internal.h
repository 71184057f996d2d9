/* What the files of this folder know of each other. */
#pragma once

#include "master/page/json.h"
#include "master/page/page.h"
#include "master/page/uri.h"
#include "runtime/questions.h"
#include "runtime/visitors.h"

#include <microhttpd.h>
#include <pthread.h>
#include <sys/queue.h>

/* ---- What is embedded (assets.c is made by the build). */

struct lh_asset {
    const char *path, *type;
    const unsigned char *bytes;
    size_t size;
};
extern const struct lh_asset lh_page_assets[];
extern const size_t lh_page_asset_count;

/* ---- One request, from its first line to the end of its answer. */

enum lh_visit_state { LH_VISIT_NEW, LH_VISIT_ASKED, LH_VISIT_ANSWERED };

struct lh_ask;
struct lh_frame;

struct lh_visit {
    struct lh_page *page;
    struct lh_uri uri;
    bool malformed;
    struct MHD_Connection *connection;
    enum lh_visit_state state;
    struct lh_ask *ask; /* ASKED, ANSWERED */

    /* Of a viewer, which follows /api/live. */
    bool views, suspended;
    bool cut; /* its connection was ended from here */
    struct lh_visitor_address address;
    uint64_t sent_ns;       /* when it was sent something that it had not been sent before */
    struct lh_frame *frame; /* that it is being sent; NULL: it waits for the next one */
    size_t sent;
    uint64_t seen; /* number of the last frame that it got */
    TAILQ_ENTRY(lh_visit) link;
};

/* Of a call in flight. It outlives its visit where the server stops first. */
struct lh_ask {
    struct lh_question question;
    ProtobufCMessage *request;
    char identity[LH_LINK_IDENTITY_MAX + 1];
    struct lh_visit *visit; /* NULL: nobody waits any more */
    int error;
    LIST_ENTRY(lh_ask) link;
};

/* What all viewers get of one moment. */
struct lh_frame {
    unsigned references; /* under the page's lock */
    uint64_t number;
    struct lh_json text;
};

struct lh_page {
    struct lh_page_config config;
    struct lh_observe *observe;
    pthread_mutex_t lock; /* of all below, and of visits' fields that callbacks share */
    bool stopping;
    LIST_HEAD(, lh_ask) asks;
    size_t ask_count;

    TAILQ_HEAD(, lh_visit) viewers;
    size_t viewer_count;    /* that were not cut */
    struct lh_frame *frame; /* the newest; NULL: none yet */
    pthread_t teller;
    pthread_cond_t wake;
    bool teller_runs;
};

/* The answer's headers are the same everywhere; takes over `response`. */
enum MHD_Result lh_page_respond(struct lh_visit *v, unsigned status, const char *type,
    const char *cache, struct MHD_Response *response);
/* {"error": ..., "error_text": ...}, as replies have them. */
enum MHD_Result lh_page_refuse(struct lh_visit *v, unsigned status, int error, const char *text);

/* ---- api.c: calls. NULL method: there is no such path. */
bool lh_page_is_call(const char *path);
enum MHD_Result lh_page_call(struct lh_visit *v);
/* With the lock. */
void lh_page_ask_free(struct lh_ask *ask);

/* ---- live.c: the stream of figures. */
enum MHD_Result lh_page_view(struct lh_visit *v);
void lh_page_view_end(struct lh_visit *v);
LH_MUST_USE int lh_page_notifier_start(struct lh_page *page, char *why, size_t why_size);
/* Lets all viewers go. */
void lh_page_notifier_stop(struct lh_page *page);
