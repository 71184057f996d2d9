/* The certificates of `leasehold local --tls`; see local_tls.h. */
#include "client/command/local_tls.h"

#include "base/alloc.h"
#include "client/command/authority.h"
#include "client/command/command.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "local"

static char *authority_in(const char *dir)
{
    size_t size = strlen(dir) + sizeof "/tls";
    char *path = lh_alloc(size);

    (void)snprintf(path, size, "%s/tls", dir);
    return path;
}

bool lh_local_tls_begin(const char *dir)
{
    char *authority = authority_in(dir), why[700];
    int error =
        lh_authority_make(authority, lh_seconds(UINT64_C(3650) * 86400), false, why, sizeof why);

    free(authority);
    if (error != LH_OK && error != LH_ERR_ALREADY_EXISTS)
        (void)lh_command_error(0, COMMAND, "%s", why);
    return error == LH_OK || error == LH_ERR_ALREADY_EXISTS;
}

char *lh_local_tls_issue(const char *dir, const char *role, const char *name)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "::1"};
    char who[128], why[700];
    const struct lh_authority_wish wish = {
        .who = who, .hosts = hosts, .host_count = 3, .valid = lh_seconds(UINT64_C(365) * 86400)};

    (void)snprintf(who, sizeof who, "%s/%s", role, name);
    char *authority = authority_in(dir);
    char *folder = lh_authority_folder(authority, who);
    if (lh_authority_issue(authority, &wish, folder, true, why, sizeof why) != LH_OK) {
        (void)lh_command_error(0, COMMAND, "%s", why);
        free(folder);
        folder = NULL;
    }
    free(authority);
    return folder;
}
