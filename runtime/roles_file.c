#include "runtime/roles_file.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (16u << 20)

int lh_roles_read(const char *path, struct lh_access **access, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");
    char wrong[512];

    if (file == NULL) {
        int error = errno;
        (void)snprintf(why, why_size, "%s: %s", path, strerror(error));
        return lh_error_from_errno(error);
    }
    char *text = lh_alloc(BYTES_MAX + 1);
    size_t size = fread(text, 1, BYTES_MAX + 1, file);
    int error = ferror(file) != 0 ? LH_ERR_IO : size > BYTES_MAX ? LH_ERR_TOO_LARGE : LH_OK;
    (void)fclose(file);
    if (error != LH_OK)
        (void)snprintf(why, why_size, "%s: %s", path, lh_error_text(error));
    else if ((error = lh_access_parse(text, size, access, wrong, sizeof wrong)) != LH_OK)
        (void)snprintf(why, why_size, "%s, %s", path, wrong);
    free(text);
    return error;
}
