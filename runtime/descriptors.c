#include "runtime/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Standard descriptors, the store, locks, the ring, timers, what gRPC polls with, listening. */
#define RESERVED 64u

/* Fewer of a kind are of no use. */
#define SHARE_MIN 16u

/* More are taken only if the operator says so: each costs memory, too. */
#define CONNECTIONS_USUAL 16384u

void lh_descriptors_standard(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) /* becomes `fd`: the lowest that is free */
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Connections, where the operator does not say how many: half, or less if too little is left. */
static uint64_t usual(uint64_t all)
{
    uint64_t rest = all - all / 2;

    if (rest < 2 * SHARE_MIN)
        rest = least(all, 2 * SHARE_MIN);
    return least(all - rest, CONNECTIONS_USUAL);
}

int lh_descriptors_share_of(uint64_t limit, uint64_t connections, uint64_t files,
    struct lh_descriptors *share, char *why, size_t why_size)
{
    uint64_t room = limit > RESERVED ? limit - RESERVED : 0;
    uint64_t wanted = connections != 0 ? connections : usual(room);
    uint64_t rest = room > wanted ? room - wanted : 0;

    if (wanted < SHARE_MIN || rest / 2 < SHARE_MIN) {
        uint64_t least_connections = connections > SHARE_MIN ? connections : SHARE_MIN;
        (void)snprintf(why, why_size,
            "this process may open %" PRIu64 " files, and for %" PRIu64
            " connections it needs at least %" PRIu64
            ": raise the limit (ulimit -Hn, LimitNOFILE), or lower --max-connections",
            limit, least_connections, RESERVED + least_connections + 2 * (uint64_t)SHARE_MIN);
        return LH_ERR_SYSTEM;
    }
    *share = (struct lh_descriptors){
        .limit = limit,
        .connections = wanted,
        .files = least(files, rest / 2),
    };
    return LH_OK;
}

int lh_descriptors_share(
    uint64_t connections, uint64_t files, struct lh_descriptors *share, char *why, size_t why_size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        (void)snprintf(why, why_size, "cannot read the limit of open files: %s", strerror(errno));
        return LH_ERR_SYSTEM;
    }
    if (limit.rlim_cur != limit.rlim_max) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return lh_descriptors_share_of(limit.rlim_cur, connections, files, share, why, why_size);
}
