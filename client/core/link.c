/* Links by their ids. */
#include "client/core/link.h"

#include "base/assert.h"
#include "client/core/state.h"
#include "proto/codec.h"

static struct lh_client_link **bucket(struct lh_client *c, uint64_t id)
{
    return &c->links[id % LH_CLIENT_BUCKETS];
}

static struct lh_client_link *find_link(struct lh_client *c, uint64_t id)
{
    struct lh_client_link *l = *bucket(c, id);

    while (l != NULL && l->id != id)
        l = l->next;
    return l;
}

static void forget_link(struct lh_client *c, struct lh_client_link *link)
{
    struct lh_client_link **at = bucket(c, link->id);

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->id = 0;
    link->next = NULL;
}

void lh_client_link_open(struct lh_client *c, struct lh_client_link *link, enum lh_method method,
    const char *address, struct lh_duration timeout)
{
    LH_ASSERT(link->id == 0);
    link->id = ++c->last_link;
    link->method = method;
    link->next = *bucket(c, link->id);
    *bucket(c, link->id) = link;
    lh_fx_open(c->fx, link->id, method, address, timeout);
}

void lh_client_link_close(struct lh_client *c, struct lh_client_link *link)
{
    if (link->id == 0)
        return;
    lh_fx_close(c->fx, link->id, LH_ERR_CANCELLED, NULL);
    forget_link(c, link);
}

void lh_client_link_message(struct lh_client *c, struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    /* The server ends a unary link after its reply by itself; nothing more is expected from it. */
    if (!lh_method_info(l->method)->reply_stream)
        forget_link(c, l);
    l->on_message(l->owner, in->message, &in->payload);
}

void lh_client_link_progress(struct lh_client *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l != NULL && l->on_progress != NULL)
        l->on_progress(l->owner);
}

void lh_client_link_sent(struct lh_client *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l != NULL && l->on_sent != NULL)
        l->on_sent(l->owner);
}

void lh_client_link_closed(struct lh_client *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    forget_link(c, l);
    l->on_closed(l->owner, in->error, in->text);
}

void lh_client_links_check(const struct lh_client *c)
{
    for (size_t i = 0; i < LH_CLIENT_BUCKETS; i++)
        for (const struct lh_client_link *l = c->links[i]; l != NULL; l = l->next)
            LH_ASSERT(l->id != 0 && l->id % LH_CLIENT_BUCKETS == i && l->id <= c->last_link);
}
