/* Calls with an id, and when they are forgotten (HA-12).
 *
 * A repeat must not come when its call is forgotten. Clients repeat for half of `call_keep`. What
 * they sent may wait here unread while this process stands still, and a timer that fires then comes
 * before it. So a call goes when it was old enough already the last time that the timer fired: what
 * waited has been read since.
 *
 * Where there are more of them than fit, the oldest goes before its time, and a mark says so: one
 * number for each client, as clients count their calls. It is kept for as long as an answer. */
#include "master/tables/call.h"

#include "master/tables/tables.h"

static int compare_ids(const struct lh_m_call *a, const struct lh_m_call *b)
{
    if (a->client != b->client)
        return a->client < b->client ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(lh_m_call_tree, lh_m_call, place, compare_ids)

struct lh_m_call *lh_m_call_find(const struct lh_master *m, uint64_t client, uint64_t number)
{
    struct lh_m_call wanted = {.client = client, .number = number};

    return RB_FIND(lh_m_call_tree, (struct lh_m_call_tree *)(uintptr_t)&m->calls.tree, &wanted);
}

static struct lh_m_call_list *list_of(struct lh_master *m, const struct lh_m_call *call)
{
    return lh_m_call_is_mark(call) ? &m->calls.marks : &m->calls.by_order;
}

static struct lh_m_call *add(struct lh_master *m, uint64_t client, uint64_t number, uint64_t order,
    uint32_t request, const uint8_t *reply, size_t reply_size)
{
    struct lh_m_call *call = lh_alloc(offsetof(struct lh_m_call, reply) + reply_size);

    call->client = client;
    call->number = number;
    call->order = order;
    call->request = request;
    call->reply_size = (uint32_t)reply_size;
    if (reply_size > 0)
        memcpy(call->reply, reply, reply_size);
    RB_INSERT(lh_m_call_tree, &m->calls.tree, call);
    TAILQ_INSERT_TAIL(list_of(m, call), call, link);
    *(lh_m_call_is_mark(call) ? &m->calls.mark_count : &m->calls.count) += 1;
    return call;
}

/* Of a step in which few have been kept. */
static void leave_dirty(struct lh_m_calls *calls, const struct lh_m_call *call)
{
    size_t at = 0;

    while (calls->dirty[at] != call)
        at++;
    calls->dirty_count--;
    memmove(&calls->dirty[at], &calls->dirty[at + 1],
        (calls->dirty_count - at) * sizeof(struct lh_m_call *));
}

static void take_out(struct lh_master *m, struct lh_m_call *call)
{
    if (call->dirty)
        leave_dirty(&m->calls, call);
    RB_REMOVE(lh_m_call_tree, &m->calls.tree, call);
    TAILQ_REMOVE(list_of(m, call), call, link);
    *(lh_m_call_is_mark(call) ? &m->calls.mark_count : &m->calls.count) -= 1;
}

void lh_m_call_load(
    struct lh_master *m, uint64_t client, uint64_t number, const LeaseholdStored__Call *record)
{
    lh_m_call_forget(m, client, number);
    struct lh_m_call *call = add(
        m, client, number, record->order, record->request, record->reply.data, record->reply.len);
    if (lh_m_call_is_mark(call))
        call->forgotten = record->forgotten;
}

void lh_m_call_forget(struct lh_master *m, uint64_t client, uint64_t number)
{
    struct lh_m_call *call = lh_m_call_find(m, client, number);

    if (call == NULL)
        return;
    take_out(m, call);
    lh_m_pair_drop(m, &call->pair);
    free(call);
}

/* ---- How long. */

static struct lh_duration interval(const struct lh_master *m)
{
    return lh_nanoseconds(m->config.call_keep.ns / 8 + 1);
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_instant next = lh_instant_add(m->calls.looked, interval(m));

    if (lh_instant_reached(m->now, next)) {
        m->calls.due = m->calls.looked;
        m->calls.looked = m->now;
        next = lh_instant_add(m->now, interval(m));
    }
    if (m->calls.count + m->calls.mark_count > 0)
        lh_timer_set(&m->timers, timer, next);
}

static bool is_due(const struct lh_master *m, const struct lh_m_call *call)
{
    return lh_instant_reached(m->calls.due, lh_instant_add(call->since, m->config.call_keep));
}

/* Can it be told of this client that an answer went before its time? */
static bool may_mark(const struct lh_master *m, uint64_t client)
{
    return m->calls.mark_count < m->config.call_marks_max || lh_m_call_find(m, client, 0) != NULL;
}

static bool may_go(const struct lh_master *m, const struct lh_m_call *call)
{
    return call != NULL && call->ticket != m->commit.next_ticket &&
           (is_due(m, call) || (m->calls.count > m->config.calls_max && may_mark(m, call->client)));
}

static bool mark_may_go(const struct lh_master *m, const struct lh_m_call *mark)
{
    return mark != NULL && mark->ticket != m->commit.next_ticket && is_due(m, mark);
}

bool lh_m_calls_full(const struct lh_master *m)
{
    const struct lh_m_call *oldest = TAILQ_FIRST(&m->calls.by_order);

    return oldest != NULL && m->calls.count >= m->config.calls_max && !is_due(m, oldest) &&
           !may_mark(m, oldest->client);
}

bool lh_m_call_maybe_forgotten(const struct lh_master *m, uint64_t client, uint64_t number)
{
    const struct lh_m_call *mark = lh_m_call_find(m, client, 0);

    return mark != NULL && number <= mark->forgotten;
}

static void write_down(struct lh_master *m, struct lh_m_call *call)
{
    struct lh_m_calls *calls = &m->calls;

    call->ticket = m->commit.next_ticket;
    if (call->dirty)
        return;
    LH_GROW(calls->dirty, calls->dirty_capacity, calls->dirty_count + 1);
    calls->dirty[calls->dirty_count++] = call;
    call->dirty = true;
}

/* The call's answer goes before its time. */
static void mark(struct lh_master *m, const struct lh_m_call *call)
{
    struct lh_m_call *of = lh_m_call_find(m, call->client, 0);

    LH_MARK("call-forgotten-early");
    if (of == NULL)
        of = add(m, call->client, 0, 0, 0, NULL, 0);
    TAILQ_REMOVE(&m->calls.marks, of, link);
    TAILQ_INSERT_TAIL(&m->calls.marks, of, link);
    if (of->forgotten < call->number)
        of->forgotten = call->number;
    of->since = m->now;
    write_down(m, of);
}

static void drop(struct lh_master *m, struct lh_m_call *call)
{
    take_out(m, call);
    TAILQ_INSERT_TAIL(&m->calls.dropped, call, link);
}

void lh_m_calls_step(struct lh_master *m)
{
    struct lh_m_call *call;
    uint32_t most = m->config.calls_dropped < m->config.step_work ? m->config.calls_dropped
                                                                  : m->config.step_work;

    if (m->starved || m->stopping)
        return; /* no commit that can wait */
    while (may_go(m, call = TAILQ_FIRST(&m->calls.by_order)) && most > 0) {
        LH_MARK("call-forgotten");
        if (!is_due(m, call))
            mark(m, call);
        drop(m, call);
        most--;
    }
    while (mark_may_go(m, TAILQ_FIRST(&m->calls.marks)) && most > 0) {
        drop(m, TAILQ_FIRST(&m->calls.marks));
        most--;
    }
    if (most == 0 && (may_go(m, call) || mark_may_go(m, TAILQ_FIRST(&m->calls.marks))))
        lh_timer_set(&m->timers, &m->calls.timer, lh_instant_add(m->now, m->config.call_rest));
}

/* ---- Keeping. */

/* The message in the field of that name; NULL: none. */
static const ProtobufCMessage *within(const ProtobufCMessage *message, const char *name, size_t *at)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    const ProtobufCMessage *inner = NULL;

    if (field == NULL)
        return NULL;
    *at = field->offset;
    memcpy(&inner, (const char *)message + field->offset, sizeof inner);
    return inner;
}

/* The answer as it is kept: without its text, and without a path that the request names. */
static struct lh_m_call *packed(struct lh_master *m, const ProtobufCMessage *reply)
{
    const ProtobufCMessageDescriptor *type = reply->descriptor;
    ProtobufCMessage *bare = lh_alloc(type->sizeof_message);
    const char *nothing = protobuf_c_empty_string, *path = m->calls.taken.path;
    Leasehold__FileInfo info;
    size_t at = 0;

    memcpy(bare, reply, type->sizeof_message);
    memcpy(
        (char *)bare + protobuf_c_message_descriptor_get_field_by_name(type, "error_text")->offset,
        &nothing, sizeof nothing);
    const ProtobufCMessage *file = within(reply, "info", &at);
    if (file != NULL && file->descriptor == &leasehold__file_info__descriptor) {
        const ProtobufCMessage *changed = &info.base;
        memcpy(&info, file, sizeof info);
        if (path != NULL && strcmp(info.path, path) == 0)
            info.path = (char *)(uintptr_t)nothing;
        memcpy((char *)bare + at, &changed, sizeof changed);
    }
    size_t size = protobuf_c_message_get_packed_size(bare);
    uint8_t *bytes = lh_alloc(size);
    protobuf_c_message_pack(bare, bytes);
    struct lh_m_call *call = add(m, m->calls.taken.client, m->calls.taken.number,
        m->calls.next_order++, m->calls.taken.request, bytes, size);
    free(bytes);
    free(bare);
    return call;
}

void lh_m_call_keep(struct lh_master *m, const ProtobufCMessage *reply)
{
    struct lh_m_calls *calls = &m->calls;

    /* Only a master that does not look at ids carries it out again. */
    lh_m_call_forget(m, calls->taken.client, calls->taken.number);
    struct lh_m_call *call = packed(m, reply);
    call->since = m->now;
    if (!LH_PLANTED("call-result-not-stored"))
        write_down(m, call);
    if (!lh_timer_is_set(&calls->timer))
        lh_timer_set(&m->timers, &calls->timer, lh_instant_add(m->now, interval(m)));
}

/* ---- Life. */

static int compare_order(const void *a, const void *b)
{
    const struct lh_m_call *const *left = a, *const *right = b;

    if ((*left)->order != (*right)->order)
        return (*left)->order < (*right)->order ? -1 : 1;
    return compare_ids(*left, *right);
}

void lh_m_calls_start(struct lh_master *m)
{
    struct lh_m_calls *calls = &m->calls;
    struct lh_m_call **sorted = lh_alloc_array(calls->count + 1, sizeof *sorted), *call;
    size_t count = 0;

    TAILQ_FOREACH(call, &calls->by_order, link)
        sorted[count++] = call;
    qsort(sorted, count, sizeof *sorted, compare_order);
    TAILQ_INIT(&calls->by_order);
    for (size_t i = 0; i < count; i++) {
        sorted[i]->since = m->now;
        TAILQ_INSERT_TAIL(&calls->by_order, sorted[i], link);
    }
    /* All marks begin now. So their order does not depend on how this master came to know them. */
    TAILQ_INIT(&calls->marks);
    RB_FOREACH(call, lh_m_call_tree, &calls->tree) {
        if (!lh_m_call_is_mark(call))
            continue;
        call->since = m->now;
        TAILQ_INSERT_TAIL(&calls->marks, call, link);
    }
    calls->next_order = count == 0 ? 1 : sorted[count - 1]->order + 1;
    free(sorted);
    calls->looked = calls->due = m->now;
    if (count + calls->mark_count > 0)
        lh_timer_set(&m->timers, &calls->timer, lh_instant_add(m->now, interval(m)));
}

void lh_m_calls_init(struct lh_master *m)
{
    RB_INIT(&m->calls.tree);
    TAILQ_INIT(&m->calls.by_order);
    TAILQ_INIT(&m->calls.marks);
    TAILQ_INIT(&m->calls.dropped);
    m->calls.timer.fire = look;
}

void lh_m_calls_deinit(struct lh_master *m)
{
    struct lh_m_call *call;

    while ((call = RB_MIN(lh_m_call_tree, &m->calls.tree)) != NULL) {
        take_out(m, call);
        free(call);
    }
    free(m->calls.dirty);
}
