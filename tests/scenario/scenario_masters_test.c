/* Stories of masters that share a store in etcd (HA). */
#include "sim/etcd/etcd.h"
#include "sim/world/network.h"
#include "tests/scenario/scenario.h"

static struct lh_sim_cluster *masters(uint64_t seed)
{
    struct lh_sim_cluster_config config = short_terms(seed);

    config.masters = 3;
    config.etcd_members = 3;
    config.reigns.reign_term = lh_milliseconds(500);
    return cluster_of(&config);
}

static void the_active_master_is_killed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 11; seed++) {
        struct lh_sim_cluster *c = masters(seed);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *first = lh_sim_master(c);
        lh_sim_crash(first);
        for (int i = 0; i < 50; i++) {
            HOLDS(c, lh_sim_append(w, 1, 100, LONG) == LH_OK);
            run_for(c, lh_milliseconds(100));
        }
        assert_ptr_not_equal(lh_sim_master(c), first);
        all_is_well(c, w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_active_master_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
