/* The library: which masters there are, and having another one take over. */
#include "client/library/survey.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* While a successor is waited for: an answer, and between two rounds. */
#define POLL_ANSWER_MS 500u
#define POLL_PAUSE_MS  20u

/* ---- The list ---- */

static void copy_master(
    struct lh_master_info *to, const struct lh_asked *a, const struct lh_asked *acting)
{
    const Leasehold__MastersReply *m = a->reply;

    *to = (struct lh_master_info){
        .master_id = lh_strdup(m != NULL && m->master_id[0] != '\0' ? m->master_id
                               : a->listed_id != NULL               ? a->listed_id
                                                                    : ""),
        .address = lh_strdup(a->address),
        .answered = m != NULL || a->error == LH_ERR_UNIMPLEMENTED,
        .acting = lh_asked_acts(a),
    };
    to->trouble = lh_strdup(to->answered ? "" : a->call.call.text);
    /* One with a store of its own says no more than that it acts. */
    to->state = lh_strdup(m != NULL && m->state[0] != '\0' ? m->state : to->acting ? "ACTIVE" : "");
    if (m == NULL)
        return;
    to->state_ms = m->state_ms;
    to->reign = m->reign;
    to->revision = m->revision;
    to->servers = m->servers;
    if (lh_asked_stands_by(a) && acting != NULL && acting->reply != NULL) {
        to->follows = true;
        if (acting->reply->revision > m->revision)
            to->behind = (uint64_t)(acting->reply->revision - m->revision);
    }
}

/* Who acts knows best; else whoever says something. */
static const char *trouble_of(const struct lh_survey *s, const struct lh_asked *acting)
{
    if (acting != NULL && acting->reply != NULL && acting->reply->store_trouble[0] != '\0')
        return acting->reply->store_trouble;
    for (size_t i = 0; i < s->count; i++)
        if (s->all[i].reply != NULL && s->all[i].reply->store_trouble[0] != '\0')
            return s->all[i].reply->store_trouble;
    return "";
}

static void describe(struct lh_master_list *list, const struct lh_survey *s)
{
    const struct lh_asked *acting = lh_survey_acting(s), *newest = acting;
    char torn[LH_CALL_TEXT_BYTES];

    *list = (struct lh_master_list){
        .masters = lh_alloc_array(s->count, sizeof *list->masters),
        .active = lh_strdup(acting == NULL ? "" : acting->address),
        .store_trouble =
            lh_strdup(lh_survey_is_torn(s, torn, sizeof torn) ? torn : trouble_of(s, acting)),
    };
    for (size_t i = 0; i < s->count; i++) {
        const struct lh_asked *a = &s->all[i];
        if (!lh_asked_is_shown_elsewhere(s, a))
            copy_master(&list->masters[list->count++], a, acting);
        if (a->reply == NULL)
            continue;
        list->shared |= a->reply->master_id[0] != '\0';
        if (a->reply->reign > list->reign)
            list->reign = a->reply->reign;
        if (a->reply->store_bytes > list->store_bytes)
            list->store_bytes = a->reply->store_bytes;
        if (newest == NULL || newest->reply == NULL ||
            (acting == NULL && a->reply->reign > newest->reply->reign))
            newest = a;
    }
    if (newest != NULL && newest->reply != NULL)
        list->reign_term_ms = newest->reply->reign_term_ms;
}

int lh_masters(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_master_list *list)
{
    struct lh_survey s;

    if (cluster == NULL || list == NULL)
        return lh_missing("cluster or list");
    int error = lh_survey_all(cluster, &s, timeout_ms);
    if (error == LH_OK) {
        describe(list, &s);
        error = lh_survey_check(&s);
    }
    lh_survey_deinit(&s);
    return error;
}

void lh_master_list_deinit(struct lh_master_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->masters[i].master_id);
        free(list->masters[i].address);
        free(list->masters[i].trouble);
        free(list->masters[i].state);
    }
    free(list->masters);
    free(list->active);
    free(list->store_trouble);
    *list = (struct lh_master_list){0};
}

/* ---- Transferring, and forgetting ---- */

static int no_such_master(const struct lh_survey *s, const char *id)
{
    char known[LH_CALL_TEXT_BYTES] = "";
    size_t n = 0;

    for (size_t i = 0; i < s->count && n < sizeof known; i++)
        if (s->all[i].reply != NULL && !lh_asked_is_shown_elsewhere(s, &s->all[i]))
            n += (size_t)snprintf(
                known + n, sizeof known - n, "%s%s", n > 0 ? ", " : "", s->all[i].reply->master_id);
    return lh_fail(LH_ERR_NOT_FOUND, "there is no master \"%s\", there are: %.300s", id, known);
}

/* Whether another one can take over, before the active one gives up its place. */
static int check_successor(const struct lh_survey *s, const struct lh_asked *acting, const char *id)
{
    bool found = false;

    for (size_t i = 0; i < s->count; i++) {
        const struct lh_asked *a = &s->all[i];
        const char *own = a->reply != NULL ? a->reply->master_id : a->listed_id;
        if (a == acting || lh_asked_is_shown_elsewhere(s, a) ||
            (id[0] != '\0' && !lh_same_id(own, id)))
            continue;
        if (lh_asked_stands_by(a))
            return LH_OK;
        if (id[0] != '\0' && a->reply == NULL)
            return lh_fail(
                LH_ERR_NOT_ENOUGH_SERVERS, "%s at %s: %s", id, a->address, a->call.call.text);
        if (id[0] != '\0')
            return lh_fail(LH_ERR_NOT_ENOUGH_SERVERS, "%s does not stand by yet: it is %s", id,
                a->reply->state);
        found = true;
    }
    if (id[0] != '\0')
        return no_such_master(s, id);
    return lh_fail(LH_ERR_NOT_ENOUGH_SERVERS,
        found ? "no other master stands by: start one, or wait until it has loaded its copy"
              : "there is no other master: start one that shares the store of this one");
}

/* Whether there is one that acts, and may be one of several. */
static int check_acting(const struct lh_survey *s, const struct lh_asked *acting, const char *what)
{
    char text[LH_CALL_TEXT_BYTES];
    int error = lh_survey_check(s);

    if (error != LH_OK)
        return error;
    if (lh_survey_is_torn(s, text, sizeof text))
        return lh_fail(LH_ERR_WRONG_IDENTITY, "%s: give only masters of one", text);
    if (acting == NULL)
        return lh_fail(LH_ERR_UNAVAILABLE, "no master acts now, so none can %s", what);
    if (acting->reply == NULL || acting->reply->master_id[0] == '\0')
        return lh_fail(LH_ERR_NOT_FOUND, "the master %s shares its store with no other one",
            acting->address);
    return LH_OK;
}

static int check_transfer(const struct lh_survey *s, const struct lh_asked *acting, const char *id)
{
    int error = check_acting(s, acting, "resign");

    if (error != LH_OK)
        return error;
    if (lh_same_id(acting->reply->master_id, id))
        return LH_OK;
    return check_successor(s, acting, id);
}

/* Its answer may be lost: then only what the others say tells whether it has resigned. */
static int ask_to_resign(
    struct lh_cluster *cluster, const char *address, const char *id, struct lh_instant deadline)
{
    Leasehold__TransferRequest request = LEASEHOLD__TRANSFER_REQUEST__INIT;

    request.successor = lh_wire_string(id);
    struct lh_server_call call = {
        .call.kind = LH_CALL_SERVER,
        .address = address,
        .method = LH_METHOD_TRANSFER,
        .request = &request.base,
        .deadline = deadline,
    };
    int error = lh_call_wait(cluster, &call.call);
    bool refused = call.reply != NULL && error != LH_OK && error != LH_ERR_NOT_ACTIVE;
    lh_free_reply(call.reply);
    lh_buf_clear(&call.payload);
    return refused ? error : LH_OK;
}

/* Asks those that have answered before again, until one acts in a later reign. */
static const struct lh_asked *wait_for_successor(
    struct lh_cluster *cluster, struct lh_survey *s, uint64_t old_reign, struct lh_instant deadline)
{
    const struct timespec pause = {.tv_nsec = POLL_PAUSE_MS * 1000000};

    do {
        for (size_t i = 0; i < s->count; i++)
            s->all[i].was_asked = !s->all[i].is_there;
        (void)lh_survey_ask(cluster, s, lh_instant_min(lh_deadline(POLL_ANSWER_MS), deadline));
        for (size_t i = 0; i < s->count; i++) {
            const struct lh_asked *a = &s->all[i];
            if (a->reply != NULL && a->reply->acting && a->reply->reign > old_reign)
                return a;
        }
        (void)nanosleep(&pause, NULL);
    } while (!lh_instant_reached(lh_clock_now(), deadline));
    return NULL;
}

static void fill_result(struct lh_transfer_result *result, const char *from, const char *to,
    uint64_t old_reign, uint64_t reign, uint64_t took_ms)
{
    if (result != NULL)
        *result = (struct lh_transfer_result){
            .from = lh_strdup(from),
            .to = lh_strdup(to),
            .old_reign = old_reign,
            .reign = reign,
            .took_ms = took_ms,
        };
}

static int transfer(struct lh_cluster *cluster, struct lh_survey *s, const struct lh_asked *acting,
    const char *id, struct lh_instant deadline, struct lh_transfer_result *result)
{
    uint64_t old_reign = acting->reply->reign;

    if (lh_same_id(acting->reply->master_id, id)) {
        fill_result(result, id, id, old_reign, old_reign, 0);
        return LH_OK;
    }
    char *from = lh_strdup(acting->reply->master_id);
    struct lh_instant begun = lh_clock_now();
    int error = ask_to_resign(cluster, acting->address, id, deadline);
    if (error == LH_OK) {
        const struct lh_asked *next = wait_for_successor(cluster, s, old_reign, deadline);
        if (next == NULL)
            error = lh_fail(LH_ERR_DEADLINE_EXCEEDED,
                "%s was asked to resign, and no other master was seen to act since: see "
                "`leasehold masters`",
                from);
        else
            fill_result(result, from, next->reply->master_id, old_reign, next->reply->reign,
                lh_duration_ms(lh_instant_until(begun, lh_clock_now())));
    }
    free(from);
    return error;
}

int lh_transfer(struct lh_cluster *cluster, const char *successor, uint64_t timeout_ms,
    struct lh_transfer_result *result)
{
    const char *id = successor == NULL ? "" : successor;
    const struct lh_asked *acting = NULL;
    struct lh_survey s;

    if (cluster == NULL)
        return lh_missing("cluster");
    struct lh_instant deadline = lh_deadline(timeout_ms);
    int error = lh_survey_all(cluster, &s, timeout_ms);
    if (error == LH_OK) {
        acting = lh_survey_acting(&s);
        error = check_transfer(&s, acting, id);
    }
    if (error == LH_OK)
        error = transfer(cluster, &s, acting, id, deadline, result);
    lh_survey_deinit(&s);
    return error;
}

void lh_transfer_result_deinit(struct lh_transfer_result *result)
{
    free(result->from);
    free(result->to);
    *result = (struct lh_transfer_result){0};
}

/* A master that runs would put its record again. */
static int check_is_gone(const struct lh_survey *s, const struct lh_asked *acting, const char *id)
{
    int error = check_acting(s, acting, "forget another one");

    for (size_t i = 0; error == LH_OK && i < s->count; i++)
        if (s->all[i].reply != NULL && lh_same_id(s->all[i].reply->master_id, id))
            error = lh_fail(LH_ERR_IN_USE, "%s runs, at %s: stop it first", id, s->all[i].address);
    return error;
}

int lh_forget_master(struct lh_cluster *cluster, const char *master_id, uint64_t timeout_ms)
{
    Leasehold__ForgetMasterRequest m = LEASEHOLD__FORGET_MASTER_REQUEST__INIT;
    Leasehold__ForgetMasterReply *reply = NULL;
    struct lh_survey s;

    if (cluster == NULL || master_id == NULL)
        return lh_missing("cluster or master_id");
    int error = lh_survey_all(cluster, &s, timeout_ms);
    if (error == LH_OK)
        error = check_is_gone(&s, lh_survey_acting(&s), master_id);
    m.master_id = lh_wire_string(master_id);
    if (error == LH_OK)
        error = lh_ask(cluster, LH_METHOD_FORGET_MASTER, &m.base, 0, timeout_ms, &reply);
    lh_free_reply(reply);
    lh_survey_deinit(&s);
    return error;
}
