#include "master/tables/events.h"

#include "master/tables/tables.h"

#include <stdlib.h>

#define OF_NAMES (UINT64_C(1) << 63)

static uint64_t mixed(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 32;
}

uint64_t lh_m_event_of_chunk(uint64_t chunk)
{
    return mixed(chunk) & ~OF_NAMES;
}

uint64_t lh_m_event_of_name(const char *name)
{
    size_t size = strlen(name);
    uint64_t digest = mixed(size + 1), word;

    for (; size >= sizeof word; size -= sizeof word, name += sizeof word) {
        memcpy(&word, name, sizeof word);
        digest = mixed(digest ^ word);
    }
    word = 0;
    memcpy(&word, name, size);
    return mixed(digest ^ word) | OF_NAMES;
}

static void make(struct lh_master *m)
{
    struct lh_m_events *e = &m->events;
    size_t most = m->config.events_max;

    e->row_size = most < LH_M_EVENT_ROW ? most : LH_M_EVENT_ROW;
    e->rows = most / e->row_size;
    e->items = lh_alloc_array(e->rows * e->row_size, sizeof *e->items);
    e->counts = lh_alloc_array(e->rows, sizeof *e->counts);
}

static struct lh_m_event *item(const struct lh_m_events *e, size_t row, uint64_t number)
{
    return &e->items[row * e->row_size + number % e->row_size];
}

static bool is_of(const struct lh_m_event *event, const struct lh_m_event *like, uint8_t kind)
{
    return event->kind == kind && event->subject == like->subject && event->of_session &&
           memcmp(event->session, like->session, sizeof event->session) == 0;
}

/* A session that takes a lock that it released last: the grant and the release before are one event
 * with this grant, and how many there were is counted. Returns how many. */
static uint32_t take_back_cycle(struct lh_m_events *e, size_t row, const struct lh_m_event *event)
{
    uint64_t count = e->counts[row];

    if (event->kind != LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED || !event->of_session ||
        count < 2 || e->row_size < 2)
        return 0;
    struct lh_m_event *released = item(e, row, count - 1), *granted = item(e, row, count - 2);
    if (!is_of(released, event, LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED) ||
        !is_of(granted, event, LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED))
        return 0;
    released->subject = 0; /* of none: its place is not the oldest event's again */
    e->counts[row] = count - 2;
    return granted->count + 1;
}

void lh_m_note(struct lh_master *m, const struct lh_m_event *event)
{
    struct lh_m_events *e = &m->events;

    if (e->items == NULL)
        make(m);
    size_t row = event->subject % e->rows;
    uint32_t cycles = take_back_cycle(e, row, event);
    struct lh_m_event *to = item(e, row, e->counts[row]++);
    *to = *event;
    to->count += cycles;
    if (to->at.ns == 0)
        to->at = m->now;
}

uint32_t lh_m_event_left(const struct lh_master *m, struct lh_instant end)
{
    uint64_t ms = lh_duration_ms(lh_instant_until(m->now, end));

    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* ---- Holders. */

static void copy_title(char *to, const char *title)
{
    size_t size = strnlen(title, LH_M_TITLE_BYTES);

    if (size == LH_M_TITLE_BYTES) {
        size--;
        while (size > 0 && ((uint8_t)title[size] & 0xc0) == 0x80)
            size--; /* in the middle of a character */
    }
    memcpy(to, title, size);
    to[size] = '\0';
}

void lh_m_note_over(struct lh_master *m, const struct lh_m_program *p)
{
    struct lh_m_events *e = &m->events;
    size_t most = m->config.formers_max;

    if (e->formers == NULL)
        e->formers = lh_alloc_array(most, sizeof *e->formers);
    struct lh_m_former *to = &e->formers[e->former_count++ % most];
    memcpy(to->session, p->id, sizeof to->session);
    copy_title(to->title, p->title);
}

static const char *title_of(const struct lh_master *m, const uint8_t *session)
{
    const struct lh_m_events *e = &m->events;
    const struct lh_m_program *p = lh_m_program_find(m, session);
    size_t most = m->config.formers_max;

    if (p != NULL)
        return p->title;
    for (size_t i = 0; i < most && i < e->former_count; i++)
        if (memcmp(e->formers[i].session, session, LH_M_SESSION_ID_BYTES) == 0)
            return e->formers[i].title;
    return "";
}

const char *lh_m_event_holder(const struct lh_master *m, const struct lh_m_event *event)
{
    if (event->of_session)
        return title_of(m, event->session);
    return event->server == 0 ? "" : m->server_list[event->server - 1]->id;
}

/* ---- */

const struct lh_m_event *lh_m_event_next(
    const struct lh_master *m, uint64_t subject, size_t *cursor, bool *forgotten)
{
    const struct lh_m_events *e = &m->events;

    *forgotten = false;
    if (e->items == NULL)
        return NULL;
    size_t row = subject % e->rows;
    while (*cursor < e->row_size && *cursor < e->counts[row]) {
        const struct lh_m_event *event = item(e, row, e->counts[row] - ++*cursor);
        if (event->subject == subject)
            return event;
    }
    *forgotten = e->counts[row] > e->row_size;
    return NULL;
}

void lh_m_events_deinit(struct lh_master *m)
{
    free(m->events.items);
    free(m->events.counts);
    free(m->events.formers);
}
