/* Which of the masters is the active one (HA-10): what clients and chunkservers share.
 *
 * A finder knows the addresses that it was configured with, which it never forgets, and those of
 * the newest list that an active master gave it. One of them is the *choice*: whoever has something
 * to ask a master asks that one. When this fails, a *round* asks all that are known at once
 * (LH_METHOD_MASTERS), and the first that says of itself that it acts, in a reign not below any
 * that was ever seen, becomes the choice. What one master says of another makes that one known, and
 * asked; it does not make it the choice: a standby goes on naming a master that has just died.
 *
 * A round is over when all have answered, or when some have and the others take longer than
 * `round_patience`: those may hang, and who stands by now may act soon. Their answers still count.
 *
 * If nobody acts, a master that has the newest reign and does not know whether that goes on is the
 * choice: it answers reads (HA-2a), and others wait there.
 *
 * With a single known address nothing is asked unless that master itself says that another one is
 * active, or is of another cluster: whoever failed there tries again there.
 *
 * All of them are masters of one cluster (SES-10): the first one that was chosen says which, unless
 * the owner knows. What names another one is *foreign*: its reign, its list and that it acts count
 * for nothing. It is asked again in each round. An owner of no cluster that knows several addresses
 * asks all of them before it chooses, and waits as long as they may take unless most of those that
 * it was given have named one cluster; where two are named, it chooses none.
 *
 * addresses.c has lists as people write them, cluster.c of which cluster masters are.
 *
 * Pure, and without links: its owner opens those that lh_finder_next() asks for, closes those that
 * lh_finder_late() names, tells what came of them, and calls both again after each call that
 * changes the finder and at lh_finder_deadline(). Addresses are named by their *place*, which does
 * not change while an answer from there is awaited. */
#pragma once

#include "base/error.h"
#include "base/time.h"
#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Addresses that are known at most; of a longer list the first ones are. */
#define LH_MASTERS_MAX 16u

/* Of what lh_finder_trouble() says. */
#define LH_FINDER_TEXT_MAX 768u

/* SES-7: a reign so far above the highest that was seen is no successor's. */
#define LH_REIGN_LEAP (UINT64_C(1) << 22)

/* Zero takes the default that stands beside it. */
struct lh_finder_config {
    struct lh_duration answer_timeout; /* 500 ms: a master that is asked has this long */
    struct lh_duration round_patience; /* 100 ms: a round in which some have answered */
    struct lh_duration pause_min;      /* 50 ms: between two rounds, ... */
    struct lh_duration pause_max;      /* 250 ms: ... doubling up to this while none finds one */
};

enum lh_finder_state {
    LH_FINDER_UNPROVEN, /* the choice may act: nothing was heard of it yet, or not lately */
    LH_FINDER_PROVEN,   /* it acted when it was last heard of */
    LH_FINDER_LOST      /* it failed: there is nobody to be asked until a round finds one */
};

struct lh_finder_master {
    char *address;           /* NULL: a free place */
    bool configured, listed; /* in the newest list */
    bool asked;              /* its answer is awaited ... */
    struct lh_instant until; /* ... until then */
    uint64_t round;          /* the last one in which it was asked */
    char *cluster;           /* that it named last; NULL: none */
    uint64_t named_in;       /* the round then */
    bool acts;               /* in this round it said so, ... */
    uint64_t reign;          /* ... in that reign */
    bool answers;            /* it has answered what it was asked last */
};

/* Others may read the first group. */
struct lh_finder {
    enum lh_finder_state state; /* of the choice */
    uint64_t choices;           /* the number of the choice: names it to the calls below */
    uint64_t reign;             /* the highest seen, of any master */
    uint64_t choice_reign;      /* the choice's own; 0: not known */
    char *cluster;              /* the owner's, for life; NULL: none yet */

    struct lh_finder_config config;
    struct lh_finder_master masters[LH_MASTERS_MAX];
    size_t choice;                /* a place */
    size_t count;                 /* places that are not free */
    bool wanted;                  /* a round is to begin, ... */
    struct lh_instant not_before; /* ... then at the earliest */
    bool asking;                  /* one has begun and is not over */
    bool answered;                /* somebody has, since it began */
    struct lh_instant patient;    /* until then, if somebody has */
    bool found;                   /* it has a result */
    size_t unconfirmed;           /* or the place of a master that says so; LH_MASTERS_MAX: none */
    uint64_t rounds;              /* begun so far */
    unsigned fruitless;           /* of them in a row */
    bool curious;                 /* the only master that was given is to be asked once */
    char *waits;                  /* why a master of no cluster does not act; NULL: none said */
    bool in_vain;                 /* the last one found nobody who may act */
};

/* `addresses` (1 to LH_MASTERS_MAX, all different) are copied; the first is the choice. `cluster`:
 * the owner's; NULL or "": it belongs to none yet. `reign`: the highest that the owner has ever
 * seen; 0: none. */
void lh_finder_init(struct lh_finder *f, const struct lh_finder_config *config, const char *cluster,
    const char *const *addresses, size_t count, uint64_t reign);
void lh_finder_deinit(struct lh_finder *f);

/* Is that reign far above the highest that was seen? Where none was, no reign is. */
bool lh_finder_is_far(const struct lh_finder *f, uint64_t reign);

/* The choice's address: good until the next call that is not const. */
const char *lh_finder_address(const struct lh_finder *f);
const char *lh_finder_address_at(const struct lh_finder *f, size_t place);

/* Whether a single address is known. */
bool lh_finder_alone(const struct lh_finder *f);

/* Is that the owner's cluster, as far as is known? "": a master that names none. */
bool lh_finder_is_ours(const struct lh_finder *f, const char *cluster);

/* What keeps it from choosing, or did: masters of other clusters, or of two; a master that has no
 * cluster. A sentence without its end, of LH_FINDER_TEXT_MAX bytes. False: nothing. */
bool lh_finder_trouble(const struct lh_finder *f, char *text);

/* ---- What the owner finds out by what it does. An old choice's number is ignored. */

/* The choice has answered as an active master does. `reign`: its own; 0: it did not say. */
void lh_finder_acts(struct lh_finder *f, uint64_t choice, uint64_t reign);

/* The choice has named its cluster ("": it did not). False: it is foreign, and is lost. */
LH_MUST_USE bool lh_finder_named(struct lh_finder *f, uint64_t choice, const char *cluster);

/* The choice could not be reached, did not answer, or has refused as one that does not act. With a
 * single known address only NOT_ACTIVE counts. */
void lh_finder_failed(struct lh_finder *f, uint64_t choice, int error);

/* The choice is silent: rounds ask until lh_finder_acts(), or until one finds an active master. It
 * stays the choice, unless that is one of a higher reign. Nothing happens if it is alone. To be
 * called again now and then while the silence lasts: the choice may act, and then be silent. */
void lh_finder_doubt(struct lh_finder *f);

/* The list that the choice has given. Empty: it is alone, and nothing changes. */
void lh_finder_learn(struct lh_finder *f, uint64_t choice, char *const *addresses, size_t count);

/* HA-9a: the last round has found no active master, nor one that does not know whether it is, none
 * was heard since, and this one has answered what it was asked last. */
bool lh_finder_is_heard_in_vain(const struct lh_finder *f, size_t place);

/* ---- Rounds. */

/* True: a MastersRequest is to be sent to `*place`. Begins a round that is due. */
bool lh_finder_next(struct lh_finder *f, struct lh_instant now, size_t *place);

/* Likewise, in no round: an owner of no cluster that was given a single address, and has been
 * answered there, asks once which cluster that is and which masters there are. For owners that do
 * not hear of it in other ways. */
bool lh_finder_introduce(struct lh_finder *f, struct lh_instant now, size_t *place);

/* True: the answer from `*place` is late, and not awaited any more; its link is to be closed. Ends
 * rounds, too. */
bool lh_finder_late(struct lh_finder *f, struct lh_instant now, size_t *place);

/* The answer from that place. */
void lh_finder_answered(
    struct lh_finder *f, struct lh_instant now, size_t place, const Leasehold__MastersReply *m);

/* There is none; `error` is what its link ended with. UNIMPLEMENTED is the answer of a master from
 * before there were several: it acts. */
void lh_finder_unanswered(struct lh_finder *f, struct lh_instant now, size_t place, int error);

/* When lh_finder_next() or lh_finder_late() has something to say; LH_INSTANT_NEVER. */
struct lh_instant lh_finder_deadline(const struct lh_finder *f);

/* The same for an owner that begins no round now, since nobody needs to know. */
struct lh_instant lh_finder_late_at(const struct lh_finder *f);

/* Asserts its own invariants. */
void lh_finder_check(const struct lh_finder *f);

/* ---- Lists as people write them (addresses.c). */

/* INVALID_ARGUMENT: there is none, there are too many, one is malformed (host:port is wanted, or
 * unix:path), or one stands there twice; `text` says which, in a sentence without its end. */
LH_MUST_USE int lh_masters_check(
    const char *const *addresses, size_t count, char *text, size_t text_size);
