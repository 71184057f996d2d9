/* What goes elsewhere although nothing is broken: the state of that. */
#pragma once

#include "master/tables/common.h"

/* The most that `moves_max` can be. */
#define LH_M_MOVES 8u

/* A replica that goes elsewhere although its server is well. */
struct lh_m_move {
    uint64_t chunk;
    struct lh_m_server *from;
    bool for_space;
    bool moved;              /* it is no member any more; its bytes may still be there */
    struct lh_instant until; /* moved: the server has reported its room by then; else: given up */
};

/* See keep/moving.c. */
struct lh_m_moving {
    struct lh_timer timer;
    bool counting;                 /* a census is under way: */
    uint64_t next_chunk;           /* chunks from this one on are still to be seen */
    uint64_t begun, complete;      /* numbers of censuses */
    struct lh_instant next_census; /* if none is under way */
    uint64_t degraded;             /* chunks with too few good replicas, in the last census */
    uint64_t degraded_so_far;
    uint32_t wanted; /* the highest replication of what is needed on a drained server */
    uint32_t wanted_so_far;
    size_t domains;              /* that could take a replica, when the census began */
    unsigned tries;              /* chunks that this step may still look for a better place for */
    struct lh_m_server *fullest; /* its replicas move in this census; NULL: nobody's do */
    struct lh_m_move moves[LH_M_MOVES];
    unsigned move_count;
};
