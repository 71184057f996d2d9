#include "runtime/tls_options.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

bool lh_tls_options_take(struct lh_tls_options *o, char *why, size_t why_size)
{
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};
    static const char *const options[] = {"--tls-ca", "--tls-cert", "--tls-key"};
    const char **files[] = {&o->files.ca_file, &o->files.cert_file, &o->files.key_file};
    bool any = false;

    for (size_t i = 0; i < 3; i++) {
        o->memory[i] = NULL;
        if (!given(*files[i]))
            *files[i] = NULL;
        any = any || *files[i] != NULL;
    }
    for (size_t i = 0; i < 3; i++) {
        if (*files[i] != NULL)
            continue;
        if (given(o->dir)) {
            size_t size = strlen(o->dir) + strlen(names[i]) + 2;
            o->memory[i] = lh_alloc(size);
            (void)snprintf(o->memory[i], size, "%s/%s", o->dir, names[i]);
            *files[i] = o->memory[i];
        } else if (any) {
            (void)snprintf(why, why_size,
                "TLS needs an authority, a certificate and its key: %s is missing (or give "
                "--tls-dir)",
                options[i]);
            return false;
        }
    }
    return true;
}

void lh_tls_options_free(struct lh_tls_options *o)
{
    for (size_t i = 0; i < 3; i++) {
        free(o->memory[i]);
        o->memory[i] = NULL;
    }
}
