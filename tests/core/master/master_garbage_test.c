/* Stories about what is deleted and what is not: the trash, replicas that nobody needs, and a
 * metadata store that is older than the chunkservers (KEEP-3 to KEEP-5). */
#include "tests/core/master/master_story.h"

#define HOUR_MS (UINT64_C(3600) * 1000)
#define DAY_MS  (24 * HOUR_MS)

/* Long enough for the master to look at replicas that nobody needs. */
#define A_LOOK_MS 12000u

static const Leasehold__RestoreReply *restore(const char *path, uint64_t file, const char *to)
{
    Leasehold__RestoreRequest r = LEASEHOLD__RESTORE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.file = file;
    r.to = (char *)(uintptr_t)to;
    return world_reply(&w, world_call(&w, LH_METHOD_RESTORE, &r));
}

static const Leasehold__ListReply *list_after(
    bool trash, uint32_t limit, const char *after, uint64_t after_file)
{
    Leasehold__ListRequest r = LEASEHOLD__LIST_REQUEST__INIT;

    r.trash = trash;
    r.limit = limit;
    r.after = (char *)(uintptr_t)after;
    r.after_file = after_file;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST, &r));
}

static const Leasehold__ListReply *list(bool trash)
{
    return list_after(trash, 0, "", 0);
}

static const Leasehold__StatReply *stat_file(const char *path)
{
    Leasehold__StatRequest r = LEASEHOLD__STAT_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    return world_reply(&w, world_call(&w, LH_METHOD_STAT, &r));
}

static uint64_t chunk_of(const char *path)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->n_chunks, 1);
    return reply->chunks[0]->chunk;
}

static void nobody_is_told_to_remove(void)
{
    for (size_t i = 0; i < SERVERS; i++)
        if (is_up(&servers[i]))
            assert_null(told_to_remove(&servers[i]));
}

/* Time passes for a master that nobody talks to. */
static void hours(uint64_t count)
{
    world_advance(&w, count * HOUR_MS);
    world_forget_lines(&w);
}

/* ---- The trash. */

static void a_removed_file_comes_back_with_its_chunks(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    const Leasehold__RemoveReply *removed_ = remove_file("/f", 0, false);
    assert_int_equal(removed_->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(removed_->trash_left_ms, DAY_MS);
    uint64_t file = removed_->file;
    assert_int_equal(stat_file("/f")->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(list(false)->n_files, 0);
    const Leasehold__ListReply *trash = list(true);
    assert_int_equal(trash->n_files, 1);
    assert_true(trash->files[0]->trashed);
    assert_string_equal(trash->files[0]->path, "/f");
    assert_int_equal(trash->files[0]->trash_left_ms, DAY_MS);
    heartbeats(A_LOOK_MS);
    nobody_is_told_to_remove();

    crash();
    assert_int_equal(list(false)->n_files, 0);
    const Leasehold__RestoreReply *back = restore("/f", 0, "");
    assert_int_equal(back->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(back->info->file, file);
    assert_false(back->info->trashed);
    assert_int_equal(back->info->sealed_length, 1000);
    crash();
    assert_int_equal(list(true)->n_files, 0);
    assert_int_equal(chunk_of("/f"), chunk);
}

static void a_removed_file_takes_no_appends(void **state)
{
    struct server *primary = NULL;
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    r.path = "/f";
    r.full_chunk = chunk;
    r.wait_ms = 5000;
    uint64_t waits = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    uint64_t file = remove_file("/f", 0, false)->file;
    const Leasehold__OpenTailReply *reply = world_reply(&w, waits);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    /* Its primary is asked to stop, and nobody is granted the lease after it. */
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL));
    server_release(&w, primary, chunk, 1);
    r.file = file; /* a program that has it open knows it by number */
    r.full_chunk = 0;
    reply = world_reply(&w, world_call(&w, LH_METHOD_OPEN_TAIL, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_non_null(strstr(reply->error_text, "trash"));
    Leasehold__RecallRequest recall = LEASEHOLD__RECALL_REQUEST__INIT;
    recall.chunk = chunk; /* nor does anybody wait there for another primary */
    recall.wait_ms = 5000;
    const Leasehold__RecallReply *recalled =
        world_reply(&w, world_call(&w, LH_METHOD_RECALL, &recall));
    assert_int_equal(recalled->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    heartbeats(A_LOOK_MS);
    for (size_t i = 0; i < 3; i++)
        assert_null(world_next(&w, servers[i].link, LEASEHOLD__SESSION_REPLY__BODY_GRANT));

    assert_int_equal(restore("", file, "")->error, LEASEHOLD__ERROR_CODE__OK);
    waits = open_tail("/f", 1000);
    assert_int_equal(obey(&primary), chunk);
    reply = world_reply(&w, waits);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->version, 2);
}

/* The recall does not outlive the master that began it, and the trash does. */
static void a_restarted_master_recalls_what_is_in_the_trash(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    assert_int_equal(remove_file("/f", 0, false)->error, LEASEHOLD__ERROR_CODE__OK);
    crash();
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    primary->registration++;
    Leasehold__ReplicaReport report = report_of(chunk, 1, false);
    assert_true(server_register_with(&w, primary, &report, 1, &held, 1));
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL));
}

static void a_path_is_free_as_soon_as_its_file_is_in_the_trash(void **state)
{
    (void)state;
    make_file("/f");
    uint64_t first = remove_file("/f", 0, false)->file;
    make_file("/f");
    const Leasehold__RestoreReply *r = restore("/f", 0, "");
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    assert_int_equal(list(true)->n_files, 1); /* nothing was lost by trying */
    crash();
    r = restore("/f", 0, "/g");
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(r->info->file, first);
    assert_string_equal(r->info->path, "/g");
    assert_int_equal(restore("/f", 0, "/h")->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(list(false)->n_files, 2);
    assert_int_equal(restore("", first, "/h")->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(restore("/x//y", 0, "")->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
}

static void of_two_files_of_one_path_the_one_removed_last_comes_back(void **state)
{
    Leasehold__RenameRequest rename_ = LEASEHOLD__RENAME_REQUEST__INIT;

    (void)state;
    make_file("/old");
    make_file("/f");
    uint64_t second = remove_file("/f", 0, false)->file;
    /* The one that is older by its number is removed later. */
    rename_.from = "/old";
    rename_.to = "/f";
    world_call(&w, LH_METHOD_RENAME, &rename_);
    uint64_t first = remove_file("/f", 0, false)->file;
    assert_true(first < second);
    make_file("/g");
    uint64_t third = remove_file("/g", 0, false)->file;
    make_file("/g");
    uint64_t fourth = remove_file("/g", 0, false)->file;
    crash(); /* also after a restart */

    const Leasehold__ListReply *page = list_after(true, 1, "", 0);
    assert_int_equal(page->n_files, 1);
    assert_int_equal(page->files[0]->file, first);
    assert_true(page->more);
    page = list_after(true, 1, "/f", first);
    assert_int_equal(page->files[0]->file, second);
    assert_true(page->more);
    page = list_after(true, 1, "/f", second);
    assert_string_equal(page->files[0]->path, "/g");
    assert_true(page->more);
    page = list_after(true, 0, "/g", 0);
    assert_int_equal(page->n_files, 0);
    assert_false(page->more);

    assert_int_equal(restore("/f", 0, "/f")->info->file, first);
    assert_int_equal(restore("/f", 0, "/f2")->info->file, second);
    assert_int_equal(restore("/g", 0, "/g")->info->file, fourth);
    assert_int_equal(restore("/g", 0, "/g2")->info->file, third);
}

static void a_file_goes_for_good_with_now(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    uint64_t kept = sealed_file("/g");
    uint64_t file = remove_file("/f", 0, false)->file;
    assert_int_equal(
        remove_file("", file, false)->error, LEASEHOLD__ERROR_CODE__NOT_FOUND); /* it is in there */
    assert_int_equal(
        remove_file("/f", 0, true)->error, LEASEHOLD__ERROR_CODE__NOT_FOUND); /* by path: no */
    nobody_is_told_to_remove();
    const Leasehold__RemoveReply *r = remove_file("", file, true);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(r->trash_left_ms, 0);
    for (size_t i = 0; i < 3; i++) {
        const Leasehold__RemoveReplica *m = told_to_remove(&servers[i]);
        assert_non_null(m);
        assert_int_equal(m->chunk, chunk);
        assert_int_equal(m->version, 1);
    }
    remove_file("/g", 0, true);
    assert_int_equal(told_to_remove(a)->chunk, kept);
    assert_int_equal(list(true)->n_files, 0);
    assert_int_equal(restore("", file, "")->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
}

static void without_a_retention_files_go_at_once(void **state)
{
    (void)state;
    w.config.trash_retention = lh_seconds(0);
    crash();
    three_up();
    sealed_file("/f");
    assert_int_equal(remove_file("/f", 0, false)->trash_left_ms, 0);
    assert_non_null(told_to_remove(a));
    assert_int_equal(list(true)->n_files, 0);
}

static void the_trash_is_emptied_in_time_and_not_before(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    remove_file("/f", 0, false);
    hours(23);
    assert_int_equal(list(true)->n_files, 1);
    hours(1);
    assert_int_equal(list(true)->n_files, 0);
    /* Its replicas go when those who were away come back. */
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    come_with(a, &report, 1);
    const Leasehold__RemoveReplica *m = told_to_remove(a);
    assert_non_null(m);
    assert_int_equal(m->chunk, chunk);
}

/* Many files whose time is over at once go in several steps. */
static void a_full_trash_is_emptied(void **state)
{
    char path[16];

    (void)state;
    w.unchecked = true;
    for (unsigned i = 0; i < 1030; i++) {
        snprintf(path, sizeof path, "/%u", i);
        make_file(path);
        remove_file(path, 0, false);
        if (i % 100 == 0)
            world_forget_lines(&w);
    }
    assert_int_equal(garbage(false)->files_trashed, 1030);
    world_advance(&w, DAY_MS - 1000);
    assert_int_equal(garbage(false)->files_trashed, 1030);
    w.unchecked = false;
    world_advance(&w, 1000);
    assert_int_equal(garbage(false)->files_trashed, 0);
    for (size_t i = 0; i < w.store_count; i++)
        assert_int_not_equal(w.store[i].key[0], 'f');
}

/* Only a running master's time counts, and a restart gives some of it back. */
static void restarts_never_shorten_the_time_in_the_trash(void **state)
{
    uint64_t ran = 0; /* milliseconds of a running master */

    (void)state;
    make_file("/f");
    remove_file("/f", 0, false);
    w.now = lh_instant_add(w.now, lh_seconds(30 * 24 * 3600)); /* a month without a master */
    crash();
    uint64_t left = list(true)->files[0]->trash_left_ms;
    assert_int_equal(left, DAY_MS);
    while (list(true)->n_files == 1) {
        left = list(true)->files[0]->trash_left_ms;
        assert_true(left > 0);
        assert_true(ran + left >= DAY_MS);
        hours(4);
        ran += 4 * HOUR_MS;
        crash();
        assert_true(ran <= 100 * HOUR_MS); /* it does go on: an eighth of a day is written down */
    }
    assert_true(ran >= DAY_MS);
}

static void a_changed_setting_does_not_shorten_what_was_promised(void **state)
{
    (void)state;
    make_file("/f");
    remove_file("/f", 0, false);
    w.config.trash_retention = lh_seconds(60);
    crash();
    hours(23);
    assert_int_equal(list(true)->n_files, 1);
    hours(2);
    assert_int_equal(list(true)->n_files, 0);
}

/* ---- Replicas that nobody needs. */

/* d has a replica of the chunk, which a, b and c are the members of. */
static void d_has_an_extra(uint64_t chunk, uint64_t version)
{
    Leasehold__ReplicaReport report = report_of(chunk, version, true);

    come_with(d, &report, 1);
}

/* d has been told to remove it, and has not answered; of which chunk. */
static uint64_t given_a_removal_under_way(void)
{
    three_up();
    uint64_t chunk = sealed_file("/f");
    d_has_an_extra(chunk, 1);
    heartbeats(A_LOOK_MS);
    assert_non_null(told_to_remove(d));
    return chunk;
}

static void a_replica_goes_when_the_chunk_is_well_without_it(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    d_has_an_extra(chunk, 1);
    assert_int_equal(garbage(false)->replicas_extra, 1);
    heartbeats(A_LOOK_MS);
    const Leasehold__RemoveReplica *m = told_to_remove(d);
    assert_non_null(m);
    assert_int_equal(m->chunk, chunk);
    assert_int_equal(m->version, 1);
    heartbeats(A_LOOK_MS);
    assert_null(told_to_remove(d)); /* once in a session */
    server_removed(&w, d, chunk, LH_OK);
    const Leasehold__GarbageReply *g = garbage(false);
    assert_int_equal(g->replicas_extra, 0);
    assert_int_equal(g->replicas_deleted, 1);
}

static void a_replica_stays_while_a_member_is_not_well(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    down(c); /* for less than the grace period */
    d_has_an_extra(chunk, 1);
    heartbeats(5 * A_LOOK_MS);
    assert_null(told_to_remove(d));
    assert_int_equal(garbage(false)->replicas_extra, 1);
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    come_with(c, &report, 1);
    heartbeats(A_LOOK_MS);
    assert_non_null(told_to_remove(d));
}

static void a_replica_stays_while_a_member_has_lost_its_own(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    report.lost = true;
    come_with(c, &report, 1);
    d_has_an_extra(chunk, 1);
    heartbeats(A_LOOK_MS);
    assert_null(told_to_remove(d));
    come_with(b, NULL, 0); /* one without it is not good, either */
    heartbeats(A_LOOK_MS);
    assert_null(told_to_remove(d));
}

static void a_replica_stays_until_every_member_has_recorded_the_seal(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_seal(&w, primary, chunk, 1, 1000);
    assert_non_null(world_next(&w, c->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    obey(&primary); /* a and b */
    d_has_an_extra(chunk, 1);
    heartbeats(A_LOOK_MS);
    assert_null(told_to_remove(d));
    Leasehold__ReplicaReport report = report_of(chunk, 1, true);
    come_with(c, &report, 1);
    heartbeats(A_LOOK_MS);
    assert_non_null(told_to_remove(d));
}

static void an_older_replica_goes_by_the_version_that_was_reported(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_release(&w, primary, chunk, 1);
    open_tail("/f", 1000);
    obey(&primary); /* version 2 */
    server_seal(&w, primary, chunk, 2, 1000);
    obey(&primary);
    d_has_an_extra(chunk, 1);
    heartbeats(A_LOOK_MS);
    const Leasehold__RemoveReplica *m = told_to_remove(d);
    assert_non_null(m);
    assert_int_equal(m->version, 1); /* what d gets meanwhile at 2 is not meant */
}

/* A member is dropped, which leaves too few for anything to be deleted; it joins again, and there
 * are enough: but now its replica is one of them. */
static void a_member_again_is_not_deleted(void **state)
{
    struct server *primary = NULL;
    const Leasehold__SessionReply *r = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *other = primary == c ? a : c;
    server_member_failed(&w, primary, chunk, 1, other->id);
    assert_int_equal(garbage(false)->replicas_extra, 1);
    assert_int_equal(server_grant(&w, primary)->n_members, 2);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    for (unsigned i = 0; i < 10 && r == NULL; i++) {
        heartbeats(HEARTBEAT_MS);
        r = world_next(&w, other->link, LEASEHOLD__SESSION_REPLY__BODY_COPY);
    }
    assert_non_null(r); /* what it has already is used */
    assert_int_equal(r->copy->chunk, chunk);
    server_copied(&w, other, chunk, r->copy->version);
    const Leasehold__Grant *grant = server_grant(&w, primary);
    assert_non_null(grant);
    assert_int_equal(grant->n_members, 3);
    uint64_t version = grant->version;
    server_confirm(&w, primary, chunk, version, LH_OK);
    server_recovered(&w, primary, chunk, version);
    heartbeats(3 * A_LOOK_MS);
    assert_int_equal(garbage(false)->replicas_extra, 0);
    assert_null(told_to_remove(other));
    assert_int_equal(explain("", chunk)->chunk->n_replicas, 3);
    assert_true(says(explain("", chunk), "3 of the 3 replicas"));
}

static void what_a_session_told_is_forgotten_with_it(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    d_has_an_extra(chunk, 1);
    down(d);
    heartbeats(20000);
    assert_int_equal(garbage(false)->replicas_extra, 0);
    d->incarnation++;
    d->link = 0;
    assert_true(server_register(&w, d)); /* without it: gone by other means */
    heartbeats(A_LOOK_MS);
    assert_null(told_to_remove(d));
}

static void a_refused_removal_is_not_repeated(void **state)
{
    (void)state;
    uint64_t chunk = given_a_removal_under_way();
    server_removed(&w, d, chunk, LH_ERR_STALE_VERSION);
    heartbeats(2 * A_LOOK_MS);
    assert_null(told_to_remove(d));
    assert_int_equal(garbage(false)->replicas_deleted, 0);
    d_has_an_extra(chunk, 1); /* the next registration tells again */
    heartbeats(A_LOOK_MS);
    assert_non_null(told_to_remove(d));
}

/* An input/output error, say, which passes. */
static void a_removal_that_failed_is_asked_for_again(void **state)
{
    (void)state;
    uint64_t chunk = given_a_removal_under_way();
    server_removed(&w, d, chunk, LH_ERR_IO);
    assert_null(told_to_remove(d));
    heartbeats(2 * A_LOOK_MS);
    assert_non_null(told_to_remove(d));
}

static void a_removal_that_failed_is_asked_for_again_when_the_chunk_is_gone(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    d_has_an_extra(chunk, 1);
    remove_file("/f", 0, true);
    assert_non_null(told_to_remove(d));
    server_removed(&w, d, chunk, LH_ERR_IO);
    assert_null(told_to_remove(d));
    heartbeats(2 * A_LOOK_MS);
    const Leasehold__RemoveReplica *m = told_to_remove(d);
    assert_non_null(m);
    assert_int_equal(m->chunk, chunk);
    server_removed(&w, d, chunk, LH_OK);
    heartbeats(2 * A_LOOK_MS);
    assert_null(told_to_remove(d));
}

/* REC-4: what a server says before it has answered is about the replica that goes, not about one
 * that it was told to copy since. */
static void nothing_is_copied_to_where_a_replica_still_goes(void **state)
{
    (void)state;
    uint64_t chunk = given_a_removal_under_way();
    down(c);
    heartbeats(w.config.grace.ns / 1000000 + 5 * A_LOOK_MS);
    assert_null(world_next(&w, d->link, LEASEHOLD__SESSION_REPLY__BODY_COPY));
    server_removed(&w, d, chunk, LH_OK);
    heartbeats(5 * A_LOOK_MS);
    assert_non_null(world_next(&w, d->link, LEASEHOLD__SESSION_REPLY__BODY_COPY));
}

static void removed_chunks_take_their_extras_along(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    d_has_an_extra(chunk, 1);
    remove_file("/f", 0, true);
    const Leasehold__RemoveReplica *m = told_to_remove(d);
    assert_non_null(m);
    assert_int_equal(m->chunk, chunk);
    assert_int_equal(garbage(false)->replicas_extra, 0);
}

/* ---- Metadata that is older than the chunkservers. */

static void nothing_is_deleted(const char *why)
{
    const Leasehold__GarbageReply *g = garbage(false);
    assert_false(g->deleting);
    assert_non_null(strstr(g->why_not, why));
    const Leasehold__ListServersRequest none = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const Leasehold__ListServersReply *s =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &none));
    assert_false(s->deleting);
    assert_string_equal(s->deleting_text, g->why_not);
}

static void a_number_not_yet_given_out_is_evidence(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    uint64_t gone = sealed_file("/gone");
    remove_file("/gone", 0, true);
    world_drop_lines(&w);
    Leasehold__ReplicaReport reports[] = {
        report_of(100, 3, false), report_of(chunk, 1, true), report_of(gone, 1, true)};
    come_with(d, reports, 3);
    nothing_is_deleted("chunk 100");
    heartbeats(3 * A_LOOK_MS);
    nobody_is_told_to_remove(); /* not even what was removed for certain */

    /* The number is never handed out again, also not by the next master. */
    crash();
    nothing_is_deleted("chunk 100");
    for (size_t i = 0; i < 3; i++) {
        servers[i].incarnation++;
        up(&servers[i]);
    }
    assert_true(file_with_primary("/g", &primary) > 100);
    assert_true(file_with_primary("/h", &primary) > 101);
}

static void deletion_goes_on_when_the_operator_has_looked(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    uint64_t gone = sealed_file("/gone");
    remove_file("/gone", 0, true);
    Leasehold__ReplicaReport reports[] = {
        report_of(100, 3, false), report_of(chunk, 1, true), report_of(gone, 1, true)};
    come_with(d, reports, 3);
    assert_int_equal(garbage(false)->replicas_extra, 3);
    world_drop_lines(&w);

    w.hold_commits = true;
    Leasehold__GarbageRequest r = LEASEHOLD__GARBAGE_REQUEST__INIT;
    r.resume = true;
    uint64_t call = world_call(&w, LH_METHOD_GARBAGE, &r);
    world_advance(&w, 2000);
    assert_null(world_reply(&w, call)); /* the operator's word is durable first */
    assert_null(told_to_remove(d));
    w.hold_commits = false;
    world_commit_all(&w);
    const Leasehold__GarbageReply *g = world_reply(&w, call);
    assert_true(g->deleting);
    heartbeats(A_LOOK_MS);
    bool orphan = false, extra = false, buried = false;
    const Leasehold__RemoveReplica *m;
    while ((m = told_to_remove(d)) != NULL) {
        orphan = orphan || (m->chunk == 100 && m->version == 3);
        extra = extra || (m->chunk == chunk && m->version == 1);
        buried = buried || (m->chunk == gone && m->version == 1);
    }
    assert_true(orphan && extra && buried);
    /* What was seen then is no news later. */
    crash();
    Leasehold__ReplicaReport again = report_of(100, 3, false);
    come_with(c, &again, 1);
    assert_true(garbage(false)->deleting);
    assert_int_equal(told_to_remove(c)->chunk, 100);
    /* And something newer is. */
    again.version = 4;
    come_with(c, &again, 1);
    nothing_is_deleted("version 4 of chunk 100");
}

static void a_higher_version_is_evidence_and_is_not_granted_again(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_release(&w, primary, chunk, 1);
    Leasehold__ReplicaReport report = report_of(chunk, 7, false);
    come_with(c, &report, 1);
    nothing_is_deleted("version 7 of chunk");
    crash();
    for (size_t i = 0; i < 2; i++) {
        report.version = 1;
        come_with(&servers[i], &report, 1);
    }
    heartbeats(11000); /* whoever may hold it by what the store lacks (LEASE-7) */
    uint64_t call = open_tail("/f", 1000);
    obey(&primary);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->version, 8);
}

static void a_higher_version_under_a_lease_is_left_behind_by_the_next_grant(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *other = primary == c ? b : c;
    Leasehold__ReplicaReport report = report_of(chunk, 7, false);
    come_with(other, &report, 1);
    nothing_is_deleted("version 7 of chunk");
    server_release(&w, primary, chunk, 1); /* the lease's own version is what counts for this */
    heartbeats(11000);
    uint64_t call = open_tail("/f", 1000);
    obey(&primary);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->version, 8);
}

static void an_unknown_chunk_is_evidence(void **state)
{
    (void)state;
    three_up();
    sealed_file("/f");
    sealed_file("/g");
    remove_file("/g", 0, true);
    /* The store loses the tombstone, as one that was copied before the file was there. */
    for (size_t i = 0; i < w.store_count; i++)
        if (w.store[i].key[0] == 'r') {
            free(w.store[i].key);
            free(w.store[i].value);
            w.store[i] = w.store[--w.store_count];
            break;
        }
    world_as_written(&w);
    crash();
    Leasehold__ReplicaReport report = report_of(2, 1, true);
    come_with(a, &report, 1);
    nothing_is_deleted("chunk 2");
}

static void a_chunk_above_its_tombstone_is_evidence(void **state)
{
    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    remove_file("/f", 0, true);
    world_drop_lines(&w);
    Leasehold__ReplicaReport report = report_of(chunk, 2, true);
    come_with(c, &report, 1);
    nothing_is_deleted("removed at version 1");
    assert_null(told_to_remove(c));
}

static void absurd_numbers_are_not_believed(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    uint64_t open = file_with_primary("/open", &primary);
    Leasehold__ReplicaReport reports[] = {report_of(UINT64_MAX, UINT64_MAX, false),
        report_of(chunk, UINT64_MAX, true), report_of(open, UINT64_MAX, false)};
    come_with(d, reports, 3);
    assert_false(garbage(false)->deleting);
    assert_int_equal(file_with_primary("/g", &primary), open + 1);
    assert_true(garbage(true)->deleting);
    heartbeats(A_LOOK_MS);
    crash();
}

/* Each number is not far above the one before. */
static void numbers_of_chunks_do_not_run_out_by_what_a_server_reports(void **state)
{
    enum { REPORTS = 5000 };
    static Leasehold__ReplicaReport reports[REPORTS];
    struct server *primary = NULL;

    (void)state;
    three_up();
    sealed_file("/f");
    for (uint64_t i = 0; i < REPORTS; i++)
        reports[i] = report_of((i + 1) << 47, 1, false);
    come_with(d, reports, REPORTS);
    heartbeats(A_LOOK_MS);
    assert_false(garbage(false)->deleting);
    file_with_primary("/g", &primary);
    crash(); /* the store can be read */
}

static void the_trash_waits_for_the_operator_too(void **state)
{
    (void)state;
    three_up();
    sealed_file("/f");
    remove_file("/f", 0, false);
    Leasehold__ReplicaReport report = report_of(100, 3, false);
    come_with(d, &report, 1);
    hours(100);
    assert_int_equal(list(true)->n_files, 1);
    assert_int_equal(list(true)->files[0]->trash_left_ms, DAY_MS); /* no time has passed */
    garbage(true);
    hours(23);
    assert_int_equal(list(true)->n_files, 1);
    hours(1);
    assert_int_equal(list(true)->n_files, 0);
}

static void a_restored_store_gives_no_number_again(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = sealed_file("/f");
    w.config.restored = true;
    crash();
    nothing_is_deleted("--restored");
    w.config.restored = false;
    crash();
    nothing_is_deleted("--restored"); /* until somebody has looked */
    for (size_t i = 0; i < 3; i++) {
        Leasehold__ReplicaReport report = report_of(chunk, 1, true);
        come_with(&servers[i], &report, 1);
    }
    /* What was given out since the backup is not given out again: numbers of chunks, files. */
    make_file("/g");
    assert_true(stat_file("/g")->info->file > 1u << 20);
    open_tail("/g", 1000);
    assert_true(obey(&primary) > 1u << 20);
    assert_true(garbage(true)->deleting);
    crash();
    assert_true(garbage(false)->deleting);
}

/* A spare's replicas are created ahead, and its number counts as removed until it is used. */
static void spares_are_no_evidence(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    make_file("/f");
    open_tail("/f", 1000);
    uint64_t chunk = obey(&primary);
    server_seal(&w, primary, chunk, 1, 1000);
    open_tail("/f", 1000);
    uint64_t second = obey(&primary);
    uint64_t preallocated = second + 1;
    obey(&primary);
    Leasehold__ReplicaReport reports[] = {
        report_of(chunk, 1, true), report_of(second, 1, false), report_of(preallocated, 1, false)};
    come_with(c, reports, 3);
    assert_true(garbage(false)->deleting);
    crash();
    come_with(a, reports, 3);
    assert_true(garbage(false)->deleting);
    const Leasehold__RemoveReplica *m = told_to_remove(a);
    assert_non_null(m);
    assert_int_equal(m->chunk, preallocated);
    assert_int_equal(m->version, 0);
    /* One with bytes became a chunk in a newer store. */
    reports[2].length = 64;
    come_with(b, reports, 3);
    nothing_is_deleted("removed at version 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_removed_file_comes_back_with_its_chunks),
        STORY(a_removed_file_takes_no_appends),
        STORY(a_restarted_master_recalls_what_is_in_the_trash),
        STORY(a_path_is_free_as_soon_as_its_file_is_in_the_trash),
        STORY(of_two_files_of_one_path_the_one_removed_last_comes_back),
        STORY(a_file_goes_for_good_with_now),
        STORY(without_a_retention_files_go_at_once),
        STORY(the_trash_is_emptied_in_time_and_not_before),
        STORY(a_full_trash_is_emptied),
        STORY(restarts_never_shorten_the_time_in_the_trash),
        STORY(a_changed_setting_does_not_shorten_what_was_promised),
        STORY(a_replica_goes_when_the_chunk_is_well_without_it),
        STORY(a_replica_stays_while_a_member_is_not_well),
        STORY(a_replica_stays_while_a_member_has_lost_its_own),
        STORY(a_replica_stays_until_every_member_has_recorded_the_seal),
        STORY(an_older_replica_goes_by_the_version_that_was_reported),
        STORY(a_member_again_is_not_deleted),
        STORY(what_a_session_told_is_forgotten_with_it),
        STORY(a_refused_removal_is_not_repeated),
        STORY(a_removal_that_failed_is_asked_for_again),
        STORY(a_removal_that_failed_is_asked_for_again_when_the_chunk_is_gone),
        STORY(nothing_is_copied_to_where_a_replica_still_goes),
        STORY(removed_chunks_take_their_extras_along),
        STORY(a_number_not_yet_given_out_is_evidence),
        STORY(deletion_goes_on_when_the_operator_has_looked),
        STORY(a_higher_version_is_evidence_and_is_not_granted_again),
        STORY(a_higher_version_under_a_lease_is_left_behind_by_the_next_grant),
        STORY(an_unknown_chunk_is_evidence),
        STORY(a_chunk_above_its_tombstone_is_evidence),
        STORY(absurd_numbers_are_not_believed),
        STORY(numbers_of_chunks_do_not_run_out_by_what_a_server_reports),
        STORY(the_trash_waits_for_the_operator_too),
        STORY(a_restored_store_gives_no_number_again),
        STORY(spares_are_no_evidence),
    };

    return cmocka_run_group_tests_name("master garbage", tests, NULL, NULL);
}
