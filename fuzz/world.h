/* A core and nothing else, driven by a string of bytes: each byte chooses what happens next, those
 * behind it how. The world keeps the promises of a driver (base/step.h) and no other: messages hold
 * anything, in any order; what a peer sends names what the core has said before, or nonsense; disks
 * fail in every way and bring back any bytes; time jumps; the process starts again at any moment.
 *
 * What must hold: no assertion fails, no memory is misused, nothing leaks, the core's own
 * invariants hold after each step, and what it has stored it can load again. */
#pragma once

#include "base/step.h"
#include "proto/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The string of bytes; behind its end all are 0 (bytes.c) ---- */

struct bytes {
    const uint8_t *at;
    size_t left;
};

uint8_t take_byte(struct bytes *b);
uint64_t take_number(struct bytes *b, unsigned size);

/* ---- What was said (messages.c) ---- */

#define NAMES_MAX  96
#define VALUES_MAX 4

/* Numbers that the core has sent, by the names of their fields: what comes back is one of them more
 * often than not. */
struct said {
    struct {
        const char *name; /* of the field: static */
        uint64_t values[VALUES_MAX];
        unsigned count;
    } fields[NAMES_MAX];
    size_t count;
};

void hear(struct said *said, const ProtobufCMessage *m);
void hear_value(struct said *said, const char *name, uint64_t value);
uint64_t last_said(const struct said *said, const char *name); /* 0: never */

/* Any message of that type; to be freed with lh_wire_free(). */
ProtobufCMessage *make_message(
    const struct said *said, const ProtobufCMessageDescriptor *type, struct bytes *b);

/* Whole batches, or nonsense, or nothing. */
struct lh_buf make_batches(const struct said *said, struct bytes *b, uint64_t checksum);

/* ---- The world (world.c) ---- */

#define LINKS_MAX  64
#define OPS_MAX    256 /* more hang */
#define HEARD_MAX  64
#define FILES_MAX  8
#define STORED_MAX 256

struct link {
    uint64_t id;
    enum lh_method method;
    bool half;      /* it says no more */
    bool notified;  /* what was sent last is to be told of when it has left: at the next tick */
    bool spoken;    /* one message was given in: more only on a stream */
    unsigned held;  /* messages that may still arrive while it is held, plus 1; 0: it is not */
    uint64_t stamp; /* the core's last, to be echoed */
};

struct disk_op {
    uint64_t ticket, file, offset, length;
    enum lh_disk_op op;
    struct lh_buf data;
};

struct file {
    uint64_t id; /* 0 with `there`: the probe's */
    bool there;
    uint8_t *bytes;
    size_t size;
};

struct pair {
    uint8_t *key, *value;
    uint32_t key_size, value_size;
};

struct commit {
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
};

/* What the core has sent, until somebody answers. */
struct heard {
    uint64_t link;
    ProtobufCMessage *message;
};

struct world;

/* What is fuzzed. */
struct part {
    enum lh_method first, last;                           /* that it serves */
    void (*start)(struct world *w, struct lh_core *core); /* with what is stored */
    void (*check)(void *self);
    void (*destroy)(void *self);
    /* A peer that does what is usual: choice `what`. */
    void (*usual)(struct world *w, unsigned what);
    /* The core has sent this; NULL if nobody listens. */
    void (*answer)(struct world *w, struct link *l, const ProtobufCMessage *m);
    void (*completed)(struct world *w, void *call, int error);
    bool store_rots; /* bytes of what is stored may change; start() refuses or takes it */
};

struct world {
    const struct part *part;
    struct lh_core core;
    struct bytes in;
    struct said said;
    struct lh_instant now;
    struct lh_effects fx;
    struct link links[LINKS_MAX];
    size_t link_count;
    uint64_t served;
    struct disk_op ops[OPS_MAX];
    size_t op_count;
    struct file files[FILES_MAX];
    struct commit commits[OPS_MAX];
    size_t commit_count;
    bool store_failed, store_hangs;
    struct heard heard[HEARD_MAX];
    size_t heard_count;
    struct pair stored[STORED_MAX];
    size_t stored_count;
    bool stopped;
    bool friendly;  /* what the core asks for is answered as usual */
    bool damaged;   /* what is stored is not what the core stored */
    unsigned small; /* the part's settings; 0: its bounds are as shipped */
    uint64_t starts;
};

void world_run(struct world *w, const struct part *part, const uint8_t *data, size_t size);

/* For parts. A link may be gone after any of these. */
void world_step(struct world *w, struct lh_input *in);
struct link *world_open(struct world *w, enum lh_method method, const char *peer);
struct link *world_link(struct world *w, enum lh_method method); /* the newest; NULL */
void world_say(struct world *w, struct link *l, const ProtobufCMessage *m, struct lh_buf *payload);
void world_end(struct world *w, struct link *l, int error, const char *text);
/* Nothing is stored any more. */
void world_forget_store(struct world *w);
const struct pair *world_stored(const struct world *w, const char *key);
