/* Which masters there are: each has a record in the store, and reads the others' now and then. What
 * every master answers, whether it acts or not (HA-10). */
#include "master/reigns/internal.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

/* A master puts its record again each so many readings of the list (an hour, as shipped), ... */
#define BEAT_LISTS 360u
/* ... and of whoever missed so many beats the record does not count. */
#define BEATS_MISSED 3u

static struct lh_duration beat(const struct lh_reigns *r, unsigned beats)
{
    return lh_nanoseconds(r->config.records_every.ns * BEAT_LISTS * beats);
}

struct lh_r_bytes lh_r_record_key(const struct lh_reigns *r, const char *id)
{
    struct lh_r_bytes key = lh_r_key(r, LH_R_RECORD_OF);
    size_t size = strlen(id);

    key.data = lh_realloc_array(key.data, key.size + size, 1);
    memcpy(key.data + key.size, id, size);
    key.size += size;
    return key;
}

static void put_record(struct lh_reigns *r)
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT, *list[1] = {&op};
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    LeaseholdStored__MasterRecord record = LEASEHOLD_STORED__MASTER_RECORD__INIT;
    struct lh_r_bytes name = lh_r_record_key(r, r->config.id);

    record.master_id = (char *)(uintptr_t)r->config.id;
    record.address = (char *)(uintptr_t)r->config.address;
    record.start = r->process;
    record.page = (char *)(uintptr_t)r->config.page;
    record.heard = lh_r_heard_say(r, &record.n_heard);
    struct lh_r_bytes value = lh_r_pack(&record.base);
    free(record.heard);
    put.key = (ProtobufCBinaryData){name.size, name.data};
    put.value = (ProtobufCBinaryData){value.size, value.data};
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op.request_put = &put;
    txn.n_success = 1;
    txn.success = list;
    lh_r_call_begin(r, LH_R_RECORD, LH_METHOD_ETCD_TXN, &txn.base);
    free(name.data);
    free(value.data);
}

static void list(struct lh_reigns *r)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct lh_r_bytes from = lh_r_key(r, LH_R_RECORD_OF), end = lh_r_key(r, LH_R_RECORDS_END);

    request.key = (ProtobufCBinaryData){from.size, from.data};
    request.range_end = (ProtobufCBinaryData){end.size, end.data};
    request.limit = r->config.records_max;
    lh_r_call_begin(r, LH_R_LIST, LH_METHOD_ETCD_RANGE, &request.base);
    free(from.data);
    free(end.data);
}

void lh_r_records_step(struct lh_reigns *r)
{
    if (r->config.task != LH_REIGN_SERVE)
        return; /* no master */
    bool due = !r->announced || lh_instant_reached(r->now, r->beat_at) || lh_r_heard_is_due(r);
    if (r->cleared && due && !lh_r_call_is_open(r, LH_R_RECORD))
        put_record(r);
    if (lh_instant_reached(r->now, r->list_at) && !lh_r_call_is_open(r, LH_R_LIST)) {
        r->list_at = lh_instant_add(r->now, r->config.records_every);
        list(r);
    }
}

struct lh_instant lh_r_records_deadline(const struct lh_reigns *r)
{
    return lh_r_call_is_open(r, LH_R_LIST) || r->config.task != LH_REIGN_SERVE ? LH_INSTANT_NEVER
                                                                               : r->list_at;
}

void lh_r_record_put(struct lh_reigns *r)
{
    r->announced = true;
    r->beat_at = lh_instant_add(r->now, beat(r, 1));
}

static void free_records(struct lh_r_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(records[i].id);
        free(records[i].address);
        free(records[i].page);
        for (size_t k = 0; k < records[i].heard_count; k++)
            free(records[i].heard[k]);
        free(records[i].heard);
    }
    free(records);
}

void lh_r_records_clear(struct lh_reigns *r)
{
    free_records(r->records, r->records_known);
    r->records = NULL;
    r->record_count = r->records_known = 0;
}

void lh_r_records_know(struct lh_reigns *r)
{
    const char *addresses[LH_MASTERS_MAX];

    if (r->phase != LH_REIGN_ACTING)
        return;
    for (size_t i = 0; i < r->record_count; i++)
        addresses[i] = r->records[i].address;
    lh_master_know_masters(r->master, addresses, r->record_count);
}

/* Two masters of one id would take each other's place in the list. A record of this id and another
 * address is of a master that has moved, or of one that runs: it is asked. */
static void look_for_twin(struct lh_reigns *r)
{
    Leasehold__MastersRequest request = LEASEHOLD__MASTERS_REQUEST__INIT;

    for (size_t i = 0; i < r->records_known; i++) {
        const struct lh_r_record *record = &r->records[i];
        if (strcmp(record->id, r->config.id) != 0 ||
            strcmp(record->address, r->config.address) == 0)
            continue;
        lh_r_call_at(r, LH_R_TWIN, LH_METHOD_MASTERS, &request.base, record->address);
        return;
    }
    r->cleared = true;
}

/* Since when is that record known as it is? While no list was read nobody could beat. */
static struct lh_instant known_since(const struct lh_reigns *r, const struct lh_r_record *old,
    size_t count, const char *id, int64_t revision)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(old[i].id, id) == 0 && old[i].revision == revision)
            return old[i].since;
    return r->now;
}

static bool is_silent(const struct lh_reigns *r, const struct lh_r_record *record)
{
    return lh_instant_reached(r->now, lh_instant_add(record->since, beat(r, BEATS_MISSED)));
}

/* Of those that are not silent the ones with the newest beats count. */
static bool counts(const struct lh_reigns *r, size_t at)
{
    size_t newer = 0;

    for (size_t i = 0; i < r->records_known; i++)
        newer += r->records[i].revision > r->records[at].revision;
    return newer < LH_MASTERS_MAX && !is_silent(r, &r->records[at]);
}

/* Those that count come first; else the order, that of ids, stays. */
static void choose(struct lh_reigns *r)
{
    struct lh_r_record *sorted = lh_alloc_array(r->records_known + 1, sizeof *sorted);
    size_t chosen = 0, others = 0;

    for (size_t i = 0; i < r->records_known; i++)
        chosen += counts(r, i);
    LH_ASSERT(chosen <= LH_MASTERS_MAX);
    r->record_count = chosen;
    chosen = 0;
    for (size_t i = 0; i < r->records_known; i++)
        sorted[counts(r, i) ? chosen++ : r->record_count + others++] = r->records[i];
    free(r->records);
    r->records = sorted;
}

void lh_r_records_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply)
{
    struct lh_r_record *old = r->records;
    size_t old_count = r->records_known;
    bool gap = lh_instant_reached(r->now, lh_instant_add(r->listed_at, beat(r, 1)));
    bool own = false;

    r->records = lh_alloc_array(reply->n_kvs + 1, sizeof *r->records);
    r->records_known = 0;
    for (size_t i = 0; i < reply->n_kvs; i++) {
        const ProtobufCBinaryData *value = &reply->kvs[i]->value;
        int64_t revision = reply->kvs[i]->mod_revision;
        LeaseholdStored__MasterRecord *record =
            leasehold_stored__master_record__unpack(NULL, value->len, value->data);
        if (record == NULL)
            continue;
        own = own || strcmp(record->master_id, r->config.id) == 0;
        r->records[r->records_known++] = (struct lh_r_record){lh_strdup(record->master_id),
            lh_strdup(record->address), lh_strdup(record->page), record->start, revision,
            known_since(r, old, gap ? 0 : old_count, record->master_id, revision), record->heard,
            record->n_heard};
        record->heard = NULL; /* they are the table's now */
        record->n_heard = 0;
        leasehold_stored__master_record__free_unpacked(record, NULL);
    }
    free_records(old, old_count);
    r->listed_at = r->now;
    choose(r);
    if (!own && !reply->more)
        r->announced = false; /* somebody has deleted it */
    lh_r_records_know(r);
    if (!r->cleared && !lh_r_call_is_open(r, LH_R_TWIN))
        look_for_twin(r);
    lh_r_heard_look(r);
}

void lh_r_twin_reply(struct lh_reigns *r, const Leasehold__MastersReply *reply)
{
    if (reply == NULL || strcmp(reply->master_id, r->config.id) != 0 ||
        reply->process == r->process) {
        r->cleared = true;
        return;
    }
    lh_fx_log(r->fx, LH_ERROR,
        "another master with the id \"%s\" is running (its reign: %" PRIu64
        "): give each master a --master-id of its own",
        r->config.id, reply->reign);
    lh_r_stop_with(r, LH_ERR_IN_USE);
}

uint32_t lh_r_rank(const struct lh_reigns *r, const LeaseholdStored__Head *head)
{
    const char *last = head == NULL ? "" : head->master_id;
    const char *successor = head == NULL ? "" : head->successor;

    if (strcmp(successor, r->config.id) == 0 || r->config.task != LH_REIGN_SERVE)
        return 0;
    uint32_t rank = successor[0] != 0; /* its record may be newer than the list */
    for (size_t i = 0; i < r->record_count; i++) {
        const char *id = r->records[i].id;
        rank += strcmp(id, successor) != 0 && strcmp(id, last) != 0 && strcmp(id, r->config.id) < 0;
    }
    return rank;
}

void lh_r_answer_masters(struct lh_reigns *r, uint64_t link)
{
    Leasehold__MastersReply reply = LEASEHOLD__MASTERS_REPLY__INIT;
    Leasehold__MasterInfo infos[LH_MASTERS_MAX], *pointers[LH_MASTERS_MAX];
    const LeaseholdStored__Head *head = r->copy.said;

    reply.reign = r->top_reign;
    if (r->cluster != NULL)
        reply.cluster_id = r->cluster;
    reply.acting = lh_r_is_confirmed(r);
    reply.master_id = (char *)(uintptr_t)r->config.id;
    reply.process = r->process;
    reply.state = (char *)(uintptr_t)lh_r_state_name(r);
    reply.state_ms = lh_duration_ms(lh_instant_until(r->since, r->now));
    reply.revision = r->phase == LH_REIGN_ACTING ? r->copy.head_revision : r->copy.revision;
    reply.reign_term_ms = lh_duration_ms(r->config.reign_term);
    reply.store_bytes = r->store_bytes;
    if (r->out_of_use != NULL)
        reply.store_trouble = r->out_of_use;
    else if (r->store_trouble != NULL)
        reply.store_trouble = r->store_trouble;
    if (head != NULL && head->state == LEASEHOLD_STORED__HEAD__STATE__ACTING)
        reply.active = head->address;
    for (size_t i = 0; i < r->record_count; i++) {
        leasehold__master_info__init(&infos[i]);
        infos[i].master_id = r->records[i].id;
        infos[i].address = r->records[i].address;
        infos[i].page = r->records[i].page;
        pointers[i] = &infos[i];
    }
    reply.n_masters = r->record_count;
    reply.masters = pointers;
    reply.servers = lh_r_servers(r);
    lh_fx_reply(r->fx, link, &reply.base, NULL);
}
