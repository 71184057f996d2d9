/* Finding the tail: the chunk that an appender is to append to, and its primary. */
#include "client/core/append/appender.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

static void no_tail_yet(
    struct lh_client_appender *a, int error, const char *text, const Leasehold__OpenTailReply *m)
{
    struct lh_duration wait = a->client->config.backoff_min;
    char said[LH_CALL_TEXT_BYTES];

    if (m != NULL)
        wait = lh_duration_max(wait,
            lh_duration_min(lh_milliseconds(m->retry_after_ms), a->client->config.backoff_max));
    if (error == LH_ERR_LEASE_HELD && m != NULL) {
        snprintf(said, sizeof said, "%s (for at most %.1f s more)", text,
            (double)m->lease_left_ms / 1000.0);
        text = said;
    }
    snprintf(a->master_said, sizeof a->master_said, "%s", text);
    lh_client_appender_broken(a, error, "finding the primary", text, wait);
}

static bool names_primary(const Leasehold__OpenTailReply *m)
{
    return m->chunk != NULL && m->chunk->chunk != 0 && m->primary != NULL &&
           m->primary->address[0] != '\0';
}

/* Does it look for a primary only to open, which it could do without (opening.c)? */
static bool opens_anyway(const struct lh_client_appender *a)
{
    return a->opening != NULL && a->writer.token == 0;
}

static void tail_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    const Leasehold__OpenTailReply *m = reply;

    if (opens_anyway(a) && (error != LH_OK || !names_primary(m))) {
        lh_client_opening_without_primary(a);
        return;
    }
    if (error != LH_OK) {
        if (lh_error_advice(error) == LH_GIVE_UP)
            lh_client_appender_fail(a, error, "finding the primary", text);
        else
            no_tail_yet(a, error, text, m);
        return;
    }
    if (a->opening != NULL)
        error = lh_client_opening_learn(a, m->info, &text);
    if (error == LH_OK && a->writer.token != 0 &&
        (m->info == NULL || m->info->fence != a->writer.token)) {
        /* TOK-2: it did not even look at the token. */
        error = LH_ERR_UNIMPLEMENTED;
        text = "the master is of an older release and knows no tokens";
    }
    if (error != LH_OK) {
        lh_client_appender_fail(a, error, "finding the primary", text);
        return;
    }
    if (!names_primary(m)) {
        no_tail_yet(a, LH_ERR_NOT_LEASED, lh_error_text(LH_ERR_NOT_LEASED), m);
        return;
    }
    if (opens_anyway(a))
        lh_client_opening_done(a);
    a->failed_version = 0; /* it was told, and this is the answer */
    bool verdict = a->full && LH_PLANTED("chunk-full-is-a-verdict");
    if (m->chunk->chunk != a->tail.chunk)
        a->full = false;
    lh_client_chunk_deinit(&a->tail);
    lh_client_chunk_copy(&a->tail, m->chunk);
    free(a->address);
    a->address = lh_server_at(m->primary->server_id, m->primary->address);
    if (a->unsettled.chunk == 0 || a->unsettled.chunk == a->tail.chunk)
        lh_client_appender_join(a);
    else if (verdict || LH_PLANTED("next-chunk-without-asking"))
        lh_client_appender_settled(a);
    else if (m->settled != NULL && m->settled->sealed && m->settled->chunk == a->unsettled.chunk)
        lh_client_appender_settle(a, m->settled);
    else
        lh_client_appender_locate_unsettled(a);
}

/* For how long the master may wait for a primary: it must say why there is none before the oldest
 * record is given up, or nobody hears it. No opening without a token has to wait for one. */
static struct lh_duration patience(const struct lh_client_appender *a)
{
    const struct lh_client_config *c = &a->client->config;
    struct lh_duration wait = opens_anyway(a) ? c->new_file_wait : c->tail_wait;

    if (a->first == NULL && a->opening == NULL)
        return wait;
    struct lh_instant end =
        a->opening != NULL ? a->opening->deadline : lh_instant_add(a->first->submitted, a->give_up);
    struct lh_duration left = lh_instant_until(a->client->now, end);
    return lh_duration_min(wait, lh_nanoseconds(left.ns / 4 * 3));
}

void lh_client_appender_find_tail(struct lh_client_appender *a)
{
    struct lh_duration wait = patience(a);

    a->state = LH_APPENDER_FINDING;
    leasehold__open_tail_request__init(&a->open_tail);
    a->open_tail.path = a->path;
    a->open_tail.file = a->file;
    a->open_tail.full_chunk = a->full ? a->tail.chunk : 0;
    a->open_tail.failed_version = a->failed_version;
    a->open_tail.failed_chunk = a->failed_version == 0 ? 0 : a->tail.chunk;
    a->open_tail.unsettled_chunk = a->unsettled.chunk;
    a->open_tail.wait_ms = lh_duration_ms(wait);
    a->open_tail.token = a->writer.token;
    if (a->lock_name != NULL)
        a->open_tail.lock_name = a->lock_name;
    a->ask.owner = a;
    a->ask.done = tail_found;
    lh_client_ask(
        a->client, &a->ask, LH_METHOD_OPEN_TAIL, &a->open_tail.base, wait, LH_INSTANT_NEVER);
}
