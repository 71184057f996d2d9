/* A chunk reader: the bytes of one chunk for one reader, from one member or another (FAIL-4). */
#pragma once

#include "client/core/host/host.h"

struct lh_client_reader;
struct lh_client_chunk_reader;

/* Verified bytes that wait for a FETCH. */
struct lh_client_ready {
    struct lh_client_ready *next;
    struct lh_buf batches;
    uint64_t offset; /* in the file */
};

/* One READ, under way or over. Lives inside its chunk reader. */
struct lh_client_read {
    struct lh_client_chunk_reader *cr;
    struct lh_link link;   /* `id` 0: it is over */
    struct lh_timer timer; /* its end */
    char *address;         /* that is asked or was asked last; NULL: none yet */
    struct lh_instant begun;
    struct lh_instant whole_by; /* however it comes on */
    uint64_t for_fetch;         /* the FETCH that it was begun for; 0: ahead of any */
    bool resync;                /* what is whole at or behind the offset was asked for */
    bool waits;                 /* for more bytes */
};

/* What has become of a member. */
struct lh_client_tried {
    bool tried, corrupt, unreadable; /* in the round over all members */
    /* Behind damage (REC-9a): what it has answered to that, and where in the chunk its next whole
     * batch begins, or where the chunk ends. LH_OK: nothing yet. */
    int said;
    uint64_t next;
};

/* A chunk that a reader reads, and the READs of it that are under way: one, or two of the same
 * bytes when the first is late. */
struct lh_client_chunk_reader {
    struct lh_client_chunk_reader *next;
    struct lh_client_reader *reader;
    struct lh_client_chunk chunk;
    struct lh_client_tried *tried; /* by member */
    uint64_t offset;               /* in the chunk: of the next READ */
    uint64_t checksum;             /* of the log in front of it (REC-2) ... */
    bool checksum_known;           /* ... from its beginning, or from the READs before */
    struct lh_client_ready *first, *last;
    struct lh_client_read reads[2]; /* the later one of two is the hedge */
    struct lh_timer timer;          /* with a READ under way: it is late then; else a pause */
    size_t member;                  /* that was asked last, or is to be asked next */
    unsigned failures;              /* rounds over all members in a row */
    bool resync;                    /* members were damaged here: where do they go on? (REC-9a) */
    bool confirmed;                 /* ... and the master has named the members since */
    bool behind_gap;                /* nothing was read since a gap was reported */
    bool at_end;                    /* unsealed, and nothing more when last asked */
    bool stale;                     /* a member has refused the capability that it has (ACC-5) */
    bool renewed;                   /* the master gave another one; nothing has come since */
};

/* One behind the reader's others, which reads from `offset` in the chunk on; begins nothing. */
struct lh_client_chunk_reader *lh_client_chunk_reader_add(
    struct lh_client_reader *r, const Leasehold__ChunkInfo *info, uint64_t offset);

/* With its READs and what is ready. The caller has taken it off the reader's list. */
void lh_client_chunk_reader_free(struct lh_client_chunk_reader *cr);

/* Takes newer knowledge of its chunk. False when it cannot be true. */
bool lh_client_chunk_reader_refresh(
    struct lh_client_chunk_reader *cr, const Leasehold__ChunkInfo *info);

/* Where in the file its next READ begins. */
uint64_t lh_client_chunk_reader_position(const struct lh_client_chunk_reader *cr);

/* Whether the chunk was read to its sealed end. */
bool lh_client_chunk_reader_exhausted(const struct lh_client_chunk_reader *cr);

/* Whether the next READ is for the primary only: the end of the file is asked of nobody else
 * (APP-6). */
bool lh_client_chunk_reader_needs_primary(const struct lh_client_chunk_reader *cr);

/* Whether a READ is under way. */
bool lh_client_chunk_reader_reading(const struct lh_client_chunk_reader *cr);

/* Begins a READ, of the member whose turn it is; none is under way. */
void lh_client_chunk_reader_read(struct lh_client_chunk_reader *cr);

/* For its READs. */

/* The bytes, or the word that there are none, have come. */
void lh_client_chunk_reader_helped(struct lh_client_chunk_reader *cr);

/* A member did not help, or there was none to be asked. May free chunk readers. */
void lh_client_chunk_reader_failed(
    struct lh_client_chunk_reader *cr, int error, const char *address, const char *text);

/* gap.c: what no member can give (REC-9a), for a reader that skips it. */

/* A round over the members has failed, at least one of them for damage: asks from now on where they
 * go on. */
void lh_client_gap_look(struct lh_client_chunk_reader *cr);

/* The READ was answered: with what lies behind `offset`, if true. */
bool lh_client_gap_answered(
    struct lh_client_chunk_reader *cr, const char *address, const Leasehold__ReadReply *m);

/* The member has nothing at all from `offset` on. */
void lh_client_gap_nothing(struct lh_client_chunk_reader *cr, const char *address, int error);

/* Reports the gap to the FETCH under way and goes behind it, if each member has answered. False:
 * one has not, which may have what the others lack. */
bool lh_client_gap_pass(struct lh_client_chunk_reader *cr);

/* Batches were taken: nothing is known of damage here. */
void lh_client_gap_forget(struct lh_client_chunk_reader *cr);

/* The master's newer list of members has replaced `old`, of which `tried` was known. */
void lh_client_gap_refreshed(struct lh_client_chunk_reader *cr, const struct lh_client_chunk *old,
    const struct lh_client_tried *tried);

/* request.c */

/* Asks that member for what follows `offset`; it may wait for more bytes for so long. */
void lh_client_read_begin(
    struct lh_client_chunk_reader *cr, size_t member, struct lh_duration wait);

/* Nothing if it is over. */
void lh_client_read_cancel(struct lh_client_read *read);

/* That READ's time is over. May free chunk readers. */
void lh_client_read_out_of_time(void *core, struct lh_timer *timer);
