/* Chunkservers and what they have: what a replica is worth, where one can go, what may be
 * deleted. */
#pragma once

#include "master/sessions/sessions.h"
#include "master/tables/tables.h"

/* ---- Chunkservers and their sessions, for all who ask about them. */

static inline struct lh_m_server *lh_m_session_server(struct lh_m_session *session)
{
    return LH_OWNER(session, struct lh_m_server, session);
}

static inline bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_lease_client_live(&m->leases, &s->session.client);
}

static inline bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_session_reachable(m, &s->session);
}

static inline bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_session_looks_alive(m, &s->session);
}

static inline bool lh_m_send(
    struct lh_master *m, const struct lh_m_server *s, const Leasehold__SessionReply *reply)
{
    return lh_m_session_send(m, &s->session, &reply->base);
}

/* This master begins: no server has a session with it yet. */
void lh_m_servers_start(struct lh_master *m);
/* Servers come or go now: whoever can wait for a full set should, for a moment. */
void lh_m_unsettled(struct lh_master *m);

/* ---- health.c */

enum lh_m_health lh_m_member_health(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
const char *lh_m_health_text(enum lh_m_health health);
/* Is the server gone (KEEP-1), and has the operator said that it will not come back (by
 * decommissioning it)? Nobody waits for what it alone may have. */
bool lh_m_given_up(const struct lh_master *m, const struct lh_m_server *s);
/* Could others copy the chunk from this member? */
bool lh_m_is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
/* Has its server said in its present session that what it has can be read, though the replica is
 * lost, or cannot record the seal that its log adds up to (REC-8, REC-9)? */
bool lh_m_is_kept(const struct lh_master *m, const struct lh_m_member *member);
/* Its server reports that its disk does not answer or cannot be written; `read_only`: that what it
 * has can be read (REC-8), which it says only of a failing one. */
void lh_m_disk_fails(struct lh_master *m, struct lh_m_server *s, bool failing, bool read_only);
/* How long a server without a session, or with a failing disk, still counts. */
struct lh_duration lh_m_grace_left(const struct lh_master *m, const struct lh_m_server *s);
/* The server has shown in its present session that it has the replica of `c`; nothing if it is no
 * member. */
void lh_m_seen(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
/* The server's registration tells of its replica of `c`. */
void lh_m_reported(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, const struct lh_m_report *r);
/* The member's replica is damaged (FAIL-4): durable with this step. `kept`: its server, which has a
 * session, says that its whole batches can be read. */
void lh_m_lose(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member, bool kept);
/* The server's session began, ended, or its disk began to fail or to answer. */
void lh_m_server_changed(struct lh_master *m, struct lh_m_server *s);

/* ---- placement.c */

/* Counts on room at a server until it next tells how much it has. */
void lh_m_reserve(struct lh_m_server *s, uint64_t bytes);
/* What the file's next chunk will take until then: a little, or as much as its last ones have. Not
 * the whole chunk: thousands of files may be created meanwhile, and most stay small. */
uint64_t lh_m_likely(const struct lh_master *m, const struct lh_m_file *f);
/* Chooses up to `wanted` servers for a replica of `bytes`, none of the `exclude`d; how many it
 * found. */
uint32_t lh_m_place(struct lh_master *m, uint64_t bytes, uint32_t wanted,
    const struct lh_m_member *exclude, uint32_t exclude_count, struct lh_m_server **chosen);
/* A server for one more copy of `bytes`, which `joins` an open chunk; NULL: none. */
struct lh_m_server *lh_m_place_copy(struct lh_master *m, uint64_t bytes, bool joins,
    const struct lh_m_member *exclude, uint32_t exclude_count);
/* A member that joined at the server was left out, or became full. After a failure none joins there
 * for a while, twice as long each time (REC-3). */
void lh_m_join_failed(struct lh_master *m, struct lh_m_server *s);
void lh_m_join_done(struct lh_m_server *s);
bool lh_m_may_join(const struct lh_master *m, const struct lh_m_server *s);
/* Has the server given no sign of life since others last missed it? No new chunk is put there: who
 * waits for the chunk would wait for the server. */
bool lh_m_missed(const struct lh_m_server *s);
/* Could the server take a replica of `bytes` now? */
bool lh_m_fits(const struct lh_master *m, const struct lh_m_server *s, uint64_t bytes);
/* Only that: has its disk so much space beyond what was placed there already? */
bool lh_m_has_space(const struct lh_m_server *s, uint64_t bytes);
/* Are both in one failure domain? A server that names none is one of its own. */
bool lh_m_same_domain(const struct lh_m_server *a, const struct lh_m_server *b);
/* The server cannot take a replica: nothing is put there for so long. */
void lh_m_avoid(struct lh_master *m, struct lh_m_server *s, struct lh_duration pause);
/* Others miss the server now (lh_m_missed()). */
void lh_m_note_missed(struct lh_master *m, struct lh_m_server *s);

/* ---- reach.c: SES-8 */

/* Was the server heard at the address that it gave? Nothing is placed there otherwise. One that
 * does not answer such calls counts as heard. */
static inline bool lh_m_reached(const struct lh_m_server *s)
{
    return !s->reach.identifies || s->reached != 0 || LH_PLANTED("placed-unheard");
}

/* It has registered. `moved`: with another address than before. */
void lh_m_reach_begin(struct lh_master *m, struct lh_m_server *s, bool identifies, bool moved);
/* Its session is over: it is not called any more. */
void lh_m_reach_end(struct lh_master *m, struct lh_m_server *s);
void lh_m_reach_stop(struct lh_master *m);
/* Others say that they do not reach it: it is called again. */
void lh_m_reach_doubt(struct lh_master *m, struct lh_m_server *s);
/* Inputs of links that were opened here. */
void lh_m_reach_message(struct lh_master *m, uint64_t link, const Leasehold__IdentifyReply *answer);
void lh_m_reach_closed(struct lh_master *m, uint64_t link, int error, const char *text);
/* Why nothing is placed there: a sentence without its name and full stop; "": it was heard. */
const char *lh_m_unheard(const struct lh_m_server *s);

/* ---- reports.c */

void lh_m_on_lost(struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaLost *report);
void lh_m_look_at_reports(struct lh_master *m);
/* Are there some that can be looked at now? */
bool lh_m_reports_wait(const struct lh_master *m);
/* What a registration tells of replicas, a piece of it: kept, and looked at in steps once the
 * registration is answered. `more`: other pieces follow. Until all have come and were looked at,
 * its replicas count as away or lost. */
void lh_m_reports_add(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *items,
    size_t count, bool more);
void lh_m_reports_forget(struct lh_master *m, struct lh_m_server *s);
/* The registration is answered, or all of it was looked at. */
void lh_m_reports_follow(struct lh_master *m, struct lh_m_server *s);
/* The session is over, or another one begins: from now on it is not known what the server has. */
void lh_m_reports_end(struct lh_master *m, struct lh_m_server *s);
/* Has all that the registration of its session tells been looked at? */
bool lh_m_heard_out(const struct lh_m_server *s);
/* Has it been away for longer than the grace period, or in sessions without having shown all? */
bool lh_m_is_gone(const struct lh_master *m, const struct lh_m_server *s);
void lh_m_on_possible_loss(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__PossibleLoss *report);

/* ---- extras.c */

/* A replica of `c` lies at `s`, which is not a member: reported at, or dropped at, `version`. */
void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying);
/* A chunkserver's session ended or is replaced: its next registration tells again. */
void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s);
void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c);
/* A live server with room that has a replica of `c`, which a copy can begin with; NULL: none. */
struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c);
/* The one at that server; NULL: none. */
struct lh_m_extra *lh_m_extra_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_extra_forget(struct lh_master *m, struct lh_m_extra *e);
/* There may be something to delete: it is looked at before long. */
void lh_m_garbage_soon(struct lh_master *m);

/* ---- behind.c */

/* The operator says that the store was restored from a backup: raises what may be in use, but for
 * the reign (SES-9). */
void lh_m_restored(struct lh_master *m);
/* Looks for a sign of that in the number of a chunk that a server has. True: it is one. */
bool lh_m_number_evidence(struct lh_master *m, const struct lh_m_server *s, uint64_t chunk);
/* Looks for signs of that in a report; `c` is NULL if there is no such chunk. True: it is one. */
bool lh_m_report_evidence(
    struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c, const struct lh_m_report *r);

/* A member's replica of an open chunk is reported: sealed, which the record is not, or not. */
void lh_m_note_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member,
    const struct lh_m_report *r);

/* ---- commands.c */

void lh_m_record_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
void lh_m_send_remove(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
/* CreateReplica of chunk `id` of `f` to one server, if it is alive. */
void lh_m_send_create(
    struct lh_master *m, const struct lh_m_file *f, uint64_t id, struct lh_m_server *s);
/* A removal that has to wait until the operator has looked. */
void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
/* Keeps a removal for the next look at what is to be deleted. The server must be in session. */
void lh_m_keep_order(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
