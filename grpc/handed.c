/* gRPC serves what another listener accepted, by its door for that ("external:NAME"): a C++ object
 * of its own whose one function takes a socket, of which C sees a table of functions. */
#include "grpc/handed.h"
#include "grpc/internal.h"
#include "grpc/rpc.h"

#include <string.h>

/* Behind the two destructors of a class that has virtual ones (Itanium C++ ABI, 2.5.2). */
#define HANDLE_SLOT 2

typedef void handle_function(void *self, int listener, int fd, grpc_byte_buffer *pending);

static void *copy_pointer(void *p)
{
    return p;
}

static void forget_pointer(void *p)
{
    (void)p;
}

static int compare_pointers(void *a, void *b)
{
    return (a > b) - (a < b);
}

grpc_arg lh_rpc_handed_arg(struct lh_rpc *rpc)
{
    static const grpc_arg_pointer_vtable plain = {copy_pointer, forget_pointer, compare_pointers};

    return (grpc_arg){.type = GRPC_ARG_POINTER,
        .key = (char *)(uintptr_t)LH_RPC_HANDED,
        .value.pointer = {&rpc->handler, &plain}};
}

bool lh_rpc_may_be_handed(const struct lh_rpc *rpc)
{
    return rpc->handler != NULL;
}

bool lh_rpc_take_connection(struct lh_transport *transport, int fd)
{
    struct lh_rpc *rpc = (struct lh_rpc *)transport;
    handle_function *handle;

    pthread_rwlock_rdlock(&rpc->handing_lock);
    void *handler = rpc->handler;
    if (handler != NULL) {
        void *const *table;
        memcpy(&table, handler, sizeof table);
        memcpy(&handle, &table[HANDLE_SLOT], sizeof handle);
        handle(handler, 0, fd, NULL);
    }
    pthread_rwlock_unlock(&rpc->handing_lock);
    return handler != NULL;
}

void lh_rpc_stop_handing(struct lh_rpc *rpc)
{
    pthread_rwlock_wrlock(&rpc->handing_lock);
    rpc->handler = NULL;
    pthread_rwlock_unlock(&rpc->handing_lock);
}
