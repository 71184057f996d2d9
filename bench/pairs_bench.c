/* What it costs a master's core that a lock is acquired and released:
 *
 *   bazel run --config=release //bench:pairs_bench -- [SESSIONS [WINDOW [SECONDS]]]
 *
 * The core alone, without streams and store. Each session has WINDOW locks of its own, and each of
 * its messages releases all of them and acquires them again, as programs' libraries do it. The
 * figure is nanoseconds of processor time inside steps for each pair. */
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

#define NAME_BYTES 64

struct program {
    uint64_t link, *tokens;
    char (*names)[NAME_BYTES];
};

static struct lh_master *m;
static struct lh_effects fx;
static struct lh_instant now = {1000000000};
static uint64_t spent_ns, next_link = 1, requests;

static uint64_t processor_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Tokens of grants are put to `p`, in the order of its requests. */
static void take_answers(const struct lh_effect *e, struct program *p)
{
    ProtobufCMessage *message;
    struct lh_buf payload = {0};
    size_t count = 0;

    LH_ASSERT(
        lh_wire_decode(LH_METHOD_LEASE_SESSION, LH_REPLY, &e->header, &message, &payload) == LH_OK);
    const Leasehold__LeaseSessionReply *reply = (void *)message;
    if (p != NULL && reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
        for (size_t i = 0; i < reply->answers->n_answers; i++) {
            LH_ASSERT(
                reply->answers->answers[i]->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED);
            p->tokens[count++] = reply->answers->answers[i]->granted->token;
        }
    protobuf_c_message_free_unpacked(message, NULL);
    lh_buf_clear(&payload);
}

static void step(struct lh_input *in, struct program *p)
{
    uint64_t tickets[64];
    size_t count = 0;

    in->now = now;
    uint64_t begun = processor_ns();
    lh_master_step(m, in, &fx);
    spent_ns += processor_ns() - begun;
    for (size_t i = 0; i < fx.count; i++) {
        const struct lh_effect *e = &fx.items[i];
        if (e->kind == LH_FX_PERSIST && count < sizeof tickets / sizeof *tickets)
            tickets[count++] = e->ticket;
        if (e->kind == LH_FX_SEND)
            take_answers(e, p);
    }
    lh_effects_clear(&fx);
    for (size_t i = 0; i < count; i++) {
        struct lh_input done = {.kind = LH_IN_PERSISTED, .ticket = tickets[i]};
        step(&done, p);
    }
}

static void send(struct program *p, Leasehold__LeaseSessionRequest *request)
{
    struct lh_input in = {.kind = LH_IN_MESSAGE,
        .link = p->link,
        .method = LH_METHOD_LEASE_SESSION,
        .message = request};

    step(&in, p);
}

static void comes(struct program *p, uint64_t number, size_t window)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;
    struct lh_input in = {.kind = LH_IN_LINK_OPENED,
        .link = LH_LINK_SERVED | next_link++,
        .method = LH_METHOD_LEASE_SESSION};
    uint8_t id[16] = {1};

    p->link = in.link;
    p->tokens = lh_alloc_array(window, sizeof *p->tokens);
    p->names = lh_alloc_array(window, sizeof *p->names);
    for (size_t i = 0; i < window; i++)
        snprintf(p->names[i], NAME_BYTES, "/bench/pair/%012" PRIu64, number * window + i);
    step(&in, p);
    memcpy(id + 8, &number, sizeof number);
    a.session = (ProtobufCBinaryData){.data = id, .len = sizeof id};
    a.opens = true;
    a.stream = 1;
    a.term_ms = 60000;
    a.host = a.process = a.label = "pairs";
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    send(p, &request);
    show.stamp = now.ns;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    request.show = &show;
    send(p, &request);
}

/* Releases what it has, and acquires all. */
static void goes_round(struct program *p, size_t window)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps all = LEASEHOLD__LEASE_OPS__INIT;
    Leasehold__LeaseOp *ops = lh_alloc_array(2 * window, sizeof *ops);
    Leasehold__LeaseOp **pointers = lh_alloc_array(2 * window, sizeof *pointers);
    Leasehold__Acquire *acquires = lh_alloc_array(window, sizeof *acquires);
    Leasehold__ReleaseLock *releases = lh_alloc_array(window, sizeof *releases);

    for (size_t i = 0; i < window; i++) {
        leasehold__release_lock__init(&releases[i]);
        releases[i].name = p->names[i];
        releases[i].token = p->tokens[i];
        leasehold__acquire__init(&acquires[i]);
        acquires[i].name = p->names[i];
        acquires[i].id = ++requests;
        for (unsigned k = 0; k < 2; k++) {
            Leasehold__LeaseOp *op = &ops[all.n_ops];
            if (k == 0 && p->tokens[i] == 0)
                continue;
            pointers[all.n_ops++] = op;
            leasehold__lease_op__init(op);
            op->op_case =
                k == 0 ? LEASEHOLD__LEASE_OP__OP_RELEASE : LEASEHOLD__LEASE_OP__OP_ACQUIRE;
            if (k == 0)
                op->release = &releases[i];
            else
                op->acquire = &acquires[i];
        }
    }
    all.ops = pointers;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    request.ops = &all;
    send(p, &request);
    free(releases);
    free(acquires);
    free(pointers);
    free(ops);
}

static uint64_t number(int argc, char **argv, int i, uint64_t preset)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : preset;
}

int main(int argc, char **argv)
{
    struct lh_master_config config = lh_master_config_default();
    uint64_t count = number(argc, argv, 1, 16), window = number(argc, argv, 2, 32), pairs = 0;
    uint64_t seconds = number(argc, argv, 3, 5);
    struct program *programs = lh_alloc_array(count, sizeof *programs);
    struct lh_input first = {.kind = LH_IN_TIMER};

    m = lh_master_create(&config);
    step(&first, NULL);
    for (uint64_t i = 0; i < count; i++) {
        comes(&programs[i], i, window);
        goes_round(&programs[i], window);
    }
    for (spent_ns = 0; spent_ns < seconds * 1000000000u; now.ns += 1000)
        for (uint64_t i = 0; i < count; i++, pairs += window)
            goes_round(&programs[i], window);
    printf("%" PRIu64 " sessions with %" PRIu64 " locks each: %.1f ns a pair\n", count, window,
        (double)spent_ns / (double)pairs);
    lh_effects_deinit(&fx);
    lh_master_destroy(m);
    for (uint64_t i = 0; i < count; i++) {
        free(programs[i].tokens);
        free(programs[i].names);
    }
    free(programs);
    return 0;
}
