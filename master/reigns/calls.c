/* Calls of etcd. A request is sent to one member, and, byte for byte the same, to another one when
 * the first does not answer in time or fails. Whoever answers first has answered. What a reign
 * hangs on is sent again and again (HA-5): etcd loses what was on its way to a leader that died. */
#include "master/reigns/internal.h"

#include <stdlib.h>

void lh_r_call_begin(struct lh_reigns *r, enum lh_r_purpose purpose, enum lh_method method,
    const ProtobufCMessage *request)
{
    struct lh_r_call *call = &r->calls[purpose];
    uint8_t *to;

    LH_ASSERT(call->method == LH_METHOD_NONE);
    call->method = method;
    call->request = lh_buf_alloc(protobuf_c_message_get_packed_size(request), &to);
    protobuf_c_message_pack(request, to);
    call->first_sent = r->now;
    call->again_at = r->now;
    lh_r_calls_step(r);
}

void lh_r_call_at(struct lh_reigns *r, enum lh_r_purpose purpose, enum lh_method method,
    const ProtobufCMessage *request, const char *address)
{
    r->calls[purpose].address = lh_strdup(address);
    lh_r_call_begin(r, purpose, method, request);
}

void lh_r_call_end(struct lh_reigns *r, enum lh_r_purpose purpose)
{
    struct lh_r_call *call = &r->calls[purpose];
    uint32_t tried = call->tried;

    for (size_t i = 0; i < call->attempt_count; i++)
        lh_fx_close(r->fx, call->attempts[i].link, LH_OK, NULL);
    lh_buf_clear(&call->request);
    free(call->address);
    *call = (struct lh_r_call){.again_at = LH_INSTANT_NEVER, .tried = tried};
}

bool lh_r_call_is_open(const struct lh_reigns *r, enum lh_r_purpose purpose)
{
    return r->calls[purpose].method != LH_METHOD_NONE;
}

static bool is_asked(const struct lh_r_call *call, uint32_t member)
{
    for (size_t i = 0; i < call->attempt_count; i++)
        if (call->attempts[i].member == member)
            return true;
    return false;
}

static void forget(struct lh_r_call *call, size_t attempt)
{
    call->attempt_count--;
    memmove(&call->attempts[attempt], &call->attempts[attempt + 1],
        (call->attempt_count - attempt) * sizeof call->attempts[0]);
}

static bool is_sent_again(enum lh_r_purpose purpose)
{
    return purpose == LH_R_WRITE || purpose == LH_R_ASK;
}

/* The last copy that a member has makes room for another one, and the first one stays: however slow
 * etcd is, that one is answered. */
static void withdraw_last(struct lh_reigns *r, struct lh_r_call *call, uint32_t member)
{
    size_t copies = 0;

    for (size_t i = 0; i < call->attempt_count; i++) {
        if (call->attempts[i].member != member || ++copies < LH_R_COPIES)
            continue;
        lh_fx_close(r->fx, call->attempts[i].link, LH_OK, NULL);
        forget(call, i);
        return;
    }
}

static void attempt(struct lh_reigns *r, enum lh_r_purpose purpose)
{
    struct lh_r_call *call = &r->calls[purpose];
    const struct lh_method_info *info = lh_method_info(call->method);
    uint32_t count = r->config.member_count, member = call->tried % count;

    if (is_sent_again(purpose)) {
        withdraw_last(r, call, member);
        call->tried = member + 1;
    }
    while (!is_sent_again(purpose) && is_asked(call, member))
        member = (member + 1) % count;
    uint64_t link = r->next_link++;
    call->attempts[call->attempt_count++] = (struct lh_r_attempt){link, member};
    struct lh_duration timeout =
        info->request_stream ? LH_DURATION_FOREVER : r->config.call_timeout;
    if (call->address != NULL)
        lh_fx_open(r->fx, link, call->method, call->address, timeout);
    else
        lh_fx_open_with_token(
            r->fx, link, call->method, r->config.members[member], timeout, r->token);
    struct lh_effect *e = lh_effects_add(r->fx, LH_FX_SEND);
    e->link = link;
    e->header = lh_buf_ref(&call->request);
}

/* Where etcd asks who calls, nothing else is called before it has answered that. */
static bool may_call(struct lh_reigns *r, int purpose)
{
    Etcdserverpb__AuthenticateRequest who = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;

    if (r->config.user == NULL || r->token != NULL || purpose == LH_R_AUTHENTICATE)
        return true;
    if (!lh_r_call_is_open(r, LH_R_AUTHENTICATE)) {
        who.name = (char *)(uintptr_t)r->config.user;
        who.password = (char *)(uintptr_t)r->config.password;
        lh_r_call_begin(r, LH_R_AUTHENTICATE, LH_METHOD_ETCD_AUTHENTICATE, &who.base);
    }
    return false;
}

/* When a further copy is sent, unless there is an answer. */
static struct lh_instant next_attempt(const struct lh_reigns *r, enum lh_r_purpose purpose)
{
    const struct lh_r_call *call = &r->calls[purpose];

    if (is_sent_again(purpose) && !LH_PLANTED("lost-copies-waited-for"))
        return lh_instant_add(r->now, r->config.again_after);
    bool more = !lh_method_info(call->method)->request_stream &&
                call->attempt_count < r->config.member_count && call->address == NULL;
    return more ? lh_instant_add(r->now, r->config.late_after) : LH_INSTANT_NEVER;
}

void lh_r_calls_step(struct lh_reigns *r)
{
    for (int i = 0; i < LH_R_PURPOSES; i++) {
        struct lh_r_call *call = &r->calls[i];
        if (call->method == LH_METHOD_NONE || !lh_instant_reached(r->now, call->again_at) ||
            !may_call(r, i))
            continue;
        if (call->tried_again && i == LH_R_WRITE && LH_PLANTED("confirmed-from-the-last-copy"))
            r->writer.sent_at = r->now;
        if (call->tried_again)
            r->counts.retries++;
        call->tried_again = true;
        attempt(r, (enum lh_r_purpose)i);
        call->again_at = next_attempt(r, (enum lh_r_purpose)i);
    }
}

struct lh_instant lh_r_calls_deadline(const struct lh_reigns *r)
{
    struct lh_instant at = LH_INSTANT_NEVER;

    for (int i = 0; i < LH_R_PURPOSES; i++)
        if (r->calls[i].method != LH_METHOD_NONE &&
            (r->config.user == NULL || r->token != NULL || i == LH_R_AUTHENTICATE))
            at = lh_instant_min(at, r->calls[i].again_at);
    return at;
}

static struct lh_r_call *call_of(struct lh_reigns *r, uint64_t link, size_t *attempt)
{
    for (int i = 0; i < LH_R_PURPOSES; i++)
        for (size_t j = 0; j < r->calls[i].attempt_count; j++)
            if (r->calls[i].attempts[j].link == link) {
                *attempt = j;
                return &r->calls[i];
            }
    return NULL;
}

void lh_r_calls_message(struct lh_reigns *r, struct lh_input *in)
{
    size_t at;
    struct lh_r_call *call = call_of(r, in->link, &at);

    if (call == NULL)
        return;
    if (r->complaining) {
        r->complaining = false;
        lh_fx_log(r->fx, LH_INFO, "etcd answers again");
    }
    enum lh_r_purpose purpose = (enum lh_r_purpose)(call - r->calls);
    call->tried = call->attempts[at].member; /* who has answered is asked first */
    if (!lh_method_info(call->method)->reply_stream) {
        /* The driver closes a unary call behind its answer. */
        lh_r_call_end(r, purpose);
    }
    switch (purpose) {
    case LH_R_READ:
        lh_r_read_reply(r, in->message);
        break;
    case LH_R_ASK:
        if (r->config.task == LH_REIGN_AFTER_DEATH)
            lh_r_death_reply(r, in->message);
        else if (r->phase == LH_REIGN_STANDBY)
            lh_r_candidate_reply(r, in->message);
        else
            lh_r_gate_reply(r, in->message);
        break;
    case LH_R_WATCH:
        lh_r_watch_reply(r, in->message);
        break;
    case LH_R_WRITE:
        lh_r_write_reply(r, in->message);
        break;
    case LH_R_LIST:
        lh_r_records_reply(r, in->message);
        break;
    case LH_R_RECORD:
        lh_r_record_put(r);
        break;
    case LH_R_FORGET:
        lh_r_forget_reply(r, in->message);
        break;
    case LH_R_PREFIX:
        lh_r_prefix_reply(r, in->message);
        break;
    case LH_R_TWIN:
        lh_r_twin_reply(r, in->message);
        break;
    case LH_R_STATUS:
        lh_r_status_reply(r, call->tried, in->message);
        break;
    case LH_R_AUTHENTICATE:
        free(r->token);
        r->token = lh_strdup(((const Etcdserverpb__AuthenticateResponse *)in->message)->token);
        break;
    case LH_R_COMPACT:
    case LH_R_PURPOSES:
        break;
    }
}

static bool says(const char *text, const char *what)
{
    return text != NULL && strstr(text, what) != NULL;
}

bool lh_r_token_refused(struct lh_reigns *r, const char *text)
{
    if (r->token == NULL ||
        (!says(text, "invalid auth token") && !says(text, "revision of auth store is old")))
        return false;
    /* It has run out, or users have changed: another one. */
    free(r->token);
    r->token = NULL;
    return true;
}

void lh_r_calls_closed(struct lh_reigns *r, const struct lh_input *in)
{
    size_t at;
    struct lh_r_call *call = call_of(r, in->link, &at);

    if (call == NULL)
        return;
    enum lh_r_purpose purpose = (enum lh_r_purpose)(call - r->calls);
    uint32_t member = call->attempts[at].member;
    forget(call, at);
    call->tried = member + 1;
    if (purpose == LH_R_WATCH) {
        lh_r_call_end(r, purpose); /* begun again where the copy stands then */
        lh_r_watch_over(r);
        return;
    }
    if (purpose == LH_R_TWIN) {
        lh_r_call_end(r, purpose);
        lh_r_twin_reply(r, NULL);
        return;
    }
    if (purpose == LH_R_PREFIX && says(in->text, "permission denied")) {
        lh_r_call_end(r, purpose);
        r->prefix_seen = true; /* nobody but an administrator can look */
        return;
    }
    if (purpose == LH_R_COMPACT || purpose == LH_R_STATUS) {
        lh_r_call_end(r, purpose); /* the next one is as good */
        if (purpose == LH_R_STATUS)
            lh_r_status_failed(r, member);
        return;
    }
    /* The second one: of a store that was restored from an older copy meanwhile. */
    if (purpose == LH_R_READ &&
        (says(in->text, "has been compacted") || says(in->text, "is a future revision"))) {
        lh_r_call_end(r, purpose);
        lh_r_read_failed(r, in->text);
        return;
    }
    if (purpose == LH_R_AUTHENTICATE && says(in->text, "authentication is not enabled")) {
        lh_r_call_end(r, purpose);
        free((char *)(uintptr_t)r->config.user);
        r->config.user = NULL; /* nor does it take a token then */
        return;
    }
    if (lh_r_token_refused(r, in->text)) {
        call->again_at = lh_instant_add(r->now, r->config.retry_after);
        return;
    }
    if (!r->complaining && purpose != LH_R_RECORD && purpose != LH_R_LIST) {
        r->complaining = true;
        lh_fx_log(r->fx, LH_WARN, "etcd at %s: %s; trying on", r->config.members[member],
            in->text != NULL ? in->text : lh_error_text(in->error));
    }
    if (purpose == LH_R_WRITE && lh_r_write_unknown(r))
        return;
    /* Others may hang: who has failed is asked again beside them. */
    call->again_at = lh_instant_min(call->again_at, lh_instant_add(r->now, r->config.retry_after));
}
