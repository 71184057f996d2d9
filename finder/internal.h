/* What the files of this folder know of each other. */
#pragma once

#include "finder/finder.h"

/* What a list from the network may hold; what is longer is no address, and no cluster's id. */
#define ADDRESS_BYTES_MAX 256u

/* ---- cluster.c */

bool lh_finder_is_foreign(const struct lh_finder *f, size_t place);
/* It names that cluster; "": none. */
void lh_finder_names(struct lh_finder *f, size_t place, const char *cluster);
/* The owner belongs to the choice's cluster from now on. */
void lh_finder_join(struct lh_finder *f);
/* No cluster was chosen, and all are asked which theirs is. */
bool lh_finder_is_undecided(const struct lh_finder *f);
/* Of an owner of no cluster: two masters have named different ones in this round. */
bool lh_finder_is_torn(const struct lh_finder *f);
/* Its answer counts for nothing. Was it the choice, it has become another cluster's. */
void lh_finder_foreign(struct lh_finder *f, size_t place);
/* Have more than half of those that were given named one cluster in this round? */
bool lh_finder_most_agree(const struct lh_finder *f);
/* Why a master that belongs to no cluster does not act: who waits for one is told. */
void lh_finder_note_waiting(struct lh_finder *f, size_t place, const Leasehold__MastersReply *m);
