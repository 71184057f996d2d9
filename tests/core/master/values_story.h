/* Values, for stories on a master_world: changes, reads, watchers. */
#pragma once

#include "tests/core/master/master_story.h"

static inline ProtobufCBinaryData text_bytes(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

/* A put; `value` NULL: a deletion. */
static inline Leasehold__ChangeRequest change_to(const char *name, const char *value)
{
    Leasehold__ChangeRequest r = LEASEHOLD__CHANGE_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    r.remove = value == NULL;
    if (value != NULL)
        r.value = text_bytes(value);
    return r;
}

static inline uint64_t begin_change(const Leasehold__ChangeRequest *r)
{
    return world_call(&w, LH_METHOD_CHANGE, r);
}

static inline const Leasehold__ChangeReply *change_reply(uint64_t link)
{
    return world_reply(&w, link);
}

/* The change is through; its revision. */
static inline uint64_t changed(uint64_t link)
{
    const Leasehold__ChangeReply *reply = change_reply(link);

    assert_non_null(reply);
    if (reply->error != LEASEHOLD__ERROR_CODE__OK)
        print_message("%s\n", reply->error_text);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    return reply->revision;
}

static inline uint64_t put_value(const char *name, const char *value)
{
    Leasehold__ChangeRequest r = change_to(name, value);

    return changed(begin_change(&r));
}

static inline void refused(uint64_t link, Leasehold__ErrorCode error)
{
    const Leasehold__ChangeReply *reply = change_reply(link);

    assert_non_null(reply);
    assert_int_equal(reply->error, error);
}

static inline const Leasehold__GetReply *get_value(const char *name)
{
    Leasehold__GetRequest r = LEASEHOLD__GET_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    return world_reply(&w, world_call(&w, LH_METHOD_GET, &r));
}

static inline bool is_text(const ProtobufCBinaryData *bytes, const char *text)
{
    return bytes->len == strlen(text) && memcmp(bytes->data, text, bytes->len) == 0;
}

/* `value` NULL: there is none. */
static inline void value_is(const char *name, const char *value)
{
    const Leasehold__GetReply *reply = get_value(name);

    assert_non_null(reply);
    assert_int_equal(reply->error == LEASEHOLD__ERROR_CODE__NOT_FOUND, value == NULL);
    if (value != NULL)
        assert_true(is_text(&reply->value->value, value));
}

static inline Leasehold__CallId call_id(uint64_t number, bool repeated)
{
    Leasehold__CallId id = LEASEHOLD__CALL_ID__INIT;

    id.client = 4711;
    id.number = number;
    id.repeated = repeated;
    return id;
}

/* ---- Watching. */

static inline uint64_t watch(const char *prefix, uint64_t from)
{
    Leasehold__WatchRequest r = LEASEHOLD__WATCH_REQUEST__INIT;
    uint64_t link = world_open_link(&w, LH_METHOD_WATCH);

    r.prefix = (char *)(uintptr_t)prefix;
    r.from = from;
    world_message(&w, link, &r);
    return link;
}

/* The next reply that was not taken yet; NULL: none. */
static inline const Leasehold__WatchReply *watched(uint64_t link)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *line = &w.lines[i];
        if (line->link != link || line->taken || line->message == NULL)
            continue;
        line->taken = true;
        return (const Leasehold__WatchReply *)line->message;
    }
    return NULL;
}

static inline void is_event(
    const Leasehold__WatchReply *r, size_t i, const char *name, const char *value)
{
    assert_true(r != NULL && i < r->n_events);
    assert_string_equal(r->events[i]->name, name);
    assert_int_equal(r->events[i]->removed, value == NULL);
    if (value != NULL)
        assert_true(is_text(&r->events[i]->value, value));
}

/* ---- Policies. */

static inline Leasehold__Policy policy_for(const char *prefix)
{
    Leasehold__Policy p = LEASEHOLD__POLICY__INIT;

    p.prefix = (char *)(uintptr_t)prefix;
    return p;
}

static inline Leasehold__ErrorCode set_policy(Leasehold__Policy *policy, bool remove)
{
    Leasehold__SetPolicyRequest r = LEASEHOLD__SET_POLICY_REQUEST__INIT;

    r.policy = policy;
    r.remove = remove;
    const Leasehold__SetPolicyReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_SET_POLICY, &r));
    return reply->error;
}
