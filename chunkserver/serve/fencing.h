/* Adopting a version when the master asks for it (FAIL-2a). */
#ifndef LH_CHUNKSERVER_SERVE_FENCING_H
#define LH_CHUNKSERVER_SERVE_FENCING_H

#include "chunkserver/serve/serving.h"

void lh_cs_fencing_message(struct lh_cs_serving *room, const Leasehold__Fence *m);

#endif
