/* A chunkserver, room by room (chunkserver.h). */
#pragma once

#include "chunkserver/chunkserver.h"
#include "chunkserver/host/host.h"
#include "chunkserver/log/log.h"
#include "chunkserver/primary/primary.h"
#include "chunkserver/serve/serve.h"
#include "chunkserver/session/session.h"

struct lh_chunkserver {
    struct lh_cs_host host;
    struct lh_cs_logs logs;
    struct lh_cs_primaries *primaries;
    struct lh_cs_serving *serving;
    struct lh_cs_session *session;

    bool started;
    struct lh_instant stop_at; /* while it stops: stop regardless */
};
