/* What the files of this folder know of each other. */
#pragma once

#include "master/calls/calls.h"
#include "master/tables/tables.h"

/* ---- named.c */

/* By id if that is not 0, else by path. NULL: `*error` and `text` say why. */
struct lh_m_file *lh_m_file_named(const struct lh_master *m, uint64_t id, const char *path,
    int *error, char *text, size_t text_size);
void lh_m_file_info(const struct lh_m_file *f, Leasehold__FileInfo *info);
/* How long a trashed file can still be restored. */
struct lh_duration lh_m_trash_left(const struct lh_master *m, const struct lh_m_file *f);
/* As lh_m_file_info(), with the time that is left. */
void lh_m_trash_info(
    const struct lh_master *m, const struct lh_m_file *f, Leasehold__FileInfo *info);

/* ---- sentences.c */

#define LH_WHEN_BYTES 32u

struct lh_m_sentences {
    char **items;
    size_t count, capacity;
};

__attribute__((format(printf, 2, 3))) void lh_m_say(
    struct lh_m_sentences *s, const char *format, ...);
/* "850 ms", "8.2 s", "3 min 20 s", "5 h 2 min". Returns `text`. */
const char *lh_m_how_long(struct lh_duration d, char text[LH_WHEN_BYTES]);
/* Appends `id` to a list "a, b, c". */
void lh_m_add_name(char *list, size_t size, const char *id);

/* ---- explain_replicas.c */

/* Why the chunkservers that are there do not suffice. */
void lh_m_describe_servers(struct lh_master *m, struct lh_m_sentences *out, uint64_t bytes,
    const struct lh_m_chunk *without);
/* What each replica of the chunk is worth, and what is done about it. */
void lh_m_describe_replicas(
    struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c);

/* ---- token.c: TOK-2 */

/* OK, or INVALID_ARGUMENT: what the call names makes no sense. */
int lh_m_token_check(const Leasehold__OpenTailRequest *request, char *text, size_t text_size);
/* Calls that wait for the file's tail: raises the fence to the highest token of theirs that is
 * admitted, and refuses whoever is not and never will be. */
void lh_m_tokens_admit(struct lh_master *m, struct lh_m_file *f);
/* Is the caller's token the file's fence (or has it none, and neither has the file)? If not, nobody
 * knows yet. */
bool lh_m_token_is_fence(const struct lh_m_waiter *w);
/* Nobody knows yet. */
void lh_m_describe_awaited(const struct lh_m_waiter *w, char *text, size_t text_size);
/* "appends only under lock /x, token 123"; false: there is no fence. */
bool lh_m_describe_fence(const struct lh_m_file *f, char *text, size_t text_size);

/* ---- views.c */

/* A chunk as readers see it. Owns its arrays. */
struct lh_m_chunk_view {
    Leasehold__ChunkInfo info;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    uint8_t capability[LH_CAPABILITY_BYTES];
};

void lh_m_chunk_view(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view);
/* Adds a capability with these rights (ACC-5), for a caller who has them and who is not a page. */
void lh_m_chunk_view_capability(struct lh_master *m, struct lh_m_chunk_view *view, unsigned rights);
void lh_m_server_view(
    const struct lh_master *m, const struct lh_m_server *s, Leasehold__ServerInfo *info);
/* FREE, GRANTING, ...: as ListLeases has it. */
const char *lh_m_lease_state(const struct lh_master *m, const struct lh_m_chunk *c);

/* ---- states.c */

/* A chunk as the operator sees it. Owns its arrays; its strings are the tables'. */
struct lh_m_chunk_state {
    Leasehold__ChunkState state;
    struct lh_m_chunk_view view;
    Leasehold__ReplicaInfo *replicas, **pointers;
    size_t capacity;
};

/* Fills `s`, which must stay where it is; release it with lh_m_chunk_state_free(). */
void lh_m_chunk_state(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_state *s);
void lh_m_chunk_state_free(struct lh_m_chunk_state *s); /* nothing if it is all zero */

/* ---- why.c */

/* What the caller sent was sealed by a log that is on too few disks. */
void lh_m_describe_unbacked(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size);
/* Why there is no primary now. `text` is where a sentence may be written. */
int lh_m_why_not(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size);
