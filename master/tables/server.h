/* A chunkserver. */
#pragma once

#include "master/tables/common.h"
#include "master/tables/session.h"

#define LH_M_SERVER_BITS 23
/* As `registration`: no number of this incarnation counts any more, only answers to challenges. */
#define LH_M_ONLY_CHALLENGED UINT64_MAX

struct lh_m_report {
    uint64_t chunk, version, length;
    uint64_t checksum; /* of a sealed one */
    bool sealed, lost, kept, copying;
};

/* Of inventory/: what it can take. */
struct lh_m_room {
    uint64_t capacity_bytes, free_bytes, replicas;
    uint64_t placed_bytes; /* given to it since it last reported its free bytes */
    bool failing;          /* its disk does not answer, or cannot be written ... */
    bool read_only;        /* ... but read (REC-8); ... */
    struct lh_instant failing_since;
    struct lh_instant avoid_until; /* it lately failed to create a replica */
    uint32_t joins_failed;         /* in a row: members that were left out while they joined */
    struct lh_instant joins_from;  /* none joins there before */
    struct lh_instant missed_at;   /* by its primary, or as one; see lh_m_missed() */
    struct lh_timer grace_timer;   /* away or failing: when its members are GONE (KEEP-1) */
};

/* Of inventory/: whether it is heard at its address (SES-8). `reached`, which is durable, says it.
 */
struct lh_m_reach {
    enum { LH_M_REACH_IDLE, LH_M_REACH_WAITING, LH_M_REACH_CALLED } state;
    bool identifies;             /* it answers such calls */
    uint64_t call;               /* CALLED: the link */
    struct lh_instant called_at; /* the last time */
    uint32_t failures;           /* in a row */
    char *why;                   /* a sentence about the last one; NULL: none since it registered */
    struct lh_timer timer;       /* when it is called again */
    TAILQ_ENTRY(lh_m_server) link; /* of those that wait, or are called */
};

/* Of keep/: what a census has counted on it. */
struct lh_m_census {
    uint64_t members, needed;               /* as the last complete census found them */
    uint64_t members_so_far, needed_so_far; /* in the one under way */
    uint64_t first; /* an earlier census began before the operator's word, and says nothing */
    bool unseen;    /* none began since all was seen that it registered with (SES-1a) */
    bool copying;   /* it was receiving replicas when the one under way began */
    char *obstacle; /* why they have nowhere to go; NULL: as far as is known they have */
};

struct lh_m_server {
    /* Durable (SES-1). */
    char *id;
    char *machine_id, *address, *failure_domain;
    uint64_t incarnation, registration;
    uint64_t process;             /* a number that this process drew; 0: it gave none (SES-5a) */
    uint64_t reached;             /* the process that was heard at `address`; 0: none (SES-8) */
    uint64_t reign;               /* of this store's, the highest that it has on its disk (SES-9) */
    Leasehold__ServerAdmin admin; /* what the operator wants of it */

    uint32_t number; /* in `m->server_list`, for as long as this master runs */
    bool dirty;
    uint32_t pair;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_server) dirty_link;

    struct {
        uint64_t number,
            link; /* SES-1b: the last one that was given, and where; 0: none, or used */
    } challenge;

    struct lh_m_session session;
    struct lh_m_reach reach;
    struct lh_m_room space;
    struct lh_m_census census;
    struct {
        uint64_t batches, bytes; /* that its process had ordered, by its last heartbeat */
        struct lh_instant at;    /* when that came; 0: none of that process has come */
    } ordered;
    struct {
        struct lh_m_report
            *items; /* of the registration: what has come, looked at from `next` on */
        size_t count, capacity, next, unknown;
        bool more;  /* pieces of it are still to come (SES-1a), ... */
        bool waits; /* ... for which it was not asked in this session yet, or ... */
        bool turn;  /* ... is asked, since ... */
        struct lh_instant turn_since;
        bool heard;              /* all has come and was looked at, when the session ran last */
        struct lh_instant since; /* else: since then it has not been so, waiting apart */
    } report;
    uint32_t copies_in, copies_out;  /* replicas that it is receiving, or is the first source of */
    TAILQ_HEAD(, lh_m_extra) extras; /* its replicas of chunks that it is no member of */
    TAILQ_HEAD(, lh_m_kept) kept;    /* removals that wait while nothing is deleted (KEEP-4) */

    TAILQ_ENTRY(lh_m_server) all_link;
    UT_hash_handle hh; /* by id */
};

/* A replica of a chunk that is removed or unknown, kept because nothing is deleted now (KEEP-4), or
 * because its server could not remove it. */
struct lh_m_kept {
    uint64_t chunk, version;
    TAILQ_ENTRY(lh_m_kept) link;
};

/* Is it to take nothing new, and to lose what it has? */
static inline bool lh_m_drained(const struct lh_m_server *s)
{
    return s->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
}

/* Decommissioned, and nothing is left on it: only its name is remembered, so that it stays away. */
static inline bool lh_m_forgotten(const struct lh_m_server *s)
{
    return s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING && s->incarnation == 0;
}

static inline struct lh_m_server *lh_m_client_server(const struct lh_lease_client *client)
{
    return LH_OWNER((uintptr_t)client, struct lh_m_server, session.client);
}

struct lh_m_server *lh_m_server_get(struct lh_master *m, const char *id);  /* made if unknown */
struct lh_m_server *lh_m_server_find(struct lh_master *m, const char *id); /* NULL: unknown */
