/* The client's core: what an embedding program asks for, and how it is done by links to the
 * masters and the chunkservers. Pure: see base/step.h for how it is driven. It never touches a
 * disk.
 *
 * The driver asks by LH_IN_CALL with one of the structs of calls.h and leases.h, and is answered
 * by LH_FX_COMPLETE with the same pointer. A call belongs to the core from the step that it is fed
 * in until its completion; then its outputs are set. Every call completes exactly once;
 * LH_IN_STOP completes what is left with CANCELLED before STOPPED.
 *
 * Batches are packed outside (client/library/pending.c): the core gets whole ones, in any order,
 * and knows them by their sequence numbers. What it keeps of them is bounded by who submits
 * them.
 *
 * client.c composes the rooms: it takes an input to the one that it concerns, and runs what is due.
 * Each has a folder, whose door tells what it is for. Lowest first:
 *   host/     what all stand on: the present step, links, requests to the active master (HA-10)
 *   session/  sessions of the program: their life, their streams (PS)
 *   names/    what is kept in sessions: locks (NL), cached values (VAL), which file has a path
 *             (VAL-7); and watches (VAL-6)
 *   append/   appenders, and the streams that they share (APP-4, APP-5)
 *   read/     readers, and whom they ask for a chunk's bytes (APP-6, FAIL-4) */
#pragma once

#include "base/step.h"
#include "client/core/calls.h"
#include "client/core/config.h"

struct lh_client;

struct lh_client *lh_client_create(const struct lh_client_config *config);

/* Without an LH_IN_STOP before, calls under way never complete; they must still exist, so that
 * their batches can be dropped. */
void lh_client_destroy(struct lh_client *c);

void lh_client_step(struct lh_client *c, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_client_deadline(const struct lh_client *c);
struct lh_core lh_client_core(struct lh_client *c);

/* Walks the core's own invariants and asserts them. */
void lh_client_check(const struct lh_client *c);
