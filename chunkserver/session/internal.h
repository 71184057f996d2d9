/* What the files of this folder know of each other. */
#pragma once

#include "chunkserver/session/active.h"
#include "chunkserver/session/session.h"

struct lh_cs_session {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;
    struct lh_cs_primaries *primaries;
    struct lh_cs_serving *serving;

    bool started;
    struct {              /* registration.c: the one under way, or the last one (SES-1a) */
        uint64_t number;  /* 0: there was none */
        uint64_t pieces;  /* sent */
        bool more;        /* and others are to follow */
        bool pressed;     /* this master does not ask for them */
        uint64_t next;    /* replicas from this number on were not shown yet */
        uint64_t *leases; /* chunks of the leases that there were when it began */
        size_t lease_count, lease_next;
        uint64_t first, last; /* stamps of its pieces */
        uint64_t challenge;   /* that it shows (SES-1b); 0: none */
    } registration;
    uint64_t last_stamp;      /* of the last answer received (SES-4) */
    uint64_t final_heartbeat; /* the last heartbeat's, before a clean stop; 0: not sent */
    struct lh_instant answered_at;
    struct lh_instant discounted; /* `answered_at` as a pause of ours has moved it */
    struct lh_duration heartbeat;
    struct lh_instant heartbeat_at; /* the next one is due */
    struct lh_instant retry_at;     /* there is no session */
    struct lh_duration backoff;
    struct lh_instant unreachable_logged; /* last; 0: not in this outage */
    struct lh_instant refused_logged;     /* likewise */
    struct lh_timer timer;
    struct {          /* probe.c */
        bool failing; /* SES-6: every lease was given up */
        bool probing;
        bool failed;   /* with an error; not `probing` any more */
        bool readable; /* ... and then gave what was asked for (REC-8) */
        int error;     /* that it failed with */
        bool created;
    } disk;
    struct lh_cs_active_master active;
};

/* ---- commands.c */

void lh_cs_commands_message(struct lh_cs_session *s, const Leasehold__SessionReply *m);

/* ---- probe.c */

/* Begins a small write and a sync, unless one is still under way. */
void lh_cs_probe(struct lh_cs_session *s);
/* What is under way tells as much as a probe, and earlier. */
bool lh_cs_disk_fails(const struct lh_cs_session *s);
/* Of one that fails: does it refuse to write, and can be read (REC-8)? */
bool lh_cs_disk_is_read_only(const struct lh_cs_session *s);

/* ---- registration.c */

/* A new registration: sends its first piece. `challenge`: what came with the refusal of the one
 * before on this link (SES-1b); 0, on a new link. */
void lh_cs_registration_begin(struct lh_cs_session *s, uint64_t challenge);
/* The piece before is written: sends the next one, if there is one that is not waited for. */
void lh_cs_registration_go_on(struct lh_cs_session *s);
/* The session begins. `asks`: this master asks for what is left, one piece after the other. */
void lh_cs_registration_answered(struct lh_cs_session *s, bool asks);
/* The master has asked for the next piece. */
void lh_cs_registration_asked(struct lh_cs_session *s);
/* No answer came in time. A master of an earlier release answers when all has come: it gets what is
 * left. False: it has everything, or was sent it. */
bool lh_cs_registration_presses(struct lh_cs_session *s);
/* Was this stamp a piece's? */
bool lh_cs_registration_answers(const struct lh_cs_session *s, uint64_t stamp);
