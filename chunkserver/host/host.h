/* What every room of a chunkserver stands on: the step under way, the configuration, timers, links,
 * counts, and the way to the master. It knows nothing of chunks. */
#pragma once

#include "access/capability.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/probe.h"
#include "base/step.h"
#include "base/timers.h"
#include "chunkserver/config.h"
#include "flow/links.h"
#include "lease/holder.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct lh_cs_host;
struct lh_cs_link;

/* ---- What a chunkserver counts since its start, for its operator. It decides nothing. */

struct lh_chunkserver_counts {
    uint64_t registrations, heartbeats;
    uint64_t grants, grants_refused, releases, expiries, fenced, recoveries;
    uint64_t batches_ordered, bytes_ordered, batches_committed, repeats;
    uint64_t append_errors[LH_ERROR_NUMBERS]; /* streams and writers refused, by number */
    uint64_t reads, bytes_read, settles;
    uint64_t read_errors[LH_ERROR_NUMBERS];
    uint64_t replicas_lost[LH_ERROR_NUMBERS]; /* by why */
    uint64_t copies, copies_failed;
    uint64_t scrub_replicas;
    uint64_t access_refused;
    uint64_t foreign_calls;                    /* of other clusters (SES-10) */
    uint64_t capabilities_stale;               /* run out, or of a key that is not known here */
    uint64_t pauses;                           /* of this process or its machine, noticed */
    uint64_t disk_shortages;                   /* operations that could not be begun */
    struct lh_histogram append;                /* from the order of a batch to its commit */
    struct lh_histogram disk_write, disk_sync; /* of chunk files */
};

/* ---- links.c: links (flow/links.h) whose messages arrive slowly. */

/* What is to happen with the links of one kind. What is NULL does not concern them. */
struct lh_cs_link_user {
    void (*message)(struct lh_cs_link *l, const void *message, struct lh_buf *payload);
    /* It has ended, and not by our own hand: `gone` is a copy, with `error`. `text` may be NULL. */
    void (*closed)(struct lh_cs_link *gone, const char *text);
    /* A part of a message has come. */
    void (*progress)(struct lh_cs_link *l);
    /* What was sent with `notify` has left. */
    void (*sent)(struct lh_cs_link *l);
    /* The peer will send nothing more. NULL: nothing is said of it. */
    void (*half_closed)(struct lh_cs_link *l);
    /* Its user holds it: it is not read, and its silence is no fault of the peer's. */
    bool (*held)(const struct lh_cs_link *l);
    /* It was silent for too long. False: nobody has ended it. */
    bool (*late)(struct lh_cs_link *l, const char *text);
};

struct lh_cs_link {
    uint64_t id; /* also when it is over */
    struct lh_cs_host *cs;
    void *user_arg;   /* a peer opened it: the user's, whatever it is for; else NULL */
    void *owner;      /* what the link is for, once that is known */
    bool arriving;    /* a message has begun and is not whole */
    bool held;        /* by lh_cs_link_hold() */
    uint64_t cluster; /* the peer's, as a message has named it (SES-10); 0: none has */

    /* Of links.c alone. */
    struct lh_link link;
    const struct lh_cs_link_user *user;
    struct lh_duration silence; /* ours: it is over when nothing comes for so long */
    struct lh_instant arriving_since;
    struct lh_timer timer;          /* when its silence has lasted too long */
    int error;                      /* that it has ended with, for `closed` */
    struct lh_cs_link *prev, *next; /* of those that are held */
};

/* A link that a peer opened, with that input. */
void lh_cs_link_serve(struct lh_cs_host *cs, const struct lh_input *in,
    const struct lh_cs_link_user *user, void *user_arg);
/* Ours. It ends, as if by itself, when nothing at all comes for `silence`. */
struct lh_cs_link *lh_cs_link_open(struct lh_cs_host *cs, const struct lh_cs_link_user *user,
    void *owner, enum lh_method method, const char *address, struct lh_duration silence);
struct lh_cs_link *lh_cs_link_find(const struct lh_cs_host *cs, uint64_t id);
/* Closes and forgets it; a link that is gone already is ignored. */
void lh_cs_link_close(struct lh_cs_host *cs, uint64_t id, int error, const char *text);

/* Nothing more is read from it before lh_cs_links_unhold(). */
void lh_cs_link_hold(struct lh_cs_link *l);
/* Reads again from all that are held. */
void lh_cs_links_unhold(struct lh_cs_host *cs);

/* The message that came ends within something that must come as if it were a message: in pieces,
 * and whole in time, counted from `since`. Else its user's `late` is asked. */
void lh_cs_link_await_rest(struct lh_cs_link *l, struct lh_instant since);

/* Closes it, and tells its user. */
void lh_cs_link_end(struct lh_cs_link *l, int error, const char *text);
/* The same of one that the peer has half closed. */
void lh_cs_link_end_with_peer(struct lh_cs_link *l);

/* Forgets all links; for those that peers opened they have ended. */
void lh_cs_links_deinit(struct lh_cs_host *cs);

/* ---- uplink.c: the way to the master, as far as every room needs it to send the master something.
 * The session itself, which opens and ends it, is session/. */

enum lh_cs_session_state { LH_CS_SESSION_DOWN, LH_CS_SESSION_REGISTERING, LH_CS_SESSION_LIVE };

struct lh_cs_uplink {
    enum lh_cs_session_state state;
    uint64_t link;        /* 0: none */
    uint64_t master_term; /* the highest seen (LEASE-7) */
    uint64_t reign_name;  /* of that reign (SES-9); 0: not known */
    uint64_t stamp_sent;  /* the largest stamp sent in this session */
};

/* False: there is no link to the master. */
bool lh_cs_send(struct lh_cs_host *cs, Leasehold__SessionRequest *m);
/* In session: what is sent counts. */
bool lh_cs_session_live(const struct lh_cs_host *cs);
/* The present session with the master; 0: none. */
uint64_t lh_cs_session_id(const struct lh_cs_host *cs);
/* The message names the present session, and no older master than the newest one seen. */
bool lh_cs_session_named(const struct lh_cs_host *cs, uint64_t session, uint64_t master_term);
/* From when on a term counts that answers what was sent with this stamp (TIME-4). */
struct lh_instant lh_cs_term_begins(const struct lh_cs_host *cs, uint64_t stamp);

/* ---- cluster.c: SES-10. */

/* This server is of that cluster; "": of none yet. */
void lh_cs_cluster_is(struct lh_cs_host *cs, const char *id);
/* As it names its cluster to others; 0: it is of none yet. */
uint64_t lh_cs_cluster_name(const struct lh_cs_host *cs);
/* Who opened the link is of another cluster, as its message says: the link has ended. */
bool lh_cs_cluster_refuses(
    struct lh_cs_host *cs, struct lh_cs_link *l, const ProtobufCMessage *request);

/* ---- capability.c: ACC-5, ACC-6, ACC-9. */

/* Does what a peer showed give these rights on the chunk? LH_OK, and until when; or
 * STALE_CAPABILITY, with a sentence. It holds until NEVER where nobody is asked for one. */
int lh_cs_capability(struct lh_cs_host *cs, uint64_t chunk, unsigned rights,
    const ProtobufCBinaryData *shown, struct lh_instant *until, const char **text);
/* Was the version granted to the peer of the step under way, by what it showed? LH_OK; or
 * STALE_CAPABILITY, with a sentence. */
int lh_cs_may_lead(struct lh_cs_host *cs, uint64_t chunk, uint64_t version,
    const ProtobufCBinaryData *shown, const char **text);
/* The master of that reign has told this server's key to be led by. */
void lh_cs_lead_key(struct lh_cs_host *cs, uint64_t reign, const ProtobufCBinaryData *secret);
/* The master has told these keys, in an answer that echoes `stamp`. */
void lh_cs_capability_keys(
    struct lh_cs_host *cs, uint64_t stamp, Leasehold__CapabilityKey *const *keys, size_t count);

/* ---- The host itself. */

struct lh_cs_host {
    struct lh_chunkserver_config config; /* strings and arrays are ours */
    struct lh_access_log refusals;
    struct lh_capability_keys keys;
    struct lh_capability_keys lead_keys; /* by reign (ACC-9) */

    /* Of the step under way. */
    struct lh_instant now;
    const char *peer; /* the identity of whose input it is; may be NULL */
    struct lh_effects *fx;

    struct lh_timers timers; /* each is called with the host */
    struct {                 /* links.c */
        struct lh_links all; /* users are called with the host, too */
        struct lh_cs_link *held;
    } links;
    struct {           /* cluster.c */
        char *id;      /* "": none yet */
        uint64_t hash; /* 0: none yet */
    } cluster;
    struct lh_cs_uplink master;
    struct lh_holder *holder; /* of the leases */
    struct lh_chunkserver_counts counts;

    bool stopping;
    bool stopped;
};

/* This process has slept, and heard nothing meanwhile: moves `*since`, from which on the silence of
 * others counts, by that time. `*discounted` is what this set last, the caller's to keep. */
void lh_cs_host_discount_pause(const struct lh_cs_host *cs, struct lh_instant *since,
    struct lh_instant *discounted, struct lh_duration slept);
