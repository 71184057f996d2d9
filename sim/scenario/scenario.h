/* Scenario files: who says what happens to a cluster, and when, and what must then be so.
 *
 *   leasehold scenario 1
 *   # A primary that stands still is replaced, and not before its lease has run out.
 *   seed 7
 *   chunkservers 4
 *   file /log synced replication 3
 *
 *   at 1s writer w at client 1 to /log count 100 every 20ms
 *   after 1s let Old be the primary of /log
 *   pause Old for 15s
 *   expect version of tail of /log is 1 for 1900ms
 *   expect tail of /log primary is not Old within 12s
 *   settle within 60s
 *
 * The first line names the format. Then come settings (settings.c), one a line, and then
 * statements. '#' at the beginning of a word begins a comment.
 *
 * A statement is an action (action.c), an expectation, a wait, or the end:
 *
 *   [at T | after D] ACTION
 *   [at T | after D] expect CONDITION [within D | for D]     (condition.c)
 *   wait D
 *   [at T | after D] settle [within D]
 *   settle when D have passed since the start [within D]
 *   expect violation RULE [within D]
 *
 * `at` counts from the world's start, `after` from when the statement before was done; without
 * either a statement's turn is then. The moments of `at` are a timetable: an action in it happens
 * at its moment, also while an expectation that stands before it still waits. An expectation is
 * done when it is met: at once, at some moment `within D`, or all the time `for D`. If that cannot
 * be any more, the scenario has failed in that line.
 *
 * `settle` ends all faults, waits until everything is well and reads all files from start to end
 * (INV-8, INV-5); without it a scenario ends with its last statement. The observers look on all the
 * time; whatever they find fails the scenario, unless the file says that just this rule will be
 * broken (a planted bug; clocks that the observers were not told of): then it must be.
 *
 * Among the settings, `broken by BUG` says that the scenario fails when that bug is planted. It
 * changes nothing about a run; tests hold the file to it.
 *
 * docs/scenarios.md shows every line that there is. */
#pragma once

#include "sim/observers/observers.h"
#include "sim/scenario/action.h"
#include "sim/scenario/condition.h"
#include "sim/scenario/settings.h"
#include "sim/scenario/stage.h"

#include <stdio.h>

#define LH_SIM_SCENARIO_FORMAT 1

enum lh_sim_statement_kind {
    LH_SIM_SAYS_ACTION = 1,
    LH_SIM_SAYS_EXPECT,
    LH_SIM_SAYS_WAIT,
    LH_SIM_SAYS_SETTLE,
    LH_SIM_SAYS_VIOLATION,
};

enum lh_sim_moment {
    LH_SIM_NOW,   /* when the statement before is done */
    LH_SIM_AT,    /* `time` after the world's start */
    LH_SIM_AFTER, /* `time` after the statement before is done */
    LH_SIM_SINCE, /* SETTLE: `time` after everything was up and the files were there */
};

struct lh_sim_statement {
    enum lh_sim_statement_kind kind;
    uint32_t line;
    enum lh_sim_moment moment;
    struct lh_duration time;
    struct lh_duration within; /* 0: at once. SETTLE: for each of its steps */
    struct lh_duration hold;   /* EXPECT: it is so from now on for this long; 0: once is enough */
    struct lh_sim_action action;
    struct lh_sim_condition condition;
    char rule[16]; /* VIOLATION */
};

#define LH_SIM_BROKEN_BY_MAX 8

struct lh_sim_scenario {
    struct lh_sim_settings settings;
    /* Planted bugs with which it must fail: what it says is then seen to depend on the rule. */
    char broken_by[LH_SIM_BROKEN_BY_MAX][LH_SIM_PLANT_NAME_MAX + 1];
    size_t broken_by_count;
    struct lh_sim_statement *statements;
    size_t count, capacity;
};

#define LH_SIM_SCENARIO_TEXT 2048 /* bytes that hold any error or verdict */

/* Reads `size` bytes of a scenario file called `name`. LH_OK: `scenario` is to be given to
 * lh_sim_scenario_deinit(). INVALID_ARGUMENT: `error` says where, what was found there and what was
 * expected ("x.scenario:7: found ..."); `scenario` is not touched. */
LH_MUST_USE int lh_sim_scenario_parse(struct lh_sim_scenario *scenario, const char *text,
    size_t size, const char *name, char *error, size_t error_size);

/* As lh_sim_scenario_parse(), from a file (load.c). NOT_FOUND, PERMISSION, IO, ...: it cannot be
 * read. */
LH_MUST_USE int lh_sim_scenario_load(
    struct lh_sim_scenario *scenario, const char *path, char *error, size_t error_size);

void lh_sim_scenario_deinit(struct lh_sim_scenario *scenario);

/* Adds a copy, as the last one. */
void lh_sim_scenario_add(
    struct lh_sim_scenario *scenario, const struct lh_sim_statement *statement);

/* As a scenario file, without comments. Reading it gives the same scenario, but for its lines. */
void lh_sim_scenario_print(const struct lh_sim_scenario *scenario, FILE *to);

/* As its line in a scenario file. */
void lh_sim_statement_print(const struct lh_sim_statement *statement, char *text, size_t text_size);

/* ---- Running ---- */

struct lh_sim_scenario_result {
    bool ok;
    /* Otherwise: the statement's line that was not met or was under way, 0: none had begun. */
    uint32_t line;
    char text[LH_SIM_SCENARIO_TEXT]; /* what was expected and what was so; the failure */
    char rule[16];                   /* that was broken, expected or not; "": none */

    uint64_t virtual_ns, events, hash;
    uint32_t idle_line; /* of the first action that did nothing, since there was nothing to do it
                           to; 0: none */
};

/* Runs it in a world of its own. One run at a time in a process: planted bugs are the process's.
 * Options may be NULL. */
void lh_sim_scenario_run(const struct lh_sim_scenario *scenario,
    const struct lh_sim_stage_options *options, struct lh_sim_scenario_result *result);
