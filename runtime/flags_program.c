/* What a program of several commands says of all of them: each prints its own part. */
#include "runtime/flags.h"

#include "runtime/flags_internal.h"

#include <stdio.h>
#include <string.h>

static int ask(const struct lh_flags_entry *entry, const char *option)
{
    char *argv[] = {(char *)(uintptr_t)entry->name, (char *)(uintptr_t)option, NULL};

    return entry->run(2, argv);
}

static bool print_man(const struct lh_flags_program *program, const char *version)
{
    const struct lh_flags flags = {
        .command = program->name,
        .usage = program->usage,
        .summary = program->summary,
        .title = program->title,
    };
    bool ok = true;

    lh_flags_roff_header(stdout, &flags, version);
    (void)fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; i < program->count && ok; i++)
        ok = ask(&program->entries[i], "--help=section") == 0;
    (void)fputs(".SH OPTIONS OF MOST COMMANDS\n", stdout);
    ok = ok && ask(&program->entries[0], "--help=shared") == 0;
    lh_flags_roff_footer(stdout, &(struct lh_flags){.epilog = program->epilog});
    return ok;
}

bool lh_flags_program_page(
    const struct lh_flags_program *program, const char *form, const char *version)
{
    if (strcmp(form, "man") == 0)
        return print_man(program, version);
    if (strcmp(form, "words") != 0)
        return false;
    (void)fputs("commands='", stdout);
    for (size_t i = 0; i < program->count; i++)
        (void)printf(" %s", program->entries[i].name);
    (void)puts(" help'");
    return true;
}
