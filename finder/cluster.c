/* Of which cluster the masters are, and the owner (SES-10). */
#include "finder/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_another(const char *one, const char *other)
{
    return one != NULL && other != NULL && strcmp(one, other) != 0;
}

bool lh_finder_is_foreign(const struct lh_finder *f, size_t place)
{
    return is_another(f->cluster, f->masters[place].cluster);
}

void lh_finder_names(struct lh_finder *f, size_t place, const char *cluster)
{
    struct lh_finder_master *m = &f->masters[place];

    free(m->cluster);
    m->cluster = NULL;
    if (cluster[0] != '\0' && strnlen(cluster, ADDRESS_BYTES_MAX + 1) <= ADDRESS_BYTES_MAX)
        m->cluster = lh_strdup(cluster);
    m->named_in = f->rounds;
}

void lh_finder_join(struct lh_finder *f)
{
    const char *cluster = f->masters[f->choice].cluster;

    if (f->cluster == NULL && cluster != NULL)
        f->cluster = lh_strdup(cluster);
}

bool lh_finder_is_undecided(const struct lh_finder *f)
{
    return f->cluster == NULL && f->state == LH_FINDER_LOST;
}

/* Of an owner of no cluster: two masters that have named different ones in that round, or since. */
static bool is_torn_since(const struct lh_finder *f, uint64_t round, size_t *one, size_t *other)
{
    *one = LH_MASTERS_MAX;
    for (size_t i = 0; f->cluster == NULL && i < LH_MASTERS_MAX; i++) {
        const struct lh_finder_master *m = &f->masters[i];
        if (m->address == NULL || m->cluster == NULL || m->named_in < round)
            continue;
        *other = i;
        if (*one == LH_MASTERS_MAX)
            *one = i;
        else if (is_another(f->masters[*one].cluster, m->cluster))
            return true;
    }
    return false;
}

bool lh_finder_is_torn(const struct lh_finder *f)
{
    size_t one, other;

    return is_torn_since(f, f->rounds, &one, &other);
}

bool lh_finder_is_ours(const struct lh_finder *f, const char *cluster)
{
    return f->cluster == NULL || cluster[0] == '\0' || strcmp(f->cluster, cluster) == 0;
}

bool lh_finder_trouble(const struct lh_finder *f, char *text)
{
    size_t one, other;

    /* In the round that has just begun nobody may have answered yet. */
    if (is_torn_since(f, f->rounds - (f->asking ? 1 : 0), &one, &other)) {
        const struct lh_finder_master *a = &f->masters[one], *b = &f->masters[other];
        (void)snprintf(text, LH_FINDER_TEXT_MAX,
            "the master at %.200s is of cluster %.64s and the one at %.200s of cluster %.64s: "
            "neither is chosen until one is corrected, or only masters of one cluster are given",
            a->address, a->cluster, b->address, b->cluster);
        return true;
    }
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        const struct lh_finder_master *m = &f->masters[i];
        if (m->address == NULL || !lh_finder_is_foreign(f, i))
            continue;
        (void)snprintf(text, LH_FINDER_TEXT_MAX,
            "the master at %.200s is of cluster %.64s, and this is of cluster %.64s: its answers "
            "count for nothing",
            m->address, m->cluster, f->cluster);
        return true;
    }
    if (f->waits != NULL && f->state == LH_FINDER_LOST)
        (void)snprintf(text, LH_FINDER_TEXT_MAX, "%.700s", f->waits);
    return f->waits != NULL && f->state == LH_FINDER_LOST;
}

void lh_finder_foreign(struct lh_finder *f, size_t place)
{
    LH_MARK("master-is-foreign");
    if (place != f->choice)
        return;
    f->state = LH_FINDER_LOST;
    f->wanted = true;
}

bool lh_finder_named(struct lh_finder *f, uint64_t choice, const char *cluster)
{
    if (choice != f->choices || cluster[0] == '\0')
        return lh_finder_is_ours(f, cluster);
    lh_finder_names(f, f->choice, cluster);
    lh_finder_join(f);
    if (!lh_finder_is_foreign(f, f->choice))
        return true;
    lh_finder_foreign(f, f->choice);
    return false;
}

bool lh_finder_most_agree(const struct lh_finder *f)
{
    size_t given = 0, most = 0;

    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        size_t same = 0;
        given += f->masters[i].configured;
        for (size_t k = 0; k < LH_MASTERS_MAX; k++) {
            const struct lh_finder_master *m = &f->masters[k];
            same += m->configured && m->cluster != NULL && m->named_in == f->rounds &&
                    !is_another(m->cluster, f->masters[i].cluster);
        }
        if (f->masters[i].cluster != NULL && same > most)
            most = same;
    }
    return 2 * most > given;
}

void lh_finder_note_waiting(struct lh_finder *f, size_t place, const Leasehold__MastersReply *m)
{
    char text[LH_FINDER_TEXT_MAX];

    free(f->waits);
    f->waits = NULL;
    if (m->reign != 0 || m->store_trouble[0] == '\0')
        return;
    (void)snprintf(text, sizeof text, "the master at %.200s: %.500s", f->masters[place].address,
        m->store_trouble);
    f->waits = lh_strdup(text);
}
