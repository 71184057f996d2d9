#include "base/cluster.h"

#include "base/seal.h"

#include <string.h>

uint64_t lh_cluster_hash(const char *id)
{
    static const char what[] = "cluster";

    if (id == NULL || id[0] == '\0')
        return 0;
    uint64_t hash = lh_seal_hash(what, strlen(what), id, strlen(id));
    return hash == 0 ? 1 : hash;
}
