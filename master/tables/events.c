#include "master/tables/events.h"

#include "base/bytes.h"
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

/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). */
static uint64_t rotated(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned rounds)
{
    for (; rounds > 0; rounds--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[2] = rotated(v[2], 32);
    }
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

uint64_t lh_m_event_of_name(const struct lh_master *m, const char *name)
{
    const uint8_t *key = m->config.event_secret;
    uint64_t k0 = lh_get64(key), k1 = lh_get64(key + 8);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    size_t size = strlen(name), left = size;
    uint8_t last[8] = {0};

    for (; left >= sizeof last; left -= sizeof last, name += sizeof last)
        sip_word(v, lh_get64((const uint8_t *)name));
    memcpy(last, name, left);
    last[7] = (uint8_t)size;
    sip_word(v, lh_get64(last));
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return (v[0] ^ v[1] ^ v[2] ^ v[3]) | OF_NAMES;
}

static size_t size_of(const struct lh_master *m, size_t ring)
{
    const size_t sizes[LH_M_RINGS] = {
        m->config.events_max, m->config.events_locks_max, m->config.events_values_max};

    return sizes[ring];
}

static size_t ring_of(const struct lh_m_event *event)
{
    if ((event->subject & OF_NAMES) == 0)
        return LH_M_RING_CHUNKS;
    return event->kind == LEASEHOLD__LEASE_EVENT_KIND__VALUE_CHANGED ||
                   event->kind == LEASEHOLD__LEASE_EVENT_KIND__VALUE_REMOVED
               ? LH_M_RING_VALUES
               : LH_M_RING_LOCKS;
}

void lh_m_note(struct lh_master *m, const struct lh_m_event *event)
{
    size_t ring = ring_of(event), size = size_of(m, ring);
    struct lh_m_ring *r = &m->events.rings[ring];

    if (r->items == NULL)
        r->items = lh_alloc_array(size, sizeof *r->items);
    struct lh_m_event *to = &r->items[r->next];
    *to = *event;
    if (to->at.ns == 0)
        to->at = m->now;
    r->count++;
    if (++r->next == size)
        r->next = 0;
}

bool lh_m_note_due(struct lh_master *m, struct lh_m_program *p)
{
    uint32_t second = (uint32_t)(m->now.ns >> 30) + 1; /* about */

    if (p->noted.second != second) {
        p->noted.second = second;
        p->noted.left = m->config.events_session;
    }
    if (p->noted.left == 0) {
        m->locks.unnoted++;
        return false;
    }
    p->noted.left--;
    return true;
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

/* Rings that have events of the subject: from `first` on, below `end`. */
static void rings_of(uint64_t subject, size_t *first, size_t *end)
{
    *first = (subject & OF_NAMES) == 0 ? LH_M_RING_CHUNKS : LH_M_RING_LOCKS;
    *end = (subject & OF_NAMES) == 0 ? LH_M_RING_CHUNKS + 1 : LH_M_RINGS;
}

static const struct lh_m_event *next_in(
    const struct lh_m_ring *r, size_t size, uint64_t subject, size_t *back)
{
    while (*back < size && *back < r->count) {
        size_t passed = ++*back;
        const struct lh_m_event *event =
            &r->items[r->next >= passed ? r->next - passed : r->next + size - passed];
        if (event->subject == subject)
            return event;
    }
    return NULL;
}

const struct lh_m_event *lh_m_event_next(
    const struct lh_master *m, uint64_t subject, struct lh_m_event_cursor *cursor)
{
    const struct lh_m_event **newest = NULL, *event;
    size_t i, end;

    for (rings_of(subject, &i, &end); i < end; i++) {
        const struct lh_m_event **found = &cursor->found[i];
        if (*found == NULL)
            *found = next_in(&m->events.rings[i], size_of(m, i), subject, &cursor->back[i]);
        /* What is deleted with a session comes behind the ends of its locks. */
        if (*found != NULL && (newest == NULL || !lh_instant_before((*found)->at, (*newest)->at)))
            newest = found;
    }
    if (newest == NULL)
        return NULL;
    event = *newest;
    *newest = NULL;
    return event;
}

bool lh_m_events_forgotten(const struct lh_master *m, uint64_t subject)
{
    size_t i, end;

    for (rings_of(subject, &i, &end); i < end; i++)
        if (m->events.rings[i].count > size_of(m, i))
            return true;
    return false;
}

void lh_m_events_deinit(struct lh_master *m)
{
    for (size_t i = 0; i < LH_M_RINGS; i++)
        free(m->events.rings[i].items);
    free(m->events.formers);
}
