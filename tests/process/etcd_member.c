#include "tests/process/etcd_member.h"

#include "base/assert.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void share(int fd, int shared)
{
    int e = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared);
    LH_ASSERT(e == 0);
}

/* A port that nobody uses, outside the range that the kernel hands out by itself. It is kept by a
 * socket that does not listen: to others it is in use, and a server that asks to share it, as etcd
 * does, may bind it. */
static int free_port(void)
{
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid();
    for (;;) {
        int port = 20000 + (int)(next++ * 7919u % 12000u);
        struct sockaddr_in at = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        LH_ASSERT(fd >= 0);
        share(fd, 0);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0) {
            share(fd, 1);
            return port;
        }
        close(fd);
    }
}

void etcd_folder(char *to, size_t size)
{
    const char *base = getenv("TEST_TMPDIR");

    snprintf(to, size, "%s/etcd-XXXXXX", base == NULL ? "/tmp" : base);
    char *made = mkdtemp(to);
    LH_ASSERT(made != NULL);
}

void etcd_cluster(struct etcd_member *members, size_t count, const char *folder)
{
    char cluster[sizeof members->cluster];
    size_t n = 0;

    LH_ASSERT(count <= 3);
    for (size_t i = 0; i < count; i++) {
        struct etcd_member *m = &members[i];
        *m = (struct etcd_member){0};
        snprintf(m->name, sizeof m->name, "etcd%zu", i + 1);
        snprintf(m->folder, sizeof m->folder, "%s", folder);
        snprintf(m->address, sizeof m->address, "127.0.0.1:%d", free_port());
        snprintf(m->peer, sizeof m->peer, "http://127.0.0.1:%d", free_port());
        n += (size_t)snprintf(
            cluster + n, sizeof cluster - n, "%s%s=%s", i == 0 ? "" : ",", m->name, m->peer);
        LH_ASSERT(n < sizeof cluster);
    }
    for (size_t i = 0; i < count; i++)
        memcpy(members[i].cluster, cluster, sizeof cluster);
}

static void become_etcd(const struct etcd_member *m)
{
    char data[300], log[300], url[64];
    const char *arguments[32] = {"etcd", "--name", m->name, "--data-dir", data,
        "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", m->peer,
        "--initial-advertise-peer-urls", m->peer, "--initial-cluster", m->cluster,
        "--initial-cluster-token", m->folder};
    size_t n = 0;

    snprintf(data, sizeof data, "%s/%s", m->folder, m->name);
    snprintf(log, sizeof log, "%s/%s.log", m->folder, m->name);
    snprintf(url, sizeof url, "%s://%s", m->tls ? "https" : "http", m->address);
    while (arguments[n] != NULL)
        n++;
    for (size_t i = 0; m->options[i] != NULL; i++)
        arguments[n++] = m->options[i];
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp("etcd", (char *const *)(uintptr_t)arguments);
    perror("etcd (tools/setup installs it)");
    _exit(127);
}

void etcd_start(struct etcd_member *member)
{
    LH_ASSERT(member->pid == 0);
    setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1); /* it does not start there without */
    member->pid = fork();
    LH_ASSERT(member->pid >= 0);
    if (member->pid == 0)
        become_etcd(member);
}

void etcd_kill(struct etcd_member *member)
{
    if (member->pid == 0)
        return;
    kill(member->pid, SIGKILL);
    waitpid(member->pid, NULL, 0);
    member->pid = 0;
}
