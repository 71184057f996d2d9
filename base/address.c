#include "base/address.h"

#include <string.h>
#include <strings.h>

static bool is_port(const char *text, unsigned port_min)
{
    unsigned port = 0;

    /* More digits than a port has would wrap around further down. */
    if (text[0] == '\0' || strlen(text) > 5 || strspn(text, "0123456789") != strlen(text))
        return false;
    for (; *text != '\0'; text++)
        port = 10 * port + (unsigned)(*text - '0');
    return port >= port_min && port <= 65535;
}

const char *lh_address_fault(const char *address, unsigned port_min)
{
    const char *colon = strrchr(address, ':');
    bool bracket = address[0] == '[';

    if (strncmp(address, "unix:", 5) == 0)
        return address[5] != '\0' ? NULL : "the path behind unix: is missing";
    if (strstr(address, "://") != NULL)
        return "it is a URL: host:port is wanted";
    if (colon == NULL || (colon == address && port_min > 0) || address[strcspn(address, "/ \t,@")])
        return "host:port is wanted";
    if (bracket ? colon[-1] != ']' : memchr(address, ':', (size_t)(colon - address)) != NULL)
        return "an IPv6 address stands in brackets: [::1]:7400";
    if (!is_port(colon + 1, port_min))
        return port_min > 0 ? "its port is no number from 1 to 65535"
                            : "its port is no number from 0 to 65535";
    return NULL;
}

bool lh_address_is_loopback(const char *address)
{
    static const char *const begins[] = {"127.", "localhost:", "[::1]:", "ip6-localhost:"};

    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncasecmp(address, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}
