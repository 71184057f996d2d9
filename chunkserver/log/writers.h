/* The writer table (APP-5): per writer, what of its sequence this log holds, and where its last
 * batches lie. Rebuilt from the log, and cut or dropped whenever the log is cut.
 *
 * Of the chunks that are open most have one writer, which has stored one batch: their table is one
 * allocation of 64 bytes. A table of few writers is searched from its beginning; one of more has an
 * index, in the same allocation, so that thousands of writers cost each other nothing. */
#pragma once

#include "batch/batch.h"

/* One stored batch, as far as a repeat of it has to be recognised. */
struct lh_stored_batch {
    uint64_t sequence;
    uint32_t offset; /* in the log */
    uint32_t count;
    uint32_t size;
    uint32_t crc;
};

struct lh_writer {
    uint64_t id;
    uint64_t first; /* sequence numbers stored: first to last, without a gap */
    uint64_t last;
    /* A ring of the last batches; the oldest at `oldest`. It grows as it fills, and while it has
     * room for one that lies here. */
    uint8_t oldest, count, capacity;
    union {
        struct lh_stored_batch one;
        struct lh_stored_batch *more;
    } recent;
};

/* So many writers are found without an index. */
#define LH_WRITERS_FEW 16u

/* Never empty: of no writer there is no table, but NULL. */
struct lh_writers {
    uint32_t count;
    uint32_t capacity; /* a power of two */
    /* In no order. With a capacity above LH_WRITERS_FEW the index lies behind them: twice as many
     * places as there is room for writers, in each a writer's place here plus 1, or 0. */
    struct lh_writer all[];
};

/* There are as many as chunks that are open. */
_Static_assert(LH_CHUNK_BYTES_MAX <= UINT32_MAX, "an offset in a log has 32 bits here");
_Static_assert(LH_WRITER_WINDOW <= UINT8_MAX, "as do places in a ring 8");
_Static_assert(sizeof(struct lh_writers) + sizeof(struct lh_writer) == 64,
    "a table of one writer is what jemalloc gives without loss");

/* A writer or a batch that is found in a table is good until that changes. NULL is the table of no
 * writer, everywhere here. */

/* NULL: nothing of this writer is stored here. */
const struct lh_writer *lh_writers_find(const struct lh_writers *w, uint64_t id);
/* How many there are. */
size_t lh_writers_count(const struct lh_writers *w);

/* Notes a batch that now lies at `offset`. False, and nothing noted, when it does not continue the
 * writer's sequence. */
bool lh_writers_note(struct lh_writers **w, const struct lh_batch_header *h, uint64_t offset);

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
LH_MUST_USE bool lh_writers_cut(struct lh_writers **w, uint64_t length);

/* Frees the table. */
void lh_writers_clear(struct lh_writers **w);
