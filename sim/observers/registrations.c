#include "sim/observers/registrations.h"

bool lh_ob_registration_is_new(struct registrations *r, const Leasehold__Register *m)
{
    bool same = m->incarnation == r->incarnation;
    bool answers = same && m->challenge != 0 && m->challenge == r->challenge;

    if (same && m->registration == 0 && r->unanswered)
        return true; /* to the next master it is new */
    if (m->incarnation < r->incarnation || (same && m->registration <= r->number && !answers))
        return false;
    r->incarnation = m->incarnation;
    r->number = m->registration == 0 || answers ? UINT64_MAX : m->registration;
    r->challenge = 0;
    r->unanswered = true;
    return true;
}

void lh_ob_registration_answered(struct registrations *r, const Leasehold__Registered *m)
{
    if (m->challenge != 0)
        r->challenge = m->challenge;
    else if (m->error == LEASEHOLD__ERROR_CODE__OK)
        r->unanswered = false;
    else if (m->error == LEASEHOLD__ERROR_CODE__WRONG_IDENTITY)
        r->unanswered = true; /* one that was decommissioned is forgotten */
}
