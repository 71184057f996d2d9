/* Names and values in the store. All keys begin with the prefix:
 *   head            a Head; every write of a master changes it
 *   map/KEY         the pairs of the master's store (master/tables/put.c)
 *   pieces/INDEX    parts of a commit that was too large (8 bytes, big-endian)
 *   records/ID      a MasterRecord; no part of the map
 * Those before `q` are what a copy is loaded from, and what is watched. */
#include "master/reigns/internal.h"

#include "base/seal.h"

#include <stdlib.h>

void lh_r_bytes_clear(struct lh_r_bytes *b)
{
    free(b->data);
    *b = (struct lh_r_bytes){0};
}

struct lh_r_bytes lh_r_bytes_copy(const void *data, size_t size)
{
    struct lh_r_bytes b = {lh_alloc(size + 1), size};

    if (size > 0) /* nothing has NULL for its bytes */
        memcpy(b.data, data, size);
    return b;
}

static struct lh_r_bytes join(const char *prefix, const char *name, const void *rest, size_t size)
{
    size_t a = strlen(prefix), b = strlen(name);
    struct lh_r_bytes key = {lh_alloc(a + b + size + 1), a + b + size};

    memcpy(key.data, prefix, a);
    memcpy(key.data + a, name, b);
    if (size > 0)
        memcpy(key.data + a + b, rest, size);
    return key;
}

struct lh_r_bytes lh_r_key(const struct lh_reigns *r, const char *name)
{
    return join(r->config.prefix, name, NULL, 0);
}

struct lh_r_bytes lh_r_map_key(const struct lh_reigns *r, const uint8_t *key, size_t size)
{
    return join(r->config.prefix, LH_R_MAP, key, size);
}

struct lh_r_bytes lh_r_piece_key(const struct lh_reigns *r, uint64_t index)
{
    uint8_t number[8];

    for (int i = 7; i >= 0; i--, index >>= 8)
        number[i] = (uint8_t)index;
    return join(r->config.prefix, LH_R_PIECE, number, sizeof number);
}

const uint8_t *lh_r_name_in(const struct lh_reigns *r, const ProtobufCBinaryData *key, size_t *size)
{
    size_t prefix = strlen(r->config.prefix);

    if (key->len < prefix || memcmp(key->data, r->config.prefix, prefix) != 0)
        return NULL;
    *size = key->len - prefix;
    return key->data + prefix;
}

static bool begins(const uint8_t *name, size_t size, const char *with)
{
    return size >= strlen(with) && memcmp(name, with, strlen(with)) == 0;
}

bool lh_r_is_head(const uint8_t *name, size_t size)
{
    return size == strlen(LH_R_HEAD) && begins(name, size, LH_R_HEAD);
}

const uint8_t *lh_r_in_map(const uint8_t *name, size_t size, size_t *key_size)
{
    if (!begins(name, size, LH_R_MAP))
        return NULL;
    *key_size = size - strlen(LH_R_MAP);
    return name + strlen(LH_R_MAP);
}

bool lh_r_is_piece(const uint8_t *name, size_t size, uint64_t *index)
{
    size_t before = strlen(LH_R_PIECE);

    if (!begins(name, size, LH_R_PIECE) || size != before + 8)
        return false;
    *index = 0;
    for (size_t i = before; i < size; i++)
        *index = *index << 8 | name[i];
    return true;
}

struct lh_r_bytes lh_r_pack(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    struct lh_r_bytes b = {lh_alloc(size + 1), size};

    protobuf_c_message_pack(message, b.data);
    return b;
}

struct lh_r_bytes lh_r_head_pack(const LeaseholdStored__Head *head)
{
    size_t size = leasehold_stored__head__get_packed_size(head);
    struct lh_r_bytes b = {lh_alloc(size + LH_SEAL_BYTES), size + LH_SEAL_BYTES};

    leasehold_stored__head__pack(head, b.data);
    lh_seal_write(b.data + size, lh_seal_hash(LH_R_HEAD, strlen(LH_R_HEAD), b.data, size));
    return b;
}

LeaseholdStored__Head *lh_r_head_own(const struct lh_r_bytes *bytes)
{
    LeaseholdStored__Head *head = leasehold_stored__head__unpack(NULL, bytes->size, bytes->data);

    LH_ASSERT(head != NULL);
    return head;
}

LeaseholdStored__Head *lh_r_head_read(const void *data, size_t size)
{
    uint64_t hash;
    enum lh_seal seal = lh_seal_look(LH_R_HEAD, strlen(LH_R_HEAD), data, &size, &hash);
    LeaseholdStored__Head *head = seal == LH_SEAL_BROKEN && !LH_PLANTED("seals-not-looked-at")
                                      ? NULL
                                      : leasehold_stored__head__unpack(NULL, size, data);

    if (head == NULL)
        return NULL;
    bool sound = head->format != 0 &&
                 (seal == LH_SEAL_FITS || head->format == LH_REIGN_FORMAT_BARE) &&
                 head->reign != 0 && head->reign <= LH_R_NUMBER_MAX && head->number != 0 &&
                 head->number <= LH_R_NUMBER_MAX && head->reign_term_ns >= 1 &&
                 head->reign_term_ns <= LH_REIGN_TERM_MAX_NS;
    if (!sound) {
        lh_r_head_free(head);
        return NULL;
    }
    return head;
}

void lh_r_head_free(LeaseholdStored__Head *head)
{
    if (head != NULL)
        leasehold_stored__head__free_unpacked(head, NULL);
}
