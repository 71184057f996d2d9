/* Registering in pieces (SES-1a): a piece goes out when the one before is written (it is made then,
 * so nothing gathers as in flow/outbox.h). So no step is long, and nothing is kept of what all
 * pieces say but which leases there are. These come first, and the session begins with the last.
 * Replicas follow in the order of their numbers, each piece when the master asks for it.
 *
 * Before the session no lease begins here. What is lost or created before it behind the number that
 * was reached is reported when it begins, later at once (log/reports.c). */
#include "chunkserver/session/internal.h"

#include "base/alloc.h"

#include <stdlib.h>

static bool is_shown(const struct lh_cs_replica *r)
{
    return (r->state != LH_CS_REPLICA_CREATING || r->anew) && r->state != LH_CS_REPLICA_REMOVING;
}

static void fill_report(Leasehold__ReplicaReport *report, struct lh_cs_replica *r)
{
    leasehold__replica_report__init(report);
    report->chunk = r->chunk;
    report->version = r->header.version;
    report->length = lh_cs_replica_durable(r);
    report->sealed = lh_cs_replica_sealed_durably(r);
    report->checksum = report->sealed ? r->header.sealed_checksum : 0;
    report->unverified = lh_cs_replica_unverified(r);
    report->lost = r->state == LH_CS_REPLICA_LOST;
    report->kept = (r->state == LH_CS_REPLICA_LOST && lh_cs_replica_is_kept(r)) || r->anew ||
                   r->returning; /* the file is still there that the copy is to replace */
    report->copying = r->incomplete;
    lh_cs_report_registered(r);
}

/* Who this is: the first piece alone says it. */
static void fill_head(const struct lh_cs_session *s, Leasehold__Register *m)
{
    const struct lh_cs_host *cs = s->cs;

    m->server_id = (char *)(uintptr_t)cs->config.server_id;
    m->incarnation = cs->config.incarnation;
    m->process = cs->config.process;
    m->identifies = true;
    m->machine_id = (char *)(uintptr_t)cs->config.machine_id;
    m->address = (char *)(uintptr_t)cs->config.address;
    m->capacity_bytes = cs->config.capacity_bytes;
    m->free_bytes = lh_cs_logs_free_bytes(s->logs);
    m->failure_domain = (char *)(uintptr_t)cs->config.failure_domain;
    m->cluster_id = cs->cluster.id;
    m->master_term_seen = cs->master.master_term;
    m->reign_name_seen = cs->master.reign_name;
    m->challenge = s->registration.challenge;
    m->read_only = s->disk.failing && lh_cs_disk_is_read_only(s);
    m->replica_count = s->logs->replicas.count;
    const struct lh_cs_replica *last = lh_idmap_last(&s->logs->replicas);
    m->last_chunk = last == NULL ? 0 : last->chunk;
}

/* SES-1b: the process before may have used any number of this incarnation. */
static uint64_t number_of(const struct lh_cs_session *s)
{
    bool numbered = !s->cs->config.read_only || LH_PLANTED("numbers-of-a-stored-incarnation");

    return numbered ? s->registration.number : 0;
}

static bool leases_shown(const struct lh_cs_session *s)
{
    return s->registration.lease_next == s->registration.lease_count;
}

/* Does a piece wait until the master asks for it? Else it follows when the last one is written. */
static bool waits(const struct lh_cs_session *s)
{
    return s->registration.more && leases_shown(s) && !s->registration.pressed;
}

/* The leases that are left, as far as there is room. */
static void fill_leases(
    struct lh_cs_session *s, Leasehold__Register *piece, Leasehold__ChunkVersion *held, size_t most)
{
    while (s->registration.lease_next < s->registration.lease_count && piece->n_held < most) {
        uint64_t chunk = s->registration.leases[s->registration.lease_next++];
        const struct lh_cs_replica *r = lh_idmap_find(&s->logs->replicas, chunk);
        piece->held[piece->n_held] = &held[piece->n_held];
        piece->n_held += r != NULL && lh_cs_showing_lease(r, piece->held[piece->n_held]);
    }
    piece->leases_shown = leases_shown(s);
}

/* Likewise the replicas. */
static void fill_replicas(struct lh_cs_session *s, Leasehold__Register *piece,
    Leasehold__ReplicaReport *reports, size_t most)
{
    struct lh_cs_replica *r = lh_idmap_from(&s->logs->replicas, s->registration.next);

    for (; r != NULL && piece->n_replicas < most;
         r = lh_idmap_from(&s->logs->replicas, s->registration.next)) {
        s->registration.next = r->chunk + 1;
        if (!is_shown(r))
            continue;
        piece->replicas[piece->n_replicas] = &reports[piece->n_replicas];
        fill_report(piece->replicas[piece->n_replicas++], r);
    }
    piece->more = r != NULL || !piece->leases_shown;
}

static void send_piece(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    size_t most = cs->config.bounds.register_replicas;
    /* At least one: or no piece would pass leases over whose replicas are gone. */
    size_t all = s->logs->replicas.count + 1, count = most < all ? most : all;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register piece = LEASEHOLD__REGISTER__INIT;
    Leasehold__ReplicaReport *reports;
    Leasehold__ChunkVersion *held;

    reports = lh_alloc_array(count, sizeof *reports);
    held = lh_alloc_array(count, sizeof *held);
    piece.replicas = lh_alloc_array(count, sizeof *piece.replicas);
    piece.held = lh_alloc_array(count, sizeof *piece.held);
    lh_cs_showing_end_run_out(s->primaries);
    fill_leases(s, &piece, held, count);
    fill_replicas(s, &piece, reports, most - piece.n_held);
    if (s->registration.pieces == 0)
        fill_head(s, &piece);
    piece.registration = number_of(s);
    piece.piece = s->registration.pieces++;
    piece.stamp = s->registration.last = cs->now.ns;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    m.register_ = &piece;
    s->registration.more = piece.more;
    if (piece.more && !waits(s))
        lh_fx_send_notified(cs->fx, cs->master.link, &m.base, NULL);
    else
        lh_cs_send(cs, &m);
    free(reports);
    free(held);
    free(piece.replicas);
    free(piece.held);
    s->retry_at = lh_instant_add(cs->now, lh_milliseconds(cs->config.bounds.register_timeout_ms));
}

void lh_cs_registration_begin(struct lh_cs_session *s, uint64_t challenge)
{
    s->registration.number++;
    s->registration.challenge = challenge;
    s->cs->counts.registrations++;
    s->registration.pieces = 0;
    s->registration.pressed = false;
    s->registration.first = s->cs->now.ns;
    bool broke_off = s->registration.more;
    if (!(broke_off && LH_PLANTED("registration-resumed-elsewhere"))) {
        free(s->registration.leases);
        s->registration.leases = lh_cs_showing_chunks(s->primaries, &s->registration.lease_count);
        s->registration.lease_next = s->registration.next = 0;
    }
    send_piece(s);
}

void lh_cs_registration_go_on(struct lh_cs_session *s)
{
    if (s->registration.more && !waits(s))
        send_piece(s);
}

/* False: nothing waited for that. */
static bool press(struct lh_cs_session *s)
{
    bool waited = waits(s);

    s->registration.pressed = true;
    if (waited)
        send_piece(s);
    return waited;
}

void lh_cs_registration_answered(struct lh_cs_session *s, bool asks)
{
    if (asks)
        s->registration.pressed = false;
    else
        (void)press(s);
}

void lh_cs_registration_asked(struct lh_cs_session *s)
{
    if (waits(s))
        send_piece(s);
}

bool lh_cs_registration_presses(struct lh_cs_session *s)
{
    if (!press(s))
        return false;
    LH_MARK("registration-pressed");
    return true;
}

bool lh_cs_registration_answers(const struct lh_cs_session *s, uint64_t stamp)
{
    return stamp >= s->registration.first && stamp <= s->registration.last;
}
