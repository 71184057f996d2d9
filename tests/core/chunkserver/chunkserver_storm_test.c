/* Storms: a chunk under random load while links stall and break, disks stall, processes and
 * machines go down, and a master that grants new versions whenever it likes, with no regard for
 * any lease. Safety must not depend on leases (INV-7): nothing acknowledged is lost, doubled or
 * moved. When the storm is over everything is answered (INV-8).
 *
 * Replays one storm with --test_env=LH_SEED=n; more of them with --test_env=LH_RUNS=n. */
#include "tests/core/chunkserver/chunkserver_world.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WRITERS 3
#define WINDOW  6

struct writer {
    uint64_t id;
    uint64_t acked; /* sequence numbers up to here are */
    uint64_t sent;  /* in the present stream */
    uint64_t next;  /* to be made */
    struct conn *c;
};

struct storm {
    struct world *w;
    struct lh_prng prng;
    uint64_t version;
    unsigned members;
    int holder;
    bool sealed;
    struct writer writers[WRITERS];
};

static uint64_t draw(struct storm *s, uint64_t bound)
{
    return lh_prng_below(&s->prng, bound);
}

static unsigned count(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

static bool in_session(const struct storm *s, int node)
{
    return s->w->nodes[node].cs != NULL && s->w->nodes[node].session != 0;
}

static bool may_be_primary(struct storm *s, int node)
{
    struct lh_replica_status r;

    return (s->members & 1u << node) != 0 && in_session(s, node) &&
           lh_chunkserver_replica(s->w->nodes[node].cs, CHUNK, &r) && !r.lost;
}

static void grant_next(struct storm *s, int node)
{
    s->version++;
    s->holder = node;
    master_grant(s->w, node, s->version, s->members, 2);
}

/* What a master does with what it has heard. */
static void master_works(struct storm *s)
{
    for (int i = A; i <= C; i++) {
        struct heard *h = &s->w->nodes[i].heard;
        if (s->sealed || !in_session(s, i))
            continue;
        if (h->seal.n > 0 && h->seal.version == s->version) {
            s->sealed = true;
        } else if (h->failed.n > 0 && h->failed.version == s->version && s->holder == i &&
                   count(s->members & ~h->failed.members) >= 2 && draw(s, 4) == 0) {
            s->members &= ~h->failed.members;
            grant_next(s, i);
        }
        h->failed.n = 0;
    }
}

/* A writer sends what is unacknowledged, over a new stream now and then, at the primary if it is
 * there. */
static void writer_works(struct storm *s, struct writer *wr, bool calm)
{
    struct conn *c = wr->c;

    if (c != NULL) {
        for (size_t i = 0; i < c->stored_count; i++)
            if (c->stored[i].sequence > wr->acked)
                wr->acked = c->stored[i].sequence; /* answered in order */
    }
    if (c == NULL || c->closed || (!calm && draw(s, 40) == 0)) {
        if (c != NULL)
            hang_up(c);
        wr->c = NULL;
        if (s->w->nodes[s->holder].cs == NULL || (!calm && draw(s, 3) > 0))
            return;
        wr->c = appender(s->w, s->holder, s->version, wr->id, wr->acked + 1);
        wr->sent = wr->acked;
        return;
    }
    while (c->opened && wr->sent < wr->acked + WINDOW && wr->sent + 1 < wr->next) {
        wr->sent++;
        append(c, wr->sent, (uint32_t)(20 + wr->sent * 37 % 400));
    }
}

/* One machine may go down: the others have everything, and the disks know it. What it takes with it
 * of a buffered log is made good by the next recovery; there is none once a primary has reported
 * the seal and is no primary any more. */
static bool all_verified(struct storm *s)
{
    if (s->w->op_count > 0 || s->w->nodes[s->holder].cs == NULL ||
        !node_status(s->w, s->holder).primary)
        return false;
    for (int i = A; i <= C; i++)
        if ((s->members & 1u << i) != 0 &&
            (s->w->nodes[i].cs == NULL || node_status(s->w, i).unverified))
            return false;
    return true;
}

static void something_happens(struct storm *s)
{
    struct world *w = s->w;
    int node = (int)draw(s, 3);
    struct node *n = &w->nodes[node];

    switch (draw(s, 14)) {
    case 0:
        if (n->cs != NULL)
            node_kill(w, node, (w->synced || all_verified(s)) && draw(s, 2) == 0);
        break;
    case 1:
    case 2:
    case 3:
        if (n->cs == NULL)
            node_start(w, node);
        break;
    case 4: {
        int other = (int)draw(s, 3);
        w->stalled[node][other] = !w->stalled[node][other] && draw(s, 2) == 0;
        break;
    }
    case 5:
        w->stalled[node][MASTER] = !w->stalled[node][MASTER] && draw(s, 4) == 0;
        break;
    case 6:
        n->disk_stalled = !n->disk_stalled && draw(s, 3) == 0;
        break;
    case 7:
        w->master_continues = draw(s, 2) == 0;
        if (n->session_wire != NULL && draw(s, 4) == 0)
            break_wire(w, n->session_wire);
        break;
    case 8:
        if (!s->sealed && may_be_primary(s, node) && draw(s, 3) == 0)
            grant_next(s, node);
        break;
    case 9:
        if (!s->sealed && may_be_primary(s, s->holder)) /* resent */
            master_grant(w, s->holder, s->version, s->members, 2);
        break;
    case 10:
        pass(w, 1 + draw(s, 1500));
        break;
    default:
        pass(w, 1 + draw(s, 60));
        break;
    }
}

static void calm_down(struct storm *s)
{
    struct world *w = s->w;

    w->master_continues = true;
    for (int i = 0; i < ENDPOINTS; i++)
        for (int j = 0; j < ENDPOINTS; j++)
            w->stalled[i][j] = false;
    for (int i = A; i <= C; i++) {
        w->nodes[i].disk_stalled = false;
        if (w->nodes[i].cs == NULL)
            node_start(w, i);
    }
    pass(w, 2 * SESSION_TERM_MS);
    for (int round = 0; round < 40 && !s->sealed; round++) {
        bool done = true;
        for (int i = 0; i < WRITERS; i++)
            done = done && s->writers[i].acked + 1 == s->writers[i].next;
        if (done && node_status(w, s->holder).open)
            break;
        if (!node_status(w, s->holder).primary && may_be_primary(s, s->holder))
            grant_next(s, s->holder);
        else if (round == 0) /* resent: every address is known now */
            master_grant(w, s->holder, s->version, s->members, 2);
        pass(w, 200);
        master_works(s);
        for (int i = 0; i < WRITERS; i++)
            writer_works(s, &s->writers[i], true);
    }
    pass(w, 1000);
}

/* After a seal each writer learns what of it is there, and it is the same everywhere (APP-5a). */
static void settle_writers(struct storm *s)
{
    struct world *w = s->w;
    int one = -1;

    for (int i = A; i <= C; i++)
        if (w->nodes[i].heard.seal.n > 0 && w->nodes[i].heard.seal.version == s->version)
            one = i;
    assert_true(one >= 0);
    uint64_t length = w->nodes[one].heard.seal.length;
    uint64_t checksum = node_status(w, one).checksum;
    for (int i = A; i <= C; i++)
        if ((s->members & 1u << i) != 0)
            master_record_seal(w, i, s->version, length, checksum);
    pass(w, 100);
    /* A machine may go down between its last acknowledgement and the seal, and take the end of a
     * buffered log with it: that replica knows that it is lost, and is to be copied again. */
    for (int i = A; i <= C; i++)
        if ((s->members & 1u << i) != 0 && !w->synced && node_status(w, i).lost)
            s->members = w->members &= ~(1u << i);
    assert_true(s->members != 0);
    for (int k = 0; k < WRITERS; k++) {
        uint64_t last = UINT64_MAX;
        for (int i = A; i <= C; i++) {
            if ((s->members & 1u << i) == 0)
                continue;
            assert_true(node_status(w, i).sealed);
            struct conn *c = settler(w, i, s->version, s->writers[k].id);
            settle(w);
            const Leasehold__SettleReply *r = settle_reply(c);
            assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
            assert_true(r->last_sequence >= s->writers[k].acked);
            assert_true(last == UINT64_MAX || last == r->last_sequence);
            last = r->last_sequence;
        }
    }
}

static void storm(uint64_t seed)
{
    struct storm s = {.prng = {seed * 7919}, .version = 1, .members = 1u << A | 1u << B | 1u << C};

    s.w = world_create(seed, seed % 2 == 0);
    s.w->torn = seed % 3 != 0;
    for (uint64_t i = 0; i < WRITERS; i++)
        s.writers[i] = (struct writer){.id = 100 + i, .next = 1};
    master_create(s.w, s.members);
    settle(s.w);
    master_grant(s.w, A, 1, s.members, 2);
    settle(s.w);
    for (unsigned step = 0; step < 400 && !s.sealed; step++) {
        something_happens(&s);
        settle(s.w);
        master_works(&s);
        for (int i = 0; i < WRITERS; i++) {
            if (draw(&s, 2) == 0 && s.writers[i].next < s.writers[i].acked + 2 * WINDOW)
                s.writers[i].next++;
            writer_works(&s, &s.writers[i], false);
        }
    }
    calm_down(&s);
    if (s.sealed)
        settle_writers(&s);
    else
        for (int i = 0; i < WRITERS; i++)
            assert_int_equal(s.writers[i].acked + 1, s.writers[i].next);
    check_logs(s.w, s.members);
    if (getenv("LH_TEST_LOG") != NULL)
        (void)fprintf(stderr,
            "seed %" PRIu64 ": %zu acknowledged, version %" PRIu64 ", %u members%s\n", seed,
            s.w->acked_count, s.version, count(s.members), s.sealed ? ", sealed" : "");
    world_destroy(s.w);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void storms(void **state)
{
    uint64_t first = setting("LH_SEED", 1);
    uint64_t runs = setting("LH_RUNS", getenv("LH_SEED") == NULL ? 60 : 1);

    (void)state;
    for (uint64_t seed = first; seed < first + runs; seed++) {
        print_message("storm %" PRIu64 "\n", seed);
        storm(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(storms)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
