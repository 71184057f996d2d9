/* One step of a master among others, and the life of its reigns. */
#include "master/reigns/internal.h"

#include "lease/term.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- From phase to phase. */

void lh_r_enter(struct lh_reigns *r, enum lh_reign_phase phase)
{
    r->phase = phase;
    r->since = r->now;
    lh_r_call_end(r, LH_R_ASK);
    lh_r_heard_clear(r);
}

static void drop_master(struct lh_reigns *r)
{
    lh_master_destroy(r->master);
    r->master = NULL;
}

void lh_r_new_copy(struct lh_reigns *r)
{
    drop_master(r);
    r->master = lh_master_create(&r->config.master);
    lh_r_move_forget(r);
}

void lh_r_learn_later(struct lh_reigns *r, struct lh_duration wait)
{
    for (int i = LH_R_READ; i <= LH_R_WRITE; i++)
        lh_r_call_end(r, (enum lh_r_purpose)i);
    lh_r_copy_clear(r);
    lh_r_mend_clear(r);
    drop_master(r);
    lh_r_enter(r, LH_REIGN_LEARNING);
    r->retry_at = lh_instant_add(r->now, wait);
}

void lh_r_anew(struct lh_reigns *r, const char *why)
{
    LH_ASSERT(r->phase != LH_REIGN_ACTING && r->phase != LH_REIGN_COPYING &&
              r->phase != LH_REIGN_RESIGNING);
    LH_MARK("copy-is-loaded-anew");
    lh_fx_log(r->fx, LH_INFO, "the copy of the store is loaded anew: %s", why);
    /* Perhaps this member is the one that lags, or is cut off from the others. */
    r->calls[LH_R_READ].tried++;
    r->calls[LH_R_WATCH].tried++;
    lh_r_learn_later(r, r->config.retry_after);
}

static void refuse_all(struct lh_reigns *r)
{
    char text[700];
    const LeaseholdStored__Head *head = r->copy.said;

    if (head != NULL && head->state == LEASEHOLD_STORED__HEAD__STATE__ACTING &&
        strcmp(head->master_id, r->config.id) != 0)
        snprintf(text, sizeof text, "the active master is %.300s", head->address);
    else if (r->out_of_use != NULL)
        snprintf(text, sizeof text, "%s", r->out_of_use);
    else
        snprintf(text, sizeof text, "no master is known to be active");
    lh_r_links_end(r, LH_ERR_NOT_ACTIVE, text);
}

void lh_r_deposed(struct lh_reigns *r, const char *why)
{
    if (r->config.task != LH_REIGN_SERVE) {
        lh_r_move_lost(r);
        return;
    }
    LH_MARK("reign-lost-to-another-master");
    r->counts.deposed++;
    lh_fx_log(r->fx, LH_WARN, "reign %" PRIu64 " is over: %s", r->copy.said->reign, why);
    if (r->phase == LH_REIGN_RESIGNING) {
        lh_r_resigned(r);
        return;
    }
    r->confirmed_until = (struct lh_instant){0};
    lh_r_gate_clear(r);
    lh_r_writer_clear(r);
    refuse_all(r);
    lh_r_learn_later(r, (struct lh_duration){0});
}

void lh_r_follows(struct lh_reigns *r)
{
    char text[512];

    if (!lh_r_head_fits(r, text, sizeof text)) {
        lh_r_unfit(r, text);
        return;
    }
    if (!lh_r_history_fits(r))
        return;
    lh_r_fit(r);
    if (r->config.task == LH_REIGN_TAKE && !lh_r_move_whole(r))
        return;
    r->counts.loaded++;
    lh_r_enter(r, LH_REIGN_STANDBY);
    lh_r_waits(r);
    lh_fx_log(r->fx, LH_INFO, "standby: the copy stands at etcd's revision %" PRId64 "%s%.300s",
        r->copy.revision, r->copy.said != NULL ? "; the last reign is of " : "",
        r->copy.said != NULL ? r->copy.said->master_id : "");
}

bool lh_r_agrees(struct lh_reigns *r)
{
    const LeaseholdStored__Settings *own = &r->settings, *its = r->copy.said->settings;

    /* What an earlier process of this one has sent may still take effect. */
    if (its == NULL || r->copy.said->state != LEASEHOLD_STORED__HEAD__STATE__ACTING ||
        strcmp(r->copy.said->master_id, r->config.id) == 0 ||
        (its->drift_ppm == own->drift_ppm && its->session_term_ns == own->session_term_ns &&
            its->chunk_term_ns == own->chunk_term_ns))
        return true;
    /* A single write may be late, and its master have been stopped (HA-1). */
    if (!r->copy.disagrees) {
        r->copy.disagrees = true;
        return true;
    }
    lh_fx_log(r->fx, LH_ERROR,
        "the active master, %.128s, runs with --max-clock-drift-ppm=%" PRIu32
        " --session-term=%" PRIu64 "ms --chunk-term=%" PRIu64 "ms, and this one with %" PRIu32
        ", %" PRIu64 "ms and %" PRIu64
        "ms: give all masters the same; to change them, stop all masters first",
        r->copy.said->master_id, its->drift_ppm,
        lh_duration_ms(lh_nanoseconds(its->session_term_ns)),
        lh_duration_ms(lh_nanoseconds(its->chunk_term_ns)), own->drift_ppm,
        lh_duration_ms(r->config.master.session_term), lh_duration_ms(r->config.master.chunk_term));
    lh_r_stop_with(r, LH_ERR_INVALID_ARGUMENT);
    return false;
}

void lh_r_begin_acting(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;
    struct lh_change *changes;
    size_t count;

    if (r->config.task != LH_REIGN_SERVE) {
        lh_r_move_begin(r);
        return;
    }
    if (!lh_r_overlay_fits(r, &changes, &count)) {
        lh_r_stop_with(r, LH_ERR_CORRUPT);
        return;
    }
    lh_fx_log(r->fx, LH_INFO, "reign %" PRIu64 " begins: this master, %s, is the active one",
        head->reign, r->config.id);
    r->counts.reigns++;
    r->upkeep.count = 0; /* the history may be another one */
    r->heard.row = 0;
    lh_r_enter(r, LH_REIGN_ACTING);
    lh_master_set_reign(r->master, head->reign, head->start, r->copy.followed);
    r->list_at = r->now; /* some may have come since it was read */
    if (head->pieces > 0)
        lh_r_large_resume(r, changes, count);
    lh_r_records_know(r);
    lh_r_status_know(r);
}

static void stopped(struct lh_reigns *r, int error)
{
    for (int i = 0; i < LH_R_PURPOSES; i++)
        lh_r_call_end(r, (enum lh_r_purpose)i);
    lh_r_gate_clear(r); /* a twin may be found by who acts, or did */
    lh_r_enter(r, LH_REIGN_STOPPED);
    lh_fx_stopped(r->fx, error);
}

void lh_r_stop_with(struct lh_reigns *r, int error)
{
    lh_r_links_end(r, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    stopped(r, error);
}

void lh_r_resigned(struct lh_reigns *r)
{
    lh_fx_log(r->fx, LH_INFO, "reign %" PRIu64 " is over: resigned", r->copy.said->reign);
    if (r->config.task == LH_REIGN_AFTER_DEATH) {
        lh_r_stop_with(r, LH_OK);
        return;
    }
    if (r->transfer != 0) {
        Leasehold__TransferReply reply = LEASEHOLD__TRANSFER_REPLY__INIT;
        reply.reign = r->copy.said->reign;
        lh_fx_reply(r->fx, r->transfer, &reply.base, NULL);
        r->transfer = 0;
    }
    if (r->stopping) {
        stopped(r, r->stop_error);
        return;
    }
    lh_r_writer_clear(r);
    lh_r_learn_later(r, (struct lh_duration){0});
    lh_r_candidate_later(r);
}

/* What is under way to the store is waited for; nothing else is taken any more. */
void lh_r_resign(struct lh_reigns *r, int error, const char *why)
{
    if (LH_PLANTED("acts-while-resigning")) {
        r->writer.resigns = true;
        return;
    }
    lh_r_enter(r, LH_REIGN_RESIGNING);
    lh_r_call_end(r, LH_R_WATCH);
    r->confirmed_until = (struct lh_instant){0};
    lh_r_gate_clear(r);
    lh_r_links_end(r, error, why);
    drop_master(r);
    r->stop_by = lh_instant_add(r->now, r->config.reign_term);
}

static void stop(struct lh_reigns *r)
{
    if (r->stopping)
        return;
    r->stopping = true;
    if (r->config.task != LH_REIGN_SERVE) {
        lh_r_move_stop(r);
    } else if (r->phase == LH_REIGN_ACTING) {
        free(r->successor); /* of an earlier transfer */
        r->successor = NULL;
        lh_r_resign(r, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    } else if (r->phase != LH_REIGN_RESIGNING) {
        lh_r_stop_with(r, LH_OK);
    }
}

/* ---- Inputs. */

/* HA-9, as an operator wishes. Whether the successor is there the caller knows better: lists of
 * masters are read now and then. */
static void transfer(struct lh_reigns *r, uint64_t link, const Leasehold__TransferRequest *request)
{
    Leasehold__TransferReply reply = LEASEHOLD__TRANSFER_REPLY__INIT;

    lh_r_link_over(r, link);
    if (!lh_r_is_confirmed(r)) {
        lh_fx_close(r->fx, link, LH_ERR_UNAVAILABLE,
            "this master does not know whether it is still the active one: etcd does not answer");
        return;
    }
    if (strcmp(request->successor, r->config.id) == 0)
        reply.error_text = "this is the active master already";
    else if (strlen(request->successor) > LH_MASTER_ID_BYTES_MAX)
        reply.error_text = "no master has so long an id";
    if (reply.error_text[0] != 0) {
        reply.error = LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT;
        lh_fx_reply(r->fx, link, &reply.base, NULL);
        return;
    }
    r->transfer = link;
    free(r->successor);
    r->successor = lh_strdup(request->successor);
    lh_r_resign(r, LH_ERR_NOT_ACTIVE, "this master is resigning");
}

/* What is answered here and not by the master's core is looked at here (ACC-3). */
static bool refused(struct lh_reigns *r, const struct lh_input *in)
{
    char text[LH_ACCESS_TEXT_MAX];

    if (lh_access_call(
            r->config.master.access, in->identity, in->method, in->message, NULL, text) == LH_OK)
        return false;
    lh_fx_close(r->fx, in->link, LH_ERR_PERMISSION, text);
    lh_r_link_over(r, in->link);
    return true;
}

static void served(struct lh_reigns *r, struct lh_input *in)
{
    bool own = in->method == LH_METHOD_TRANSFER || in->method == LH_METHOD_FORGET_MASTER ||
               in->method == LH_METHOD_MASTERS;

    if (in->kind == LH_IN_MESSAGE && own && refused(r, in))
        return;
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_TRANSFER &&
        r->phase == LH_REIGN_ACTING) {
        transfer(r, in->link, in->message);
        return;
    }
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_FORGET_MASTER &&
        r->phase == LH_REIGN_ACTING) {
        lh_r_forget(r, in->link, in->message);
        return;
    }
    if (in->kind == LH_IN_LINK_CLOSED && in->link == r->forget_link)
        r->forget_link = 0;
    if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_MASTERS) {
        lh_r_hears(r, in);
        lh_r_answer_masters(r, in->link);
        lh_r_link_over(r, in->link);
        if (lh_r_is_confirmed(r)) /* else a newer reign may have begun */
            lh_master_hears(r->master, in->message);
        return;
    }
    lh_r_gate_take(r, in);
    if (r->phase != LH_REIGN_ACTING && (in->kind == LH_IN_MESSAGE || lh_r_is_session(in->method)))
        refuse_all(r); /* who was not answered yet is asked to go elsewhere, too */
}

static void dispatch(struct lh_reigns *r, struct lh_input *in)
{
    bool opened = in->link != 0 && (in->link & LH_LINK_SERVED) == 0;
    bool own = opened && (in->link & LH_MASTER_LINK) == 0;

    switch (in->kind) {
    case LH_IN_MESSAGE:
        if (own) {
            lh_r_calls_message(r, in);
            break;
        }
        served(r, in);
        break;
    case LH_IN_LINK_CLOSED:
        if (own) {
            lh_r_calls_closed(r, in);
            break;
        }
        served(r, in);
        break;
    case LH_IN_LINK_OPENED:
    case LH_IN_HALF_CLOSED:
    case LH_IN_SENT:
        if (!own)
            served(r, in);
        break;
    case LH_IN_STOP:
        stop(r);
        break;
    case LH_IN_PERSISTED:
        if (r->phase == LH_REIGN_COPYING)
            lh_r_move_persisted(r, in->error);
        break;
    case LH_IN_TIMER:
    case LH_IN_PROGRESS:
    case LH_IN_DISK:
    case LH_IN_CALL:
        break;
    }
}

static void go_on(struct lh_reigns *r)
{
    if (r->config.task == LH_REIGN_AFTER_DEATH) {
        lh_r_death_go(r);
        return;
    }
    switch (r->phase) {
    case LH_REIGN_LEARNING:
        if (!r->prefix_seen) {
            if (!lh_r_call_is_open(r, LH_R_PREFIX))
                lh_r_prefix_ask(r);
        } else if (!lh_r_call_is_open(r, LH_R_READ) && lh_instant_reached(r->now, r->retry_at))
            lh_r_learn(r);
        break;
    case LH_REIGN_STANDBY:
        if (!lh_r_call_is_open(r, LH_R_WATCH) && lh_instant_reached(r->now, r->watch_at))
            lh_r_watch(r);
        lh_r_candidate_step(r);
        break;
    case LH_REIGN_ACTING:
        if (!lh_r_call_is_open(r, LH_R_WATCH) && lh_instant_reached(r->now, r->watch_at))
            lh_r_watch(r);
        lh_r_gate_open(r);
        lh_r_writer_go(r);
        lh_r_gate_ask(r);
        break;
    case LH_REIGN_COPYING:
        lh_r_move_go(r);
        break;
    case LH_REIGN_RESIGNING:
        lh_r_writer_go(r);
        if (lh_instant_reached(r->now, r->stop_by))
            lh_r_resigned(r);
        break;
    case LH_REIGN_LOADING:
    case LH_REIGN_CLAIMING:
    case LH_REIGN_STOPPED:
        break;
    }
}

void lh_reigns_step(struct lh_reigns *r, struct lh_input *in, struct lh_effects *fx)
{
    if (r->phase == LH_REIGN_STOPPED)
        return;
    r->now = in->now;
    r->wall_ms = in->wall_ms;
    r->fx = fx;
    dispatch(r, in);
    if (r->config.task == LH_REIGN_SERVE && r->phase != LH_REIGN_STOPPED)
        lh_r_note_cluster(r);
    if (r->phase != LH_REIGN_STOPPED) {
        lh_r_calls_step(r);
        lh_r_heard_step(r);
        lh_r_records_step(r);
        lh_r_upkeep_step(r);
        go_on(r);
    }
    r->fx = NULL;
}

struct lh_instant lh_reigns_deadline(const struct lh_reigns *r)
{
    if (r->phase == LH_REIGN_STOPPED)
        return LH_INSTANT_NEVER;
    struct lh_instant at = lh_instant_min(lh_r_calls_deadline(r),
        lh_instant_min(lh_r_records_deadline(r),
            lh_instant_min(lh_r_upkeep_deadline(r), lh_r_heard_deadline(r))));
    if (r->config.task == LH_REIGN_AFTER_DEATH)
        return lh_instant_min(lh_r_calls_deadline(r), r->stop_by);
    switch (r->phase) {
    case LH_REIGN_LEARNING:
        return lh_r_call_is_open(r, LH_R_READ) || lh_r_call_is_open(r, LH_R_PREFIX)
                   ? at
                   : lh_instant_min(at, r->retry_at);
    case LH_REIGN_STANDBY:
        if (!lh_r_call_is_open(r, LH_R_WATCH))
            at = lh_instant_min(at, r->watch_at);
        return lh_instant_min(at, lh_r_candidate_deadline(r));
    case LH_REIGN_ACTING:
        at = lh_instant_min(at, lh_r_writer_deadline(r));
        if (!lh_r_call_is_open(r, LH_R_WATCH))
            at = lh_instant_min(at, r->watch_at);
        /* Unconfirmed, the core's timers wait for an answer of etcd's. */
        if (lh_r_is_confirmed(r))
            at = lh_instant_min(at, lh_master_deadline(r->master));
        return at;
    case LH_REIGN_RESIGNING:
        return lh_instant_min(at, r->stop_by);
    case LH_REIGN_LOADING:
    case LH_REIGN_CLAIMING:
    case LH_REIGN_COPYING:
    case LH_REIGN_STOPPED:
        break;
    }
    return at;
}

static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    lh_reigns_step(self, in, fx);
}

static struct lh_instant core_deadline(const void *self)
{
    return lh_reigns_deadline(self);
}

struct lh_core lh_reigns_core(struct lh_reigns *r)
{
    return (struct lh_core){.self = r, .step = core_step, .deadline = core_deadline};
}
