/* Sessions: which chunkservers there are, and what they hear from us (SES-1 to SES-6). */
#include "master/sessions.h"

#include "master/chunks.h"
#include "master/copies.h"
#include "master/creation.h"
#include "master/garbage.h"
#include "master/health.h"
#include "master/holders.h"
#include "master/leases.h"
#include "master/master.h"
#include "master/placement.h"
#include "master/repair.h"
#include "master/roll.h"
#include "master/spare.h"
#include "master/tables/changed.h"
#include "master/tables/dirty.h"
#include "master/tables/path.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* Session numbers start anew with each master; with the master's term in front no two masters give
 * the same one, and what was meant for a former session cannot be taken for this one's. */
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s)
{
    return (m->term << 40) | (s & ((UINT64_C(1) << 40) - 1));
}

bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s)
{
    return s->session != 0 && lh_grantor_session_live(m->grantor, s->session, m->now);
}

bool lh_master_session_of(const struct lh_master *m, const char *server, struct lh_instant now,
    uint64_t *session, struct lh_instant *end)
{
    const struct lh_m_server *s;

    HASH_FIND_STR(m->servers, server, s);
    if (s == NULL || s->session == 0 || !lh_grantor_session_live(m->grantor, s->session, now))
        return false;
    *session = lh_m_wire_session(m, s->session);
    *end = lh_grantor_session_end_of(m->grantor, s->session);
    return true;
}

bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!lh_m_live(m, s) || s->link == 0 || !s->announced)
        return false;
    if (LH_PLANTED("one-way-partition-is-health"))
        return true;
    if (!s->confirmed)
        return false;
    if (lh_instant_before(m->now, lh_instant_add(s->confirmed_at, m->config.session_term)))
        return true;
    LH_MARK("server-hears-nothing");
    return false;
}

bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_duration two = lh_duration_add(m->heartbeat, m->heartbeat);

    return lh_m_live(m, s) && s->link != 0 &&
           lh_instant_before(m->now, lh_instant_add(s->received_at, two));
}

bool lh_m_send(struct lh_master *m, struct lh_m_server *s, Leasehold__SessionReply *reply)
{
    if (s->link == 0 || !s->announced)
        return false;
    lh_fx_send(m->fx, s->link, &reply->base, NULL);
    return true;
}

void lh_m_session_opened(struct lh_master *m, uint64_t link)
{
    struct lh_m_link *l = lh_alloc(sizeof *l);

    l->id = link;
    HASH_ADD(hh, m->links, id, sizeof l->id, l);
}

static struct lh_m_link *find_link(const struct lh_master *m, uint64_t link)
{
    struct lh_m_link *l;

    HASH_FIND(hh, m->links, &link, sizeof link, l);
    return l;
}

static void forget_link(struct lh_master *m, struct lh_m_link *l)
{
    if (l->server != NULL && l->server->link == l->id)
        l->server->link = 0;
    HASH_DELETE(hh, m->links, l);
    free(l);
}

void lh_m_session_closed(struct lh_master *m, uint64_t link, const char *ended)
{
    struct lh_m_link *l = find_link(m, link);
    struct lh_m_chunk *c;

    if (l == NULL)
        return;
    while (LH_PLANTED("regrant-when-session-breaks") && l->server != NULL &&
           l->server->link == l->id && (c = TAILQ_FIRST(&l->server->held)) != NULL)
        lh_m_lease_over(m, c, "went with its session");
    if (l->server != NULL && l->server->link == l->id && l->server->session != 0)
        lh_fx_log(m->fx, ended != NULL ? LH_INFO : LH_WARN,
            "chunkserver %s: %s; its session runs for another %" PRIu64 " ms", l->server->id,
            ended != NULL ? ended : "its session stream broke",
            lh_duration_ms(lh_instant_until(
                m->now, lh_grantor_session_end_of(m->grantor, l->server->session))));
    if (l->server != NULL && l->server->link == l->id)
        LH_MARK("session-stream-broke");
    lh_m_unsettled(m);
    forget_link(m, l);
    lh_m_rolls_advance(m);
    lh_m_touch_waited(m);
}

/* ---- Registration. */

static void refuse(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *request,
    int error, const char *text)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;

    m->counts.registrations_refused++;
    lh_fx_log(m->fx, LH_WARN, "a chunkserver's registration was refused: %s", text);
    registered.error = lh_m_wire_error(error);
    registered.error_text = (char *)(uintptr_t)text;
    registered.stamp = request->stamp;
    registered.cluster_id = m->cluster_id;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    reply.registered = &registered;
    lh_fx_reply(m->fx, l->id, &reply.base, NULL);
    forget_link(m, l);
}

/* May this server register? LH_OK, or why not. */
static int check_register(
    const struct lh_master *m, const Leasehold__Register *r, char *text, size_t text_size)
{
    int error = lh_name_check("server id", r->server_id, LH_NAME_BYTES_MAX, text, text_size);

    if (error == LH_OK)
        error = lh_name_check("address", r->address, LH_ADDRESS_BYTES_MAX, text, text_size);
    if (error == LH_OK && r->machine_id[0] != 0)
        error = lh_name_check("machine id", r->machine_id, LH_NAME_BYTES_MAX, text, text_size);
    if (error == LH_OK && r->failure_domain[0] != 0)
        error =
            lh_name_check("failure domain", r->failure_domain, LH_NAME_BYTES_MAX, text, text_size);
    if (error != LH_OK)
        return error;
    if (r->cluster_id[0] != 0 && strcmp(r->cluster_id, m->cluster_id) != 0) {
        snprintf(text, text_size,
            "chunkserver %s belongs to cluster %.64s, this is %s: check its data directory and "
            "the master's address",
            r->server_id, r->cluster_id, m->cluster_id);
        return LH_ERR_WRONG_IDENTITY;
    }
    if (r->master_term_seen > m->term) {
        snprintf(text, text_size,
            "chunkserver %s has seen master term %" PRIu64 ", this master's is %" PRIu64
            ": another master is running, or the metadata store was restored from a backup: then "
            "start this master with --restored",
            r->server_id, r->master_term_seen, m->term);
        return LH_ERR_STALE_MASTER;
    }
    if (r->incarnation == 0) {
        snprintf(text, text_size, "chunkserver %s: incarnation 0", r->server_id);
        return LH_ERR_INVALID_ARGUMENT;
    }
    struct lh_m_server *s;
    HASH_FIND_STR(m->servers, r->server_id, s);
    if (s != NULL && lh_m_forgotten(s)) {
        LH_MARK("registration-of-decommissioned");
        snprintf(text, text_size,
            "chunkserver %s was decommissioned: start it with an empty data directory and another "
            "--server-id, or take it back with `leasehold undrain %s`",
            r->server_id, r->server_id);
        return LH_ERR_WRONG_IDENTITY;
    }
    if (s == NULL) {
        if (HASH_COUNT(m->servers) >= m->config.servers_max) {
            snprintf(text, text_size, "chunkserver %s: the limit of %u chunkservers is reached",
                r->server_id, m->config.servers_max);
            return LH_ERR_NO_MEMORY;
        }
        return LH_OK;
    }
    /* SES-1. */
    bool late = r->incarnation < s->incarnation ||
                (r->incarnation == s->incarnation && r->registration <= s->registration);
    if (late && !LH_PLANTED("late-registration-believed")) {
        LH_MARK("registration-late-ignored");
        snprintf(text, text_size,
            "chunkserver %s: incarnation %" PRIu64 " registration %" PRIu64 " is not above %" PRIu64
            ".%" PRIu64 ", which came before",
            r->server_id, r->incarnation, r->registration, s->incarnation, s->registration);
        return LH_ERR_STALE_REGISTRATION;
    }
    return LH_OK;
}

static void replace_text(char **to, const char *text)
{
    char *copy = lh_strdup(text);

    free(*to);
    *to = copy;
}

/* Ends what the server's registration left: its stream unless that is `stays`, its answer, its
 * session. */
static void end_registration(
    struct lh_master *m, struct lh_m_server *s, uint64_t stays, int error, const char *why)
{
    if (s->session != 0)
        lh_grantor_session_close(m->grantor, s->session); /* frees nothing (SES-5) */
    if (s->link != 0 && s->link != stays) {
        struct lh_m_link *old = find_link(m, s->link);
        lh_fx_close(m->fx, s->link, error, why);
        if (old != NULL)
            forget_link(m, old);
    }
    lh_m_extras_forget(m, s);
    lh_m_copies_end(m, s);
    lh_buf_clear(&s->announcement);
    s->announcing = s->announced = s->confirmed = false;
    memset(s->answers, 0, sizeof s->answers);
    s->answer_next = 0;
    if (s->report_next < s->report_count)
        m->reporting--;
    free(s->reports);
    s->reports = NULL;
    s->report_count = s->report_next = s->reports_unknown = 0;
}

void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s)
{
    LH_ASSERT(s->held_count == 0);
    end_registration(m, s, 0, LH_ERR_WRONG_IDENTITY, "the server was decommissioned");
    s->session = 0;
    s->away_since = m->now;
    lh_m_server_changed(m, s);
}

static void keep_reports(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request)
{
    if (request->n_replicas == 0)
        return;
    s->reports = lh_alloc_array(request->n_replicas, sizeof *s->reports);
    s->report_count = request->n_replicas;
    for (size_t i = 0; i < request->n_replicas; i++) {
        const Leasehold__ReplicaReport *r = request->replicas[i];
        s->reports[i] = (struct lh_m_report){.chunk = r->chunk,
            .version = r->version,
            .length = r->length,
            .sealed = r->sealed,
            .lost = r->lost,
            .copying = r->copying};
        struct lh_m_chunk *c = lh_m_chunk_find(m, r->chunk);
        struct lh_m_member *member = c == NULL ? NULL : lh_m_member(c, s);
        if (member != NULL && r->lost)
            lh_m_lose(m, c, member); /* only a copy makes it good again (FAIL-5) */
    }
    m->reporting++;
}

/* What the server will be told once its registration is durable (SES-1). The leases continued are
 * in the engine from now on, and nothing that happens meanwhile gives them to somebody else. */
static void prepare_answer(struct lh_master *m, struct lh_m_server *s,
    const Leasehold__Register *request, struct lh_m_chunk *const *continued, size_t count)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;
    Leasehold__Continued *items = lh_alloc_array(count + 1, sizeof *items);
    Leasehold__Continued **pointers = lh_alloc_array(count + 1, sizeof *pointers);

    for (size_t i = 0; i < count; i++) {
        leasehold__continued__init(&items[i]);
        items[i].chunk = continued[i]->id;
        items[i].version = continued[i]->version;
        items[i].term_ns = m->holder_chunk_term.ns;
        pointers[i] = &items[i];
    }
    registered.session = lh_m_wire_session(m, s->session);
    registered.master_term = m->term;
    registered.stamp = request->stamp;
    registered.term_ns = m->holder_session_term.ns;
    registered.heartbeat_ns = m->heartbeat.ns;
    registered.cluster_id = m->cluster_id;
    registered.n_continued = count;
    registered.continued = pointers;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    reply.registered = &registered;
    uint8_t *to;
    s->announcement = lh_buf_alloc(protobuf_c_message_get_packed_size(&reply.base), &to);
    protobuf_c_message_pack(&reply.base, to);
    s->announcing = true;
    free(items);
    free(pointers);
}

static void on_register(
    struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *request)
{
    char text[LH_TEXT_BYTES];
    int error = check_register(m, request, text, sizeof text);

    if (error != LH_OK) {
        refuse(m, l, request, error, text);
        return;
    }
    struct lh_m_server *s = lh_m_server_get(m, request->server_id);
    bool same_incarnation = request->incarnation == s->incarnation;
    bool proven = same_incarnation && request->process != 0 && request->process == s->process;
    bool same_process = same_incarnation && (request->process == s->process || s->process == 0);
    bool same_machine = s->machine_id[0] != 0 && strcmp(s->machine_id, request->machine_id) == 0;
    if (s->incarnation == 0)
        LH_MARK("registration-first");
    else if (same_process)
        LH_MARK("registration-again");
    else
        LH_MARK("registration-of-new-process");
    m->counts.registrations++;
    end_registration(m, s, l->id, LH_ERR_STALE_REGISTRATION, "the server registered anew");
    if (l->server != NULL && l->server != s && l->server->link == l->id)
        l->server->link = 0; /* a stream that speaks for another server now */
    if (same_incarnation && !same_process)
        lh_m_disown(m, s);
    s->incarnation = request->incarnation;
    s->registration = request->registration;
    s->process = request->process;
    replace_text(&s->machine_id, request->machine_id);
    replace_text(&s->address, request->address);
    replace_text(&s->failure_domain, request->failure_domain);
    lh_m_dirty_server(m, s);
    if ((!same_incarnation && same_machine) || LH_PLANTED("leases-freed-on-reregistration"))
        lh_m_free_dead(m, s);
    else if (!same_incarnation && s->held_count > 0)
        lh_fx_log(m->fx, LH_WARN,
            "chunkserver %s: a new incarnation on another machine; its %zu leases are held until "
            "they run out",
            s->id, s->held_count);

    lh_m_unsettled(m);
    s->session = lh_grantor_session_open(m->grantor, m->now, m->config.session_term, s);
    s->link = l->id;
    s->received_at = s->registered_at = m->now;
    s->stamp = request->stamp;
    s->capacity_bytes = request->capacity_bytes;
    s->free_bytes = request->free_bytes;
    s->replicas = request->n_replicas;
    s->placed_bytes = 0;
    s->failing = false;
    l->server = s;
    l->session = s->session;

    struct lh_m_chunk **continued = lh_alloc_array(request->n_held + 1, sizeof *continued);
    size_t count;
    lh_m_sum_begin(s);
    lh_m_shows(m, s, request, same_process, proven, continued, &count);
    keep_reports(m, s, request);
    prepare_answer(m, s, request, continued, count);
    free(continued);
    lh_fx_log(m->fx, LH_INFO,
        "chunkserver %s registered from %s: incarnation %" PRIu64 ", %zu replicas, %zu of %zu "
        "leases continued",
        s->id, s->address, s->incarnation, request->n_replicas, count, request->n_held);
}

static void remember_answer(struct lh_master *m, struct lh_m_server *s, uint64_t stamp)
{
    s->answers[s->answer_next].stamp = stamp;
    s->answers[s->answer_next].at = m->now;
    s->answers[s->answer_next].sent = true;
    s->answer_next = (s->answer_next + 1) % LH_ANSWERS;
}

void lh_m_announce(struct lh_master *m, struct lh_m_server *s)
{
    if (!s->announcing || !lh_m_is_durable(m, s->ticket))
        return;
    s->announcing = false;
    if (s->link == 0) {
        lh_buf_clear(&s->announcement);
        return;
    }
    s->announced = true;
    struct lh_effect *e = lh_effects_add(m->fx, LH_FX_SEND);
    e->link = s->link;
    e->header = lh_buf_take(&s->announcement);
    remember_answer(m, s, s->stamp);

    struct lh_m_chunk *c;
    TAILQ_FOREACH(c, &m->creating, creating_link)
    if (lh_m_member(c, s) != NULL)
        lh_m_creation_send(m, c, s);
    TAILQ_FOREACH(c, &s->todo, todo_link)
    lh_m_push(m, c);
    lh_m_roll_announced(m, s);
    if (s->report_count == 0)
        lh_m_server_changed(m, s);
    lh_m_touch_waited(m);
}

/* A reported replica of a chunk that there is not. */
static void look_at_unknown(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_tombstone *t;
    struct lh_m_chunk *leaving;

    lh_m_spare_reported(m, s, r);
    if (lh_m_report_evidence(m, s, NULL, r)) {
        /* Left alone until the operator has looked (KEEP-4). */
        s->reports_unknown++;
        lh_m_keep(m, s, r->chunk, r->version);
        return;
    }
    HASH_FIND(hh, m->tombstones, &r->chunk, sizeof r->chunk, t);
    HASH_FIND(hh, m->chunks, &r->chunk, sizeof r->chunk, leaving);
    if (t != NULL && leaving == NULL) {
        LH_MARK("report-of-removed-chunk");
        lh_m_send_remove(m, s, r->chunk, t->version);
    }
}

/* One reported replica: does its server have to be told something about it? */
static void look_at(struct lh_master *m, struct lh_m_server *s, const struct lh_m_report *r)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, r->chunk);

    if (c == NULL) {
        look_at_unknown(m, s, r);
        return;
    }
    lh_m_report_evidence(m, s, c, r);
    lh_m_reported(m, c, s, r);
    if (lh_m_member(c, s) == NULL && (r->version > 0 || r->copying)) {
        LH_MARK("report-of-left-replica");
        lh_m_extra_note(m, c, s, r->version, r->sealed, r->copying);
        return;
    }
    if (!lh_m_is_durable(m, c->ticket))
        return;
    if (lh_m_member(c, s) == NULL) {
        /* Its creation came too late or failed half-way; it was never used. */
        LH_MARK("report-of-vain-creation");
        lh_m_send_remove(m, s, c->id, 0);
    } else if (c->sealed && !r->sealed) {
        LH_MARK("report-of-missed-seal");
        lh_m_record_seal(m, c, s);
    }
    if (r->lost)
        lh_fx_log(
            m->fx, LH_WARN, "chunkserver %s has lost its replica of chunk %" PRIu64, s->id, c->id);
}

void lh_m_look_at_reports(struct lh_master *m)
{
    struct lh_m_server *s;
    size_t left = m->config.step_work;

    if (m->reporting == 0)
        return;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        if (s->report_next == s->report_count || !s->announced)
            continue;
        while (left > 0 && s->report_next < s->report_count) {
            look_at(m, s, &s->reports[s->report_next++]);
            left--;
        }
        if (s->report_next == s->report_count) {
            if (s->reports_unknown > 0)
                lh_fx_log(m->fx, LH_WARN,
                    "chunkserver %s has %zu replicas that this master knows nothing of; they are "
                    "left alone",
                    s->id, s->reports_unknown);
            free(s->reports);
            s->reports = NULL;
            s->report_count = s->report_next = 0;
            m->reporting--;
            lh_m_server_changed(m, s);
        }
    }
}

/* ---- Within a session. */

static void unknown_session(
    struct lh_master *m, uint64_t link, const Leasehold__Heartbeat *heartbeat)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__HeartbeatReply answer = LEASEHOLD__HEARTBEAT_REPLY__INIT;

    if (!lh_m_is_durable(m, 1))
        return; /* our term is not */
    answer.error = LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION;
    answer.session = heartbeat->session;
    answer.master_term = m->term;
    answer.stamp = heartbeat->stamp;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    reply.heartbeat = &answer;
    lh_fx_send(m->fx, link, &reply.base, NULL);
}

/* Which of our answers has the server received? (SES-4) */
static void note_confirmed(struct lh_m_server *s, uint64_t last_stamp)
{
    for (unsigned i = 0; i < LH_ANSWERS; i++) {
        if (!s->answers[i].sent || s->answers[i].stamp != last_stamp)
            continue;
        s->confirmed_at =
            s->confirmed ? lh_instant_max(s->confirmed_at, s->answers[i].at) : s->answers[i].at;
        s->confirmed = true;
    }
}

static void answer_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__HeartbeatReply answer = LEASEHOLD__HEARTBEAT_REPLY__INIT;
    Leasehold__Continued *items = lh_alloc_array(heartbeat->n_active + 1, sizeof *items);
    Leasehold__Continued **pointers = lh_alloc_array(heartbeat->n_active + 1, sizeof *pointers);
    bool *extended = lh_alloc_array(heartbeat->n_active, sizeof *extended);
    size_t count = 0;

    lh_m_extend(m, s, heartbeat, extended);
    for (size_t i = 0; i < heartbeat->n_active; i++) {
        if (!extended[i])
            continue;
        leasehold__continued__init(&items[count]);
        items[count].chunk = heartbeat->active[i]->chunk;
        items[count].version = heartbeat->active[i]->version;
        items[count].term_ns = m->holder_chunk_term.ns;
        pointers[count] = &items[count];
        count++;
    }
    answer.session = heartbeat->session;
    answer.master_term = m->term;
    answer.stamp = heartbeat->stamp;
    answer.term_ns = m->holder_session_term.ns;
    answer.n_extended = count;
    answer.extended = pointers;
    answer.show_leases = lh_m_sum_differs(s, heartbeat);
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    reply.heartbeat = &answer;
    lh_m_send(m, s, &reply);
    remember_answer(m, s, heartbeat->stamp);
    free(items);
    free(pointers);
    free(extended);
}

static void on_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    struct lh_instant received_at = m->now; /* TIME-4 */
    if (LH_PLANTED("grantor-clock-read-before-receipt"))
        received_at = s->received_at;
    if (lh_grantor_session_renew(m->grantor, s->session, received_at, m->config.session_term) !=
        LH_OK) {
        unknown_session(m, s->link, heartbeat);
        return;
    }
    m->counts.heartbeats++;
    s->received_at = m->now;
    s->stamp = heartbeat->stamp;
    note_confirmed(s, heartbeat->last_stamp);
    s->free_bytes = heartbeat->free_bytes;
    s->replicas = heartbeat->replicas;
    s->placed_bytes = 0;
    if (heartbeat->failing)
        LH_MARK("heartbeat-failing");
    if (s->failing != (heartbeat->failing != 0)) {
        lh_fx_log(m->fx, heartbeat->failing ? LH_WARN : LH_INFO, "chunkserver %s: its disk %s",
            s->id,
            heartbeat->failing ? "does not answer; it gets no leases and no replicas"
                               : "answers again");
        s->failing = heartbeat->failing;
        s->failing_since = m->now;
        lh_m_server_changed(m, s);
    }
    lh_m_on_progress(m, s, heartbeat);
    answer_heartbeat(m, s, heartbeat);

    struct lh_m_chunk *c;
    TAILQ_FOREACH(c, &s->todo, todo_link)
    lh_m_push(m, c);
    lh_m_touch_waited(m);
}

void lh_m_session_expired(struct lh_master *m, struct lh_m_server *s, lh_session_id session)
{
    if (s->session != session)
        return; /* a former session of a server that has registered since */
    LH_MARK("session-ended");
    m->counts.sessions_ended++;
    s->session = 0;
    s->away_since = m->now;
    s->confirmed = false;
    lh_m_extras_forget(m, s);
    lh_m_copies_end(m, s);
    lh_m_server_changed(m, s);
    lh_m_unsettled(m);
    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s: no heartbeat for %" PRIu64 " ms; its session is over", s->id,
        lh_duration_ms(lh_instant_until(s->received_at, m->now)));
    lh_m_touch_waited(m);
}

static void on_possible_loss(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__PossibleLoss *report)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);

    m->counts.possible_losses++;
    lh_fx_log(m->fx, LH_ERROR,
        "chunk %" PRIu64 " of \"%s\": every member's machine went down; acknowledged records "
        "above %" PRIu64 " bytes may be lost (version %" PRIu64 ", primary %s)",
        report->chunk, c == NULL ? "?" : c->file->path, report->length, report->version, s->id);
}

/* The session that a message names; false: the message has none. */
static bool named_session(const Leasehold__SessionRequest *r, uint64_t *session)
{
    switch (r->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT:
        *session = r->heartbeat->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        *session = r->confirm->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        *session = r->release->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        *session = r->seal->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED:
        *session = r->recovered->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED:
        *session = r->member_failed->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_CREATED:
        *session = r->created->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_LOST:
        *session = r->lost->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS:
        *session = r->possible_loss->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED:
        *session = r->seal_recorded->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_REMOVED:
        *session = r->removed->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        *session = r->copied->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        *session = r->fenced->session;
        return true;
    case LEASEHOLD__SESSION_REQUEST__BODY_SHOWN:
        *session = r->shown->session;
        return true;
    default:
        return false;
    }
}

void lh_m_session_message(
    struct lh_master *m, uint64_t link, const Leasehold__SessionRequest *request)
{
    struct lh_m_link *l = find_link(m, link);
    uint64_t session = 0;

    if (l == NULL)
        return;
    if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        on_register(m, l, request->register_);
        return;
    }
    if (!named_session(request, &session)) {
        lh_fx_close(m->fx, link, LH_ERR_MALFORMED, "a session message without a known body");
        forget_link(m, l);
        return;
    }
    /* SES-3: what is said counts only in the session that it names, while that session lives. */
    struct lh_m_server *s = l->server;
    if (s == NULL || s->link != link || l->session != s->session || !s->announced ||
        session != lh_m_wire_session(m, s->session) || !lh_m_live(m, s)) {
        if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
            unknown_session(m, link, request->heartbeat);
        return;
    }
    /* It knows the session's number: it has received Registered. */
    if (!s->confirmed)
        note_confirmed(s, s->answers[0].stamp);

    switch (request->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT:
        on_heartbeat(m, s, request->heartbeat);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        lh_m_on_confirm(m, s, request->confirm);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        lh_m_on_release(m, s, request->release);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        lh_m_on_seal(m, s, request->seal);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED:
        lh_m_on_recovered(m, s, request->recovered);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED:
        lh_m_on_member_failed(m, s, request->member_failed);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CREATED:
        lh_m_on_created(m, s, request->created);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_LOST:
        lh_m_on_lost(m, s, request->lost);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_REMOVED:
        lh_m_on_removed(m, s, request->removed);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_COPIED:
        lh_m_on_copied(m, s, request->copied);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED:
        lh_m_on_seal_recorded(m, s, request->seal_recorded);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS:
        on_possible_loss(m, s, request->possible_loss);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_FENCED:
        lh_m_on_fenced(m, s, request->fenced);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SHOWN:
        lh_m_on_shown(m, s, request->shown);
        break;
    default:
        break;
    }
}
