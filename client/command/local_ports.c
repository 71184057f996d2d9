#include "client/command/local_ports.h"

#include "client/command/command.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void lh_local_page(uint64_t port, uint64_t master, char to[32])
{
    (void)snprintf(to, 32, "127.0.0.1:%" PRIu64, port + LH_LOCAL_PAGE + master - 1);
}

/* A server finds out by itself; but by then somebody else's master could have answered in the place
 * of ours, and that cluster would be taken for this one. */
static bool port_is_free(const char *address)
{
    uint64_t port = 0;
    if (!lh_parse_uint(strrchr(address, ':') + 1, &port))
        return false;
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return false;
    /* As the servers do: connections that were closed lately are no listener. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool bound = bind(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    (void)close(fd);
    return bound;
}

int lh_local_check_address(const char *address)
{
    return port_is_free(address)
               ? LH_EXIT_OK
               : lh_command_error(LH_EXIT_FAILED, "local",
                     "%s is in use; stop what listens there, or give another --port", address);
}
