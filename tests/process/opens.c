/* A program that opens a cluster under a shortage, and again without it:
 * opens MASTERS TRANSPORT TLS_DIR
 *
 * The first time it prints the error's number and sentence, or 0. What is opened is closed. The
 * second time, with as many descriptors as it may have, it has to open. Each time it asks for the
 * file SHORTAGE_USE, the first time for SHORTAGE_WAIT_MS. */
#include <leasehold.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define WAIT_MS 120000

static int open_and_close(
    const struct lh_cluster_options *options, const char *masters, uint64_t wait_ms)
{
    struct lh_cluster *cluster;
    struct lh_file_info file;
    int error = lh_cluster_open(masters, options, &cluster);

    if (error != LH_OK)
        return error;
    error = lh_stat(cluster, getenv("SHORTAGE_USE"), wait_ms, &file);
    if (error == LH_OK)
        lh_file_info_deinit(&file);
    lh_cluster_close(cluster);
    return error;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    const struct lh_cluster_options options = {
        .transport = argv[2], .tls_dir = argv[3][0] == '\0' ? NULL : argv[3]};
    const char *wait = getenv("SHORTAGE_WAIT_MS");
    struct rlimit files;
    int error =
        open_and_close(&options, argv[1], wait == NULL ? WAIT_MS : strtoull(wait, NULL, 10));

    (void)printf("%d %s\n", error, error == LH_OK ? "" : lh_last_error());
    (void)unsetenv("SHORTAGE");
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    error = open_and_close(&options, argv[1], WAIT_MS);
    if (error != LH_OK)
        (void)fprintf(stderr, "after the shortage: %d %s\n", error, lh_last_error());
    return error == LH_OK ? 0 : 1;
}
