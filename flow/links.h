/* The links of a core by their ids: what comes on one goes to whoever has it.
 *
 * A link lives inside its owner (LH_OWNER), so the table allocates none, and what one costs does
 * not grow with their number. Ids of links that are opened here count up and are never used twice;
 * those that peers opened have their highest bit set (base/step.h). */
#pragma once

#include "base/step.h"

#include <uthash.h>

struct lh_link;

/* What is to happen with links of one kind; NULL: nothing. Each function may free the owner, and
 * close links or open others: the table is done with the link when it calls. `core` is what
 * lh_links_take() was given. */
struct lh_link_user {
    /* A message has come. A unary link that was opened here is forgotten before, if the table has
     * `answer_ends`. */
    void (*message)(void *core, struct lh_link *link, const void *message, struct lh_buf *payload);
    /* A part of one has. */
    void (*progress)(void *core, struct lh_link *link);
    /* What was sent with `notify` has left. */
    void (*sent)(void *core, struct lh_link *link);
    /* The peer will send nothing more. */
    void (*half_closed)(void *core, struct lh_link *link);
    /* It is over, and forgotten, without this core having closed it. `text` may be NULL. */
    void (*closed)(void *core, struct lh_link *link, int error, const char *text);
};

struct lh_link {
    uint64_t id;                     /* 0: none */
    const struct lh_link_user *user; /* set before it is opened or served */
    UT_hash_handle hh;
};

struct lh_links {
    struct lh_link *by_id; /* in the order in which they began */
    uint64_t last;         /* the id that was given out last */
    bool answer_ends; /* the server of a unary call ends it with its answer: nothing is to be done
                         about that link, or to be heard of it, any more */
};

/* A new link. Its `user` is set, and it has no id. */
void lh_link_open(struct lh_links *links, struct lh_effects *fx, struct lh_link *link,
    enum lh_method method, const char *address, struct lh_duration timeout);
/* Likewise; a peer opened it under that id. */
void lh_link_serve(struct lh_links *links, struct lh_link *link, uint64_t id);
/* Closes and forgets it; one without an id is ignored. */
void lh_link_close(struct lh_links *links, struct lh_effects *fx, struct lh_link *link, int error,
    const char *text);
/* The same without closing it: nothing that comes on it finds anybody any more. */
void lh_link_forget(struct lh_links *links, struct lh_link *link);
/* NULL: there is none. */
struct lh_link *lh_link_find(const struct lh_links *links, uint64_t id);

/* An input that is about a link goes to its user: MESSAGE, PROGRESS, SENT, HALF_CLOSED,
 * LINK_CLOSED. Any other one is ignored, and so is one of a link that nobody has. */
void lh_links_take(struct lh_links *links, void *core, struct lh_input *in);

/* The first one from that on, in the order in which they began, that is of the user; NULL. */
struct lh_link *lh_link_from(struct lh_link *link, const struct lh_link_user *of);
/* All of one user. Each may be forgotten meanwhile, and so may those of other users. */
#define LH_LINKS_FOREACH(links, of, link, next)                                                    \
    for (link = lh_link_from((links)->by_id, of);                                                  \
         link != NULL && (next = lh_link_from(link->hh.next, of), true); link = next)

void lh_links_check(const struct lh_links *links);
