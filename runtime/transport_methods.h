/* What a transport fills in. For transports; all others use it through transport.h, which says what
 * each function promises.
 *
 * A transport's own struct begins with a struct lh_transport, and what it makes for a link with a
 * struct lh_transport_link. Each link has its methods, so that one transport can give its owner
 * links of another one. */
#pragma once

#include "base/buf.h"
#include "base/step.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_tls;
struct lh_transport;
struct lh_transport_config;
struct lh_transport_figures;
struct lh_transport_link;

/* Where a thread of the process is that calls fork(). */
enum lh_fork {
    LH_FORK_BEFORE,
    LH_FORK_PARENT, /* after it */
    LH_FORK_CHILD
};

/* Each is the lh_transport_...() of the same name. None may be NULL. */
struct lh_transport_methods {
    int (*create)(const struct lh_transport_config *config, struct lh_transport **transport,
        char *why, size_t why_size);
    void (*start)(struct lh_transport *transport);
    void (*destroy)(struct lh_transport *transport); /* not NULL */
    int (*port)(const struct lh_transport *transport);
    uint64_t (*unsent)(const struct lh_transport *transport);
    void (*figures)(const struct lh_transport *transport, struct lh_transport_figures *figures);
    struct lh_tls *(*tls)(const struct lh_transport *transport);
    void (*housekeep)(struct lh_transport *transport);
    void (*set_serving)(struct lh_transport *transport, bool server, bool services);
    void (*ask_who_answers)(struct lh_transport *transport);
    struct lh_transport_link *(*open)(struct lh_transport *transport, enum lh_method method,
        const char *address, struct lh_duration timeout);
    void (*flush_begin)(struct lh_transport *transport);
    void (*flush_end)(struct lh_transport *transport);
    void (*forks)(struct lh_transport *transport, enum lh_fork where);
};

/* The config with the default of each time that is 0 and has one (transport.h). */
struct lh_transport_config lh_transport_defaults(const struct lh_transport_config *config);

/* Each is the lh_transport_link_...() of the same name. None may be NULL. */
struct lh_transport_link_methods {
    void (*set_token)(struct lh_transport_link *link, const char *token);
    void (*ref)(struct lh_transport_link *link);
    void (*unref)(struct lh_transport_link *link);
    void (*put)(struct lh_transport_link *link, struct lh_buf bytes, bool notify);
    void (*close)(struct lh_transport_link *link, int error, const char *text);
    void (*read)(struct lh_transport_link *link);
    void (*flush)(struct lh_transport_link *link);
};

struct lh_transport {
    const struct lh_transport_methods *methods;
};

/* The same for the whole life of the link, once its owner knows it. */
struct lh_transport_link {
    const struct lh_transport_link_methods *methods;
    void *data;           /* the owner's bytes, zeroed at first and aligned for anything */
    const char *identity; /* who opened a served link; never NULL */
};
