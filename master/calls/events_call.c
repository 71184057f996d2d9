/* What lately became of the leases of a chunk, or of the locks and the value of a name. */
#include "master/calls/calls.h"

#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

static uint64_t ms_since(const struct lh_master *m, struct lh_instant then)
{
    return lh_duration_ms(lh_instant_until(then, m->now));
}

/* A reply's items and what they point to. */
struct page {
    Leasehold__LeaseEvent *items, **pointers;
    size_t count, bytes;
    uint32_t limit;
    bool full; /* whatever the limit is */
};

/* Renewals of the lease that runs, which are no event before it ends. */
static void add_renewals(const struct lh_master *m, uint64_t chunk, struct page *page)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);
    const struct lh_m_grant *g = c == NULL ? NULL : c->active->grant;

    if (g == NULL || lh_m_holder(c) == NULL || g->extensions == 0)
        return;
    Leasehold__LeaseEvent *e = &page->items[page->count++];
    leasehold__lease_event__init(e);
    e->kind = LEASEHOLD__LEASE_EVENT_KIND__LEASE_RENEWED;
    e->ago_ms = ms_since(m, g->extended_at);
    e->holder = lh_m_holder(c)->id;
    e->version = g->lease.version;
    e->left_ms =
        lh_duration_ms(lh_instant_until(g->extended_at, lh_lease_free_at(&m->leases, &g->lease)));
    e->count = g->extensions;
}

static bool is_same_session(const Leasehold__LeaseEvent *e, const struct lh_m_event *event)
{
    return event->of_session && e->session.data != NULL &&
           memcmp(e->session.data, event->session, sizeof event->session) == 0;
}

static bool is_of(
    const Leasehold__LeaseEvent *e, Leasehold__LeaseEventKind kind, const struct lh_m_event *event)
{
    return e->kind == kind && is_same_session(e, event);
}

/* A session that takes a lock that it released last: all of that is one grant, the last one, and
 * how many there were before it is counted. True: `event` is the grant of such a round, whose
 * release is the last one that was added. */
static bool add_round(struct page *page, const struct lh_m_event *event)
{
    if (event->kind != LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED || page->count < 2)
        return false;
    Leasehold__LeaseEvent *later = &page->items[page->count - 2], *released = later + 1;
    if (!is_of(released, LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED, event) ||
        !is_of(later, LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED, event))
        return false;
    page->bytes -= lh_m_page_cost(&released->base);
    page->count--;
    later->count++;
    return true;
}

static void add(const struct lh_master *m, const struct lh_m_event *event, struct page *page)
{
    const Leasehold__LeaseEvent *last = page->count == 0 ? NULL : &page->items[page->count - 1];

    if (add_round(page, event))
        return;
    Leasehold__LeaseEvent *e = &page->items[page->count++];
    leasehold__lease_event__init(e);
    e->kind = (Leasehold__LeaseEventKind)event->kind;
    e->ago_ms = ms_since(m, event->at);
    e->holder = last != NULL && is_same_session(last, event)
                    ? last->holder
                    : (char *)(uintptr_t)lh_m_event_holder(m, event);
    e->version = event->version;
    e->left_ms = event->left_ms;
    e->count = event->count;
    if (event->of_session)
        e->session = (ProtobufCBinaryData){
            .data = (uint8_t *)(uintptr_t)event->session, .len = sizeof event->session};
    if (event->why != NULL)
        e->why = (char *)(uintptr_t)event->why;
    page->full = !lh_m_page_takes(m, &page->bytes, &e->base);
    page->count -= page->full;
}

/* All that a ring has is walked: under a millisecond (bench/events_bench.c). */
static void fill(struct lh_master *m, const Leasehold__ListEventsRequest *request,
    struct page *page, Leasehold__ListEventsReply *reply)
{
    uint64_t subject = request->chunk != 0 ? lh_m_event_of_chunk(request->chunk)
                                           : lh_m_event_of_name(m, request->name);
    const struct lh_m_event *e;
    struct lh_m_event_cursor cursor = {0};

    page->items = lh_alloc_array((size_t)page->limit + 1, sizeof *page->items);
    if (request->chunk != 0)
        add_renewals(m, request->chunk, page);
    while ((e = lh_m_event_next(m, subject, &cursor)) != NULL && page->count < page->limit) {
        add(m, e, page);
        if (page->full)
            break;
    }
    page->pointers = lh_alloc_array(page->count + 1, sizeof *page->pointers);
    for (size_t i = 0; i < page->count; i++)
        page->pointers[i] = &page->items[i];
    reply->events = page->pointers;
    reply->n_events = page->count;
    reply->more = e != NULL || lh_m_events_forgotten(m, subject);
    reply->since_ms = ms_since(m, m->started_at);
    reply->unnoted = m->locks.unnoted;
}

void lh_m_list_events(
    struct lh_master *m, uint64_t link, const Leasehold__ListEventsRequest *request)
{
    Leasehold__ListEventsReply reply = LEASEHOLD__LIST_EVENTS_REPLY__INIT;
    struct page page = {
        .limit = lh_m_page_size(request->limit, m->config.events_listed, m->config.events_listed)};

    if (request->chunk != 0 && lh_m_chunk_find(m, request->chunk) == NULL) {
        /* Its events may be there; but no path says any more who may see them (ACC-3). */
        reply.error = lh_m_wire_error(LH_ERR_NOT_FOUND);
        reply.error_text = "there is no such chunk, or no more";
    } else {
        fill(m, request, &page, &reply);
    }
    /* Not held up by commits under way: this is what one looks at when the disk hangs. */
    lh_m_reply(m, link, 1, &reply.base);
    free(page.pointers);
    free(page.items);
}
