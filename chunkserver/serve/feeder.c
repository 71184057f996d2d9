/* Another server's stream to this one: its feeds, and the answers that go back.
 *
 * When answers go: flow/outbox.h. A durable length takes the place of the one before if that still
 * waits. */
#include "chunkserver/serve/feeder.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct lh_cs_feeder *lh_cs_feeder_of(struct lh_cs_link *l)
{
    struct lh_cs_feeder *feeder = l->owner;

    if (feeder == NULL) {
        feeder = lh_alloc(sizeof *feeder);
        feeder->serving = l->user_arg;
        feeder->link = l->id;
        l->owner = feeder;
    }
    return feeder;
}

static void drop_answers(struct lh_cs_feeder *feeder, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        free(feeder->answers[i].text);
    feeder->gone += count;
    feeder->answer_count -= count;
    memmove(
        feeder->answers, feeder->answers + count, feeder->answer_count * sizeof *feeder->answers);
}

void lh_cs_feeder_free(struct lh_cs_feeder *feeder)
{
    while (feeder->feeds != NULL)
        lh_cs_feed_free(feeder->feeds);
    drop_answers(feeder, feeder->answer_count);
    lh_outbox_forget(&feeder->serving->touched_feeders, &feeder->outbox);
    free(feeder->answers);
    free(feeder);
}

struct lh_cs_feed *lh_cs_feed_begin(
    struct lh_cs_feeder *feeder, struct lh_cs_replica *r, const Leasehold__ReplicatePart *part)
{
    struct lh_cs_feed *f = lh_alloc(sizeof *f);

    *f = (struct lh_cs_feed){
        .feeder = feeder,
        .replica = r,
        .id = ++feeder->serving->feeds,
        .number = part->feed,
        .version = part->version,
    };
    if (feeder->feeds != NULL)
        LH_MARK("feeder-of-many-chunks");
    DL_APPEND(feeder->feeds, f);
    lh_cs_serve(r)->feed = f;
    return f;
}

/* Nothing is confirmed for it any more, also not what waits (FENCE-1). */
static void forget_confirmations(const struct lh_cs_feed *f)
{
    for (size_t i = 0; i < f->feeder->answer_count; i++) {
        Leasehold__ReplicateAnswer *m = &f->feeder->answers[i].m;
        if (m->feed == f->number && m->chunk == f->replica->chunk &&
            m->error == LEASEHOLD__ERROR_CODE__OK)
            m->feed = 0;
    }
}

void lh_cs_feed_free(struct lh_cs_feed *f)
{
    forget_confirmations(f);
    f->feeder->serving->arriving_bytes -= f->rest.size;
    lh_buf_clear(&f->rest);
    DL_DELETE(f->feeder->feeds, f);
    lh_cs_serve(f->replica)->feed = NULL;
    free(f);
}

static void touch(struct lh_cs_feeder *feeder)
{
    lh_outbox_touch(&feeder->serving->touched_feeders, &feeder->outbox);
}

void lh_cs_feeder_answer(
    struct lh_cs_feeder *feeder, const Leasehold__ReplicateAnswer *m, const char *text)
{
    LH_GROW(feeder->answers, feeder->answer_capacity, feeder->answer_count + 1);
    feeder->answers[feeder->answer_count++] =
        (struct lh_cs_feed_answer){*m, text == NULL ? NULL : lh_strdup(text)};
    touch(feeder);
}

void lh_cs_feed_report(struct lh_cs_feed *f, const Leasehold__ReplicateAnswer *m)
{
    struct lh_cs_feeder *feeder = f->feeder;

    if (f->reporting > feeder->gone) {
        LH_MARK("feed-report-replaced");
        feeder->answers[f->reporting - feeder->gone - 1].m = *m;
        return;
    }
    lh_cs_feeder_answer(feeder, m, NULL);
    f->reporting = feeder->gone + feeder->answer_count;
}

static void send_message(struct lh_cs_feeder *feeder)
{
    struct lh_cs_host *cs = feeder->serving->cs;
    Leasehold__ReplicateReply reply = LEASEHOLD__REPLICATE_REPLY__INIT;
    size_t most = cs->config.bounds.pair_parts, count = feeder->answer_count;

    if (count > most)
        count = most;
    reply.answers = lh_realloc_array(NULL, count, sizeof *reply.answers);
    for (size_t i = 0; i < count; i++) {
        struct lh_cs_feed_answer *a = &feeder->answers[i];
        if (a->m.feed == 0)
            continue;
        const struct lh_cs_replica *r = lh_cs_replica_find(feeder->serving->logs, a->m.chunk);
        if (r != NULL && a->m.version != 0)
            a->m.version = r->adopting; /* as it is by now */
        a->m.error_text = a->text == NULL ? (char *)(uintptr_t) "" : a->text;
        reply.answers[reply.n_answers++] = &a->m;
    }
    if (reply.n_answers > 0) {
        if (reply.n_answers > 1 && reply.answers[0]->chunk != reply.answers[1]->chunk)
            LH_MARK("feeder-answers-many-chunks");
        lh_outbox_send(&feeder->outbox, cs->fx, feeder->link, &reply.base, NULL);
    }
    free(reply.answers);
    drop_answers(feeder, count);
}

void lh_cs_feeders_flush(struct lh_cs_serving *serving)
{
    struct lh_outbox *o;

    while ((o = lh_outbox_next(&serving->touched_feeders)) != NULL) {
        struct lh_cs_feeder *feeder = LH_OWNER(o, struct lh_cs_feeder, outbox);
        while (feeder->outbox.in_flight == 0 && feeder->answer_count > 0)
            send_message(feeder);
    }
}

void lh_cs_feeder_sent(struct lh_cs_link *l)
{
    struct lh_cs_feeder *feeder = l->owner;

    if (feeder == NULL)
        return;
    lh_outbox_left(&feeder->outbox);
    if (feeder->answer_count > 0)
        touch(feeder);
}
