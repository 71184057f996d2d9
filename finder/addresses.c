/* Lists of masters' addresses as people write them. */
#include "finder/finder.h"

#include <stdio.h>
#include <string.h>

static bool is_sound(const char *address)
{
    const char *colon = strrchr(address, ':');
    unsigned long port = 0;

    if (strncmp(address, "unix:", 5) == 0)
        return address[5] != '\0';
    if (colon == NULL || colon == address || colon[1] == '\0' || strlen(colon + 1) > 5)
        return false;
    for (const char *at = colon + 1; *at != '\0'; at++) {
        if (*at < '0' || *at > '9')
            return false;
        port = 10 * port + (unsigned long)(*at - '0');
    }
    return port >= 1 && port <= 65535;
}

int lh_masters_check(const char *const *addresses, size_t count, char *text, size_t text_size)
{
    if (count == 0) {
        snprintf(text, text_size, "no address of a master: host:port is wanted");
        return LH_ERR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_sound(addresses[i])) {
            snprintf(text, text_size,
                "\"%.200s\" is no address of a master: host:port is wanted, several with commas",
                addresses[i]);
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
