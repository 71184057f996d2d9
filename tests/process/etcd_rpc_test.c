/* The loop and grpc/ against a real etcd: what its methods answer, how its refusals and failures
 * look to a core, and TLS. */
#include "base/alloc.h"
#include "base/error.h"
#include "proto/codec.h"
#include "proto/etcd.pb-c.h"
#include "runtime/loop.h"
#include "tests/process/etcd_member.h"
#include "tests/unit/stranger.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Only so that a test that hangs ends. */
#define PATIENCE lh_seconds(240)

/* ---- a core that makes calls ---- */

#define REPLIES_MAX 128

struct call {
    enum lh_method method;
    const char *address, *token;
    struct lh_duration timeout;
    uint64_t link;
    ProtobufCMessage *replies[REPLIES_MAX];
    size_t count;
    bool closed;
    int error;
    char text[300];
    struct call *next;
};

/* What a test wants of the core. */
struct command {
    struct call *call;
    const ProtobufCMessage *send; /* NULL: close the link */
};

struct caller {
    struct lh_loop *loop;
    uint64_t last_link;
    struct call *calls;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void command_step(struct caller *w, const struct command *command, struct lh_effects *fx)
{
    struct call *call = command->call;

    if (call->link == 0) {
        call->link = ++w->last_link;
        call->next = w->calls;
        w->calls = call;
        lh_fx_open_with_token(
            fx, call->link, call->method, call->address, call->timeout, call->token);
    }
    if (command->send != NULL) {
        lh_fx_send(fx, call->link, command->send, NULL);
    } else {
        lh_fx_close(fx, call->link, LH_ERR_CANCELLED, NULL);
        call->closed = true;
    }
}

/* The driver's message does not outlive the step. */
static ProtobufCMessage *copy(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = lh_alloc(size);

    protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *made = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
    assert_non_null(made);
    free(bytes);
    return made;
}

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct caller *w = self;
    struct call *call = NULL;

    pthread_mutex_lock(&w->lock);
    for (call = w->calls; call != NULL && call->link != in->link;)
        call = call->next;
    if (in->kind == LH_IN_CALL)
        command_step(w, in->call, fx);
    else if (in->kind == LH_IN_STOP)
        lh_fx_stopped(fx, LH_OK);
    else if (in->kind == LH_IN_MESSAGE && call != NULL && call->count < REPLIES_MAX)
        call->replies[call->count++] = copy(in->message);
    if (in->kind == LH_IN_LINK_CLOSED && call != NULL) {
        call->closed = true;
        call->error = in->error;
        snprintf(call->text, sizeof call->text, "%s", in->text == NULL ? "" : in->text);
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static struct lh_instant deadline(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static int caller_try(struct caller *w, struct lh_tls_files tls, char *why, size_t why_size)
{
    struct lh_loop_config config = {
        .core = {w, step, deadline}, .name = "caller", .foreign_tls = tls};

    *w = (struct caller){0};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    int error = lh_loop_create(&config, &w->loop, why, why_size);
    if (error == LH_OK)
        lh_loop_start(w->loop);
    return error;
}

static void caller_begin(struct caller *w, struct lh_tls_files tls)
{
    char why[300];

    if (caller_try(w, tls, why, sizeof why) != LH_OK)
        fail_msg("%s", why);
}

static void caller_end(struct caller *w)
{
    lh_loop_stop(w->loop);
    assert_int_equal(lh_loop_wait(w->loop, PATIENCE), LH_OK);
    lh_loop_destroy(w->loop);
}

static void command(struct caller *w, struct call *call, const ProtobufCMessage *send)
{
    struct command c = {call, send};

    assert_true(lh_loop_call(w->loop, &c)); /* the core has been stepped when it returns */
}

/* Waits for the reply of that number; false: the link has ended without. */
static bool await_reply(struct caller *w, struct call *call, size_t count)
{
    pthread_mutex_lock(&w->lock);
    while (call->count < count && !call->closed)
        pthread_cond_wait(&w->changed, &w->lock);
    bool there = call->count >= count;
    pthread_mutex_unlock(&w->lock);
    return there;
}

static void await_end(struct caller *w, struct call *call)
{
    pthread_mutex_lock(&w->lock);
    while (!call->closed)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* Forgets a call whose link has ended. */
static void call_end(struct caller *w, struct call *call)
{
    pthread_mutex_lock(&w->lock);
    struct call **at = &w->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    for (size_t i = 0; i < call->count; i++)
        protobuf_c_message_free_unpacked(call->replies[i], NULL);
    call->count = 0;
    pthread_mutex_unlock(&w->lock);
}

/* One unary call, until its link has ended. */
static struct call ask_within(struct caller *w, enum lh_method method, const char *address,
    const char *token, const void *request, struct lh_duration timeout, ProtobufCMessage **reply)
{
    struct call call = {.method = method, .address = address, .token = token, .timeout = timeout};

    command(w, &call, request);
    await_end(w, &call);
    assert_int_equal(call.count, call.error == LH_OK ? 1 : 0);
    *reply = call.error == LH_OK ? copy(call.replies[0]) : NULL;
    call_end(w, &call);
    return call;
}

static struct call ask(struct caller *w, enum lh_method method, const char *address,
    const char *token, const void *request, ProtobufCMessage **reply)
{
    return ask_within(w, method, address, token, request, PATIENCE, reply);
}

static void release(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Calls of a test that failed are on a stack that is gone. */
static void forget_calls(struct caller *w)
{
    pthread_mutex_lock(&w->lock);
    w->calls = NULL;
    pthread_mutex_unlock(&w->lock);
}

/* ---- requests ---- */

#define TEXT(s) ((ProtobufCBinaryData){sizeof(s) - 1, (uint8_t *)(uintptr_t)(s)})

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static void assert_data(ProtobufCBinaryData data, const void *bytes, size_t size)
{
    assert_int_equal(data.len, size);
    assert_memory_equal(data.data, bytes, size);
}

/* A transaction of puts alone, whose memory this is. */
struct puts {
    Etcdserverpb__TxnRequest request;
    Etcdserverpb__RequestOp ops[130], *pointers[130];
    Etcdserverpb__PutRequest puts[130];
};

static void puts_init(struct puts *p)
{
    etcdserverpb__txn_request__init(&p->request);
    p->request.success = p->pointers;
}

static void puts_add(struct puts *p, ProtobufCBinaryData key, ProtobufCBinaryData value)
{
    size_t n = p->request.n_success++;

    etcdserverpb__put_request__init(&p->puts[n]);
    p->puts[n].key = key;
    p->puts[n].value = value;
    etcdserverpb__request_op__init(&p->ops[n]);
    p->ops[n].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    p->ops[n].request_put = &p->puts[n];
    p->pointers[n] = &p->ops[n];
}

static struct call put_as(struct caller *w, const char *address, const char *token, const char *key,
    ProtobufCBinaryData value, int64_t *revision)
{
    struct puts p;
    ProtobufCMessage *reply;

    puts_init(&p);
    puts_add(&p, text(key), value);
    struct call call = ask(w, LH_METHOD_ETCD_TXN, address, token, &p.request, &reply);
    if (reply != NULL) {
        assert_true(((Etcdserverpb__TxnResponse *)reply)->succeeded);
        *revision = ((Etcdserverpb__TxnResponse *)reply)->header->revision;
        release(reply);
    }
    return call;
}

static struct call range_as(struct caller *w, const char *address, const char *token,
    const char *key, const char *end, int64_t revision, Etcdserverpb__RangeResponse **reply)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;

    request.key = text(key);
    request.range_end = text(end);
    request.revision = revision;
    return ask(w, LH_METHOD_ETCD_RANGE, address, token, &request, (ProtobufCMessage **)reply);
}

static struct call status_of(
    struct caller *w, const char *address, Etcdserverpb__StatusResponse **reply)
{
    Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;

    return ask(w, LH_METHOD_ETCD_STATUS, address, NULL, &request, (ProtobufCMessage **)reply);
}

/* Between two questions about what only time brings. */
static void pause_asking(void)
{
    struct timespec t = {.tv_nsec = 20000000};

    nanosleep(&t, NULL);
}

/* Until the member answers a linearizable read, so that it has a leader. */
static void await_ready(struct caller *w, const struct etcd_member *member)
{
    for (;;) {
        Etcdserverpb__RangeResponse *reply;
        struct call call = range_as(w, member->address, NULL, "ready", "", 0, &reply);
        if (call.error == LH_OK) {
            release(reply);
            return;
        }
        if (waitpid(member->pid, NULL, WNOHANG) != 0)
            fail_msg("%s ended: its log is in %s", member->name, member->folder);
        pause_asking();
    }
}

/* ---- what most tests share: one member, one caller ---- */

static struct shared {
    struct etcd_member member;
    struct caller w;
    const char *address;
} the;

static int shared_begin(void **state)
{
    char folder[200];

    (void)state;
    etcd_folder(folder, sizeof folder);
    etcd_cluster(&the.member, 1, folder);
    the.address = the.member.address;
    etcd_start(&the.member);
    caller_begin(&the.w, (struct lh_tls_files){0});
    await_ready(&the.w, &the.member);
    return 0;
}

static int shared_end(void **state)
{
    (void)state;
    caller_end(&the.w);
    etcd_kill(&the.member);
    return 0;
}

static int64_t put(const char *key, ProtobufCBinaryData value)
{
    int64_t revision;
    struct call call = put_as(&the.w, the.address, NULL, key, value, &revision);

    if (call.error != LH_OK)
        fail_msg("%s: %s", key, call.text);
    return revision;
}

static Etcdserverpb__RangeResponse *range(const char *key, const char *end, int64_t revision)
{
    Etcdserverpb__RangeResponse *reply;
    struct call call = range_as(&the.w, the.address, NULL, key, end, revision, &reply);

    if (call.error != LH_OK)
        fail_msg("%s: %s", key, call.text);
    return reply;
}

static Etcdserverpb__TxnResponse *transact(Etcdserverpb__TxnRequest *request)
{
    ProtobufCMessage *reply;
    struct call call = ask(&the.w, LH_METHOD_ETCD_TXN, the.address, NULL, request, &reply);

    if (call.error != LH_OK)
        fail_msg("%s", call.text);
    return (Etcdserverpb__TxnResponse *)reply;
}

/* ---- keys and transactions ---- */

static void keys_and_values_are_any_bytes(void **state)
{
    uint8_t all[256];
    static const uint8_t key[] = {'b', '/', 0, 0xff, 0x80, '\n'};
    struct puts p;
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    ProtobufCMessage *reply;

    (void)state;
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    puts_init(&p);
    puts_add(&p, (ProtobufCBinaryData){sizeof key, (uint8_t *)(uintptr_t)key},
        (ProtobufCBinaryData){sizeof all, all});
    puts_add(&p, TEXT("b/empty"), TEXT(""));
    release(transact(&p.request));

    request.key = TEXT("b/");
    request.range_end = TEXT("b0");
    struct call call = ask(&the.w, LH_METHOD_ETCD_RANGE, the.address, NULL, &request, &reply);
    assert_int_equal(call.error, LH_OK);
    const Etcdserverpb__RangeResponse *r = (Etcdserverpb__RangeResponse *)reply;
    assert_int_equal(r->n_kvs, 2);
    assert_data(r->kvs[0]->key, key, sizeof key);
    assert_data(r->kvs[0]->value, all, sizeof all);
    assert_int_equal(r->kvs[0]->version, 1);
    assert_int_equal(r->kvs[0]->mod_revision, r->kvs[1]->mod_revision);
    assert_data(r->kvs[1]->value, "", 0);
    release(reply);
}

/* Compares the value of `key` with `value`; then puts `put`, otherwise reads the key. */
static Etcdserverpb__TxnResponse *compare_and_put(
    const char *key, const char *value, const char *then)
{
    struct puts p;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT, *compares[] = {&compare};
    Etcdserverpb__RangeRequest read = ETCDSERVERPB__RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT, *ops[] = {&op};

    puts_init(&p);
    puts_add(&p, text(key), text(then));
    compare.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
    compare.key = text(key);
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    compare.value = text(value);
    read.key = text(key);
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op.request_range = &read;
    p.request.n_compare = 1;
    p.request.compare = compares;
    p.request.n_failure = 1;
    p.request.failure = ops;
    return transact(&p.request);
}

static void a_compare_that_holds_puts_and_one_that_fails_reads(void **state)
{
    (void)state;
    int64_t before = put("c/head", TEXT("one"));

    Etcdserverpb__TxnResponse *r = compare_and_put("c/head", "one", "two");
    assert_true(r->succeeded);
    assert_int_equal(r->header->revision, before + 1);
    assert_int_equal(r->n_responses, 1);
    assert_int_equal(
        r->responses[0]->response_case, ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT);
    release(r);

    r = compare_and_put("c/head", "one", "three");
    assert_false(r->succeeded);
    assert_int_equal(r->n_responses, 1);
    assert_int_equal(
        r->responses[0]->response_case, ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE);
    const Etcdserverpb__RangeResponse *read = r->responses[0]->response_range;
    assert_int_equal(read->n_kvs, 1);
    assert_data(read->kvs[0]->value, "two", 3);
    assert_int_equal(read->kvs[0]->mod_revision, before + 1);
    release(r);
}

static void a_transaction_deletes_ranges(void **state)
{
    Etcdserverpb__TxnRequest request = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__DeleteRangeRequest gone = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT, *ops[] = {&op};

    (void)state;
    put("d/1", TEXT("x"));
    put("d/2", TEXT("x"));
    put("d/3", TEXT("x"));
    gone.key = TEXT("d/1");
    gone.range_end = TEXT("d/3");
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op.request_delete_range = &gone;
    request.n_success = 1;
    request.success = ops;
    Etcdserverpb__TxnResponse *r = transact(&request);
    assert_int_equal(r->responses[0]->response_delete_range->deleted, 2);
    release(r);

    Etcdserverpb__RangeResponse *left = range("d/", "d0", 0);
    assert_int_equal(left->n_kvs, 1);
    assert_data(left->kvs[0]->key, "d/3", 3);
    release(left);
}

static void pages_of_one_revision_are_one_snapshot(void **state)
{
    char key[16], next[20] = "p/";
    int64_t revision = 0;
    size_t next_size = 2, seen = 0;
    bool more = true;

    (void)state;
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "p/%d", i);
        revision = put(key, TEXT("old"));
    }
    for (int page = 0; more; page++) {
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        ProtobufCMessage *reply;
        request.key = (ProtobufCBinaryData){next_size, (uint8_t *)next};
        request.range_end = TEXT("p0");
        request.limit = 4;
        request.revision = revision;
        struct call call = ask(&the.w, LH_METHOD_ETCD_RANGE, the.address, NULL, &request, &reply);
        assert_int_equal(call.error, LH_OK);
        const Etcdserverpb__RangeResponse *r = (Etcdserverpb__RangeResponse *)reply;
        assert_int_equal(r->n_kvs, page < 2 ? 4 : 2);
        for (size_t i = 0; i < r->n_kvs; i++, seen++) {
            snprintf(key, sizeof key, "p/%zu", seen);
            assert_data(r->kvs[i]->key, key, 3);
            assert_data(r->kvs[i]->value, "old", 3);
        }
        more = r->more != 0;
        next_size = r->kvs[r->n_kvs - 1]->key.len + 1; /* the last key and a NUL */
        memset(next, 0, sizeof next);
        memcpy(next, r->kvs[r->n_kvs - 1]->key.data, next_size - 1);
        release(reply);
        put("p/9", TEXT("new")); /* meanwhile */
        put("p/95", TEXT("new"));
    }
    assert_int_equal(seen, 10);
}

static void a_page_of_many_megabytes_arrives(void **state)
{
    size_t size = 700u << 10;
    uint8_t *value = lh_alloc(size);
    char key[16];

    (void)state;
    for (int i = 0; i < 8; i++) { /* more than gRPC takes by default */
        memset(value, 'a' + i, size);
        snprintf(key, sizeof key, "l/%d", i);
        put(key, (ProtobufCBinaryData){size, value});
    }
    Etcdserverpb__RangeResponse *r = range("l/", "l0", 0);
    assert_int_equal(r->n_kvs, 8);
    for (int i = 0; i < 8; i++) {
        memset(value, 'a' + i, size);
        assert_data(r->kvs[i]->value, value, size);
    }
    release(r);
    free(value);
}

static void a_member_says_what_it_is(void **state)
{
    Etcdserverpb__StatusResponse *r;

    (void)state;
    assert_int_equal(status_of(&the.w, the.address, &r).error, LH_OK);
    assert_memory_equal(r->version, "3.", 2);
    assert_true(r->db_size > 0);
    assert_true(r->leader != 0);
    assert_int_equal(r->leader, r->header->member_id);
    assert_int_equal(r->n_errors, 0);
    release(r);
}

/* ---- refusals ---- */

static void too_many_operations_are_refused(void **state)
{
    struct puts p;
    char keys[129][16];
    ProtobufCMessage *reply;

    (void)state;
    puts_init(&p);
    for (int i = 0; i < 129; i++) {
        snprintf(keys[i], sizeof keys[i], "m/%d", i);
        puts_add(&p, text(keys[i]), TEXT("x"));
    }
    struct call call = ask(&the.w, LH_METHOD_ETCD_TXN, the.address, NULL, &p.request, &reply);
    assert_int_equal(call.error, LH_ERR_TOO_LARGE);
    assert_string_equal(call.text, "etcdserver: too many operations in txn request");

    p.request.n_success = 128;
    release(transact(&p.request));
}

static void a_text_of_etcd_s_arrives_unchanged(void **state)
{
    struct puts p;
    ProtobufCMessage *reply;

    (void)state;
    puts_init(&p);
    puts_add(&p, TEXT("twice"), TEXT("x"));
    puts_add(&p, TEXT("twice"), TEXT("y"));
    struct call call = ask(&the.w, LH_METHOD_ETCD_TXN, the.address, NULL, &p.request, &reply);
    assert_int_equal(call.error, LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(call.text, "etcdserver: duplicate key given in txn request");
}

static void too_large_requests_are_refused_and_harm_no_others(void **state)
{
    int64_t revision;
    size_t size = 5u << 20;
    uint8_t *value = lh_alloc(size);

    (void)state;
    struct call call = put_as(&the.w, the.address, NULL, "t/large",
        (ProtobufCBinaryData){(1536u << 10) + 1, value}, &revision);
    assert_int_equal(call.error, LH_ERR_TOO_LARGE);
    assert_string_equal(call.text, "etcdserver: request is too large");
    /* Beyond what its gRPC takes. */
    call =
        put_as(&the.w, the.address, NULL, "t/large", (ProtobufCBinaryData){size, value}, &revision);
    assert_int_equal(call.error, LH_ERR_TOO_LARGE);
    assert_non_null(strstr(call.text, "larger than max"));
    free(value);
    put("t/small", TEXT("x"));
}

static void a_token_that_no_call_can_carry_ends_the_link(void **state)
{
    Etcdserverpb__RangeResponse *reply;

    (void)state;
    struct call call = range_as(&the.w, the.address, "a\nb", "a", "", 0, &reply);
    assert_int_equal(call.error, LH_ERR_MALFORMED);
}

/* ---- watches ---- */

static void watch_begin(struct call *watch, const char *token, const char *key, const char *end,
    int64_t revision, bool fragment)
{
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;

    *watch = (struct call){.method = LH_METHOD_ETCD_WATCH,
        .address = the.address,
        .token = token,
        .timeout = LH_DURATION_FOREVER};
    create.key = text(key);
    create.range_end = text(end);
    create.start_revision = revision;
    create.fragment = fragment;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    command(&the.w, watch, &request.base);
}

static void watch_end(struct call *watch)
{
    command(&the.w, watch, NULL);
    call_end(&the.w, watch);
}

static const Etcdserverpb__WatchResponse *watched(struct call *watch, size_t number)
{
    if (!await_reply(&the.w, watch, number + 1))
        fail_msg("the watch ended: %s", watch->text);
    return (const Etcdserverpb__WatchResponse *)watch->replies[number];
}

static void a_watch_shows_old_and_new_events_in_order(void **state)
{
    struct call watch;
    char value[16];
    int64_t first = 0, seen = 0;

    (void)state;
    for (int i = 0; i < 30; i++) {
        snprintf(value, sizeof value, "%d", i);
        int64_t revision = put("w/key", text(value));
        first = i == 0 ? revision : first;
        put("unwatched", TEXT("x"));
    }
    watch_begin(&watch, NULL, "w/", "w0", first, false);
    const Etcdserverpb__WatchResponse *r = watched(&watch, 0);
    assert_true(r->created);
    for (size_t number = 1; seen < 40; number++) {
        r = watched(&watch, number);
        assert_false(r->canceled);
        for (size_t i = 0; i < r->n_events; i++, seen++) {
            snprintf(value, sizeof value, "%d", (int)seen);
            assert_int_equal(r->events[i]->type, ETCDSERVERPB__EVENT__EVENT_TYPE__PUT);
            assert_data(r->events[i]->kv->value, value, strlen(value));
            assert_int_equal(r->events[i]->kv->mod_revision, first + 2 * seen);
        }
        for (int i = 30; seen == 30 && i < 40; i++) {
            snprintf(value, sizeof value, "%d", i);
            put("w/key", text(value));
            put("unwatched", TEXT("x"));
        }
    }
    watch_end(&watch);
}

static void large_events_come_whole_or_as_fragments(void **state)
{
    struct call watch;
    size_t size = 900u << 10, fragments = 0, seen = 0, number = 1;
    uint8_t *value = lh_alloc(size);
    int64_t first = 0;
    bool last = false;

    (void)state;
    for (int i = 0; i < 6; i++) {
        memset(value, 'a' + i, size);
        int64_t revision = put("f/key", (ProtobufCBinaryData){size, value});
        first = i == 0 ? revision : first;
    }
    watch_begin(&watch, NULL, "f/", "f0", first, true);
    for (; !last || seen < 6; number++) {
        const Etcdserverpb__WatchResponse *r = watched(&watch, number);
        last = !r->fragment;
        fragments += r->fragment != 0;
        for (size_t i = 0; i < r->n_events; i++, seen++)
            assert_int_equal(r->events[i]->kv->value.data[0], 'a' + seen);
    }
    assert_int_equal(seen, 6);
    assert_true(fragments >= 2);
    watch_end(&watch);

    watch_begin(&watch, NULL, "f/", "f0", first, false);
    const Etcdserverpb__WatchResponse *r = watched(&watch, 1);
    assert_int_equal(r->n_events, 6);
    assert_data(r->events[5]->kv->value, value, size);
    watch_end(&watch);
    free(value);
}

static void what_was_compacted_is_refused_by_name(void **state)
{
    Etcdserverpb__CompactionRequest compact = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    Etcdserverpb__RangeResponse *r;
    ProtobufCMessage *reply;
    struct call watch;

    (void)state;
    int64_t old = put("x/1", TEXT("x"));
    put("x/2", TEXT("x"));
    int64_t now = put("x/3", TEXT("x"));
    compact.revision = now;
    struct call call = ask(&the.w, LH_METHOD_ETCD_COMPACT, the.address, NULL, &compact, &reply);
    assert_int_equal(call.error, LH_OK);
    release(reply);

    call = range_as(&the.w, the.address, NULL, "x/", "x0", old, &r);
    assert_int_equal(call.error, LH_ERR_STALE_VERSION);
    assert_string_equal(call.text, "etcdserver: mvcc: required revision has been compacted");
    call = ask(&the.w, LH_METHOD_ETCD_COMPACT, the.address, NULL, &compact, &reply);
    assert_int_equal(call.error, LH_ERR_STALE_VERSION);
    call = range_as(&the.w, the.address, NULL, "x/", "x0", now + 1000, &r);
    assert_int_equal(call.error, LH_ERR_OUT_OF_SEQUENCE);
    assert_string_equal(call.text, "etcdserver: mvcc: required revision is a future revision");

    watch_begin(&watch, NULL, "x/", "x0", old, false);
    const Etcdserverpb__WatchResponse *w = watched(&watch, 0);
    assert_true(w->created);
    w = watched(&watch, 1);
    assert_true(w->canceled);
    assert_int_equal(w->compact_revision, now);
    watch_end(&watch);
}

/* ---- failures ---- */

static void a_stopped_member_is_given_up_at_the_deadline(void **state)
{
    struct puts p;
    ProtobufCMessage *reply;

    (void)state;
    puts_init(&p);
    puts_add(&p, TEXT("s/key"), TEXT("x"));
    kill(the.member.pid, SIGSTOP);
    assert_int_equal(waitpid(the.member.pid, NULL, WUNTRACED), the.member.pid);
    struct call call = ask_within(
        &the.w, LH_METHOD_ETCD_TXN, the.address, NULL, &p.request, lh_milliseconds(300), &reply);
    kill(the.member.pid, SIGCONT);
    assert_int_equal(call.error, LH_ERR_DEADLINE_EXCEEDED);
    release(transact(&p.request));
}

static void a_killed_member_ends_links_and_is_found_again(void **state)
{
    struct call watch;
    int64_t revision;

    (void)state;
    put("k/kept", TEXT("x"));
    watch_begin(&watch, NULL, "k/", "k0", 0, false);
    assert_true(watched(&watch, 0)->created);
    etcd_kill(&the.member);
    await_end(&the.w, &watch);
    assert_int_equal(watch.error, LH_ERR_UNAVAILABLE);
    call_end(&the.w, &watch);
    struct call call = put_as(&the.w, the.address, NULL, "k/lost", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_ERR_UNAVAILABLE);
    assert_true(call.text[0] != '\0');

    etcd_start(&the.member);
    await_ready(&the.w, &the.member);
    Etcdserverpb__RangeResponse *r = range("k/", "k0", 0);
    assert_int_equal(r->n_kvs, 1);
    assert_data(r->kvs[0]->key, "k/kept", 6);
    release(r);
}

static void a_member_without_a_leader_refuses_at_once_but_tells_its_status(void **state)
{
    struct etcd_member members[2];
    char folder[200];
    struct call watch;
    Etcdserverpb__StatusResponse *status;
    int64_t revision;
    bool led = true;

    (void)state;
    etcd_folder(folder, sizeof folder);
    etcd_cluster(members, 2, folder);
    etcd_start(&members[0]);
    etcd_start(&members[1]);
    await_ready(&the.w, &members[0]);
    await_ready(&the.w, &members[1]);
    the.address = members[0].address;
    do { /* an election may come in between, and end the watch */
        watch_begin(&watch, NULL, "n/", "n0", 0, false);
    } while (!await_reply(&the.w, &watch, 1) && (call_end(&the.w, &watch), true));

    etcd_kill(&members[1]);
    while (led) {
        assert_int_equal(status_of(&the.w, the.address, &status).error, LH_OK);
        led = status->leader != 0;
        release(status);
        if (led)
            pause_asking();
    }
    struct call call = put_as(&the.w, the.address, NULL, "n/key", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_ERR_UNAVAILABLE);
    assert_string_equal(call.text, "etcdserver: no leader");
    await_end(&the.w, &watch);
    assert_int_equal(watch.error, LH_ERR_UNAVAILABLE);
    assert_string_equal(watch.text, "etcdserver: no leader");
    call_end(&the.w, &watch);
    etcd_kill(&members[0]);
}

/* ---- authentication ---- */

static void administer(const char *address, const char *path, const void *request, size_t size)
{
    char why[300], reply[300];
    size_t reply_size;
    struct lh_stranger *s = lh_stranger_call(address, path, request, size);

    while (lh_stranger_read(s, reply, sizeof reply, &reply_size))
        ;
    int status = lh_stranger_end(s, why, sizeof why);

    if (status != 0)
        fail_msg("%s: %s", path, why);
}

static struct call authenticate(
    const char *address, const char *name, const char *password, char *token, size_t size)
{
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    ProtobufCMessage *reply;

    request.name = (char *)(uintptr_t)name;
    request.password = (char *)(uintptr_t)password;
    struct call call = ask(&the.w, LH_METHOD_ETCD_AUTHENTICATE, address, NULL, &request, &reply);
    if (reply != NULL) {
        snprintf(token, size, "%s", ((Etcdserverpb__AuthenticateResponse *)reply)->token);
        release(reply);
    }
    return call;
}

static void who_authenticates_gets_a_token_that_counts(void **state)
{
    struct etcd_member member;
    char folder[200], token[200], guest[200];
    struct call watch;
    Etcdserverpb__RangeResponse *reply;
    int64_t revision;

    (void)state;
    etcd_folder(folder, sizeof folder);
    etcd_cluster(&member, 1, folder);
    etcd_start(&member);
    await_ready(&the.w, &member);
    struct call call = authenticate(member.address, "root", "word", token, sizeof token);
    assert_int_equal(call.error, LH_ERR_UNIMPLEMENTED);
    assert_string_equal(call.text, "etcdserver: authentication is not enabled");
    /* A token is not ignored there: it may be older than the change. */
    call = range_as(&the.w, member.address, "any.1", "a", "", 0, &reply);
    assert_int_equal(call.error, LH_ERR_UNKNOWN_SESSION);

    administer(member.address, "/etcdserverpb.Auth/UserAdd", "\x0a\x04root\x12\x04word", 12);
    administer(member.address, "/etcdserverpb.Auth/UserGrantRole", "\x0a\x04root\x12\x04root", 12);
    administer(member.address, "/etcdserverpb.Auth/UserAdd", "\x0a\x05guest\x12\x04word", 13);
    administer(member.address, "/etcdserverpb.Auth/AuthEnable", "", 0);

    call = put_as(&the.w, member.address, NULL, "a", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_ERR_UNKNOWN_SESSION);
    call = authenticate(member.address, "root", "wrong", token, sizeof token);
    assert_int_equal(call.error, LH_ERR_PERMISSION);
    call = authenticate(member.address, "guest", "word", guest, sizeof guest);
    assert_int_equal(call.error, LH_OK);
    call = put_as(&the.w, member.address, guest, "a", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_ERR_PERMISSION);
    assert_string_equal(call.text, "etcdserver: permission denied");

    call = authenticate(member.address, "root", "word", token, sizeof token);
    assert_int_equal(call.error, LH_OK);
    call = put_as(&the.w, member.address, token, "a", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_OK);

    /* As if it had run out, which takes minutes; a member that restarts knows it still. */
    token[0] = token[0] == 'A' ? 'B' : 'A';
    call = range_as(&the.w, member.address, token, "a", "", 0, &reply);
    assert_int_equal(call.error, LH_ERR_UNKNOWN_SESSION);
    assert_string_equal(call.text, "etcdserver: invalid auth token");
    call = authenticate(member.address, "root", "word", token, sizeof token);
    assert_int_equal(call.error, LH_OK);
    call = range_as(&the.w, member.address, token, "a", "", 0, &reply);
    assert_int_equal(call.error, LH_OK);
    assert_int_equal(reply->n_kvs, 1);
    release(reply);

    /* A watch is told otherwise. */
    the.address = member.address;
    watch_begin(&watch, "invalid", "a", "", 0, false);
    const Etcdserverpb__WatchResponse *w = watched(&watch, 0);
    assert_true(w->canceled);
    assert_non_null(strstr(w->cancel_reason, "etcdserver: invalid auth token"));
    watch_end(&watch);
    watch_begin(&watch, token, "a", "", 0, false);
    assert_false(watched(&watch, 0)->canceled);
    watch_end(&watch);
    etcd_kill(&member);
}

/* ---- TLS ---- */

/* Keys and certificates in `folder`: two CAs; of the first a server's and a client's. */
static void make_certificates(const char *folder)
{
    static const char script[] =
        "cd '%s' && exec >openssl.log 2>&1 && set -ex\n"
        "new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
        "for ca in ca other; do\n"
        "  openssl req -x509 $new -keyout $ca.key -out $ca.crt -subj /CN=$ca -days 2\n"
        "done\n"
        "{ echo '-----BEGIN CERTIFICATE-----'; echo AAAA; echo '-----END CERTIFICATE-----'; }"
        " >broken.crt\n"
        "echo 'subjectAltName=IP:127.0.0.1' >names\n"
        "for end in server client; do\n"
        "  openssl req $new -keyout $end.key -out $end.csr -subj /CN=$end\n"
        "  openssl x509 -req -in $end.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2"
        " -extfile names -out $end.crt\n"
        "done\n";
    char commands[1200];

    snprintf(commands, sizeof commands, script, folder);
    if (system(commands) != 0)
        fail_msg("openssl failed: see %s/openssl.log", folder);
}

static void assert_cannot_reach(struct lh_tls_files tls, const char *address, const char *sentence)
{
    struct caller w;
    Etcdserverpb__StatusResponse *status;

    caller_begin(&w, tls);
    struct call call = status_of(&w, address, &status);
    assert_int_equal(call.error, LH_ERR_UNAVAILABLE);
    if (strstr(call.text, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, call.text);
    caller_end(&w);
}

static void with_tls_both_sides_show_who_they_are(void **state)
{
    struct etcd_member member;
    char folder[200], ca[300], other[300], cert[300], key[300], server[300], server_key[300];
    int64_t revision;
    struct caller w;

    (void)state;
    etcd_folder(folder, sizeof folder);
    make_certificates(folder);
    snprintf(ca, sizeof ca, "%s/ca.crt", folder);
    snprintf(other, sizeof other, "%s/other.crt", folder);
    snprintf(cert, sizeof cert, "%s/client.crt", folder);
    snprintf(key, sizeof key, "%s/client.key", folder);
    snprintf(server, sizeof server, "--cert-file=%s/server.crt", folder);
    snprintf(server_key, sizeof server_key, "--key-file=%s/server.key", folder);
    etcd_cluster(&member, 1, folder);
    member.tls = 1;
    member.options[0] = server;
    member.options[1] = server_key;
    etcd_start(&member);

    /* A client without a certificate. */
    caller_begin(&w, (struct lh_tls_files){.ca_file = ca});
    await_ready(&w, &member);
    struct call call = put_as(&w, member.address, NULL, "a", TEXT("x"), &revision);
    assert_int_equal(call.error, LH_OK);
    caller_end(&w);
    assert_cannot_reach((struct lh_tls_files){0}, member.address, "failed to connect");
    assert_cannot_reach(
        (struct lh_tls_files){.ca_file = other}, member.address, "certificate verify failed");

    /* One is asked for. */
    char trusted[320];
    snprintf(trusted, sizeof trusted, "--trusted-ca-file=%s", ca);
    member.options[2] = "--client-cert-auth";
    member.options[3] = trusted;
    etcd_kill(&member);
    etcd_start(&member);
    caller_begin(&w, (struct lh_tls_files){ca, cert, key});
    await_ready(&w, &member);
    call = put_as(&w, member.address, NULL, "a", TEXT("y"), &revision);
    assert_int_equal(call.error, LH_OK);
    caller_end(&w);
    assert_cannot_reach((struct lh_tls_files){.ca_file = ca}, member.address, "failed to connect");
    etcd_kill(&member);
}

static void assert_refused(struct lh_tls_files tls, const char *sentence)
{
    struct caller w;
    char why[700] = "";

    assert_int_equal(caller_try(&w, tls, why, sizeof why), LH_ERR_INVALID_ARGUMENT);
    if (strstr(why, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, why);
}

static void a_wrong_file_is_named_at_the_start(void **state)
{
    char folder[200], empty[300], ca[300], cert[300], key[300], broken[300], wrong_key[300];

    (void)state;
    etcd_folder(folder, sizeof folder);
    make_certificates(folder);
    snprintf(ca, sizeof ca, "%s/ca.crt", folder);
    snprintf(empty, sizeof empty, "%s/names", folder);
    snprintf(cert, sizeof cert, "%s/client.crt", folder);
    snprintf(key, sizeof key, "%s/client.key", folder);
    snprintf(broken, sizeof broken, "%s/broken.crt", folder);
    snprintf(wrong_key, sizeof wrong_key, "%s/server.key", folder);
    assert_refused((struct lh_tls_files){.ca_file = "/nowhere/ca"},
        "cannot open /nowhere/ca: No such file or directory");
    assert_refused((struct lh_tls_files){.ca_file = folder}, "cannot read");
    assert_refused((struct lh_tls_files){.ca_file = empty}, "names has no certificate in PEM");
    assert_refused(
        (struct lh_tls_files){.ca_file = broken}, "broken.crt has no certificate in PEM");
    assert_refused((struct lh_tls_files){ca, broken, key}, "broken.crt has no certificate in PEM");
    assert_refused((struct lh_tls_files){ca, ca, "/nowhere/key"}, "cannot open /nowhere/key: No");
    assert_refused((struct lh_tls_files){ca, ca, ca}, "ca.crt has no private key in PEM");
    assert_refused(
        (struct lh_tls_files){ca, cert, wrong_key}, "is not the key of the certificate in");
    assert_refused((struct lh_tls_files){ca, ca, NULL}, "a key its certificate");
    assert_refused((struct lh_tls_files){NULL, ca, ca}, "the file of the CA");
}

static int fresh(void **state)
{
    (void)state;
    forget_calls(&the.w);
    the.address = the.member.address;
    return 0;
}

#define STORY(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(keys_and_values_are_any_bytes),
        STORY(a_compare_that_holds_puts_and_one_that_fails_reads),
        STORY(a_transaction_deletes_ranges),
        STORY(pages_of_one_revision_are_one_snapshot),
        STORY(a_page_of_many_megabytes_arrives),
        STORY(a_member_says_what_it_is),
        STORY(too_many_operations_are_refused),
        STORY(a_text_of_etcd_s_arrives_unchanged),
        STORY(too_large_requests_are_refused_and_harm_no_others),
        STORY(a_token_that_no_call_can_carry_ends_the_link),
        STORY(a_watch_shows_old_and_new_events_in_order),
        STORY(large_events_come_whole_or_as_fragments),
        STORY(what_was_compacted_is_refused_by_name),
        STORY(a_stopped_member_is_given_up_at_the_deadline),
        STORY(a_killed_member_ends_links_and_is_found_again),
        STORY(a_member_without_a_leader_refuses_at_once_but_tells_its_status),
        STORY(who_authenticates_gets_a_token_that_counts),
        STORY(with_tls_both_sides_show_who_they_are),
        STORY(a_wrong_file_is_named_at_the_start),
    };

    return cmocka_run_group_tests(tests, shared_begin, shared_end);
}
