#include "sim/observers/history.h"
#include "sim/observers/capability.h"
#include "sim/observers/leases.h"

#include "utlist.h"

#include <stdlib.h>
#include <string.h>

/* ---- Batches ---- */

/* The first of the writer's batches whose sequence is not below that. */
static size_t place_of(const struct writer *w, uint64_t sequence)
{
    size_t low = 0, high = w->count;

    if (high > 0 && w->batches[high - 1].sequence < sequence)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->batches[middle].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct submitted *lh_ob_submitted(const struct writer *w, uint64_t sequence)
{
    size_t i = place_of(w, sequence);

    return i < w->count && w->batches[i].sequence == sequence ? &w->batches[i] : NULL;
}

uint64_t lh_ob_submitted_at(const struct lh_sim_observers *o, const struct lh_sim_batch *b)
{
    struct writer *w;

    HASH_FIND(hh, o->history->writers, &b->writer, sizeof b->writer, w);
    const struct submitted *s = w == NULL ? NULL : lh_ob_submitted(w, b->sequence);
    return s == NULL ? 0 : s->sent_at;
}

static struct writer *get_writer(struct history *h, uint64_t id)
{
    struct writer *w;

    HASH_FIND(hh, h->writers, &id, sizeof id, w);
    if (w != NULL)
        return w;
    w = lh_alloc(sizeof *w);
    w->id = id;
    HASH_ADD(hh, h->writers, id, sizeof w->id, w);
    return w;
}

static void submit(struct lh_sim_observers *o, struct call *call, const struct lh_submit_call *s)
{
    struct lh_sim_batch b;

    if (!lh_sim_batch_in(&s->batch, 0, &b))
        return; /* the program's mistake */
    struct writer *w = get_writer(o->history, b.writer);
    size_t i = place_of(w, b.sequence);
    LH_GROW(w->batches, w->capacity, w->count + 1);
    memmove(&w->batches[i + 1], &w->batches[i], (w->count++ - i) * sizeof *w->batches);
    w->batches[i] = (struct submitted){.sequence = b.sequence,
        .count = b.count,
        .size = b.size,
        .crc = b.crc,
        .sent_at = call->begun,
        .done_at = UINT64_MAX};
    call->writer = w;
    call->sequence = b.sequence;
}

static void submitted_done(
    struct lh_sim_observers *o, const struct call *call, const struct lh_submit_call *s, int error)
{
    struct submitted *b =
        call->writer == NULL ? NULL : lh_ob_submitted(call->writer, call->sequence);

    if (b == NULL)
        return;
    b->done_at = lh_sim_now(o->sim);
    b->error = error;
    if (error == LH_OK)
        lh_ob_inv6_acknowledged(o, call, s->offset);
    else if (error == LH_ERR_MALFORMED || error == LH_ERR_CORRUPT ||
             error == LH_ERR_INVALID_ARGUMENT || error == LH_ERR_TOO_LARGE)
        lh_sim_fail(o->sim, "INV-8", 0, "an append failed, and its client did nothing wrong: %s",
            s->call.text);
}

/* ---- Readers ---- */

static struct reader *find_reader(
    const struct history *h, const struct actor *client, const void *handle)
{
    struct reader *r;

    DL_FOREACH(h->readers, r)
        if (r->client == client && r->handle == handle)
            return r;
    return NULL;
}

static void forget_reader(struct history *h, struct reader *r)
{
    struct call *call;

    DL_FOREACH(h->calls, call)
        if (call->reader == r)
            call->reader = NULL;
    DL_DELETE(h->readers, r);
    free(r);
}

static void reader_opened(
    struct lh_sim_observers *o, const struct call *call, const struct lh_reader_open_call *open)
{
    struct reader *r = lh_alloc(sizeof *r);

    lh_ob_lookups_opened(o, call, open->path, open->file, open->from_cache);
    r->client = call->client;
    r->handle = open->reader;
    r->file = lh_ob_named_all(o, open->path, call->begun, lh_sim_now(o->sim));
    r->position = open->offset;
    r->follows = open->follow;
    DL_APPEND(o->history->readers, r);
}

/* ---- Calls ---- */

static void begin(struct lh_sim_observers *o, struct actor *a, const struct lh_call *asked)
{
    struct history *h = o->history;
    struct call *call = lh_alloc(sizeof *call);

    call->call = asked;
    call->client = a;
    call->begun = lh_sim_now(o->sim);
    if (asked->kind == LH_CALL_SUBMIT) {
        submit(o, call, (const struct lh_submit_call *)asked);
    } else if (asked->kind == LH_CALL_FETCH) {
        const struct lh_fetch_call *fetch = (const struct lh_fetch_call *)asked;
        call->reader = find_reader(h, a, fetch->reader);
    }
    lh_ob_leases_begun(o, a, asked);
    DL_APPEND(h->calls, call);
    HASH_ADD_PTR(h->by_call, call, call);
}

static void forget_call(struct history *h, struct call *call)
{
    DL_DELETE(h->calls, call);
    HASH_DELETE(hh, h->by_call, call);
    free(call);
}

static void complete(struct lh_sim_observers *o, const struct lh_effect *e)
{
    struct history *h = o->history;
    const struct lh_call *asked = e->call;
    struct call *call;

    HASH_FIND_PTR(h->by_call, &asked, call);
    if (call == NULL) {
        lh_sim_fail(o->sim, "check", 0, "a call completed that is not under way");
        return;
    }
    switch (asked->kind) {
    case LH_CALL_APPENDER_OPEN: {
        const struct lh_appender_open_call *open = (const struct lh_appender_open_call *)asked;
        if (e->error == LH_OK) {
            struct writer *w = get_writer(h, open->writer);
            w->file = lh_ob_named_all(o, open->path, call->begun, lh_sim_now(o->sim));
            w->token = open->token;
            lh_ob_lookups_opened(o, call, open->path, open->file, open->from_cache);
        }
        break;
    }
    case LH_CALL_SUBMIT:
        submitted_done(o, call, (const struct lh_submit_call *)asked, e->error);
        break;
    case LH_CALL_READER_OPEN:
        if (e->error == LH_OK)
            reader_opened(o, call, (const struct lh_reader_open_call *)asked);
        break;
    case LH_CALL_READER_CLOSE: {
        const struct lh_reader_close_call *close = (const struct lh_reader_close_call *)asked;
        struct reader *r = find_reader(h, call->client, close->reader);
        if (r != NULL)
            forget_reader(h, r);
        break;
    }
    case LH_CALL_FETCH:
        lh_ob_inv6_fetched(o, call, (const struct lh_fetch_call *)asked, e->error);
        break;
    case LH_CALL_MASTER:
        lh_ob_names_answered(o, call, (const struct lh_master_call *)asked, e->error);
        break;
    default:
        break;
    }
    lh_ob_leases_done(o, call, e->error);
    lh_ob_capability_completed(o, asked, e->error);
    forget_call(h, call);
}

void lh_ob_history_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_CLIENT && s->input->kind == LH_IN_CALL)
        begin(o, a, s->input->call);
}

void lh_ob_history_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    if (a->part == PART_CLIENT && s->effect->kind == LH_FX_COMPLETE)
        complete(o, s->effect);
}

/* Do its records' lengths add up? A checksum alone says little of what a stranger sends. */
static bool is_filled(const struct lh_buf *bytes, const struct lh_sim_batch *b)
{
    uint64_t at = LH_SIM_BATCH_HEADER;
    uint32_t length;

    for (uint32_t i = 0; i < b->count; i++) {
        if (at + sizeof length > b->size || !lh_buf_read(bytes, at, &length, sizeof length))
            return false;
        at += sizeof length + length;
    }
    return at + LH_SIM_BATCH_CHAIN == b->size;
}

/* A stranger's batch may be stored if it is the one that comes next in what it has said since it
 * first opened the writer; any other one never was sent, as far as anybody may see. */
void lh_ob_history_stranger(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    struct lh_sim_batch b;

    if (failed(o) || s->effect->kind != LH_FX_SEND || s->method != LH_METHOD_APPEND ||
        s->message == NULL)
        return;
    const Leasehold__AppendRequest *m = (const Leasehold__AppendRequest *)s->message;
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i]->writer == 0)
            continue;
        struct writer *w = get_writer(o->history, m->parts[i]->writer);
        if (!w->strange)
            w->next = m->parts[i]->first_sequence;
        w->strange = true;
    }
    /* Parts of one batch go one behind the other in one message. */
    if (!lh_sim_batch_in(s->payload, 0, &b) || !is_filled(s->payload, &b))
        return;
    struct writer *w = get_writer(o->history, b.writer);
    if (!w->strange || b.sequence != w->next)
        return;
    LH_GROW(w->batches, w->capacity, w->count + 1);
    w->batches[w->count++] = (struct submitted){.sequence = b.sequence,
        .count = b.count,
        .size = b.size,
        .crc = b.crc,
        .sent_at = lh_sim_now(o->sim),
        .done_at = UINT64_MAX};
    w->next += b.count;
}

/* Nobody will be told any more; what was submitted may be stored all the same. */
void lh_ob_history_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what)
{
    struct history *h = o->history;
    struct call *call, *next_call;
    struct reader *r, *next_reader;

    if (a->part != PART_CLIENT || what == LH_SIM_LIFE_PAUSED || what == LH_SIM_LIFE_RESUMED ||
        what == LH_SIM_LIFE_RESTORED)
        return;
    DL_FOREACH_SAFE(h->calls, call, next_call)
        if (call->client == a) {
            lh_ob_leases_lost_call(o, call->call);
            forget_call(h, call);
        }
    DL_FOREACH_SAFE(h->readers, r, next_reader)
        if (r->client == a)
            forget_reader(h, r);
}

/* ---- Names ---- */

void lh_ob_names_changed(struct lh_sim_observers *o, const char *path, uint64_t file)
{
    struct name *n;

    HASH_FIND_STR(o->history->names, path, n);
    if (n == NULL) {
        n = lh_alloc(sizeof *n);
        n->path = lh_strdup(path);
        HASH_ADD_KEYPTR(hh, o->history->names, n->path, strlen(n->path), n);
    }
    LH_GROW(n->times, n->capacity, n->count + 1);
    n->times[n->count++] = (struct naming){lh_sim_now(o->sim), file};
    lh_ob_lookups_changed(o, n);
}

bool lh_ob_named(
    const struct lh_sim_observers *o, const char *path, uint64_t file, uint64_t from, uint64_t to)
{
    struct name *n;

    HASH_FIND_STR(o->history->names, path, n);
    uint64_t until = UINT64_MAX; /* of the naming looked at */
    for (size_t i = n == NULL ? 0 : n->count;; i--) {
        struct naming naming = i == 0 ? (struct naming){0, 0} : n->times[i - 1];
        if (naming.since <= to && until >= from &&
            (file == UINT64_MAX ? naming.file != 0 : naming.file == file))
            return true;
        if (i == 0 || naming.since < from)
            return false;
        until = naming.since;
    }
}

uint64_t lh_ob_named_all(
    const struct lh_sim_observers *o, const char *path, uint64_t from, uint64_t to)
{
    struct name *n;

    HASH_FIND_STR(o->history->names, path, n);
    if (n == NULL || n->count == 0)
        return 0;
    const struct naming *last = &n->times[n->count - 1];
    return last->since < from && last->since <= to ? last->file : 0;
}

void lh_ob_history_init(struct lh_sim_observers *o)
{
    o->history = lh_alloc(sizeof *o->history);
}

void lh_ob_history_deinit(struct lh_sim_observers *o)
{
    struct history *h = o->history;
    struct writer *w, *next_writer;
    struct name *n, *next_name;
    struct once *once, *next_once;

    HASH_ITER(hh, h->once, once, next_once) {
        HASH_DELETE(hh, h->once, once);
        free(once);
    }
    while (h->calls != NULL)
        forget_call(h, h->calls);
    while (h->readers != NULL)
        forget_reader(h, h->readers);
    HASH_ITER(hh, h->writers, w, next_writer) {
        HASH_DELETE(hh, h->writers, w);
        free(w->batches);
        free(w);
    }
    HASH_ITER(hh, h->names, n, next_name) {
        HASH_DELETE(hh, h->names, n);
        free(n->path);
        free(n->times);
        free(n);
    }
    free(h);
}
