#include "sim/scenario/condition.h"

#include "base/assert.h"
#include "sim/world/disk.h"

#include <inttypes.h>
#include <string.h>

/* ---- Phrases ---- */

static bool parse_rule(struct lh_sim_words *w, void *to)
{
    static const char *const rules[] = {"INV-1", "INV-2", "INV-11", "INV-13", "INV-14", "INV-15"};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!lh_sim_words_take(w, rules[i]))
            continue;
        memset(to, 0, sizeof((struct lh_sim_condition *)0)->rule);
        memcpy(to, rules[i], strlen(rules[i]));
        return true;
    }
    return false;
}

static const struct lh_sim_slot_type slot_rule = {
    parse_rule, lh_sim_print_string, sizeof((struct lh_sim_condition *)0)->rule, NULL};

#define SLOT(name, type, member) LH_SIM_SLOT(name, type, struct lh_sim_condition, member)

static const struct lh_sim_slot slots[] = {
    SLOT("who", lh_sim_slot_who, who),
    SLOT("chunk", lh_sim_slot_where, chunk),
    SLOT("path", lh_sim_slot_path, path),
    SLOT("program", lh_sim_slot_label, program),
    SLOT("number", lh_sim_slot_number, number),
    SLOT("rule", slot_rule, rule),
    {0},
};

/* ---- What there is ---- */

static bool may_act(const struct lh_sim_node *node, uint64_t chunk)
{
    const struct lh_chunkserver *cs = lh_sim_core(node);
    uint64_t version;

    return cs != NULL && lh_chunkserver_may_act(cs, chunk, lh_sim_clock(node), &version);
}

static bool is_server(struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    for (size_t i = 1; i <= lh_sim_servers(c); i++)
        if (lh_sim_server(c, i) == node)
            return true;
    return false;
}

static bool is_member(const struct lh_sim_chunk *chunk, const struct lh_sim_node *node)
{
    for (size_t i = 0; i < chunk->member_count; i++)
        if (strcmp(chunk->members[i].server, lh_sim_name(node)) == 0)
            return true;
    return false;
}

static bool file_exists(struct lh_sim_cluster *c, const char *path)
{
    for (size_t i = 0; i < lh_sim_file_count(c); i++)
        if (strcmp(lh_sim_file_path(c, i), path) == 0)
            return true;
    return false;
}

/* False: the node is down, or has none. */
static bool replica_at(
    const struct lh_sim_node *node, uint64_t chunk, struct lh_replica_status *status)
{
    const struct lh_chunkserver *cs = lh_sim_core(node);

    *status = (struct lh_replica_status){0};
    return cs != NULL && lh_chunkserver_replica(cs, chunk, status);
}

/* What is committed, as far as anybody knows, or the sealed length. */
static uint64_t end_of(struct lh_sim_cluster *c, const struct lh_sim_chunk *chunk)
{
    uint64_t end = 0;

    if (chunk->sealed)
        return chunk->length;
    for (size_t i = 1; i <= lh_sim_servers(c); i++) {
        struct lh_replica_status status;
        if (replica_at(lh_sim_server(c, i), chunk->chunk, &status) && status.committed > end)
            end = status.committed;
    }
    return end;
}

static uint64_t longest(struct lh_sim_cluster *c, uint64_t chunk)
{
    uint64_t most = 0;

    for (size_t i = 1; i <= lh_sim_servers(c); i++) {
        struct lh_replica_status status;
        if (replica_at(lh_sim_server(c, i), chunk, &status) && status.length > most)
            most = status.length;
    }
    return most;
}

/* ---- Questions ---- */

struct subject {
    struct lh_sim_cluster *cluster;
    struct lh_sim_observers *observers;
    struct lh_sim_node *node; /* NULL: nobody is it */
    bool has_chunk;
    struct lh_sim_chunk chunk;
    struct lh_sim_node *primary; /* of the chunk */
    bool has_replica;            /* of the chunk, at the node */
    struct lh_replica_status replica;
    bool has_program;
    struct lh_sim_program_status program;
    const struct lh_sim_program_spec *spec;
};

static struct subject look(
    const struct lh_sim_condition *k, struct lh_sim_cluster *c, struct lh_sim_actor *actor)
{
    struct subject s = {.cluster = c};

    if (k->who.kind != LH_SIM_WHO_NOBODY)
        (void)lh_sim_actor_resolve(actor, &k->who, &s.node, 1);
    if (k->chunk.path[0] != '\0' || k->chunk.number != 0)
        s.has_chunk = lh_sim_actor_chunk(actor, &k->chunk, &s.chunk);
    if (s.has_chunk)
        s.primary = lh_sim_primary(c, s.chunk.chunk);
    if (s.has_chunk && s.node != NULL && is_server(c, s.node))
        s.has_replica = replica_at(s.node, s.chunk.chunk, &s.replica);
    if (k->program[0] != '\0') {
        const struct lh_sim_program *p = lh_sim_program_find(c, k->program);
        s.has_program = p != NULL;
        if (p != NULL) {
            s.program = lh_sim_program_status(p);
            s.spec = lh_sim_program_spec(p);
        }
    }
    return s;
}

static bool in_session(const struct subject *s)
{
    return s->node != NULL && is_server(s->cluster, s->node) && lh_sim_is_up(s->node) &&
           lh_chunkserver_in_session(lh_sim_core(s->node), lh_sim_clock(s->node));
}

static bool primary_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    bool acts = s->node != NULL && s->has_chunk && is_server(s->cluster, s->node) &&
                may_act(s->node, s->chunk.chunk);

    switch (k->kind) {
    case LH_SIM_IF_PRIMARY:
        return s->primary != NULL && s->primary == s->node;
    case LH_SIM_IF_PRIMARY_NOT:
        return s->primary != NULL && s->primary != s->node;
    case LH_SIM_IF_PRIMARY_NOBODY:
        return s->primary == NULL;
    case LH_SIM_IF_PRIMARY_SOMEBODY:
        return s->primary != NULL;
    case LH_SIM_IF_MAY_ACT:
        return acts;
    default:
        return !acts;
    }
}

static bool chunk_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    const struct lh_sim_chunk *chunk = &s->chunk;

    if (!s->has_chunk)
        return k->kind == LH_SIM_IF_NO_MEMBER;
    switch (k->kind) {
    case LH_SIM_IF_EXISTS:
        return true;
    case LH_SIM_IF_SEALED:
        return chunk->sealed;
    case LH_SIM_IF_SEALED_AT:
        return chunk->sealed && chunk->length == k->number;
    case LH_SIM_IF_UNSEALED:
        return !chunk->sealed;
    case LH_SIM_IF_VERSION:
        return chunk->version == k->number;
    case LH_SIM_IF_VERSION_ABOVE:
        return chunk->version > k->number;
    case LH_SIM_IF_MEMBERS:
        return chunk->member_count == k->number;
    case LH_SIM_IF_MEMBER:
        return s->node != NULL && is_member(chunk, s->node);
    default:
        return s->node == NULL || !is_member(chunk, s->node);
    }
}

static bool replica_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    const struct lh_replica_status *r = &s->replica;

    if (!s->has_replica)
        return k->kind == LH_SIM_IF_REPLICA_MISSING;
    switch (k->kind) {
    case LH_SIM_IF_REPLICA_LOST:
        return r->lost;
    case LH_SIM_IF_REPLICA_UNVERIFIED:
        return r->unverified;
    case LH_SIM_IF_REPLICA_SEALED:
        return r->sealed;
    case LH_SIM_IF_REPLICA_WHOLE:
        return !r->lost && !r->unverified;
    case LH_SIM_IF_REPLICA_VERSION:
        return r->version == k->number;
    case LH_SIM_IF_REPLICA_SHORTER:
        return r->length < longest(s->cluster, s->chunk.chunk);
    default:
        return false;
    }
}

static bool node_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    if (s->node == NULL)
        return false;
    switch (k->kind) {
    case LH_SIM_IF_SESSION:
        return in_session(s);
    case LH_SIM_IF_NO_SESSION:
        return !in_session(s);
    case LH_SIM_IF_UP:
        return lh_sim_is_up(s->node);
    case LH_SIM_IF_DOWN:
        return !lh_sim_is_up(s->node);
    default:
        return lh_sim_is_paused(s->node);
    }
}

static bool reign_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    return lh_sim_reign_holds(k, s->cluster, s->node);
}

static bool program_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    const struct lh_sim_program_status *p = &s->program;
    struct lh_sim_chunk tail;

    if (!s->has_program)
        return false;
    switch (k->kind) {
    case LH_SIM_IF_ACKNOWLEDGED:
        return p->succeeded >= k->number;
    case LH_SIM_IF_DONE:
        /* What ends a reader at the file's end counts as failed (LH_ERR_CLOSED). */
        return p->ended && p->pending == 0 && p->lost == 0 &&
               (p->failed == 0 ||
                   (s->spec->kind == LH_SIM_READER && p->last_error == LH_ERR_CLOSED));
    case LH_SIM_IF_FENCED_OUT:
        return p->ended && p->pending == 0 && p->last_error == LH_ERR_STALE_TOKEN;
    case LH_SIM_IF_WAITS:
        return p->pending > 0;
    case LH_SIM_IF_GAPS:
        return p->gaps == k->number;
    case LH_SIM_IF_READ_BYTES:
        return s->spec->kind == LH_SIM_READER && p->position >= k->number;
    default:
        return s->spec->kind == LH_SIM_READER && lh_sim_tail(s->cluster, s->spec->path, &tail) &&
               p->position >= tail.start + end_of(s->cluster, &tail);
    }
}

static bool lease_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    const struct lh_sim_program *p = lh_sim_program_find(s->cluster, k->program);

    switch (k->kind) {
    case LH_SIM_IF_HOLDS:
        return p != NULL && lh_sim_program_holds(p, k->path);
    case LH_SIM_IF_HOLDS_NOT:
        return p == NULL || !lh_sim_program_holds(p, k->path);
    case LH_SIM_IF_CACHES:
        return p != NULL && lh_sim_program_caches(p, k->path);
    default:
        return p == NULL || !lh_sim_program_caches(p, k->path);
    }
}

static bool file_holds(const struct lh_sim_condition *k, const struct subject *s)
{
    switch (k->kind) {
    case LH_SIM_IF_APPENDS:
        return lh_sim_open_primary(s->cluster, k->path) != NULL;
    case LH_SIM_IF_NO_APPENDS:
        return lh_sim_open_primary(s->cluster, k->path) == NULL;
    case LH_SIM_IF_FILE:
        return file_exists(s->cluster, k->path);
    case LH_SIM_IF_NO_FILE:
        return !file_exists(s->cluster, k->path);
    case LH_SIM_IF_CHUNKS:
        return lh_sim_chunk_count(s->cluster, k->path) >= k->number;
    default:
        return lh_sim_file_is_identical(s->cluster, k->path);
    }
}

static bool was_seen(const struct lh_sim_condition *k, const struct subject *s)
{
    return lh_sim_observers_seen(s->observers, k->rule) > 0;
}

/* ---- All of them ---- */

/* Of phrases that begin alike the longer one comes first. */
static const struct {
    enum lh_sim_condition_kind kind;
    const char *pattern;
    bool (*holds)(const struct lh_sim_condition *k, const struct subject *s);
} phrases[] = {
    {LH_SIM_IF_PRIMARY_NOT, "<chunk> primary is not <who>", primary_holds},
    {LH_SIM_IF_PRIMARY_NOBODY, "<chunk> primary is nobody", primary_holds},
    {LH_SIM_IF_PRIMARY_SOMEBODY, "<chunk> primary is somebody", primary_holds},
    {LH_SIM_IF_PRIMARY, "<chunk> primary is <who>", primary_holds},
    {LH_SIM_IF_MAY_NOT_ACT, "<who> may not act on <chunk>", primary_holds},
    {LH_SIM_IF_MAY_ACT, "<who> may act on <chunk>", primary_holds},
    {LH_SIM_IF_APPENDS, "<path> takes appends", file_holds},
    {LH_SIM_IF_NO_APPENDS, "<path> takes no appends", file_holds},
    {LH_SIM_IF_EXISTS, "<chunk> exists", chunk_holds},
    {LH_SIM_IF_SEALED_AT, "<chunk> is sealed at <number>", chunk_holds},
    {LH_SIM_IF_SEALED, "<chunk> is sealed", chunk_holds},
    {LH_SIM_IF_UNSEALED, "<chunk> is not sealed", chunk_holds},
    {LH_SIM_IF_VERSION_ABOVE, "version of <chunk> is above <number>", chunk_holds},
    {LH_SIM_IF_VERSION, "version of <chunk> is <number>", chunk_holds},
    {LH_SIM_IF_MEMBERS, "<chunk> has <number> members", chunk_holds},
    {LH_SIM_IF_MEMBER, "<who> is a member of <chunk>", chunk_holds},
    {LH_SIM_IF_NO_MEMBER, "<who> is no member of <chunk>", chunk_holds},
    {LH_SIM_IF_FILE, "<path> exists", file_holds},
    {LH_SIM_IF_NO_FILE, "<path> does not exist", file_holds},
    {LH_SIM_IF_CHUNKS, "<path> has <number> chunks", file_holds},
    {LH_SIM_IF_REPLICA_LOST, "replica of <chunk> at <who> is lost", replica_holds},
    {LH_SIM_IF_REPLICA_UNVERIFIED, "replica of <chunk> at <who> is unverified", replica_holds},
    {LH_SIM_IF_REPLICA_SEALED, "replica of <chunk> at <who> is sealed", replica_holds},
    {LH_SIM_IF_REPLICA_MISSING, "replica of <chunk> at <who> is missing", replica_holds},
    {LH_SIM_IF_REPLICA_WHOLE, "replica of <chunk> at <who> is whole", replica_holds},
    {LH_SIM_IF_REPLICA_VERSION, "replica of <chunk> at <who> has version <number>", replica_holds},
    {LH_SIM_IF_REPLICA_SHORTER, "replica of <chunk> at <who> is shorter", replica_holds},
    {LH_SIM_IF_IDENTICAL, "replicas of <path> are identical", file_holds},
    {LH_SIM_IF_SESSION, "<who> is in session", node_holds},
    {LH_SIM_IF_NO_SESSION, "<who> has no session", node_holds},
    {LH_SIM_IF_UP, "<who> is up", node_holds},
    {LH_SIM_IF_DOWN, "<who> is down", node_holds},
    {LH_SIM_IF_PAUSED, "<who> is paused", node_holds},
    {LH_SIM_IF_ACTIVE, "<who> is active", reign_holds},
    {LH_SIM_IF_NOT_ACTIVE, "<who> is not active", reign_holds},
    {LH_SIM_IF_NONE_ACTIVE, "no master is active", reign_holds},
    {LH_SIM_IF_REIGN_ABOVE, "the reign is above <number>", reign_holds},
    {LH_SIM_IF_REIGN, "the reign is <number>", reign_holds},
    {LH_SIM_IF_ACKNOWLEDGED, "program <program> has <number> acknowledged", program_holds},
    {LH_SIM_IF_DONE, "program <program> is done", program_holds},
    {LH_SIM_IF_GAPS, "program <program> was told of <number> gaps", program_holds},
    {LH_SIM_IF_FENCED_OUT, "program <program> is fenced out", program_holds},
    {LH_SIM_IF_WAITS, "program <program> waits", program_holds},
    {LH_SIM_IF_HOLDS, "program <program> holds <path>", lease_holds},
    {LH_SIM_IF_HOLDS_NOT, "program <program> does not hold <path>", lease_holds},
    {LH_SIM_IF_CACHES, "program <program> caches <path>", lease_holds},
    {LH_SIM_IF_CACHES_NOT, "program <program> does not cache <path>", lease_holds},
    {LH_SIM_IF_READ_ALL, "program <program> has read everything", program_holds},
    {LH_SIM_IF_READ_BYTES, "program <program> has read <number> bytes", program_holds},
    {LH_SIM_IF_SEEN, "<rule> was seen broken", was_seen},
};

#define PHRASES (sizeof phrases / sizeof phrases[0])

static size_t phrase_of(const struct lh_sim_condition *k)
{
    size_t i = 0;

    while (i < PHRASES && phrases[i].kind != k->kind)
        i++;
    LH_ASSERT(i < PHRASES);
    return i;
}

bool lh_sim_condition_parse_words(struct lh_sim_condition *condition, struct lh_sim_words *w)
{
    size_t begin = w->at;

    for (size_t i = 0; i < PHRASES; i++) {
        w->at = begin;
        /* Every byte, since conditions are compared as bytes. */
        memset(condition, 0, sizeof *condition);
        condition->kind = phrases[i].kind;
        if (lh_sim_phrase_parse(slots, phrases[i].pattern, w, condition))
            return true;
    }
    w->at = begin;
    return false;
}

void lh_sim_condition_print(const struct lh_sim_condition *condition, char *text, size_t text_size)
{
    struct lh_sim_text t = lh_sim_text_at(text, text_size);

    lh_sim_phrase_print(slots, phrases[phrase_of(condition)].pattern, condition, condition, &t);
}

bool lh_sim_condition_holds(const struct lh_sim_condition *k, struct lh_sim_cluster *c,
    struct lh_sim_actor *actor, struct lh_sim_observers *o)
{
    struct subject s = look(k, c, actor);

    s.observers = o;
    return phrases[phrase_of(k)].holds(k, &s);
}

/* ---- What is so instead ---- */

static void describe_chunk(const struct subject *s, struct lh_sim_text *t)
{
    const struct lh_sim_chunk *chunk = &s->chunk;

    lh_sim_text_add(t, "chunk %" PRIu64 " has version %" PRIu64 ", holder %s, primary %s, members",
        chunk->chunk, chunk->version, chunk->holder[0] == '\0' ? "nobody" : chunk->holder,
        s->primary == NULL ? "nobody" : lh_sim_name(s->primary));
    for (size_t i = 0; i < chunk->member_count; i++)
        lh_sim_text_add(t, "%s", chunk->members[i].server);
    if (chunk->sealed)
        lh_sim_text_add(t, "and is sealed at %" PRIu64, chunk->length);
}

static void describe_node(const struct subject *s, struct lh_sim_text *t)
{
    lh_sim_text_add(t, "%s is %s%s", lh_sim_name(s->node), lh_sim_is_up(s->node) ? "up" : "down",
        lh_sim_is_paused(s->node) ? " and paused" : "");
    if (is_server(s->cluster, s->node))
        lh_sim_text_add(t, "%s", in_session(s) ? "with a session" : "without a session");
    if (s->has_replica)
        lh_sim_text_add(t,
            "(replica: version %" PRIu64 ", length %" PRIu64 ", committed %" PRIu64 "%s%s%s%s)",
            s->replica.version, s->replica.length, s->replica.committed,
            s->replica.sealed ? ", sealed" : "", s->replica.lost ? ", lost" : "",
            s->replica.unverified ? ", unverified" : "", s->replica.open ? ", takes appends" : "");
}

static void describe_file(
    const struct lh_sim_condition *k, struct lh_sim_cluster *c, struct lh_sim_text *t)
{
    struct subject s = {.cluster = c};

    if (!file_exists(c, k->path)) {
        lh_sim_text_add(t, "there is no %s", k->path);
        return;
    }
    lh_sim_text_add(t, "%s has %zu chunks", k->path, lh_sim_chunk_count(c, k->path));
    if (!lh_sim_tail(c, k->path, &s.chunk))
        return;
    s.primary = lh_sim_primary(c, s.chunk.chunk);
    lh_sim_text_add(t, "%s", "and its last");
    describe_chunk(&s, t);
}

void lh_sim_condition_actual(const struct lh_sim_condition *k, struct lh_sim_cluster *c,
    struct lh_sim_actor *actor, char *text, size_t text_size)
{
    struct subject s = look(k, c, actor);
    struct lh_sim_text t = lh_sim_text_at(text, text_size);

    if (k->path[0] != '\0' && k->program[0] == '\0')
        describe_file(k, c, &t);
    if (s.has_chunk)
        describe_chunk(&s, &t);
    else if (k->chunk.path[0] != '\0' || k->chunk.number != 0)
        lh_sim_text_add(&t, "there is no such chunk");
    if (s.node != NULL) {
        if (t.used > 0)
            lh_sim_text_add(&t, "%s", "and");
        describe_node(&s, &t);
    }
    if (s.has_program)
        lh_sim_text_add(&t,
            "%s: %" PRIu64 " begun, %" PRIu64 " succeeded, %" PRIu64 " failed (%s), %" PRIu64
            " under way, %" PRIu64 " lost%s",
            k->program, s.program.begun, s.program.succeeded, s.program.failed,
            lh_error_name(s.program.last_error), s.program.pending, s.program.lost,
            s.program.ended ? ", ended" : "");
    if (t.used == 0)
        lh_sim_reign_actual(c, &t);
    if (t.used == 0)
        lh_sim_text_add(&t, "%s", "there is nothing like it");
}
