/* `leasehold top` without its terminal: rates from samples, and rows that no name breaks. */
#include "client/command/top.h"
#include "client/command/top_rows.h"

#include "base/alloc.h"
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Samples. */

static struct lh_server_info a_server(const char *id, uint64_t batches, uint64_t ago_ms)
{
    return (struct lh_server_info){.server_id = lh_strdup(id),
        .address = lh_strdup("10.0.0.1:7500"),
        .failure_domain = lh_strdup("rack1"),
        .obstacle = lh_strdup(""),
        .unheard = lh_strdup(""),
        .live = true,
        .reachable = true,
        .capacity_bytes = 100,
        .free_bytes = 25,
        .batches_ordered = batches,
        .bytes_ordered = batches * 1000,
        .ordered_ago_ms = ago_ms};
}

static struct lh_lease_info a_lease(uint64_t chunk, const char *path, const char *primary,
    const char *state, uint64_t left_ms, uint64_t appends)
{
    return (struct lh_lease_info){.chunk = chunk,
        .path = lh_strdup(path),
        .version = 1,
        .primary = lh_strdup(primary),
        .address = lh_strdup(""),
        .state = lh_strdup(state),
        .left_ms = left_ms,
        .appends = appends,
        .session_live = true,
        .members = 3,
        .replication = 3};
}

/* Of two masters, of which m2 acts, and as many servers and leases as are put in later. */
static struct lh_top_sample *a_sample(uint64_t at_ms)
{
    struct lh_top_sample *s = lh_alloc(sizeof *s);

    s->at_ms = at_ms;
    s->good = true;
    s->masters = (struct lh_master_list){.count = 2,
        .masters = lh_alloc_array(2, sizeof *s->masters.masters),
        .shared = true,
        .active = lh_strdup("10.0.0.2:7400"),
        .reign = 12,
        .store_trouble = lh_strdup("")};
    for (unsigned i = 0; i < 2; i++) {
        char id[8], address[32];
        (void)snprintf(id, sizeof id, "m%u", i + 1);
        (void)snprintf(address, sizeof address, "10.0.0.%u:7400", i + 1);
        s->masters.masters[i] = (struct lh_master_info){.master_id = lh_strdup(id),
            .address = lh_strdup(address),
            .answered = true,
            .trouble = lh_strdup(""),
            .acting = i == 1,
            .state = lh_strdup(i == 1 ? "ACTIVE" : "STANDBY"),
            .state_ms = 5000,
            .reign = 12,
            .follows = i == 0};
    }
    s->servers = (struct lh_server_list){.servers = lh_alloc_array(4, sizeof *s->servers.servers),
        .master_term = 12,
        .cluster_id = lh_strdup("3f0c1234567890"),
        .session_term_ms = 10000,
        .chunk_term_ms = 60000,
        .deleting = true,
        .deleting_text = lh_strdup("")};
    s->leases = lh_alloc_array(4, sizeof *s->leases);
    s->names = lh_alloc_array(4, sizeof *s->names);
    return s;
}

static void put_server(struct lh_top_sample *s, struct lh_server_info info)
{
    s->servers.servers[s->servers.count++] = info;
}

static void put_lease(struct lh_top_sample *s, struct lh_lease_info info)
{
    s->leases[s->lease_count++] = info;
}

/* The master did not answer, and m2 is gone. */
static struct lh_top_sample *no_answer(uint64_t at_ms)
{
    struct lh_top_sample *s = a_sample(at_ms);

    s->good = false;
    s->error = LH_ERR_DEADLINE_EXCEEDED;
    s->trouble = lh_strdup("the server did not answer in time");
    s->masters.masters[1].answered = s->masters.masters[1].acting = false;
    s->masters.active[0] = '\0';
    return s;
}

/* ---- Text. */

static char *text_of(const struct lh_top_rows *rows)
{
    size_t size = 1;
    char *text = lh_alloc(1);

    for (size_t i = 0; i < rows->count; i++) {
        size_t more = strlen(rows->items[i].text);
        text = lh_realloc_array(text, size + more + 1, 1);
        memcpy(text + size - 1, rows->items[i].text, more);
        memcpy(text + size - 1 + more, "\n", 2);
        size += more + 1;
    }
    return text;
}

/* Head and body, as they are at that time. To be freed. */
static char *seen_at(
    const struct lh_top_history *h, enum lh_top_view view, unsigned width, uint64_t now_ms)
{
    struct lh_top_rows rows = {.width = width};
    struct lh_top_screen screen = {.view = view,
        .master = "10.0.0.1:7400",
        .now_ms = now_ms,
        .interval_ms = 2000,
        .clock = "12:00:00"};

    lh_top_head(h, &screen, &rows);
    lh_top_body(h, &screen, &rows);
    for (size_t i = 0; i < rows.count; i++)
        assert_true(width == 0 || lh_top_width(rows.items[i].text) <= width);
    char *text = text_of(&rows);
    lh_top_rows_deinit(&rows);
    return text;
}

static void shows(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("there is no '%s' in:\n%s", part, text);
}

static void hides(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("there is a '%s' in:\n%s", part, text);
}

static void is_about(double a, double b)
{
    if (a < b - 0.001 || a > b + 0.001)
        fail_msg("%f instead of %f", a, b);
}

/* ---- Rates. */

/* A server's batches count from one heartbeat to another, whenever they are asked for. */
static void rates_are_between_heartbeats(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *a = a_sample(10000), *b = a_sample(12000);
    struct lh_top_rates r;
    (void)state;

    /* given: heartbeats at 9.0 s and 12.0 s; samples at 10 s and 12 s */
    put_server(a, a_server("cs1", 1000, 1000));
    put_server(b, a_server("cs1", 1600, 0));
    a->servers.figures.locks_granted = 50;
    b->servers.figures.locks_granted = 150;
    lh_top_history_add(&h, a);
    lh_top_rates(&h, &r);
    assert_true(r.batches < 0 && r.locks_granted < 0);

    lh_top_history_add(&h, b);
    lh_top_rates(&h, &r);
    is_about(r.batches, 200);
    is_about(r.bytes, 200000);
    is_about(r.locks_granted, 50);
    lh_top_history_deinit(&h);
}

/* The same heartbeat twice says nothing, and neither does a counter that begins again. */
static void rates_that_are_not_known_are_not_shown_as_none(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *a = a_sample(10000), *b = a_sample(12000);
    double batches, bytes;
    (void)state;

    put_server(a, a_server("cs1", 1000, 1000));
    put_server(a, a_server("cs2", 1000, 1000));
    put_server(b, a_server("cs1", 1000, 2950)); /* the way of the answer was shorter */
    put_server(b, a_server("cs2", 10, 0));      /* was started again */
    lh_top_history_add(&h, a);
    lh_top_history_add(&h, b);
    for (size_t i = 0; i < 2; i++) {
        lh_top_server_rates(&h, &b->servers.servers[i], &batches, &bytes);
        assert_true(batches < 0 && bytes < 0);
    }
    char *text = seen_at(&h, LH_TOP_OVERVIEW, 80, 12000);
    shows(text, "appends: - batches, -\n");
    free(text);
    lh_top_history_deinit(&h);
}

/* Before its first heartbeat at a new master a server's counters are 0, and no time goes with them.
 * What is there of a server that is away, or was another process, is no beginning either. */
static void a_server_counts_from_its_first_heartbeat_at_a_master(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *a = a_sample(10000), *b = a_sample(12000);
    double batches, bytes;
    (void)state;

    put_server(a, a_server("cs1", 0, 0));
    put_server(a, a_server("cs2", 10, 0));
    put_server(a, a_server("cs3", 10, 0));
    put_server(a, a_server("cs4", 1000, 0));
    a->servers.servers[0].ordered_unreported = true;
    a->servers.servers[1].live = false;
    a->servers.servers[2].incarnation = 1;
    put_server(b, a_server("cs1", 1000000, 0));
    put_server(b, a_server("cs2", 1000000, 0));
    put_server(b, a_server("cs3", 1000000, 0));
    put_server(b, a_server("cs4", 1000000, 0));
    b->servers.servers[2].incarnation = 2;
    b->servers.servers[3].ordered_unreported = true;
    lh_top_history_add(&h, a);
    lh_top_history_add(&h, b);
    for (size_t i = 0; i < 4; i++) {
        lh_top_server_rates(&h, &b->servers.servers[i], &batches, &bytes);
        assert_true(batches < 0 && bytes < 0);
    }
    lh_top_history_deinit(&h);
}

/* Counters of two masters, or of two starts of one, have nothing to do with each other. */
static void another_master_has_other_counters(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *a = a_sample(10000), *b = a_sample(12000);
    struct lh_top_rates r;
    (void)state;

    a->servers.figures.leases_granted = 10;
    b->servers.figures.leases_granted = 500;
    b->servers.master_term = 13;
    lh_top_history_add(&h, a);
    lh_top_history_add(&h, b);
    assert_int_equal(h.count, 1);
    lh_top_rates(&h, &r);
    assert_true(r.granted < 0);
    lh_top_history_deinit(&h);
}

/* Rates are of ten seconds, or of the last two samples where these lie further apart; and what is
 * kept has a bound. */
static void samples_leave_with_the_window(void **state)
{
    struct lh_top_history h = {0};
    (void)state;

    for (uint64_t at = 1000; at <= 60000; at += 1000)
        lh_top_history_add(&h, a_sample(at));
    assert_int_equal(h.good[0]->at_ms, 50000);
    assert_int_equal(h.good[h.count - 1]->at_ms, 60000);
    for (uint64_t at = 60200; at <= 70000; at += 200)
        lh_top_history_add(&h, a_sample(at));
    assert_int_equal(h.count, LH_TOP_SAMPLES_MAX);
    lh_top_history_add(&h, a_sample(200000));
    assert_int_equal(h.count, 2);
    lh_top_history_deinit(&h);
}

static void a_leases_rate_is_of_its_version(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *a = a_sample(10000), *b = a_sample(12000);
    (void)state;

    put_lease(a, a_lease(7, "/a", "cs1", "HELD", 50000, 100));
    put_lease(b, a_lease(7, "/a", "cs1", "HELD", 50000, 140));
    put_lease(b, a_lease(8, "/b", "cs1", "HELD", 50000, 140));
    lh_top_history_add(&h, a);
    lh_top_history_add(&h, b);
    is_about(lh_top_lease_rate(&h, &b->leases[0]), 20);
    assert_true(lh_top_lease_rate(&h, &b->leases[1]) < 0);
    b->leases[0].version = 2;
    assert_true(lh_top_lease_rate(&h, &b->leases[0]) < 0);
    lh_top_history_deinit(&h);
}

/* ---- What is shown. */

static void a_good_cluster_at_one_glance(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *s = a_sample(10000);
    (void)state;

    put_server(s, a_server("cs1", 0, 0));
    put_lease(s, a_lease(7, "/a", "cs1", "HELD", 50000, 0));
    lh_top_history_add(&h, s);
    char *text = seen_at(&h, LH_TOP_OVERVIEW, 80, 10000);
    shows(text, "cluster 3f0c1234  master m2, term 12");
    shows(text, "nothing is wrong\n");
    shows(text, "m2      active for 5.0 s");
    shows(text, "servers: 1 of 1 live, 25 bytes free, 75 % used\n");
    shows(text, "repair: nothing to do");
    hides(text, "about to change");
    free(text);
    lh_top_history_deinit(&h);
}

static void what_is_wrong_is_said(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *s = a_sample(10000);
    (void)state;

    put_server(s, a_server("cs1", 0, 0));
    put_server(s, a_server("cs2", 0, 0));
    s->servers.servers[1].live = false;
    s->servers.servers[1].away_ms = 90000;
    s->servers.servers[1].grace_left_ms = 210000;
    s->servers.repair.chunks_degraded = 3;
    s->servers.repair.chunks_endangered = 2;
    s->servers.repair.chunks_unreadable = 1;
    s->servers.figures.sessions_away = 4;
    lh_top_history_add(&h, s);
    char *text = seen_at(&h, LH_TOP_OVERVIEW, 80, 10000);
    hides(text, "nothing is wrong");
    shows(text, "! 1 chunk has no replica that can be read: start the servers that are away;\n"
                "  leasehold fsck names the chunks\n");
    shows(text, "! chunks with a single good replica: 2\n");
    shows(text, "! cs2 has been away for 90.0 s: what it has is copied elsewhere in 3.5 min\n");
    shows(text, "! sessions that are not back since the last master: 4;");
    shows(text, "\ncs2     away 90.0 s");
    free(text);
    lh_top_history_deinit(&h);
}

static void leases_that_change_come_first(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *s = a_sample(10000);
    size_t chunks[LH_TOP_EXPLAINED_MAX];
    (void)state;

    put_server(s, a_server("cs1", 0, 0));
    put_server(s, a_server("cs2", 0, 0));
    s->servers.servers[1].reachable = false;
    put_lease(s, a_lease(1, "/held", "cs1", "HELD", 50000, 0));
    put_lease(s, a_lease(2, "/idle", "cs1", "HELD", 4000, 0));
    put_lease(s, a_lease(3, "/recalled", "cs1", "RECALLING", 50000, 0));
    put_lease(s, a_lease(4, "/lost", "cs2", "HELD", 50000, 0));
    lh_top_history_add(&h, s);
    char *text = seen_at(&h, LH_TOP_LEASES, 80, 10000);
    const char *lost = strstr(text, "/lost"), *recalled = strstr(text, "/recalled"),
               *idle = strstr(text, "/idle"), *held = strstr(text, "/held");
    assert_true(lost != NULL && lost < recalled && recalled < idle && idle < held);
    shows(text, "HELD, not heard of  cs2");
    shows(text, "HELD, not renewed   cs1");
    free(text);
    text = seen_at(&h, LH_TOP_OVERVIEW, 80, 10000);
    shows(text, "leases about to change: 3\n");
    hides(text, "/held");
    free(text);
    assert_int_equal(lh_top_to_explain(s, chunks), 2);
    assert_int_equal(chunks[0], 3);
    assert_int_equal(chunks[1], 2);
    lh_top_history_deinit(&h);
}

/* What was known stays, with its age; of the masters it is known which one is gone. */
static void the_active_master_dies(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *s = a_sample(10000);
    (void)state;

    put_server(s, a_server("cs1", 0, 0));
    lh_top_history_add(&h, no_answer(8000)); /* before there is anything */
    char *text = seen_at(&h, LH_TOP_OVERVIEW, 80, 8000);
    shows(text, "! the active master does not answer (the server did not answer in time)\n");
    hides(text, "nothing is wrong");
    free(text);
    text = seen_at(&h, LH_TOP_SERVERS, 80, 8000);
    shows(text, "nothing is known yet");
    free(text);

    lh_top_history_add(&h, s);
    text = seen_at(&h, LH_TOP_OVERVIEW, 80, 10000);
    hides(text, "does not answer");
    free(text);

    lh_top_history_add(&h, no_answer(12000));
    lh_top_history_add(&h, no_answer(14000));
    text = seen_at(&h, LH_TOP_OVERVIEW, 120, 15000);
    shows(text, "answer in time): all but the masters is 5.0 s old\n");
    shows(text, "! no master acts now\n");
    shows(text, "m2      no answer");
    shows(text, "\ncs1     live");
    free(text);
    lh_top_history_deinit(&h);
}

/* It answers, and this identity has no right to what it asks for; or not to all of it. */
static void a_refusal_is_no_silence(void **state)
{
    struct lh_top_history h = {0};
    struct lh_top_sample *s = no_answer(8000), *some = a_sample(9000);
    (void)state;

    s->error = LH_ERR_PERMISSION;
    lh_top_history_add(&h, s);
    char *text = seen_at(&h, LH_TOP_SERVERS, 120, 8000);
    shows(text, "! the active master does not say (");
    free(text);
    put_server(some, a_server("cs1", 0, 0));
    some->withheld = lh_strdup("leases are not shown: no right");
    lh_top_history_add(&h, some);
    text = seen_at(&h, LH_TOP_OVERVIEW, 120, 9000);
    shows(text, "leases are not shown: no right\n");
    shows(text, "\ncs1     live");
    free(text);
    lh_top_history_deinit(&h);
}

/* ---- Names. */

/* Nothing that a terminal obeys gets through, and what is wide takes its columns. */
static void hostile_names_stay_in_their_cells(void **state)
{
    static const char *const names[] = {"/\x1b[2J\x1b[31m", "/a\r\nb\tc\x7f\xc2\x9b",
        "/\xff\xfe\x80", "/\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5",
        "/\xe2\x80\xae"
        "gnp.exe",
        "/e\xcc\x81\xcc\x81"};
    (void)state;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct lh_top_history h = {0};
        struct lh_top_sample *s = a_sample(10000);
        put_server(s, a_server(names[i], 0, 0));
        put_lease(s, a_lease(7, names[i], names[i], "RECALLING", 50000, 0));
        s->servers.servers[0].reachable = false;
        s->name_count = 1;
        s->names[0] = (struct lh_name_info){
            .name = lh_strdup(names[i]), .attached = lh_strdup(""), .waiting = 1};
        lh_top_history_add(&h, s);
        for (unsigned width = 1; width < 100; width += 7) {
            for (enum lh_top_view view = 0; view < LH_TOP_VIEWS; view++) {
                char *text = seen_at(&h, view, width, 10000); /* asserts the width */
                for (const char *c = text; *c != '\0'; c++)
                    assert_true(*c == '\n' || ((unsigned char)*c >= 0x20 && *c != 0x7f));
                hides(text, "\xc2\x9b");
                hides(text, "\xe2\x80\xae");
                hides(text, "\xcc\x81");
                free(text);
            }
        }
        lh_top_history_deinit(&h);
    }
}

static void a_wide_character_is_not_cut_in_two(void **state)
{
    struct lh_top_rows rows = {.width = 4};
    (void)state;

    assert_int_equal(lh_top_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
    lh_top_row(&rows, LH_TOP_PLAIN, "a\xe6\x97\xa5\xe6\x9c\xac");
    assert_string_equal(rows.items[0].text, "a\xe6\x97\xa5");
    lh_top_row_ends(&rows, LH_TOP_HEAD, "abcdef", "right");
    assert_string_equal(rows.items[1].text, "abcd");
    lh_top_rows_deinit(&rows);
}

/* Where the locale has no such characters, each is a '?'. */
static void a_terminal_without_utf8_gets_ascii(void **state)
{
    struct lh_top_rows rows = {.width = 80};
    (void)state;

    assert_non_null(setlocale(LC_CTYPE, "C"));
    lh_top_row(&rows, LH_TOP_PLAIN, "a\xe6\x97\xa5\xc3\xa9 b");
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_string_equal(rows.items[0].text, "a?? b");
    lh_top_rows_deinit(&rows);
}

static void sentences_are_broken_between_words(void **state)
{
    struct lh_top_rows rows = {.width = 12};
    (void)state;

    lh_top_sentence(&rows, LH_TOP_BAD, "! ", "one two three aVeryLongWordIndeed x");
    char *text = text_of(&rows);
    assert_string_equal(text, "! one two\n  three\n  aVeryLongW\n  ordIndeed\n  x\n");
    free(text);
    lh_top_rows_deinit(&rows);
    rows.width = 2; /* no room beside the mark */
    lh_top_sentence(&rows, LH_TOP_BAD, "! ", "one two");
    assert_int_equal(rows.count, 1);
    lh_top_rows_deinit(&rows);
}

static void each_view_has_its_sorts(void **state)
{
    struct lh_top_screen screen = {.view = LH_TOP_SERVERS};
    (void)state;

    for (unsigned i = 1; i < 4; i++) {
        lh_top_next_sort(&screen);
        assert_int_equal(screen.sort[LH_TOP_SERVERS], i);
    }
    lh_top_next_sort(&screen);
    assert_int_equal(screen.sort[LH_TOP_SERVERS], 0);
    screen.view = LH_TOP_OVERVIEW;
    lh_top_next_sort(&screen);
    assert_int_equal(screen.sort[LH_TOP_OVERVIEW], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_between_heartbeats),
        cmocka_unit_test(rates_that_are_not_known_are_not_shown_as_none),
        cmocka_unit_test(a_server_counts_from_its_first_heartbeat_at_a_master),
        cmocka_unit_test(another_master_has_other_counters),
        cmocka_unit_test(samples_leave_with_the_window),
        cmocka_unit_test(a_leases_rate_is_of_its_version),
        cmocka_unit_test(a_good_cluster_at_one_glance),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(leases_that_change_come_first),
        cmocka_unit_test(the_active_master_dies),
        cmocka_unit_test(a_refusal_is_no_silence),
        cmocka_unit_test(hostile_names_stay_in_their_cells),
        cmocka_unit_test(a_wide_character_is_not_cut_in_two),
        cmocka_unit_test(a_terminal_without_utf8_gets_ascii),
        cmocka_unit_test(sentences_are_broken_between_words),
        cmocka_unit_test(each_view_has_its_sorts),
    };

    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
