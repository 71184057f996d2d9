/* leasehold-master: the master's core with a real network, metadata store and clock around it. */
#include "master/master.h"
#include "master/metastore_lmdb.h"
#include "runtime/flags.h"
#include "runtime/log.h"
#include "runtime/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define VERSION   "0.1"
#define COMPONENT "master"

/* Exit codes (sysexits.h); the chunkserver has the same. docs/operations.md repeats this table. */
enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 64,       /* the command line, the environment or the config file is wrong */
    EXIT_UNAVAILABLE = 69, /* the address is in use or is not this machine's */
    EXIT_INTERNAL = 70,    /* the core stopped by itself; the log says why */
    EXIT_SYSTEM = 71,      /* the operating system refused something else */
    EXIT_DATA_DIR = 73,    /* the data directory is in use, not a master's, or of a newer format */
    EXIT_IO = 74,          /* reading or writing the data directory failed, or its disk is full */
    EXIT_CONFIG = 78,      /* each setting is well-formed, but they contradict each other */
};

/* How long SIGTERM waits for commits under way. */
#define STOP_SECONDS 10

struct options {
    const char *listen, *data_dir;
    struct lh_duration session_term, chunk_term, create_timeout;
    uint64_t drift_ppm, replication, min_replicas, chunk_size, network_threads;
    int log_level, log_format;
};

struct node {
    const struct options *options;
    struct lh_metastore *store;
    struct lh_master *core;
    struct lh_loop *loop;
    bool ready; /* the committing thread's */
};

static int exit_code_for(int error)
{
    switch (error) {
    case LH_ERR_ADDRESS_IN_USE:
    case LH_ERR_UNAVAILABLE:
        return EXIT_UNAVAILABLE;
    case LH_ERR_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case LH_ERR_IN_USE:
    case LH_ERR_NOT_FOUND:
    case LH_ERR_PERMISSION:
    case LH_ERR_WRONG_FORMAT:
    case LH_ERR_WRONG_IDENTITY:
    case LH_ERR_CORRUPT:
        return EXIT_DATA_DIR;
    case LH_ERR_IO:
    case LH_ERR_DISK_FULL:
        return EXIT_IO;
    default:
        return EXIT_SYSTEM;
    }
}

/* --- the loop's and the store's callbacks ------------------------------------------------- */

static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct node *node = arg;

    lh_metastore_commit(node->store, ticket, changes, count);
}

/* The address with the port that was picked if --listen leaves that open. */
static void listen_address(const struct node *node, char *text, size_t size)
{
    const char *listen = node->options->listen, *colon = strrchr(listen, ':');
    int port = lh_loop_port(node->loop);

    if (colon != NULL && port != 0)
        (void)snprintf(text, size, "%.*s:%d", (int)(colon - listen), listen, port);
    else
        (void)snprintf(text, size, "%s", listen);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *why)
{
    struct node *node = arg;

    if (error != LH_OK)
        lh_log(LH_ERROR, COMPONENT, "%s", why);
    lh_loop_persisted(node->loop, ticket, error);
    if (error == LH_OK && !node->ready) {
        /* The first commit is the new master term: from here on everybody is answered (LEASE-7). */
        char address[300];
        node->ready = true;
        lh_loop_set_serving(node->loop, true);
        listen_address(node, address, sizeof address);
        lh_log(LH_INFO, COMPONENT, "ready on %s, data in %s", address, node->options->data_dir);
    }
}

static int on_pair(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    struct node *node = arg;
    char text[512];
    int error = lh_master_load(node->core, key, key_size, value, value_size, text, sizeof text);

    if (error != LH_OK)
        lh_log(LH_ERROR, COMPONENT, "%s: %s", node->options->data_dir, text);
    return error;
}

/* Wakes serve(), which waits for signals; every thread has them blocked. */
static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
    (void)kill(getpid(), SIGUSR1);
}

/* --- running ------------------------------------------------------------------------------ */

/* SIGUSR1 is on_stopped()'s. */
static sigset_t stop_signals(void)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGUSR1);
    return signals;
}

/* Until a signal asks to stop, or the core stops by itself. */
static int serve(struct node *node)
{
    const sigset_t signals = stop_signals();
    int number = 0;

    while (sigwait(&signals, &number) != 0)
        continue;
    if (number == SIGUSR1) {
        int error = lh_loop_wait(node->loop, LH_DURATION_FOREVER);
        lh_log(LH_ERROR, COMPONENT, "stopped: %s", lh_error_text(error));
        return error == LH_OK ? EXIT_INTERNAL : exit_code_for(error);
    }
    lh_log(LH_INFO, COMPONENT, "%s: stopping", strsignal(number));
    /* A second signal ends the process at once. */
    (void)signal(SIGUSR1, SIG_IGN);
    (void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
    lh_loop_set_serving(node->loop, false);
    lh_loop_stop(node->loop);
    int error = lh_loop_wait(node->loop, lh_seconds(STOP_SECONDS));
    if (error == LH_ERR_DEADLINE_EXCEEDED) {
        /* A commit hangs, and with it everything that would be put away in order. What was answered
         * is durable; the rest never was promised. */
        lh_log(LH_ERROR, COMPONENT, "the metadata store has not finished within %d s; leaving",
            STOP_SECONDS);
        _exit(EXIT_IO);
    }
    if (error != LH_OK)
        lh_log(LH_ERROR, COMPONENT, "stopped: %s", lh_error_text(error));
    return error == LH_OK ? EXIT_DONE : exit_code_for(error);
}

static int run(struct node *node)
{
    const struct options *o = node->options;
    char why[512];
    int error =
        lh_metastore_lmdb_open(o->data_dir, 0, on_committed, node, &node->store, why, sizeof why);

    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "%s", why);
        return exit_code_for(error);
    }
    why[0] = 0;
    error = lh_metastore_load(node->store, on_pair, node, why, sizeof why);
    if (error != LH_OK) {
        if (why[0] != 0)
            lh_log(LH_ERROR, COMPONENT, "%s", why);
        return exit_code_for(error);
    }

    struct lh_loop_config loop = {
        .core = lh_master_core(node->core),
        .name = COMPONENT,
        .listen = o->listen,
        .threads = (unsigned)o->network_threads,
        .health_service = "leasehold.Master",
        .persist = persist,
        .store = node,
        .on_stopped = on_stopped,
        .arg = node,
    };
    error = lh_loop_create(&loop, &node->loop, why, sizeof why);
    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "%s", why);
        return exit_code_for(error);
    }
    lh_loop_start(node->loop);
    int code = serve(node);
    lh_log(LH_INFO, COMPONENT, "bye");
    return code;
}

static int open_and_run(const struct options *o)
{
    struct node node = {.options = o};
    struct lh_master_config config = lh_master_config_default();
    char why[512];

    config.session_term = o->session_term;
    config.chunk_term = o->chunk_term;
    config.create_timeout = o->create_timeout;
    config.drift_ppm = (uint32_t)o->drift_ppm;
    config.replication = (uint32_t)o->replication;
    config.min_replicas = (uint32_t)o->min_replicas;
    config.chunk_size = o->chunk_size;
    if (lh_master_config_check(&config, why, sizeof why) != LH_OK) {
        (void)fprintf(stderr, "leasehold-master: %s\n", why);
        return EXIT_CONFIG;
    }
    if (getrandom(&config.seed, sizeof config.seed, 0) != (ssize_t)sizeof config.seed) {
        lh_log(LH_ERROR, COMPONENT, "the operating system gives no random numbers");
        return EXIT_SYSTEM;
    }
    /* Blocked before there are other threads, which inherit it: serve() alone takes them. */
    const sigset_t signals = stop_signals();
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);

    node.core = lh_master_create(&config);
    int code = run(&node);
    /* The store first: it completes what is under way into the loop. */
    lh_metastore_close(node.store);
    lh_loop_destroy(node.loop);
    lh_master_destroy(node.core);
    return code;
}

/* --- options ------------------------------------------------------------------------------ */

static void raise_open_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const formats[] = {"text", "json", NULL};
    struct options o = {0};
    const struct lh_flag table[] = {
        {.name = "listen",
            .type = LH_FLAG_STRING,
            .value = &o.listen,
            .preset = "127.0.0.1:7400",
            .metavar = "ADDRESS",
            .help = "address to serve on"},
        {.name = "data-dir",
            .type = LH_FLAG_STRING,
            .value = &o.data_dir,
            .preset = "leasehold-master",
            .metavar = "DIRECTORY",
            .help = "where metadata is kept; created if missing"},
        {.name = "session-term",
            .type = LH_FLAG_DURATION,
            .value = &o.session_term,
            .preset = "10s",
            .min = LH_SESSION_TERM_MIN_NS,
            .max = LH_SESSION_TERM_MAX_NS,
            .help = "how long a chunkserver's session lives without a heartbeat"},
        {.name = "chunk-term",
            .type = LH_FLAG_DURATION,
            .value = &o.chunk_term,
            .preset = "60s",
            .min = LH_SESSION_TERM_MIN_NS,
            .max = 24 * LH_SESSION_TERM_MAX_NS,
            .help = "how long a primary that has nothing to do keeps its lease; at least the "
                    "session term"},
        {.name = "max-clock-drift-ppm",
            .type = LH_FLAG_UINT,
            .value = &o.drift_ppm,
            .preset = "10000",
            .max = 200000,
            .help = "how far the rate of any clock may be off, in parts per million"},
        {.name = "replication",
            .type = LH_FLAG_UINT,
            .value = &o.replication,
            .preset = "3",
            .min = 1,
            .max = LH_REPLICATION_MAX,
            .help = "replicas of a new chunk, for files that do not say"},
        {.name = "min-replicas",
            .type = LH_FLAG_UINT,
            .value = &o.min_replicas,
            .preset = "2",
            .min = 1,
            .max = LH_REPLICATION_MAX,
            .help = "replicas without which a chunk takes no appends, likewise"},
        {.name = "chunk-size",
            .type = LH_FLAG_SIZE,
            .value = &o.chunk_size,
            .preset = "64MiB",
            .min = LH_CHUNK_BYTES_MIN,
            .max = LH_CHUNK_BYTES_MAX,
            .help = "largest size of a chunk, likewise"},
        {.name = "create-timeout",
            .type = LH_FLAG_DURATION,
            .value = &o.create_timeout,
            .preset = "3s",
            .min = 10000000,
            .help = "a chunkserver that has not created a replica by then is replaced"},
        {.name = "network-threads",
            .type = LH_FLAG_UINT,
            .value = &o.network_threads,
            .preset = "1",
            .min = 1,
            .max = 64,
            .help = "threads that wait for the network"},
        {.name = "log-level",
            .type = LH_FLAG_ENUM,
            .value = &o.log_level,
            .preset = "info",
            .choices = levels,
            .help = "log what is at least this important"},
        {.name = "log-format",
            .type = LH_FLAG_ENUM,
            .value = &o.log_format,
            .preset = "text",
            .choices = formats,
            .help = "how log lines look"},
    };
    const struct lh_flags flags = {
        .command = "leasehold-master",
        .usage = "[OPTION]...",
        .summary = "Keeps the files' names, knows which chunkserver holds what, and grants the "
                   "leases under which they take appends.",
        .epilog = "SIGTERM or SIGINT: finish commits under way, exit.\n"
                  "Exit status: 0 done, 64 usage, 69 address in use, 70 internal, 71 system, 73 "
                  "data directory, 74 input or output, 78 settings that contradict each other.\n",
        .flags = table,
        .count = sizeof table / sizeof table[0],
    };
    extern char **environ;
    struct lh_flags_result args = lh_flags_parse(&flags, argc, argv, environ, VERSION);
    int code;

    if (args.outcome != LH_FLAGS_OK) {
        (void)fputs(args.text, args.outcome == LH_FLAGS_EXIT ? stdout : stderr);
        code = args.outcome == LH_FLAGS_EXIT ? EXIT_DONE : EXIT_USAGE;
    } else if (args.arg_count > 0) {
        (void)fprintf(stderr, "leasehold-master: unexpected argument '%s'\n", args.args[0]);
        code = EXIT_USAGE;
    } else {
        lh_log_setup((enum lh_level)o.log_level, o.log_format == 1);
        raise_open_files();
        code = open_and_run(&o);
    }
    lh_flags_free(&args);
    return code;
}
