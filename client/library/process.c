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

/* This process, or one that it came from, was the child of a fork() after the library was used
 * first. No cluster is opened there, so what is open was opened before. */
static atomic_bool forked;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_store(&forked, true);
}

static void watch_forks(void)
{
    int error = pthread_atfork(NULL, NULL, in_child);

    LH_ASSERT(error == 0);
}

bool lh_is_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

int lh_process_enter(void)
{
    if (lh_is_forked())
        return lh_fail(LH_ERR_CLOSED,
            "this process was forked from one that had opened a cluster, so it cannot open one: "
            "fork before the first cluster is opened, or begin the child with exec()");
    (void)pthread_once(&watched, watch_forks);
    return LH_OK;
}

int lh_process_check(void)
{
    if (!lh_is_forked())
        return LH_OK;
    return lh_fail(LH_ERR_CLOSED,
        "it was opened before fork(), and belongs to the process that this one was forked from");
}
