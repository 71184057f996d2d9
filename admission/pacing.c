#include "admission/pacing.h"

#include "runtime/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>

#define EACH_NS 4000000

static struct {
    bool (*housekeep)(void);
    sem_t begun;
    bool running;
} pacing;

void lh_pacing_again(int fd)
{
    const int least = 1;

    /* Linux looks then whether there are so many bytes, and wakes who waits for them
     * (tcp_set_rcvlowat()). */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

static void *pacing_main(void *arg)
{
    const struct timespec each = {.tv_nsec = EACH_NS};

    (void)arg;
    for (;;) {
        while (sem_wait(&pacing.begun) != 0)
            ;
        do
            (void)nanosleep(&each, NULL);
        while (pacing.housekeep());
    }
    return NULL;
}

bool lh_pacing_begin(bool (*housekeep)(void))
{
    if (!pacing.running) {
        pacing.housekeep = housekeep;
        (void)sem_init(&pacing.begun, 0, 0);
        pacing.running = lh_thread_start(NULL, pacing_main, NULL, NULL, 0) == LH_OK;
        if (!pacing.running)
            return false;
    }
    (void)sem_post(&pacing.begun);
    return true;
}
