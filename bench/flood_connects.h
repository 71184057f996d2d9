/* Connections that are begun and dropped, so many a second: flood_bench's. And a listener that only
 * accepts and closes, for comparison. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_flood_connects {
    uint64_t rate;    /* a second */
    uint64_t hold_ms; /* from their beginning to their end; 0: none */
    /* Begins TLS handshakes, of which the server never hears again; or finishes them, with the
     * certificate of a folder that `leasehold certs` wrote. NULL: no TLS. */
    const char *tls_dir;
    bool finish;
    int (*begin)(unsigned number); /* a socket that connects, or -1 */

    uint64_t begun, failed, finished; /* handshakes finished */
};

/* False: the folder's files are of no use; says so. */
bool lh_flood_connects_init(struct lh_flood_connects *c);
/* Some hundredths of a second have passed. `plain` is what is sent without TLS. */
void lh_flood_connects_tick(struct lh_flood_connects *c, uint64_t now_ns, uint64_t passed_ns,
    const void *plain, unsigned plain_size);

/* Accepts and closes what comes to that port of 127.0.0.1, and does nothing else, for ever. Returns
 * only if that cannot be. */
void lh_flood_serve(unsigned port);
