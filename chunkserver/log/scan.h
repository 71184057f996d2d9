/* Reading replicas back, at the start and whenever a log was cut. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_cs_replica;

/* The replica is read back, or given up: the registration waits for it no longer. */
void lh_cs_scan_loaded(struct lh_cs_replica *r);
/* Reads its log back from the beginning. */
void lh_cs_scan_start(struct lh_cs_replica *r);
/* Forgets a scan that is under way. */
void lh_cs_scan_stop(struct lh_cs_replica *r);
/* Asks again for what was refused. */
void lh_cs_scan_again(struct lh_cs_replica *r);
/* Reads its header, and its log if that is not sealed. */
void lh_cs_scan_load(struct lh_cs_replica *r);

/* For behind.h. */

/* A read was refused, or not: true if it is asked for again later. */
bool lh_cs_scan_asked_again(struct lh_cs_replica *r, int error);
/* The log goes as far as `end`, where its running checksum is that. */
void lh_cs_scan_reaches(struct lh_cs_replica *r, uint64_t end, uint64_t checksum);
/* Nothing more can be shown to belong to the log: it ended where it is known to, and is lost. */
void lh_cs_scan_lost(struct lh_cs_replica *r, int error, uint64_t offset);
