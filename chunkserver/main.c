/* leasehold-chunkserver: the chunkserver's core with a real network, disk and clock around it. */
#include "base/alloc.h"
#include "chunkserver/chunkserver.h"
#include "chunkserver/data_dir.h"
#include "runtime/disk.h"
#include "runtime/flags.h"
#include "runtime/log.h"
#include "runtime/loop.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define VERSION   "0.1"
#define COMPONENT "chunkserver"

/* Exit codes (sysexits.h); the master has the same. docs/operations.md repeats this table. */
enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 64,       /* the command line, the environment or the config file is wrong */
    EXIT_UNAVAILABLE = 69, /* the address is in use or is not this machine's */
    EXIT_INTERNAL = 70,    /* the core stopped by itself; the log says why */
    EXIT_SYSTEM = 71,      /* the operating system refused something else */
    EXIT_DATA_DIR = 73,    /* the data directory is in use, another server's or of a newer format */
    EXIT_IO = 74,          /* reading or writing the data directory failed */
};

/* How often free space is measured and the health service updated. */
#define UPDATE_MS 500

struct options {
    const char *listen, *advertise, *data_dir, *server_id, *failure_domain;
    struct lh_flag_list masters;
    uint64_t capacity, disk_threads, network_threads, open_files, pending_bytes;
    struct lh_duration member_timeout, drain_timeout, stop_timeout;
    bool uring;
    int log_level, log_format;
};

struct node {
    const struct options *options;
    struct lh_data_dir *dir;
    struct lh_disk *disk;
    struct lh_chunkserver *core;
    struct lh_loop *loop;
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

/* --- who and where this machine is -------------------------------------------------------- */

/* The first line of a small file; empty when it cannot be read. */
static void read_line(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(text, (int)size, file) == NULL)
        text[0] = '\0';
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
}

/* The boot id's 16 bytes, from its 32 hexadecimal digits. */
static bool parse_boot_id(const char *text, uint8_t id[LH_BOOT_ID_BYTES])
{
    size_t digits = 0;
    for (; *text != '\0'; text++) {
        if (*text == '-')
            continue;
        if (!isxdigit((unsigned char)*text) || digits == 2 * LH_BOOT_ID_BYTES)
            return false;
        int c = tolower((unsigned char)*text);
        uint8_t value = (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 2 * LH_BOOT_ID_BYTES;
}

/* A bare container may have no machine id. What the boot id names is then machine enough: it only
 * has to tell whether a lock taken in the data directory proves anything (SES-5). */
static void machine_id(char *text, size_t size, const char *boot_id)
{
    read_line("/etc/machine-id", text, size);
    if (text[0] == '\0')
        (void)snprintf(text, size, "boot-%s", boot_id);
}

/* --- the loop's callbacks ----------------------------------------------------------------- */

static bool key_is(const struct lh_change *c, const char *key)
{
    return c->key_size == strlen(key) && memcmp(c->key, key, c->key_size) == 0;
}

/* The core persists two things: which cluster it belongs to, and the highest master's term. */
static int keep(struct lh_data_dir *dir, const struct lh_change *c, char *why, size_t why_size)
{
    char text[LH_IDENTITY_TEXT_MAX + 1];

    (void)snprintf(why, why_size, "cannot keep what the master sent as its cluster's id or term");
    if (c->value == NULL || c->value_size > LH_IDENTITY_TEXT_MAX)
        return LH_ERR_MALFORMED;
    memcpy(text, c->value, c->value_size);
    text[c->value_size] = '\0';
    if (key_is(c, LH_CLUSTER_ID_KEY))
        return lh_data_dir_join(dir, text, why, why_size);
    if (key_is(c, LH_MASTER_TERM_KEY))
        return lh_data_dir_note_master_term(dir, strtoull(text, NULL, 10), why, why_size);
    return LH_ERR_MALFORMED;
}

static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct node *node = arg;
    int error = LH_OK;
    for (size_t i = 0; i < count && error == LH_OK; i++) {
        char why[512];
        error = keep(node->dir, &changes[i], why, sizeof why);
        if (error != LH_OK)
            lh_log(LH_ERROR, COMPONENT, "%s", why);
    }
    lh_changes_free(changes, count);
    lh_loop_persisted(node->loop, ticket, error);
}

/* Wakes serve(), which waits for signals; every thread has them blocked. */
static void on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
    (void)kill(getpid(), SIGUSR1);
}

/* --- running ------------------------------------------------------------------------------ */

static void measure_space(const struct node *node, uint64_t *capacity, uint64_t *available)
{
    uint64_t limit = node->options->capacity, used;
    if (lh_disk_space(node->disk, capacity, available) != LH_OK) {
        *capacity = *available = 0;
        return;
    }
    if (limit == 0)
        return;
    used = lh_data_dir_used(node->dir);
    uint64_t left = limit > used ? limit - used : 0;
    *capacity = *capacity < limit ? *capacity : limit;
    *available = *available < left ? *available : left;
}

static void update(struct node *node)
{
    uint64_t capacity, available;
    measure_space(node, &capacity, &available);
    lh_loop_lock(node->loop);
    lh_chunkserver_set_space(node->core, capacity, available);
    bool serving = lh_chunkserver_in_session(node->core, lh_clock_now());
    lh_loop_unlock(node->loop);
    lh_loop_set_serving(node->loop, serving);
}

/* Until a signal asks to stop, or the core stops by itself. */
static int serve(struct node *node, const sigset_t *signals)
{
    const struct timespec interval = {.tv_nsec = UPDATE_MS * 1000000L};
    for (;;) {
        int signal_number = sigtimedwait(signals, NULL, &interval);
        if (signal_number == SIGUSR1) {
            int error = lh_loop_wait(node->loop, lh_nanoseconds(0));
            lh_log(LH_ERROR, COMPONENT, "stopped: %s", lh_error_text(error));
            return error == LH_OK ? EXIT_INTERNAL : exit_code_for(error);
        }
        if (signal_number > 0) {
            lh_log(
                LH_INFO, COMPONENT, "%s: releasing leases and stopping", strsignal(signal_number));
            break;
        }
        update(node);
    }
    /* A second signal ends the process at once. */
    (void)sigprocmask(SIG_UNBLOCK, signals, NULL);
    (void)signal(SIGUSR1, SIG_IGN);
    lh_loop_set_serving(node->loop, false);
    lh_loop_stop(node->loop);
    int error = lh_loop_wait(node->loop, node->options->stop_timeout);
    if (error == LH_ERR_DEADLINE_EXCEEDED) {
        lh_log(LH_WARN, COMPONENT,
            "not everything was released within the stop timeout; leases that are left run out");
        return EXIT_DONE;
    }
    return error == LH_OK ? EXIT_DONE : exit_code_for(error);
}

static int run(struct node *node)
{
    const struct options *o = node->options;
    const struct lh_identity *identity = lh_data_dir_identity(node->dir);
    char why[512], boot[64], machine[128];

    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    machine_id(machine, sizeof machine, boot);
    struct lh_disk_options disk_options = {
        .no_uring = !o->uring,
        .threads = (unsigned)o->disk_threads,
        .open_files_max = (unsigned)o->open_files,
    };
    int error = lh_disk_create(o->data_dir, &disk_options, &node->disk, why, sizeof why);
    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "%s", why);
        return exit_code_for(error);
    }
    uint64_t *chunks = NULL;
    struct lh_chunkserver_config config = {
        .server_id = identity->server_id,
        .address = o->advertise,
        .failure_domain = o->failure_domain,
        .machine_id = machine,
        .cluster_id = identity->cluster_id,
        .master_term = identity->master_term,
        .incarnation = identity->incarnation,
        .masters = o->masters.items,
        .master_count = o->masters.count,
        .member_timeout = o->member_timeout,
        .drain_timeout = o->drain_timeout,
        .pending_bytes_max = o->pending_bytes,
    };
    if (!parse_boot_id(boot, config.boot_id)) {
        lh_log(LH_ERROR, COMPONENT,
            "/proc/sys/kernel/random/boot_id has no boot id; is /proc mounted?");
        return EXIT_SYSTEM;
    }
    error = lh_disk_list(node->disk, &chunks, &config.chunk_count);
    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "cannot list the chunks in %s: %s", o->data_dir,
            lh_error_text(error));
        return exit_code_for(error);
    }
    config.chunks = chunks;
    measure_space(node, &config.capacity_bytes, &config.free_bytes);
    node->core = lh_chunkserver_create(&config);
    free(chunks);

    /* Blocked before there are other threads, so that serve() alone takes them. */
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);

    struct lh_loop_config loop = {
        .core = lh_chunkserver_core(node->core),
        .name = COMPONENT,
        .listen = o->listen,
        .threads = (unsigned)o->network_threads,
        .health_service = "leasehold.ChunkServer",
        .disk = node->disk,
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
    lh_log(LH_INFO, COMPONENT,
        "server %s incarnation %" PRIu64 " on %s, known as %s, data in %s (%zu chunks, %s)",
        identity->server_id, identity->incarnation, o->listen, o->advertise, o->data_dir,
        config.chunk_count, lh_disk_has_uring(node->disk) ? "io_uring" : "threads");
    lh_loop_start(node->loop);
    update(node);
    int code = serve(node, &signals);
    lh_log(LH_INFO, COMPONENT, "bye");
    return code;
}

static int open_and_run(struct options *o)
{
    struct node node = {.options = o};
    char why[512];
    int error = lh_data_dir_open(o->data_dir, o->server_id, &node.dir, why, sizeof why);
    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "%s", why);
        return exit_code_for(error);
    }
    int code = run(&node);
    lh_loop_destroy(node.loop);
    lh_disk_destroy(node.disk);
    if (node.core != NULL)
        lh_chunkserver_destroy(node.core);
    lh_data_dir_close(node.dir);
    return code;
}

/* --- options ------------------------------------------------------------------------------ */

/* What others can connect to when --advertise is not given; NULL: --listen does not say. */
static const char *advertised(const struct options *o)
{
    const char *colon = strrchr(o->listen, ':');
    bool any_host = strncmp(o->listen, "0.0.0.0:", 8) == 0 || strncmp(o->listen, "[::]:", 5) == 0;
    bool any_port = colon != NULL && strcmp(colon, ":0") == 0;
    if (o->advertise != NULL)
        return o->advertise;
    return any_host || any_port ? NULL : o->listen;
}

/* Chunk files, links and the directory's own; the hard limit is the operator's. */
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
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof host - 1);

    const struct lh_flag table[] = {
        {.name = "listen",
            .type = LH_FLAG_STRING,
            .value = &o.listen,
            .preset = "127.0.0.1:7500",
            .metavar = "ADDRESS",
            .help = "address to serve on"},
        {.name = "advertise",
            .type = LH_FLAG_STRING,
            .value = &o.advertise,
            .metavar = "ADDRESS",
            .help =
                "address that clients and other servers reach this one at; by default --listen"},
        {.name = "data-dir",
            .type = LH_FLAG_STRING,
            .value = &o.data_dir,
            .preset = "leasehold-chunkserver",
            .metavar = "DIRECTORY",
            .help = "where chunks are kept; created if missing"},
        {.name = "master",
            .type = LH_FLAG_LIST,
            .value = &o.masters,
            .preset = "127.0.0.1:7400",
            .metavar = "ADDRESS,...",
            .help = "the master's addresses"},
        {.name = "server-id",
            .type = LH_FLAG_STRING,
            .value = &o.server_id,
            .metavar = "NAME",
            .help = "this server's lasting name; by default the data directory's, or a random one"},
        {.name = "failure-domain",
            .type = LH_FLAG_STRING,
            .value = &o.failure_domain,
            .preset = host,
            .metavar = "NAME",
            .help = "what may fail together: replicas go to different ones where there are enough"},
        {.name = "capacity",
            .type = LH_FLAG_SIZE,
            .value = &o.capacity,
            .preset = "0",
            .help = "bytes to offer to the master; 0: the whole file system"},
        {.name = "member-timeout",
            .type = LH_FLAG_DURATION,
            .value = &o.member_timeout,
            .preset = "1s",
            .min = 10000000,
            .help = "as primary: report a member that makes no progress for so long"},
        {.name = "drain-timeout",
            .type = LH_FLAG_DURATION,
            .value = &o.drain_timeout,
            .preset = "2s",
            .min = 1000000,
            .help = "how long appends under way may take before a recalled lease is released"},
        {.name = "stop-timeout",
            .type = LH_FLAG_DURATION,
            .value = &o.stop_timeout,
            .preset = "10s",
            .min = 1000000,
            .help = "how long SIGTERM may take to drain and to release leases"},
        {.name = "pending-bytes",
            .type = LH_FLAG_SIZE,
            .value = &o.pending_bytes,
            .preset = "512MiB",
            .min = 1u << 20,
            .help = "uncommitted bytes held in memory before appenders are made to wait"},
        {.name = "disk-threads",
            .type = LH_FLAG_UINT,
            .value = &o.disk_threads,
            .preset = "4",
            .min = 1,
            .max = 256,
            .help = "threads for what blocks, and for all of the disk without io_uring"},
        {.name = "network-threads",
            .type = LH_FLAG_UINT,
            .value = &o.network_threads,
            .preset = "1",
            .min = 1,
            .max = 64,
            .help = "threads that wait for the network"},
        {.name = "open-files",
            .type = LH_FLAG_UINT,
            .value = &o.open_files,
            .preset = "1024",
            .min = 16,
            .max = 1000000,
            .help = "chunk files kept open"},
        {.name = "uring",
            .type = LH_FLAG_BOOL,
            .value = &o.uring,
            .preset = "true",
            .help = "use io_uring where the kernel lets us"},
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
        .command = "leasehold-chunkserver",
        .usage = "[OPTION]...",
        .summary =
            "Keeps replicas of chunks and, with a lease from the master, orders the appends to "
            "some of them.",
        .epilog =
            "SIGTERM or SIGINT: finish appends under way, release all leases, exit.\n"
            "Exit status: 0 done, 64 usage, 69 address in use, 70 internal, 71 system, 73 data "
            "directory, 74 input or output.\n",
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
        (void)fprintf(stderr, "leasehold-chunkserver: unexpected argument '%s'\n", args.args[0]);
        code = EXIT_USAGE;
    } else if (o.masters.count == 0) {
        (void)fputs("leasehold-chunkserver: --master names no address\n", stderr);
        code = EXIT_USAGE;
    } else if ((o.advertise = advertised(&o)) == NULL) {
        (void)fprintf(stderr,
            "leasehold-chunkserver: --listen %s is not where others can connect to; give "
            "--advertise "
            "too\n",
            o.listen);
        code = EXIT_USAGE;
    } else {
        lh_log_setup((enum lh_level)o.log_level, o.log_format == 1);
        raise_open_files();
        code = open_and_run(&o);
    }
    lh_flags_free(&args);
    return code;
}
