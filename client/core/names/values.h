/* Values: reads with cache leases, drops, and what is broadcast (VAL-1, VAL-2, VAL-5). */
#pragma once

#include "client/core/names/internal.h"

/* ---- values.c */

void lh_client_value_read(struct lh_client_session *s, const Leasehold__ValueRead *m);
void lh_client_value_drop(struct lh_client_session *s, const Leasehold__Drop *m);
/* Reads it, for the cache alone. */
void lh_client_read_aside(struct lh_client_session *s, const char *name);
/* The answers that a planted bug put aside, behind those that came later. */
void lh_client_values_late(struct lh_client_session *s);
void lh_client_read_refused(struct lh_client_session *s, const Leasehold__Refused *m);
void lh_client_values_shown(struct lh_client_session *s, const Leasehold__Shown *m);
/* A stream is up: what is asked for goes again. */
void lh_client_reads_up(struct lh_client_session *s);
/* Every read ends; `complete` false: its calls never complete. */
void lh_client_reads_end(struct lh_client_session *s, bool complete, int error, const char *text);
void lh_client_values_deinit(struct lh_client_session *s);
void lh_client_values_check(const struct lh_client_session *s);

/* ---- broadcast.c: prefixes whose revision the answers to heartbeats name. */

/* The prefix `prefix` that a read's answer named: it is subscribed to. NULL: there are too many. */
const struct lh_client_prefix *lh_client_prefix_subscribe(
    struct lh_client_session *s, const char *prefix);
/* Bytes read at that revision of it can be served. */
bool lh_client_prefix_is_promised(
    const struct lh_client_prefix *p, uint64_t revision, struct lh_instant now);
void lh_client_prefixes_promised(struct lh_client_session *s, const Leasehold__BeatReply *m);
/* The stream is over, and with it what was promised on it. */
void lh_client_prefixes_void(struct lh_client_session *s);
/* Those that are subscribed to, one after the other; begin with `*cursor` 0. NULL: no more. */
const char *lh_client_prefix_next(const struct lh_client_session *s, uint64_t *cursor);
void lh_client_prefixes_deinit(struct lh_client_session *s);
