/* Loading a store in which a commit counts and is not in place yet (HA-6): of the map some pairs
 * are as the commit left them and others as before, so neither fits its neighbours. The commit's
 * changes are laid over the pairs as they are read, both in the order of keys. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_changes(const void *a, const void *b)
{
    const struct lh_change *left = a, *right = b;

    return compare(left->key, left->key_size, right->key, right->key_size);
}

bool lh_r_overlay_begin(struct lh_reigns *r)
{
    struct lh_r_overlay *o = &r->copy.overlay;

    if (r->copy.said == NULL || r->copy.said->pieces == 0)
        return true;
    LH_MARK("loaded-before-it-is-in-place");
    if (!lh_r_pieces_read(r, r->copy.said->pieces, &o->changes, &o->count))
        return false;
    if (o->count > 0)
        qsort(o->changes, o->count, sizeof *o->changes, compare_changes);
    return true;
}

static int load(struct lh_reigns *r, const uint8_t *key, size_t key_size, const uint8_t *value,
    size_t value_size, char *text, size_t text_size)
{
    if (value == NULL)
        return LH_OK;
    lh_r_move_keep(r, key, key_size, value, value_size);
    return lh_master_load(r->master, key, key_size, value, value_size, text, text_size);
}

static int load_change(struct lh_reigns *r, const struct lh_change *c, char *text, size_t text_size)
{
    return load(r, c->key, c->key_size, c->value, c->value_size, text, text_size);
}

int lh_r_overlay_load(struct lh_reigns *r, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size, char *text, size_t text_size)
{
    struct lh_r_overlay *o = &r->copy.overlay;
    int order = 1, error = LH_OK;

    while (o->at < o->count && order > 0 && error == LH_OK) {
        const struct lh_change *c = &o->changes[o->at];
        order = compare(key, key_size, c->key, c->key_size);
        if (order < 0)
            break;
        error = load_change(r, c, text, text_size);
        o->at++;
    }
    if (order == 0 || error != LH_OK)
        return error; /* the pair's place was taken */
    return load(r, key, key_size, value, value_size, text, text_size);
}

int lh_r_overlay_end(struct lh_reigns *r, char *text, size_t text_size)
{
    struct lh_r_overlay *o = &r->copy.overlay;
    int error = LH_OK;

    while (o->at < o->count && error == LH_OK)
        error = load_change(r, &o->changes[o->at++], text, text_size);
    lh_r_overlay_clear(o);
    return error != LH_OK ? error : lh_master_loaded(r->master, text, text_size);
}

void lh_r_overlay_clear(struct lh_r_overlay *o)
{
    lh_changes_free(o->changes, o->count);
    *o = (struct lh_r_overlay){0};
}

bool lh_r_head_fits(const struct lh_reigns *r, char *text, size_t text_size)
{
    const LeaseholdStored__Head *head = r->copy.said;

    if (head != NULL && lh_master_cluster(r->master) == NULL &&
        !LH_PLANTED("cluster-begins-by-itself")) {
        LH_MARK("head-without-a-record");
        (void)snprintf(text, text_size,
            "there is a head, and not the master's record: no cluster begins here (HA-13); restore "
            "the store from a backup (docs/operations.md, \"Restoring\")");
        return false;
    }
    if (head == NULL || lh_master_term(r->master) <= head->reign)
        return true;
    (void)snprintf(text, text_size,
        "the head is of reign %" PRIu64 ", and the metadata of reign %" PRIu64 ": they do not "
        "belong together; restore the store from a backup (docs/operations.md, \"Restoring\")",
        head->reign, lh_master_term(r->master));
    return false;
}

bool lh_r_other_history(struct lh_reigns *r, uint64_t reign)
{
    LH_MARK("store-of-another-history");
    lh_fx_log(r->fx, LH_ERROR,
        "etcd was restored from an older copy, and masters went on from there: reign %" PRIu64
        " was another one when this master saw it. Start one master with --restored, and see \"Two "
        "histories\" in docs/operations.md",
        reign);
    lh_r_stop_with(r, LH_ERR_CORRUPT);
    return true;
}

bool lh_r_history_fits(struct lh_reigns *r)
{
    uint64_t name = lh_master_reign_name(r->master, r->known_reign);

    return name == 0 || r->known_name == 0 || name == r->known_name ||
           !lh_r_other_history(r, r->known_reign);
}

bool lh_r_overlay_fits(struct lh_reigns *r, struct lh_change **changes, size_t *count)
{
    const LeaseholdStored__Head *head = r->copy.said;

    if (head->pieces > 0 && !lh_r_pieces_read(r, head->pieces, changes, count)) {
        lh_fx_log(r->fx, LH_ERROR,
            "a part of a commit in etcd (%s) is missing; restore the store from a backup",
            r->config.prefix);
        return false;
    }
    return true;
}
