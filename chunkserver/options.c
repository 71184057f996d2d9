/* The options of leasehold-chunkserver: a row of the table each. */
#include "chunkserver/options.h"

#include "base/say.h"
#include "finder/finder.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "leasehold-chunkserver"

/* What a master takes in a registration (master/servers/registration.c): it would refuse another
 * one for ever. */
#define NAME_BYTES_MAX    128u
#define ADDRESS_BYTES_MAX 256u

static bool is_name(const char *option, const char *text, size_t most)
{
    size_t size = text == NULL ? 0 : strlen(text);

    if (size > most) {
        lh_say(COMMAND ": %s has at most %zu bytes, and not %zu\n", option, most, size);
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] > ' ' && text[i] <= '~')
            continue;
        lh_say(COMMAND ": %s has byte 0x%02x at offset %zu; only printable ASCII without spaces is "
                       "allowed\n",
            option, (unsigned)(uint8_t)text[i], i);
        return false;
    }
    return true;
}

bool lh_chunkserver_options_parse(
    struct lh_chunkserver_options *o, int argc, char **argv, int *code)
{
    (void)gethostname(o->host, sizeof o->host - 1);

    const struct lh_flag table[] = {
        LH_SERVER_LISTEN_FLAG(o->server, "127.0.0.1:7500"),
        {LH_FLAG("advertise", STRING, &o->advertise, NULL), .metavar = "ADDRESS",
            .help =
                "address that clients and other servers reach this one at; by default --listen"},
        {LH_FLAG("data-dir", STRING, &o->data_dir, COMMAND), .metavar = "DIRECTORY",
            .help = "where chunks are kept; created if missing"},
        {LH_FLAG("master", LIST, &o->masters, "127.0.0.1:7400"), .metavar = "ADDRESS,...",
            .help = "the master's address, or those of any of several masters"},
        {LH_FLAG("server-id", STRING, &o->server_id, NULL), .metavar = "NAME",
            .help = "this server's lasting name; by default the data directory's, for a new one "
                    "that of the certificate, or a random one"},
        {LH_FLAG("failure-domain", STRING, &o->failure_domain, o->host), .metavar = "NAME",
            .preset_words = "the host's name",
            .help = "what may fail together: replicas go to different ones where there are enough"},
        {LH_FLAG("capacity", SIZE, &o->capacity, "0"),
            .help = "bytes to offer to the master; 0: the whole file system", .live = true},
        {LH_FLAG("member-timeout", DURATION, &o->member_timeout, "1s"), .min = 10000000,
            .help = "as primary: report a member that makes no progress for so long"},
        {LH_FLAG("drain-timeout", DURATION, &o->drain_timeout, "2s"), .min = 1000000,
            .help = "how long appends under way may take before a recalled lease is released"},
        {LH_FLAG("stop-timeout", DURATION, &o->stop_timeout, "10s"), .min = 1000000,
            .help = "how long SIGTERM may take to drain and to release leases"},
        {LH_FLAG("pending-bytes", SIZE, &o->pending_bytes, "512MiB"), .min = 1u << 20,
            .help = "uncommitted bytes held in memory before appenders are made to wait"},
        {LH_FLAG("repair-rate", SIZE, &o->repair_rate, "64MiB"),
            .help = "bytes a second that copies of replicas bring here, and as many that they "
                    "take from here; 0: no limit"},
        {LH_FLAG("scrub-period", DURATION, &o->scrub_period, "14d"),
            .help = "every replica is read and checked once in so long; 0: never"},
        {LH_FLAG("scrub-rate", SIZE, &o->scrub_rate, "16MiB"), .min = 4096,
            .help = "bytes a second that this reads at most"},
        {LH_FLAG("disk-threads", UINT, &o->disk_threads, "4"), .min = 1, .max = 256,
            .help = "threads for what blocks, and for all of the disk without io_uring"},
        LH_SERVER_NETWORK_FLAG(o->server),
        LH_SERVER_LIMIT_FLAGS(o->server),
        {LH_FLAG("open-files", UINT, &o->open_files, "1024"), .min = 16, .max = 1000000,
            .help = "chunk files kept open"},
        {LH_FLAG("uring", BOOL, &o->uring, "true"),
            .help = "use io_uring where the kernel lets us"},
        LH_SERVER_METRICS_FLAG(o->server),
        LH_SERVER_TLS_FLAGS(o->server),
        LH_SERVER_LOG_FLAGS(o->server),
    };
    const struct lh_flags flags = {
        .command = COMMAND,
        .usage = "[OPTION]...",
        .section = 8,
        .title = "keeps replicas of chunks for Leasehold",
        .files =
            "`/etc/leasehold/chunkserver.conf`: the config file that the systemd unit gives to "
            "the program\n`/var/lib/leasehold-chunkserver`: the data directory, likewise",
        .summary =
            "Keeps replicas of chunks and, with a lease from the master, orders the appends to "
            "some of them.",
        .epilog =
            "SIGTERM or SIGINT: finish appends under way, release all leases, exit.\n"
            "SIGHUP: read the options again and take up log-level, log-format and capacity.\n"
            "Exit status: 0 done, 64 usage, 69 address in use, 70 internal, 71 system, 73 data "
            "directory, 74 input or output, 75 deaf.\n",
        LH_FLAG_ROWS(table),
    };

    if (!lh_server_parse(&flags, argc, argv, &o->server, &o->args, code))
        return false;
    char wrong[256];
    o->advertise = lh_server_advertised(COMMAND, o->advertise, o->server.listen, "10.0.0.11:7500");
    int error = lh_masters_check(o->masters.items, o->masters.count, wrong, sizeof wrong);
    if (error != LH_OK)
        lh_say(COMMAND ": --master: %s\n", wrong);
    else if (o->advertise != NULL && is_name("--advertise", o->advertise, ADDRESS_BYTES_MAX) &&
             is_name("--failure-domain", o->failure_domain, NAME_BYTES_MAX))
        return true;
    *code = LH_SERVER_USAGE;
    lh_chunkserver_options_free(o);
    return false;
}

void lh_chunkserver_options_free(struct lh_chunkserver_options *o)
{
    lh_flags_free(&o->args);
    lh_server_options_free(&o->server);
}
