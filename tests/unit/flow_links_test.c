/* What comes on a link goes to its user (flow/links.h). The test is the core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "flow/links.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct lh_links links;
    struct lh_effects fx;
    char said[256]; /* what users were called with, in order */
};

struct owner {
    struct lh_link link;
    const char *name;
    bool frees, closes, opens;
};

static const struct lh_link_user all, streams;

static void begin(struct world *w)
{
    *w = (struct world){.links = {.last = 0}};
}

static void over(struct world *w)
{
    lh_links_check(&w->links);
    lh_effects_deinit(&w->fx);
}

static void say(struct world *w, const struct owner *o, const char *what)
{
    size_t end = strlen(w->said);

    snprintf(w->said + end, sizeof w->said - end, "%s%s %s", end == 0 ? "" : ", ", o->name, what);
}

static void expect_said(struct world *w, const char *said)
{
    assert_string_equal(w->said, said);
    w->said[0] = '\0';
    lh_links_check(&w->links);
}

static struct owner *one(const char *name, const struct lh_link_user *user)
{
    struct owner *o = lh_alloc(sizeof *o);

    o->name = name;
    o->link.user = user;
    return o;
}

static struct owner *opened(struct world *w, const char *name, enum lh_method method)
{
    struct owner *o = one(name, &all);

    lh_link_open(&w->links, &w->fx, &o->link, method, "a:1", LH_DURATION_FOREVER);
    return o;
}

static void act(struct world *w, struct owner *o)
{
    if (o->opens) {
        struct owner *other = opened(w, "other", LH_METHOD_APPEND);
        lh_link_close(&w->links, &w->fx, &other->link, LH_OK, NULL);
        free(other);
    }
    if (o->closes || o->frees)
        lh_link_close(&w->links, &w->fx, &o->link, LH_ERR_CANCELLED, NULL);
    if (o->frees)
        free(o);
}

static void message(void *core, struct lh_link *link, const void *m, struct lh_buf *payload)
{
    struct owner *o = LH_OWNER(link, struct owner, link);

    (void)m;
    (void)payload;
    say(core, o, link->id == 0 ? "message, over" : "message");
    act(core, o);
}

static void progress(void *core, struct lh_link *link)
{
    say(core, LH_OWNER(link, struct owner, link), "progress");
    act(core, LH_OWNER(link, struct owner, link));
}

static void sent(void *core, struct lh_link *link)
{
    say(core, LH_OWNER(link, struct owner, link), "sent");
    act(core, LH_OWNER(link, struct owner, link));
}

static void half_closed(void *core, struct lh_link *link)
{
    say(core, LH_OWNER(link, struct owner, link), "half closed");
    act(core, LH_OWNER(link, struct owner, link));
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    char what[64];

    assert_int_equal(link->id, 0);
    snprintf(what, sizeof what, "closed %d %s", error, text);
    say(core, LH_OWNER(link, struct owner, link), what);
    act(core, LH_OWNER(link, struct owner, link));
}

static const struct lh_link_user all = {.message = message,
    .progress = progress,
    .sent = sent,
    .half_closed = half_closed,
    .closed = closed};
static const struct lh_link_user streams = {.message = message};

static void come_on(struct world *w, uint64_t link, enum lh_method method, enum lh_input_kind kind)
{
    struct lh_input in = {.kind = kind, .link = link, .method = method, .error = -1, .text = "why"};

    lh_links_take(&w->links, w, &in);
}

static void come(struct world *w, uint64_t link, enum lh_input_kind kind)
{
    come_on(w, link, LH_METHOD_APPEND, kind);
}

/* ---- Stories. */

static void what_comes_goes_to_its_owner(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    struct owner *a = opened(&w, "a", LH_METHOD_APPEND), *b = opened(&w, "b", LH_METHOD_APPEND);
    uint64_t of_a = a->link.id, of_b = b->link.id;
    come(&w, of_b, LH_IN_PROGRESS);
    come(&w, of_b, LH_IN_MESSAGE);
    come(&w, of_a, LH_IN_SENT);
    come(&w, of_a, LH_IN_HALF_CLOSED);
    come(&w, of_b, LH_IN_LINK_CLOSED);
    expect_said(&w, "b progress, b message, a sent, a half closed, b closed -1 why");
    come(&w, of_b, LH_IN_MESSAGE);
    come(&w, of_a + 100, LH_IN_MESSAGE);
    come(&w, of_a, LH_IN_TIMER);
    expect_said(&w, "");
    lh_link_close(&w.links, &w.fx, &a->link, LH_OK, NULL);
    free(a);
    free(b);
    over(&w);
}

static void ids_count_up_and_are_never_used_again(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    struct owner *a = opened(&w, "a", LH_METHOD_APPEND);
    assert_int_equal(a->link.id, 1);
    lh_link_close(&w.links, &w.fx, &a->link, LH_ERR_CANCELLED, "enough");
    assert_int_equal(a->link.id, 0);
    lh_link_close(&w.links, &w.fx, &a->link, LH_ERR_CANCELLED, "enough");
    lh_link_open(&w.links, &w.fx, &a->link, LH_METHOD_READ, "b:1", LH_DURATION_FOREVER);
    assert_int_equal(a->link.id, 2);
    assert_int_equal(w.fx.count, 3);
    assert_int_equal(w.fx.items[0].kind, LH_FX_OPEN);
    assert_int_equal(w.fx.items[1].kind, LH_FX_CLOSE);
    assert_int_equal(w.fx.items[1].link, 1);
    assert_string_equal(w.fx.items[1].text, "enough");
    assert_int_equal(w.fx.items[2].method, LH_METHOD_READ);
    assert_string_equal(w.fx.items[2].text, "b:1");
    lh_link_forget(&w.links, &a->link);
    free(a);
    over(&w);
}

static void a_link_that_a_peer_opened_keeps_its_id(void **state)
{
    struct owner *o = one("o", &streams);
    uint64_t id = LH_LINK_SERVED | 7;
    struct world w;

    (void)state;
    begin(&w);
    w.links.answer_ends = true;
    lh_link_serve(&w.links, &o->link, id);
    assert_ptr_equal(lh_link_find(&w.links, id), &o->link);
    come_on(&w, id, LH_METHOD_STAT, LH_IN_MESSAGE); /* a request ends nothing */
    come(&w, id, LH_IN_PROGRESS);
    come(&w, id, LH_IN_SENT);
    come(&w, id, LH_IN_HALF_CLOSED);
    expect_said(&w, "o message");
    come(&w, id, LH_IN_LINK_CLOSED);
    expect_said(&w, "");
    assert_null(lh_link_find(&w.links, id));
    assert_int_equal(w.fx.count, 0);
    free(o);
    over(&w);
}

static void an_answer_ends_a_unary_call_where_that_is_so(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    w.links.answer_ends = true;
    struct owner *call = opened(&w, "call", LH_METHOD_STAT);
    struct owner *stream = opened(&w, "stream", LH_METHOD_APPEND);
    uint64_t of_call = call->link.id;
    come_on(&w, of_call, LH_METHOD_STAT, LH_IN_MESSAGE);
    come(&w, of_call, LH_IN_LINK_CLOSED);
    come(&w, stream->link.id, LH_IN_MESSAGE);
    expect_said(&w, "call message, over, stream message");
    w.links.answer_ends = false;
    lh_link_open(&w.links, &w.fx, &call->link, LH_METHOD_STAT, "a:1", LH_DURATION_FOREVER);
    come_on(&w, call->link.id, LH_METHOD_STAT, LH_IN_MESSAGE);
    expect_said(&w, "call message");
    lh_link_close(&w.links, &w.fx, &call->link, LH_OK, NULL);
    lh_link_close(&w.links, &w.fx, &stream->link, LH_OK, NULL);
    free(call);
    free(stream);
    over(&w);
}

static void a_user_may_free_close_and_open(void **state)
{
    struct world w;

    (void)state;
    for (int kind = LH_IN_MESSAGE; kind <= LH_IN_LINK_CLOSED; kind++)
        for (int does = 1; does < 8; does++) {
            begin(&w);
            struct owner *o = opened(&w, "o", LH_METHOD_APPEND);
            uint64_t id = o->link.id;
            o->closes = does & 1;
            o->frees = does & 2;
            o->opens = does & 4;
            come(&w, id, (enum lh_input_kind)kind);
            lh_links_check(&w.links);
            if ((does & 2) == 0) {
                assert_true((lh_link_find(&w.links, id) != NULL) ==
                            ((does & 1) == 0 && kind != LH_IN_LINK_CLOSED));
                lh_link_close(&w.links, &w.fx, &o->link, LH_OK, NULL);
                free(o);
            }
            assert_null(w.links.by_id);
            over(&w);
        }
}

static void thousands_are_found_in_the_order_in_which_they_began(void **state)
{
    static struct owner owners[5000];
    struct world w;
    struct lh_link *l, *next;
    size_t i = 0;

    (void)state;
    begin(&w);
    for (size_t k = 0; k < 5000; k++) {
        owners[k] = (struct owner){.name = "", .link = {.user = k % 5 == 0 ? &streams : &all}};
        if (k % 2 == 0)
            lh_link_open(
                &w.links, &w.fx, &owners[k].link, LH_METHOD_APPEND, "a:1", LH_DURATION_FOREVER);
        else
            lh_link_serve(&w.links, &owners[k].link, LH_LINK_SERVED | k);
    }
    lh_links_check(&w.links);
    for (l = w.links.by_id; l != NULL; l = l->hh.next, i++)
        assert_ptr_equal(l, &owners[i].link);
    assert_int_equal(i, 5000);
    LH_LINKS_FOREACH(&w.links, &streams, l, next) {
        i -= 5;
        lh_link_forget(&w.links, l);
    }
    assert_int_equal(i, 0);
    for (size_t k = 0; k < 5000; k++)
        lh_link_forget(&w.links, &owners[k * 7 % 5000].link);
    assert_null(w.links.by_id);
    over(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_goes_to_its_owner),
        cmocka_unit_test(ids_count_up_and_are_never_used_again),
        cmocka_unit_test(a_link_that_a_peer_opened_keeps_its_id),
        cmocka_unit_test(an_answer_ends_a_unary_call_where_that_is_so),
        cmocka_unit_test(a_user_may_free_close_and_open),
        cmocka_unit_test(thousands_are_found_in_the_order_in_which_they_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
