#include "sim/etcd/store.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static int order(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    size_t common = a_size < b_size ? a_size : b_size;
    int first = common == 0 ? 0 : memcmp(a, b, common);

    return first != 0 ? first : (a_size > b_size) - (a_size < b_size);
}

void lh_etcd_record_unref(struct lh_etcd_record *r)
{
    if (--r->references == 0)
        free(r);
}

static uint64_t bytes_of(const struct lh_etcd_record *r)
{
    return sizeof *r + r->seen.key_size + r->seen.value_size;
}

void lh_etcd_store_init(struct lh_etcd_store *s)
{
    *s = (struct lh_etcd_store){.revision = 1, .compacted = -1};
}

void lh_etcd_store_deinit(struct lh_etcd_store *s)
{
    for (size_t i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->lines[i]->count; k++)
            lh_etcd_record_unref(s->lines[i]->records[k]);
        free(s->lines[i]->records);
        free(s->lines[i]);
    }
    for (size_t i = 0; i < s->change_count; i++)
        lh_etcd_record_unref(s->changes[i]);
    free(s->lines);
    free(s->changes);
    *s = (struct lh_etcd_store){0};
}

static struct lh_etcd_record **copy_records(struct lh_etcd_record *const *from, size_t count)
{
    struct lh_etcd_record **to = lh_alloc_array(count + 1, sizeof(struct lh_etcd_record *));

    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i]->references++;
    }
    return to;
}

void lh_etcd_store_copy(struct lh_etcd_store *to, const struct lh_etcd_store *from)
{
    *to = *from;
    to->capacity = from->count + 1;
    to->lines = lh_alloc_array(to->capacity, sizeof *to->lines);
    for (size_t i = 0; i < from->count; i++) {
        const struct lh_etcd_line *line = from->lines[i];
        to->lines[i] = lh_alloc(sizeof *line);
        *to->lines[i] = (struct lh_etcd_line){.records = copy_records(line->records, line->count),
            .count = line->count,
            .capacity = line->count + 1};
    }
    to->changes = copy_records(from->changes, from->change_count);
    to->change_capacity = from->change_count + 1;
}

static bool to_the_end(const struct lh_etcd_range *r)
{
    return r->end_size == 1 && r->end[0] == 0;
}

bool lh_etcd_in_range(const struct lh_etcd_range *r, const uint8_t *key, size_t size)
{
    int from = order(key, size, r->key, r->key_size);

    if (r->end_size == 0)
        return from == 0;
    return from >= 0 && (to_the_end(r) || order(key, size, r->end, r->end_size) < 0);
}

bool lh_etcd_range_is_empty(const struct lh_etcd_range *r)
{
    return r->end_size > 0 && !to_the_end(r) &&
           order(r->key, r->key_size, r->end, r->end_size) >= 0;
}

static size_t position(const struct lh_etcd_store *s, const uint8_t *key, size_t size)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lh_sim_etcd_record *r = &s->lines[middle]->records[0]->seen;
        if (order(r->key, r->key_size, key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t lh_etcd_store_first(const struct lh_etcd_store *s, const struct lh_etcd_range *r)
{
    return position(s, r->key, r->key_size);
}

const struct lh_sim_etcd_record *lh_etcd_line_at(const struct lh_etcd_line *l, int64_t at)
{
    size_t low = 0, high = l->count; /* the first record above `at` */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->records[middle]->seen.mod_revision <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || l->records[low - 1]->seen.version == 0)
        return NULL;
    return &l->records[low - 1]->seen;
}

/* The line of that key, made if there is none. */
static struct lh_etcd_line *line_of(struct lh_etcd_store *s, const uint8_t *key, size_t size)
{
    size_t i = position(s, key, size);

    if (i < s->count) {
        const struct lh_sim_etcd_record *r = &s->lines[i]->records[0]->seen;
        if (order(r->key, r->key_size, key, size) == 0)
            return s->lines[i];
    }
    LH_GROW(s->lines, s->capacity, s->count + 1);
    memmove(&s->lines[i + 1], &s->lines[i], (s->count++ - i) * sizeof(struct lh_etcd_line *));
    s->lines[i] = lh_alloc(sizeof *s->lines[i]);
    return s->lines[i];
}

static void add(struct lh_etcd_store *s, struct lh_etcd_line *l, struct lh_etcd_record *r)
{
    LH_GROW(l->records, l->capacity, l->count + 1);
    l->records[l->count++] = r;
    LH_GROW(s->changes, s->change_capacity, s->change_count + 1);
    s->changes[s->change_count++] = r;
    r->references = 2;
    s->bytes += bytes_of(r);
}

static struct lh_etcd_record *record(
    const uint8_t *key, size_t key_size, const uint8_t *value, size_t value_size)
{
    struct lh_etcd_record *r = lh_alloc(sizeof *r + key_size + value_size);

    if (key_size > 0)
        memcpy(r->bytes, key, key_size);
    if (value_size > 0)
        memcpy(r->bytes + key_size, value, value_size);
    r->seen = (struct lh_sim_etcd_record){.key = r->bytes,
        .value = r->bytes + key_size,
        .key_size = key_size,
        .value_size = value_size};
    return r;
}

void lh_etcd_store_put(struct lh_etcd_store *s, int64_t at, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
    struct lh_etcd_record *r = record(key, key_size, value, value_size);
    struct lh_etcd_line *l = line_of(s, key, key_size);
    const struct lh_sim_etcd_record *before = lh_etcd_line_at(l, at);

    r->seen.mod_revision = at;
    r->seen.create_revision = before == NULL ? at : before->create_revision;
    r->seen.version = before == NULL ? 1 : before->version + 1;
    add(s, l, r);
}

int64_t lh_etcd_store_delete(struct lh_etcd_store *s, int64_t at, const struct lh_etcd_range *r)
{
    int64_t deleted = 0;

    for (size_t i = lh_etcd_store_first(s, r); i < s->count; i++) {
        struct lh_etcd_line *l = s->lines[i];
        const struct lh_sim_etcd_record *any = &l->records[0]->seen;
        if (!lh_etcd_in_range(r, any->key, any->key_size))
            break;
        if (lh_etcd_line_at(l, at) == NULL)
            continue;
        struct lh_etcd_record *gone = record(any->key, any->key_size, NULL, 0);
        gone->seen.mod_revision = at;
        add(s, l, gone);
        deleted++;
    }
    return deleted;
}

size_t lh_etcd_store_change(const struct lh_etcd_store *s, int64_t revision)
{
    size_t low = 0, high = s->change_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->changes[middle]->seen.mod_revision < revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether a reader at `revision` or later, or a watch from there on, needs this record. */
static bool is_needed(const struct lh_etcd_line *l, size_t i, int64_t revision)
{
    const struct lh_sim_etcd_record *r = &l->records[i]->seen;

    if (r->mod_revision > revision)
        return true;
    bool newest = i + 1 == l->count || l->records[i + 1]->seen.mod_revision > revision;
    return newest && r->version != 0;
}

static void forget_in(struct lh_etcd_store *s, struct lh_etcd_line *l, int64_t revision)
{
    size_t kept = 0;

    /* Whether a record is needed depends on the one behind it, which has not moved yet. */
    for (size_t i = 0; i < l->count; i++) {
        struct lh_etcd_record *r = l->records[i];
        if (is_needed(l, i, revision)) {
            l->records[kept++] = r;
            continue;
        }
        s->bytes -= bytes_of(r);
        lh_etcd_record_unref(r);
    }
    l->count = kept;
}

void lh_etcd_store_forget(struct lh_etcd_store *s, int64_t revision)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct lh_etcd_line *l = s->lines[i];
        forget_in(s, l, revision);
        if (l->count > 0) {
            s->lines[kept++] = l;
            continue;
        }
        free(l->records);
        free(l);
    }
    s->count = kept;
    kept = 0;
    for (size_t i = 0; i < s->change_count; i++) {
        struct lh_etcd_record *r = s->changes[i];
        if (r->seen.mod_revision < revision ||
            (r->seen.mod_revision == revision && r->seen.version == 0))
            lh_etcd_record_unref(r);
        else
            s->changes[kept++] = r;
    }
    s->change_count = kept;
}
