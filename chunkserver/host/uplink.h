/* The way to the master: what every room needs of the session to send the master something. The
 * session itself, which opens and ends it, is session/. */
#pragma once

#include "base/time.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct lh_cs_host;

enum lh_cs_session_state { LH_CS_SESSION_DOWN, LH_CS_SESSION_REGISTERING, LH_CS_SESSION_LIVE };

struct lh_cs_uplink {
    enum lh_cs_session_state state;
    uint64_t link;        /* 0: none */
    uint64_t master_term; /* the highest seen (LEASE-7) */
    uint64_t stamp_sent;  /* the largest stamp sent in this session */
};

/* False: there is no link to the master. */
bool lh_cs_send(struct lh_cs_host *cs, Leasehold__SessionRequest *m);
/* In session: what is sent counts. */
bool lh_cs_session_live(const struct lh_cs_host *cs);
/* The present session with the master; 0: none. */
uint64_t lh_cs_session_id(const struct lh_cs_host *cs);
/* The message names the present session, and no older master than the newest one seen. */
bool lh_cs_session_named(const struct lh_cs_host *cs, uint64_t session, uint64_t master_term);
/* From when on a term counts that answers what was sent with this stamp (TIME-4). */
struct lh_instant lh_cs_term_begins(const struct lh_cs_host *cs, uint64_t stamp);
