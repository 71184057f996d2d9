/* Messages of every type, made by what protobuf-c knows of them. */
#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"
#include "fuzz/world.h"

#include <stdlib.h>
#include <string.h>

uint8_t take_byte(struct bytes *b)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->at++;
}

uint64_t take_number(struct bytes *b, unsigned size)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < size; i++)
        n = n << 8 | take_byte(b);
    return n;
}

/* ---- What was said ---- */

void hear_value(struct said *said, const char *name, uint64_t value)
{
    size_t i = 0;

    while (i < said->count && strcmp(said->fields[i].name, name) != 0)
        i++;
    if (i == said->count) {
        if (i == NAMES_MAX)
            return;
        said->count++;
        said->fields[i].name = name;
        said->fields[i].count = 0;
    }
    said->fields[i].values[said->fields[i].count++ % VALUES_MAX] = value;
}

static unsigned find(const struct said *said, const char *name, const uint64_t **values)
{
    for (size_t i = 0; i < said->count; i++) {
        if (strcmp(said->fields[i].name, name) == 0) {
            *values = said->fields[i].values;
            return said->fields[i].count;
        }
    }
    return 0;
}

uint64_t last_said(const struct said *said, const char *name)
{
    const uint64_t *values;
    unsigned count = find(said, name, &values);

    return count == 0 ? 0 : values[(count - 1) % VALUES_MAX];
}

static size_t count_of(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const char *base = (const char *)m;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(base + f->quantifier_offset);
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return *(const uint32_t *)(base + f->quantifier_offset) == f->id;
    return 1;
}

void hear(struct said *said, const ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *at = (const char *)m + f->offset;
        size_t count = count_of(m, f);
        if (count > 0 && f->label == PROTOBUF_C_LABEL_REPEATED)
            at = *(char *const *)at;
        for (size_t k = 0; k < count; k++) {
            if (f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_INT64)
                hear_value(said, f->name, ((const uint64_t *)at)[k]);
            else if (f->type == PROTOBUF_C_TYPE_UINT32)
                hear_value(said, f->name, ((const uint32_t *)at)[k]);
            else if (f->type == PROTOBUF_C_TYPE_MESSAGE &&
                     ((ProtobufCMessage *const *)at)[k] != NULL)
                hear(said, ((ProtobufCMessage *const *)at)[k]);
        }
    }
}

/* ---- Anything ---- */

static uint64_t any_number(const struct said *said, const char *name, struct bytes *b)
{
    uint8_t how = take_byte(b);
    const uint64_t *values;
    unsigned count = find(said, name, &values);

    if (how < 160 && count > 0)
        return values[how % (count < VALUES_MAX ? count : VALUES_MAX)];
    if (how < 180 && count > 0)
        return values[(count - 1) % VALUES_MAX] + how - 169;
    if (how < 220)
        return how % 8;
    if (how < 240)
        return UINT64_C(1) << (3 * (how - 220));
    if (how < 248)
        return UINT64_MAX - (how - 240);
    return take_number(b, how - 247);
}

static char *any_string(const char *name, struct bytes *b)
{
    static const char *const servers[] = {"cs1", "cs2", "cs3", "cs4"};
    static const char *const paths[] = {"/a", "/b", "/a/b", "/"};
    static const char *const others[] = {"", "m", "c", "\xff\xfe", "x\ny", "/../", "*", "a b"};
    uint8_t how = take_byte(b);

    if (how >= 128)
        return lh_strdup(others[how % 8]);
    return lh_strdup(strstr(name, "path") != NULL || how >= 64 ? paths[how % 4] : servers[how % 4]);
}

static void fill_one(
    const struct said *said, const ProtobufCFieldDescriptor *f, void *to, struct bytes *b)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64: /* etcd's */
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_UINT64:
        *(uint64_t *)to = any_number(said, f->name, b);
        break;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)to = (uint32_t)any_number(said, f->name, b);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)to = take_byte(b) & 1;
        break;
    case PROTOBUF_C_TYPE_ENUM: { /* errors are rare, or nothing would ever be done */
        const ProtobufCEnumDescriptor *e = f->descriptor;
        uint8_t how = take_byte(b);
        *(int32_t *)to = how == 255 ? (int32_t)take_number(b, 4)
                         : strcmp(f->name, "error") == 0 && how < 200
                             ? 0
                             : e->values[how % e->n_values].value;
        break;
    }
    case PROTOBUF_C_TYPE_STRING:
        *(char **)to = any_string(f->name, b);
        break;
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData *data = to;
        data->len = take_byte(b) % 24;
        data->data = data->len == 0 ? NULL : lh_alloc(data->len);
        for (size_t i = 0; i < data->len; i++)
            data->data[i] = take_byte(b);
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)to = make_message(said, f->descriptor, b);
        break;
    default:
        memset(to, 0, 4); /* no other is in the schemas */
        break;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return sizeof(uint32_t);
    }
}

/* Of the members of a oneof one is there, at most. */
static unsigned choose_member(const ProtobufCMessageDescriptor *type, struct bytes *b)
{
    unsigned members = 0;

    for (unsigned i = 0; i < type->n_fields; i++)
        members += (type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    return members == 0 ? 0 : take_byte(b) % (members + 1);
}

static ProtobufCMessage *fill(
    const struct said *said, const ProtobufCMessageDescriptor *type, struct bytes *b)
{
    ProtobufCMessage *m = lh_alloc(type->sizeof_message);
    unsigned member = choose_member(type, b);

    type->message_init(m);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        char *at = (char *)m + f->offset;
        if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            if (member-- != 1)
                continue;
            *(uint32_t *)((char *)m + f->quantifier_offset) = f->id;
            fill_one(said, f, at, b);
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = take_byte(b) % 4, size = size_of(f);
            if (count == 0)
                continue;
            *(size_t *)((char *)m + f->quantifier_offset) = count;
            *(char **)at = lh_alloc_array(count, size);
            for (size_t k = 0; k < count; k++)
                fill_one(said, f, *(char **)at + k * size, b);
        } else if (f->type != PROTOBUF_C_TYPE_MESSAGE || (take_byte(b) & 3) != 0) {
            fill_one(said, f, at, b);
        }
    }
    return m;
}

ProtobufCMessage *make_message(
    const struct said *said, const ProtobufCMessageDescriptor *type, struct bytes *b)
{
    return fill(said, type, b);
}

struct lh_buf make_batches(const struct said *said, struct bytes *b, uint64_t checksum)
{
    struct lh_batch_stamper stamper = {0};
    struct lh_buf all = {0};
    uint8_t how = take_byte(b);

    if (how >= 224) {
        uint8_t *to, size = take_byte(b);
        struct lh_buf nonsense = lh_buf_alloc(size, &to);
        for (unsigned i = 0; i < size; i++)
            to[i] = take_byte(b);
        return nonsense;
    }
    for (unsigned n = how % 3; n > 0; n--) {
        struct lh_batch_builder builder;
        uint8_t record[256] = {how};
        uint32_t records = 1 + take_byte(b) % 2;
        lh_batch_builder_init(&builder, 1024);
        for (uint32_t i = 0; i < records; i++) {
            bool fits = lh_batch_builder_add(&builder, record, take_byte(b));
            LH_ASSERT(fits);
        }
        uint64_t writer = any_number(said, "writer", b) & INT64_MAX;
        uint64_t sequence = any_number(said, "sequence", b) & INT64_MAX >> 1;
        struct lh_buf one = lh_batch_builder_finish(
            &builder, writer == 0 ? 1 : writer, sequence == 0 ? 1 : sequence);
        struct lh_batch_header h;
        if (how < 192 && lh_batch_check(&one, 0, LH_BATCH_BYTES_LIMIT, &h) == LH_OK) {
            checksum = lh_log_checksum(checksum, &h);
            lh_batch_stamp(&stamper, &one, &h, checksum);
        }
        lh_buf_append(&all, &one, 0, one.size);
        lh_buf_clear(&one);
    }
    lh_batch_stamper_deinit(&stamper);
    return all;
}
