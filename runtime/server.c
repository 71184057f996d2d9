/* Signals are taken by waiting for them, never by a handler: what follows one may lock and log. */
#include "runtime/server.h"

#include "admission/admission.h"
#include "base/address.h"
#include "base/say.h"
#include "base/version.h"
#include "grpc/rpc.h"
#include "runtime/descriptors.h"
#include "runtime/listener_probe.h"
#include "runtime/log.h"
#include "runtime/manager.h"
#include "runtime/notify.h"
#include "runtime/signals.h"
#include "runtime/sink.h"
#include "runtime/upkeep.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* When the core has stopped, or was given up: how long all else may take to end. */
#define END_SECONDS 20u

/* jemalloc reads this before main(). What a burst took goes back to the system some seconds later,
 * by a thread of jemalloc's, so also in a process that has become quiet. */
extern const char *malloc_conf;
const char *malloc_conf = "background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:0";

int lh_server_exit_code(int error)
{
    switch (error) {
    case LH_OK:
        return LH_SERVER_DONE;
    case LH_ERR_ADDRESS_IN_USE:
    case LH_ERR_UNAVAILABLE:
        return LH_SERVER_UNAVAILABLE;
    case LH_ERR_INVALID_ARGUMENT:
        return LH_SERVER_USAGE;
    case LH_ERR_IN_USE:
    case LH_ERR_NOT_FOUND:
    case LH_ERR_PERMISSION:
    case LH_ERR_WRONG_FORMAT:
    case LH_ERR_WRONG_IDENTITY:
    case LH_ERR_CORRUPT:
        return LH_SERVER_DATA_DIR;
    case LH_ERR_IO:
    case LH_ERR_DISK_FULL:
        return LH_SERVER_IO;
    default:
        return LH_SERVER_SYSTEM;
    }
}

int lh_server_refused(const char *component, int error, const char *why)
{
    lh_log(LH_ERROR, component, "%s", why);
    lh_log_flush(); /* the process may be about to end by a signal, too */
    return lh_server_exit_code(error);
}

/* Twice what flow control lets in of a stream that is not read. */
#define FRUITLESS_LEAST (UINT64_C(16) << 20)

/* --- options ------------------------------------------------------------------------------ */

const char *const lh_server_log_levels[] = {"debug", "info", "warn", "error", NULL};
const char *const lh_server_log_formats[] = {"text", "json", NULL};

bool lh_server_parse(const struct lh_flags *flags, int argc, char **argv,
    struct lh_server_options *options, struct lh_flags_result *args, int *exit_code)
{
    static const struct lh_flags_binary binary = {LH_VERSION, LH_SERVER_USAGE};
    char why[640];

    if (!lh_flags_accept(flags, &binary, argc, argv, 0, 0, args, exit_code))
        return false;
    options->access = NULL;
    if (options->roles != NULL && options->roles[0] == '\0')
        options->roles = NULL;
    bool taken = lh_tls_options_take(&options->tls, why, sizeof why);
    if (taken && (options->roles == NULL ||
                     lh_roles_read(options->roles, &options->access, why, sizeof why) == LH_OK)) {
        if (options->roles == NULL || options->tls.files.ca_file != NULL)
            return true;
        (void)snprintf(why, sizeof why, "--roles is of no use without TLS: nobody has an identity");
    }
    lh_say("%s: %s\n", flags->command, why);
    lh_flags_free(args);
    if (taken)
        lh_server_options_free(options);
    *exit_code = LH_SERVER_USAGE;
    return false;
}

void lh_server_options_free(struct lh_server_options *options)
{
    lh_tls_options_free(&options->tls);
    lh_access_free(options->access);
    options->access = NULL;
}

/* Whether only this machine can connect to `address`. */
static bool is_local(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 || lh_address_is_loopback(address);
}

static void warn_of_plain(const struct lh_server_options *o, const char *component)
{
    const char *open = !is_local(o->listen) ? o->listen : o->metrics_listen;

    if (o->tls.files.ca_file != NULL || o->insecure || open == NULL || is_local(open))
        return;
    lh_log(LH_WARN, component,
        "WITHOUT TLS ON %s: whoever reaches this address can read and change everything, and who "
        "is on the way, too; give --tls-dir (`leasehold certs --help` makes one), or --insecure "
        "if the network is trusted",
        open);
}

static void log_connections(enum lh_level level, const char *text)
{
    lh_log(level, "network", "%s", text);
}

static void say_changed(void *arg, const struct lh_flag_setting *was, const char *is)
{
    const char *before = was->text != NULL ? was->text : "none", *now = is != NULL ? is : "none";

    if (was->live)
        lh_log(LH_INFO, arg, "%s is %s from now on, and was %s", was->name, now, before);
    else
        lh_log(
            LH_WARN, arg, "%s = %s takes a restart; it goes on to be %s", was->name, now, before);
}

void lh_server_refresh(const char *component, struct lh_flags_result *now,
    const struct lh_flags_result *fresh, const struct lh_server_options *options)
{
    lh_log_setup((enum lh_level)options->log_level, options->log_format == 1);
    lh_flags_refresh(now, fresh, say_changed, (void *)(uintptr_t)component);
}

/* A table that was in use, and the one that is. */
struct tables {
    const struct lh_access *before, *now;
    unsigned ended;
};

static bool has_changed(void *arg, const char *identity)
{
    struct tables *tables = arg;
    bool changed = identity[0] != '\0' && !lh_access_same(tables->before, tables->now, identity);

    tables->ended += changed;
    return changed;
}

void lh_server_take_roles(const char *component, struct lh_loop *loop,
    struct lh_server_options *now, struct lh_server_options *fresh)
{
    struct tables tables = {.before = fresh->access, .now = now->access};

    if (now->roles == NULL || fresh->roles == NULL || strcmp(now->roles, fresh->roles) != 0)
        return; /* another option, which takes a restart */
    lh_loop_lock(loop);
    lh_access_swap(now->access, fresh->access);
    lh_loop_unlock(loop);
    lh_loop_end_streams(
        loop, has_changed, &tables, "the table of roles says something else of its caller now");
    lh_loop_ask_who_answers(loop);
    lh_log(LH_INFO, component,
        "the table of roles is that of %s from now on; %u streams ended, of "
        "those whom it says something else of",
        now->roles, tables.ended);
}

/* What one of several may take. */
static uint64_t or_half(uint64_t given, uint64_t all)
{
    return given != 0 ? given : (all + 1) / 2;
}

bool lh_server_prepare(
    const struct lh_server_options *options, const char *component, uint64_t *files, int *exit_code)
{
    struct lh_descriptors share;
    char why[512], kept[64] = "";

    lh_signals_ignore();
    lh_log_setup((enum lh_level)options->log_level, options->log_format == 1);
    lh_sink_start();
    lh_rpc_trust_locks();
    warn_of_plain(options, component);
    int error = lh_descriptors_share(options->max_connections, *files, &share, why, sizeof why);
    if (error != LH_OK) {
        *exit_code = lh_server_refused(component, error, why);
        return false;
    }
    if (*files != 0)
        (void)snprintf(kept, sizeof kept, " and %" PRIu64 " chunk files kept open", share.files);
    lh_log(LH_INFO, component, "of %" PRIu64 " descriptors: at most %" PRIu64 " connections%s",
        share.limit, share.connections, kept);
    *files = share.files;
    const struct lh_connections_config connections = {
        .max = (unsigned)share.connections,
        .cancels_max = (unsigned)options->max_cancels,
        .peer_max = (unsigned)or_half(options->max_peer_connections, share.connections),
        .peer_rate = (unsigned)options->max_peer_rate,
        .peer_calls_rate = (unsigned)options->max_peer_calls_rate,
        .fruitless_max =
            options->wire_memory / 8 > FRUITLESS_LEAST ? options->wire_memory / 8 : FRUITLESS_LEAST,
        .log = log_connections,
    };
    lh_connections_limit(&connections);
    return true;
}

bool lh_server_certified(const struct lh_server_options *options, const char *component,
    enum lh_server_kind kind, const char *advertised, int *exit_code)
{
    const char *cert = options->tls.files.cert_file,
               *role = kind == LH_SERVER_MASTER ? "master" : "chunkserver";
    char identity[LH_LINK_IDENTITY_MAX + 1], why[LH_ACCESS_TEXT_MAX];

    /* What cannot be read is refused with the other files, when the loop opens them. */
    if (cert == NULL || !lh_tls_owner(cert, identity))
        return true;
    if (lh_access_answers(options->access, identity, kind, NULL, false, why) != LH_OK)
        lh_log(LH_ERROR, component,
            "%s is the certificate of %s, and nobody takes a %s for one without the role %s: "
            "issue one of %s/NAME, or correct --tls-dir",
            cert, identity, role, role, role);
    else if (advertised != NULL && !lh_tls_is_for(cert, advertised))
        lh_log(LH_ERROR, component,
            "%s is not for the host of %s, where others are told to call this server: issue one "
            "with that --host, or correct --advertise",
            cert, advertised);
    else
        return true;
    *exit_code = LH_SERVER_USAGE;
    return false;
}

void lh_server_limit_loop(const struct lh_server_options *options, struct lh_loop_config *loop)
{
    loop->calls_max = (unsigned)options->max_calls;
    loop->memory_max = options->wire_memory;
    loop->unsent_max = options->reply_memory;
    loop->peer_calls_max = (unsigned)or_half(options->max_peer_calls, options->max_calls);
    loop->peer_unsent_max = or_half(options->peer_reply_memory, options->reply_memory);
    loop->transport = lh_transport_of((enum lh_transport_kind)options->transport);
    loop->keepalive_timeout = options->ping_timeout;
    loop->handshake_timeout = options->handshake_timeout;
    loop->idle_timeout = options->idle_timeout;
    loop->request_timeout = options->request_timeout;
    loop->tls = options->tls.files;
    loop->access = options->access;
}

void lh_server_metrics(const struct lh_loop *loop, struct lh_metrics *out)
{
    struct lh_connections_figures c;
    struct lh_transport_figures n;

    lh_connections_figures(&c);
    lh_loop_network_figures(loop, &n);
    lh_metrics_single(out, "leasehold_connections", LH_METRIC_GAUGE, "Connections here.", c.open);
    lh_metrics_single(out, "leasehold_connections_limit", LH_METRIC_GAUGE,
        "Connections that there may be.", c.max);
    lh_metrics_single(out, "leasehold_connections_accepted_total", LH_METRIC_COUNTER,
        "Connections accepted.", c.accepted);
    lh_metrics_single(out, "leasehold_connections_refused_total", LH_METRIC_COUNTER,
        "Connections refused, because there were too many.", c.refused);
    lh_metrics_single(out, "leasehold_peer_connections_refused_total", LH_METRIC_COUNTER,
        "Of these, because one address had too many, or began too many a second.", c.refused_peer);
    lh_metrics_single(out, "leasehold_connections_gone_total", LH_METRIC_COUNTER,
        "Connections that their peers had broken before they were accepted.", c.gone);
    lh_metrics_family(out, "leasehold_connections_cut_total", LH_METRIC_COUNTER,
        "Connections closed by this side, by reason: long idle, too many cancelled calls, or much "
        "that nothing came of.");
    lh_metrics_count(out, &(struct lh_label){"why", "idle"}, 1, c.cut_idle);
    lh_metrics_count(out, &(struct lh_label){"why", "cancelling"}, 1, c.cut_cancelling);
    lh_metrics_count(out, &(struct lh_label){"why", "fruitless"}, 1, c.cut_fruitless);
    lh_metrics_single(out, "leasehold_peer_connections_paced_total", LH_METRIC_COUNTER,
        "Times that a connection was read later, because its address began too many calls.",
        c.paced);
    lh_metrics_single(
        out, "leasehold_calls", LH_METRIC_GAUGE, "Calls and streams served now.", n.calls);
    lh_metrics_single(out, "leasehold_calls_refused_total", LH_METRIC_COUNTER,
        "Calls refused, because there were too many or their replies were not read.",
        n.calls_refused);
    lh_metrics_single(out, "leasehold_peer_calls_refused_total", LH_METRIC_COUNTER,
        "Of these, because one address had too many, or did not read its replies.",
        n.peer_calls_refused);
    lh_metrics_single(out, "leasehold_requests_dropped_total", LH_METRIC_COUNTER,
        "Calls ended, because their request did not arrive.", n.requests_dropped);
    lh_metrics_single(out, "leasehold_replies_waiting_bytes", LH_METRIC_GAUGE,
        "Bytes of replies that peers have not read.", n.unsent);
    lh_metrics_single(out, "leasehold_replies_dropped_total", LH_METRIC_COUNTER,
        "Replies dropped, because peers did not read them.", n.replies_dropped);
    lh_metrics_single(out, "leasehold_log_lines_dropped_total", LH_METRIC_COUNTER,
        "Log lines dropped, because whoever reads them did not, or they could not be written.",
        lh_sink_dropped());
    lh_metrics_single(out, "leasehold_hearing_failures_total", LH_METRIC_COUNTER,
        "Times that the server got no answer from itself over a new connection.",
        lh_listener_probe_failures());
    lh_metrics_single(out, "leasehold_tls_certificate_expires_seconds", LH_METRIC_GAUGE,
        "When the certificate in use runs out, in seconds since 1970; 0 without TLS.",
        (uint64_t)n.tls.not_after_unix);
    lh_metrics_single(out, "leasehold_tls_renewals_total", LH_METRIC_COUNTER,
        "Times that renewed certificates were taken up.", n.tls.renewed);
    lh_metrics_single(out, "leasehold_tls_renewals_refused_total", LH_METRIC_COUNTER,
        "Times that renewed certificates were not usable, and the old ones stayed.", n.tls.refused);
    lh_metrics_single(out, "leasehold_tls_handshakes_failed_total", LH_METRIC_COUNTER,
        "TLS handshakes that failed, of peers that connected and with servers called.",
        n.tls.handshakes_failed);
}

/* --- running ------------------------------------------------------------------------------ */

/* Set before its signal is sent: a SIGUSR1 from outside stops nothing. */
static atomic_bool core_stopped;
static atomic_bool deaf;

static void on_deaf(void *arg, const char *why)
{
    const struct lh_server *server = arg;

    lh_log(LH_ERROR, server->component, "%s; ending, to be started again", why);
    atomic_store(&deaf, true);
    (void)kill(getpid(), SIGUSR1);
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* SIGUSR1 is lh_server_on_stopped()'s. */
static sigset_t signals(void)
{
    static int terminal = -1; /* as of the first call, before there are other threads */
    sigset_t set;

    if (terminal < 0)
        terminal = has_terminal();

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGUSR1);
    if (terminal == 0)
        (void)sigaddset(&set, SIGHUP);
    return set;
}

LH_DESCRIPTORS_STANDARD_AT_FIRST;

void lh_server_block_signals(void)
{
    const sigset_t set = signals();

    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

void lh_server_on_stopped(void *arg, int error)
{
    (void)arg;
    (void)error;
    atomic_store(&core_stopped, true);
    (void)kill(getpid(), SIGUSR1);
}

bool lh_server_is_live(char *why, size_t why_size)
{
    return lh_manager_is_live(why, why_size);
}

static int next_signal(void)
{
    const sigset_t set = signals();
    int number;

    while ((number = sigwaitinfo(&set, NULL)) < 0)
        ;
    return number;
}

/* Until there is a reason to stop; false: the core has stopped. */
static bool wait_for_reason(
    const struct lh_server *server, struct lh_upkeep *upkeep, int *exit_code)
{
    for (;;) {
        int number = next_signal();
        if (number == SIGINT || number == SIGTERM) {
            lh_log(LH_INFO, server->component, "%s: %s", strsignal(number), server->on_signal);
            *exit_code = LH_SERVER_DONE;
            return true;
        }
        if (number == SIGUSR1 && atomic_load(&deaf)) {
            *exit_code = LH_SERVER_DEAF;
            return true;
        }
        if (number == SIGUSR1 && atomic_load(&core_stopped))
            break;
        if (number == SIGHUP)
            lh_upkeep_reload(upkeep);
    }
    /* The loop tells us before it tells lh_loop_wait(). */
    int error = lh_loop_wait(server->loop, LH_DURATION_FOREVER);
    lh_log(LH_ERROR, server->component, "stopped: %s", lh_error_text(error));
    /* What it was started with was in order; what a core finds wrong later is with another one. */
    *exit_code = error == LH_OK                     ? LH_SERVER_INTERNAL
                 : error == LH_ERR_INVALID_ARGUMENT ? LH_SERVER_CONFIG
                                                    : lh_server_exit_code(error);
    return false;
}

bool lh_server_wait(const struct lh_server *server, int *exit_code)
{
    const struct lh_listener_probe_config config = {
        .loop = server->loop,
        .listen = server->options->listen,
        .component = server->component,
        .deaf_after = server->options->deaf_after,
        .on_deaf = on_deaf,
        .arg = (void *)(uintptr_t)server,
    };
    char why[256];
    struct lh_listener_probe *probe = lh_listener_probe_start(&config, why, sizeof why);
    struct lh_manager *manager =
        probe == NULL ? NULL : lh_manager_start(server->loop, why, sizeof why);
    struct lh_upkeep *upkeep =
        manager == NULL ? NULL : lh_upkeep_start(server, manager, why, sizeof why);
    bool stop = true;
    if (upkeep != NULL)
        stop = wait_for_reason(server, upkeep, exit_code);
    else
        *exit_code = lh_server_refused(server->component, LH_ERR_SYSTEM, why);

    lh_upkeep_end_within(
        server->component, lh_duration_add(server->stop_timeout, lh_seconds(END_SECONDS)));
    lh_upkeep_stop(upkeep);
    /* Where the core has stopped the loop is still there, so this may take the time of one try. */
    lh_listener_probe_stop(probe);
    lh_manager_stop(manager);
    return stop;
}

int lh_server_stop(const struct lh_server *server)
{
    const sigset_t set = signals();

    lh_notify("STOPPING=1\nSTATUS=%s\n", server->on_signal);
    (void)signal(SIGUSR1, SIG_IGN);
    if (sigismember(&set, SIGHUP) == 1)
        (void)signal(SIGHUP, SIG_IGN);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    lh_loop_set_serving(server->loop, false, false);
    lh_loop_stop(server->loop);
    return lh_loop_wait(server->loop, server->stop_timeout);
}
