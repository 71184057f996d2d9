/* Which cluster a store has (SES-10), and one that has none (HA-13). There a master waits until it
 * has one: the prefix may be misspelt, and a cluster that begins there has no files, and takes
 * chunkservers and clients that belong to none yet. Whoever wants one says so: `leasehold store
 * init`: the first head is put by a transaction that compares that there is nothing else, together
 * with the record that has the cluster's id. */
#include "master/reigns/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void lh_r_waits(struct lh_reigns *r)
{
    char text[700];

    if (r->copy.said != NULL || r->config.task != LH_REIGN_SERVE)
        return;
    LH_MARK("waits-for-a-cluster");
    if (lh_master_cluster(r->master) != NULL)
        (void)snprintf(text, sizeof text,
            "etcd has a store of masters under the prefix \"%.150s\", and no head: somebody has "
            "deleted it; no master acts until it is back. Its last bytes are in etcd's history: "
            "put them back, as \"A key that was deleted or changed\" in docs/operations.md says",
            r->config.prefix);
    else
        (void)snprintf(text, sizeof text,
            "etcd has no cluster under the prefix \"%.150s\", and this master waits: if it "
            "belongs to one, correct the prefix in --store; a new cluster begins there with "
            "`leasehold store init` and that store",
            r->config.prefix);
    if (r->out_of_use == NULL)
        lh_fx_log(r->fx, LH_WARN, "%s", text);
    free(r->out_of_use);
    r->out_of_use = lh_strdup(text);
}

bool lh_r_init_allows(struct lh_reigns *r)
{
    const LeaseholdStored__Head *head = r->copy.said;

    if (head == NULL) {
        lh_r_claim(r);
        return false;
    }
    lh_fx_log(r->fx, LH_ERROR,
        "there is a store under \"%s\" already, of reign %" PRIu64
        ": start masters on it, or give a prefix that has none",
        r->config.prefix, head->reign);
    lh_r_stop_with(r, LH_ERR_ALREADY_EXISTS);
    return false;
}

void lh_r_init_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    char id[LH_CLUSTER_ID_BYTES];

    lh_master_draw_cluster(r->config.master.seed, id);
    free(r->cluster);
    r->cluster = lh_strdup(id);
    head->state = LEASEHOLD_STORED__HEAD__STATE__RESIGNED;
    record.format = LH_MASTER_FORMAT;
    record.cluster_id = id;
    record.next_file = record.next_chunk = 1;
    struct lh_change pair = {
        .key = (uint8_t *)(uintptr_t)LH_MASTER_KEY, .key_size = (uint32_t)strlen(LH_MASTER_KEY)};
    pair.value = lh_master_record_write(&record, &pair.value_size); /* it counts no other pairs */
    lh_r_txn_change(r, t, &pair);
    free(pair.value);
}

/* SES-10: a program keeps the first cluster for its life. */
void lh_r_note_cluster(struct lh_reigns *r)
{
    const char *id = r->master == NULL ? NULL : lh_master_cluster(r->master);

    if (id == NULL || (r->cluster != NULL && strcmp(id, r->cluster) == 0))
        return;
    if (r->cluster == NULL) {
        r->cluster = lh_strdup(id);
        return;
    }
    lh_fx_log(r->fx, LH_ERROR,
        "etcd, %s: the store was of cluster %s when this master read it first, and is of cluster "
        "%s now: somebody has replaced it; start the masters again if that was meant",
        r->config.prefix, r->cluster, id);
    lh_r_stop_with(r, LH_ERR_WRONG_IDENTITY);
}
