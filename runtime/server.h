/* What both servers' processes are, whichever core they run: exit codes, the options that both
 * have, and how a process waits for a signal and ends within a bound.
 *
 * A server's main() reads its table of options with lh_server_parse(), says lh_server_prepare(),
 * opens what is its own, blocks the signals before it has other threads, creates its loop with
 * lh_server_on_stopped(), starts it, and then:
 *
 *     if (!lh_server_wait(&server, &code))
 *         return code;
 *     error = lh_server_stop(&server);
 *     return error == LH_OK ? code : lh_server_exit_code(error);
 *
 * One server per process, since signals and limits are the process's. Everything here is for its
 * main thread, but for lh_server_on_stopped(). */
#pragma once

#include "base/error.h"
#include "base/metrics.h"
#include "base/time.h"

#include "runtime/flags.h"
#include "runtime/loop.h"
#include "runtime/roles_file.h"
#include "runtime/tls_options.h"
#include "runtime/transports.h"

#include <stdbool.h>
#include <stdint.h>

/* Exit codes (sysexits.h). docs/operations.md repeats this table; `leasehold` has one of its own,
 * since what it is refused is not what a server is refused. */
enum lh_server_exit {
    LH_SERVER_DONE = 0,
    LH_SERVER_USAGE = 64,       /* the command line, the environment or the config file is wrong */
    LH_SERVER_UNAVAILABLE = 69, /* the address is in use or is not this machine's */
    LH_SERVER_INTERNAL = 70,    /* the core stopped by itself; the log says why */
    LH_SERVER_SYSTEM = 71,      /* the operating system refused something else */
    LH_SERVER_DATA_DIR = 73,    /* the data directory is in use, another's or of a newer format */
    LH_SERVER_IO = 74,          /* the data directory cannot be read or written, or is full */
    LH_SERVER_DEAF = 75,        /* nobody could connect any more: to be started again */
    LH_SERVER_CONFIG = 78,      /* each setting is well-formed, but they contradict each other */
};

/* What a server exits with when `error` keeps it from starting or ends it; LH_SERVER_DONE for
 * LH_OK. */
int lh_server_exit_code(int error);

/* Logs the sentence `why` for `component` and returns the exit code for `error`, not LH_OK. */
int lh_server_refused(const char *component, int error, const char *why);

/* --- options ------------------------------------------------------------------------------ */

/* The options that both servers have. */
struct lh_server_options {
    const char *listen;
    const char *metrics_listen; /* NULL: nobody asks */
    uint64_t network_threads;
    uint64_t max_connections, max_calls, max_cancels, wire_memory, reply_memory;
    uint64_t max_peer_connections, max_peer_rate, max_peer_calls, peer_reply_memory,
        max_peer_calls_rate; /* of a peer */
    struct lh_duration ping_timeout, handshake_timeout, idle_timeout, request_timeout, deaf_after;
    int log_level, log_format;
    int transport; /* enum lh_transport_kind */
    struct lh_tls_options tls;
    bool insecure;            /* nothing is said of its absence */
    const char *roles;        /* a file; NULL: none */
    struct lh_access *access; /* what it says, until lh_server_options_free() */
};

extern const char *const lh_server_log_levels[];
extern const char *const lh_server_log_formats[];

/* For the table of a server's flags; `o` is its struct lh_server_options, `preset_` its default. */
/* clang-format off */
#define LH_SERVER_LISTEN_FLAG(o, preset_)                                                         \
    {LH_FLAG("listen", STRING, &(o).listen, (preset_)), .metavar = "ADDRESS", .address = true,    \
        .help = "address to serve on"}
#define LH_SERVER_METRICS_FLAG(o)                                                                 \
    {LH_FLAG("metrics-listen", STRING, &(o).metrics_listen, NULL), .metavar = "ADDRESS",          \
        .address = true,                                                                          \
        .help = "address for /metrics, /healthz and /readyz over HTTP, or HTTPS with --tls-...; " \
                "by default none"}
#define LH_SERVER_NETWORK_FLAG(o)                                                                 \
    {LH_FLAG("network-threads", UINT, &(o).network_threads, "1"), .min = 1, .max = 64,            \
        .help = "threads that wait for the network"},                                             \
    {LH_FLAG("transport", ENUM, &(o).transport, "wire"), .choices = lh_transport_names,           \
        .help = "what other servers are called by: the project's own protocol, or gRPC. Either "  \
                "is answered on the same port; with grpc, gRPC alone"}
/* What peers may take of a server. */
#define LH_SERVER_LIMIT_FLAGS(o)                                                                  \
    {LH_FLAG("max-connections", UINT, &(o).max_connections, "0"), .max = 1000000,                 \
        .help = "connections at once; 0: half of the open files allowed, at most 16384. The "     \
                "longest idle ones are closed before there are so many"},                         \
    {LH_FLAG("max-calls", UINT, &(o).max_calls, "65536"), .min = 64, .max = 100000000,            \
        .help = "calls and streams at once; a quarter of them from one connection"},              \
    {LH_FLAG("max-cancels", UINT, &(o).max_cancels, "2000"),                                      \
        .help = "a connection that begins and cancels more calls within a second is cut; 0: "     \
                "none is"},                                                                       \
    {LH_FLAG("wire-memory", SIZE, &(o).wire_memory, "256MiB"), .min = 16u << 20,                  \
        .help = "memory for calls and for messages that have arrived in part"},                   \
    {LH_FLAG("reply-memory", SIZE, &(o).reply_memory, "256MiB"), .min = 1u << 20,                 \
        .help = "bytes of replies that nobody has taken; at half of it those are dropped "        \
                "that have waited for long"},                                                     \
    {LH_FLAG("max-peer-connections", UINT, &(o).max_peer_connections, "0"), .max = 1000000,       \
        .help = "connections at once from one address, or one IPv6 network of 64 bits; 0: half "  \
                "of all. Its longest idle ones are closed before there are so many"},             \
    {LH_FLAG("max-peer-rate", UINT, &(o).max_peer_rate, "500"), .max = 1000000,                   \
        .help = "new connections a second from one address, and twice as many at once; 0: any "    \
                "number"},                                                                        \
    {LH_FLAG("max-peer-calls", UINT, &(o).max_peer_calls, "0"), .max = 100000000,                 \
        .help = "calls and streams at once from one address; 0: half of all"},                    \
    {LH_FLAG("max-peer-calls-rate", UINT, &(o).max_peer_calls_rate, "10000"), .max = 1000000,     \
        .help = "calls and streams that one address may begin a second while others send "        \
                "something, too; beyond it its connections are read more slowly; 0: any number"}, \
    {LH_FLAG("peer-reply-memory", SIZE, &(o).peer_reply_memory, "0"),                             \
        .help = "bytes of replies that one address has not taken, beyond which its calls are "    \
                "refused; 0: half of --reply-memory"},                                            \
    {LH_FLAG("ping-timeout", DURATION, &(o).ping_timeout, "2s"), .min = 100000000,               \
        .help = "give a connection up whose other end has not answered a ping for so long; who "  \
                "opened it pings after 2 s of silence, the other end after 20 s"},                \
    {LH_FLAG("handshake-timeout", DURATION, &(o).handshake_timeout, "20s"), .min = 100000000,     \
        .help = "close a connection that speaks no HTTP/2, or has not ended its TLS handshake, "  \
                "so long after it began"},                                                        \
    {LH_FLAG("idle-timeout", DURATION, &(o).idle_timeout, "10m"),                                 \
        .help = "close a connection without any call or stream after so long; 0: never"},         \
    {LH_FLAG("request-timeout", DURATION, &(o).request_timeout, "30s"), .min = 100000000,         \
        .help = "end a call whose one request has not arrived in whole after so long"},           \
    {LH_FLAG("deaf-after", DURATION, &(o).deaf_after, "30s"),                                     \
        .help = "end, to be started again, when no new connection was answered for so long, "     \
                "tried from within; 0: never"}
#define LH_SERVER_TLS_FLAGS(o)                                                                    \
    LH_TLS_FLAGS((o).tls),                                                                        \
    {LH_FLAG("insecure", BOOL, &(o).insecure, NULL),                                              \
        .help = "do not warn that others than this machine can connect without TLS"},             \
    {LH_FLAG("roles", STRING, &(o).roles, NULL), .metavar = "FILE",                               \
        .help = "who has which role and reaches which paths, beyond what certificates say; a "    \
                "line each: IDENTITY ROLE [PREFIX]..."}
#define LH_SERVER_LOG_FLAGS(o)                                                                    \
    {LH_FLAG("log-level", ENUM, &(o).log_level, "info"), .choices = lh_server_log_levels,         \
        .help = "log what is at least this important", .live = true},                             \
    {LH_FLAG("log-format", ENUM, &(o).log_format, "text"), .choices = lh_server_log_formats,      \
        .help = "how log lines look", .live = true}
/* clang-format on */

/* lh_flags_accept() of a server, which has no positional arguments, lh_tls_options_take() of its
 * options, and its table of roles: to be freed, as `args`. */
LH_MUST_USE bool lh_server_parse(const struct lh_flags *flags, int argc, char **argv,
    struct lh_server_options *options, struct lh_flags_result *args, int *exit_code);

/* What lh_server_parse() took. */
void lh_server_options_free(struct lh_server_options *options);

/* What others can connect to: `advertise`, or `listen` if that is NULL. NULL: neither is one host
 * and one port; said on stderr, with `example`. */
const char *lh_server_advertised(
    const char *command, const char *advertise, const char *listen, const char *example);

/* Sets the log up, shares out the descriptors that the process may have and says how, and begins to
 * limit connections. `*files` is how many files the server would keep open, and may; 0: none.
 * False: there are too few; `*exit_code` is what to exit with. */
LH_MUST_USE bool lh_server_prepare(const struct lh_server_options *options, const char *component,
    uint64_t *files, int *exit_code);

/* Whoever calls a server of that kind refuses it if its certificate is another's (ACC-8), or not
 * for the host of `advertised`, where others are told to call it (NULL: nobody is told). False:
 * that is so; it is logged, and `*exit_code` is what to exit with. */
LH_MUST_USE bool lh_server_certified(const struct lh_server_options *options, const char *component,
    enum lh_server_kind kind, const char *advertised, int *exit_code);

/* The options were read again: takes up `log_level` and `log_format`, and logs what has another
 * value than `now` says, the settings of the start with what was taken up since. */
void lh_server_refresh(const char *component, struct lh_flags_result *now,
    const struct lh_flags_result *fresh, const struct lh_server_options *options);

/* The table of roles was read again, into `fresh`: it is taken up (ACC-7). Not where the file is
 * another one, or none, or was none: that takes a restart. */
void lh_server_take_roles(const char *component, struct lh_loop *loop,
    struct lh_server_options *now, struct lh_server_options *fresh);

/* What the options say about the network, for the loop. */
void lh_server_limit_loop(const struct lh_server_options *options, struct lh_loop_config *loop);

/* Figures of what peers have of the process. */
void lh_server_metrics(const struct lh_loop *loop, struct lh_metrics *out);

/* --- running ------------------------------------------------------------------------------ */

/* A server that runs; what is pointed to stays the caller's. */
struct lh_server {
    struct lh_loop *loop;  /* started */
    const char *component; /* in log lines, as lh_log() */
    const char *on_signal; /* what a signal begins, for the log: "stopping" */
    struct lh_duration stop_timeout;
    const struct lh_server_options *options;

    /* All called while lh_server_wait() waits, by one other thread (runtime/upkeep.h): they may
     * touch a disk. `arg` is theirs. */
    void (*update)(void *arg);                            /* about every LH_SERVER_UPDATE_MS */
    bool (*ready)(void *arg, char *why, size_t why_size); /* for the service manager */
    void (*reload)(void *arg); /* at SIGHUP: read the options again, and lh_server_refresh() */
    void *arg;
};

#define LH_SERVER_UPDATE_MS 500u

/* Blocks the signals that lh_server_wait() takes. Threads inherit that: call it while there is
 * only one, or another may take a signal and with it the process. SIGHUP is one of them only where
 * the process has no terminal: there it means that the terminal is gone. */
void lh_server_block_signals(void);

/* Whether the server's event loop goes on while lh_server_wait() does; if not, `why` is a sentence.
 * Any thread; waits for nothing. */
bool lh_server_is_live(char *why, size_t why_size);

/* The loop's `on_stopped`: wakes lh_server_wait(). Any thread, `arg` is not used. */
void lh_server_on_stopped(void *arg, int error);

/* Returns true when SIGINT or SIGTERM asks to stop, the server has found itself deaf or there is no
 * thread for its upkeep, to be followed by lh_server_stop(); false when the core has stopped by
 * itself. `*exit_code` is what to exit with, if the stop goes well. Logs each. */
LH_MUST_USE bool lh_server_wait(const struct lh_server *server, int *exit_code);

/* Stops the loop and waits for that, at most for the stop timeout; a second signal ends the process
 * at once. Some seconds later the process ends with LH_SERVER_INTERNAL, whatever hangs. Errors:
 * LH_ERR_DEADLINE_EXCEEDED when the timeout passes first, the core is then still at it; else what
 * the core stopped with. Logs nothing: what is left undone is the server's own. */
LH_MUST_USE int lh_server_stop(const struct lh_server *server);
