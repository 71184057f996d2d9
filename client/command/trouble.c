/* Sentences about what is wrong; see trouble.h. */
#include "client/command/trouble.h"

#include "base/plural.h"
#include "client/command/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_BYTES 1024u

struct listener {
    lh_trouble_say *say;
    void *arg;
};

__attribute__((format(printf, 2, 3))) static void say(
    const struct listener *to, const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    to->say(to->arg, text);
}

/* --- masters ------------------------------------------------------------------------------ */

void lh_trouble_of_masters(const struct lh_master_list *list, lh_trouble_say *hear, void *arg)
{
    const struct listener to = {hear, arg};

    for (size_t i = 0; i < list->count; i++) {
        const struct lh_master_info *m = &list->masters[i];
        if (!m->answered)
            say(&to, "%s%s%s: %s", m->master_id, m->master_id[0] != '\0' ? " at " : "", m->address,
                m->trouble);
        else if (strcmp(m->state, "UNCONFIRMED") == 0)
            say(&to,
                "%s does not know whether it is still the active master, and does not act: it "
                "cannot write to etcd",
                m->master_id[0] != '\0' ? m->master_id : m->address);
    }
    if (list->active[0] == '\0')
        say(&to, "no master acts now");
}

/* --- servers ------------------------------------------------------------------------------ */

void lh_trouble_of_servers(const struct lh_server_list *list, lh_trouble_say *hear, void *arg)
{
    const struct listener to = {hear, arg};

    if (list->repair.chunks_unreadable > 0)
        say(&to,
            "%" PRIu64 " chunk%s %s no replica that can be read: start the servers that are "
            "away; leasehold fsck names the chunks",
            list->repair.chunks_unreadable, lh_plural(list->repair.chunks_unreadable),
            lh_one_or_many(list->repair.chunks_unreadable, "has", "have"));
    for (size_t i = 0; i < list->count; i++)
        if (list->servers[i].obstacle[0] != '\0')
            say(&to, "%s", list->servers[i].obstacle);
    for (size_t i = 0; i < list->count; i++)
        if (list->servers[i].unheard[0] != '\0')
            say(&to, "nothing is placed at %s: %s", list->servers[i].server_id,
                list->servers[i].unheard);
    for (size_t i = 0; i < list->refused_count; i++) {
        const struct lh_refused_info *r = &list->refused[i];
        char ago[32];
        say(&to, "a chunkserver at %s was refused (%" PRIu64 " time%s, the last one %s ago): %s",
            r->peer, r->times, lh_plural(r->times), lh_command_duration(ago, r->ago_ms), r->text);
    }
    if (!list->deleting && list->deleting_text[0] != '\0')
        say(&to,
            "nothing is deleted: %s. Make sure that this master has the newest metadata; then "
            "leasehold garbage --resume",
            list->deleting_text);
}

static void beside_of(const struct listener *to, const struct lh_server_info *s)
{
    char away[32], grace[32];

    if (!s->live && s->grace_left_ms > 0)
        say(to, "%s has been away for %s: what it has is copied elsewhere in %s", s->server_id,
            lh_command_duration(away, s->away_ms), lh_command_duration(grace, s->grace_left_ms));
    else if (!s->live)
        say(to,
            "%s has been away for %s, longer than the grace period: what it has is copied "
            "elsewhere",
            s->server_id, lh_command_duration(away, s->away_ms));
    else if (s->read_only)
        say(to,
            "%s: its disk cannot be written; what it has can be read, and it gets no leases and no "
            "replicas",
            s->server_id);
    else if (s->failing)
        say(to, "%s: its disk does not answer; it gets no leases and no replicas", s->server_id);
    else if (!s->reachable)
        say(to, "%s has a session, and does not receive the master's answers", s->server_id);
}

void lh_trouble_beside(const struct lh_server_list *list, lh_trouble_say *hear, void *arg)
{
    const struct listener to = {hear, arg};

    if (list->repair.chunks_endangered > 0)
        say(&to, "chunks with a single good replica: %" PRIu64, list->repair.chunks_endangered);
    for (size_t i = 0; i < list->count; i++)
        beside_of(&to, &list->servers[i]);
    if (list->figures.sessions_away > 0)
        say(&to,
            "sessions that are not back since the last master: %" PRIu64
            "; until they are, no lock is granted and no value changed",
            list->figures.sessions_away);
    if (list->figures.calls_waiting > 0)
        say(&to, "calls that wait for a primary: %" PRIu64, list->figures.calls_waiting);
}

const char *lh_trouble_repair(char text[LH_TROUBLE_REPAIR_BYTES], const struct lh_repair_info *r)
{
    char bytes[32], rate[32], left[32];
    int n;

    if (r->chunks_degraded == 0 && r->copies_running == 0 && r->copies_waiting == 0) {
        (void)snprintf(
            text, LH_TROUBLE_REPAIR_BYTES, "repair: nothing to do, every chunk has its replicas");
        return text;
    }
    n = snprintf(text, LH_TROUBLE_REPAIR_BYTES,
        "repair: %" PRIu64 " chunk%s degraded, of these %" PRIu64
        " with a single good replica and %" PRIu64 " with none; %" PRIu64 " %s running, %" PRIu64
        " waiting; %s left",
        r->chunks_degraded, lh_plural(r->chunks_degraded), r->chunks_endangered,
        r->chunks_unreadable, r->copies_running,
        lh_one_or_many(r->copies_running, "copy", "copies"), r->copies_waiting,
        lh_command_bytes(bytes, r->bytes_left));
    if (r->bytes_per_second > 0)
        n += snprintf(text + n, LH_TROUBLE_REPAIR_BYTES - (size_t)n, " at %s/s",
            lh_command_bytes(rate, r->bytes_per_second));
    if (r->left_ms > 0)
        (void)snprintf(text + n, LH_TROUBLE_REPAIR_BYTES - (size_t)n, ", about %s",
            lh_command_duration(left, r->left_ms));
    return text;
}

/* --- explain ------------------------------------------------------------------------------ */

const char *lh_trouble_verdict(char text[LH_TROUBLE_VERDICT_BYTES], const struct lh_explanation *e)
{
    const struct lh_chunk_info *c = &e->chunk.info;
    const char *verdict = e->writable ? "takes appends" : "takes no appends now";
    const char *trash = e->info.trashed ? " (in the trash)" : "";

    if (e->has_chunk)
        (void)snprintf(text, LH_TROUBLE_VERDICT_BYTES,
            "chunk %" PRIu64 " of %s%s, version %" PRIu64 ": %s", c->chunk, e->info.path, trash,
            c->version, c->sealed ? "sealed, and will never change" : verdict);
    else
        (void)snprintf(
            text, LH_TROUBLE_VERDICT_BYTES, "%s%s, no chunk yet: %s", e->info.path, trash, verdict);
    return text;
}
