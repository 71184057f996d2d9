/* Who may take a chunk's appends: chunks as users of the lease service. */
#pragma once

#include "master/tables/tables.h"

/* ---- What leases report to those above them, who fill this in. */

struct lh_m_grant_owner {
    /* Its holder has confirmed the newest version: the chunk has a primary. */
    void (*confirmed)(struct lh_master *m, struct lh_m_chunk *c);
    /* The lease is over; `s` was its holder. */
    void (*over)(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
    /* Its term was over, so nobody has been using the chunk. */
    void (*ran_out)(struct lh_master *m, struct lh_m_chunk *c);
};

/* ---- leases.c */

extern const struct lh_lease_owner lh_m_chunk_leases;

bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c);
/* How long the present lease may still run; zero if there is none. */
struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c);
/* Confirmed and in force in the holder's present session, and not being given up. */
bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c);
/* Gives the free lease to the best member; false: none can have it now. */
bool lh_m_grant_free(struct lh_master *m, struct lh_m_chunk *c);
/* A new version for the present holder (LEASE-3). */
void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c);
/* Could this member be given the free lease? */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member);
/* The lease is over; `why` for the log. */
void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why);
/* For those who look at its events. */
void lh_m_note_confirmed(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c);
/* Sends (again) what the holder has to hear: the grant until it is confirmed, the recall until it
 * is answered. */
void lh_m_push(struct lh_master *m, struct lh_m_chunk *c);
/* The durable grant at the newest version, to the holder's present session. */
void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c);
/* Asks the server, in its present session, to give up what it may act on. */
void lh_m_send_recall(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
/* The chunk is removed: nobody holds it any more. */
void lh_m_grant_forget(struct lh_master *m, struct lh_m_chunk *c);
/* What the store says of a former master's grant. */
void lh_m_grant_load(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *holder,
    uint64_t incarnation, uint64_t version, uint64_t fence);

/* ---- fence.c: TOK-2 */

/* The file takes appends with this token alone from now on, in one commit with a new version of its
 * tail for the present holder. If that cannot have one now, the tail's next grant says so. The
 * token is above the file's; the name is the file's if that has one. */
void lh_m_fence_raise(struct lh_master *m, struct lh_m_file *f, const char *name, uint64_t token);
/* The tail's holder was granted it under an older fence: it is given a new version if it can. */
void lh_m_fence_carry(struct lh_master *m, struct lh_m_file *f);
/* The grant of the tail is under the file's fence. */
bool lh_m_fence_carried(const struct lh_m_chunk *tail);
/* Of a file that is loaded. 0: it has none. */
void lh_m_fence_load(struct lh_master *m, struct lh_m_file *f, const char *name, uint64_t token);

/* ---- answers.c */

void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm);
void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release);
/* Extends what the heartbeat lists, and `extended[i]` says whether its i-th lease was (LEASE-4). */
void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended);

/* A lease that a registration shows. */
struct lh_m_shown {
    uint64_t chunk, version;
};

/* The leases that a registration shows go on in the new session, as far as they are in force
 * (`continued`, with room for all of them). Of the `same_process`, by its incarnation, grants that
 * were not confirmed go over into it; if that is `proven`, what is not shown is free (SES-5a). */
void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const struct lh_m_shown *held,
    size_t held_count, bool same_process, bool proven, struct lh_m_chunk **continued,
    size_t *count);
/* Does the holder believe otherwise (LEASE-8)? */
bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_on_shown(struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown);

/* ---- consent.c */

/* A client has said again that it cannot reach the primary of the chunk's newest version. */
void lh_m_consent_client(struct lh_master *m, struct lh_m_chunk *c);
/* The primary, for which appends wait, has said again that it cannot go on without these. True:
 * it is being asked to let another one. */
bool lh_m_consent_primary(
    struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count);

/* ---- refusals.c */

/* The server does not act, or not any more, on what it was granted just now. It is asked again
 * after `pause` at the earliest. */
void lh_m_refused(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, struct lh_duration pause);
/* And has adopted this version, by its own word. The chunk's lease is over. */
void lh_m_refused_version(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, uint64_t adopted);
void lh_m_accepted(struct lh_master *m, struct lh_m_chunk *c);
/* Is it offered to nobody for now, because everybody has refused? */
bool lh_m_rests(const struct lh_master *m, const struct lh_m_chunk *c);
/* A primary has recovered: who refuses after that begins a new row of refusals. */
void lh_m_refusals_end(struct lh_master *m, struct lh_m_chunk *c);
