/* What goes out on a link, a message at a time.
 *
 * With nothing in flight, what there is to send goes at the end of the step in which it became due;
 * what becomes due while a message is in flight goes with the next one. So messages grow with the
 * load, nothing waits for a timer, and no step sends a second message where one would do.
 *
 * An outbox lives inside its owner. It knows whether the way is free, and whose turn it is when the
 * step ends; what there is to send only the owner knows. */
#pragma once

#include "base/step.h"
#include "proto/codec.h"

struct lh_outbox {
    unsigned in_flight; /* messages that were sent with `notify` and have not left this process */
    bool touched;
    struct lh_outbox *next; /* of those that are touched */
};

/* Something may have to be sent when this step ends: it is in that list until then. */
static inline void lh_outbox_touch(struct lh_outbox **touched, struct lh_outbox *o)
{
    if (o->touched)
        return;
    o->touched = true;
    o->next = *touched;
    *touched = o;
}

/* The step ends: takes out the one that was touched last; NULL: there is none. */
static inline struct lh_outbox *lh_outbox_next(struct lh_outbox **touched)
{
    struct lh_outbox *o = *touched;

    if (o != NULL) {
        *touched = o->next;
        o->touched = false;
    }
    return o;
}

/* Its owner is freed. */
static inline void lh_outbox_forget(struct lh_outbox **touched, struct lh_outbox *o)
{
    while (o->touched && *touched != o)
        touched = &(*touched)->next;
    if (o->touched)
        (void)lh_outbox_next(touched);
}

/* As lh_fx_send_notified(): until lh_outbox_left() the message is in flight. */
static inline void lh_outbox_send(struct lh_outbox *o, struct lh_effects *fx, uint64_t link,
    const ProtobufCMessage *message, struct lh_buf *payload)
{
    o->in_flight++;
    lh_fx_send_notified(fx, link, message, payload);
}

/* A message has left. */
static inline void lh_outbox_left(struct lh_outbox *o)
{
    o->in_flight -= o->in_flight > 0;
}
