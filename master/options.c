/* The options of leasehold-master: a row of the table each. */
#include "master/options.h"

#include "base/address.h"
#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "leasehold-master"
/* The library asks for no longer one (LH_SESSION_TERM_MAX). */
#define TERM_OF_PROGRAMS_MAX_NS UINT64_C(60000000000)

static bool refuse(const char *text, int *code)
{
    lh_say(COMMAND ": %s\n", text);
    *code = LH_SERVER_USAGE;
    return false;
}

/* Where metadata is. */
static bool read_store(struct lh_master_options *o, int *code)
{
    char why[512];

    if (o->store == NULL)
        return true; /* --data-dir says it */
    if (strncmp(o->store, "lmdb:", 5) == 0 && o->store[5] != 0) {
        o->data_dir = o->store + 5;
        return true;
    }
    if (strncmp(o->store, "etcd:", 5) == 0) {
        o->data_dir = NULL;
        return lh_etcd_options_take(
                   &o->etcd, &o->server.tls.files, o->store + 5, &o->reigns, why, sizeof why) ||
               refuse(why, code);
    }
    return refuse("--store is lmdb:DIRECTORY or etcd:HOST:PORT,HOST:PORT,.../PREFIX", code);
}

/* Where a browser finds the page: at the first of its names, or else at the host where it listens;
 * if that is every one, at the host where other masters call this one. False: there is no page, or
 * its port is any free one. */
static bool describe_page(struct lh_master_options *o)
{
    const char *listen = o->http_listen, *colon = listen == NULL ? NULL : strrchr(listen, ':');
    const char *host = listen, *names = o->http_hosts;

    if (colon == NULL || strcmp(colon, ":0") == 0)
        return false;
    int size = (int)(colon - listen);
    if (names != NULL && names[0] != '\0') {
        host = names;
        size = (int)strcspn(names, ",");
    } else if (strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0) {
        host = o->reigns.address;
        size = (int)(strrchr(host, ':') - host);
    }
    size_t length = (size_t)snprintf(o->page, sizeof o->page, "http%s://%.*s%s/",
        o->server.tls.files.ca_file != NULL ? "s" : "", size, host, colon);
    return length < sizeof o->page;
}

static bool take(struct lh_master_options *o, int *code)
{
    struct lh_master_config config = lh_master_config_default();
    char why[512];
    int error;

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
    config.access = o->server.access;
    config.capabilities = o->server.tls.files.ca_file != NULL;
    config.capability_term = o->capability_term;
    config.program_term_max = o->program_term_max;
    o->reigns.master = config;
    if (!read_store(o, code))
        return false;
    if (o->data_dir != NULL) {
        error = lh_master_config_check(&config, why, sizeof why);
    } else {
        o->reigns.address =
            lh_server_advertised(COMMAND, o->advertise, o->server.listen, "10.0.0.1:7400");
        if (o->reigns.address == NULL) {
            *code = LH_SERVER_USAGE;
            return false;
        }
        if (describe_page(o))
            o->reigns.page = o->page;
        o->reigns.id = o->master_id != NULL ? o->master_id : o->reigns.address;
        o->reigns.reign_term = o->reign_term;
        lh_reign_config_fill(&o->reigns);
        /* Sessions outlive a change of masters (PS-3). */
        o->reigns.master.program_term_min = lh_duration_max(
            config.program_term_min, lh_duration_add(o->reigns.reign_term, lh_seconds(2)));
        o->reigns.master.program_term_max =
            lh_duration_max(config.program_term_max, o->reigns.master.program_term_min);
        error = lh_reign_config_check(&o->reigns, why, sizeof why);
    }
    const char *here = o->reigns.address != NULL ? o->reigns.address : o->server.listen;
    o->reigns.master.refuse_loopback = !lh_address_is_loopback(here);
    if (error == LH_OK)
        return true;
    lh_say(COMMAND ": %s\n", why);
    *code = LH_SERVER_CONFIG;
    return false;
}

bool lh_master_options_parse(struct lh_master_options *o, int argc, char **argv, int *code)
{
    static const char *const losses[] = {"roll", "wait", NULL};
    const struct lh_flag table[] = {
        LH_SERVER_LISTEN_FLAG(o->server, "127.0.0.1:7400"),
        {LH_FLAG("http-listen", STRING, &o->http_listen, NULL), .metavar = "ADDRESS",
            .address = true,
            .help = "address for the page about the cluster, and the same as JSON; by default "
                    "none"},
        {LH_FLAG("http-host", STRING, &o->http_hosts, NULL), .metavar = "NAMES",
            .help = "names of the page's host in browsers, separated by commas, beside localhost "
                    "and IP addresses; with TLS the certificate's count"},
        {LH_FLAG("data-dir", STRING, &o->data_dir, "leasehold-master"), .metavar = "DIRECTORY",
            .help = "where metadata is kept; created if missing"},
        {LH_FLAG("store", STRING, &o->store, NULL), .metavar = "KIND:WHERE",
            .help = "where metadata is kept instead: lmdb:DIRECTORY, or "
                    "etcd:HOST:PORT,HOST:PORT,.../PREFIX, which any number of masters share"},
        {LH_FLAG("advertise", STRING, &o->advertise, NULL), .metavar = "ADDRESS",
            .help = "with etcd: the address that others reach this master at; by default --listen"},
        {LH_FLAG("master-id", STRING, &o->master_id, NULL), .metavar = "NAME",
            .help = "with etcd: this master's lasting name, that no other one has; by default its "
                    "address"},
        {LH_FLAG("reign-term", DURATION, &o->reign_term, "2s"), .min = LH_REIGN_TERM_MIN_NS,
            .max = LH_REIGN_TERM_MAX_NS,
            .help = "with etcd: another master takes over when the active one has been silent for "
                    "so long"},
        {LH_FLAG("etcd-quota", SIZE, &o->reigns.quota_bytes, "2GiB"), .min = 1u << 20,
            .help = "etcd's --quota-backend-bytes: at nine tenths of it no file is created or gets "
                    "a new chunk"},
        LH_ETCD_FLAGS(o->etcd),
        {LH_FLAG("session-term", DURATION, &o->session_term, "10s"), .min = LH_SESSION_TERM_MIN_NS,
            .max = LH_SESSION_TERM_MAX_NS,
            .help = "how long a chunkserver's session lives without a heartbeat"},
        {LH_FLAG("chunk-term", DURATION, &o->chunk_term, "60s"), .min = LH_SESSION_TERM_MIN_NS,
            .max = 24 * LH_SESSION_TERM_MAX_NS,
            .help = "how long a primary that has nothing to do keeps its lease; at least the "
                    "session term"},
        {LH_FLAG("max-clock-drift-ppm", UINT, &o->drift_ppm, "10000"), .max = 200000,
            .help = "how far the rate of any clock may be off, in parts per million"},
        {LH_FLAG("replication", UINT, &o->replication, "3"), .min = 1, .max = LH_REPLICATION_MAX,
            .help = "replicas of a new chunk, for files that do not say"},
        {LH_FLAG("min-replicas", UINT, &o->min_replicas, "2"), .min = 1, .max = LH_REPLICATION_MAX,
            .help = "replicas without which a chunk takes no appends, likewise"},
        {LH_FLAG("chunk-size", SIZE, &o->chunk_size, "64MiB"), .min = LH_CHUNK_BYTES_MIN,
            .max = LH_CHUNK_BYTES_MAX, .help = "largest size of a chunk, likewise"},
        {LH_FLAG("on-primary-loss", ENUM, &o->on_primary_loss, "roll"), .choices = losses,
            .help = "when the primary of a file's last chunk is lost: roll over to a new chunk, or "
                    "wait for its lease to run out; likewise"},
        {LH_FLAG("suspect-after", DURATION, &o->suspect_after, "300ms"), .min = 1000000,
            .help =
                "a primary that a client has lost is taken for lost if it does not show by then "
                "that it lives"},
        {LH_FLAG("capability-term", DURATION, &o->capability_term, "10m"),
            .min = LH_SESSION_TERM_MIN_NS, .max = 24 * LH_SESSION_TERM_MAX_NS,
            .help =
                "with TLS: how long a client may read or append to a chunk after the master has "
                "let it; at least the session term"},
        {LH_FLAG("program-term-max", DURATION, &o->program_term_max, "60s"), .min = 1000000000,
            .max = TERM_OF_PROGRAMS_MAX_NS,
            .help = "longest term of a program's session: longer ones are shortened to it. A "
                    "program that died delays locks and changes of values for so long after a "
                    "start. With several masters no less than the reign term and 2s"},
        {LH_FLAG("create-timeout", DURATION, &o->create_timeout, "3s"), .min = 10000000,
            .help = "a chunkserver that has not created a replica by then is replaced"},
        {LH_FLAG("grace", DURATION, &o->grace, "5m"),
            .help = "what a chunkserver has is copied elsewhere once it has been away for this "
                    "long"},
        {LH_FLAG("repair-streams", UINT, &o->repair_streams, "2"), .max = LH_REPAIR_STREAMS_MAX,
            .help = "replicas that are copied to one chunkserver at a time; 0: none are"},
        {LH_FLAG("trash-retention", DURATION, &o->trash_retention, "24h"),
            .max = LH_TRASH_RETENTION_MAX_NS,
            .help = "a removed file can be restored for this long of a running master's time; 0: "
                    "it is gone at once"},
        {LH_FLAG("restored", BOOL, &o->restored, NULL),
            .help = "the data directory was restored from a backup: nothing is deleted until "
                    "`leasehold garbage --resume`; give it for the first start alone",
            .command_line_only = true},
        {LH_FLAG("balance", BOOL, &o->balance, "true"),
            .help = "move replicas and primaries, a few at a time, from chunkservers with more of "
                    "them to others"},
        LH_SERVER_NETWORK_FLAG(o->server),
        LH_SERVER_LIMIT_FLAGS(o->server),
        LH_SERVER_METRICS_FLAG(o->server),
        LH_SERVER_TLS_FLAGS(o->server),
        LH_SERVER_LOG_FLAGS(o->server),
    };
    const struct lh_flags flags = {
        .command = COMMAND,
        .usage = "[OPTION]...",
        .section = 8,
        .title = "grants the leases of a Leasehold cluster and keeps its names",
        .files = "`/etc/leasehold/master.conf`: the config file that the systemd unit gives to the "
                 "program\n`/var/lib/leasehold-master`: the data directory, likewise",
        .summary = "Keeps the files' names, knows which chunkserver holds what, and grants the "
                   "leases under which they take appends.",
        .epilog = "SIGTERM or SIGINT: finish commits under way, exit.\n"
                  "SIGHUP: read the options again and take up log-level and log-format.\n"
                  "Exit status: 0 done, 64 usage, 69 address in use, 70 internal, 71 system, 73 "
                  "data directory, 74 input or output, 75 deaf, 78 settings that "
                  "contradict each other.\n",
        LH_FLAG_ROWS(table),
    };

    if (!lh_server_parse(&flags, argc, argv, &o->server, &o->args, code))
        return false;
    if (take(o, code))
        return true;
    lh_master_options_free(o);
    return false;
}

void lh_master_options_free(struct lh_master_options *o)
{
    lh_flags_free(&o->args);
    lh_server_options_free(&o->server);
    lh_etcd_options_free(&o->etcd);
}
