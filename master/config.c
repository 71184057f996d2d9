#include "master/config.h"

#include "lease/term.h"

#include <stdio.h>

void lh_master_config_fill(struct lh_master_config *config)
{
#define X(name, preset_ms, what)                                                                   \
    if (config->name.ns == 0)                                                                      \
        config->name = lh_milliseconds(preset_ms);
    LH_MASTER_TIMES(X)
#undef X
#define X(name, preset, what)                                                                      \
    if (config->name == 0)                                                                         \
        config->name = preset;
    LH_MASTER_COUNTS(X)
#undef X
}

struct lh_master_config lh_master_config_default(void)
{
    struct lh_master_config config = {
        .session_term = lh_seconds(10),
        .chunk_term = lh_seconds(60),
        .drift_ppm = LH_DRIFT_PPM_DEFAULT,
        .replication = 3,
        .min_replicas = 2,
        .chunk_size = UINT64_C(64) << 20,
        .on_primary_loss = LH_LOSS_ROLL,
        .suspect_after = lh_milliseconds(300),
        .create_timeout = lh_seconds(3),
        .grace = lh_seconds(300),
        .repair_streams = 2,
        .waiters_max = 65536,
        .waiters_file_max = 4096,
        .servers_max = 10000,
        .replicas_max = 1u << 22,
        .balance = true,
        .trash_retention = lh_seconds(24u * 3600),
    };

    lh_master_config_fill(&config);
    return config;
}

int lh_master_config_check(const struct lh_master_config *config, char *text, size_t text_size)
{
    const char *wrong = NULL;

    if (config->session_term.ns < LH_SESSION_TERM_MIN_NS ||
        config->session_term.ns > LH_SESSION_TERM_MAX_NS)
        wrong = "the session term must be between 200 ms and an hour";
    else if (config->chunk_term.ns < config->session_term.ns)
        wrong = "the chunk term must not be shorter than the session term";
    else if (config->chunk_term.ns > 24 * LH_SESSION_TERM_MAX_NS)
        wrong = "the chunk term must not be longer than a day";
    else if (config->drift_ppm > LH_DRIFT_PPM_MAX)
        wrong = "the clock drift must be at most 200000 parts per million";
    else if (config->replication == 0 || config->replication > LH_REPLICATION_MAX)
        wrong = "the replication must be between 1 and 16";
    else if (config->min_replicas == 0 || config->min_replicas > config->replication)
        wrong = "the smallest number of replicas must be between 1 and the replication";
    else if (config->chunk_size < LH_CHUNK_BYTES_MIN || config->chunk_size > LH_CHUNK_BYTES_MAX)
        wrong = "the chunk size must be between 64 KiB and 1 GiB";
    else if (config->on_primary_loss != LH_LOSS_ROLL && config->on_primary_loss != LH_LOSS_WAIT)
        wrong = "a file rolls over or waits when its primary is lost";
    else if (config->suspect_after.ns < 1000000)
        wrong = "a primary must be given at least 1 ms to show that it lives";
    else if (config->trash_retention.ns > LH_TRASH_RETENTION_MAX_NS)
        wrong = "the trash must not keep files for longer than ten years";
    else if (config->create_timeout.ns == 0)
        wrong = "the timeout for creating a replica must not be zero";
    else if (config->repair_streams > LH_REPAIR_STREAMS_MAX)
        wrong = "a chunkserver can receive at most 64 replicas at a time";
    else if (config->program_term_max.ns < config->program_term_min.ns)
        wrong = "the longest term of a program's session must not be below the shortest one: a "
                "second, and with several masters the reign term and two seconds";
    if (wrong == NULL)
        return LH_OK;
    snprintf(text, text_size, "%s", wrong);
    return LH_ERR_INVALID_ARGUMENT;
}
