/* What a chunkserver keeps in memory for a chunk that nobody uses, and for one that takes appends.
 * How it is counted: tests/freed.h. */
#include "tests/core/chunkserver/chunkserver_sealed.h"
#include "tests/core/chunkserver/chunkserver_story.h"
#include "tests/freed.h"

#include <inttypes.h>
#include <stdlib.h>

#define IDLE_BYTES   224u
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

/* Of the core of A: it is the primary of a chunk with one writer, or was. */
static uint64_t bytes_of_a_server(bool open)
{
    struct world *w = world_create(1, false);

    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 20);
    if (!open) {
        struct lh_replica_status s = node_status(w, A);
        master_record_seal(w, A, 1, s.length, s.checksum);
        pass(w, 100000); /* nothing is kept for those who settle, nor a stream to another server */
    }
    assert_true(node_status(w, A).open == open);
    assert_true(node_status(w, A).sealed != open);
    uint64_t before = freed();
    lh_chunkserver_destroy(w->nodes[A].cs);
    uint64_t bytes = freed() - before;
    w->nodes[A].cs = NULL;
    world_destroy(w);
    return bytes;
}

static void an_open_chunk_costs_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    uint64_t bytes = bytes_of_a_server(true) - bytes_of_a_server(false) + IDLE_BYTES;
    print_message("the first open chunk, with one writer: %" PRIu64 " bytes\n", bytes);
    assert_true(bytes <= OPEN_BYTES + SHARED_BYTES && bytes > IDLE_BYTES + SHARED_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_chunk_costs_little),
        cmocka_unit_test(an_open_chunk_costs_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
