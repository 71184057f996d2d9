/* What the master says of a chunk. */
#include "base/alloc.h"
#include "client/core/host/host.h"

#include <stdlib.h>
#include <string.h>

void lh_client_chunk_copy(struct lh_client_chunk *to, const Leasehold__ChunkInfo *from)
{
    *to = (struct lh_client_chunk){
        .chunk = from->chunk,
        .version = from->version,
        .start = from->start,
        .length = from->length,
        .sealed = from->sealed,
        .primary = lh_strdup(from->primary),
        .members = lh_alloc_array(from->n_members, sizeof *to->members),
        .member_count = from->n_members,
    };
    for (size_t i = 0; i < from->n_members; i++) {
        to->members[i].server_id = lh_strdup(from->members[i]->server_id);
        to->members[i].address =
            lh_server_at(from->members[i]->server_id, from->members[i]->address);
    }
    if (from->capability.len > 0) {
        to->capability.len = from->capability.len;
        to->capability.data = lh_alloc(from->capability.len);
        memcpy(to->capability.data, from->capability.data, from->capability.len);
    }
}

void lh_client_chunk_deinit(struct lh_client_chunk *chunk)
{
    for (size_t i = 0; i < chunk->member_count; i++) {
        free(chunk->members[i].server_id);
        free(chunk->members[i].address);
    }
    free(chunk->members);
    free(chunk->primary);
    free(chunk->capability.data);
    *chunk = (struct lh_client_chunk){0};
}
