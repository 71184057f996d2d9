/* The pieces of a registration. Nothing follows from them before the last one has come (SES-1a):
 * they are kept with the stream, and go with it. */
#include "master/servers/pieces.h"

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
    r->pieces++;
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

/* For "pieces-outlive-their-stream": what the server has shown on a stream that broke. */
static void take_over(
    const struct lh_master *m, const struct lh_m_link *l, struct lh_m_registration *r)
{
    const struct lh_m_link *other, *next;

    HASH_ITER(hh, m->links, other, next) {
        const struct lh_m_registration *old = other->pieces;
        if (other == l || old == NULL || strcmp(old->head->server_id, r->head->server_id) != 0)
            continue;
        LH_GROW(r->replicas, r->replica_capacity, r->replica_count + old->replica_count);
        memcpy(&r->replicas[r->replica_count], old->replicas,
            old->replica_count * sizeof *old->replicas);
        r->replica_count += old->replica_count;
    }
}

/* Does it follow what has come on this stream? */
static bool follows(const struct lh_m_registration *r, const Leasehold__Register *piece)
{
    return r != NULL && piece->registration == r->head->registration && piece->piece == r->pieces;
}

void lh_m_on_register(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *piece)
{
    char text[LH_TEXT_BYTES];

    if (piece->piece == 0) {
        lh_m_stream_forget_pieces(m, l);
        l->pieces = begin(piece);
        if (LH_PLANTED("pieces-outlive-their-stream"))
            take_over(m, l, l->pieces);
    } else if (!follows(l->pieces, piece)) {
        if (LH_PLANTED("first-piece-registers"))
            return;
        lh_fx_close(m->fx, l->id, LH_ERR_MALFORMED, "a piece of a registration is missing");
        lh_m_stream_forget(m, l);
        return;
    }
    struct lh_m_registration *r = l->pieces;
    add(r, piece);
    if (r->replica_count > m->config.replicas_max || r->held_count > m->config.replicas_max) {
        snprintf(text, sizeof text,
            "chunkserver %.64s: it has more than %" PRIu32 " replicas, the limit of one server",
            r->head->server_id, m->config.replicas_max);
        lh_m_registration_refuse(m, l, piece, LH_ERR_NO_MEMORY, text);
        return;
    }
    if (piece->more && !LH_PLANTED("first-piece-registers")) {
        LH_MARK("registration-in-pieces");
        return;
    }
    l->pieces = NULL;
    lh_m_register(m, l, r);
    lh_m_registration_free(r);
}
