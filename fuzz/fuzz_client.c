/* libFuzzer target: a whole client's core (world.h). */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "client/core/client.h"
#include "fuzz/world.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS_MAX 64

/* A program with one appender and one reader. */
struct program {
    struct lh_call *calls[CALLS_MAX]; /* under way */
    size_t count;
    struct lh_client_appender *appender;
    struct lh_client_reader *reader;
    uint64_t writer, sequence;
    bool opening_appender, opening_reader, fetching;
};

static struct program program;

static void start(struct world *w, struct lh_core *core)
{
    static const char *const masters[] = {"m", "n"};
    struct lh_client_config config = {.masters = masters, .master_count = 2, .seed = w->starts};

    if ((w->small & 1) != 0) {
        config.read_bytes = config.chunks_ahead = config.messages = config.stream_writers = 1;
        config.full_message_bytes = config.unanswered_bytes = config.message_bytes = 1;
        config.silent_servers = 1;
    }
    program = (struct program){0};
    *core = lh_client_core(lh_client_create(&config));
}

static void check(void *self)
{
    lh_client_check(self);
}

/* ---- Calls ---- */

static void fetch_deinit(struct lh_fetch_call *call)
{
    lh_buf_clear(&call->batches);
    lh_client_gap_deinit(&call->gap);
}

static void free_call(struct lh_call *call)
{
    if (call->kind == LH_CALL_SUBMIT)
        lh_buf_clear(&((struct lh_submit_call *)call)->batch);
    else if (call->kind == LH_CALL_FETCH)
        fetch_deinit((struct lh_fetch_call *)call);
    free(call);
}

static void *new_call(size_t size, enum lh_call_kind kind)
{
    struct lh_call *call = lh_alloc(size);

    call->kind = kind;
    return call;
}

static bool feed(struct world *w, struct lh_call *call)
{
    struct program *p = &program;

    if (p->count == CALLS_MAX || w->stopped) {
        free_call(call);
        return false;
    }
    p->calls[p->count++] = call;
    world_step(w, &(struct lh_input){.kind = LH_IN_CALL, .call = call});
    return true;
}

static void completed(struct world *w, void *done, int error)
{
    struct program *p = &program;
    struct lh_call *call = done;
    size_t i = 0;

    (void)w;
    while (i < p->count && p->calls[i] != call)
        i++;
    LH_ASSERT(i < p->count);
    p->calls[i] = p->calls[--p->count];
    if (call->kind == LH_CALL_APPENDER_OPEN) {
        p->opening_appender = false;
        if (error == LH_OK) {
            p->appender = ((struct lh_appender_open_call *)call)->appender;
            p->writer = ((struct lh_appender_open_call *)call)->writer;
            p->sequence = 0;
        }
    } else if (call->kind == LH_CALL_READER_OPEN) {
        p->opening_reader = false;
        if (error == LH_OK)
            p->reader = ((struct lh_reader_open_call *)call)->reader;
    } else if (call->kind == LH_CALL_FETCH) {
        p->fetching = false;
    }
    free_call(call);
}

static void open_appender(struct world *w)
{
    struct program *p = &program;
    struct lh_appender_open_call *call;

    if (p->appender != NULL || p->opening_appender)
        return;
    call = new_call(sizeof *call, LH_CALL_APPENDER_OPEN);
    call->path = "/a";
    call->deadline = lh_instant_add(w->now, lh_seconds(20));
    call->give_up = lh_seconds(30);
    p->opening_appender = true;
    (void)feed(w, &call->call);
}

static void submit(struct world *w)
{
    struct program *p = &program;
    struct lh_submit_call *call;
    struct lh_batch_builder builder;
    uint8_t record[255] = {0};

    if (p->appender == NULL || p->count == CALLS_MAX)
        return;
    call = new_call(sizeof *call, LH_CALL_SUBMIT);
    lh_batch_builder_init(&builder, 1024);
    bool fits = lh_batch_builder_add(&builder, record, take_byte(&w->in));
    LH_ASSERT(fits);
    call->appender = p->appender;
    call->sequence = ++p->sequence;
    call->count = 1;
    call->batch = lh_batch_builder_finish(&builder, p->writer, call->sequence);
    (void)feed(w, &call->call);
}

static void open_reader(struct world *w)
{
    struct program *p = &program;
    struct lh_reader_open_call *call;

    if (p->reader != NULL || p->opening_reader)
        return;
    call = new_call(sizeof *call, LH_CALL_READER_OPEN);
    call->path = "/a";
    call->deadline = lh_instant_add(w->now, lh_seconds(20));
    call->follow = (take_byte(&w->in) & 1) != 0;
    call->readahead = 1u << 20;
    p->opening_reader = true;
    (void)feed(w, &call->call);
}

static void fetch(struct world *w)
{
    struct program *p = &program;
    struct lh_fetch_call *call;

    if (p->reader == NULL || p->fetching)
        return;
    call = new_call(sizeof *call, LH_CALL_FETCH);
    call->reader = p->reader;
    call->deadline = lh_instant_add(w->now, lh_seconds(10));
    p->fetching = feed(w, &call->call);
}

/* Nothing of it is used any more once the call is fed. */
static void close_one(struct world *w, bool appender)
{
    struct program *p = &program;

    if (appender && p->appender != NULL) {
        struct lh_appender_close_call *call = new_call(sizeof *call, LH_CALL_APPENDER_CLOSE);
        call->appender = p->appender;
        if (p->count < CALLS_MAX)
            p->appender = NULL;
        (void)feed(w, &call->call);
    } else if (!appender && p->reader != NULL) {
        struct lh_reader_close_call *call = new_call(sizeof *call, LH_CALL_READER_CLOSE);
        call->reader = p->reader;
        if (p->count < CALLS_MAX)
            p->reader = NULL;
        (void)feed(w, &call->call);
    }
}

/* Its calls must exist until the core is gone. */
static void destroy(void *self)
{
    lh_client_destroy(self);
    while (program.count > 0)
        free_call(program.calls[--program.count]);
}

/* ---- A cluster as it is ---- */

static void answer(struct world *w, struct link *l, const ProtobufCMessage *said)
{
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;
    Leasehold__Member primary = LEASEHOLD__MEMBER__INIT, *members[] = {&primary};
    Leasehold__ChunkInfo chunk = LEASEHOLD__CHUNK_INFO__INIT, *chunks[] = {&chunk};
    Leasehold__OpenTailReply tail = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
    Leasehold__LocateReply located = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__StatReply stat = LEASEHOLD__STAT_REPLY__INIT;
    Leasehold__AppendReply reply = LEASEHOLD__APPEND_REPLY__INIT;
    Leasehold__AppendAnswer opened = LEASEHOLD__APPEND_ANSWER__INIT, *answers[] = {&opened};
    const Leasehold__AppendRequest *asked = (const Leasehold__AppendRequest *)said;
    Leasehold__ReadReply read = LEASEHOLD__READ_REPLY__INIT;
    struct lh_buf batches = {0};

    info.path = (char *)"/a";
    info.file = 5;
    info.chunk_size = LH_CHUNK_BYTES_MIN;
    primary.server_id = primary.address = chunk.primary = (char *)"cs1";
    chunk.chunk = 1;
    chunk.version = 1 + (take_byte(&w->in) & 1);
    chunk.members = members;
    chunk.n_members = 1;
    switch (l->method) {
    case LH_METHOD_STAT:
        stat.info = &info;
        world_say(w, l, &stat.base, NULL);
        break;
    case LH_METHOD_OPEN_TAIL:
        tail.info = &info;
        tail.chunk = &chunk;
        tail.primary = &primary;
        world_say(w, l, &tail.base, NULL);
        break;
    case LH_METHOD_LOCATE:
        located.info = &info;
        located.chunks = chunks;
        located.n_chunks = 1;
        world_say(w, l, &located.base, NULL);
        break;
    case LH_METHOD_APPEND:
        opened.opened = 1;
        opened.window_batches = 16;
        opened.window_bytes = 1u << 20;
        opened.lane = asked->n_parts == 0 ? 0 : asked->parts[0]->lane;
        opened.writer = asked->n_parts == 0 ? 0 : asked->parts[0]->writer;
        reply.answers = answers;
        reply.n_answers = 1;
        world_say(w, l, &reply.base, NULL);
        break;
    case LH_METHOD_READ:
        read.checksum = lh_log_seed(chunk.chunk) + (take_byte(&w->in) > 250);
        batches = make_batches(&w->said, &w->in, read.checksum);
        read.committed = batches.size + (take_byte(&w->in) & 1);
        world_say(w, l, &read.base, &batches);
        lh_buf_clear(&batches);
        break;
    default:
        break;
    }
}

static void usual(struct world *w, unsigned what)
{
    switch (what % 8) {
    case 0:
        open_appender(w);
        break;
    case 1:
        open_reader(w);
        break;
    case 2:
    case 3:
        submit(w);
        break;
    case 4:
    case 5:
        fetch(w);
        break;
    case 6:
        close_one(w, (what & 8) != 0);
        break;
    default:
        if ((what & 64) != 0)
            world_step(w, &(struct lh_input){.kind = LH_IN_STOP});
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* It serves nothing: opening is never tried. */
    static const struct part part = {.first = LH_METHOD_NONE,
        .last = LH_METHOD_NONE,
        .start = start,
        .check = check,
        .destroy = destroy,
        .usual = usual,
        .answer = answer,
        .completed = completed};
    struct world *w = lh_alloc(sizeof *w);

    world_run(w, &part, data, size);
    free(w);
    return 0;
}
