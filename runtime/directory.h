/* Whose a directory is, before a server makes it its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does the directory open as `fd` hold anything whose name is not in `ours`, a list that ends in
 * NULL? Then `name` gets one such name. What a fresh filesystem brings (lost+found) does not count,
 * and a directory that cannot be listed holds nothing. `fd` stays open, its offset unchanged. */
bool lh_directory_has_stranger(int fd, const char *const *ours, char *name, size_t size);
