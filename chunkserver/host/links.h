/* Links, and messages that arrive slowly. Whom a link concerns is in its table of functions. */
#pragma once

#include "base/buf.h"
#include "base/step.h"
#include "base/timers.h"

#include <uthash.h>

struct lh_cs_host;
struct lh_cs_link;

/* What is to happen with the links of one kind. What is NULL does not concern them. */
struct lh_cs_link_user {
    void (*message)(struct lh_cs_link *l, const void *message, struct lh_buf *payload);
    /* It has ended, and not by our own hand: `gone` is a copy. `text` may be NULL. */
    void (*closed)(struct lh_cs_link *gone, const char *text);
    /* A part of a message has come. */
    void (*progress)(struct lh_cs_link *l);
    /* What was sent with `tell` has left. */
    void (*sent)(struct lh_cs_link *l);
    /* The peer will send nothing more. NULL: nothing is said of it. */
    void (*half_closed)(struct lh_cs_link *l);
    /* Its user holds it: it is not read, and its silence is no fault of the peer's. */
    bool (*held)(const struct lh_cs_link *l);
    /* It was silent for too long. False: nobody has ended it. */
    bool (*late)(struct lh_cs_link *l, const char *text);
};

struct lh_cs_link {
    uint64_t id;
    struct lh_cs_host *cs;
    const struct lh_cs_link_user *user;
    void *room;                 /* a peer opened it: the user's, whatever it is for; else NULL */
    void *owner;                /* what the link is for, once that is known */
    struct lh_duration silence; /* ours: it is over when nothing comes for so long */
    bool arriving;              /* a message has begun and is not whole */
    struct lh_instant arriving_since;
    struct lh_timer timer;          /* when its silence has lasted too long */
    bool held;                      /* by lh_cs_link_hold() */
    struct lh_cs_link *prev, *next; /* of those that are */
    UT_hash_handle hh;
};

struct lh_cs_links {
    struct lh_cs_link *by_id;
    struct lh_cs_link *held;
    uint64_t last; /* the number of the last one that was opened */
};

/* A link that a peer opened. */
struct lh_cs_link *lh_cs_link_add(struct lh_cs_host *cs, uint64_t id,
    const struct lh_cs_link_user *user, void *room, void *owner);
/* Ours. It ends, as if by itself, when nothing at all comes for `silence`. */
struct lh_cs_link *lh_cs_link_open(struct lh_cs_host *cs, const struct lh_cs_link_user *user,
    void *owner, enum lh_method method, const char *address, struct lh_duration silence);
struct lh_cs_link *lh_cs_link_find(struct lh_cs_host *cs, uint64_t id);
/* Drops our record of a link that has ended. */
void lh_cs_link_forget(struct lh_cs_host *cs, uint64_t id);
/* Closes and forgets it; a link that is gone already is ignored. */
void lh_cs_link_close(struct lh_cs_host *cs, uint64_t id, int error, const char *text);

/* Nothing more is read from it before lh_cs_links_unhold(). */
void lh_cs_link_hold(struct lh_cs_link *l);
/* Reads again from all that are held. */
void lh_cs_links_unhold(struct lh_cs_host *cs);

/* The message that came ends within something that must come as if it were a message: in pieces,
 * and whole in time, counted from `since`. Else its user's `late` is asked. */
void lh_cs_link_await_rest(struct lh_cs_link *l, struct lh_instant since);

/* Inputs. */
void lh_cs_link_message(
    struct lh_cs_host *cs, uint64_t id, const void *message, struct lh_buf *payload);
void lh_cs_link_progress(struct lh_cs_host *cs, uint64_t id);
void lh_cs_link_sent(struct lh_cs_host *cs, uint64_t id);
void lh_cs_link_half_closed(struct lh_cs_host *cs, uint64_t id);
/* It has ended: forgets it and tells its user. */
void lh_cs_link_closed(struct lh_cs_host *cs, uint64_t id, const char *text);

/* Closes one that the peer has half closed, and tells its user. */
void lh_cs_link_end_with_peer(struct lh_cs_link *l);

/* Forgets all links; for those that peers opened they have ended. */
void lh_cs_links_deinit(struct lh_cs_host *cs);
