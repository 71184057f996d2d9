#include "master/tables/events.h"

#include "base/text.h"
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

static void copy_holder(char *to, const char *holder)
{
    size_t size = strnlen(holder, LH_M_EVENT_HOLDER_BYTES);

    if (size == LH_M_EVENT_HOLDER_BYTES) {
        size--;
        while (size > 0 && ((uint8_t)holder[size] & 0xc0) == 0x80)
            size--; /* in the middle of a character */
    }
    memcpy(to, holder, size);
    to[size] = '\0';
}

void lh_m_note(struct lh_master *m, const struct lh_m_event *event, const char *holder)
{
    struct lh_m_events *e = &m->events;

    if (e->ring == NULL) {
        e->size = m->config.events_max;
        e->ring = lh_alloc_array(e->size, sizeof *e->ring);
        e->last = lh_alloc_array(e->size, sizeof *e->last);
    }
    struct lh_m_event *to = &e->ring[e->count++ % e->size];
    uint64_t *last = &e->last[event->subject % e->size];
    *to = *event;
    to->before = *last;
    if (to->at.ns == 0)
        to->at = m->now;
    copy_holder(to->holder, holder);
    *last = e->count;
}

/* Event `number` or the first before it in its chain that is of the subject. An event that was
 * overwritten ends the chain: all before it were, too. */
static const struct lh_m_event *find(
    const struct lh_master *m, uint64_t subject, uint64_t next, uint64_t *number)
{
    const struct lh_m_events *e = &m->events;

    while (next != 0 && next + e->size > e->count) {
        const struct lh_m_event *event = &e->ring[(next - 1) % e->size];
        if (event->subject == subject) {
            *number = next;
            return event;
        }
        next = event->before;
    }
    return NULL;
}

const struct lh_m_event *lh_m_event_last(
    const struct lh_master *m, uint64_t subject, uint64_t *number)
{
    const struct lh_m_events *e = &m->events;

    return e->ring == NULL ? NULL : find(m, subject, e->last[subject % e->size], number);
}

const struct lh_m_event *lh_m_event_before(
    const struct lh_master *m, const struct lh_m_event *event, uint64_t *number)
{
    return find(m, event->subject, event->before, number);
}

void lh_m_events_deinit(struct lh_master *m)
{
    free(m->events.ring);
    free(m->events.last);
}
