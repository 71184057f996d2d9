/* The opening of an appender. Without a token it is open when its file is known to exist. With one
 * it is open when it is admitted (TOK-2): a primary has recovered at a version that was granted
 * under its token, and has opened its lane. Until then it looks for that primary like an appender
 * that has something to send.
 *
 * A file that this client has just created will have its first record: its appender looks for the
 * primary at once, instead of asking first whether the file exists. The answer says so, too. Should
 * there be no primary, it asks after all. */
#include "client/core/append/appender.h"

#include "base/alloc.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_client_opening_failed(
    struct lh_client_appender *a, int error, const char *what, const char *text)
{
    struct lh_appender_open_call *call = a->opening;

    lh_client_appender_cancel(a);
    a->opening = NULL;
    lh_client_appender_say(a, error, what, text);
    lh_client_complete(a->client, &call->call, error, a->text);
    lh_client_appender_free(a);
}

void lh_client_opening_late(struct lh_client_appender *a)
{
    bool asking = a->ask.active && a->ask.reason != LH_OK;
    int reason = asking ? a->ask.reason : a->reason;
    char text[LH_CALL_TEXT_BYTES] = "";

    if (reason != LH_OK)
        snprintf(text, sizeof text, "%.400s", asking ? a->ask.text : a->text);
    lh_client_opening_failed(
        a, reason == LH_OK ? LH_ERR_DEADLINE_EXCEEDED : reason, "opening", text);
}

void lh_client_opening_done(struct lh_client_appender *a)
{
    struct lh_appender_open_call *call = a->opening;

    a->opening = NULL;
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    call->appender = a;
    call->writer = a->writer.id;
    lh_client_complete(a->client, &call->call, LH_OK, NULL);
}

static void is_file(struct lh_client_appender *a, uint64_t file, uint64_t chunk_size)
{
    a->file = a->opening->file = file;
    a->opening->chunk_size = chunk_size;
}

int lh_client_opening_learn(
    struct lh_client_appender *a, const Leasehold__FileInfo *info, const char **text)
{
    if (info == NULL || info->chunk_size < LH_CHUNK_BYTES_MIN ||
        info->chunk_size > LH_CHUNK_BYTES_MAX) {
        *text = "the master's description of the file makes no sense";
        return LH_ERR_MALFORMED;
    }
    is_file(a, info->file, info->chunk_size);
    return LH_OK;
}

static void file_found(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_appender *a = owner;
    const Leasehold__StatReply *m = reply;

    if (error == LH_OK)
        error = lh_client_opening_learn(a, m->info, &text);
    if (error != LH_OK) {
        lh_client_opening_failed(a, error, "opening", text);
        return;
    }
    a->state = LH_APPENDER_IDLE;
    lh_client_opening_done(a);
}

/* Asks whether the file exists. */
static void ask_for_file(struct lh_client_appender *a)
{
    a->state = LH_APPENDER_STARTING;
    leasehold__stat_request__init(&a->stat);
    a->stat.path = a->path;
    a->ask.owner = a;
    a->ask.done = file_found;
    lh_client_ask(
        a->client, &a->ask, LH_METHOD_STAT, &a->stat.base, lh_nanoseconds(0), a->opening->deadline);
}

void lh_client_opening_without_primary(struct lh_client_appender *a)
{
    LH_MARK("opening-without-primary");
    lh_timer_unset(&a->client->timers, &a->give_up_timer);
    ask_for_file(a);
}

void lh_client_opening_begin(struct lh_client_appender *a, struct lh_appender_open_call *call)
{
    struct lh_client_host *c = a->client;
    struct lh_client_found found;

    a->opening = call;
    call->from_cache = false;
    if (call->token != 0) {
        a->writer.token = call->token;
        a->lock_name = lh_strdup(call->lock_name);
        lh_timer_set(&c->timers, &a->give_up_timer, call->deadline);
        lh_client_appender_find_tail(a); /* the answer describes the file, too */
        return;
    }
    call->from_cache = lh_client_lookup(a->appenders->names, call->path, &found);
    if (call->from_cache) {
        is_file(a, found.file, found.chunk_size);
        a->state = LH_APPENDER_IDLE;
        lh_client_opening_done(a);
        return;
    }
    if (lh_client_was_created(c, call->path)) {
        LH_MARK("opening-of-a-new-file");
        lh_timer_set(&c->timers, &a->give_up_timer, call->deadline);
        lh_client_appender_find_tail(a);
    } else {
        ask_for_file(a);
    }
}
