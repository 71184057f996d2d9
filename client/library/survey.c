/* The library: asking each master for itself, while all other calls go to the active one alone. */
#include "client/library/survey.h"

#include "base/alloc.h"
#include "finder/finder.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A master that is asked by its address answers at once, or not at all. */
#define ANSWER_MS 2000u

static void add(struct lh_survey *s, const char *address, const char *id)
{
    char why[256];
    size_t i = 0;

    while (i < s->count && strcmp(s->all[i].address, address) != 0)
        i++;
    if (i == s->count) {
        if (i == LH_SURVEY_MAX || lh_masters_check(&address, 1, why, sizeof why) != LH_OK)
            return;
        s->all[s->count++] = (struct lh_asked){.address = lh_strdup(address)};
    }
    if (id != NULL && s->all[i].listed_id == NULL)
        s->all[i].listed_id = lh_strdup(id);
}

static void forget_answer(struct lh_asked *a)
{
    lh_free_reply(a->call.reply);
    lh_buf_clear(&a->call.payload);
    a->call.reply = NULL;
    a->reply = NULL;
}

void lh_survey_deinit(struct lh_survey *s)
{
    for (size_t i = 0; i < s->count; i++) {
        forget_answer(&s->all[i]);
        free(s->all[i].address);
        free(s->all[i].listed_id);
    }
}

/* Asks all that were not asked yet at once. False: there were none. */
bool lh_survey_ask(struct lh_cluster *cluster, struct lh_survey *s, struct lh_instant deadline)
{
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;
    struct lh_call *calls[LH_SURVEY_MAX];
    size_t places[LH_SURVEY_MAX], count = 0;
    int errors[LH_SURVEY_MAX];

    for (size_t i = 0; i < s->count; i++) {
        struct lh_asked *a = &s->all[i];
        if (a->was_asked)
            continue;
        forget_answer(a);
        a->was_asked = true;
        a->call = (struct lh_server_call){
            .call.kind = LH_CALL_SERVER,
            .address = a->address,
            .method = LH_METHOD_MASTERS,
            .request = &request.base,
            .deadline = deadline,
        };
        places[count] = i;
        calls[count++] = &a->call.call;
    }
    if (count == 0)
        return false;
    lh_calls_wait(cluster, calls, errors, count);
    for (size_t i = 0; i < count; i++) {
        struct lh_asked *a = &s->all[places[i]];
        a->error = errors[i];
        if (a->error == LH_OK)
            a->reply = (const Leasehold__MastersReply *)a->call.reply;
        a->is_there |= a->error == LH_OK;
    }
    return true;
}

static void learn(struct lh_survey *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const Leasehold__MastersReply *m = s->all[i].reply;
        if (m == NULL)
            continue;
        for (size_t k = 0; k < m->n_masters; k++)
            add(s, m->masters[k]->address, m->masters[k]->master_id);
        add(s, m->active, NULL);
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int lh_survey_all(struct lh_cluster *cluster, struct lh_survey *s, uint64_t timeout_ms)
{
    struct lh_known_masters_call known = {.call.kind = LH_CALL_KNOWN_MASTERS};
    struct lh_instant deadline = lh_deadline(least(timeout_ms, ANSWER_MS));
    int error = lh_call_wait(cluster, &known.call);

    *s = (struct lh_survey){0};
    for (size_t i = 0; i < known.count; i++) {
        add(s, known.addresses[i], NULL);
        free(known.addresses[i]);
    }
    while (error == LH_OK && lh_survey_ask(cluster, s, deadline)) {
        learn(s);
        deadline = lh_deadline(least(timeout_ms, ANSWER_MS));
    }
    return error;
}

/* UNIMPLEMENTED is the answer of a master from before there were several. */
bool lh_asked_acts(const struct lh_asked *a)
{
    return a->reply != NULL ? a->reply->acting : a->error == LH_ERR_UNIMPLEMENTED;
}

bool lh_asked_stands_by(const struct lh_asked *a)
{
    return a->reply != NULL && strcmp(a->reply->state, "STANDBY") == 0;
}

bool lh_same_id(const char *a, const char *b)
{
    return a != NULL && b != NULL && a[0] != '\0' && strcmp(a, b) == 0;
}

/* Whether `b` shows what `a` is: the same process by another of its addresses, or where a silent
 * one has moved to. */
static bool is_shown_by(const struct lh_asked *a, const struct lh_asked *b)
{
    if (a == b || b->reply == NULL)
        return false;
    if (a->reply == NULL)
        return lh_same_id(a->listed_id, b->reply->master_id) && b->listed_id != NULL;
    if (a->reply->process == 0 || a->reply->process != b->reply->process)
        return false;
    if ((a->listed_id != NULL) != (b->listed_id != NULL))
        return b->listed_id != NULL;
    return b < a;
}

bool lh_asked_is_shown_elsewhere(const struct lh_survey *s, const struct lh_asked *a)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_shown_by(a, &s->all[i]))
            return true;
    return false;
}

/* NULL: nobody acts. */
const struct lh_asked *lh_survey_acting(const struct lh_survey *s)
{
    const struct lh_asked *found = NULL;

    for (size_t i = 0; i < s->count; i++) {
        const struct lh_asked *a = &s->all[i];
        if (!lh_asked_acts(a) || lh_asked_is_shown_elsewhere(s, a))
            continue;
        if (found == NULL ||
            (a->reply != NULL && (found->reply == NULL || a->reply->reign > found->reply->reign)))
            found = a;
    }
    return found;
}

bool lh_survey_is_torn(const struct lh_survey *s, char *text, size_t text_size)
{
    const struct lh_asked *one = NULL;

    for (size_t i = 0; i < s->count; i++) {
        const struct lh_asked *a = &s->all[i];
        if (a->reply == NULL || a->reply->cluster_id[0] == '\0')
            continue;
        if (one == NULL)
            one = a;
        else if (strcmp(one->reply->cluster_id, a->reply->cluster_id) != 0) {
            (void)snprintf(text, text_size,
                "the master at %.100s is of cluster %.64s and the one at %.100s of cluster %.64s",
                one->address, one->reply->cluster_id, a->address, a->reply->cluster_id);
            return true;
        }
    }
    return false;
}

/* What the first one said that ended so; NULL: none has. */
static const char *said_with(const struct lh_survey *s, int error)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].error == error && s->all[i].call.call.text[0] != '\0')
            return s->all[i].call.call.text;
    return NULL;
}

int lh_survey_check(const struct lh_survey *s)
{
    char text[LH_CALL_TEXT_BYTES] = "no master answers:";
    size_t n = strlen(text);

    for (size_t i = 0; i < s->count; i++) {
        if (s->all[i].reply != NULL || s->all[i].error == LH_ERR_UNIMPLEMENTED)
            return LH_OK;
        if (n < sizeof text)
            n += (size_t)snprintf(
                text + n, sizeof text - n, "%s %s", i > 0 ? "," : "", s->all[i].address);
    }
    const char *refused = said_with(s, LH_ERR_PERMISSION), *reason = lh_survey_reason(s);
    if (refused != NULL)
        return lh_fail(LH_ERR_PERMISSION, "%s", refused);
    return lh_fail(LH_ERR_UNAVAILABLE, "%s%s%s", text, reason != NULL ? ": " : "",
        reason != NULL ? reason : "");
}

/* A master that refuses this side is there: that is what is wrong, not who is away. */
const char *lh_survey_reason(const struct lh_survey *s)
{
    const char *refused = said_with(s, LH_ERR_PERMISSION);

    return refused != NULL ? refused : said_with(s, LH_ERR_UNAVAILABLE);
}
