/* The namespace is linearizable: what a client is told of a path was so at some moment between its
 * question and the answer, by the commits of the master's store. Requests are repeated until they
 * are answered, so a create may be told that its file exists already, and a remove that it does
 * not: that was so, too. */
#include "sim/observers/history.h"

#include <inttypes.h>
#include <string.h>

struct asked {
    struct lh_sim_observers *o;
    const struct call *call;
    uint64_t now;
};

static void wrong(const struct asked *q, const char *path, const char *what)
{
    lh_sim_fail(q->o->sim, "history", 0,
        "%s was told that %s %s, which was not so at any moment since it asked, at %" PRIu64 " ns",
        q->call->client->name, path, what, q->call->begun);
}

/* `file`: 0 nothing, UINT64_MAX anything. */
static void expect(const struct asked *q, const char *path, uint64_t file, const char *what)
{
    if (!lh_ob_named(q->o, path, file, q->call->begun, q->now))
        wrong(q, path, what);
}

static void created(const struct asked *q, const Leasehold__CreateRequest *m,
    const ProtobufCMessage *reply, int error)
{
    const Leasehold__CreateReply *r = (const Leasehold__CreateReply *)reply;

    if (error == LH_OK && r != NULL && r->info != NULL)
        expect(q, m->path, r->info->file, "was created");
    else if (error == LH_ERR_ALREADY_EXISTS)
        expect(q, m->path, UINT64_MAX, "exists");
}

static void statted(const struct asked *q, const Leasehold__StatRequest *m,
    const ProtobufCMessage *reply, int error)
{
    const Leasehold__StatReply *r = (const Leasehold__StatReply *)reply;

    if (error == LH_OK && r != NULL && r->info != NULL)
        expect(q, m->path, r->info->file, "is a file of that number");
    else if (error == LH_ERR_NOT_FOUND)
        expect(q, m->path, 0, "does not exist");
}

static void renamed(const struct asked *q, const Leasehold__RenameRequest *m, int error)
{
    if (error == LH_OK) {
        expect(q, m->from, 0, "has another name");
        expect(q, m->to, UINT64_MAX, "is there");
    } else if (error == LH_ERR_NOT_FOUND) {
        expect(q, m->from, 0, "does not exist");
    } else if (error == LH_ERR_ALREADY_EXISTS) {
        expect(q, m->to, UINT64_MAX, "exists");
    }
}

static void removed(const struct asked *q, const Leasehold__RemoveRequest *m, int error)
{
    if (error == LH_OK || error == LH_ERR_NOT_FOUND)
        expect(q, m->path, 0, "does not exist any more");
}

static bool lists(const Leasehold__ListReply *r, const char *path)
{
    for (size_t i = 0; i < r->n_files; i++)
        if (strcmp(r->files[i]->path, path) == 0)
            return true;
    return false;
}

static void listed(
    const struct asked *q, const Leasehold__ListRequest *m, const Leasehold__ListReply *r)
{
    const char *before = m->after, *last = r->n_files == 0 ? "" : r->files[r->n_files - 1]->path;
    struct name *n, *next;

    for (size_t i = 0; i < r->n_files; i++) {
        const char *path = r->files[i]->path;
        if (strncmp(path, m->prefix, strlen(m->prefix)) != 0 || strcmp(path, before) <= 0)
            wrong(q, path, "belongs here in a listing");
        expect(q, path, r->files[i]->file, "is a file of that number");
        before = path;
    }
    /* What was there all the time is not left out. */
    HASH_ITER(hh, q->o->history->names, n, next) {
        if (strncmp(n->path, m->prefix, strlen(m->prefix)) != 0 || strcmp(n->path, m->after) <= 0 ||
            (r->more && strcmp(n->path, last) > 0))
            continue;
        if (lh_ob_named_all(q->o, n->path, q->call->begun, q->now) != 0 && !lists(r, n->path))
            wrong(q, n->path, "is not in a listing");
    }
}

void lh_ob_names_answered(
    struct lh_sim_observers *o, const struct call *call, const struct lh_master_call *m, int error)
{
    struct asked q = {o, call, lh_sim_now(o->sim)};

    switch (m->method) {
    case LH_METHOD_CREATE:
        created(&q, (const Leasehold__CreateRequest *)m->request, m->reply, error);
        break;
    case LH_METHOD_STAT:
        statted(&q, (const Leasehold__StatRequest *)m->request, m->reply, error);
        break;
    case LH_METHOD_RENAME:
        renamed(&q, (const Leasehold__RenameRequest *)m->request, error);
        break;
    case LH_METHOD_REMOVE:
        removed(&q, (const Leasehold__RemoveRequest *)m->request, error);
        break;
    case LH_METHOD_LIST:
        if (error == LH_OK && m->reply != NULL)
            listed(&q, (const Leasehold__ListRequest *)m->request,
                (const Leasehold__ListReply *)m->reply);
        break;
    default:
        break;
    }
}
