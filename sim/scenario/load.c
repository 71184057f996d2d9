/* The one place here that touches the system. */
#include "sim/scenario/scenario.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A file of this size is none of ours. */
#define FILE_BYTES_MAX (4u << 20)

int lh_sim_scenario_load(
    struct lh_sim_scenario *scenario, const char *path, char *error, size_t error_size)
{
    FILE *from = fopen(path, "rb");

    if (from == NULL) {
        (void)snprintf(error, error_size, "%s: %s", path, strerror(errno));
        return lh_error_from_errno(errno);
    }
    char *text = lh_alloc(FILE_BYTES_MAX + 1);
    size_t size = fread(text, 1, FILE_BYTES_MAX + 1, from);
    int result = LH_OK;
    if (ferror(from)) {
        (void)snprintf(error, error_size, "%s: %s", path, strerror(errno));
        result = LH_ERR_IO;
    } else if (size > FILE_BYTES_MAX) {
        (void)snprintf(error, error_size, "%s: larger than any scenario", path);
        result = LH_ERR_INVALID_ARGUMENT;
    }
    (void)fclose(from);
    if (result == LH_OK)
        result = lh_sim_scenario_parse(scenario, text, size, path, error, error_size);
    free(text);
    return result;
}
