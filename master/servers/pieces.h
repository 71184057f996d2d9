/* A registration, as its pieces have come (SES-1a). */
#pragma once

#include "master/grants/grants.h"
#include "master/tables/tables.h"

struct lh_m_registration {
    Leasehold__Register *head; /* its first piece, without what that shows; the newest stamp */
    uint64_t pieces;
    bool more;                    /* others follow the last one that came */
    bool decided;                 /* its leases have come: it counts, or was refused */
    bool counts;                  /* a session began with it, and what follows belongs to that */
    uint64_t total;               /* replicas, in all of them */
    struct lh_m_report *replicas; /* that were not handed on yet */
    size_t replica_count, replica_capacity;
    struct lh_m_shown *held;
    size_t held_count, held_capacity;
};

/* A piece. The registration counts once all its leases have come; its replicas may follow. */
void lh_m_on_register(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *piece);
/* `registration`: one of these. */
void lh_m_registration_free(void *registration);

/* registration.c: its leases are whole. False: it was refused, and may be gone with its stream. */
bool lh_m_register(struct lh_master *m, struct lh_m_link *l, struct lh_m_registration *r);
void lh_m_registration_refuse(struct lh_master *m, struct lh_m_link *l,
    const Leasehold__Register *request, int error, const char *text);
