/* The etcd of `leasehold local`; see local_etcd.h. */
#include "client/command/local_etcd.h"

#include "base/alloc.h"
#include "client/command/authority.h"
#include "client/command/command.h"
#include "client/command/local_tls.h"
#include "master/copy/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "local"

extern char **environ;

static bool is_installed(void)
{
    if (lh_child_can_run("etcd"))
        return true;
    (void)lh_command_error(0, COMMAND,
        "several masters keep their metadata in etcd, and there is no program \"etcd\" in PATH: "
        "install it (Debian: apt-get install etcd-server; its service need not run)");
    return false;
}

static FILE *open_note(const char *dir, const char *mode)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/etcd.ports", dir);
    return fopen(path, mode);
}

static bool is_in(const char *dir)
{
    FILE *file = open_note(dir, "re");

    if (file != NULL)
        (void)fclose(file);
    return file != NULL;
}

static bool fits(const char *dir, uint64_t members, uint64_t port)
{
    uint64_t old_members = 0, old_port = 0;
    FILE *file = open_note(dir, "re");

    if (file == NULL)
        return true;
    bool known = fscanf(file, "%" SCNu64 " %" SCNu64, &old_members, &old_port) == 2;
    (void)fclose(file);
    if (!known || (old_members == members && (members == 1 || old_port == port)))
        return true;
    (void)lh_command_error(0, COMMAND,
        "%s was made with --etcd=%" PRIu64 " --port=%" PRIu64 ": give these, or another --dir", dir,
        old_members, old_port);
    return false;
}

static bool is_of_one_master(const char *dir)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/master", dir);
    return access(path, F_OK) == 0;
}

int lh_local_etcd_check(const char *dir, uint64_t masters, uint64_t members, uint64_t port)
{
    if (masters > 1 && is_of_one_master(dir))
        return lh_command_error(LH_EXIT_FAILED, COMMAND,
            "%s was made with a single master, whose metadata is not in etcd: leave --masters out, "
            "or give another --dir",
            dir);
    if (masters == 1 && is_in(dir))
        return lh_command_error(LH_EXIT_FAILED, COMMAND,
            "%s was made with several masters, whose metadata is in etcd: give --masters, or "
            "another --dir",
            dir);
    if (masters == 1)
        return LH_EXIT_OK;
    if (!is_installed())
        return LH_EXIT_SYSTEM;
    return fits(dir, members, port) ? LH_EXIT_OK : LH_EXIT_FAILED;
}

bool lh_local_etcd_note(const char *dir, uint64_t members, uint64_t port)
{
    FILE *file = open_note(dir, "we");
    bool written = file != NULL && fprintf(file, "%" PRIu64 " %" PRIu64 "\n", members, port) > 0;

    if (file != NULL && fclose(file) == 0 && written)
        return true;
    (void)lh_command_error(0, COMMAND, "cannot write to %s: %s", dir, strerror(errno));
    return false;
}

void lh_local_etcd_prepare_environment(void)
{
    char name[64];

    /* etcd does not start when a variable and an option contradict each other. */
    for (char **at = environ; *at != NULL;) {
        size_t n = strcspn(*at, "=");
        if (strncmp(*at, "ETCD_", 5) != 0 || n >= sizeof name) {
            at++;
            continue;
        }
        memcpy(name, *at, n);
        name[n] = '\0';
        (void)unsetenv(name);
        at = environ; /* what stood behind it has moved */
    }
#ifdef __aarch64__
    (void)setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1); /* etcd 3.4 does not start without it */
#endif
}

static void url(char *text, size_t size, const char *scheme, uint64_t port)
{
    (void)snprintf(text, size, "%s://127.0.0.1:%" PRIu64, scheme, port);
}

/* "etcd1=URL,etcd2=URL": everybody's peer address. */
static char *initial_cluster(uint64_t count, uint64_t port)
{
    char *text = NULL, peer[64];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (uint64_t i = 1; i <= count; i++) {
        url(peer, sizeof peer, "http", port + LH_LOCAL_ETCD_PEER + i);
        (void)fprintf(out, "%setcd%" PRIu64 "=%s", i > 1 ? "," : "", i, peer);
    }
    (void)fclose(out);
    return text;
}

/* For its clients; the members trust each other. */
static bool add_tls(struct lh_child *c, const char *dir)
{
    static const char *const files[][2] = {{"trusted-ca-file", LH_AUTHORITY_CERT},
        {"cert-file", LH_NODE_CERT}, {"key-file", LH_NODE_KEY}};
    char *folder = lh_local_tls_issue(dir, "etcd", c->name);
    char path[4200];

    if (folder == NULL)
        return false;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i][1]);
        lh_child_argument(c, files[i][0], path);
    }
    lh_child_argument(c, "client-cert-auth", "true");
    free(folder);
    return true;
}

bool lh_local_etcd_describe(
    struct lh_child *members, uint64_t count, const char *dir, uint64_t port, bool tls)
{
    char *all = initial_cluster(count, port);
    bool good = true;

    for (uint64_t i = 1; i <= count; i++) {
        struct lh_child *c = &members[i - 1];
        char name[32], client[64], peer[64], log[4096], data[4096];
        (void)snprintf(name, sizeof name, "etcd%" PRIu64, i);
        (void)snprintf(log, sizeof log, "%s/%s.log", dir, name);
        (void)snprintf(data, sizeof data, "%s/%s", dir, name);
        url(client, sizeof client, tls ? "https" : "http", port + LH_LOCAL_ETCD_CLIENT + i);
        url(peer, sizeof peer, "http", port + LH_LOCAL_ETCD_PEER + i);
        lh_child_init(c, name, "etcd", log);
        (void)snprintf(c->address, sizeof c->address, "%s", strrchr(client, '/') + 1);
        lh_child_argument(c, "name", name);
        lh_child_argument(c, "data-dir", data);
        lh_child_argument(c, "listen-client-urls", client);
        lh_child_argument(c, "advertise-client-urls", client);
        lh_child_argument(c, "listen-peer-urls", peer);
        lh_child_argument(c, "initial-advertise-peer-urls", peer);
        lh_child_argument(c, "initial-cluster", all);
        lh_child_argument(c, "logger", "zap");
        lh_child_argument(c, "log-level", "warn");
        good = (!tls || add_tls(c, dir)) && good;
    }
    free(all);
    return good;
}

char *lh_local_etcd_store(const struct lh_child *members, uint64_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)fputs("etcd:", out);
    for (uint64_t i = 0; i < count; i++)
        (void)fprintf(out, "%s%s", i > 0 ? "," : "", members[i].address);
    (void)fputs("/leasehold", out);
    (void)fclose(out);
    return text;
}

int lh_local_etcd_begin(const struct lh_child *members, uint64_t count, const char *tls_dir,
    struct lh_duration patience, bool (*interrupted)(void *arg), void *arg)
{
    struct lh_tls_options tls = {.dir = tls_dir};
    struct lh_etcd_options etcd = {0};
    char id[LH_STORE_CLUSTER_BYTES], why[1200] = "";
    char *store = lh_local_etcd_store(members, count);
    int error = lh_tls_options_take(&tls, why, sizeof why) ? LH_OK : LH_ERR_INVALID_ARGUMENT;

    if (error == LH_OK) {
        const struct lh_store_init wanted = {
            .store = store,
            .etcd = &etcd,
            .tls = tls.files,
            .patience = patience,
            .interrupted = interrupted,
            .arg = arg,
        };
        error = lh_store_init(&wanted, id, why, sizeof why);
    }
    free(store);
    lh_etcd_options_free(&etcd);
    lh_tls_options_free(&tls);
    if (error == LH_ERR_ALREADY_EXISTS)
        return LH_OK;
    if (error != LH_OK && error != LH_ERR_CANCELLED)
        (void)lh_command_error(0, COMMAND, "no cluster begins: %s", why);
    return error;
}
