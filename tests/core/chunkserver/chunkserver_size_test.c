/* What a chunkserver keeps in memory for a chunk that nobody uses, and for one that takes appends.
 * How it is counted: tests/freed.h. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include "base/alloc.h"
#include "chunkserver/log/header.h"
#include "tests/freed.h"

#include <inttypes.h>
#include <stdlib.h>

#define IDLE_BYTES   256u
#define OPEN_BYTES   4096u
#define SHARED_BYTES 3072u /* of all chunks: two streams, a part of the table of leases */

/* The file of a sealed chunk, as far as a start reads it. */
static struct lh_buf sealed_file(uint64_t chunk)
{
    struct lh_chunk_header h = {
        .generation = 2,
        .chunk = chunk,
        .version = 1,
        .chunk_size = 1u << 20,
        .durability = LEASEHOLD__DURABILITY__BUFFERED,
        .sealed = true,
        .sealed_length = 1000,
        .sealed_checksum = 1,
    };
    struct lh_buf slot = lh_chunk_header_encode(&h), file = {0};

    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_clear(&slot);
    return file;
}

/* Carries out what the core asks of its disk, and what comes of that, until there is no more. */
static void run_disk(struct lh_chunkserver *cs, struct lh_instant now)
{
    struct lh_effects asked = {0}, done = {0};

    lh_chunkserver_step(cs, &(struct lh_input){.kind = LH_IN_TIMER, .now = now}, &asked);
    while (asked.count > 0) {
        for (size_t i = 0; i < asked.count; i++) {
            const struct lh_effect *e = &asked.items[i];
            struct lh_input in = {.kind = LH_IN_DISK,
                .now = now,
                .ticket = e->ticket,
                .file = e->file,
                .op = e->op};
            if (e->kind != LH_FX_DISK)
                continue;
            if (e->op == LH_DISK_READ)
                in.payload = sealed_file(e->file);
            lh_chunkserver_step(cs, &in, &done);
            lh_buf_clear(&in.payload);
        }
        lh_effects_clear(&asked);
        struct lh_effects next = done;
        done = asked;
        asked = next;
    }
    lh_effects_deinit(&asked);
    lh_effects_deinit(&done);
}

static uint64_t bytes_of_idle(size_t count)
{
    static const char *const masters[] = {"m"};
    uint64_t *chunks = lh_alloc_array(count + 1, sizeof *chunks);
    struct lh_chunkserver_config config = {.server_id = "cs1",
        .address = "cs1",
        .failure_domain = "d",
        .machine_id = "machine",
        .cluster_id = "",
        .incarnation = 1,
        .process = 1,
        .masters = masters,
        .master_count = 1,
        .chunks = chunks,
        .chunk_count = count};

    for (size_t i = 0; i < count; i++)
        chunks[i] = i + 1;
    struct lh_chunkserver *cs = lh_chunkserver_create(&config);
    run_disk(cs, (struct lh_instant){1000000000});
    lh_chunkserver_check(cs);
    if (count > 0) {
        struct lh_replica_status s;
        assert_true(lh_chunkserver_replica(cs, count, &s) && s.sealed);
    }
    uint64_t before = freed();
    lh_chunkserver_destroy(cs);
    uint64_t bytes = freed() - before;
    free(chunks);
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
