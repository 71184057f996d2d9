#include "master/store/stores.h"

#include "master/store/metastore_lmdb.h"

#include <stdio.h>
#include <string.h>

static const struct lh_metastore_kind *const kinds[] = {&lh_metastore_lmdb};

int lh_metastore_open(const char *kind, const char *where, lh_metastore_committed *on_committed,
    void *arg, struct lh_metastore **store, char *why, size_t why_size)
{
    char names[128] = "";
    size_t length = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i]->name, kind) == 0)
            return kinds[i]->open(where, on_committed, arg, store, why, why_size);
        length += (size_t)snprintf(
            names + length, sizeof names - length, "%s%s", i == 0 ? "" : ", ", kinds[i]->name);
    }
    (void)snprintf(
        why, why_size, "there is no kind of metadata store \"%.64s\": use %s", kind, names);
    return LH_ERR_INVALID_ARGUMENT;
}
