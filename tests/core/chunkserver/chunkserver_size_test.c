/* What a chunkserver keeps in memory for a chunk that nobody uses, and for one that takes appends.
 * How it is counted: tests/freed.h. */
#include "tests/core/chunkserver/chunkserver_sealed.h"
#include "tests/core/chunkserver/chunkserver_story.h"
#include "tests/freed.h"

#include <inttypes.h>
#include <stdlib.h>

#define IDLE_BYTES   224u
#define REST_BYTES   288u /* of an open chunk with one record, its writer table included */
#define OPEN_BYTES   4096u
#define SHARED_BYTES 3072u /* of all chunks: two streams, a part of the table of leases */

static uint64_t bytes_of_idle(size_t count)
{
    struct lh_chunkserver *cs = sealed_server(count, NULL);

    run_sealed(cs, (struct lh_instant){1000000000}, NULL, NULL);
    lh_chunkserver_check(cs);
    if (count > 0) {
        struct lh_replica_status s;
        assert_true(lh_chunkserver_replica(cs, count, &s) && s.sealed);
    }
    uint64_t before = freed();
    lh_chunkserver_destroy(cs);
    uint64_t bytes = freed() - before;
    return bytes;
}

static void an_idle_chunk_costs_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    uint64_t bytes = (bytes_of_idle(10000) - bytes_of_idle(0)) / 10000;
    print_message("an idle chunk: %" PRIu64 " bytes\n", bytes);
    assert_true(bytes <= IDLE_BYTES && bytes > 64);
}

/* The file of an open chunk with one record. */
static struct lh_buf open_file(uint64_t chunk)
{
    struct lh_chunk_header h = {.generation = 2,
        .version = 1,
        .chunk_size = 1u << 20,
        .durability = LEASEHOLD__DURABILITY__BUFFERED};
    uint64_t checksum = lh_log_seed(chunk);
    struct lh_buf slot = lh_chunk_header_encode(chunk, &h), file = {0};
    struct lh_buf batch = make_batch(WRITER + chunk, 1, 1, 100);
    struct lh_buf log = chained(&batch, &checksum);

    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_append(&file, &log, 0, log.size);
    lh_buf_clear(&slot);
    lh_buf_clear(&log);
    return file;
}

/* Of a core that has found open chunks at its start. */
static uint64_t bytes_of_found(size_t count)
{
    struct lh_chunkserver *cs = sealed_server(count, NULL);

    run_files(cs, (struct lh_instant){1000000000}, NULL, NULL, open_file);
    lh_chunkserver_check(cs);
    for (size_t i = 1; i <= count; i++) {
        struct lh_replica_status s;
        assert_true(lh_chunkserver_replica(cs, i, &s));
        assert_true(!s.sealed && s.length == BATCH);
    }
    uint64_t before = freed();
    lh_chunkserver_destroy(cs);
    uint64_t bytes = freed() - before;
    return bytes;
}

static void open_chunks_of_one_record_cost_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    uint64_t bytes = (bytes_of_found(10000) - bytes_of_found(0)) / 10000;
    print_message("an open chunk at rest: %" PRIu64 " bytes\n", bytes);
    assert_true(bytes <= REST_BYTES && bytes > 64);
}

enum use { TAKES_APPENDS, RESTS, IS_SEALED };

/* Of the core of A or B: A is the primary of a chunk with one writer, or was, and B a member. */
static uint64_t bytes_of_a_server(int node, enum use use, uint64_t batches, bool synced)
{
    struct world *w = world_create(1, synced);

    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, batches);
    if (use != TAKES_APPENDS)
        hang_up(c);
    if (use == IS_SEALED) {
        struct lh_replica_status s = node_status(w, A);
        master_record_seal(w, A, 1, s.length, s.checksum);
        master_record_seal(w, B, 1, s.length, s.checksum);
    }
    if (use != TAKES_APPENDS)
        pass(w, 100000); /* nothing is kept for those who settle, nor a stream to another server */
    assert_true(node_status(w, A).open == (use == TAKES_APPENDS));
    assert_true(node_status(w, node).sealed == (use == IS_SEALED));
    lh_chunkserver_check(w->nodes[node].cs);
    uint64_t before = freed();
    lh_chunkserver_destroy(w->nodes[node].cs);
    uint64_t bytes = freed() - before;
    w->nodes[node].cs = NULL;
    world_destroy(w);
    return bytes;
}

static void an_open_chunk_costs_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    uint64_t bytes = bytes_of_a_server(A, TAKES_APPENDS, 20, false) -
                     bytes_of_a_server(A, IS_SEALED, 20, false) + IDLE_BYTES;
    print_message("the first open chunk, with one writer: %" PRIu64 " bytes\n", bytes);
    assert_true(bytes <= OPEN_BYTES + SHARED_BYTES && bytes > IDLE_BYTES + SHARED_BYTES);
}

/* Once nobody appends to it, an open chunk has its writer table and else what a sealed one has. */
static void an_open_chunk_at_rest_has_its_writers_besides(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    for (unsigned i = 0; i < 8; i++) {
        int node = (i & 1) != 0 ? A : B;
        uint64_t batches = (i & 2) != 0 ? 1 : 2;
        bool synced = (i & 4) != 0;
        uint64_t bytes = bytes_of_a_server(node, RESTS, batches, synced) -
                         bytes_of_a_server(node, IS_SEALED, batches, synced);
        assert_int_equal(bytes, batches == 1 ? 64 : 64 + 48);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_chunk_costs_little),
        cmocka_unit_test(open_chunks_of_one_record_cost_little),
        cmocka_unit_test(an_open_chunk_costs_little),
        cmocka_unit_test(an_open_chunk_at_rest_has_its_writers_besides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
