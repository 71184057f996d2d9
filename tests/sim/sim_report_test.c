/* Reports of runs: what the narrative tells, in which order, and what stands in the timeline's
 * page. The page in a browser: timeline_browser_test.py. */
#include "sim/report/narrative.h"
#include "sim/report/timeline.h"
#include "sim/world/network.h"
#include "tests/scenario/workload.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG lh_seconds(30)

/* A cluster that tells its story into `text`. */
struct teller {
    struct lh_sim_cluster *cluster;
    struct lh_sim_narrative *narrative;
    FILE *to;
    char *text;
    size_t size;
};

static struct lh_sim_cluster *cluster(void)
{
    struct lh_sim_cluster_config config = lh_sim_cluster_config_default(11);

    config.master.session_term = lh_seconds(3);
    config.master.chunk_term = lh_seconds(9);
    return lh_sim_cluster_create(&config);
}

static struct teller *teller(const struct lh_sim_narrative_options *options)
{
    struct teller *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->cluster = cluster();
    t->to = open_memstream(&t->text, &t->size);
    assert_non_null(t->to);
    t->narrative = lh_sim_narrative_attach(t->cluster, options, t->to);
    assert_true(lh_sim_cluster_start(t->cluster, LONG));
    return t;
}

static struct teller *teller_of_all(void)
{
    struct lh_sim_narrative_options options = lh_sim_narrative_options_default();

    return teller(&options);
}

/* The story, to be freed. The cluster is gone then. */
static char *story_of(struct teller *t)
{
    char *text;

    lh_sim_narrative_finish(t->narrative);
    lh_sim_cluster_destroy(t->cluster);
    lh_sim_narrative_destroy(t->narrative);
    assert_int_equal(fclose(t->to), 0);
    text = t->text;
    free(t);
    return text;
}

static struct lh_sim_writer *write_one(struct lh_sim_cluster *c, const char *path)
{
    assert_int_equal(lh_sim_create_file(c, path, NULL), LH_OK);
    struct lh_sim_writer *w = lh_sim_writer_open(c, 1, path, LONG);
    assert_non_null(w);
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    return w;
}

static void run_for(struct lh_sim_cluster *c, struct lh_duration d)
{
    lh_sim_run_for(lh_sim_world(c), d);
}

/* The first line from `*at` on that matches; `*at` is then behind it. NULL: none does. */
static char *line_like(const char **at, const char *pattern)
{
    while (**at != '\0') {
        size_t size = strcspn(*at, "\n");
        char *line = strndup(*at, size);
        *at += size + ((*at)[size] == '\n');
        if (fnmatch(pattern, line, 0) == 0)
            return line;
        free(line);
    }
    return NULL;
}

/* There are lines like these, in this order. */
static void assert_told(const char *story, const char *const *patterns)
{
    const char *at = story;

    for (; *patterns != NULL; patterns++) {
        char *line = line_like(&at, *patterns);
        if (line == NULL)
            fail_msg(
                "there is no line like \"%s\", or not in this order, in:\n%s", *patterns, story);
        free(line);
    }
}

static size_t count_like(const char *story, const char *pattern)
{
    size_t n = 0;

    for (char *line; (line = line_like(&story, pattern)) != NULL; n++)
        free(line);
    return n;
}

/* The moment, in us, of the first line like this. */
static long long moment_of(const char *story, const char *pattern)
{
    char *line = line_like(&story, pattern), digits[32], *to = digits;

    assert_non_null(line);
    for (const char *c = line + strspn(line, " "); *c != ' ' && *c != '\0'; c++)
        if (*c != ',' && *c != '.')
            *to++ = *c;
    *to = '\0';
    free(line);
    return strtoll(digits, NULL, 10);
}

/* ---- The narrative ---- */

static void a_first_append_is_told_from_the_start_to_the_acknowledgement(void **state)
{
    static const char *const notified[] = {"*ms  m *cs1 *cs2 *cs3 *c1",
        "*0.000  o starts, incarnation 1",
        "*|*o registers: incarnation 1, 0 replicas, shows 0 leases", "* o creates \"/log\"",
        "* o asks for the tail of \"/log\"",
        "* o chunk 1 v1: asks for an empty replica -> cs* cs* cs*",
        "* o chunk 1 v1: grants it, members cs* cs* cs*, 8,821 ms for the holder -> cs*",
        "* o chunk 1 v1: confirms the grant: it has adopted the version*",
        "* o chunk 1 v1: holds it from here on*", "* o chunk 1 v1: the grant is confirmed by cs*",
        "* o chunk 1 v1: recovered: every member is equal at 0 bytes*",
        "* o chunk 1 v1: stored 1 batch, the last at 0*",
        "* o chunk 1 v1: 1 batch acknowledged, the last at 0*", NULL};
    struct teller *t = teller_of_all();

    (void)state;
    write_one(t->cluster, "/log");
    char *story = story_of(t);
    assert_told(story, notified);
    free(story);
}

/* The point of it all (TIME-4). Nothing happens at the holder when its time is over. */
static void the_holders_end_and_the_grantors_are_two_moments(void **state)
{
    struct teller *t = teller_of_all();

    (void)state;
    write_one(t->cluster, "/log");
    struct lh_sim_node *holder = lh_sim_wait_primary(t->cluster, "/log", LONG);
    lh_sim_pause(holder);
    run_for(t->cluster, lh_seconds(15));
    char *story = story_of(t);
    long long paused = moment_of(story, "* o is paused*");
    long long holders = moment_of(story, "* chunk 1 v1: its lease has run out here*");
    long long grantors = moment_of(story, "* chunk 1 v1: the lease of cs* is over: ran out*");
    assert_true(paused < holders);
    /* The session's term is the shorter one: 3 s, of which the holder has 99/101. */
    assert_true(grantors - holders > 3000000 * 2 / 101);
    assert_true(grantors - holders < 3000000 * 2 / 101 + 10000);
    free(story);
}

static void a_recall_and_a_new_version_are_told(void **state)
{
    static const char *const notified[] = {"* o asks to recall the lease of \"/log\"",
        "* o chunk 1 v1: recalls it -> cs*", "* o chunk 1 v1: releases it*",
        "* o chunk 1 v1: does not act on it any more*",
        "* o chunk 1 v1: the lease of cs* is over: released*", "* o chunk 1 v2: grants it*",
        "* o chunk 1 v2: has adopted the version, with 144 bytes*",
        "* o chunk 1 v2: recovered: every member is equal at 144 bytes*", NULL};
    struct teller *t = teller_of_all();

    (void)state;
    write_one(t->cluster, "/log");
    assert_int_equal(lh_sim_recall(t->cluster, "/log", false, lh_seconds(5)), LH_OK);
    run_for(t->cluster, lh_seconds(1));
    char *story = story_of(t);
    assert_told(story, notified);
    free(story);
}

static void what_repeats_is_counted(void **state)
{
    struct teller *t = teller_of_all();

    (void)state;
    struct lh_sim_writer *w = write_one(t->cluster, "/log");
    for (int i = 0; i < 40; i++) {
        assert_int_equal(lh_sim_append(w, 1, 10, LONG), LH_OK);
        run_for(t->cluster, lh_milliseconds(200));
    }
    char *story = story_of(t);
    size_t stored = count_like(story, "*stored*");
    assert_true(stored > 2 && stored < 15);
    assert_int_equal(count_like(story, "* extended *"), 2); /* by the master, by the holder */
    free(story);
}

static void a_node_that_is_cut_off_is_two_lines(void **state)
{
    struct teller *t = teller_of_all();

    (void)state;
    lh_sim_isolate(lh_sim_server(t->cluster, 1), NULL);
    run_for(t->cluster, lh_seconds(1));
    char *story = story_of(t);
    assert_int_equal(
        count_like(story, "*==== nothing gets from cs1 to m cs2 cs3 c1 any more ===="), 1);
    assert_int_equal(
        count_like(story, "*==== nothing gets from m cs2 cs3 c1 to cs1 any more ===="), 1);
    assert_int_equal(count_like(story, "*====*"), 2);
    free(story);
}

static void lines_of_nodes_that_are_down_are_blank(void **state)
{
    struct teller *t = teller_of_all();

    (void)state;
    lh_sim_crash(lh_sim_master(t->cluster));
    run_for(t->cluster, lh_milliseconds(500));
    char *story = story_of(t);
    const char *crash = strstr(story, "o crashes");
    assert_non_null(crash);
    const char *next = strchr(crash, '\n') + 1;
    assert_int_equal(next[16], ' '); /* the master's column */
    free(story);
}

static void only_one_chunk_only_some_time_only_the_last_lines(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        struct lh_sim_narrative_options options = lh_sim_narrative_options_default();
        if (which == 0)
            options.chunk = 2;
        if (which == 1) {
            options.from_ns = UINT64_C(1000000000);
            options.until_ns = UINT64_C(2000000000);
        }
        if (which == 2)
            options.last = 5;
        struct teller *t = teller(&options);
        write_one(t->cluster, "/one");
        run_for(t->cluster, lh_seconds(1));
        write_one(t->cluster, "/two");
        run_for(t->cluster, lh_seconds(1));
        char *story = story_of(t);
        if (which == 0) {
            assert_int_equal(count_like(story, "*chunk 1*"), 0);
            assert_true(count_like(story, "*chunk 2*") > 3);
            assert_true(count_like(story, "*registers*") > 0); /* is about none */
        } else if (which == 1) {
            assert_int_equal(count_like(story, "*registers*"), 0);
            assert_true(count_like(story, "*") > 3);
            for (const char *at = strchr(story, '\n') + 1; *at != '\0';) {
                long long moment = moment_of(at, "*");
                assert_true(moment >= 1000000 && moment <= 2000000);
                at = strchr(at, '\n') + 1;
            }
        } else {
            assert_int_equal(count_like(story, "*"), 1 + 1 + 5);
            assert_int_equal(count_like(story, "*... *earlier lines left out)"), 1);
        }
        free(story);
    }
}

static void on_narrow_paper_names_go_in_front(void **state)
{
    struct lh_sim_narrative_options options = lh_sim_narrative_options_default();

    (void)state;
    options.columns = 40;
    struct teller *t = teller(&options);
    write_one(t->cluster, "/log");
    char *story = story_of(t);
    assert_true(count_like(story, "* cs?  registers: *") == 3);
    assert_true(count_like(story, "*|*") == 0);
    free(story);
}

static void the_failure_is_the_last_word(void **state)
{
    struct lh_sim_narrative_options options = lh_sim_narrative_options_default();

    (void)state;
    options.last = 3;
    struct teller *t = teller(&options);
    write_one(t->cluster, "/log");
    lh_sim_fail(lh_sim_world(t->cluster), "INV-4", 1, "a byte is gone");
    char *story = story_of(t);
    size_t size = strlen(story);
    const char *last = story + size - 1;
    while (last > story && last[-1] != '\n')
        last--;
    assert_int_equal(strncmp(last, "!!!! INV-4 at ", 14), 0);
    assert_non_null(strstr(last, "a byte is gone"));
    free(story);
}

/* ---- The page ---- */

static char *page_of(struct lh_sim_cluster *c, struct lh_sim_timeline *t)
{
    static char *text; /* gcc takes the text for a local variable's address otherwise, under tsan */
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    assert_int_equal(lh_sim_timeline_write(t, to), LH_OK);
    assert_int_equal(fclose(to), 0);
    lh_sim_cluster_destroy(c);
    lh_sim_timeline_destroy(t);
    return text;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* Brackets outside of strings are balanced, and nothing is left open. */
static void assert_json(const char *at, const char *end)
{
    char open[64];
    size_t depth = 0;
    bool string = false;

    for (; at < end; at++) {
        if (string) {
            at += *at == '\\';
            string = *at != '"' || at[-1] == '\\';
        } else if (*at == '"') {
            string = true;
        } else if (*at == '{' || *at == '[') {
            assert_true(depth < sizeof open);
            open[depth++] = *at == '{' ? '}' : ']';
        } else if (*at == '}' || *at == ']') {
            assert_true(depth > 0 && open[--depth] == *at);
        }
    }
    assert_false(string);
    assert_int_equal(depth, 0);
}

static void the_page_needs_nothing_and_escapes_everything(void **state)
{
    const char *odd = "/<script>&\"'</script>";
    struct lh_sim_cluster *c = cluster();
    struct lh_sim_timeline *t = lh_sim_timeline_attach(c, "<b>\"'&\n</b>");

    (void)state;
    assert_true(lh_sim_cluster_start(c, LONG));
    write_one(c, odd);
    lh_sim_fail(lh_sim_world(c), "check", 0, "<script>");
    char *page = page_of(c, t);
    assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
    assert_int_equal(count_of(page, "<script"), 2);
    assert_int_equal(count_of(page, "</script>"), 2);
    assert_non_null(strstr(page, "</html>"));
    assert_int_equal(count_of(page, "http://") + count_of(page, "https://"), 0);
    assert_int_equal(count_of(page, " src=") + count_of(page, "@import"), 0);
    assert_int_equal(count_of(page, "<h1>&lt;b&gt;&quot;&#39;&amp; &lt;/b&gt;</h1>"), 1);
    assert_int_equal(count_of(page, "@TITLE@") + count_of(page, "@RUN@"), 0);

    const char *run = strstr(page, "id=\"run\">") + strlen("id=\"run\">");
    const char *end = strstr(run, "</script>");
    assert_null(memchr(run, '<', (size_t)(end - run)));
    assert_json(run, end);
    assert_non_null(strstr(run, "creates \\\"/\\u003cscript\\u003e\\u0026\\\"\\u0027"));
    assert_non_null(strstr(run, "\"rule\":\"check\""));
    free(page);
}

static void the_counts_are_those_of_the_run(void **state)
{
    struct lh_sim_cluster *c = cluster();
    struct lh_sim_timeline *t = lh_sim_timeline_attach(c, "");

    (void)state;
    assert_true(lh_sim_cluster_start(c, LONG));
    write_one(c, "/log");
    struct lh_sim_node *holder = lh_sim_wait_primary(c, "/log", LONG);
    lh_sim_pause(holder);
    run_for(c, lh_seconds(5));
    FILE *nowhere = fopen("/dev/null", "w");
    assert_int_equal(lh_sim_timeline_write(t, nowhere), LH_OK);
    fclose(nowhere);
    struct lh_sim_timeline_counts counts = lh_sim_timeline_counts(t);
    assert_int_equal(counts.lanes, 5);
    assert_int_equal(counts.given, 1);
    assert_int_equal(counts.held, 1);
    assert_int_equal(counts.faults, 1); /* the pause, which goes on */
    assert_true(counts.transitions > 20 && counts.arrows > 20);
    lh_sim_cluster_destroy(c);
    lh_sim_timeline_destroy(t);
}

static void a_full_disk_is_an_error(void **state)
{
    struct lh_sim_cluster *c = cluster();
    struct lh_sim_timeline *t = lh_sim_timeline_attach(c, "");

    (void)state;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(lh_sim_timeline_write(t, full), LH_ERR_IO);
    fclose(full);
    lh_sim_cluster_destroy(c);
    lh_sim_timeline_destroy(t);
}

static void whoever_looks_on_changes_nothing(void **state)
{
    uint64_t hash[2];

    (void)state;
    for (int notified = 0; notified < 2; notified++) {
        struct lh_sim_narrative_options options = lh_sim_narrative_options_default();
        FILE *nowhere = fopen("/dev/null", "w");
        struct lh_sim_cluster *c = cluster();
        struct lh_sim_narrative *n =
            notified ? lh_sim_narrative_attach(c, &options, nowhere) : NULL;
        struct lh_sim_timeline *t = notified ? lh_sim_timeline_attach(c, "") : NULL;
        assert_true(lh_sim_cluster_start(c, LONG));
        struct lh_sim_writer *w = write_one(c, "/log");
        lh_sim_set_rate(lh_sim_server(c, 1), 7000);
        lh_sim_isolate(lh_sim_server(c, 2), NULL);
        lh_sim_append_begin(w, 3, 50);
        run_for(c, lh_seconds(10));
        hash[notified] = lh_sim_hash(lh_sim_world(c));
        if (notified) {
            lh_sim_narrative_finish(n);
            assert_int_equal(lh_sim_timeline_write(t, nowhere), LH_OK);
        }
        lh_sim_cluster_destroy(c);
        if (notified) {
            lh_sim_narrative_destroy(n);
            lh_sim_timeline_destroy(t);
        }
        fclose(nowhere);
    }
    assert_true(hash[0] == hash[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_append_is_told_from_the_start_to_the_acknowledgement),
        cmocka_unit_test(the_holders_end_and_the_grantors_are_two_moments),
        cmocka_unit_test(a_recall_and_a_new_version_are_told),
        cmocka_unit_test(what_repeats_is_counted),
        cmocka_unit_test(a_node_that_is_cut_off_is_two_lines),
        cmocka_unit_test(lines_of_nodes_that_are_down_are_blank),
        cmocka_unit_test(only_one_chunk_only_some_time_only_the_last_lines),
        cmocka_unit_test(on_narrow_paper_names_go_in_front),
        cmocka_unit_test(the_failure_is_the_last_word),
        cmocka_unit_test(the_page_needs_nothing_and_escapes_everything),
        cmocka_unit_test(the_counts_are_those_of_the_run),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(whoever_looks_on_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
