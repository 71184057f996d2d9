/* What the library returns, as JSON. docs/command.md lists the names, which stay.
 *
 * Each function returns a new reference. Texts that are no UTF-8 (a failure domain may be anything)
 * are passed on with '?' for the bytes that are not: a document is always whole. */
#pragma once

#include "client/command/command.h"

json_t *lh_json_text(const char *text);

/* 64 bits as "0123456789abcdef": checksums, which most readers of JSON would round. */
json_t *lh_json_hex(uint64_t value);

json_t *lh_json_file(const struct lh_file_info *info);
json_t *lh_json_chunk(const struct lh_chunk_info *c);
json_t *lh_json_chunk_state(const struct lh_chunk_state *s);
json_t *lh_json_lease(const struct lh_lease_info *l);
json_t *lh_json_server(const struct lh_server_info *s);
json_t *lh_json_refused(const struct lh_refused_info *r);
json_t *lh_json_master(const struct lh_master_info *m);
json_t *lh_json_repair(const struct lh_repair_info *r);
json_t *lh_json_figures(const struct lh_master_figures *f);

json_t *lh_json_holder(const struct lh_lock_holder *h);
json_t *lh_json_name(const struct lh_name_info *n);
json_t *lh_json_value(const char *name, const void *data, size_t size, uint64_t revision);

/* Prints `json` if that is wanted; either way its reference is given back. NULL: nothing. */
void lh_json_finish(bool wanted, json_t *json);

/* The sub-objects above, in an array under `name`: `{"name": [...]}`. Takes `array` over. */
json_t *lh_json_list(const char *name, json_t *array);

/* What a command of one or several arguments prints: the only element of `array`, or all under
 * `name`. Takes `array` over; NULL when it is empty. */
json_t *lh_json_one_or_list(const char *name, json_t *array);
