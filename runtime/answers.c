/* Who may answer (ACC-8): what a transport asks in each handshake. */
#include "runtime/dispatch.h"

#include <stdio.h>

int lh_loop_may_answer(void *arg, enum lh_server_kind kind, const char *name, const char *identity,
    bool apart, char *text, size_t text_size)
{
    struct lh_loop *loop = arg;
    char why[LH_ACCESS_TEXT_MAX] = "";

    pthread_mutex_lock(&loop->lock);
    int error = lh_access_answers(loop->config.access, identity, kind, name, apart, why);
    pthread_mutex_unlock(&loop->lock);
    snprintf(text, text_size, "%s", why);
    return error;
}
