/* The options of leasehold-chunkserver: command line, environment, config file. */
#pragma once

#include "base/time.h"
#include "runtime/flags.h"
#include "runtime/server.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct lh_chunkserver_options {
    struct lh_server_options server;
    const char *advertise, *data_dir, *server_id, *failure_domain;
    struct lh_flag_list masters;
    uint64_t capacity, disk_threads, open_files, pending_bytes, repair_rate, scrub_rate;
    struct lh_duration member_timeout, drain_timeout, stop_timeout, scrub_period;
    bool uring;
    char host[HOST_NAME_MAX + 1]; /* the failure domain that is preset */
    struct lh_flags_result args;  /* what the others point into */
};

/* False: nothing is to be run, and `code` is what to exit with; said to stderr or stdout. Otherwise
 * they are to be freed. */
bool lh_chunkserver_options_parse(
    struct lh_chunkserver_options *o, int argc, char **argv, int *code);
void lh_chunkserver_options_free(struct lh_chunkserver_options *o);
