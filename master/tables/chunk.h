/* A chunk. */
#ifndef LH_MASTER_TABLES_CHUNK_H
#define LH_MASTER_TABLES_CHUNK_H

#include "lease/grantor.h"
#include "master/tables/copy.h"
#include "master/tables/extra.h"
#include "master/tables/member.h"
#include "master/tables/roll.h"
#include "master/tables/timers.h"

/* What was said of a primary that lives; see consent.c. */
struct lh_m_words {
    uint64_t version; /* it was the primary of this one */
    struct lh_instant first_at, last_at;
    uint32_t count;
    bool believed; /* often enough, for long enough */
};

/* Each concern has its part of the record, which it alone writes. */

/* Of grants/: the lease. */
struct lh_m_grant {
    /* Durable. */
    struct lh_m_server *holder; /* of the grant at `version` */
    uint64_t incarnation;       /* of the holder */
    uint64_t version;           /* the chunk's, unless a fence came after the grant (FAIL-2a) */

    lh_session_id session;   /* where the engine holds it; 0 with a holder: `waiting` */
    bool waiting;            /* LEASE-7: a former master's durable grant may still be in force */
    bool sent;               /* the grant at `version` went out at least once */
    bool confirmed;          /* the holder confirmed `version` */
    bool recalling;          /* LEASE-5 */
    bool in_todo;            /* of its holder */
    uint64_t ticket;         /* the commit that made the newest grant durable (LEASE-1) */
    struct lh_instant at;    /* when this master gave the newest version; zero: it did not */
    uint64_t summed_version; /* at which it is in its holder's `sum`; 0: it is not */
    uint64_t shown, shown_version; /* when a server showed it last (`m->shows`), at which version */
    uint64_t appends;
    struct lh_m_server *avoid; /* gave the lease up or refused it: another one, if there is */
    struct lh_m_server *last_primary;
    struct lh_instant retry_at;   /* no grant to `avoid` before this */
    struct lh_instant rest_until; /* nor to anybody: each member has refused */
    uint32_t refusals;            /* since a primary last recovered */
    struct lh_instant refused_at; /* the last one */
    uint64_t adopted_above; /* a member has adopted this version, too high to go above; 0: none */
    struct lh_m_words lost_by_clients, short_by_primary;
    TAILQ_ENTRY(lh_m_chunk) held_link, todo_link, waiting_link;
    RB_ENTRY(lh_m_chunk) held_node; /* chunks with a holder, by id */
};

/* Of growth/: the replicas of a new chunk. */
struct lh_m_creation {
    struct lh_m_timer timer;    /* also after a refused grant */
    bool under_way;             /* in `m->creating` */
    struct lh_m_server *unable; /* the last one that answered it cannot create its replica, */
    int unable_error;           /* and why */
    TAILQ_ENTRY(lh_m_chunk) link;
};

/* Of seal/: what goes on before a seal, and who has it. */
struct lh_m_seal {
    struct lh_m_roll *roll;      /* NULL: none under way */
    uint64_t short_version;      /* at this one too few members are left, as was reported */
    struct lh_instant short_at;  /* when its primary last said so */
    uint64_t unsure_version;     /* at this one its primary waits for all (REC-2a), likewise */
    bool reported;               /* RecordSeal went out once since the seal is durable */
    struct lh_instant rolled_at; /* when this master sealed it by fences; zero: it did not */
    bool backed; /* this master has seen enough logs for the seal; see lh_m_backed() */
    struct lh_m_server *bad_source; /* a member was copied from there whose log then did not fit */
    bool urgent; /* it is not backed, and somebody waits for that: it is copied before all else */
};

/* Of keep/: what its replicas need. */
struct lh_m_repair {
    enum lh_m_condition condition; /* as it was when the chunk was last looked at */
    bool wanting;                  /* in `m->wanting`, with `want_good` and `want_bytes` to copy */
    uint32_t want_good;
    uint64_t want_bytes;
    struct lh_m_copies copies;
    uint32_t copy_count;
    struct lh_instant at;            /* no copy is tried before this */
    uint32_t failures;               /* of copies, in a row */
    struct lh_m_server *avoid;       /* its copy failed last: another one, if there is */
    bool granted;                    /* granted so that a primary looks after its members */
    uint32_t grants;                 /* such grants that have not made it whole, in a row */
    struct lh_instant grant_at;      /* and no other before this */
    struct lh_instant granted_until; /* as such it counts until then */
    uint64_t recovered_version;      /* the newest that its primary reported recovered */
    lh_session_id recovered_session; /* and in which session */
    bool tell_full; /* joining members became full: the primary hears of it once that is durable */
    struct lh_m_server *joined_from; /* where the newest joining member was copied from */
    RB_ENTRY(lh_m_chunk) wanting_node;
};

struct lh_m_chunk {
    /* Durable. */
    uint64_t id;
    struct lh_m_file *file; /* NULL once the file was removed */
    uint64_t index, start;
    uint64_t version;
    struct lh_m_member *members;
    uint32_t member_count;
    bool created, sealed, intent_to_seal;
    uint64_t length, checksum;

    bool dirty, removed;
    bool enqueued; /* in `m->enqueued` */
    uint64_t ticket;
    uint64_t seen_version; /* the highest that any server reported (KEEP-4) */
    TAILQ_HEAD(, lh_m_extra) extras;

    struct lh_m_grant grant;
    struct lh_m_creation creation;
    struct lh_m_seal seal;
    struct lh_m_repair repair;

    STAILQ_ENTRY(lh_m_chunk) dirty_link;
    RB_ENTRY(lh_m_chunk) all_node;  /* all chunks that are not removed, by id */
    RB_ENTRY(lh_m_chunk) open_node; /* unsealed chunks, by id */
    TAILQ_ENTRY(lh_m_chunk) enqueued_link;
    UT_hash_handle hh; /* by id */
};
RB_HEAD(lh_m_all, lh_m_chunk);
RB_HEAD(lh_m_wanting, lh_m_chunk); /* the fewest good members first */
RB_HEAD(lh_m_open, lh_m_chunk);
RB_HEAD(lh_m_leased, lh_m_chunk);

RB_PROTOTYPE(lh_m_all, lh_m_chunk, all_node, )
RB_PROTOTYPE(lh_m_open, lh_m_chunk, open_node, )
RB_PROTOTYPE(lh_m_leased, lh_m_chunk, grant.held_node, )
RB_PROTOTYPE(lh_m_wanting, lh_m_chunk, repair.wanting_node, )

/* The version of the chunk's next grant: above every one that was ever heard of (KEEP-4). */
static inline uint64_t lh_m_next_version(const struct lh_m_chunk *c)
{
    return (c->version > c->seen_version ? c->version : c->seen_version) + 1;
}

struct lh_m_chunk *lh_m_chunk_find(const struct lh_master *m, uint64_t id); /* not removed ones */
struct lh_m_chunk *lh_m_chunk_new(struct lh_master *m, struct lh_m_file *f, uint64_t id);
void lh_m_set_sealed(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_member *lh_m_member(const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_creation_stop(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_prealloc_known(const struct lh_master *m, uint64_t chunk);
/* The members that the next chunk is placed without; how many. */
uint32_t lh_m_excluded(const struct lh_m_chunk *c, struct lh_m_member *excluded);
/* The one to that server; NULL: none. */
struct lh_m_copy *lh_m_copy_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
/* Is a replica of `c` being copied to the server? */
bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s);

#endif
