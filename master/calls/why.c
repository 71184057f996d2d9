/* Why a file has no primary now, for those who wait for one. */
#include "master/calls/internal.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>
#include <stdarg.h>

__attribute__((format(printf, 3, 4))) static void add(
    char *text, size_t text_size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, text_size - used, format, args);
    va_end(args);
}

/* Names the members that are missed, if any. */
static void say_missing(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size)
{
    const char *separator = "; missing: ";

    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_member *member = &c->members[i];
        enum lh_m_health health = lh_m_member_health(m, c, member);
        if (health == LH_M_GOOD && lh_m_looks_alive(m, lh_m_server_of(m, member)))
            continue;
        add(text, text_size, "%s%.64s (%s)", separator, lh_m_server_of(m, member)->id,
            health == LH_M_GOOD ? "does not answer" : lh_m_health_text(health));
        separator = ", ";
    }
}

/* The file's next chunk has no place. */
static void say_no_place(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    const struct lh_m_server *s;
    unsigned live = 0, drained = 0, unheard = 0, full = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        bool counts = lh_m_live(m, s) && !s->space.failing;
        live += counts;
        drained += counts && lh_m_drained(s);
        unheard += counts && !lh_m_reached(s);
        full += counts && !lh_m_has_space(s, f->chunk_size);
    }
    snprintf(text, text_size,
        "\"%.256s\" needs a new chunk on at least %u chunkservers with room for %" PRIu64
        " bytes; %u are alive",
        f->path, f->min_replicas, f->chunk_size, live);
    if (drained > 0)
        add(text, text_size, ", %u of them drained", drained);
    if (full > 0)
        add(text, text_size, ", %u of them without that room", full);
    if (unheard > 0)
        add(text, text_size, ", %u of them not heard at the addresses that they gave", unheard);
}

/* The tail is free, and nobody can have it. */
static void say_nobody_can(
    const struct lh_master *m, const struct lh_m_chunk *tail, char *text, size_t text_size)
{
    enum { LOST, JOINING, AWAY, FAILING, REFUSED, REASONS };
    static const char *const words[REASONS] = {
        [LOST] = "without a good replica",
        [JOINING] = "joining",
        [AWAY] = "away",
        [FAILING] = "with a failing disk",
        [REFUSED] = "refused a moment ago",
    };
    unsigned counts[REASONS] = {0}, drained = 0;
    const char *separator = ": ";

    for (uint32_t i = 0; i < tail->member_count; i++) {
        const struct lh_m_member *member = &tail->members[i];
        const struct lh_m_server *s = lh_m_server_of(m, member);
        counts[member->lost            ? LOST
               : member->joining       ? JOINING
               : !lh_m_reachable(m, s) ? AWAY
               : s->space.failing      ? FAILING
                                       : REFUSED]++;
        drained += lh_m_drained(s);
    }
    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\": none of its %u members can be primary now", tail->id,
        tail->file->path, tail->member_count);
    for (size_t i = 0; i < REASONS; i++)
        if (counts[i] > 0) {
            add(text, text_size, "%s%u %s", separator, counts[i], words[i]);
            separator = ", ";
        }
    if (drained > 0)
        add(text, text_size, "; %u of them on drained servers", drained);
}

/* The tail is being sealed, because its primary is lost (FAIL-2a). */
static void say_rolling(const struct lh_m_chunk *tail, char *text, size_t text_size)
{
    const struct lh_m_roll *roll = tail->active->seal->roll;

    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\" is being sealed, because its primary is lost: ", tail->id,
        tail->file->path);
    if (roll->decided)
        add(text, text_size, "at %" PRIu64 " bytes, and the next chunk is being created",
            roll->length);
    else
        add(text, text_size, "%u of %u members have said how much they have", roll->answer_count,
            tail->member_count);
}

void lh_m_describe_unbacked(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size)
{
    snprintf(text, text_size,
        "chunk %" PRIu64 " of \"%.256s\" was sealed by the log of a single member, and what was "
        "under way is answered once that is on %u disks: it is being copied",
        c->id, c->file->path, c->file->min_replicas);
    say_missing(m, c, text, text_size);
}

int lh_m_why_not(const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size)
{
    const struct lh_m_chunk *tail = lh_m_tail(f);

    if (tail == NULL || (tail->sealed && lh_m_is_durable(m, tail->active->ticket))) {
        if (m->store_fills != NULL) {
            snprintf(text, text_size, "\"%.256s\" needs a new chunk: %s", f->path, m->store_fills);
            return LH_ERR_DISK_FULL;
        }
        say_no_place(m, f, text, text_size);
        return LH_ERR_NOT_ENOUGH_SERVERS;
    }
    if (!tail->created && tail->active->creation->unable != NULL) {
        snprintf(text, text_size,
            "\"%.256s\": %s cannot create a replica of its next chunk: %s; free space or add "
            "servers",
            f->path, tail->active->creation->unable->id,
            lh_error_text(tail->active->creation->unable_error));
        return tail->active->creation->unable_error == LH_ERR_DISK_FULL ? LH_ERR_DISK_FULL
                                                                        : LH_ERR_NOT_ENOUGH_SERVERS;
    }
    if (tail->active->seal->roll != NULL) {
        LH_MARK("no-tail-rolling-over");
        say_rolling(tail, text, text_size);
        return LH_ERR_UNAVAILABLE;
    }
    if (tail->sealed) {
        snprintf(
            text, text_size, "\"%.256s\": the seal of its last chunk is being written", f->path);
        return LH_ERR_UNAVAILABLE;
    }
    if (!tail->created && !lh_m_creation_done(tail)) {
        snprintf(text, text_size, "\"%.256s\": its next chunk is being created", f->path);
        return LH_ERR_UNAVAILABLE;
    }
    if (lh_m_held(m, tail)) {
        if (tail->active->grant->lease.waiting)
            LH_MARK("no-tail-in-restart-wait");
        else
            LH_MARK("no-tail-lease-held");
        snprintf(text, text_size,
            "chunk %" PRIu64 " of \"%.256s\": %s holds the lease at version %" PRIu64
            " for up to another %" PRIu64 " ms and %s",
            tail->id, f->path, lh_m_holder(tail)->id, tail->active->grant->lease.version,
            lh_duration_ms(lh_m_lease_left(m, tail)),
            tail->active->grant->lease.recalling   ? "was asked to give it up"
            : tail->active->grant->lease.confirmed ? "does not answer"
            : tail->active->grant->lease.waiting   ? "has not registered with this master yet"
                                                   : "has not confirmed it yet");
        if (tail->active->grant->lease.recalling && lh_m_drained(lh_m_holder(tail)))
            add(text, text_size, ", as it is drained");
        return LH_ERR_LEASE_HELD;
    }
    LH_MARK("no-tail-not-leased");
    say_nobody_can(m, tail, text, text_size);
    return LH_ERR_NOT_LEASED;
}
