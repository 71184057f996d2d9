/* What a check of somebody's wishes says when they make no sense. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Puts a sentence into `text`, cut off where it does not fit. False, for the check to return. */
bool lh_sim_complain(char *text, size_t text_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
