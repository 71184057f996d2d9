/* What every room of a chunkserver stands on: the step under way, the configuration, timers, links,
 * and the way to the master. It knows nothing of chunks. */
#pragma once

#include "base/probe.h"
#include "base/step.h"
#include "base/timers.h"
#include "chunkserver/host/config.h"
#include "chunkserver/host/counts.h"
#include "chunkserver/host/links.h"
#include "chunkserver/host/uplink.h"
#include "lease/holder.h"

#include <stdbool.h>

struct lh_cs_host {
    struct lh_chunkserver_config config; /* strings and arrays are ours */

    /* Of the step under way. */
    struct lh_instant now;
    struct lh_effects *fx;

    struct lh_timers timers; /* each is called with the host */
    struct lh_cs_links links;
    struct lh_cs_uplink master;
    struct lh_holder *holder; /* of the leases */
    struct lh_chunkserver_counts counts;

    bool stopping;
    bool stopped;
};
