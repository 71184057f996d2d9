/* What this server does with its replicas for others: for primaries elsewhere, for readers, for
 * writers that settle, and for the master when it fences or wants a copy. And the scrub. */
#pragma once

#include "chunkserver/primary/primary.h"

struct lh_cs_serving; /* the room: all that is under way */

struct lh_cs_serving *lh_cs_serving_create(struct lh_cs_host *cs, struct lh_cs_logs *logs);
/* The scrub was stopped, and the replicas have gone before. */
void lh_cs_serving_destroy(struct lh_cs_serving *serving);

/* What was copied and scrubbed since the start. */
struct lh_cs_serving_figures {
    uint64_t copies;     /* replicas that are being copied to, now */
    uint64_t copied_in;  /* bytes that copies brought */
    uint64_t copied_out; /* bytes read for copies elsewhere */
    struct {
        uint64_t passes; /* ended */
        uint64_t read;   /* bytes */
        uint64_t found;  /* replicas that had rotted */
        uint64_t chunk;  /* the last one read in this pass; 0: none yet */
        uint64_t rate;   /* bytes a second; 0: it is off */
    } scrub;
};

struct lh_cs_serving_figures lh_cs_serving_figures(const struct lh_cs_serving *serving);
/* Walks the invariants of what is kept with a replica, and asserts them. */
void lh_cs_serving_check(const struct lh_cs_replica *r);

/* ---- Requests. */

/* Links that primaries, readers and those who settle opened; their room is this one. */
extern const struct lh_cs_link_user lh_cs_replicate_links;
extern const struct lh_cs_link_user lh_cs_read_links;
extern const struct lh_cs_link_user lh_cs_settle_links;

/* Ends a step: sends to primaries what gathered in it. */
void lh_cs_feeders_flush(struct lh_cs_serving *serving);

/* The master fences a replica (FAIL-2a), or wants one to be copied to here (REC-4). */
void lh_cs_fencing_message(struct lh_cs_serving *serving, const Leasehold__Fence *m);
void lh_cs_copying_message(struct lh_cs_serving *serving, const Leasehold__CopyReplica *m);

/* ---- Copies. */

/* A new session: what is not asked for in it is given up after a while. */
void lh_cs_copying_session_begins(struct lh_cs_serving *serving);
/* For a heartbeat: how far the copies have come. Freed with lh_cs_copying_progress_free(). */
void lh_cs_copying_progress(const struct lh_cs_serving *serving, Leasehold__Heartbeat *hb);
void lh_cs_copying_progress_free(Leasehold__Heartbeat *hb);
/* Ends the copying to this replica, if there is one, without a word to the master. What is here
 * stays, and stays incomplete. */
void lh_cs_copying_stop(struct lh_cs_replica *r);

/* ---- The scrub (FAIL-4). */

void lh_cs_scrub_start(struct lh_cs_serving *serving);
/* Keeps the position, before a clean stop, and ends. */
void lh_cs_scrub_stop(struct lh_cs_serving *serving);

/* ---- What happens to a replica. */

/* The replica serves its primary no longer: answers with `error` and ends the feed. */
void lh_cs_secondary_end(struct lh_cs_replica *r, int error);
/* Everybody who reads it or asks about it gets `error`. */
void lh_cs_serving_refuse(struct lh_cs_replica *r, int error);
/* It is to be removed: all that is done with it ends. */
void lh_cs_serving_end(struct lh_cs_replica *r);

/* As struct lh_cs_log_users says. */
void lh_cs_secondary_durable(struct lh_cs_replica *r);
/* Primaries that were held are heard again. */
void lh_cs_secondary_release_pressure(struct lh_cs_logs *logs);
void lh_cs_serving_removed(struct lh_cs_replica *r);
void lh_cs_serving_settled(struct lh_cs_replica *r);
void lh_cs_serving_pumped(struct lh_cs_replica *r);
void lh_cs_serving_readable(struct lh_cs_replica *r);
/* The primary is about to give its lease up, since its disk refuses changes (REC-7). */
void lh_cs_fencing_primary_ends(struct lh_cs_replica *r);
void lh_cs_serving_cut_back(struct lh_cs_replica *r, int error);
void lh_cs_serving_lost(struct lh_cs_replica *r, int error);
void lh_cs_serving_differs(struct lh_cs_replica *r);
void lh_cs_serving_read_back(struct lh_cs_replica *r);
