/* The chunkserver's figures for Prometheus; docs/metrics.md describes each of them. */
#include "chunkserver/rooms.h"

#include <stdio.h>

#define TOTAL(name, help, value)                                                                   \
    lh_metrics_single(out, "leasehold_chunkserver_" name "_total", LH_METRIC_COUNTER, help, value)
#define COUNTER(field, name, help) TOTAL(name, help, cs->host.counts.field)
#define GAUGE(name, help, value)                                                                   \
    lh_metrics_single(out, "leasehold_chunkserver_" name, LH_METRIC_GAUGE, help, value)

static void by_error(
    struct lh_metrics *out, const char *name, const char *help, const uint64_t *counts)
{
    lh_metrics_family(out, name, LH_METRIC_COUNTER, help);
    for (unsigned error = 1; error < LH_ERROR_NUMBERS; error++) {
        const struct lh_label label = {"error", lh_error_name(-(int)error)};
        if (counts[error] > 0)
            lh_metrics_count(out, &label, 1, counts[error]);
    }
}

static void histogram(
    struct lh_metrics *out, const char *name, const char *help, const struct lh_histogram *h)
{
    lh_metrics_family(out, name, LH_METRIC_HISTOGRAM, help);
    lh_metrics_histogram(out, NULL, 0, h);
}

static void leases(const struct lh_chunkserver *cs, struct lh_metrics *out, struct lh_instant now)
{
    const struct lh_cs_primary_figures figures = lh_cs_primaries_figures(cs->primaries);

    GAUGE("in_session", "1 while its session with the master lives.",
        lh_chunkserver_in_session(cs, now));
    GAUGE("failing", "1 while its disk does not answer, or cannot be written (SES-6).",
        lh_cs_session_is_failing(cs->session));
    GAUGE("read_only", "1 while its disk cannot be written, but read (REC-8).",
        lh_cs_session_is_read_only(cs->session));
    GAUGE("primaries", "Chunks that it is primary of.", figures.primaries);
    GAUGE("primaries_open", "Of these, chunks that take appends.", figures.open);
    COUNTER(registrations, "registrations", "Registrations sent.");
    COUNTER(heartbeats, "heartbeats", "Heartbeats sent.");
    COUNTER(grants, "grants", "Leases received.");
    COUNTER(grants_refused, "grants_refused", "Leases refused.");
    COUNTER(releases, "releases", "Leases given back.");
    COUNTER(expiries, "expiries", "Leases that ran out while it held them.");
    COUNTER(fenced, "fenced", "Times that it was refused as the primary of an older version.");
    COUNTER(recoveries, "recoveries", "Recoveries completed as primary (REC-2).");
}

static void appends(const struct lh_chunkserver *cs, struct lh_metrics *out)
{
    COUNTER(batches_ordered, "batches_ordered", "Batches ordered as primary.");
    COUNTER(bytes_ordered, "ordered_bytes", "Bytes of these.");
    COUNTER(batches_committed, "batches_committed", "Batches committed as primary.");
    COUNTER(access_refused, "access_refused", "Calls refused for want of a right (ACC-3, ACC-5).");
    COUNTER(foreign_calls, "foreign_calls", "Calls refused that name another cluster (SES-10).");
    COUNTER(capabilities_stale, "capabilities_stale",
        "Capabilities that had run out, or whose key is not known here (ACC-5).");
    COUNTER(repeats, "repeats", "Batches recognised as stored before (APP-5).");
    histogram(out, "leasehold_chunkserver_append_seconds",
        "From the order of a batch to its commit on every member.", &cs->host.counts.append);
    GAUGE("uncommitted_bytes", "Bytes ordered and not committed.",
        lh_cs_primaries_figures(cs->primaries).pending_bytes);
    by_error(out, "leasehold_chunkserver_append_errors_total",
        "Lanes of append streams, and writers, refused, by error.", cs->host.counts.append_errors);
}

static void data(const struct lh_chunkserver *cs, struct lh_metrics *out)
{
    const struct lh_cs_log_figures logs = lh_cs_logs_figures(&cs->logs);

    GAUGE("replicas", "Replicas here.", cs->logs.replicas.count);
    GAUGE("replicas_sealed", "Of these, sealed ones.", logs.sealed);
    GAUGE("replicas_copying", "Of these, incomplete ones (REC-4).", logs.copying);
    GAUGE("replicas_unusable", "Of these, lost ones.", logs.lost);
    GAUGE("log_bytes", "Bytes in their logs.", logs.bytes);
    GAUGE("capacity_bytes", "Bytes of the disk, or of --capacity.", cs->host.config.capacity_bytes);
    GAUGE("free_bytes", "Bytes that are free.", cs->host.config.free_bytes);
    GAUGE(
        "promised_bytes", "Of these, bytes promised to growing logs: not offered.", logs.promised);
    by_error(out, "leasehold_chunkserver_replicas_lost_total",
        "Replicas lost until they are copied again, by reason.", cs->host.counts.replicas_lost);
    histogram(out, "leasehold_chunkserver_disk_write_seconds", "Writes to chunk files.",
        &cs->host.counts.disk_write);
    histogram(out, "leasehold_chunkserver_disk_sync_seconds", "Syncs of chunk files.",
        &cs->host.counts.disk_sync);
    COUNTER(disk_shortages, "disk_shortages",
        "Times that the machine had no descriptor or memory for an operation on the disk.");
    GAUGE("disk_starved", "Operations on the disk that wait because of a shortage.", logs.starved);
    COUNTER(pauses, "pauses", "Times that the process was paused: it ran later than planned.");
    GAUGE("unwritten_bytes", "Bytes accepted as primary or secondary and not written.",
        cs->logs.unwritten);
    GAUGE("writers", "Writers in the tables of all logs in memory.", logs.writers);
    GAUGE("settle_tables", "Sealed logs whose writer tables are in memory.", logs.settle_tables);
    COUNTER(reads, "reads", "Reads answered.");
    COUNTER(bytes_read, "read_bytes", "Bytes of these.");
    by_error(out, "leasehold_chunkserver_read_errors_total", "Reads refused, by error.",
        cs->host.counts.read_errors);
    COUNTER(settles, "settles", "Requests to settle a writer answered (APP-5a).");
}

static void upkeep(const struct lh_chunkserver *cs, struct lh_metrics *out)
{
    const struct lh_cs_serving_figures serving = lh_cs_serving_figures(cs->serving);

    COUNTER(copies, "copies", "Replicas copied to here completely.");
    COUNTER(copies_failed, "copies_failed", "Copies given up.");
    TOTAL("copied_bytes", "Bytes copied to here.", serving.copied_in);
    TOTAL("copied_out_bytes", "Bytes copied from here.", serving.copied_out);
    TOTAL("scrub_bytes", "Bytes that the scrub has read.", serving.scrub.read);
    COUNTER(scrub_replicas, "scrub_replicas", "Replicas that the scrub has found good.");
    TOTAL("scrub_errors", "Replicas in which the scrub has found rot.", serving.scrub.found);
    TOTAL(
        "scrub_rounds", "Times that the scrub has gone through everything.", serving.scrub.passes);
}

void lh_chunkserver_metrics(
    const struct lh_chunkserver *cs, struct lh_instant now, struct lh_metrics *out)
{
    leases(cs, out, now);
    appends(cs, out);
    data(cs, out);
    upkeep(cs, out);
}

bool lh_chunkserver_ready(
    const struct lh_chunkserver *cs, struct lh_instant now, char *why, size_t why_size)
{
    char trouble[LH_FINDER_TEXT_MAX];
    const char *because = cs->host.stopping || cs->host.stopped ? "the server is stopping"
                          : lh_cs_session_is_read_only(cs->session)
                              ? "the disk cannot be written; what is on it can be read"
                          : lh_cs_session_is_failing(cs->session) ? "the disk does not answer"
                          : lh_chunkserver_in_session(cs, now)    ? NULL
                          : lh_cs_session_trouble(cs->session, trouble)
                              ? trouble
                              : "there is no session with the master";

    if (because != NULL)
        (void)snprintf(why, why_size, "%s", because);
    return because == NULL;
}
