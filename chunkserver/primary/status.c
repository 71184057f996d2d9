/* What others see of a primary part, and its invariants. */
#include "chunkserver/primary/internal.h"

#include "base/assert.h"
#include "chunkserver/primary/members.h"

uint64_t lh_cs_primary_version(const struct lh_cs_primary *p)
{
    return p->version;
}

uint64_t lh_cs_primary_appends(const struct lh_cs_primary *p)
{
    return p->appends;
}

bool lh_cs_primary_is_open(const struct lh_cs_primary *p)
{
    return p->state == LH_CS_PRIMARY_OPEN;
}

bool lh_cs_primary_has_recovered(const struct lh_cs_primary *p)
{
    return p->state >= LH_CS_PRIMARY_OPEN;
}

uint64_t lh_cs_primary_committed_checksum(const struct lh_cs_primary *p)
{
    LH_ASSERT(lh_cs_primary_has_recovered(p));
    return p->committed_checksum;
}

void lh_cs_primary_check(const struct lh_cs_primary *p)
{
    const struct lh_cs_replica *r = p->replica;
    uint64_t at = r->end;

    LH_ASSERT(lh_cs_primary_of(r) == p);
    LH_ASSERT(p->version <= r->adopting);
    for (size_t i = p->queue.count; i-- > 0;) {
        const struct lh_cs_uncommitted *u =
            &p->queue.items[(p->queue.first + i) % p->queue.capacity];
        LH_ASSERT(u->offset + u->bytes.size == at);
        at = u->offset;
    }
    LH_ASSERT(p->queue.count == 0 || at == r->committed || LH_PLANTED("half-batch-committed"));
    for (size_t i = 0; i < p->member_count; i++) {
        const struct lh_cs_member *m = &p->members[i];
        LH_ASSERT(m->sent <= r->end || m->state < LH_CS_MEMBER_COPYING);
        if (p->state >= LH_CS_PRIMARY_OPEN && m->state == LH_CS_MEMBER_EQUAL)
            LH_ASSERT(m->length <= r->end);
    }
}
