/* libFuzzer target: the links of a core (flow/links.h), beside an array of owners. Each byte opens,
 * serves or closes a link, or brings an input of one; what its user then does, the next bytes
 * say. And the turns of flows on a stream (flow/turns.h). */
#include "base/alloc.h"
#include "base/assert.h"
#include "flow/links.h"
#include "flow/turns.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWNERS 32u

struct owner {
    struct lh_link link;
    uint64_t id; /* as it should be */
};

struct run {
    struct lh_links links;
    struct lh_effects fx;
    struct owner *owners[OWNERS]; /* NULL: freed */
    uint64_t served, opened;
    const uint8_t *data;
    size_t left;
    struct owner *called; /* by this input */
};

static const struct lh_link_user user;

static uint8_t next(struct run *r)
{
    if (r->left == 0)
        return 0;
    r->left--;
    return *r->data++;
}

static void begin(struct run *r, size_t i, bool serve)
{
    if (r->owners[i] == NULL)
        r->owners[i] = lh_alloc(sizeof *r->owners[i]);
    struct owner *o = r->owners[i];
    if (o->id != 0)
        return;
    o->link.user = &user;
    o->id = serve ? LH_LINK_SERVED | ++r->served : ++r->opened;
    if (serve)
        lh_link_serve(&r->links, &o->link, o->id);
    else
        lh_link_open(&r->links, &r->fx, &o->link, LH_METHOD_APPEND, "a:1", LH_DURATION_FOREVER);
    LH_ASSERT(o->link.id == o->id);
}

static void end(struct run *r, size_t i, bool frees)
{
    struct owner *o = r->owners[i];

    if (o == NULL)
        return;
    lh_link_close(&r->links, &r->fx, &o->link, LH_OK, NULL);
    o->id = 0;
    if (!frees)
        return;
    free(o);
    r->owners[i] = NULL;
}

static void act(struct run *r)
{
    uint8_t what = next(r);
    size_t i = what % OWNERS;

    if (what / OWNERS < 2)
        begin(r, i, what / OWNERS == 1);
    else if (what / OWNERS < 6)
        end(r, i, what / OWNERS < 4);
}

static void called(void *core, struct lh_link *link)
{
    struct run *r = core;

    LH_ASSERT(r->called == NULL && link->id != 0);
    r->called = LH_OWNER(link, struct owner, link);
    act(r);
    act(r);
}

static void message(void *core, struct lh_link *link, const void *m, struct lh_buf *payload)
{
    (void)m;
    (void)payload;
    called(core, link);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct run *r = core;
    struct owner *o = LH_OWNER(link, struct owner, link);

    (void)error;
    (void)text;
    LH_ASSERT(r->called == NULL && link->id == 0);
    r->called = o;
    o->id = 0;
    act(r);
    act(r);
}

static const struct lh_link_user user = {.message = message,
    .progress = called,
    .sent = called,
    .half_closed = called,
    .closed = closed};

static void come(struct run *r, size_t i, uint8_t kind)
{
    uint64_t id = r->owners[i] == NULL ? r->opened + 1 + kind : r->owners[i]->id;
    struct lh_input in = {.kind = LH_IN_MESSAGE + kind % 5, .link = id, .method = LH_METHOD_APPEND};
    struct owner *meant = id == 0 ? NULL : r->owners[i];

    r->called = NULL;
    lh_links_take(&r->links, r, &in);
    LH_ASSERT(r->called == meant);
}

static void check(const struct run *r)
{
    size_t count = 0;

    lh_links_check(&r->links);
    for (size_t i = 0; i < OWNERS; i++)
        if (r->owners[i] != NULL && r->owners[i]->id != 0) {
            LH_ASSERT(lh_link_find(&r->links, r->owners[i]->id) == &r->owners[i]->link);
            count++;
        }
    LH_ASSERT(HASH_COUNT(r->links.by_id) == count);
}

/* Flows come, leave, and do with their turns what bytes say: a message ends, and nobody is lost. */
static void take_turns(struct run *r)
{
    struct lh_turn flows[8] = {0};
    struct lh_turns turns = {0};

    while (r->left > 0) {
        struct lh_turns_message m = {
            .parts_most = next(r) % 8, .bytes_most = next(r), .little_bytes = next(r)};
        struct lh_turn *turn;
        uint64_t most;
        unsigned count = 0;
        for (uint8_t in = next(r), i = 0; i < 8; i++)
            if ((in >> i & 1) == 0)
                lh_turns_unlist(&flows[i]);
            else if (!lh_turn_waits(&flows[i]))
                lh_turns_enlist(&turns, &flows[i], i % 2 == 0);
        while ((turn = lh_turns_next(&turns, &m, &most)) != NULL) {
            uint8_t what = next(r);
            LH_ASSERT(!lh_turn_waits(turn) && ++count <= 16 + m.parts_most);
            m.bytes += what % 2 == 0 ? 0 : what < most ? what : most;
            m.parts += what % 2;
            if (what % 4 != 0)
                lh_turns_enlist(&turns, turn, what % 2 == 1 && what % 8 < 4);
        }
    }
    for (size_t i = 0; i < 8; i++)
        lh_turns_unlist(&flows[i]);
    LH_ASSERT(lh_turns_are_over(&turns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r = {.data = data, .left = size};

    if (next(&r) % 4 == 0) {
        take_turns(&r);
        return 0;
    }
    while (r.left > 0) {
        uint8_t what = next(&r);
        if (what < 128)
            act(&r);
        else
            come(&r, what % OWNERS, next(&r));
        check(&r);
    }
    for (size_t i = 0; i < OWNERS; i++)
        end(&r, i, true);
    LH_ASSERT(r.links.by_id == NULL);
    lh_effects_deinit(&r.fx);
    return 0;
}
