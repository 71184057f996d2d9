/* Links, time and the end of a connection. */
#include "wire/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- methods ---- */

/* Numbers are never changed and never used again. */
static const enum lh_method methods[] = {
    [1] = LH_METHOD_SESSION,
    [2] = LH_METHOD_CREATE,
    [3] = LH_METHOD_STAT,
    [4] = LH_METHOD_LIST,
    [5] = LH_METHOD_RENAME,
    [6] = LH_METHOD_REMOVE,
    [7] = LH_METHOD_LOCATE,
    [8] = LH_METHOD_OPEN_TAIL,
    [9] = LH_METHOD_LIST_LEASES,
    [10] = LH_METHOD_LIST_SERVERS,
    [11] = LH_METHOD_RECALL,
    [12] = LH_METHOD_RESTORE,
    [13] = LH_METHOD_SET_SERVER,
    [14] = LH_METHOD_EXPLAIN,
    [15] = LH_METHOD_LIST_CHUNKS,
    [16] = LH_METHOD_GARBAGE,
    [17] = LH_METHOD_MASTERS,
    [18] = LH_METHOD_TRANSFER,
    [19] = LH_METHOD_FORGET_MASTER,
    [20] = LH_METHOD_LIST_EVENTS,
    [21] = LH_METHOD_LEASE_SESSION,
    [22] = LH_METHOD_GET,
    [23] = LH_METHOD_CHANGE,
    [24] = LH_METHOD_WATCH,
    [25] = LH_METHOD_CANCEL,
    [26] = LH_METHOD_LIST_NAMES,
    [27] = LH_METHOD_LIST_SESSIONS,
    [28] = LH_METHOD_SET_POLICY,
    [29] = LH_METHOD_LIST_POLICIES,
    [30] = LH_METHOD_APPEND,
    [31] = LH_METHOD_REPLICATE,
    [32] = LH_METHOD_READ,
    [33] = LH_METHOD_SETTLE,
    [34] = LH_METHOD_IDENTIFY,
};

#define METHODS (sizeof methods / sizeof *methods)

uint16_t lh_mux_method_number(enum lh_method method)
{
    for (uint16_t i = 1; i < METHODS; i++)
        if (methods[i] == method)
            return i;
    return 0;
}

enum lh_method lh_mux_method_of(uint16_t number)
{
    return number < METHODS ? methods[number] : LH_METHOD_NONE;
}

enum lh_mux_class lh_mux_class_of(enum lh_method method)
{
    switch (method) {
    case LH_METHOD_SESSION:
    case LH_METHOD_LEASE_SESSION:
    case LH_METHOD_WATCH:
    case LH_METHOD_MASTERS:
        return LH_MUX_SESSIONS;
    case LH_METHOD_READ:
    case LH_METHOD_LIST:
    case LH_METHOD_LIST_CHUNKS:
    case LH_METHOD_LIST_EVENTS:
    case LH_METHOD_LIST_LEASES:
    case LH_METHOD_LIST_NAMES:
    case LH_METHOD_LIST_SESSIONS:
        return LH_MUX_READS;
    default:
        return LH_MUX_DATA;
    }
}

/* ---- messages ---- */

void lh_mux_messages_add(struct lh_mux_messages *m, struct lh_buf bytes, bool notify)
{
    struct lh_mux_message *message = lh_realloc_array(NULL, 1, sizeof *message);

    *message = (struct lh_mux_message){.bytes = bytes, .notify = notify};
    *m->last = message;
    m->last = &message->next;
}

struct lh_buf lh_mux_messages_take(struct lh_mux_messages *m)
{
    struct lh_mux_message *message = m->first;
    struct lh_buf bytes = message->bytes;

    m->first = message->next;
    if (m->first == NULL)
        m->last = &m->first;
    free(message);
    return bytes;
}

void lh_mux_messages_clear(struct lh_mux_messages *m)
{
    while (m->first != NULL) {
        struct lh_buf bytes = lh_mux_messages_take(m);
        lh_buf_clear(&bytes);
    }
}

/* ---- a link ---- */

static void call_times_out(void *core, struct lh_timer *timer)
{
    struct lh_mux *mux = core;
    struct link *link = LH_OWNER(timer, struct link, timer);
    bool serves = mux->config.serves;
    bool request = serves && link->unary_request && !link->got_message;

    lh_mux_drop_queue(mux, link);
    if (!link->open_due) { /* the other end hears of it, too */
        link->close_due = true;
        link->close_error = LH_ERR_DEADLINE_EXCEEDED;
        link->close_text = lh_strdup(
            request ? "the request did not come in time" : "the call's deadline has passed");
        lh_mux_offer(mux, link);
    }
    lh_mux_end_link(mux, link, serves ? LH_ERR_CANCELLED : LH_ERR_DEADLINE_EXCEEDED,
        "the call's deadline has passed", true);
}

struct link *lh_mux_add_link(struct lh_mux *mux, uint32_t id, enum lh_method method)
{
    const struct lh_method_info *info = lh_method_info(method);
    struct link *link = lh_alloc(sizeof *link);

    link->base.id = id;
    link->base.method = method;
    link->unary_request = !info->request_stream;
    link->one_message = !(mux->config.serves ? info->request_stream : info->reply_stream) &&
                        !lh_wire_in_pieces(method, mux->config.serves ? LH_REQUEST : LH_REPLY);
    lh_mux_messages_init(&link->queue);
    lh_mux_messages_init(&link->inbox);
    link->credit = mux->greeted ? mux->peer.window : 0;
    link->allowed = mux->config.window;
    link->timer.fire = call_times_out;
    lh_idmap_add(&mux->links, link);
    mux->last_link = id;
    return link;
}

void lh_mux_drop_queue(struct lh_mux *mux, struct link *link)
{
    for (struct lh_mux_message *m = link->queue.first; m != NULL; m = m->next)
        mux->queued_bytes -= m->bytes.size - (m == link->queue.first ? link->sent_of_first : 0);
    link->sent_of_first = 0;
    lh_mux_messages_clear(&link->queue);
}

/* Of a message that has begun to arrive. */
static void drop_arriving(struct lh_mux *mux, struct link *link)
{
    mux->waiting_bytes -= link->arriving.size;
    lh_buf_clear(&link->arriving);
    lh_mux_end_gather(link);
    if (mux->into == link)
        mux->into = NULL;
    link->begun = false;
}

static void drop_inbox(struct lh_mux *mux, struct link *link)
{
    drop_arriving(mux, link);
    mux->waiting_bytes -= link->inbox_bytes;
    link->inbox_bytes = 0;
    lh_mux_messages_clear(&link->inbox);
}

/* Parts that are staged name it no more. */
static void forget_notifies(struct lh_mux *mux, struct link *link)
{
    for (size_t i = 0; i < mux->out_count && link->notifies_staged > 0; i++) {
        struct staged *s = &mux->out[mux->out_first + i];
        if (s->notify != link)
            continue;
        s->notify = NULL;
        link->notifies_staged--;
    }
    link->notifies_written = 0;
    sent_remove(mux, link);
}

void lh_mux_free_link(struct lh_mux *mux, struct link *link)
{
    lh_mux_drop_queue(mux, link);
    drop_inbox(mux, link);
    forget_notifies(mux, link);
    ready_remove(mux, link);
    sending_remove(mux, link);
    granting_remove(mux, link);
    lh_timer_unset(&mux->timers, &link->timer);
    waiting_remove(mux, link);
    lh_idmap_remove(&mux->links, link);
    if (link->counted)
        mux->counted--;
    free(link->close_text);
    free(link->end_text);
    free(link);
}

/* Its owner knows it no more. */
static void disown(struct lh_mux *mux, struct link *link)
{
    if (link->closed)
        return;
    link->closed = true;
    drop_inbox(mux, link);
    forget_notifies(mux, link);
    ready_remove(mux, link);
    granting_remove(mux, link);
}

/* A link that nobody here knows stays for as long as the peer is to hear of it. */
static void free_if_done(struct lh_mux *mux, struct link *link)
{
    if (link->closed && (!link->close_due || mux->broken != NULL))
        lh_mux_free_link(mux, link);
}

void lh_mux_end_link(
    struct lh_mux *mux, struct link *link, int error, const char *text, bool at_once)
{
    if (link->closed) {
        link->close_due = false;
        lh_mux_free_link(mux, link);
        return;
    }
    if (link->end_due && !at_once)
        return;
    link->at_once = at_once;
    if (at_once) {
        drop_arriving(mux, link);
        forget_notifies(mux, link);
    }
    if (!link->close_due) {
        lh_mux_drop_queue(mux, link);
        sending_remove(mux, link);
        waiting_remove(mux, link);
    }
    lh_timer_unset(&mux->timers, &link->timer);
    if (link->opened_due) { /* and nobody knows that it began */
        link->opened_due = false;
        disown(mux, link);
        free_if_done(mux, link);
        return;
    }
    link->end_due = true;
    link->end_error = error;
    free(link->end_text);
    link->end_text = text == NULL || *text == '\0' ? NULL : lh_strdup(text);
    ready_add(mux, link);
}

struct lh_mux_link *lh_mux_open(struct lh_mux *mux, enum lh_method method,
    struct lh_duration timeout, void *owner, struct lh_instant now)
{
    LH_ASSERT(!mux->config.serves && lh_mux_may_open(mux));
    struct link *link = lh_mux_add_link(mux, mux->last_link + 1, method);

    link->base.owner = owner;
    link->open_due = true;
    lh_timer_set(&mux->timers, &link->timer, lh_instant_add(now, timeout));
    waiting_add(mux, link);
    return &link->base;
}

void lh_mux_offer(struct lh_mux *mux, struct link *link)
{
    bool close = link->close_due && link->queue.first == NULL;

    if (link->waiting.in)
        return;
    if (lh_mux_may_send(link) || close)
        sending_add(mux, link);
    else
        sending_remove(mux, link);
}

void lh_mux_put(struct lh_mux *mux, struct lh_mux_link *base, struct lh_buf bytes, bool notify)
{
    struct link *link = lh_mux_link_of(base);

    if (mux->broken != NULL || link->end_due) {
        lh_buf_clear(&bytes);
        return;
    }
    mux->queued_bytes += bytes.size;
    lh_mux_messages_add(&link->queue, bytes, notify);
    lh_mux_offer(mux, link);
}

void lh_mux_read(struct lh_mux *mux, struct lh_mux_link *base)
{
    struct link *link = lh_mux_link_of(base);

    link->wanted = true;
    if (link->inbox.first != NULL)
        ready_add(mux, link);
}

void lh_mux_close(struct lh_mux *mux, struct lh_mux_link *base, int error, const char *text)
{
    struct link *link = lh_mux_link_of(base);
    bool unheard = link->end_due || link->open_due || mux->broken != NULL;

    disown(mux, link);
    link->closed_at = mux->now;
    if (!mux->config.serves)
        lh_mux_drop_queue(mux, link);
    if (link->close_due) /* its time was over */
        unheard = false;
    if (unheard) {
        link->close_due = false;
        lh_mux_free_link(mux, link);
        return;
    }
    lh_timer_unset(&mux->timers, &link->timer);
    if (!link->close_due) {
        link->close_due = true;
        link->close_error = error;
        link->close_text = text == NULL ? NULL : lh_strdup(text);
    }
    lh_mux_offer(mux, link);
}

unsigned lh_mux_drop_untaken(struct lh_mux *mux, struct lh_instant since)
{
    unsigned dropped = 0;

    for (struct link *link = lh_idmap_from(&mux->links, 0); link != NULL;
         link = lh_idmap_from(&mux->links, link->base.id + 1)) {
        if (!link->closed || link->queue.first == NULL ||
            !lh_instant_before(link->closed_at, since))
            continue;
        lh_mux_drop_queue(mux, link);
        link->close_error = LH_ERR_SHORTAGE;
        free(link->close_text);
        link->close_text = lh_strdup("the reply was not taken for too long");
        lh_mux_offer(mux, link);
        dropped++;
    }
    return dropped;
}

struct lh_mux_link *lh_mux_unbegun(const struct lh_mux *mux, struct lh_instant *ends, bool *asks)
{
    struct link *link = lh_idmap_from(&mux->links, 0);

    while (link != NULL && (link->end_due || link->closed))
        link = lh_idmap_from(&mux->links, link->base.id + 1);
    if (mux->greeted || link == NULL)
        return NULL;
    *ends = lh_timer_is_set(&link->timer) ? link->timer.at : LH_INSTANT_NEVER;
    *asks = link->wanted;
    return &link->base;
}

bool lh_mux_take_back(
    struct lh_mux *mux, struct lh_mux_link *base, struct lh_buf *bytes, bool *notify)
{
    struct link *link = lh_mux_link_of(base);

    if (link->queue.first == NULL)
        return false;
    *notify = link->queue.first->notify;
    *bytes = lh_mux_messages_take(&link->queue);
    mux->queued_bytes -= bytes->size;
    return true;
}

/* ---- events ---- */

static struct lh_mux_event message_event(struct lh_mux *mux, struct link *link)
{
    struct lh_buf bytes = lh_mux_messages_take(&link->inbox);
    struct lh_mux_event event = {LH_MUX_MESSAGE, &link->base, link->base.owner, .bytes = bytes};

    link->wanted = false;
    link->inbox_bytes -= bytes.size;
    mux->waiting_bytes -= bytes.size;
    link->to_grant += (uint32_t)bytes.size + LH_MUX_MESSAGE_COST;
    if ((uint64_t)link->to_grant * 2 >= mux->config.window && !link->end_due &&
        !LH_PLANTED("credit-never-given-back"))
        granting_add(mux, link);
    return event;
}

static struct lh_mux_event closed_event(struct lh_mux *mux, struct link *link)
{
    struct lh_mux_event event = {LH_MUX_CLOSED, NULL, link->base.owner, .error = link->end_error,
        .text = link->end_text, .by_peer = link->ended_by_peer && link->wanted};

    link->end_text = NULL;
    link->end_due = false;
    disown(mux, link);
    free_if_done(mux, link);
    return event;
}

/* A message waits for an owner who does not ask. */
static bool is_held_up(struct lh_mux *mux)
{
    struct link *link = lh_idmap_from(&mux->links, 0);

    while (link != NULL && (link->inbox.first == NULL || link->wanted))
        link = lh_idmap_from(&mux->links, link->base.id + 1);
    return link != NULL;
}

struct lh_mux_event lh_mux_next(struct lh_mux *mux)
{
    struct link *link = mux->ready.first;

    if (link == NULL || (LH_PLANTED("held-link-stops-all") && is_held_up(mux)))
        return (struct lh_mux_event){0};
    ready_remove(mux, link);
    if (link->opened_due) {
        link->opened_due = false;
        return (struct lh_mux_event){.kind = LH_MUX_OPENED, .link = &link->base};
    }
    if (link->inbox.first != NULL && link->wanted) {
        struct lh_mux_event event = message_event(mux, link);
        if (link->end_due)
            ready_add(mux, link);
        return event;
    }
    if (link->end_due && (link->inbox.first == NULL || link->at_once))
        return closed_event(mux, link);
    return lh_mux_next(mux);
}

bool lh_mux_has_event(const struct lh_mux *mux)
{
    return mux->ready.first != NULL || mux->sent.first != NULL;
}

struct lh_mux_link *lh_mux_next_sent(struct lh_mux *mux)
{
    struct link *link = mux->sent.first;

    if (link == NULL)
        return NULL;
    if (--link->notifies_written == 0)
        sent_remove(mux, link);
    return &link->base;
}

/* ---- time ---- */

static void greeting_is_due(struct lh_mux *mux)
{
    if (!mux->greeted && lh_instant_reached(mux->now, mux->greet_by))
        lh_mux_break(mux, "the other end did not say in time that it speaks this protocol");
}

static void life_is_due(struct lh_mux *mux)
{
    struct lh_instant silent = lh_instant_add(mux->heard, mux->config.ping_after);

    if (mux->ping_sent.ns != UINT64_MAX) {
        if (lh_instant_reached(mux->now, lh_instant_add(mux->ping_sent, mux->config.ping_timeout)))
            lh_mux_break(mux, "the other end has not answered a ping");
    } else if (mux->greeted && lh_instant_reached(mux->now, silent)) {
        mux->ping_sent = mux->now;
        mux->ping_due = true;
    }
}

struct lh_instant lh_mux_deadline(const struct lh_mux *mux)
{
    struct lh_instant next = lh_timers_next(&mux->timers);

    if (mux->broken != NULL)
        return LH_INSTANT_NEVER;
    if (!mux->greeted)
        next = lh_instant_min(next, mux->greet_by);
    else if (mux->ping_sent.ns != UINT64_MAX)
        next = lh_instant_min(next, lh_instant_add(mux->ping_sent, mux->config.ping_timeout));
    else
        next = lh_instant_min(next, lh_instant_add(mux->heard, mux->config.ping_after));
    return next;
}

void lh_mux_tick(struct lh_mux *mux, struct lh_instant now)
{
    mux->now = now;
    if (mux->broken == NULL)
        greeting_is_due(mux);
    if (mux->broken == NULL)
        life_is_due(mux);
    lh_timers_fire(&mux->timers, mux, now);
}

/* ---- the connection ---- */

/* What has come of a message when the connection breaks. Whether it is to be delivered. */
static bool keeps_half(struct lh_mux *mux, struct link *link)
{
    if (!LH_PLANTED("half-message-delivered") || link->arriving.size == 0)
        return false;
    if (mux->into == link)
        mux->into = NULL;
    link->inbox_bytes += link->arriving.size;
    lh_mux_messages_add(&link->inbox, lh_buf_take(&link->arriving), false);
    return true;
}

struct lh_mux *lh_mux_create(const struct lh_mux_config *config, struct lh_instant now)
{
    LH_ASSERT(config->window > 0 && config->frame_bytes >= LH_FRAME_MORE_BYTES_MIN &&
              config->frame_bytes <= LH_FRAME_BODY_BYTES_MAX);
    struct lh_mux *mux = lh_alloc(sizeof *mux);

    mux->config = *config;
    mux->hello_due = true;
    mux->ping_sent = LH_INSTANT_NEVER;
    lh_mux_begin(mux, now);
    return mux;
}

void lh_mux_begin(struct lh_mux *mux, struct lh_instant now)
{
    mux->now = mux->heard = mux->second = now;
    mux->greet_by = lh_instant_add(now, mux->config.hello_timeout);
}

void lh_mux_destroy(struct lh_mux *mux)
{
    struct link *link;

    if (mux == NULL)
        return;
    while ((link = lh_idmap_from(&mux->links, 0)) != NULL)
        lh_mux_free_link(mux, link);
    for (size_t i = 0; i < mux->out_count; i++)
        lh_block_unref(mux->out[mux->out_first + i].block);
    if (mux->scratch != NULL)
        lh_block_unref(mux->scratch);
    lh_idmap_deinit(&mux->links);
    lh_timers_deinit(&mux->timers);
    free(mux->out);
    free(mux->goaway_text);
    free(mux->broken);
    free(mux);
}

bool lh_mux_may_open(const struct lh_mux *mux)
{
    return mux->broken == NULL && !mux->peer_going && !mux->going &&
           mux->last_link < UINT32_MAX / 2;
}

void lh_mux_go_away(struct lh_mux *mux, int error, const char *text)
{
    if (mux->going || mux->broken != NULL)
        return;
    mux->going = mux->goaway_due = true;
    mux->goaway_last = mux->config.serves ? mux->last_link : 0;
    mux->goaway_error = error;
    mux->goaway_text = lh_strdup(text);
}

void lh_mux_break(struct lh_mux *mux, const char *text)
{
    int error = mux->config.serves ? LH_ERR_CANCELLED : LH_ERR_UNAVAILABLE;

    if (mux->broken != NULL)
        return;
    mux->broken = lh_strdup(text);
    for (struct link *link = lh_idmap_from(&mux->links, 0); link != NULL;) {
        uint64_t id = link->base.id;
        link->close_due = false;
        if (!link->end_due)
            lh_mux_end_link(mux, link, error, text, !keeps_half(mux, link));
        link = lh_idmap_from(&mux->links, id + 1);
    }
}

void lh_mux_violated(struct lh_mux *mux, const char *what)
{
    char text[200];

    if (mux->broken != NULL)
        return;
    (void)snprintf(text, sizeof text, "the other end sent %s", what);
    lh_mux_break(mux, text);
    (void)snprintf(text, sizeof text, "this end was sent %s", what);
    free(mux->goaway_text);
    mux->goaway_text = lh_strdup(text);
    mux->goaway_error = LH_ERR_MALFORMED;
    mux->goaway_last = 0;
    mux->last_word_due = true;
}

const char *lh_mux_broken(const struct lh_mux *mux)
{
    return mux->broken;
}

bool lh_mux_awaits_life(const struct lh_mux *mux)
{
    return mux->ping_sent.ns != UINT64_MAX;
}

bool lh_mux_is_greeted(const struct lh_mux *mux)
{
    return mux->greeted;
}

size_t lh_mux_links(const struct lh_mux *mux)
{
    return mux->links.count;
}

size_t lh_mux_queued_bytes(const struct lh_mux *mux)
{
    return mux->queued_bytes;
}

size_t lh_mux_waiting_bytes(const struct lh_mux *mux)
{
    return mux->waiting_bytes;
}
