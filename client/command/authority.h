/* A small authority for TLS, for those who have none: one key and certificate in a directory, which
 * signs those of the nodes. `leasehold certs` is what users see of it.
 *
 * Keys are ECDSA on P-256. Files are PEM; those with keys can be read by their owner alone. A file
 * is replaced as a whole, so that a node that uses it reads the old one or the new one. */
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the authority's directory. */
#define LH_AUTHORITY_CERT "ca.pem"
#define LH_AUTHORITY_KEY  "ca.key.pem"

/* In a node's, as --tls-dir has it; there is the authority's, too. */
#define LH_NODE_CERT "cert.pem"
#define LH_NODE_KEY  "key.pem"

/* Makes `dir`, if it is not there, and an authority in it, which replaces another one only with
 * `force`: what that has signed is then worth nothing.
 *   ALREADY_EXISTS, IO, SYSTEM  `why` is a sentence, as below */
LH_MUST_USE int lh_authority_make(
    const char *dir, struct lh_duration valid, bool force, char *why, size_t why_size);

struct lh_authority_wish {
    const char *who;          /* ROLE/NAME */
    const char *const *hosts; /* names and IP addresses that it is reached at */
    size_t host_count;
    struct lh_duration valid; /* no longer than the authority itself is */
};

/* The folder that a node's files go to by default, in the authority's: "ROLE-NAME". To be freed. */
char *lh_authority_folder(const char *dir, const char *who);

/* Makes a key and a certificate that the authority in `dir` signs, into the directory `to`, which
 * is made. A key and a certificate there are replaced only with `force`.
 *   INVALID_ARGUMENT  no such role; a name or host that no certificate has; a server without host
 *   ALREADY_EXISTS, NOT_FOUND (the authority), CORRUPT (it cannot be read), IO, SYSTEM */
LH_MUST_USE int lh_authority_issue(const char *dir, const struct lh_authority_wish *wish,
    const char *to, bool force, char *why, size_t why_size);

/* What a certificate says. */
struct lh_certificate_facts {
    char *subject, *issuer, *identity; /* the last: its URIs leasehold://..., with commas */
    char *hosts;                       /* likewise */
    int64_t from_unix, until_unix;
    bool authority;
};

/* Of the first one in a file. Errors as above; nothing is to be freed then. */
LH_MUST_USE int lh_certificate_read(
    const char *path, struct lh_certificate_facts *facts, char *why, size_t why_size);
void lh_certificate_facts_deinit(struct lh_certificate_facts *facts);
