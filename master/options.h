/* The options of leasehold-master: command line, environment, config file. */
#pragma once

#include "master/config.h"
#include "master/etcd_options.h"
#include "master/reigns/reigns.h"
#include "runtime/flags.h"
#include "runtime/server.h"

#include <stdbool.h>
#include <stdint.h>

struct lh_master_options {
    struct lh_server_options server;
    const char *advertise, *master_id;
    const char *http_listen;       /* for people with a browser; NULL: none */
    const char *http_hosts;        /* names of its host in browsers */
    char page[320];                /* its address, as other masters' pages name it */
    const char *data_dir;          /* where metadata is, by LMDB; NULL: in etcd */
    struct lh_reign_config reigns; /* where it is in etcd; else its `master` alone counts */
    struct lh_etcd_options etcd;

    /* What the above are made of. */
    const char *store;
    struct lh_duration session_term, chunk_term, create_timeout, suspect_after, grace;
    struct lh_duration capability_term;
    struct lh_duration program_term_max;
    struct lh_duration trash_retention, reign_term;
    uint64_t drift_ppm, replication, min_replicas, chunk_size, repair_streams;
    bool restored, balance;
    int on_primary_loss;         /* index of the choices */
    struct lh_flags_result args; /* what the others point into */
};

/* False: nothing is to be run, and `code` is what to exit with; said to stderr or stdout. Otherwise
 * they are to be freed. */
bool lh_master_options_parse(struct lh_master_options *o, int argc, char **argv, int *code);
void lh_master_options_free(struct lh_master_options *o);
