/* `leasehold`: what the subcommands share: options, running, messages. */
#include "client/command/command.h"
#include "client/command/json.h"

#include "base/assert.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/text.h"
#include "base/version.h"
#include "runtime/transports.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2000u /* at the servers, once what was asked for is done */

/* --- options ------------------------------------------------------------------------------ */

const char *const lh_command_durabilities[] = {"buffered", "synced", NULL};
const char *const lh_command_losses[] = {"default", "roll", "wait", NULL};

struct lh_file_options lh_command_file_options(const struct lh_command_file *f)
{
    return (struct lh_file_options){
        .durability = f->durability == 1 ? LH_SYNCED : LH_BUFFERED,
        .replication = (uint32_t)f->replication,
        .min_replicas = (uint32_t)f->min_replicas,
        .chunk_size = f->chunk_size,
        .on_primary_loss = (enum lh_on_primary_loss)f->on_primary_loss,
    };
}

void lh_command_warn_of_few_servers(
    const char *command, struct lh_cluster *cluster, uint32_t replication)
{
    struct lh_server_list list;
    size_t live = 0;

    /* Who may not list them is told by nobody. */
    if (replication == 0 || lh_servers(cluster, LOOK_MS, &list) != LH_OK)
        return;
    for (size_t i = 0; i < list.count; i++)
        live += list.servers[i].live;
    if (live < replication)
        (void)lh_command_error(0, command,
            "%" PRIu32
            " replicas are asked for, and %zu chunkserver%s %s live: the others are made "
            "when there are more",
            replication, live, lh_plural(live), lh_one_or_many(live, "is", "are"));
    lh_server_list_deinit(&list);
}

bool lh_command_parse(const struct lh_flags *flags, int argc, char **argv, size_t args_min,
    size_t args_max, struct lh_flags_result *result, int *exit_code)
{
    static const struct lh_flags_binary binary = {LH_VERSION, LH_EXIT_USAGE};

    return lh_flags_accept(flags, &binary, argc, argv, args_min, args_max, result, exit_code);
}

uint64_t lh_command_timeout_ms(const struct lh_command_common *common)
{
    return lh_duration_ms(common->timeout);
}

/* In any thread: several may wait for the same server. */
static void tell_who_is_waited_for(void *arg, const char *text)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char last[256];

    (void)pthread_mutex_lock(&mutex);
    if (strcmp(last, text) != 0) {
        (void)snprintf(last, sizeof last, "%s", text);
        /* A line of progress may stand there. */
        lh_say("%sleasehold %s: %s; trying on, see --timeout\n",
            isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", (const char *)arg,
            lh_command_shown(text));
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* ---- With --json there is a document, also about a failure. */

static bool json_printed;
/* What was said last, in this thread. */
static _Thread_local struct {
    const char *error;
    char text[1024];
} failure;

static void note_failure(const char *error, const char *text)
{
    failure.error = error;
    (void)snprintf(failure.text, sizeof failure.text, "%s", text);
}

/* The error's name where only the exit status is known. */
static const char *error_of(int exit_code)
{
    switch (exit_code) {
    case LH_EXIT_USAGE:
        return lh_error_name(LH_ERR_INVALID_ARGUMENT);
    case LH_EXIT_UNAVAILABLE:
        return lh_error_name(LH_ERR_UNAVAILABLE);
    case LH_EXIT_SYSTEM:
        return lh_error_name(LH_ERR_SYSTEM);
    case LH_EXIT_NO_INPUT:
    case LH_EXIT_IO:
        return lh_error_name(LH_ERR_IO);
    case LH_EXIT_UNKNOWN:
        return lh_error_name(LH_ERR_DEADLINE_EXCEEDED);
    default:
        return "";
    }
}

/* A document of what was done before something failed has what failed, too. */
static void add_failure(json_t *json)
{
    if (failure.error == NULL || !json_is_object(json) || json_object_get(json, "error") != NULL)
        return;
    (void)json_object_set_new(json, "error", json_string(failure.error));
    (void)json_object_set_new(json, "text", lh_json_text(failure.text));
}

/* Opens the cluster that the options name; on failure prints why. */
static bool open_cluster(const char *command, const struct lh_command_common *common, bool quiet,
    struct lh_cluster **cluster, int *exit_code)
{
    size_t size = 1;
    for (size_t i = 0; i < common->masters.count; i++)
        size += strlen(common->masters.items[i]) + 1;
    char *masters = calloc(1, size);
    if (masters == NULL) {
        *exit_code = lh_command_error(LH_EXIT_SYSTEM, command, "out of memory");
        return false;
    }
    for (size_t i = 0; i < common->masters.count; i++) {
        (void)strcat(masters, i > 0 ? "," : "");
        (void)strcat(masters, common->masters.items[i]);
    }
    struct lh_cluster_options options = {
        .on_waiting = quiet ? NULL : tell_who_is_waited_for,
        .on_waiting_arg = (void *)(uintptr_t)command,
        .tls_dir = common->tls.dir,
        .tls_ca = common->tls.files.ca_file,
        .tls_cert = common->tls.files.cert_file,
        .tls_key = common->tls.files.key_file,
        .transport = lh_transport_names[common->transport],
    };
    int error = lh_cluster_open(masters, &options, cluster);
    if (error != LH_OK)
        *exit_code = lh_command_failed(command, NULL, error);
    if (error == LH_ERR_INVALID_ARGUMENT)
        *exit_code = LH_EXIT_USAGE;
    free(masters);
    return error == LH_OK;
}

void lh_command_end_with_reader(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};

    if (poll(&output, 1, 0) != 1 || (output.revents & (POLLERR | POLLHUP)) == 0)
        return;
    (void)signal(SIGPIPE, SIG_DFL);
    (void)raise(SIGPIPE);
    exit(LH_EXIT_IO); /* it is blocked */
}

/* LH_EXIT_IO, said on stderr, when not all of stdout could be written. */
static int finish_output(const char *command)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return LH_EXIT_OK;
    lh_command_end_with_reader();
    return lh_command_error(LH_EXIT_IO, command, "cannot write to standard output%s",
        fcntl(STDOUT_FILENO, F_GETFL) >= 0 &&
                (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY
            ? ": it is closed"
            : "");
}

int lh_command_run(const struct lh_command *command, int argc, char **argv)
{
    const char *name = argv[0];
    char full_name[64];
    struct lh_command_common *common = command->options;
    struct lh_flag table[LH_COMMAND_FLAGS_MAX + 4 + LH_TLS_FLAG_COUNT] = {
        {LH_FLAG("master", LIST, &common->masters, "127.0.0.1:7400"),
            .help = "the master's address, or those of any of several masters",
            .metavar = "ADDRESS,...", .shared = true},
        {LH_FLAG("timeout", DURATION, &common->timeout, "30s"), .help = "how long to try",
            .min = 1000000, .shared = true},
    };
    size_t count = 2;
    if (command->no_timeout)
        table[1].preset = NULL;
    LH_ASSERT(command->count <= LH_COMMAND_FLAGS_MAX);
    for (size_t i = 0; i < command->count; i++)
        table[count++] = command->flags[i];
    const struct lh_flag tls[] = {LH_TLS_FLAGS(common->tls)};
    for (size_t i = 0; i < LH_TLS_FLAG_COUNT; i++)
        table[count++] = tls[i];
    table[count++] = (struct lh_flag){LH_FLAG("transport", ENUM, &common->transport, "wire"),
        .choices = lh_transport_names,
        .help = "how servers are called: by the project's own protocol, or by gRPC"};
    if (!command->no_json)
        table[count++] = (struct lh_flag){
            LH_FLAG("json", BOOL, &common->json, NULL), .help = "print JSON", .shared = true};
    (void)snprintf(full_name, sizeof full_name, "leasehold %s", name);
    const struct lh_flags flags = {
        .command = full_name,
        .usage = command->usage,
        .summary = command->summary,
        .flags = table,
        .count = count,
    };
    struct lh_flags_result args;
    int code;
    if (!lh_command_parse(&flags, argc, argv, command->args_min, command->args_max, &args, &code))
        return code;
    struct lh_cluster *cluster = NULL;
    code = command->check != NULL ? command->check(command->options) : LH_EXIT_OK;
    if (code == LH_EXIT_OK && open_cluster(name, common, command->no_waiting, &cluster, &code)) {
        code = command->run(command->options, cluster, args.args);
        if (common->json && code != LH_EXIT_OK && !json_printed) {
            failure.error = failure.error == NULL ? "" : failure.error;
            lh_command_print_json(json_object());
        }
        int output = finish_output(name);
        code = code != LH_EXIT_OK ? code : output;
        lh_cluster_close(cluster);
    }
    lh_flags_free(&args);
    return code;
}

/* --- messages ----------------------------------------------------------------------------- */

int lh_command_failed(const char *command, const char *thing, int error)
{
    return lh_command_refused(command, thing, error, lh_last_error());
}

int lh_command_refused(const char *command, const char *thing, int error, const char *text)
{
    /* Most of the library's sentences name the thing themselves. */
    bool named = thing != NULL && thing[0] != '\0' && strstr(text, thing) == NULL;
    char whole[sizeof failure.text];
    (void)snprintf(whole, sizeof whole, "%s%s%s", named ? thing : "", named ? ": " : "", text);
    note_failure(lh_error_name(error), whole);
    lh_say("leasehold %s: %s%s%s (%s)\n", command, lh_command_shown(named ? thing : ""),
        named ? ": " : "", lh_command_shown(text), lh_error_name(error));
    switch (error) {
    case LH_ERR_UNAVAILABLE:
        return LH_EXIT_UNAVAILABLE;
    case LH_ERR_DEADLINE_EXCEEDED:
        return LH_EXIT_UNKNOWN;
    case LH_ERR_SYSTEM:
        return LH_EXIT_SYSTEM;
    default:
        return LH_EXIT_FAILED;
    }
}

int lh_command_error(int exit_code, const char *command, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* A warning is no failure, and a sentence behind one is only what to do about it. */
    if (exit_code != LH_EXIT_OK && failure.error == NULL)
        note_failure(error_of(exit_code), text);
    lh_say("leasehold %s: %s\n", command, lh_command_shown(text));
    return exit_code;
}

/* jansson leaves what is not ASCII as it is; outside of strings there is none of it. */
static void put_json(const char *text)
{
    size_t size = strlen(text);

    for (size_t at = 0; at < size;) {
        uint32_t c = 0;
        size_t n = lh_utf8_char(text + at, size - at, &c);
        if (n > 1 && !lh_char_is_plain(c))
            (void)printf("\\u%04x", c & 0xffff);
        else
            (void)fwrite(text + at, 1, n == 0 ? 1 : n, stdout);
        at += n == 0 ? 1 : n;
    }
}

static void print_json(json_t *json, size_t form)
{
    if (json == NULL)
        return;
    json_printed = true;
    char *text = json_dumps(json, form | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    if (text != NULL)
        put_json(text);
    free(text);
    (void)putchar('\n');
    json_decref(json);
}

void lh_command_print_json(json_t *json)
{
    add_failure(json);
    print_json(json, JSON_INDENT(2));
}

void lh_command_print_json_line(json_t *json)
{
    print_json(json, 0);
}
