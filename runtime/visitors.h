/* The connections of an HTTP server, so that whoever is slow harms nobody else. What counts is the
 * age of a request, from its connection's begin or the end of the answer before to the end of its
 * own; bytes that come now and then do not make it younger.
 *
 *   - One that is too old is cut.
 *   - There are only so many connections, and so many from one address. A new one beyond takes the
 *     place of the one that has been without a whole request for longest: of its own address, if
 *     that has too many. If all are being answered the new one is cut.
 *
 * Cut means shutdown(2): the server that owns the socket finds it closed by its peer. */
#pragma once

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct lh_visitors;
struct lh_visitor;

/* Whose connections are counted together: an IPv4 address, or an IPv6 network of 64 bits. */
struct lh_visitor_address {
    uint8_t bytes[16];
};
struct lh_visitor_address lh_visitor_address(const struct sockaddr *address);
bool lh_visitor_is_same(const struct lh_visitor_address *a, const struct lh_visitor_address *b);

struct lh_visitors_config {
    unsigned max, address_max;  /* connections at once, and of one address */
    struct lh_duration age_max; /* of a request */
};

/* Starts a thread. NULL: there is none to be had; `why` has a sentence. */
struct lh_visitors *lh_visitors_create(
    const struct lh_visitors_config *config, char *why, size_t why_size);
/* After the last lh_visitor_leave(). NULL is allowed. */
void lh_visitors_destroy(struct lh_visitors *visitors);

/* A connection; the socket stays the caller's, open until lh_visitor_leave(). */
struct lh_visitor *lh_visitor_enter(
    struct lh_visitors *visitors, int fd, const struct sockaddr *address);
void lh_visitor_leave(struct lh_visitors *visitors, struct lh_visitor *visitor);

/* Its request is there as a whole: it keeps its place while it is answered. `endless`: the answer
 * has no end, and whoever makes it decides how long it may be. */
void lh_visitor_asked(struct lh_visitors *visitors, struct lh_visitor *visitor, bool endless);
/* The answer is over; another request may come. */
void lh_visitor_answered(struct lh_visitors *visitors, struct lh_visitor *visitor);
