/* A master among others comes to be, with its settings, and ends. */
#include "master/reigns/internal.h"

#include "lease/term.h"

#include <stdio.h>
#include <stdlib.h>

void lh_reign_config_fill(struct lh_reign_config *config)
{
#define X(name, preset_ms, what)                                                                   \
    if (config->name.ns == 0)                                                                      \
        config->name = lh_milliseconds(preset_ms);
    LH_REIGN_TIMES(X)
#undef X
#define X(name, preset, least, what)                                                               \
    if (config->name == 0)                                                                         \
        config->name = preset;
    LH_REIGN_COUNTS(X)
#undef X
    if (config->reign_term.ns == 0)
        config->reign_term = lh_seconds(2);
    if (config->quota_bytes == 0)
        config->quota_bytes = UINT64_C(2) << 30;
    if (config->late_after.ns == 0)
        config->late_after = lh_nanoseconds(config->reign_term.ns / 4);
    if (config->again_after.ns == 0)
        config->again_after = lh_nanoseconds(config->reign_term.ns / 8);
    lh_master_config_fill(&config->master);
}

int lh_reign_config_check(const struct lh_reign_config *config, char *text, size_t text_size)
{
    const char *wrong = NULL;

    if (config->reign_term.ns < LH_REIGN_TERM_MIN_NS ||
        config->reign_term.ns > LH_REIGN_TERM_MAX_NS)
        wrong = "the reign's term must be between 300 ms and a minute";
    else if (config->id == NULL || config->id[0] == 0 ||
             strlen(config->id) > LH_MASTER_ID_BYTES_MAX)
        wrong = "a master needs an id of at most 128 bytes";
    else if (config->member_count == 0 || config->member_count > LH_ETCD_MEMBERS_MAX)
        wrong = "one to eight members of etcd must be given";
#define X(name, preset, least, what) else if (config->name < (least)) wrong = "too small: " what;
    LH_REIGN_COUNTS(X)
#undef X
    if (wrong == NULL)
        return lh_master_config_check(&config->master, text, text_size);
    snprintf(text, text_size, "%s", wrong);
    return LH_ERR_INVALID_ARGUMENT;
}

struct lh_reigns *lh_reigns_create(const struct lh_reign_config *config)
{
    struct lh_reigns *r = lh_alloc(sizeof *r);

    r->config = *config;
    lh_reign_config_fill(&r->config);
    r->config.id = lh_strdup(config->id);
    r->config.address = lh_strdup(config->address);
    r->config.page = lh_strdup(config->page == NULL ? "" : config->page);
    r->config.prefix = lh_strdup(config->prefix);
    r->config.user = config->user == NULL ? NULL : lh_strdup(config->user);
    r->config.password = lh_strdup(config->password == NULL ? "" : config->password);
    r->config.elsewhere = config->elsewhere == NULL ? NULL : lh_strdup(config->elsewhere);
    r->config.even_if_moved_to =
        config->even_if_moved_to == NULL ? NULL : lh_strdup(config->even_if_moved_to);
    r->config.cluster = config->cluster == NULL ? NULL : lh_strdup(config->cluster);
    for (uint32_t i = 0; i < config->member_count; i++)
        r->config.members[i] = lh_strdup(config->members[i]);
    leasehold_stored__settings__init(&r->settings);
    r->settings.drift_ppm = r->config.master.drift_ppm;
    r->settings.session_term_ns = r->config.master.session_term.ns;
    r->settings.chunk_term_ns = r->config.master.chunk_term.ns;
    r->share = lh_term_for_holder(r->config.reign_term, r->config.master.drift_ppm);
    r->prng = (struct lh_prng){config->master.seed ^ UINT64_C(0x9e3779b97f4a7c15)};
    r->process = config->process != 0 ? config->process : lh_prng_next(&r->prng);
    r->next_link = 1;
    for (int i = 0; i < LH_R_PURPOSES; i++)
        r->calls[i].again_at = LH_INSTANT_NEVER;
    TAILQ_INIT(&r->gate.waiting);
    TAILQ_INIT(&r->writer.commits);
    return r;
}

void lh_reigns_destroy(struct lh_reigns *r)
{
    if (r == NULL)
        return;
    r->fx = NULL;
    for (int i = 0; i < LH_R_PURPOSES; i++) {
        lh_buf_clear(&r->calls[i].request);
        free(r->calls[i].address);
    }
    lh_r_gate_clear(r);
    lh_r_links_end(r, LH_OK, NULL);
    lh_r_writer_clear(r);
    lh_r_copy_clear(r);
    lh_r_records_clear(r);
    lh_r_unfit_clear(r);
    lh_r_mend_clear(r);
    lh_r_move_forget(r);
    lh_master_destroy(r->master);
    lh_effects_deinit(&r->inner);
    free((char *)(uintptr_t)r->config.id);
    free((char *)(uintptr_t)r->config.address);
    free((char *)(uintptr_t)r->config.page);
    free((char *)(uintptr_t)r->config.prefix);
    free((char *)(uintptr_t)r->config.user);
    free((char *)(uintptr_t)r->config.password);
    free((char *)(uintptr_t)r->config.elsewhere);
    free((char *)(uintptr_t)r->config.cluster);
    free((char *)(uintptr_t)r->config.even_if_moved_to);
    free(r->out_of_use);
    free(r->cluster);
    free(r->token);
    free(r->store_trouble);
    lh_r_upkeep_clear(r);
    lh_r_heard_clear(r);
    free(r->successor);
    for (uint32_t i = 0; i < r->config.member_count; i++)
        free((char *)(uintptr_t)r->config.members[i]);
    free(r);
}
