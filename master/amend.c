/* A core that was loaded follows the commits of the active master (HA-8).
 *
 * First everything goes that the commit removes or replaces, the last keys first: chunks before
 * their files, and in a file from its end. Then what the commit puts is taken in as when it is
 * loaded, in the order of keys. So nothing is left of a record that was replaced, and paths that
 * two files exchange do not meet. Only files and chunkservers stay what they are while their
 * records are replaced: others refer to them. */
#include "master/keep/keep.h"
#include "master/load.h"
#include "master/master.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"

#include <inttypes.h>

#define CORRUPT LH_M_STORED_CORRUPT

static int compare_keys(const void *a, const void *b)
{
    const struct lh_change *const *left = a, *const *right = b;
    uint32_t size = (*left)->key_size < (*right)->key_size ? (*left)->key_size : (*right)->key_size;
    int order = memcmp((*left)->key, (*right)->key, size);

    return order != 0 ? order
                      : ((*left)->key_size > (*right)->key_size) -
                            ((*left)->key_size < (*right)->key_size);
}

static int chunk_goes(struct lh_master *m, const struct lh_m_stored_key *key, bool replaced,
    char *text, size_t text_size)
{
    struct lh_m_file *f = lh_m_file_by_id(m, key->id);

    if (f == NULL || key->index >= f->chunk_count)
        return LH_OK; /* it is not there */
    if (!replaced && key->index + 1 < f->chunk_count)
        return CORRUPT(
            "chunk %" PRIu64 " of \"%s\" is removed, and the next one is not", key->index, f->path);
    lh_m_chunk_unload(m, lh_m_file_chunk(f, key->index));
    if (replaced)
        lh_m_file_set_chunk(f, (uint32_t)key->index, NULL);
    else
        lh_m_file_drop_last(f);
    return LH_OK;
}

static int file_goes(struct lh_master *m, uint64_t id, bool replaced, char *text, size_t text_size)
{
    struct lh_m_file *f = lh_m_file_by_id(m, id);

    if (f == NULL)
        return LH_OK;
    if (!replaced && f->chunk_count > 0)
        return CORRUPT(
            "file %" PRIu64 " is removed, and %u of its chunks are not", id, f->chunk_count);
    lh_m_file_leave(m, f);
    f->removed = true; /* until its new record is taken in */
    if (!replaced) {
        lh_idmap_remove(&m->files, f);
        lh_m_file_free(m, f);
    }
    return LH_OK;
}

static void program_goes(struct lh_master *m, const uint8_t *id)
{
    struct lh_m_program *p = lh_m_program_find(m, id);

    if (p != NULL)
        lh_m_program_free(m, p);
}

static void policy_goes(struct lh_master *m, const char *prefix)
{
    struct lh_m_policy *policy = lh_m_policy_find(m, prefix);

    if (policy != NULL)
        lh_m_policy_free(m, policy);
}

/* What the change replaces or removes. */
static int goes(struct lh_master *m, const struct lh_change *change, char *text, size_t text_size)
{
    struct lh_m_stored_key key;
    bool replaced = change->value != NULL;
    int error = lh_m_stored_key(&key, change->key, change->key_size, text, text_size);

    if (error != LH_OK)
        return error;
    switch (key.kind) {
    case LH_M_STORED_CHUNK:
        return chunk_goes(m, &key, replaced, text, text_size);
    case LH_M_STORED_FILE:
        return file_goes(m, key.id, replaced, text, text_size);
    case LH_M_STORED_TOMBSTONE:
        lh_m_tombstone_forget(m, key.id);
        return LH_OK;
    case LH_M_STORED_REIGN:
        lh_m_reign_forget(m, key.id);
        return LH_OK;
    case LH_M_STORED_CALL:
        lh_m_call_forget(m, key.id, key.index);
        return LH_OK;
    case LH_M_STORED_PROGRAM:
        program_goes(m, key.session);
        return LH_OK;
    case LH_M_STORED_POLICY:
        policy_goes(m, key.text);
        return LH_OK;
    case LH_M_STORED_VALUE:
        lh_m_value_unload(m, key.text);
        return LH_OK;
    case LH_M_STORED_CHANGE:
        lh_m_history_forget(m, key.id);
        return LH_OK;
    case LH_M_STORED_MASTER:
    case LH_M_STORED_SERVER:
        break;
    }
    /* No master does this: what others refer to would be gone. */
    return replaced ? LH_OK : CORRUPT("the record of the master or a chunkserver is removed");
}

static int comes(struct lh_master *m, const struct lh_change *change, char *text, size_t text_size)
{
    struct lh_m_stored record;

    if (change->value == NULL)
        return LH_OK;
    int error = lh_m_stored_read(&record, change->key, change->key_size, change->value,
        change->value_size, lh_m_takes_bare(m, change->key, change->key_size), text, text_size);
    return error != LH_OK ? error : lh_m_load_record(m, &record, text, text_size);
}

/* In the order of keys. */
static int amend(struct lh_master *m, const struct lh_change *const *sorted, size_t count,
    char *text, size_t text_size)
{
    int error = LH_OK;

    for (size_t i = 1; i < count; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            return CORRUPT("a commit has a key twice");
    if (m->cluster_id == NULL && count > 0 &&
        (sorted[0]->key_size != 1 || sorted[0]->key[0] != LH_M_STORED_MASTER))
        return CORRUPT("it has no master's record; is this a master's data directory?");
    for (size_t i = count; i > 0 && error == LH_OK; i--)
        error = goes(m, sorted[i - 1], text, text_size);
    for (size_t i = 0; i < count && error == LH_OK; i++)
        error = comes(m, sorted[i], text, text_size);
    if (error == LH_OK && (lh_idmap_from(&m->files, m->next_file) != NULL ||
                              lh_idmap_from(&m->chunks, m->next_chunk) != NULL))
        return CORRUPT("files or chunks have higher numbers than were given out");
    if (LH_PLANTED("gap-not-noticed") || LH_PLANTED("end-of-reign-not-noticed"))
        return error; /* the sum notices it, too */
    return error != LH_OK ? error : lh_m_check_pairs(m, text, text_size);
}

int lh_master_amend(struct lh_master *m, const struct lh_change *changes, size_t count, char *text,
    size_t text_size)
{
    const struct lh_change **sorted = lh_alloc_array(count + 1, sizeof *sorted);

    LH_ASSERT(!m->started);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &changes[i];
    qsort(sorted, count, sizeof *sorted, compare_keys);
    int error = amend(m, sorted, count, text, text_size);
    free(sorted);
    return error;
}
