/* What comes on append streams. */
#pragma once

#include "chunkserver/primary/primary.h"

/* Links that clients opened to append; their room is the primaries'. */
extern const struct lh_cs_link_user lh_cs_append_links;

/* The primary takes appends now: answers openings that waited. */
void lh_cs_lane_open_all(struct lh_cs_primary *p);
