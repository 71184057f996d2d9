/* The etcd of `leasehold local --masters=N`: members on this machine, and of no other's concern. */
#pragma once

#include "base/error.h"
#include "base/time.h"
#include "client/command/child.h"

#include <stdint.h>

#define LH_LOCAL_ETCD_MAX 7u

/* A member's ports are so much above that of the first master, and its number. */
#define LH_LOCAL_ETCD_CLIENT 200u
#define LH_LOCAL_ETCD_PEER   300u

/* A directory keeps the kind of store that it began with: the chunkservers' data belongs to the
 * metadata there. An etcd that is in it must be of as many members, and several of them find each
 * other only on the same ports, for etcd's own data names these. With several masters the program
 * is needed. Exit code, said on stderr. */
LH_MUST_USE int lh_local_etcd_check(
    const char *dir, uint64_t masters, uint64_t members, uint64_t port);

/* Notes what the function above compares with. False: it cannot, which was said on stderr. */
bool lh_local_etcd_note(const char *dir, uint64_t members, uint64_t port);

/* Removes what would change etcd from the environment. To be called before the first one starts. */
void lh_local_etcd_prepare_environment(void);

/* Fills in `count` zeroed children; with `tls` clients need certificates. False: they cannot have
 * their own, which was said on stderr. */
LH_MUST_USE bool lh_local_etcd_describe(
    struct lh_child *members, uint64_t count, const char *dir, uint64_t port, bool tls);

/* Masters on etcd wait for a cluster: it begins, unless it has in an earlier run. `tls_dir`: what
 * is shown to etcd; NULL: it speaks no TLS. CANCELLED: interrupted; others were said on stderr. */
LH_MUST_USE int lh_local_etcd_begin(const struct lh_child *members, uint64_t count,
    const char *tls_dir, struct lh_duration patience, bool (*interrupted)(void *arg), void *arg);

/* "etcd:ADDRESS,.../leasehold", as the masters' --store; to be freed. */
char *lh_local_etcd_store(const struct lh_child *members, uint64_t count);
