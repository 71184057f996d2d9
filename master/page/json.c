#include "master/page/json.h"

#include "base/alloc.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct lh_json *to, const void *bytes, size_t size)
{
    if (to->capacity - to->size < size)
        LH_GROW(to->bytes, to->capacity, to->size + size);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

void lh_json_raw(struct lh_json *to, const char *text)
{
    append(to, text, strlen(text));
}

void lh_json_deinit(struct lh_json *json)
{
    free(json->bytes);
}

static void add_escape(struct lh_json *to, unsigned char c)
{
    char escape[8];

    if (c == '"' || c == '\\')
        (void)snprintf(escape, sizeof escape, "\\%c", c);
    else
        (void)snprintf(escape, sizeof escape, "\\u%04x", c);
    lh_json_raw(to, escape);
}

void lh_json_string(struct lh_json *to, const char *text, size_t size)
{
    append(to, "\"", 1);
    for (size_t i = 0, length; i < size; i += length) {
        unsigned char c = (unsigned char)text[i];
        length = lh_utf8_char(text + i, size - i, NULL);
        if (length == 0) {
            append(to, "?", 1);
            length = 1;
        } else if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
            add_escape(to, c);
        } else {
            append(to, text + i, length);
        }
    }
    append(to, "\"", 1);
}

static void add_base64(struct lh_json *to, const ProtobufCBinaryData *data)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    append(to, "\"", 1);
    for (size_t i = 0; i < data->len; i += 3) {
        size_t left = data->len - i;
        uint32_t bits = (uint32_t)data->data[i] << 16 |
                        (left > 1 ? (uint32_t)data->data[i + 1] << 8 : 0) |
                        (left > 2 ? data->data[i + 2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
            left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '='};
        append(to, four, sizeof four);
    }
    append(to, "\"", 1);
}

/* ---- Values, each at its address in the generated struct. */

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

__attribute__((format(printf, 2, 3))) static void add_format(
    struct lh_json *to, const char *format, ...)
{
    char text[48];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_json_raw(to, text);
}

static void add_enum(struct lh_json *to, const ProtobufCEnumDescriptor *type, int32_t number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

    if (value == NULL) /* of a newer schema */
        add_format(to, "%" PRId32, number);
    else
        lh_json_string(to, value->name, strlen(value->name));
}

static void add_value(struct lh_json *to, const ProtobufCFieldDescriptor *field, const void *at)
{
    const char *text;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        add_format(to, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        add_format(to, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        add_format(to, "\"%" PRId64 "\"", *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        add_format(to, "\"%" PRIu64 "\"", *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        add_format(to, "%.9g", (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        add_format(to, "%.17g", *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        lh_json_raw(to, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        add_enum(to, field->descriptor, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = *(char *const *)at;
        lh_json_string(to, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        add_base64(to, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        lh_json_message(to, *(ProtobufCMessage *const *)at);
        break;
    }
}

static void add_repeated(
    struct lh_json *to, const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    size_t count = *(const size_t *)((const char *)message + field->quantifier_offset);
    const char *items = *(char *const *)((const char *)message + field->offset);

    append(to, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            append(to, ",", 1);
        add_value(to, field, items + i * size_of(field));
    }
    append(to, "]", 1);
}

/* A message that is not there, or of a oneof what was not chosen. */
static bool is_absent(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    const char *base = (const char *)message;

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return false;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return *(const uint32_t *)(base + field->quantifier_offset) != field->id;
    return field->type == PROTOBUF_C_TYPE_MESSAGE && *(void *const *)(base + field->offset) == NULL;
}

/* ACC-5: whoever has the bytes of a capability has the right, and a browser keeps what it shows. */
static bool is_secret(const ProtobufCFieldDescriptor *field)
{
    return strcmp(field->name, "capability") == 0;
}

void lh_json_message(struct lh_json *to, const ProtobufCMessage *message)
{
    const char *before = "{";

    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (is_absent(field, message) || is_secret(field))
            continue;
        lh_json_raw(to, before);
        before = ",";
        lh_json_string(to, field->name, strlen(field->name));
        append(to, ":", 1);
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            add_repeated(to, field, message);
        else
            add_value(to, field, (const char *)message + field->offset);
    }
    lh_json_raw(to, *before == '{' ? "{}" : "}");
}

/* ---- Requests. */

static bool set_number(const char *text, uint64_t most, uint64_t *number)
{
    size_t digits = strspn(text, "0123456789");
    char *end;

    if (digits == 0 || text[digits] != '\0')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *number <= most;
}

static bool set_bytes(ProtobufCBinaryData *to, const char *text)
{
    size_t size = strlen(text);

    if (size % 2 != 0 || strspn(text, "0123456789abcdef") != size)
        return false;
    to->data = lh_alloc(size / 2 + 1);
    to->len = size / 2;
    for (size_t i = 0; i < to->len; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) == 1)
            to->data[i] = (uint8_t)byte;
    }
    return true;
}

static bool set(void *at, const ProtobufCFieldDescriptor *field, const char *text)
{
    const ProtobufCEnumValue *value;
    uint64_t number;

    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
        if (!set_number(
                text, field->type == PROTOBUF_C_TYPE_UINT32 ? UINT32_MAX : UINT64_MAX, &number))
            return false;
        if (field->type == PROTOBUF_C_TYPE_UINT32)
            *(uint32_t *)at = (uint32_t)number;
        else
            *(uint64_t *)at = number;
        return true;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = strcmp(text, "true") == 0;
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case PROTOBUF_C_TYPE_ENUM:
        value = protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, text);
        if (value != NULL)
            *(int32_t *)at = value->value;
        return value != NULL;
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = lh_strdup(text);
        return true;
    case PROTOBUF_C_TYPE_BYTES:
        return set_bytes(at, text);
    default:
        return false;
    }
}

bool lh_json_set(
    ProtobufCMessage *message, const char *name, const char *value, char *why, size_t why_size)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    if (field == NULL || field->label == PROTOBUF_C_LABEL_REPEATED ||
        field->type == PROTOBUF_C_TYPE_MESSAGE) {
        (void)snprintf(why, why_size, "there is no parameter %.64s here", name);
        return false;
    }
    if (set((char *)message + field->offset, field, value))
        return true;
    (void)snprintf(why, why_size, "%.64s cannot be \"%.64s\"", name, value);
    return false;
}
