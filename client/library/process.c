/* The process that the library's handles belong to.
 *
 * Into the child of a fork() no thread of the library goes along. A mutex may be held there by a
 * thread that does not exist, and the connections, with the sets of descriptors that the transport
 * waits on, are the parent's too: whatever the child did to them, the parent would suffer. So
 * nothing of the library works in a child, not even a new cluster: the transport's state is
 * copied as it was in the middle of its work, and what it has in the kernel is shared. */
#include "client/library/library.h"

#include "base/assert.h"

#include <stdatomic.h>

/* How often this process, and those that it came from, were the child of a fork() since the
 * library was used first. */
static _Atomic unsigned forks;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    int error = pthread_atfork(NULL, NULL, in_child);

    LH_ASSERT(error == 0);
}

static unsigned now(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

int lh_process_enter(unsigned *forks_now)
{
    *forks_now = now();
    if (*forks_now != 0)
        return lh_fail(LH_ERR_CLOSED,
            "this process was forked from one that had opened a cluster, so it cannot open one: "
            "fork before the first cluster is opened, or begin the child with exec()");
    (void)pthread_once(&watched, watch_forks);
    return LH_OK;
}

bool lh_is_parents(const struct lh_cluster *cluster)
{
    return cluster->forks != now();
}

int lh_cluster_check(const struct lh_cluster *cluster)
{
    if (!lh_is_parents(cluster))
        return LH_OK;
    return lh_fail(LH_ERR_CLOSED,
        "it was opened before fork(), and belongs to the process that this one was forked from");
}
