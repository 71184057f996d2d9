#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    const char *text;
    int grpc;
    enum lh_advice advice;
} errors[] = {[0] = {"OK", "success", 0, LH_RETRY},
#define X(name, number, grpc, advice, text) [number] = {#name, text, grpc, LH_##advice},
    LH_ERRORS(X)
#undef X
};

#define ERROR_COUNT ((int)(sizeof errors / sizeof errors[0]))

static int index_of(int error)
{
    return error <= 0 && error > -ERROR_COUNT && errors[-error].name != NULL ? -error : -1;
}

const char *lh_error_name(int error)
{
    int i = index_of(error);
    return i < 0 ? "UNKNOWN" : errors[i].name;
}

const char *lh_error_text(int error)
{
    int i = index_of(error);
    return i < 0 ? "unknown error" : errors[i].text;
}

int lh_error_grpc(int error)
{
    int i = index_of(error);
    return i < 0 ? 2 : errors[i].grpc;
}

enum lh_advice lh_error_advice(int error)
{
    int i = index_of(error);
    return i < 0 ? LH_GIVE_UP : errors[i].advice;
}

int lh_error_from_wire(unsigned code)
{
    return code < (unsigned)ERROR_COUNT && errors[code].name != NULL ? -(int)code : LH_ERR_SYSTEM;
}

int lh_error_from_errno(int system_errno)
{
    switch (system_errno) {
    case 0:
        return LH_OK;
    case ENOENT:
        return LH_ERR_NOT_FOUND;
    case EEXIST:
        return LH_ERR_ALREADY_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* a limit on the size of files: this one has no more room */
        return LH_ERR_DISK_FULL;
    case EIO:
        return LH_ERR_IO;
    case EACCES:
    case EPERM:
    case EROFS:
        return LH_ERR_PERMISSION;
    case EADDRINUSE:
        return LH_ERR_ADDRESS_IN_USE;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EAGAIN:
        return LH_ERR_SHORTAGE; /* it says nothing of what was asked for: later it may succeed */
    case ETIMEDOUT:
        return LH_ERR_DEADLINE_EXCEEDED;
    case EINVAL:
        return LH_ERR_INVALID_ARGUMENT;
    default:
        return LH_ERR_SYSTEM;
    }
}

int lh_why(int error, char *why, size_t why_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, why_size, format, args);
    va_end(args);
    return error;
}
