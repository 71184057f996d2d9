/* Requests of the client's core to the masters, how it finds the active one (HA-10), and how calls
 * that change something are repeated (HA-12). */
#include "base/cluster.h"
#include "tests/core/client/client_world.h"

static const char *const ab[] = {"m1:1", "m2:1"};

static struct world *given(size_t masters)
{
    static struct world w;

    world_init_with(&w, (struct lh_client_config){.masters = ab, .master_count = masters});
    return &w;
}

static Leasehold__StatRequest stat_request(void)
{
    Leasehold__StatRequest request = LEASEHOLD__STAT_REQUEST__INIT;

    request.path = (char *)(uintptr_t) "/f";
    return request;
}

static Leasehold__RemoveRequest remove_request(void)
{
    Leasehold__RemoveRequest request = LEASEHOLD__REMOVE_REQUEST__INIT;

    request.path = (char *)(uintptr_t) "/f";
    return request;
}

static struct lh_master_call call_of(
    const struct world *w, enum lh_method method, const ProtobufCMessage *request, uint64_t ms)
{
    return (struct lh_master_call){
        .call.kind = LH_CALL_MASTER,
        .method = method,
        .request = request,
        .deadline = in_ms(w, ms),
    };
}

static void done(struct world *w, struct lh_master_call *call, int error)
{
    expect_complete(w, call, error);
    if (call->reply != NULL)
        lh_wire_free(call->reply);
}

static void not_active(struct world *w, uint64_t link)
{
    end_link(w, link, LH_ERR_NOT_ACTIVE, "m9:1 is the active master, in reign 3");
}

/* The answer to MASTERS of one that acts, ... */
static void say_acts(struct world *w, uint64_t link, uint64_t reign)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.reign = reign;
    m.acting = true;
    say(w, link, &m);
}

/* ... and of one that does not. */
static void say_stands_by(struct world *w, uint64_t link, uint64_t reign, const char *active)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;

    m.reign = reign;
    m.active = (char *)(uintptr_t)active;
    say(w, link, &m);
}

/* Both masters are asked who acts. */
static void expect_round(struct world *w, uint64_t *m1, uint64_t *m2)
{
    *m1 = expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL);
    *m2 = expect_request(w, LH_METHOD_MASTERS, "m2:1", NULL);
}

/* ---- One master. */

/* It is tried again after pauses, and asked nothing else. */
static void a_single_master_is_tried_again(void **state)
{
    struct world *w = given(1);
    Leasehold__RemoveRequest request = remove_request();
    Leasehold__RemoveReply gone = LEASEHOLD__REMOVE_REPLY__INIT;
    Leasehold__RemoveReply down = LEASEHOLD__REMOVE_REPLY__INIT;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_REMOVE, &request.base, 10000);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL));
    expect_quiet(w);
    pass(w);
    down.error = LEASEHOLD__ERROR_CODE__SHUTTING_DOWN;
    say(w, expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL), &down);
    expect_quiet(w);

    /* What it says then is of this call: an earlier try would be told likewise. */
    pass(w);
    uint64_t link = expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL);
    gone.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    say(w, link, &gone);
    assert_non_null(call.reply);
    done(w, &call, LH_ERR_NOT_FOUND);
    expect_quiet(w);
    world_deinit(w);
}

/* It is a standby, and leads to another one that nobody told the client of. */
static void a_single_master_that_is_not_active_leads_to_the_active_one(void **state)
{
    struct world *w = given(1);
    Leasehold__RemoveRequest request = remove_request();
    Leasehold__RemoveReply removed = LEASEHOLD__REMOVE_REPLY__INIT;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_REMOVE, &request.base, 10000);
    ask(w, &call);
    not_active(w, expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL));
    say_stands_by(w, expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL), 3, "m9:1");
    say_acts(w, expect_request(w, LH_METHOD_MASTERS, "m9:1", NULL), 3);
    /* It was not carried out: so it may be repeated. */
    say(w, expect_request(w, LH_METHOD_REMOVE, "m9:1", NULL), &removed);
    done(w, &call, LH_OK);
    expect_quiet(w);
    world_deinit(w);
}

static void a_call_to_nobody_active_ends_at_its_deadline(void **state)
{
    struct world *w = given(1);
    Leasehold__StatRequest request = stat_request();
    unsigned rounds = 0, tries = 0;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 3000);
    ask(w, &call);
    while (w->events[w->taken].kind != LH_FX_COMPLETE) {
        uint64_t link = take(w, LH_FX_OPEN)->link;
        take(w, LH_FX_SEND);
        rounds += w->methods[link] == LH_METHOD_MASTERS;
        tries += w->methods[link] == LH_METHOD_STAT;
        if (w->methods[link] == LH_METHOD_STAT)
            not_active(w, link);
        else
            say_stands_by(w, link, 3, "");
        while (w->taken == w->count)
            pass(w);
    }
    assert_in_range(rounds, 3, 20); /* not without pauses */
    assert_in_range(tries, 3, 20);
    assert_non_null(strstr(call.call.text, "m9:1 is the active master"));
    done(w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(w);
}

/* Nor does it say who does: it refuses this client, which is the reason and not who is away. */
static void a_call_of_one_who_may_not_ask_who_acts_ends_as_refused(void **state)
{
    struct world *w = given(1);
    Leasehold__StatRequest request = stat_request();

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 3000);
    ask(w, &call);
    while (w->events[w->taken].kind != LH_FX_COMPLETE) {
        uint64_t link = take(w, LH_FX_OPEN)->link;
        take(w, LH_FX_SEND);
        if (w->methods[link] == LH_METHOD_STAT)
            not_active(w, link);
        else
            end_link(w, link, LH_ERR_PERMISSION, "CN=x has the role none");
        while (w->taken == w->count)
            pass(w);
    }
    assert_string_equal(call.call.text, "CN=x has the role none");
    done(w, &call, LH_ERR_PERMISSION);
    world_deinit(w);
}

/* ---- Several masters. */

static void not_active_is_answered_by_the_one_that_is(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call next = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    not_active(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    expect_round(w, &m1, &m2);
    say_stands_by(w, m1, 3, "m2:1");
    expect_quiet(w);
    say_acts(w, m2, 3);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m2:1", NULL));
    done(w, &call, LH_OK);
    ask(w, &next);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m2:1", NULL));
    done(w, &next, LH_OK);
    expect_quiet(w);
    world_deinit(w);
}

/* Every call that goes on waits for the same round, and goes out once a master is found. */
static void when_the_active_one_dies_the_next_is_found(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2, first, second;

    (void)state;
    struct lh_master_call a = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call b = a, c = a;
    ask(w, &a);
    first = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    ask(w, &b);
    second = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    break_link(w, first);
    expect_round(w, &m1, &m2);
    break_link(w, second);
    ask(w, &c);
    expect_quiet(w);
    struct lh_instant begun = w->now;

    /* The standby has not noticed, then becomes active. */
    break_link(w, m1);
    say_stands_by(w, m2, 3, "m1:1");
    pass(w);
    expect_round(w, &m1, &m2);
    break_link(w, m1);
    say_stands_by(w, m2, 3, "m1:1");
    pass(w);
    expect_round(w, &m1, &m2);
    say_acts(w, m2, 4);
    assert_in_range(w->now.ns - begun.ns, 0, 200 * 1000000ull);
    for (int i = 0; i < 3; i++)
        say_stat(w, expect_request(w, LH_METHOD_STAT, "m2:1", NULL));
    while (w->taken < w->count)
        assert_int_equal(take(w, LH_FX_COMPLETE)->error, LH_OK);
    break_link(w, m1);
    lh_wire_free(a.reply);
    lh_wire_free(b.reply);
    lh_wire_free(c.reply);
    world_deinit(w);
}

/* A refusal of a master that acts is no reason to look for another one. */
static void a_master_that_cannot_now_is_asked_again(void **state)
{
    struct world *w = given(2);
    Leasehold__OpenTailRequest tail = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    Leasehold__OpenTailReply opened = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_OPEN_TAIL, &tail.base, 10000);
    ask(w, &call);
    opened.error = LEASEHOLD__ERROR_CODE__UNAVAILABLE;
    say(w, expect_request(w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &opened);
    expect_quiet(w);
    pass(w);
    opened.error = LEASEHOLD__ERROR_CODE__OK;
    say(w, expect_request(w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &opened);
    done(w, &call, LH_OK);
    world_deinit(w);
}

/* It froze and closes no connection. */
static void a_frozen_master_is_left(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call later = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    uint64_t silent = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    pass_ms(w, 499);
    expect_quiet(w);
    pass_ms(w, 1);
    expect_round(w, &m1, &m2);
    /* Nobody acts yet: it may be the network, and the call stays where it is. */
    say_stands_by(w, m2, 3, "m1:1");
    expect_quiet(w);
    ask(w, &later);
    uint64_t silent_too = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    pass_ms(w, 100);
    pass_ms(w, 50);
    m2 = expect_request(w, LH_METHOD_MASTERS, "m2:1", NULL);
    say_acts(w, m2, 4);
    expect_close(w, silent);
    m2 = expect_request(w, LH_METHOD_STAT, "m2:1", NULL);
    expect_close(w, silent_too);
    uint64_t again = expect_request(w, LH_METHOD_STAT, "m2:1", NULL);
    say_stat(w, m2);
    done(w, &call, LH_OK);
    say_stat(w, again);
    done(w, &later, LH_OK);
    pass(w);
    expect_close(w, m1);
    expect_quiet(w);
    world_deinit(w);
}

/* Calls may take long at a master that acts. */
static void a_slow_master_that_acts_is_not_left(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    uint64_t slow = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    pass_ms(w, 500);
    expect_round(w, &m1, &m2);
    say_acts(w, m1, 3);
    say_stands_by(w, m2, 3, "m1:1");
    pass_ms(w, 499);
    expect_quiet(w);
    /* It may have frozen since. */
    pass_ms(w, 1);
    expect_round(w, &m1, &m2);
    say_stat(w, slow);
    done(w, &call, LH_OK);
    break_link(w, m1);
    break_link(w, m2);
    expect_quiet(w);
    world_deinit(w);
}

/* HA-10: a call is repeated where another master acts in a higher reign. What another call finds
 * out of the same master, in the same reign, is no reason to begin again there. */
static void a_call_stays_while_another_one_finds_the_same_master(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call slow = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call other = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &slow);
    uint64_t waits = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    pass_ms(w, 500);
    expect_round(w, &m1, &m2);
    say_acts(w, m1, 3);
    say_stands_by(w, m2, 3, "m1:1");
    ask(w, &other);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    while (w->taken == w->count)
        pass(w);
    expect_round(w, &m1, &m2);
    say_stands_by(w, m2, 3, "m1:1");
    say_acts(w, m1, 3);
    uint64_t again = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    say_stat(w, again);
    done(w, &other, LH_OK);
    say_stat(w, waits);
    done(w, &slow, LH_OK);
    expect_quiet(w);
    world_deinit(w);
}

static void an_old_master_with_a_lower_reign_is_not_believed(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    expect_round(w, &m1, &m2);
    say_stands_by(w, m2, 4, ""); /* a newer reign has begun and is over */
    say_acts(w, m1, 3);
    expect_quiet(w);
    pass(w);
    expect_round(w, &m1, &m2);
    say_acts(w, m1, 3);
    expect_quiet(w);
    say_acts(w, m2, 5);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m2:1", NULL));
    done(w, &call, LH_OK);
    world_deinit(w);
}

/* ---- Calls that happen once. */

/* Pauses pass until the client does something. */
static void pass_pauses(struct world *w)
{
    while (w->taken == w->count)
        pass(w);
}

/* The next request of that kind: its id, and whether it says that it is a repeat. */
static uint64_t expect_call(
    struct world *w, enum lh_method method, const char *address, uint64_t *number, bool *repeated)
{
    const ProtobufCMessage *m = NULL;
    const Leasehold__CallId *id;
    uint64_t link = expect_request(w, method, address, &m);

    memcpy(&id,
        (const char *)m +
            protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "call")->offset,
        sizeof id);
    assert_non_null(id);
    assert_true(id->client != 0);
    *number = id->number;
    *repeated = id->repeated;
    return link;
}

/* A break, a stop and a frozen master: each time the same id goes to whoever acts then. */
static void a_change_is_repeated_with_its_id_until_it_is_answered(void **state)
{
    struct world *w = given(2);
    Leasehold__RemoveRequest request = remove_request();
    Leasehold__RemoveReply removed = LEASEHOLD__REMOVE_REPLY__INIT, down = removed;
    uint64_t m1, m2, first, again;
    bool repeated;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_REMOVE, &request.base, 60000);
    ask(w, &call);
    uint64_t link = expect_call(w, LH_METHOD_REMOVE, "m1:1", &first, &repeated);
    assert_false(repeated);
    not_active(w, link); /* not carried out: the next one is no repeat */
    expect_round(w, &m1, &m2);
    say_acts(w, m2, 3);
    break_link(w, m1);
    link = expect_call(w, LH_METHOD_REMOVE, "m2:1", &again, &repeated);
    assert_false(repeated);
    assert_true(again == first);
    break_link(w, link);

    pass_pauses(w);
    expect_round(w, &m1, &m2);
    break_link(w, m2);
    say_acts(w, m1, 4);
    link = expect_call(w, LH_METHOD_REMOVE, "m1:1", &again, &repeated);
    assert_true(repeated && again == first);
    pass_ms(w, 500); /* no answer */
    expect_round(w, &m1, &m2);
    say_acts(w, m2, 5);
    expect_close(w, link);
    link = expect_call(w, LH_METHOD_REMOVE, "m2:1", &again, &repeated);
    assert_true(repeated && again == first);
    say(w, link, &removed);
    assert_true(call.id_number == first && call.id_client != 0);
    done(w, &call, LH_OK);
    break_link(w, m1);

    /* The next call is another one. */
    ask(w, &call);
    link = expect_call(w, LH_METHOD_REMOVE, "m2:1", &again, &repeated);
    assert_true(again == first + 1 && !repeated);
    down.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    say(w, link, &down);
    done(w, &call, LH_ERR_NOT_FOUND);
    assert_null(request.call); /* the caller's request is left alone */
    world_deinit(w);
}

static bool has_id(struct world *w, enum lh_method method, const ProtobufCMessage *request)
{
    const ProtobufCMessage *m = NULL;
    const Leasehold__CallId *id = NULL;

    struct lh_master_call call = call_of(w, method, request, 10000);
    ask(w, &call);
    uint64_t link = expect_request(w, method, "m1:1", &m);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "call");
    if (field != NULL)
        memcpy(&id, (const char *)m + field->offset, sizeof id);
    bool has = id != NULL;
    end_link(w, link, LH_ERR_INVALID_ARGUMENT, "enough");
    done(w, &call, LH_ERR_INVALID_ARGUMENT);
    return has;
}

static void calls_that_change_something_have_ids(void **state)
{
    struct world *w = given(2);
    Leasehold__CreateRequest create = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__RenameRequest rename = LEASEHOLD__RENAME_REQUEST__INIT;
    Leasehold__RemoveRequest remove = LEASEHOLD__REMOVE_REQUEST__INIT;
    Leasehold__RestoreRequest restore = LEASEHOLD__RESTORE_REQUEST__INIT;
    Leasehold__SetServerRequest set = LEASEHOLD__SET_SERVER_REQUEST__INIT;
    Leasehold__GarbageRequest garbage = LEASEHOLD__GARBAGE_REQUEST__INIT;
    Leasehold__RecallRequest recall = LEASEHOLD__RECALL_REQUEST__INIT;
    Leasehold__StatRequest stat = stat_request();

    (void)state;
    assert_true(has_id(w, LH_METHOD_CREATE, &create.base));
    assert_true(has_id(w, LH_METHOD_RENAME, &rename.base));
    assert_true(has_id(w, LH_METHOD_REMOVE, &remove.base));
    assert_true(has_id(w, LH_METHOD_RESTORE, &restore.base));
    assert_true(has_id(w, LH_METHOD_SET_SERVER, &set.base));
    assert_false(has_id(w, LH_METHOD_GARBAGE, &garbage.base));
    garbage.resume = true;
    assert_true(has_id(w, LH_METHOD_GARBAGE, &garbage.base));
    assert_false(has_id(w, LH_METHOD_RECALL, &recall.base));
    assert_false(has_id(w, LH_METHOD_STAT, &stat.base));
    world_deinit(w);
}

/* Feeds what the only master does, a break after each try, until the call completes. */
static void break_until_it_completes(struct world *w, enum lh_method method)
{
    while (w->taken == w->count || w->events[w->taken].kind != LH_FX_COMPLETE) {
        if (w->taken == w->count)
            pass(w);
        else
            break_link(w, expect_request(w, method, "m1:1", NULL));
    }
}

/* Whatever it does meanwhile. */
static void take_until_it_completes(struct world *w)
{
    while (w->taken == w->count || w->events[w->taken].kind != LH_FX_COMPLETE) {
        if (w->taken == w->count)
            pass(w);
        else
            take(w, w->events[w->taken].kind);
    }
}

/* Masters forget calls after a while, and a repeat must not come then. */
static void a_change_is_not_repeated_for_longer_than_masters_remember_it(void **state)
{
    static struct world w;
    static const char *const m1[] = {"m1:1"};
    Leasehold__RemoveRequest request = remove_request();
    Leasehold__StatRequest stat = stat_request();

    (void)state;
    world_init_with(&w,
        (struct lh_client_config){.masters = m1, .master_count = 1, .repeat_for = lh_seconds(20)});
    struct lh_instant begun = w.now;
    struct lh_master_call call = call_of(&w, LH_METHOD_REMOVE, &request.base, 60000);
    ask(&w, &call);
    break_until_it_completes(&w, LH_METHOD_REMOVE);
    assert_int_equal(w.now.ns - begun.ns, lh_seconds(20).ns);
    assert_non_null(strstr(call.call.text, "may have been carried out"));
    done(&w, &call, LH_ERR_UNAVAILABLE);

    /* Others are, until their deadlines. */
    begun = w.now;
    call = call_of(&w, LH_METHOD_STAT, &stat.base, 60000);
    ask(&w, &call);
    break_until_it_completes(&w, LH_METHOD_STAT);
    assert_int_equal(w.now.ns - begun.ns, lh_seconds(60).ns);
    assert_null(strstr(call.call.text, "may have been carried out"));
    done(&w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(&w);
}

/* The network keeps the deadline of a call, too. On a busy machine it is heard of before our own
 * timer, a little before the time or after it: the call was told UNAVAILABLE. */
static void a_deadline_is_one_whoever_notices_it_first(void **state)
{
    Leasehold__StatRequest stat = LEASEHOLD__STAT_REQUEST__INIT;
    Leasehold__RemoveRequest request = remove_request();

    (void)state;
    for (unsigned early_ms = 0; early_ms < 2; early_ms++) {
        struct world *w = given(2);
        stat.path = "/a";
        struct lh_master_call call = call_of(w, LH_METHOD_STAT, &stat.base, 400);
        ask(w, &call);
        uint64_t silent = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
        w->now = in_ms(w, 400 - early_ms);
        end_link(w, silent, LH_ERR_DEADLINE_EXCEEDED, "Deadline Exceeded");
        pass_ms(w, early_ms);
        assert_non_null(strstr(call.call.text, "did not answer in time"));
        done(w, &call, LH_ERR_DEADLINE_EXCEEDED);

        call = call_of(w, LH_METHOD_REMOVE, &request.base, 400);
        ask(w, &call);
        silent = expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL);
        w->now = in_ms(w, 400 - early_ms);
        end_link(w, silent, LH_ERR_DEADLINE_EXCEEDED, "Deadline Exceeded");
        pass_ms(w, early_ms);
        assert_non_null(strstr(call.call.text, "may have been carried out"));
        done(w, &call, LH_ERR_DEADLINE_EXCEEDED);
        world_deinit(w);
    }
}

/* A master that was restarted waits for sessions; the caller is to hear that, and not that the
 * master was away before. */
static void a_master_that_waits_answers_in_time_at_each_try(void **state)
{
    struct world *w = given(1);
    Leasehold__ChangeRequest request = LEASEHOLD__CHANGE_REQUEST__INIT;
    Leasehold__ChangeReply waited = LEASEHOLD__CHANGE_REPLY__INIT;
    const Leasehold__ChangeRequest *sent;

    (void)state;
    request.name = (char *)(uintptr_t) "/v";
    request.wait_ms = 7000;
    struct lh_master_call call = call_of(w, LH_METHOD_CHANGE, &request.base, 8000);
    call.patience = lh_milliseconds(7000);
    ask(w, &call);
    uint64_t link = expect_request(w, LH_METHOD_CHANGE, "m1:1", &sent);
    assert_int_equal(sent->wait_ms, 7000);
    w->now = in_ms(w, 4000);
    break_link(w, link);
    pass(w);
    link = expect_request(w, LH_METHOD_CHANGE, "m1:1", &sent);
    assert_in_range(sent->wait_ms, 3000, 3500);
    assert_int_equal(request.wait_ms, 7000); /* the caller's is as it was */
    waited.error = LEASEHOLD__ERROR_CODE__LEASE_HELD;
    waited.error_text = (char *)(uintptr_t) "sessions are not back yet";
    say(w, link, &waited);
    assert_string_equal(call.call.text, "sessions are not back yet");
    done(w, &call, LH_ERR_LEASE_HELD);
    expect_quiet(w);
    world_deinit(w);
}

static void the_master_that_is_asked_is_named_before_what_was_wrong(void **state)
{
    struct world *w = given(1);
    Leasehold__StatRequest stat = stat_request();

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &stat.base, 3000);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    pass(w);
    uint64_t silent = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    while (w->taken == w->count)
        pass(w);
    expect_close(w, silent);
    assert_string_equal(call.call.text, "master m1:1 has not answered yet; before that, master "
                                        "m1:1: connection lost");
    done(w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(w);
}

static void a_change_that_ends_unknown_says_so(void **state)
{
    struct world *w = given(2);
    Leasehold__RemoveRequest request = remove_request();
    Leasehold__RemoveReply down = LEASEHOLD__REMOVE_REPLY__INIT;
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_REMOVE, &request.base, 1000);
    ask(w, &call);
    uint64_t silent = expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL);
    pass_ms(w, 1000);
    expect_close(w, silent);
    assert_non_null(strstr(call.call.text, "may have been carried out"));
    done(w, &call, LH_ERR_DEADLINE_EXCEEDED);

    /* Whatever its last try met. */
    call = call_of(w, LH_METHOD_REMOVE, &request.base, 1000);
    ask(w, &call);
    down.error = LEASEHOLD__ERROR_CODE__SHUTTING_DOWN;
    say(w, expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL), &down);
    expect_round(w, &m1, &m2);
    pass_ms(w, 1000);
    take_until_it_completes(w);
    assert_non_null(strstr(call.call.text, "may have been carried out"));
    done(w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(w);
}

/* Nobody that acted was ever asked. */
static void a_change_that_was_refused_by_standbys_alone_was_not_carried_out(void **state)
{
    struct world *w = given(2);
    Leasehold__RemoveRequest request = remove_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_REMOVE, &request.base, 300);
    ask(w, &call);
    not_active(w, expect_request(w, LH_METHOD_REMOVE, "m1:1", NULL));
    expect_round(w, &m1, &m2);
    say_stands_by(w, m1, 3, "");
    say_stands_by(w, m2, 3, "");
    pass_ms(w, 300);
    take_until_it_completes(w);
    assert_null(strstr(call.call.text, "may have been carried out"));
    done(w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(w);
}

static void a_learned_list_survives_the_first_masters_death(void **state)
{
    struct world *w = given(1);
    char *list[] = {"m1:1", "m7:1", "m8:1"};
    Leasehold__LocateRequest locate = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__LocateReply located = LEASEHOLD__LOCATE_REPLY__INIT;
    Leasehold__StatRequest request = stat_request();

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_LOCATE, &locate.base, 10000);
    ask(w, &call);
    located.masters = list;
    located.n_masters = 3;
    say(w, expect_request(w, LH_METHOD_LOCATE, "m1:1", NULL), &located);
    done(w, &call, LH_OK);

    call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    break_link(w, expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL));
    break_link(w, expect_request(w, LH_METHOD_MASTERS, "m7:1", NULL));
    say_acts(w, expect_request(w, LH_METHOD_MASTERS, "m8:1", NULL), 2);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m8:1", NULL));
    done(w, &call, LH_OK);
    world_deinit(w);
}

static void the_tails_answer_teaches_the_list_too(void **state)
{
    struct world *w = given(1);
    char *list[] = {"m7:1"};
    Leasehold__OpenTailRequest tail = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    Leasehold__OpenTailReply opened = LEASEHOLD__OPEN_TAIL_REPLY__INIT;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_OPEN_TAIL, &tail.base, 10000);
    ask(w, &call);
    opened.masters = list;
    opened.n_masters = 1;
    say(w, expect_request(w, LH_METHOD_OPEN_TAIL, "m1:1", NULL), &opened);
    done(w, &call, LH_OK);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_OPEN_TAIL, "m1:1", NULL));
    expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL);
    expect_request(w, LH_METHOD_MASTERS, "m7:1", NULL);
    world_deinit(w);
}

static void a_deadline_tells_why_nothing_was_reached(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 8000);
    ask(w, &call);
    uint64_t silent = expect_request(w, LH_METHOD_STAT, "m1:1", NULL);
    pass_ms(w, 5000); /* the end of one try */
    expect_close(w, silent);
    take_until_it_completes(w);
    assert_non_null(strstr(call.call.text, "m1:1"));
    assert_null(call.reply);
    done(w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(w);
}

/* Rounds are for calls: when none waits any more, nobody is asked. */
static void nobody_is_asked_for_nobody(void **state)
{
    struct world *w = given(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 300);
    ask(w, &call);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    expect_round(w, &m1, &m2);
    break_link(w, m1);
    pass_ms(w, 300);
    done(w, &call, LH_ERR_UNAVAILABLE);
    break_link(w, m2);
    expect_quiet(w);
    assert_true(lh_client_deadline(w->client).ns == LH_INSTANT_NEVER.ns);

    call.deadline = in_ms(w, 300);
    ask(w, &call);
    pass(w);
    expect_round(w, &m1, &m2);
    step(w, (struct lh_input){.kind = LH_IN_STOP});
    done(w, &call, LH_ERR_CANCELLED);
    expect_close(w, m1);
    expect_close(w, m2);
    take(w, LH_FX_STOPPED);
    world_deinit(w);
}

static void expect_known(struct world *w, const char *const *addresses, size_t count)
{
    struct lh_known_masters_call call = {.call.kind = LH_CALL_KNOWN_MASTERS};

    ask(w, &call);
    expect_complete(w, &call, LH_OK);
    assert_int_equal(call.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(call.addresses[i], addresses[i]);
        free(call.addresses[i]);
    }
    expect_quiet(w);
}

/* Those that were configured, and those that an active master has named. */
static void the_known_masters_are_listed_at_once(void **state)
{
    struct world *w = given(1);
    const char *const known[] = {"m1:1", "m7:1"};
    char *list[] = {"m1:1", "m7:1"};
    Leasehold__LocateRequest locate = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__LocateReply located = LEASEHOLD__LOCATE_REPLY__INIT;

    (void)state;
    expect_known(w, known, 1);
    struct lh_master_call call = call_of(w, LH_METHOD_LOCATE, &locate.base, 10000);
    ask(w, &call);
    located.masters = list;
    located.n_masters = 2;
    say(w, expect_request(w, LH_METHOD_LOCATE, "m1:1", NULL), &located);
    done(w, &call, LH_OK);
    expect_known(w, known, 2);
    world_deinit(w);
}

/* ---- One cluster (SES-10). */

static struct world *given_of_no_cluster(size_t masters)
{
    static struct world w;

    world_init_with(
        &w, (struct lh_client_config){.masters = ab, .master_count = masters, .cluster = ""});
    return &w;
}

static void say_acts_in(struct world *w, uint64_t link, const char *cluster, uint64_t reign)
{
    Leasehold__MastersReply m = LEASEHOLD__MASTERS_REPLY__INIT;
    Leasehold__MasterInfo other = LEASEHOLD__MASTER_INFO__INIT, *list[] = {&other};

    m.cluster_id = (char *)(uintptr_t)cluster;
    m.reign = reign;
    m.acting = true;
    other.address = "m3:1";
    m.masters = list;
    m.n_masters = 1;
    say(w, link, &m);
}

static void a_client_that_hears_two_clusters_asks_neither(void **state)
{
    struct world *w = given_of_no_cluster(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 1000);
    ask(w, &call);
    while (w->taken == w->count || w->events[w->taken].kind != LH_FX_COMPLETE) {
        if (w->taken == w->count) {
            pass(w);
            continue;
        }
        expect_round(w, &m1, &m2);
        say_acts_in(w, m1, "one", 9);
        say_acts_in(w, m2, "two", 3);
        if (w->taken < w->count && w->events[w->taken].kind == LH_FX_OPEN) {
            assert_int_equal(w->events[w->taken].method, LH_METHOD_MASTERS); /* m3 of a list */
            break_link(w, expect_request(w, LH_METHOD_MASTERS, "m3:1", NULL));
        }
    }
    assert_non_null(strstr(call.call.text, "m1:1 is of cluster one"));
    assert_non_null(strstr(call.call.text, "m2:1 of cluster two"));
    done(w, &call, LH_ERR_DEADLINE_EXCEEDED);
    world_deinit(w);
}

static void the_first_cluster_is_kept(void **state)
{
    struct world *w = given_of_no_cluster(2);
    Leasehold__StatRequest request = stat_request();
    uint64_t m1, m2;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    expect_round(w, &m1, &m2);
    say_acts_in(w, m1, "one", 3);
    break_link(w, m2);
    break_link(w, expect_request(w, LH_METHOD_MASTERS, "m3:1", NULL));
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    /* when: it is gone, and the other one, with a misspelt prefix, acts in another cluster */
    pass(w);
    expect_round(w, &m1, &m2);
    uint64_t m3 = expect_request(w, LH_METHOD_MASTERS, "m3:1", NULL);
    say_acts_in(w, m2, "two", 9);
    break_link(w, m1);
    expect_quiet(w);
    say_acts_in(w, m3, "one", 4);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m3:1", NULL));
    done(w, &call, LH_OK);
    world_deinit(w);
}

/* The master that answers there when it asks again may be another one's. */
static void calls_name_the_cluster_of_who_asks(void **state)
{
    struct world *w = given_of_no_cluster(1);
    Leasehold__StatRequest request = stat_request();
    const Leasehold__StatRequest *sent;

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call next = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    uint64_t link = expect_request(w, LH_METHOD_STAT, "m1:1", &sent);
    assert_true(sent->cluster == 0); /* not known yet */
    say_stat(w, link);
    uint64_t m1 = expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL);
    done(w, &call, LH_OK);
    say_acts_in(w, m1, "one", 3);
    ask(w, &next);
    link = expect_request(w, LH_METHOD_STAT, "m1:1", &sent);
    assert_true(sent->cluster == lh_cluster_hash("one"));
    assert_true(request.cluster == 0);
    /* when: it is another cluster's by now */
    end_link(w, link, LH_ERR_NOT_ACTIVE, "it is of cluster two, and not of the caller's");
    m1 = expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL);
    uint64_t m3 = expect_request(w, LH_METHOD_MASTERS, "m3:1", NULL);
    say_acts_in(w, m1, "two", 9);
    say_acts_in(w, m3, "one", 4);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m3:1", NULL));
    done(w, &next, LH_OK);
    world_deinit(w);
}

/* One question to one server (leasehold fsck). What comes back is for the caller to judge. */
static void a_question_to_a_server_names_the_cluster(void **state)
{
    struct world w;
    Leasehold__ReadRequest request = LEASEHOLD__READ_REQUEST__INIT;
    const Leasehold__ReadRequest *sent;

    (void)state;
    world_init(&w);
    struct lh_server_call call = {
        .call.kind = LH_CALL_SERVER,
        .method = LH_METHOD_READ,
        .address = "s1:1",
        .request = &request.base,
        .deadline = in_ms(&w, 1000),
    };
    request.chunk = 5;
    ask(&w, &call);
    uint64_t link = expect_request(&w, LH_METHOD_READ, "s1:1", &sent);
    assert_true(sent->chunk == 5 && sent->cluster == lh_cluster_hash("cluster"));
    assert_true(request.cluster == 0);
    end_link(&w, link, LH_ERR_UNAVAILABLE, "it is of cluster two, and not of the caller's");
    expect_complete(&w, &call, LH_ERR_UNAVAILABLE);
    world_deinit(&w);
}

/* It needs to know them when that one dies. */
static void with_its_first_answer_it_learns_the_other_masters(void **state)
{
    struct world *w = given_of_no_cluster(1);
    Leasehold__StatRequest request = stat_request();

    (void)state;
    struct lh_master_call call = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    struct lh_master_call next = call_of(w, LH_METHOD_STAT, &request.base, 10000);
    ask(w, &call);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    uint64_t m1 = expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL);
    done(w, &call, LH_OK);
    say_acts_in(w, m1, "one", 3);
    expect_quiet(w);
    ask(w, &next);
    break_link(w, expect_request(w, LH_METHOD_STAT, "m1:1", NULL));
    break_link(w, expect_request(w, LH_METHOD_MASTERS, "m1:1", NULL));
    say_acts_in(w, expect_request(w, LH_METHOD_MASTERS, "m3:1", NULL), "one", 4);
    say_stat(w, expect_request(w, LH_METHOD_STAT, "m3:1", NULL));
    done(w, &next, LH_OK);
    expect_quiet(w);
    world_deinit(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_hears_two_clusters_asks_neither),
        cmocka_unit_test(the_first_cluster_is_kept),
        cmocka_unit_test(calls_name_the_cluster_of_who_asks),
        cmocka_unit_test(a_question_to_a_server_names_the_cluster),
        cmocka_unit_test(with_its_first_answer_it_learns_the_other_masters),
        cmocka_unit_test(a_single_master_is_tried_again),
        cmocka_unit_test(a_single_master_that_is_not_active_leads_to_the_active_one),
        cmocka_unit_test(a_call_to_nobody_active_ends_at_its_deadline),
        cmocka_unit_test(not_active_is_answered_by_the_one_that_is),
        cmocka_unit_test(when_the_active_one_dies_the_next_is_found),
        cmocka_unit_test(a_master_that_cannot_now_is_asked_again),
        cmocka_unit_test(a_frozen_master_is_left),
        cmocka_unit_test(a_slow_master_that_acts_is_not_left),
        cmocka_unit_test(a_call_stays_while_another_one_finds_the_same_master),
        cmocka_unit_test(an_old_master_with_a_lower_reign_is_not_believed),
        cmocka_unit_test(a_change_is_repeated_with_its_id_until_it_is_answered),
        cmocka_unit_test(calls_that_change_something_have_ids),
        cmocka_unit_test(a_change_is_not_repeated_for_longer_than_masters_remember_it),
        cmocka_unit_test(a_deadline_is_one_whoever_notices_it_first),
        cmocka_unit_test(a_master_that_waits_answers_in_time_at_each_try),
        cmocka_unit_test(the_master_that_is_asked_is_named_before_what_was_wrong),
        cmocka_unit_test(a_change_that_ends_unknown_says_so),
        cmocka_unit_test(a_change_that_was_refused_by_standbys_alone_was_not_carried_out),
        cmocka_unit_test(a_learned_list_survives_the_first_masters_death),
        cmocka_unit_test(the_tails_answer_teaches_the_list_too),
        cmocka_unit_test(a_call_of_one_who_may_not_ask_who_acts_ends_as_refused),
        cmocka_unit_test(a_deadline_tells_why_nothing_was_reached),
        cmocka_unit_test(nobody_is_asked_for_nobody),
        cmocka_unit_test(the_known_masters_are_listed_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
