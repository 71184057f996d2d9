/* What of a writer is in a sealed chunk (APP-5a). */
#include "chunkserver/serve/settling.h"

#include "base/alloc.h"

#include <stdlib.h>

static void send_refusal(struct lh_cs_host *cs, uint64_t link, int error, const char *text)
{
    Leasehold__SettleReply m = LEASEHOLD__SETTLE_REPLY__INIT;

    m.error = (Leasehold__ErrorCode)-error;
    m.error_text = (char *)(uintptr_t)(text == NULL ? lh_error_text(error) : text);
    lh_fx_send(cs->fx, link, &m.base, NULL);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

static void send_answer(struct lh_cs_replica *r, uint64_t link, uint64_t writer)
{
    const struct lh_writer *w = lh_writers_find(lh_cs_replica_writers(r), writer);
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
    r->logs->cs->counts.settles++;
    lh_cs_table_asked(r);
    lh_fx_send(r->logs->cs->fx, link, &m.base, NULL);
    lh_cs_link_close(r->logs->cs, link, LH_OK, NULL);
}

static void settling_free(struct lh_cs_settling *st)
{
    lh_timer_unset(&st->replica->logs->cs->timers, &st->timer);
    DL_DELETE(lh_cs_serve(st->replica)->settlings, st);
    free(st);
}

static void refuse(struct lh_cs_settling *st, int error, const char *text)
{
    send_refusal(st->replica->logs->cs, st->link, error, text);
    settling_free(st);
}

static void answer(struct lh_cs_settling *st)
{
    send_answer(st->replica, st->link, st->writer);
    settling_free(st);
}

/* Answers if it is known, reads the log back if that is missing, waits for the seal (SEAL-1)
 * otherwise. Only that very seal: an unsealed log may still change. What is being sealed holds
 * below the seal's length what it will always hold, and the writer table was cut to it; that the
 * header does not say so yet changes nothing. */
static void look(struct lh_cs_settling *st)
{
    struct lh_cs_replica *r = st->replica;

    if (r->adopting != st->version && !LH_PLANTED("settled-at-any-version")) {
        refuse(st, LH_ERR_STALE_VERSION, NULL);
        return;
    }
    if (lh_cs_replica_sealing(r) ||
        (lh_cs_table_known(r) && LH_PLANTED("settled-by-unsealed-replica"))) {
        if (lh_cs_table_known(r))
            answer(st);
        else if (lh_cs_replica_sealed_now(r))
            lh_cs_table_read(r);
        return; /* while it is being cut: when that is done */
    }
    if (lh_instant_reached(r->logs->cs->now, st->until)) {
        LH_MARK("settle-before-seal");
        refuse(st, LH_ERR_RECOVERING, "the chunk is not sealed here yet");
        return;
    }
    LH_MARK("settle-waits-for-seal");
    lh_timer_set(&r->logs->cs->timers, &st->timer, st->until);
}

void lh_cs_settlings_look(struct lh_cs_replica *r)
{
    struct lh_cs_settling *st, *next;

    DL_FOREACH_SAFE(lh_cs_served(r)->settlings, st, next) {
        look(st);
    }
}

void lh_cs_serving_read_back(struct lh_cs_replica *r)
{
    struct lh_cs_settling *st, *next;

    DL_FOREACH_SAFE(lh_cs_served(r)->settlings, st, next) {
        if (lh_cs_table_known(r))
            look(st);
        else
            refuse(st, LH_ERR_CORRUPT, NULL);
    }
}

void lh_cs_settlings_refuse_all(struct lh_cs_replica *r, int error)
{
    struct lh_cs_settling *st, *next;

    DL_FOREACH_SAFE(lh_cs_served(r)->settlings, st, next) {
        refuse(st, error, NULL);
    }
}

static void fire(void *core, struct lh_timer *timer)
{
    (void)core;
    look(LH_OWNER(timer, struct lh_cs_settling, timer));
}

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *payload)
{
    const Leasehold__SettleRequest *m = request;
    struct lh_cs_serving *serving = l->user_arg;
    struct lh_cs_host *cs = serving->cs;
    struct lh_cs_replica *r = lh_cs_replica_find(serving->logs, m->chunk);

    (void)payload;
    if (l->owner != NULL)
        return;
    struct lh_instant until;
    const char *text;
    if (lh_cs_capability(cs, m->chunk, LH_CAPABILITY_READ, &m->capability, &until, &text) !=
        LH_OK) { /* ACC-5 */
        send_refusal(cs, l->id, LH_ERR_STALE_CAPABILITY, text);
        return;
    }
    if (r == NULL || r->state == LH_CS_REPLICA_LOST || r->state == LH_CS_REPLICA_REMOVING) {
        send_refusal(cs, l->id, LH_ERR_NO_REPLICA, NULL);
        return;
    }
    bool read = r->state == LH_CS_REPLICA_READY || r->state == LH_CS_REPLICA_FROZEN;
    if (!read || r->incomplete || (r->adopting < m->version && !lh_cs_replica_sealing(r))) {
        LH_MARK("settle-incomplete-replica");
        send_refusal(cs, l->id, LH_ERR_RECOVERING, "the chunk is not sealed here yet");
        return;
    }
    struct lh_cs_settling *st = lh_alloc(sizeof *st);
    st->link = l->id;
    st->replica = r;
    st->version = m->version;
    st->writer = m->writer;
    st->until = lh_instant_add(cs->now, cs->config.settle_wait);
    st->timer.fire = fire;
    l->owner = st;
    DL_APPEND(lh_cs_serve(r)->settlings, st);
    look(st);
}

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    (void)text;
    if (gone->owner != NULL)
        settling_free(gone->owner);
}

const struct lh_cs_link_user lh_cs_settle_links = {.message = message, .closed = link_closed};
