/* `leasehold top`: servers, leases and locks as tables. */
#pragma once

#include "client/command/top.h"

/* The newest sample that has all; NULL: there is none. The functions below need one. */
const struct lh_top_sample *lh_top_shown(const struct lh_top_history *history);

/* `sort`: 0 is by what has to be looked at first; top_views.c names them. */
void lh_top_servers(const struct lh_top_history *history, unsigned sort, struct lh_top_rows *rows);
void lh_top_leases(const struct lh_top_history *history, unsigned sort, struct lh_top_rows *rows);
void lh_top_locks(const struct lh_top_history *history, unsigned sort, struct lh_top_rows *rows);

/* The first of these, with a title; nothing if there are none. */
void lh_top_about_to_change(const struct lh_top_history *history, struct lh_top_rows *rows);

#define LH_TOP_RATE_BYTES 48u

/* "12.3 MB"; "-": not known. */
const char *lh_top_rate_text(char text[LH_TOP_RATE_BYTES], double rate);
const char *lh_top_bytes_rate_text(char text[LH_TOP_RATE_BYTES], double rate);
