/* HA-9a: an active master that many chunkservers do not reach resigns to a standby that they do
 * reach. Chunkservers that find no active master name themselves to standbys; a standby says in its
 * record whom it hears; and the active master reads the records often while it misses many. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- STANDBY: who is heard. */

static bool is_heard(const struct lh_reigns *r, const struct lh_r_server *s)
{
    return lh_instant_before(r->now, lh_instant_add(s->at, r->config.heard_for));
}

static void forget(struct lh_reigns *r, struct lh_r_server *s)
{
    HASH_DELETE(hh, r->heard.servers, s);
    free(s->id);
    free(s);
}

static void forget_more(struct lh_r_heard *h)
{
    free(h->more);
    h->more = NULL;
}

void lh_r_heard_clear(struct lh_reigns *r)
{
    struct lh_r_server *s, *next;

    HASH_ITER(hh, r->heard.servers, s, next)
        forget(r, s);
    forget_more(&r->heard);
}

void lh_r_hears(struct lh_reigns *r, const struct lh_input *in)
{
    const Leasehold__MastersRequest *request = in->message;
    struct lh_r_server *s;

    if (r->phase != LH_REIGN_STANDBY || !lh_master_would_register(r->master, in->identity, request))
        return;
    HASH_FIND_STR(r->heard.servers, request->server_id, s);
    if (s == NULL && HASH_COUNT(r->heard.servers) < r->config.master.servers_max) {
        LH_MARK("standby-hears-a-chunkserver");
        s = lh_alloc(sizeof *s);
        s->id = lh_strdup(request->server_id);
        HASH_ADD_KEYPTR(hh, r->heard.servers, s->id, strlen(s->id), s);
    }
    if (s != NULL)
        s->at = r->now;
}

bool lh_r_heard_is_due(const struct lh_reigns *r)
{
    return r->heard.servers != NULL && lh_instant_reached(r->now, r->heard.say_at);
}

char **lh_r_heard_say(struct lh_reigns *r, size_t *count)
{
    char **ids = lh_alloc_array(HASH_COUNT(r->heard.servers) + 1, sizeof *ids);
    struct lh_r_server *s, *next;
    size_t bytes = 0;

    *count = 0;
    HASH_ITER(hh, r->heard.servers, s, next) {
        bytes += strlen(s->id) + 4;
        if (bytes < r->config.request_bytes_max / 2)
            ids[(*count)++] = s->id;
    }
    r->heard.say_at = lh_instant_add(r->now, r->config.heard_every);
    return ids;
}

static void forget_silent(struct lh_reigns *r)
{
    struct lh_r_server *s, *next;

    HASH_ITER(hh, r->heard.servers, s, next) {
        if (!is_heard(r, s))
            forget(r, s);
    }
}

/* ---- ACTING: whether another master hears more. */

/* R: so long a reign lasts before it is resigned, of which the row is so long. */
static struct lh_duration pause_of(const struct lh_reigns *r, uint32_t row)
{
    struct lh_duration pause = r->config.master.session_term;

    while (row-- > 0 && pause.ns < r->config.unheard_max.ns)
        pause = lh_nanoseconds(pause.ns * 2);
    return lh_duration_min(pause, r->config.unheard_max);
}

static bool has_lasted(const struct lh_reigns *r, uint32_t row, uint64_t times)
{
    uint64_t ns = pause_of(r, row).ns * times;

    return lh_instant_reached(r->now, lh_instant_add(r->since, lh_nanoseconds(ns)));
}

uint32_t lh_r_unheard(const struct lh_reigns *r)
{
    uint32_t row = r->copy.said == NULL ? 0 : r->copy.said->unheard;

    if (r->phase != LH_REIGN_ACTING)
        return r->heard.row;
    return has_lasted(r, row, 2) ? 0 : row;
}

/* So many chunkservers does the record name that are not reached here; 0: not more than are. */
static uint64_t hears_more(
    const struct lh_reigns *r, const struct lh_r_record *record, uint64_t reached)
{
    uint64_t missed = lh_master_missed(r->master, r->now, record->heard, record->heard_count);

    return missed > reached || LH_PLANTED("resigned-to-whoever-hears-one") ? missed : 0;
}

/* NULL: none hears more than this master reaches. */
static const struct lh_r_record *best(const struct lh_reigns *r, uint64_t *missed)
{
    const struct lh_r_record *found = NULL;
    uint64_t reached = lh_master_reached(r->master, r->now);

    *missed = 0;
    for (size_t i = 0; i < r->records_known; i++) {
        const struct lh_r_record *record = &r->records[i];
        if (record->heard_count == 0 || strcmp(record->id, r->config.id) == 0)
            continue;
        uint64_t more = hears_more(r, record, reached);
        if (more <= *missed)
            continue;
        *missed = more;
        found = record;
    }
    return found;
}

static void give_way(struct lh_reigns *r, const struct lh_r_record *to, uint64_t missed)
{
    uint32_t row = lh_r_unheard(r);

    if (!has_lasted(r, row, 1) && !LH_PLANTED("resigned-at-once")) {
        LH_MARK("reign-is-too-young-to-be-resigned");
        return;
    }
    LH_MARK("resigned-to-who-hears-more");
    lh_fx_log(r->fx, LH_WARN,
        "this master reaches %" PRIu64 " chunkservers, and the master %.128s hears %" PRIu64
        " others: it resigns, and that one is to go on",
        lh_master_reached(r->master, r->now), to->id, missed);
    free(r->successor);
    r->successor = lh_strdup(to->id);
    r->heard.row = row == UINT32_MAX ? row : row + 1;
    r->counts.unheard++;
    lh_r_resign(r, LH_ERR_NOT_ACTIVE, "this master is resigning: too few chunkservers reach it");
}

void lh_r_heard_look(struct lh_reigns *r)
{
    struct lh_r_heard *h = &r->heard;
    uint64_t missed;

    if (!lh_r_is_confirmed(r) || !TAILQ_EMPTY(&r->gate.waiting))
        return; /* the next reading is looked at */
    const struct lh_r_record *record = best(r, &missed);
    bool same = record != NULL && h->more != NULL && strcmp(record->id, h->more) == 0;
    if (!same) {
        forget_more(h);
        h->more = record == NULL ? NULL : lh_strdup(record->id);
        h->since = r->now;
    }
    bool said_again = same && record->revision > h->revision;
    h->revision = record == NULL ? 0 : record->revision;
    if (said_again && lh_instant_reached(r->now, lh_instant_add(h->since, r->config.unheard_for)))
        give_way(r, record, missed);
}

/* ---- When. */

void lh_r_heard_step(struct lh_reigns *r)
{
    struct lh_r_heard *h = &r->heard;

    if (r->phase == LH_REIGN_STANDBY && lh_r_heard_is_due(r))
        forget_silent(r);
    if (r->phase != LH_REIGN_ACTING || !lh_instant_reached(r->now, h->look_at))
        return;
    h->look_at = lh_instant_add(r->now, r->config.heard_every);
    if (!lh_r_is_confirmed(r)) {
        forget_more(h); /* chunkservers may not be answered either */
        return;
    }
    h->reached = lh_master_reached(r->master, r->now);
    if (lh_master_missed(r->master, r->now, NULL, 0) > h->reached)
        r->list_at = r->now;
}

struct lh_instant lh_r_heard_deadline(const struct lh_reigns *r)
{
    if (r->phase == LH_REIGN_ACTING)
        return r->heard.look_at;
    return r->phase == LH_REIGN_STANDBY && r->heard.servers != NULL && r->cleared &&
                   !lh_r_call_is_open(r, LH_R_RECORD)
               ? r->heard.say_at
               : LH_INSTANT_NEVER;
}

uint64_t lh_r_servers(const struct lh_reigns *r)
{
    return r->phase == LH_REIGN_ACTING ? r->heard.reached : HASH_COUNT(r->heard.servers);
}
