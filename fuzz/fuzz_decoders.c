/* libFuzzer target: everything else that makes sense of bytes from a network, a disk or a command
 * line. The first byte chooses. Whole logs and their scan are in fuzz_chunkserver.c (rot) and in
 * batch/fuzz_batch.c. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/data_dir.h"
#include "chunkserver/log/header.h"
#include "master/master.h"
#include "proto/codec.h"
#include "runtime/flags.h"

#include <stdio.h>
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
        struct lh_buf slot = lh_chunk_header_encode(&h);
        LH_ASSERT(slot.size == LH_SLOT_BYTES);
        lh_buf_clear(&slot);
    }
    lh_buf_clear(&bytes);
}

/* By the first byte of a pair: it is loaded, or another master puts or removes it, with those of
 * its kind that follow in one commit. */
static int load_or_amend(struct lh_master *m, struct lh_change *commit, size_t *count, size_t room,
    unsigned how, const struct lh_change *pair)
{
    char text[512];
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
    return error;
}

/* Pairs of a length each, in the order in which they stand. */
static void load_store(const uint8_t *data, size_t size)
{
    struct lh_master_config config = lh_master_config_default();
    struct lh_effects fx = {0};
    struct lh_change commit[8];
    size_t count = 0;
    char text[512];
    int error = LH_OK;

    config.seed = 1;
    struct lh_master *m = lh_master_create(&config);
    while (size >= 2 && error == LH_OK) {
        unsigned how = data[0] < 192 ? 0 : data[0] < 240 ? 1 : 2;
        size_t key = data[0] % 24, value = data[1];
        data += 2;
        size -= 2;
        key = key < size ? key : size;
        value = value < size - key ? value : size - key;
        struct lh_change pair = {(uint8_t *)(uintptr_t)data, (uint8_t *)(uintptr_t)(data + key),
            (uint32_t)key, (uint32_t)value};
        error = load_or_amend(m, commit, &count, sizeof commit / sizeof *commit, how, &pair);
        data += key + value;
        size -= key + value;
    }
    if (error == LH_OK)
        error = lh_master_amend(m, commit, count, text, sizeof text);
    if (error == LH_OK) {
        lh_master_check(m);
        struct lh_input in = {.kind = LH_IN_TIMER, .now = {UINT64_C(1000000000)}};
        lh_master_step(m, &in, &fx);
        lh_master_check(m);
        lh_effects_deinit(&fx);
    }
    lh_master_destroy(m);
}

static void parse_flags(const uint8_t *data, size_t size)
{
    static const char *text;
    static bool yes;
    static uint64_t number, bytes;
    static struct lh_duration time;
    static struct lh_flag_list list;
    static const struct lh_flag table[] = {
        {.name = "text", .type = LH_FLAG_STRING, .value = &text, .help = "", .letter = 't'},
        {.name = "yes", .type = LH_FLAG_BOOL, .value = &yes, .help = "", .letter = 'y'},
        {.name = "number", .type = LH_FLAG_UINT, .value = &number, .help = "", .max = 1000},
        {.name = "bytes", .type = LH_FLAG_SIZE, .value = &bytes, .help = ""},
        {.name = "time", .type = LH_FLAG_DURATION, .value = &time, .help = "", .min = 5},
        {.name = "list", .type = LH_FLAG_LIST, .value = &list, .help = ""},
    };
    static const struct lh_flags flags = {.command = "x",
        .usage = "",
        .summary = "",
        .flags = table,
        .count = sizeof table / sizeof table[0]};
    char *copy = lh_alloc(size + 1), *argv[66] = {(char *)"x"};
    int argc = 1;

    list = (struct lh_flag_list){0}; /* what the last one gave is freed */
    text = NULL;
    /* A word each, between line feeds. */
    if (size > 0)
        memcpy(copy, data, size);
    for (char *word = copy; word < copy + size && argc < 65;) {
        char *end = memchr(word, '\n', (size_t)(copy + size - word));
        argv[argc++] = word;
        if (end == NULL)
            break;
        *end = '\0';
        word = end + 1;
    }
    bool reads_a_file = false; /* what it names is not ours */
    for (int i = 1; i < argc; i++)
        reads_a_file = reads_a_file || strncmp(argv[i], "--c", 3) == 0;
    if (!reads_a_file) {
        struct lh_flags_result r = lh_flags_parse(&flags, argc, argv, NULL, "0");
        LH_ASSERT(r.outcome == LH_FLAGS_OK || r.text != NULL);
        lh_flags_free(&r);
    }
    free(copy);
}

/* IDENTITY, with some of its lines said for the fuzzer. What is accepted can be written, and is the
 * same then. */
static void decode_identity(const uint8_t *data, size_t size)
{
    static const char *const begins[] = {"", "leasehold-chunkserver 1\nserver_id ",
        "leasehold-chunkserver 1\nserver_id cs1\ncluster_id -\nincarnation ",
        "leasehold-chunkserver 1\nserver_id cs1\ncluster_id c\nincarnation 7\nmaster_term 2\n"};
    char text[LH_IDENTITY_BYTES_MAX], again[LH_IDENTITY_BYTES_MAX], why[512];
    struct lh_identity first = {0}, second = {0};
    int begin = snprintf(text, sizeof text, "%s", begins[data[0] % 4]);

    size = size - 1 < sizeof text - 1 - (size_t)begin ? size - 1 : sizeof text - 1 - (size_t)begin;
    memcpy(text + begin, data + 1, size);
    text[(size_t)begin + size] = '\0';
    if (lh_identity_parse("there", text, &first, why, sizeof why) != LH_OK)
        return;
    first.incarnation++; /* as each opening does */
    LH_ASSERT(lh_identity_print(&first, again, sizeof again) < sizeof again);
    LH_ASSERT(lh_identity_parse("there", again, &second, why, sizeof why) == LH_OK ||
              first.incarnation == UINT64_MAX);
    LH_ASSERT(strcmp(first.server_id, second.server_id) == 0 &&
              strcmp(first.cluster_id, second.cluster_id) == 0 &&
              strcmp(first.scrub, second.scrub) == 0);
    LH_ASSERT(first.incarnation == second.incarnation && first.master_term == second.master_term);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    switch (data[0] % 5) {
    case 0:
        decode_message(data + 1, size - 1);
        break;
    case 1:
        decode_header(data + 1, size - 1);
        break;
    case 2:
        load_store(data + 1, size - 1);
        break;
    case 3:
        decode_identity(data + 1, size - 1);
        break;
    default:
        parse_flags(data + 1, size - 1);
        break;
    }
    return 0;
}
