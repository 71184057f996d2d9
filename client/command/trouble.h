/* What is wrong, in sentences: the same words wherever they are shown. Pure. */
#pragma once

#include "base/error.h"
#include "client/library/leasehold.h"

#include <stddef.h>

/* Hears one sentence; `arg` is the caller's. */
typedef void lh_trouble_say(void *arg, const char *sentence);

/* Masters that do not answer or do not act, and what is wrong with their store. */
void lh_trouble_of_masters(const struct lh_master_list *list, lh_trouble_say *say, void *arg);

/* What an operator has to do something about: chunks that cannot be read, drains that do not get
 * on, and that nothing is deleted. */
void lh_trouble_of_servers(const struct lh_server_list *list, lh_trouble_say *say, void *arg);

/* The rest of what is not as it should be: servers that are away or not well, a last replica,
 * sessions that are not back. */
void lh_trouble_beside(const struct lh_server_list *list, lh_trouble_say *say, void *arg);

#define LH_TROUBLE_REPAIR_BYTES 384u

/* How the repair goes on, in one sentence. */
const char *lh_trouble_repair(
    char text[LH_TROUBLE_REPAIR_BYTES], const struct lh_repair_info *repair);

#define LH_TROUBLE_VERDICT_BYTES 2048u

/* What explain says of a file or chunk before the reasons. */
const char *lh_trouble_verdict(
    char text[LH_TROUBLE_VERDICT_BYTES], const struct lh_explanation *explanation);
