#include "finder/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>

static struct lh_duration or_default(struct lh_duration d, uint64_t ms)
{
    return d.ns == 0 ? lh_milliseconds(ms) : d;
}

/* The place of that address, or of the first free one with NULL; LH_MASTERS_MAX: there is none. */
static size_t place_of(const struct lh_finder *f, const char *address)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        const char *here = f->masters[i].address;
        if (address == NULL ? here == NULL : here != NULL && strcmp(here, address) == 0)
            return i;
    }
    return LH_MASTERS_MAX;
}

/* Makes it known. LH_MASTERS_MAX: it is no address, or there is no place for it. */
static size_t add(struct lh_finder *f, const char *address)
{
    if (address == NULL || address[0] == '\0' ||
        strnlen(address, ADDRESS_BYTES_MAX + 1) > ADDRESS_BYTES_MAX)
        return LH_MASTERS_MAX;
    size_t place = place_of(f, address);
    if (place < LH_MASTERS_MAX)
        return place;
    place = place_of(f, NULL);
    if (place == LH_MASTERS_MAX)
        return place;
    f->masters[place] = (struct lh_finder_master){.address = lh_strdup(address)};
    f->count++;
    return place;
}

void lh_finder_init(struct lh_finder *f, const struct lh_finder_config *config, const char *cluster,
    const char *const *addresses, size_t count, uint64_t reign)
{
    LH_ASSERT(count >= 1 && count <= LH_MASTERS_MAX);
    *f = (struct lh_finder){.reign = reign, .choices = 1, .curious = count == 1};
    if (cluster != NULL && cluster[0] != '\0')
        f->cluster = lh_strdup(cluster);
    /* Which cluster this is, all of them are asked. */
    f->wanted = f->cluster == NULL && count > 1;
    f->state = f->wanted ? LH_FINDER_LOST : LH_FINDER_UNPROVEN;
    f->config.answer_timeout = or_default(config->answer_timeout, 500);
    f->config.round_patience = or_default(config->round_patience, 100);
    f->config.pause_min = or_default(config->pause_min, 50);
    f->config.pause_max = or_default(config->pause_max, 250);
    for (size_t i = 0; i < count; i++) {
        size_t place = add(f, addresses[i]);
        LH_ASSERT(place < LH_MASTERS_MAX);
        f->masters[place].configured = true;
    }
}

void lh_finder_deinit(struct lh_finder *f)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        free(f->masters[i].address);
        free(f->masters[i].cluster);
    }
    free(f->cluster);
    free(f->waits);
}

const char *lh_finder_address(const struct lh_finder *f)
{
    return f->masters[f->choice].address;
}

const char *lh_finder_address_at(const struct lh_finder *f, size_t place)
{
    return f->masters[place].address;
}

bool lh_finder_alone(const struct lh_finder *f)
{
    return f->count == 1;
}

bool lh_finder_is_heard_in_vain(const struct lh_finder *f, size_t place)
{
    return f->in_vain && f->masters[place].answers;
}

/* ---- What the owner finds out. */

static void see(struct lh_finder *f, uint64_t reign)
{
    if (reign > f->reign)
        f->reign = reign;
}

bool lh_finder_is_far(const struct lh_finder *f, uint64_t reign)
{
    return f->reign != 0 && reign > f->reign && reign - f->reign >= LH_REIGN_LEAP;
}

void lh_finder_acts(struct lh_finder *f, uint64_t choice, uint64_t reign)
{
    if (choice != f->choices || lh_finder_is_foreign(f, f->choice))
        return;
    if (reign != 0)
        f->choice_reign = reign;
    see(f, reign);
    /* It acted once, and a newer one has begun since. */
    if (f->choice_reign != 0 && f->choice_reign < f->reign)
        return;
    f->state = LH_FINDER_PROVEN;
    f->wanted = f->in_vain = false;
}

void lh_finder_failed(struct lh_finder *f, uint64_t choice, int error)
{
    if (choice != f->choices || (lh_finder_alone(f) && error != LH_ERR_NOT_ACTIVE))
        return;
    f->state = LH_FINDER_LOST;
    f->wanted = true;
}

void lh_finder_doubt(struct lh_finder *f)
{
    if (lh_finder_alone(f))
        return;
    if (f->state == LH_FINDER_PROVEN)
        f->state = LH_FINDER_UNPROVEN;
    f->wanted = true;
}

/* What is in no list is forgotten, unless it was given, is asked or chosen. */
static void forget_unlisted(struct lh_finder *f)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        struct lh_finder_master *m = &f->masters[i];
        if (m->address == NULL || m->configured || m->listed || m->asked || i == f->choice ||
            i == f->unconfirmed)
            continue;
        free(m->address);
        free(m->cluster);
        *m = (struct lh_finder_master){0};
        f->count--;
    }
}

/* In the newest list; what was in the one before alone is forgotten. */
static void list(struct lh_finder *f, char *const *addresses, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        f->masters[i].listed = false;
    for (size_t i = 0; i < count && i < LH_MASTERS_MAX; i++) {
        size_t place = place_of(f, addresses[i]);
        if (place < LH_MASTERS_MAX)
            f->masters[place].listed = true;
    }
    forget_unlisted(f);
    for (size_t i = 0; i < count && i < LH_MASTERS_MAX; i++) {
        size_t place = add(f, addresses[i]);
        if (place < LH_MASTERS_MAX)
            f->masters[place].listed = true;
    }
}

void lh_finder_learn(struct lh_finder *f, uint64_t choice, char *const *addresses, size_t count)
{
    if (choice == f->choices)
        list(f, addresses, count);
}

/* ---- Rounds. */

static bool is_to_be_asked(const struct lh_finder *f, size_t place)
{
    const struct lh_finder_master *m = &f->masters[place];

    return m->address != NULL && !m->asked && m->round != f->rounds;
}

/* The round's end if no more answers come. Who is to choose a cluster by few answers waits for all
 * that may come. */
static struct lh_instant patience_end(const struct lh_finder *f)
{
    return f->answered && (!lh_finder_is_undecided(f) || lh_finder_most_agree(f))
               ? f->patient
               : LH_INSTANT_NEVER;
}

static bool is_open(const struct lh_finder *f, struct lh_instant now)
{
    bool awaits = false;

    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        if (is_to_be_asked(f, i))
            return true;
        awaits |= f->masters[i].asked;
    }
    return awaits && !lh_instant_reached(now, patience_end(f));
}

static void choose_among(struct lh_finder *f);

static void settle(struct lh_finder *f, struct lh_instant now)
{
    struct lh_duration pause = f->config.pause_min;

    if (!f->asking || is_open(f, now))
        return;
    f->asking = false;
    choose_among(f);
    f->fruitless += !f->found;
    f->in_vain = !f->found && f->unconfirmed == LH_MASTERS_MAX;
    for (unsigned i = 1; i < f->fruitless && pause.ns < f->config.pause_max.ns; i++)
        pause = lh_duration_add(pause, pause);
    f->not_before = lh_instant_add(now, lh_duration_min(pause, f->config.pause_max));
    if (!f->found && f->state == LH_FINDER_LOST && f->unconfirmed < LH_MASTERS_MAX) {
        f->choice = f->unconfirmed;
        f->choice_reign = f->reign;
        f->choices++;
        f->state = LH_FINDER_UNPROVEN;
        f->wanted = false;
        lh_finder_join(f);
    } else if (!f->found && f->state == LH_FINDER_LOST && lh_finder_alone(f) &&
               !lh_finder_is_foreign(f, f->choice)) {
        /* It knows nobody else, and there is nobody else to be asked: it is tried again. */
        f->state = LH_FINDER_UNPROVEN;
        f->choices++;
        f->wanted = false;
    }
}

static void choose(struct lh_finder *f, size_t place, uint64_t reign)
{
    see(f, reign);
    f->choice = place;
    f->choice_reign = reign;
    f->choices++;
    f->state = LH_FINDER_PROVEN;
    f->found = true;
    f->fruitless = 0;
    f->wanted = f->in_vain = false;
    lh_finder_join(f);
}

/* It says that it acts, in a reign that is not below any that was seen. */
static void acting(struct lh_finder *f, size_t place, uint64_t reign)
{
    /* While the choice may be as good as this one, as another way to the same master is, it
     * stays. */
    if (place != f->choice && f->state != LH_FINDER_LOST && reign <= f->choice_reign)
        return;
    if (place == f->choice && f->state != LH_FINDER_LOST) {
        f->found = true;
        f->fruitless = 0;
        f->in_vain = false;
        lh_finder_acts(f, f->choices, reign);
        return;
    }
    /* Another one may name another cluster: the round is waited for. */
    if (lh_finder_is_undecided(f) && f->asking && !LH_PLANTED("chooses-one-of-two-clusters")) {
        f->masters[place].acts = true;
        f->masters[place].reign = reign;
        return;
    }
    choose(f, place, reign);
}

/* Of those that act, in an owner's first round: the newest, unless there are two clusters. */
static void choose_among(struct lh_finder *f)
{
    size_t best = LH_MASTERS_MAX;

    if (lh_finder_is_torn(f)) {
        LH_MARK("two-clusters-are-named");
        for (size_t i = 0; i < LH_MASTERS_MAX; i++)
            f->masters[i].listed = false;
        f->unconfirmed = LH_MASTERS_MAX;
        forget_unlisted(f); /* when one of both is corrected, only what was given is asked */
        return;
    }
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        const struct lh_finder_master *m = &f->masters[i];
        if (m->address != NULL && m->acts && !lh_finder_is_foreign(f, i) &&
            (best == LH_MASTERS_MAX || m->reign > f->masters[best].reign))
            best = i;
    }
    if (best != LH_MASTERS_MAX)
        choose(f, best, f->masters[best].reign);
}

static bool ask_at(struct lh_finder *f, struct lh_instant now, size_t place)
{
    struct lh_finder_master *m = &f->masters[place];

    m->round = f->rounds;
    m->asked = true;
    m->until = lh_instant_add(now, f->config.answer_timeout);
    return true;
}

bool lh_finder_introduce(struct lh_finder *f, struct lh_instant now, size_t *place)
{
    *place = f->choice;
    if (!f->curious || f->cluster != NULL || f->state != LH_FINDER_PROVEN ||
        f->masters[f->choice].asked)
        return false;
    f->curious = false;
    return ask_at(f, now, f->choice);
}

bool lh_finder_next(struct lh_finder *f, struct lh_instant now, size_t *place)
{
    if (!f->asking) {
        if (!f->wanted || !lh_instant_reached(now, f->not_before))
            return false;
        f->asking = true;
        f->found = f->answered = false;
        f->unconfirmed = LH_MASTERS_MAX;
        f->patient = lh_instant_add(now, f->config.round_patience);
        f->rounds++;
        f->curious = false;
        for (size_t i = 0; i < LH_MASTERS_MAX; i++)
            f->masters[i].acts = false;
    }
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        if (!is_to_be_asked(f, i))
            continue;
        *place = i;
        return ask_at(f, now, i);
    }
    return false;
}

bool lh_finder_late(struct lh_finder *f, struct lh_instant now, size_t *place)
{
    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        if (!f->masters[i].asked || !lh_instant_reached(now, f->masters[i].until))
            continue;
        *place = i;
        lh_finder_unanswered(f, now, i, LH_ERR_DEADLINE_EXCEEDED);
        return true;
    }
    settle(f, now);
    return false;
}

/* What the answer lists, and the active one that it names, become known. Who answers stays known,
 * also if its own list lacks it. */
static void learn_from(struct lh_finder *f, size_t place, const Leasehold__MastersReply *m)
{
    char *addresses[LH_MASTERS_MAX];
    size_t count = 0;

    addresses[count++] = f->masters[place].address;
    if (m->active[0] != '\0')
        addresses[count++] = m->active;
    for (size_t i = 0; i < m->n_masters && count < LH_MASTERS_MAX; i++)
        addresses[count++] = m->masters[i]->address;
    list(f, addresses, count);
}

/* What the answer says counts. */
static void believe(struct lh_finder *f, size_t place, const Leasehold__MastersReply *m)
{
    if (m->reign < f->reign || lh_finder_is_far(f, m->reign))
        return;
    if (!lh_finder_is_undecided(f))
        see(f, m->reign);
    learn_from(f, place, m);
    if (place == f->choice && f->state == LH_FINDER_PROVEN)
        lh_finder_join(f);
    if (m->acting)
        acting(f, place, m->reign);
    else if (strcmp(m->state, "UNCONFIRMED") == 0)
        f->unconfirmed = place;
    else if (f->choice_reign < f->reign && f->state == LH_FINDER_PROVEN)
        lh_finder_doubt(f); /* a newer reign has begun, and somebody else acts in it */
}

void lh_finder_answered(
    struct lh_finder *f, struct lh_instant now, size_t place, const Leasehold__MastersReply *m)
{
    LH_ASSERT(place < LH_MASTERS_MAX);
    if (!f->masters[place].asked)
        return;
    f->masters[place].asked = false;
    f->masters[place].answers = true;
    f->masters[place].round = f->rounds; /* it is as good as one to the newest question */
    f->answered = true;
    if (m->error == LEASEHOLD__ERROR_CODE__OK) {
        lh_finder_names(f, place, m->cluster_id);
        lh_finder_note_waiting(f, place, m);
        if (lh_finder_is_foreign(f, place) && !LH_PLANTED("foreign-master-believed"))
            lh_finder_foreign(f, place);
        else if (!lh_finder_is_torn(f))
            believe(f, place, m);
    }
    settle(f, now);
}

void lh_finder_unanswered(struct lh_finder *f, struct lh_instant now, size_t place, int error)
{
    LH_ASSERT(place < LH_MASTERS_MAX);
    if (!f->masters[place].asked)
        return;
    f->masters[place].asked = f->masters[place].answers = false;
    f->masters[place].round = f->rounds;
    if (error == LH_ERR_UNIMPLEMENTED) {
        lh_finder_names(f, place, "");
        acting(f, place, f->reign);
    }
    settle(f, now);
}

struct lh_instant lh_finder_late_at(const struct lh_finder *f)
{
    struct lh_instant at = LH_INSTANT_NEVER;

    for (size_t i = 0; i < LH_MASTERS_MAX; i++)
        if (f->masters[i].asked)
            at = lh_instant_min(at, f->masters[i].until);
    return at;
}

struct lh_instant lh_finder_deadline(const struct lh_finder *f)
{
    struct lh_instant at = lh_finder_late_at(f);

    if (f->asking)
        return lh_instant_min(at, patience_end(f));
    return f->wanted ? lh_instant_min(at, f->not_before) : at;
}

void lh_finder_check(const struct lh_finder *f)
{
    size_t count = 0;

    for (size_t i = 0; i < LH_MASTERS_MAX; i++) {
        const struct lh_finder_master *m = &f->masters[i];
        count += m->address != NULL;
        LH_ASSERT(m->address != NULL || !(m->configured || m->listed || m->asked));
    }
    LH_ASSERT(count == f->count && f->masters[f->choice].address != NULL);
    LH_ASSERT(f->choice_reign <= f->reign);
    LH_ASSERT(f->state != LH_FINDER_LOST || f->wanted);
    LH_ASSERT(f->state != LH_FINDER_PROVEN || !lh_finder_is_foreign(f, f->choice) ||
              LH_PLANTED("foreign-master-believed"));
}
