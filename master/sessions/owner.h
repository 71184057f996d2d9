/* What sessions report to those above them, who fill this in: a session knows no chunk. */
#ifndef LH_MASTER_SESSIONS_OWNER_H
#define LH_MASTER_SESSIONS_OWNER_H

#include "master/tables/tables.h"

/* The process that registers, against the one that registered before. */
struct lh_m_process {
    bool same;   /* as far as is known */
    bool proven; /* by the number that it drew (SES-5a) */
};

/* For one body of SessionRequest. */
struct lh_m_session_handler {
    uint64_t (*session)(const Leasehold__SessionRequest *request); /* that it names */
    void (*take)(
        struct lh_master *m, struct lh_m_server *s, const Leasehold__SessionRequest *request);
};

struct lh_m_session_owner {
    /* A session has begun. What the registration shows of leases goes on in it, as far as it can:
     * `continued` has room for all of them, `*count` says how many do. */
    void (*began)(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
        struct lh_m_process process, struct lh_m_chunk **continued, size_t *count);
    /* The registration is durable and answered: from now on the server can be sent something. */
    void (*announced)(struct lh_master *m, struct lh_m_server *s);
    /* A heartbeat came: `extended[i]` is to say whether its i-th lease is (LEASE-4). True: what the
     * server believes differs, and it is to show its leases (LEASE-8). */
    bool (*heard)(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
        bool *extended);
    /* And was answered. */
    void (*answered)(struct lh_master *m, struct lh_m_server *s);
    /* The server's stream is gone (NULL: one that was nobody's); the session goes on. */
    void (*stream_ended)(struct lh_master *m, struct lh_m_server *s);
    /* What the server said in its session is void, and if it is `replaced` by a new registration,
     * what that one said, too. */
    void (*ended)(struct lh_master *m, struct lh_m_server *s, bool replaced);
    /* Its session ended, or its disk began to fail or to answer. */
    void (*changed)(struct lh_master *m, struct lh_m_server *s);
    /* By body; those without `take` are unknown. */
    const struct lh_m_session_handler *handlers;
    size_t handler_count;
};

#endif
