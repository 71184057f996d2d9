/* A standby that would begin a reign: when it may try, and whether etcd answered it while it waited
 * (HA-3). */
#include "master/reigns/internal.h"

#include "lease/term.h"

/* A head that etcd has, and that the watch did not show when it was asked for so many times: the
 * watch is of no use. */
#define HEADS_NOT_SHOWN 3u

void lh_r_candidate_later(struct lh_reigns *r)
{
    r->claim_at = lh_instant_add(r->now, lh_nanoseconds(r->config.reign_term.ns / 2));
}

/* A reign goes on, as far as this process knows. */
static bool may_go_on(const struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;

    return head != NULL && head->state == LEASEHOLD_STORED__HEAD__STATE__ACTING;
}

/* When this standby may try to begin a reign (HA-3). */
static struct lh_instant candidate_at(const struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;
    struct lh_instant at = r->copy.learned_at;

    if (r->config.task == LH_REIGN_SERVE && (head == NULL || r->out_of_use != NULL) &&
        !(head == NULL && LH_PLANTED("cluster-begins-by-itself")))
        return LH_INSTANT_NEVER;
    if (may_go_on(r)) {
        uint64_t term = head->reign_term_ns;
        if (LH_PLANTED("candidate-too-early"))
            term /= 4;
        at = lh_term_grantor_end(at, lh_nanoseconds(term));
    }
    at = lh_instant_add(at, lh_nanoseconds(r->config.stagger.ns * lh_r_rank(r, head)));
    return lh_instant_max(at, r->claim_at);
}

/* ---- That nothing was heard of the active master may be etcd's fault, and then that master is as
 * well off as anybody. So etcd is asked meanwhile, and has to answer soon. */

static struct lh_instant quarters_after(
    const struct lh_reigns *r, struct lh_instant at, uint64_t count)
{
    return lh_instant_add(at, lh_nanoseconds(r->copy.said->reign_term_ns / 4 * count));
}

/* Half of T_reign is long enough to hear of an active master that is well. */
static struct lh_instant goes_on_at(const struct lh_reigns *r)
{
    struct lh_instant last = candidate_at(r);

    if (!may_go_on(r) || last.ns == LH_INSTANT_NEVER.ns || LH_PLANTED("etcd-s-silence-counts"))
        return last;
    return lh_instant_min(last, lh_instant_max(quarters_after(r, r->copy.learned_at, 2),
                                    quarters_after(r, r->asked_at, 1)));
}

/* A head that says resigned is shown while etcd is asked for the one before. */
static bool waits_for_answer(const struct lh_reigns *r)
{
    return lh_r_call_is_open(r, LH_R_ASK) && may_go_on(r);
}

void lh_r_candidate_step(struct lh_reigns *r)
{
    if (waits_for_answer(r) || !lh_instant_reached(r->now, goes_on_at(r)))
        return;
    if (!may_go_on(r)) {
        lh_r_claim(r);
        return;
    }
    r->asked_at = r->now;
    lh_r_ask(r);
}

struct lh_instant lh_r_candidate_deadline(const struct lh_reigns *r)
{
    return waits_for_answer(r) ? LH_INSTANT_NEVER : goes_on_at(r);
}

void lh_r_candidate_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    int64_t revision = reply->n_kvs > 0 ? reply->kvs[0]->mod_revision : 0; /* 0: there is none */
    bool late = lh_instant_before(quarters_after(r, r->asked_at, 1), r->now);

    if (revision != r->copy.head_revision) {
        /* The watch will show it; if it does not, this copy is of another history. */
        r->copy.learned_at = r->now;
        if (++r->claims_lost >= HEADS_NOT_SHOWN)
            lh_r_anew(r, "the store's head is not the one that this copy has");
        return;
    }
    if (late && r->late_answers < r->config.late_answers_max) {
        LH_MARK("candidate-was-cut-off-from-etcd");
        r->late_answers++;
        r->copy.learned_at = r->now;
        return;
    }
    /* Another head may have been shown since it was asked, which counts from then. */
    if (lh_instant_reached(r->now, candidate_at(r)))
        lh_r_claim(r);
}
