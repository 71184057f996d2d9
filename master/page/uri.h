/* What is asked for: "/path?name=value&name=value", taken apart strictly. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LH_URI_PARAMETERS_MAX 8u
#define LH_URI_BYTES_MAX      4096u

struct lh_uri {
    char *path; /* as it came: what is served has no escapes in its path */
    struct {
        char *name, *value; /* values without escapes; UTF-8, and no NUL in it */
    } parameters[LH_URI_PARAMETERS_MAX];
    size_t count;
    char *text; /* what the above point into */
};

/* False: it is too long, has more parameters, one of them twice, a broken escape, or bytes that
 * are no UTF-8. The URI is then empty, and has nothing to be freed. */
bool lh_uri_parse(struct lh_uri *uri, const char *text);
/* Does a browser that sends this Host ask for us? An IP address, localhost and the names of `names`
 * (separated by commas, may be NULL) do, with or without a port. Others may be a name that somebody
 * else points to this address, so as to read what his own page may not (DNS rebinding). */
bool lh_uri_is_host(const char *host, const char *names);

void lh_uri_deinit(struct lh_uri *uri);
