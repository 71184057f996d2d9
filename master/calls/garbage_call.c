/* Garbage: what is not deleted yet, and the operator's word that deletion may go on (KEEP-4). */
#include "master/calls/calls.h"

#include "master/keep/keep.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

void lh_m_garbage_call(struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request)
{
    Leasehold__GarbageReply reply = LEASEHOLD__GARBAGE_REPLY__INIT;
    uint64_t ticket = 1; /* a look is not held up by commits under way */

    if (request->resume && m->behind != NULL) {
        lh_m_garbage_resume(m);
        lh_m_trash_start(m);
        ticket = m->garbage.resume_ticket;
    }
    reply.deleting = m->behind == NULL;
    if (m->behind != NULL)
        reply.why_not = m->behind;
    reply.files_trashed = m->trash_count;
    reply.replicas_extra = m->garbage.extra_count + m->garbage.kept_count;
    reply.replicas_deleted = m->garbage.deleted;
    lh_m_reply(m, link, ticket, &reply.base);
}
