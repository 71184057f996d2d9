/* gRPC's locks without the check of their order.
 *
 * gRPC's mutexes are Abseil's. Those of a library that was built without NDEBUG, such as Debian's,
 * note before each lock in which order it stands to those that the thread has, to abort should two
 * threads ever take two of them in opposite orders. The notes are one graph of the whole process
 * behind a spinlock of its own (absl/synchronization/mutex.cc: DebugOnlyLockEnter, GetGraphId;
 * deadlock_graph_mu): all threads of gRPC meet there, with TLS more often, which has a lock of its
 * own around each piece that it encrypts or decrypts. It is a means to find mistakes in gRPC, not
 * one to serve by; built with NDEBUG it is off from the start.
 *
 * Abseil has no door for C, and Debian's has a name of its own for its namespace: the symbol is
 * looked up, and what has another name goes on as it is. */
#include "grpc/rpc.h"

#include <dlfcn.h>
#include <stddef.h>

/* absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle), and the latter's kIgnore. */
#define SET_MODE "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE"
#define IGNORE   0

void lh_rpc_trust_locks(void)
{
    void (*set)(int mode);

    /* POSIX has the address of a function fit into a pointer to an object. */
    *(void **)&set = dlsym(RTLD_DEFAULT, SET_MODE);
    if (set != NULL)
        set(IGNORE);
}
