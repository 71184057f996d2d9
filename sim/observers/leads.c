/* ACC-9: no replica adopts a version for a chunkserver that no master has granted it to. This part
 * knows nothing of capabilities: it writes down which grants masters send to whom, and compares
 * with them what servers answer to whoever has which certificate. */
#include "sim/observers/capability.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys are zeroed before they are filled. */
struct granted_key {
    uint64_t chunk, version;
    char holder[64]; /* the name that its certificate has */
};

struct granted {
    struct granted_key key;
    UT_hash_handle hh;
};

/* An ADOPT, by the feed that it begins. */
struct asked_key {
    uint64_t link, chunk, feed;
};

struct asked {
    struct asked_key key;
    uint64_t version;
    UT_hash_handle hh;
};

struct leads {
    struct granted *granted;
    struct asked *asked;
};

static struct leads *book(struct lh_sim_observers *o)
{
    struct leads **leads = lh_ob_capability_leads(o);

    if (*leads == NULL)
        *leads = lh_alloc(sizeof **leads);
    return *leads;
}

void lh_ob_leads_free(struct leads *leads)
{
    struct granted *g, *next_granted;
    struct asked *a, *next_asked;

    if (leads == NULL)
        return;
    HASH_ITER(hh, leads->granted, g, next_granted) {
        HASH_DEL(leads->granted, g);
        free(g);
    }
    HASH_ITER(hh, leads->asked, a, next_asked) {
        HASH_DEL(leads->asked, a);
        free(a);
    }
    free(leads);
}

static struct granted *find_granted(struct lh_sim_observers *o, uint64_t chunk, uint64_t version,
    const struct lh_sim_node *holder, struct granted_key *key)
{
    static const char scheme[] = "leasehold://chunkserver/";
    const char *identity = lh_sim_identity(holder);
    struct granted *g;

    memset(key, 0, sizeof *key);
    key->chunk = chunk;
    key->version = version;
    if (strncmp(identity, scheme, strlen(scheme)) == 0)
        (void)snprintf(key->holder, sizeof key->holder, "%s", identity + strlen(scheme));
    HASH_FIND(hh, book(o)->granted, key, sizeof *key, g);
    return g;
}

static struct asked *find_asked(
    struct lh_sim_observers *o, uint64_t link, uint64_t chunk, uint64_t feed)
{
    const struct asked_key key = {link, chunk, feed};
    struct asked *a;

    HASH_FIND(hh, book(o)->asked, &key, sizeof key, a);
    return a;
}

void lh_ob_leads_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const Leasehold__ReplicateRequest *m = (const Leasehold__ReplicateRequest *)s->message;

    if (m == NULL || s->method != LH_METHOD_REPLICATE || s->direction != LH_REQUEST)
        return;
    for (size_t i = 0; i < m->n_parts; i++) {
        const Leasehold__ReplicatePart *part = m->parts[i];
        if (part->kind != LEASEHOLD__REPLICATE_KIND__ADOPT)
            continue;
        struct asked *a = find_asked(o, s->link, part->chunk, part->feed);
        if (a == NULL) {
            a = lh_alloc(sizeof *a);
            a->key = (struct asked_key){s->link, part->chunk, part->feed};
            HASH_ADD(hh, book(o)->asked, key, sizeof a->key, a);
        }
        a->version = part->version;
    }
}

static void grants(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    const Leasehold__SessionReply *m = (const Leasehold__SessionReply *)s->message;
    struct granted_key key;

    if (m->body_case != LEASEHOLD__SESSION_REPLY__BODY_GRANT || s->peer == NULL ||
        find_granted(o, m->grant->chunk, m->grant->version, s->peer, &key) != NULL)
        return;
    struct granted *g = lh_alloc(sizeof *g);
    g->key = key;
    HASH_ADD(hh, book(o)->granted, key, sizeof g->key, g);
}

static void adopted(
    struct lh_sim_observers *o, const struct lh_sim_sight *s, const Leasehold__ReplicateAnswer *m)
{
    const struct asked *a = find_asked(o, s->link, m->chunk, m->feed);
    struct granted_key key;

    if (m->kind != LEASEHOLD__REPLICATE_KIND__ADOPT || m->error != LEASEHOLD__ERROR_CODE__OK ||
        a == NULL || s->peer == NULL ||
        find_granted(o, m->chunk, a->version, s->peer, &key) != NULL)
        return;
    lh_sim_fail(o->sim, "ACC-9", m->chunk,
        "%s has adopted version %" PRIu64 " for %s, who is %s, and to whom no master granted it",
        lh_sim_name(s->node), a->version, lh_sim_name(s->peer), lh_sim_identity(s->peer));
}

void lh_ob_leads_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->effect->kind != LH_FX_SEND || s->direction != LH_REPLY || s->message == NULL)
        return;
    if (s->method == LH_METHOD_SESSION) {
        grants(o, s);
    } else if (s->method == LH_METHOD_REPLICATE) {
        const Leasehold__ReplicateReply *m = (const Leasehold__ReplicateReply *)s->message;
        for (size_t i = 0; i < m->n_answers; i++)
            adopted(o, s, m->answers[i]);
    }
}
