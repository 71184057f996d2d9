/* Adopting a version when the master asks for it (FAIL-2a). */
#pragma once

#include "chunkserver/serve/serving.h"

void lh_cs_fencing_message(struct lh_cs_serving *room, const Leasehold__Fence *m);
