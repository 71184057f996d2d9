/* Which registration of a server is newer than those before it (SES-1, SES-1b). */
#pragma once

#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

/* What masters heard of one server, and gave to it. */
struct registrations {
    uint64_t incarnation;
    uint64_t number;    /* within it, the highest; UINT64_MAX: numbers count no more */
    uint64_t challenge; /* the last one; 0: none, or it was answered */
    bool unanswered;    /* a master that dies now does not know of the newest one any more */
};

/* A master hears this one. False: it is none that counts. */
bool lh_ob_registration_is_new(struct registrations *r, const Leasehold__Register *m);
/* A master says so. */
void lh_ob_registration_answered(struct registrations *r, const Leasehold__Registered *m);
