/* The public library with its threads and real sockets, against one server that plays master and
 * primary of one chunk, in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "batch/batch.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/loop.h"
#include "tests/chained.h"
#include "tests/numbered.h"

#include "client/library/leasehold.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE (64u << 20)

/* ---- The server ---- */

struct stored {
    uint64_t offset, writer, sequence;
    uint32_t size, count;
};

struct server {
    struct lh_loop *loop;
    char address[32];
    struct lh_buf log;
    uint64_t checksum; /* running checksum at its end */
    struct stored *stored;
    size_t stored_count, stored_capacity;
    bool paused;                         /* appends are stored but not answered, reads dropped */
    size_t answered;                     /* of `stored` */
    uint64_t streams[4096], lanes[4096]; /* by batch: whom to answer */
};

static Leasehold__FileInfo file_info(void)
{
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;

    info.file = 1;
    info.path = (char *)(uintptr_t) "/f";
    info.chunk_size = CHUNK_SIZE;
    return info;
}

static Leasehold__Member member(struct server *s)
{
    Leasehold__Member m = LEASEHOLD__MEMBER__INIT;

    m.server_id = (char *)(uintptr_t) "s1";
    m.address = s->address;
    return m;
}

static Leasehold__ChunkInfo chunk_info(Leasehold__Member **members)
{
    Leasehold__ChunkInfo c = LEASEHOLD__CHUNK_INFO__INIT;

    c.chunk = 1;
    c.version = 1;
    c.primary = (char *)(uintptr_t) "s1";
    c.members = members;
    c.n_members = 1;
    return c;
}

static void answer_appends(struct server *s, struct lh_effects *fx)
{
    for (; !s->paused && s->answered < s->stored_count; s->answered++) {
        const struct stored *b = &s->stored[s->answered];
        Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;
        Leasehold__Stored stored = LEASEHOLD__STORED__INIT;
        Leasehold__Stored *list[] = {&stored};

        m.lane = s->lanes[s->answered];
        stored.writer = b->writer;
        stored.sequence = b->sequence;
        stored.count = b->count;
        stored.offset = b->offset;
        m.stored = list;
        m.n_stored = 1;
        answer_number(fx, s->streams[s->answered], m, false);
    }
}

static void take_append(struct server *s, struct lh_input *in, struct lh_effects *fx)
{
    const Leasehold__AppendRequest *q = in->message;
    struct lh_batch_header h;

    for (size_t i = 0; i < q->n_parts; i++) {
        Leasehold__AppendAnswer m = LEASEHOLD__APPEND_ANSWER__INIT;
        if (q->parts[i]->writer == 0)
            continue;
        m.lane = q->parts[i]->lane;
        m.opened = true;
        m.writer = q->parts[i]->writer;
        m.window_batches = 16;
        m.window_bytes = 8u << 20;
        answer_number(fx, in->link, m, false);
    }
    for (size_t at = 0; at < in->payload.size; at += h.size) {
        assert_int_equal(lh_batch_check_records(&in->payload, at, lh_batch_bytes_max(CHUNK_SIZE),
                             lh_record_bytes_max(CHUNK_SIZE), &h),
            LH_OK);
        assert_true(s->stored_count < 4096);
        LH_GROW(s->stored, s->stored_capacity, s->stored_count + 1);
        s->streams[s->stored_count] = in->link;
        s->lanes[s->stored_count] = q->parts[0]->lane; /* of one file */
        s->stored[s->stored_count++] = (struct stored){
            .offset = s->log.size + at,
            .writer = h.writer,
            .sequence = h.sequence,
            .size = h.size,
            .count = h.count,
        };
    }
    if (s->log.size == 0)
        s->checksum = lh_log_seed(1);
    struct lh_buf sent = lh_buf_ref(&in->payload), stored = chained(&sent, &s->checksum);
    lh_buf_append(&s->log, &stored, 0, stored.size);
    lh_buf_clear(&stored);
    answer_appends(s, fx);
}

static void answer_read(struct server *s, const struct lh_input *in, struct lh_effects *fx)
{
    const Leasehold__ReadRequest *q = in->message;
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    struct lh_buf bytes = {0};
    uint64_t end = q->offset;

    if (s->paused)
        return;
    for (size_t i = 0; i < s->stored_count; i++)
        if (s->stored[i].offset == end &&
            (end == q->offset || end + s->stored[i].size - q->offset <= q->max_bytes))
            end += s->stored[i].size;
    if (end > q->offset) {
        struct lh_buf before = {0};
        lh_buf_append(&bytes, &s->log, q->offset, end - q->offset);
        if (q->offset > 0)
            lh_buf_append(&before, &s->log, q->offset - LH_BATCH_CHAIN_BYTES, LH_BATCH_CHAIN_BYTES);
        assert_int_equal(lh_log_checksum_before(&before, q->offset, 1, &m.checksum), LH_OK);
        lh_buf_clear(&before);
    }
    m.version = 1;
    m.committed = s->log.size;
    m.primary = true;
    if (q->chunk != 1) {
        m = (Leasehold__ReadReply)LEASEHOLD__READ_REPLY__INIT;
        m.error = LEASEHOLD__ERROR_CODE__NO_REPLICA;
        lh_buf_clear(&bytes);
    }
    lh_fx_reply(fx, in->link, &m.base, &bytes);
}

static void answer(struct server *s, struct lh_input *in, struct lh_effects *fx)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__Member self = member(s);
    Leasehold__Member *members[] = {&self};
    Leasehold__ChunkInfo chunk = chunk_info(members);
    Leasehold__ChunkInfo *chunks[] = {&chunk};

    if (in->method == LH_METHOD_STAT) {
        const Leasehold__StatRequest *q = in->message;
        Leasehold__StatReply m = LEASEHOLD__STAT_REPLY__INIT;
        m.error = strcmp(q->path, "/f") == 0 ? LEASEHOLD__ERROR_CODE__OK
                                             : LEASEHOLD__ERROR_CODE__NOT_FOUND;
        m.info = &info;
        lh_fx_reply(fx, in->link, &m.base, NULL);
    } else if (in->method == LH_METHOD_OPEN_TAIL) {
        Leasehold__OpenTailReply m = LEASEHOLD__OPEN_TAIL_REPLY__INIT;
        m.info = &info;
        m.chunk = &chunk;
        m.primary = &self;
        lh_fx_reply(fx, in->link, &m.base, NULL);
    } else if (in->method == LH_METHOD_LOCATE) {
        Leasehold__LocateReply m = LEASEHOLD__LOCATE_REPLY__INIT;
        m.info = &info;
        m.chunks = chunks;
        m.n_chunks = 1;
        lh_fx_reply(fx, in->link, &m.base, NULL);
    } else if (in->method == LH_METHOD_EXPLAIN) {
        Leasehold__ExplainReply m = LEASEHOLD__EXPLAIN_REPLY__INIT;
        const Leasehold__ExplainRequest *q = in->message;
        Leasehold__ChunkState lacking = LEASEHOLD__CHUNK_STATE__INIT;
        m.info = &info;
        m.chunk = q->chunk == 2 ? &lacking : NULL;
        lh_fx_reply(fx, in->link, &m.base, NULL);
    } else if (in->method == LH_METHOD_LIST_CHUNKS) {
        Leasehold__ListChunksReply m = LEASEHOLD__LIST_CHUNKS_REPLY__INIT;
        Leasehold__ChunkState state = LEASEHOLD__CHUNK_STATE__INIT;
        Leasehold__ChunkState *states[] = {&state};
        state.chunk = &chunk;
        state.path = info.path;
        m.chunks = states;
        m.n_chunks = 1;
        lh_fx_reply(fx, in->link, &m.base, NULL);
    } else if (in->method == LH_METHOD_READ) {
        answer_read(s, in, fx);
    } else if (in->method == LH_METHOD_APPEND) {
        take_append(s, in, fx);
    }
}

static void server_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct server *s = self;

    if (in->kind == LH_IN_MESSAGE) {
        answer(s, in, fx);
    } else if (in->kind == LH_IN_CALL) {
        s->paused = in->call != NULL;
        answer_appends(s, fx);
    }
}

static struct lh_instant server_deadline(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static void server_pause(struct server *s, bool paused)
{
    assert_true(lh_loop_call(s->loop, paused ? s : NULL));
}

struct fixture {
    struct server server;
    struct lh_cluster *cluster;
};

static int setup(void **state)
{
    struct fixture *f = lh_alloc(sizeof *f);
    struct server *s = &f->server;
    char why[256];
    struct lh_loop_config config = {
        .core = {.self = s, .step = server_step, .deadline = server_deadline},
        .name = "test",
        .listen = "127.0.0.1:0",
    };

    assert_int_equal(lh_loop_create(&config, &s->loop, why, sizeof why), LH_OK);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%d", lh_loop_port(s->loop));
    lh_loop_start(s->loop);
    assert_int_equal(lh_cluster_open(s->address, NULL, &f->cluster), LH_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    lh_cluster_close(f->cluster);
    lh_loop_destroy(f->server.loop);
    lh_buf_clear(&f->server.log);
    free(f->server.stored);
    free(f);
    return 0;
}

static struct lh_appender *open_appender(
    struct fixture *f, const struct lh_appender_options *options)
{
    struct lh_appender *a;

    assert_int_equal(lh_appender_open(f->cluster, "/f", options, 10000, &a), LH_OK);
    return a;
}

/* ---- Stories ---- */

static void a_record_comes_back_from_its_position(void **state)
{
    struct fixture *f = *state;
    struct lh_appender *a = open_appender(f, NULL);
    struct lh_position first, second;
    struct lh_reader *r;
    struct lh_record record;

    assert_int_equal(lh_append(a, "one", 3, 10000, &first), LH_OK);
    assert_int_equal(lh_append(a, "", 0, 10000, &second), LH_OK);
    assert_int_equal(first.offset, 0);
    assert_true(second.offset > first.offset);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);

    assert_int_equal(lh_reader_open(f->cluster, "/f", NULL, 10000, &r), LH_OK);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_OK);
    assert_int_equal(record.size, 3);
    assert_memory_equal(record.data, "one", 3);
    struct lh_position at = lh_reader_position(r);
    assert_int_equal(at.offset, second.offset);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_OK);
    assert_int_equal(record.size, 0);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_END);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_END);
    lh_reader_close(r);
}

struct notified {
    unsigned calls, records;
    int error;
    uint64_t last_offset;
    uint32_t next_index;
};

static void notify(void *arg, int error, struct lh_position first, uint32_t count)
{
    struct notified *t = arg;

    /* In order. */
    if (error == LH_OK && t->calls > 0)
        assert_true(first.offset > t->last_offset || first.index >= t->next_index);
    t->calls++;
    t->records += count;
    t->error = error;
    t->last_offset = first.offset;
    t->next_index = first.index + count;
}

#define MANY 20000

static void callbacks_tell_each_record_once(void **state)
{
    struct fixture *f = *state;
    struct lh_appender *a = open_appender(f, NULL);
    struct notified even = {0}, odd = {0};
    struct lh_appender_stats stats;

    for (int i = 0; i < MANY; i++)
        assert_int_equal(
            lh_append_async(a, &i, sizeof i, notify, i % 100 < 50 ? &even : &odd, 10000), LH_OK);
    assert_int_equal(lh_flush(a, 10000), LH_OK);
    assert_int_equal(even.records, MANY / 2);
    assert_int_equal(odd.records, MANY / 2);
    assert_int_equal(even.error, LH_OK);
    lh_appender_stats(a, &stats);
    assert_int_equal(stats.records_stored, MANY);
    assert_int_equal(stats.bytes_stored, MANY * sizeof(int));
    assert_true(stats.batches_stored < MANY / 10);

    /* One record's position is enough to begin there, in the middle of a batch. */
    struct lh_reader_options from = {.start = stats.last};
    struct lh_reader *r;
    struct lh_record record;
    assert_int_equal(lh_reader_open(f->cluster, "/f", &from, 10000, &r), LH_OK);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_OK);
    int last;
    assert_int_equal(record.size, sizeof last);
    memcpy(&last, record.data, sizeof last);
    assert_int_equal(last, MANY - 1);
    assert_int_equal(record.position.index, stats.last.index);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_END);
    lh_reader_close(r);

    /* Batch by batch it is the same sequence. */
    struct lh_batch batch;
    int wanted = 0;
    assert_int_equal(lh_reader_open(f->cluster, "/f", NULL, 10000, &r), LH_OK);
    while (lh_reader_next_batch(r, 10000, &batch) == LH_OK) {
        const void *data;
        size_t cursor = 0, size;
        while (lh_batch_next(&batch, &cursor, &data, &size)) {
            assert_memory_equal(data, &wanted, sizeof wanted);
            wanted++;
        }
    }
    assert_int_equal(wanted, MANY);
    lh_reader_close(r);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
}

struct worker {
    struct lh_appender *appender;
    uint32_t number;
};

#define WORKERS 8
#define EACH    200

static void *append_some(void *arg)
{
    const struct worker *w = arg;
    struct lh_position last = {0};

    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t record[2] = {w->number, i};
        struct lh_position at;
        assert_int_equal(lh_append(w->appender, record, sizeof record, 10000, &at), LH_OK);
        assert_true(i == 0 || at.offset > last.offset ||
                    (at.offset == last.offset && at.index > last.index));
        last = at;
    }
    return NULL;
}

static void threads_share_an_appender(void **state)
{
    struct fixture *f = *state;
    struct lh_appender *a = open_appender(f, NULL);
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    uint32_t next[WORKERS] = {0};

    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.appender = a, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, append_some, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);

    struct lh_reader *r;
    struct lh_record record;
    assert_int_equal(lh_reader_open(f->cluster, "/f", NULL, 10000, &r), LH_OK);
    while (lh_reader_next(r, 10000, &record) == LH_OK) {
        uint32_t got[2];
        assert_int_equal(record.size, sizeof got);
        memcpy(got, record.data, sizeof got);
        assert_int_equal(got[1], next[got[0]]++);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(next[i], EACH);
    lh_reader_close(r);
}

static void memory_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct lh_appender_options small = {.batch_bytes_max = 4096, .memory_bytes_max = 16384};
    struct lh_appender *a = open_appender(f, &small);
    char record[1000] = {0};
    unsigned taken = 0;
    struct notified notified = {0};

    server_pause(&f->server, true);
    while (lh_append_async(a, record, sizeof record, notify, &notified, 0) == LH_OK)
        taken++;
    assert_in_range(taken, 12, 16);
    assert_int_equal(
        lh_append_async(a, record, sizeof record, notify, &notified, 20), LH_ERR_WOULD_BLOCK);
    assert_int_equal(lh_append(a, record, sizeof record, 0, NULL), LH_ERR_WOULD_BLOCK);

    /* With room again, the next one is taken: none was lost or doubled. */
    server_pause(&f->server, false);
    assert_int_equal(lh_append_async(a, record, sizeof record, notify, &notified, 10000), LH_OK);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
    assert_int_equal(notified.records, taken + 1);

    /* A record longer than the batches' limit goes alone. */
    a = open_appender(f, &small);
    char *large = lh_alloc(100000);
    assert_int_equal(lh_append(a, large, 100000, 10000, NULL), LH_OK);
    assert_int_equal(
        lh_append(a, large, (size_t)lh_appender_record_max(a) + 1, 10000, NULL), LH_ERR_TOO_LARGE);
    free(large);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
}

static void all_appenders_together_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct lh_cluster_options options = {.memory_bytes_max = 64u << 10};
    struct lh_appender_options small = {.batch_bytes_max = 4096};
    struct lh_cluster *cluster;
    struct lh_appender *a[8];
    char record[1000] = {0};
    unsigned taken = 0, before;
    struct notified notified = {0};

    assert_int_equal(lh_cluster_open(f->server.address, &options, &cluster), LH_OK);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(lh_appender_open(cluster, "/f", &small, 10000, &a[i]), LH_OK);
    server_pause(&f->server, true);
    for (unsigned i = 0; i < 8; i++) {
        before = taken;
        while (lh_append_async(a[i], record, sizeof record, notify, &notified, 0) == LH_OK)
            taken++;
        /* The first takes what there is, and the others their share, though there is no more. */
        assert_in_range(taken - before, i == 0 ? 60 : 7, i == 0 ? 70 : 12);
    }

    /* Who waits goes on when its own are answered, whatever the others hold. */
    server_pause(&f->server, false);
    for (unsigned i = 0; i < 8; i++)
        for (unsigned n = 0; n < 100; n++, taken++)
            assert_int_equal(
                lh_append_async(a[i], record, sizeof record, notify, &notified, 10000), LH_OK);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(lh_appender_close(a[i], 10000), LH_OK);
    assert_int_equal(notified.records, taken);
    lh_cluster_close(cluster);
}

static void a_timeout_does_not_take_a_record_back(void **state)
{
    struct fixture *f = *state;
    struct lh_appender *a = open_appender(f, NULL);

    server_pause(&f->server, true);
    assert_int_equal(lh_append(a, "x", 1, 20, NULL), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(lh_flush(a, 20), LH_ERR_DEADLINE_EXCEEDED);
    assert_non_null(strstr(lh_last_error(), "1 records"));
    server_pause(&f->server, false);
    assert_int_equal(lh_flush(a, 10000), LH_OK);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
}

static void closing_tells_what_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct lh_appender *a = open_appender(f, NULL);
    struct notified notified = {0};

    server_pause(&f->server, true);
    for (int i = 0; i < 10; i++)
        assert_int_equal(lh_append_async(a, "x", 1, notify, &notified, 0), LH_OK);
    assert_int_equal(lh_appender_close(a, 20), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(notified.records, 10);
    assert_int_equal(notified.error, LH_ERR_CANCELLED);
}

struct chain {
    struct lh_appender *appender;
    _Atomic unsigned left;
    int flush_error;
};

static void append_another(void *arg, int error, struct lh_position first, uint32_t count)
{
    struct chain *c = arg;

    (void)first;
    (void)count;
    assert_int_equal(error, LH_OK);
    c->flush_error = lh_flush(c->appender, 10000);
    if (c->left > 0) {
        c->left--;
        assert_int_equal(lh_append_async(c->appender, "y", 1, append_another, c, 10000), LH_OK);
    }
}

static void callbacks_may_append(void **state)
{
    struct fixture *f = *state;
    struct chain c = {.appender = open_appender(f, NULL), .left = 50};

    assert_int_equal(lh_append_async(c.appender, "y", 1, append_another, &c, 10000), LH_OK);
    while (c.left > 0)
        assert_int_equal(lh_flush(c.appender, 10000), LH_OK);
    assert_int_equal(lh_appender_close(c.appender, 10000), LH_OK);
    assert_int_equal(c.flush_error, LH_ERR_WOULD_BLOCK);
}

static void a_following_reader_waits(void **state)
{
    struct fixture *f = *state;
    struct lh_reader_options follow = {.follow = true};
    struct lh_appender *a = open_appender(f, NULL);
    struct lh_reader *r;
    struct lh_record record;

    assert_int_equal(lh_reader_open(f->cluster, "/f", &follow, 10000, &r), LH_OK);
    assert_int_equal(lh_reader_next(r, 20, &record), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(lh_append(a, "late", 4, 10000, NULL), LH_OK);
    assert_int_equal(lh_reader_next(r, 10000, &record), LH_OK);
    assert_memory_equal(record.data, "late", 4);
    lh_reader_close(r);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
}

static void one_server_is_asked_for_its_replica(void **state)
{
    struct fixture *f = *state;
    const char *address = f->server.address;
    struct lh_appender *a = open_appender(f, NULL);
    struct lh_replica_status status;
    struct lh_replica_scan scan = {0}, wrong = {0};

    for (int i = 0; i < 3; i++)
        assert_int_equal(lh_append(a, "record", 6, 10000, NULL), LH_OK);
    assert_int_equal(lh_appender_close(a, 10000), LH_OK);
    assert_int_equal(lh_replica_stat(f->cluster, address, 1, 10000, &status), LH_OK);
    assert_int_equal(status.version, 1);
    assert_int_equal(status.committed, 3 * (LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES + 6));
    assert_true(status.primary);
    assert_false(status.sealed);
    while (lh_replica_check(f->cluster, address, 1, status.committed, 10000, &scan) == LH_OK)
        continue;
    assert_int_equal(scan.offset, status.committed);

    /* The running checksum, batch by batch. */
    uint64_t checksum = lh_log_seed(1);
    struct lh_batch_header h;
    struct lh_batch batch;
    struct lh_reader *r;
    assert_int_equal(lh_reader_open(f->cluster, "/f", NULL, 10000, &r), LH_OK);
    while (lh_reader_next_batch(r, 10000, &batch) == LH_OK) {
        assert_int_equal(lh_batch_header_decode(batch.data, &h), LH_OK);
        checksum = lh_log_checksum(checksum, &h);
    }
    lh_reader_close(r);
    assert_int_equal(scan.checksum, checksum);

    /* An end within a batch, and one behind the log. */
    assert_int_equal(lh_replica_check(f->cluster, address, 1, h.size + 1, 10000, &wrong), LH_OK);
    assert_int_equal(wrong.offset, h.size);
    assert_int_equal(
        lh_replica_check(f->cluster, address, 1, h.size + 1, 10000, &wrong), LH_ERR_MALFORMED);
    assert_int_equal(wrong.offset, h.size);
    assert_int_equal(lh_replica_check(f->cluster, address, 1, status.committed + 1, 10000, &scan),
        LH_ERR_MALFORMED);

    /* Nobody else is tried, and nothing is tried twice. */
    assert_int_equal(lh_replica_stat(f->cluster, address, 9, 10000, &status), LH_ERR_NO_REPLICA);
    assert_int_equal(
        lh_replica_stat(f->cluster, "127.0.0.1:1", 1, 10000, &status), LH_ERR_UNAVAILABLE);
    server_pause(&f->server, true);
    assert_int_equal(
        lh_replica_stat(f->cluster, address, 1, 20, &status), LH_ERR_DEADLINE_EXCEEDED);
    server_pause(&f->server, false);
}

static void operators_get_what_the_master_said(void **state)
{
    struct fixture *f = *state;
    struct lh_explanation e;
    struct lh_chunk_state_list chunks;
    struct lh_server_info server;

    assert_int_equal(lh_explain(f->cluster, "/f", 0, 10000, &e), LH_OK);
    assert_string_equal(e.info.path, "/f");
    assert_false(e.has_chunk);
    lh_explanation_deinit(&e);
    assert_int_equal(lh_explain(f->cluster, NULL, 2, 10000, &e), LH_ERR_MALFORMED);
    assert_int_equal(lh_explain(f->cluster, NULL, 0, 10000, &e), LH_ERR_INVALID_ARGUMENT);

    assert_int_equal(lh_chunks(f->cluster, NULL, 0, 0, 10000, &chunks), LH_OK);
    assert_int_equal(chunks.count, 1);
    assert_int_equal(chunks.chunks[0].info.member_count, 1);
    assert_string_equal(chunks.chunks[0].path, "/f");
    lh_chunk_state_list_deinit(&chunks);
    assert_int_equal(lh_set_server(f->cluster, "s1", (enum lh_server_admin)7, 10000, &server),
        LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(lh_remove(f->cluster, NULL, NULL, 10000, NULL), LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(lh_restore(f->cluster, NULL, 0, "/g", 10000, NULL), LH_ERR_INVALID_ARGUMENT);
}

static void mistakes_are_named(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"", "nowhere", "host:", "host:0", "host:70000", "a:1,b"};
    struct lh_cluster *c;
    struct lh_appender *a;
    struct lh_reader *r;
    struct lh_file_info info;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lh_cluster_open(bad[i], NULL, &c), LH_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(lh_last_error(), "\"b\""));
    assert_int_equal(lh_stat(f->cluster, "/no", 10000, &info), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_appender_open(f->cluster, "/no", NULL, 10000, &a), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_reader_open(f->cluster, "/no", NULL, 10000, &r), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(lh_last_error(), "/no"));
    assert_int_equal(lh_stat(f->cluster, "/f", 10000, &info), LH_OK);
    assert_string_equal(info.path, "/f");
    lh_file_info_deinit(&info);

    /* Nobody listens on port 1. */
    assert_int_equal(lh_cluster_open("127.0.0.1:1", NULL, &c), LH_OK);
    assert_int_equal(lh_stat(c, "/f", 300, &info), LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(lh_last_error(), "127.0.0.1:1"));
    lh_cluster_close(c);

    assert_string_equal(lh_error_name(LH_ERR_WOULD_BLOCK), "WOULD_BLOCK");
    assert_true(lh_error_may_retry(LH_ERR_UNAVAILABLE));
    assert_false(lh_error_may_retry(LH_ERR_NOT_FOUND));
    assert_false(lh_error_may_retry(LH_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_comes_back_from_its_position, setup, teardown),
        cmocka_unit_test_setup_teardown(callbacks_tell_each_record_once, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_share_an_appender, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(all_appenders_together_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timeout_does_not_take_a_record_back, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_tells_what_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(callbacks_may_append, setup, teardown),
        cmocka_unit_test_setup_teardown(a_following_reader_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(one_server_is_asked_for_its_replica, setup, teardown),
        cmocka_unit_test_setup_teardown(operators_get_what_the_master_said, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_are_named, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
