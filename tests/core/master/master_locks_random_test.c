/* Programs with locks under random schedules: they ask, release, yield, lose their streams, attach
 * again in pieces, read their answers late; locks are cancelled, the master dies. Each program
 * believes what the protocol lets it believe, by the share of its term. Checked after each step:
 *   INV-13  no two programs believe that they hold locks which conflict,
 *   INV-14  tokens of a name rise from tenure to tenure,
 *   INV-18  once all is quiet, who waits gets what is free,
 * and the core's own invariants (lh_master_check). LH_SEED=n: that schedule alone; LH_RUNS=n: so
 * many. */
#include "tests/core/master/master_programs.h"

#include "base/prng.h"
#include "base/probe.h"

#include <inttypes.h>

#define PROGS 5u
#define NAMES 3u
#define STEPS 1500u
#define TERM  UINT64_C(10000000000)

enum state { NOTHING, WAITS, HOLDS };

/* What a program believes of a name. */
struct belief {
    enum state state;
    bool shared, cut;
    uint64_t id, number, token;
    uint64_t end; /* cut: no later than this */
};

struct actor {
    struct prog prog;
    bool lives, attached, greeted, shows, back; /* `shows`: pieces go on */
    uint64_t until;                             /* its session, by its clock, which is exact */
    uint64_t last;                              /* stamp that was answered */
    uint64_t read;                              /* of its lines */
    struct belief names[NAMES];
};

static struct actor actors[PROGS];
static uint64_t highest[NAMES]; /* token */
static struct lh_prng prng;
static const char *const texts[NAMES] = {"/a", "/b", "/c"};

static const char *broken; /* what was seen to be broken first; NULL: nothing */

static void expect(bool holds, const char *what)
{
    if (!holds && broken == NULL)
        broken = what;
}

static uint64_t below(uint64_t n)
{
    return lh_prng_below(&prng, n);
}

static bool believes(const struct actor *x, size_t n)
{
    const struct belief *b = &x->names[n];

    return x->lives && b->state == HOLDS && w.now.ns < x->until && (!b->cut || w.now.ns < b->end);
}

static void check(void)
{
    for (size_t n = 0; n < NAMES; n++)
        for (size_t i = 0; i < PROGS; i++)
            for (size_t k = 0; k < i; k++) {
                const struct belief *one_b = &actors[i].names[n], *other = &actors[k].names[n];
                if (believes(&actors[i], n) && believes(&actors[k], n))
                    expect(
                        one_b->shared && other->shared && one_b->token == other->token, "INV-13");
            }
}

/* A program whose session has run out on its own clock has lost everything, and says so (PS-3). */
static void look_at_clock(struct actor *x)
{
    if (x->lives && x->back && w.now.ns >= x->until) {
        memset(x->names, 0, sizeof x->names);
        x->lives = false;
    }
    for (size_t n = 0; n < NAMES; n++)
        if (x->names[n].state == HOLDS && x->names[n].cut && w.now.ns >= x->names[n].end)
            x->names[n].state = NOTHING;
}

/* ---- What it hears. */

static struct belief *by_name(struct actor *x, const char *text)
{
    for (size_t n = 0; n < NAMES; n++)
        if (strcmp(texts[n], text) == 0)
            return &x->names[n];
    return NULL;
}

static void hear_answer(struct actor *x, const Leasehold__LeaseAnswer *a)
{
    struct belief *b;

    switch (a->answer_case) {
    case LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED:
        for (size_t n = 0; n < NAMES; n++) {
            b = &x->names[n];
            if (b->state != WAITS || b->id != a->granted->id)
                continue;
            b->state = HOLDS;
            b->cut = false;
            b->token = a->granted->token;
            expect(b->shared ? b->token >= highest[n] : b->token > highest[n], "INV-14");
            highest[n] = b->token;
        }
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED:
        for (size_t n = 0; n < NAMES; n++)
            if (x->names[n].state == WAITS && x->names[n].id == a->queued->id)
                x->names[n].number = a->queued->queued;
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED:
        for (size_t n = 0; n < NAMES; n++)
            if (x->names[n].state == WAITS && x->names[n].id == a->refused->id)
                x->names[n].state = NOTHING;
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND:
        b = by_name(x, a->demand->name);
        if (a->demand->cancel && b->state == HOLDS && b->token == a->demand->token && !b->cut) {
            b->cut = true;
            b->end = x->until;
        }
        break;
    default:
        break;
    }
}

static void hear_shown(struct actor *x, const Leasehold__Shown *shown)
{
    uint64_t before = x->until;

    for (size_t i = 0; i < shown->n_lost; i++)
        by_name(x, shown->lost[i])->state = NOTHING;
    for (size_t i = 0; i < shown->n_cut; i++) {
        struct belief *b = by_name(x, shown->cut[i]);
        if (!b->cut)
            b->end = before;
        b->cut = true;
    }
    x->until = shown->stamp + shown->term_ns;
    x->last = shown->stamp;
    x->back = true;
}

static void hear(struct actor *x, const Leasehold__LeaseSessionReply *r)
{
    switch (r->body_case) {
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING:
        x->greeted = true;
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN:
        hear_shown(x, r->shown);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT:
        x->last = r->beat->stamp;
        if (r->beat->error != LEASEHOLD__ERROR_CODE__OK)
            x->lives = false;
        else if (x->until < r->beat->stamp + r->beat->term_ns)
            x->until = r->beat->stamp + r->beat->term_ns;
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS:
        for (size_t i = 0; i < r->answers->n_answers; i++)
            hear_answer(x, r->answers->answers[i]);
        break;
    default:
        break;
    }
}

/* Reads up to `most` lines of its stream. */
static void reads(struct actor *x, size_t most)
{
    for (; x->read < w.line_count && most > 0; x->read++) {
        const struct line *l = &w.lines[x->read];
        if (!x->attached || l->link != x->prog.link)
            continue;
        look_at_clock(x);
        if (!x->lives)
            return;
        if (l->message == NULL) {
            x->attached = false;
            return;
        }
        world_sent(&w, x->prog.link);
        hear(x, (const Leasehold__LeaseSessionReply *)(const void *)w.lines[x->read].message);
        most--;
    }
}

/* ---- What it does. */

/* A showing that is still on its way when its program has given up the stream. */
static struct {
    uint64_t link;
    struct lh_buf bytes;
} late;

static void send_late(uint64_t link, Leasehold__LeaseSessionRequest *request)
{
    uint8_t *to;

    lh_buf_clear(&late.bytes);
    late.link = link;
    late.bytes = lh_buf_alloc(leasehold__lease_session_request__get_packed_size(request), &to);
    leasehold__lease_session_request__pack(request, to);
}

static void late_arrives(void)
{
    ProtobufCMessage *message;
    struct lh_buf none;

    if (late.link == 0)
        return;
    assert_int_equal(
        lh_wire_decode(LH_METHOD_LEASE_SESSION, LH_REQUEST, &late.bytes, &message, &none), LH_OK);
    world_message(&w, late.link, message);
    lh_wire_free(message);
    late.link = 0;
}

static void breaks(struct actor *x)
{
    if (x->attached)
        world_break_link(&w, x->prog.link);
    x->attached = x->greeted = x->shows = false;
}

static void attaches(struct actor *x)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;

    breaks(x);
    if (!x->lives) { /* a new session */
        uint64_t id[2] = {lh_prng_next(&prng), 1};
        memset(x->names, 0, sizeof x->names);
        memcpy(x->prog.id, id, sizeof id);
        x->prog.stream = x->prog.request = 0;
        x->lives = true;
        x->back = false;
        x->until = 0;
    }
    x->prog.link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
    x->attached = true;
    x->read = w.line_count;
    a.session = (ProtobufCBinaryData){.data = x->prog.id, .len = sizeof x->prog.id};
    a.opens = !x->back;
    a.stream = ++x->prog.stream;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    prog_send(&x->prog, &request);
}

static void shows_pieces(struct actor *x)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    size_t cut = below(NAMES + 1);

    for (size_t piece = 0; piece < 2; piece++) {
        Leasehold__Show show = LEASEHOLD__SHOW__INIT;
        Leasehold__ShownLock *locks_[NAMES];
        Leasehold__Acquire *requests[NAMES];
        shown_lock_count = shown_request_count = 0;
        for (size_t n = piece == 0 ? 0 : cut; n < (piece == 0 ? cut : NAMES); n++) {
            struct belief *b = &x->names[n];
            if (b->state == HOLDS) {
                shows_lock(texts[n], b->token, b->shared);
                shown_locks[shown_lock_count - 1].ends = b->cut;
                shown_locks[shown_lock_count - 1].left_ns = b->cut ? b->end - w.now.ns : 0;
                locks_[shown_lock_count - 1] = &shown_locks[shown_lock_count - 1];
            } else if (b->state == WAITS) {
                shows_request(texts[n], b->id, below(3) == 0 ? 0 : b->number, b->shared);
                requests[shown_request_count - 1] = &shown_requests[shown_request_count - 1];
            }
        }
        show.stamp = w.now.ns;
        show.more = piece == 0;
        show.n_locks = shown_lock_count;
        show.locks = locks_;
        show.n_waiting = shown_request_count;
        show.waiting = requests;
        request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
        request.show = &show;
        if (piece == 1 && late.link == 0 && below(8) == 0) {
            send_late(x->prog.link, &request);
            x->attached = x->greeted = x->shows = false;
            return;
        }
        prog_send(&x->prog, &request);
        if (piece == 0 && below(8) == 0) {
            breaks(x);
            return;
        }
    }
    x->shows = true;
}

static bool usable(const struct actor *x)
{
    return x->lives && x->attached && x->shows && x->back && w.now.ns < x->until;
}

static void acts(struct actor *x)
{
    size_t n = below(NAMES);
    struct belief *b = &x->names[n];

    look_at_clock(x);
    if (!x->lives || !x->attached || (!x->greeted && below(30) == 0)) {
        attaches(x);
        return;
    }
    if (x->greeted && !x->shows) {
        shows_pieces(x);
        return;
    }
    if (!usable(x))
        return;
    if (b->state == NOTHING) {
        b->state = WAITS;
        b->shared = below(2) == 0;
        b->cut = false;
        b->number = 0;
        Leasehold__Acquire a = acquire_of(&x->prog, texts[n], b->shared);
        b->id = a.id;
        a.recallable = below(2) == 0;
        asks_with(&x->prog, &a);
    } else if (b->state == WAITS && below(6) == 0) {
        b->state = NOTHING; /* a grant on its way is not taken; the next showing frees it */
        withdraws(&x->prog, b->id);
        attaches(x);
    } else if (b->state == HOLDS && below(3) == 0 && !b->cut) {
        uint64_t ms = below(4000);
        b->cut = true;
        b->end = w.now.ns + ms * 1000000 < x->until ? w.now.ns + ms * 1000000 : x->until;
        yields(&x->prog, texts[n], b->token, ms);
    } else if (b->state == HOLDS) {
        b->state = NOTHING;
        releases(&x->prog, texts[n], b->token);
    }
}

static void sends_beat(struct actor *x)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat b = LEASEHOLD__BEAT__INIT;

    look_at_clock(x);
    /* Also while it shows what it has, as a careless program does. */
    if (!usable(x) && !(x->lives && x->attached && x->greeted && x->back && below(2) == 0))
        return;
    b.stamp = w.now.ns;
    b.last_stamp = x->last;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    request.beat = &b;
    prog_send(&x->prog, &request);
}

static void dies(void)
{
    world_crash(&w);
    late.link = 0;
    for (size_t i = 0; i < PROGS; i++) {
        actors[i].attached = actors[i].greeted = actors[i].shows = false;
        actors[i].read = 0;
    }
}

static void random_step(void)
{
    struct actor *x = &actors[below(PROGS)];

    switch (below(16)) {
    case 0:
    case 1:
    case 2:
        world_advance(&w, below(10) == 0 ? below(12000) : below(1500));
        break;
    case 3:
        if (below(12) == 0)
            dies();
        break;
    case 4:
        if (below(6) == 0)
            breaks(x);
        if (below(3) == 0)
            late_arrives();
        break;
    case 5:
        if (below(4) == 0)
            cancels(texts[below(NAMES)], 0, below(2) * 5000);
        break;
    case 6:
        w.hold_commits = below(3) == 0;
        world_commit_all(&w);
        break;
    case 7:
    case 8:
    case 9:
        for (size_t i = 0; i < PROGS; i++)
            sends_beat(&actors[i]);
        break;
    case 10:
    case 11:
        reads(x, below(3));
        break;
    case 12:
        for (size_t i = 0; i < PROGS; i++)
            reads(&actors[i], 1000);
        break;
    default:
        acts(x);
        break;
    }
}

/* All is heard, all are there, holders release: then everybody who waits is granted in turn. */
static void settle(void)
{
    size_t waiting = 1;

    w.hold_commits = false;
    world_commit_all(&w);
    for (unsigned round = 0; round < 60 && waiting > 0; round++) {
        waiting = 0;
        world_advance(&w, 2000);
        for (size_t i = 0; i < PROGS; i++) {
            struct actor *x = &actors[i];
            reads(x, 1000);
            look_at_clock(x);
            if (!x->lives || !x->attached)
                attaches(x);
            reads(x, 1000);
            if (x->greeted && !x->shows)
                shows_pieces(x);
            reads(x, 1000);
            sends_beat(x);
            reads(x, 1000);
            for (size_t n = 0; usable(x) && n < NAMES; n++) {
                waiting += x->names[n].state == WAITS;
                if (x->names[n].state == HOLDS)
                    releases(&x->prog, texts[n], x->names[n].token);
                if (x->names[n].state == HOLDS)
                    x->names[n].state = NOTHING;
            }
            waiting += !usable(x);
            check();
        }
    }
    expect(waiting == 0, "INV-18");
}

/* One schedule. `planted` NULL: as it is. */
static void run(uint64_t seed, const char *planted)
{
    prng = (struct lh_prng){seed};
    broken = NULL;
    memset(actors, 0, sizeof actors);
    memset(highest, 0, sizeof highest);
    late.link = 0;
    world_open(&w);
    w.unchecked = planted != NULL; /* what an observer sees is asked for */
    assert_true(planted == NULL || lh_plant(planted, true));
    for (size_t i = 0; i < PROGS; i++)
        actors[i].prog = prog_of((uint8_t)(i + 1));
    for (unsigned i = 0; i < STEPS && broken == NULL; i++) {
        random_step();
        check();
    }
    if (broken == NULL)
        settle();
    lh_plant_none();
    lh_buf_clear(&late.bytes);
    world_close(&w);
}

static void no_schedule_breaks_a_lock(void **state)
{
    const char *one_seed = getenv("LH_SEED"), *runs = getenv("LH_RUNS");
    uint64_t first = one_seed == NULL ? 1 : strtoull(one_seed, NULL, 10);
    uint64_t count = one_seed != NULL ? 1 : runs == NULL ? 100 : strtoull(runs, NULL, 10);

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        run(seed, NULL);
        if (broken != NULL)
            fail_msg("%s, LH_SEED=%" PRIu64, broken, seed);
    }
}

#define SEEDS_FOR_A_BUG 1000u

static void every_planted_bug_is_noticed(void **state)
{
    static const char *const bugs[] = {"lock-granted-before-all-back", "showing-wipes-newer-grant",
        "token-counter-restarted", "waiter-lost-on-release", "cancel-frees-at-once",
        "cut-lease-renewed", "old-showing-believed"};
    unsigned missed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        uint64_t seed = 0;
        do
            run(++seed, bugs[i]);
        while (broken == NULL && seed < SEEDS_FOR_A_BUG);
        print_message(
            "%s: %s, seed %" PRIu64 "\n", bugs[i], broken == NULL ? "missed" : broken, seed);
        missed += broken == NULL;
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_schedule_breaks_a_lock),
        cmocka_unit_test(every_planted_bug_is_noticed),
    };

    return cmocka_run_group_tests_name("master_locks_random", tests, NULL, NULL);
}
