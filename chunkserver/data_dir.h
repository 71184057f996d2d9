/* A chunkserver's data directory: whose it is, and that nobody else is in it.
 *
 *     LOCK       held under flock(2) by the process that uses the directory: a second one is
 *                refused, and a lock that could be taken proves that the last process is dead
 *                (SES-5)
 *     IDENTITY   text: format, server_id, cluster_id, incarnation, master_term, scrub; replaced as
 *                a whole, durably
 *     IDENTITY.new   room for the next one, also on a full disk
 *     chunks/    the chunk files, see runtime/disk.h
 *
 * Opening raises the incarnation and makes that durable before it returns (SES-1): no two processes
 * ever speak under one incarnation, unless the disk cannot be written (REC-8, SES-1b). One thread
 * at a time. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_IDENTITY_TEXT_MAX 64u

/* More than the longest identity that this release writes. */
#define LH_IDENTITY_BYTES_MAX 1024u

struct lh_data_dir;

struct lh_identity {
    char server_id[LH_IDENTITY_TEXT_MAX + 1];
    char cluster_id[LH_IDENTITY_TEXT_MAX + 1]; /* empty: never registered anywhere */
    uint64_t incarnation;                      /* this process's, or of the one before; from 1 */
    uint64_t master_term;                      /* the highest seen (LEASE-7); 0: none */
    uint64_t reign_name;                       /* of that reign (SES-9); 0: not known */
    char scrub[LH_IDENTITY_TEXT_MAX + 1];      /* how far the scrub has come; empty: nowhere */
};

/* What an IDENTITY's text says. `path` is for `why` alone.
 *   WRONG_FORMAT      another release's, or none
 *   CORRUPT           it makes no sense */
LH_MUST_USE int lh_identity_parse(
    const char *path, const char *text, struct lh_identity *identity, char *why, size_t why_size);

/* The text of an identity; at most LH_IDENTITY_BYTES_MAX with its end. Its length. */
size_t lh_identity_print(const struct lh_identity *identity, char *text, size_t size);

/* Opens `path`, creating the directory (not its parents) if it is missing. `server_id` is the name
 * the operator gave this server, or NULL: the directory's own. Until a cluster has taken it in
 * (lh_data_dir_join()) it has none: then it is given `server_id`, or else `certified`, the name in
 * the server's certificate, or else (NULL) a random one.
 * On failure `why` gets a sentence that names the directory and what to do, and nothing changed.
 * A directory that has an identity is opened also if it cannot be written. Then `why` says why not
 * (it is empty otherwise), and the incarnation is that of the process before; see
 * lh_data_dir_unwritten().
 *   IN_USE            another process holds the directory
 *   WRONG_IDENTITY    the directory belongs to another server than `server_id`
 *   WRONG_FORMAT      written by a newer release, or not a chunkserver's directory
 *   INVALID_ARGUMENT  `server_id` is not 1 to 64 letters, digits, '.', '_' or '-'
 *   others            what lh_error_from_errno() says of the call that failed */
LH_MUST_USE int lh_data_dir_open(const char *path, const char *server_id, const char *certified,
    struct lh_data_dir **dir, char *why, size_t why_size);

/* Never changes but through the functions below. */
const struct lh_identity *lh_data_dir_identity(const struct lh_data_dir *dir);

/* Is the identity not on the disk as it should be, because the last attempt to write it failed? The
 * next change writes all of it. */
bool lh_data_dir_unwritten(const struct lh_data_dir *dir);

/* Writes down the cluster that this server now belongs to, durably.
 *   WRONG_IDENTITY    it belongs to another one already
 *   others            as above */
LH_MUST_USE int lh_data_dir_join(
    struct lh_data_dir *dir, const char *cluster_id, char *why, size_t why_size);

/* Writes down, durably, that a master of this term was seen, in a reign of that name (SES-9; 0: not
 * known); a lower one than before is ignored. Errors as above. */
LH_MUST_USE int lh_data_dir_note_master_term(
    struct lh_data_dir *dir, uint64_t master_term, uint64_t reign_name, char *why, size_t why_size);

/* Writes down, durably, how far the scrub has come: digits and blanks, at most
 * LH_IDENTITY_TEXT_MAX of them.
 *   MALFORMED         it is something else
 *   others            as above */
LH_MUST_USE int lh_data_dir_note_scrub(
    struct lh_data_dir *dir, const char *position, char *why, size_t why_size);

/* Bytes that the chunk files take up on the disk, as of now; looks at each of them. */
uint64_t lh_data_dir_used(const struct lh_data_dir *dir);

/* Gives the directory free for another process. NULL is allowed. */
void lh_data_dir_close(struct lh_data_dir *dir);
