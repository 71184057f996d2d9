/* leasehold-master: the master's core with a real network, metadata store and clock around it. */
#include "master/master.h"
#include "master/store/stores.h"
#include "runtime/flags.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/observe.h"
#include "runtime/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define COMPONENT "master"

/* How long SIGTERM waits for commits under way. */
#define STOP_SECONDS 10

struct options {
    struct lh_server_options server;
    const char *data_dir;
    struct lh_duration session_term, chunk_term, create_timeout, suspect_after;
    struct lh_duration trash_retention;
    uint64_t drift_ppm, replication, min_replicas, chunk_size;
    struct lh_duration grace;
    uint64_t repair_streams;
    bool restored;
    bool balance;
    int on_primary_loss; /* index in `losses` */
};

struct node {
    const struct options *options;
    struct lh_metastore *store;
    struct lh_master *core;
    struct lh_loop *loop;
    struct lh_observe *observe;
    bool ready; /* the committing thread's */
    atomic_bool starved;
};

/* --- the loop's and the store's callbacks ------------------------------------------------- */

static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct node *node = arg;

    lh_metastore_commit(node->store, ticket, changes, count);
}

/* The address with the port that was picked if --listen leaves that open. */
static void listen_address(const struct node *node, char *text, size_t size)
{
    const char *listen = node->options->server.listen, *colon = strrchr(listen, ':');
    int port = lh_loop_port(node->loop);

    if (colon != NULL && port != 0)
        (void)snprintf(text, size, "%.*s:%d", (int)(colon - listen), listen, port);
    else
        (void)snprintf(text, size, "%s", listen);
}

static void on_committed(void *arg, uint64_t ticket, int error, const char *why)
{
    struct node *node = arg;

    if (atomic_exchange(&node->starved, error == LH_ERR_SHORTAGE) && error == LH_OK)
        lh_log(LH_INFO, COMPONENT, "the metadata store can be written again");
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

/* --- figures ------------------------------------------------------------------------------ */

static void metrics(void *arg, struct lh_metrics *out)
{
    struct node *node = arg;

    lh_loop_lock(node->loop);
    lh_master_metrics(node->core, out);
    lh_loop_unlock(node->loop);
    lh_server_metrics(node->loop, out);
}

static bool ready(void *arg, char *why, size_t why_size)
{
    struct node *node = arg;

    lh_loop_lock(node->loop);
    bool is = lh_master_ready(node->core, why, why_size);
    lh_loop_unlock(node->loop);
    if (!is || !atomic_load(&node->starved))
        return is;
    (void)snprintf(why, why_size, "there is no room or no memory to write the metadata");
    return false;
}

static int observe(struct node *node, char *why, size_t why_size)
{
    const struct lh_observe_config config = {.listen = node->options->server.metrics_listen,
        .metrics = metrics,
        .ready = ready,
        .arg = node};

    return config.listen == NULL ? LH_OK : lh_observe_start(&config, &node->observe, why, why_size);
}

/* --- running ------------------------------------------------------------------------------ */

/* Until a signal asks to stop, or the core stops by itself. */
static int serve(struct node *node)
{
    const struct lh_server server = {
        .loop = node->loop,
        .component = COMPONENT,
        .on_signal = "stopping",
        .stop_timeout = lh_seconds(STOP_SECONDS),
        .options = &node->options->server,
    };
    int code, error;

    if (!lh_server_wait(&server, &code))
        return code;
    error = lh_server_stop(&server);
    if (error == LH_ERR_DEADLINE_EXCEEDED) {
        /* A commit hangs, and with it everything that would be put away in order. What was answered
         * is durable; the rest never was promised. */
        lh_log(LH_ERROR, COMPONENT, "the metadata store has not finished within %d s; leaving",
            STOP_SECONDS);
        _exit(LH_SERVER_IO);
    }
    if (error != LH_OK)
        lh_log(LH_ERROR, COMPONENT, "stopped: %s", lh_error_text(error));
    return error == LH_OK ? code : lh_server_exit_code(error);
}

static int run(struct node *node)
{
    const struct options *o = node->options;
    char why[512];
    int error =
        lh_metastore_open("lmdb", o->data_dir, on_committed, node, &node->store, why, sizeof why);

    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    why[0] = 0;
    error = lh_metastore_load(node->store, on_pair, node, why, sizeof why);
    if (error != LH_OK) {
        if (why[0] != 0)
            lh_log(LH_ERROR, COMPONENT, "%s", why);
        return lh_server_exit_code(error);
    }

    struct lh_loop_config loop = {
        .core = lh_master_core(node->core),
        .name = COMPONENT,
        .listen = o->server.listen,
        .threads = (unsigned)o->server.network_threads,
        .health_service = "leasehold.Master",
        .persist = persist,
        .store = node,
        .on_stopped = lh_server_on_stopped,
        .arg = node,
    };
    lh_server_limit_loop(&o->server, &loop);
    error = lh_loop_create(&loop, &node->loop, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    error = observe(node, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
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
    config.grace = o->grace;
    config.repair_streams = (uint32_t)o->repair_streams;
    config.trash_retention = o->trash_retention;
    config.restored = o->restored;
    config.balance = o->balance;
    config.on_primary_loss = o->on_primary_loss == 0 ? LH_LOSS_ROLL : LH_LOSS_WAIT;
    config.suspect_after = o->suspect_after;
    if (lh_master_config_check(&config, why, sizeof why) != LH_OK) {
        (void)fprintf(stderr, "leasehold-master: %s\n", why);
        return LH_SERVER_CONFIG;
    }
    if (getrandom(&config.seed, sizeof config.seed, 0) != (ssize_t)sizeof config.seed) {
        lh_log(LH_ERROR, COMPONENT, "the operating system gives no random numbers");
        return LH_SERVER_SYSTEM;
    }
    lh_server_block_signals();
    node.core = lh_master_create(&config);
    int code = run(&node);
    lh_observe_stop(node.observe);
    /* The store first: it completes what is under way into the loop. */
    lh_metastore_close(node.store);
    lh_loop_destroy(node.loop);
    lh_master_destroy(node.core);
    return code;
}

/* --- options ------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const char *const losses[] = {"roll", "wait", NULL};
    struct options o = {0};
    const struct lh_flag table[] = {
        LH_SERVER_LISTEN_FLAG(o.server, "127.0.0.1:7400"),
        {LH_FLAG("data-dir", STRING, &o.data_dir, "leasehold-master"), .metavar = "DIRECTORY",
            .help = "where metadata is kept; created if missing"},
        {LH_FLAG("session-term", DURATION, &o.session_term, "10s"), .min = LH_SESSION_TERM_MIN_NS,
            .max = LH_SESSION_TERM_MAX_NS,
            .help = "how long a chunkserver's session lives without a heartbeat"},
        {LH_FLAG("chunk-term", DURATION, &o.chunk_term, "60s"), .min = LH_SESSION_TERM_MIN_NS,
            .max = 24 * LH_SESSION_TERM_MAX_NS,
            .help = "how long a primary that has nothing to do keeps its lease; at least the "
                    "session term"},
        {LH_FLAG("max-clock-drift-ppm", UINT, &o.drift_ppm, "10000"), .max = 200000,
            .help = "how far the rate of any clock may be off, in parts per million"},
        {LH_FLAG("replication", UINT, &o.replication, "3"), .min = 1, .max = LH_REPLICATION_MAX,
            .help = "replicas of a new chunk, for files that do not say"},
        {LH_FLAG("min-replicas", UINT, &o.min_replicas, "2"), .min = 1, .max = LH_REPLICATION_MAX,
            .help = "replicas without which a chunk takes no appends, likewise"},
        {LH_FLAG("chunk-size", SIZE, &o.chunk_size, "64MiB"), .min = LH_CHUNK_BYTES_MIN,
            .max = LH_CHUNK_BYTES_MAX, .help = "largest size of a chunk, likewise"},
        {LH_FLAG("on-primary-loss", ENUM, &o.on_primary_loss, "roll"), .choices = losses,
            .help = "when the primary of a file's last chunk is lost: roll over to a new chunk, or "
                    "wait for its lease to run out; likewise"},
        {LH_FLAG("suspect-after", DURATION, &o.suspect_after, "300ms"), .min = 1000000,
            .help =
                "a primary that a client has lost is taken for lost if it does not show by then "
                "that it lives"},
        {LH_FLAG("create-timeout", DURATION, &o.create_timeout, "3s"), .min = 10000000,
            .help = "a chunkserver that has not created a replica by then is replaced"},
        {LH_FLAG("grace", DURATION, &o.grace, "5m"),
            .help = "what a chunkserver has is copied elsewhere once it has been away for this "
                    "long"},
        {LH_FLAG("repair-streams", UINT, &o.repair_streams, "2"), .max = LH_REPAIR_STREAMS_MAX,
            .help = "replicas that are copied to one chunkserver at a time; 0: none are"},
        {LH_FLAG("trash-retention", DURATION, &o.trash_retention, "24h"),
            .max = LH_TRASH_RETENTION_MAX_NS,
            .help = "a removed file can be restored for this long of a running master's time; 0: "
                    "it is gone at once"},
        {LH_FLAG("restored", BOOL, &o.restored, NULL),
            .help = "the data directory was restored from a backup: nothing is deleted until "
                    "`leasehold garbage --resume`; give it for the first start alone",
            .command_line_only = true},
        {LH_FLAG("balance", BOOL, &o.balance, "true"),
            .help = "move replicas and primaries, a few at a time, from chunkservers with more of "
                    "them to others"},
        LH_SERVER_NETWORK_FLAG(o.server),
        LH_SERVER_LIMIT_FLAGS(o.server),
        LH_SERVER_METRICS_FLAG(o.server),
        LH_SERVER_LOG_FLAGS(o.server),
    };
    const struct lh_flags flags = {
        .command = "leasehold-master",
        .usage = "[OPTION]...",
        .summary = "Keeps the files' names, knows which chunkserver holds what, and grants the "
                   "leases under which they take appends.",
        .epilog = "SIGTERM or SIGINT: finish commits under way, exit.\n"
                  "Exit status: 0 done, 64 usage, 69 address in use, 70 internal, 71 system, 73 "
                  "data directory, 74 input or output, 75 deaf, 78 settings that "
                  "contradict each other.\n",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    int code;

    if (!lh_server_parse(&flags, argc, argv, &args, &code))
        return code;
    uint64_t files = 0;
    if (lh_server_prepare(&o.server, COMPONENT, &files, &code))
        code = open_and_run(&o);
    lh_flags_free(&args);
    return code;
}
