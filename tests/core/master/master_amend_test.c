/* A core that was loaded follows another master's commits (lh_master_amend(), HA-8), and is then as
 * one that was loaded with what results. How that is seen:
 *   - it has the same records,
 *   - it keeps its own invariants, by which nothing of a replaced record is left (lh_master_check),
 *   - started instead of the master that has died, it emits byte for byte what a core emits that
 *     was loaded from the store and gets the same inputs (`twin` in master_world.h),
 *   - where the one is refused, the other is. */
#include "tests/core/master/master_life.h"
#include "tests/core/master/master_story.h"

#include "base/alloc.h"
#include "base/prng.h"
#include "base/probe.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>

/* ---- The one that follows. */

static struct {
    struct lh_master *m;
    struct lh_change *changes; /* durable, and not amended yet: the newest of each key */
    size_t count, capacity;
    size_t amended; /* commits */
} follower;

static struct lh_prng order;

static uint8_t *copy_of(const uint8_t *from, size_t size)
{
    uint8_t *to = lh_alloc(size + 1);

    if (size > 0)
        memcpy(to, from, size);
    return to;
}

static void add_change(const struct lh_change *change)
{
    size_t i = 0;

    while (i < follower.count &&
           (follower.changes[i].key_size != change->key_size ||
               memcmp(follower.changes[i].key, change->key, change->key_size) != 0))
        i++;
    if (i < follower.count) {
        free(follower.changes[i].key);
        free(follower.changes[i].value);
    } else {
        LH_GROW(follower.changes, follower.capacity, follower.count + 1);
        follower.count++;
    }
    follower.changes[i] = *change;
    follower.changes[i].key = copy_of(change->key, change->key_size);
    follower.changes[i].value =
        change->value == NULL ? NULL : copy_of(change->value, change->value_size);
}

static void drop_changes(void)
{
    for (size_t i = 0; i < follower.count; i++) {
        free(follower.changes[i].key);
        free(follower.changes[i].value);
    }
    follower.count = 0;
}

static void follower_end(void)
{
    drop_changes();
    free(follower.changes);
    lh_master_destroy(follower.m);
    memset(&follower, 0, sizeof follower);
}

/* A core with that config, loaded from the world's store; `*error` says how that went. */
static struct lh_master *loaded(
    const struct world *world, const struct lh_master_config *config, int *error)
{
    struct world other = {
        .config = *config, .store = world->store, .store_count = world->store_count};

    *error = world_load(&other);
    return other.m;
}

static void follower_begin(const struct world *world, const struct lh_master_config *config)
{
    int error;

    drop_changes();
    follower.m = loaded(world, config, &error);
    assert_int_equal(error, LH_OK);
    lh_master_check(follower.m);
}

/* Everything that is durable and new, as one commit, in any order. */
static int amend(char *text, size_t text_size)
{
    for (size_t i = follower.count; i > 1; i--) {
        size_t other = lh_prng_below(&order, i);
        struct lh_change last = follower.changes[i - 1];
        follower.changes[i - 1] = follower.changes[other];
        follower.changes[other] = last;
    }
    int error = lh_master_amend(follower.m, follower.changes, follower.count, text, text_size);
    drop_changes();
    follower.amended++;
    return error;
}

static void follow(void)
{
    char text[512] = "";

    if (amend(text, sizeof text) != LH_OK)
        fail_msg("%s", text);
    lh_master_check(follower.m);
}

static void same_as_loaded(const struct world *world, const struct lh_master_config *config)
{
    int error;
    struct lh_master *m = loaded(world, config, &error);

    assert_int_equal(error, LH_OK);
    lh_master_check(m);
    world_same_records(m, follower.m);
    lh_master_destroy(m);
}

/* ---- Stories. The follower has what was stored when it began, and then gets each commit. */

static bool at_once; /* all commits until it takes over are one */

static void story_committed(const struct lh_change *changes, size_t count)
{
    if (follower.m == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        add_change(&changes[i]);
    if (!at_once)
        follow();
}

static void begin(bool merged)
{
    at_once = merged;
    w.committed = story_committed;
    follower_begin(&w, &w.config);
}

/* The master dies, the follower takes its place, and everybody comes back. From here on each step
 * is also that of a core that was loaded. */
static void takes_over(void)
{
    Leasehold__ReplicaReport reports[8];
    Leasehold__ListRequest list = LEASEHOLD__LIST_REQUEST__INIT;
    struct server *primary = NULL;

    follow();
    same_as_loaded(&w, &w.config);
    w.successor = follower.m;
    follower.m = NULL;
    crash();
    assert_non_null(w.twin);
    for (uint64_t i = 0; i < 8; i++)
        reports[i] = report_of(i + 1, 1 + i % 2, i % 3 == 0);
    for (size_t i = 0; i < SERVERS; i++) {
        servers[i].registration++;
        if (i % 2 == 0)
            server_register_with(&w, &servers[i], reports, 8, NULL, 0);
        else
            come_with(&servers[i], reports, 8 - i);
    }
    world_call(&w, LH_METHOD_LIST, &list);
    for (int i = 0; i < 10; i++) {
        open_tail("/f", 1000);
        open_tail("/g", 1000);
        obey(&primary);
        world_advance(&w, 1000 + 1000 * (uint64_t)i);
        for (size_t s = 0; s < SERVERS; s++)
            if (!server_heartbeat(&w, &servers[s])) {
                servers[s].registration++;
                server_register(&w, &servers[s]);
            }
    }
    explain("/f", 0);
    explain("/g", 0);
    world_advance(&w, 100000);
}

static int close_story(void **state)
{
    follower_end();
    return tear_down(state);
}

#define AMENDED(name) cmocka_unit_test_setup_teardown(name, set_up, close_story)

static void rename_file(const char *from, const char *to)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;

    r.from = (char *)(uintptr_t)from;
    r.to = (char *)(uintptr_t)to;
    const Leasehold__RenameReply *reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

static void restore_file(const char *path)
{
    Leasehold__RestoreRequest r = LEASEHOLD__RESTORE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__RestoreReply *reply = world_reply(&w, world_call(&w, LH_METHOD_RESTORE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

static void an_empty_core_follows_from_the_first_commit_on(void **state)
{
    (void)state;
    struct lh_change change;

    follower.m = lh_master_create(&w.config);
    for (size_t i = 0; i < w.store_count; i++) {
        const struct pair *p = &w.store[i];
        change = (struct lh_change){p->key, p->value, p->key_size, p->value_size};
        add_change(&change);
    }
    w.committed = story_committed;
    three_up();
    takes_over();
}

static void a_file_grows(bool merged)
{
    struct server *primary = NULL;

    three_up();
    begin(merged);
    uint64_t chunk = file_with_primary("/f", &primary);
    server_seal(&w, primary, chunk, 1, 1000);
    obey(&primary);
    open_tail("/f", 1000);
    obey(&primary);
    takes_over();
}

static void a_file_and_its_chunks_come(void **state)
{
    (void)state;
    a_file_grows(false);
}

static void a_file_and_its_chunks_come_at_once(void **state)
{
    (void)state;
    a_file_grows(true);
}

static void a_creation_under_way_comes_and_goes(void **state)
{
    (void)state;
    struct server *primary = NULL;

    three_up();
    make_file("/f");
    begin(false);
    open_tail("/f", 1000); /* CreateReplica went out, and nobody answers */
    same_as_loaded(&w, &w.config);
    obey(&primary);
    make_file("/g");
    open_tail("/g", 1000);
    takes_over();
}

static void a_lease_goes_to_another_server(void **state)
{
    (void)state;
    struct server *primary = NULL, *next = NULL;

    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    begin(false);
    server_release(&w, primary, chunk, 1);
    same_as_loaded(&w, &w.config);
    open_tail("/f", 1000);
    obey(&next);
    takes_over();
}

static void open_under(const char *lock, uint64_t token)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t) "/f";
    r.wait_ms = 1000;
    r.lock_name = (char *)(uintptr_t)lock;
    r.token = token;
    world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

static void a_fence_rises_with_its_version(void **state)
{
    (void)state;
    struct server *primary = NULL;

    three_up();
    file_with_primary("/f", &primary);
    begin(false);
    open_under("/l", 5);
    same_as_loaded(&w, &w.config);
    obey(&primary);
    open_under("/l", 6);
    obey(&primary);
    takes_over();
}

static void a_roll_is_followed(unsigned phases)
{
    struct server *primary = NULL, *next = NULL;

    w.config.suspect_after = lh_milliseconds(1);
    world_crash(&w);
    up(a);
    up(b);
    up(c);
    up(d);
    uint64_t chunk = file_with_primary("/f", &primary);
    begin(false);
    down(primary);
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    r.path = (char *)(uintptr_t) "/f";
    r.wait_ms = 9000;
    r.failed_chunk = chunk;
    r.failed_version = 1;
    world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    world_advance(&w, 2000);
    const Leasehold__SessionReply *fence = NULL;
    for (size_t i = 0; i < SERVERS; i++) {
        struct server *s = &servers[i];
        if (!is_up(s))
            continue;
        obey(&next);
        const Leasehold__SessionReply *m =
            world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_FENCE);
        if (m == NULL)
            continue;
        fence = m;
        if (phases > 0)
            server_fenced(&w, s, chunk, m->fence->version, LH_OK, 500, 500, false);
    }
    assert_non_null(fence); /* it rolls: the intent is durable */
    if (phases > 1) {
        world_advance(&w, 4000);
        obey(&next);
    }
    primary->registration++;
    takes_over();
}

static void an_intent_to_seal_is_followed(void **state)
{
    (void)state;
    a_roll_is_followed(0);
}

static void a_roll_is_followed_to_its_seal(void **state)
{
    (void)state;
    a_roll_is_followed(2);
}

static void files_go_with_their_chunks(bool merged)
{
    struct server *primary = NULL;

    three_up();
    sealed_file("/sealed");
    file_with_primary("/f", &primary);
    make_file("/g");
    open_tail("/g", 1000); /* creation under way */
    begin(merged);
    remove_file("/sealed", 0, true);
    remove_file("/f", 0, true);
    remove_file("/g", 0, true);
    make_file("/g");
    open_tail("/g", 1000);
    obey(&primary);
    takes_over();
}

static void removed_files_go_with_their_chunks(void **state)
{
    (void)state;
    files_go_with_their_chunks(false);
}

static void a_path_goes_and_comes_back_in_one_commit(void **state)
{
    (void)state;
    files_go_with_their_chunks(true);
}

static void files_go_into_the_trash_and_out(bool merged)
{
    struct server *primary = NULL;

    three_up();
    file_with_primary("/f", &primary);
    file_with_primary("/g", &primary);
    sealed_file("/h");
    remove_file("/h", 0, false);
    begin(merged);
    remove_file("/f", 0, false);
    make_file("/f");
    remove_file("/f", 0, false); /* two of one path */
    remove_file("/g", 0, false);
    restore_file("/g");
    restore_file("/h");                 /* the one with the highest number is not there any more */
    world_advance(&w, 4 * 3600 * 1000); /* the time that is left is written down */
    takes_over();
    /* Two of one path: the one that is removed last comes back first, whenever that was. */
    make_file("/f");
    uint64_t newest = remove_file("/f", 0, false)->file;
    restore_file("/f");
    assert_int_equal(remove_file("/f", 0, false)->file, newest);
}

static void the_trash_is_followed(void **state)
{
    (void)state;
    files_go_into_the_trash_and_out(false);
}

static void the_trash_is_followed_at_once(void **state)
{
    (void)state;
    files_go_into_the_trash_and_out(true);
}

static void two_files_exchange_their_paths(void **state)
{
    (void)state;
    struct server *primary = NULL;

    three_up();
    file_with_primary("/f", &primary);
    make_file("/g");
    begin(true);
    rename_file("/f", "/tmp");
    rename_file("/g", "/f");
    rename_file("/tmp", "/g");
    takes_over();
}

static void three_files_exchange_their_paths_also_in_the_trash(void **state)
{
    (void)state;

    three_up();
    make_file("/f");
    make_file("/g");
    make_file("/h");
    remove_file("/h", 0, false);
    begin(true);
    remove_file("/f", 0, false);
    rename_file("/g", "/f");
    restore_file("/h");
    rename_file("/h", "/g");
    takes_over();
}

static void chunkservers_are_followed(void **state)
{
    (void)state;
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;
    struct server *primary = NULL;

    up(c); /* so the order in which they come is not that of their names */
    up(a);
    begin(false);
    up(d);
    up(b);
    file_with_primary("/f", &primary);
    come_with(a, NULL, 0);
    c->domain = "elsewhere";
    come_with(c, NULL, 0);
    r.server_id = (char *)(uintptr_t) "d";
    r.admin = LEASEHOLD__SERVER_ADMIN__DRAINING;
    world_call(&w, LH_METHOD_SET_SERVER, &r);
    takes_over();
}

static void the_signs_of_an_older_copy_are_followed(void **state)
{
    (void)state;
    Leasehold__ReplicaReport unknown = report_of(1000, 3, true);

    three_up();
    begin(false);
    come_with(a, &unknown, 1);
    assert_false(garbage(false)->deleting);
    same_as_loaded(&w, &w.config);
    garbage(true);
    same_as_loaded(&w, &w.config);
    come_with(b, &(Leasehold__ReplicaReport){0}, 0);
    takes_over();
}

/* HA-12: whoever takes over answers repeats of calls that it has not taken. */
static void calls_are_followed(bool merged)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__CallId id = LEASEHOLD__CALL_ID__INIT;

    w.config.calls_max = 2;
    world_crash(&w);
    three_up();
    begin(merged);
    r.call = &id;
    id.client = 7;
    for (id.number = 1; id.number <= 4; id.number++) {
        r.path = (char *)(uintptr_t)(id.number % 2 == 0 ? "/f" : "/g");
        make_file(r.path);
        world_call(&w, LH_METHOD_REMOVE, &r);
    }
    make_file("/f");
    takes_over();
    id.number = 4;
    r.path = (char *)(uintptr_t) "/f";
    id.repeated = true;
    const Leasehold__RemoveReply *again = world_reply(&w, world_call(&w, LH_METHOD_REMOVE, &r));
    assert_int_equal(again->error, LEASEHOLD__ERROR_CODE__OK);
    remove_file("/f", 0, false); /* it is there */
}

static void calls_are_followed_one_by_one(void **state)
{
    (void)state;
    calls_are_followed(false);
}

static void calls_are_followed_at_once(void **state)
{
    (void)state;
    calls_are_followed(true);
}

/* ---- Commits that are made by hand, to a store with: file 1 "/f" of the sealed chunks 1, 2 and 3
 * and the open one 4, file 2 "/g" without chunks; all at the servers a, b and c. */

static void put(const char *what, uint64_t id, uint64_t index, const ProtobufCMessage *record)
{
    uint8_t key[32] = {(uint8_t)*what}, value[512];
    size_t size = 1;

    if (*what == 's')
        size += (size_t)snprintf((char *)key + 1, sizeof key - 1, "%s", what + 1);
    if (*what == 'f' || *what == 'k' || *what == 'r')
        for (int i = 7; i >= 0; i--)
            key[size++] = (uint8_t)(id >> (8 * i));
    if (*what == 'k')
        for (int i = 7; i >= 0; i--)
            key[size++] = (uint8_t)(index >> (8 * i));
    struct lh_change change = {.key = key, .key_size = (uint32_t)size};
    if (record != NULL) {
        assert_true(protobuf_c_message_get_packed_size(record) <= sizeof value);
        change.value = value;
        change.value_size = (uint32_t)protobuf_c_message_pack(record, value);
    }
    add_change(&change);
}

static void take(const char *what, uint64_t id, uint64_t index)
{
    put(what, id, index, NULL);
}

static void put_tombstone(uint64_t chunk, uint64_t version)
{
    uint8_t key[9] = {'r'}, value[8];

    for (unsigned i = 0; i < 8; i++) {
        key[1 + i] = (uint8_t)(chunk >> (56 - 8 * i));
        value[i] = (uint8_t)(version >> (56 - 8 * i));
    }
    add_change(&(struct lh_change){key, value, sizeof key, sizeof value});
}

static void put_master(uint32_t format, uint64_t next_file, uint64_t next_chunk)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = format;
    record.cluster_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    record.master_term = 5;
    record.next_file = next_file;
    record.next_chunk = next_chunk;
    put("M", 0, 0, &record.base);
}

static void put_file(uint64_t id, const char *path, uint64_t trash_number)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;

    record.file = id;
    record.path = (char *)(uintptr_t)path;
    record.replication = 3;
    record.min_replicas = 2;
    record.chunk_size = 1u << 20;
    record.trashed = trash_number > 0;
    record.trash_number = trash_number;
    record.trash_left_ms = trash_number > 0 ? 60000 : 0;
    put("f", id, 0, &record.base);
}

static void put_chunk(const LeaseholdStored__Chunk *record)
{
    put("k", record->file, record->index, &record->base);
}

static void put_sealed(uint64_t file, uint64_t index, uint64_t id, uint64_t length)
{
    LeaseholdStored__Chunk record = stored_chunk(file, index, id);

    record.sealed = true;
    record.length = length;
    put_chunk(&record);
}

static void put_server(const char *id, uint64_t incarnation)
{
    LeaseholdStored__Server record = LEASEHOLD_STORED__SERVER__INIT;
    char key[32];

    snprintf(key, sizeof key, "s%s", id);
    record.server_id = (char *)(uintptr_t)id;
    record.incarnation = incarnation;
    record.registration = 1;
    put(key, 0, 0, &record.base);
}

/* What was put and taken is in the store now; and amended: as if the store had been loaded. The
 * error of both. */
static int amend_store(void)
{
    char text[512] = "";
    int error, amended;

    for (size_t i = 0; i < follower.count; i++)
        world_apply(&w, &follower.changes[i]);
    struct lh_master *m = loaded(&w, &w.config, &error);
    amended = amend(text, sizeof text);
    if (amended != error)
        fail_msg("loaded: error %d; amended: %d, %s", error, amended, text);
    if (error == LH_OK) {
        lh_master_check(follower.m);
        world_same_records(m, follower.m);
    } else {
        assert_true(strlen(text) > 20);
    }
    lh_master_destroy(m);
    return error;
}

static int by_hand(void **state)
{
    int error = set_up(state);

    for (size_t i = 0; i < SERVERS; i++)
        servers[i].incarnation = 1000; /* above all that is stored */
    world_free_store(&w);
    follower.m = lh_master_create(&w.config);
    put_master(LH_MASTER_FORMAT_BARE, 20, 40);
    put_file(1, "/f", 0);
    put_file(2, "/g", 0);
    for (uint64_t i = 0; i < 3; i++)
        put_sealed(1, i, i + 1, 1000);
    LeaseholdStored__Chunk tail = stored_chunk(1, 3, 4);
    put_chunk(&tail);
    for (size_t i = 0; i < SERVERS; i++)
        put_server(servers[i].id, 3);
    put_tombstone(30, 7);
    return error == 0 ? amend_store() : error;
}

#define BY_HAND(name) cmocka_unit_test_setup_teardown(name, by_hand, close_story)

static void a_chunk_in_the_middle_is_replaced(void **state)
{
    (void)state;
    LeaseholdStored__Chunk record = stored_chunk(1, 1, 2);

    record.sealed = true;
    record.length = 1000;
    record.members[1]->lost = true;
    record.members[2]->server_id = (char *)(uintptr_t) "d";
    put_chunk(&record);
    assert_int_equal(amend_store(), LH_OK);
    record = stored_chunk(1, 1, 2);
    record.sealed = true;
    record.length = 1000;
    record.n_members = 4; /* more than have their place in the chunk */
    put_chunk(&record);
    assert_int_equal(amend_store(), LH_OK);
    put_sealed(1, 1, 2, 1000);
    assert_int_equal(amend_store(), LH_OK);
    takes_over();
}

static void the_tail_is_replaced_again_and_again(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++) {
        LeaseholdStored__Chunk record = stored_chunk(1, 3, 4);
        record.n_members = 1 + (size_t)i % 4;
        if (i % 5 == 0) {
            record.created = false;
            record.version = 0;
        } else if (i % 5 < 4) {
            record.version = 2 + (uint64_t)i;
            record.holder = record.members[0]->server_id;
            record.holder_incarnation = 1 + (uint64_t)i % 3;
            record.intent_to_seal = i % 5 > 1;
            record.granted_version = record.intent_to_seal ? 1 + (uint64_t)i : 0;
            record.members[record.n_members - 1]->joining = record.n_members > 1;
        }
        put_chunk(&record);
        if (i % 7 == 0)
            put_server(servers[i % 4].id, 3 + (uint64_t)i);
        assert_int_equal(amend_store(), LH_OK);
    }
    takes_over();
}

static void the_tail_is_sealed_and_the_next_one_begins(void **state)
{
    (void)state;
    LeaseholdStored__Chunk tail = stored_chunk(1, 3, 4), next = stored_chunk(1, 4, 5);

    tail.holder = next.holder = (char *)(uintptr_t) "b";
    tail.intent_to_seal = true;
    tail.granted_version = 1;
    put_chunk(&tail);
    assert_int_equal(amend_store(), LH_OK);
    put_sealed(1, 3, 4, 700);
    next.start = 3700;
    put_chunk(&next);
    put_master(LH_MASTER_FORMAT_BARE, 20, 41);
    assert_int_equal(amend_store(), LH_OK);
    takes_over();
}

static void all_chunks_of_a_file_are_other_ones(void **state)
{
    (void)state;
    /* As no master does it, but as it can be stored. */
    for (uint64_t i = 0; i < 4; i++)
        put_sealed(1, i, 4 - i, i == 3 ? 5 : 1000);
    assert_int_equal(amend_store(), LH_OK);
    for (uint64_t i = 0; i < 4; i++)
        take("k", 1, i);
    put_sealed(2, 0, 2, 100);
    assert_int_equal(amend_store(), LH_OK);
    put_sealed(1, 0, 1, 100);
    take("k", 2, 0);
    take("f", 2, 0);
    assert_int_equal(amend_store(), LH_OK);
    takes_over();
}

static void what_is_not_there_is_removed_in_vain(void **state)
{
    (void)state;
    take("f", 7, 0);
    take("k", 7, 0);
    take("k", 1, 4);
    take("r", 7, 0);
    assert_int_equal(amend_store(), LH_OK);
    assert_int_equal(amend_store(), LH_OK); /* a commit without changes */
    take("r", 30, 0);
    put_tombstone(31, 0);
    put_tombstone(32, 1);
    assert_int_equal(amend_store(), LH_OK);
    put_tombstone(31, 5);
    take("r", 32, 0);
    assert_int_equal(amend_store(), LH_OK);
    takes_over();
}

static void paths_go_round(void **state)
{
    (void)state;
    put_file(3, "/h", 4);
    put_file(4, "/h", 0);
    assert_int_equal(amend_store(), LH_OK);
    put_file(1, "/g", 0);
    put_file(2, "/h", 9);
    put_file(3, "/h", 0);
    put_file(4, "/f", 0);
    assert_int_equal(amend_store(), LH_OK);
    put_file(2, "/h", 1); /* the highest number falls */
    put_file(3, "/i", 0);
    put_file(1, "/h", 0);
    take("f", 4, 0);
    assert_int_equal(amend_store(), LH_OK);
    takes_over();
}

/* Each of them is refused by both, and neither leaks. */
static void nonsense(unsigned which)
{
    LeaseholdStored__Chunk record = stored_chunk(1, 3, 4);
    LeaseholdStored__Server no_server = LEASEHOLD_STORED__SERVER__INIT;

    switch (which) {
    case 0:
        take("k", 1, 2);
        break;
    case 1:
        take("f", 1, 0);
        break;
    case 2:
        take("f", 1, 0);
        put_chunk(&record);
        for (uint64_t i = 0; i < 3; i++)
            take("k", 1, i);
        break;
    case 3:
        put_sealed(1, 1, 2, 999); /* the next one begins elsewhere */
        break;
    case 4:
        record = stored_chunk(1, 1, 2);
        put_chunk(&record); /* and its seal is gone */
        break;
    case 5:
        record.chunk = 3; /* it is another one's */
        put_chunk(&record);
        break;
    case 6:
        put_sealed(2, 1, 6, 10); /* there is no chunk 0 */
        break;
    case 7:
        put_sealed(9, 0, 6, 10); /* no such file */
        break;
    case 8:
        put_file(1, "/g", 0);
        break;
    case 9:
        put_file(1, "/x", 0);
        put_file(2, "/x", 0);
        break;
    case 10:
        put_file(20, "/x", 0);
        break;
    case 11:
        put_sealed(2, 0, 40, 10);
        break;
    case 12:
        put_master(LH_MASTER_FORMAT_BARE, 2, 40);
        break;
    case 13:
        put_master(LH_MASTER_FORMAT_BARE, 20, 4);
        break;
    case 14:
        put_master(LH_MASTER_FORMAT + 1, 20, 40);
        break;
    case 15:
        put_master(LH_MASTER_FORMAT_BARE, 0, 40);
        break;
    case 16:
        put("f", 2, 0, &record.base);
        break;
    case 17:
        put("k", 1, 1, &(LeaseholdStored__Master)LEASEHOLD_STORED__MASTER__INIT.base);
        break;
    case 18:
        put("x", 0, 0, &no_server.base);
        break;
    case 19:
        put("s", 0, 0, &no_server.base);
        break;
    case 20:
        no_server.server_id = (char *)(uintptr_t) "a";
        put("sb", 0, 0, &no_server.base);
        break;
    case 21:
        put("r", 3, 0, &no_server.base);
        break;
    case 22:
        record = stored_chunk(1, 3, 4);
        record.version = 0;
        put_chunk(&record);
        break;
    case 23:
        record = stored_chunk(1, 3, 4);
        record.n_members = 0;
        put_chunk(&record);
        break;
    default:
        take("M", 0, 0);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct lh_change *twice = lh_alloc_array(2, sizeof *twice);
    char text[512] = "";

    for (unsigned i = 0; i < 25; i++) {
        struct world saved = {0};
        for (size_t p = 0; p < w.store_count; p++)
            world_apply(&saved, &(struct lh_change){w.store[p].key, w.store[p].value,
                                    w.store[p].key_size, w.store[p].value_size});
        nonsense(i);
        assert_int_equal(amend_store(), i == 14 ? LH_ERR_WRONG_FORMAT : LH_ERR_CORRUPT);
        world_free_store(&w);
        w.store = saved.store;
        w.store_count = saved.store_count;
        w.store_capacity = saved.store_capacity;
        lh_master_destroy(follower.m);
        follower_begin(&w, &w.config);
    }
    put_file(2, "/x", 0);
    twice[0] = twice[1] = follower.changes[0];
    assert_int_equal(lh_master_amend(follower.m, twice, 2, text, sizeof text), LH_ERR_CORRUPT);
    drop_changes();
    lh_master_destroy(follower.m);
    follower_begin(&w, &w.config);
    take("sa", 0, 0); /* this one alone could be loaded */
    assert_int_equal(amend(text, sizeof text), LH_ERR_CORRUPT);
    free(twice);
}

static void a_commit_that_is_refused_halfway_leaves_nothing(void **state)
{
    (void)state;
    LeaseholdStored__Chunk tail = stored_chunk(1, 3, 4);

    tail.intent_to_seal = true;
    tail.granted_version = 1;
    tail.holder = (char *)(uintptr_t) "a";
    put_chunk(&tail);
    put_file(1, "/1", 0);
    put_file(2, "/2", 3);
    put_sealed(1, 0, 1, 1000);
    put_sealed(2, 0, 50, 1000);
    assert_int_equal(amend_store(), LH_ERR_CORRUPT);
}

static void the_reign_is_the_term(void **state)
{
    (void)state;
    LeaseholdStored__Master *record;
    const struct pair *p;
    uint64_t term;

    p = world_find(&w, "M", 1);
    record = leasehold_stored__master__unpack(NULL, p->value_size, p->value);
    term = record->master_term;
    leasehold_stored__master__free_unpacked(record, NULL);
    w.config.reign = term + 5;
    crash();
    p = world_find(&w, "M", 1);
    record = leasehold_stored__master__unpack(NULL, p->value_size, p->value);
    assert_int_equal(record->master_term, term + 5);
    leasehold_stored__master__free_unpacked(record, NULL);
    w.config.reign = 0;
    crash();
    p = world_find(&w, "M", 1);
    record = leasehold_stored__master__unpack(NULL, p->value_size, p->value);
    assert_int_equal(record->master_term, term + 6);
    leasehold_stored__master__free_unpacked(record, NULL);
}

/* ---- Random lives. */

/* What the commits did that were amended. */
#define COUNTED(X)                                                                                 \
    X(file_new)                                                                                    \
    X(file_renamed)                                                                                \
    X(file_trashed)                                                                                \
    X(file_restored)                                                                               \
    X(file_removed)                                                                                \
    X(path_of_another_file)                                                                        \
    X(paths_exchanged)                                                                             \
    X(path_goes_and_comes)                                                                         \
    X(chunk_new)                                                                                   \
    X(chunk_next)                                                                                  \
    X(chunk_created)                                                                               \
    X(chunk_removed)                                                                               \
    X(chunk_granted)                                                                               \
    X(chunk_version)                                                                               \
    X(chunk_free)                                                                                  \
    X(chunk_members)                                                                               \
    X(chunk_joining)                                                                               \
    X(chunk_lost)                                                                                  \
    X(chunk_in_the_middle)                                                                         \
    X(chunk_sealed)                                                                                \
    X(chunk_intent)                                                                                \
    X(chunk_rolled)                                                                                \
    X(tombstone_put)                                                                               \
    X(call_put)                                                                                    \
    X(call_taken)                                                                                  \
    X(tombstone_taken)                                                                             \
    X(server_new)                                                                                  \
    X(server_changed)                                                                              \
    X(server_admin)                                                                                \
    X(master_changed)                                                                              \
    X(master_behind)                                                                               \
    X(master_resumed)                                                                              \
    X(several_commits)                                                                             \
    X(compared)                                                                                    \
    X(took_over)

static struct {
#define X(name) size_t name;
    COUNTED(X)
#undef X
} seen;

static struct world base; /* its store alone: what the follower has */
static unsigned pending;  /* commits that it has not got */
static uint64_t reign;    /* of this life, the last one that was not counted up by one */

static uint64_t number_at(const uint8_t *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return value;
}

static const struct lh_change *changed(char kind, uint64_t id)
{
    for (size_t i = 0; i < follower.count; i++)
        if (follower.changes[i].key[0] == kind && number_at(follower.changes[i].key + 1) == id)
            return &follower.changes[i];
    return NULL;
}

/* The file that has the path in what the follower has; 0: none. */
static uint64_t former_owner(const char *path)
{
    uint64_t id = 0;

    for (size_t i = 0; i < base.store_count && id == 0; i++) {
        const struct pair *p = &base.store[i];
        if (p->key[0] != 'f')
            continue;
        LeaseholdStored__File *f = leasehold_stored__file__unpack(NULL, p->value_size, p->value);
        if (!f->trashed && strcmp(f->path, path) == 0)
            id = f->file;
        leasehold_stored__file__free_unpacked(f, NULL);
    }
    return id;
}

static void count_paths(const LeaseholdStored__File *was, const LeaseholdStored__File *is)
{
    uint64_t owner = is->trashed ? 0 : former_owner(is->path);
    const struct lh_change *other = owner == 0 || owner == is->file ? NULL : changed('f', owner);

    if (other == NULL)
        return;
    seen.path_goes_and_comes += was == NULL;
    seen.path_of_another_file++;
    if (was == NULL || was->trashed || other->value == NULL)
        return;
    LeaseholdStored__File *f =
        leasehold_stored__file__unpack(NULL, other->value_size, other->value);
    seen.paths_exchanged += !f->trashed && strcmp(f->path, was->path) == 0;
    leasehold_stored__file__free_unpacked(f, NULL);
}

static void count_file(const struct pair *old, const struct lh_change *change)
{
    if (change->value == NULL) {
        seen.file_removed += old != NULL;
        return;
    }
    LeaseholdStored__File *is =
        leasehold_stored__file__unpack(NULL, change->value_size, change->value);
    LeaseholdStored__File *was =
        old == NULL ? NULL : leasehold_stored__file__unpack(NULL, old->value_size, old->value);
    seen.file_new += was == NULL;
    seen.file_renamed += was != NULL && strcmp(was->path, is->path) != 0;
    seen.file_trashed += was != NULL && !was->trashed && is->trashed;
    seen.file_restored += was != NULL && was->trashed && !is->trashed;
    count_paths(was, is);
    leasehold_stored__file__free_unpacked(is, NULL);
    if (was != NULL)
        leasehold_stored__file__free_unpacked(was, NULL);
}

static bool is_last(const struct lh_change *change)
{
    uint8_t key[17];

    memcpy(key, change->key, sizeof key);
    for (int i = 16; i > 8 && ++key[i] == 0; i--)
        continue;
    return world_find(&base, key, sizeof key) == NULL;
}

static void count_members(const LeaseholdStored__Chunk *was, const LeaseholdStored__Chunk *is)
{
    bool others = was->n_members != is->n_members;

    for (size_t i = 0; i < is->n_members; i++) {
        seen.chunk_joining += is->members[i]->joining ? 1 : 0;
        seen.chunk_lost += is->members[i]->lost ? 1 : 0;
        others = others || strcmp(is->members[i]->server_id, was->members[i]->server_id) != 0;
    }
    seen.chunk_members += others;
}

static void count_chunk(const struct pair *old, const struct lh_change *change)
{
    if (change->value == NULL) {
        seen.chunk_removed += old != NULL;
        return;
    }
    LeaseholdStored__Chunk *is =
        leasehold_stored__chunk__unpack(NULL, change->value_size, change->value);
    if (old == NULL) {
        seen.chunk_new++;
        seen.chunk_next += is->index > 0;
        leasehold_stored__chunk__free_unpacked(is, NULL);
        return;
    }
    LeaseholdStored__Chunk *was =
        leasehold_stored__chunk__unpack(NULL, old->value_size, old->value);
    seen.chunk_created += is->created && !was->created;
    seen.chunk_granted += is->holder[0] != 0 && strcmp(is->holder, was->holder) != 0;
    seen.chunk_free += is->holder[0] == 0 && was->holder[0] != 0;
    seen.chunk_version += is->version > was->version && strcmp(is->holder, was->holder) == 0;
    seen.chunk_in_the_middle += !is_last(change);
    seen.chunk_sealed += is->sealed && !was->sealed;
    seen.chunk_intent += is->intent_to_seal && !was->intent_to_seal && !is->sealed;
    seen.chunk_rolled += is->sealed && !was->sealed && was->intent_to_seal;
    count_members(was, is);
    leasehold_stored__chunk__free_unpacked(is, NULL);
    leasehold_stored__chunk__free_unpacked(was, NULL);
}

static void count_server(const struct pair *old, const struct lh_change *change)
{
    LeaseholdStored__Server *is =
        leasehold_stored__server__unpack(NULL, change->value_size, change->value);
    LeaseholdStored__Server *was =
        old == NULL ? NULL : leasehold_stored__server__unpack(NULL, old->value_size, old->value);

    seen.server_new += was == NULL;
    seen.server_changed += was != NULL && was->incarnation < is->incarnation;
    seen.server_admin += was != NULL && was->admin != is->admin;
    leasehold_stored__server__free_unpacked(is, NULL);
    if (was != NULL)
        leasehold_stored__server__free_unpacked(was, NULL);
}

static void count_master(const struct pair *old, const struct lh_change *change)
{
    LeaseholdStored__Master *is =
        leasehold_stored__master__unpack(NULL, change->value_size, change->value);
    LeaseholdStored__Master *was =
        leasehold_stored__master__unpack(NULL, old->value_size, old->value);

    seen.master_changed++;
    seen.master_behind += is->behind[0] != 0 && was->behind[0] == 0;
    seen.master_resumed += is->behind[0] == 0 && was->behind[0] != 0;
    leasehold_stored__master__free_unpacked(is, NULL);
    leasehold_stored__master__free_unpacked(was, NULL);
}

static void life_committed(const struct lh_change *changes, size_t count)
{
    if (follower.m == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        add_change(&changes[i]);
    pending++;
}

static void life_follow(void)
{
    for (size_t i = 0; i < follower.count; i++) {
        const struct lh_change *change = &follower.changes[i];
        const struct pair *old = world_find(&base, change->key, change->key_size);
        if (change->key[0] == 'f')
            count_file(old, change);
        else if (change->key[0] == 'k')
            count_chunk(old, change);
        else if (change->key[0] == 's')
            count_server(old, change);
        else if (change->key[0] == 'M')
            count_master(old, change);
        else if (change->key[0] == 'c' && change->value != NULL)
            seen.call_put++;
        else if (change->key[0] == 'c')
            seen.call_taken += old != NULL;
        else if (change->value != NULL)
            seen.tombstone_put++;
        else
            seen.tombstone_taken += old != NULL;
    }
    seen.several_commits += pending > 1;
    pending = 0;
    for (size_t i = 0; i < follower.count; i++)
        world_apply(&base, &follower.changes[i]);
    follow();
}

static void life_begin_to_follow(void)
{
    world_free_store(&base);
    for (size_t i = 0; i < life_world.store_count; i++) {
        const struct pair *p = &life_world.store[i];
        world_apply(&base, &(struct lh_change){p->key, p->value, p->key_size, p->value_size});
    }
    pending = 0;
    follower_begin(&life_world, &life_next_config);
}

/* The follower takes the place of the master that has died. */
static void life_crashed(void)
{
    if (follower.m == NULL)
        return;
    life_follow();
    if (lh_prng_below(&order, 2) == 0) {
        life_world.config.reign = reign += 1000;
        lh_master_set_reign(follower.m, life_world.config.reign, 0, true);
    }
    seen.took_over++;
    life_world.successor = follower.m;
    follower.m = NULL;
}

static void life(uint64_t seed)
{
    order.state = seed;
    reign = 1000;
    life_open(seed);
    life_world.committed = life_committed;
    life_world.crashed = life_crashed;
    for (unsigned i = 0; i < LIFE_STEPS; i++) {
        if (follower.m == NULL && lh_prng_below(&order, 100) == 0)
            life_begin_to_follow();
        life_step();
        if (follower.m == NULL || pending <= lh_prng_below(&order, 40))
            continue;
        life_follow();
        if (lh_prng_below(&order, 4) == 0) {
            same_as_loaded(&life_world, &life_next_config);
            seen.compared++;
        }
    }
    life_close();
    follower_end();
}

static void followers_are_as_if_loaded(void **state)
{
    (void)state;
    life_run_all(life);
    world_free_store(&base);
#define X(name) print_message("%8zu  %s\n", seen.name, #name);
    COUNTED(X)
#undef X
    if (getenv("LH_SEED") != NULL)
        return;
#define X(name) assert_int_not_equal(seen.name, 0);
    COUNTED(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AMENDED(an_empty_core_follows_from_the_first_commit_on),
        AMENDED(a_file_and_its_chunks_come),
        AMENDED(a_file_and_its_chunks_come_at_once),
        AMENDED(a_creation_under_way_comes_and_goes),
        AMENDED(a_lease_goes_to_another_server),
        AMENDED(a_fence_rises_with_its_version),
        AMENDED(an_intent_to_seal_is_followed),
        AMENDED(a_roll_is_followed_to_its_seal),
        AMENDED(removed_files_go_with_their_chunks),
        AMENDED(a_path_goes_and_comes_back_in_one_commit),
        AMENDED(the_trash_is_followed),
        AMENDED(the_trash_is_followed_at_once),
        AMENDED(two_files_exchange_their_paths),
        AMENDED(three_files_exchange_their_paths_also_in_the_trash),
        AMENDED(chunkservers_are_followed),
        AMENDED(the_signs_of_an_older_copy_are_followed),
        AMENDED(calls_are_followed_one_by_one),
        AMENDED(calls_are_followed_at_once),
        BY_HAND(a_chunk_in_the_middle_is_replaced),
        BY_HAND(the_tail_is_replaced_again_and_again),
        BY_HAND(the_tail_is_sealed_and_the_next_one_begins),
        BY_HAND(all_chunks_of_a_file_are_other_ones),
        BY_HAND(what_is_not_there_is_removed_in_vain),
        BY_HAND(paths_go_round),
        BY_HAND(nonsense_is_refused),
        BY_HAND(a_commit_that_is_refused_halfway_leaves_nothing),
        AMENDED(the_reign_is_the_term),
        cmocka_unit_test(followers_are_as_if_loaded),
    };

    if (!lh_plant("token-without-its-lock", true)) /* nobody here holds a lock */
        return 1;

    return cmocka_run_group_tests(tests, NULL, NULL);
}
