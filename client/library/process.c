/* The process that the library's handles belong to.
 *
 * Into the child of a fork() no thread of the library goes along. A mutex may be held there by a
 * thread that does not exist, and the connections, with the sets of descriptors that the transport
 * waits on, are the parent's too: whatever the child did to them, the parent would suffer. So
 * nothing that was opened before works in a child. What it inherited of connections is closed there
 * at once, so that none of the parent's lives longer than the parent; and it can open clusters of
 * its own, unless gRPC was used: nobody knows what that has in the kernel. */
#include "client/library/library.h"

#include "base/assert.h"
#include "runtime/transports.h"
#include "tls/gate.h"

#include <stdatomic.h>
#include <utlist.h>

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lh_cluster *clusters; /* that are open in this process; under the lock */

/* How many forks lie between this process and the one that used the library first. */
static _Atomic unsigned process;
/* This one was forked from one that had used gRPC. */
static atomic_bool barred;

static void forks(enum lh_fork where)
{
    struct lh_cluster *c;

    DL_FOREACH(clusters, c)
        lh_loop_forks(c->loop, where);
}

static void before(void)
{
    pthread_mutex_lock(&lock);
    forks(LH_FORK_BEFORE);
    lh_openssl_stop();
}

static void in_parent(void)
{
    lh_openssl_go_on(false);
    forks(LH_FORK_PARENT);
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    lh_openssl_go_on(true);
    forks(LH_FORK_CHILD);
    clusters = NULL;
    atomic_fetch_add(&process, 1);
    atomic_store(&barred, !lh_transport_survives_fork());
    lh_leave_callback();
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    int error = pthread_atfork(before, in_parent, in_child);

    LH_ASSERT(error == 0);
}

int lh_process_enter(void)
{
    if (atomic_load(&barred))
        return lh_fail(LH_ERR_CLOSED,
            "this process was forked from one that had used gRPC, so it cannot open a cluster: "
            "fork before the first cluster is opened, or begin the child with exec()");
    (void)pthread_once(&watched, watch_forks);
    return LH_OK;
}

void lh_process_took(struct lh_cluster *cluster)
{
    pthread_mutex_lock(&lock);
    cluster->process = atomic_load(&process);
    DL_APPEND(clusters, cluster);
    pthread_mutex_unlock(&lock);
}

void lh_process_gave(struct lh_cluster *cluster)
{
    pthread_mutex_lock(&lock);
    DL_DELETE(clusters, cluster);
    pthread_mutex_unlock(&lock);
}

bool lh_is_inherited(const struct lh_cluster *cluster)
{
    return cluster->process != atomic_load_explicit(&process, memory_order_relaxed);
}

int lh_process_check(const struct lh_cluster *cluster)
{
    if (!lh_is_inherited(cluster))
        return LH_OK;
    return lh_fail(LH_ERR_CLOSED,
        "it was opened before fork(), and belongs to the process that this one was forked from");
}
