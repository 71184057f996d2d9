/* What of a writer is in a sealed chunk (APP-5a). */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------
 * Writer tables of sealed logs: they are asked for when a file goes on elsewhere, and hardly ever
 * after. What is dropped is read back from the log when somebody asks. */

static void leave(struct replica *r)
{
    struct lh_chunkserver *cs = r->cs;

    if (!r->kept_table)
        return;
    r->kept_table = false;
    DL_DELETE2(cs->tables, r, table_before, table_after);
    cs->table_count--;
}

void settling_forgets(struct replica *r)
{
    leave(r);
    lh_writers_clear(&r->writers);
    r->writers_known = false;
}

/* It may be a log that is copied anew by now, and grows: then its table is needed. */
static void rest(struct replica *r)
{
    if (r->header.sealed)
        settling_forgets(r);
    else
        leave(r);
}

static struct lh_instant rests_at(const struct replica *r)
{
    return lh_instant_add(r->table_asked_at, lh_milliseconds(r->cs->config.bounds.settle_table_ms));
}

void settling_keeps(struct replica *r)
{
    struct lh_chunkserver *cs = r->cs;

    leave(r);
    r->kept_table = true;
    r->table_asked_at = cs->now;
    DL_APPEND2(cs->tables, r, table_before, table_after);
    cs->table_count++;
    if (cs->table_count > cs->config.bounds.settle_tables) {
        LH_MARK("writer-table-makes-room");
        rest(cs->tables);
    }
    if (!lh_timer_is_set(&cs->tables_timer))
        lh_timer_set(&cs->timers, &cs->tables_timer, rests_at(cs->tables));
}

void settling_tables_timer(struct lh_chunkserver *cs)
{
    while (cs->tables != NULL && lh_instant_reached(cs->now, rests_at(cs->tables)))
        rest(cs->tables);
    if (cs->tables != NULL)
        lh_timer_set(&cs->timers, &cs->tables_timer, rests_at(cs->tables));
}

/* ------------------------------------------------------------------------------------------------
 * Questions. */

static void send_refusal(struct lh_chunkserver *cs, uint64_t link, int error, const char *text)
{
    Leasehold__SettleReply m = LEASEHOLD__SETTLE_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    lh_fx_send(cs->fx, link, &m.base, NULL);
    link_close(cs, link, LH_OK, NULL);
}

static void send_answer(struct replica *r, uint64_t link, uint64_t writer)
{
    const struct lh_writer *w = lh_writers_find(&r->writers, writer);
    Leasehold__SettleReply m = LEASEHOLD__SETTLE_REPLY__INIT;
    Leasehold__Stored stored[LH_WRITER_WINDOW];
    Leasehold__Stored *list[LH_WRITER_WINDOW];

    if (w == NULL) {
        LH_MARK("settle-stored-nothing");
    } else {
        LH_MARK("settle-stored-some");
        m.known = true;
        m.first_sequence = w->first;
        m.last_sequence = w->last;
        for (uint32_t i = 0; i < w->count; i++) {
            const struct lh_stored_batch *b = lh_writer_recent(w, i);
            leasehold__stored__init(&stored[i]);
            stored[i].sequence = b->sequence;
            stored[i].count = b->count;
            stored[i].offset = b->offset;
            list[i] = &stored[i];
        }
        m.last = list;
        m.n_last = w->count;
    }
    r->cs->counts.settles++;
    if (r->kept_table)
        settling_keeps(r);
    lh_fx_send(r->cs->fx, link, &m.base, NULL);
    link_close(r->cs, link, LH_OK, NULL);
}

static void settling_free(struct settling *st)
{
    lh_timer_unset(&st->replica->cs->timers, &st->timer);
    DL_DELETE(st->replica->settlings, st);
    free(st);
}

static void refuse(struct settling *st, int error, const char *text)
{
    send_refusal(st->replica->cs, st->link, error, text);
    settling_free(st);
}

static void answer(struct settling *st)
{
    send_answer(st->replica, st->link, st->writer);
    settling_free(st);
}

/* Answers if it is known, reads the log back if that is missing, waits for the seal (SEAL-1)
 * otherwise. Only that very seal: an unsealed log may still change. What is being sealed holds
 * below the seal's length what it will always hold, and the writer table was cut to it; that the
 * header does not say so yet changes nothing. */
static void look(struct settling *st)
{
    struct replica *r = st->replica;

    if (r->adopting != st->version) {
        refuse(st, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    if (replica_sealing(r) || (r->writers_known && LH_PLANTED("settled-by-unsealed-replica"))) {
        if (r->writers_known)
            answer(st);
        else if (r->header.sealed && !r->job_running)
            scan_start(r);
        return; /* while it is being cut: when that is done */
    }
    if (lh_instant_reached(r->cs->now, st->until)) {
        LH_MARK("settle-before-seal");
        refuse(st, LH_ERR_RECOVERING, "the chunk is not sealed here yet");
        return;
    }
    LH_MARK("settle-waits-for-seal");
    lh_timer_set(&r->cs->timers, &st->timer, st->until);
}

void settlings_look(struct replica *r)
{
    struct settling *st, *next;

    DL_FOREACH_SAFE(r->settlings, st, next)
    {
        look(st);
    }
}

void settlings_answer(struct replica *r)
{
    struct settling *st, *next;

    DL_FOREACH_SAFE(r->settlings, st, next)
    {
        if (r->writers_known)
            look(st);
        else
            refuse(st, LH_ERR_CORRUPT, NULL);
    }
}

void settlings_refuse_all(struct replica *r, int error)
{
    struct settling *st, *next;

    DL_FOREACH_SAFE(r->settlings, st, next)
    {
        refuse(st, error, NULL);
    }
}

void settling_timer(struct settling *st)
{
    look(st);
}

void settling_message(struct lh_chunkserver *cs, struct link *l, const Leasehold__SettleRequest *m)
{
    struct replica *r = replica_find(cs, m->chunk);

    if (l->owner != NULL)
        return;
    if (r == NULL || r->state == REPLICA_LOST || r->state == REPLICA_REMOVING) {
        send_refusal(cs, l->id, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    if (r->state != REPLICA_READY || r->incomplete ||
        (r->adopting < m->version && !replica_sealing(r))) {
        LH_MARK("settle-incomplete-replica");
        send_refusal(cs, l->id, LH_ERR_RECOVERING, "the chunk is not sealed here yet");
        return;
    }
    struct settling *st = lh_alloc(sizeof *st);
    st->link = l->id;
    st->replica = r;
    st->version = m->version;
    st->writer = m->writer;
    st->until = lh_instant_add(cs->now, cs->config.settle_wait);
    st->timer.kind = TIMER_SETTLING;
    st->timer.owner = st;
    l->owner = st;
    DL_APPEND(r->settlings, st);
    look(st);
}

void settling_link_closed(struct lh_chunkserver *cs, struct link *l)
{
    (void)cs;
    if (l->owner != NULL)
        settling_free(l->owner);
}
