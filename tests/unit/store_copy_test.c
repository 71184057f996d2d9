/* The process around `leasehold store copy`, with a core and an event loop that are played by hand:
 * what it says when etcd does not answer is true, whatever the core does meanwhile. */
#include "master/copy/copy.h"

#include "base/alloc.h"
#include "base/error.h"
#include "master/config.h"
#include "master/master.h"
#include "master/reigns/reigns.h"
#include "master/store/metastore.h"
#include "master/store/metastore_lmdb.h"
#include "proto/stored.pb-c.h"
#include "runtime/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUNS LH_ERR_DEADLINE_EXCEEDED /* of lh_loop_wait(): it has not stopped */

/* What the process sees each time that it looks. */
struct look {
    enum lh_reign_phase phase;
    bool claimed;
    int result;         /* of lh_loop_wait() */
    uint64_t passes_ms; /* before that */
};

static struct world {
    const struct look *looks;
    size_t at;
    unsigned stops;
    struct lh_instant now;
    char why[1200];
    struct lh_store_copied result;
} w;

static char directory[300];

/* ---- The loop and the core (the linker takes these instead: --wrap). */

int __wrap_lh_loop_create(
    const struct lh_loop_config *config, struct lh_loop **out, char *why, size_t why_size);
void __wrap_lh_loop_start(struct lh_loop *loop);
void __wrap_lh_loop_stop(struct lh_loop *loop);
int __wrap_lh_loop_wait(struct lh_loop *loop, struct lh_duration timeout);
void __wrap_lh_loop_lock(struct lh_loop *loop);
void __wrap_lh_loop_unlock(struct lh_loop *loop);
void __wrap_lh_loop_destroy(struct lh_loop *loop);
struct lh_instant __wrap_lh_clock_now(void);
void __wrap_lh_reigns_state(const struct lh_reigns *r, struct lh_reign_state *state);

int __wrap_lh_loop_create(
    const struct lh_loop_config *config, struct lh_loop **out, char *why, size_t why_size)
{
    (void)config;
    (void)why;
    (void)why_size;
    *out = NULL;
    return LH_OK;
}

void __wrap_lh_loop_start(struct lh_loop *loop)
{
    (void)loop;
}

void __wrap_lh_loop_stop(struct lh_loop *loop)
{
    (void)loop;
    w.stops++;
}

int __wrap_lh_loop_wait(struct lh_loop *loop, struct lh_duration timeout)
{
    (void)loop;
    (void)timeout;
    const struct look *look = &w.looks[w.at++];
    w.now = lh_instant_add(w.now, lh_milliseconds(look->passes_ms));
    return look->result;
}

void __wrap_lh_loop_lock(struct lh_loop *loop)
{
    (void)loop;
}

void __wrap_lh_loop_unlock(struct lh_loop *loop)
{
    (void)loop;
}

void __wrap_lh_loop_destroy(struct lh_loop *loop)
{
    (void)loop;
}

struct lh_instant __wrap_lh_clock_now(void)
{
    return w.now;
}

void __wrap_lh_reigns_state(const struct lh_reigns *r, struct lh_reign_state *state)
{
    const struct look *look = &w.looks[w.at - 1];

    (void)r;
    *state = (struct lh_reign_state){.phase = look->phase, .claimed = look->claimed};
}

/* ---- The operator, and the directory. */

static void say(void *arg, const char *text)
{
    (void)arg;
    (void)text;
}

static void progress(void *arg, const struct lh_store_copied *so_far)
{
    (void)arg;
    (void)so_far;
}

static bool interrupted(void *arg)
{
    (void)arg;
    return false;
}

/* The copy's error, when it sees this. */
static int copy(bool to_etcd, const struct look *looks)
{
    static char lmdb[400];
    struct lh_etcd_options etcd = {0};
    const char *in_etcd = "etcd:127.0.0.1:1/test";

    (void)snprintf(lmdb, sizeof lmdb, "lmdb:%s", directory);
    w = (struct world){.looks = looks, .now = {1000}};
    int error = lh_store_copy(
        &(struct lh_store_copy){
            .from = to_etcd ? lmdb : in_etcd,
            .to = to_etcd ? in_etcd : lmdb,
            .etcd = &etcd,
            .patience = lh_seconds(1),
            .say = say,
            .progress = progress,
            .interrupted = interrupted,
        },
        &w.result, w.why, sizeof w.why);
    lh_etcd_options_free(&etcd);
    return error;
}

static void assert_said(const char *part)
{
    if (strstr(w.why, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, w.why);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *why)
{
    (void)arg;
    (void)ticket;
    (void)why;
    assert_int_equal(error, LH_OK);
}

static void put_a_store(void)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    struct lh_change *change = lh_alloc(sizeof *change);
    struct lh_metastore *store;
    char why[400];

    record.format = LH_MASTER_FORMAT_BARE;
    record.cluster_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    record.master_term = 5;
    record.next_file = record.next_chunk = 1;
    change->key = (uint8_t *)lh_strdup("M");
    change->key_size = 1;
    change->value_size = (uint32_t)leasehold_stored__master__get_packed_size(&record);
    change->value = lh_alloc(change->value_size);
    leasehold_stored__master__pack(&record, change->value);
    assert_int_equal(
        lh_metastore_lmdb_open(directory, 0, on_committed, NULL, &store, why, sizeof why), LH_OK);
    lh_metastore_commit(store, 1, change, 1);
    lh_metastore_close(store);
}

static int set_up(void **state)
{
    const char *base = getenv("TEST_TMPDIR");

    (void)state;
    (void)snprintf(directory, sizeof directory, "%s/copy.XXXXXX", base == NULL ? "/tmp" : base);
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    char command[400];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- From etcd. */

static void an_etcd_that_never_answers_has_nothing_changed(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_LEARNING, false, RUNS, 100},
        {LH_REIGN_LEARNING, false, RUNS, 1000},
        {LH_REIGN_STOPPED, false, LH_ERR_CANCELLED, 1},
    };

    (void)state;
    assert_int_equal(copy(false, looks), LH_ERR_UNAVAILABLE);
    assert_int_equal(w.stops, 1);
    assert_said("nothing was changed");
}

/* The core was about to claim when the process lost patience: etcd may have taken that. */
static void a_claim_that_went_out_meanwhile_may_have_changed_something(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_STANDBY, false, RUNS, 100},
        {LH_REIGN_STANDBY, false, RUNS, 100 * 1000},
        {LH_REIGN_CLAIMING, true, RUNS, 900}, /* it has not stopped */
        {LH_REIGN_CLAIMING, true, RUNS, 900},
        {LH_REIGN_CLAIMING, true, RUNS, 200},
    };

    (void)state;
    assert_int_equal(copy(false, looks), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(w.stops, 1);
    assert_said("no master can be started on either store now");
}

/* It was taken, and given back. */
static void a_claim_that_was_given_back_has_changed_nothing(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_STANDBY, false, RUNS, 100},
        {LH_REIGN_STANDBY, false, RUNS, 100 * 1000},
        {LH_REIGN_CLAIMING, true, RUNS, 900},
        {LH_REIGN_RESIGNING, true, RUNS, 900},
        {LH_REIGN_STOPPED, true, LH_ERR_CANCELLED, 900},
    };

    (void)state;
    assert_int_equal(copy(false, looks), LH_ERR_UNAVAILABLE);
    assert_said("nothing was changed");
}

static void what_came_to_its_end_all_the_same_is_copied(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_STANDBY, false, RUNS, 100},
        {LH_REIGN_STANDBY, false, RUNS, 100 * 1000},
        {LH_REIGN_COPYING, true, RUNS, 900},
        {LH_REIGN_STOPPED, true, LH_OK, 900},
    };

    (void)state;
    assert_int_equal(copy(false, looks), LH_OK);
}

static void a_claim_without_an_answer_is_not_asked_to_stop(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_CLAIMING, true, RUNS, 100},
        {LH_REIGN_CLAIMING, true, RUNS, 1000},
    };

    (void)state;
    assert_int_equal(copy(false, looks), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(w.stops, 0);
    assert_said("no master can be started on either store now");
}

/* ---- To etcd. */

/* The directory is marked only when all pairs are in etcd. */
static void half_a_copy_to_etcd_leaves_the_directory_to_masters(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_COPYING, true, RUNS, 100},
        {LH_REIGN_COPYING, true, RUNS, 1000},
        {LH_REIGN_STOPPED, true, LH_ERR_CANCELLED, 1},
    };

    (void)state;
    put_a_store();
    assert_int_equal(copy(true, looks), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(w.stops, 1);
    assert_said("masters can go on as before, and the copy be run again when it does");
}

static void a_marked_directory_is_not_left_to_masters(void **state)
{
    const struct look looks[] = {
        {LH_REIGN_RESIGNING, true, RUNS, 100},
        {LH_REIGN_RESIGNING, true, RUNS, 1000},
    };

    (void)state;
    put_a_store();
    assert_int_equal(copy(true, looks), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(w.stops, 0);
    assert_said("no master can be started on either store now");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_etcd_that_never_answers_has_nothing_changed),
        STORY(a_claim_that_went_out_meanwhile_may_have_changed_something),
        STORY(a_claim_that_was_given_back_has_changed_nothing),
        STORY(what_came_to_its_end_all_the_same_is_copied),
        STORY(a_claim_without_an_answer_is_not_asked_to_stop),
        STORY(half_a_copy_to_etcd_leaves_the_directory_to_masters),
        STORY(a_marked_directory_is_not_left_to_masters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
