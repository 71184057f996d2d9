/* What comes on append streams. */
#ifndef LH_CHUNKSERVER_PRIMARY_APPENDING_H
#define LH_CHUNKSERVER_PRIMARY_APPENDING_H

#include "chunkserver/primary/primary.h"

/* Links that clients opened to append; their room is the primaries'. */
extern const struct lh_cs_link_user lh_cs_append_links;

/* The primary takes appends now: answers openings that waited. */
void lh_cs_stream_open_all(struct lh_cs_primary *p);

#endif
