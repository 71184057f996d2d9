/* What a process does with the descriptors that it may have. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Opens /dev/null as each of standard input, output and error that is closed. Otherwise the next
 * files to be opened get these numbers, and what is written to a log goes into them. It is opened
 * the wrong way round: reading from it and writing to it fail, as from and to a closed one, and who
 * wanted to read or print hears of it. To be called before anything is opened. */
void lh_descriptors_standard(int argc, char **argv, char **environment);

/* In one source of a program: it is called before the constructors of libraries, which open files
 * too. */
#define LH_DESCRIPTORS_STANDARD_AT_FIRST                                                           \
    __attribute__((section(".preinit_array"), used)) static void (*const lh_descriptors_preinit)(  \
        int, char **, char **) = lh_descriptors_standard

/* How a server shares them out, so that a shortage of one kind is none of another. */
struct lh_descriptors {
    uint64_t limit;       /* RLIMIT_NOFILE, raised as far as it goes */
    uint64_t connections; /* that are accepted at once */
    uint64_t files;       /* chunk files that are kept open */
};

/* Raises the soft limit to the hard one and shares it out: to connections half of what is left
 * after a fixed reserve (less where the other half would be too small), or as many as `connections`
 * says if it is not 0; to files at most `files` and at most half of the rest; what remains is for
 * connections that the server opens itself. `files` 0: it keeps none. SYSTEM: the limit is too low;
 * `why` is a sentence. */
LH_MUST_USE int lh_descriptors_share(
    uint64_t connections, uint64_t files, struct lh_descriptors *share, char *why, size_t why_size);

/* The sharing out alone, of `limit`. */
LH_MUST_USE int lh_descriptors_share_of(uint64_t limit, uint64_t connections, uint64_t files,
    struct lh_descriptors *share, char *why, size_t why_size);
