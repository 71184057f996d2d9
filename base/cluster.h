/* The id of a cluster, as calls carry it. */
#pragma once

#include <stdint.h>

/* A hash of the id in 8 bytes (docs/protocol.md, SES-10); 0: of NULL or "". */
uint64_t lh_cluster_hash(const char *id);
