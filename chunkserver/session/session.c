/* The session with the master: the lease that covers all the others (SES-1 to SES-6). */
#include "chunkserver/session/session.h"

#include "base/alloc.h"
#include "chunkserver/log/reports.h"
#include "chunkserver/log/space.h"
#include "chunkserver/primary/leases.h"
#include "chunkserver/primary/recovery.h"
#include "chunkserver/primary/streams.h"
#include "chunkserver/serve/copying.h"
#include "chunkserver/session/commands.h"
#include "chunkserver/session/probe.h"
#include "chunkserver/session/registration.h"
#include "chunkserver/session/showing.h"

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
    const char *address = cs->config.masters[s->master];
    struct lh_cs_link *l =
        lh_cs_link_open(cs, &master_links, s, LH_METHOD_SESSION, address, LH_DURATION_FOREVER);

    cs->master.link = l->id;
    cs->master.state = LH_CS_SESSION_REGISTERING;
    lh_cs_registration_begin(s);
    lh_cs_probe(s);
}

/* The way to the master is gone. The leases are not: they run by the clock (SES-4). */
static void session_down(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    cs->master.link = 0;
    cs->master.state = LH_CS_SESSION_DOWN;
    s->master = (s->master + 1) % cs->config.master_count;
    s->retry_at = lh_instant_add(cs->now, s->backoff);
    s->backoff = lh_duration_min(lh_nanoseconds(s->backoff.ns * 2), cs->config.reconnect_max);
}

static void session_set_timer(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    lh_timer_set(&cs->timers, &s->timer,
        cs->master.state == LH_CS_SESSION_LIVE ? s->heartbeat_at : s->retry_at);
}

/* A piece of the registration is on its way: the next one. */
static void sent(struct lh_cs_link *l)
{
    struct lh_cs_session *s = l->owner;

    if (s->cs->master.state != LH_CS_SESSION_REGISTERING)
        return;
    lh_cs_registration_go_on(s);
    session_set_timer(s);
}

void lh_cs_session_start(struct lh_cs_session *s)
{
    if (s->logs->loading > 0 || s->registration.number > 0)
        return;
    lh_cs_scrub_start(&s->serving->scrub);
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
}

static void link_closed(struct lh_cs_link *gone, const char *why)
{
    struct lh_cs_session *s = gone->owner;
    struct lh_cs_host *cs = s->cs;
    struct lh_instant again = lh_instant_add(
        s->unreachable_logged, lh_milliseconds(cs->config.bounds.unreachable_again_ms));

    if (cs->master.state == LH_CS_SESSION_LIVE) {
        lh_fx_log(cs->fx, LH_WARN, "the connection to the master at %s broke",
            cs->config.masters[s->master]);
    } else if (s->unreachable_logged.ns == 0 || lh_instant_reached(cs->now, again)) {
        lh_fx_log(cs->fx, LH_WARN, "cannot reach the master at %s, trying on: %s",
            cs->config.masters[s->master], why != NULL ? why : "the connection broke");
        s->unreachable_logged = cs->now;
    }
    session_down(s);
    session_set_timer(s);
}

static void hang_up(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    lh_cs_link_close(cs, cs->master.link, LH_ERR_CANCELLED, NULL);
    session_down(s);
    session_set_timer(s);
}

static void on_registered(struct lh_cs_session *s, const Leasehold__Registered *m)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.state != LH_CS_SESSION_REGISTERING || !lh_cs_registration_answers(s, m->stamp))
        return;
    int error = lh_error_from_wire(m->error);
    if (error == LH_OK && m->master_term < cs->master.master_term)
        error = LH_ERR_STALE_MASTER;
    if (error == LH_OK && s->cluster_id[0] != '\0' && strcmp(s->cluster_id, m->cluster_id) != 0)
        error = LH_ERR_WRONG_IDENTITY;
    if (error == LH_OK && (m->session == 0 || m->term_ns == 0 || m->heartbeat_ns == 0))
        error = LH_ERR_MALFORMED;
    if (error != LH_OK) {
        lh_fx_log(cs->fx, LH_ERROR, "the master at %s refused this server: %s%s%s",
            cs->config.masters[s->master], lh_error_text(error),
            m->error_text[0] == '\0' ? "" : ": ", m->error_text);
        if (error == LH_ERR_WRONG_IDENTITY) {
            cs->stopped = true;
            lh_cs_session_close(s);
            lh_fx_stopped(cs->fx, error);
            return;
        }
        hang_up(s);
        return;
    }
    if (s->cluster_id[0] == '\0' && m->cluster_id[0] != '\0') {
        free(s->cluster_id);
        s->cluster_id = lh_strdup(m->cluster_id);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_CLUSTER_ID_KEY, strlen(LH_CLUSTER_ID_KEY), s->cluster_id,
            strlen(s->cluster_id));
    }
    if (m->master_term > cs->master.master_term) {
        char digits[24];
        int size = snprintf(digits, sizeof digits, "%" PRIu64, m->master_term);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_MASTER_TERM_KEY, strlen(LH_MASTER_TERM_KEY), digits, (size_t)size);
    }

    struct lh_instant sent_at = lh_cs_term_begins(cs, m->stamp);
    cs->master.state = LH_CS_SESSION_LIVE;
    cs->master.master_term = m->master_term;
    cs->master.stamp_sent = s->last_stamp = m->stamp;
    s->answered_at = cs->now;
    s->heartbeat = lh_nanoseconds(m->heartbeat_ns);
    s->heartbeat_at = cs->now; /* at once: it tells the master that we hear it (SES-4) */
    s->backoff = cs->config.reconnect_min;
    s->unreachable_logged = (struct lh_instant){0};
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
    struct lh_cs_primary *p, *next;
    DL_FOREACH_SAFE(s->primaries->all, p, next) {
        if (lh_holder_version(cs->holder, p->replica->chunk) != p->version) {
            LH_MARK("primary-not-continued");
            lh_cs_primary_abandon(p, LH_ERR_NOT_PRIMARY);
            continue;
        }
        if (!lh_cs_primary_may_act(p)) {
            lh_cs_primary_run_out(p);
            continue;
        }
        LH_MARK("primary-continued");
        lh_cs_primary_set_timer(p);
        if (p->state >= LH_CS_PRIMARY_OPEN)
            lh_cs_primary_report_recovered(p); /* the session before may have taken it along */
    }
    lh_fx_log(cs->fx, LH_INFO,
        "session %" PRIu64 " with the master at %s (term %" PRIu64 ") begins", m->session,
        cs->config.masters[s->master], m->master_term);
    lh_cs_seals_resend(s->primaries);
    lh_cs_losses_resend(s->primaries);
    lh_cs_report_unreported(s->logs);
    lh_cs_copying_session_begins(s->serving);
    session_set_timer(s);
}

/* ------------------------------------------------------------------------------------------------
 * Heartbeats. */

/* LEASE-4: chunks in use since the last extension was asked. An append that is still arriving is
 * use, or one that takes longer than a term could never be stored. */
static bool wants_extension(const struct lh_cs_primary *p)
{
    if (p->state == LH_CS_PRIMARY_RECALLED)
        return false;
    return p->state != LH_CS_PRIMARY_OPEN || p->queue.count > 0 || lh_cs_lanes_arrive(p) ||
           (p->appends != p->appends_extended && !LH_PLANTED("extension-not-asked"));
}

/* How far the copies have come that the master asked for (REC-4). */
static void fill_copies(struct lh_cs_session *s, Leasehold__Heartbeat *hb)
{
    const struct lh_cs_copying *c;
    size_t n = 0;

    DL_COUNT(s->serving->copies, c, n);
    if (n == 0)
        return;
    Leasehold__CopyProgress *copies = lh_alloc_array(n, sizeof *copies);
    hb->copies = lh_alloc_array(n, sizeof(void *));
    DL_FOREACH(s->serving->copies, c) {
        Leasehold__CopyProgress *progress = &copies[hb->n_copies];
        leasehold__copy_progress__init(progress);
        progress->chunk = c->replica->chunk;
        progress->length = c->replica->written;
        hb->copies[hb->n_copies++] = progress;
    }
}

static void free_copies(Leasehold__Heartbeat *hb)
{
    if (hb->n_copies > 0)
        free(hb->copies[0]);
    free(hb->copies);
}

static void heartbeat(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat hb = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__LeaseSum sum = LEASEHOLD__LEASE_SUM__INIT;
    struct lh_cs_primary *p, *next;
    size_t n = 0;

    if (!s->disk.failing && lh_cs_disk_fails(s) && !LH_PLANTED("heartbeats-from-stalled-disk")) {
        s->disk.failing = true;
        lh_fx_log(cs->fx, LH_ERROR,
            "the disk has not answered well for %" PRIu64 " ms: giving up every "
            "lease (SES-6)",
            lh_duration_ms(lh_instant_until(s->logs->disk.quiet_since, cs->now)));
        DL_FOREACH_SAFE(s->primaries->all, p, next) {
            LH_MARK("lease-given-up-for-stalled-disk");
            lh_cs_primary_abandon(p, LH_ERR_IO);
        }
    }
    lh_cs_probe(s);
    lh_cs_showing_sum(s, &sum);

    DL_COUNT(s->primaries->all, p, n);
    Leasehold__ChunkVersion *active = lh_alloc_array(n, sizeof *active);
    Leasehold__ChunkVersion **list = lh_alloc_array(n, sizeof *list);
    hb.active = list;
    DL_FOREACH(s->primaries->all, p) {
        if (!wants_extension(p))
            continue;
        Leasehold__ChunkVersion *a = &active[hb.n_active];
        leasehold__chunk_version__init(a);
        a->chunk = p->replica->chunk;
        a->version = p->version;
        a->appends = p->appends;
        p->appends_extended = p->appends;
        list[hb.n_active++] = a;
    }
    cs->counts.heartbeats++;
    hb.session = lh_cs_session_id(cs);
    hb.stamp = cs->master.stamp_sent = cs->now.ns;
    hb.last_stamp = s->last_stamp;
    hb.free_bytes = lh_cs_space_free(s->logs);
    hb.replicas = s->logs->replicas.count;
    hb.failing = s->disk.failing;
    hb.leases = &sum;
    fill_copies(s, &hb);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    m.heartbeat = &hb;
    lh_cs_send(cs, &m);
    free(active);
    free(list);
    free_copies(&hb);
    lh_cs_seals_resend(s->primaries);
    s->heartbeat_at = lh_instant_add(cs->now, s->heartbeat);
}

bool lh_cs_session_farewell(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;

    if (cs->master.state != LH_CS_SESSION_LIVE)
        return false;
    if (s->farewell == 0) {
        heartbeat(s);
        s->farewell = cs->master.stamp_sent;
    }
    return s->last_stamp < s->farewell;
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
            hang_up(s);
            return;
        }
        heartbeat(s);
    } else if (cs->master.state == LH_CS_SESSION_REGISTERING) {
        LH_MARK("registration-unanswered");
        hang_up(s);
        return;
    } else {
        session_connect(s);
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
        hang_up(s);
        return;
    }
    struct lh_instant sent_at = lh_cs_term_begins(cs, m->stamp);
    if (lh_holder_session_renew(cs->holder, m->session, sent_at, lh_nanoseconds(m->term_ns)) !=
        LH_OK)
        return;
    s->answered_at = cs->now;
    if (m->stamp > s->last_stamp)
        s->last_stamp = m->stamp;
    lh_cs_losses_reported(s->primaries, m->stamp);
    for (size_t i = 0; i < m->n_extended; i++) {
        const Leasehold__Continued *e = m->extended[i];
        int ignored = lh_holder_extend(
            cs->holder, m->session, e->chunk, e->version, sent_at, lh_nanoseconds(e->term_ns));
        (void)ignored; /* released or superseded meanwhile */
    }
    struct lh_cs_primary *p;
    DL_FOREACH(s->primaries->all, p) {
        lh_cs_primary_set_timer(p);
    }
    if (m->show_leases)
        lh_cs_showing_answer(s);
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
    else
        lh_cs_commands_message(s, m);
}

void lh_cs_session_init(
    struct lh_cs_session *s, struct lh_cs_primaries *primaries, struct lh_cs_serving *serving)
{
    s->cs = primaries->cs;
    s->logs = primaries->logs;
    s->primaries = primaries;
    s->serving = serving;
    s->cluster_id = lh_strdup(s->cs->config.cluster_id == NULL ? "" : s->cs->config.cluster_id);
    s->backoff = s->cs->config.reconnect_min;
    s->cs->master.master_term = s->cs->config.master_term;
    s->timer.fire = out_of_time;
}

void lh_cs_session_deinit(struct lh_cs_session *s)
{
    free(s->cluster_id);
}
