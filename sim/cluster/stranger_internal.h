/* What the files of strangers share: stranger.c (whom, when), stranger_appends.c, stranger_asks.c
 * (what). Inside sim/cluster/ only. */
#pragma once

#include "sim/cluster/stranger.h"

#include "sim/cluster/internal.h"
#include "sim/cluster/program_internal.h"

#include "base/probe.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* Streams that it has open at once; then the oldest is left alone, and open. */
#define TALKS 24u

/* A stream, or a call, that it began; or one lane of an append stream. */
struct talk {
    uint64_t link; /* 0: none */
    uint64_t lane; /* APPEND */
    enum lh_method method;
    uint64_t chunk, version;
    bool opened;            /* APPEND: the writer is */
    uint64_t writer, first; /* APPEND */
    uint64_t next;          /* APPEND: the batch that is next, from 0 */
};

/* Its session of leases. */
struct stranger_holder {
    uint64_t link; /* 0: none */
    uint8_t id[16];
    bool shown;
    uint64_t answered; /* the stamp of the last answer */
    uint64_t last_id;
    uint64_t change; /* that it was last told to drop a value for */
    struct lh_duration every;
    struct lh_instant beat_at; /* if it has shown */
};

/* A capability that a master gave it. */
struct owned_capability {
    uint64_t chunk; /* 0: none */
    uint8_t bytes[64];
    size_t size;
};

#define CAPABILITIES 12u

/* A capability to lead that some chunkserver was given. */
struct found_lead {
    uint64_t chunk, version;
    char holder[64], member[64];
    uint8_t bytes[33]; /* as docs/formats.md has them */
};

#define LEADS 16u

struct lh_sim_stranger {
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    struct lh_prng random;
    struct lh_instant next;
    bool ended;
    uint64_t links, lanes;
    struct talk talks[TALKS];
    size_t talk;
    struct stranger_holder holder;
    struct owned_capability owned[CAPABILITIES]; /* the newest at `last_owned` */
    size_t last_owned;
    struct found_lead leads[LEADS]; /* the newest */
    size_t found;                   /* so far */
    uint8_t lead_key[32];           /* that the server was told whose certificate it stole, ... */
    uint64_t lead_reign;            /* ... in that reign; 0: none was seen */
    uint8_t shown[64];              /* by the present message */
    struct lh_effects *fx;          /* of the present step */
};

/* ---- Chances ---- */

static inline uint64_t below(struct lh_sim_stranger *x, uint64_t bound)
{
    return lh_prng_below(&x->random, bound);
}

/* What no program means, or just beside what it does. */
uint64_t lh_sim_x_absurd(struct lh_sim_stranger *x, uint64_t right);

/* ---- Whom, and about what ---- */

/* Some file's last chunk, or an older one. False: there is none yet. */
bool lh_sim_x_chunk(struct lh_sim_stranger *x, struct lh_sim_chunk *chunk);

/* The chunk's primary, mostly. */
const char *lh_sim_x_server(struct lh_sim_stranger *x, uint64_t chunk);

/* ---- Streams ---- */

struct talk *lh_sim_x_begin(struct lh_sim_stranger *x, enum lh_method method, const char *address);
/* One more on the stream of `t`. */
struct talk *lh_sim_x_begin_beside(struct lh_sim_stranger *x, const struct talk *t);

/* One of its streams of that method, NONE: of any; NULL: there is none. */
struct talk *lh_sim_x_talk(struct lh_sim_stranger *x, enum lh_method method);

void lh_sim_x_say(struct lh_sim_stranger *x, const struct talk *t, const void *message);

/* ---- stranger_appends.c ---- */

void lh_sim_x_leave_gap(struct lh_sim_stranger *x);
void lh_sim_x_repeat(struct lh_sim_stranger *x);
void lh_sim_x_open_wrongly(struct lh_sim_stranger *x);
void lh_sim_x_send_malformed(struct lh_sim_stranger *x);
void lh_sim_x_mistake_lanes(struct lh_sim_stranger *x);

/* ---- stranger_capabilities.c ---- */

/* What it shows for that chunk: mostly what it was given, else a forgery. Good for one message. */
ProtobufCBinaryData lh_sim_x_capability(struct lh_sim_stranger *x, uint64_t chunk);
/* Keeps what a master gave it. */
void lh_sim_x_hears_of_chunks(struct lh_sim_stranger *x, const struct lh_input *in);

/* ---- stranger_leads.c ---- */

/* From now on it sees what chunkservers are given. */
void lh_sim_x_looks_for_leads(struct lh_sim_stranger *x);
/* It has a chunkserver's certificate, where capabilities are asked for. */
bool lh_sim_x_may_lead(const struct lh_sim_stranger *x);
void lh_sim_x_lead(struct lh_sim_stranger *x);

/* ---- stranger_leases.c ---- */

/* There are programs with leases, and so names. */
bool lh_sim_x_may_lease(const struct lh_sim_stranger *x);
void lh_sim_x_use_leases(struct lh_sim_stranger *x);
void lh_sim_x_hears_of_leases(struct lh_sim_stranger *x, const struct lh_input *in);
void lh_sim_x_beats(struct lh_sim_stranger *x, struct lh_instant now);

/* ---- stranger_poses.c ---- */

/* With certificates: of a master that is down, from now on whenever it is. */
void lh_sim_x_take_address(struct lh_sim_stranger *x);
/* Somebody takes it for that. */
void lh_sim_x_is_called(struct lh_sim_stranger *x, const struct lh_input *in);

/* ---- stranger_asks.c ---- */

void lh_sim_x_read(struct lh_sim_stranger *x);
void lh_sim_x_settle(struct lh_sim_stranger *x);
void lh_sim_x_replicate(struct lh_sim_stranger *x);
void lh_sim_x_speak_in_a_session(struct lh_sim_stranger *x);
void lh_sim_x_ask_master(struct lh_sim_stranger *x);
