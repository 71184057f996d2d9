/* Stories about whose appends a file takes (TOK-2): what becomes of the tokens that OpenTail names,
 * and which grants carry the fence. Who holds a lock is not the subject: whoever names a token
 * holds its lock here, unless a story says otherwise (the plant "token-without-its-lock"). */
#include "base/probe.h"
#include "tests/core/master/master_story.h"

#define LOCK "/locks/log"

static int locks_are_held(void **state)
{
    lh_plant_none();
    assert_true(lh_plant("token-without-its-lock", true));
    return set_up(state);
}

static int and_that_is_over(void **state)
{
    lh_plant_none();
    return tear_down(state);
}

#define TOLD(name) cmocka_unit_test_setup_teardown(name, locks_are_held, and_that_is_over)

static uint64_t ask_under(const char *path, const char *lock, uint64_t token)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.wait_ms = 5000;
    r.lock_name = (char *)(uintptr_t)lock;
    r.token = token;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

/* What is answered at once; -1: nothing is. */
static int answer_to(uint64_t call)
{
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);

    return reply == NULL ? -1 : (int)reply->error;
}

static int asked(const char *lock, uint64_t token)
{
    return answer_to(ask_under("/f", lock, token));
}

#define OK          LEASEHOLD__ERROR_CODE__OK
#define STALE_TOKEN LEASEHOLD__ERROR_CODE__STALE_TOKEN
#define NOTHING     (-1)

/* The grant that the server is sent next, which it confirms. */
static void grants(struct server *s, uint64_t version, uint64_t fence)
{
    const Leasehold__Grant *grant = server_grant(&w, s);

    assert_non_null(grant);
    assert_int_equal(grant->version, version);
    assert_int_equal(grant->fence, fence);
    server_confirm(&w, s, grant->chunk, version, LH_OK);
}

/* The caller was sent to that version, under that token. */
static void sent_to(uint64_t call, uint64_t version, uint64_t token)
{
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);

    assert_non_null(reply);
    assert_int_equal(reply->error, OK);
    assert_int_equal(reply->chunk->version, version);
    assert_int_equal(reply->info->fence, token);
    assert_string_equal(reply->info->lock_name, LOCK);
}

/* /f, with a primary under token 5 at version 2. */
static uint64_t fenced_file(struct server **primary)
{
    uint64_t chunk = file_with_primary("/f", primary);
    uint64_t call = ask_under("/f", LOCK, 5);

    grants(*primary, 2, 5);
    sent_to(call, 2, 5);
    return chunk;
}

static size_t changes_of(const struct commit *commit, char letter)
{
    size_t count = 0;

    for (size_t i = 0; i < commit->count; i++)
        count += commit->changes[i].key[0] == (uint8_t)letter;
    return count;
}

/* ---- Who is admitted. */

static void the_first_token_begins_a_version_in_one_commit(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    file_with_primary("/f", &primary);
    w.hold_commits = true;
    uint64_t call = ask_under("/f", LOCK, 5);
    assert_int_equal(w.commit_count, 1);
    assert_int_equal(changes_of(&w.commits[0], 'f'), 1);
    assert_int_equal(changes_of(&w.commits[0], 'k'), 1);
    assert_null(server_grant(&w, primary)); /* durable first (LEASE-1) */
    w.hold_commits = false;
    world_commit_all(&w);
    assert_int_equal(answer_to(call), NOTHING); /* not before its primary has the version */
    grants(primary, 2, 5);
    sent_to(call, 2, 5);
}

static void the_same_token_is_admitted_as_it_is(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    fenced_file(&primary);
    sent_to(ask_under("/f", LOCK, 5), 2, 5);
    assert_null(server_grant(&w, primary));
}

static void a_lower_one_another_name_and_none_are_refused(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    fenced_file(&primary);
    assert_int_equal(asked(LOCK, 4), STALE_TOKEN);
    assert_int_equal(asked("/locks/other", 5), STALE_TOKEN);
    assert_int_equal(asked("/locks/other", 9), STALE_TOKEN);
    assert_int_equal(asked("", 0), STALE_TOKEN);
    const Leasehold__OpenTailReply *reply = world_reply(&w, ask_under("/f", "", 0));
    assert_non_null(strstr(reply->error_text, LOCK));
    assert_non_null(strstr(reply->error_text, "name the lock and a token"));
    assert_int_equal(asked(LOCK, 0), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(asked("", 6), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(asked("no/path", 6), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_null(server_grant(&w, primary));
    sent_to(ask_under("/f", LOCK, 5), 2, 5);
}

static void a_higher_one_counts_only_while_its_lock_is_in_force(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    fenced_file(&primary);
    assert_true(lh_plant("token-without-its-lock", false)); /* nobody holds it */
    assert_int_equal(asked(LOCK, 6), STALE_TOKEN);
    sent_to(ask_under("/f", LOCK, 5), 2, 5); /* it needs no lock any more: nobody came after it */
    assert_true(lh_plant("token-without-its-lock", true));
    uint64_t call = ask_under("/f", LOCK, 6);
    grants(primary, 3, 6);
    sent_to(call, 3, 6);
    assert_int_equal(asked(LOCK, 5), STALE_TOKEN);
}

static void who_waits_with_a_lower_one_is_refused_when_a_higher_one_comes(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    file_with_primary("/f", &primary);
    down(primary); /* nobody can be named for the moment */
    uint64_t none = ask_under("/f", "", 0), five = ask_under("/f", LOCK, 5);
    assert_int_equal(answer_to(none), STALE_TOKEN);
    assert_int_equal(answer_to(five), NOTHING);
    uint64_t six = ask_under("/f", LOCK, 6);
    assert_int_equal(answer_to(five), STALE_TOKEN);
    assert_int_equal(answer_to(six), NOTHING);
}

/* ---- Which grants carry it. */

static void a_free_chunk_has_it_with_the_next_grant(void **state)
{
    struct server *primary = NULL, *next = NULL;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    server_release(&w, primary, chunk, 2);
    w.hold_commits = true;
    uint64_t call = ask_under("/f", LOCK, 6);
    assert_int_equal(changes_of(&w.commits[0], 'f'), 1);
    assert_int_equal(changes_of(&w.commits[0], 'k'), 1);
    w.hold_commits = false;
    world_commit_all(&w);
    for (size_t i = 0; i < SERVERS; i++)
        if (is_up(&servers[i])) {
            const Leasehold__Grant *grant = server_grant(&w, &servers[i]);
            if (grant == NULL)
                continue;
            next = &servers[i];
            assert_int_equal(grant->version, 3);
            assert_int_equal(grant->fence, 6);
            server_confirm(&w, next, chunk, 3, LH_OK);
        }
    assert_non_null(next);
    sent_to(call, 3, 6);
}

static void a_new_version_for_its_members_sake_has_it_too(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    server_member_failed(&w, primary, chunk, 2, (primary == a ? b : a)->id);
    grants(primary, 3, 5);
    sent_to(ask_under("/f", LOCK, 5), 3, 5);
}

/* The holder could not be given a version: what it was granted is of the older fence, however long
 * it goes on. */
static void a_lease_that_goes_on_is_raised_before_anybody_is_sent_there(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    crash();
    uint64_t call = ask_under("/f", LOCK, 6);
    assert_int_equal(answer_to(call), NOTHING);
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 2;
    primary->registration++;
    assert_true(server_register_with(&w, primary, NULL, 0, &held, 1));
    assert_int_equal(answer_to(call), NOTHING);
    assert_true(server_heartbeat(&w, primary));
    grants(primary, 3, 6);
    sent_to(call, 3, 6);
}

static void a_fence_raised_under_a_recall_waits_for_the_next_holder(void **state)
{
    struct server *primary = NULL;
    Leasehold__RecallRequest r = LEASEHOLD__RECALL_REQUEST__INIT;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    r.chunk = chunk;
    r.wait_ms = 1000;
    world_call(&w, LH_METHOD_RECALL, &r);
    uint64_t call = ask_under("/f", LOCK, 6);
    assert_null(server_grant(&w, primary));
    assert_true(says(explain("/f", 0), "the new token counts from the next version on"));
    server_release(&w, primary, chunk, 2);
    struct server *next = NULL;
    for (size_t i = 0; i < SERVERS && next == NULL; i++)
        if (&servers[i] != primary && is_up(&servers[i])) {
            const Leasehold__Grant *grant = server_grant(&w, &servers[i]);
            next = grant == NULL ? NULL : &servers[i];
            if (grant != NULL) {
                assert_int_equal(grant->fence, 6);
                server_confirm(&w, next, chunk, 3, LH_OK);
            }
        }
    assert_non_null(next);
    sent_to(call, 3, 6);
}

/* The next grant of any server, of the chunk after `chunk`. */
static const Leasehold__Grant *grant_behind(uint64_t chunk, struct server **holder)
{
    const Leasehold__SessionReply *r;

    for (size_t i = 0; i < SERVERS; i++)
        while (is_up(&servers[i]) &&
               (r = world_next(&w, servers[i].link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL)
            server_created(&w, &servers[i], r->create->chunk, LH_OK);
    for (size_t i = 0; i < SERVERS; i++) {
        const Leasehold__Grant *grant = is_up(&servers[i]) ? server_grant(&w, &servers[i]) : NULL;
        if (grant == NULL)
            continue;
        assert_true(grant->chunk > chunk);
        *holder = &servers[i];
        return grant;
    }
    return NULL;
}

static void the_chunk_after_a_full_one_has_it(void **state)
{
    struct server *primary = NULL, *next = NULL;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    server_seal(&w, primary, chunk, 2, 1000);
    uint64_t call = ask_under("/f", LOCK, 6);
    const Leasehold__Grant *grant = grant_behind(chunk, &next);
    assert_non_null(grant);
    assert_int_equal(grant->fence, 6);
    server_confirm(&w, next, grant->chunk, grant->version, LH_OK);
    sent_to(call, 1, 6);
    assert_int_equal(asked(LOCK, 5), STALE_TOKEN);
}

/* The primary of /f is lost while token 5 is admitted, the file rolls over (FAIL-2a), and token 6
 * comes in between. The next chunk's grant. */
static const Leasehold__Grant *rolled(struct server **next)
{
    struct server *primary = NULL;
    Leasehold__OpenTailRequest lost = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    three_up();
    up(d);
    uint64_t chunk = fenced_file(&primary);
    down(primary);
    lost.path = (char *)(uintptr_t) "/f";
    lost.wait_ms = 5000;
    lost.failed_chunk = chunk;
    lost.failed_version = 2;
    lost.lock_name = (char *)(uintptr_t)LOCK;
    lost.token = 5;
    uint64_t five = world_call(&w, LH_METHOD_OPEN_TAIL, &lost);
    uint64_t six = ask_under("/f", LOCK, 6);
    assert_int_equal(answer_to(five), STALE_TOKEN);
    assert_int_equal(answer_to(six), NOTHING);
    for (size_t i = 0; i < SERVERS; i++)
        if (is_up(&servers[i]) &&
            world_next(&w, servers[i].link, LEASEHOLD__SESSION_REPLY__BODY_FENCE) != NULL)
            server_fenced(&w, &servers[i], chunk, 3, LH_OK, 500, 500, false);
    const Leasehold__Grant *grant = grant_behind(chunk, next);
    assert_non_null(grant);
    server_confirm(&w, *next, grant->chunk, grant->version, LH_OK);
    assert_int_equal(answer_to(six), OK);
    return grant;
}

static void the_chunk_after_a_roll_has_it(void **state)
{
    struct server *next = NULL;

    (void)state;
    assert_int_equal(rolled(&next)->fence, 6);
    assert_int_equal(asked(LOCK, 5), STALE_TOKEN);
    assert_int_equal(asked("", 0), STALE_TOKEN);
    sent_to(ask_under("/f", LOCK, 6), 1, 6);
}

/* ---- How long it is kept. */

static void a_master_that_starts_again_knows_it(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = fenced_file(&primary);
    crash();
    assert_int_equal(asked(LOCK, 4), STALE_TOKEN);
    assert_int_equal(asked("", 0), STALE_TOKEN);
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 2;
    primary->registration++;
    uint64_t call = ask_under("/f", LOCK, 5);
    assert_true(server_register_with(&w, primary, NULL, 0, &held, 1));
    assert_true(server_heartbeat(&w, primary));
    sent_to(call, 2, 5); /* the same grant goes on: it is of this fence */
}

static void it_stays_with_the_file(void **state)
{
    struct server *primary = NULL;
    Leasehold__RenameRequest rename = LEASEHOLD__RENAME_REQUEST__INIT;
    Leasehold__RestoreRequest restore = LEASEHOLD__RESTORE_REQUEST__INIT;

    (void)state;
    three_up();
    fenced_file(&primary);
    rename.from = (char *)(uintptr_t) "/f";
    rename.to = (char *)(uintptr_t) "/g";
    const Leasehold__RenameReply *renamed =
        world_reply(&w, world_call(&w, LH_METHOD_RENAME, &rename));
    assert_int_equal(renamed->error, OK);
    assert_int_equal(answer_to(ask_under("/g", LOCK, 4)), STALE_TOKEN);
    assert_int_equal(remove_file("/g", 0, false)->error, OK);
    restore.path = (char *)(uintptr_t) "/g";
    restore.to = (char *)(uintptr_t) "/f";
    const Leasehold__RestoreReply *restored =
        world_reply(&w, world_call(&w, LH_METHOD_RESTORE, &restore));
    assert_int_equal(restored->error, OK);
    assert_int_equal(restored->info->fence, 5);
    assert_int_equal(asked(LOCK, 4), STALE_TOKEN);
    make_file("/g"); /* another file */
    assert_int_equal(answer_to(ask_under("/g", "", 0)), NOTHING);
}

static void explain_and_stat_say_it(void **state)
{
    struct server *primary = NULL;
    Leasehold__StatRequest stat = LEASEHOLD__STAT_REQUEST__INIT;

    (void)state;
    three_up();
    fenced_file(&primary);
    assert_true(says(explain("/f", 0), "appends only under lock " LOCK ", token 5"));
    stat.path = (char *)(uintptr_t) "/f";
    const Leasehold__StatReply *reply = world_reply(&w, world_call(&w, LH_METHOD_STAT, &stat));
    assert_int_equal(reply->info->fence, 5);
    assert_string_equal(reply->info->lock_name, LOCK);
}

static void a_file_without_tokens_has_no_fence(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    make_file("/f");
    uint64_t call = open_tail("/f", 1000);
    obey(&primary);
    assert_int_equal(answer_to(call), OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, ask_under("/f", "", 0));
    assert_int_equal(reply->info->fence, 0);
    assert_string_equal(reply->info->lock_name, "");
}

/* ---- That these stories can fail. */

static void planted_a_lower_token_is_admitted_after_a_roll(void **state)
{
    struct server *next = NULL;

    (void)state;
    (void)rolled(&next);
    assert_true(lh_plant("lower-token-admitted-after-roll", true));
    assert_int_equal(asked(LOCK, 5), OK);
}

static void planted_the_grant_says_nothing_of_the_fence(void **state)
{
    struct server *next = NULL;

    (void)state;
    assert_true(lh_plant("fence-not-in-grant", true));
    three_up();
    file_with_primary("/f", &next);
    ask_under("/f", LOCK, 5);
    assert_int_equal(server_grant(&w, next)->fence, 0);
}

static void planted_a_start_forgets_the_fence(void **state)
{
    struct server *primary = NULL;

    (void)state;
    assert_true(lh_plant("fence-forgotten-at-restart", true));
    three_up();
    fenced_file(&primary);
    crash();
    assert_int_equal(asked(LOCK, 4), NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOLD(the_first_token_begins_a_version_in_one_commit),
        TOLD(the_same_token_is_admitted_as_it_is),
        TOLD(a_lower_one_another_name_and_none_are_refused),
        TOLD(a_higher_one_counts_only_while_its_lock_is_in_force),
        TOLD(who_waits_with_a_lower_one_is_refused_when_a_higher_one_comes),
        TOLD(a_free_chunk_has_it_with_the_next_grant),
        TOLD(a_new_version_for_its_members_sake_has_it_too),
        TOLD(a_lease_that_goes_on_is_raised_before_anybody_is_sent_there),
        TOLD(a_fence_raised_under_a_recall_waits_for_the_next_holder),
        TOLD(the_chunk_after_a_full_one_has_it),
        TOLD(the_chunk_after_a_roll_has_it),
        TOLD(a_master_that_starts_again_knows_it),
        TOLD(it_stays_with_the_file),
        TOLD(explain_and_stat_say_it),
        TOLD(a_file_without_tokens_has_no_fence),
        TOLD(planted_a_lower_token_is_admitted_after_a_roll),
        TOLD(planted_the_grant_says_nothing_of_the_fence),
        TOLD(planted_a_start_forgets_the_fence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
