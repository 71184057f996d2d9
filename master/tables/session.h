/* A session of any kind of client, and its streams. Of sessions/. */
#pragma once

#include "lease/untracked.h"
#include "master/tables/common.h"

/* Kinds of clients. */
enum lh_m_client { LH_M_CHUNKSERVER, LH_M_PROGRAM, LH_M_CLIENTS };

/* Answers that were sent to a client and not confirmed yet (SES-4). */
#define LH_ANSWERS 8

/* The session that a client has, or had; part of the client's record. */
struct lh_m_session {
    struct lh_lease_client client; /* and the leases in it */
    const char *name;              /* the client's, for logs */
    uint32_t number;               /* of the sessions with this master that it had */
    uint64_t link;                 /* 0: none; the session may go on without one */
    bool announced;                /* its registration was answered */
    bool announcing;               /* the answer waits in `announcement` until that is durable */
    struct lh_buf announcement;
    struct lh_instant registered_at; /* when the present session began */
    uint64_t stamp;                  /* of the last heartbeat, or of the registration */
    struct {
        uint64_t stamp;
        struct lh_instant at;
        bool sent;
    } answers[LH_ANSWERS];
    unsigned answer_next;
    struct lh_instant confirmed_at; /* when the newest answer that it received was sent */
    struct lh_instant inquired_at;  /* when it was last asked whether it lives */
    struct lh_instant silent_since; /* when it was first asked so without having answered since */
    bool inquired;
    struct lh_instant away_since; /* without a session: since then, or since this master's start */
};

/* A stream of sessions. */
struct lh_m_link {
    uint64_t id; /* also when it is over */
    struct lh_link link;
    enum lh_m_client kind;
    struct lh_m_session *session; /* NULL: nobody has registered on it yet */
    lh_session_id registered;     /* the one that was */
    char *identity;               /* who opened it (base/step.h); NULL: nobody says so */
    char *peer;                   /* of a chunkserver: where it came from */
    void *pieces; /* of the last registration on it (SES-1a); its kind's. NULL: none */
};
