/* libFuzzer target: messages, chunk headers, and records of a master's store. The first byte
 * chooses. Whole logs and their scan are in fuzz_chunkserver.c (rot) and in
 * batch/fuzz_batch.c. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/log/header.h"
#include "fuzz/world.h"
#include "master/master.h"
#include "proto/codec.h"
#include "proto/stored.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Some field of it or of a part of it is of another release. */
static bool knows_less(const ProtobufCMessage *m)
{
    bool any = m->n_unknown_fields > 0;

    for (unsigned i = 0; i < m->descriptor->n_fields && !any; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *at = (const char *)m + f->offset,
                   *many = (const char *)m + f->quantifier_offset;
        size_t count = 1;
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            count = *(const size_t *)many;
            at = *(char *const *)at;
        } else if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            count = *(const uint32_t *)many == f->id;
        }
        for (size_t k = 0; k < count && !any; k++) {
            const ProtobufCMessage *part = ((ProtobufCMessage *const *)at)[k];
            any = part != NULL && knows_less(part);
        }
    }
    return any;
}

/* What is accepted can be said again, and is the same then. */
static void decode_message(const uint8_t *data, size_t size)
{
    enum lh_method method = (enum lh_method)(1 + data[0] % (LH_METHOD_COUNT - 1));
    enum lh_direction direction = (data[0] & 128) != 0 ? LH_REPLY : LH_REQUEST;
    struct lh_buf bytes = {0}, payload = {0}, again_payload = {0};
    ProtobufCMessage *m, *again;
    uint8_t *to;

    /* In two slices, so that what is cut is seen. */
    for (size_t at = 1; at < size;) {
        size_t part = at == 1 && size > 2 ? (size - 1) / 2 : size - at;
        struct lh_buf slice = lh_buf_copy(data + at, part);
        lh_buf_append(&bytes, &slice, 0, slice.size);
        lh_buf_clear(&slice);
        at += part;
    }
    if (lh_wire_decode(method, direction, &bytes, &m, &payload) == LH_OK) {
        size_t payload_size = payload.size;
        struct lh_buf header = lh_buf_alloc(protobuf_c_message_get_packed_size(m), &to);
        (void)protobuf_c_message_pack(m, to);
        struct lh_buf wire = lh_wire_encode(method, direction, &header, &payload);
        if (lh_wire_decode(method, direction, &wire, &again, &again_payload) == LH_OK) {
            LH_ASSERT(again_payload.size == payload_size);
            lh_buf_clear(&again_payload);
            lh_wire_free(again);
        } else { /* what it does not know it does not promise to repeat */
            LH_ASSERT(knows_less(m));
        }
        lh_buf_clear(&wire);
        lh_wire_free(m);
    }
    lh_buf_clear(&bytes);
}

/* Both slots; with `mend` what is there has a checksum that fits. */
static void decode_header(const uint8_t *data, size_t size)
{
    struct lh_buf bytes = lh_buf_copy(data, size);
    struct lh_chunk_header h;

    if (lh_chunk_header_decode(&bytes, 1, &h) == LH_OK) {
        struct lh_buf slot = lh_chunk_header_encode(1, &h);
        LH_ASSERT(slot.size == LH_SLOT_BYTES);
        lh_buf_clear(&slot);
    }
    lh_buf_clear(&bytes);
}

/* ---- A master's store. */

#define PAIRS_MAX 64u

/* A sound record, so that what others refer to can be there. */
static void make_master(LeaseholdStored__Master *record)
{
    leasehold_stored__master__init(record);
    record->format = LH_MASTER_FORMAT_BARE;
    record->cluster_id = (char *)"c";
    record->next_file = record->next_chunk = 100;
}

static const struct {
    char letter;
    uint8_t key_size; /* behind the letter */
    const ProtobufCMessageDescriptor *type;
} kinds[] = {
    {'M', 0, &leasehold_stored__master__descriptor},
    {'c', 16, &leasehold_stored__call__descriptor},
    {'f', 8, &leasehold_stored__file__descriptor},
    {'h', 8, &leasehold_stored__value_change__descriptor},
    {'k', 16, &leasehold_stored__chunk__descriptor},
    {'p', 16, &leasehold_stored__program__descriptor},
    {'q', 2, &leasehold_stored__policy__descriptor},
    {'s', 3, &leasehold_stored__server__descriptor},
    {'v', 2, &leasehold_stored__value__descriptor},
    {'@', 0, &leasehold_stored__elsewhere__descriptor},
};

static struct lh_change packed(const ProtobufCMessage *m)
{
    struct lh_change pair = {lh_alloc(32), NULL, 1, 0};

    pair.value_size = (uint32_t)protobuf_c_message_get_packed_size(m);
    pair.value = lh_alloc(pair.value_size + 1u);
    (void)protobuf_c_message_pack(m, pair.value);
    return pair;
}

/* A record that can be read, under a key of its kind, or with a byte of it changed. */
static struct lh_change make_pair(const struct said *said, struct bytes *in)
{
    size_t kind = take_byte(in) % (sizeof kinds / sizeof kinds[0]);
    ProtobufCMessage *m = make_message(said, kinds[kind].type, in);
    struct lh_change pair = packed(m);
    uint8_t how = take_byte(in);

    lh_wire_free(m);
    pair.key[0] = (uint8_t)kinds[kind].letter;
    pair.key_size = 1u + kinds[kind].key_size;
    if (kinds[kind].key_size == 16 || kinds[kind].key_size == 8)
        pair.key[pair.key_size - 1] = take_byte(in);
    else if (pair.key_size > 1)
        memcpy(pair.key + 1, how % 2 == 0 ? "cs1" : "/a", kinds[kind].key_size);
    if (kinds[kind].key_size == 16)
        pair.key[8] = take_byte(in);
    if (how >= 192 && pair.value_size > 0) {
        size_t at = take_byte(in) % pair.value_size;
        pair.value[at] ^= take_byte(in);
    }
    return pair;
}

static struct lh_change raw_pair(struct bytes *in)
{
    struct lh_change pair = {lh_alloc(32), lh_alloc(256), take_byte(in) % 24u, take_byte(in)};

    for (uint32_t i = 0; i < pair.key_size; i++)
        pair.key[i] = take_byte(in);
    for (uint32_t i = 0; i < pair.value_size; i++)
        pair.value[i] = take_byte(in);
    return pair;
}

/* A pair is loaded, or another master puts or removes it, with up to 7 others in a commit. */
static int load_or_amend(struct lh_master *m, struct lh_change *commit, size_t *count, size_t room,
    unsigned how, const struct lh_change *pair)
{
    char text[512] = "";
    int error = LH_OK;

    if (how > 0) {
        commit[*count] = *pair;
        if (how == 2)
            commit[*count].value = NULL;
        ++*count;
    }
    if ((how == 0 || *count == room) && *count > 0) {
        error = lh_master_amend(m, commit, *count, text, sizeof text);
        *count = 0;
    }
    if (how == 0 && error == LH_OK)
        error = lh_master_load(
            m, pair->key, pair->key_size, pair->value, pair->value_size, text, sizeof text);
    LH_ASSERT(error == LH_OK || text[0] != '\0');
    return error;
}

/* What is taken is whole: the core runs with it. */
static void load_store(const uint8_t *data, size_t size)
{
    struct lh_master_config config = lh_master_config_default();
    struct lh_change pairs[PAIRS_MAX], commit[8];
    struct bytes in = {data, size};
    struct said *said = lh_alloc(sizeof *said);
    struct lh_effects fx = {0};
    size_t count = 0, pair_count = 0;
    LeaseholdStored__Master record;
    char text[512];
    int error = LH_OK;

    config.seed = 1;
    struct lh_master *m = lh_master_create(&config);
    if (take_byte(&in) % 4 != 0) {
        make_master(&record);
        pairs[pair_count] = packed(&record.base);
        pairs[pair_count].key[0] = 'M';
        error = load_or_amend(m, commit, &count, 8, 0, &pairs[pair_count++]);
        LH_ASSERT(error == LH_OK);
    }
    while (in.left > 0 && error == LH_OK && pair_count < PAIRS_MAX) {
        uint8_t first = take_byte(&in);
        unsigned how = first < 192 ? 0 : first < 240 ? 1 : 2;
        pairs[pair_count] = first % 4 == 0 ? raw_pair(&in) : make_pair(said, &in);
        error = load_or_amend(
            m, commit, &count, sizeof commit / sizeof *commit, how, &pairs[pair_count++]);
    }
    if (error == LH_OK)
        error = lh_master_amend(m, commit, count, text, sizeof text);
    if (error == LH_OK) {
        lh_master_check(m);
        struct lh_input step = {.kind = LH_IN_TIMER, .now = {UINT64_C(1000000000)}};
        lh_master_step(m, &step, &fx);
        lh_master_check(m);
        lh_effects_deinit(&fx);
    }
    lh_master_destroy(m);
    for (size_t i = 0; i < pair_count; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
    free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    switch (data[0] % 3) {
    case 0:
        decode_message(data + 1, size - 1);
        break;
    case 1:
        decode_header(data + 1, size - 1);
        break;
    default:
        load_store(data + 1, size - 1);
        break;
    }
    return 0;
}
