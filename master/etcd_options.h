/* Where etcd is and who calls it, as options of leasehold-master and of `leasehold store`. */
#pragma once

#include "base/error.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>

struct lh_reign_config;

struct lh_etcd_options {
    const char *user, *password_file;
    struct lh_tls_files tls;
    /* What a config points to. */
    char *where, *password;
};

/* For a table of flags; `o` is a struct lh_etcd_options. */
/* clang-format off */
#define LH_ETCD_FLAGS(o)                                                                          \
    {LH_FLAG("etcd-user", STRING, &(o).user, NULL), .metavar = "NAME",                            \
        .help = "who this is to etcd, where that asks for it"},                                   \
    {LH_FLAG("etcd-password-file", STRING, &(o).password_file, NULL), .metavar = "FILE",          \
        .help = "a file whose first line is that user's password"},                               \
    {LH_FLAG("etcd-ca", STRING, &(o).tls.ca_file, NULL), .metavar = "FILE",                       \
        .help = "speak TLS with etcd, and trust who has a certificate of this authority (PEM); "  \
                "by default --tls-ca; empty: without TLS"},                                       \
    {LH_FLAG("etcd-cert", STRING, &(o).tls.cert_file, NULL), .metavar = "FILE",                   \
        .help = "this side's certificate (PEM), where etcd asks for one; by default --tls-cert"}, \
    {LH_FLAG("etcd-key", STRING, &(o).tls.key_file, NULL), .metavar = "FILE",                     \
        .help = "its key (PEM); by default --tls-key"}
/* clang-format on */

/* Sets members, prefix, user and password of `config`; `where` is "HOST:PORT,.../PREFIX". `tls`:
 * the files for nodes of ours, which are etcd's where no others are given. They point into `o`,
 * until lh_etcd_options_free(). False: `why` says what is wrong. */
LH_MUST_USE bool lh_etcd_options_take(struct lh_etcd_options *o, const struct lh_tls_files *tls,
    const char *where, struct lh_reign_config *config, char *why, size_t why_size);
void lh_etcd_options_free(struct lh_etcd_options *o);
