/* The client's state: what every file of the core may look at. Each list in it belongs to the file
 * that is named beside it. */
#pragma once

#include "base/prng.h"
#include "base/probe.h"
#include "base/timers.h"
#include "client/core/active.h"
#include "client/core/client.h"
#include "client/core/leases.h"
#include "proto/leasehold.pb-c.h"

/* lookups.c: which file has a path (VAL-7). */
struct lh_client_lookups {
    enum {
        LH_LOOKUPS_NONE, /* no session */
        LH_LOOKUPS_OPENING,
        LH_LOOKUPS_UP,
        LH_LOOKUPS_CLOSING
    } state;
    struct lh_client_session *session; /* UP */
    struct lh_session_open_call opening;
    struct lh_session_close_call closing;
    struct lh_instant rest_until; /* none is opened before */
    bool ended;                   /* none is opened any more */
    struct lh_lookups_end_call *ending;
    char *host, *process;

    /* hints.c: by file, and by their last use. */
    struct lh_client_hint *hints, *hints_by_use;
    size_t hint_bytes;
};

/* Files that are remembered as just created. */
#define LH_CLIENT_CREATED 16u

struct lh_client {
    struct lh_client_config config;
    struct lh_prng prng;
    struct lh_timers timers;
    struct lh_instant now; /* during a step */
    struct lh_effects *fx; /* during a step */
    bool stopped;

    /* link.c */
    uint64_t last_link;
    struct {
        struct lh_client_link **buckets; /* by id; a power of two of them */
        size_t bucket_count, count;
    } links;

    struct lh_client_active active;       /* active.c */
    struct lh_client_unary *unaries;      /* ask.c ... */
    uint64_t call_client, last_call;      /* ... of calls' ids (HA-12) */
    struct lh_client_question *questions; /* server.c */
    struct lh_client_appender *appenders; /* appender.c */
    char *created[LH_CLIENT_CREATED];     /* opening.c: paths, or NULL; ... */
    unsigned created_next;                /* ... the oldest */
    struct lh_client_reader *readers;     /* reader.c */

    /* session.c */
    struct lh_client_session *sessions;
    size_t session_count;                       /* at most `sessions` of the config */
    struct lh_client_session *touched_sessions; /* by this step */
    struct lh_prng session_ids;
    unsigned guards; /* guard.h */

    struct lh_client_lookups lookups; /* lookups.c */

    struct lh_client_watch *watches; /* watch.c */
    size_t watch_count;

    /* stream.c, lane.c */
    struct lh_client_stream *streams;
    struct lh_client_stream *newest_streams;  /* the newest to each address, if it is not over */
    struct lh_client_stream *touched_streams; /* by this step */
    struct lh_client_lane *touched_lanes;     /* likewise */
    uint64_t last_lane;                       /* its number */
    Leasehold__AppendPart *parts;             /* of the message that is being made ... */
    Leasehold__AppendPart **part_list;        /* ... and where they are */

    /* silent.c */
    struct lh_client_silent *silent;
    size_t silent_count; /* at most `silent_servers` */

    /* hedge.c */
    struct lh_duration read_time, read_spread; /* of answered READs: usually; 0: none yet */
    uint64_t hedge_credit;                     /* in hundredths of a READ */
};
