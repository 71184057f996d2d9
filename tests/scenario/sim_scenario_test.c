/* Scenario files: every story in sim/scenarios/ ends as it says, and not when the rule is broken
 * that it is about; the language says exactly what is wrong with a file; what is printed is read
 * again. */
#include "base/alloc.h"
#include "sim/scenario/scenario.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "sim/scenarios"

/* ---- The stories ---- */

static struct lh_sim_scenario load(const char *path)
{
    struct lh_sim_scenario s;
    char error[LH_SIM_SCENARIO_TEXT];

    if (lh_sim_scenario_load(&s, path, error, sizeof error) != LH_OK)
        fail_msg("%s", error);
    return s;
}

static struct lh_sim_scenario_result run(const struct lh_sim_scenario *s)
{
    struct lh_sim_scenario_result r;

    lh_sim_scenario_run(s, NULL, &r);
    return r;
}

static struct lh_sim_scenario_result run_well(const struct lh_sim_scenario *s, const char *path)
{
    struct lh_sim_scenario_result r = run(s);

    if (!r.ok)
        fail_msg("%s:%u (seed %" PRIu64 "): %s", path, r.line, s->settings.seed, r.text);
    if (r.idle_line != 0)
        fail_msg("%s:%u (seed %" PRIu64 "): there is nothing to do this to", path, r.idle_line,
            s->settings.seed);
    return r;
}

/* As text; to be freed. */
static char *print(const struct lh_sim_scenario *s)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    lh_sim_scenario_print(s, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

static struct lh_sim_scenario parse(const char *text)
{
    struct lh_sim_scenario s;
    char error[LH_SIM_SCENARIO_TEXT];

    if (lh_sim_scenario_parse(&s, text, strlen(text), "text", error, sizeof error) != LH_OK)
        fail_msg("%s\n%s", error, text);
    return s;
}

/* Sanitizers look for other mistakes than planted ones, and run at a third of the pace. */
#ifdef __SANITIZE_ADDRESS__
#define OTHER_SEEDS    0u
#define ALSO_AGAIN     false
#define LOOKS_FOR_BUGS false
#define WILD_SEEDS     3u
#define WILD_ACTIONS   100u
#else
#define OTHER_SEEDS    2u
#define ALSO_AGAIN     true
#define LOOKS_FOR_BUGS true
#define WILD_SEEDS     12u
#define WILD_ACTIONS   300u
#endif

/* With its own seed, or another one: what a seed shows depends on every time in the cores. */
static void expect_broken_by(struct lh_sim_scenario s, const char *path, const char *bug)
{
    bool broken = false;

    snprintf(s.settings.plant, sizeof s.settings.plant, "%s", bug);
    broken = !run(&s).ok;
    for (s.settings.seed = 1000; !broken && s.settings.seed < 1010; s.settings.seed++)
        broken = !run(&s).ok;
    if (!broken)
        fail_msg("%s does not fail with \"%s\"", path, bug);
}

/* It ends as it says, with this seed and with others; it is the same run each time, also when it
 * was printed and read again. */
static void a_story(void **state)
{
    const char *path = *state;
    struct lh_sim_scenario s = load(path);
    uint64_t seed = s.settings.seed;
    struct lh_sim_scenario_result first = run_well(&s, path);
    char *text = print(&s);
    struct lh_sim_scenario again = parse(text);

    if (ALSO_AGAIN)
        assert_true(run_well(&again, path).hash == first.hash);
    char *second = print(&again);
    assert_string_equal(text, second);
    lh_sim_scenario_deinit(&again);
    free(second);
    free(text);
    for (s.settings.seed = 1000; s.settings.seed < 1000 + OTHER_SEEDS; s.settings.seed++)
        (void)run_well(&s, path);
    s.settings.seed = seed;
    for (size_t i = 0; LOOKS_FOR_BUGS && i < s.broken_by_count; i++)
        expect_broken_by(s, path, s.broken_by[i]);
    lh_sim_scenario_deinit(&s);
}

/* ---- What is printed is read again ---- */

static struct lh_sim_who some_who(struct lh_prng *random)
{
    static const char *const paths[] = {"/log", "/a/b", "/x"};
    struct lh_sim_who who = {
        .kind = (enum lh_sim_who_kind)(1 + lh_prng_below(random, LH_SIM_WHO_EVERYBODY))};

    switch (who.kind) {
    case LH_SIM_WHO_MASTER:
        who.number = (uint32_t)lh_prng_below(random, 4);
        break;
    case LH_SIM_WHO_STANDBY:
        who.number = 1 + (uint32_t)lh_prng_below(random, 2);
        break;
    case LH_SIM_WHO_ETCD:
    case LH_SIM_WHO_SERVER:
    case LH_SIM_WHO_CLIENT:
        who.number = 1 + (uint32_t)lh_prng_below(random, 3);
        break;
    case LH_SIM_WHO_SECONDARY:
        who.number = 1 + (uint32_t)lh_prng_below(random, 2);
        strcpy(who.text, paths[lh_prng_below(random, 3)]);
        break;
    case LH_SIM_WHO_PRIMARY:
        strcpy(who.text, paths[lh_prng_below(random, 3)]);
        break;
    case LH_SIM_WHO_NAMED:
        strcpy(who.text, lh_prng_below(random, 2) == 0 ? "Old" : "Next-1");
        break;
    default:
        break;
    }
    return who;
}

static struct lh_sim_where some_where(struct lh_prng *random)
{
    struct lh_sim_where where = {.number = 1 + lh_prng_below(random, 3)};

    if (lh_prng_below(random, 2) == 0)
        return where;
    strcpy(where.path, "/log");
    where.number = lh_prng_below(random, 3);
    return where;
}

/* Of any order of magnitude. */
static struct lh_duration some_time(struct lh_prng *random, uint64_t most_ns)
{
    uint64_t ns = lh_prng_next(random) >> lh_prng_below(random, 64);

    return lh_nanoseconds(1 + ns % most_ns);
}

static bool has_word(const struct lh_sim_action *a, const char *word)
{
    char text[LH_SIM_ACTION_TEXT];

    lh_sim_action_print(a, false, text, sizeof text);
    return strstr(text, word) != NULL;
}

static void give_program(
    struct lh_sim_action *a, struct lh_prng *random, enum lh_sim_program_kind kind, unsigned number)
{
    struct lh_sim_program_spec *p = &a->program;

    *p = lh_sim_program_default(kind);
    (void)snprintf(p->name, sizeof p->name, "p%u", number);
    strcpy(p->path, lh_prng_below(random, 2) == 0 ? "/log" : "/other");
    p->seed = lh_prng_next(random);
    p->every.min = some_time(random, 50000000);
    p->every.min.ns += 1000;
    p->every.max = lh_duration_add(p->every.min, some_time(random, 50000000));
    p->count = lh_prng_below(random, 2) == 0 ? UINT64_MAX : lh_prng_below(random, 1000);
    if (kind == LH_SIM_WRITER) {
        p->records_max = p->records_min = 1 + (uint32_t)lh_prng_below(random, 3);
        p->bytes_max = (uint32_t)lh_prng_below(random, 5000);
        p->window = 1 + (uint32_t)lh_prng_below(random, 20);
        if (lh_prng_below(random, 2) == 0) {
            strcpy(p->lock, "/locks/log");
            p->token = 1 + lh_prng_below(random, 1000);
        }
    }
    if (kind == LH_SIM_READER)
        p->follow = lh_prng_below(random, 2) == 0;
}

/* An action with everything that its kind uses drawn at random. */
static struct lh_sim_action some_action(struct lh_prng *random, unsigned number)
{
    enum lh_sim_action_kind kind =
        (enum lh_sim_action_kind)(1 + lh_prng_below(random, LH_SIM_ACT_MEND));
    struct lh_sim_action a = lh_sim_action_default(kind);
    static const struct lh_sim_who nobody;

    a.at = some_time(random, UINT64_C(3600000000000)).ns;
    if (has_word(&a, "nobody"))
        a.who = some_who(random);
    while (has_word(&a, "nobody") || ((kind == LH_SIM_ACT_ISOLATE || kind == LH_SIM_ACT_REJOIN) &&
                                         a.peer.kind == 0 && lh_prng_below(random, 2) == 0))
        a.peer = some_who(random);
    if (kind == LH_SIM_ACT_LET) {
        strcpy(a.name, "Old");
        a.peer = nobody;
    }
    if (kind == LH_SIM_ACT_ROT || kind == LH_SIM_ACT_MISDIRECT)
        a.chunk = some_where(random);
    if (kind == LH_SIM_ACT_ROT)
        a.mask = 1 + (uint32_t)lh_prng_below(random, 255);
    struct lh_sim_action held = a;
    held.hold = lh_nanoseconds(1234567);
    if (has_word(&held, "1234567ns") && lh_prng_below(random, 3) != 0)
        a.hold = some_time(random, 3000000000);
    if (kind == LH_SIM_ACT_SESSION_TERM || kind == LH_SIM_ACT_CHUNK_TERM)
        a.hold = lh_nanoseconds(200000000 + lh_prng_below(random, 5000000000));
    if (has_word(&a, "by 0s"))
        a.delay = some_time(random, 2000000000);
    if (kind == LH_SIM_ACT_PAUSE)
        a.in_step = lh_prng_below(random, 2) == 0;
    if (kind == LH_SIM_ACT_CLOCK)
        a.ppm = (int32_t)lh_prng_below(random, 20001) - 10000;
    if (kind == LH_SIM_ACT_ETCD_AFTER || kind == LH_SIM_ACT_ETCD_BEFORE ||
        kind == LH_SIM_ACT_ETCD_LATE || kind == LH_SIM_ACT_ETCD_LOSE)
        a.count = (uint32_t)lh_prng_below(random, 1000001);
    if (kind == LH_SIM_ACT_ETCD_LATE)
        a.delay = some_time(random, 2000000000);
    if (kind == LH_SIM_ACT_ETCD_COMPACT)
        a.number = lh_prng_below(random, 100);
    if (kind == LH_SIM_ACT_DRIFT)
        a.count = (uint32_t)lh_prng_below(random, 20000);
    if (kind == LH_SIM_ACT_FAIL_DISK) {
        a.count = 1 + (uint32_t)lh_prng_below(random, 3);
        a.op = (enum lh_disk_op)lh_prng_below(random, LH_DISK_OPS);
    }
    if (kind == LH_SIM_ACT_FAIL_DISK || kind == LH_SIM_ACT_FAIL_STORE || kind == LH_SIM_ACT_REFUSE)
        a.error = lh_prng_below(random, 2) == 0 ? LH_ERR_IO : LH_ERR_DISK_FULL;
    if (kind == LH_SIM_ACT_WALL || kind == LH_SIM_ACT_ROT || kind == LH_SIM_ACT_MISDIRECT ||
        kind == LH_SIM_ACT_CAPACITY || kind == LH_SIM_ACT_ROOM || kind == LH_SIM_ACT_BANDWIDTH)
        a.number = lh_prng_next(random) >> (20 + lh_prng_below(random, 44));
    if (has_word(&a, "recall") || kind == LH_SIM_ACT_RELEASE || kind == LH_SIM_ACT_CREATE ||
        kind == LH_SIM_ACT_RENAME || kind == LH_SIM_ACT_REMOVE || kind == LH_SIM_ACT_LIST ||
        kind == LH_SIM_ACT_RESTORE) {
        strcpy(a.path, lh_prng_below(random, 2) == 0 ? "/log" : "/other");
        a.client = 1 + (uint32_t)lh_prng_below(random, 2);
    }
    if (kind == LH_SIM_ACT_RENAME || (kind == LH_SIM_ACT_RESTORE && lh_prng_below(random, 2) == 0))
        strcpy(a.to, "/new");
    if (kind == LH_SIM_ACT_REMOVE)
        a.now = lh_prng_below(random, 2) == 0;
    if (kind == LH_SIM_ACT_CREATE) {
        a.synced = lh_prng_below(random, 2) == 0;
        a.replication = (uint32_t)lh_prng_below(random, 4);
        a.chunk_size = lh_prng_below(random, 2) << 17;
    }
    if (kind == LH_SIM_ACT_WRITER)
        give_program(&a, random, LH_SIM_WRITER, number);
    if (kind == LH_SIM_ACT_READER)
        give_program(&a, random, LH_SIM_READER, number);
    if (kind == LH_SIM_ACT_FILES)
        give_program(&a, random, LH_SIM_FILES, number);
    if (kind >= LH_SIM_ACT_LOCKER && kind <= LH_SIM_ACT_OPERATOR)
        give_program(&a, random, (enum lh_sim_program_kind)(kind - LH_SIM_ACT_WRITER), number);
    if (kind == LH_SIM_ACT_END)
        (void)snprintf(a.program.name, sizeof a.program.name, "p%u", number / 2);
    return a;
}

static void any_action_is_read_as_it_was_printed(void **state)
{
    struct lh_prng random = {4711};

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct lh_sim_action a = some_action(&random, i), b;
        char text[LH_SIM_ACTION_TEXT], error[LH_SIM_SCENARIO_TEXT];
        lh_sim_action_print(&a, true, text, sizeof text);
        if (lh_sim_action_parse(&b, text, error, sizeof error) != LH_OK)
            fail_msg("%s: %s", text, error);
        if (memcmp(&a, &b, sizeof a) != 0) {
            lh_sim_action_print(&b, true, error, sizeof error);
            fail_msg("\"%s\" is read as \"%s\"", text, error);
        }
    }
}

/* Nothing that can be written down makes the world or a core stumble. */
static void any_action_may_come_at_any_moment(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WILD_SEEDS; seed++) {
        struct lh_sim_settings settings = lh_sim_settings_default(seed);
        settings.clients = 3;
        settings.masters = seed % 2 == 0 ? 3 : 1;
        settings.etcd = seed % 2 == 0 ? 3 : 0;
        struct lh_sim_cluster_config config = lh_sim_settings_config(&settings);
        struct lh_sim_cluster *c = lh_sim_cluster_create(&config);
        struct lh_sim_actor *actor = lh_sim_actor_create(c);
        struct lh_prng random = {seed};
        assert_true(lh_sim_cluster_start(c, lh_seconds(10)));
        assert_int_equal(lh_sim_create_file(c, "/log", NULL), LH_OK);
        for (unsigned i = 0; i < WILD_ACTIONS && lh_sim_failure(lh_sim_world(c)) == NULL; i++) {
            struct lh_sim_action a = some_action(&random, i);
            (void)lh_sim_act(actor, &a);
            lh_sim_run_for(lh_sim_world(c), some_time(&random, 200000000));
        }
        lh_sim_actor_destroy(actor);
        lh_sim_cluster_destroy(c);
    }
}

static void settings_are_read_as_they_were_printed(void **state)
{
    static const char text[] = "leasehold scenario 1\n"
                               "seed 18446744073709551615\n"
                               "chunkservers 5\n"
                               "clients 4\n"
                               "session term 1.25s\n"
                               "chunk term 10s\n"
                               "drift 200 ppm\n"
                               "replication 5\n"
                               "min replicas 3\n"
                               "chunk size 1MiB\n"
                               "create timeout 1s\n"
                               "member timeout 250ms\n"
                               "drain timeout 750ms\n"
                               "delay 1ms..5ms\n"
                               "delay tail 100 per million up to 1s\n"
                               "silence noticed after 10s\n"
                               "write takes 1us..2us\n"
                               "sync takes 1ms\n"
                               "read takes 0s..1ns\n"
                               "commit takes 5ms\n"
                               "disk tail 7 per million up to 3s\n"
                               "timers late by 10ms\n"
                               "clocks leave rho\n"
                               "replicas may be lost\n"
                               "ruin\n"
                               "plant wall-clock\n"
                               "file /a synced replication 4 min replicas 2 chunk size 128KiB\n"
                               "file /b\n"
                               "broken by wall-clock\n"
                               "\n";
    struct lh_sim_scenario s = parse(text);
    char *again = print(&s);

    (void)state;
    assert_string_equal(again, text);
    assert_int_equal(s.settings.file_count, 2);
    assert_true(s.settings.files[0].synced);
    struct lh_sim_cluster_config config = lh_sim_settings_config(&s.settings);
    assert_true(config.master.session_term.ns == 1250000000);
    assert_int_equal(config.servers, 5);
    assert_true(config.world.delay_tail.per_million == 100);
    free(again);
    lh_sim_scenario_deinit(&s);
}

/* One of each; comments and spaces go. */
static void statements_are_read_as_they_were_printed(void **state)
{
    static const char text[] = "leasehold scenario 1\n"
                               "seed 1\n"
                               "\n"
                               "writer w at client 1 to /log\n"
                               "reader r at client 1 of /log once\n"
                               "at 1s let Old be primary of /log\n"
                               "after 1.5s pause secondary 2 of /log in its next step\n"
                               "wait 2s\n"
                               "at 10s expect chunk 1 primary is chunkserver 3 within 12s\n"
                               "after 1s expect tail of /log primary is not Old for 1s\n"
                               "expect chunk 2 of /log primary is nobody\n"
                               "expect tail of /log primary is somebody\n"
                               "expect chunkserver 1 may act on chunk 1\n"
                               "expect Old may not act on tail of /log\n"
                               "expect /log takes appends\n"
                               "expect /log takes no appends\n"
                               "expect chunk 1 exists\n"
                               "expect chunk 1 is sealed\n"
                               "expect chunk 1 is sealed at 1000\n"
                               "expect chunk 1 is not sealed\n"
                               "expect version of chunk 1 is 2\n"
                               "expect version of chunk 1 is above 2\n"
                               "expect chunk 1 has 3 members\n"
                               "expect Old is a member of chunk 1\n"
                               "expect Old is no member of chunk 1\n"
                               "expect /log exists\n"
                               "expect /log does not exist\n"
                               "expect /log has 3 chunks\n"
                               "expect replica of chunk 1 at Old is lost\n"
                               "expect replica of chunk 1 at Old is unverified\n"
                               "expect replica of chunk 1 at Old is sealed\n"
                               "expect replica of chunk 1 at Old is missing\n"
                               "expect replica of chunk 1 at Old is whole\n"
                               "expect replica of chunk 1 at Old has version 3\n"
                               "expect replica of chunk 1 at Old is shorter\n"
                               "expect replicas of /log are identical\n"
                               "expect Old is in session\n"
                               "expect Old has no session\n"
                               "expect master is up\n"
                               "expect client 1 is down\n"
                               "expect Old is paused\n"
                               "expect program w has 12 acknowledged\n"
                               "expect program w is done\n"
                               "expect program w waits\n"
                               "expect program r has read everything\n"
                               "expect INV-1 was seen broken\n"
                               "settle when 20s have passed since the start within 72s\n"
                               "expect violation INV-4 within 1s\n";
    struct lh_sim_scenario s = parse(text);
    char *again = print(&s);

    (void)state;
    assert_string_equal(again, text);
    free(again);
    lh_sim_scenario_deinit(&s);
    s = parse("\r\n# nothing\nleasehold   scenario\t1 # yes\n\n  wait 1s #2 \r\n");
    lh_sim_scenario_deinit(&s);
}

/* ---- What is wrong is said ---- */

#define HEAD "leasehold scenario 1\n"
#define ACTIONS                                                                                    \
    "\"start\", \"crash\", \"restart\", \"power\", \"pause\", \"resume\", \"stop\", \"set\", "     \
    "\"let\", \"cut\", \"heal\", \"isolate\", \"rejoin\", \"break\", \"half-close\", "             \
    "\"slow\", \"limit\", "                                                                        \
    "\"clog\", \"unclog\", \"deafen\", \"hide\", \"mislead\", \"blind\", \"stall\", \"unstall\", " \
    "\"starve\", \"refuse\", \"shut\", \"leave\", \"fail\", \"rot\", "                             \
    "\"misdirect\", \"lose\", \"scrap\", \"back\", \"restore\", \"etcd\", \"delay\", "             \
    "\"cancel\", \"compact\", \"flip\", \"a\", \"put\", \"keep\", \"lead\", \"recall\", "          \
    "\"release\", \"create\", \"rename\", \"remove\", \"list\", \"drain\", \"undrain\", "          \
    "\"decommission\", \"take\", \"give\", "                                                       \
    "\"writer\", \"reader\", \"files\", \"locker\", \"cacher\", \"changer\", "                     \
    "\"watcher\", \"operator\", \"end\""

/* In every unit that docs/scenarios.md names; printed in seconds from one second on. */
static void times_have_units(void **state)
{
    struct lh_sim_scenario s = parse(HEAD "wait 1ns\nwait 2us\nwait 3ms\nwait 4s\nwait 1.5m\n"
                                          "wait 1h\n");
    char *again = print(&s);

    (void)state;
    assert_string_equal(again, HEAD "seed 1\n\nwait 1ns\nwait 2us\nwait 3ms\nwait 4s\nwait 90s\n"
                                    "wait 3600s\n");
    free(again);
    lh_sim_scenario_deinit(&s);
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *text, *error;
    } mistakes[] = {
        {"", "x:1: found nothing, expected \"leasehold scenario 1\""},
        {"# only this\n", "x:1: found nothing, expected \"leasehold scenario 1\""},
        {"\nlease\n", "x:2: found \"lease\", expected \"leasehold\""},
        {"leasehold scenario\n",
            "x:1: found the end of the line, expected a number below 4294967296"},
        {"leasehold scenario 2\n", "x:1: found a scenario of format 2, expected format 1"},
        {HEAD "wait\n",
            "x:2: found the end of the line, expected a duration such as 250ms or 1.5s"},
        {HEAD "wait 5\n", "x:2: found \"5\", expected a duration such as 250ms or 1.5s"},
        {HEAD "wait 1.s\n", "x:2: found \"1.s\", expected a duration such as 250ms or 1.5s"},
        {HEAD "wait 0.5ns\n", "x:2: found \"0.5ns\", expected a duration such as 250ms or 1.5s"},
        {HEAD "wait 1001h\n", "x:2: a time is longer than 1000h"},
        {HEAD "wait 999999999999999999999h\n",
            "x:2: found \"999999999999999999999h\", expected a duration such as 250ms or 1.5s"},
        {HEAD "wait 1s 2s\n", "x:2: found \"2s\", expected the end of the line"},
        {HEAD "at 1s sleep\n",
            "x:2: found \"sleep\", expected \"expect\", \"settle\", " ACTIONS " or \"mend\""},
        {HEAD "wait 1s\nseed 5\n", "x:3: found \"seed\", expected \"expect\", \"at\", \"after\", "
                                   "\"wait\", \"settle\", " ACTIONS " or \"mend\""},
        {HEAD "seed five\n", "x:2: found \"five\", expected a number below 18446744073709551616"},
        {HEAD "seed 1 2\n", "x:2: found \"2\", expected the end of the line"},
        {HEAD "chunkservers 0\nwait 1s\n", "x:2: there must be a chunkserver and a client, and at "
                                           "most 63 of both and of strangers"},
        {HEAD "chunkservers 64\n", "x:2: there must be a chunkserver and a client, and at most 63 "
                                   "of both and of strangers"},
        {HEAD "session term 10s\n",
            "x:2: the chunk term must not be shorter than the session term"},
        {HEAD "session term 100ms\n", "x:2: the session term must be between 200 ms and an hour"},
        {HEAD "delay 5ms..1ms\n",
            "x:2: found \"5ms..1ms\", expected a duration or a range such as 1ms..5ms, "
            "\"tail\" or \"etcd\""},
        {HEAD "sync takes 2h\n", "x:2: \"sync takes\" must be at most 1h"},
        {HEAD "plant nothing\n", "x:2: no bug is planted under the name \"nothing\""},
        {HEAD "broken by nothing\n",
            "x:2: found \"nothing\", expected the name of a planted bug, of at most 8"},
        {HEAD "file log\n", "x:2: found \"log\", expected a path of at most 63 bytes such as /log"},
        {HEAD "file /log\nfile /log\n", "x:3: /log is there twice"},
        {HEAD "file /log replication 2 min replicas 3\n",
            "x:2: /log: at least 3 replicas, but at most 2"},
        {HEAD "chunkservers 1\nfile /log\n", "x:3: /log: at least 2 replicas, but 1 chunkservers"},
        {HEAD "file /log chunk size 1KiB\n",
            "x:2: /log: the chunk size must be between 64KiB and 1GiB"},
        {HEAD "pause chunkserver 9\n", "x:2: there is no chunkserver 9; chunkservers are 1 to 3"},
        {HEAD "pause cs4\n", "x:2: there is no chunkserver 4; chunkservers are 1 to 3"},
        {HEAD "crash c2\n", "x:2: there is no client 2; clients are 1 to 1"},
        {HEAD "crash Old\n", "x:2: nobody was named Old before"},
        {HEAD "crash nobody\n",
            "x:2: found \"nobody\", expected \"master\", \"active\", \"standby\", \"etcd\", "
            "\"chunkserver\", \"client\", "
            "\"primary\", \"secondary\", \"every\", \"everybody\" or a name with a capital letter"},
        {HEAD "pause cs1 fro 5s\n",
            "x:2: found \"fro\", expected \"in\", \"for\" or the end of the line"},
        {HEAD "cut cs1 cs2\n", "x:2: found \"cs2\", expected \"->\""},
        {HEAD "set clock of cs1 to -1000000 ppm\n",
            "x:2: a clock's rate error is between -999999 and +1000000 ppm"},
        {HEAD "set clock of cs1 to fast\n",
            "x:2: found \"fast\", expected a number with its sign such as +9000"},
        {HEAD "fail next 1 fsyncs of cs1 with IO\n",
            "x:2: found \"fsyncs\", expected \"creates\", \"writes\", \"syncs\", \"reads\", "
            "\"truncates\", \"removes\", \"reserves\" or \"replaces\""},
        {HEAD "fail next 1 syncs of cs1 with EIO\n",
            "x:2: found \"EIO\", expected an error's name such as IO or DISK_FULL"},
        {HEAD "fail next 0 syncs of cs1 with IO\n",
            "x:2: a disk fails once or more, with an error"},
        {HEAD "rot byte 1 of chunk 0 at cs1\n",
            "x:2: found \"0\", expected a chunk's number, from 1"},
        {HEAD "rot byte 1 of chunk 1 at cs1 mask 256\n", "x:2: a mask is between 1 and 255"},
        {HEAD "set session term to 2h\n", "x:2: the session term must be between 200ms and 1h"},
        {HEAD "writer w at client 2 to /log\n", "x:2: there is no client 2; clients are 1 to 1"},
        {HEAD "writer w at client 1 to /log every 0s\n",
            "x:2: a program pauses between 1us and 1000h"},
        {HEAD "writer w at client 1 to /log records 0\n",
            "x:2: a batch has 1 record or more, and at least as many at most as at least"},
        {HEAD "writer w at client 1 to /log records 3..1\n",
            "x:2: found \"3..1\", expected a number or a range such as 1..5"},
        {HEAD "writer w at client 1 to /log\nwriter w at client 1 to /log\n",
            "x:3: there is a program w already"},
        {HEAD "writer w at client 1 to /log colour red\n",
            "x:2: found \"colour\", expected \"seed\", \"count\", \"records\", \"bytes\", "
            "\"every\", \"window\", \"again\", \"under\", \"token\", \"as\" or the end of "
            "the line"},
        {HEAD "end w\n", "x:2: no program w was begun before"},
        {HEAD "expect program w is done\n", "x:2: no program w was begun before"},
        {HEAD "expect chunkserver 7 is up\n",
            "x:2: there is no chunkserver 7; chunkservers are 1 to 3"},
        {HEAD "expect /log takes a break\n", "x:2: found \"a\", expected \"appends\" or \"no\""},
        {HEAD "expect /log takes appends within 1s for 1s\n",
            "x:2: found \"within\" and \"for\", expected one of them"},
        {HEAD "expect violation INV-7\n",
            "x:2: found \"INV-7\", expected \"INV-1\", \"INV-2\", \"INV-3\", \"INV-4\", \"INV-5\", "
            "\"INV-6\", \"INV-8\", \"INV-9\", \"INV-10\", \"INV-11\", "
            "\"INV-13\", \"INV-14\", \"INV-15\", \"INV-16\", \"INV-17\", \"INV-18\", \"KEEP-1\", "
            "\"KEEP-2\", "
            "\"KEEP-3\", \"KEEP-4\", \"KEEP-5\", \"history\" or \"check\""},
        {HEAD "at 2s mend everything\nat 1s mend everything\n",
            "x:3: a moment before one that stands above"},
        {HEAD "settle\nwait 1s\n", "x:3: after \"settle\" only \"expect\" may follow"},
        {HEAD "wait \x01\n",
            "x:2: found a byte 01, expected printable ASCII (outside of comments)"},
    };

    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct lh_sim_scenario s;
        char error[LH_SIM_SCENARIO_TEXT] = "nothing is wrong";
        const char *text = mistakes[i].text;
        int code = lh_sim_scenario_parse(&s, text, strlen(text), "x", error, sizeof error);
        wrong += strcmp(error, mistakes[i].error) != 0;
        if (strcmp(error, mistakes[i].error) != 0)
            print_error("%s\nsays: %s\nnot:  %s\n", text, error, mistakes[i].error);
        else
            assert_int_equal(code, LH_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(wrong, 0);
}

static void what_is_too_long_is_refused(void **state)
{
    struct lh_sim_scenario s;
    char text[4096] = HEAD, error[LH_SIM_SCENARIO_TEXT];
    size_t head = strlen(text);

    (void)state;
    memset(text + head, 'a', 1024);
    assert_int_equal(lh_sim_scenario_parse(&s, text, head + 1024, "x", error, sizeof error),
        LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(error, "x:2: a line of 1024 bytes, expected at most 1023");
    for (size_t i = 0; i < 200; i++)
        text[head + i] = i % 2 == 0 ? 'a' : ' ';
    assert_int_equal(lh_sim_scenario_parse(&s, text, head + 200, "x", error, sizeof error),
        LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(error, "x:2: found more words, expected at most 96");
    assert_int_equal(
        lh_sim_scenario_load(&s, "/no/such/file", error, sizeof error), LH_ERR_NOT_FOUND);
    assert_string_equal(error, "/no/such/file: No such file or directory");
}

/* ---- What is not met is said ---- */

static void what_is_not_so_is_said(void **state)
{
    static const struct {
        const char *text;
        uint32_t line;
        const char *says;
    } cases[] = {
        {HEAD "file /log\nexpect /log takes appends within 1s\n", 3,
            "expected /log takes appends; at 1."},
        {HEAD "expect chunkserver 1 is in session for 1s\ncrash cs1\nexpect cs1 is up\n", 4,
            "cs1 is down without a session"},
        {HEAD "expect violation INV-1\n", 2, "expected that INV-1 is broken, and nothing was"},
        {HEAD "clients 2\nfile /log\nwriter w at client 1 to /log records 1 bytes 10\n"
              "at 2s let Old be the primary of /log\nset clock of Old to -900000 ppm\n"
              "isolate Old from master\nisolate Old from c1\nwait 30s\n",
            9, "INV-"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lh_sim_scenario s = parse(cases[i].text);
        struct lh_sim_scenario_result r = run(&s);
        assert_false(r.ok);
        assert_int_equal(r.line, cases[i].line);
        if (strstr(r.text, cases[i].says) == NULL)
            fail_msg("%s\nnot: %s", r.text, cases[i].says);
        lh_sim_scenario_deinit(&s);
    }
}

static void an_action_on_nothing_does_nothing(void **state)
{
    struct lh_sim_scenario s =
        parse(HEAD "wait 1s\nrestart primary of /none\ncrash cs1\ncrash cs1\n");
    struct lh_sim_scenario_result r = run(&s);

    (void)state;
    assert_true(r.ok);
    assert_int_equal(r.idle_line, 3);
    lh_sim_scenario_deinit(&s);
}

/* ---- Spoilt files ---- */

/* Some bytes changed, taken out or doubled. */
static size_t spoil(char *to, const char *from, size_t size, struct lh_prng *random)
{
    static const char digits[] = "0123456789.-+>/ \n#ms";

    memcpy(to, from, size);
    for (uint64_t n = 1 + lh_prng_below(random, 4); n > 0 && size > 0; n--) {
        size_t at = lh_prng_below(random, size), length = lh_prng_below(random, size - at);
        length = length > 30 ? 30 : length;
        switch (lh_prng_below(random, 4)) {
        case 0:
            to[at] = (char)lh_prng_next(random);
            break;
        case 1:
            to[at] = digits[lh_prng_below(random, sizeof digits - 1)];
            break;
        case 2:
            memmove(to + at, to + at + length, size - at - length);
            size -= length;
            break;
        default:
            memmove(to + at + length, to + at, size - at);
            size += length;
            break;
        }
    }
    return size;
}

static void spoilt_files_are_read_or_refused(void **state)
{
    char **paths = *state;
    struct lh_prng random = {99};
    size_t read = 0;

    for (size_t i = 0; paths[i] != NULL; i++) {
        struct lh_sim_scenario s = load(paths[i]);
        char *text = print(&s);
        size_t size = strlen(text);
        char *spoilt = lh_alloc(size + 200);
        lh_sim_scenario_deinit(&s);
        for (int n = 0; n < 400; n++) {
            char error[LH_SIM_SCENARIO_TEXT];
            size_t length = spoil(spoilt, text, size, &random);
            if (lh_sim_scenario_parse(&s, spoilt, length, "x", error, sizeof error) != LH_OK) {
                assert_true(strncmp(error, "x:", 2) == 0);
                continue;
            }
            char *first = print(&s);
            struct lh_sim_scenario again = parse(first);
            char *second = print(&again);
            assert_string_equal(first, second);
            read++;
            lh_sim_scenario_deinit(&s);
            lh_sim_scenario_deinit(&again);
            free(first);
            free(second);
        }
        free(spoilt);
        free(text);
    }
    assert_true(read > 100);
}

/* ---- All of them ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The stories' paths, NULL after the last. */
static char **find_stories(size_t *count)
{
    DIR *folder = opendir(FOLDER);
    char **paths = NULL;
    size_t capacity = 0;

    *count = 0;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        if (end == NULL || strcmp(end, ".scenario") != 0)
            continue;
        LH_GROW(paths, capacity, *count + 2);
        char *path = lh_alloc(strlen(FOLDER) + strlen(e->d_name) + 2);
        (void)sprintf(path, "%s/%s", FOLDER, e->d_name);
        paths[(*count)++] = path;
        paths[*count] = NULL;
    }
    if (folder != NULL)
        (void)closedir(folder);
    if (*count == 0) {
        (void)fprintf(stderr, "no scenarios in %s\n", FOLDER);
        exit(1);
    }
    qsort(paths, *count, sizeof *paths, by_name);
    return paths;
}

/* A number that Bazel gives; `none` if it does not. */
static size_t given(const char *name, size_t none)
{
    const char *text = getenv(name);

    return text == NULL ? none : (size_t)strtoul(text, NULL, 10);
}

/* Bazel looks for the file: its parts are told apart here. */
static void take_part(void)
{
    const char *path = getenv("TEST_SHARD_STATUS_FILE");
    FILE *file = path == NULL ? NULL : fopen(path, "w");

    if (file != NULL)
        (void)fclose(file);
}

int main(void)
{
    size_t count, taken = 0, parts = given("TEST_TOTAL_SHARDS", 1);
    size_t part = given("TEST_SHARD_INDEX", 0);
    char **paths = find_stories(&count);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_action_is_read_as_it_was_printed),
        cmocka_unit_test(any_action_may_come_at_any_moment),
        cmocka_unit_test(settings_are_read_as_they_were_printed),
        cmocka_unit_test(statements_are_read_as_they_were_printed),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(what_is_not_so_is_said),
        cmocka_unit_test(an_action_on_nothing_does_nothing),
        cmocka_unit_test_prestate(spoilt_files_are_read_or_refused, paths),
    };
    struct CMUnitTest *stories = lh_alloc_array(count, sizeof *stories);

    take_part();
    for (size_t i = part; i < count; i += parts)
        stories[taken++] =
            (struct CMUnitTest){.name = paths[i], .test_func = a_story, .initial_state = paths[i]};
    int failed = part == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
    failed += _cmocka_run_group_tests("stories", stories, taken, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    free(stories);
    return failed;
}
