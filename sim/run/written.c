/* A run as text. */
#include "sim/run/run.h"

#include "sim/scenario/scenario.h"

void lh_sim_plan_scenario(
    const struct lh_sim_plan *plan, const char *rule, struct lh_sim_scenario *scenario)
{
    *scenario = (struct lh_sim_scenario){.settings = plan->settings};
    for (size_t i = 0; i < plan->action_count; i++) {
        struct lh_sim_statement act = {
            .kind = LH_SIM_SAYS_ACTION,
            .moment = LH_SIM_AT,
            .time = lh_nanoseconds(plan->actions[i].at),
            .action = plan->actions[i],
        };
        lh_sim_scenario_add(scenario, &act);
    }
    struct lh_sim_statement settle = {
        .kind = LH_SIM_SAYS_SETTLE,
        .moment = LH_SIM_SINCE,
        .time = plan->duration,
        .within = lh_sim_healing_bound(&plan->settings, plan->actions, plan->action_count),
    };
    lh_sim_scenario_add(scenario, &settle);
    if (rule == NULL)
        return;
    struct lh_sim_statement violation = {.kind = LH_SIM_SAYS_VIOLATION};
    (void)snprintf(violation.rule, sizeof violation.rule, "%s", rule);
    lh_sim_scenario_add(scenario, &violation);
}
