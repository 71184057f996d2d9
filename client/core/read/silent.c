/* Servers that did not answer. Whoever calls one finds out only after a second or more, so all
 * readers of a client remember it together: such a server is asked last until it answers again.
 *
 * That lasts for a while only, or a server that came back would never be asked. When it is over,
 * one of the readers asks; if that is in vain, the next while is twice as long. */
#include "client/core/read/silent.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A server that did not answer. */
struct lh_client_silent {
    struct lh_client_silent *next;
    char *address;
    struct lh_instant until;  /* asked last */
    struct lh_duration lasts; /* the while that ends there */
    bool tried_again;         /* since it became silent, and has not answered yet */
};

static struct lh_client_silent *find(const struct lh_client_readers *all, const char *address)
{
    struct lh_client_silent *s = all->silent;

    while (s != NULL && strcmp(s->address, address) != 0)
        s = s->next;
    return s;
}

static void forget(struct lh_client_readers *all, struct lh_client_silent *s)
{
    struct lh_client_silent **at = &all->silent;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    all->silent_count--;
    free(s->address);
    free(s);
}

static struct lh_client_silent *add(struct lh_client_readers *all, const char *address)
{
    struct lh_client_silent *s = lh_alloc(sizeof *s);

    s->address = lh_strdup(address);
    s->next = all->silent;
    all->silent = s;
    all->silent_count++;
    return s;
}

/* The one whose while is over first. */
static struct lh_client_silent *oldest(const struct lh_client_readers *all)
{
    struct lh_client_silent *oldest = all->silent;

    for (struct lh_client_silent *s = all->silent; s != NULL; s = s->next)
        if (s->until.ns < oldest->until.ns)
            oldest = s;
    return oldest;
}

bool lh_client_is_silent(const struct lh_client_readers *all, const char *address)
{
    const struct lh_client_silent *s = find(all, address);

    return s != NULL && !lh_instant_reached(all->client->now, s->until);
}

void lh_client_silent_asked(struct lh_client_readers *all, const char *address)
{
    struct lh_client_silent *s = find(all, address);

    if (s == NULL || !lh_instant_reached(all->client->now, s->until))
        return;
    LH_MARK("silent-server-tried-again");
    s->tried_again = true;
    s->until = lh_instant_add(all->client->now, s->lasts);
}

void lh_client_no_answer(struct lh_client_readers *all, const char *address)
{
    struct lh_client_silent *s = find(all, address);

    if (s == NULL) {
        if (all->silent_count == all->client->config.silent_servers)
            forget(all, oldest(all));
        s = add(all, address);
        s->lasts = all->client->config.silent_min;
    } else if (s->tried_again) {
        s->lasts =
            lh_duration_min(lh_duration_add(s->lasts, s->lasts), all->client->config.silent_max);
    } else {
        return; /* whoever asked did so before it was known, or had nobody else to ask */
    }
    s->tried_again = false;
    s->until = lh_instant_add(all->client->now, s->lasts);
}

void lh_client_answered(struct lh_client_readers *all, const char *address)
{
    struct lh_client_silent *s = find(all, address);

    if (s != NULL)
        forget(all, s);
}

void lh_client_silent_deinit(struct lh_client_readers *all)
{
    while (all->silent != NULL)
        forget(all, all->silent);
}
