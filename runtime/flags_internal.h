/* What the files of flags share. */
#pragma once

#include "runtime/flags.h"

#include <stdio.h>

#define LH_FLAGS_ENV_PREFIX "LEASEHOLD_"

/* "yes", "off" and the like. False: not one, nothing set. */
bool lh_flag_parse_bool(const char *text, bool *value);

/* What stands for the option's value; "" for none. */
const char *lh_flag_metavar(const struct lh_flag *f);

/* --config, --help and --version. */
#define LH_FLAGS_COMMON 3u
extern const struct lh_flag lh_flags_common[LH_FLAGS_COMMON];

/* The beginning and the end of a manual page, around what stands between them. */
void lh_flags_roff_header(FILE *out, const struct lh_flags *flags, const char *version);
void lh_flags_roff_footer(FILE *out, const struct lh_flags *flags);

/* A number as a user would write it for that flag. */
void lh_flag_show(const struct lh_flag *f, uint64_t v, char *to, size_t size);

/* Zeroed memory that lives as long as the result. */
void *lh_flags_keep(struct lh_flags_result *result, size_t size);

/* Writes down what holds, all values being set. */
void lh_flags_note(struct lh_flags_result *result, const struct lh_flags *flags);
