/* Registrations that come in pieces (SES-1a), put together here again: what a server has said
 * on a stream, and what the master has heard on it. The bytes of all pieces, one behind the other,
 * are those of the whole message. */
#include "sim/observers/internal.h"

#include <stdlib.h>
#include <string.h>

struct pieces {
    uint64_t key; /* the link, and which end of it */
    uint8_t *bytes;
    size_t size;
    bool counts; /* its leases were shown: what follows belongs to its session */
    UT_hash_handle hh;
};

static struct pieces *find(struct lh_sim_observers *o, uint64_t key)
{
    struct pieces *p;

    HASH_FIND(hh, o->pieces, &key, sizeof key, p);
    if (p == NULL) {
        p = lh_alloc(sizeof *p);
        p->key = key;
        HASH_ADD(hh, o->pieces, key, sizeof p->key, p);
    }
    return p;
}

static void forget(struct lh_sim_observers *o, struct pieces *p)
{
    HASH_DEL(o->pieces, p);
    free(p->bytes);
    free(p);
}

static void drop(Leasehold__Register **registration)
{
    if (*registration != NULL)
        leasehold__register__free_unpacked(*registration, NULL);
    *registration = NULL;
}

void lh_ob_pieces_note(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const Leasehold__SessionRequest *m = (const Leasehold__SessionRequest *)s->message;

    drop(&o->leases_whole);
    drop(&o->whole);
    o->follows = false;
    if (s->method != LH_METHOD_SESSION || m == NULL || s->direction != LH_REQUEST ||
        m->body_case != LEASEHOLD__SESSION_REQUEST__BODY_REGISTER)
        return;
    const Leasehold__Register *piece = m->register_;
    struct pieces *p = find(o, s->link * 2 + (s->input != NULL));
    size_t size = leasehold__register__get_packed_size(piece);
    if (piece->piece == 0) {
        p->size = 0;
        p->counts = false;
    }
    p->bytes = lh_realloc_array(p->bytes, p->size + size, 1);
    p->size += leasehold__register__pack(piece, p->bytes + p->size);
    o->follows = p->counts;
    if (!p->counts && (piece->leases_shown || !piece->more)) {
        p->counts = true;
        o->leases_whole = leasehold__register__unpack(NULL, p->size, p->bytes);
    }
    if (piece->more)
        return;
    o->whole = leasehold__register__unpack(NULL, p->size, p->bytes);
    forget(o, p);
}

void lh_ob_pieces_deinit(struct lh_sim_observers *o)
{
    struct pieces *p, *next;

    drop(&o->leases_whole);
    drop(&o->whole);
    HASH_ITER(hh, o->pieces, p, next) {
        forget(o, p);
    }
}
