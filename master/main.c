/* leasehold-master: the master's core with a real network, metadata store and clock around it. */
#include "base/prng.h"
#include "lease/promises.h"
#include "master/master.h"
#include "master/options.h"
#include "master/page/page.h"
#include "master/reigns/reigns.h"
#include "master/store/stores.h"
#include "master/watcher.h"
#include "runtime/kept.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/notify.h"
#include "runtime/observe.h"
#include "runtime/questions.h"
#include "runtime/server.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define COMPONENT "master"

/* For a thousand clients, one in sixteen shares its slot with another one. */
#define PROMISES_SLOTS 16384u

/* How long SIGTERM waits for commits under way. */
#define STOP_SECONDS 10

struct node {
    struct lh_master_options *options;
    int argc; /* what the options are read from, again at SIGHUP */
    char **argv;
    struct lh_metastore *store; /* NULL: metadata is in etcd, */
    struct lh_master *core;     /* ... and so is `reigns` the core */
    struct lh_reigns *reigns;
    struct lh_kept kept; /* what this machine remembers (LEASE-9) */
    struct lh_loop *loop;
    struct lh_observe *observe;
    struct lh_questions *questions; /* around the core, with a page */
    struct lh_page *page;
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
        lh_loop_set_serving(node->loop, true, true);
        listen_address(node, address, sizeof address);
        lh_notify("READY=1\n");
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
    if (node->reigns != NULL)
        lh_reigns_metrics(node->reigns, out);
    else
        lh_master_metrics(node->core, out);
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
    bool is = node->reigns != NULL ? lh_reigns_ready(node->reigns, why, why_size)
                                   : lh_master_ready(node->core, why, why_size);
    lh_loop_unlock(node->loop);
    if (!is || !atomic_load(&node->starved))
        return is;
    (void)snprintf(why, why_size, "there is no room or no memory to write the metadata");
    return false;
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

/* --- the page ----------------------------------------------------------------------------- */

static void on_complete(void *arg, void *call, int error)
{
    struct node *node = arg;

    lh_page_completed(node->page, call, error);
}

static struct lh_core core_of(struct node *node)
{
    struct lh_core core =
        node->reigns != NULL ? lh_reigns_core(node->reigns) : lh_master_core(node->core);

    if (node->options->http_listen == NULL)
        return core;
    node->questions = lh_questions_create(core);
    return lh_questions_core(node->questions);
}

static int start_page(struct node *node, char *why, size_t why_size)
{
    const struct lh_page_config config = {.listen = node->options->http_listen,
        .hosts = node->options->http_hosts,
        .tls = lh_loop_tls(node->loop),
        .loop = node->loop,
        .live = live,
        .is_responsive = is_responsive,
        .metrics = metrics,
        .ready = ready,
        .arg = node};
    const char *colon;

    if (config.listen == NULL)
        return LH_OK;
    int error = lh_page_start(&config, &node->page, why, why_size);
    if (error != LH_OK)
        return error;
    colon = strrchr(config.listen, ':'); /* it was read */
    lh_log(LH_INFO, COMPONENT, "page on http%s://%.*s:%d/", config.tls != NULL ? "s" : "",
        (int)(colon - config.listen), config.listen, lh_page_port(node->page));
    return LH_OK;
}

/* --- running ------------------------------------------------------------------------------ */

/* Which calls are answered: a standby says of each who is active. */
static void update(void *arg)
{
    struct node *node = arg;

    if (node->reigns == NULL)
        return; /* said by the first commit */
    lh_loop_lock(node->loop);
    bool acting = lh_reigns_is_acting(node->reigns);
    lh_loop_unlock(node->loop);
    lh_loop_set_serving(node->loop, true, acting);
}

static void reload(void *arg)
{
    struct node *node = arg;
    struct lh_master_options fresh = {0};
    int code;

    if (!lh_master_options_parse(&fresh, node->argc, node->argv, &code)) {
        lh_log(LH_ERROR, COMPONENT, "the options are wrong, as said above: none was taken up");
        return;
    }
    lh_server_refresh(COMPONENT, &node->options->args, &fresh.args, &fresh.server);
    lh_server_take_roles(COMPONENT, node->loop, &node->options->server, &fresh.server);
    lh_master_options_free(&fresh);
}

/* Until a signal asks to stop, or the core stops by itself. */
static int serve(struct node *node)
{
    const struct lh_server server = {
        .loop = node->loop,
        .component = COMPONENT,
        .on_signal = "stopping",
        .stop_timeout = lh_seconds(STOP_SECONDS),
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
        /* A commit hangs, and with it everything that would be put away in order. What was answered
         * is durable; the rest never was promised. */
        lh_log(LH_ERROR, COMPONENT, "the metadata store has not finished within %d s; leaving",
            STOP_SECONDS);
        lh_log_flush();
        _exit(LH_SERVER_IO);
    }
    if (error != LH_OK)
        lh_log(LH_ERROR, COMPONENT, "stopped: %s", lh_error_text(error));
    return error == LH_OK ? code : lh_server_exit_code(error);
}

/* Everything that is stored, to the core. */
static int open_store(struct node *node)
{
    const struct lh_master_options *o = node->options;
    char why[1024] = "", text[512];
    int error =
        lh_metastore_open("lmdb", o->data_dir, on_committed, node, &node->store, why, sizeof why);

    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    error = lh_metastore_load(node->store, on_pair, node, why, sizeof why);
    if (error == LH_OK) {
        error = lh_master_loaded(node->core, text, sizeof text);
        if (error == LH_OK)
            return LH_SERVER_DONE;
        (void)snprintf(why, sizeof why, "%s: %s", o->data_dir, text);
    }
    if (why[0] != 0)
        lh_log(LH_ERROR, COMPONENT, "%s", why);
    return lh_server_exit_code(error);
}

/* What clients may call here; leasehold.proto. */
static const char *const services[] = {"leasehold.Master", "leasehold.Leases", NULL};

static int run(struct node *node)
{
    const struct lh_master_options *o = node->options;
    char why[512];
    int code = node->reigns != NULL ? LH_SERVER_DONE : open_store(node);

    if (code != LH_SERVER_DONE)
        return code;
    struct lh_loop_config loop = {
        .core = core_of(node),
        .name = COMPONENT,
        .listen = o->server.listen,
        .threads = (unsigned)o->server.network_threads,
        .services = services,
        .foreign_tls = o->etcd.tls,
        .persist = node->reigns != NULL ? NULL : persist,
        .store = node,
        .on_complete = on_complete,
        .on_stopped = lh_server_on_stopped,
        .arg = node,
    };
    lh_server_limit_loop(&o->server, &loop);
    int error = lh_loop_create(&loop, &node->loop, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    error = observe(node, why, sizeof why);
    if (error == LH_OK)
        error = start_page(node, why, sizeof why);
    if (error != LH_OK)
        return lh_server_refused(COMPONENT, error, why);
    lh_loop_start(node->loop);
    if (node->reigns != NULL) {
        /* A standby is of use, too: it says who is active. */
        char address[300];
        listen_address(node, address, sizeof address);
        lh_loop_set_serving(node->loop, true, false);
        lh_notify("READY=1\n");
        lh_log(LH_INFO, COMPONENT, "ready on %s, one of several masters: %s, metadata in etcd, %s",
            address, o->reigns.id, o->reigns.prefix);
    }
    code = serve(node);
    lh_log(LH_INFO, COMPONENT, "bye");
    return code;
}

/* LEASE-9: by where its metadata is, and who it is there. */
static void remember(struct node *node, struct lh_master_options *o)
{
    char name[32], why[256];
    uint64_t hash = o->data_dir != NULL
                        ? lh_mix_text(1, o->data_dir)
                        : lh_mix_text(lh_mix64(lh_mix_text(2, o->reigns.prefix)), o->reigns.id);

    _Static_assert(LH_KEPT_PLACE <= LH_PROMISES_PLACE, "what is kept is told whole");
    snprintf(name, sizeof name, "promises-%016" PRIx64, hash);
    if (!lh_kept_open(&node->kept, name, lh_promises_size(PROMISES_SLOTS), why, sizeof why)) {
        lh_log(LH_INFO, COMPONENT,
            "what was promised is waited for by whole terms after each start: it cannot be noted "
            "(%s)",
            why);
        return;
    }
    o->reigns.master.promises = node->kept.memory;
    lh_promises_open(o->reigns.master.promises, PROMISES_SLOTS, node->kept.place);
}

static bool draw(void *to, size_t size)
{
    return getrandom(to, size, 0) == (ssize_t)size;
}

static int open_and_run(struct lh_master_options *o, int argc, char **argv)
{
    struct node node = {.options = o, .argc = argc, .argv = argv};
    struct lh_master_config *config = &o->reigns.master;

    if (!draw(&config->seed, sizeof config->seed) ||
        !draw(config->capability_secret, sizeof config->capability_secret) ||
        !draw(config->event_secret, sizeof config->event_secret)) {
        lh_log(LH_ERROR, COMPONENT, "the operating system gives no random numbers");
        return LH_SERVER_SYSTEM;
    }
    lh_server_block_signals();
    remember(&node, o);
    if (o->data_dir != NULL)
        node.core = lh_master_create(&o->reigns.master);
    else
        node.reigns = lh_reigns_create(&o->reigns);
    int code = run(&node);
    lh_page_stop(node.page);
    lh_observe_stop(node.observe);
    /* The store first: it completes what is under way into the loop. */
    lh_metastore_close(node.store);
    lh_loop_destroy(node.loop);
    lh_page_destroy(node.page);
    lh_questions_destroy(node.questions);
    lh_master_destroy(node.core);
    lh_reigns_destroy(node.reigns);
    lh_kept_close(&node.kept);
    return code;
}

int main(int argc, char **argv)
{
    struct lh_master_options o = {0};
    int code;

    if (lh_watcher_is_meant(argc, argv))
        return lh_watcher_main(argc, argv);
    if (!lh_master_options_parse(&o, argc, argv, &code))
        return code;
    uint64_t files = 0;
    if ((o.data_dir != NULL || lh_watcher_start(argc, argv, &o.reigns.process, &code)) &&
        lh_server_prepare(&o.server, COMPONENT, &files, &code) &&
        lh_server_certified(&o.server, COMPONENT, LH_SERVER_MASTER, o.reigns.address, &code))
        code = open_and_run(&o, argc, argv);
    lh_master_options_free(&o);
    return code;
}
