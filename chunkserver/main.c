/* leasehold-chunkserver: the chunkserver's core with a real network, disk and clock around it. */
#include "base/prng.h"
#include "chunkserver/chunkserver.h"
#include "chunkserver/data_dir.h"
#include "chunkserver/options.h"
#include "proto/codec.h"
#include "runtime/disk.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/notify.h"
#include "runtime/observe.h"
#include "runtime/server.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define COMPONENT "chunkserver"

struct node {
    struct lh_chunkserver_options *options;
    int argc; /* what the options are read from, again at SIGHUP */
    char **argv;
    struct lh_data_dir *dir;
    struct lh_disk *disk;
    struct lh_chunkserver *core;
    struct lh_loop *loop;
    struct lh_observe *observe;
};

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

/* REC-2a: what the kernel keeps of files in its memory goes with their mount, too. */
static void add_mount(uint8_t id[LH_BOOT_ID_BYTES], uint64_t mount_number)
{
    uint64_t mixed = mount_number == 0 ? 0 : lh_mix64(mount_number);

    for (size_t i = 0; i < sizeof mixed; i++)
        id[i] ^= (uint8_t)(mixed >> 8 * i);
}

/* A bare container may have no machine id. What the boot id names is then machine enough: it only
 * has to tell whether a lock taken in the data directory proves anything (SES-5). */
static void machine_id(char *text, size_t size, const char *boot_id)
{
    read_line("/etc/machine-id", text, size);
    if (text[0] == '\0')
        (void)snprintf(text, size, "boot-%s", boot_id);
}

/* 0 if the system has no random numbers: then registrations prove nothing (SES-5a). */
static uint64_t draw_process(void)
{
    uint64_t process = 0;

    if (getrandom(&process, sizeof process, 0) != (ssize_t)sizeof process)
        return 0;
    return process;
}

/* --- the loop's callbacks ----------------------------------------------------------------- */

static bool key_is(const struct lh_change *c, const char *key)
{
    return c->key_size == strlen(key) && memcmp(c->key, key, c->key_size) == 0;
}

/* The core persists which cluster it belongs to, the highest master's term with its name, and how
 * far the scrub has come. */
static int keep(struct lh_data_dir *dir, const struct lh_change *c, char *why, size_t why_size)
{
    char text[LH_IDENTITY_TEXT_MAX + 1];
    uint64_t term, name;

    (void)snprintf(why, why_size, "cannot keep what the master sent or the scrub's position");
    if (c->value == NULL || c->value_size > LH_IDENTITY_TEXT_MAX)
        return LH_ERR_MALFORMED;
    memcpy(text, c->value, c->value_size);
    text[c->value_size] = '\0';
    if (key_is(c, LH_CLUSTER_ID_KEY))
        return lh_data_dir_join(dir, text, why, why_size);
    if (key_is(c, LH_MASTER_TERM_KEY)) {
        lh_cs_term_read(text, &term, &name);
        return lh_data_dir_note_master_term(dir, term, name, why, why_size);
    }
    if (key_is(c, LH_SCRUB_KEY))
        return lh_data_dir_note_scrub(dir, text, why, why_size);
    return LH_ERR_MALFORMED;
}

static void persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count)
{
    struct node *node = arg;
    int error = LH_OK;
    for (size_t i = 0; i < count && error == LH_OK; i++) {
        char why[512];
        bool known = lh_data_dir_unwritten(node->dir);
        error = keep(node->dir, &changes[i], why, sizeof why);
        if (error != LH_OK && !(known && lh_data_dir_unwritten(node->dir)))
            lh_log(LH_ERROR, COMPONENT, "%s", why);
    }
    lh_changes_free(changes, count);
    lh_loop_persisted(node->loop, ticket, error);
}

/* --- figures ------------------------------------------------------------------------------ */

static void metrics(void *arg, struct lh_metrics *out)
{
    struct node *node = arg;

    lh_loop_lock(node->loop);
    lh_chunkserver_metrics(node->core, lh_clock_now(), out);
    lh_loop_unlock(node->loop);
    lh_server_metrics(node->loop, out);
}

static bool live(void *arg, char *why, size_t why_size)
{
    (void)arg;
    return lh_server_is_live(why, why_size);
}

static bool is_responsive(void *arg)
{
    const struct node *node = arg;

    return lh_loop_is_responsive(node->loop, lh_milliseconds(LH_SERVER_UPDATE_MS));
}

static bool ready(void *arg, char *why, size_t why_size)
{
    struct node *node = arg;

    lh_loop_lock(node->loop);
    bool is = lh_chunkserver_ready(node->core, lh_clock_now(), why, why_size);
    lh_loop_unlock(node->loop);
    return is;
}

static int observe(struct node *node, char *why, size_t why_size)
{
    const struct lh_observe_config config = {.listen = node->options->server.metrics_listen,
        .live = live,
        .is_responsive = is_responsive,
        .metrics = metrics,
        .ready = ready,
        .tls = lh_loop_tls(node->loop),
        .arg = node};

    return config.listen == NULL ? LH_OK : lh_observe_start(&config, &node->observe, why, why_size);
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

static void update(void *arg)
{
    struct node *node = arg;
    uint64_t capacity, available;
    measure_space(node, &capacity, &available);
    lh_loop_lock(node->loop);
    lh_chunkserver_set_space(node->core, capacity, available);
    bool serving = lh_chunkserver_in_session(node->core, lh_clock_now());
    lh_loop_unlock(node->loop);
    lh_loop_set_serving(node->loop, serving, serving);
}

static void reload(void *arg)
{
    struct node *node = arg;
    struct lh_chunkserver_options fresh = {0};
    int code;

    if (!lh_chunkserver_options_parse(&fresh, node->argc, node->argv, &code)) {
        lh_log(LH_ERROR, COMPONENT, "the options are wrong, as said above: none was taken up");
        return;
    }
    node->options->capacity = fresh.capacity;
    lh_server_refresh(COMPONENT, &node->options->args, &fresh.args, &fresh.server);
    lh_server_take_roles(COMPONENT, node->loop, &node->options->server, &fresh.server);
    lh_chunkserver_options_free(&fresh);
}

/* Until a signal asks to stop, or the core stops by itself. */
static int serve(struct node *node)
{
    const struct lh_server server = {
        .loop = node->loop,
        .component = COMPONENT,
        .on_signal = "releasing leases and stopping",
        .stop_timeout = node->options->stop_timeout,
        .options = &node->options->server,
        .update = update,
        .ready = ready,
        .reload = reload,
        .arg = node,
    };
    int code, error;

    if (!lh_server_wait(&server, &code))
        return code;
    error = lh_server_stop(&server);
    if (error == LH_ERR_DEADLINE_EXCEEDED) {
        lh_log(LH_WARN, COMPONENT,
            "not everything was released within the stop timeout; leases that are left run out");
        return code;
    }
    return error == LH_OK ? code : lh_server_exit_code(error);
}

/* What others may call here; leasehold.proto. */
static const char *const services[] = {"leasehold.ChunkServer", NULL};

/* Without the file with which the disk is probed. */
static size_t count_replicas(const uint64_t *files, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += LH_CS_IS_CHUNK(files[i]);
    return n;
}

static int run(struct node *node)
{
    const struct lh_chunkserver_options *o = node->options;
    const struct lh_identity *identity = lh_data_dir_identity(node->dir);
    char why[512], boot[64], machine[128];

    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    machine_id(machine, sizeof machine, boot);
    struct lh_disk_options disk_options = {
        .no_uring = !o->uring,
        .threads = (unsigned)o->disk_threads,
        .open_files_max = (unsigned)o->open_files,
    };
    /* The disk's are the first threads. */
    lh_server_block_signals();
    int error = lh_disk_create(o->data_dir, &disk_options, &node->disk, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    uint64_t *chunks = NULL;
    struct lh_chunkserver_config config = {
        .server_id = identity->server_id,
        .address = o->advertise,
        .failure_domain = o->failure_domain,
        .machine_id = machine,
        .cluster_id = identity->cluster_id,
        .master_term = identity->master_term,
        .reign_name = identity->reign_name,
        .incarnation = identity->incarnation,
        .read_only = lh_data_dir_unwritten(node->dir),
        .process = draw_process(),
        .access = o->server.access,
        .capabilities = o->server.tls.files.ca_file != NULL,
        .masters = o->masters.items,
        .master_count = o->masters.count,
        .member_timeout = o->member_timeout,
        .drain_timeout = o->drain_timeout,
        .pending_bytes_max = o->pending_bytes,
        .repair_rate = o->repair_rate == 0 ? UINT64_MAX : o->repair_rate,
        .scrub_period = o->scrub_period.ns == 0 ? LH_DURATION_FOREVER : o->scrub_period,
        .scrub_rate = o->scrub_rate,
        .scrub_position = identity->scrub,
    };
    if (!parse_boot_id(boot, config.boot_id)) {
        lh_log(LH_ERROR, COMPONENT,
            "/proc/sys/kernel/random/boot_id has no boot id; is /proc mounted?");
        return LH_SERVER_SYSTEM;
    }
    add_mount(config.boot_id, lh_disk_mount_number(node->disk));
    uint64_t aside, aside_bytes;
    error = lh_disk_list(node->disk, &chunks, &config.chunk_count, &aside, &aside_bytes);
    if (error != LH_OK) {
        lh_log(LH_ERROR, COMPONENT, "cannot list the chunks in %s: %s", o->data_dir,
            lh_error_text(error));
        return lh_server_exit_code(error);
    }
    if (aside > 0)
        lh_log(LH_WARN, COMPONENT,
            "%s/chunks has %" PRIu64 " files of which a sync has failed (*.chunk.failed, %" PRIu64
            " bytes): what the disk has of them is rewritten; check the disk",
            o->data_dir, aside, aside_bytes);
    config.chunks = chunks;
    size_t replicas = count_replicas(chunks, config.chunk_count);
    measure_space(node, &config.capacity_bytes, &config.free_bytes);
    node->core = lh_chunkserver_create(&config);
    free(chunks);

    struct lh_loop_config loop = {
        .core = lh_chunkserver_core(node->core),
        .name = COMPONENT,
        .listen = o->server.listen,
        .threads = (unsigned)o->server.network_threads,
        .services = services,
        .disk = node->disk,
        .persist = persist,
        .store = node,
        .on_stopped = lh_server_on_stopped,
        .arg = node,
    };
    lh_server_limit_loop(&o->server, &loop);
    /* What was ordered and is not committed lies in memory that gRPC received it in, and counts
     * there until it is released. */
    loop.memory_max += o->pending_bytes;
    loop.served_message_max = LH_WIRE_MESSAGE_BYTES_MAX;
    error = lh_loop_create(&loop, &node->loop, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    error = observe(node, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    lh_log(LH_INFO, COMPONENT,
        "server %s incarnation %" PRIu64 " on %s, known as %s, data in %s (%zu chunks, %s)",
        identity->server_id, identity->incarnation, o->server.listen, o->advertise, o->data_dir,
        replicas, lh_disk_has_uring(node->disk) ? "io_uring" : "threads");
    lh_loop_start(node->loop);
    /* A session may take long, or wait for a master: the server is up without. */
    lh_notify("READY=1\n");
    int code = serve(node);
    lh_log(LH_INFO, COMPONENT, "bye");
    return code;
}

/* The name in this server's certificate, or in its line of the table of roles; NULL: none. */
static const char *certified_name(
    const struct lh_server_options *o, char identity[LH_LINK_IDENTITY_MAX + 1])
{
    struct lh_party party;

    if (o->tls.files.cert_file == NULL || !lh_tls_owner(o->tls.files.cert_file, identity))
        return NULL;
    lh_access_party(o->access, identity, &party);
    return party.role == LH_ROLE_CHUNKSERVER ? party.name : NULL;
}

static int open_and_run(struct lh_chunkserver_options *o, int argc, char **argv)
{
    struct node node = {.options = o, .argc = argc, .argv = argv};
    char why[512], identity[LH_LINK_IDENTITY_MAX + 1];
    int error = lh_data_dir_open(o->data_dir, o->server_id, certified_name(&o->server, identity),
        &node.dir, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    if (lh_data_dir_unwritten(node.dir))
        lh_log(LH_ERROR, COMPONENT,
            "%s: what is on this disk is served to readers, and until it can be written this "
            "server gets no leases and no replicas",
            why);
    int code = run(&node);
    lh_observe_stop(node.observe);
    lh_loop_destroy(node.loop);
    lh_disk_destroy(node.disk);
    if (node.core != NULL)
        lh_chunkserver_destroy(node.core);
    lh_data_dir_close(node.dir);
    return code;
}

int main(int argc, char **argv)
{
    struct lh_chunkserver_options o = {0};
    int code;

    if (!lh_chunkserver_options_parse(&o, argc, argv, &code))
        return code;
    if (lh_server_prepare(&o.server, COMPONENT, &o.open_files, &code) &&
        lh_server_certified(&o.server, COMPONENT, LH_SERVER_CHUNKSERVER, o.advertise, &code))
        code = open_and_run(&o, argc, argv);
    lh_chunkserver_options_free(&o);
    return code;
}
