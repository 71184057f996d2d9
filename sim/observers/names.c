/* The namespace is linearizable: what a client is told of a path was so at some moment between its
 * question and the answer, by the commits of the master's store.
 *
 * Requests are repeated until they are answered, and a call that changes something happens once all
 * the same (HA-12). The store has a record of each, in the commit with what it changed: none has
 * two, one that is told that it was done has one, and one that is refused has none. */
#include "sim/observers/history.h"

#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Once. */

static struct once *find_once(const struct history *h, uint64_t client, uint64_t number)
{
    struct once key = {.id = {client, number}}, *found;

    HASH_FIND(hh, h->once, &key.id, sizeof key.id, found);
    return found;
}

void lh_ob_names_call(struct lh_sim_observers *o, uint64_t client, uint64_t number,
    const uint8_t *record, size_t size)
{
    if (number == 0)
        return; /* a mark */
    struct once *once = find_once(o->history, client, number);
    LeaseholdStored__Call *s = leasehold_stored__call__unpack(NULL, size, record);

    LH_ASSERT(s != NULL);
    if (once == NULL) {
        once = lh_alloc(sizeof *once);
        once->id.client = client;
        once->id.number = number;
        HASH_ADD(hh, o->history->once, id, sizeof once->id, once);
    }
    once->blurred |= o->blurred;
    if (once->order != s->order) {
        /* An answer with an error begins with that: field 1, a number that is not 0. */
        bool refused = s->reply.len > 0 && s->reply.data[0] == 0x08;
        once->order = s->order;
        once->times += !refused;
        if (once->times > 1)
            lh_sim_fail(o->sim, "history", 0,
                "call %" PRIu64 " of client %" PRIx64 " was carried out twice", number, client);
    }
    leasehold_stored__call__free_unpacked(s, NULL);
}

static void happens_once(
    struct lh_sim_observers *o, const struct call *call, const struct lh_master_call *m, int error)
{
    const struct once *once = find_once(o->history, m->id_client, m->id_number);
    unsigned times = once == NULL ? 0 : once->times;

    if (m->id_client == 0 || m->reply == NULL)
        return; /* it may be done any number of times, or is not known to have been done */
    if (error == LH_OK && times == 0)
        lh_sim_fail(o->sim, "history", 0,
            "%s was told that its call %" PRIu64 " was carried out, and no commit says so",
            call->client->name, m->id_number);
    else if (error != LH_OK && times > 0)
        lh_sim_fail(o->sim, "history", 0,
            "%s was told that its call %" PRIu64 " was refused (%s), and it was carried out",
            call->client->name, m->id_number, lh_error_name(error));
}

/* ---- What answers say. */

struct asked {
    struct lh_sim_observers *o;
    const struct call *call;
    uint64_t now;
    bool blurred; /* what the call has changed another one may have changed at the same moment */
};

#define WRONG                                                                                      \
    "%s was told that %s %s, which was not so at any moment since it asked, at %" PRIu64 " ns"

/* A change that was acknowledged and is not there. */
static void not_done(const struct asked *q, const char *path, const char *what)
{
    lh_sim_fail(q->o->sim, "history", 0, WRONG, q->call->client->name, path, what, q->call->begun);
}

/* An answer that is old. With clocks beyond rho two masters may act, and one knows no better. */
static void wrong(const struct asked *q, const char *path, const char *what)
{
    if (lh_sim_shared_etcd(q->o->cluster) == NULL)
        not_done(q, path, what);
    else
        lh_ob_fail_unless_excused(q->o, "history", 0, &q->o->seen_inv11, WRONG,
            q->call->client->name, path, what, q->call->begun);
}

/* `file`: 0 nothing, UINT64_MAX anything. */
static void expect(const struct asked *q, const char *path, uint64_t file, const char *what)
{
    if (!lh_ob_named(q->o, path, file, q->call->begun, q->now))
        wrong(q, path, what);
}

static void expect_done(const struct asked *q, const char *path, uint64_t file, const char *what)
{
    if (!q->blurred && !lh_ob_named(q->o, path, file, q->call->begun, q->now))
        not_done(q, path, what);
}

static void created(const struct asked *q, const Leasehold__CreateRequest *m,
    const ProtobufCMessage *reply, int error)
{
    const Leasehold__CreateReply *r = (const Leasehold__CreateReply *)reply;

    if (error == LH_OK && r != NULL && r->info != NULL)
        expect_done(q, m->path, r->info->file, "was created");
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
        expect_done(q, m->from, 0, "has another name");
        expect_done(q, m->to, UINT64_MAX, "is there");
    } else if (error == LH_ERR_NOT_FOUND) {
        expect(q, m->from, 0, "does not exist");
    } else if (error == LH_ERR_ALREADY_EXISTS) {
        expect(q, m->to, UINT64_MAX, "exists");
    }
}

static void removed(const struct asked *q, const Leasehold__RemoveRequest *m, int error)
{
    if (error == LH_OK)
        expect_done(q, m->path, 0, "does not exist any more");
    else if (error == LH_ERR_NOT_FOUND)
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
    const struct once *once = find_once(o->history, m->id_client, m->id_number);
    struct asked q = {o, call, lh_sim_now(o->sim), once != NULL && once->blurred};

    happens_once(o, call, m, error);
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
