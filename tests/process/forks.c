/* A program that forks while it uses the library: forks MASTERS PATH CHILDREN TRANSPORT
 * [TLS_DIR]
 *
 * Children find that nothing works that was opened before they began, and close what they do not
 * own, while threads of the parent are in the library. Nothing of the parent's connections is open
 * in them. They have clusters of their own, and append to the file CHILDREN; so do their children.
 * Over gRPC they are refused one. What each was acknowledged is there in the end, at the positions
 * that it was given. */
#include <leasehold_leases.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS           20
#define RECORDS         200 /* at least, of the parent's */
#define CHILD_RECORDS   10
#define WAIT_MS         120000
#define CHILD_S         120
#define VALUE           "/forks/value"
#define PERMITTED(call) check((call) == LH_OK, __LINE__, #call)
#define REFUSED(call)   check((call) == LH_ERR_CLOSED && says_fork(), __LINE__, #call)

struct all {
    const char *masters, *path, *children;
    struct lh_cluster_options options;
    bool by_grpc;
    struct lh_cluster *cluster;
    struct lh_appender *appender, *busy;
    struct lh_reader *reader;
    struct lh_session *session;
    struct lh_lock lock;
    struct lh_watch *watch;
};

static atomic_bool ends;

static bool says_fork(void)
{
    return strstr(lh_last_error(), "fork") != NULL;
}

static void check(bool holds, int line, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, what, lh_last_error());
    _exit(1);
}

static void ignore(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)arg;
    (void)error;
    (void)first;
    (void)count;
}

static void never_granted(void *arg, int error, const struct lh_lock *lock)
{
    (void)arg;
    (void)lock;
    check(error != LH_OK, __LINE__, "a child's lock was granted");
}

/* ---- What a child finds. */

static void calls_of_files(struct all *a)
{
    struct lh_cluster *c = a->cluster;
    struct lh_file_info file;
    struct lh_file_list files;
    struct lh_remove_result removed;
    struct lh_chunk_list chunks;
    struct lh_appender *appender;
    struct lh_reader *reader;

    REFUSED(lh_create(c, "/forks/new", NULL, WAIT_MS, &file));
    REFUSED(lh_stat(c, a->path, WAIT_MS, &file));
    REFUSED(lh_list(c, "", "", 10, WAIT_MS, &files));
    REFUSED(lh_rename(c, a->path, "/forks/else", WAIT_MS));
    REFUSED(lh_remove(c, a->path, NULL, WAIT_MS, &removed));
    REFUSED(lh_trash(c, "", "", 0, 10, WAIT_MS, &files));
    REFUSED(lh_restore(c, a->path, 0, NULL, WAIT_MS, &file));
    REFUSED(lh_locate(c, a->path, 0, 10, WAIT_MS, &chunks));
    REFUSED(lh_appender_open(c, a->path, NULL, WAIT_MS, &appender));
    REFUSED(lh_reader_open(c, a->path, NULL, WAIT_MS, &reader));
}

static void calls_of_operators(struct all *a)
{
    struct lh_cluster *c = a->cluster;
    struct lh_lease_list leases;
    struct lh_server_list servers;
    struct lh_server_info server;
    struct lh_master_list masters;
    struct lh_transfer_result transfer;
    struct lh_chunk_state_list states;
    struct lh_explanation explanation;
    struct lh_garbage_info garbage;
    struct lh_replica_status status;
    struct lh_replica_scan scan = {0};
    struct lh_replica_damage damage;
    struct lh_recall_result recall;

    REFUSED(lh_leases(c, 0, 10, true, WAIT_MS, &leases));
    REFUSED(lh_servers(c, WAIT_MS, &servers));
    REFUSED(lh_set_server(c, "s1", LH_SERVER_DRAINING, WAIT_MS, &server));
    REFUSED(lh_masters(c, WAIT_MS, &masters));
    REFUSED(lh_transfer(c, NULL, WAIT_MS, &transfer));
    REFUSED(lh_forget_master(c, "m", WAIT_MS));
    REFUSED(lh_chunks(c, "", 0, 10, WAIT_MS, &states));
    REFUSED(lh_explain(c, a->path, 0, WAIT_MS, &explanation));
    REFUSED(lh_garbage(c, false, WAIT_MS, &garbage));
    REFUSED(lh_replica_stat(c, "127.0.0.1:1", 1, WAIT_MS, &status));
    REFUSED(lh_replica_check(c, "127.0.0.1:1", 1, 100, WAIT_MS, &scan));
    REFUSED(lh_replica_resync(c, "127.0.0.1:1", 1, 100, WAIT_MS, &scan, &damage));
    REFUSED(lh_recall(c, 0, a->path, true, WAIT_MS, &recall));
}

static void calls_of_leases(struct all *a)
{
    struct lh_cluster *c = a->cluster;
    struct lh_policy policy = {.prefix = (char *)(uintptr_t) "/forks/"};
    struct lh_session *session;
    struct lh_watch *watch;
    struct lh_name_list names;
    struct lh_session_list sessions;
    struct lh_policy_list policies;
    const struct lh_value *value;

    REFUSED(lh_session_open(c, NULL, WAIT_MS, &session));
    REFUSED(lh_cancel(c, "/forks/lock", 0, NULL, WAIT_MS));
    REFUSED(lh_get_once(c, VALUE, WAIT_MS, &value));
    REFUSED(lh_put(c, VALUE, "child", 5, NULL, WAIT_MS, NULL));
    REFUSED(lh_delete(c, VALUE, NULL, WAIT_MS, NULL));
    REFUSED(lh_watch_open(c, "/", 0, WAIT_MS, &watch));
    REFUSED(lh_watch_locks_open(c, "/", WAIT_MS, &watch));
    REFUSED(lh_names(c, "", "", 10, WAIT_MS, &names));
    REFUSED(lh_explain_name(c, VALUE, WAIT_MS, &names));
    REFUSED(lh_sessions(c, "", 10, WAIT_MS, &sessions));
    REFUSED(lh_set_policy(c, &policy, false, WAIT_MS));
    REFUSED(lh_policies(c, WAIT_MS, &policies));
}

static void calls_on_handles(struct all *a)
{
    struct lh_record_ref ref = {.data = "child", .size = 5};
    struct lh_position position;
    struct lh_appender_stats stats;
    struct lh_record record;
    struct lh_batch batch;
    struct lh_watch_event event;
    struct lh_gap gap;
    struct lh_lock lock, copy = a->lock;
    const struct lh_value *value;
    size_t taken = 1;

    REFUSED(lh_append(a->appender, "child", 5, WAIT_MS, &position));
    REFUSED(lh_append_async(a->busy, "child", 5, ignore, NULL, WAIT_MS));
    REFUSED(lh_append_many(a->busy, &ref, 1, ignore, NULL, WAIT_MS, &taken));
    check(taken == 0, __LINE__, "a child's record was taken");
    REFUSED(lh_flush(a->busy, WAIT_MS));
    lh_appender_stats(a->busy, &stats);
    check(lh_appender_record_max(a->appender) > 0, __LINE__, "record_max");
    REFUSED(lh_reader_next(a->reader, WAIT_MS, &record));
    REFUSED(lh_reader_next_batch(a->reader, WAIT_MS, &batch));
    (void)lh_reader_position(a->reader);
    (void)lh_reader_gap(a->reader, &gap);
    REFUSED(lh_acquire(a->session, "/forks/child", NULL, WAIT_MS, &lock));
    REFUSED(lh_acquire_async(a->session, "/forks/child", NULL, WAIT_MS, never_granted, NULL));
    REFUSED(lh_acquire_cancel(a->session, "/forks/child", NULL));
    REFUSED(lh_get(a->session, VALUE, WAIT_MS, &value));
    REFUSED(lh_release(&copy));
    REFUSED(lh_lock_yield(&copy, 0));
    check(lh_lock_left_ms(&a->lock) == 0, __LINE__, "the lock is held in a child");
    check(lh_session_left_ms(a->session) == 0, __LINE__, "the session is held in a child");
    (void)lh_session_id(a->session);
    REFUSED(lh_watch_next(a->watch, WAIT_MS, &event));
}

static void close_all(struct all *a)
{
    lh_watch_close(a->watch);
    lh_session_close(a->session, WAIT_MS);
    lh_reader_close(a->reader);
    (void)lh_appender_close(a->busy, WAIT_MS);
    (void)lh_appender_close(a->appender, WAIT_MS);
    lh_cluster_close(a->cluster);
}

/* Of the library's: connections, sets to wait on, timers. */
static void find_nothing_open(void)
{
    static const char *const kinds[] = {"socket:", "anon_inode:"};
    DIR *all = opendir("/proc/self/fd");
    const struct dirent *entry;
    char path[300], target[300];

    while ((entry = readdir(all)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size < 0 ? 0 : size] = '\0';
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            check(strncmp(target, kinds[i], strlen(kinds[i])) != 0, __LINE__, target);
    }
    closedir(all);
}

static void await(pid_t child, const char *what)
{
    int status = 0;

    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "%s: status %x\n", what, (unsigned)status);
        _exit(1);
    }
}

/* It appends what is found again by itself, and so does a child of its own meanwhile. */
static void have_its_own(const struct all *a, bool has_child)
{
    struct lh_cluster *own;
    struct lh_appender *appender;
    struct lh_session *session;
    struct lh_position at, positions[CHILD_RECORDS];
    struct lh_reader *reader;
    struct lh_record record;
    pid_t child = -1;
    static int times;
    char text[64];
    int error, found = 0, time = times++;

    PERMITTED(lh_cluster_open(a->masters, &a->options, &own));
    PERMITTED(lh_appender_open(own, a->children, NULL, WAIT_MS, &appender));
    PERMITTED(lh_session_open(own, NULL, WAIT_MS, &session));
    for (int i = 0; i < CHILD_RECORDS; i++) {
        if (i == CHILD_RECORDS / 2 && has_child && (child = fork()) == 0) {
            REFUSED(lh_append(appender, "child", 5, WAIT_MS, &at));
            find_nothing_open();
            have_its_own(a, false);
            _exit(0);
        }
        int n = snprintf(text, sizeof text, "%d.%d %d", getpid(), time, i);
        PERMITTED(lh_append(appender, text, (size_t)n, WAIT_MS, &positions[i]));
    }
    PERMITTED(lh_reader_open(own, a->children, NULL, WAIT_MS, &reader));
    while ((error = lh_reader_next(reader, WAIT_MS, &record)) == LH_OK && found < CHILD_RECORDS) {
        int n = snprintf(text, sizeof text, "%d.%d %d", getpid(), time, found);
        if (record.size != (size_t)n || memcmp(record.data, text, (size_t)n) != 0)
            continue;
        check(record.position.offset == positions[found].offset &&
                  record.position.index == positions[found].index,
            __LINE__, "a child's record is not where it was");
        found++;
    }
    check(found == CHILD_RECORDS, __LINE__, "a child's record is missing");
    if (has_child)
        await(child, "a child's child");
    lh_reader_close(reader);
    lh_session_close(session, WAIT_MS);
    PERMITTED(lh_appender_close(appender, WAIT_MS));
    lh_cluster_close(own);
}

static void be_child(struct all *a, int number)
{
    struct lh_cluster *own;

    (void)alarm(CHILD_S);
    if (!a->by_grpc)
        find_nothing_open();
    if (!a->by_grpc && number % 2 == 0)
        have_its_own(a, number % 4 == 0);
    calls_on_handles(a);
    calls_of_files(a);
    calls_of_operators(a);
    calls_of_leases(a);
    close_all(a);
    if (a->by_grpc)
        REFUSED(lh_cluster_open(a->masters, &a->options, &own));
    else
        have_its_own(a, false);
    if (number % 3 == 0)
        exit(0); /* what libraries do at the end is no harm either */
    _exit(0);
}

/* ---- The parent. */

static void early_child(const struct all *a)
{
    pid_t child = fork();
    struct lh_cluster *own;
    struct lh_file_info file;

    if (child == 0) {
        (void)alarm(CHILD_S);
        PERMITTED(lh_cluster_open(a->masters, &a->options, &own));
        PERMITTED(lh_stat(own, a->path, WAIT_MS, &file));
        lh_file_info_deinit(&file);
        lh_cluster_close(own);
        _exit(0);
    }
    await(child, "a child before the first cluster");
}

static void *append_on(void *arg)
{
    struct all *a = arg;

    while (!ends)
        (void)lh_append_async(a->busy, "busy", 4, ignore, NULL, 10);
    return NULL;
}

static void open_all(struct all *a)
{
    struct lh_session_options term = {.term_ms = LH_SESSION_TERM_MAX};
    struct lh_record record;
    const struct lh_value *value;

    PERMITTED(lh_cluster_open(a->masters, &a->options, &a->cluster));
    PERMITTED(lh_appender_open(a->cluster, a->path, NULL, WAIT_MS, &a->appender));
    PERMITTED(lh_appender_open(a->cluster, a->path, NULL, WAIT_MS, &a->busy));
    PERMITTED(lh_append(a->appender, "first", 5, WAIT_MS, NULL));
    PERMITTED(lh_append(a->appender, "second", 6, WAIT_MS, NULL));
    PERMITTED(lh_reader_open(a->cluster, a->path, NULL, WAIT_MS, &a->reader));
    PERMITTED(lh_reader_next(a->reader, WAIT_MS, &record));
    PERMITTED(lh_session_open(a->cluster, &term, WAIT_MS, &a->session));
    PERMITTED(lh_acquire(a->session, "/forks/lock", NULL, WAIT_MS, &a->lock));
    PERMITTED(lh_put(a->cluster, VALUE, "parent", 6, NULL, WAIT_MS, NULL));
    PERMITTED(lh_get(a->session, VALUE, WAIT_MS, &value));
    lh_value_free(value);
    PERMITTED(lh_watch_open(a->cluster, "/forks/", 0, WAIT_MS, &a->watch));
}

/* Each record is where its acknowledgement said. */
static void find_all(struct all *a, const struct lh_position *positions, int count)
{
    struct lh_reader *reader;
    struct lh_record record;
    int error, found = 0;
    char text[32];

    PERMITTED(lh_reader_open(a->cluster, a->path, NULL, WAIT_MS, &reader));
    while ((error = lh_reader_next(reader, WAIT_MS, &record)) == LH_OK) {
        check(memmem(record.data, record.size, "child", 5) == NULL, __LINE__, "a child's record");
        if (record.size < 6 || memcmp(record.data, "parent", 6) != 0)
            continue;
        int n = snprintf(text, sizeof text, "parent %d", found);
        check(found < count && record.size == (size_t)n &&
                  memcmp(record.data, text, record.size) == 0 &&
                  record.position.offset == positions[found].offset &&
                  record.position.index == positions[found].index,
            __LINE__, "an acknowledged record is not where it was");
        found++;
    }
    check(error == LH_END && found == count, __LINE__, "an acknowledged record is missing");
    lh_reader_close(reader);
}

int main(int argc, char **argv)
{
    static struct lh_position positions[FORKS * RECORDS];
    struct all a = {0};
    pthread_t thread;
    int count = 0;
    char text[32];

    if (argc < 5)
        return 64;
    a.masters = argv[1];
    a.path = argv[2];
    a.children = argv[3];
    a.options.transport = argv[4];
    a.options.tls_dir = argc > 5 ? argv[5] : NULL;
    a.by_grpc = strcmp(a.options.transport, "grpc") == 0;
    early_child(&a);
    open_all(&a);
    if (pthread_create(&thread, NULL, append_on, &a) != 0)
        return 70;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            be_child(&a, i);
        for (int k = 0; k < RECORDS / FORKS; k++) {
            int n = snprintf(text, sizeof text, "parent %d", count);
            PERMITTED(lh_append(a.appender, text, (size_t)n, WAIT_MS, &positions[count++]));
        }
        await(child, "a child");
        check(system("true") == 0, __LINE__, "a child that only begins another program");
    }
    ends = true;
    pthread_join(thread, NULL);
    check(lh_lock_left_ms(&a.lock) > 0, __LINE__, "the parent's lock is not held any more");
    find_all(&a, positions, count);
    PERMITTED(lh_release(&a.lock));
    close_all(&a);
    puts("forked");
    return 0;
}
