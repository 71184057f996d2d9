/* Addresses of servers as people write them: host:port, [v6]:port or unix:/path. */
#pragma once

#include <stdbool.h>

/* NULL: the address is one. Otherwise what is wrong with it, in a phrase. `port_min`: the lowest
 * port that it may have: 1, or 0 for one to listen on, where 0 means any that is free; then its
 * host may be left out, too. */
const char *lh_address_fault(const char *address, unsigned port_min);

/* Does the address (HOST:PORT) lead every machine to itself? By its form: no name is looked up. */
bool lh_address_is_loopback(const char *address);
