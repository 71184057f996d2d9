/* Reading replicas back, at the start and whenever a log was cut. */
#pragma once

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
