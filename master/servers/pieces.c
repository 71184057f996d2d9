/* The pieces of a registration (SES-1a). Nothing follows from them before all leases have been
 * shown: they are kept with the stream, and go with it. The replicas that follow are the session's.
 */
#include "master/servers/pieces.h"

#include "master/inventory/inventory.h"
#include "master/sessions/sessions.h"

#include <inttypes.h>

void lh_m_registration_free(void *registration)
{
    struct lh_m_registration *r = registration;

    leasehold__register__free_unpacked(r->head, NULL);
    free(r->replicas);
    free(r->held);
    free(r);
}

static struct lh_m_registration *begin(const Leasehold__Register *piece)
{
    struct lh_m_registration *r = lh_alloc(sizeof *r);
    Leasehold__Register head = *piece;

    head.n_replicas = head.n_held = 0;
    size_t size = leasehold__register__get_packed_size(&head);
    uint8_t *bytes = lh_alloc(size + 1);
    leasehold__register__pack(&head, bytes);
    r->head = leasehold__register__unpack(NULL, size, bytes);
    LH_ASSERT(r->head != NULL);
    free(bytes);
    return r;
}

static void add(struct lh_m_registration *r, const Leasehold__Register *piece)
{
    r->head->stamp = piece->stamp;
    r->more = piece->more && !LH_PLANTED("first-piece-registers");
    r->pieces++;
    r->total += piece->n_replicas;
    LH_GROW(r->replicas, r->replica_capacity, r->replica_count + piece->n_replicas);
    for (size_t i = 0; i < piece->n_replicas; i++) {
        const Leasehold__ReplicaReport *report = piece->replicas[i];
        r->replicas[r->replica_count++] = (struct lh_m_report){.chunk = report->chunk,
            .version = report->version,
            .length = report->length,
            .checksum = report->checksum,
            .sealed = report->sealed,
            .lost = report->lost,
            .kept = report->kept,
            .copying = report->copying};
    }
    LH_GROW(r->held, r->held_capacity, r->held_count + piece->n_held);
    for (size_t i = 0; i < piece->n_held; i++)
        r->held[r->held_count++] =
            (struct lh_m_shown){piece->held[i]->chunk, piece->held[i]->version};
}

/* Does it follow what has come on this stream? */
static bool follows(const struct lh_m_registration *r, const Leasehold__Register *piece)
{
    return r != NULL && piece->registration == r->head->registration && piece->piece == r->pieces;
}

/* What has come so far was taken. */
static void handed_on(struct lh_master *m, struct lh_m_link *l, struct lh_m_registration *r)
{
    free(r->replicas);
    free(r->held);
    r->replicas = NULL;
    r->held = NULL;
    r->replica_count = r->replica_capacity = r->held_count = r->held_capacity = 0;
    if (!r->more)
        lh_m_stream_forget_pieces(m, l);
}

/* A piece that has only replicas, behind what the registration was decided by. Those of one that
 * was refused are on their way while its server reads that (SES-1b). */
static void go_on(struct lh_master *m, struct lh_m_link *l, struct lh_m_registration *r)
{
    struct lh_m_session *session = l->session;

    if (r->counts && session->link == l->id && l->registered == session->client.session) {
        LH_MARK("replicas-follow-in-session");
        lh_m_reports_add(m, lh_m_session_server(session), r->replicas, r->replica_count, r->more);
    }
    handed_on(m, l, r);
}

void lh_m_on_register(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *piece)
{
    char text[LH_TEXT_BYTES];

    if (piece->piece == 0) {
        lh_m_stream_forget_pieces(m, l);
        l->pieces = begin(piece);
    } else if (!follows(l->pieces, piece)) {
        lh_fx_close(m->fx, l->id, LH_ERR_MALFORMED, "a piece of a registration is missing");
        lh_m_stream_forget(m, l);
        return;
    }
    struct lh_m_registration *r = l->pieces;
    add(r, piece);
    if (r->head->replica_count > m->config.replicas_max || r->total > m->config.replicas_max ||
        r->held_count > m->config.replicas_max) {
        snprintf(text, sizeof text,
            "chunkserver %.64s: it has more than %" PRIu32 " replicas, the limit of one server",
            r->head->server_id, m->config.replicas_max);
        lh_m_registration_refuse(m, l, r->head, LH_ERR_NO_MEMORY, text);
        return;
    }
    if (r->decided) {
        go_on(m, l, r);
        return;
    }
    if (piece->more && !piece->leases_shown && !LH_PLANTED("first-piece-registers")) {
        LH_MARK("registration-in-pieces");
        return;
    }
    r->decided = true;
    if (lh_m_register(m, l, r))
        handed_on(m, l, r);
}
