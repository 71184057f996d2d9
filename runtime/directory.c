#include "runtime/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static const char *const nobodys[] = {".", "..", "lost+found", NULL};

static DIR *list(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = own >= 0 ? fdopendir(own) : NULL;

    if (directory == NULL && own >= 0)
        (void)close(own);
    return directory;
}

bool lh_directory_has_stranger(int fd, const char *const *ours, char *name, size_t size)
{
    DIR *directory = list(fd);
    bool found = false;

    if (directory == NULL)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(directory)) != NULL;) {
        found = !is_one_of(entry->d_name, nobodys) && !is_one_of(entry->d_name, ours);
        if (found)
            (void)snprintf(name, size, "%s", entry->d_name);
    }
    (void)closedir(directory);
    return found;
}

int lh_directory_lock(int fd)
{
    /* Some network file systems lock only what is open for writing, as no directory can be. */
    return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK ? LH_ERR_IN_USE : LH_OK;
}

static bool is_open_to_others(const struct stat *s)
{
    return (S_ISREG(s->st_mode) || S_ISDIR(s->st_mode)) && (s->st_mode & S_IRWXO) != 0;
}

void lh_directory_close_to_others(int fd, const char *const *ours)
{
    struct stat s;

    if (fstat(fd, &s) != 0 || !is_open_to_others(&s))
        return; /* done once */
    mode_t own = s.st_mode & 07777 & ~(mode_t)S_IRWXO;
    DIR *directory = list(fd);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (!is_one_of(entry->d_name, nobodys) &&
            (ours == NULL || is_one_of(entry->d_name, ours)) &&
            fstatat(fd, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && is_open_to_others(&s) &&
            fchmodat(fd, entry->d_name, s.st_mode & 07777 & ~(mode_t)S_IRWXO, 0) != 0)
            continue; /* the directory around it is closed all the same */
    (void)closedir(directory);
    (void)fchmod(fd, own);
}
