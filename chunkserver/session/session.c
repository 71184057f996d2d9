/* The session with the master: the lease that covers all the others (SES-1 to SES-6). */
#include "chunkserver/session/internal.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void message(struct lh_cs_link *l, const void *reply, struct lh_buf *payload);
static void link_closed(struct lh_cs_link *gone, const char *why);

static void sent(struct lh_cs_link *l);

static const struct lh_cs_link_user master_links = {
    .message = message, .sent = sent, .closed = link_closed};

static void session_connect(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_cs_link *l = lh_cs_link_open(
        cs, &master_links, s, LH_METHOD_SESSION, lh_cs_active_take(s), LH_DURATION_FOREVER);

    cs->master.link = l->id;
    cs->master.state = LH_CS_SESSION_REGISTERING;
    lh_cs_registration_begin(s, 0);
    lh_cs_probe(s);
}

/* The way to the master is gone. The leases are not: they run by the clock (SES-4). */
static void session_down(struct lh_cs_session *s, int error)
{
    struct lh_cs_host *cs = s->cs;

    cs->master.link = 0;
    cs->master.state = LH_CS_SESSION_DOWN;
    s->retry_at = lh_instant_add(cs->now, s->backoff);
    s->backoff = lh_duration_min(lh_nanoseconds(s->backoff.ns * 2), cs->config.reconnect_max);
    lh_cs_active_failed(s, error);
}

static void session_set_timer(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_instant at = cs->master.state == LH_CS_SESSION_LIVE ? s->heartbeat_at : s->retry_at;

    if (cs->master.state == LH_CS_SESSION_DOWN && s->active.finder.state == LH_FINDER_LOST)
        at = LH_INSTANT_NEVER; /* until a master is found */
    lh_timer_set(&cs->timers, &s->timer, at);
}

/* A piece of the registration is on its way: the next one, also in the session (SES-1a). */
static void sent(struct lh_cs_link *l)
{
    struct lh_cs_session *s = l->owner;

    lh_cs_registration_go_on(s);
    session_set_timer(s);
}

void lh_cs_session_start(struct lh_cs_session *s)
{
    if (s->logs->loading > 0 || s->started)
        return;
    s->started = true;
    lh_cs_scrub_start(s->serving);
    if (!lh_cs_active_seeks(s))
        session_connect(s);
    session_set_timer(s);
}

void lh_cs_session_close(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.link != 0)
        lh_cs_link_close(cs, cs->master.link, LH_OK, NULL);
    cs->master.link = 0;
    cs->master.state = LH_CS_SESSION_DOWN;
    lh_timer_unset(&cs->timers, &s->timer);
    lh_cs_active_stop(s);
}

/* The master was reached, and there is no session with it: it refuses this server, or this server
 * it. */
static void say_refused(struct lh_cs_session *s, const char *why)
{
    struct lh_cs_host *cs = s->cs;
    struct lh_instant again =
        lh_instant_add(s->refused_logged, lh_milliseconds(cs->config.bounds.unreachable_again_ms));

    if (s->refused_logged.ns != 0 && !lh_instant_reached(cs->now, again))
        return;
    lh_fx_log(cs->fx, LH_ERROR, "no session with the master at %s, trying on: %s",
        s->active.address, why);
    s->refused_logged = cs->now;
}

static void link_closed(struct lh_cs_link *gone, const char *why)
{
    struct lh_cs_session *s = gone->owner;
    struct lh_cs_host *cs = s->cs;
    struct lh_instant again = lh_instant_add(
        s->unreachable_logged, lh_milliseconds(cs->config.bounds.unreachable_again_ms));

    if (cs->master.state == LH_CS_SESSION_LIVE) {
        lh_fx_log(cs->fx, LH_WARN, "the connection to the master at %s broke", s->active.address);
    } else if (gone->error == LH_ERR_PERMISSION && why != NULL) {
        say_refused(s, why);
    } else if (s->unreachable_logged.ns == 0 || lh_instant_reached(cs->now, again)) {
        lh_fx_log(cs->fx, LH_WARN, "cannot reach the master at %s, trying on: %s",
            s->active.address, why != NULL ? why : "the connection broke");
        s->unreachable_logged = cs->now;
    }
    session_down(s, gone->error);
    session_set_timer(s);
}

static void hang_up(struct lh_cs_session *s, int error)
{
    struct lh_cs_host *cs = s->cs;

    lh_cs_link_close(cs, cs->master.link, LH_ERR_CANCELLED, NULL);
    session_down(s, error);
    session_set_timer(s);
}

/* Somewhere else: there at once, and what is shown there is shown as after any broken link. At the
 * same master: once the pause is over. */
void lh_cs_session_chosen(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    const char *address = lh_finder_address(&s->active.finder);
    bool elsewhere = s->active.address == NULL || strcmp(s->active.address, address) != 0;

    if (cs->master.state != LH_CS_SESSION_DOWN && !elsewhere) {
        s->active.choice = s->active.finder.choices;
        return;
    }
    if (cs->master.state == LH_CS_SESSION_LIVE)
        lh_fx_log(cs->fx, LH_WARN, "the master at %s is silent, and the one at %s acts now",
            s->active.address, address);
    if (elsewhere) {
        if (cs->master.link != 0)
            lh_cs_link_close(cs, cs->master.link, LH_ERR_CANCELLED, NULL);
        session_connect(s);
    }
    session_set_timer(s);
}

/* SES-7: whose answer counts. */
static int check_answer(
    const struct lh_cs_session *s, const Leasehold__Registered *m, char *why, size_t why_size)
{
    const struct lh_cs_host *cs = s->cs;
    int error = lh_error_from_wire(m->error);

    snprintf(why, why_size, "%s%s%.512s", lh_error_text(error),
        m->error_text[0] == '\0' ? "" : ": ", m->error_text);
    if (error != LH_OK)
        return error;
    if (cs->master.reign_name != 0 && m->reign_name_seen != cs->master.reign_name &&
        !LH_PLANTED("other-history-believed")) {
        LH_MARK("master-of-another-history");
        snprintf(why, why_size,
            "it is of another history: this server has seen reign %" PRIu64
            ", which was another one there, or none",
            cs->master.master_term);
        return LH_ERR_WRONG_IDENTITY;
    }
    if (m->master_term < cs->master.master_term) {
        snprintf(why, why_size,
            "its term is %" PRIu64 ", and a master of term %" PRIu64 " was seen", m->master_term,
            cs->master.master_term);
        return LH_ERR_STALE_MASTER;
    }
    if (lh_finder_is_far(&s->active.finder, m->master_term)) {
        LH_MARK("master-term-far-above");
        snprintf(why, why_size,
            "its term %" PRIu64 " is far above %" PRIu64 ", the highest that was seen: it is no "
            "successor of a master that this server knows",
            m->master_term, cs->master.master_term);
        return LH_ERR_STALE_MASTER;
    }
    return m->session == 0 || m->term_ns == 0 || m->heartbeat_ns == 0 ? LH_ERR_MALFORMED : LH_OK;
}

/* Another master is asked, or this one again: no answer ends a server. */
static void refused(struct lh_cs_session *s, int error, const char *why)
{
    say_refused(s, why);
    hang_up(s, error);
}

static void on_registered(struct lh_cs_session *s, const Leasehold__Registered *m)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.state != LH_CS_SESSION_REGISTERING || !lh_cs_registration_answers(s, m->stamp))
        return;
    if (!lh_cs_active_is_ours(s, m->cluster_id)) {
        hang_up(s, LH_ERR_WRONG_IDENTITY);
        return;
    }
    char why[768];
    int error = check_answer(s, m, why, sizeof why);
    /* SES-1b; once on a stream, or two processes with one data directory challenge each other for
     * ever. */
    if (error == LH_ERR_STALE_REGISTRATION && m->challenge != 0 && s->registration.challenge == 0) {
        LH_MARK("registration-challenge-answered");
        lh_cs_registration_begin(s, m->challenge);
        session_set_timer(s);
        return;
    }
    if (error != LH_OK) {
        refused(s, error, why);
        return;
    }
    if (cs->cluster.id[0] == '\0' && m->cluster_id[0] != '\0') {
        lh_cs_cluster_is(cs, m->cluster_id);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_CLUSTER_ID_KEY, strlen(LH_CLUSTER_ID_KEY), cs->cluster.id,
            strlen(cs->cluster.id));
    }
    if (m->master_term > cs->master.master_term || m->reign_name != cs->master.reign_name) {
        char text[48];
        int size =
            snprintf(text, sizeof text, "%" PRIu64 " %" PRIx64, m->master_term, m->reign_name);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_MASTER_TERM_KEY, strlen(LH_MASTER_TERM_KEY), text, (size_t)size);
    }

    struct lh_instant sent_at = lh_cs_term_begins(cs, m->stamp);
    lh_cs_capability_keys(cs, m->stamp, m->keys, m->n_keys);
    lh_cs_lead_key(cs, m->master_term, &m->lead_key);
    cs->master.state = LH_CS_SESSION_LIVE;
    cs->master.master_term = m->master_term;
    cs->master.reign_name = m->reign_name;
    lh_cs_active_registered(s, m);
    cs->master.stamp_sent = s->last_stamp = m->stamp;
    s->answered_at = cs->now;
    s->heartbeat = lh_nanoseconds(m->heartbeat_ns);
    s->heartbeat_at = cs->now; /* at once: it tells the master that we hear it (SES-4) */
    s->backoff = cs->config.reconnect_min;
    s->unreachable_logged = s->refused_logged = (struct lh_instant){0};
    lh_holder_session_begin(cs->holder, m->session, sent_at, lh_nanoseconds(m->term_ns));
    for (size_t i = 0; i < m->n_continued; i++) {
        const Leasehold__Continued *c = m->continued[i];
        if (lh_holder_continue(cs->holder, m->session, c->chunk, c->version, sent_at,
                lh_nanoseconds(c->term_ns)) == LH_OK)
            continue;
        LH_MARK("continued-after-its-end"); /* it was shown, and ended while nobody could be told */
        lh_cs_lease_release(s->primaries, c->chunk, c->version, false);
    }
    lh_holder_session_settle(cs->holder, NULL, NULL);
    lh_cs_primaries_continue(s->primaries);
    lh_fx_log(cs->fx, LH_INFO,
        "session %" PRIu64 " with the master at %s (term %" PRIu64 ") begins", m->session,
        s->active.address, m->master_term);
    lh_cs_seals_resend(s->primaries);
    lh_cs_losses_resend(s->primaries);
    lh_cs_report_unreported(s->logs);
    lh_cs_copying_session_begins(s->serving);
    lh_cs_registration_answered(s, m->asks);
    session_set_timer(s);
}

/* ------------------------------------------------------------------------------------------------
 * Heartbeats. */

static void heartbeat(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat hb = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__LeaseSum sum = LEASEHOLD__LEASE_SUM__INIT;

    if (!s->disk.failing && lh_cs_disk_fails(s) && !LH_PLANTED("heartbeats-from-stalled-disk")) {
        s->disk.failing = true;
        if (lh_cs_disk_is_read_only(s))
            lh_fx_log(cs->fx, LH_ERROR,
                "the disk cannot be written: giving up every lease; what it has is served to "
                "readers (REC-8)");
        else
            lh_fx_log(cs->fx, LH_ERROR,
                "the disk has not answered well for %" PRIu64 " ms: giving up every "
                "lease (SES-6)",
                lh_duration_ms(lh_cs_disk_silence(s->logs)));
        lh_cs_primaries_abandon(s->primaries, LH_ERR_IO);
    }
    lh_cs_probe(s);
    lh_cs_showing_sum(s->primaries, &sum);
    lh_cs_showing_active(s->primaries, &hb);
    cs->counts.heartbeats++;
    hb.session = lh_cs_session_id(cs);
    hb.stamp = cs->master.stamp_sent = cs->now.ns;
    hb.last_stamp = s->last_stamp;
    hb.free_bytes = lh_cs_logs_free_bytes(s->logs);
    hb.replicas = s->logs->replicas.count;
    hb.failing = s->disk.failing;
    hb.read_only = s->disk.failing && lh_cs_disk_is_read_only(s);
    hb.leases = &sum;
    hb.batches_ordered = cs->counts.batches_ordered;
    hb.bytes_ordered = cs->counts.bytes_ordered;
    lh_cs_copying_progress(s->serving, &hb);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    m.heartbeat = &hb;
    lh_cs_send(cs, &m);
    lh_cs_showing_active_free(&hb);
    lh_cs_copying_progress_free(&hb);
    lh_cs_seals_resend(s->primaries);
    s->heartbeat_at = lh_instant_add(cs->now, s->heartbeat);
    lh_cs_active_heartbeat(s);
}

void lh_cs_session_discount_pause(struct lh_cs_session *s, struct lh_duration slept)
{
    lh_cs_host_discount_pause(s->cs, &s->answered_at, &s->discounted, slept);
}

bool lh_cs_session_is_failing(const struct lh_cs_session *s)
{
    return s->disk.failing;
}

bool lh_cs_session_is_read_only(const struct lh_cs_session *s)
{
    return s->disk.failing && lh_cs_disk_is_read_only(s);
}

bool lh_cs_session_final_heartbeat(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.state != LH_CS_SESSION_LIVE)
        return false;
    if (s->final_heartbeat == 0) {
        heartbeat(s);
        s->final_heartbeat = cs->master.stamp_sent;
    }
    return s->last_stamp < s->final_heartbeat;
}

static void out_of_time(void *core, struct lh_timer *timer)
{
    struct lh_cs_session *s = LH_OWNER(timer, struct lh_cs_session, timer);
    struct lh_cs_host *cs = core;

    if (cs->master.state == LH_CS_SESSION_LIVE) {
        /* Three unanswered heartbeats are a whole term: the way to the master is of no use. */
        struct lh_duration silent = lh_instant_until(s->answered_at, cs->now);
        if (silent.ns / 3 >= s->heartbeat.ns) {
            LH_MARK("master-does-not-answer");
            lh_fx_log(cs->fx, LH_WARN,
                "no answer from the master for %" PRIu64 " ms: registering anew",
                lh_duration_ms(silent));
            hang_up(s, LH_ERR_DEADLINE_EXCEEDED);
            return;
        }
        heartbeat(s);
    } else if (cs->master.state != LH_CS_SESSION_REGISTERING) {
        session_connect(s);
    } else if (!lh_cs_registration_presses(s)) {
        LH_MARK("registration-unanswered");
        hang_up(s, LH_ERR_DEADLINE_EXCEEDED);
        return;
    }
    session_set_timer(s);
}

static void on_heartbeat_reply(struct lh_cs_session *s, const Leasehold__HeartbeatReply *m)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.state != LH_CS_SESSION_LIVE || m->session != lh_cs_session_id(cs) ||
        m->master_term < cs->master.master_term || m->stamp > cs->master.stamp_sent)
        return;
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        LH_MARK("session-unknown-to-master");
        /* What this server holds it holds until its own clock says otherwise (TIME-4); a master
         * that restarted lets it go on in the new session (LEASE-7). */
        lh_fx_log(cs->fx, LH_WARN, "the master knows this session no more: %s; registering anew",
            lh_error_text(lh_error_from_wire(m->error)));
        hang_up(s, lh_error_from_wire(m->error));
        return;
    }
    struct lh_instant sent_at = lh_cs_term_begins(cs, m->stamp);
    if (lh_holder_session_renew(cs->holder, m->session, sent_at, lh_nanoseconds(m->term_ns)) !=
        LH_OK)
        return;
    lh_cs_capability_keys(cs, m->stamp, m->keys, m->n_keys);
    s->answered_at = cs->now;
    if (m->stamp > s->last_stamp)
        s->last_stamp = m->stamp;
    if (m->stamp == cs->master.stamp_sent)
        lh_cs_active_answered(s);
    lh_cs_losses_reported(s->primaries, m->stamp);
    for (size_t i = 0; i < m->n_extended; i++) {
        const Leasehold__Continued *e = m->extended[i];
        int ignored = lh_holder_extend(
            cs->holder, m->session, e->chunk, e->version, sent_at, lh_nanoseconds(e->term_ns));
        (void)ignored; /* released or superseded meanwhile */
    }
    lh_cs_primaries_extended(s->primaries);
    if (m->show_leases)
        lh_cs_showing_answer(s->primaries);
}

/* Somebody cannot reach this server: the master wants to know whether it lives (INV-9). */
static void on_inquiry(struct lh_cs_session *s, const Leasehold__Inquiry *m)
{
    struct lh_cs_host *cs = s->cs;

    if (!lh_cs_session_live(cs) || m->session != lh_cs_session_id(cs))
        return;
    LH_MARK("inquiry-answered");
    heartbeat(s);
    session_set_timer(s);
}

static void on_show_replicas(struct lh_cs_session *s, const Leasehold__ShowReplicas *m)
{
    if (lh_cs_session_live(s->cs) && m->session == lh_cs_session_id(s->cs))
        lh_cs_registration_asked(s);
}

static void message(struct lh_cs_link *l, const void *reply, struct lh_buf *payload)
{
    const Leasehold__SessionReply *m = reply;
    struct lh_cs_session *s = l->owner;

    (void)payload;
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED)
        on_registered(s, m->registered);
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT)
        on_heartbeat_reply(s, m->heartbeat);
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_INQUIRY)
        on_inquiry(s, m->inquiry);
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_SHOW_REPLICAS)
        on_show_replicas(s, m->show_replicas);
    else
        lh_cs_commands_message(s, m);
}

struct lh_cs_session *lh_cs_session_create(struct lh_cs_host *cs, struct lh_cs_logs *logs,
    struct lh_cs_primaries *primaries, struct lh_cs_serving *serving)
{
    struct lh_cs_session *s = lh_alloc(sizeof *s);

    s->cs = cs;
    s->logs = logs;
    s->primaries = primaries;
    s->serving = serving;
    s->backoff = s->cs->config.reconnect_min;
    s->cs->master.master_term = s->cs->config.master_term;
    s->cs->master.reign_name = s->cs->config.reign_name;
    s->timer.fire = out_of_time;
    s->disk.failing = s->disk.failed = s->disk.readable = s->cs->config.read_only;
    lh_cs_active_init(s);
    return s;
}

void lh_cs_session_destroy(struct lh_cs_session *s)
{
    lh_timer_unset(&s->cs->timers, &s->timer);
    free(s->registration.leases);
    lh_cs_active_deinit(s);
    free(s);
}
