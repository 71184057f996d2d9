/* The session with the master: the lease that covers all the others (SES-1 to SES-6). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "chunkserver/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool session_send(struct lh_chunkserver *cs, Leasehold__SessionRequest *m)
{
    if (cs->session.link == 0)
        return false;
    lh_fx_send(cs->fx, cs->session.link, &m->base, NULL);
    return true;
}

bool session_named(const struct lh_chunkserver *cs, uint64_t session, uint64_t master_term)
{
    return cs->session.state == SESSION_LIVE && session == session_id(cs) &&
           master_term >= cs->session.master_term;
}

/* ------------------------------------------------------------------------------------------------
 * Possible losses (REC-2a). */

static void tell_losses(struct lh_chunkserver *cs)
{
    struct untold_loss *l;

    if (cs->session.state != SESSION_LIVE)
        return;
    LL_FOREACH(cs->losses, l)
    {
        Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
        Leasehold__PossibleLoss loss = LEASEHOLD__POSSIBLE_LOSS__INIT;
        if (l->session == session_id(cs))
            continue;
        l->session = loss.session = session_id(cs);
        l->heartbeat = cs->session.stamp_sent;
        loss.chunk = l->chunk;
        loss.version = l->version;
        loss.length = l->length;
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS;
        m.possible_loss = &loss;
        session_send(cs, &m);
    }
}

/* The master has answered the heartbeat with this stamp: it has had what was sent before. */
static void losses_told(struct lh_chunkserver *cs, uint64_t stamp)
{
    struct untold_loss *l, *next;

    LL_FOREACH_SAFE(cs->losses, l, next)
    {
        if (l->session != session_id(cs) || stamp <= l->heartbeat)
            continue;
        LL_DELETE(cs->losses, l);
        free(l);
    }
}

void session_tell_loss(struct lh_chunkserver *cs, uint64_t chunk, uint64_t version, uint64_t length)
{
    struct untold_loss *l = lh_alloc(sizeof *l);

    *l = (struct untold_loss){.chunk = chunk, .version = version, .length = length};
    LL_APPEND(cs->losses, l);
    tell_losses(cs);
}

/* ------------------------------------------------------------------------------------------------
 * Does the disk answer? */

#define PROBE_BYTES 8u /* they keep their room when the disk is full */

static void probe_write(struct lh_chunkserver *cs)
{
    uint8_t stamp[PROBE_BYTES];

    memcpy(stamp, &cs->now.ns, sizeof stamp);
    struct lh_buf bytes = lh_buf_copy(stamp, sizeof stamp);
    disk(cs, TICKET_PROBE, NULL, NULL, LH_DISK_WRITE, 0, 0, &bytes);
}

/* SES-6: a small write and a sync, begun with each registration and each heartbeat unless one is
 * still under way. A disk that begins to hang while there is no session is known when the next one
 * begins. */
static void probe(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;

    if (s->probing)
        return;
    s->probing = true;
    if (s->probe_created)
        probe_write(cs);
    else
        disk(cs, TICKET_PROBE, NULL, NULL, LH_DISK_CREATE, 0, PROBE_BYTES, NULL);
}

/* What is under way tells as much as a probe, and earlier. */
static bool disk_fails(const struct lh_chunkserver *cs)
{
    const struct session *s = &cs->session;
    struct lh_duration limit = lh_duration_max(s->heartbeat, cs->config.disk_stall);

    return s->probe_failed || disk_stands_still(cs, limit);
}

void session_probe_done(struct lh_chunkserver *cs, enum lh_disk_op op, int error)
{
    struct session *s = &cs->session;

    if (op == LH_DISK_CREATE && (error == LH_OK || error == LH_ERR_ALREADY_EXISTS)) {
        s->probe_created = true;
        probe_write(cs);
        return;
    }
    /* A full disk answers: chunks that have their space go on. */
    if (error != LH_OK && error != LH_ERR_DISK_FULL) {
        if (!s->failing)
            lh_fx_log(cs->fx, LH_ERROR, "the disk fails: %s", lh_error_text(error));
        s->probing = false; /* the next heartbeat reports it and tries again */
        s->probe_failed = true;
        return;
    }
    if (op == LH_DISK_WRITE && error == LH_OK) {
        disk(cs, TICKET_PROBE, NULL, NULL, LH_DISK_SYNC, 0, 0, NULL);
        return;
    }
    s->probing = s->probe_failed = false;
    if (s->failing && !disk_fails(cs)) {
        LH_MARK("disk-answers-again");
        s->failing = false;
        lh_fx_log(cs->fx, LH_WARN, "the disk answers again");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Registration. */

static void fill_reports(struct lh_chunkserver *cs, Leasehold__Register *reg)
{
    size_t n = HASH_COUNT(cs->replicas);
    Leasehold__ReplicaReport *reports = lh_alloc_array(n, sizeof *reports);
    struct replica *r, *next;

    reg->replicas = lh_alloc_array(n, sizeof(void *));
    HASH_ITER(hh, cs->replicas, r, next)
    {
        if (r->state == REPLICA_CREATING || r->state == REPLICA_REMOVING)
            continue;
        Leasehold__ReplicaReport *report = &reports[reg->n_replicas];
        leasehold__replica_report__init(report);
        report->chunk = r->chunk;
        report->version = r->header.version;
        report->length = replica_durable(r);
        report->sealed = replica_sealed_durably(r);
        report->doubted = replica_doubted(r);
        report->lost = r->state == REPLICA_LOST;
        r->loss_untold = LH_OK;
        r->creation_untold = false;
        report->copying = r->incomplete;
        reg->replicas[reg->n_replicas++] = report;
    }
    if (reg->n_replicas == 0)
        free(reports);
}

static void session_connect(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;
    const char *address = cs->config.masters[s->master];
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register reg = LEASEHOLD__REGISTER__INIT;

    struct link *l =
        link_open(cs, LINK_MASTER, NULL, LH_METHOD_SESSION, address, LH_DURATION_FOREVER);
    s->link = l->id;
    s->state = SESSION_REGISTERING;
    s->registration++;
    cs->counts.registrations++;
    s->stamp = cs->now.ns;
    s->retry_at = lh_instant_add(cs->now, lh_milliseconds(cs->config.bounds.register_timeout_ms));

    reg.server_id = (char *)(uintptr_t)cs->config.server_id;
    reg.incarnation = cs->config.incarnation;
    reg.process = cs->config.process;
    reg.registration = s->registration;
    reg.machine_id = (char *)(uintptr_t)cs->config.machine_id;
    reg.address = (char *)(uintptr_t)cs->config.address;
    reg.capacity_bytes = cs->config.capacity_bytes;
    reg.free_bytes = space_free(cs);
    reg.failure_domain = (char *)(uintptr_t)cs->config.failure_domain;
    reg.cluster_id = cs->cluster_id;
    reg.stamp = s->stamp;
    reg.master_term_seen = s->master_term;
    fill_reports(cs, &reg);
    reg.n_held = showing_fill(cs, &reg.held);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    m.register_ = &reg;
    session_send(cs, &m);
    probe(cs);
    if (reg.n_replicas > 0)
        free(reg.replicas[0]);
    free(reg.replicas);
    showing_free(reg.held, reg.n_held);
}

/* The way to the master is gone. The leases are not: they run by the clock (SES-4). */
static void session_down(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;

    s->link = 0;
    s->state = SESSION_DOWN;
    s->master = (s->master + 1) % cs->config.master_count;
    s->retry_at = lh_instant_add(cs->now, s->backoff);
    s->backoff = lh_duration_min(lh_nanoseconds(s->backoff.ns * 2), cs->config.reconnect_max);
}

static void session_set_timer(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;

    lh_timer_set(&cs->timers, &s->timer, s->state == SESSION_LIVE ? s->heartbeat_at : s->retry_at);
}

void session_start(struct lh_chunkserver *cs)
{
    if (cs->loading > 0 || cs->session.registration > 0)
        return;
    scrub_start(cs);
    session_connect(cs);
    session_set_timer(cs);
}

void session_close(struct lh_chunkserver *cs)
{
    if (cs->session.link != 0)
        link_close(cs, cs->session.link, LH_OK, NULL);
    cs->session.link = 0;
    cs->session.state = SESSION_DOWN;
    lh_timer_unset(&cs->timers, &cs->session.timer);
}

void session_link_closed(struct lh_chunkserver *cs, const char *why)
{
    struct session *s = &cs->session;
    struct lh_instant again = lh_instant_add(
        s->unreachable_told, lh_milliseconds(cs->config.bounds.unreachable_again_ms));

    if (s->state == SESSION_LIVE) {
        lh_fx_log(cs->fx, LH_WARN, "the connection to the master at %s broke",
            cs->config.masters[s->master]);
    } else if (s->unreachable_told.ns == 0 || lh_instant_reached(cs->now, again)) {
        lh_fx_log(cs->fx, LH_WARN, "cannot reach the master at %s, trying on: %s",
            cs->config.masters[s->master], why != NULL ? why : "the connection broke");
        s->unreachable_told = cs->now;
    }
    session_down(cs);
    session_set_timer(cs);
}

static void hang_up(struct lh_chunkserver *cs)
{
    link_close(cs, cs->session.link, LH_ERR_CANCELLED, NULL);
    session_down(cs);
    session_set_timer(cs);
}

static void on_registered(struct lh_chunkserver *cs, const Leasehold__Registered *m)
{
    struct session *s = &cs->session;

    if (s->state != SESSION_REGISTERING || m->stamp != s->stamp)
        return;
    int error = lh_error_from_wire(m->error);
    if (error == LH_OK && m->master_term < s->master_term)
        error = LH_ERR_STALE_MASTER;
    if (error == LH_OK && cs->cluster_id[0] != '\0' && strcmp(cs->cluster_id, m->cluster_id) != 0)
        error = LH_ERR_WRONG_IDENTITY;
    if (error == LH_OK && (m->session == 0 || m->term_ns == 0 || m->heartbeat_ns == 0))
        error = LH_ERR_MALFORMED;
    if (error != LH_OK) {
        lh_fx_log(cs->fx, LH_ERROR, "the master at %s refused this server: %s%s%s",
            cs->config.masters[s->master], lh_error_text(error),
            m->error_text[0] == '\0' ? "" : ": ", m->error_text);
        if (error == LH_ERR_WRONG_IDENTITY) {
            cs->stopped = true;
            session_close(cs);
            lh_fx_stopped(cs->fx, error);
            return;
        }
        hang_up(cs);
        return;
    }
    if (cs->cluster_id[0] == '\0' && m->cluster_id[0] != '\0') {
        free(cs->cluster_id);
        cs->cluster_id = lh_strdup(m->cluster_id);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_CLUSTER_ID_KEY, strlen(LH_CLUSTER_ID_KEY), cs->cluster_id,
            strlen(cs->cluster_id));
    }
    if (m->master_term > s->master_term) {
        char digits[24];
        int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long)m->master_term);
        lh_fx_persist(cs->fx, 0);
        lh_fx_put(cs->fx, LH_MASTER_TERM_KEY, strlen(LH_MASTER_TERM_KEY), digits, (size_t)size);
    }

    struct lh_instant sent_at = term_begins(cs, m->stamp);
    s->state = SESSION_LIVE;
    s->master_term = m->master_term;
    s->stamp_sent = s->last_stamp = m->stamp;
    s->answered_at = cs->now;
    s->heartbeat = lh_nanoseconds(m->heartbeat_ns);
    s->heartbeat_at = cs->now; /* at once: it tells the master that we hear it (SES-4) */
    s->backoff = cs->config.reconnect_min;
    s->unreachable_told = (struct lh_instant){0};
    lh_holder_session_begin(cs->holder, m->session, sent_at, lh_nanoseconds(m->term_ns));
    for (size_t i = 0; i < m->n_continued; i++) {
        const Leasehold__Continued *c = m->continued[i];
        if (lh_holder_continue(cs->holder, m->session, c->chunk, c->version, sent_at,
                lh_nanoseconds(c->term_ns)) == LH_OK)
            continue;
        LH_MARK("continued-after-its-end"); /* it was shown, and ended while nobody could be told */
        orders_release(cs, c->chunk, c->version, false);
    }
    lh_holder_session_settle(cs->holder, NULL, NULL);
    struct primary *p, *next;
    DL_FOREACH_SAFE(cs->primaries, p, next)
    {
        if (lh_holder_version(cs->holder, p->replica->chunk) != p->version) {
            LH_MARK("primary-not-continued");
            primary_abandon(p, LH_ERR_NOT_PRIMARY);
            continue;
        }
        if (!primary_may_act(p)) {
            primary_run_out(p);
            continue;
        }
        LH_MARK("primary-continued");
        primary_set_timer(p);
        if (p->state >= PRIMARY_OPEN)
            primary_tell_recovered(p); /* the session before may have taken it along */
    }
    lh_fx_log(cs->fx, LH_INFO, "session %llu with the master at %s (term %llu) begins",
        (unsigned long long)m->session, cs->config.masters[s->master],
        (unsigned long long)m->master_term);
    orders_resend_seals(cs);
    tell_losses(cs);
    orders_tell_untold(cs);
    copying_session_begins(cs);
    session_set_timer(cs);
}

/* ------------------------------------------------------------------------------------------------
 * Heartbeats. */

/* LEASE-4: chunks in use since the last extension was asked. An append that is still arriving is
 * use, or one that takes longer than a term could never be stored. */
static bool wants_extension(const struct primary *p)
{
    if (p->state == PRIMARY_RECALLED)
        return false;
    return p->state != PRIMARY_OPEN || p->queue_count > 0 || streams_arrive(p) ||
           (p->appends != p->appends_extended && !LH_PLANTED("extension-not-asked"));
}

/* How far the copies have come that the master asked for (REC-4). */
static void fill_copies(struct lh_chunkserver *cs, Leasehold__Heartbeat *hb)
{
    const struct copying *c;
    size_t n = 0;

    DL_COUNT(cs->copies, c, n);
    if (n == 0)
        return;
    Leasehold__CopyProgress *copies = lh_alloc_array(n, sizeof *copies);
    hb->copies = lh_alloc_array(n, sizeof(void *));
    DL_FOREACH(cs->copies, c)
    {
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

static void heartbeat(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat hb = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__LeaseSum sum = LEASEHOLD__LEASE_SUM__INIT;
    struct primary *p, *next;
    size_t n = 0;

    if (!s->failing && disk_fails(cs) && !LH_PLANTED("heartbeats-from-stalled-disk")) {
        s->failing = true;
        lh_fx_log(cs->fx, LH_ERROR,
            "the disk has not answered well for %llu ms: giving up every "
            "lease (SES-6)",
            (unsigned long long)lh_duration_ms(lh_instant_until(cs->disk_quiet_since, cs->now)));
        DL_FOREACH_SAFE(cs->primaries, p, next)
        {
            LH_MARK("lease-given-up-for-stalled-disk");
            primary_abandon(p, LH_ERR_IO);
        }
    }
    probe(cs);
    showing_sum(cs, &sum);

    DL_COUNT(cs->primaries, p, n);
    Leasehold__ChunkVersion *active = lh_alloc_array(n, sizeof *active);
    Leasehold__ChunkVersion **list = lh_alloc_array(n, sizeof *list);
    hb.active = list;
    DL_FOREACH(cs->primaries, p)
    {
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
    hb.session = session_id(cs);
    hb.stamp = s->stamp_sent = cs->now.ns;
    hb.last_stamp = s->last_stamp;
    hb.free_bytes = space_free(cs);
    hb.replicas = HASH_COUNT(cs->replicas);
    hb.failing = s->failing;
    hb.leases = &sum;
    fill_copies(cs, &hb);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    m.heartbeat = &hb;
    session_send(cs, &m);
    free(active);
    free(list);
    free_copies(&hb);
    orders_resend_seals(cs);
    s->heartbeat_at = lh_instant_add(cs->now, s->heartbeat);
}

bool session_farewell(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;

    if (s->state != SESSION_LIVE)
        return false;
    if (s->farewell == 0) {
        heartbeat(cs);
        s->farewell = s->stamp_sent;
    }
    return s->last_stamp < s->farewell;
}

void session_timer(struct lh_chunkserver *cs)
{
    struct session *s = &cs->session;

    if (s->state == SESSION_LIVE) {
        /* Three unanswered heartbeats are a whole term: the way to the master is of no use. */
        struct lh_duration silent = lh_instant_until(s->answered_at, cs->now);
        if (silent.ns / 3 >= s->heartbeat.ns) {
            LH_MARK("master-does-not-answer");
            lh_fx_log(cs->fx, LH_WARN, "no answer from the master for %llu ms: registering anew",
                (unsigned long long)lh_duration_ms(silent));
            hang_up(cs);
            return;
        }
        heartbeat(cs);
    } else if (s->state == SESSION_REGISTERING) {
        LH_MARK("registration-unanswered");
        hang_up(cs);
        return;
    } else {
        session_connect(cs);
    }
    session_set_timer(cs);
}

static void on_heartbeat_reply(struct lh_chunkserver *cs, const Leasehold__HeartbeatReply *m)
{
    struct session *s = &cs->session;

    if (s->state != SESSION_LIVE || m->session != session_id(cs) ||
        m->master_term < s->master_term || m->stamp > s->stamp_sent)
        return;
    if (m->error != LEASEHOLD__ERROR_CODE__OK) {
        LH_MARK("session-unknown-to-master");
        /* What this server holds it holds until its own clock says otherwise (TIME-4); a master
         * that restarted lets it go on in the new session (LEASE-7). */
        lh_fx_log(cs->fx, LH_WARN, "the master knows this session no more: %s; registering anew",
            lh_error_text(lh_error_from_wire(m->error)));
        hang_up(cs);
        return;
    }
    struct lh_instant sent_at = term_begins(cs, m->stamp);
    if (lh_holder_session_renew(cs->holder, m->session, sent_at, lh_nanoseconds(m->term_ns)) !=
        LH_OK)
        return;
    s->answered_at = cs->now;
    if (m->stamp > s->last_stamp)
        s->last_stamp = m->stamp;
    losses_told(cs, m->stamp);
    for (size_t i = 0; i < m->n_extended; i++) {
        const Leasehold__Continued *e = m->extended[i];
        int ignored = lh_holder_extend(
            cs->holder, m->session, e->chunk, e->version, sent_at, lh_nanoseconds(e->term_ns));
        (void)ignored; /* released or superseded meanwhile */
    }
    struct primary *p;
    DL_FOREACH(cs->primaries, p)
    {
        primary_set_timer(p);
    }
    if (m->show_leases)
        showing_answer(cs);
}

/* Somebody cannot reach this server: the master wants to know whether it lives (INV-9). */
static void on_inquiry(struct lh_chunkserver *cs, const Leasehold__Inquiry *m)
{
    if (cs->session.state != SESSION_LIVE || m->session != session_id(cs))
        return;
    LH_MARK("inquiry-answered");
    heartbeat(cs);
    session_set_timer(cs);
}

void session_message(struct lh_chunkserver *cs, const Leasehold__SessionReply *m)
{
    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED)
        on_registered(cs, m->registered);
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT)
        on_heartbeat_reply(cs, m->heartbeat);
    else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_INQUIRY)
        on_inquiry(cs, m->inquiry);
    else
        orders_message(cs, m);
}
