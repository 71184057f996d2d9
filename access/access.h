/* Who may do what (docs/protocol.md, ACC): from the identity that a link comes with, the operator's
 * table of roles and a request to yes or no. Pure. A table changes by lh_access_swap() alone:
 * whoever calls that sees to it that nobody uses the table meanwhile.
 *
 * An identity is leasehold://ROLE/NAME or a certificate's subject (base/step.h). An empty one is
 * somebody without a certificate, where nobody has one: everything is allowed then. */
#pragma once

#include "base/step.h"
#include "base/time.h"
#include "proto/codec.h"

#include <protobuf-c/protobuf-c.h>

#define LH_ACCESS_TEXT_MAX 1024 /* bytes of a refusal's sentence */

enum lh_role {
    LH_ROLE_NONE, /* may nothing */
    LH_ROLE_READER,
    LH_ROLE_WRITER,
    LH_ROLE_ADMIN,
    LH_ROLE_CHUNKSERVER,
    LH_ROLE_MASTER,
    LH_ROLE_ETCD, /* where masters keep their metadata: it calls nobody */
    LH_ROLES
};

/* What a method needs. */
enum lh_right {
    LH_RIGHT_LOOK,  /* see how the cluster is: servers, masters, policies */
    LH_RIGHT_READ,  /* see files, names and values below a path */
    LH_RIGHT_WRITE, /* change them, append to them, lock them */
    LH_RIGHT_ADMIN, /* operate the cluster */
    LH_RIGHT_FETCH, /* read a replica */
    LH_RIGHT_SERVE, /* be a chunkserver */
    LH_RIGHTS
};

/* ---- The table of roles. */

struct lh_access;

/* Reads a table (docs/operations.md has its form). MALFORMED, with the line and what is wrong with
 * it in `why`; else *access is the caller's. */
int lh_access_parse(
    const char *text, size_t size, struct lh_access **access, char *why, size_t why_size);
/* NULL is allowed, here and everywhere: a table without lines. */
void lh_access_free(struct lh_access *access);
/* Each says from now on what the other one said: a table in use gets the lines of one that was read
 * after it. Neither is NULL. */
void lh_access_swap(struct lh_access *a, struct lh_access *b);
/* Do both tables give whoever has this identity the same role, name and prefixes? */
bool lh_access_same(const struct lh_access *a, const struct lh_access *b, const char *identity);

/* ---- Decisions. */

/* Somebody, as long as the identity and the table are there. */
struct lh_party {
    const char *identity;
    const char *name; /* the NAME of its URI, or of a chunkserver what the table says; or NULL */
    const struct lh_access_line *line;
    enum lh_role role;
};

void lh_access_party(const struct lh_access *access, const char *identity, struct lh_party *party);
bool lh_party_may(const struct lh_party *party, enum lh_right right);
/* Does it reach that path or name? With `below`: everything that begins with it. */
bool lh_party_reaches(const struct lh_party *party, const char *path, bool below);

/* Where a request names a file or a chunk by its number. NULL: there is none. */
struct lh_access_paths {
    const char *(*of_file)(const void *core, uint64_t file);
    const char *(*of_chunk)(const void *core, uint64_t chunk);
    const void *core;
};

/* May whoever has this identity call the method, with this request? LH_OK, or PERMISSION with a
 * sentence in `text` (LH_ACCESS_TEXT_MAX). `request` NULL: any request at all, asked when a link is
 * opened; what a stream's messages name is asked one by one (lh_access_name()). `paths` NULL:
 * requests name no file by number. */
int lh_access_call(const struct lh_access *access, const char *identity, enum lh_method method,
    const ProtobufCMessage *request, const struct lh_access_paths *paths, char *text);
/* May it do that to the name, or with `below` to all names that begin with it? */
int lh_access_name(const struct lh_access *access, const char *identity, enum lh_right right,
    const char *name, bool below, char *text);
/* Does a rule for all names with that prefix concern whoever has this identity: does it reach one
 * of them? */
bool lh_access_concerns(const struct lh_access *access, const char *identity, const char *prefix);
/* A chunkserver says its own name alone. */
int lh_access_server(
    const struct lh_access *access, const char *identity, const char *server_id, char *text);

/* ACC-8: is whoever has this identity, and answers at an address, the one that a caller means
 * there? Of chunkservers that is the one of that name; of other kinds, or with NULL, any. `apart`:
 * an authority of etcd's own has signed the certificate, and none of the cluster's. */
int lh_access_answers(const struct lh_access *access, const char *identity,
    enum lh_server_kind kind, const char *name, bool apart, char *text);

/* ---- What an operator hears of refusals. */

struct lh_access_log {
    struct lh_instant next; /* the next line; all before are counted */
    uint64_t unsaid;
};

/* Logs the sentence, unless the last one was less than `pause` ago. */
void lh_access_say(struct lh_access_log *log, struct lh_effects *fx, struct lh_instant now,
    struct lh_duration pause, const char *text);

/* ---- Names. */

/* "reader"; the right as a sentence has it: "read". */
const char *lh_role_name(enum lh_role role);
const char *lh_right_name(enum lh_right right);
/* What the method needs; LH_RIGHTS: it is not served. For tests, and for who shows it. */
enum lh_right lh_access_needs(enum lh_method method);
