/* The writer table (APP-5): per writer, what of its sequence this log holds, and where its last
 * batches lie. Rebuilt from the log, and cut or dropped whenever the log is cut. */
#pragma once

#include "batch/batch.h"

#include <uthash.h>

/* One stored batch, as far as a repeat of it has to be recognised. */
struct lh_stored_batch {
    uint64_t sequence;
    uint64_t offset;
    uint32_t count;
    uint32_t size;
    uint32_t crc;
};

struct lh_writer {
    uint64_t id;
    uint64_t first; /* sequence numbers stored: first to last, without a gap */
    uint64_t last;
    /* A ring; the oldest at `oldest`. It grows as it fills: most writers store one batch. */
    struct lh_stored_batch *recent;
    uint32_t oldest, count, capacity;
    UT_hash_handle hh;
};

struct lh_writers {
    struct lh_writer *by_id;
};

/* NULL: nothing of this writer is stored here. */
struct lh_writer *lh_writers_find(const struct lh_writers *w, uint64_t id);

/* Notes a batch that now lies at `offset`. False, and nothing noted, when it does not continue the
 * writer's sequence. */
bool lh_writers_note(struct lh_writers *w, const struct lh_batch_header *h, uint64_t offset);

enum lh_sequence {
    LH_SEQUENCE_NEXT,   /* continues the writer's sequence: store it */
    LH_SEQUENCE_REPEAT, /* stored already, with the same bytes */
    LH_SEQUENCE_GAP,    /* begins behind the next one */
    LH_SEQUENCE_OTHER,  /* within what is stored, but not one of the last batches as they were */
};

/* What `h` is to this log. `opened_at`: the sequence number with which the writer opened, which
 * counts while nothing of it is stored. On REPEAT `*found` is the stored batch. */
enum lh_sequence lh_writers_classify(const struct lh_writers *w, const struct lh_batch_header *h,
    uint64_t opened_at, const struct lh_stored_batch **found);

/* The i-th of the remembered batches, oldest first. */
const struct lh_stored_batch *lh_writer_recent(const struct lh_writer *w, uint32_t i);

/* Forgets every batch at log offset `length` or behind it: the log is being cut there. False: of
 * some writer more may have been cut than is remembered, and the table is of no use any more. */
LH_MUST_USE bool lh_writers_cut(struct lh_writers *w, uint64_t length);

void lh_writers_clear(struct lh_writers *w);
