#include "runtime/process_metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* jemalloc's; a build with a sanitizer is without it. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size)
    __attribute__((weak));

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void memory(struct lh_metrics *out)
{
    unsigned long size, resident;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return;
    if (fscanf(file, "%lu %lu", &size, &resident) == 2) {
        lh_metrics_single(out, "process_virtual_memory_bytes", LH_METRIC_GAUGE,
            "Virtual memory size in bytes.", size * page);
        lh_metrics_single(out, "process_resident_memory_bytes", LH_METRIC_GAUGE,
            "Resident memory size in bytes.", resident * page);
    }
    (void)fclose(file);
}

static void open_files(struct lh_metrics *out)
{
    DIR *files = opendir("/proc/self/fd");
    struct rlimit limit;
    uint64_t count = 0;

    if (files == NULL)
        return;
    while (readdir(files) != NULL)
        count++;
    (void)closedir(files);
    /* ".", ".." and the directory itself. */
    lh_metrics_single(out, "process_open_fds", LH_METRIC_GAUGE, "Number of open file descriptors.",
        count < 3 ? 0 : count - 3);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        lh_metrics_single(out, "process_max_fds", LH_METRIC_GAUGE,
            "Maximum number of open file descriptors.", limit.rlim_cur);
}

static void cpu(struct lh_metrics *out)
{
    struct rusage used;

    if (getrusage(RUSAGE_SELF, &used) != 0)
        return;
    lh_metrics_family(out, "process_cpu_seconds_total", LH_METRIC_COUNTER,
        "Total user and system CPU time spent in seconds.");
    lh_metrics_value(out, NULL, 0, seconds(used.ru_utime) + seconds(used.ru_stime));
}

static void allocator(struct lh_metrics *out)
{
    static const struct {
        const char *name, *metric, *help;
    } figures[] = {
        {"stats.allocated", "leasehold_jemalloc_allocated_bytes", "Bytes that the program uses."},
        {"stats.active", "leasehold_jemalloc_active_bytes", "Bytes in pages that are in use."},
        {"stats.metadata", "leasehold_jemalloc_metadata_bytes", "Bytes that jemalloc uses itself."},
        {"stats.resident", "leasehold_jemalloc_resident_bytes",
            "Bytes in physical memory that jemalloc has mapped."},
        {"stats.mapped", "leasehold_jemalloc_mapped_bytes", "Bytes in mapped extents."},
        {"stats.retained", "leasehold_jemalloc_retained_bytes",
            "Bytes of address space kept without memory behind them."},
    };
    uint64_t epoch = 1;
    size_t size = sizeof epoch;

    if (mallctl == NULL || mallctl("epoch", &epoch, &size, &epoch, size) != 0)
        return;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        size_t value;
        size = sizeof value;
        if (mallctl(figures[i].name, &value, &size, NULL, 0) == 0)
            lh_metrics_single(out, figures[i].metric, LH_METRIC_GAUGE, figures[i].help, value);
    }
}

void lh_process_metrics(struct lh_metrics *out)
{
    cpu(out);
    memory(out);
    open_files(out);
    allocator(out);
}
