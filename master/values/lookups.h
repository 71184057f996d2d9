/* Cached lookups of files, and what is the same for them and for values (VAL-7). */
#pragma once

#include "master/values/changing.h"

/* Names and lookups: may the program read it? The text says why not. */
int lh_m_cached_name_check(
    const struct lh_m_program *p, const char *text, char *why, size_t why_size);
/* Of what would be read; 0: nothing. `name` may be NULL. */
uint64_t lh_m_cached_revision(const struct lh_master *m, const struct lh_m_name *name);
/* What is read, with its bytes in `bytes`. */
#define LH_M_LOOKUP_BYTES 128u
void lh_m_lookup_fill(struct lh_master *m, const Leasehold__ReadValue *asked,
    Leasehold__ValueRead *read, uint8_t bytes[LH_M_LOOKUP_BYTES]);
/* PS-3, of sessions that may have cached lookups. */
bool lh_m_lookups_awaited(const struct lh_master *m);
/* Does what the change says, and frees it. True: the path's file is another one now, or none. */
bool lh_m_path_carry_out(struct lh_master *m, struct lh_m_change *c);
