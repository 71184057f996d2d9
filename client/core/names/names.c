/* What the events of a session mean for what is kept in it. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/names/cache.h"
#include "client/core/names/locks.h"
#include "client/core/names/values.h"

#include <stdlib.h>

static void opened(void *self, struct lh_client_session *s)
{
    s->names = lh_alloc(sizeof *s->names);
    s->names->all = self;
}

static void freed(struct lh_client_session *s)
{
    lh_client_values_deinit(s);
    lh_client_prefixes_deinit(s);
    free(s->names);
}

static void emptied(struct lh_client_session *s, const char *why)
{
    lh_client_locks_lost(s, why);
    if (!s->lookups || !LH_PLANTED("lookup-served-after-its-session"))
        lh_client_cache_clear(s);
}

static void ended(struct lh_client_session *s, bool complete, int error, const char *why)
{
    lh_client_locks_end(s, complete, error, why);
    lh_client_reads_end(s, complete, error, why);
}

/* ---- Its stream. */

static void shown(struct lh_client_session *s, const Leasehold__Shown *m, struct lh_instant until)
{
    if (s->lookups)
        lh_client_hints_clear(s->names->all);
    lh_client_guard(s->client);
    lh_client_locks_shown(s, m, until);
    lh_client_values_shown(s, m);
    lh_client_unguard(s->client);
}

static void up(struct lh_client_session *s)
{
    lh_client_locks_up(s);
    lh_client_reads_up(s);
}

static void refused(struct lh_client_session *s, const Leasehold__Refused *m)
{
    if (m->id != 0 && !lh_client_lock_refused(s, m))
        lh_client_read_refused(s, m);
}

static void answer(struct lh_client_session *s, const Leasehold__LeaseAnswer *a)
{
    switch (a->answer_case) {
    case LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED:
        lh_client_granted(s, a->granted);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED:
        lh_client_queued(s, a->queued);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED:
        refused(s, a->refused);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND:
        lh_client_demanded(s, a->demand);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE:
        lh_client_value_read(s, a->value);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DROP:
        lh_client_value_drop(s, a->drop);
        break;
    default: /* of a newer master */
        break;
    }
}

static void answered(struct lh_client_session *s, const Leasehold__LeaseAnswers *m)
{
    bool late = s->names->aside != NULL;

    for (size_t i = 0; i < m->n_answers; i++)
        answer(s, m->answers[i]);
    if (late)
        lh_client_values_late(s);
}

static void beat_answered(struct lh_client_session *s, const Leasehold__BeatReply *m)
{
    lh_client_withdrawn_resolve(s, m->stamp);
    lh_client_prefixes_promised(s, m);
    lh_client_values_late(s);
}

static void stream_over(struct lh_client_session *s)
{
    lh_client_withdrawn_clear(s);
    lh_client_prefixes_void(s);
}

static void check(const struct lh_client_session *s)
{
    LH_ASSERT(s->life != LH_CLIENT_SESSION_EXPIRED || s->names->cache.count == 0 ||
              LH_PLANTED("lookup-served-after-its-session"));
    LH_ASSERT(s->life != LH_CLIENT_SESSION_OVER || s->names->by_name == NULL);
    lh_client_locks_check(s);
    lh_client_values_check(s);
}

static const struct lh_client_session_users in_session = {
    .opened = opened,
    .freed = freed,
    .emptied = emptied,
    .ended = ended,
    .show = lh_client_names_show,
    .shown = shown,
    .up = up,
    .answered = answered,
    .beat = lh_client_withdrawn_beat,
    .beat_answered = beat_answered,
    .stream_over = stream_over,
    .check = check,
};

/* ---- All of them. */

struct lh_client_names *lh_client_names_create(struct lh_client_host *c,
    struct lh_client_sessions *sessions, const struct lh_client_config *config)
{
    struct lh_client_names *n = lh_alloc(sizeof *n);

    n->client = c;
    n->sessions = sessions;
    lh_client_lookups_init(n, config);
    lh_client_sessions_serve(sessions, &in_session, n);
    return n;
}

void lh_client_names_destroy(struct lh_client_names *n)
{
    lh_client_lookups_deinit(n);
    free(n);
}

void lh_client_names_check(const struct lh_client_names *n)
{
    lh_client_lookups_check(n);
    lh_client_watches_check(n);
}
