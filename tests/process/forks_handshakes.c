/* A program that forks while its threads are in OpenSSL: forks_handshakes MASTERS PATH TLS_DIR
 *
 * They open clusters and close them, so that some handshake is always in flight. Each child opens
 * one of its own: of OpenSSL's locks none is held there by a thread that it does not have. */
#include <leasehold.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKS           150
#define THREADS         3
#define WAIT_MS         120000
#define CHILD_S         60
#define PAUSE_NS        3000000u /* before a fork, at most */
#define PERMITTED(call) check((call) == LH_OK, #call)

static const char *masters, *path;
static struct lh_cluster_options options = {.transport = "wire"};
static atomic_bool ends;

static void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, lh_last_error());
    _exit(1);
}

static void use_cluster(void)
{
    struct lh_cluster *cluster;
    struct lh_file_info file;

    PERMITTED(lh_cluster_open(masters, &options, &cluster));
    PERMITTED(lh_stat(cluster, path, WAIT_MS, &file));
    lh_file_info_deinit(&file);
    lh_cluster_close(cluster);
}

static void *use_on(void *arg)
{
    (void)arg;
    while (!ends)
        use_cluster();
    return NULL;
}

static void fork_once(unsigned pause_ns)
{
    const struct timespec pause = {.tv_nsec = pause_ns};
    int status = 0;

    nanosleep(&pause, NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(CHILD_S);
        use_cluster();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "a child: status %x\n", (unsigned)status);
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    unsigned random = 1;

    if (argc != 4)
        return 64;
    masters = argv[1];
    path = argv[2];
    options.tls_dir = argv[3];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use_on, NULL) != 0)
            return 70;
    for (int i = 0; i < FORKS; i++) {
        random = random * 1664525u + 1013904223u;
        fork_once((random >> 8) % PAUSE_NS);
    }
    ends = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("forked");
    return 0;
}
