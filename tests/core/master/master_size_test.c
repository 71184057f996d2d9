/* What the master keeps in memory for chunks and files in which nothing goes on, and for leases.
 * How it is counted: tests/freed.h. */
#include "tests/core/master/master_story.h"

#include "base/alloc.h"
#include "tests/freed.h"

#define CHUNK_BYTES_GOAL 128
#define FILE_BYTES_GOAL  256 /* with one chunk, without its path */

#define OPEN_BYTES_GOAL 256 /* likewise, with a chunk that takes appends */
#define HELD_BYTES_GOAL 1024

#define PATH_BYTES 32u

static void put(const void *key, size_t key_size, const ProtobufCMessage *record)
{
    size_t size = protobuf_c_message_get_packed_size(record);
    struct pair *p;

    LH_GROW(w.store, w.store_capacity, w.store_count + 1);
    p = &w.store[w.store_count++];
    *p = (struct pair){lh_alloc(key_size), lh_alloc(size + 1), (uint32_t)key_size, (uint32_t)size};
    memcpy(p->key, key, key_size);
    protobuf_c_message_pack(record, p->value);
}

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
}

static void put_file(uint64_t id)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;
    uint8_t key[9] = {'f'};
    char path[PATH_BYTES];

    put_u64(key + 1, id);
    snprintf(path, sizeof path, "/some/folder/%018u", (unsigned)id);
    record.file = id;
    record.path = path;
    record.replication = 3;
    record.min_replicas = 2;
    record.chunk_size = 1u << 20;
    put(key, sizeof key, &record.base);
}

static void put_chunk(uint64_t file, uint64_t index, uint64_t id)
{
    LeaseholdStored__Chunk record = stored_chunk(file, index, id);
    uint8_t key[17] = {'k'};

    put_u64(key + 1, file);
    put_u64(key + 9, index);
    record.version = 1;
    record.sealed = true;
    record.length = 1000;
    put(key, sizeof key, &record.base);
}

/* A store in which file 1 has the chunks 1, ..., file 2 the next ones, and so on. */
static void fill_store(size_t files, size_t chunks)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    world_close(&w);
    memset(&w, 0, sizeof w);
    w.config = lh_master_config_default();
    w.now = (struct lh_instant){1000000000};
    w.unchecked = true;
    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    record.next_file = files + 1;
    record.next_chunk = files * chunks + 1;
    put("M", 1, &record.base);
    for (uint64_t f = 1; f <= files; f++)
        put_file(f);
    for (uint64_t f = 1; f <= files; f++)
        for (uint64_t i = 0; i < chunks; i++)
            put_chunk(f, i, (f - 1) * chunks + i + 1);
}

static void register_with_all(struct server *s, size_t count)
{
    Leasehold__ReplicaReport *reports = lh_alloc_array(count, sizeof *reports);

    s->registration++;
    for (size_t i = 0; i < count; i++) {
        reports[i] = report_of(i + 1, 1, true);
        reports[i].length = 1000;
    }
    assert_true(server_register_with(&w, s, reports, count, NULL, 0));
    free(reports);
    assert_true(server_heartbeat(&w, s));
}

/* Of a core with so many files and chunks in each, which are all healthy and at rest. */
static int64_t bytes_of(size_t files, size_t chunks)
{
    const Leasehold__ListServersReply *reply;
    Leasehold__ListServersRequest request = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;

    fill_store(files, chunks);
    w.m = NULL;
    world_crash(&w);
    for (size_t i = 0; i < 3; i++)
        register_with_all(&servers[i], files * chunks);
    heartbeats(120000); /* for a sweep, and a census */
    lh_master_check(w.m);
    reply = world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &request));
    assert_int_equal(reply->repair->chunks_degraded, 0);
    assert_int_equal(reply->n_servers, 3);
    uint64_t before = freed();
    lh_master_destroy(w.m);
    uint64_t bytes = freed() - before;
    w.m = NULL;
    return (int64_t)bytes;
}

static void sealed_chunks_cost_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    int64_t none = bytes_of(0, 0), files = bytes_of(1000, 0), chunks = bytes_of(1000, 10);
    int64_t single = bytes_of(10000, 1), one = bytes_of(1, 10000);

    print_message(
        "a chunk: %.1f bytes in files of ten, %.1f in one of 10,000; a file with a chunk: "
        "%.1f and its path\n",
        (double)(chunks - files) / 10000, (double)(one - none) / 10000,
        (double)(single - none) / 10000 - PATH_BYTES);
    assert_true(chunks - files <= 10000 * CHUNK_BYTES_GOAL);
    assert_true(one - none <= 10000 * CHUNK_BYTES_GOAL);
    assert_true(single - none <= 10000 * (FILE_BYTES_GOAL + PATH_BYTES));
    assert_true(chunks - files >= 10000 * 64); /* else something was not counted */
}

/* Of a core that made so many files, each with a chunk that has a primary; `rests`: that was, and
 * nobody appends. */
static int64_t bytes_of_open(size_t files, bool rests)
{
    fill_store(0, 0);
    w.m = NULL;
    world_crash(&w);
    for (size_t i = 0; i < 3; i++) {
        servers[i].link = 0;
        register_with_all(&servers[i], 0);
    }
    for (size_t i = 0; i < files; i++) {
        struct server *primary = NULL;
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "/some/folder/%018u", (unsigned)i);
        uint64_t chunk = file_with_primary(path, &primary);
        server_recovered(&w, primary, chunk, 1);
        world_forget_lines(&w);
        if (i % 500 == 0)
            heartbeats(HEARTBEAT_MS);
    }
    heartbeats(rests ? 200000 : HEARTBEAT_MS);
    lh_master_check(w.m);
    assert_string_equal(state_of(files), rests ? "FREE" : "HELD");
    uint64_t before = freed();
    lh_master_destroy(w.m);
    uint64_t bytes = freed() - before;
    w.m = NULL;
    return (int64_t)bytes;
}

static void open_chunks_cost_little_once_nobody_appends(void **state)
{
    const size_t count = 2000; /* and one, with which the rings of events come */

    (void)state;
    if (mallctl == NULL)
        skip();
    int64_t none = bytes_of_open(1, true), held = bytes_of_open(count + 1, false);
    int64_t rests = bytes_of_open(count + 1, true);

    print_message("a file with an open chunk: %.1f bytes and its path with a lease, %.1f without\n",
        (double)(held - none) / (double)count - PATH_BYTES,
        (double)(rests - none) / (double)count - PATH_BYTES);
    assert_true(held - none <= (int64_t)count * (HELD_BYTES_GOAL + PATH_BYTES));
    assert_true(rests - none <= (int64_t)count * (OPEN_BYTES_GOAL + PATH_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(sealed_chunks_cost_little),
        STORY(open_chunks_cost_little_once_nobody_appends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
