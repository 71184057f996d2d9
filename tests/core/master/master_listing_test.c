/* Listings of files: their pages, and what they wait for. */
#include "tests/core/master/master_story.h"

static const Leasehold__CreateReply *create(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    return world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
}

static const Leasehold__ListReply *list(const char *prefix, const char *after, uint32_t limit)
{
    Leasehold__ListRequest r = LEASEHOLD__LIST_REQUEST__INIT;

    r.prefix = (char *)(uintptr_t)prefix;
    r.after = (char *)(uintptr_t)after;
    r.limit = limit;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST, &r));
}

static void files_are_listed_in_pages(void **state)
{
    char path[32];

    (void)state;
    for (unsigned i = 0; i < 25; i++) {
        snprintf(path, sizeof path, "/logs/%02u", (i * 7) % 25);
        create(path);
    }
    create("/a");
    create("/logs");
    create("/logsx");
    char after[32] = "";
    unsigned seen = 0;
    bool more = true;
    while (more) {
        const Leasehold__ListReply *page = list("/logs/", after, 10);
        for (size_t i = 0; i < page->n_files; i++, seen++) {
            snprintf(path, sizeof path, "/logs/%02u", seen);
            assert_string_equal(page->files[i]->path, path);
            snprintf(after, sizeof after, "%s", path);
        }
        more = page->more;
    }
    assert_int_equal(seen, 25);
    assert_int_equal(list("", "", 0)->n_files, 28);
    assert_int_equal(list("/logs", "/logs", 0)->n_files, 26);
    assert_int_equal(list("/none", "", 0)->n_files, 0);
    assert_int_equal(list("/logs/", "/z", 0)->n_files, 0);
    assert_int_equal(list("/logs/", "/a", 0)->n_files, 25);
}

/* Paths have up to a KB: a page of 10,000 would be more than a message. */
static void a_page_of_files_is_bounded_in_bytes(void **state)
{
    char path[200] = "/", after[200] = "";
    unsigned seen = 0, pages = 0;
    bool more = true;

    (void)state;
    w.config.list_bytes = 1000;
    world_crash(&w);
    memset(path + 1, 'x', 150);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(path + 151, sizeof path - 151, "%02u", i);
        create(path);
    }
    for (; more; pages++) {
        const Leasehold__ListReply *page = list("", after, 0);
        assert_in_range(page->n_files, 1, 6);
        assert_true(leasehold__list_reply__get_packed_size(page) <= 1000);
        for (size_t i = 0; i < page->n_files; i++, seen++)
            snprintf(after, sizeof after, "%s", page->files[i]->path);
        more = page->more;
    }
    assert_int_equal(seen, 12);
    assert_true(pages > 1);
    /* An item that is larger than a page is one. */
    w.config.list_bytes = 1;
    world_crash(&w);
    assert_int_equal(list("", "", 0)->n_files, 1);
    assert_true(list("", "", 0)->more);
}

/* While the store has no room what is durable is listed all the same. A removal is waited for: a
 * file that was seen and then not would be there again if the master died now. */
static void a_listing_does_not_wait_for_files_that_are_being_created(void **state)
{
    Leasehold__ListRequest r = LEASEHOLD__LIST_REQUEST__INIT;
    Leasehold__RemoveRequest remove = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__CreateRequest new_file = LEASEHOLD__CREATE_REQUEST__INIT;

    (void)state;
    create("/a");
    w.hold_commits = true;
    new_file.path = remove.path = (char *)(uintptr_t) "/b";
    uint64_t creation = world_call(&w, LH_METHOD_CREATE, &new_file);
    assert_int_equal(list("", "", 0)->n_files, 1);
    assert_null(world_reply(&w, creation));
    (void)world_call(&w, LH_METHOD_REMOVE, &remove);
    uint64_t listing = world_call(&w, LH_METHOD_LIST, &r);
    assert_null(world_reply(&w, listing));
    world_commit(&w);
    assert_non_null(world_reply(&w, creation));
    assert_null(world_reply(&w, listing));
    world_commit(&w);
    const Leasehold__ListReply *reply = world_reply(&w, listing);
    assert_int_equal(reply->n_files, 1);
    assert_string_equal(reply->files[0]->path, "/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(files_are_listed_in_pages),
        STORY(a_page_of_files_is_bounded_in_bytes),
        STORY(a_listing_does_not_wait_for_files_that_are_being_created),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
