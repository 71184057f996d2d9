/* Are the replicas of a file the same? */
#include "sim/scenario/condition.h"
#include "sim/world/disk.h"

#include <string.h>

/* All members are there at the chunk's version, and have the same bytes to the end. */
static bool chunk_is_identical(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk)
{
    const uint8_t *first = NULL;
    uint64_t first_length = 0;

    for (size_t i = 0; i < chunk->member_count; i++) {
        const struct lh_sim_node *node = lh_sim_find(lh_sim_world(c), chunk->members[i].server);
        struct lh_replica_status s;
        uint64_t size;
        if (node == NULL || lh_sim_core(node) == NULL ||
            !lh_chunkserver_replica(lh_sim_core(node), chunk->chunk, &s) || s.lost ||
            s.version != chunk->version || s.sealed != chunk->sealed)
            return false;
        const uint8_t *bytes = lh_sim_file(node, chunk->chunk, &size);
        if (bytes == NULL || size < LH_LOG_START + s.length ||
            (chunk->sealed && s.length != chunk->length))
            return false;
        if (first == NULL) {
            first = bytes;
            first_length = s.length;
        }
        if (s.length != first_length ||
            memcmp(first + LH_LOG_START, bytes + LH_LOG_START, s.length) != 0)
            return false;
    }
    return true;
}

bool lh_sim_file_is_identical(struct lh_sim_cluster *c, const char *path)
{
    struct lh_sim_chunk chunk;

    for (uint64_t i = 0; lh_sim_chunk_at(c, path, i, &chunk); i++)
        if (!chunk_is_identical(c, &chunk))
            return false;
    for (size_t i = 0; i < lh_sim_file_count(c); i++)
        if (strcmp(lh_sim_file_path(c, i), path) == 0)
            return true;
    return false;
}
