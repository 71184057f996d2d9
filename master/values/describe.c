/* What ListNames says of a name's value, of those who cache it, and of its changes. */
#include "base/plural.h"
#include "master/values/internal.h"

#include <inttypes.h>
#include <stdarg.h>

struct saying {
    void (*say)(void *arg, const char *sentence);
    void *arg;
};

__attribute__((format(printf, 2, 3))) static void say(
    const struct saying *s, const char *format, ...)
{
    char sentence[LH_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    s->say(s->arg, sentence);
}

static double seconds(struct lh_duration d)
{
    return (double)lh_duration_ms(d) / 1e3;
}

/* When the first change is judged at the latest, if nobody is to be asked for anything else. */
static struct lh_duration change_left(struct lh_master *m, const struct lh_m_name *name)
{
    struct lh_instant at = lh_grantor_free_at(m->leases.engine, lh_m_cache_key(name), m->now);

    at = lh_instant_max(at, lh_m_broadcast_promised(m, name->text));
    if (name->more->changing != NULL)
        at = lh_instant_max(at, name->more->changing->promised);
    if (lh_m_programs_awaited(m))
        at = lh_instant_max(at, m->leases.wait_end);
    return lh_instant_until(m->now, at);
}

static void say_value(struct lh_master *m, const struct lh_m_value *v, const struct saying *s)
{
    say(s, "The value has %zu byte%s and revision %" PRIu64 ".", v->bytes.size,
        lh_plural(v->bytes.size), v->revision);
    if (v->changed_at.ns != 0)
        say(s, "It changed %.1f s ago.", seconds(lh_instant_until(v->changed_at, m->now)));
    if (v->token != 0)
        say(s, "It was changed with token %" PRIu64 " of a lock: a change needs one, or force.",
            v->token);
    if (v->program != NULL && !v->program->over)
        say(s, "It is deleted when the session of %.128s ends.", v->program->title);
    else if (v->attached)
        say(s, "The session that it was attached to is over: it is being deleted.");
}

static void say_policy(struct lh_master *m, const struct lh_m_name *name, const struct saying *s)
{
    const struct lh_m_policy *policy = lh_m_policy_of(m, name->text);
    struct lh_duration term = lh_m_value_term(m, name, policy);

    if (policy->broadcast)
        say(s, "It is broadcast under %.256s: nothing is kept of who reads it.", policy->prefix);
    else if (policy->no_lease)
        say(s, "Nobody caches it by a lease; a read can be used for %.1f s.", seconds(term));
    else if (lh_m_gives_no_lease(name->more->changing))
        say(s, "It is changing: who reads it now may not serve it from a cache.");
    else if (lh_m_leases_full(m))
        say(s, "There are as many leases as there may be: it is not cached now.");
    else
        say(s, "Who reads it now may serve it from its cache for %.1f s without asking.",
            seconds(term));
}

static void say_change(struct lh_master *m, const struct lh_m_name *name, const struct saying *s)
{
    const struct lh_m_pending_changes *g = name->more->changing;

    if (g->phase == LH_M_COMMITTED) {
        say(s, "A change of it is being committed.");
        return;
    }
    if (g->change_count > 0)
        say(s, "%zu %s.", g->change_count,
            g->change_count == 1 ? "change of it waits" : "changes of it wait");
    if (lh_m_programs_awaited(m))
        say(s, "Nothing is changed before all sessions of the last master are back, or over.");
    if (name->caches > 0)
        say(s, "%" PRIu32 " %s told to drop it; without an answer that takes %.1f s.", name->caches,
            name->caches == 1 ? "session is" : "sessions are", seconds(change_left(m, name)));
    else if (!lh_instant_reached(m->now, g->promised))
        say(s, "What was promised to readers meanwhile is over in %.1f s.",
            seconds(change_left(m, name)));
    else if (!lh_instant_reached(m->now, lh_m_broadcast_promised(m, name->text)))
        say(s, "What was promised of its prefix is over in %.1f s.", seconds(change_left(m, name)));
}

void lh_m_value_describe(struct lh_master *m, struct lh_m_name *name, Leasehold__NameInfo *info,
    void (*sentence)(void *arg, const char *sentence), void *arg)
{
    const struct saying s = {.say = sentence, .arg = arg};
    const struct lh_m_pending_changes *g = name->more->changing;

    info->caches = name->caches;
    info->changing = g != NULL;
    if (g != NULL && g->phase == LH_M_DROPPING)
        info->change_left_ms = lh_duration_ms(change_left(m, name));
    if (name->more->value != NULL && (g == NULL || g->phase != LH_M_COMMITTED)) {
        info->value = lh_alloc(sizeof *info->value);
        leasehold__value_info__init(info->value);
        lh_m_value_info(name->more->value, false, info->value);
    }
    if (sentence == NULL)
        return;
    if (name->more->value != NULL)
        say_value(m, name->more->value, &s);
    if (name->more->value != NULL || name->caches > 0)
        say_policy(m, name, &s);
    if (name->caches > 0 && g == NULL)
        say(&s, "%" PRIu32 " %s may serve it from memory.", name->caches,
            name->caches == 1 ? "session" : "sessions");
    if (g != NULL)
        say_change(m, name, &s);
}
