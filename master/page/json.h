/* Messages as JSON, by their descriptors: the mapping of Protocol Buffers, with names as in the
 * schema and fields that are 0 written out. 64-bit integers are strings, bytes are base64, enums
 * are their names. So any library for the schema reads it. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that grows. All-zero is empty; `bytes` does not end in NUL. */
struct lh_json {
    char *bytes;
    size_t size, capacity;
};

void lh_json_raw(struct lh_json *to, const char *text);
/* In quotes, and valid: what is no UTF-8 becomes '?'. */
void lh_json_string(struct lh_json *to, const char *text, size_t size);
/* Scalars, repeated scalars and messages are known, maps are not. */
void lh_json_message(struct lh_json *to, const ProtobufCMessage *message);
void lh_json_deinit(struct lh_json *json);

/* Sets the field `name` of a request from text: an integer in decimal, "true" or "false", the name
 * of an enum's value, a string, bytes in hexadecimal. False: there is no such field, or that is no
 * value of it; `why` says which. What it allocates is freed with the message. */
bool lh_json_set(
    ProtobufCMessage *message, const char *name, const char *value, char *why, size_t why_size);
