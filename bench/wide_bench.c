/* How long one step of a master's core takes, at most, where many programs meet at one lock, or
 * one program waits for many:
 *
 *   bazel run --config=release //bench:wide_bench -- [PROGRAMS]
 *
 * The core alone, without streams and store. Each line is a phase: its steps, the processor time of
 * all and of the longest one, and what was sent. */
#include "base/alloc.h"
#include "base/assert.h"
#include "master/master.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME "/wide/lock"

static struct lh_master *m;
static struct lh_effects fx;
static struct lh_instant now = {1000000000};
static double sum, longest;
static uint64_t steps, said, next_link = 1;
static struct {
    uint64_t *tickets;
    size_t count, capacity;
} commits;
static uint64_t *links, *streams;
static uint64_t programs = 50000;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void step(struct lh_input *in)
{
    struct lh_input done = {.kind = LH_IN_PERSISTED};

    in->now = now;
    double begun = seconds();
    lh_master_step(m, in, &fx);
    double took = seconds() - begun;
    sum += took;
    longest = took > longest ? took : longest;
    steps++;
    for (size_t i = 0; i < fx.count; i++) {
        struct lh_effect *e = &fx.items[i];
        if (e->kind == LH_FX_PERSIST) {
            LH_GROW(commits.tickets, commits.capacity, commits.count + 1);
            commits.tickets[commits.count++] = e->ticket;
        }
        said += e->kind == LH_FX_SEND;
    }
    lh_effects_clear(&fx);
    if (commits.count == 0)
        return;
    done.ticket = commits.tickets[0];
    memmove(commits.tickets, commits.tickets + 1, --commits.count * sizeof *commits.tickets);
    step(&done);
}

/* Until there is nothing left to do now. */
static void runs(void)
{
    struct lh_input in = {.kind = LH_IN_TIMER};

    for (unsigned i = 0; i < 1000000 && lh_master_deadline(m).ns <= now.ns; i++)
        step(&in);
}

static void phase(const char *what)
{
    printf("%-58s %8" PRIu64 " steps %9.1f ms, longest %8.2f ms, %" PRIu64 " messages\n", what,
        steps, sum * 1e3, longest * 1e3, said);
    fflush(stdout);
    sum = longest = 0;
    steps = said = 0;
}

static void send(uint64_t link, Leasehold__LeaseSessionRequest *request)
{
    struct lh_input in = {
        .kind = LH_IN_MESSAGE, .link = link, .method = LH_METHOD_LEASE_SESSION, .message = request};

    step(&in);
}

static uint64_t stream(void)
{
    struct lh_input in = {.kind = LH_IN_LINK_OPENED,
        .link = LH_LINK_SERVED | next_link++,
        .method = LH_METHOD_LEASE_SESSION};

    step(&in);
    return in.link;
}

static void shows(uint64_t i, Leasehold__ShownLock **locks, size_t count,
    Leasehold__Acquire **waiting, size_t waits, bool more)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;

    show.stamp = now.ns;
    show.locks = locks;
    show.n_locks = count;
    show.waiting = waiting;
    show.n_waiting = waits;
    show.more = more;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    request.show = &show;
    send(links[i], &request);
}

static void attaches(uint64_t i)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;
    uint8_t id[16] = {1};

    memcpy(id + 8, &i, sizeof i);
    a.session = (ProtobufCBinaryData){.data = id, .len = sizeof id};
    a.opens = streams[i] == 0;
    a.stream = ++streams[i];
    a.term_ms = 60000;
    a.host = a.process = a.label = "wide";
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    links[i] = stream();
    send(links[i], &request);
}

static void op(uint64_t i, Leasehold__LeaseOp *op_)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;

    ops.n_ops = 1;
    ops.ops = &op_;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    request.ops = &ops;
    send(links[i], &request);
}

static void acquires(uint64_t i, const char *name, bool shared, uint32_t slots, uint64_t id)
{
    Leasehold__Acquire a = LEASEHOLD__ACQUIRE__INIT;
    Leasehold__LeaseOp o = LEASEHOLD__LEASE_OP__INIT;

    a.id = id;
    a.name = (char *)(uintptr_t)name;
    a.mode = shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    a.slots = slots;
    a.recallable = true;
    o.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    o.acquire = &a;
    op(i, &o);
}

/* A thousand in one message. */
static void no_waits(uint64_t i)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    static Leasehold__LeaseOp ops[1000], *pointers[1000];
    static Leasehold__Acquire a[1000];
    Leasehold__LeaseOps all = LEASEHOLD__LEASE_OPS__INIT;

    for (size_t k = 0; k < 1000; k++) {
        leasehold__acquire__init(&a[k]);
        leasehold__lease_op__init(&ops[k]);
        a[k].id = 100 + k;
        a[k].name = NAME;
        a[k].no_wait = true;
        ops[k].op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
        ops[k].acquire = &a[k];
        pointers[k] = &ops[k];
    }
    all.n_ops = 1000;
    all.ops = pointers;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    request.ops = &all;
    send(links[i], &request);
}

static void releases(uint64_t i, const char *name, uint64_t token)
{
    Leasehold__ReleaseLock r = LEASEHOLD__RELEASE_LOCK__INIT;
    Leasehold__LeaseOp o = LEASEHOLD__LEASE_OP__INIT;

    r.name = (char *)(uintptr_t)name;
    r.token = token;
    o.op_case = LEASEHOLD__LEASE_OP__OP_RELEASE;
    o.release = &r;
    op(i, &o);
}

static void withdraws(uint64_t i, uint64_t id)
{
    Leasehold__Withdraw r = LEASEHOLD__WITHDRAW__INIT;
    Leasehold__LeaseOp o = LEASEHOLD__LEASE_OP__INIT;

    r.id = id;
    o.op_case = LEASEHOLD__LEASE_OP__OP_WITHDRAW;
    o.withdraw = &r;
    op(i, &o);
}

static void closes(uint64_t i)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__CloseSession c = LEASEHOLD__CLOSE_SESSION__INIT;

    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE;
    request.close = &c;
    send(links[i], &request);
}

static void breaks(uint64_t i)
{
    struct lh_input in = {.kind = LH_IN_LINK_CLOSED,
        .link = links[i],
        .method = LH_METHOD_LEASE_SESSION,
        .error = LH_ERR_UNAVAILABLE};

    step(&in);
}

static void calls(enum lh_method method, const void *message)
{
    struct lh_input in = {
        .kind = LH_IN_LINK_OPENED, .link = LH_LINK_SERVED | next_link++, .method = method};

    step(&in);
    in.kind = LH_IN_MESSAGE;
    in.message = message;
    step(&in);
}

static void cancels(const char *name, uint64_t wait_ms)
{
    Leasehold__CancelRequest request = LEASEHOLD__CANCEL_REQUEST__INIT;

    request.name = (char *)(uintptr_t)name;
    request.wait_ms = wait_ms;
    calls(LH_METHOD_CANCEL, &request);
}

static void lists(const char *prefix)
{
    Leasehold__ListNamesRequest request = LEASEHOLD__LIST_NAMES_REQUEST__INIT;

    request.prefix = (char *)(uintptr_t)prefix;
    calls(LH_METHOD_LIST_NAMES, &request);
}

static void begin(void)
{
    struct lh_input in = {.kind = LH_IN_TIMER};
    struct lh_master_config config = lh_master_config_default();
    char text[512];

    if (lh_master_config_check(&config, text, sizeof text) != LH_OK)
        exit(1);
    if (m != NULL)
        lh_master_destroy(m);
    m = lh_master_create(&config);
    memset(streams, 0, (programs + 2) * sizeof *streams);
    step(&in);
    for (uint64_t i = 0; i < programs + 2; i++) {
        attaches(i);
        shows(i, NULL, 0, NULL, 0, false);
        runs();
    }
}

static void wide_shared(uint32_t slots)
{
    begin();
    phase("sessions open");
    for (uint64_t i = 0; i < programs; i++)
        acquires(i, NAME, true, slots == 0 ? 0 : slots + (uint32_t)i, 1);
    phase("each shares a lock");
    acquires(programs, NAME, false, 0, 1);
    runs();
    phase("one asks for it alone: all are asked");
    lists("/");
    phase("names are listed");
    no_waits(programs + 1);
    runs();
    phase("one message that asks for it 1000 times, and may not wait");
    cancels(NAME, 60000);
    runs();
    phase("it is cancelled");
    cancels(NAME, 60000);
    runs();
    phase("it is cancelled again");
    for (uint64_t i = 0; i < programs; i++)
        breaks(i);
    phase("streams break");
    now.ns += 61000000000;
    runs();
    phase("all are over");
}

static void distinct_slots(void)
{
    begin();
    phase("sessions open");
    for (uint64_t i = 0; i < programs; i++)
        acquires(i, NAME, true, 1000000 + (uint32_t)i, 1);
    phase("each shares a lock and names other slots");
    for (uint64_t i = 0; i < 100; i++)
        releases(i, NAME, UINT64_C(1) << 40 | 1);
    phase("a hundred release it");
    closes(200);
    now.ns += 61000000000;
    runs();
    phase("all are over");
}

static void many_wait(void)
{
    begin();
    phase("sessions open");
    for (uint64_t i = 0; i < programs; i++)
        acquires(i, NAME, false, 0, 1);
    phase("all wait for one lock");
    lists("/");
    phase("names are listed");
    for (uint64_t i = 0; i < 1000; i++) {
        releases(i, NAME, UINT64_C(1) << 40 | (i + 1));
        runs();
    }
    phase("a chain of a thousand releases");
    for (uint64_t i = 1001; i < programs; i++)
        withdraws(i, 1);
    runs();
    phase("the others withdraw");
    for (uint64_t i = 1001; i < programs; i++)
        acquires(i, NAME, false, 0, 2);
    phase("and ask again");
    for (uint64_t i = 1001; i < programs; i++)
        closes(i);
    runs();
    phase("and close");
}

static void one_waits_for_many(void)
{
    static char names[100000][32];
    Leasehold__Acquire *shown = calloc(100000, sizeof *shown), *pointers[8192];

    programs = 1;
    begin();
    phase("sessions open");
    for (uint64_t i = 0; i < 100000; i++) {
        snprintf(names[i], sizeof names[i], "/many/%" PRIu64, i);
        acquires(1, names[i], false, 0, i + 1);
        acquires(0, names[i], false, 0, i + 1);
    }
    phase("100,000 names: one has them, one waits");
    breaks(0);
    runs();
    phase("the stream of the one who waits breaks");
    attaches(0);
    for (uint64_t i = 0; i < 100000; i += 8192) {
        size_t count = 0;
        for (uint64_t k = i; k < i + 8192 && k < 100000; k++) {
            leasehold__acquire__init(&shown[k]);
            shown[k].id = k + 1;
            shown[k].name = names[k];
            shown[k].mode = LEASEHOLD__LOCK_MODE__EXCLUSIVE;
            pointers[count++] = &shown[k];
        }
        shows(0, NULL, 0, pointers, count, i + 8192 < 100000);
    }
    runs();
    phase("it attaches again and shows what it waits for");
    closes(1);
    runs();
    phase("the holder closes: all are handed over");
    breaks(0);
    attaches(0);
    shows(0, NULL, 0, NULL, 0, false);
    runs();
    phase("the new holder shows nothing: all are free");
    for (uint64_t i = 0; i < 100000; i++)
        acquires(1, names[i], false, 0, i + 1);
    attaches(1);
    attaches(0);
    shows(0, NULL, 0, NULL, 0, false);
    phase("another one");
    for (uint64_t i = 0; i < 100000; i++)
        acquires(0, names[i], false, 0, i + 100001);
    closes(0);
    runs();
    phase("closed");
    free(shown);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        programs = strtoull(argv[1], NULL, 10);
    links = calloc(programs + 2, sizeof *links);
    streams = calloc(programs + 2, sizeof *streams);
    puts("-- shared");
    wide_shared(0);
    puts("-- shared, slots");
    distinct_slots();
    puts("-- waiting");
    many_wait();
    puts("-- one program");
    one_waits_for_many();
    return 0;
}
