/* Everything that shapes a run besides what is done in it: how large the cluster is, how its
 * network, disks and clocks are, and what the observers should let pass. Printed as lines of a
 * scenario file and read from there; only what differs from the default is printed.
 *
 *   seed 417
 *   chunkservers 5
 *   session term 3s
 *   sync takes 1ms..5ms
 *
 * The whole list stands in settings.c. */
#pragma once

#include "sim/cluster/program.h"
#include "sim/scenario/action.h"
#include "sim/scenario/bounds.h"
#include "sim/scenario/phrase.h"

#define LH_SIM_FILES_MAX      64
#define LH_SIM_PLANT_NAME_MAX 63

/* A file that exists when the run begins. */
struct lh_sim_file_setting {
    char path[LH_SIM_PATH_MAX + 1];
    bool synced;
    uint32_t replication, min_replicas; /* 0: the master's default */
    uint64_t chunk_size;
    uint32_t on_loss; /* Leasehold__OnPrimaryLoss */
};

struct lh_sim_settings {
    uint64_t seed;
    uint32_t servers, clients, strangers;
    uint32_t masters, etcd;         /* several masters share a store in so many members of etcd */
    struct lh_duration reign_term;  /* T_reign */
    bool watchers;                  /* of masters' processes (HA-3a) */
    struct lh_sim_range etcd_takes; /* from a request's arrival until it takes effect */
    struct lh_duration session_term, chunk_term;
    uint32_t drift_ppm;
    uint32_t replication, min_replicas;
    uint64_t chunk_size;
    struct lh_duration create_timeout;
    struct lh_duration member_timeout, drain_timeout; /* 0: the chunkserver's defaults */
    uint32_t on_loss; /* Leasehold__OnPrimaryLoss of files that do not say */
    struct lh_duration suspect_after, grace, trash_retention;
    uint32_t repair_streams;
    uint64_t repair_rate;            /* bytes a second, of each chunkserver; UINT64_MAX: no limit */
    struct lh_duration scrub_period; /* 0: no scrub */
    bool balance;
    struct lh_sim_range delay, notice, write, sync, read, commit; /* as in world.h */
    uint64_t piece_bytes;
    uint64_t wire; /* as in world.h */
    struct lh_sim_tail delay_tail, disk_tail;
    struct lh_duration timer_late;
    uint64_t bounds[LH_SIM_BOUNDS_MAX]; /* of the cores (bounds.h); 0: as shipped */
    bool clocks_beyond_rho;             /* INV-1 and INV-2 may break (INV-7) */
    bool replicas_may_be_lost;          /* one good member of a settled chunk is enough */
    bool capabilities;                  /* chunkservers ask for them (ACC-5) */
    bool roles;                         /* certificates: strangers may read at most */
    bool newcomers;                     /* who starts does not know its cluster (SES-10) */
    bool ruin; /* more damage than the protocol survives: loss must be reported, nothing else */
    char plant[LH_SIM_PLANT_NAME_MAX + 1]; /* a planted bug that is switched on; "": none */
    struct lh_sim_file_setting files[LH_SIM_FILES_MAX];
    uint32_t file_count;
};

/* Three chunkservers, one client, short terms (3 s and 9 s), chunks of 64 KiB, no files. */
struct lh_sim_settings lh_sim_settings_default(uint64_t seed);

/* One line for each setting that is not the default; the seed always. */
void lh_sim_settings_print(const struct lh_sim_settings *settings, FILE *to);

/* Reads one line's setting, as one phrase among others. False: `w` knows what would have been
 * possible. Words may be left. */
bool lh_sim_settings_parse_words(struct lh_sim_settings *settings, struct lh_sim_words *w);

/* INVALID_ARGUMENT: `text` says which setting is out of range or contradicts another one. */
LH_MUST_USE int lh_sim_settings_check(
    const struct lh_sim_settings *settings, char *text, size_t text_size);

/* The cluster that they describe; they were checked. Files and a planted bug are up to whoever
 * runs it. */
struct lh_sim_cluster_config lh_sim_settings_config(const struct lh_sim_settings *settings);

/* The nodes that there are. */
struct lh_sim_crew lh_sim_settings_crew(const struct lh_sim_settings *settings);

/* A bug of that name can be planted (base/probe.h). */
bool lh_sim_is_planted(const char *name);

extern const struct lh_sim_slot_type lh_sim_slot_plant; /* char[LH_SIM_PLANT_NAME_MAX + 1] */
