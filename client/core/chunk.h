/* What the master says of a chunk. */
#pragma once

#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A server of a chunk's replica set. */
struct lh_client_member {
    char *server_id;
    char *address; /* lh_server_at(): who it is, and where; "" if not known */
    /* For a chunk reader: what has become of it in the round over all members. */
    bool tried, corrupt;
    /* Behind damage (REC-9a): what it has answered to that, and where in the chunk its next whole
     * batch begins, or where the chunk ends. LH_OK: nothing yet. */
    int said;
    uint64_t next;
};

/* Owned copies. */
struct lh_client_chunk {
    uint64_t chunk, version;
    uint64_t start, length;
    bool sealed;
    char *primary; /* server_id or "" */
    struct lh_client_member *members;
    size_t member_count;
    ProtobufCBinaryData capability; /* for its servers (ACC-5); a secret */
};

void lh_client_chunk_copy(struct lh_client_chunk *to, const Leasehold__ChunkInfo *from);
void lh_client_chunk_deinit(struct lh_client_chunk *chunk);
