/* `leasehold local`: a whole cluster on this machine, for trying things out and for tests.
 *
 * A server that dies is reported and left dead: what the others do then is what a user of `local`
 * may want to see. At the end chunkservers are stopped first (they release their leases to the
 * master), then the masters (the active one resigns, which it tells etcd), etcd last. */
#include "client/command/command.h"

#include "base/alloc.h"
#include "client/command/child.h"
#include "client/command/local_etcd.h"
#include "client/command/local_ports.h"
#include "client/command/local_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COMMAND          "local"
#define CHUNKSERVERS_MAX 64u
#define MASTERS_MAX      9u
#define STOP_SECONDS     15

/* The master's own default, too many for a smaller cluster. */
#define REPLICATION_DEFAULT 3u

struct options {
    struct lh_duration timeout;
    uint64_t chunkservers, masters, etcd, port;
    bool tls;
    const char *dir, *session_term, *chunk_term, *replication, *min_replicas, *log_level,
        *log_format;
};

struct cluster {
    const struct options *options;
    char *dir;
    bool dir_is_temporary;
    struct lh_child children[LH_LOCAL_ETCD_MAX + MASTERS_MAX + CHUNKSERVERS_MAX];
    size_t count;
    size_t etcd, masters; /* etcd's members first, if any, then so many masters */
    char *addresses;      /* of the masters, with commas */
    char *tls_dir;        /* what clients show; NULL: without TLS */
    sigset_t signals;     /* that take_signal() takes */
    bool stop;            /* one of them asked for it */
};

static char *path_in(const char *dir, const char *name, const char *suffix)
{
    size_t size = strlen(dir) + strlen(name) + strlen(suffix) + 2;
    char *path = lh_alloc(size);
    (void)snprintf(path, size, "%s/%s%s", dir, name, suffix);
    return path;
}

/* --- starting ----------------------------------------------------------------------------- */

static struct lh_child *add(
    struct cluster *cluster, const char *name, const char *program, uint64_t port)
{
    const struct options *o = cluster->options;
    struct lh_child *c = &cluster->children[cluster->count++];
    char *log = path_in(cluster->dir, name, ".log");
    lh_child_init(c, name, program, log);
    (void)snprintf(c->address, sizeof c->address, "127.0.0.1:%" PRIu64, port);
    lh_child_argument(c, "listen", c->address);
    lh_child_argument(c, "log-level", o->log_level);
    lh_child_argument(c, "log-format", o->log_format);
    free(log);
    return c;
}

/* Its certificate. False: there is none, which was said. */
static bool add_tls(const struct cluster *cluster, struct lh_child *c, const char *role)
{
    if (!cluster->options->tls)
        return true;
    char *folder = lh_local_tls_issue(cluster->dir, role, c->name);
    bool made = folder != NULL;
    lh_child_argument(c, "tls-dir", folder);
    free(folder);
    return made;
}

static void add_data_dir(const struct cluster *cluster, struct lh_child *c)
{
    char *data = path_in(cluster->dir, c->name, "");
    lh_child_argument(c, "data-dir", data);
    free(data);
}

static bool describe_master(struct cluster *cluster, uint64_t number, const char *store)
{
    const struct options *o = cluster->options;
    char name[32] = "master";
    if (store != NULL)
        (void)snprintf(name, sizeof name, "m%" PRIu64, number);
    struct lh_child *c = add(cluster, name, "leasehold-master", o->port + number - 1);
    char page[32];
    cluster->masters++;
    lh_local_page(cluster->options->port, number, page);
    lh_child_argument(c, "http-listen", page);
    if (store == NULL)
        add_data_dir(cluster, c);
    else
        lh_child_argument(c, "master-id", name);
    lh_child_argument(c, "store", store);
    lh_child_argument(c, "session-term", o->session_term);
    lh_child_argument(c, "chunk-term", o->chunk_term);
    /* A small cluster's files have as many replicas as it can give them. */
    char replicas[32];
    (void)snprintf(replicas, sizeof replicas, "%" PRIu64, o->chunkservers);
    bool few = o->replication == NULL && o->chunkservers < REPLICATION_DEFAULT;
    lh_child_argument(c, "replication", few ? replicas : o->replication);
    lh_child_argument(
        c, "min-replicas", o->min_replicas == NULL && o->chunkservers == 1 ? "1" : o->min_replicas);
    return add_tls(cluster, c, "master");
}

static bool describe_masters(struct cluster *cluster)
{
    const struct options *o = cluster->options;
    char *store = NULL;
    if (o->masters > 1) {
        lh_local_etcd_prepare_environment();
        if (!lh_local_etcd_describe(cluster->children, o->etcd, cluster->dir, o->port, o->tls))
            return false;
        cluster->count = cluster->etcd = o->etcd;
        store = lh_local_etcd_store(cluster->children, o->etcd);
    }
    bool good = true;
    for (uint64_t i = 1; i <= o->masters; i++)
        good = describe_master(cluster, i, store) && good;
    free(store);

    size_t size = 1, n = 0;
    for (size_t i = cluster->etcd; i < cluster->count; i++)
        size += strlen(cluster->children[i].address) + 1;
    cluster->addresses = lh_alloc(size);
    for (size_t i = cluster->etcd; i < cluster->count; i++)
        n += (size_t)snprintf(cluster->addresses + n, size - n, "%s%s", n > 0 ? "," : "",
            cluster->children[i].address);
    return good;
}

static bool describe_chunkservers(struct cluster *cluster)
{
    const struct options *o = cluster->options;
    for (uint64_t i = 1; i <= o->chunkservers; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "cs%" PRIu64, i);
        struct lh_child *c = add(cluster, name, "leasehold-chunkserver", o->port + 100 + i);
        add_data_dir(cluster, c);
        lh_child_argument(c, "server-id", name);
        lh_child_argument(c, "master", cluster->addresses);
        if (!add_tls(cluster, c, "chunkserver"))
            return false;
    }
    return true;
}

/* What the environment says of TLS is for other clusters. The command's own certificate is in
 * `cluster->tls_dir`. */
static bool prepare_tls(struct cluster *cluster)
{
    static const char *const variables[] = {"LEASEHOLD_TLS_DIR", "LEASEHOLD_TLS_CA",
        "LEASEHOLD_TLS_CERT", "LEASEHOLD_TLS_KEY", "LEASEHOLD_INSECURE"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)unsetenv(variables[i]);
    if (!cluster->options->tls)
        return true;
    if (lh_local_tls_begin(cluster->dir))
        cluster->tls_dir = lh_local_tls_issue(cluster->dir, "admin", "local");
    return cluster->tls_dir != NULL;
}

static int check_addresses(const struct cluster *cluster)
{
    int code = LH_EXIT_OK;
    for (size_t i = 0; i < cluster->count && code == LH_EXIT_OK; i++)
        code = lh_local_check_address(cluster->children[i].address);
    for (size_t i = 1; i <= cluster->masters && code == LH_EXIT_OK; i++) {
        char page[32];
        lh_local_page(cluster->options->port, i, page);
        code = lh_local_check_address(page);
    }
    return code;
}

static int start_all(struct cluster *cluster)
{
    int code = lh_local_etcd_check(
        cluster->dir, cluster->options->masters, cluster->options->etcd, cluster->options->port);
    if (code != LH_EXIT_OK)
        return code;
    if (!prepare_tls(cluster) || !describe_masters(cluster) || !describe_chunkservers(cluster))
        return LH_EXIT_SYSTEM;
    code = check_addresses(cluster);
    if (code != LH_EXIT_OK)
        return code;
    const struct options *o = cluster->options;
    if (cluster->etcd > 0 && !lh_local_etcd_note(cluster->dir, o->etcd, o->port))
        return LH_EXIT_SYSTEM;
    for (size_t i = 0; i < cluster->count; i++) {
        if (!lh_child_start(&cluster->children[i]))
            return LH_EXIT_SYSTEM;
    }
    return LH_EXIT_OK;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* Waits up to `ms` for a signal. True when a child has ended; it was reported to `report`. */
static bool take_signal(struct cluster *cluster, long ms, FILE *report)
{
    struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int signal_number = sigtimedwait(&cluster->signals, NULL, &timeout);
    if (signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP)
        cluster->stop = true;
    /* Children that end together are one pending signal, so each time all are looked at. */
    return lh_children_reap(cluster->children, cluster->count, report);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Every master is the active one, or could take over from it. */
static bool masters_are_ready(const struct cluster *cluster, struct lh_cluster *client)
{
    struct lh_master_list list = {0};
    size_t ready = 0;
    if (cluster->masters == 1)
        return true; /* it has answered */
    int error = lh_masters(client, 500, &list);
    for (size_t i = 0; i < list.count; i++)
        ready += list.masters[i].acting || strcmp(list.masters[i].state, "STANDBY") == 0;
    lh_master_list_deinit(&list);
    return error == LH_OK && ready == cluster->masters;
}

/* Prints what the cluster is once the master has heard of every chunkserver, and is heard by it. */
static bool is_ready(const struct cluster *cluster, struct lh_cluster *client)
{
    struct lh_server_list list = {0};
    size_t ready = 0;
    if (lh_servers(client, 500, &list) != LH_OK)
        return false;
    for (size_t i = 0; i < list.count; i++)
        ready += list.servers[i].live && list.servers[i].reachable;
    bool all = ready >= cluster->options->chunkservers && masters_are_ready(cluster, client);
    if (all) {
        (void)printf("cluster %s, session term %.1f s, chunk lease term %.1f s, data in %s%s\n",
            list.cluster_id, (double)list.session_term_ms / 1000, (double)list.chunk_term_ms / 1000,
            cluster->dir, cluster->dir_is_temporary ? " (removed at the end)" : "");
        for (size_t i = 0; i < cluster->count; i++) {
            const struct lh_child *c = &cluster->children[i];
            (void)printf(
                "  %-6s %-15s pid %-7d log %s\n", c->name, c->address, (int)c->pid, c->log);
        }
        for (size_t i = 1; i <= cluster->masters; i++) {
            char page[32];
            lh_local_page(cluster->options->port, i, page);
            (void)printf("%s http%s://%s/", i == 1 ? "  page" : ",",
                cluster->tls_dir != NULL ? "s" : "", page);
        }
        (void)printf("\n");
        if (cluster->tls_dir != NULL)
            (void)printf("for the command: export LEASEHOLD_TLS_DIR=%s\n", cluster->tls_dir);
        (void)printf("ready at %s; Ctrl-C stops it\n", cluster->addresses);
        (void)fflush(stdout);
    }
    lh_server_list_deinit(&list);
    return all;
}

/* Why the cluster is not ready. */
static int explain(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        const struct lh_child *c = &cluster->children[i];
        if (c->pid != 0)
            continue;
        int code = lh_command_error(
            LH_EXIT_FAILED, COMMAND, "%s did not come up; the end of %s:", c->name, c->log);
        lh_child_print_log(c);
        return code;
    }
    return lh_command_error(LH_EXIT_UNAVAILABLE, COMMAND,
        "the cluster is not ready after %.1f s; see the logs in %s",
        (double)lh_duration_ms(cluster->options->timeout) / 1000, cluster->dir);
}

/* A child has ended, or somebody wants all to stop. */
static bool is_over(void *arg)
{
    struct cluster *cluster = arg;

    return take_signal(cluster, 0, NULL) || cluster->stop;
}

static int begin_cluster(struct cluster *cluster)
{
    if (cluster->etcd == 0)
        return LH_EXIT_OK;
    int error = lh_local_etcd_begin(cluster->children, cluster->etcd, cluster->tls_dir,
        cluster->options->timeout, is_over, cluster);
    if (error == LH_OK)
        return LH_EXIT_OK;
    if (cluster->stop)
        return LH_EXIT_FAILED;
    cluster->dir_is_temporary = false; /* its logs are wanted */
    return error == LH_ERR_CANCELLED ? explain(cluster) : LH_EXIT_UNAVAILABLE;
}

static int wait_until_ready(struct cluster *cluster)
{
    const struct lh_cluster_options options = {.tls_dir = cluster->tls_dir};
    struct lh_cluster *client;
    int error = lh_cluster_open(cluster->addresses, &options, &client);
    if (error != LH_OK)
        return lh_command_failed(COMMAND, NULL, error);

    bool ready = false, died = false;
    uint64_t until_ms = now_ms() + lh_duration_ms(cluster->options->timeout);
    while (!ready && !died && !cluster->stop && now_ms() < until_ms) {
        ready = is_ready(cluster, client);
        died = !ready && take_signal(cluster, 50, NULL);
    }
    lh_cluster_close(client);
    if (ready)
        return LH_EXIT_OK;
    if (cluster->stop)
        return LH_EXIT_FAILED;
    cluster->dir_is_temporary = false; /* its logs are wanted */
    return explain(cluster);
}

/* --- stopping ----------------------------------------------------------------------------- */

static void stop(struct cluster *cluster, struct lh_child *children, size_t count)
{
    lh_children_signal(children, count, SIGTERM);
    for (uint64_t until_ms = now_ms() + STOP_SECONDS * 1000;
         lh_children_running(children, count) && now_ms() < until_ms;)
        (void)take_signal(cluster, 100, NULL);
    if (!lh_children_running(children, count))
        return;
    (void)lh_command_error(
        0, COMMAND, "not everything stopped within %d s: killing it", STOP_SECONDS);
    lh_children_signal(children, count, SIGKILL);
    while (lh_children_running(children, count))
        (void)take_signal(cluster, 100, NULL);
}

static int run(struct cluster *cluster)
{
    /* Blocked before any thread starts, so that take_signal() alone gets them. */
    (void)sigemptyset(&cluster->signals);
    (void)sigaddset(&cluster->signals, SIGINT);
    (void)sigaddset(&cluster->signals, SIGTERM);
    (void)sigaddset(&cluster->signals, SIGHUP);
    (void)sigaddset(&cluster->signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &cluster->signals, NULL);

    int code = start_all(cluster);
    if (code == LH_EXIT_OK)
        code = begin_cluster(cluster);
    if (code == LH_EXIT_OK)
        code = wait_until_ready(cluster);
    if (code == LH_EXIT_OK) {
        while (!cluster->stop)
            (void)take_signal(cluster, 1000, stdout);
        (void)puts("stopping");
        (void)fflush(stdout);
    }
    size_t servers = cluster->etcd + cluster->masters;
    stop(cluster, cluster->children + servers, cluster->count - servers);
    stop(cluster, cluster->children + cluster->etcd, cluster->masters);
    stop(cluster, cluster->children, cluster->etcd);
    return code;
}

/* --- the directory ------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    return remove(path);
}

static int prepare_dir(struct cluster *cluster)
{
    const char *dir = cluster->options->dir;
    if (dir == NULL) {
        const char *base = getenv("TMPDIR");
        cluster->dir = path_in(base != NULL ? base : "/tmp", "leasehold-local", ".XXXXXX");
        cluster->dir_is_temporary = true;
        if (mkdtemp(cluster->dir) == NULL)
            return lh_command_error(
                LH_EXIT_SYSTEM, COMMAND, "cannot create %s: %s", cluster->dir, strerror(errno));
        return LH_EXIT_OK;
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "cannot create %s: %s", dir, strerror(errno));
    /* Absolute, so that the command lines printed for a dead server work anywhere. */
    cluster->dir = realpath(dir, NULL);
    if (cluster->dir == NULL)
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND, "%s: %s", dir, strerror(errno));
    return LH_EXIT_OK;
}

static void deinit(struct cluster *cluster)
{
    if (cluster->dir_is_temporary && cluster->dir != NULL)
        (void)nftw(cluster->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < cluster->count; i++)
        lh_child_deinit(&cluster->children[i]);
    free(cluster->addresses);
    free(cluster->tls_dir);
    free(cluster->dir);
    free(cluster);
}

int lh_command_local(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("chunkservers", UINT, &o.chunkservers, "3"), .min = 1, .max = CHUNKSERVERS_MAX,
            .help = "how many chunkservers to run"},
        {LH_FLAG("masters", UINT, &o.masters, "1"), .min = 1, .max = MASTERS_MAX,
            .help = "how many masters to run; several of them keep their metadata in an etcd that "
                    "is run, too"},
        {LH_FLAG("etcd", UINT, &o.etcd, "1"), .min = 1, .max = LH_LOCAL_ETCD_MAX,
            .help = "with several masters: members of etcd; it works while most of them do"},
        {LH_FLAG("dir", STRING, &o.dir, NULL), .metavar = "DIRECTORY",
            .help = "keep data and logs there; without it, in a temporary directory that is "
                    "removed at the end"},
        {LH_FLAG("port", UINT, &o.port, "7400"), .min = 1,
            .max = 65535 - LH_LOCAL_ETCD_PEER - LH_LOCAL_ETCD_MAX,
            .help =
                "the first master's port; other masters' are 1, 2, ... higher, the "
                "chunkservers' 101, 102, ..., etcd's 201, ... and 301, ...; the masters' pages 80, "
                "81, ..."},
        {LH_FLAG("tls", BOOL, &o.tls, NULL),
            .help = "with TLS: an authority and certificates are made in the directory"},
        {LH_FLAG("session-term", STRING, &o.session_term, NULL), .metavar = "DURATION",
            .help = "how long a chunkserver's session lives without a heartbeat"},
        {LH_FLAG("chunk-term", STRING, &o.chunk_term, NULL), .metavar = "DURATION",
            .help = "how long a chunk's lease lasts without an extension"},
        {LH_FLAG("replication", STRING, &o.replication, NULL), .metavar = "N",
            .help = "servers that keep each record of a new file; by default 3, or all there are"},
        {LH_FLAG("min-replicas", STRING, &o.min_replicas, NULL), .metavar = "N",
            .help = "with fewer servers than this, a new file takes no appends"},
        {LH_FLAG("log-level", STRING, &o.log_level, NULL), .metavar = "LEVEL",
            .help = "of the servers: debug, info, warn, error"},
        {LH_FLAG("log-format", STRING, &o.log_format, NULL), .metavar = "FORMAT",
            .help = "of the servers: text, json"},
        {LH_FLAG("timeout", DURATION, &o.timeout, "30s"), .min = 1000000,
            .help = "how long the servers may take to come up"},
    };
    const struct lh_flags flags = {
        .command = "leasehold local",
        .usage = "[OPTION]...",
        .summary = "Runs a master, or several on an etcd, and chunkservers on this machine until "
                   "Ctrl-C. What dies is\nreported, not restarted.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    int code;
    if (!lh_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    struct cluster *cluster = lh_alloc(sizeof *cluster);
    cluster->options = &o;
    code = prepare_dir(cluster);
    if (code == LH_EXIT_OK)
        code = run(cluster);
    deinit(cluster);
    lh_flags_free(&args);
    return code;
}
