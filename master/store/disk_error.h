/* What an error of a call on a master's directory stands for. It says nothing of what is stored, so
 * it never stands for a directory that is missing, damaged, another's or not meant: with those a
 * master is not started again. */
#pragma once

#include <stddef.h>

/* DISK_FULL; SHORTAGE: of descriptors or memory; IO: all others. */
int lh_disk_error(int code);

/* The same of errno, with a sentence: `what` could not be done. */
int lh_disk_refuse(const char *path, const char *what, char *why, size_t why_size);

/* There is no directory, and mkdir() failed with `code`. That its parent is missing, or closed to
 * this user, is a mistake of options: what lh_error_from_errno() says of it. */
int lh_disk_not_created(const char *path, int code, char *why, size_t why_size);
