/* What goes to etcd: one transaction at a time, each with the fence (txn.c). What accumulates
 * meanwhile goes together in the next. A transaction whose outcome is unknown is sent again as it
 * is (calls.c) until a member says whether its compare held; if not, the head says whether an
 * earlier copy of it was applied (HA-5). */
#include "master/reigns/internal.h"

#include "lease/term.h"

#include <stdlib.h>

/* A head of this master's. */
static LeaseholdStored__Head own_head(struct lh_reigns *r)
{
    LeaseholdStored__Head head = LEASEHOLD_STORED__HEAD__INIT;

    head.format = LH_REIGN_FORMAT;
    head.start = r->writer.start;
    head.master_id = (char *)(uintptr_t)r->config.id;
    head.address = (char *)(uintptr_t)r->config.address;
    head.reign_term_ns = r->config.reign_term.ns;
    head.settings = &r->settings;
    head.process = r->process;
    return head;
}

/* SES-9: the core has begun a reign above the head's. Nothing that it wants committed since goes
 * into a transaction whose head does not say so. */
static bool reign_is_raised(const struct lh_reigns *r)
{
    return r->phase == LH_REIGN_ACTING && lh_master_term(r->master) > r->copy.said->reign;
}

LeaseholdStored__Head lh_r_head_next(struct lh_reigns *r)
{
    bool raised = reign_is_raised(r);

    if (raised)
        r->writer.start = lh_master_reign_name(r->master, lh_master_term(r->master));
    LeaseholdStored__Head head = own_head(r);
    head.reign = raised ? lh_master_term(r->master) : r->copy.said->reign;
    head.number = raised ? 1 : r->copy.said->number + 1;
    head.follows = raised ? r->copy.said->number : 0;
    head.pieces = r->writer.named ? r->writer.piece_count : 0;
    head.deaths = lh_r_deaths(r);
    head.unheard = lh_r_unheard(r);
    if (r->phase == LH_REIGN_COPYING) {
        head.state = r->copy.said->state;
        head.elsewhere = r->copy.said->elsewhere;
    }
    return head;
}

/* ---- What is written. */

size_t lh_r_change_cost(const struct lh_reigns *r, const struct lh_change *c)
{
    return c->key_size + c->value_size + strlen(r->config.prefix) + 32;
}

void lh_r_commit_add(struct lh_reigns *r, struct lh_effect *e)
{
    struct lh_r_commit *c = lh_alloc(sizeof *c);

    c->ticket = e->ticket;
    c->changes = e->changes;
    c->count = e->change_count;
    e->changes = NULL;
    e->change_count = 0;
    for (size_t i = 0; i < c->count; i++)
        c->bytes += lh_r_change_cost(r, &c->changes[i]);
    TAILQ_INSERT_TAIL(&r->writer.commits, c, link);
}

bool lh_reigns_commit_after(
    const struct lh_reigns *r, uint64_t ticket, struct lh_reign_commit *commit)
{
    const struct lh_r_writer *w = &r->writer;
    const struct lh_r_commit *c;
    size_t before = 0;

    TAILQ_FOREACH(c, &w->commits, link) {
        before++;
        if (c->ticket <= ticket)
            continue;
        bool in_pieces = c->changes == NULL && w->large != NULL;
        *commit = (struct lh_reign_commit){c->ticket, in_pieces ? w->large : c->changes,
            in_pieces ? w->large_count : c->count, before <= w->under_way};
        return true;
    }
    return false;
}

void lh_r_claim(struct lh_reigns *r)
{
    const LeaseholdStored__Head *last = r->copy.said;
    struct lh_r_txn t = {0};
    char text[512];

    /* Before a head is written that would make the term look right to whoever comes next. */
    if (r->config.task == LH_REIGN_SERVE && !lh_r_head_fits(r, text, sizeof text)) {
        lh_r_unfit(r, text);
        return;
    }
    lh_r_enter(r, LH_REIGN_CLAIMING);
    r->writer.start = lh_prng_next(&r->prng) | 1; /* 0 is no name (SES-9) */
    LeaseholdStored__Head head = own_head(r);
    head.reign = 1;
    head.number = 1;
    if (last != NULL) {
        head.reign = last->reign + !LH_PLANTED("reign-number-used-again");
        head.follows = last->number;
        head.pieces = last->pieces;
        head.deaths = last->deaths;
        head.unheard = last->unheard;
    }
    /* Pieces of a commit that never counted. */
    if (head.pieces == 0)
        lh_r_txn_delete(&t, lh_r_key(r, LH_R_PIECE), lh_r_key(r, LH_R_END));
    if (r->config.task != LH_REIGN_SERVE)
        lh_r_move_claim(r, &t, &head);
    lh_r_txn_send(r, &t, LH_R_CLAIM, &head);
}

static void completed(struct lh_reigns *r, size_t commits)
{
    while (commits-- > 0) {
        struct lh_r_commit *c = TAILQ_FIRST(&r->writer.commits);
        struct lh_input in = {.kind = LH_IN_PERSISTED, .ticket = c->ticket};
        TAILQ_REMOVE(&r->writer.commits, c, link);
        lh_changes_free(c->changes, c->count);
        free(c);
        r->counts.commits++;
        /* The reign's first one: what is skipped is skipped once. */
        r->config.master.restored = false;
        lh_r_gate_take(r, &in);
    }
}

/* All commits that go into one transaction, whole ones and in order. */
static void write_commits(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;
    struct lh_r_txn t = {0};
    struct lh_r_commit *c;
    size_t operations = 1, bytes = 0; /* the head's */
    LeaseholdStored__Head head = lh_r_head_next(r);

    TAILQ_FOREACH(c, &w->commits, link) {
        operations += c->count;
        bytes += c->bytes;
        if (w->under_way > 0 &&
            (operations > r->config.operations_max || bytes > r->config.request_bytes_max))
            break;
        if (w->under_way > 0)
            LH_MARK("commits-go-together");
        if (LH_PLANTED("commit-cut-in-two") && w->under_way == 0 && c->count > 1 && !w->cut) {
            for (size_t i = 0; i < c->count / 2; i++)
                lh_r_txn_change(r, &t, &c->changes[i]);
            w->cut = true;
            break; /* the rest with the next one */
        }
        w->cut = false;
        for (size_t i = 0; i < c->count; i++)
            lh_r_txn_change(r, &t, &c->changes[i]);
        w->under_way++;
    }
    lh_r_txn_send(r, &t, LH_R_COMMITS, &head);
    if (LH_PLANTED("completed-when-sent")) {
        size_t commits = w->under_way;
        w->under_way = 0;
        completed(r, commits);
    }
}

static void write_head(struct lh_reigns *r, enum lh_r_write kind)
{
    struct lh_r_txn t = {0};
    LeaseholdStored__Head head = lh_r_head_next(r);

    if (kind == LH_R_RESIGN)
        head.state = LEASEHOLD_STORED__HEAD__STATE__RESIGNED;
    if (kind == LH_R_RESIGN && r->successor != NULL)
        head.successor = r->successor;
    lh_r_txn_send(r, &t, kind, &head);
}

void lh_r_writer_go(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;
    struct lh_r_commit *first = TAILQ_FIRST(&w->commits);

    if (lh_r_call_is_open(r, LH_R_WRITE))
        return;
    if (r->phase == LH_REIGN_RESIGNING || w->resigns)
        write_head(r, LH_R_RESIGN);
    else if (w->large != NULL && !(first != NULL && w->named && !lh_r_is_large(r, first) &&
                                     LH_PLANTED("next-commit-before-pieces-are-placed")))
        lh_r_large_go(r);
    else if (first != NULL && lh_r_is_large(r, first))
        lh_r_large_begin(r, first);
    else if (first != NULL)
        write_commits(r);
    else if (lh_instant_reached(r->now, w->next_at))
        write_head(r, LH_R_HEAD_ALONE);
}

struct lh_instant lh_r_writer_deadline(const struct lh_reigns *r)
{
    return lh_r_call_is_open(r, LH_R_WRITE) ? LH_INSTANT_NEVER : r->writer.next_at;
}

/* ---- What came of it. */

/* The copy has a later reign than that of the head that was put. */
static bool another_has_begun(const struct lh_reigns *r, const struct lh_r_bytes *head)
{
    LeaseholdStored__Head *put = lh_r_head_own(head);
    bool is = r->copy.said != NULL && r->copy.said->reign > put->reign;

    lh_r_head_free(put);
    return is;
}

static void applied(struct lh_reigns *r, int64_t revision, struct lh_instant first_sent)
{
    struct lh_r_writer *w = &r->writer;
    enum lh_r_write kind = w->kind;
    struct lh_r_bytes head = w->head;

    w->head = (struct lh_r_bytes){0};
    if (kind == LH_R_CLAIM && another_has_begun(r, &head)) {
        /* The watch was faster than the answer: the reign began, and another one has begun since.
         * The copy follows that one. */
        LH_MARK("claim-answered-too-late");
        lh_r_bytes_clear(&head);
        if (r->config.task != LH_REIGN_SERVE)
            lh_r_move_lost(r);
        else
            lh_r_enter(r, LH_REIGN_STANDBY);
        return;
    }
    lh_r_copy_put_head(r, head, revision);
    r->counts.writes++;
    r->claims_lost = 0;
    if (kind == LH_R_RESIGN) {
        lh_r_resigned(r);
        return;
    }
    if (LH_PLANTED("confirmed-from-the-answer"))
        first_sent = r->now;
    r->confirmed_until = lh_term_holder_end(first_sent, r->share);
    switch (kind) {
    case LH_R_CLAIM:
        lh_r_begin_acting(r);
        break;
    case LH_R_COMMITS: {
        size_t commits = w->under_way;
        w->under_way = 0;
        completed(r, commits);
        break;
    }
    case LH_R_NAME_PIECES:
        lh_r_large_applied(r, kind);
        w->under_way = 0;
        completed(r, 1);
        break;
    case LH_R_PUT_PIECE:
    case LH_R_PLACE:
        lh_r_large_applied(r, kind);
        break;
    case LH_R_HEAD_ALONE:
    case LH_R_RESIGN:
        break;
    }
}

static void not_applied(struct lh_reigns *r, const Etcdserverpb__KeyValue *head)
{
    if (r->config.task == LH_REIGN_AFTER_DEATH) {
        lh_r_learn_later(r, lh_nanoseconds(0));
        return;
    }
    if (r->writer.kind != LH_R_CLAIM || r->config.task != LH_REIGN_SERVE) {
        lh_r_deposed(r,
            head == NULL ? "the store has no head any more" : "another master's reign has begun");
        return;
    }
    LH_MARK("claim-lost");
    if (head != NULL && LH_PLANTED("claims-with-an-old-copy")) {
        LeaseholdStored__Head *said = lh_r_head_read(head->value.data, head->value.len);
        if (said != NULL) {
            lh_r_enter(r, LH_REIGN_STANDBY);
            lh_r_copy_take_head(r, head->value.data, head->value.len, said, head->mod_revision);
            return;
        }
    }
    r->claims_lost++;
    lh_r_enter(r, LH_REIGN_STANDBY);
    lh_r_candidate_later(r);
    if (head == NULL || r->copy.said == NULL || r->claims_lost > 1)
        lh_r_anew(r, "the store's head is not the one that this copy has");
}

static const Etcdserverpb__KeyValue *head_read(const Etcdserverpb__TxnResponse *reply)
{
    if (reply->n_responses != 1 ||
        reply->responses[0]->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE ||
        reply->responses[0]->response_range->n_kvs == 0)
        return NULL;
    return reply->responses[0]->response_range->kvs[0];
}

/* Byte for byte what this transaction puts: an earlier copy of it was applied. */
static bool is_ours(const struct lh_reigns *r, const Etcdserverpb__KeyValue *head)
{
    const struct lh_r_bytes *put = &r->writer.head;

    if (LH_PLANTED("head-taken-for-its-own") && head != NULL) {
        LeaseholdStored__Head *a = lh_r_head_read(head->value.data, head->value.len);
        LeaseholdStored__Head *b = lh_r_head_own(put);
        bool same = a != NULL && a->reign == b->reign && a->number == b->number;
        lh_r_head_free(a);
        lh_r_head_free(b);
        return same;
    }
    return head != NULL && head->value.len == put->size &&
           memcmp(head->value.data, put->data, put->size) == 0;
}

void lh_r_write_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply)
{
    struct lh_instant first_sent = r->writer.sent_at;

    if (reply->succeeded && reply->header != NULL) {
        applied(r, reply->header->revision, first_sent);
        return;
    }
    const Etcdserverpb__KeyValue *head = reply->succeeded ? NULL : head_read(reply);
    if (is_ours(r, head)) {
        LH_MARK("earlier-copy-was-applied");
        applied(
            r, head->mod_revision, LH_PLANTED("confirmed-from-a-later-copy") ? r->now : first_sent);
        return;
    }
    if (r->writer.kind == LH_R_RESIGN && lh_r_move_was_ended(r, head)) {
        lh_r_resigned(r);
        return;
    }
    not_applied(r, head);
}

bool lh_r_write_unknown(struct lh_reigns *r)
{
    if (r->phase != LH_REIGN_ACTING)
        return false;
    if (LH_PLANTED("unknown-taken-for-failed")) {
        r->writer.under_way = 0;
        lh_r_call_end(r, LH_R_WRITE);
        return true;
    }
    if (LH_PLANTED("unknown-taken-for-done")) {
        lh_r_call_end(r, LH_R_WRITE);
        applied(r, r->copy.head_revision + 1, r->writer.sent_at);
        return true;
    }
    return false;
}

void lh_r_writer_clear(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;
    struct lh_r_commit *c;

    while ((c = TAILQ_FIRST(&w->commits)) != NULL) {
        TAILQ_REMOVE(&w->commits, c, link);
        lh_changes_free(c->changes, c->count);
        free(c);
    }
    lh_r_large_clear(r);
    lh_r_bytes_clear(&w->head);
    w->under_way = 0;
}
