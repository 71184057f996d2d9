/* One step of the master: what has run out, what came in, what follows, one commit. */
#include "master/master.h"

#include "base/cluster.h"
#include "base/prng.h"
#include "lease/restart.h"
#include "lease/term.h"
#include "master/calls/calls.h"
#include "master/config.h"
#include "master/durable.h"
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/locks/locks.h"
#include "master/order.h"
#include "master/programs/programs.h"
#include "master/reign.h"
#include "master/seal/seal.h"
#include "master/sessions/sessions.h"
#include "master/tables/answers.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/promised.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"
#include "master/tables/write.h"
#include "master/values/values.h"
#include "master/wiring.h"

#include <inttypes.h>

/* ---- Inputs. */

/* LEASE-7: a higher term, and the longest session that may run, durable before anything is said. */
static void start(struct lh_master *m)
{
    struct lh_m_creation *creation;
    const struct lh_lease *lease;
    size_t granted = 0;

    m->started = true;
    m->started_at = m->now;
    bool begins = m->cluster_id == NULL;
    if (begins) {
        char id[LH_CLUSTER_ID_BYTES];
        lh_master_draw_cluster(m->config.seed, id);
        m->cluster_id = lh_strdup(id);
        m->next_file = m->next_chunk = 1;
    }
    lh_m_promises_begin(m);
    struct lh_duration longest = lh_nanoseconds(m->longest_session_ns);
    if (LH_PLANTED("restart-waits-by-new-setting"))
        longest = m->config.session_term;
    lh_m_order(m);
    if (m->config.reign != 0 && LH_PLANTED("takeover-waits-less"))
        longest.ns /= 2;
    lh_leases_start(&m->leases, m->now, lh_term_grantor_end(m->now, longest));
    lh_m_promises_to_servers(m, longest);
    lh_m_servers_start(m);
    lh_m_moving_start(m);
    lh_m_sweep_start(m);
    LH_ASSERT(m->config.reign == 0 || m->config.reign >= m->term);
    m->term++;
    if (m->config.reign != 0)
        m->term = m->config.reign;
    if (m->config.restored)
        lh_m_restored(m);
    lh_m_reign_start(m);
    if (!begins && !m->config.reign_followed)
        lh_m_cold_start(m);
    lh_m_capabilities_start(m);
    lh_m_trash_start(m);
    lh_m_calls_start(m);
    lh_m_programs_start(m);
    if (m->longest_session_ns < m->config.session_term.ns ||
        LH_PLANTED("longest-session-lowered-at-start"))
        m->longest_session_ns = m->config.session_term.ns;
    lh_m_dirty_master(m);
    m->commit.term_ticket = m->commit.namespace_ticket = m->commit.next_ticket;
    LH_ASSERT(m->commit.next_ticket == 1);

    lh_m_rolls_start(m);
    TAILQ_FOREACH(lease, &m->leases.waiting, waiting_link)
        granted++;
    /* Members of a chunk whose creation was under way have to register first. */
    TAILQ_FOREACH(creation, &m->creating, link)
        lh_timer_set(&m->timers, &creation->timer,
            lh_instant_add(
                m->now, lh_duration_add(m->config.session_term, m->config.create_timeout)));
    lh_fx_log(m->fx, LH_INFO,
        "cluster %s, master term %" PRIu64 ": %zu files, %zu chunks; %zu leases of former masters "
        "wait for their holders, at most %" PRIu64 " ms",
        m->cluster_id, m->term, m->files.count, m->chunks.count, granted,
        granted == 0 ? 0 : lh_duration_ms(lh_instant_until(m->now, m->leases.wait_end)));
    if (m->behind != NULL && !m->config.restored)
        lh_fx_log(m->fx, LH_WARN,
            "nothing is deleted until somebody has looked and says \"leasehold garbage --resume\": "
            "%s",
            m->behind);
}

static void unary(struct lh_master *m, uint64_t link, enum lh_method method, const void *message)
{
    m->counts.calls[method]++;
    if (!lh_m_call(m, link, method, message))
        lh_fx_close(m->fx, link, LH_ERR_UNIMPLEMENTED, "this is a master, not a chunkserver");
}

static void on_stop(struct lh_master *m)
{
    if (m->stopping)
        return;
    m->stopping = true;
    lh_m_fail_waiters(m, NULL, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    lh_m_reach_stop(m);
    lh_m_locks_stop(m);
    lh_m_values_stop(m, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    lh_m_streams_end(m, LH_ERR_SHUTTING_DOWN, "the master is shutting down", "the master stops");
}

/* Whose stream is it? LH_M_CLIENTS: it is none of a session. */
static enum lh_m_client client_of(enum lh_method method)
{
    return method == LH_METHOD_SESSION         ? LH_M_CHUNKSERVER
           : method == LH_METHOD_LEASE_SESSION ? LH_M_PROGRAM
                                               : LH_M_CLIENTS;
}

/* SES-10: whoever asks belongs to this cluster, or to none that it knows of. */
static bool is_for_us(const struct lh_master *m, const ProtobufCMessage *request)
{
    uint64_t named = lh_request_cluster(request);

    return named == 0 || named == lh_cluster_hash(m->cluster_id);
}

static void on_message(struct lh_master *m, struct lh_input *in)
{
    char text[LH_ACCESS_TEXT_MAX];

    if (in->method == LH_METHOD_IDENTIFY)
        lh_m_reach_message(m, in->link, in->message);
    else if (m->stopping)
        lh_fx_close(m->fx, in->link, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    else if (client_of(in->method) == LH_M_CLIENTS &&
             lh_m_access_call(m, in->identity, in->method, in->message, text) != LH_OK)
        lh_fx_close(m->fx, in->link, LH_ERR_PERMISSION, text);
    else if (!is_for_us(m, in->message)) {
        LH_MARK("call-from-another-cluster");
        snprintf(
            text, sizeof text, "it is of cluster %.64s, and not of the caller's", m->cluster_id);
        lh_fx_close(m->fx, in->link, LH_ERR_NOT_ACTIVE, text);
    } else if (lh_link_find(&m->links, in->link) != NULL)
        lh_links_take(&m->links, m, in); /* not the first one of a call, which has one */
    else if (in->method == LH_METHOD_WATCH)
        lh_m_watch_message(m, in->link, in->message);
    else if (client_of(in->method) == LH_M_CLIENTS) {
        m->caller = in->identity;
        unary(m, in->link, in->method, in->message);
        m->caller = NULL;
    }
}

/* What is asked on a link is looked at when it comes; a stream of a session is somebody's. */
static void on_link_opened(struct lh_master *m, struct lh_input *in)
{
    char text[LH_ACCESS_TEXT_MAX];

    if (client_of(in->method) == LH_M_CLIENTS)
        return;
    if (m->stopping)
        lh_fx_close(m->fx, in->link, LH_ERR_SHUTTING_DOWN, "the master is shutting down");
    else if (lh_m_access_call(m, in->identity, in->method, NULL, text) != LH_OK) {
        lh_fx_close(m->fx, in->link, LH_ERR_PERMISSION, text);
        if (client_of(in->method) == LH_M_CHUNKSERVER)
            lh_m_refused_note(m, NULL, NULL, in->text, in->identity, LH_ERR_PERMISSION, text);
    } else
        lh_m_stream_opened(m, in, client_of(in->method));
}

static void dispatch(struct lh_master *m, struct lh_input *in)
{
    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        on_link_opened(m, in);
        break;
    case LH_IN_MESSAGE:
        on_message(m, in);
        break;
    case LH_IN_LINK_CLOSED:
        if (in->method == LH_METHOD_IDENTIFY) {
            lh_m_reach_closed(m, in->link, in->error, in->text);
            break;
        }
        lh_links_take(&m->links, m, in);
        break;
    case LH_IN_SENT:
    case LH_IN_HALF_CLOSED: /* a watcher listens */
        lh_links_take(&m->links, m, in);
        break;
    case LH_IN_PERSISTED:
        lh_m_on_persisted(m, in->ticket, in->error);
        break;
    case LH_IN_STOP:
        on_stop(m);
        break;
    case LH_IN_TIMER:
    case LH_IN_PROGRESS:
    case LH_IN_DISK:
    case LH_IN_CALL:
        break;
    }
}

/* For "wall-clock": somebody who knew that it jumps has seen to it that time does not go back. */
static struct lh_instant wall_clock(const struct lh_master *m, const struct lh_input *in)
{
    return lh_instant_max(
        m->now, lh_instant_add((struct lh_instant){0}, lh_milliseconds(in->wall_ms)));
}

static void advance_files(struct lh_master *m)
{
    struct lh_m_file_active *fm;

    while ((fm = TAILQ_FIRST(&m->work)) != NULL) {
        TAILQ_REMOVE(&m->work, fm, work_link);
        fm->in_work = false;
        lh_m_file_advance(m, fm->file);
    }
}

void lh_master_step(struct lh_master *m, struct lh_input *in, struct lh_effects *fx)
{
    if (m->stopped)
        return;
    m->fx = fx;
    m->now = LH_PLANTED("wall-clock") ? wall_clock(m, in) : in->now;
    m->said_at = lh_instant_max(m->now, m->said_at);
    m->wall_ms = in->wall_ms;
    m->purged = 0;
    if (!m->started)
        start(m);
    else
        lh_m_flush_again(m);
    lh_leases_step(&m->leases, m->now, m->config.step_work);
    lh_timers_fire(&m->timers, m, m->now);
    dispatch(m, in);
    if (!m->stopped) {
        lh_m_reign_step(m);
        lh_m_look_at_reports(m);
        if (!m->stopping)
            lh_m_sweep_step(m);
        advance_files(m);
        lh_m_calls_step(m);
        lh_m_values_step(m);
        advance_files(m); /* calls that waited for lookups to be dropped (VAL-7) */
        lh_m_locks_step(m);
        lh_m_lock_watch_step(m);
        lh_m_answers_step(m);
        lh_m_history_step(m);
        lh_m_flush(m);
        lh_m_programs_step(m);
        lh_m_actives_settle(m);
        lh_m_file_actives_settle(m);
        if (m->stopping && TAILQ_EMPTY(&m->commit.under_way)) {
            m->stopped = true;
            lh_fx_stopped(fx, LH_OK);
        }
    }
    m->fx = NULL;
}

bool lh_master_is_read(enum lh_method method)
{
    return method == LH_METHOD_STAT || method == LH_METHOD_LIST || method == LH_METHOD_LOCATE;
}

void lh_master_read(struct lh_master *m, struct lh_input *in, struct lh_effects *fx)
{
    LH_ASSERT(in->kind == LH_IN_MESSAGE && lh_master_is_read(in->method));
    m->fx = fx;
    if (m->started && !m->stopped)
        on_message(m, in);
    else
        lh_fx_close(fx, in->link, LH_ERR_UNAVAILABLE, "this master has not begun to act yet");
    m->fx = NULL;
}

struct lh_instant lh_master_deadline(const struct lh_master *m)
{
    if (m->stopped)
        return LH_INSTANT_NEVER;
    if (!m->started)
        return (struct lh_instant){0};
    struct lh_instant at = lh_leases_deadline(&m->leases);
    at = lh_instant_min(at, lh_timers_next(&m->timers));
    if ((lh_m_sweep_busy(m) && !m->stopping) || lh_m_values_busy(m))
        return m->now;
    if (m->reigns.heard[0].number != 0 || m->reigns.heard[1].number != 0 || m->reigns.above != 0)
        return m->now;
    if (lh_m_reports_wait(m))
        return m->now;
    return at;
}

/* ---- Life. */

struct lh_master *lh_master_create(const struct lh_master_config *config)
{
    struct lh_master *m = lh_alloc(sizeof *m);

    m->config = *config;
    lh_master_config_fill(&m->config);
    if (config->lone_log_after.ns == 0)
        m->config.lone_log_after =
            lh_nanoseconds(config->session_term.ns + config->session_term.ns / 3);
    m->heartbeat = lh_nanoseconds(config->session_term.ns / 3);
    m->holder_session_term = lh_term_for_holder(config->session_term, config->drift_ppm);
    m->holder_chunk_term = lh_term_for_holder(config->chunk_term, config->drift_ppm);
    lh_m_wire(m);
    m->chunks.words = m->tombstones.words = true;
    m->commit.next_ticket = 1;
    m->timers.bounded = true;
    RB_INIT(&m->paths);
    RB_INIT(&m->trash);
    TAILQ_INIT(&m->garbage.extras);
    lh_m_garbage_init(m);
    lh_m_calls_init(m);
    RB_INIT(&m->leased);
    TAILQ_INIT(&m->all_servers);
    TAILQ_INIT(&m->reach.waiting);
    TAILQ_INIT(&m->refused.list);
    TAILQ_INIT(&m->reach.called);
    TAILQ_INIT(&m->new_preallocs);
    TAILQ_INIT(&m->rolls);
    TAILQ_INIT(&m->creating);
    TAILQ_INIT(&m->waited);
    TAILQ_INIT(&m->unsettled);
    TAILQ_INIT(&m->unsettled_files);
    TAILQ_INIT(&m->copies);
    RB_INIT(&m->wanting);
    TAILQ_INIT(&m->work);
    STAILQ_INIT(&m->commit.dirty_servers);
    STAILQ_INIT(&m->commit.dirty_chunks);
    STAILQ_INIT(&m->commit.dirty_tombstones);
    STAILQ_INIT(&m->commit.dirty_files);
    STAILQ_INIT(&m->commit.dirty_programs);
    STAILQ_INIT(&m->commit.dirty_policies);
    STAILQ_INIT(&m->commit.dirty_changes);
    STAILQ_INIT(&m->commit.again);
    RB_INIT(&m->programs.tree);
    STAILQ_INIT(&m->programs.settling);
    TAILQ_INIT(&m->programs.saying);
    RB_INIT(&m->names.tree);
    RB_INIT(&m->policies.tree);
    TAILQ_INIT(&m->values.orphans);
    lh_m_locks_init(m);
    TAILQ_INIT(&m->commit.under_way);
    TAILQ_INIT(&m->commit.replies);
    lh_m_values_init(m);
    return m;
}

uint64_t lh_master_term(const struct lh_master *m)
{
    return m->term;
}

void lh_master_draw_cluster(uint64_t seed, char id[LH_CLUSTER_ID_BYTES])
{
    struct lh_prng prng = {seed};
    uint64_t a = lh_prng_next(&prng), b = lh_prng_next(&prng);

    (void)snprintf(id, LH_CLUSTER_ID_BYTES, "%016" PRIx64 "%016" PRIx64, a, b);
}

const char *lh_master_cluster(const struct lh_master *m)
{
    return m->cluster_id;
}

void lh_master_set_reign(struct lh_master *m, uint64_t reign, uint64_t name, bool followed)
{
    LH_ASSERT(!m->started);
    m->config.reign = reign;
    m->config.reign_name = name;
    m->config.reign_followed = followed;
}

void lh_master_say_at(struct lh_master *m, struct lh_instant now)
{
    m->said_at = now;
}

void lh_master_records(struct lh_master *m, struct lh_effects *fx)
{
    LH_ASSERT(TAILQ_EMPTY(&m->commit.under_way));
    m->fx = fx;
    lh_m_write_all(m);
    m->fx = NULL;
}

void lh_master_write_again(struct lh_master *m, const void *key, size_t key_size)
{
    struct lh_m_again *again;

    STAILQ_FOREACH(again, &m->commit.again, link)
        if (again->key_size == key_size && memcmp(again->key, key, key_size) == 0)
            return; /* a commit has a key once */
    again = lh_alloc(sizeof *again + key_size);
    again->key_size = key_size;
    memcpy(again->key, key, key_size);
    STAILQ_INSERT_TAIL(&m->commit.again, again, link);
}

void lh_master_store_fills(struct lh_master *m, const char *why)
{
    free(m->store_fills);
    m->store_fills = why == NULL ? NULL : lh_strdup(why);
}

void lh_master_know_masters(struct lh_master *m, const char *const *addresses, size_t count)
{
    char **copies = lh_alloc_array(count, sizeof *copies);

    for (size_t i = 0; i < count; i++)
        copies[i] = lh_strdup(addresses[i]);
    for (size_t i = 0; i < m->master_count; i++)
        free(m->masters[i]);
    free(m->masters);
    m->masters = copies;
    m->master_count = count;
}

static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    lh_master_step(self, in, fx);
}

static struct lh_instant core_deadline(const void *self)
{
    return lh_master_deadline(self);
}

struct lh_core lh_master_core(struct lh_master *m)
{
    return (struct lh_core){.self = m, .step = core_step, .deadline = core_deadline};
}
