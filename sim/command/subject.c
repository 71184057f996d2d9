#include "sim/command/subject.h"

#include "sim/command/command.h"
#include "sim/command/seed.h"

#include "base/alloc.h"

#include <stdlib.h>

const char *const *lh_sim_profile_choices(void)
{
    static const char *names[LH_SIM_PROFILE_COUNT + 1];

    for (int i = 0; i < LH_SIM_PROFILE_COUNT; i++)
        names[i] = lh_sim_profile_name((enum lh_sim_profile)i);
    return names;
}

void lh_sim_subject_draw(
    struct lh_sim_subject *subject, uint64_t seed, enum lh_sim_profile profile, const char *plant)
{
    char text[40];
    bool swarm = profile == LH_SIM_PROFILE_SWARM;

    *subject = (struct lh_sim_subject){0};
    (void)lh_sim_seed_print(text, seed);
    (void)snprintf(subject->name, sizeof subject->name, "seed %s%s%s", text,
        swarm ? "" : " of profile ", swarm ? "" : lh_sim_profile_name(profile));
    (void)snprintf(subject->arguments, sizeof subject->arguments, "--seed %s%s%s%s%s", text,
        swarm ? "" : " --profile ", swarm ? "" : lh_sim_profile_name(profile),
        plant == NULL ? "" : " --plant ", plant == NULL ? "" : plant);
    lh_sim_plan_draw(&subject->plan, seed, profile);
    (void)snprintf(subject->plan.settings.plant, sizeof subject->plan.settings.plant, "%s",
        plant == NULL ? "" : plant);
}

int lh_sim_check_plant(const char *plant, const char *option, const char *command)
{
    if (plant == NULL || lh_sim_is_planted(plant))
        return LH_SIM_EXIT_OK;
    return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
        "%s: there is no bug '%s'; `leasehold-sim bugs` lists them", option, plant);
}

/* Into a scenario, which may have a planted bug of its own: one run has one. */
static int plant_in(
    struct lh_sim_subject *subject, const char *plant, const char *file, const char *command)
{
    struct lh_sim_settings *settings = &subject->scenario.settings;

    (void)snprintf(subject->arguments, sizeof subject->arguments, "%s%s%s", file,
        plant == NULL ? "" : " --plant ", plant == NULL ? "" : plant);
    if (plant == NULL)
        return LH_SIM_EXIT_OK;
    if (settings->plant[0] != '\0')
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "--plant: %s plants '%s' itself; take that line out, or leave --plant out", file,
            settings->plant);
    (void)snprintf(settings->plant, sizeof settings->plant, "%s", plant);
    return LH_SIM_EXIT_OK;
}

static int load(struct lh_sim_subject *subject, const struct lh_sim_subject_options *options,
    const char *file, const char *command)
{
    char error[LH_SIM_SCENARIO_TEXT];

    if (options->seed != NULL)
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "--seed or a scenario file, not both: a file says its seed itself");
    if (options->profile != LH_SIM_PROFILE_SWARM)
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "--profile goes with --seed; a scenario file says itself what happens");
    *subject = (struct lh_sim_subject){.is_scenario = true};
    if (lh_sim_scenario_load(&subject->scenario, file, error, sizeof error) != LH_OK)
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command, "%s", error);
    (void)snprintf(subject->name, sizeof subject->name, "%s", file);
    int code = plant_in(subject, options->plant, file, command);
    if (code != LH_SIM_EXIT_OK)
        lh_sim_subject_deinit(subject);
    return code;
}

int lh_sim_subject_of_options(struct lh_sim_subject *subject,
    const struct lh_sim_subject_options *options, const char *file, const char *command)
{
    uint64_t seed;
    int code = lh_sim_check_plant(options->plant, "--plant", command);

    if (code != LH_SIM_EXIT_OK)
        return code;
    if (file != NULL)
        return load(subject, options, file, command);
    if (options->seed == NULL)
        return lh_sim_command_error(LH_SIM_EXIT_USAGE, command,
            "which run? Give --seed, with the seed that a failure printed or any number");
    code = lh_sim_seed_parse(options->seed, &seed, "--seed", command);
    if (code == LH_SIM_EXIT_OK)
        lh_sim_subject_draw(subject, seed, (enum lh_sim_profile)options->profile, options->plant);
    return code;
}

void lh_sim_subject_run(const struct lh_sim_subject *subject,
    const struct lh_sim_run_options *options, struct lh_sim_outcome *outcome)
{
    if (subject->is_scenario)
        lh_sim_outcome_of_scenario(&subject->scenario, subject->name, options, outcome);
    else
        lh_sim_outcome_of(&subject->plan, options, outcome);
}

void lh_sim_subject_deinit(struct lh_sim_subject *subject)
{
    if (subject->is_scenario)
        lh_sim_scenario_deinit(&subject->scenario);
    else
        lh_sim_plan_deinit(&subject->plan);
}

int lh_sim_subjects_load(struct lh_sim_subjects *subjects, const char *const *files, size_t count,
    const char *plant, const char *command)
{
    const struct lh_sim_subject_options by_file = {.plant = plant};
    int code = LH_SIM_EXIT_OK;

    *subjects = (struct lh_sim_subjects){lh_alloc_array(count, sizeof *subjects->subjects), 0};
    for (size_t i = 0; i < count; i++) {
        int read = lh_sim_subject_of_options(
            &subjects->subjects[subjects->count], &by_file, files[i], command);
        subjects->count += read == LH_SIM_EXIT_OK;
        code = lh_sim_command_worse(code, read);
    }
    return code;
}

void lh_sim_subjects_deinit(struct lh_sim_subjects *subjects)
{
    for (size_t i = 0; i < subjects->count; i++)
        lh_sim_subject_deinit(&subjects->subjects[i]);
    free(subjects->subjects);
}
