/* `leasehold store copy`: a store in etcd that is filled from another one, or whose content goes to
 * another one. Both are done under a head that no master may begin a reign over (HA-3): COPYING
 * from before the first pair until the last one is there, MOVED from before the content is handed
 * out. So at no time two stores can be acted on, whatever dies, and whatever etcd does not answer.
 * The head is claimed, compared and found out about as any master's is (HA-1, HA-3, HA-5). */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COPYING LEASEHOLD_STORED__HEAD__STATE__COPYING
#define MOVED   LEASEHOLD_STORED__HEAD__STATE__MOVED

void lh_reigns_fill(struct lh_reigns *r, struct lh_change *pairs, size_t count, uint64_t term)
{
    struct lh_r_move *m = &r->move;

    lh_r_move_forget(r);
    *m = (struct lh_r_move){.pairs = pairs, .count = count, .term = term};
    for (size_t i = 0; i < count; i++)
        m->bytes += pairs[i].key_size + pairs[i].value_size;
}

/* ---- What other heads mean. */

void lh_r_move_notice(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;
    char text[600];
    bool known = r->out_of_use != NULL;

    free(r->out_of_use);
    r->out_of_use = NULL;
    if (head->state == COPYING)
        (void)snprintf(text, sizeof text,
            "the store is being filled from %.300s: masters wait until `leasehold store copy` has "
            "ended; if it was interrupted, run it again",
            head->elsewhere);
    else if (head->state == MOVED)
        (void)snprintf(text, sizeof text,
            "the store's content went to %.300s with `leasehold store copy`: no master acts on "
            "this one any more",
            head->elsewhere);
    else
        return;
    r->out_of_use = lh_strdup(text);
    if (!known && r->config.task == LH_REIGN_SERVE)
        lh_fx_log(r->fx, LH_WARN, "%s", text);
}

static bool __attribute__((format(printf, 3, 4)))
refuse(struct lh_reigns *r, int error, const char *format, ...)
{
    char text[1200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_fx_log(r->fx, LH_ERROR, "%s", text);
    lh_r_stop_with(r, error);
    return false;
}

static bool refuse_others(struct lh_reigns *r, const LeaseholdStored__Head *head)
{
    if (head->state == COPYING || head->state == MOVED)
        return refuse(r, LH_ERR_IN_USE,
            "another `leasehold store copy` works on the store under \"%s\"", r->config.prefix);
    return refuse(r, LH_ERR_IN_USE,
        "a master acts on the store under \"%s\", %s at %s: stop all masters first",
        r->config.prefix, head->master_id, head->address);
}

static bool may_fill(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;

    if (head == NULL && r->config.began_before)
        return refuse(r, LH_ERR_WRONG_IDENTITY,
            "the content of %s went to etcd:.../%s already, where it is not any more: copy from "
            "where it is now; or, if no master was ever started on that and it is lost, give "
            "--even-if-moved",
            r->config.elsewhere, r->config.prefix);
    if (head == NULL)
        return true;
    if (head->state != COPYING)
        return refuse(r, LH_ERR_ALREADY_EXISTS,
            "there is a store under \"%s\" already, of reign %" PRIu64
            ": give a prefix that has none",
            r->config.prefix, head->reign);
    if (strcmp(head->elsewhere, r->config.elsewhere) == 0)
        return true; /* an earlier attempt */
    return refuse(r, LH_ERR_ALREADY_EXISTS,
        "the store under \"%s\" is being filled from %s: if that has ended for good, delete the "
        "keys under this prefix (etcdctl del --prefix), or give another prefix",
        r->config.prefix, head->elsewhere);
}

static bool may_take(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;
    const char *before = r->config.even_if_moved_to;
    struct lh_r_move *m = &r->move;

    if (head == NULL)
        return refuse(r, LH_ERR_NOT_FOUND,
            "there is no store of masters in etcd under \"%s\": is this the prefix?",
            r->config.prefix);
    if (m->seen_reign != 0 && (head->reign != m->seen_reign || head->number != m->seen_number))
        return refuse_others(r, head);
    m->seen_reign = head->reign;
    m->seen_number = head->number;
    if (head->state == COPYING)
        return refuse(r, LH_ERR_IN_USE,
            "the store under \"%s\" is not whole: it was being filled from %s; run that copy again",
            r->config.prefix, head->elsewhere);
    if (head->state == MOVED &&
        (before == NULL || (before[0] != 0 && strcmp(head->elsewhere, before) != 0)))
        return refuse(r, LH_ERR_WRONG_IDENTITY,
            "the content of the store under \"%s\" went to %s already: copy from there; or, if no "
            "master was ever started on that and it is lost, give --even-if-moved",
            r->config.prefix, head->elsewhere);
    return true;
}

bool lh_r_move_allows(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;

    switch (r->config.task) {
    case LH_REIGN_SERVE:
        if (head == NULL || head->state != COPYING)
            return true;
        /* Its pairs do not fit together yet. */
        lh_r_learn_later(r, lh_nanoseconds(r->config.reign_term.ns / 4));
        return false;
    case LH_REIGN_INIT:
        return lh_r_init_allows(r);
    case LH_REIGN_FILL:
        if (may_fill(r))
            lh_r_claim(r);
        return false;
    case LH_REIGN_TAKE:
        return may_take(r);
    case LH_REIGN_AFTER_DEATH:
        break; /* it loads nothing */
    }
    return false;
}

bool lh_r_move_follows(struct lh_reigns *r, const LeaseholdStored__Head *said)
{
    if (r->config.task == LH_REIGN_TAKE)
        return r->phase != LH_REIGN_STANDBY || refuse_others(r, said);
    if (said->state != COPYING)
        return true;
    lh_r_anew(r, "it is being filled from another store");
    return false;
}

/* ---- What is taken. */

void lh_r_move_keep(
    struct lh_reigns *r, const uint8_t *key, size_t key_size, const uint8_t *value, size_t size)
{
    struct lh_r_move *m = &r->move;

    if (r->config.task != LH_REIGN_TAKE)
        return;
    LH_GROW(m->pairs, m->capacity, m->count + 1);
    m->pairs[m->count++] = (struct lh_change){lh_r_bytes_copy(key, key_size).data,
        lh_r_bytes_copy(value, size).data, (uint32_t)key_size, (uint32_t)size};
    m->bytes += key_size + size;
}

void lh_r_move_forget(struct lh_reigns *r)
{
    struct lh_r_move *m = &r->move;

    if (m->pairs != NULL)
        lh_changes_free(m->pairs, m->count);
    m->pairs = NULL;
    m->count = m->capacity = 0;
    m->bytes = 0;
}

/* The first pair is the master's record: every load has seen to it. */
static LeaseholdStored__Master *master_record(const struct lh_r_move *m)
{
    return m->count == 0 ? NULL : lh_master_record_read(m->pairs[0].value, m->pairs[0].value_size);
}

bool lh_r_move_whole(struct lh_reigns *r)
{
    LeaseholdStored__Master *record = master_record(&r->move);
    const char *wanted = r->config.cluster;
    bool sound = true;

    if (record == NULL)
        return refuse(r, LH_ERR_NOT_FOUND,
            "the store under \"%s\" has no metadata yet: there is nothing to copy",
            r->config.prefix);
    if (wanted != NULL && strcmp(record->cluster_id, wanted) != 0)
        sound = refuse(r, LH_ERR_WRONG_IDENTITY,
            "the store under \"%s\" is of cluster %s, and what %s had before is of cluster %s: "
            "give "
            "an empty directory",
            r->config.prefix, record->cluster_id, r->config.elsewhere, wanted);
    leasehold_stored__master__free_unpacked(record, NULL);
    return sound;
}

/* A single master takes the next term, and chunkservers refuse one that is not above all reigns
 * that they have seen. */
static void raise_term(struct lh_r_move *m, uint64_t reign)
{
    LeaseholdStored__Master *record = master_record(m);

    LH_ASSERT(record != NULL);
    if (record->master_term < reign) {
        record->master_term = reign;
        free(m->pairs[0].value);
        m->pairs[0].value = lh_master_record_write(record, &m->pairs[0].value_size);
    }
    leasehold_stored__master__free_unpacked(record, NULL);
}

/* ---- The claim, and what follows. */

void lh_r_move_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head)
{
    r->move.claimed = true;
    if (r->config.task == LH_REIGN_INIT) {
        lh_r_init_claim(r, t, head);
        return;
    }
    head->elsewhere = (char *)(uintptr_t)r->config.elsewhere;
    if (r->config.task == LH_REIGN_TAKE) {
        head->state = MOVED;
        return;
    }
    head->state = COPYING;
    head->reign = r->move.term == 0 ? 1 : r->move.term;
    /* Masters that wait have seen the head of an earlier attempt: it does not go back. */
    if (r->copy.said != NULL && r->copy.said->reign >= head->reign) {
        head->reign = r->copy.said->reign;
        head->number = r->copy.said->number + 1;
    }
    /* Of an earlier attempt. */
    lh_r_txn_delete(t, lh_r_key(r, LH_R_MAP), lh_r_key(r, LH_R_MAP_END));
}

/* The head allows masters again: to whom this store was given, or since nothing came of it. */
static void resign(struct lh_reigns *r, int error)
{
    r->stopping = true;
    r->stop_error = error;
    r->stop_by = LH_INSTANT_NEVER; /* whether it allows them has to be known */
    lh_r_enter(r, LH_REIGN_RESIGNING);
}

static void persist(struct lh_reigns *r, struct lh_change *changes, size_t count)
{
    struct lh_effect *e = lh_effects_add(r->fx, LH_FX_PERSIST);

    e->ticket = 1;
    e->changes = changes;
    e->change_count = count;
    r->move.persisting = true;
}

void lh_r_move_begin(struct lh_reigns *r)
{
    struct lh_r_move *m = &r->move;
    struct lh_change *pairs = m->pairs;

    if (r->config.task == LH_REIGN_INIT) {
        lh_r_stop_with(r, LH_OK);
        return;
    }
    lh_r_enter(r, LH_REIGN_COPYING);
    lh_r_call_end(r, LH_R_WATCH); /* it would show this head as another one's */
    m->capacity = 0;
    if (r->config.task == LH_REIGN_FILL) {
        m->pairs = NULL;
        lh_r_large_resume(r, pairs, m->count);
        return;
    }
    /* A commit that is not in place stays so. */
    r->writer.named = r->copy.said->pieces > 0;
    r->writer.piece_count = (size_t)r->copy.said->pieces;
    if (m->interrupted) {
        resign(r, LH_ERR_CANCELLED);
        return;
    }
    raise_term(m, r->copy.said->reign);
    m->pairs = NULL;
    persist(r, pairs, m->count);
}

void lh_r_move_go(struct lh_reigns *r)
{
    if (r->config.task != LH_REIGN_FILL || lh_r_call_is_open(r, LH_R_WRITE))
        return;
    if (r->writer.large != NULL)
        lh_r_large_go(r);
    else if (!r->move.persisting)
        persist(r, NULL, 0);
}

void lh_r_move_persisted(struct lh_reigns *r, int error)
{
    if (error == LH_ERR_SHORTAGE)
        return;
    if ((r->config.task == LH_REIGN_FILL) == (error == LH_OK))
        resign(r, error);
    else
        lh_r_stop_with(r, error); /* it is done; or the store stays half filled */
}

bool lh_r_move_was_ended(const struct lh_reigns *r, const Etcdserverpb__KeyValue *kv)
{
    LeaseholdStored__Head *head = NULL;

    if (r->config.task == LH_REIGN_FILL && kv != NULL)
        head = lh_r_head_read(kv->value.data, kv->value.len);
    bool was = head != NULL && head->state != COPYING && head->reign > r->copy.said->reign;
    lh_r_head_free(head);
    return was;
}

void lh_r_move_lost(struct lh_reigns *r)
{
    if (r->config.task != LH_REIGN_TAKE && r->phase == LH_REIGN_CLAIMING)
        (void)refuse(r, LH_ERR_ALREADY_EXISTS,
            "etcd has other keys under this prefix, or a cluster has just begun there: nothing "
            "was changed; give a prefix that has no keys");
    else
        (void)refuse(r, LH_ERR_IN_USE,
            "another process has written to the store in etcd meanwhile: stop all masters and "
            "other copies, and try again");
}

void lh_r_move_stop(struct lh_reigns *r)
{
    if (r->phase == LH_REIGN_RESIGNING || (r->phase == LH_REIGN_COPYING && r->move.persisting))
        return; /* what comes of it decides */
    if (r->phase == LH_REIGN_CLAIMING && r->config.task == LH_REIGN_TAKE)
        r->move.interrupted = true; /* it may be applied, and has to be taken back then */
    else
        lh_r_stop_with(r, LH_ERR_CANCELLED);
}
