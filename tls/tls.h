/* The files behind TLS: an authority's certificates, and this side's certificate and key.
 *
 * They are read and checked as a whole, and so is what replaces them: somebody renews certificates
 * while we run. New connections use the new ones; connections that are open go on as they began.
 * What cannot be used (damaged, a key of another certificate, run out, of another authority) is
 * logged and counted once, and the old ones stay.
 *
 * Everything here may be called by any thread. */
#pragma once

#include "base/error.h"
#include "base/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files in PEM; NULL: none. */
struct lh_tls_files {
    const char *ca_file; /* whose certificates are trusted; NULL: no TLS */
    /* What this side shows of itself: its certificate, with intermediate ones behind it, and the
     * key. Both or neither, and only with a CA. */
    const char *cert_file, *key_file;
};

/* Whether any is named. What then lacks, lh_tls_open() says. */
bool lh_tls_is_wanted(const struct lh_tls_files *files);

/* What the files are for, and so what they have to fulfil. */
enum lh_tls_use {
    LH_TLS_CALLS,   /* of nodes of ours: all three; the CA has signed the certificate for clients */
    LH_TLS_SERVES,  /* the same, and for servers: a server calls others, and itself */
    LH_TLS_FOREIGN, /* of a server that is not ours, whose authorities are its own affair: the CA;
                       perhaps a certificate and a key, by whomever */
};

struct lh_tls;

/* Reads and checks the files of `files`, whose ca_file is not NULL. `log` (may be NULL) is told, by
 * any thread, of what replaces them later; it must not call back.
 *   INVALID_ARGUMENT  `why` names the file and what is wrong with it */
LH_MUST_USE int lh_tls_open(const struct lh_tls_files *files, enum lh_tls_use use,
    void (*log)(enum lh_level level, const char *text), struct lh_tls **tls, char *why,
    size_t why_size);

/* NULL is allowed. */
struct lh_tls *lh_tls_ref(struct lh_tls *tls);
void lh_tls_unref(struct lh_tls *tls);

/* Has the files been replaced, reads them. Looks at most once a second, so that everybody may call
 * it who is about to need them; a server does so all the time. NULL is allowed. */
void lh_tls_housekeep(struct lh_tls *tls);

/* What the files contained when they were last found usable. */
struct lh_tls_pem {
    _Atomic uint32_t references;
    uint64_t generation;    /* 1, 2, ... */
    char *ca, *cert, *key;  /* the last two may be NULL; a secret: never logged */
    int64_t not_after_unix; /* when the certificate runs out; 0: there is none */
};

/* The present one, with a reference for the caller. */
struct lh_tls_pem *lh_tls_current(struct lh_tls *tls);
void lh_tls_pem_unref(struct lh_tls_pem *pem);

/* Certificates that a peer may show. */
#define LH_TLS_CHAIN_MAX 16u

/* A certificate as it came over a connection. */
struct lh_tls_der {
    const unsigned char *bytes;
    size_t size;
};

/* Who a peer is by the certificates that it showed to a server of this process that is not gRPC's:
 * the same name, checked by the same authority (ACC-1). The first one is its own; others lead to
 * the authority. False: it is nobody we know, and `identity` is a sentence why. */
bool lh_tls_peer(struct lh_tls *tls, const struct lh_tls_der *certs, size_t count,
    char identity[LH_LINK_IDENTITY_MAX + 1]);

/* Who the certificate in that file (PEM) says that its owner is; as above. Nothing is checked. */
bool lh_tls_owner(const char *cert_file, char identity[LH_LINK_IDENTITY_MAX + 1]);
/* The same of a certificate in PEM. */
bool lh_tls_owner_of_pem(const char *pem, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* What a certificate says of its owner, as a library shows it that has taken the certificate apart.
 * Zeroed at first; refers to the library's bytes. */
struct lh_tls_names {
    unsigned uris;   /* of ours */
    const char *uri; /* the last of them */
    size_t uri_size;
    const char *subject; /* NULL: none */
    size_t subject_size;
};

/* A URI among the certificate's alternative names; ignored if it is none of ours. */
void lh_tls_names_add_uri(struct lh_tls_names *names, const char *uri, size_t size);
/* The name that is kept, compared and logged: all of it or nothing. False: it names nobody, and
 * `identity` is a sentence why. */
bool lh_tls_names_choose(const struct lh_tls_names *names, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* A name that this side's certificate is for: its first DNS name, or else its first IP address.
 * False: it has none. */
LH_MUST_USE bool lh_tls_host(struct lh_tls *tls, char *host, size_t host_size);

/* Is the certificate in that file (PEM) for the host of `address` (host:port, [v6]:port)? As who
 * dials that address will look. True also of a file that cannot be read, and of unix:/path. */
bool lh_tls_is_for(const char *cert_file, const char *address);

struct lh_tls_figures {
    int64_t not_after_unix;
    uint64_t renewed, refused;  /* since the start: files taken up, and found unusable */
    uint64_t handshakes_failed; /* of this process, on either side */
};

/* Adds to `figures`, which are zeros at first; of several certificates the first to run out counts.
 * NULL is allowed. */
void lh_tls_figures(struct lh_tls *tls, struct lh_tls_figures *figures);

/* A sentence about a handshake of this process that failed. */
void lh_tls_note_failed_handshake(const char *text);
