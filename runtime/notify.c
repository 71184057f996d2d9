#include "runtime/notify.h"

#include "runtime/flags.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINES_MAX 1024

/* The manager's address: a path, or with @ a name of Linux's own. 0: there is none. */
static socklen_t manager(struct sockaddr_un *address)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path == NULL ? 0 : strlen(path);

    if (n < 2 || n >= sizeof address->sun_path || (path[0] != '/' && path[0] != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, n);
    if (path[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

bool lh_notify_is_heard(void)
{
    struct sockaddr_un address;

    return manager(&address) != 0;
}

void lh_notify(const char *format, ...)
{
    struct sockaddr_un address;
    socklen_t size = manager(&address);
    char lines[LINES_MAX];
    va_list args;

    if (size == 0)
        return;
    va_start(args, format);
    int n = vsnprintf(lines, sizeof lines, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof lines ? (size_t)n : sizeof lines - 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    ssize_t sent;
    do {
        sent = sendto(fd, lines, length, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    } while (sent < 0 && errno == EINTR);
    (void)close(fd);
}

struct lh_duration lh_notify_watchdog(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *whose = getenv("WATCHDOG_PID");
    uint64_t us, pid;

    if (text == NULL || !lh_parse_uint(text, &us) || us == 0 || us > UINT64_MAX / 1000)
        return LH_DURATION_FOREVER;
    /* A child inherits the environment and is not meant. */
    if (whose != NULL && (!lh_parse_uint(whose, &pid) || pid != (uint64_t)getpid()))
        return LH_DURATION_FOREVER;
    return (struct lh_duration){us * 1000};
}
