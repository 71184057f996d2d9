/* What a chunk has only while something is going on with it.
 *
 * A chunk has this record while a concern has something to do or to remember; else it has a
 * constant one, in which all is idle. So it can be read at any time, and whoever writes asks
 * lh_m_move() for it. Most chunks are sealed and at rest. But there may be as many files that are
 * open and at rest: with one chunk, to which nobody appends now. Each concern has its part of the
 * record, which it alone writes; parts that few of those that move have are records of their own in
 * the same way. When a part is idle says active.c. */
#pragma once

#include "lease/service.h"
#include "master/tables/copy.h"
#include "master/tables/extra.h"
#include "master/tables/member.h"
#include "master/tables/roll.h"

/* What was said of a primary that lives; see consent.c. */
struct lh_m_words {
    uint64_t version; /* it was the primary of this one */
    struct lh_instant first_at, last_at;
    uint32_t count;
    bool believed; /* often enough, for long enough */
};

/* Of grants/: the lease. */
struct lh_m_grant {
    /* Holder, process and version are durable. The version is the chunk's, unless a fence came
     * after the grant: then the lease is `ending` (FAIL-2a). */
    struct lh_lease lease;
    struct lh_m_active *active;
    uint64_t fence;       /* durable, too: that the version carries (TOK-2); 0: none */
    uint64_t ticket;      /* the commit that made the newest grant durable (LEASE-1) */
    struct lh_instant at; /* when this master gave the newest version; zero: it did not */
    uint64_t appends;
    struct lh_instant extended_at;
    uint32_t extensions; /* since the newest version was given */
};
_Static_assert(sizeof(struct lh_m_grant) <= 192, "each lease has one");

/* Of grants/, too: what speaks against a member as the primary. */
struct lh_m_doubts {
    struct lh_m_chunk *chunk;
    struct lh_timer timer;        /* it is offered again */
    struct lh_m_server *avoid;    /* gave the lease up or refused it: another one, if there is */
    struct lh_instant retry_at;   /* no grant to `avoid` before this */
    struct lh_instant rest_until; /* nor to anybody: each member has refused */
    struct lh_instant refused_at; /* the last time */
    uint32_t refusals;            /* since a primary last recovered */
    uint64_t adopted_above; /* a member has adopted this version, too high to go above; 0: none */
    struct lh_m_words lost_by_clients, short_by_primary;
};

/* Of growth/: the replicas of a new chunk. */
struct lh_m_creation {
    struct lh_m_chunk *chunk;
    struct lh_timer timer;
    bool under_way;             /* in `m->creating` */
    struct lh_m_server *unable; /* the last one that answered it cannot create its replica, */
    int unable_error;           /* and why */
    TAILQ_ENTRY(lh_m_creation) link;
};

/* Of seal/: what goes on before a seal, and who has it. */
struct lh_m_seal {
    struct lh_m_roll *roll;         /* NULL: none under way */
    uint64_t short_version;         /* at this one too few members are left, as was reported */
    struct lh_instant short_at;     /* when its primary last said so */
    uint64_t unsure_version;        /* at this one its primary waits for all (REC-2a), likewise */
    struct lh_instant rolled_at;    /* when this master sealed it by fences; zero: it did not */
    struct lh_m_server *bad_source; /* a member was copied from there whose log then did not fit */
    bool urgent; /* it is not backed, and somebody waits for that: it is copied before all else */
};

/* Of inventory/: the seal that replicas have and the record has not (KEEP-4); version 0: none. The
 * members that have shown it last say so (`sealed`). */
struct lh_m_shown_seal {
    uint64_t version, length, checksum;
};

/* Of keep/: what its replicas need. */
struct lh_m_repair {
    bool wanting; /* in `m->wanting`, with `want_good` and `want_bytes` to copy */
    bool granted; /* granted so that a primary looks after its members */
    bool
        notify_full; /* joining members became full: the primary hears of it once that is durable */
    uint32_t want_good;
    uint64_t want_bytes;
    struct lh_m_copies copies;
    uint32_t copy_count;
    uint32_t failures;               /* of copies, in a row */
    struct lh_instant at;            /* no copy is tried before this */
    struct lh_m_server *avoid;       /* its copy failed last: another one, if there is */
    uint32_t grants;                 /* `granted` ones that have not made it whole, in a row */
    struct lh_instant grant_at;      /* and no other before this */
    struct lh_instant granted_until; /* as such it counts until then */
    uint64_t recovered_version;      /* the newest that its primary reported recovered */
    lh_session_id recovered_session; /* and in which session */
    struct lh_m_server *joined_from; /* where the newest joining member was copied from */
    RB_ENTRY(lh_m_active) wanting_node;
};

struct lh_m_active {
    struct lh_m_chunk *chunk;
    bool unsettled; /* in `m->unsettled` */
    bool dirty;
    uint64_t ticket;
    uint64_t seen_version; /* the highest that any server reported (KEEP-4); 0: none. It outlives
                              this record: see lh_m_seen_version() */
    struct lh_m_shown_seal shown_seal;
    TAILQ_HEAD(, lh_m_extra) extras;

    /* Records of their own, or constant ones in which all is idle. */
    const struct lh_m_grant *grant;
    const struct lh_m_doubts *doubts;
    const struct lh_m_creation *creation;
    const struct lh_m_seal *seal;
    struct lh_m_repair repair;

    STAILQ_ENTRY(lh_m_active) dirty_link;
    TAILQ_ENTRY(lh_m_active) unsettled_link;
    RB_ENTRY(lh_m_active) held_node; /* chunks with a holder, by id */
};
_Static_assert(sizeof(struct lh_m_active) <= 320, "each chunk with a lease has one");
RB_HEAD(lh_m_wanting, lh_m_active); /* the fewest good members first */
RB_HEAD(lh_m_leased, lh_m_active);

RB_PROTOTYPE(lh_m_leased, lh_m_active, held_node, )
RB_PROTOTYPE(lh_m_wanting, lh_m_active, repair.wanting_node, )

extern const struct lh_m_active lh_m_idle;

static inline struct lh_m_active *lh_m_leased_active(const struct lh_lease *lease)
{
    return LH_OWNER((uintptr_t)lease, struct lh_m_grant, lease)->active;
}

/* The chunk's record, to write into it: made if it has none, and looked at when the step ends. */
struct lh_m_active *lh_m_move(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_grant *lh_m_grant(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_doubts *lh_m_doubts(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_creation *lh_m_creation(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_seal *lh_m_seal(struct lh_master *m, struct lh_m_chunk *c);
/* The end of a step: frees the records in which all is idle. */
void lh_m_actives_settle(struct lh_master *m);
void lh_m_active_free(struct lh_master *m, struct lh_m_chunk *c);
