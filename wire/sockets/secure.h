/* TLS over a connection's socket. Reading is its loop's, writing whoever writes: each may be busy
 * while the other is. Nothing here waits. */
#pragma once

#include "tls/context.h"
#include "wire/mux.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct secure;

/* `host`: of the server that is called; NULL: this end serves. */
struct secure *lh_secure_create(SSL_CTX *context, int fd, const char *host);
void lh_secure_destroy(struct secure *s); /* NULL is allowed */

enum lh_secure_step { LH_SECURE_DONE, LH_SECURE_MORE, LH_SECURE_FAILED };
/* As far as the handshake goes with what has arrived. FAILED: `why` says it. */
enum lh_secure_step lh_secure_handshake(struct secure *s, char *why, size_t why_size);
const SSL *lh_secure_ssl(const struct secure *s);

/* As recv(2): 0 is the end, -1 with errno; EAGAIN when there is no more for now. Fills as much of
 * `most` as there is. */
ssize_t lh_secure_read(struct secure *s, uint8_t *to, size_t most);

/* Encrypts the parts; only when nothing is left to be sent of those before. */
void lh_secure_encrypt(struct secure *s, const struct lh_mux_part *parts, size_t count);
/* Whether something is to be sent; and sends it. Returns the bytes of parts that have been sent
 * whole with it, or -1 with errno as send(2). */
bool lh_secure_has_output(struct secure *s);
ssize_t lh_secure_send(struct secure *s);
