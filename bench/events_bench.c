/* What an answer of ListEvents costs the master's thread where its rings are full:
 *
 *   bazel run --config=release //bench:events_bench
 *
 * The core alone, without streams and store. One name has all the events of locks: sessions take it
 * and release it in turn, or one does so over and over, which is told as one grant. Asked for is
 * that name, another one of which nothing is there, and a chunk whose ring is as full. */
#include "base/alloc.h"
#include "base/assert.h"
#include "master/master.h"
#include "master/tables/tables.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 200

static double milliseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fill(struct lh_master *m, uint64_t subject, size_t count, size_t sessions)
{
    struct lh_m_event event = {.subject = subject, .of_session = true};

    for (size_t i = 0; i < count; i++) {
        event.kind = i % 2 == 0 ? LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED
                                : LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED;
        event.session[0] = (uint8_t)(i / 2 % sessions);
        event.version = i / 2 + 1;
        lh_m_note(m, &event);
    }
}

static void ask(struct lh_master *m, const char *what, const char *name, uint64_t chunk)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;
    struct lh_effects fx = {0};
    double sum = 0, longest = 0;
    size_t bytes = 0;

    r.name = (char *)(uintptr_t)name;
    r.chunk = chunk;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct lh_input in = {.kind = LH_IN_LINK_OPENED,
            .now = {2000000000},
            .link = LH_LINK_SERVED | (i + 1),
            .method = LH_METHOD_LIST_EVENTS,
            .text = "peer:1",
            .identity = ""};
        lh_master_step(m, &in, &fx);
        in.kind = LH_IN_MESSAGE;
        in.message = &r;
        double from = milliseconds();
        lh_master_step(m, &in, &fx);
        double took = milliseconds() - from;
        sum += took;
        longest = took > longest ? took : longest;
        for (size_t k = 0; k < fx.count; k++)
            bytes += fx.items[k].kind == LH_FX_SEND ? fx.items[k].header.size : 0;
        lh_effects_clear(&fx);
    }
    printf(
        "%-52s %.3f ms, at most %.3f ms, %zu bytes\n", what, sum / ROUNDS, longest, bytes / ROUNDS);
    lh_effects_deinit(&fx);
}

int main(void)
{
    struct lh_master_config config = lh_master_config_default();
    struct lh_master *m = lh_master_create(&config);
    struct lh_effects fx = {0};
    struct lh_input first = {.kind = LH_IN_TIMER, .now = {1000000000}};

    config.seed = 1;
    lh_master_step(m, &first, &fx);
    lh_effects_clear(&fx);
    struct lh_input durable = {.kind = LH_IN_PERSISTED, .now = {1000000000}, .ticket = 1};
    lh_master_step(m, &durable, &fx);
    lh_effects_deinit(&fx);
    fill(m, lh_m_event_of_name(m, "/a"), config.events_locks_max, 200);
    ask(m, "a name with all events, of 200 sessions", "/a", 0);
    ask(m, "a name with none, beside them", "/b", 0);
    fill(m, lh_m_event_of_name(m, "/a"), config.events_locks_max, 1);
    ask(m, "a name with all events, of one session", "/a", 0);
    fill(m, lh_m_event_of_chunk(7), config.events_max, 1);
    struct lh_m_event_cursor cursor = {0};
    double from = milliseconds();
    size_t found = 0;
    while (lh_m_event_next(m, lh_m_event_of_chunk(7), &cursor) != NULL)
        found++;
    double one = milliseconds() - from;
    cursor = (struct lh_m_event_cursor){0};
    from = milliseconds();
    LH_ASSERT(lh_m_event_next(m, lh_m_event_of_chunk(8), &cursor) == NULL);
    printf("the ring of chunks: %zu events of one %.3f ms, none of another %.3f ms\n", found, one,
        milliseconds() - from);
    lh_master_destroy(m);
    return 0;
}
