/* Readers: each one place in one file, and its way from chunk to chunk, ahead of the program
 * (APP-6). Each chunk's bytes come from one member or another (FAIL-4). */
#pragma once

#include "client/core/names/names.h"

struct lh_client_readers;

struct lh_client_readers *lh_client_readers_create(
    struct lh_client_host *c, struct lh_client_names *names);
/* All have ended. */
void lh_client_readers_destroy(struct lh_client_readers *all);
void lh_client_readers_check(const struct lh_client_readers *all);

void lh_client_reader_open(struct lh_client_readers *all, struct lh_reader_open_call *call);
void lh_client_reader_close(struct lh_reader_close_call *call);
void lh_client_reader_fetch(struct lh_fetch_call *call);
void lh_client_readers_end(struct lh_client_readers *all, bool complete);
