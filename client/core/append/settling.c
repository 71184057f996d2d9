/* Settling (APP-5a): whether the batches that were sent to a chunk and not acknowledged are in it,
 * asked of a replica that holds the chunk's very seal. */
#include "base/alloc.h"
#include "client/core/append/appender.h"
#include "proto/codec.h"

#include <string.h>

static void ask_settler(struct lh_client_appender *a);

void lh_client_appender_settled(struct lh_client_appender *a)
{
    a->settle_rounds = 0;
    lh_client_chunk_deinit(&a->unsettled);
    for (struct lh_submit_call *b = a->first; b != NULL; b = b->next)
        b->sent = false;
    if (a->first == NULL)
        a->state = LH_APPENDER_IDLE;
    else
        lh_client_appender_join(a);
}

static const Leasehold__Stored *find_stored(
    const Leasehold__SettleReply *m, const struct lh_submit_call *b)
{
    for (size_t i = 0; i < m->n_last; i++)
        if (m->last[i]->sequence == b->sequence && m->last[i]->count == b->count)
            return m->last[i];
    return NULL;
}

static void settler_answered(
    void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_appender *a = LH_OWNER(link, struct lh_client_appender, settle);
    const Leasehold__SettleReply *m = message;
    const char *text;
    int error = lh_client_reply_error(m, &text);

    (void)core;
    (void)payload;
    if (error != LH_OK) {
        lh_client_appender_say(a, error, a->unsettled.members[a->settler - 1].address, text);
        ask_settler(a);
        return;
    }
    lh_timer_unset(&a->client->timers, &a->timer);
    while (
        m->known && a->first != NULL && a->first->sent && a->first->sequence <= m->last_sequence) {
        const Leasehold__Stored *s = find_stored(m, a->first);
        if (s == NULL) {
            lh_client_appender_fail(a, LH_ERR_OUT_OF_SEQUENCE, "settling",
                "the sealed chunk knows other records under these numbers");
            return;
        }
        lh_client_appender_acknowledge(a, a->unsettled.start + s->offset);
    }
    if (a->first != NULL && a->first->sent)
        LH_MARK("batch-settled-as-missing");
    lh_client_appender_settled(a);
}

static void settler_closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_appender *a = LH_OWNER(link, struct lh_client_appender, settle);

    (void)core;
    lh_client_appender_say(a, error == LH_OK ? LH_ERR_UNAVAILABLE : error,
        a->unsettled.members[a->settler - 1].address, text);
    ask_settler(a);
}

static const struct lh_link_user settle_links = {
    .message = settler_answered, .closed = settler_closed};

/* A server that hangs must not hold the writer up while another one could answer. But it may be
 * slow because it reads a whole log back: so the time grows. */
static struct lh_duration settle_patience(const struct lh_client_appender *a)
{
    const struct lh_client_config *config = &a->client->config;
    unsigned doublings = a->settle_rounds < 10 ? a->settle_rounds : 10;

    return lh_duration_min(config->try_timeout, lh_nanoseconds(config->settle_try.ns << doublings));
}

static void ask_settler(struct lh_client_appender *a)
{
    struct lh_client_host *c = a->client;
    struct lh_duration timeout = settle_patience(a);
    Leasehold__SettleRequest m = LEASEHOLD__SETTLE_REQUEST__INIT;

    while (a->settler < a->unsettled.member_count &&
           a->unsettled.members[a->settler].address[0] == '\0')
        a->settler++;
    if (a->settler == a->unsettled.member_count) {
        a->settle_rounds++;
        lh_client_appender_broken(a, a->reason == LH_OK ? LH_ERR_UNAVAILABLE : a->reason,
            "settling", "no replica of the sealed chunk answers yet", c->config.backoff_min);
        return;
    }
    a->state = LH_APPENDER_SETTLING;
    a->settle.user = &settle_links;
    lh_link_open(&c->links, c->fx, &a->settle, LH_METHOD_SETTLE,
        a->unsettled.members[a->settler++].address, timeout);
    m.chunk = a->unsettled.chunk;
    m.version = a->unsettled.version;
    m.writer = a->writer.id;
    m.capability = a->unsettled.capability;
    m.cluster = lh_client_active_cluster(c);
    lh_fx_send(c->fx, a->settle.id, &m.base, NULL);
    lh_timer_set(&c->timers, &a->timer, lh_instant_add(c->now, timeout));
}

/* The server that was found silent goes to the end of those that are asked. */
static void silent_settler_last(struct lh_client_appender *a)
{
    struct lh_client_chunk *chunk = &a->unsettled;

    for (size_t i = 0; a->silent != NULL && i < chunk->member_count; i++) {
        struct lh_client_member m = chunk->members[i];
        if (strcmp(m.address, a->silent) != 0)
            continue;
        memmove(
            chunk->members + i, chunk->members + i + 1, (chunk->member_count - i - 1) * sizeof m);
        chunk->members[chunk->member_count - 1] = m;
        return;
    }
}

void lh_client_appender_settle(struct lh_client_appender *a, const Leasehold__ChunkInfo *info)
{
    lh_client_chunk_deinit(&a->unsettled);
    lh_client_chunk_copy(&a->unsettled, info);
    silent_settler_last(a);
    a->settler = 0;
    ask_settler(a);
}

static void unsettled_located(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    const Leasehold__LocateReply *m = reply;

    if (error != LH_OK) {
        if (lh_error_advice(error) == LH_GIVE_UP)
            lh_client_appender_fail(a, error, "locating a chunk", text);
        else
            lh_client_appender_broken(
                a, error, "locating a chunk", text, a->client->config.backoff_min);
        return;
    }
    const Leasehold__ChunkInfo *info = m->n_chunks > 0 ? m->chunks[0] : NULL;
    if (info != NULL && info->chunk == a->unsettled.chunk && info->unbacked) {
        LH_MARK("unsettled-unbacked");
        lh_client_appender_broken(a, LH_ERR_UNAVAILABLE, "settling",
            "what is sealed there is on too few disks yet, and is being copied",
            a->client->config.backoff_min);
    } else if (info != NULL && info->chunk == a->unsettled.chunk && info->sealed) {
        LH_MARK("unsettled-located");
        lh_client_appender_settle(a, info);
    } else if (info != NULL && info->chunk != a->unsettled.chunk &&
               info->start == a->unsettled.start) {
        /* Another chunk begins at the same byte: the unsettled one is sealed and empty. */
        lh_client_appender_settled(a);
    } else {
        lh_client_appender_broken(a, LH_ERR_UNAVAILABLE, "locating a chunk",
            "the sealed chunk is not listed yet", a->client->config.backoff_min);
    }
}

void lh_client_appender_locate_unsettled(struct lh_client_appender *a)
{
    a->state = LH_APPENDER_LOCATING;
    leasehold__locate_request__init(&a->locate);
    a->locate.path = a->path;
    a->locate.file = a->file;
    a->locate.offset = a->unsettled.start;
    a->locate.limit = 1;
    a->ask.owner = a;
    a->ask.done = unsettled_located;
    lh_client_ask(
        a->client, &a->ask, LH_METHOD_LOCATE, &a->locate.base, lh_nanoseconds(0), LH_INSTANT_NEVER);
}

void lh_client_appender_settle_timer(struct lh_client_appender *a)
{
    lh_client_link_close(a->client, &a->settle);
    settler_closed(a->client, &a->settle, LH_ERR_UNAVAILABLE, "no answer");
}
