/* Registration of chunkservers: who may, what it replaces, its answer (SES-1, SES-1b, SES-5). */
#include "base/address.h"
#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/servers/pieces.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/path.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static void say_refused(struct lh_master *m, const struct lh_m_link *l,
    const Leasehold__Register *request, int error, const char *text, uint64_t challenge)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;

    m->counts.registrations_refused++;
    lh_fx_log(m->fx, LH_WARN, "a chunkserver's registration was refused: %s", text);
    registered.error = lh_m_wire_error(error);
    registered.error_text = (char *)(uintptr_t)text;
    registered.stamp = request->stamp;
    registered.cluster_id = m->cluster_id;
    registered.challenge = challenge;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    reply.registered = &registered;
    if (challenge != 0)
        lh_fx_send(m->fx, l->id, &reply.base, NULL); /* another one may follow */
    else
        lh_fx_reply(m->fx, l->id, &reply.base, NULL);
}

void lh_m_registration_refuse(struct lh_master *m, struct lh_m_link *l,
    const Leasehold__Register *request, int error, const char *text)
{
    say_refused(m, l, request, error, text, 0);
    lh_m_refused_note(m, request->server_id, request->address, l->peer, l->identity, error, text);
    lh_m_stream_forget(m, l);
}

/* SES-1b. An older copy of the data directory gets none. */
static void challenge(struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *request,
    int error, const char *text)
{
    struct lh_m_server *s;

    HASH_FIND_STR(m->servers, request->server_id, s);
    if (s == NULL || request->incarnation != s->incarnation) {
        lh_m_registration_refuse(m, l, request, error, text);
        return;
    }
    LH_MARK("registration-challenged");
    s->challenge.number = ++m->challenges;
    s->challenge.link = l->id;
    say_refused(m, l, request, error, text, s->challenge.number);
}

/* SES-1b. */
static bool answers_challenge(
    const struct lh_m_server *s, const struct lh_m_link *l, const Leasehold__Register *r)
{
    if (LH_PLANTED("old-challenge-answered"))
        return r->challenge != 0 && r->incarnation == s->incarnation;
    return r->challenge != 0 && r->incarnation == s->incarnation &&
           r->challenge == s->challenge.number && l->id == s->challenge.link;
}

/* SES-1: is it, by its number, no newer than the last one? */
static bool is_late(const struct lh_m_server *s, const Leasehold__Register *r)
{
    return r->incarnation < s->incarnation ||
           (r->incarnation == s->incarnation && r->registration <= s->registration);
}

/* SES-9. */
static int check_seen(
    struct lh_master *m, const Leasehold__Register *r, char *text, size_t text_size)
{
    char who[LH_NAME_BYTES_MAX + 16];
    struct lh_m_server *s;

    HASH_FIND_STR(m->servers, r->server_id, s);
    (void)snprintf(who, sizeof who, "chunkserver %s", r->server_id);
    return lh_m_reign_check(
        m, who, r->master_term_seen, r->reign_name_seen, s == NULL ? 0 : s->reign, text, text_size);
}

/* May this server register? LH_OK, or why not. */
static int check_register(const struct lh_master *m, const struct lh_m_link *l,
    const Leasehold__Register *r, char *text, size_t text_size)
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
    if (m->config.refuse_loopback && lh_address_is_loopback(r->address)) {
        snprintf(text, text_size,
            "chunkserver %s gives the address %s, which leads every other machine to itself, and "
            "this master is not on a loopback: give --advertise, or --listen with a name that "
            "others know",
            r->server_id, r->address);
        return LH_ERR_INVALID_ARGUMENT;
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
    if (!is_late(s, r) || answers_challenge(s, l, r) || LH_PLANTED("late-registration-believed"))
        return LH_OK;
    LH_MARK("registration-late-ignored");
    if (r->incarnation == s->incarnation &&
        (r->registration == 0 || s->registration == LH_M_ONLY_CHALLENGED))
        snprintf(text, text_size,
            "chunkserver %s: it could not write a new incarnation down, and is asked to show that "
            "this registration is new",
            r->server_id);
    else
        snprintf(text, text_size,
            "chunkserver %s: incarnation %" PRIu64 " registration %" PRIu64 " is not above %" PRIu64
            ".%" PRIu64 ", which came before",
            r->server_id, r->incarnation, r->registration, s->incarnation, s->registration);
    return LH_ERR_STALE_REGISTRATION;
}

static void replace_text(char **to, const char *text)
{
    char *copy = lh_strdup(text);

    free(*to);
    *to = copy;
}

/* The answer, which goes out once the registration is durable (SES-1). The leases continued are
 * in the engine from now on, and nothing that happens meanwhile gives them to somebody else. */
static void prepare_answer(struct lh_master *m, struct lh_m_server *s,
    const Leasehold__Register *request, struct lh_m_chunk *const *continued, size_t count)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Registered registered = LEASEHOLD__REGISTERED__INIT;
    Leasehold__Continued *items = lh_alloc_array(count + 1, sizeof *items);
    Leasehold__Continued **pointers = lh_alloc_array(count + 1, sizeof *pointers);
    struct lh_m_wire_keys keys;
    uint8_t lead_key[LH_CAPABILITY_SECRET_BYTES];

    for (size_t i = 0; i < count; i++) {
        leasehold__continued__init(&items[i]);
        items[i].chunk = continued[i]->id;
        items[i].version = continued[i]->version;
        items[i].term_ns = m->holder_chunk_term.ns;
        pointers[i] = &items[i];
    }
    registered.session = lh_m_wire_session(m, s->session.client.session);
    registered.master_term = m->term;
    registered.stamp = request->stamp;
    registered.term_ns = m->holder_session_term.ns;
    registered.heartbeat_ns = m->heartbeat.ns;
    registered.cluster_id = m->cluster_id;
    registered.reign_name = lh_m_reign_name(m, m->term);
    registered.reign_name_seen = request->reign_name_seen;
    registered.asks = true;
    registered.n_continued = count;
    registered.continued = pointers;
    registered.masters = m->masters;
    registered.n_masters = m->master_count;
    lh_m_capability_keys(m, &keys);
    registered.keys = keys.pointers;
    registered.n_keys = keys.count;
    registered.lead_key = lh_m_lead_key(m, s, lead_key);
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_REGISTERED;
    reply.registered = &registered;
    lh_m_session_answer(&s->session, &reply.base);
    free(items);
    free(pointers);
}

/* Two processes have one incarnation: what the first was granted nobody gives back (SES-5a). */
static void disown(struct lh_master *m, struct lh_m_server *s)
{
    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s: another process says that it is incarnation %" PRIu64
        ", as one from a copy of its data directory does; %zu leases are held until they run out",
        s->id, s->incarnation, s->session.client.count);
    lh_lease_client_disown(&m->leases, &s->session.client);
}

bool lh_m_register(struct lh_master *m, struct lh_m_link *l, struct lh_m_registration *r)
{
    const Leasehold__Register *request = r->head;
    char text[LH_TEXT_BYTES];
    char refusal[LH_ACCESS_TEXT_MAX];
    int error = check_register(m, l, request, text, sizeof text);

    if (error != LH_OK && error != LH_ERR_STALE_REGISTRATION) {
        lh_m_registration_refuse(m, l, request, error, text);
        return false;
    }
    int access = lh_m_access_server(m, l->identity, request->server_id, refusal);
    if (access != LH_OK) {
        lh_m_registration_refuse(m, l, request, access, refusal);
        return false;
    }
    int seen = check_seen(m, request, text, sizeof text);
    if (seen != LH_OK) {
        lh_m_registration_refuse(m, l, request, seen, text);
        return false;
    }
    if (error != LH_OK) {
        challenge(m, l, request, error, text);
        return false;
    }
    struct lh_m_server *s = lh_m_server_get(m, request->server_id);
    bool numbers_count = request->registration != 0 && !answers_challenge(s, l, request);
    bool same_incarnation = request->incarnation == s->incarnation;
    bool proven = same_incarnation && request->process != 0 && request->process == s->process;
    /* An older release gave no number. By a challenge another process of it can have come. */
    bool same_process =
        same_incarnation && (request->process == s->process || (s->process == 0 && numbers_count));
    bool same_machine = s->machine_id[0] != 0 && strcmp(s->machine_id, request->machine_id) == 0;
    if (s->incarnation == 0)
        LH_MARK("registration-first");
    else if (same_process)
        LH_MARK("registration-again");
    else
        LH_MARK("registration-of-new-process");
    m->counts.registrations++;
    lh_m_refused_mended(m, request->server_id, request->address, l->identity);
    lh_m_session_replace(
        m, &s->session, l->id, LH_ERR_STALE_REGISTRATION, "the server registered anew");
    lh_m_server_left(m, s, true);
    if (same_incarnation && !same_process)
        disown(m, s);
    if (!same_process)
        memset(&s->ordered, 0, sizeof s->ordered);
    s->incarnation = s->session.client.process = request->incarnation;
    s->registration = numbers_count ? request->registration : LH_M_ONLY_CHALLENGED;
    s->challenge.number = s->challenge.link = 0;
    s->process = request->process;
    /* A new process has read it from its disk. What is only in memory goes with the process. */
    if (!same_incarnation && request->master_term_seen > s->reign &&
        request->reign_name_seen == lh_m_reign_name(m, request->master_term_seen))
        s->reign = request->master_term_seen;
    replace_text(&s->machine_id, request->machine_id);
    bool moved = strcmp(s->address, request->address) != 0;
    replace_text(&s->address, request->address);
    replace_text(&s->failure_domain, request->failure_domain);
    lh_m_dirty_server(m, s);
    if ((!same_incarnation && same_machine) || LH_PLANTED("leases-freed-on-reregistration"))
        lh_lease_client_free_dead(&m->leases, &s->session.client);
    else if (!same_incarnation && s->session.client.count > 0)
        lh_fx_log(m->fx, LH_WARN,
            "chunkserver %s: a new incarnation on another machine; its %zu leases are held until "
            "they run out",
            s->id, s->session.client.count);

    lh_m_unsettled(m);
    lh_m_session_begin(m, &s->session, l, m->config.session_term, request->stamp);
    s->space.capacity_bytes = request->capacity_bytes;
    s->space.free_bytes = request->free_bytes;
    s->space.replicas = request->replica_count > 0 ? request->replica_count : r->replica_count;
    s->space.placed_bytes = 0;
    if (request->read_only)
        lh_m_disk_fails(m, s, true, true);
    else
        s->space.failing = s->space.read_only = false;

    lh_m_reach_begin(m, s, request->identifies, moved);
    (void)lh_m_number_evidence(m, s, request->last_chunk);

    struct lh_m_chunk **continued = lh_alloc_array(r->held_count + 1, sizeof *continued);
    size_t count;
    lh_m_shows(m, s, r->held, r->held_count, same_process, proven, continued, &count);
    lh_m_reports_add(m, s, r->replicas, r->replica_count, r->more);
    r->counts = true;
    prepare_answer(m, s, request, continued, count);
    free(continued);
    lh_fx_log(m->fx, LH_INFO,
        "chunkserver %s registered from %s: incarnation %" PRIu64 ", %" PRIu64
        " replicas, %zu of %zu leases continued",
        s->id, s->address, s->incarnation, s->space.replicas, count, r->held_count);
    return true;
}
