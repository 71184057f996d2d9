/* Links that the core opens, and who is told what comes on them. */
#pragma once

#include "client/core/client.h"

/* One link that this core opened. Lives inside its owner; `id` 0: none. */
struct lh_client_link {
    uint64_t id;
    enum lh_method method;
    void *owner;
    /* A message arrived. A link of a unary method is forgotten before this is called. */
    void (*on_message)(void *owner, const void *message, struct lh_buf *payload);
    /* What was sent with `tell` has left. May be NULL. */
    void (*on_sent)(void *owner);
    /* A part of a message arrived. May be NULL. */
    void (*on_progress)(void *owner);
    /* It is over, without (another) message; forgotten before this is called. */
    void (*on_closed)(void *owner, int error, const char *text);
    struct lh_client_link *next; /* in its bucket */
};

void lh_client_links_init(struct lh_client *c);
/* None is open any more. */
void lh_client_links_deinit(struct lh_client *c);

void lh_client_link_open(struct lh_client *c, struct lh_client_link *link, enum lh_method method,
    const char *address, struct lh_duration timeout);
void lh_client_link_close(struct lh_client *c, struct lh_client_link *link);

/* What has come on a link, for its owner; nobody's link any more: ignored. */
void lh_client_link_message(struct lh_client *c, struct lh_input *in);
void lh_client_link_progress(struct lh_client *c, const struct lh_input *in);
void lh_client_link_sent(struct lh_client *c, const struct lh_input *in);
void lh_client_link_closed(struct lh_client *c, const struct lh_input *in);

void lh_client_links_check(const struct lh_client *c);
