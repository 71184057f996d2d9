/* ACC-1 to ACC-4. */
#include "access/access.h"

#include "access/roles.h"
#include "base/assert.h"
#include "base/probe.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCHEME       "leasehold://"
#define NAMES        2u /* fields of a request that name a file, at most */
#define RIGHT(right) (1u << LH_RIGHT_##right)

/* ---- Who has which right. */

static const unsigned rights[] = {
    [LH_ROLE_NONE] = 0,
    [LH_ROLE_READER] = RIGHT(LOOK) | RIGHT(READ) | RIGHT(FETCH),
    [LH_ROLE_WRITER] = RIGHT(LOOK) | RIGHT(READ) | RIGHT(FETCH) | RIGHT(WRITE),
    [LH_ROLE_ADMIN] = RIGHT(LOOK) | RIGHT(READ) | RIGHT(FETCH) | RIGHT(WRITE) | RIGHT(ADMIN),
    [LH_ROLE_CHUNKSERVER] = RIGHT(LOOK) | RIGHT(FETCH) | RIGHT(SERVE),
    [LH_ROLE_MASTER] = RIGHT(LOOK),
    [LH_ROLE_ETCD] = 0,
};

static const char *const right_names[] = {
    [LH_RIGHT_LOOK] = "look",
    [LH_RIGHT_READ] = "read",
    [LH_RIGHT_WRITE] = "write",
    [LH_RIGHT_ADMIN] = "administer",
    [LH_RIGHT_FETCH] = "fetch",
    [LH_RIGHT_SERVE] = "serve",
};

const char *lh_right_name(enum lh_right right)
{
    return right_names[right];
}

/* ---- What each method needs: the table of ACC-3. */

struct need {
    bool served;
    enum lh_right right;
    const char *names[NAMES]; /* fields with a path or a name; an empty one names nothing */
    const char *below;        /* field with what a listing's entries begin with */
    const char *file, *chunk; /* fields with a number, which goes before the first name if not 0 */
    bool everything;          /* it shows all there is */
    /* If that field is set, or not 0, `other` is what it needs. */
    const char *field;
    enum lh_right other;
};

#define NEEDS(METHOD, RIGHT, ...)                                                                  \
    [LH_METHOD_##METHOD] = {.served = true, .right = LH_RIGHT_##RIGHT, __VA_ARGS__}

static const struct need needs[LH_METHOD_COUNT] = {
    /* clang-format off */
    NEEDS(SESSION,       SERVE,),
    NEEDS(CREATE,        WRITE, .names = {"path"}),
    NEEDS(STAT,          READ,  .names = {"path"}),
    NEEDS(LIST,          READ,  .below = "prefix"),
    NEEDS(RENAME,        WRITE, .names = {"from", "to"}),
    NEEDS(REMOVE,        WRITE, .names = {"path"}, .file = "file"),
    NEEDS(RESTORE,       WRITE, .names = {"path", "to"}, .file = "file"),
    NEEDS(LOCATE,        READ,  .names = {"path"}, .file = "file"),
    NEEDS(OPEN_TAIL,     WRITE, .names = {"path", "lock_name"}, .file = "file",
                                .field = "reads", .other = LH_RIGHT_READ),
    NEEDS(LIST_LEASES,   READ,  .everything = true),
    NEEDS(LIST_SERVERS,  LOOK,),
    NEEDS(RECALL,        ADMIN,),
    NEEDS(SET_SERVER,    ADMIN,),
    NEEDS(EXPLAIN,       READ,  .names = {"path"}, .chunk = "chunk"),
    NEEDS(LIST_CHUNKS,   READ,  .below = "prefix"),
    NEEDS(GARBAGE,       LOOK,  .field = "resume", .other = LH_RIGHT_ADMIN),
    NEEDS(LIST_EVENTS,   READ,  .names = {"name"}, .chunk = "chunk"),
    NEEDS(MASTERS,       LOOK,),
    NEEDS(TRANSFER,      ADMIN,),
    NEEDS(FORGET_MASTER, ADMIN,),
    NEEDS(LEASE_SESSION, READ,), /* and each message, by what it names: lh_access_name() */
    NEEDS(GET,           READ,  .names = {"name"}),
    NEEDS(CHANGE,        WRITE, .names = {"name", "lock"}),
    NEEDS(WATCH,         READ,  .below = "prefix"),
    NEEDS(CANCEL,        WRITE, .names = {"name"}),
    NEEDS(LIST_NAMES,    READ,  .below = "prefix"),
    NEEDS(LIST_SESSIONS, READ,  .everything = true),
    NEEDS(SET_POLICY,    ADMIN,),
    NEEDS(LIST_POLICIES, LOOK,),
    NEEDS(APPEND,        WRITE,),
    NEEDS(REPLICATE,     SERVE,),
    NEEDS(READ,          FETCH, .field = "mode", .other = LH_RIGHT_SERVE),
    NEEDS(SETTLE,        WRITE,),
    NEEDS(IDENTIFY,      LOOK,),
    /* clang-format on */
};

enum lh_right lh_access_needs(enum lh_method method)
{
    return (unsigned)method < LH_METHOD_COUNT && needs[method].served ? needs[method].right
                                                                      : LH_RIGHTS;
}

/* ---- Somebody. */

void lh_access_party(const struct lh_access *access, const char *identity, struct lh_party *party)
{
    *party = (struct lh_party){.identity = identity, .line = lh_access_find(access, identity)};
    if (strncmp(identity, SCHEME, strlen(SCHEME)) == 0) {
        const char *role = identity + strlen(SCHEME);
        const char *slash = strchr(role, '/');
        if (slash != NULL && slash[1] != 0) {
            enum lh_role named = lh_role_named(role, (size_t)(slash - role));
            party->role = named == LH_ROLES ? LH_ROLE_NONE : named;
            party->name = slash + 1;
        }
    }
    if (party->line == NULL)
        return;
    party->role = party->line->role;
    if (party->role == LH_ROLE_CHUNKSERVER && party->line->scope_count > 0)
        party->name = party->line->scope[0];
}

bool lh_party_may(const struct lh_party *party, enum lh_right right)
{
    return (rights[party->role] >> right & 1) != 0;
}

/* A prefix that ends in "/" covers what is below it; another one that path too, as a folder. */
static bool covers(const char *prefix, const char *path, bool below)
{
    size_t size = strlen(prefix);

    if (path[0] == 0 && below)
        path = "/"; /* all of them begin so */
    if (strncmp(path, prefix, size) != 0)
        return false;
    return prefix[size - 1] == '/' || path[size] == '/' || (path[size] == 0 && !below);
}

bool lh_party_reaches(const struct lh_party *party, const char *path, bool below)
{
    if (party->line == NULL || party->line->scope_count == 0)
        return true;
    for (size_t i = 0; i < party->line->scope_count; i++) {
        if (covers(party->line->scope[i], path, below))
            return true;
    }
    return false;
}

/* ---- Refusals. */

/* The roles that have the right, as a sentence has them. */
static void list_roles(enum lh_right right, char *text, size_t size)
{
    size_t n = 0;

    text[0] = 0;
    for (enum lh_role role = LH_ROLE_NONE; role < LH_ROLES && n < size; role++) {
        if ((rights[role] >> right & 1) != 0)
            n += (size_t)snprintf(
                text + n, size - n, "%s%s", n == 0 ? "" : " or ", lh_role_name(role));
    }
}

static int refuse_role(
    const struct lh_party *party, enum lh_right right, const char *what, char *text)
{
    char who[128];

    list_roles(right, who, sizeof who);
    snprintf(text, LH_ACCESS_TEXT_MAX,
        "%.256s has the role %s and may not %s (%s): that needs the role %s",
        party->identity, lh_role_name(party->role), lh_right_name(right), what, who);
    return LH_ERR_PERMISSION;
}

static int refuse_path(const struct lh_party *party, const char *path, bool below, char *text)
{
    snprintf(text, LH_ACCESS_TEXT_MAX,
        "%.256s does not reach %s\"%.256s\": none of its prefixes in the table of roles covers it",
        party->identity, below ? "all that begins with " : "", path);
    return LH_ERR_PERMISSION;
}

/* Whoever names a number is not told whose it is. */
static int refuse_number(
    const struct lh_party *party, const char *what, uint64_t number, char *text)
{
    snprintf(text, LH_ACCESS_TEXT_MAX,
        "%.256s does not reach %s %" PRIu64
        ": none of its prefixes in the table of roles covers its path",
        party->identity, what, number);
    return LH_ERR_PERMISSION;
}

static int decide(const struct lh_party *party, enum lh_right right, const char *path, bool below,
    const char *what, char *text)
{
    if (!lh_party_may(party, right))
        return refuse_role(party, right, what, text);
    if (path != NULL && !lh_party_reaches(party, path, below))
        return refuse_path(party, path, below, text);
    return LH_OK;
}

/* ---- Requests. */

static const void *field_of(const ProtobufCMessage *request, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);

    LH_ASSERT(field != NULL && field->type == type && field->label != PROTOBUF_C_LABEL_REPEATED);
    return (const char *)request + field->offset;
}

static const char *text_of(const ProtobufCMessage *request, const char *name)
{
    const char *text =
        name == NULL ? "" : *(char *const *)field_of(request, name, PROTOBUF_C_TYPE_STRING);

    return text == NULL ? "" : text;
}

static uint64_t number_of(const ProtobufCMessage *request, const char *name)
{
    return name == NULL ? 0 : *(const uint64_t *)field_of(request, name, PROTOBUF_C_TYPE_UINT64);
}

/* A flag, or an enum that is not 0: in memory both are an int. */
static bool is_set(const ProtobufCMessage *request, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
    const char *value = (const char *)request + field->offset;
    int set;

    _Static_assert(sizeof(protobuf_c_boolean) == sizeof set, "as protobuf-c has them");
    LH_ASSERT(field->type == PROTOBUF_C_TYPE_BOOL || field->type == PROTOBUF_C_TYPE_ENUM);
    memcpy(&set, value, sizeof set);
    return set != 0;
}

/* Decides of the file or chunk that the request names by number, and of the role. If there is no
 * such one, whoever carries the call out says so. `*named`: the number goes before the first
 * name. */
static int decide_number(const struct lh_party *party, const struct need *need, enum lh_right right,
    const ProtobufCMessage *request, const struct lh_access_paths *paths, const char *what,
    bool *named, char *text)
{
    uint64_t file = number_of(request, need->file), chunk = number_of(request, need->chunk);
    const char *path = NULL;

    *named = file != 0 || chunk != 0;
    if (!lh_party_may(party, right))
        return refuse_role(party, right, what, text);
    if (*named && paths != NULL)
        path = file != 0 ? paths->of_file(paths->core, file) : paths->of_chunk(paths->core, chunk);
    if (path == NULL || lh_party_reaches(party, path, false))
        return LH_OK;
    return refuse_number(party, file != 0 ? "file" : "chunk", file != 0 ? file : chunk, text);
}

static int decide_names(const struct lh_party *party, const struct need *need, enum lh_right right,
    const ProtobufCMessage *request, const struct lh_access_paths *paths, const char *what,
    char *text)
{
    bool named;
    int error = decide_number(party, need, right, request, paths, what, &named, text);

    for (size_t i = named; i < NAMES && error == LH_OK; i++) {
        const char *name = text_of(request, need->names[i]);
        if (name[0] != 0)
            error = decide(party, right, name, false, what, text);
    }
    if (error == LH_OK && need->below != NULL)
        error = decide(party, right, text_of(request, need->below), true, what, text);
    if (error == LH_OK && need->everything)
        error = decide(party, right, "", true, what, text);
    return error;
}

int lh_access_call(const struct lh_access *access, const char *identity, enum lh_method method,
    const ProtobufCMessage *request, const struct lh_access_paths *paths, char *text)
{
    struct lh_party party;
    const struct need *need = &needs[method];
    enum lh_right right = need->right;

    if (identity == NULL || identity[0] == 0 || !need->served)
        return LH_OK;
    const char *what = lh_method_info(method)->path;
    lh_access_party(access, identity, &party);
    if (request == NULL) /* the weakest of what it can need */
        return lh_party_may(&party, right) ||
                       (need->field != NULL && lh_party_may(&party, need->other))
                   ? LH_OK
                   : refuse_role(&party, right, what, text);
    if (need->field != NULL && is_set(request, need->field))
        right = need->other;
    return decide_names(&party, need, right, request, paths, what, text);
}

int lh_access_name(const struct lh_access *access, const char *identity, enum lh_right right,
    const char *name, bool below, char *text)
{
    struct lh_party party;

    if (identity == NULL || identity[0] == 0)
        return LH_OK;
    lh_access_party(access, identity, &party);
    return decide(&party, right, name, below, name, text);
}

bool lh_access_concerns(const struct lh_access *access, const char *identity, const char *prefix)
{
    struct lh_party party;

    if (identity == NULL || identity[0] == 0)
        return true;
    lh_access_party(access, identity, &party);
    if (lh_party_reaches(&party, prefix, true))
        return true;
    for (size_t i = 0; i < party.line->scope_count; i++) {
        if (strncmp(party.line->scope[i], prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

int lh_access_server(
    const struct lh_access *access, const char *identity, const char *server_id, char *text)
{
    struct lh_party party;

    if (identity == NULL || identity[0] == 0)
        return LH_OK;
    lh_access_party(access, identity, &party);
    if (!lh_party_may(&party, LH_RIGHT_SERVE))
        return refuse_role(&party, LH_RIGHT_SERVE, "a chunkserver's session", text);
    if (party.name != NULL && strcmp(party.name, server_id) == 0)
        return LH_OK;
    snprintf(text, LH_ACCESS_TEXT_MAX,
        "%.256s may not register as \"%.256s\": a chunkserver's --server-id is its certificate's "
        "name",
        identity, server_id);
    return LH_ERR_PERMISSION;
}

int lh_access_answers(const struct lh_access *access, const char *identity,
    enum lh_server_kind kind, const char *name, bool apart, char *text)
{
    static const enum lh_role meant[LH_SERVER_KINDS] = {
        [LH_SERVER_MASTER] = LH_ROLE_MASTER,
        [LH_SERVER_CHUNKSERVER] = LH_ROLE_CHUNKSERVER,
        [LH_SERVER_ETCD] = LH_ROLE_ETCD,
    };
    struct lh_party party;

    if (identity == NULL || identity[0] == 0 || LH_PLANTED("answered-by-anybody"))
        return LH_OK;
    lh_access_party(access, identity, &party);
    bool is_ours = party.line != NULL || strncmp(identity, SCHEME, strlen(SCHEME)) == 0;
    if (kind == LH_SERVER_ETCD && apart && !is_ours)
        return LH_OK;
    if (kind != LH_SERVER_CHUNKSERVER)
        name = NULL;
    bool named = name == NULL || (party.name != NULL && strcmp(party.name, name) == 0);
    if (party.role == meant[kind] && named)
        return LH_OK;
    snprintf(text, LH_ACCESS_TEXT_MAX,
        "who answers there is %.256s, with the role %s; the role %s%s%.256s is meant", identity,
        lh_role_name(party.role), lh_role_name(meant[kind]), name == NULL ? "" : " and the name ",
        name == NULL ? "" : name);
    return LH_ERR_PERMISSION;
}

/* ---- What an operator hears of refusals. */

void lh_access_say(struct lh_access_log *log, struct lh_effects *fx, struct lh_instant now,
    struct lh_duration pause, const char *text)
{
    if (!lh_instant_reached(now, log->next)) {
        log->unsaid++;
        return;
    }
    if (log->unsaid == 0)
        lh_fx_log(fx, LH_WARN, "refused: %s", text);
    else
        lh_fx_log(fx, LH_WARN, "refused: %s; and %" PRIu64 " more since the last such line", text,
            log->unsaid);
    log->unsaid = 0;
    log->next = lh_instant_add(now, pause);
}
