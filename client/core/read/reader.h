/* A reader: one place in one file, and its way from chunk to chunk (APP-6). */
#pragma once

#include "client/core/read/chunk_reader.h"
#include "client/core/read/read.h"

struct lh_client_readers {
    struct lh_client_host *client;
    struct lh_client_names *names;
    struct lh_client_reader *all;

    /* silent.c */
    struct lh_client_silent *silent;
    size_t silent_count; /* at most `silent_servers` */

    /* hedge.c */
    struct lh_duration read_time, read_spread; /* of answered READs: usually; 0: none yet */
    uint64_t hedge_credit;                     /* in hundredths of a READ */
};

/* One place in one file. */
struct lh_client_reader {
    struct lh_client_host *client;
    struct lh_client_readers *readers;
    struct lh_client_reader *prev, *next; /* of these */
    char *path;
    uint64_t file;
    uint64_t chunk_size;
    uint64_t readahead;
    bool from_cache; /* opened from memory, it begins with chunks from there (VAL-7) */
    bool follow;
    bool skip_damaged; /* REC-9a */
    struct lh_reader_open_call *opening;
    struct lh_fetch_call *fetch; /* under way, or NULL */
    uint64_t fetches;            /* fed so far: the number of the present one */
    struct lh_client_chunk_reader *chunks;
    uint64_t start;    /* where the program said to begin */
    uint64_t held;     /* bytes ready and under way, in all chunks */
    uint64_t position; /* of the first chunk reader, or of the next chunk when there is none */
    struct lh_client_ask ask;
    Leasehold__StatRequest stat;
    Leasehold__LocateRequest locate;
    Leasehold__OpenTailRequest open_tail;
    uint64_t located_for;        /* the FETCH that the LOCATE under way was begun for */
    bool verifying;              /* ... after the primary said that there is no more */
    struct lh_timer timer;       /* the pause before the next LOCATE */
    struct lh_timer fetch_timer; /* the FETCH's deadline */
    unsigned failures;
    int reason; /* of the last failure since bytes came; LH_OK: none */
    char text[LH_CALL_TEXT_BYTES];
};

/* For its chunk readers. */

/* Remembers the last failure: what a FETCH that ends at its deadline tells. */
void lh_client_reader_say(
    struct lh_client_reader *r, int error, const char *what, const char *text);

/* Completes the FETCH under way, if there is one. */
void lh_client_reader_end_fetch(struct lh_client_reader *r, int error, const char *text);

/* Asks the master for the chunks from the first chunk reader's position on. `verifying`: the
 * primary has nothing more, and this is the file's end if the chunk still is its unsealed tail
 * (APP-6). */
void lh_client_reader_locate(struct lh_client_reader *r, bool verifying);

/* Nobody is known to act as the tail's primary, but only it can say where the end is: have the
 * master bring one, or name it. `primary_failed`: the one of the tail's version gave no answer, or
 * says that it is none. */
void lh_client_reader_open_tail(struct lh_client_reader *r, bool primary_failed);

/* Goes on: gives out what is ready, reads where there is room, asks the master when there is no
 * chunk reader. May free chunk readers. */
void lh_client_reader_pump(struct lh_client_reader *r);
