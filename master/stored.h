/* A stored record, read: its key, what is in it, and that it makes sense by itself. Whether it fits
 * the others say load.c and amend.c. The keys are in master/tables/put.c. */
#pragma once

#include "base/error.h"
#include "master/tables/tables.h"
#include "proto/stored.pb-c.h"

#include <stddef.h>
#include <stdint.h>

/* Of what rises by one, or by a restored store's leap: no master has written a higher one. */
#define LH_M_STORED_NUMBER_MAX (UINT64_MAX / 2)

enum lh_m_stored_kind {
    LH_M_STORED_MASTER = 'M',
    LH_M_STORED_CALL = 'c',
    LH_M_STORED_FILE = 'f',
    LH_M_STORED_CHANGE = 'h',
    LH_M_STORED_CHUNK = 'k',
    LH_M_STORED_REIGN = 'n',
    LH_M_STORED_PROGRAM = 'p',
    LH_M_STORED_POLICY = 'q',
    LH_M_STORED_TOMBSTONE = 'r',
    LH_M_STORED_SERVER = 's',
    LH_M_STORED_VALUE = 'v'
};

struct lh_m_stored_key {
    enum lh_m_stored_kind kind;
    uint64_t id;    /* of the file, of the chunk's file, of the removed chunk, or a call's client;
                       of a change, its revision; of a reign, its number */
    uint64_t index; /* of the chunk in its file, or the call's number */
    char text[LH_M_NAME_BYTES_MAX + 1];     /* a policy's prefix, a server's or a value's name */
    uint8_t session[LH_M_SESSION_ID_BYTES]; /* a program's */
};

/* What a record is unpacked into: nothing in it is freed by itself. One that does not fit makes no
 * sense. */
struct lh_m_stored_arena {
    size_t used;
    _Alignas(max_align_t) uint8_t bytes[32768 + LH_M_VALUE_BYTES_MAX];
};

struct lh_m_stored {
    struct lh_m_stored_key key;
    union {
        const LeaseholdStored__Master *master;
        const LeaseholdStored__Reign *reign;
        const LeaseholdStored__File *file;
        const LeaseholdStored__Chunk *chunk;
        const LeaseholdStored__Server *server;
        const LeaseholdStored__Call *call;
        const LeaseholdStored__Program *program;
        const LeaseholdStored__Policy *policy;
        const LeaseholdStored__Value *value;
        const LeaseholdStored__ValueChange *change;
        uint64_t version; /* a tombstone's */
    };
    uint64_t hash; /* of the pair */
    bool bare;     /* it has no seal */
    struct lh_m_stored_arena arena;
};

/* Writes the text, which says what to do, and returns `error`. */
__attribute__((format(printf, 4, 5))) int lh_m_stored_refuse(
    char *text, size_t text_size, int error, const char *format, ...);

#define LH_M_STORED_CORRUPT(...)                                                                   \
    lh_m_stored_refuse(text, text_size, LH_ERR_CORRUPT, "metadata store: " __VA_ARGS__)

/* CORRUPT: a key that no record has. */
LH_MUST_USE int lh_m_stored_key(struct lh_m_stored_key *parsed, const uint8_t *key, size_t key_size,
    char *text, size_t text_size);

/* Reads a pair. What it points to is in its arena, which is not to be moved. `bare`: a pair without
 * a seal is taken.
 *   CORRUPT       it makes no sense, or is not what was written (PAIR-2)
 *   WRONG_FORMAT  written by a newer release */
LH_MUST_USE int lh_m_stored_read(struct lh_m_stored *record, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size, bool bare, char *text, size_t text_size);

/* "the record of file 7": for messages. */
void lh_m_stored_name(const struct lh_m_stored_key *key, char *name, size_t name_size);
