/* Options of all commands, from one table each.
 *
 * A value comes from, first match wins:
 *   - the command line: --session-term 10s or --session-term=10s
 *   - the environment: LEASEHOLD_SESSION_TERM
 *   - the config file: --config FILE, of lines "session-term = 10s" and # comments
 *   - the table's default
 * Every command so described also has --help, --version and --config. --help=FORM prints the table
 * in another form: `man` a manual page, `config` a config file with all defaults, `words` what a
 * shell completes; of a command that is one of several, `section` and `shared` its part of their
 * page.
 *
 *     static const struct lh_flag table[] = {
 *         {LH_FLAG("listen", STRING, &o.listen, "127.0.0.1:7400"), .metavar = "ADDRESS",
 *             .help = "address to serve on"},
 *         {LH_FLAG("session-term", DURATION, &o.session_term, "10s"), .min = 200000000,
 *             .help = "how long a session lives without a heartbeat"},
 *     }; */
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lh_flag_type {
    LH_FLAG_STRING, /* const char **; NULL without a default */
    LH_FLAG_BOOL,   /* bool *; --x, --no-x, --x=true, --x=false; true/false, yes/no, on/off, 1/0 */
    LH_FLAG_UINT,   /* uint64_t * */
    LH_FLAG_SIZE,   /* uint64_t *, bytes: 4096, 64KiB, 64MiB, 1GiB, 1TiB, 1kB, 1MB, 1GB, 1TB */
    LH_FLAG_DURATION, /* struct lh_duration *: 200ms, 10s, 1m, 2h, 1.5s, 50us, 10ns */
    LH_FLAG_ENUM,     /* int *: the index in `choices` */
    LH_FLAG_LIST,     /* struct lh_flag_list *: comma-separated, or the option repeated */
};

struct lh_flag_list {
    const char **items;
    size_t count;
};

struct lh_flag {
    const char *name; /* "session-term" */
    enum lh_flag_type type;
    void *value;                /* where it goes; type as above */
    const char *preset;         /* the default, written as a user would; NULL: none */
    const char *help;           /* one phrase */
    const char *metavar;        /* "ADDRESS"; NULL: by type */
    const char *const *choices; /* ENUM: NULL-terminated */
    uint64_t min, max;          /* UINT, SIZE, DURATION (ns): inclusive; max 0: no limit */
    const char *bare;           /* STRING: what --x alone means; then another value needs the '=' */
    bool address;               /* STRING: to listen on: host:port, [v6]:port or unix:/path */
    char letter;                /* -f; 0: none. A bool's letters may be combined: -fn */
    const char *preset_words;   /* instead of a default that differs between machines */
    bool shared;                /* most commands of the program have it: described once for all */
    bool live;                  /* a running server takes up a new value (lh_flags_refresh()) */
    bool command_line_only;     /* what it does cannot be undone: what lies in the environment is
                                   ignored, and in the config file it is an error */
};

/* A row's first four fields. */
#define LH_FLAG(name_, type_, value_, preset_)                                                     \
    .name = (name_), .type = LH_FLAG_##type_, .value = (value_), .preset = (preset_)

/* All rows of a table, for a struct lh_flags and its like. */
#define LH_FLAG_ROWS(table) .flags = (table), .count = sizeof(table) / sizeof(table)[0]

struct lh_flags {
    const char *command; /* "leasehold-master" */
    const char *usage;   /* after the command's name: "[OPTION]..." */
    const char *summary; /* one or more lines for --help */
    const char *epilog;  /* after the options; may be NULL */
    /* For the manual page: its section (0: 1), what the program is, in a phrase (NULL: `summary`),
     * and its files, a line each (NULL: none). */
    int section;
    const char *title, *files;
    const struct lh_flag *flags;
    size_t count;
};

enum lh_flags_outcome {
    LH_FLAGS_OK,
    LH_FLAGS_EXIT,  /* --help or --version: `text` is for stdout */
    LH_FLAGS_USAGE, /* `text` is for stderr */
};

/* A value that holds, in one form however it was written. */
struct lh_flag_setting {
    const char *name, *text; /* text NULL: it has none */
    bool live;
};

struct lh_flags_result {
    enum lh_flags_outcome outcome;
    char *text;        /* ends in a newline; NULL with OK */
    const char **args; /* positional arguments, NULL-terminated */
    size_t arg_count;
    struct lh_flag_setting *settings; /* with OK: the table's rows, in its order */
    size_t setting_count;
    void *memory; /* behind strings and lists */
};

/* Reads all sources and sets all values. `environment` is as environ(7); NULL: none. `version` is
 * printed by --version. Options may stand between positional arguments; "--" ends them; a lone "-"
 * is positional. Strings stay valid until lh_flags_free(). */
struct lh_flags_result lh_flags_parse(
    const struct lh_flags *flags, int argc, char **argv, char **environment, const char *version);

void lh_flags_free(struct lh_flags_result *result);

/* The options were read again, into `fresh`, a result of a table with the same rows: says each that
 * has another value than `now`, and takes it over into now's settings if it is a live one. Whoever
 * calls makes it so. */
void lh_flags_refresh(struct lh_flags_result *now, const struct lh_flags_result *fresh,
    void (*say)(void *arg, const struct lh_flag_setting *was, const char *is), void *arg);

/* What all commands of one binary have in common. */
struct lh_flags_binary {
    const char *version;
    int usage_code; /* that it exits with when its options or arguments are wrong */
};

/* What a main() does with lh_flags_parse(): the environment is the process's, `args_min` and
 * `args_max` bound the number of positional arguments. True: go on, and lh_flags_free(result) at
 * the end, after the last use of a string. Otherwise the command is over and has said why:
 * `*exit_code` is what to return (0 after --help and --version) and nothing needs freeing. */
LH_MUST_USE bool lh_flags_accept(const struct lh_flags *flags, const struct lh_flags_binary *binary,
    int argc, char **argv, size_t args_min, size_t args_max, struct lh_flags_result *result,
    int *exit_code);

/* The text of --help, malloc'd. */
char *lh_flags_help(const struct lh_flags *flags);

/* The same in the form that --help=FORM asks for; NULL: there is none of that name. */
char *lh_flags_page(const struct lh_flags *flags, const char *form, const char *version);

/* A program of several commands, each with a table of its own. */
struct lh_flags_entry {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

struct lh_flags_program {
    const char *name, *title, *usage, *summary, *epilog; /* as in struct lh_flags */
    const struct lh_flags_entry *entries;
    size_t count;
};

/* Prints what --help=FORM of the program itself asks for: `man`, or `words`, its commands. False:
 * there is no such form, or a command failed. */
bool lh_flags_program_page(
    const struct lh_flags_program *program, const char *form, const char *version);

/* One value on its own. False: not one, nothing set. */
LH_MUST_USE bool lh_parse_size(const char *text, uint64_t *bytes);
LH_MUST_USE bool lh_parse_duration(const char *text, struct lh_duration *duration);
LH_MUST_USE bool lh_parse_uint(const char *text, uint64_t *value);
