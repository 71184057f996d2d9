/* The sources of a copy: whom to ask, and what they say (REC-4, REC-5). */
#include "batch/batch.h"
#include "chunkserver/serve/copying.h"

#include <stdlib.h>

void lh_cs_copy_forget_sources(struct lh_cs_copying *c)
{
    for (size_t i = 0; i < c->source_count; i++) {
        free(c->sources[i].server_id);
        free(c->sources[i].address);
    }
    free(c->sources);
    c->sources = NULL;
    c->source_count = 0;
}

void lh_cs_copy_drop_link(struct lh_cs_copying *c)
{
    struct lh_cs_host *cs = c->replica->logs->cs;

    if (c->link != 0)
        lh_cs_link_close(cs, c->link, LH_ERR_CANCELLED, NULL);
    c->link = 0;
    lh_pacing_give_back(&c->serving->copy_in, c->reserved);
    c->reserved = 0;
}

static void set_timer(struct lh_cs_copying *c)
{
    struct lh_cs_host *cs = c->replica->logs->cs;
    struct lh_instant at = c->forgotten_at;

    if (c->link == 0)
        at = lh_instant_min(
            at, lh_instant_max(c->retry_at, lh_pacing_ready_at(&c->serving->copy_in)));
    lh_timer_set(&cs->timers, &c->timer, at);
}

/* The next one is tried at once, and after each round of all of them a pause. The copying may end
 * here. */
static void source_failed(struct lh_cs_copying *c)
{
    struct lh_cs_host *cs = c->replica->logs->cs;

    LH_MARK("copy-source-fails");
    if (lh_instant_until(c->progress_at, cs->now).ns >=
        lh_milliseconds(cs->config.bounds.copy_silence_ms).ns) {
        lh_cs_copying_fail(c, LH_ERR_UNAVAILABLE);
        return;
    }
    c->retry_at = cs->now;
    c->failed++;
    if (c->source_count > 0)
        c->source = (c->source + 1) % c->source_count;
    if (c->source_count == 0 || c->failed % c->source_count == 0) {
        c->retry_at = lh_instant_add(cs->now, c->backoff);
        c->backoff = lh_duration_min(lh_nanoseconds(c->backoff.ns * 2), cs->config.reconnect_max);
    }
    set_timer(c);
}

static void received(struct lh_cs_link *l, const void *message, struct lh_buf *batches);
static void link_closed(struct lh_cs_link *gone, const char *text);
static void progress(struct lh_cs_link *l);

static const struct lh_cs_link_user copy_links = {
    .message = received, .closed = link_closed, .progress = progress};

void lh_cs_copy_ask(struct lh_cs_copying *c, bool from_start)
{
    struct lh_cs_host *cs = c->replica->logs->cs;
    struct lh_instant at = lh_instant_max(c->retry_at, lh_pacing_ready_at(&c->serving->copy_in));
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    if (!lh_instant_reached(cs->now, at)) {
        set_timer(c);
        return;
    }
    if (c->source_count == 0 || c->sources[c->source].address[0] == '\0') {
        source_failed(c);
        return;
    }
    q.chunk = c->replica->chunk;
    q.version = c->version;
    q.offset = from_start ? 0 : c->replica->end;
    q.max_bytes = from_start ? LH_BATCH_HEADER_BYTES
                             : lh_pacing_piece(&c->serving->copy_in, cs->config.bounds.copy_bytes);
    q.mode = LEASEHOLD__READ_MODE__COPY;
    q.cluster = lh_cs_cluster_name(cs);
    q.wait_ms = c->caught_up && !from_start ? cs->config.bounds.copy_follow_ms : 0;
    /* What a source has nothing of may be long in coming: that is paid for when it is here. */
    c->reserved = q.wait_ms > 0 || from_start ? 0 : q.max_bytes;
    lh_pacing_take(&c->serving->copy_in, cs->now, c->reserved);
    c->from_start = from_start;
    c->link = lh_cs_link_open(cs, &copy_links, c, LH_METHOD_READ, c->sources[c->source].address,
        lh_milliseconds(cs->config.bounds.copy_timeout_ms + q.wait_ms))
                  ->id;
    lh_fx_send(cs->fx, c->link, &q.base, NULL);
    set_timer(c);
}

static void progress(struct lh_cs_link *l)
{
    struct lh_cs_copying *c = l->owner;

    c->progress_at = l->cs->now;
}

static void link_closed(struct lh_cs_link *gone, const char *text)
{
    struct lh_cs_copying *c = gone->owner;

    (void)text;
    c->link = 0;
    lh_cs_copy_drop_link(c);
    source_failed(c);
}

/* ------------------------------------------------------------------------------------------------
 * What a source says. */

/* No batch of the source begins where this log ends, or none that fits. What is above the committed
 * length may be of a version that came to nothing; below it this log and the source should agree,
 * and another one is asked before anything is given up. The copying may end here. */
static void does_not_fit(struct lh_cs_copying *c)
{
    struct lh_cs_replica *r = c->replica;

    LH_MARK("copy-does-not-fit");
    if (r->committed < r->end) {
        c->cut_to = r->committed;
        return;
    }
    c->unfit++;
    if (c->unfit >= c->source_count && r->end > 0)
        lh_cs_copying_restart(c);
    else
        source_failed(c);
}

/* Takes the batches that the source sent. MALFORMED: one is sound and does not fit here. */
static int take(struct lh_cs_copying *c, struct lh_buf *batches)
{
    struct lh_cs_replica *r = c->replica;
    uint64_t had = r->end;
    bool committed = r->committed == r->end;
    size_t taken;
    int error =
        lh_cs_replica_take(r, batches, c->sealed ? c->length : r->header.chunk_size, &taken);

    if (committed)
        lh_cs_replica_note_committed(r, r->end); /* no source gives more than that */
    c->copied += r->end - had;
    c->serving->copied_in += r->end - had;
    if (error == LH_ERR_CORRUPT || error == LH_ERR_WOULD_BLOCK)
        return LH_ERR_UNAVAILABLE;
    return error == LH_OK ? LH_OK : LH_ERR_MALFORMED;
}

/* A source that has not got as far as the command that the master gave. */
static bool stale(const struct lh_cs_copying *c, const Leasehold__ReadReply *m)
{
    return m->version < c->version && !(c->sealed && m->sealed);
}

static void received(struct lh_cs_link *l, const void *message, struct lh_buf *batches)
{
    const Leasehold__ReadReply *m = message;
    struct lh_cs_copying *c = l->owner;
    struct lh_cs_replica *r = c->replica;
    struct lh_cs_host *cs = r->logs->cs;
    uint64_t had = c->copied;
    int error = lh_error_from_wire(m->error);

    lh_cs_copy_drop_link(c);
    if ((error != LH_OK && error != LH_ERR_MALFORMED) || stale(c, m)) {
        if (error == LH_OK)
            LH_MARK("copy-source-stale");
        source_failed(c);
        return;
    }
    c->met = true;
    if (c->from_start || r->state != LH_CS_REPLICA_READY) {
        /* It was asked whether it is there; or the replica was lost meanwhile. */
        c->from_start = false;
        lh_cs_replica_pump(r);
        return;
    }
    lh_pacing_take(&c->serving->copy_in, cs->now, batches->size);
    if (error == LH_OK)
        error = take(c, batches);
    if (c->copied > had || (error == LH_OK && !c->sealed)) {
        c->progress_at = c->retry_at = cs->now;
        c->failed = c->unfit = 0;
        c->backoff = cs->config.reconnect_min;
    }
    if (error == LH_ERR_MALFORMED) {
        does_not_fit(c);
    } else if (error != LH_OK || (c->sealed && c->copied == had)) {
        source_failed(c); /* what it sent is not sound, or it has no more */
    } else {
        if (!c->sealed && m->committed <= r->end + r->logs->cs->config.bounds.copy_near_bytes)
            c->caught_up = true;
        if (c->copied == had && (m->sealed || !c->caught_up))
            c->retry_at = lh_instant_add(cs->now, cs->config.reconnect_max); /* it did not wait */
    }
    lh_cs_replica_pump(r); /* what was taken is written; goes on */
}
