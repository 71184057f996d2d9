/* Copying a replica from other servers (REC-4). */
#pragma once

#include "chunkserver/serve/internal.h"

/* `cut_to`: nothing is to be cut. */
#define LH_CS_NO_CUT UINT64_MAX

struct lh_cs_source {
    char *server_id;
    char *address; /* lh_server_at() */
};

struct lh_cs_copying {
    struct lh_cs_serving *serving;
    struct lh_cs_replica *replica;
    /* What the master asked for. */
    uint64_t version;
    uint64_t chunk_size;
    uint8_t durability;
    bool sealed;
    uint64_t length, checksum; /* sealed */
    struct lh_cs_source *sources;
    size_t source_count;

    size_t source;     /* the one in use, or tried next */
    size_t failed;     /* sources that failed since the last bytes came */
    size_t unfit;      /* of these: no batch of theirs begins where this log ends */
    uint64_t link;     /* a read under way; 0: none */
    bool from_start;   /* it only asks for the beginning, to see that the source is there */
    uint64_t reserved; /* bytes that it may bring, taken from the pace */
    uint64_t copied;   /* bytes that came over the network */
    uint64_t cut_to;   /* the log is cut to this before anything else; UINT64_MAX: it is not */
    bool marked;       /* LH_CS_JOB_COPY was submitted, or the mark was there at the start */
    bool met;          /* a source answered: what is here may be given up */
    bool made_anew;    /* the file is not the one that was lost */
    bool restarted;    /* it did not add up once, and was begun again from nothing */
    bool sealing;      /* all of it is here and agrees; the seal is being written */
    bool caught_up;    /* unsealed: all that the source said was committed is here, or nearly */
    bool reported;     /* and so it was reported to the master */
    int error;         /* why the replica was lost meanwhile */
    struct lh_instant progress_at, retry_at, forgotten_at;
    struct lh_duration backoff;
    struct lh_timer timer;
    struct lh_cs_copying *prev, *next;
};

/* Something about the replica has changed: goes on if it can. The copying may end here. */
void lh_cs_copying_pump(struct lh_cs_copying *c);
/* Ends it without a word to the master. What is here stays, and stays incomplete. */
void lh_cs_copying_end(struct lh_cs_copying *c);
/* Ends it with an error that is reported to the master. */
void lh_cs_copying_fail(struct lh_cs_copying *c, int error);

/* What is here does not go on as any source does, or does not add up to the seal. Once it is begun
 * again, from another source. The copying may end here. */
void lh_cs_copying_restart(struct lh_cs_copying *c);

/* copy_sources.c */
/* Asks the next source for what follows, or only whether it is there. The copying may end here. */
void lh_cs_copy_ask(struct lh_cs_copying *c, bool from_start);
void lh_cs_copy_drop_link(struct lh_cs_copying *c);
void lh_cs_copy_forget_sources(struct lh_cs_copying *c);
