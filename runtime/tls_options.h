/* The options for TLS, of the servers and of the command; the library has the same by name. */
#pragma once

#include "base/error.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>

struct lh_tls_options {
    const char *dir;           /* has ca.pem, cert.pem and key.pem; NULL or "": none */
    struct lh_tls_files files; /* each instead of the one there; likewise */
    char *memory[3];
};

/* For a table of flags; `o` is a struct lh_tls_options. */
/* clang-format off */
#define LH_TLS_FLAGS(o)                                                                           \
    {LH_FLAG("tls-dir", STRING, &(o).dir, NULL), .metavar = "DIRECTORY",                          \
        .help = "speak TLS, and trust and show what is in there: ca.pem, cert.pem, key.pem"},     \
    {LH_FLAG("tls-ca", STRING, &(o).files.ca_file, NULL), .metavar = "FILE",                      \
        .help = "the authority whose certificates are trusted (PEM); also instead of that in "    \
                "--tls-dir, as the next two"},                                                    \
    {LH_FLAG("tls-cert", STRING, &(o).files.cert_file, NULL), .metavar = "FILE",                  \
        .help = "the certificate to show (PEM)"},                                                 \
    {LH_FLAG("tls-key", STRING, &(o).files.key_file, NULL), .metavar = "FILE",                    \
        .help = "its key (PEM)"}
/* clang-format on */

#define LH_TLS_FLAG_COUNT 4u

/* Makes `files` complete, or all NULL: no TLS. It points into `o`, until lh_tls_options_free().
 * False: `why` says which file is missing, and nothing needs freeing. */
LH_MUST_USE bool lh_tls_options_take(struct lh_tls_options *o, char *why, size_t why_size);
void lh_tls_options_free(struct lh_tls_options *o);
