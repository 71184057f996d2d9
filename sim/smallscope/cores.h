/* The real cores in a small world: one master, two chunkservers that both have a replica of one
 * chunk, and somebody who keeps asking for the chunk's primary. It is the simulator's world
 * (sim/world/world.h), but nothing in it is drawn at random: delays are fixed, and what goes wrong
 * goes wrong by the moves.
 *
 * In the first state one of the chunkservers is primary, the master's clock goes as fast as TIME-3
 * allows and the chunkservers' as slowly.
 *
 * The moves:
 *   - time goes on by a step, half a session's term, in which everything happens that is due;
 *   - what goes from the master to a chunkserver, or from a chunkserver to the master, stands still
 *     (is late), or goes on;
 *   - the connection of a chunkserver with the master breaks, and what stands still in it is lost;
 *   - master or chunkserver crashes and starts again at once;
 *   - a clock changes its rate;
 *   - an operator recalls the lease.
 * What is done between two steps of time is done at one moment; of the orders in which that could
 * be done only one is tried, and nothing is done twice.
 *
 * Checked after every event: INV-1, and that nobody acts at a lower version than was acted at
 * before (INV-3); with every grant that is sent: INV-2; and what the world itself checks.
 *
 * What is left out: everything finer than a step, so that messages are late or lost only as a whole
 * direction of a connection; disks that fail; appends. A core's state cannot be looked at as a
 * whole, so a state that comes again in another way is not recognized: every way is one state. */
#pragma once

#include "sim/smallscope/explore.h"

struct lh_cores;

/* Never NULL. */
struct lh_cores *lh_cores_create(void);
void lh_cores_destroy(struct lh_cores *c);

/* Good as long as the cores are. A violation's text is good until the space begins again. */
struct lh_space lh_cores_space(struct lh_cores *c);
