/* `leasehold top`: samples, and what they say together; see top.h. */
#include "client/command/top.h"

#include <stdlib.h>
#include <string.h>

/* The same heartbeat reaches two samples by ways of different length. */
#define SAME_BEAT_MS 200u

/* --- samples ------------------------------------------------------------------------------ */

void lh_top_sample_free(struct lh_top_sample *sample)
{
    if (sample == NULL)
        return;
    struct lh_lease_list leases = {.leases = sample->leases, .count = sample->lease_count};
    struct lh_name_list names = {.names = sample->names, .count = sample->name_count};
    lh_lease_list_deinit(&leases);
    lh_name_list_deinit(&names);
    lh_master_list_deinit(&sample->masters);
    lh_server_list_deinit(&sample->servers);
    for (size_t i = 0; i < sample->explained_count; i++)
        lh_explanation_deinit(&sample->explained[i]);
    free(sample->trouble);
    free(sample->withheld);
    free(sample);
}

static int by_id(const void *key, const void *item)
{
    return strcmp(key, ((const struct lh_server_info *)item)->server_id);
}

static const struct lh_server_info *server_of(const struct lh_server_list *list, const char *id)
{
    return list->count == 0 ? NULL
                            : bsearch(id, list->servers, list->count, sizeof *list->servers, by_id);
}

/* A lease that is used is extended by each heartbeat, and its first term may be a session's. */
static bool runs_out(const struct lh_lease_info *lease, const struct lh_server_list *servers)
{
    uint64_t term = servers->session_term_ms < servers->chunk_term_ms ? servers->session_term_ms
                                                                      : servers->chunk_term_ms;
    return lease->left_ms < term / 2;
}

unsigned lh_top_changing(const struct lh_lease_info *lease, const struct lh_server_list *servers)
{
    const struct lh_server_info *holder = server_of(servers, lease->primary);

    if (strcmp(lease->state, "FREE") == 0 || lease->primary[0] == '\0')
        return 0;
    if (!lease->session_live || (holder != NULL && !holder->reachable))
        return 4; /* its holder is lost, or may be */
    if (strcmp(lease->state, "HELD") != 0)
        return 3;
    return runs_out(lease, servers) ? 2 : 0;
}

size_t lh_top_to_explain(const struct lh_top_sample *sample, size_t *indices)
{
    size_t count = 0;

    for (unsigned rank = 4; rank >= 3; rank--)
        for (size_t i = 0; i < sample->lease_count && count < LH_TOP_EXPLAINED_MAX; i++)
            if (lh_top_changing(&sample->leases[i], &sample->servers) == rank)
                indices[count++] = i;
    return count;
}

static void drop_oldest(struct lh_top_history *h)
{
    lh_top_sample_free(h->good[0]);
    memmove(h->good, h->good + 1, --h->count * sizeof h->good[0]);
}

/* Samples of another master, or of one that was started again, say nothing of rates. */
static bool another_master(const struct lh_top_sample *a, const struct lh_top_sample *b)
{
    return a->servers.master_term != b->servers.master_term;
}

void lh_top_history_add(struct lh_top_history *h, struct lh_top_sample *sample)
{
    if (h->newest != NULL && !h->newest->good)
        lh_top_sample_free(h->newest);
    h->newest = sample;
    if (!sample->good)
        return;
    while (h->count > 0 && another_master(h->good[0], sample))
        drop_oldest(h);
    /* One that is older than the window stays, or there were no rates at a long interval. */
    while (h->count == LH_TOP_SAMPLES_MAX ||
           (h->count > 1 && h->good[1]->at_ms + LH_TOP_WINDOW_MS <= sample->at_ms))
        drop_oldest(h);
    h->good[h->count++] = sample;
}

void lh_top_history_deinit(struct lh_top_history *h)
{
    if (h->newest != NULL && !h->newest->good)
        lh_top_sample_free(h->newest);
    while (h->count > 0)
        drop_oldest(h);
    *h = (struct lh_top_history){0};
}

/* --- rates -------------------------------------------------------------------------------- */

/* A counter that goes back was begun again. */
static double per_second(uint64_t before, uint64_t now, uint64_t ms)
{
    return ms == 0 || now < before ? -1 : (double)(now - before) * 1000 / (double)ms;
}

/* When its last heartbeat came. */
static uint64_t counted_at(const struct lh_top_sample *sample, const struct lh_server_info *s)
{
    return sample->at_ms > s->ordered_ago_ms ? sample->at_ms - s->ordered_ago_ms : 0;
}

void lh_top_server_rates(const struct lh_top_history *h, const struct lh_server_info *now,
    double *batches, double *bytes)
{
    *batches = *bytes = now->live ? -1 : 0;
    if (h->count < 2 || !now->live)
        return;
    const struct lh_top_sample *newest = h->good[h->count - 1];
    const struct lh_server_info *then = server_of(&h->good[0]->servers, now->server_id);
    if (then == NULL || !then->live || then->incarnation != now->incarnation ||
        then->ordered_unreported || now->ordered_unreported)
        return; /* its counters are another process's, or not known yet at this master */
    uint64_t from = counted_at(h->good[0], then), to = counted_at(newest, now);
    if (to < from + SAME_BEAT_MS)
        return;
    *batches = per_second(then->batches_ordered, now->batches_ordered, to - from);
    *bytes = per_second(then->bytes_ordered, now->bytes_ordered, to - from);
}

static int by_chunk(const void *key, const void *item)
{
    uint64_t a = *(const uint64_t *)key, b = ((const struct lh_lease_info *)item)->chunk;
    return (a > b) - (a < b);
}

double lh_top_lease_rate(const struct lh_top_history *h, const struct lh_lease_info *now)
{
    const struct lh_lease_info *then;

    if (h->count < 2 || h->good[0]->lease_count == 0)
        return -1;
    then = bsearch(&now->chunk, h->good[0]->leases, h->good[0]->lease_count,
        sizeof *h->good[0]->leases, by_chunk);
    if (then == NULL || then->version != now->version)
        return -1;
    return per_second(
        then->appends, now->appends, h->good[h->count - 1]->at_ms - h->good[0]->at_ms);
}

/* Of all servers that something is known of. */
static void ordered(const struct lh_top_history *h, struct lh_top_rates *rates)
{
    const struct lh_server_list *list = &h->good[h->count - 1]->servers;

    for (size_t i = 0; i < list->count; i++) {
        double batches, bytes;
        lh_top_server_rates(h, &list->servers[i], &batches, &bytes);
        if (!list->servers[i].live || batches < 0 || bytes < 0)
            continue;
        rates->batches = (rates->batches < 0 ? 0 : rates->batches) + batches;
        rates->bytes = (rates->bytes < 0 ? 0 : rates->bytes) + bytes;
    }
}

void lh_top_rates(const struct lh_top_history *h, struct lh_top_rates *rates)
{
    *rates = (struct lh_top_rates){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (h->count < 2)
        return;
    const struct lh_top_sample *old = h->good[0], *new = h->good[h->count - 1];
    const struct lh_master_figures *a = &old->servers.figures, *b = &new->servers.figures;
    uint64_t ms = new->at_ms - old->at_ms;
    rates->granted = per_second(a->leases_granted, b->leases_granted, ms);
    rates->renewed = per_second(a->leases_renewed, b->leases_renewed, ms);
    rates->recalled = per_second(a->leases_recalled, b->leases_recalled, ms);
    rates->expired = per_second(a->leases_expired, b->leases_expired, ms);
    rates->locks_granted = per_second(a->locks_granted, b->locks_granted, ms);
    rates->locks_released = per_second(a->locks_released, b->locks_released, ms);
    rates->values_read = per_second(a->values_read, b->values_read, ms);
    rates->values_changed = per_second(a->values_changed, b->values_changed, ms);
    ordered(h, rates);
}
