/* Messages in words: which of them matter, and what they say (docs/messages.md). What is
 * sent is told where it is sent; what only its arrival shows, where it arrives. */
#include "sim/report/internal.h"

#include "proto/leasehold.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *lh_sim_error_name(Leasehold__ErrorCode code)
{
    return lh_error_name(lh_error_from_wire((unsigned)code));
}

static struct lh_sim_transition by(
    const struct lh_sim_story *s, const struct lh_sim_sight *sight, enum lh_sim_topic topic)
{
    return (struct lh_sim_transition){
        .topic = topic, .node = lh_sim_index(s, sight->node), .peer = LH_SIM_NOBODY};
}

static struct lh_sim_transition of_chunk(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, uint64_t chunk, uint64_t version)
{
    struct lh_sim_transition t = by(s, sight, topic);

    t.chunk = chunk;
    t.version = version;
    return t;
}

static struct lh_sim_transition to_peer(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, uint64_t chunk, uint64_t version)
{
    struct lh_sim_transition t = of_chunk(s, sight, topic, chunk, version);

    t.peer = sight->peer == NULL ? LH_SIM_NOBODY : lh_sim_index(s, sight->peer);
    return t;
}

/* A field of the message; 0: it has none of that name. */
static uint64_t number(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);

    return field == NULL || field->type != PROTOBUF_C_TYPE_UINT64
               ? 0
               : *(const uint64_t *)(const void *)((const char *)m + field->offset);
}

struct lh_sim_transition lh_sim_about(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, const ProtobufCMessage *m)
{
    return of_chunk(s, sight, topic, number(m, "chunk"), number(m, "version"));
}

struct lh_sim_transition lh_sim_towards(const struct lh_sim_story *s,
    const struct lh_sim_sight *sight, enum lh_sim_topic topic, const ProtobufCMessage *m)
{
    return to_peer(s, sight, topic, number(m, "chunk"), number(m, "version"));
}

const ProtobufCMessage *lh_sim_body_of(const ProtobufCMessage *m)
{
    int body = m->descriptor == &leasehold__session_request__descriptor
                   ? (int)((const Leasehold__SessionRequest *)(const void *)m)->body_case
                   : (int)((const Leasehold__SessionReply *)(const void *)m)->body_case;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(m->descriptor, (unsigned)body);

    return field == NULL
               ? NULL
               : *(const ProtobufCMessage *const *)(const void *)((const char *)m + field->offset);
}

/* A session as people read it: the master's term and the number within it. */
#define SESSION_FORMAT  "%" PRIu64 ".%" PRIu64
#define SESSION_ARGS(n) (n) >> 40, (n) & ((UINT64_C(1) << 40) - 1)

/* ---- A chunkserver to the master ---- */

static void say_member_failed(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__MemberFailed *m)
{
    char names[128] = "";

    for (size_t i = 0; i < m->n_server_ids; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, " %s", m->server_ids[i]);
    }
    lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
        "reports as failed:%s (%s)", names, m->reason);
}

static void say_session_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionRequest *m)
{
    char n[LH_SIM_NUMBER_BYTES];
    const ProtobufCMessage *body = lh_sim_body_of(&m->base);

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_REGISTER:
        if (m->register_->piece == 0)
            lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_SESSION),
                "registers: incarnation %" PRIu64 ", %zu replicas, shows %zu leases%s",
                m->register_->incarnation, m->register_->n_replicas, m->register_->n_held,
                m->register_->more ? ", and more to come" : "");
        else
            lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_SESSION),
                "goes on registering: %zu replicas, shows %zu leases%s", m->register_->n_replicas,
                m->register_->n_held, m->register_->more ? ", and more to come" : "");
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT:
        if (m->heartbeat->failing)
            lh_sim_narrate(
                s, by(s, sight, LH_SIM_TOPIC_SESSION), "says that its disk does not answer");
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        if (m->confirm->error == LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_LEASE, body),
                "confirms the grant: it has adopted the version");
        else
            lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REFUSAL, body),
                "refuses the grant: %s", lh_sim_error_name(m->confirm->error));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        s->servers[lh_sim_index(s, sight->node)].cause = "released";
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_LEASE, body), "releases it");
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        s->servers[lh_sim_index(s, sight->node)].cause = "released with the seal";
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_SEAL, body),
            "is full and drained: asks for its seal at %s bytes",
            lh_sim_number(n, m->seal->length));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RECOVERED:
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_RECOVERY, body),
            "recovered: every member is equal at %s bytes", lh_sim_number(n, m->recovered->length));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED:
        say_member_failed(s, sight, m->member_failed);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CREATED:
        if (m->created->error == LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REPLICA, body),
                "has created an empty replica");
        else
            lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REFUSAL, body),
                "cannot create a replica: %s", lh_sim_error_name(m->created->error));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_LOST:
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REPLICA, body),
            "its replica is lost: %s at %s", lh_sim_error_name(m->lost->error),
            lh_sim_number(n, m->lost->offset));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_POSSIBLE_LOSS:
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_REPLICA, body),
            "every member went down: bytes after %s may be lost",
            lh_sim_number(n, m->possible_loss->length));
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED:
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_SEAL, body),
            m->seal_recorded->error == LEASEHOLD__ERROR_CODE__OK
                ? "has recorded the seal"
                : "lacks bytes below the seal: it must be refreshed");
        break;
    default:
        lh_sim_say_kept_request(s, sight, m);
        break;
    }
}

/* Why leases may be over in the step that the message causes. */
static void hear_session_request(struct lh_sim_story *s, const Leasehold__SessionRequest *m)
{
    switch (m->body_case) {
    case LEASEHOLD__SESSION_REQUEST__BODY_REGISTER:
        s->master_cause = "its former process is dead";
        for (size_t i = 0; i < m->register_->n_held; i++)
            lh_sim_chunk_named(s, m->register_->held[i]->chunk);
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM:
        s->master_cause = "the grant was refused";
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_RELEASE:
        s->master_cause = "released";
        break;
    case LEASEHOLD__SESSION_REQUEST__BODY_SEAL:
        s->master_cause = "released with the seal";
        break;
    default:
        break;
    }
}

/* ---- The master to a chunkserver ---- */

static void say_grant(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__Grant *m)
{
    char names[128] = "", n[LH_SIM_NUMBER_BYTES];

    for (size_t i = 0; i < m->n_members; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, " %s", m->members[i]->server_id);
    }
    lh_sim_chunk_named(s, m->chunk);
    lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_LEASE, &m->base),
        "grants it, members%s, %s ms for the holder", names,
        lh_sim_number(n, m->term_ns / 1000000));
}

static void say_session_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionReply *m)
{
    char n[LH_SIM_NUMBER_BYTES];
    const ProtobufCMessage *body = lh_sim_body_of(&m->base);

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_REGISTERED:
        if (m->registered->error != LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, 0, 0),
                "refuses the registration: %s", lh_sim_error_name(m->registered->error));
        else
            lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_SESSION, 0, 0),
                "session " SESSION_FORMAT ", %zu leases go on",
                SESSION_ARGS(m->registered->session), m->registered->n_continued);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT:
        if (m->heartbeat->error != LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, 0, 0), "%s",
                lh_sim_error_name(m->heartbeat->error));
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        say_grant(s, sight, m->grant);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL:
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_LEASE, body), "recalls it");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL:
        lh_sim_chunk_named(s, m->record_seal->chunk)->sealed = true;
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_SEAL, body),
            "is sealed at %s bytes", lh_sim_number(n, m->record_seal->length));
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_CREATE:
        lh_sim_chunk_named(s, m->create->chunk);
        lh_sim_narrate(
            s, lh_sim_towards(s, sight, LH_SIM_TOPIC_REPLICA, body), "asks for an empty replica");
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_REMOVE:
        lh_sim_narrate(
            s, lh_sim_towards(s, sight, LH_SIM_TOPIC_REPLICA, body), "has the replica removed");
        break;
    default:
        lh_sim_say_kept_reply(s, sight, m);
        break;
    }
}

static void hear_session_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__SessionReply *m)
{
    struct server *server = &s->servers[lh_sim_index(s, sight->node)];

    switch (m->body_case) {
    case LEASEHOLD__SESSION_REPLY__BODY_REGISTERED:
        server->cause = "not continued in the new session";
        if (m->registered->error == LEASEHOLD__ERROR_CODE__OK)
            server->session = m->registered->session;
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT:
        if (m->heartbeat->error != LEASEHOLD__ERROR_CODE__OK)
            server->cause = "its session is over";
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_GRANT:
        lh_sim_chunk_named(s, m->grant->chunk);
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_RECALL:
        server->cause = "recalled";
        break;
    case LEASEHOLD__SESSION_REPLY__BODY_REMOVE:
        server->cause = "the replica is removed";
        break;
    default:
        break;
    }
}

/* ---- Between members ---- */

static void say_part(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__ReplicatePart *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "asks to adopt the version");
    else if (m->kind == LEASEHOLD__REPLICATE_KIND__CONFIRM)
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "asks whether the log is equal at %s bytes", lh_sim_number(n, m->length));
}

static void say_answer(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__ReplicateAnswer *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error == LEASEHOLD__ERROR_CODE__STALE_VERSION)
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, m->chunk, 0),
            "STALE_VERSION, has v%" PRIu64, m->version);
    else if (m->error != LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_REFUSAL, &m->base), "%s",
            lh_sim_error_name(m->error));
    else if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "has adopted the version, with %s bytes%s", lh_sim_number(n, m->length),
            m->unverified ? ", unverified" : "");
    else if (m->kind == LEASEHOLD__REPLICATE_KIND__CONFIRM)
        lh_sim_narrate(s, lh_sim_about(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "is equal at %s bytes", lh_sim_number(n, m->length));
}

/* ---- Clients and chunkservers ---- */

static void say_append_part(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__AppendPart *m)
{
    if (m->writer != 0)
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_APPEND, &m->base),
            "opens a writer at record %" PRIu64, m->first_sequence);
}

static void tell_stored(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__AppendAnswer *m, enum lh_sim_what what)
{
    struct lh_sim_transition t = of_chunk(s, sight, LH_SIM_TOPIC_APPEND, m->chunk, m->version);

    t.what = what;
    t.count = m->n_stored;
    t.reach = m->stored[m->n_stored - 1]->offset;
    lh_sim_narrate(s, t, what == LH_SIM_STORED ? "stored" : "acknowledged");
}

static void say_append_answer(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__AppendAnswer *m)
{
    if (m->n_stored > 0)
        tell_stored(s, sight, m, LH_SIM_STORED);
    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, m->chunk, m->version), "%s",
            lh_sim_error_name(m->error));
}

static void say_append_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__AppendReply *m)
{
    for (size_t i = 0; i < m->n_answers; i++)
        say_append_answer(s, sight, m->answers[i]);
    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(
            s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, 0, 0), "%s", lh_sim_error_name(m->error));
}

static void say_read_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__ReadRequest *m)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->mode == LEASEHOLD__READ_MODE__RECOVERY)
        lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_RECOVERY, &m->base),
            "fetches the log from %s on", lh_sim_number(n, m->offset));
}

static void say_settle_reply(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__SettleReply *m, const struct link *l)
{
    char n[LH_SIM_NUMBER_BYTES];

    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, l->chunk, l->version),
            "settling: %s", lh_sim_error_name(m->error));
    else if (m->known)
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_APPEND, l->chunk, l->version),
            "settles: has its records up to %s", lh_sim_number(n, m->last_sequence));
    else
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_APPEND, l->chunk, l->version),
            "settles: has nothing of that writer");
}

/* ---- Programs and the master ---- */

static void keep_path(struct link *l, const char *path)
{
    if (l->path == NULL)
        l->path = lh_strdup(path);
}

static void say_open_tail(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__OpenTailRequest *m, struct link *l)
{
    keep_path(l, m->path);
    lh_sim_narrate(s,
        of_chunk(s, sight, LH_SIM_TOPIC_FILE, m->full_chunk != 0 ? m->full_chunk : m->failed_chunk,
            m->failed_version),
        m->failed_version != 0 ? "cannot reach that primary, asks for the tail of \"%s\""
        : m->full_chunk != 0   ? "is full, asks for the tail of \"%s\""
                               : "asks for the tail of \"%s\"",
        m->path);
}

static void say_master_request(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    struct lh_sim_transition t = by(s, sight, LH_SIM_TOPIC_FILE);

    switch (sight->method) {
    case LH_METHOD_CREATE: {
        const Leasehold__CreateRequest *m = (const void *)sight->message;
        keep_path(l, m->path);
        lh_sim_narrate(s, t, "creates \"%s\"", m->path);
        break;
    }
    case LH_METHOD_RENAME: {
        const Leasehold__RenameRequest *m = (const void *)sight->message;
        keep_path(l, m->from);
        lh_sim_narrate(s, t, "renames \"%s\" to \"%s\"", m->from, m->to);
        break;
    }
    case LH_METHOD_REMOVE: {
        const Leasehold__RemoveRequest *m = (const void *)sight->message;
        keep_path(l, m->path);
        lh_sim_narrate(s, t, "removes \"%s\"", m->path);
        break;
    }
    case LH_METHOD_RECALL: {
        const Leasehold__RecallRequest *m = (const void *)sight->message;
        keep_path(l, m->path);
        t.chunk = m->chunk;
        lh_sim_narrate(s, t, "asks to recall the lease of \"%s\"", m->path);
        break;
    }
    case LH_METHOD_OPEN_TAIL:
        say_open_tail(s, sight, (const void *)sight->message, l);
        break;
    default:
        break;
    }
}

/* Every reply of the master but those of listings begins with error and error_text. */
static void say_master_reply(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const struct link *l)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(sight->message->descriptor, "error");

    if (sight->method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailReply *m = (const void *)sight->message;
        if (m->error == LEASEHOLD__ERROR_CODE__OK && m->chunk != NULL && m->primary != NULL) {
            lh_sim_narrate(s, lh_sim_towards(s, sight, LH_SIM_TOPIC_FILE, &m->chunk->base),
                "is the tail, primary %s", m->primary->server_id);
            return;
        }
    }
    if (field == NULL || field->type != PROTOBUF_C_TYPE_ENUM)
        return;
    int code = *(const int *)(const void *)((const char *)sight->message + field->offset);
    if (code != 0)
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, 0, 0), "\"%s\": %s",
            l->path == NULL ? "" : l->path, lh_error_name(lh_error_from_wire((unsigned)code)));
}

/* ---- All of them ---- */

/* What the link is about, as its requests say. */
static void note_link(const struct lh_sim_sight *sight, struct link *l)
{
    switch (sight->method) {
    case LH_METHOD_READ: {
        const Leasehold__ReadRequest *m = (const void *)sight->message;
        l->chunk = m->chunk;
        l->version = m->version;
        break;
    }
    case LH_METHOD_SETTLE: {
        const Leasehold__SettleRequest *m = (const void *)sight->message;
        l->chunk = m->chunk;
        l->version = m->version;
        break;
    }
    default:
        break;
    }
}

static void say_request(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    const void *m = sight->message;

    note_link(sight, l);
    switch (sight->method) {
    case LH_METHOD_SESSION:
        say_session_request(s, sight, m);
        break;
    case LH_METHOD_REPLICATE: {
        const Leasehold__ReplicateRequest *q = m;
        for (size_t i = 0; i < q->n_parts; i++)
            say_part(s, sight, q->parts[i]);
        break;
    }
    case LH_METHOD_APPEND: {
        const Leasehold__AppendRequest *q = m;
        for (size_t i = 0; i < q->n_parts; i++)
            say_append_part(s, sight, q->parts[i]);
        break;
    }
    case LH_METHOD_READ:
        say_read_request(s, sight, m);
        break;
    case LH_METHOD_SETTLE:
        break;
    case LH_METHOD_LEASE_SESSION:
        lh_sim_say_program(s, sight, m);
        break;
    default:
        if (!lh_sim_say_lease_call(s, sight))
            say_master_request(s, sight, l);
        break;
    }
}

static void say_reply(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    const void *m = sight->message;

    switch (sight->method) {
    case LH_METHOD_SESSION:
        say_session_reply(s, sight, m);
        break;
    case LH_METHOD_REPLICATE: {
        const Leasehold__ReplicateReply *reply = m;
        for (size_t i = 0; i < reply->n_answers; i++)
            say_answer(s, sight, reply->answers[i]);
        break;
    }
    case LH_METHOD_APPEND:
        say_append_reply(s, sight, m);
        break;
    case LH_METHOD_READ: {
        const Leasehold__ReadReply *read = m;
        if (read->error != LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL, l->chunk, l->version),
                "read: %s", lh_sim_error_name(read->error));
        break;
    }
    case LH_METHOD_SETTLE:
        say_settle_reply(s, sight, m, l);
        break;
    case LH_METHOD_LEASE_SESSION:
        lh_sim_say_to_program(s, sight, m);
        break;
    default:
        if (!lh_sim_say_lease_reply(s, sight))
            say_master_reply(s, sight, l);
        break;
    }
}

void lh_sim_say(struct lh_sim_story *s, const struct lh_sim_sight *sight, struct link *l)
{
    if (sight->direction == LH_REQUEST)
        say_request(s, sight, l);
    else
        say_reply(s, sight, l);
}

void lh_sim_hear(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    const void *m = sight->message;

    if (sight->method == LH_METHOD_SESSION && sight->direction == LH_REQUEST) {
        hear_session_request(s, m);
    } else if (sight->method == LH_METHOD_SESSION) {
        hear_session_reply(s, sight, m);
    } else if (sight->method == LH_METHOD_REMOVE && sight->direction == LH_REQUEST) {
        s->master_cause = "its file is removed";
    } else if (sight->method == LH_METHOD_APPEND && sight->direction == LH_REPLY) {
        const Leasehold__AppendReply *reply = m;
        for (size_t i = 0; i < reply->n_answers; i++)
            if (reply->answers[i]->n_stored > 0)
                tell_stored(s, sight, reply->answers[i], LH_SIM_ACKED);
    }
}

/* ---- Arrows ---- */

struct about {
    const char *name;
    uint64_t chunk, version;
};

static struct about session_message(const ProtobufCMessage *m)
{
    const ProtobufCMessage *body = lh_sim_body_of(m);

    if (body == NULL || body->descriptor == &leasehold__shown_leases__descriptor)
        return (struct about){0};
    return (struct about){
        body->descriptor->short_name, number(body, "chunk"), number(body, "version")};
}

/* What one message says of many chunks has one arrow: that of the first that is worth one. */
static struct about first_part(const Leasehold__ReplicateRequest *q)
{
    for (size_t i = 0; i < q->n_parts; i++) {
        const Leasehold__ReplicatePart *m = q->parts[i];
        if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
            return (struct about){"ADOPT", m->chunk, m->version};
        if (m->kind == LEASEHOLD__REPLICATE_KIND__CONFIRM)
            return (struct about){"CONFIRM", m->chunk, m->version};
    }
    return (struct about){0};
}

static struct about first_answer(const Leasehold__ReplicateReply *q)
{
    for (size_t i = 0; i < q->n_answers; i++) {
        const Leasehold__ReplicateAnswer *m = q->answers[i];
        if (m->error != LEASEHOLD__ERROR_CODE__OK)
            return (struct about){lh_sim_error_name(m->error), m->chunk, m->version};
        if (m->kind == LEASEHOLD__REPLICATE_KIND__ADOPT)
            return (struct about){"adopted", m->chunk, m->version};
        if (m->kind == LEASEHOLD__REPLICATE_KIND__CONFIRM)
            return (struct about){"equal", m->chunk, m->version};
    }
    return (struct about){0};
}

static struct about first_opening(const Leasehold__AppendRequest *q)
{
    for (size_t i = 0; i < q->n_parts; i++)
        if (q->parts[i]->writer != 0)
            return (struct about){"Append opens", q->parts[i]->chunk, q->parts[i]->version};
    return (struct about){0};
}

static struct about first_refusal(const Leasehold__AppendReply *q)
{
    if (q->error != LEASEHOLD__ERROR_CODE__OK)
        return (struct about){.name = lh_sim_error_name(q->error)};
    for (size_t i = 0; i < q->n_answers; i++)
        if (q->answers[i]->error != LEASEHOLD__ERROR_CODE__OK)
            return (struct about){lh_sim_error_name(q->answers[i]->error), q->answers[i]->chunk,
                q->answers[i]->version};
    return (struct about){0};
}

bool lh_sim_arrow_of(const struct lh_sim_sight *sight, struct lh_sim_arrow *arrow)
{
    bool request = sight->direction == LH_REQUEST;
    struct about a = {0};

    switch (sight->method) {
    case LH_METHOD_SESSION:
        a = session_message(sight->message);
        break;
    case LH_METHOD_REPLICATE:
        a = request ? first_part((const void *)sight->message)
                    : first_answer((const void *)sight->message);
        break;
    case LH_METHOD_OPEN_TAIL:
        a.name = request ? "OpenTail" : "OpenTail's answer";
        break;
    case LH_METHOD_RECALL:
        a.name = request ? "Recall" : "Recall's answer";
        break;
    case LH_METHOD_SETTLE:
        a.name = request ? "Settle" : "Settle's answer";
        break;
    case LH_METHOD_APPEND:
        a = request ? first_opening((const void *)sight->message)
                    : first_refusal((const void *)sight->message);
        break;
    default:
        break;
    }
    *arrow = (struct lh_sim_arrow){.name = a.name, .chunk = a.chunk, .version = a.version};
    return a.name != NULL;
}
