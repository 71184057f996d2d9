/* A process of a master has died, and somebody knows so for certain: what it would have done itself
 * if it had been stopped is done in its place (HA-3a). Late transactions of the dead are fenced by
 * this one, as any two are (HA-1). */
#include "master/reigns/internal.h"

#include <inttypes.h>

uint32_t lh_r_deaths(const struct lh_reigns *r)
{
    struct lh_instant long_enough = lh_instant_add(r->since, r->config.deaths_within);

    /* Who ends otherwise than by a death ends the row, too. */
    return r->phase == LH_REIGN_ACTING && lh_instant_before(r->now, long_enough)
               ? r->copy.said->deaths
               : 0;
}

void lh_r_death_go(struct lh_reigns *r)
{
    if (r->stop_by.ns == 0)
        r->stop_by = lh_instant_add(r->now, r->config.reign_term);
    if (lh_instant_reached(r->now, r->stop_by)) {
        lh_fx_log(r->fx, LH_WARN,
            "etcd did not answer in time: the reign of the process that died ends by itself");
        lh_r_stop_with(r, LH_ERR_DEADLINE_EXCEEDED);
        return;
    }
    if (r->phase == LH_REIGN_LEARNING && !lh_r_call_is_open(r, LH_R_ASK))
        lh_r_ask(r);
}

/* All that the head says stays, and what a later release has put into it. */
static void write_resigned(struct lh_reigns *r)
{
    struct lh_r_txn t = {0};
    LeaseholdStored__Head head = *r->copy.said;

    head.number++;
    head.state = LEASEHOLD_STORED__HEAD__STATE__RESIGNED;
    head.deaths++;
    lh_r_enter(r, LH_REIGN_RESIGNING);
    lh_r_txn_send(r, &t, LH_R_RESIGN, &head);
}

void lh_r_death_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    const Etcdserverpb__KeyValue *kv = reply->n_kvs > 0 ? reply->kvs[0] : NULL;
    LeaseholdStored__Head *head = kv == NULL ? NULL : lh_r_head_read(kv->value.data, kv->value.len);

    if (head == NULL || head->format > LH_REIGN_FORMAT ||
        head->state != LEASEHOLD_STORED__HEAD__STATE__ACTING ||
        (head->process != r->config.process && !LH_PLANTED("resigned-for-the-living"))) {
        lh_r_head_free(head);
        lh_fx_log(r->fx, LH_INFO, "the process that ended has no reign");
        lh_r_stop_with(r, LH_OK);
        return;
    }
    lh_r_copy_take_head(r, kv->value.data, kv->value.len, head, kv->mod_revision);
    if (head->deaths + 1 >= r->config.deaths_max && !LH_PLANTED("every-death-is-resigned-for")) {
        LH_MARK("one-death-too-many");
        lh_fx_log(r->fx, LH_ERROR,
            "%" PRIu32 " masters in a row died within %" PRIu64
            " s of their reign: the next one begins when this reign is over",
            head->deaths + 1, lh_duration_ms(r->config.deaths_within) / 1000);
        lh_r_stop_with(r, LH_OK);
        return;
    }
    LH_MARK("resigned-for-a-dead-process");
    write_resigned(r);
}
