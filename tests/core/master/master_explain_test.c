/* What Explain and ListChunks say of each state that a file can be in. The facts are checked, not
 * the style. */
#include "tests/core/master/master_story.h"

static const Leasehold__ListChunksReply *list_chunks(
    const char *prefix, uint64_t after_chunk, uint32_t limit)
{
    Leasehold__ListChunksRequest r = LEASEHOLD__LIST_CHUNKS_REQUEST__INIT;

    r.prefix = (char *)(uintptr_t)prefix;
    r.after_chunk = after_chunk;
    r.limit = limit;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST_CHUNKS, &r));
}

static const char *state_at(const Leasehold__ChunkState *chunk, const char *server)
{
    for (size_t i = 0; i < chunk->n_replicas; i++)
        if (strcmp(chunk->replicas[i]->server_id, server) == 0)
            return chunk->replicas[i]->state;
    return "none";
}

static void set_admin(const char *server, Leasehold__ServerAdmin admin)
{
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;

    r.server_id = (char *)(uintptr_t)server;
    r.admin = admin;
    const Leasehold__SetServerReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_SET_SERVER, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

static bool names(const Leasehold__ExplainReply *reply, const struct server *s, const char *what)
{
    char text[256];

    snprintf(text, sizeof text, "%s%s", s->id, what);
    return says(reply, text);
}

static void what_there_is_not(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    assert_int_equal(explain("/nothing", 0)->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(explain("bad//path", 0)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    const Leasehold__ExplainReply *r = explain("", 99);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_non_null(strstr(r->error_text, "the next one is 2"));
    remove_file("/f", 0, true);
    r = explain("", chunk);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_non_null(strstr(r->error_text, "was removed at version 1"));
}

static void a_file_without_chunks(void **state)
{
    (void)state;
    make_file("/f");
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_null(r->chunk);
    assert_string_equal(r->info->path, "/f");
    assert_false(r->writable);
    assert_true(says(r, "no chunk yet"));
    assert_true(says(r, "at least 2 chunkservers with room, and 0 could"));
    assert_true(says(r, "No chunkserver has a session"));
    a->free_bytes = 4096; /* full */
    up(a);
    up(b);
    r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(says(r, "at least 2 chunkservers with room, and 1 could"));
    assert_true(says(r, "Of the 2 chunkservers that are alive 0 are its members already, 1 have no "
                        "room"));
    up(c);
    r = explain("/f", 0);
    assert_true(r->writable);
    assert_true(says(r, "creates a chunk on 2 chunkservers (it should have 3)"));
}

static void a_chunk_that_is_being_created(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    make_file("/f");
    open_tail("/f", 9000);
    server_created(&w, a, 1, LH_OK);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_false(r->writable);
    assert_false(r->chunk->created);
    assert_true(says(r, "replicas are there at [a], not yet at [b, c]"));
    assert_true(says(r, "has not created it in 3.0 s is replaced"));
    server_created(&w, b, 1, LH_ERR_DISK_FULL);
    r = explain("", 1);
    assert_true(says(r, "b cannot create its replica: no space left"));
    world_drop_lines(&w);
    server_created(&w, b, 1, LH_OK);
    w.hold_commits = true;
    server_created(&w, c, 1, LH_OK);
    r = explain("/f", 0); /* also when the store hangs */
    assert_true(says(r, "is being made the primary at version 1: the grant is being written"));
    assert_false(r->writable);
    w.hold_commits = false;
    world_commit_all(&w);
    r = explain("/f", 0);
    assert_true(says(r, "it was told and has not confirmed yet"));
    assert_string_equal(r->chunk->lease, "GRANTING");
    assert_int_not_equal(obey(&primary), 0);
    assert_true(explain("/f", 0)->writable);
}

static const Leasehold__ListServersReply *list_servers(void)
{
    Leasehold__ListServersRequest r = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;

    return world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &r));
}

/* What `top` makes rates of: each server's counters, and how old they are; and the master's own. */
static void who_looks_on_is_told_what_was_counted(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    file_with_primary("/f", &primary);
    a->ordered = 7;
    assert_true(server_heartbeat(&w, a));
    world_advance(&w, 1500);
    const Leasehold__ListServersReply *r = list_servers();
    assert_false(r->servers[0]->ordered_unreported);
    assert_int_equal(r->servers[0]->batches_ordered, 7);
    assert_int_equal(r->servers[0]->bytes_ordered, 700);
    assert_int_equal(r->servers[0]->ordered_ago_ms, 1500);
    assert_int_equal(r->servers[1]->batches_ordered, 0);
    assert_int_equal(r->figures->leases, 1);
    assert_int_equal(r->figures->files, 1);
    assert_int_equal(r->figures->leases_granted, 1);
    uint64_t renewed = r->figures->leases_renewed;
    assert_true(server_heartbeat_active(&w, primary, 1, 1, NULL));
    r = list_servers();
    assert_int_equal(r->figures->leases_renewed, renewed + 1);
    assert_int_equal(r->figures->locks + r->figures->values + r->figures->sessions, 0);
}

static void counters_of_a_server_without_a_heartbeat(void **state)
{
    (void)state;
    three_up();
    a->ordered = 7;
    assert_true(server_heartbeat(&w, a));
    crash();
    a->registration++;
    assert_true(server_register(&w, a));
    assert_true(list_servers()->servers[0]->ordered_unreported);
    assert_int_equal(list_servers()->servers[0]->ordered_ago_ms, 0);
    assert_true(server_heartbeat(&w, a));
    assert_false(list_servers()->servers[0]->ordered_unreported);
    a->incarnation++;
    a->registration++;
    assert_true(server_register(&w, a));
    assert_true(list_servers()->servers[0]->ordered_unreported);
    assert_int_equal(list_servers()->servers[0]->batches_ordered, 0);
}

static void a_file_that_takes_appends(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    world_advance(&w, 1000);
    for (int by_chunk = 0; by_chunk < 2; by_chunk++) {
        const Leasehold__ExplainReply *r = explain("/f", by_chunk == 0 ? 0 : chunk);
        assert_true(r->writable);
        assert_true(names(r, primary,
            " is the primary at version 1: its lease runs for another 9.0 "
            "s"));
        assert_true(says(r, "3 of the 3 replicas that its file asks for are good"));
        assert_true(says(r, "the file goes on in the next one at once"));
        assert_string_equal(r->chunk->lease, "HELD");
        assert_true(r->chunk->lease_left_ms > 8000); /* the session ends before the chunk's term */
        assert_int_equal(r->chunk->n_replicas, 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(r->chunk->replicas[i]->primary,
                strcmp(r->chunk->replicas[i]->server_id, primary->id) == 0);
    }
}

static void a_lease_that_nobody_has(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_release(&w, primary, chunk, 1);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_true(r->writable);
    assert_true(says(r, "Nobody holds the lease of chunk 1 (version 1): the next append has it "
                        "granted to one of 3 members"));
    assert_string_equal(r->chunk->lease, "FREE");
    down(b);
    down(c);
    world_advance(&w, 6000);
    server_heartbeat(&w, a);
    world_advance(&w, 6000);
    server_heartbeat(&w, a);
    r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(says(r, "1 members are alive, and the file wants at least 2"));
    down(a);
    world_advance(&w, 12000);
    r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(says(r, "none of its 3 members can be primary now"));
    assert_true(says(r, "None of its replicas can be read now"));
    assert_true(says(r, "a has been away for"));
}

static void a_lost_primary(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    world_advance(&w, 2000);
    down(primary);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(names(r, primary,
        " is lost: its session stream broke, and nothing came for 2.0 s; "
        "its session runs for another 8.0 s"));
    assert_true(r->chunk->lease_left_ms > 7000);
    primary->registration++; /* it comes back, does not show the lease, and proves nothing */
    primary->nameless = true;
    assert_true(server_register(&w, primary));
    r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(names(r, primary, " held the lease at version 1 in a session that is over"));
    assert_int_equal(r->chunk->chunk->chunk, chunk);
}

static void a_lease_that_is_recalled(void **state)
{
    struct server *primary = NULL;
    Leasehold__RecallRequest recall = LEASEHOLD__RECALL_REQUEST__INIT;

    (void)state;
    three_up();
    file_with_primary("/f", &primary);
    recall.path = "/f";
    recall.wait_ms = 5000;
    world_call(&w, LH_METHOD_RECALL, &recall);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(names(r, primary, " holds the lease at version 1 and was asked to give it up"));
    assert_string_equal(r->chunk->lease, "RECALLING");
}

static void a_restarted_master(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    file_with_primary("/f", &primary);
    crash();
    world_advance(&w, 4000);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(says(r, "A former master granted version 1 to"));
    assert_true(says(r, "nobody else may be primary, for up to another 6.0 s"));
    assert_string_equal(r->chunk->lease, "WAITING");
}

static void a_chunk_that_is_rolled_over(void **state)
{
    struct server *primary = NULL;
    Leasehold__OpenTailRequest tail = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    three_up();
    up(d);
    uint64_t chunk = file_with_primary("/f", &primary);
    down(primary);
    tail.path = "/f";
    tail.full_chunk = chunk;
    tail.failed_chunk = chunk;
    tail.failed_version = 1;
    tail.wait_ms = 5000;
    world_call(&w, LH_METHOD_OPEN_TAIL, &tail);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(r->chunk->rolling);
    assert_true(says(r, "is being rolled over"));
    assert_true(says(r, "No member has answered the fence yet"));
    assert_true(names(r, primary,
        " may believe in its lease for up to another 10.0 s, and can "
        "commit nothing"));
}

static void too_few_members(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *first = primary == a ? b : a, *second = primary == c ? b : c;
    server_member_failed(&w, primary, chunk, 1, first->id);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_true(r->writable);
    assert_true(says(r, "2 of the 3 replicas that its file asks for are good"));
    assert_string_equal(state_at(r->chunk, first->id), "EXTRA");
    assert_true(names(r, first, " has a replica of version 1 that is not in the set"));
    server_member_failed(&w, primary, chunk, 2, second->id);
    r = explain("/f", 0);
    assert_false(r->writable);
    assert_true(says(r, "too few of at least 2 would be left without them"));
}

static void a_sealed_chunk(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_true(r->writable);
    assert_true(says(r, "Chunk 1 is sealed at 1000 bytes (version 1) and never changes"));
    assert_true(says(r, "The next append creates a chunk on 3 chunkservers"));
    assert_true(says(r, "3 of the 3 replicas"));
    assert_string_equal(state_at(r->chunk, "b"), "GOOD");
    assert_int_equal(r->chunk->checksum, 31000);
    /* One that is not the tail does not say where the next one comes from. */
    struct server *primary = NULL;
    open_tail("/f", 1000);
    uint64_t second = obey(&primary);
    r = explain("", chunk);
    assert_false(r->writable);
    assert_int_equal(r->n_sentences, 2);
    assert_true(explain("", second)->writable);
}

static void a_file_in_the_trash(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    remove_file("/f", 0, false);
    world_advance(&w, 3600u * 1000);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_false(r->writable);
    assert_true(r->info->trashed);
    assert_int_equal(r->info->trash_left_ms, UINT64_C(23) * 3600 * 1000);
    assert_true(says(r, "is in the trash and takes no appends; it can be restored for another "
                        "23 h 0 min"));
    assert_true(explain("", chunk)->chunk->trashed);
    Leasehold__ReplicaReport report = report_of(100, 3, false);
    come_with(d, &report, 1);
    r = explain("/f", 0);
    assert_true(says(r, "Nothing is deleted now, and no time in the trash passes"));
}

static void a_chunk_under_repair(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    report.lost = true;
    come_with(c, &report, 1);
    const Leasehold__ExplainReply *r = explain("/f", 0);
    assert_true(says(r, "2 of the 3 replicas that its file asks for are good: [a, b]"));
    assert_true(says(r, "c has lost its replica"));
    assert_true(says(r, "A replica is being refreshed at c, from"));
    assert_true(says(r, "0 of 1000 bytes are there"));
    assert_string_equal(state_at(r->chunk, "c"), "LOST");
}

static void a_chunk_that_nobody_can_repair(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    down(c);
    heartbeats(60000);
    const Leasehold__ExplainReply *r = explain("", chunk);
    assert_true(says(r, "c has been away for 52."));
    assert_true(says(r, "its replica is copied elsewhere in 4 min"));
    assert_string_equal(state_at(r->chunk, "c"), "AWAY");
    heartbeats(300000);
    r = explain("", chunk);
    assert_true(says(r, "c is gone"));
    assert_true(says(r, "It is degraded, and there is no chunkserver to copy it to"));
    assert_true(says(r, "Of the 2 chunkservers that are alive 2 are its members already"));
    up(d);
    heartbeats(HEARTBEAT_MS);
    r = explain("", chunk);
    assert_true(says(r, "A replica is being copied at d, from"));
    assert_string_equal(state_at(r->chunk, "d"), "COPYING");
}

static void a_drained_member(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    set_admin("b", LEASEHOLD__SERVER_ADMIN__DRAINING);
    heartbeats(HEARTBEAT_MS);
    const Leasehold__ExplainReply *r = explain("", chunk);
    assert_true(says(r, "b is to lose its replica (the chunkserver is being drained)"));
    up(d);
    heartbeats(HEARTBEAT_MS);
    r = explain("", chunk);
    assert_true(says(r, "A replica is being copied at d, from"));
}

static void a_replica_that_nobody_needs(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    come_with(d, &report, 1);
    const Leasehold__ExplainReply *r = explain("", chunk);
    assert_true(says(r, "d has a replica of version 1 that is not in the set: it is deleted once"));
    assert_string_equal(state_at(r->chunk, "d"), "EXTRA");
    heartbeats(12000);
    assert_true(says(explain("", chunk), "it was told to delete it"));
}

static void pages_of_chunks(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t one = sealed_file("/a/1"), two = sealed_file("/b/2");
    uint64_t three = file_with_primary("/a/3", &primary);
    const Leasehold__ListChunksReply *r = list_chunks("", 0, 0);
    assert_int_equal(r->n_chunks, 3);
    assert_false(r->more);
    r = list_chunks("", 0, 2);
    assert_int_equal(r->n_chunks, 2);
    assert_true(r->more);
    assert_int_equal(r->chunks[0]->chunk->chunk, one);
    assert_int_equal(r->chunks[1]->chunk->chunk, two);
    r = list_chunks("", two, 2);
    assert_int_equal(r->n_chunks, 1);
    assert_int_equal(r->chunks[0]->chunk->chunk, three);
    assert_string_equal(r->chunks[0]->path, "/a/3");
    assert_string_equal(r->chunks[0]->lease, "HELD");
    assert_int_equal(r->chunks[0]->replication, 3);
    assert_int_equal(r->chunks[0]->min_replicas, 2);
    r = list_chunks("/a", 0, 0);
    assert_int_equal(r->n_chunks, 2);
    assert_int_equal(r->chunks[1]->chunk->chunk, three);
    r = list_chunks("", UINT64_MAX, 0);
    assert_int_equal(r->n_chunks, 0);
    assert_int_equal(list_chunks("/\001", 0, 0)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    remove_file("/a/1", 0, false);
    r = list_chunks("/a", 0, 1);
    assert_true(r->chunks[0]->trashed); /* fsck looks at these, too */
}

/* However many chunks other files have, no call looks at all of them. */
static void a_listing_passes_over_so_many_chunks_in_a_call(void **state)
{
    (void)state;
    w.config.step_work = 2;
    crash();
    three_up();
    sealed_file("/b/1");
    uint64_t second = sealed_file("/b/2");
    sealed_file("/b/3");
    uint64_t wanted = sealed_file("/a/4");
    const Leasehold__ListChunksReply *r = list_chunks("/a", 0, 0);
    assert_int_equal(r->n_chunks, 0);
    assert_true(r->more);
    assert_int_equal(r->next, second);
    r = list_chunks("/a", r->next, 0);
    assert_int_equal(r->n_chunks, 1);
    assert_int_equal(r->chunks[0]->chunk->chunk, wanted);
    assert_false(r->more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(what_there_is_not),
        STORY(a_file_without_chunks),
        STORY(a_chunk_that_is_being_created),
        STORY(who_looks_on_is_told_what_was_counted),
        STORY(counters_of_a_server_without_a_heartbeat),
        STORY(a_file_that_takes_appends),
        STORY(a_lease_that_nobody_has),
        STORY(a_lost_primary),
        STORY(a_lease_that_is_recalled),
        STORY(a_restarted_master),
        STORY(a_chunk_that_is_rolled_over),
        STORY(too_few_members),
        STORY(a_sealed_chunk),
        STORY(a_file_in_the_trash),
        STORY(a_chunk_under_repair),
        STORY(a_chunk_that_nobody_can_repair),
        STORY(a_drained_member),
        STORY(a_replica_that_nobody_needs),
        STORY(pages_of_chunks),
        STORY(a_listing_passes_over_so_many_chunks_in_a_call),
    };

    return cmocka_run_group_tests_name("master explain", tests, NULL, NULL);
}
