#include "admission/address.h"

#include "base/error.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_PREFIX "unix:"

bool lh_address_unix(const char *address, struct sockaddr_un *un)
{
    const char *path = address + strlen(UNIX_PREFIX);

    memset(un, 0, sizeof *un);
    un->sun_family = AF_UNIX;
    if (*path == '\0' || strlen(path) >= sizeof un->sun_path)
        return false;
    memcpy(un->sun_path, path, strlen(path) + 1);
    return true;
}

bool lh_address_is_unix(const char *address)
{
    return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

bool lh_address_split(const char *address, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n;

    if (colon == NULL || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    n = (size_t)(colon - address);
    if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    } else if (memchr(address, ':', n) != NULL) {
        return false;
    }
    if (n >= host_size)
        return false;
    memcpy(host, address, n);
    host[n] = '\0';
    *port = colon + 1;
    return true;
}

int lh_address_look_up(const char *address, int flags, struct addrinfo **found)
{
    char host[256];
    const char *port;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};

    if (!lh_address_split(address, host, sizeof host, &port))
        return EAI_NONAME;
    return getaddrinfo(host, port, &hints, found);
}

int lh_listen_check(const char *address, char *why, size_t why_size)
{
    char host[256];
    const char *port;

    if (!lh_address_is_unix(address)) {
        if (lh_address_split(address, host, sizeof host, &port) && host[0] != '\0' &&
            strlen(port) <= 5)
            return LH_OK;
        snprintf(why, why_size,
            "'%s' is not an address to listen on; use for example "
            "127.0.0.1:7400, [::1]:7400 or unix:/run/leasehold.sock",
            address);
        return LH_ERR_INVALID_ARGUMENT;
    }

    struct sockaddr_un un;
    if (!lh_address_unix(address, &un)) {
        snprintf(
            why, why_size, "'%s' names no path of 1 to %zu bytes", address, sizeof un.sun_path - 1);
        return LH_ERR_INVALID_ARGUMENT;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return LH_OK;
    bool taken = connect(fd, (struct sockaddr *)&un, sizeof un) == 0;
    close(fd);
    if (!taken)
        return LH_OK;
    snprintf(why, why_size, "another process listens on %s", address);
    return LH_ERR_ADDRESS_IN_USE;
}

static int explain_errno(const char *address, int error, char *why, size_t why_size)
{
    switch (error) {
    case EADDRINUSE:
        snprintf(why, why_size, "another process listens on %s", address);
        return LH_ERR_ADDRESS_IN_USE;
    case EADDRNOTAVAIL:
        snprintf(why, why_size, "%s is not an address of this machine", address);
        return LH_ERR_UNAVAILABLE;
    case EACCES:
    case EPERM:
        snprintf(why, why_size, "no permission to listen on %s", address);
        return LH_ERR_PERMISSION;
    default:
        snprintf(why, why_size, "cannot listen on %s: %s", address, strerror(error));
        return LH_ERR_SYSTEM;
    }
}

/* Tries the bind that failed. 0: it went well this time. */
static int try_bind(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int error = bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1) != 0 ? errno : 0;
    close(fd);
    return error;
}

int lh_listen_explain(const char *address, char *why, size_t why_size)
{
    struct addrinfo *found;
    int error = 0;

    if (lh_address_is_unix(address)) {
        struct sockaddr_un un;
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return explain_errno(address, errno, why, why_size);
        if (lh_address_unix(address, &un))
            error = bind(fd, (struct sockaddr *)&un, sizeof un) != 0 ? errno : EIO;
        close(fd);
        return explain_errno(address, error, why, why_size);
    }
    if (lh_address_look_up(address, AI_PASSIVE, &found) != 0) {
        snprintf(why, why_size, "'%s' cannot be resolved to an address", address);
        return LH_ERR_INVALID_ARGUMENT;
    }
    for (const struct addrinfo *a = found; a != NULL && error == 0; a = a->ai_next)
        error = try_bind(a);
    freeaddrinfo(found);
    return explain_errno(address, error == 0 ? EIO : error, why, why_size);
}
