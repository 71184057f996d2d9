/* Room on the disk, reserved ahead of a log's end. */
#pragma once

#include <stdint.h>

struct lh_cs_logs;
struct lh_cs_replica;

void lh_cs_space_init(struct lh_cs_logs *logs);
/* A log was made, or was given bytes to write: it is expected to grow on. */
void lh_cs_space_grows(struct lh_cs_replica *r);
/* Reserves more, if it is time. */
void lh_cs_space_ahead(struct lh_cs_replica *r);
/* What was reserved is given back: a job says so. */
void lh_cs_space_given_back(struct lh_cs_replica *r);
/* It grows no more. */
void lh_cs_space_rests(struct lh_cs_replica *r);
/* Bytes that growing logs may still take: not to be promised to others. */
uint64_t lh_cs_space_promised(const struct lh_cs_logs *logs);
