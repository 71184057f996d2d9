/* Links by their ids, and what comes on them. */
#include "flow/links.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/codec.h"

static void put(struct lh_links *links, struct lh_link *link, uint64_t id)
{
    LH_ASSERT(link->id == 0 && link->user != NULL);
    link->id = id;
    HASH_ADD(hh, links->by_id, id, sizeof link->id, link);
}

void lh_link_open(struct lh_links *links, struct lh_effects *fx, struct lh_link *link,
    enum lh_method method, const char *address, struct lh_duration timeout)
{
    put(links, link, ++links->last);
    lh_fx_open(fx, link->id, method, address, timeout);
}

void lh_link_serve(struct lh_links *links, struct lh_link *link, uint64_t id)
{
    LH_ASSERT((id & LH_LINK_SERVED) != 0);
    put(links, link, id);
}

void lh_link_forget(struct lh_links *links, struct lh_link *link)
{
    if (link->id != 0)
        HASH_DELETE(hh, links->by_id, link);
    link->id = 0;
}

void lh_link_close(struct lh_links *links, struct lh_effects *fx, struct lh_link *link, int error,
    const char *text)
{
    if (link->id != 0)
        lh_fx_close(fx, link->id, error, text);
    lh_link_forget(links, link);
}

struct lh_link *lh_link_find(const struct lh_links *links, uint64_t id)
{
    struct lh_link *link;

    HASH_FIND(hh, links->by_id, &id, sizeof id, link);
    return link;
}

struct lh_link *lh_link_from(struct lh_link *link, const struct lh_link_user *of)
{
    while (link != NULL && link->user != of)
        link = link->hh.next;
    return link;
}

static void message(struct lh_links *links, void *core, struct lh_link *link, struct lh_input *in)
{
    if (links->answer_ends && (link->id & LH_LINK_SERVED) == 0 &&
        !lh_method_info(in->method)->reply_stream)
        lh_link_forget(links, link);
    if (link->user->message != NULL)
        link->user->message(core, link, in->message, &in->payload);
}

static void notify(
    void (*function)(void *core, struct lh_link *link), void *core, struct lh_link *link)
{
    if (function != NULL)
        function(core, link);
}

void lh_links_take(struct lh_links *links, void *core, struct lh_input *in)
{
    struct lh_link *link = lh_link_find(links, in->link);

    if (link == NULL)
        return;
    if (in->kind == LH_IN_MESSAGE) {
        message(links, core, link, in);
    } else if (in->kind == LH_IN_PROGRESS) {
        notify(link->user->progress, core, link);
    } else if (in->kind == LH_IN_SENT) {
        notify(link->user->sent, core, link);
    } else if (in->kind == LH_IN_HALF_CLOSED) {
        notify(link->user->half_closed, core, link);
    } else if (in->kind == LH_IN_LINK_CLOSED) {
        lh_link_forget(links, link);
        if (link->user->closed != NULL)
            link->user->closed(core, link, in->error, in->text);
    }
}

void lh_links_check(const struct lh_links *links)
{
    for (const struct lh_link *l = links->by_id; l != NULL; l = l->hh.next)
        LH_ASSERT(l->user != NULL && lh_link_find(links, l->id) == l &&
                  ((l->id & LH_LINK_SERVED) != 0 || (l->id != 0 && l->id <= links->last)));
}
