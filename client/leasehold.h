/* The library's header, where the benchmarks look for it. */
#include "client/library/leasehold.h"
