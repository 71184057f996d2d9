#include "runtime/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

bool lh_directory_has_stranger(int fd, const char *const *ours, char *name, size_t size)
{
    static const char *const nobodys[] = {".", "..", "lost+found", NULL};
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = own >= 0 ? fdopendir(own) : NULL;
    bool found = false;

    if (directory == NULL) {
        if (own >= 0)
            (void)close(own);
        return false;
    }
    for (const struct dirent *entry; !found && (entry = readdir(directory)) != NULL;) {
        found = !is_one_of(entry->d_name, nobodys) && !is_one_of(entry->d_name, ours);
        if (found)
            (void)snprintf(name, size, "%s", entry->d_name);
    }
    (void)closedir(directory);
    return found;
}
