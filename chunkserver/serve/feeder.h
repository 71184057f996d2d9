/* Another server's stream to this one, and what it feeds: a replica of each chunk of which that
 * server is the primary. */
#pragma once

#include "chunkserver/serve/internal.h"

/* An answer that has not been sent. */
struct lh_cs_feed_answer {
    Leasehold__ReplicateAnswer m; /* without its text */
    char *text;                   /* NULL: none; owned */
};

struct lh_cs_feeder {
    struct lh_cs_serving *serving;
    uint64_t link;
    struct lh_cs_feed *feeds;
    struct lh_cs_feed_answer *answers;
    size_t answer_count, answer_capacity;
    uint64_t gone;           /* answers that were before these: sent, or of no use any more */
    struct lh_outbox outbox; /* answers gather while it is in flight */
};

/* What a primary sends to one replica, from an ADOPT on. */
struct lh_cs_feed {
    struct lh_cs_feeder *feeder;
    struct lh_cs_replica *replica;
    uint64_t id;                    /* unlike that of any other feed that this process ever had */
    uint64_t number;                /* the primary's name for it */
    uint64_t version;               /* that it adopts */
    uint64_t acked;                 /* the durable length that was last reported */
    uint64_t reporting;             /* the number of that report, counted from the feeder's first
                                      answer, from 1 on; up to `gone`: it does not wait any more */
    bool adopted;                   /* its ADOPT was answered: bytes may come */
    struct lh_instant reported_at;  /* when the primary last heard that bytes come */
    struct lh_buf rest;             /* of a batch that is not whole yet */
    struct lh_cs_feed *prev, *next; /* of the feeder */
};

/* The feed of a replica begins; it had none. */
struct lh_cs_feed *lh_cs_feed_begin(
    struct lh_cs_feeder *feeder, struct lh_cs_replica *r, const Leasehold__ReplicatePart *part);
/* It is over; reports of it that were not sent never are. */
void lh_cs_feed_free(struct lh_cs_feed *f);

/* Puts an answer behind those that wait; it goes at the end of the step, or when the way is free.
 * `text` is copied and may be NULL. */
void lh_cs_feeder_answer(
    struct lh_cs_feeder *feeder, const Leasehold__ReplicateAnswer *m, const char *text);
/* The same, in place of the feed's last report if that has not been sent. */
void lh_cs_feed_report(struct lh_cs_feed *f, const Leasehold__ReplicateAnswer *m);

/* Of a link that another server opened: made when its first message comes. */
struct lh_cs_feeder *lh_cs_feeder_of(struct lh_cs_link *l);
/* The link is gone. */
void lh_cs_feeder_free(struct lh_cs_feeder *feeder);
void lh_cs_feeder_sent(struct lh_cs_link *l);
