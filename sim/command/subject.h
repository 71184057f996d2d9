/* What a command runs: a seed of some profile, maybe with a planted bug, or a scenario file. */
#pragma once

#include "sim/command/outcome.h"

struct lh_sim_subject_options {
    const char *seed;
    int profile;
    const char *plant;
};

/* For a command's table of flags; `o` is its struct lh_sim_subject_options. */
#define LH_SIM_SEED_FLAG(o)                                                                        \
    {                                                                                              \
        LH_FLAG("seed", STRING, &(o).seed, NULL),                                                  \
            .metavar = "S", .help = "the run, as a failure prints it: 417 or 417@1"                \
    }
#define LH_SIM_PROFILE_FLAGS(o)                                                                    \
    {LH_FLAG("profile", ENUM, &(o).profile, "swarm"), .choices = lh_sim_profile_choices(),         \
        .help =                                                                                    \
            "what runs are drawn: a mixture; faults that can be survived; none; clocks beyond "    \
            "their bound; more damage than can be survived"},                                      \
    {                                                                                              \
        LH_FLAG("plant", STRING, &(o).plant, NULL),                                                \
            .metavar = "BUG", .help = "switch a planted bug on (`leasehold-sim bugs` lists them)"  \
    }

/* The names of the profiles, NULL after the last. */
const char *const *lh_sim_profile_choices(void);

struct lh_sim_subject {
    char name[256];      /* "seed 417@1", or the file's name */
    char arguments[256]; /* what names it on a command line: "--seed 417@1 --plant wall-clock" */
    bool is_scenario;
    struct lh_sim_plan plan;         /* of a seed */
    struct lh_sim_scenario scenario; /* of a file */
};

/* Of a seed. `plant` may be NULL; it is the name of a planted bug. */
void lh_sim_subject_draw(
    struct lh_sim_subject *subject, uint64_t seed, enum lh_sim_profile profile, const char *plant);

/* What the command line names: a scenario file, or a seed if `file` is NULL. LH_SIM_EXIT_OK, or the
 * exit code, with an error printed for `command`. */
LH_MUST_USE int lh_sim_subject_of_options(struct lh_sim_subject *subject,
    const struct lh_sim_subject_options *options, const char *file, const char *command);

/* Runs it in this process. `options` may be NULL. */
void lh_sim_subject_run(const struct lh_sim_subject *subject,
    const struct lh_sim_run_options *options, struct lh_sim_outcome *outcome);

/* LH_SIM_EXIT_OK, or the exit code: there is no such bug as `option` names, said for `command`.
 * NULL is fine. */
LH_MUST_USE int lh_sim_check_plant(const char *plant, const char *option, const char *command);

void lh_sim_subject_deinit(struct lh_sim_subject *subject);

/* Scenario files. */
struct lh_sim_subjects {
    struct lh_sim_subject *subjects;
    size_t count;
};

/* Reads all `count` of them. `plant`: a bug to plant in each; NULL for none. LH_SIM_EXIT_OK, or the
 * exit code, with an error printed for each that cannot be read or plants a bug itself. To be given
 * to lh_sim_subjects_deinit() either way. */
LH_MUST_USE int lh_sim_subjects_load(struct lh_sim_subjects *subjects, const char *const *files,
    size_t count, const char *plant, const char *command);

void lh_sim_subjects_deinit(struct lh_sim_subjects *subjects);
