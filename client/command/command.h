/* The `leasehold` command: what its subcommands share.
 *
 * Each subcommand is one function, written on leasehold.h and leasehold_leases.h alone like any
 * other program; but for `store`, which works on masters' stores. Results go to stdout, everything
 * else to stderr. */
#pragma once

#include "base/error.h"

#include "client/library/leasehold.h"
#include "client/library/leasehold_leases.h"
#include "runtime/flags.h"
#include "runtime/tls_options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of `leasehold` (sysexits.h where one fits). docs/operations.md repeats this table. */
enum lh_exit {
    LH_EXIT_OK = 0,
    LH_EXIT_FAILED = 1,       /* answered, and the answer is no: not found, exists already, ... */
    LH_EXIT_DEGRADED = 1,     /* fsck: nothing is lost, but replicas are missing, stale or lost */
    LH_EXIT_DAMAGED = 2,      /* fsck: chunks that are lost, differ or cannot be read; salvage, and
                                 cat with --skip-damaged: something is damaged everywhere */
    LH_EXIT_USAGE = 64,       /* the command line is wrong */
    LH_EXIT_DATA = 65,        /* the input is no sequence of records: too long, cut off */
    LH_EXIT_NO_INPUT = 66,    /* an input file cannot be opened */
    LH_EXIT_UNAVAILABLE = 69, /* no master or no server of the chunk could be reached */
    LH_EXIT_SYSTEM = 71,      /* the operating system refused: no process, thread or socket */
    LH_EXIT_IO = 74,          /* reading the input or writing the output failed */
    LH_EXIT_UNKNOWN = 75,     /* the time ran out; what was not acknowledged may be stored or not */
    LH_EXIT_LOCK_LOST = 76,   /* the lock ended before the program that ran under it */
    LH_EXIT_CANNOT_RUN = 126, /* the program to be run, as a shell has it */
    LH_EXIT_NOT_FOUND = 127,  /* likewise: there is none of that name */
};

/* The options that every subcommand on a cluster has, its own behind the second. */
struct lh_command_common {
    struct lh_flag_list masters;
    struct lh_duration timeout;
    struct lh_tls_options tls;
    int transport; /* enum lh_transport_kind */
    bool json;
};

#define LH_COMMAND_REPLICATION_MAX 16u /* the master takes no more */

/* What describes a new file: `create`, and `append --create`. */
struct lh_command_file {
    int durability, on_primary_loss;
    uint64_t replication, min_replicas, chunk_size;
};
#define LH_COMMAND_FILE_FLAGS(f)                                                                   \
    {LH_FLAG("durability", ENUM, &(f).durability, "buffered"), .choices = lh_command_durabilities, \
        .help = "when a record counts as stored: in every member's memory, or on its disk"},       \
        {LH_FLAG("replication", UINT, &(f).replication, "0"), .max = LH_COMMAND_REPLICATION_MAX,   \
            .help = "servers that keep each record; 0: the master's default"},                     \
        {LH_FLAG("min-replicas", UINT, &(f).min_replicas, "0"), .max = LH_COMMAND_REPLICATION_MAX, \
            .help = "with fewer servers than this, no appends; 0: the master's default"},          \
        {LH_FLAG("on-primary-loss", ENUM, &(f).on_primary_loss, "default"),                        \
            .choices = lh_command_losses,                                                          \
            .help = "after the loss of a primary go on in a new chunk, or wait for its lease's "   \
                    "end; default: the master's"},                                                 \
    {                                                                                              \
        LH_FLAG("chunk-size", SIZE, &(f).chunk_size, "0"),                                         \
            .help = "bytes in a chunk, 64KiB to 1GiB; 0: the master's default"                     \
    }

extern const char *const lh_command_durabilities[];
extern const char *const lh_command_losses[]; /* by enum lh_on_primary_loss */
struct lh_file_options lh_command_file_options(const struct lh_command_file *f);
/* Says so on stderr if fewer chunkservers are live than a file that was just created asks for. */
void lh_command_warn_of_few_servers(
    const char *command, struct lh_cluster *cluster, uint32_t replication);

/* lh_flags_accept() of this binary. */
LH_MUST_USE bool lh_command_parse(const struct lh_flags *flags, int argc, char **argv,
    size_t args_min, size_t args_max, struct lh_flags_result *result, int *exit_code);

#define LH_COMMAND_FLAGS_MAX 16u

/* A subcommand that works on a cluster. */
struct lh_command {
    const char *usage, *summary; /* as in struct lh_flags */
    const struct lh_flag *flags; /* its own, at most LH_COMMAND_FLAGS_MAX */
    size_t count;
    bool no_json;              /* it has no --json */
    bool no_timeout;           /* --timeout has no default: 0 means without an end */
    bool no_waiting;           /* it does not say on stderr which server is waited for */
    size_t args_min, args_max; /* of positional arguments */

    void *options; /* what the flags set; begins with a struct lh_command_common */

    /* What the flags' table cannot check, before the cluster is opened; may be NULL. Returns
     * LH_EXIT_OK, or the exit code, having said why. */
    int (*check)(void *options);

    /* The work, likewise; `args` are the positional arguments, NULL behind the last. Need not look
     * at what becomes of its output: lh_command_run() does, at the end. */
    int (*run)(void *options, struct lh_cluster *cluster, const char **args);
};

/* Reads the options, checks them, opens the cluster that they name, has the work done and flushes
 * stdout. `argv[0]` is the subcommand's name. Returns the exit code. */
int lh_command_run(const struct lh_command *command, int argc, char **argv);

uint64_t lh_command_timeout_ms(const struct lh_command_common *common);

/* Ends the process as if by SIGPIPE, quietly as other tools, if nobody reads stdout any more: when
 * writing to it failed, or before waiting for what may never come. */
void lh_command_end_with_reader(void);

/* Prints "leasehold COMMAND: THING: what lh_last_error() says" and returns the exit code for
 * `error`. To be called right after the library's call; `thing` may be NULL. */
int lh_command_failed(const char *command, const char *thing, int error);

/* The same with a sentence that was kept. */
int lh_command_refused(const char *command, const char *thing, int error, const char *text);

/* Prints "leasehold COMMAND: ..." and returns `exit_code`. */
int lh_command_error(int exit_code, const char *command, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints `json` and a newline to stdout, and gives back the reference to it. NULL: nothing. */
void lh_command_print_json(json_t *json);

/* The same in one line. */
void lh_command_print_json_line(json_t *json);

/* "12.3 MB" into `text`. */
const char *lh_command_bytes(char text[32], uint64_t bytes);

/* "12.3 s", "4.5 min", "6.7 h", "8.9 days". */
const char *lh_command_duration(char text[32], uint64_t ms);

/* Wall-clock milliseconds as "2026-01-31 12:00:00" in UTC. */
const char *lh_command_time(char text[32], uint64_t unix_ms);

/* Somebody else's text, or a user's, as it can be shown on a terminal (base/text.h). This thread's
 * next seven calls leave it alone. */
const char *lh_command_shown(const char *text);

/* `text`, or "-" if it is empty. */
const char *lh_command_or_dash(const char *text);

/* "active", "draining", "decommissioning". */
const char *lh_command_server_admin(enum lh_server_admin admin);

/* "live", "away", "disk read-only", "disk failing", "unreachable", "unheard". */
const char *lh_command_server_state(const struct lh_server_info *s);

/* A clock for progress and pauses. */
uint64_t lh_command_now_ms(void);

/* Returns after so many milliseconds, whatever signals came. */
void lh_command_pause(uint64_t ms);

/* "4711:12" and back. */
const char *lh_command_position(char text[48], struct lh_position position);
bool lh_command_parse_position(const char *text, struct lh_position *position);

/* The token of the lock of that name, if this process runs under `leasehold lock`, which says so
 * in the environment; else 0. */
uint64_t lh_command_token_of(const char *lock);

/* One byte: itself, or \n \t \r \0 \\ \xHH. */
bool lh_command_parse_delimiter(const char *text, uint8_t *delimiter);

/* The subcommands: `argv[0]` is the subcommand's name; they return the exit code. */
int lh_command_create(int argc, char **argv);
int lh_command_append(int argc, char **argv);
int lh_command_cat(int argc, char **argv);
int lh_command_tail(int argc, char **argv);
int lh_command_ls(int argc, char **argv);
int lh_command_stat(int argc, char **argv);
int lh_command_mv(int argc, char **argv);
int lh_command_rm(int argc, char **argv);
int lh_command_trash(int argc, char **argv);
int lh_command_restore(int argc, char **argv);
int lh_command_leases(int argc, char **argv);
int lh_command_servers(int argc, char **argv);
int lh_command_masters(int argc, char **argv);
int lh_command_top(int argc, char **argv);
int lh_command_drain(int argc, char **argv);
int lh_command_undrain(int argc, char **argv);
int lh_command_decommission(int argc, char **argv);
int lh_command_explain(int argc, char **argv);
int lh_command_fsck(int argc, char **argv);
int lh_command_salvage(int argc, char **argv);
int lh_command_garbage(int argc, char **argv);
int lh_command_recall(int argc, char **argv);
int lh_command_lock(int argc, char **argv);
int lh_command_holders(int argc, char **argv);
int lh_command_cancel(int argc, char **argv);
int lh_command_sessions(int argc, char **argv);
int lh_command_get(int argc, char **argv);
int lh_command_put(int argc, char **argv);
int lh_command_del(int argc, char **argv);
int lh_command_watch(int argc, char **argv);
int lh_command_register(int argc, char **argv);
int lh_command_policy(int argc, char **argv);
int lh_command_store(int argc, char **argv);
int lh_command_certs(int argc, char **argv);
int lh_command_local(int argc, char **argv);
int lh_command_completion(int argc, char **argv);
