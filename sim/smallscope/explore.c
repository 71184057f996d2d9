#include "sim/smallscope/explore.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/smallscope/seen.h"

#include <inttypes.h>
#include <stdlib.h>

/* How a state was first reached. */
struct state {
    uint32_t from; /* the state before the last move; the first state is its own */
    lh_move move;
};

struct exploration {
    const struct lh_space *space;
    struct lh_explore_result *result;
    uint64_t states_max;
    struct state *states; /* in the order of discovery, so depth after depth */
    size_t count, capacity;
    struct lh_seen seen;
};

static void add(struct exploration *x, size_t from, lh_move move)
{
    LH_GROW(x->states, x->capacity, x->count + 1);
    x->states[x->count++] = (struct state){.from = (uint32_t)from, .move = move};
}

/* The moves to a state that is `depth` of them from the first. */
static void path_to(const struct exploration *x, size_t state, unsigned depth, lh_move *path)
{
    for (unsigned i = depth; i > 0; i--) {
        path[i - 1] = x->states[state].move;
        state = x->states[state].from;
    }
    LH_ASSERT(state == 0);
}

static void go_to(const struct exploration *x, const lh_move *path, unsigned depth)
{
    x->space->begin(x->space->self, NULL);
    for (unsigned i = 0; i < depth; i++)
        x->space->make(x->space->self, path[i]);
}

/* Looks at the state that the space is in. True: the exploration is over. */
static bool visit(struct exploration *x, size_t from, unsigned depth, lh_move move,
    uint64_t fingerprint, const lh_move *path)
{
    struct lh_explore_result *r = x->result;

    r->visited++;
    r->violation = x->space->violation(x->space->self);
    if (r->violation != NULL) {
        r->end = LH_EXPLORE_VIOLATION;
        for (unsigned i = 0; i < depth; i++)
            r->moves[i] = path[i];
        r->move_count = depth;
        if (depth > 0)
            r->moves[depth - 1] = move;
        return true;
    }
    if (!lh_seen_add(&x->seen, fingerprint))
        return false;
    if (x->count == x->states_max) {
        r->end = LH_EXPLORE_FULL;
        return true;
    }
    add(x, from, move);
    r->distinct++;
    return false;
}

/* Makes every move that `state` allows, and looks where it leads. */
static bool expand(struct exploration *x, size_t state, unsigned depth)
{
    const struct lh_space *space = x->space;
    lh_move path[LH_EXPLORE_DEPTH_MAX];
    lh_move moves[LH_EXPLORE_MOVES_MAX];

    path_to(x, state, depth, path);
    go_to(x, path, depth);
    uint64_t here = space->fingerprint(space->self).exact;
    size_t count = space->moves(space->self, moves);
    LH_ASSERT(count <= LH_EXPLORE_MOVES_MAX);
    bool is_here = true;
    for (size_t i = 0; i < count; i++) {
        if (!is_here)
            go_to(x, path, depth);
        space->make(space->self, moves[i]);
        struct lh_fingerprint there = space->fingerprint(space->self);
        if (visit(x, state, depth + 1, moves[i], there.kind, path))
            return true;
        /* A move that changed nothing needs no way back. */
        is_here = there.exact == here;
    }
    return false;
}

static void tell_progress(const struct exploration *x, FILE *progress)
{
    if (progress == NULL)
        return;
    fprintf(progress, "depth %2u: %" PRIu64 " states visited, %" PRIu64 " distinct\n",
        x->result->depth, x->result->visited, x->result->distinct);
    fflush(progress);
}

static void explore(struct exploration *x, unsigned depth, FILE *progress)
{
    struct lh_explore_result *r = x->result;

    go_to(x, NULL, 0);
    if (visit(x, 0, 0, 0, x->space->fingerprint(x->space->self).kind, NULL))
        return;
    size_t next = 0;
    while (r->depth < depth) {
        size_t end = x->count;
        if (next == end) {
            r->end = LH_EXPLORE_EXHAUSTED;
            return;
        }
        for (; next < end; next++)
            if (expand(x, next, r->depth))
                return;
        r->depth++;
        tell_progress(x, progress);
    }
    r->end = LH_EXPLORE_DEPTH;
}

void lh_explore(const struct lh_space *space, unsigned depth, uint64_t states_max, FILE *progress,
    struct lh_explore_result *result)
{
    LH_ASSERT(depth <= LH_EXPLORE_DEPTH_MAX && states_max <= UINT32_MAX);
    struct exploration x = {.space = space, .result = result, .states_max = states_max};

    *result = (struct lh_explore_result){0};
    lh_seen_init(&x.seen);
    explore(&x, depth, progress);
    lh_seen_deinit(&x.seen);
    free(x.states);
}

void lh_explore_narrate(
    const struct lh_space *space, const lh_move *moves, unsigned move_count, FILE *words)
{
    space->begin(space->self, words);
    for (unsigned i = 0; i < move_count; i++) {
        fprintf(words, "%3u. ", i + 1);
        space->make(space->self, moves[i]);
    }
}
