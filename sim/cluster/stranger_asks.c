/* Strangers that read, settle, and speak as servers do. */
#include "sim/cluster/stranger_internal.h"

/* ---- Reading and settling ---- */

void lh_sim_x_read(struct lh_sim_stranger *x)
{
    Leasehold__ReadRequest m = LEASEHOLD__READ_REQUEST__INIT;
    struct lh_sim_chunk c;

    if (!lh_sim_x_chunk(x, &c))
        return;
    m.chunk = below(x, 8) == 0 ? lh_sim_x_absurd(x, c.chunk) : c.chunk;
    m.version = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.version) : 0;
    m.offset = below(x, 2) == 0 ? 0 : lh_sim_x_absurd(x, c.length);
    m.max_bytes = lh_sim_x_absurd(x, 4096);
    m.wait_ms = lh_sim_x_absurd(x, 1000);
    m.mode = (Leasehold__ReadMode)below(x, 5);
    m.require_primary = below(x, 4) == 0;
    m.capability = lh_sim_x_capability(x, c.chunk);
    LH_MARK("stranger-reads-anything");
    struct talk *t = lh_sim_x_begin(x, LH_METHOD_READ, lh_sim_x_server(x, c.chunk));
    lh_sim_x_say(x, t, &m);
    if (below(x, 2) == 0)
        lh_fx_hold(x->fx, t->link);
}

void lh_sim_x_settle(struct lh_sim_stranger *x)
{
    Leasehold__SettleRequest m = LEASEHOLD__SETTLE_REQUEST__INIT;
    const struct talk *of = lh_sim_x_talk(x, LH_METHOD_APPEND);
    struct lh_sim_chunk c;

    if (!lh_sim_x_chunk(x, &c))
        return;
    m.chunk = c.chunk;
    m.version = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.version) : c.version;
    m.writer = of == NULL || below(x, 4) == 0 ? lh_sim_x_absurd(x, 1) : of->writer;
    m.capability = lh_sim_x_capability(x, c.chunk);
    LH_MARK("stranger-settles-anything");
    lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_SETTLE, lh_sim_x_server(x, c.chunk)), &m);
}

/* ---- As a server ---- */

/* An old primary's word, or one that nobody adopted a version for. */
void lh_sim_x_replicate(struct lh_sim_stranger *x)
{
    Leasehold__ReplicateRequest q = LEASEHOLD__REPLICATE_REQUEST__INIT;
    Leasehold__ReplicatePart m = LEASEHOLD__REPLICATE_PART__INIT, *parts[] = {&m};
    struct lh_sim_chunk c;

    if (lh_sim_x_may_lead(x) && below(x, 3) != 0) {
        lh_sim_x_lead(x);
        return;
    }
    if (!lh_sim_x_chunk(x, &c))
        return;
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_REPLICATE);
    if (t == NULL || below(x, 2) == 0)
        t = lh_sim_x_begin(x, LH_METHOD_REPLICATE, lh_sim_x_server(x, c.chunk));
    m.kind = (Leasehold__ReplicateKind)below(x, 6);
    m.chunk = below(x, 8) == 0 ? UINT64_MAX - below(x, 3) : c.chunk;
    m.version = c.version;
    /* It may be adopted by a replica that lags, as that of an old primary may. */
    if (m.kind == LEASEHOLD__REPLICATE_KIND__ADOPT && m.chunk == c.chunk)
        m.version = c.version > 1 ? below(x, c.version) : 0;
    m.offset = lh_sim_x_absurd(x, 0);
    m.committed = lh_sim_x_absurd(x, 0);
    m.length = lh_sim_x_absurd(x, 0);
    m.checksum = lh_prng_next(&x->random);
    m.joining = below(x, 2) == 0;
    m.feed = below(x, 4);
    m.bytes = below(x, 8) == 0;
    q.parts = parts;
    q.n_parts = 1;
    LH_MARK("stranger-replicates-anything");
    lh_sim_x_say(x, t, &q);
}

/* Sessions are numbered, and the numbers are easily guessed. */
void lh_sim_x_speak_in_a_session(struct lh_sim_stranger *x)
{
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat heartbeat = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__Release release = LEASEHOLD__RELEASE__INIT;
    Leasehold__GrantConfirm confirm = LEASEHOLD__GRANT_CONFIRM__INIT;
    Leasehold__SealReport seal = LEASEHOLD__SEAL_REPORT__INIT;
    Leasehold__ReplicaLost lost = LEASEHOLD__REPLICA_LOST__INIT;
    Leasehold__Fenced fenced = LEASEHOLD__FENCED__INIT;
    Leasehold__Register again = LEASEHOLD__REGISTER__INIT;
    struct lh_sim_chunk c;

    if (!lh_sim_x_chunk(x, &c))
        return;
    uint64_t session = 0;
    struct lh_instant end;
    struct lh_sim_node *master = lh_sim_master(x->cluster);
    const struct lh_master *core = lh_sim_acting_core(x->cluster, master);
    if (core == NULL || c.holder[0] == '\0' ||
        !lh_master_session_of(core, c.holder, lh_sim_clock(master), &session, &end))
        session = below(x, 40);
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_SESSION);
    if (t == NULL || below(x, 3) == 0)
        t = lh_sim_x_begin(x, LH_METHOD_SESSION, lh_sim_name(master));
    switch (below(x, 7)) {
    case 0:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
        heartbeat.session = session;
        heartbeat.stamp = lh_sim_x_absurd(x, 1);
        heartbeat.last_stamp = lh_sim_x_absurd(x, 1);
        heartbeat.failing = true;
        m.heartbeat = &heartbeat;
        break;
    case 1:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_RELEASE;
        release.session = session;
        release.chunk = c.chunk;
        release.version = c.version;
        m.release = &release;
        break;
    case 2:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
        confirm.session = session;
        confirm.chunk = c.chunk;
        confirm.version = c.version;
        confirm.error = LEASEHOLD__ERROR_CODE__STALE_VERSION;
        confirm.adopted = lh_sim_x_absurd(x, c.version);
        m.confirm = &confirm;
        break;
    case 3:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL;
        seal.session = session;
        seal.chunk = c.chunk;
        seal.version = c.version;
        seal.length = lh_sim_x_absurd(x, 0);
        m.seal = &seal;
        break;
    case 4:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
        lost.session = session;
        lost.chunk = c.chunk;
        lost.version = c.version;
        lost.error = LEASEHOLD__ERROR_CODE__CORRUPT;
        m.lost = &lost;
        break;
    case 5:
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_FENCED;
        fenced.session = session;
        fenced.chunk = c.chunk;
        fenced.version = c.version;
        fenced.length = lh_sim_x_absurd(x, 0);
        m.fenced = &fenced;
        break;
    default: /* an incarnation that never was */
        m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
        again.server_id = c.member_count > 0 ? c.members[0].server : c.holder;
        again.address = again.server_id;
        again.machine_id = again.server_id;
        again.cluster_id = (char *)(uintptr_t)(below(x, 2) == 0 ? "" : "of another cluster");
        m.register_ = &again;
        break;
    }
    LH_MARK("stranger-speaks-in-a-session");
    lh_sim_x_say(x, t, &m);
}

/* ---- Of the master ---- */

static const char *some_path(struct lh_sim_stranger *x)
{
    size_t count = lh_sim_file_count(x->cluster);

    return count == 0 ? "/" : lh_sim_file_path(x->cluster, below(x, count));
}

/* Nothing of it changes anything. */
void lh_sim_x_ask_master(struct lh_sim_stranger *x)
{
    struct lh_sim_chunk c = {0};
    char path[512];
    const char *master = lh_sim_name(lh_sim_master(x->cluster));

    (void)lh_sim_x_chunk(x, &c);
    memset(path, "/\xff\n\xe2"[below(x, 4)], sizeof path);
    path[below(x, sizeof path)] = '\0';
    path[sizeof path - 1] = '\0';
    LH_MARK("stranger-asks-anything");
    switch (below(x, 6)) {
    case 0:
    case 1: {
        Leasehold__OpenTailRequest m = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
        m.path = (char *)(uintptr_t)some_path(x);
        m.file = below(x, 4) == 0 ? lh_sim_x_absurd(x, c.file) : 0;
        m.full_chunk = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.chunk) : 0;
        m.failed_version = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.version) : 0;
        m.failed_chunk = m.full_chunk != 0 ? m.full_chunk : c.chunk;
        m.unsettled_chunk = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.chunk) : 0;
        m.wait_ms = lh_sim_x_absurd(x, 1000);
        lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_OPEN_TAIL, master), &m);
        break;
    }
    case 2: {
        Leasehold__LocateRequest m = LEASEHOLD__LOCATE_REQUEST__INIT;
        m.path = below(x, 2) == 0 ? path : (char *)(uintptr_t)some_path(x);
        m.file = below(x, 2) == 0 ? lh_sim_x_absurd(x, c.file) : 0;
        m.offset = lh_sim_x_absurd(x, c.start);
        m.limit = (uint32_t)lh_sim_x_absurd(x, 1);
        lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_LOCATE, master), &m);
        break;
    }
    case 3: {
        Leasehold__CreateRequest m = LEASEHOLD__CREATE_REQUEST__INIT;
        m.path = path;
        m.replication = UINT32_MAX;
        m.min_replicas = (uint32_t)lh_sim_x_absurd(x, 1);
        m.chunk_size = lh_sim_x_absurd(x, 1);
        m.durability = (Leasehold__Durability)below(x, 9);
        lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_CREATE, master), &m);
        break;
    }
    case 4: {
        Leasehold__ListChunksRequest m = LEASEHOLD__LIST_CHUNKS_REQUEST__INIT;
        m.prefix = below(x, 2) == 0 ? path : (char *)(uintptr_t) "/";
        m.after_chunk = lh_sim_x_absurd(x, c.chunk);
        m.limit = (uint32_t)lh_sim_x_absurd(x, 1);
        lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_LIST_CHUNKS, master), &m);
        break;
    }
    default: {
        Leasehold__ExplainRequest m = LEASEHOLD__EXPLAIN_REQUEST__INIT;
        m.path = path;
        m.chunk = lh_sim_x_absurd(x, c.chunk);
        lh_sim_x_say(x, lh_sim_x_begin(x, LH_METHOD_EXPLAIN, master), &m);
        break;
    }
    }
}
