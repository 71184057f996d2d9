/* Errors as statuses of gRPC, and back. */
#include "rpc/internal.h"

#include "base/alloc.h"
#include "base/error.h"

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

int lh_rpc_error_of(grpc_status_code status, const char **details)
{
    const char *colon = strstr(*details, ": ");

    if (status == GRPC_STATUS_OK)
        return LH_OK;
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
