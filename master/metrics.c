/* The master's figures for Prometheus; docs/metrics.md describes each of them. */
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/master.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

#define COUNTER(field, name, help)                                                                 \
    lh_metrics_single(                                                                             \
        out, "leasehold_master_" name "_total", LH_METRIC_COUNTER, help, m->counts.field)
#define GAUGE(name, help, value)                                                                   \
    lh_metrics_single(out, "leasehold_master_" name, LH_METRIC_GAUGE, help, value)

static void sessions(const struct lh_master *m, struct lh_metrics *out)
{
    const struct lh_m_server *s;
    uint64_t live = 0, failing = 0, read_only = 0, draining = 0, known = 0, unheard = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        known++;
        live += lh_m_live(m, s);
        failing += s->space.failing;
        read_only += s->space.read_only;
        draining += lh_m_drained(s);
        unheard += lh_m_live(m, s) && !lh_m_reached(s);
    }
    lh_metrics_family(
        out, "leasehold_master_chunkservers", LH_METRIC_GAUGE, "Chunkservers, by state.");
    const struct {
        const char *state;
        uint64_t count;
    } states[] = {{"known", known}, {"live", live}, {"failing", failing}, {"read_only", read_only},
        {"draining", draining}, {"unheard", unheard}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        const struct lh_label label = {"state", states[i].state};
        lh_metrics_count(out, &label, 1, states[i].count);
    }
    COUNTER(registrations, "registrations", "Registrations of chunkservers accepted (SES-1).");
    COUNTER(registrations_refused, "registrations_refused", "Registrations refused.");
    COUNTER(sessions_ended, "sessions_ended", "Sessions that ran out without a heartbeat.");
    COUNTER(heartbeats, "heartbeats", "Heartbeats received in a live session.");
}

static void leases(const struct lh_master *m, struct lh_metrics *out)
{
    GAUGE("leases", "Leases in force.", lh_grantor_lease_count(m->leases.engine));
    COUNTER(grants, "grants", "Leases granted to a new holder.");
    COUNTER(regrants, "regrants", "New versions for the present holder (LEASE-3).");
    COUNTER(grants_refused, "grants_refused", "Grants that their holder refused.");
    COUNTER(extensions, "renewals", "Leases extended by a heartbeat.");
    COUNTER(recalls, "recalls", "Leases recalled (LEASE-5).");
    COUNTER(releases, "releases", "Leases given back.");
    COUNTER(expiries, "expiries", "Leases that ran out.");
    COUNTER(unshown, "leases_unshown",
        "Leases freed because their holder registered and did not show them (SES-5a).");
    COUNTER(differences, "lease_differences",
        "Leases about which master and holder disagreed (LEASE-8).");
    COUNTER(inquiries, "inquiries", "Primaries asked for a sign of life.");
    COUNTER(rolls, "rolls", "Chunks sealed because their primary was lost (FAIL-2a).");
    COUNTER(seals, "seals", "Chunks sealed, for any reason.");
    lh_metrics_family(out, "leasehold_master_tail_wait_seconds", LH_METRIC_HISTOGRAM,
        "How long a client waited for its file's primary: the time without one.");
    lh_metrics_histogram(out, NULL, 0, &m->counts.tail_wait);
    lh_metrics_family(out, "leasehold_master_roll_seconds", LH_METRIC_HISTOGRAM,
        "From the intent to seal until the sealed length was known and the next chunk granted.");
    lh_metrics_histogram(out, NULL, 0, &m->counts.roll);
    GAUGE("calls_waiting", "Calls that wait for a primary.", m->waiter_count);
}

static void programs(const struct lh_master *m, struct lh_metrics *out)
{
    GAUGE("program_sessions", "Sessions of programs.", m->programs.count - m->programs.over);
    GAUGE("program_sessions_away",
        "Sessions of before this master's start that are not back; until none is, no lock is "
        "granted (PS-3).",
        m->leases.away);
    COUNTER(programs_opened, "program_sessions_opened", "Sessions of programs that began.");
    COUNTER(programs_attached, "program_streams", "Streams that programs attached (PS-2).");
    COUNTER(access_refused, "access_refused", "Requests refused for want of a right (ACC-3).");
    COUNTER(programs_refused, "program_streams_refused", "Streams of programs that were refused.");
    COUNTER(programs_ended, "program_sessions_ended", "Sessions of programs closed or run out.");
    COUNTER(program_beats, "program_heartbeats", "Heartbeats of programs in a live session.");
    GAUGE("names", "Names that are locked, waited for, or have a value.",
        m->names.count - m->names.lookups);
    GAUGE("locks", "Locks that are held.", m->locks.held);
    GAUGE("locks_waiting", "Requests for locks that wait.", m->locks.waiting);
    COUNTER(locks_granted, "locks_granted", "Locks granted (NL-1).");
    COUNTER(locks_queued, "locks_queued", "Requests for locks that had to wait.");
    COUNTER(locks_released, "locks_released", "Locks given back.");
    COUNTER(locks_expired, "locks_expired",
        "Locks that ended by themselves: with their session, or cut (NL-4).");
    COUNTER(locks_recalled, "locks_recalled", "Holders that were asked for their lock.");
    COUNTER(locks_cancelled, "locks_cancelled", "Locks that operators cancelled.");
}

static void values(const struct lh_master *m, struct lh_metrics *out)
{
    struct lh_m_values_figures figures;

    lh_m_values_figures(m, &figures);
    GAUGE("values", "Values under names.", m->values.count);
    GAUGE("values_bytes", "Bytes of all values.", m->values.bytes);
    COUNTER(value_reads, "value_reads", "Reads of values, on session streams and by Get.");
    COUNTER(changes, "value_changes", "Values put or deleted.");
    COUNTER(changes_refused, "value_changes_refused", "Changes of values that were refused.");
    GAUGE("value_changes_waiting", "Changes of values that wait: for caches, or for one another.",
        figures.changes_waiting);
    GAUGE("value_reads_waiting", "Reads of values that wait for a commit.", figures.reads_waiting);
    COUNTER(caches_granted, "cache_leases_granted", "Cache leases given with reads (VAL-1).");
    COUNTER(caches_dropped, "cache_drops",
        "Sessions that were told to drop a value that changes (VAL-2).");
    COUNTER(caches_expired, "cache_leases_expired", "Cache leases that ran out.");
    GAUGE("lookups_cached", "Paths of files that programs may have cached (VAL-7).",
        m->names.lookups);
    COUNTER(lookups, "lookups", "Reads of which file has a path, on session streams (VAL-7).");
    COUNTER(path_changes_waited, "path_changes_waited",
        "Renames and removals that waited until programs had dropped the path (VAL-7).");
    GAUGE("watchers", "Streams of watchers, of values and of locks (VAL-6).", figures.watchers);
    COUNTER(watch_events, "watch_events", "Changes, and events of locks, sent to watchers.");
    COUNTER(watch_resets, "watch_resets",
        "Watchers that began anew: the history of changes did not reach back for them.");
}

static void replicas(const struct lh_master *m, struct lh_metrics *out)
{
    Leasehold__RepairInfo info = LEASEHOLD__REPAIR_INFO__INIT;

    GAUGE("files", "Files, those in the trash included.", m->files.count);
    GAUGE("chunks", "Chunks.", m->chunks.count);
    lh_m_repair_info(m, &info);
    GAUGE("chunks_degraded", "Chunks with fewer good replicas than they should have.",
        info.chunks_degraded);
    GAUGE("chunks_endangered", "Of these, chunks with a single good replica.",
        info.chunks_endangered);
    GAUGE("chunks_unreadable", "Of these, chunks without a good replica.", info.chunks_unreadable);
    GAUGE("copies_running", "Replicas that are being copied.", info.copies_running);
    GAUGE("copies_waiting", "Replicas that wait to be copied.", info.copies_waiting);
    GAUGE("repair_left_bytes", "Bytes that are still to be copied.", info.bytes_left);
    lh_metrics_single(out, "leasehold_master_copies_total", LH_METRIC_COUNTER,
        "Replicas copied completely.", info.copies_done);
    lh_metrics_single(out, "leasehold_master_copied_bytes_total", LH_METRIC_COUNTER,
        "Bytes of replicas copied.", info.bytes_done);
    COUNTER(members_added, "members_added", "Members that replica sets gained.");
    COUNTER(members_dropped, "members_dropped", "Members that replica sets lost.");
    COUNTER(replicas_lost, "replicas_lost", "Replicas reported lost (FAIL-4, FAIL-5).");
    COUNTER(replicas_deleted, "replicas_deleted", "Replicas deleted (KEEP-3).");
    COUNTER(possible_losses, "possible_losses",
        "Reports that acknowledged records of a buffered file may be missing (REC-2a).");
    GAUGE("deletions_suspended",
        "1 while nothing is deleted because the metadata looks like an older copy (KEEP-4).",
        m->behind != NULL);
}

static void calls(const struct lh_master *m, struct lh_metrics *out)
{
    lh_metrics_family(
        out, "leasehold_master_calls_total", LH_METRIC_COUNTER, "Calls received, by method.");
    for (int method = LH_METHOD_NONE + 1; method < LH_METHOD_APPEND; method++) {
        const char *path = lh_method_info((enum lh_method)method)->path;
        const struct lh_label label = {"method", strrchr(path, '/') + 1};
        if (method != LH_METHOD_SESSION && method != LH_METHOD_LEASE_SESSION)
            lh_metrics_count(out, &label, 1, m->counts.calls[method]);
    }
    lh_metrics_family(
        out, "leasehold_master_errors_total", LH_METRIC_COUNTER, "Calls refused, by error.");
    for (unsigned error = 1; error < LH_ERROR_NUMBERS; error++) {
        const struct lh_label label = {"error", lh_error_name(-(int)error)};
        if (m->counts.errors[error] > 0)
            lh_metrics_count(out, &label, 1, m->counts.errors[error]);
    }
    COUNTER(calls_repeated, "calls_repeated",
        "Calls that were answered as when they came first (HA-12).");
    COUNTER(calls_forgotten, "calls_forgotten",
        "Calls refused that may have been carried out, as too much was changed since (HA-12).");
    GAUGE("calls_kept", "Answers that are kept for repeats of their calls.", m->calls.count);
    GAUGE("term", "The master's term: counts its starts.", m->term);
    COUNTER(commits, "commits", "Commits of the metadata store.");
    GAUGE("commits_pending", "Commits in flight.", m->commit.next_ticket - 1 - m->commit.durable);
}

void lh_master_metrics(const struct lh_master *m, struct lh_metrics *out)
{
    sessions(m, out);
    leases(m, out);
    programs(m, out);
    values(m, out);
    replicas(m, out);
    calls(m, out);
}

bool lh_master_ready(const struct lh_master *m, char *why, size_t why_size)
{
    if (m->started && !m->stopping && !m->stopped && lh_m_is_durable(m, 1))
        return true;
    snprintf(why, why_size, "%s",
        m->stopping || m->stopped ? "the master is stopping" : "the master is starting");
    return false;
}
