/* Addresses of the cluster of `leasehold local`, all on the loopback interface. */
#pragma once

#include <stdint.h>

/* A master's page is so much above the port of the first master, and its number from 0. */
#define LH_LOCAL_PAGE 80u

/* Of the page of that master, from 1. */
void lh_local_page(uint64_t port, uint64_t master, char to[32]);

/* LH_EXIT_OK if nobody listens there. Else another exit code, and that was said on stderr. */
int lh_local_check_address(const char *address);
