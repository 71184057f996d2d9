#include "tls/gate.h"

#include <openssl/crypto.h>
#include <pthread.h>

/* Those who enter are readers. One who waits to fork goes first: where connections are busy there
 * would always be a reader. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Thread_local unsigned depth;

void lh_openssl_enter(void)
{
    if (depth++ == 0)
        (void)pthread_rwlock_rdlock(&gate);
}

void lh_openssl_leave(void)
{
    if (--depth == 0)
        (void)pthread_rwlock_unlock(&gate);
}

void lh_openssl_end_thread(void)
{
    lh_openssl_enter();
    OPENSSL_thread_stop();
    lh_openssl_leave();
}

void lh_openssl_stop(void)
{
    (void)pthread_rwlock_wrlock(&gate);
}

void lh_openssl_go_on(bool is_child)
{
    static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

    if (is_child) /* the thread has another number here, so an unlock would be a reader's */
        gate = fresh;
    else
        (void)pthread_rwlock_unlock(&gate);
}
