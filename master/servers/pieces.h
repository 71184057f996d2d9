/* A registration, as its pieces have come (SES-1a). */
#pragma once

#include "master/grants/grants.h"
#include "master/tables/tables.h"

struct lh_m_registration {
    Leasehold__Register *head; /* its first piece, without what that shows; the newest stamp */
    uint64_t pieces;
    struct lh_m_report *replicas;
    size_t replica_count, replica_capacity;
    struct lh_m_shown *held;
    size_t held_count, held_capacity;
};

/* A piece. With the last one the registration counts. */
void lh_m_on_register(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *piece);
/* `registration`: one of these. */
void lh_m_registration_free(void *registration);

/* registration.c: it is whole. Its replicas may be taken. */
void lh_m_register(struct lh_master *m, struct lh_m_link *l, struct lh_m_registration *r);
void lh_m_registration_refuse(struct lh_master *m, struct lh_m_link *l,
    const Leasehold__Register *request, int error, const char *text);
