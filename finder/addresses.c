/* Lists of masters' addresses as people write them. */
#include "base/address.h"
#include "finder/finder.h"

#include <stdio.h>
#include <string.h>

int lh_masters_check(const char *const *addresses, size_t count, char *text, size_t text_size)
{
    if (count == 0) {
        snprintf(text, text_size, "no address of a master: host:port is wanted");
        return LH_ERR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        const char *fault = lh_address_fault(addresses[i], 1);
        if (fault != NULL) {
            snprintf(text, text_size, "\"%.200s\" is no address of a master: %s%s", addresses[i],
                fault, strcmp(fault, "host:port is wanted") == 0 ? ", several with commas" : "");
            return LH_ERR_INVALID_ARGUMENT;
        }
        for (size_t j = 0; j < i; j++)
            if (strcmp(addresses[i], addresses[j]) == 0) {
                snprintf(text, text_size, "the master \"%.200s\" is named twice", addresses[i]);
                return LH_ERR_INVALID_ARGUMENT;
            }
    }
    if (count > LH_MASTERS_MAX) {
        snprintf(
            text, text_size, "%zu masters are named; at most %u can be", count, LH_MASTERS_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    return LH_OK;
}
