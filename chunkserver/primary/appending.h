/* What comes on append streams. */
#pragma once

#include "chunkserver/primary/internal.h"

/* The primary takes appends now: answers openings that waited. */
void lh_cs_lane_open_all(struct lh_cs_primary *p);
