/* Capabilities of chunks that were listed (ACC-5), for who looks at replicas one by one. */
#pragma once

#include "client/library/library.h"

/* Of a cluster; any thread. */
struct lh_capabilities;

struct lh_capabilities *lh_capabilities_create(void);
void lh_capabilities_destroy(struct lh_capabilities *all);
/* Keeps what the listed chunk came with, in place of what was kept for it. `prefix`: of the
 * listing. Beyond a bound the one kept first is dropped. */
void lh_capabilities_keep(
    struct lh_capabilities *all, const char *prefix, const Leasehold__ChunkInfo *listed);
/* A copy of the chunk's, to be freed with its `data`; empty: none is kept. `*prefix`, a copy too:
 * of the listing it came with, or "". */
ProtobufCBinaryData lh_capabilities_of(struct lh_capabilities *all, uint64_t chunk, char **prefix);
