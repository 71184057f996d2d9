/* What the files of flags share. */
#pragma once

#include "runtime/flags.h"

#define LH_FLAGS_ENV_PREFIX "LEASEHOLD_"

/* "yes", "off" and the like. False: not one, nothing set. */
bool lh_flag_parse_bool(const char *text, bool *value);

/* A number as a user would write it for that flag. */
void lh_flag_show(const struct lh_flag *f, uint64_t v, char *to, size_t size);
