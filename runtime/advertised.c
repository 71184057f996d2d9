/* The address at which others call a server. */
#include "runtime/server.h"

#include "base/address.h"
#include "base/say.h"

#include <string.h>

/* Whether others can connect to `address`: one host, one port. */
static bool reachable(const char *address)
{
    static const char *const any_host[] = {"", "0", "0.0.0.0", "[::]", "[::0]", "[0::0]"};
    const char *colon = strrchr(address, ':');

    if (lh_address_fault(address, 1) != NULL)
        return false;
    if (strncmp(address, "unix:", 5) == 0)
        return true;
    for (size_t i = 0; i < sizeof any_host / sizeof any_host[0]; i++)
        if (strlen(any_host[i]) == (size_t)(colon - address) &&
            strncmp(any_host[i], address, (size_t)(colon - address)) == 0)
            return false;
    return true;
}

const char *lh_server_advertised(
    const char *command, const char *advertise, const char *listen, const char *example)
{
    const char *address = advertise != NULL ? advertise : listen;

    if (reachable(address))
        return address;
    if (advertise != NULL)
        lh_say("%s: --advertise %s is not where others can connect to; give one host and one port, "
               "for example %s\n",
            command, advertise, example);
    else
        lh_say("%s: --listen %s is not where others can connect to; give --advertise too\n",
            command, listen);
    return NULL;
}
