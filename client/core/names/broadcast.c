/* Prefixes that are broadcast (VAL-5): nothing is kept at the master of who reads under them.
 * The answers to heartbeats name a prefix's revision, which is promised for the term of that
 * answer. */
#include "base/alloc.h"
#include "client/core/names/values.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct lh_client_prefix {
    struct lh_client_prefix *prev, *next;
    uint64_t revision;
    struct lh_instant end; /* of the promise; zero: there is none */
    char text[];
};

static struct lh_client_prefix *find(const struct lh_client_session *s, const char *prefix)
{
    struct lh_client_prefix *p = s->names->prefixes;

    while (p != NULL && strcmp(p->text, prefix) != 0)
        p = p->next;
    return p;
}

const struct lh_client_prefix *lh_client_prefix_subscribe(
    struct lh_client_session *s, const char *prefix)
{
    struct lh_client_prefix *p = find(s, prefix);
    size_t size = strlen(prefix), count;
    struct lh_client_op *op;

    if (p != NULL)
        return p;
    DL_COUNT(s->names->prefixes, p, count);
    if (size == 0 || size > LH_CLIENT_NAME_BYTES_MAX || count >= s->client->config.session_prefixes)
        return NULL;
    p = lh_alloc(sizeof *p + size + 1);
    memcpy(p->text, prefix, size);
    DL_APPEND(s->names->prefixes, p);
    op = lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_BROADCAST, size + 1, NULL);
    if (op != NULL) {
        memcpy(op->bytes, prefix, size);
        op->body.broadcast.id = ++s->names->last_id;
        op->body.broadcast.prefix = op->bytes;
    }
    return p;
}

bool lh_client_prefix_is_promised(
    const struct lh_client_prefix *p, uint64_t revision, struct lh_instant now)
{
    return (p->revision == revision || LH_PLANTED("older-bytes-under-a-promise")) &&
           lh_instant_before(now, p->end);
}

void lh_client_prefixes_promised(struct lh_client_session *s, const Leasehold__BeatReply *m)
{
    struct lh_client_host *c = s->client;
    struct lh_instant from = {m->stamp};

    lh_client_guard(c);
    for (size_t i = 0; i < m->n_broadcasts; i++) {
        const Leasehold__BroadcastState *state = m->broadcasts[i];
        struct lh_client_prefix *p = find(s, state->prefix);
        if (p == NULL)
            continue;
        LH_MARK("broadcast-heard");
        p->revision = state->revision;
        p->end = lh_term_holder_end(
            from, lh_nanoseconds(state->promised ? m->term_ns : state->promised_ns));
    }
    lh_client_unguard(c);
}

void lh_client_prefixes_void(struct lh_client_session *s)
{
    struct lh_client_prefix *p;

    lh_client_guard(s->client);
    DL_FOREACH(s->names->prefixes, p)
        p->end = (struct lh_instant){0};
    lh_client_unguard(s->client);
}

const char *lh_client_prefix_next(const struct lh_client_session *s, uint64_t *cursor)
{
    const struct lh_client_prefix *p = s->names->prefixes;

    for (uint64_t i = 0; p != NULL && i < *cursor; i++)
        p = p->next;
    ++*cursor;
    return p == NULL ? NULL : p->text;
}

void lh_client_prefixes_deinit(struct lh_client_session *s)
{
    struct lh_client_prefix *p, *after;

    DL_FOREACH_SAFE(s->names->prefixes, p, after)
        free(p);
    s->names->prefixes = NULL;
}
