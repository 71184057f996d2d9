/* `leasehold store init`: a cluster begins in etcd. `leasehold store copy`: metadata from one kind
 * of store into the other. The only command that works on masters' stores themselves. */
#include "client/command/command.h"

#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/progress.h"
#include "master/copy/copy.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#define COMMAND "store"

struct options {
    struct lh_etcd_options etcd;
    struct lh_tls_options tls;
    struct lh_duration timeout;
    bool even_if_moved, json;
    struct lh_progress progress;
};

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
    signalled = number;
}

/* The first one asks for an orderly end; a second one ends the process at once, which is safe. */
static void take_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static bool interrupted(void *arg)
{
    (void)arg;
    return signalled != 0;
}

static void say(void *arg, const char *text)
{
    (void)arg;
    (void)lh_command_error(0, COMMAND, "%s", text);
}

static void show(void *arg, const struct lh_store_copied *now)
{
    struct options *o = arg;

    if (!lh_progress_due(&o->progress))
        return;
    if (now->waiting)
        lh_progress_show(&o->progress,
            "%" PRIu64 " pair%s read; waiting until the last master's reign is over for certain",
            now->pairs, lh_plural(now->pairs));
    else if (now->to_etcd && !now->writing)
        lh_progress_show(&o->progress, "%" PRIu64 " pair%s read; waiting for etcd", now->total,
            lh_plural(now->total));
    else if (now->to_etcd)
        lh_progress_show(&o->progress, "%" PRIu64 " of %" PRIu64 " pair%s written to etcd",
            now->pairs, now->total, lh_plural(now->total));
    else if (now->writing)
        lh_progress_show(
            &o->progress, "writing %" PRIu64 " pair%s", now->pairs, lh_plural(now->pairs));
    else
        lh_progress_show(
            &o->progress, "%" PRIu64 " pair%s read", now->pairs, lh_plural(now->pairs));
}

static int exit_code(int error)
{
    switch (error) {
    case LH_ERR_INVALID_ARGUMENT:
        return LH_EXIT_USAGE;
    case LH_ERR_UNAVAILABLE:
        return LH_EXIT_UNAVAILABLE;
    case LH_ERR_DEADLINE_EXCEEDED:
        return LH_EXIT_UNKNOWN;
    case LH_ERR_SYSTEM:
    case LH_ERR_SHORTAGE:
    case LH_ERR_NO_MEMORY:
        return LH_EXIT_SYSTEM;
    case LH_ERR_IO:
    case LH_ERR_DISK_FULL:
        return LH_EXIT_IO;
    case LH_ERR_CANCELLED:
        return 128 + signalled;
    default:
        return LH_EXIT_FAILED;
    }
}

static void print(
    const struct options *o, const char *from, const char *to, const struct lh_store_copied *result)
{
    char bytes[32];

    if (o->json) {
        lh_command_print_json(json_pack("{s:o, s:o, s:I, s:I, s:I}", "from", lh_json_text(from),
            "to", lh_json_text(to), "pairs", (json_int_t)result->pairs, "bytes",
            (json_int_t)result->bytes, "reign", (json_int_t)result->reign));
        return;
    }
    (void)printf("%" PRIu64 " pair%s, %s, copied; no master starts on %s any more\n", result->pairs,
        lh_plural(result->pairs), lh_command_bytes(bytes, result->bytes), lh_command_shown(from));
    if (result->to_etcd)
        (void)printf(
            "next: start masters with --store=%s, each with a --master-id of its own; give "
            "their addresses to chunkservers and clients (--master)\n",
            lh_command_shown(to));
    else
        (void)printf("next: start one master with --store=%s; give its address to chunkservers and "
                     "clients (--master)\n",
            lh_command_shown(to));
}

static int copy(struct options *o, const char *from, const char *to)
{
    struct lh_store_copied result;
    char why[1200] = "";

    if (!lh_tls_options_take(&o->tls, why, sizeof why))
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "%s", why);
    const struct lh_store_copy wanted = {
        .from = from,
        .to = to,
        .etcd = &o->etcd,
        .tls = o->tls.files,
        .patience = o->timeout,
        .even_if_moved = o->even_if_moved,
        .say = say,
        .progress = show,
        .interrupted = interrupted,
        .arg = o,
    };
    take_signals();
    lh_progress_begin(&o->progress);
    int error = lh_store_copy(&wanted, &result, why, sizeof why);
    lh_etcd_options_free(&o->etcd);
    lh_tls_options_free(&o->tls);
    lh_progress_clear(&o->progress);
    if (error != LH_OK)
        return lh_command_error(
            exit_code(error), COMMAND, "%s", why[0] != '\0' ? why : lh_error_text(error));
    print(o, from, to, &result);
    if (fflush(stdout) != 0)
        return lh_command_error(LH_EXIT_IO, COMMAND, "cannot write to standard output");
    return LH_EXIT_OK;
}

static int init(struct options *o, const char *store)
{
    char why[1200] = "", cluster[LH_STORE_CLUSTER_BYTES];

    if (!lh_tls_options_take(&o->tls, why, sizeof why))
        return lh_command_error(LH_EXIT_USAGE, COMMAND, "%s", why);
    const struct lh_store_init wanted = {
        .store = store,
        .etcd = &o->etcd,
        .tls = o->tls.files,
        .patience = o->timeout,
        .interrupted = interrupted,
    };
    take_signals();
    int error = lh_store_init(&wanted, cluster, why, sizeof why);
    lh_etcd_options_free(&o->etcd);
    lh_tls_options_free(&o->tls);
    if (error != LH_OK)
        return lh_command_error(
            exit_code(error), COMMAND, "%s", why[0] != '\0' ? why : lh_error_text(error));
    if (o->json)
        lh_command_print_json(json_pack(
            "{s:o, s:o}", "store", lh_json_text(store), "cluster_id", lh_json_text(cluster)));
    else
        (void)printf("cluster %s begins in %s; masters that wait there go on\n", cluster,
            lh_command_shown(store));
    if (fflush(stdout) != 0)
        return lh_command_error(LH_EXIT_IO, COMMAND, "cannot write to standard output");
    return LH_EXIT_OK;
}

int lh_command_store(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        LH_ETCD_FLAGS(o.etcd),
        LH_TLS_FLAGS(o.tls),
        {LH_FLAG("timeout", DURATION, &o.timeout, "30s"), .min = 1000000,
            .help = "how long etcd may not answer"},
        {LH_FLAG("even-if-moved", BOOL, &o.even_if_moved, NULL), .command_line_only = true,
            .help = "copy also what says that its content went elsewhere before; only if no master "
                    "was started on that, or it is lost"},
        {LH_FLAG("json", BOOL, &o.json, NULL), .help = "print JSON"},
    };
    const struct lh_flags flags = {
        .command = "leasehold store",
        .usage = "init STORE | copy FROM TO [OPTION]...",
        .summary = "init: begins a cluster in etcd, where there is none; masters wait for that. "
                   "STORE is etcd:HOST:PORT,.../PREFIX, as in leasehold-master --store.\n"
                   "copy: copies a cluster's metadata from one kind of store into the other, while "
                   "no master runs. FROM and TO are lmdb:DIRECTORY and such a STORE. Afterwards no "
                   "master starts on FROM. If it is interrupted, the same copy can be run again.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    int code;

    if (!lh_command_parse(&flags, argc, argv, 2, 3, &args, &code))
        return code;
    if (strcmp(args.args[0], "copy") == 0 && args.arg_count == 3)
        code = copy(&o, args.args[1], args.args[2]);
    else if (strcmp(args.args[0], "init") == 0 && args.arg_count == 2)
        code = init(&o, args.args[1]);
    else
        code = lh_command_error(LH_EXIT_USAGE, COMMAND,
            "'store %s' with %zu arguments is no command: use 'store init STORE' or 'store copy "
            "FROM TO'",
            args.args[0], args.arg_count - 1);
    lh_flags_free(&args);
    return code;
}
