/* Links by their ids. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/host/internal.h"
#include "proto/codec.h"

#include <stdlib.h>

#define BUCKETS_FIRST 256u /* a power of two */

static struct lh_client_link **bucket(const struct lh_client_host *c, uint64_t id)
{
    return &c->links.buckets[id & (c->links.bucket_count - 1)];
}

static void put_in_bucket(struct lh_client_host *c, struct lh_client_link *link)
{
    struct lh_client_link **at = bucket(c, link->id);

    link->next = *at;
    *at = link;
}

/* As many buckets as links: what one of them costs does not grow with their number. */
static void grow(struct lh_client_host *c)
{
    struct lh_client_link **old = c->links.buckets;
    size_t count = c->links.bucket_count;

    c->links.bucket_count = count * 2;
    c->links.buckets = lh_alloc_array(c->links.bucket_count, sizeof(struct lh_client_link *));
    for (size_t i = 0; i < count; i++)
        while (old[i] != NULL) {
            struct lh_client_link *link = old[i];
            old[i] = link->next;
            put_in_bucket(c, link);
        }
    free(old);
}

void lh_client_links_init(struct lh_client_host *c)
{
    c->links.bucket_count = BUCKETS_FIRST;
    c->links.buckets = lh_alloc_array(BUCKETS_FIRST, sizeof(struct lh_client_link *));
}

void lh_client_links_deinit(struct lh_client_host *c)
{
    free(c->links.buckets);
}

static struct lh_client_link *find_link(const struct lh_client_host *c, uint64_t id)
{
    struct lh_client_link *l = *bucket(c, id);

    while (l != NULL && l->id != id)
        l = l->next;
    return l;
}

static void forget_link(struct lh_client_host *c, struct lh_client_link *link)
{
    struct lh_client_link **at = bucket(c, link->id);

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->id = 0;
    link->next = NULL;
    c->links.count--;
}

void lh_client_link_open(struct lh_client_host *c, struct lh_client_link *link,
    enum lh_method method, const char *address, struct lh_duration timeout)
{
    LH_ASSERT(link->id == 0);
    link->id = ++c->links.last;
    link->method = method;
    if (++c->links.count > c->links.bucket_count)
        grow(c);
    put_in_bucket(c, link);
    lh_fx_open(c->fx, link->id, method, address, timeout);
}

void lh_client_link_close(struct lh_client_host *c, struct lh_client_link *link)
{
    if (link->id == 0)
        return;
    lh_fx_close(c->fx, link->id, LH_ERR_CANCELLED, NULL);
    forget_link(c, link);
}

void lh_client_link_message(struct lh_client_host *c, struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    /* The server ends a unary link after its reply by itself; nothing more is expected from it. */
    if (!lh_method_info(l->method)->reply_stream)
        forget_link(c, l);
    l->on_message(l->owner, in->message, &in->payload);
}

void lh_client_link_progress(struct lh_client_host *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l != NULL && l->on_progress != NULL)
        l->on_progress(l->owner);
}

void lh_client_link_sent(struct lh_client_host *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l != NULL && l->on_sent != NULL)
        l->on_sent(l->owner);
}

void lh_client_link_closed(struct lh_client_host *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    forget_link(c, l);
    l->on_closed(l->owner, in->error, in->text);
}

void lh_client_links_check(const struct lh_client_host *c)
{
    size_t count = 0;

    for (size_t i = 0; i < c->links.bucket_count; i++)
        for (const struct lh_client_link *l = c->links.buckets[i]; l != NULL; l = l->next, count++)
            LH_ASSERT(
                l->id != 0 && bucket(c, l->id) == &c->links.buckets[i] && l->id <= c->links.last);
    LH_ASSERT(count == c->links.count);
}
