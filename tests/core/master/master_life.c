/* What is random in a master's life, and what an observer of all messages checks. */
#include "tests/core/master/master_life.h"

#include "base/prng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SERVERS 4u
#define CHUNKS  256u

struct belief {
    int server; /* -1: nobody */
    uint64_t incarnation, version, session, end_ns;
};

struct seal {
    uint64_t version, length, checksum;
};

struct world life_world;
struct lh_master_config life_next_config;

#define w life_world

static struct lh_prng prng;
static struct lh_prng ids; /* of calls, and how long they are remembered */
static uint64_t last_call;
static struct server servers[SERVERS];
static uint64_t session_ends[SERVERS]; /* as the server believes */
static struct belief beliefs[CHUNKS];  /* the newest holder of each chunk */
static uint64_t newest_chunk;          /* that anybody was asked to create */
static struct seal seals[CHUNKS];
static uint64_t fences[CHUNKS]; /* the versions that were fenced; 0: none */
static const char *const names[SERVERS] = {"a", "b", "c", "d"};

static uint64_t below(uint64_t bound)
{
    return lh_prng_below(&prng, bound);
}

static uint64_t belief_end(const struct belief *b)
{
    uint64_t session = session_ends[b->server];

    return b->end_ns < session ? b->end_ns : session;
}

/* `s` is told that it holds the chunk at `version` until `end_ns`. */
static void notified(unsigned s, uint64_t chunk, uint64_t version, uint64_t end_ns, bool replaces)
{
    assert_true(chunk < CHUNKS);
    struct belief *b = &beliefs[chunk];

    assert_true(version >= b->version); /* INV-3 */
    if (b->server >= 0 && b->server != (int)s) {
        assert_true(version > b->version);
        if (servers[b->server].incarnation == b->incarnation &&
            servers[b->server].session == b->session && belief_end(b) > w.now.ns)
            fail_msg("INV-2: chunk %u version %u to %s while %s may act on %u for another %u ms",
                (unsigned)chunk, (unsigned)version, names[s], names[b->server],
                (unsigned)b->version, (unsigned)((belief_end(b) - w.now.ns) / 1000000u));
    }
    bool same = b->server == (int)s && b->version == version && !replaces;
    b->end_ns = same && b->end_ns > end_ns ? b->end_ns : end_ns;
    b->server = (int)s;
    b->version = version;
    b->session = servers[s].session;
    b->incarnation = servers[s].incarnation;
}

static void dropped(unsigned s, uint64_t chunk, uint64_t version)
{
    if (chunk < CHUNKS && beliefs[chunk].server == (int)s && beliefs[chunk].version == version)
        beliefs[chunk].end_ns = 0;
}

/* What a server that does its work would answer; some of it is never said. */
static struct {
    unsigned server;
    Leasehold__SessionReply__BodyCase to;
    uint64_t chunk, version;
} planned[512];
static size_t planned_count;

static void plan(unsigned s, Leasehold__SessionReply__BodyCase to, uint64_t chunk, uint64_t version)
{
    if (planned_count == sizeof planned / sizeof *planned || below(8) == 0)
        return;
    planned[planned_count].server = s;
    planned[planned_count].to = to;
    planned[planned_count].chunk = chunk;
    planned[planned_count++].version = version;
}

/* SEAL-1: a seal fixes the length for ever. */
static void sealed(const Leasehold__RecordSeal *seal)
{
    assert_true(seal->chunk < CHUNKS);
    struct seal *known = &seals[seal->chunk];
    if (known->version != 0) {
        assert_int_equal(seal->version, known->version);
        assert_int_equal(seal->length, known->length);
        assert_int_equal(seal->checksum, known->checksum);
    }
    *known = (struct seal){seal->version, seal->length, seal->checksum};
}

static void hear(unsigned s, const Leasehold__SessionReply *r)
{
    switch (r->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_REGISTERED: {
        const Leasehold__Registered *x = r->registered;
        if (x->error != LEASEHOLD__ERROR_CODE__OK)
            break;
        uint64_t former = servers[s].session;
        servers[s].session = x->session;
        servers[s].last_stamp = x->stamp;
        session_ends[s] = x->stamp + x->term_ns;
        for (size_t i = 0; i < x->n_continued; i++)
            notified(s, x->continued[i]->chunk, x->continued[i]->version,
                x->stamp + x->continued[i]->term_ns, true);
        /* What is not continued is dropped. */
        for (unsigned i = 0; i < CHUNKS; i++)
            if (beliefs[i].server == (int)s && beliefs[i].session == former && former != x->session)
                beliefs[i].end_ns = 0;
        break;
    }
    case LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT: {
        const Leasehold__HeartbeatReply *x = r->heartbeat;
        if (x->error != LEASEHOLD__ERROR_CODE__OK || x->session != servers[s].session)
            break;
        servers[s].last_stamp = x->stamp;
        if (x->stamp + x->term_ns > session_ends[s])
            session_ends[s] = x->stamp + x->term_ns;
        for (size_t i = 0; i < x->n_extended; i++)
            if (beliefs[x->extended[i]->chunk].server == (int)s)
                notified(s, x->extended[i]->chunk, x->extended[i]->version,
                    x->stamp + x->extended[i]->term_ns, false);
        break;
    }
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        /* FAIL-2a: after the intent to seal nothing is granted. */
        assert_true(r->grant->chunk < CHUNKS && fences[r->grant->chunk] == 0);
        if (r->grant->session != servers[s].session)
            break;
        notified(s, r->grant->chunk, r->grant->version, r->grant->stamp + r->grant->term_ns, false);
        plan(s, r->body_case, r->grant->chunk, r->grant->version);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_CREATE:
        if (r->create->chunk > newest_chunk)
            newest_chunk = r->create->chunk;
        plan(s, r->body_case, r->create->chunk, 0);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_FENCE:
        assert_true(r->fence->chunk < CHUNKS);
        fences[r->fence->chunk] = r->fence->version;
        plan(s, r->body_case, r->fence->chunk, r->fence->version);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL:
        sealed(r->record_seal);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_REMOVE:
        plan(s, r->body_case, r->remove->chunk, r->remove->version);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL:
        plan(s, r->body_case, r->recall->chunk, r->recall->version);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_COPY:
        for (size_t i = 0; i < r->copy->n_sources; i++)
            assert_string_not_equal(r->copy->sources[i]->server_id, names[s]);
        assert_true(r->copy->n_sources > 0);
        plan(s, r->body_case, r->copy->chunk, r->copy->version);
        break;
    default:
        break;
    }
}

/* Messages are heard at once or, when the link breaks first, never. */
static void hear_all(void)
{
    for (size_t i = 0; i < w.line_count; i++)
        for (unsigned s = 0; s < SERVERS; s++)
            if (w.lines[i].link == servers[s].link && w.lines[i].message != NULL)
                hear(s, (const void *)w.lines[i].message);
    world_forget_lines(&w);
}

static void register_again(unsigned s, bool restarted)
{
    Leasehold__ChunkVersion held[64];
    Leasehold__ReplicaReport reports[64];
    size_t count = 0, report_count = 0;

    if (restarted) {
        servers[s].incarnation++;
        servers[s].registration = 0;
        servers[s].session = 0;
        session_ends[s] = 0;
    }
    servers[s].registration++;
    for (unsigned i = 0; i < CHUNKS; i++) {
        if (i <= newest_chunk && report_count < 64 && below(4) == 0) {
            leasehold__replica_report__init(&reports[report_count]);
            reports[report_count].chunk = i;
            reports[report_count].version = below(4);
            reports[report_count++].sealed = below(2) == 0;
        }
        if (!restarted && count < 64 && beliefs[i].server == (int)s &&
            beliefs[i].session == servers[s].session && belief_end(&beliefs[i]) > w.now.ns) {
            leasehold__chunk_version__init(&held[count]);
            held[count].chunk = i;
            held[count++].version = beliefs[i].version;
        }
    }
    server_register_with(&w, &servers[s], reports, report_count, held, count);
}

static void copied(unsigned s, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied m = LEASEHOLD__REPLICA_COPIED__INIT;

    m.session = servers[s].session;
    m.chunk = chunk;
    m.version = version;
    m.error = (Leasehold__ErrorCode)-error;
    m.sealed = below(2) == 0;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    request.copied = &m;
    server_send(&w, &servers[s], &request);
}

static void lost(unsigned s, uint64_t chunk)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaLost m = LEASEHOLD__REPLICA_LOST__INIT;

    m.session = servers[s].session;
    m.chunk = chunk;
    m.error = LEASEHOLD__ERROR_CODE__IO;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
    request.lost = &m;
    server_send(&w, &servers[s], &request);
}

static void seal_recorded(unsigned s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded m = LEASEHOLD__SEAL_RECORDED__INIT;

    m.session = servers[s].session;
    m.chunk = chunk;
    m.version = version;
    m.error = below(4) == 0 ? LEASEHOLD__ERROR_CODE__UNAVAILABLE : LEASEHOLD__ERROR_CODE__OK;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    request.seal_recorded = &m;
    server_send(&w, &servers[s], &request);
}

/* Does one planned thing; not always the first. */
static void do_planned(void)
{
    if (planned_count == 0)
        return;
    size_t i = below(planned_count);
    unsigned s = planned[i].server;
    Leasehold__SessionReply__BodyCase to = planned[i].to;
    uint64_t chunk = planned[i].chunk, version = planned[i].version;

    planned[i] = planned[--planned_count];
    if (to == LEASEHOLD__SESSION_REPLY__BODY_CREATE) {
        server_created(&w, &servers[s], chunk, LH_OK);
    } else if (to == LEASEHOLD__SESSION_REPLY__BODY_GRANT) {
        server_confirm(&w, &servers[s], chunk, version, LH_OK);
        if (below(2) == 0)
            server_recovered(&w, &servers[s], chunk, version);
    } else if (to == LEASEHOLD__SESSION_REPLY__BODY_COPY) {
        copied(s, chunk, version, below(4) == 0 ? LH_ERR_UNAVAILABLE : LH_OK);
    } else if (to == LEASEHOLD__SESSION_REPLY__BODY_FENCE) {
        server_fenced(&w, &servers[s], chunk, version, below(8) == 0 ? LH_ERR_RECOVERING : LH_OK,
            below(1000), below(100), below(4) == 0);
    } else if (to == LEASEHOLD__SESSION_REPLY__BODY_REMOVE) {
        server_removed(&w, &servers[s], chunk, below(8) == 0 ? LH_ERR_STALE_VERSION : LH_OK);
    } else {
        dropped(s, chunk, version);
        server_release(&w, &servers[s], chunk, version);
    }
}

static void heartbeats(void)
{
    for (unsigned s = 0; s < SERVERS; s++) {
        if (below(6) == 0)
            continue;
        if (!server_heartbeat(&w, &servers[s]) && below(2) == 0)
            register_again(s, false);
    }
}

static void speak(unsigned s)
{
    struct server *x = &servers[s];
    uint64_t chunk = 1 + below(6) + below(2) * below(40);
    uint64_t version = beliefs[chunk].version - (below(5) == 0 && beliefs[chunk].version > 0);

    switch (below(13)) {
    case 0:
    case 1:
    case 2:
        server_heartbeat_active(&w, x, below(2) * chunk, version, NULL);
        break;
    case 3:
        server_confirm(&w, x, chunk, version, LH_OK);
        break;
    case 4:
        dropped(s, chunk, version);
        if (below(2) == 0)
            server_release(&w, x, chunk, version);
        else
            server_confirm(&w, x, chunk, version, LH_ERR_IO);
        break;
    case 5:
        dropped(s, chunk, version);
        server_seal(&w, x, chunk, version, below(1000));
        break;
    case 6:
        server_member_failed(&w, x, chunk, version, names[below(SERVERS)]);
        break;
    case 7:
        copied(s, chunk, version, below(4) == 0 ? LH_ERR_CORRUPT : LH_OK);
        break;
    case 8:
        server_recovered(&w, &servers[s], chunk, version);
        break;
    case 9:
        if (below(4) == 0)
            lost(s, chunk);
        break;
    case 10:
        seal_recorded(s, chunk, version);
        break;
    default:
        server_created(&w, x, chunk, below(8) == 0 ? LH_ERR_DISK_FULL : LH_OK);
    }
}

/* Of two files, if they exist. */
static void exchange(char *one, char *other)
{
    char *const from[] = {one, other, (char *)(uintptr_t) "/between"};
    char *const to[] = {from[2], one, other};
    Leasehold__RenameRequest rename_ = LEASEHOLD__RENAME_REQUEST__INIT;

    for (unsigned i = 0; i < 3; i++) {
        rename_.from = from[i];
        rename_.to = to[i];
        world_call(&w, LH_METHOD_RENAME, &rename_);
    }
}

/* The id of a call: none, that of a new one, or that of one like it a short while ago (HA-12). */
static Leasehold__CallId *id_of(Leasehold__CallId *id, uint64_t what)
{
    leasehold__call_id__init(id);
    if (lh_prng_below(&ids, 3) == 0)
        return NULL;
    last_call += lh_prng_below(&ids, 20) == 0;
    id->client = 1 + lh_prng_below(&ids, 2);
    id->number = 1 + what + 1000 * (last_call - lh_prng_below(&ids, last_call < 3 ? 1 : 3));
    id->repeated = lh_prng_below(&ids, 2) == 0;
    return id;
}

static void call(void)
{
    static char *const paths[] = {"/1", "/2", "/3", "/4"};
    Leasehold__CreateRequest create = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__OpenTailRequest tail = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    Leasehold__RecallRequest recall = LEASEHOLD__RECALL_REQUEST__INIT;
    Leasehold__RemoveRequest remove_ = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__RenameRequest rename_ = LEASEHOLD__RENAME_REQUEST__INIT;
    Leasehold__LocateRequest locate = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__ListLeasesRequest leases = LEASEHOLD__LIST_LEASES_REQUEST__INIT;
    Leasehold__RestoreRequest restore = LEASEHOLD__RESTORE_REQUEST__INIT;
    Leasehold__GarbageRequest garbage = LEASEHOLD__GARBAGE_REQUEST__INIT;
    Leasehold__ExplainRequest explain = LEASEHOLD__EXPLAIN_REQUEST__INIT;
    Leasehold__SetServerRequest set_server = LEASEHOLD__SET_SERVER_REQUEST__INIT;
    uint64_t which = below(4);
    char *path = paths[which];
    Leasehold__CallId id;

    switch (below(20)) {
    case 0:
    case 1:
    case 2:
        create.path = path;
        create.call = id_of(&id, which);
        world_call(&w, LH_METHOD_CREATE, &create);
        break;
    case 3:
        if (below(3) != 0)
            break;
        remove_.path = path;
        remove_.now = below(2) == 0;
        remove_.call = id_of(&id, 4 + which + (remove_.now ? 4 : 0));
        world_call(&w, LH_METHOD_REMOVE, &remove_);
        break;
    case 4:
        rename_.from = path;
        which = 12 + 4 * which;
        which += below(4);
        rename_.to = paths[which % 4];
        rename_.call = id_of(&id, which);
        if (below(3) == 0)
            exchange(rename_.from, rename_.to);
        else
            world_call(&w, LH_METHOD_RENAME, &rename_);
        break;
    case 5:
        locate.path = path;
        world_call(&w, LH_METHOD_LOCATE, &locate);
        break;
    case 6:
        leases.all = true;
        world_call(&w, LH_METHOD_LIST_LEASES, &leases);
        break;
    case 7:
    case 8:
        recall.path = path;
        recall.wait_ms = below(5000);
        recall.only_release = below(2) == 0;
        world_call(&w, LH_METHOD_RECALL, &recall);
        break;
    case 9:
        restore.path = path;
        restore.call = id_of(&id, 28 + which);
        world_call(&w, LH_METHOD_RESTORE, &restore);
        garbage.resume = below(2) == 0;
        garbage.call = id_of(&id, garbage.resume ? 32 : 33);
        world_call(&w, LH_METHOD_GARBAGE, &garbage);
        break;
    case 10:
        explain.path = path;
        explain.chunk = below(newest_chunk + 2); /* 0: by the path */
        world_call(&w, LH_METHOD_EXPLAIN, &explain);
        break;
    case 11: /* mostly taken back, so that somebody is left */
        set_server.server_id = (char *)(uintptr_t)names[below(SERVERS)];
        set_server.admin =
            below(3) == 0 ? (Leasehold__ServerAdmin)below(3) : LEASEHOLD__SERVER_ADMIN__ACTIVE;
        set_server.call = id_of(&id, 40 + (uint64_t)set_server.admin + 3 * which);
        world_call(&w, LH_METHOD_SET_SERVER, &set_server);
        break;
    default:
        tail.path = path;
        tail.wait_ms = below(3000);
        tail.full_chunk = below(3) == 0 ? 1 + below(6) : 0;
        tail.failed_chunk = 1 + below(6);
        tail.failed_version = below(4) == 0 ? 1 + below(4) : 0;
        if (which == 3 &&
            below(8) != 0) { /* mostly the same one, sometimes the next or an old one */
            static uint64_t newest_token = 1;
            newest_token += below(8) == 0;
            tail.lock_name = below(16) == 0 ? (char *)(uintptr_t) "/m" : (char *)(uintptr_t) "/l";
            tail.token = 1 + newest_token - below(8) / 7;
        }
        uint64_t link = world_call(&w, LH_METHOD_OPEN_TAIL, &tail);
        if (below(8) == 0)
            world_break_link(&w, link);
    }
}

void life_step(void)
{
    unsigned s = (unsigned)below(SERVERS);

    switch (below(40)) {
    case 0:
        if (below(6) == 0)
            world_advance(&w, below(1500));
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        world_advance(&w, below(100));
        break;
    case 5:
        w.hold_commits = below(3) != 0;
        break;
    case 6:
        if (below(6) == 0)
            world_break_link(&w, servers[s].link);
        break;
    case 7:
        if (below(4) == 0)
            register_again(s, below(4) == 0);
        break;
    case 8:
        if (below(20) != 0)
            break;
        for (unsigned i = 0; i < SERVERS; i++)
            servers[i].link = 0;
        w.config = life_next_config;
        life_next_config.session_term = lh_milliseconds(below(2) == 0 ? 1000 : 3000);
        world_crash(&w);
        break;
    case 9:
    case 10:
        heartbeats();
        break;
    case 11:
    case 12:
    case 13:
    case 14:
        call();
        break;
    case 15:
    case 16:
        speak(s);
        break;
    case 17:
    case 18:
    case 19:
    case 20:
    case 21:
    case 22:
        if (w.commit_count > 0)
            world_commit(&w);
        break;
    default:
        do_planned();
    }
    hear_all();
}

void life_open(uint64_t seed)
{
    prng.state = seed;
    world_open(&w);
    w.config.session_term = lh_milliseconds(1000);
    w.config.chunk_term = lh_milliseconds(4000);
    w.config.min_replicas = 1 + (uint32_t)below(2);
    w.config.grace = lh_milliseconds(below(2) == 0 ? 1500 : 10000);
    w.config.repair_streams = (uint32_t)below(4);
    ids.state = lh_mix64(seed);
    last_call = 1;
    if (lh_prng_below(&ids, 2) == 0)
        w.config.call_keep = lh_milliseconds(200 + lh_prng_below(&ids, 5000));
    if (lh_prng_below(&ids, 2) == 0)
        w.config.calls_max = 1 + (uint32_t)lh_prng_below(&ids, 10);
    if (lh_prng_below(&ids, 2) == 0)
        w.config.calls_dropped = 1 + (uint32_t)lh_prng_below(&ids, 3);
    life_next_config = w.config;
    world_crash(&w);
    planned_count = 0;
    newest_chunk = 0;
    memset(seals, 0, sizeof seals);
    memset(fences, 0, sizeof fences);
    for (unsigned i = 0; i < CHUNKS; i++)
        beliefs[i] = (struct belief){.server = -1};
    for (unsigned i = 0; i < SERVERS; i++) {
        servers[i] = (struct server){.id = names[i], .incarnation = 1};
        session_ends[i] = 0;
        if (i + 1 < SERVERS || below(2) == 0) /* else it comes later */
            register_again(i, false);
    }
    hear_all();
}

void life_close(void)
{
    w.hold_commits = false;
    world_commit_all(&w);
    world_stop(&w);
    assert_true(w.stopped);
    world_close(&w);
}

void life_run_all(void run(uint64_t seed))
{
    const char *one = getenv("LH_SEED"), *many = getenv("LH_RUNS");
    uint64_t first = one == NULL ? 1 : strtoull(one, NULL, 10);
    uint64_t runs = one != NULL ? 1 : many == NULL ? 150 : strtoull(many, NULL, 10);

    for (uint64_t seed = first; seed < first + runs; seed++) {
        /* If it fails, this is the last line before it: replay with LH_SEED. */
        if (one != NULL || many != NULL)
            print_message("seed %" PRIu64 "\n", seed);
        run(seed);
    }
}
