/* Errors as statuses of gRPC, and back. */
#include "grpc/statuses.h"

#include "base/alloc.h"
#include "base/error.h"
#include "grpc/internal.h"
#include "proto/codec.h"

#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

grpc_slice lh_rpc_status_message(int error, const char *text)
{
    const char *name = lh_error_name(error);

    if (text == NULL)
        text = lh_error_text(error);
    size_t n = strlen(name) + 2 + strlen(text);
    char *whole = lh_alloc(n + 1);

    snprintf(whole, n + 1, "%s: %s", name, text);
    grpc_slice s = grpc_slice_from_copied_buffer(whole, n);
    free(whole);
    return s;
}

/* Statuses that gRPC itself makes up, not a server of ours. */
static int error_from_grpc(grpc_status_code status, const char *details)
{
    switch (status) {
    case GRPC_STATUS_OK:
        return LH_OK;
    case GRPC_STATUS_CANCELLED:
        return LH_ERR_CANCELLED;
    case GRPC_STATUS_INVALID_ARGUMENT:
        return LH_ERR_INVALID_ARGUMENT;
    case GRPC_STATUS_DEADLINE_EXCEEDED:
        return LH_ERR_DEADLINE_EXCEEDED;
    case GRPC_STATUS_NOT_FOUND:
        return LH_ERR_NOT_FOUND;
    case GRPC_STATUS_PERMISSION_DENIED:
    case GRPC_STATUS_UNAUTHENTICATED:
        return LH_ERR_PERMISSION;
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
        return strstr(details, "larger than max") != NULL ? LH_ERR_TOO_LARGE : LH_ERR_NO_MEMORY;
    case GRPC_STATUS_UNIMPLEMENTED:
        return LH_ERR_UNIMPLEMENTED;
    case GRPC_STATUS_UNAVAILABLE:
        return LH_ERR_UNAVAILABLE;
    default:
        return LH_ERR_SYSTEM;
    }
}

/* etcd's statuses say too little: a code stands for several things, and some errors have lost
 * theirs (UNKNOWN). Beginnings of its messages (etcdserver/api/v3rpc/rpctypes/error.go). */
static const struct {
    const char *begin;
    int error;
} etcd_says[] = {
    {"etcdserver: request timed out", LH_ERR_DEADLINE_EXCEEDED},
    {"context deadline exceeded", LH_ERR_DEADLINE_EXCEEDED},
    {"context canceled", LH_ERR_CANCELLED},
    {"raft proposal dropped", LH_ERR_UNAVAILABLE},
    {"etcdserver: too many requests", LH_ERR_NO_MEMORY},
    {"etcdserver: request is too large", LH_ERR_TOO_LARGE},
    {"etcdserver: too many operations in txn request", LH_ERR_TOO_LARGE},
    {"etcdserver: mvcc: database space exceeded", LH_ERR_DISK_FULL},
    {"etcdserver: mvcc: required revision has been compacted", LH_ERR_STALE_VERSION},
    {"etcdserver: mvcc: required revision is a future revision", LH_ERR_OUT_OF_SEQUENCE},
    {"etcdserver: revision of auth store is old", LH_ERR_UNKNOWN_SESSION},
    {"etcdserver: user name is empty", LH_ERR_UNKNOWN_SESSION},
    {"etcdserver: authentication failed", LH_ERR_PERMISSION},
    {"etcdserver: authentication is not enabled", LH_ERR_UNIMPLEMENTED},
};

static int error_from_etcd(grpc_status_code status, const char *details)
{
    for (size_t i = 0; i < sizeof etcd_says / sizeof etcd_says[0]; i++)
        if (strncmp(details, etcd_says[i].begin, strlen(etcd_says[i].begin)) == 0)
            return etcd_says[i].error;
    switch (status) {
    case GRPC_STATUS_UNAUTHENTICATED:
        return LH_ERR_UNKNOWN_SESSION;
    case GRPC_STATUS_ALREADY_EXISTS:
        return LH_ERR_ALREADY_EXISTS;
    case GRPC_STATUS_DATA_LOSS:
        return LH_ERR_CORRUPT;
    default:
        return error_from_grpc(status, details);
    }
}

int lh_rpc_error_of(grpc_status_code status, bool foreign, const char **details)
{
    const char *colon = strstr(*details, ": ");

    if (status == GRPC_STATUS_OK)
        return LH_OK;
    if (foreign) /* whose messages may begin as ours do */
        return error_from_etcd(status, *details);
    if (colon != NULL) {
        size_t n = (size_t)(colon - *details);
        for (unsigned i = 1; i <= 255; i++) {
            const char *name = lh_error_name(-(int)i);
            if (strlen(name) == n && memcmp(name, *details, n) == 0 &&
                lh_error_from_wire(i) == -(int)i) {
                *details = colon + 2;
                return -(int)i;
            }
        }
    }
    return error_from_grpc(status, *details);
}

/* How a handshake that fails looks from here. What the other side finds wrong is not said. */
static const struct {
    bool tls; /* on this side */
    const char *says, *hint;
} hints[] = {
    {true, "certificate verify failed",
        "the server's certificate has expired or is of an authority that is not trusted here"},
    {true, "is not in peer certificate",
        "the server's certificate is for other hosts than the one that was dialled"},
    {true, "wrong version number", "the server does not speak TLS"},
    {true, "Socket closed",
        "perhaps the server does not trust this side's certificate: its log says why"},
    {false, "Socket closed", "perhaps the server speaks TLS, and this side does not: --tls-dir"},
};

char *lh_rpc_end_text(const struct lh_rpc_link *link, int error, const char *text)
{
    const struct lh_rpc *rpc = link->rpc;
    bool foreign = lh_method_info(link->method)->foreign;
    bool tls = (foreign ? rpc->foreign_tls : rpc->tls) != NULL;

    if (*text == '\0')
        return NULL;
    for (size_t i = 0; error == LH_ERR_UNAVAILABLE && strstr(text, "failed to connect") != NULL &&
                       i < sizeof hints / sizeof hints[0];
         i++) {
        if (hints[i].tls != tls || strstr(text, hints[i].says) == NULL)
            continue;
        size_t size = strlen(hints[i].hint) + strlen(text) + sizeof " ()";
        char *whole = lh_alloc(size);
        (void)snprintf(whole, size, "%s (%s)", hints[i].hint, text);
        return whole;
    }
    return lh_strdup(text);
}
