/* Real members of etcd for tests in C: processes on free ports, each with a folder of its own. They
 * end with the test. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define ETCD_OPTIONS_MAX 8

struct etcd_member {
    char address[32]; /* for clients: "127.0.0.1:port" */
    char name[16], folder[256], peer[64], cluster[256];
    /* Further options, before the start; NULL: no more. With `tls` clients speak TLS. */
    const char *options[ETCD_OPTIONS_MAX + 1];
    int tls;
    pid_t pid; /* 0: it does not run */
};

/* An empty folder for a test's files, below the one that Bazel gives; it stays. */
void etcd_folder(char *to, size_t size);

/* `count` members, at most 3, of one new cluster in `folder`; none of them runs. */
void etcd_cluster(struct etcd_member *members, size_t count, const char *folder);

/* Starts the process, also one that was killed; it does not answer yet. */
void etcd_start(struct etcd_member *member);

/* As a crash. Without effect if it does not run. */
void etcd_kill(struct etcd_member *member);
