/* What is reported to the master of replicas that come and go: created, lost. */
#pragma once

#include <stdint.h>

struct lh_cs_host;
struct lh_cs_logs;
struct lh_cs_replica;

void lh_cs_report_created(struct lh_cs_host *cs, uint64_t chunk, int error);
/* It was created, or could not be, whoever asked for it: a registration does not show what is being
 * created. */
void lh_cs_report_creation(struct lh_cs_replica *r, int error);
void lh_cs_report_lost(struct lh_cs_replica *r, int error);
/* A registration says what it is: nothing of before is left to be reported. */
void lh_cs_report_registered(struct lh_cs_replica *r);
/* A session has begun: reports replicas that were lost, or created, after its registration was
 * sent. */
void lh_cs_report_unreported(struct lh_cs_logs *logs);
