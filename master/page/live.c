/* What viewers follow: once a second, the master's figures and whether it does its work. One thread
 * makes a frame for all of them, and none while there is no viewer. */
#include "master/page/internal.h"

#include "base/alloc.h"
#include "runtime/thread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PREFIX "leasehold_master_"

#define SEND_BYTES 16384

/* Who has not taken a frame for so long gives way to another viewer. */
#define GIVES_WAY_NS UINT64_C(5000000000)

/* ---- Frames. */

/* Figures without labels: each line is "name value". */
static void add_figures(struct lh_json *to, const char *text)
{
    const char *between = "";

    while (text != NULL && *text != '\0') {
        const char *end = strchr(text, '\n'), *space = strchr(text, ' ');
        if (strncmp(text, PREFIX, strlen(PREFIX)) == 0 && space != NULL && end != NULL &&
            space < end && memchr(text, '{', (size_t)(space - text)) == NULL) {
            char value[32];
            size_t size = (size_t)(end - space - 1);
            size = size < sizeof value - 1 ? size : sizeof value - 1;
            memcpy(value, space + 1, size);
            value[size] = '\0';
            lh_json_raw(to, between);
            lh_json_string(to, text + strlen(PREFIX), (size_t)(space - text) - strlen(PREFIX));
            lh_json_raw(to, ":");
            lh_json_raw(to, value);
            between = ",";
        }
        text = end == NULL ? NULL : end + 1;
    }
}

static struct lh_frame *make_frame(const struct lh_page *page, uint64_t number)
{
    struct lh_frame *frame = lh_alloc(sizeof *frame);
    struct lh_metrics metrics = {0};
    char why[512] = "";
    bool ready = page->config.ready(page->config.arg, why, sizeof why);

    page->config.metrics(page->config.arg, &metrics);
    frame->references = 1;
    frame->number = number;
    lh_json_raw(&frame->text, "data: {\"ready\":");
    lh_json_raw(&frame->text, ready ? "true" : "false");
    lh_json_raw(&frame->text, ",\"why\":");
    lh_json_string(&frame->text, why, ready ? 0 : strlen(why));
    lh_json_raw(&frame->text, ",\"figures\":{");
    add_figures(&frame->text, metrics.text);
    lh_json_raw(&frame->text, "}}\n\n");
    lh_metrics_deinit(&metrics);
    return frame;
}

static void frame_unref(struct lh_frame *frame)
{
    if (frame == NULL || --frame->references > 0)
        return;
    lh_json_deinit(&frame->text);
    free(frame);
}

/* ---- Viewers. */

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int socket_of(const struct lh_visit *v)
{
    return MHD_get_connection_info(v->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* With the lock; until the server finds its connection closed it stays in the list. */
static void cut(struct lh_visit *v)
{
    v->cut = true;
    v->page->viewer_count--;
    (void)shutdown(socket_of(v), SHUT_RDWR);
    if (!v->suspended)
        return;
    v->suspended = false;
    MHD_resume_connection(v->connection);
}

/* For how long it has not taken what it was sent last: all of it was taken from who waits for the
 * next frame. */
static uint64_t behind_ns(const struct lh_visit *v, uint64_t at)
{
    return v->cut || v->suspended ? 0 : at - v->sent_ns;
}

static size_t count_beside(const struct lh_visit *v)
{
    const struct lh_visit *other;
    size_t count = 0;

    TAILQ_FOREACH(other, &v->page->viewers, link)
        count += !other->cut && lh_visitor_is_same(&other->address, &v->address);
    return count;
}

/* Whose place a new viewer can have: that of one who does not read; or, of the address with most
 * viewers, that of the one who came first, if the newcomer's has fewer even with it. */
static struct lh_visit *giving_way(const struct lh_visit *newest)
{
    uint64_t at = now_ns(), most_behind = GIVES_WAY_NS;
    size_t most = count_beside(newest) + 1;
    struct lh_visit *v, *found = NULL;

    TAILQ_FOREACH(v, &newest->page->viewers, link)
        if (behind_ns(v, at) > most_behind) {
            most_behind = behind_ns(v, at);
            found = v;
        }
    TAILQ_FOREACH(v, &newest->page->viewers, link)
        if (found == NULL && !v->cut && count_beside(v) > most) {
            most = count_beside(v);
            found = v;
        }
    return found;
}

/* Bytes that a viewer has not read are to wait here, where they are seen, and not in the kernel. */
static void know(struct lh_visit *v)
{
    const struct sockaddr *from =
        MHD_get_connection_info(v->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    int size = SEND_BYTES;

    (void)setsockopt(socket_of(v), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    v->address = lh_visitor_address(from);
}

/* The next bytes for a viewer. It always gets the newest frame when it is done with one: whoever
 * reads slowly misses some. Whoever does not take one in time is cut off. */
static ssize_t more(void *arg, uint64_t position, char *to, size_t most)
{
    struct lh_visit *v = arg;
    struct lh_page *page = v->page;
    ssize_t result = 0;

    (void)position;
    pthread_mutex_lock(&page->lock);
    if (!page->stopping && v->frame == NULL && page->frame != NULL &&
        page->frame->number > v->seen) {
        v->frame = page->frame;
        v->frame->references++;
        v->seen = v->frame->number;
        v->sent = 0;
        v->sent_ns = now_ns();
    }
    if (page->stopping || v->cut) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (v->frame == NULL) {
        v->suspended = true;
        MHD_suspend_connection(v->connection);
    } else {
        size_t left = v->frame->text.size - v->sent;
        size_t size = left < most ? left : most;
        memcpy(to, v->frame->text.bytes + v->sent, size);
        v->sent += size;
        result = (ssize_t)size;
        if (size == left) {
            frame_unref(v->frame);
            v->frame = NULL;
        }
    }
    pthread_mutex_unlock(&page->lock);
    return result;
}

enum MHD_Result lh_page_view(struct lh_visit *v)
{
    struct lh_page *page = v->page;

    if (v->uri.count != 0)
        return lh_page_refuse(
            v, MHD_HTTP_BAD_REQUEST, LH_ERR_INVALID_ARGUMENT, "there are no parameters here");
    know(v);
    pthread_mutex_lock(&page->lock);
    struct lh_visit *leaving = page->viewer_count < LH_PAGE_VIEWERS_MAX ? NULL : giving_way(v);
    if (leaving != NULL)
        cut(leaving);
    bool take = !page->stopping && page->viewer_count < LH_PAGE_VIEWERS_MAX;
    if (take) {
        v->views = true;
        v->sent_ns = now_ns();
        page->viewer_count++;
        TAILQ_INSERT_TAIL(&page->viewers, v, link);
        pthread_cond_signal(&page->wake);
    }
    pthread_mutex_unlock(&page->lock);
    if (!take)
        return lh_page_refuse(v, MHD_HTTP_SERVICE_UNAVAILABLE, LH_ERR_SHORTAGE,
            "too many viewers follow this master");
    return lh_page_respond(v, MHD_HTTP_OK, "text/event-stream", "no-store",
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, more, v, NULL));
}

void lh_page_view_end(struct lh_visit *v)
{
    TAILQ_REMOVE(&v->page->viewers, v, link);
    v->page->viewer_count -= !v->cut;
    frame_unref(v->frame);
}

/* With the lock. */
static void resume_viewers(struct lh_page *page)
{
    struct lh_visit *v;

    TAILQ_FOREACH(v, &page->viewers, link) {
        if (!v->suspended)
            continue;
        v->suspended = false;
        v->sent_ns = now_ns();
        MHD_resume_connection(v->connection);
    }
}

/* With the lock. */
static void cut_behind(struct lh_page *page)
{
    uint64_t at = now_ns();
    struct lh_visit *v;

    TAILQ_FOREACH(v, &page->viewers, link)
        if (behind_ns(v, at) > LH_PAGE_BEHIND_S * UINT64_C(1000000000))
            cut(v);
}

/* ---- The thread that makes them. */

static void wait_a_second(struct lh_page *page)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    while (!page->stopping && pthread_cond_timedwait(&page->wake, &page->lock, &until) == 0)
        ;
}

static void *teller_main(void *arg)
{
    struct lh_page *page = arg;
    uint64_t number = 0;

    pthread_mutex_lock(&page->lock);
    while (!page->stopping) {
        if (page->viewer_count == 0) {
            pthread_cond_wait(&page->wake, &page->lock);
            continue;
        }
        pthread_mutex_unlock(&page->lock);
        struct lh_frame *frame = make_frame(page, ++number);
        pthread_mutex_lock(&page->lock);
        frame_unref(page->frame);
        page->frame = frame;
        cut_behind(page);
        resume_viewers(page);
        wait_a_second(page);
    }
    pthread_mutex_unlock(&page->lock);
    return NULL;
}

int lh_page_notifier_start(struct lh_page *page, char *why, size_t why_size)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&page->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = lh_thread_start(&page->teller, teller_main, page, why, why_size);
    page->teller_runs = error == LH_OK;
    return error;
}

void lh_page_notifier_stop(struct lh_page *page)
{
    pthread_mutex_lock(&page->lock);
    resume_viewers(page); /* `stopping`: their streams end */
    pthread_cond_broadcast(&page->wake);
    pthread_mutex_unlock(&page->lock);
    if (page->teller_runs)
        pthread_join(page->teller, NULL);
    page->teller_runs = false;
    pthread_mutex_lock(&page->lock); /* the server's thread may be in more() */
    frame_unref(page->frame);
    page->frame = NULL;
    pthread_mutex_unlock(&page->lock);
    pthread_cond_destroy(&page->wake);
}
