/* Refused chunkservers, for operators; see refused.h. */
#include "master/tables/refused.h"

#include "base/text.h"
#include "master/tables/tables.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char *shown(const char *text)
{
    char plain[2 * LH_TEXT_BYTES];

    lh_text_show(plain, sizeof plain, text == NULL ? "" : text);
    return lh_strdup(plain);
}

/* "ipv4:10.0.0.1:4711" and "ipv6:%5Bfe80::1%25eth0%5D:4711", as transports say it, in the form of
 * all other addresses. */
static char *address_of(const char *peer)
{
    char text[LH_TEXT_BYTES];
    size_t n = 0;

    if (peer == NULL || (strncmp(peer, "ipv4:", 5) != 0 && strncmp(peer, "ipv6:", 5) != 0))
        return shown(peer);
    for (const char *c = peer + 5; *c != '\0' && n + 1 < sizeof text; n++) {
        unsigned byte;
        if (c[0] == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2]) &&
            sscanf(c, "%%%2x", &byte) == 1) {
            text[n] = (char)byte;
            c += 3;
        } else {
            text[n] = *c++;
        }
    }
    text[n] = '\0';
    return shown(text);
}

static void forget(struct lh_master *m, struct lh_m_refused *r)
{
    TAILQ_REMOVE(&m->refused.list, r, link);
    m->refused.count--;
    free(r->server_id);
    free(r->address);
    free(r->peer);
    free(r->identity);
    free(r->text);
    free(r);
}

/* It is not shown any more. */
static bool is_over(const struct lh_master *m, const struct lh_m_refused *r)
{
    return lh_instant_reached(m->now, lh_instant_add(r->at, m->config.refused_keep));
}

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

void lh_m_refused_note(struct lh_master *m, const char *server_id, const char *address,
    const char *peer, const char *identity, int error, const char *text)
{
    struct lh_m_refused *r = lh_alloc(sizeof *r), *old, *next;

    *r = (struct lh_m_refused){.server_id = shown(server_id),
        .address = shown(address),
        .peer = address_of(peer),
        .identity = shown(identity),
        .text = shown(text),
        .error = error,
        .times = 1,
        .at = m->now};
    for (old = TAILQ_FIRST(&m->refused.list); old != NULL; old = next) {
        next = TAILQ_NEXT(old, link);
        if (!same(old->server_id, r->server_id) || !same(old->address, r->address) ||
            !same(old->identity, r->identity))
            continue;
        if (!is_over(m, old))
            r->times += old->times;
        forget(m, old);
    }
    if (m->refused.count >= m->config.refused_max)
        forget(m, TAILQ_LAST(&m->refused.list, lh_m_refused_list));
    TAILQ_INSERT_HEAD(&m->refused.list, r, link);
    m->refused.count++;
}

void lh_m_refused_mended(
    struct lh_master *m, const char *server_id, const char *address, const char *identity)
{
    char *id = shown(server_id), *at = shown(address), *who = shown(identity);
    struct lh_m_refused *r, *next;

    for (r = TAILQ_FIRST(&m->refused.list); r != NULL; r = next) {
        next = TAILQ_NEXT(r, link);
        bool same_id = same(r->server_id, id), same_identity = same(r->identity, who);
        bool nameless = r->server_id[0] == '\0';
        int agree = same_id + same(r->address, at) + same_identity;
        if (agree >= 2 || (nameless && same_identity))
            forget(m, r);
    }
    free(id);
    free(at);
    free(who);
}

const struct lh_m_refused *lh_m_refused_next(
    const struct lh_master *m, const struct lh_m_refused *after)
{
    const struct lh_m_refused *r =
        after == NULL ? TAILQ_FIRST(&m->refused.list) : TAILQ_NEXT(after, link);

    return r == NULL || is_over(m, r) ? NULL : r;
}

void lh_m_refused_deinit(struct lh_master *m)
{
    while (!TAILQ_EMPTY(&m->refused.list))
        forget(m, TAILQ_FIRST(&m->refused.list));
}
