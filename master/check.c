/* What must hold between any two steps. */
#include "master/locks/locks.h"
#include "master/master.h"
#include "master/sessions/sessions.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

static void add_pair(struct lh_m_pairs *sum, uint32_t word)
{
    if (word == 0)
        return;
    sum->count++;
    sum->sum += word & ~(LH_M_PAIR_STORED | LH_M_PAIR_BARE);
    sum->bare += (word & LH_M_PAIR_BARE) != 0;
}

/* PAIR-1: what is counted is what the records say of their pairs. */
static void check_pairs(const struct lh_master *m)
{
    struct lh_m_pairs sum = {0};
    const struct lh_m_prealloc *prealloc;
    const struct lh_m_value_change *change;
    const struct lh_m_tombstone *t;
    const struct lh_m_chunk *c;
    const struct lh_m_file *f;
    struct lh_m_server *s;
    struct lh_m_call *call;
    struct lh_m_program *p;
    struct lh_m_policy *policy;
    struct lh_m_name *name;

    for (size_t i = 0; i < m->reigns.count; i++)
        add_pair(&sum, m->reigns.items[i].pair);
    LH_IDMAP_FOREACH(f, &m->files)
        add_pair(&sum, f->pair);
    LH_IDMAP_FOREACH(c, &m->chunks)
        add_pair(&sum, *lh_idmap_word(&m->chunks, c->id));
    LH_IDMAP_FOREACH(t, &m->tombstones)
        add_pair(&sum, *lh_idmap_word(&m->tombstones, t->chunk));
    LH_IDMAP_FOREACH(prealloc, &m->preallocs)
        add_pair(&sum, prealloc->pair);
    LH_IDMAP_FOREACH(change, &m->history.changes)
        add_pair(&sum, change->pair);
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        add_pair(&sum, s->pair);
    RB_FOREACH(call, lh_m_call_tree, (struct lh_m_call_tree *)(uintptr_t)&m->calls.tree)
        add_pair(&sum, call->pair);
    RB_FOREACH(p, lh_m_programs, (struct lh_m_programs *)(uintptr_t)&m->programs.tree)
        add_pair(&sum, p->pair);
    RB_FOREACH(policy, lh_m_policy_tree, (struct lh_m_policy_tree *)(uintptr_t)&m->policies.tree)
        add_pair(&sum, policy->pair);
    RB_FOREACH(name, lh_m_name_tree, (struct lh_m_name_tree *)(uintptr_t)&m->names.tree)
        if (name->more->value != NULL)
            add_pair(&sum, name->more->value->pair);
    LH_ASSERT(sum.count == m->pairs.count && sum.sum == m->pairs.sum && sum.bare == m->pairs.bare);
}

/* FAIL-2a. */
static void check_roll(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_roll *roll = c->active->seal->roll;

    LH_ASSERT((roll != NULL) == (c->intent_to_seal && !c->sealed));
    if (roll == NULL)
        return;
    /* It is the tail: nothing comes after it before its seal. */
    LH_ASSERT(roll->chunk == c && c->index + 1 == c->file->chunk_count && c->created);
    LH_ASSERT(
        !m->started || (lh_timer_is_set(&roll->timer) && roll->ticket < m->commit.next_ticket));
    LH_ASSERT(roll->answer_count <= c->member_count);
    /* Nobody is asked, so nobody has answered, before the intent is durable. */
    LH_ASSERT(roll->answer_count == 0 || lh_m_is_durable(m, roll->ticket));
    LH_ASSERT(!roll->decided || roll->answer_count > 0);
}

/* It is in the indexes that it belongs to, and all of its record is idle if it has none. */
static void check_active(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_active *mo = (struct lh_m_active *)(uintptr_t)c->active;

    LH_ASSERT((lh_idmap_find(&m->open, c->id) == c) == !c->sealed);
    if (mo == &lh_m_idle)
        return;
    LH_ASSERT(mo->chunk == c && (!mo->unsettled || !m->started) && c->seen_behind == 0);
    LH_ASSERT((RB_FIND(lh_m_leased, (struct lh_m_leased *)(uintptr_t)&m->leased, mo) == mo) ==
              (mo->grant->lease.holder != NULL));
    LH_ASSERT((RB_FIND(lh_m_wanting, (struct lh_m_wanting *)(uintptr_t)&m->wanting, mo) == mo) ==
              mo->repair.wanting);
}

static void check_chunk(const struct lh_master *m, struct lh_m_chunk *c)
{
    LH_ASSERT(!c->active->dirty && c->active->ticket < m->commit.next_ticket);
    if (c->removed) {
        LH_ASSERT(
            c->file == NULL && lh_m_holder(c) == NULL && !lh_m_is_durable(m, c->active->ticket));
        return;
    }
    LH_ASSERT(lh_m_file_chunk(c->file, c->index) == c);
    LH_ASSERT(c->created == (c->version > 0));
    LH_ASSERT(c->active->creation->under_way == !c->created);
    LH_ASSERT(c->member_count > 0 && c->member_count <= LH_REPLICATION_MAX &&
              (c->members == c->few) == (c->member_count <= LH_M_FEW));
    for (uint32_t i = 0; i < c->member_count; i++)
        LH_ASSERT(lh_m_member(c, lh_m_server_of(m, &c->members[i])) == &c->members[i]);
    if (c->index > 0) {
        const struct lh_m_chunk *before = lh_m_file_chunk(c->file, c->index - 1);
        LH_ASSERT(before->sealed && c->start == before->start + before->length); /* SEAL-1 */
    }
    check_active(m, c);
    if (lh_m_holder(c) != NULL) {
        /* Only a chunk that was rolled over is sealed while its lease runs out (FAIL-2a). */
        LH_ASSERT(c->created && (!c->sealed || c->intent_to_seal));
        LH_ASSERT(c->sealed || lh_m_member(c, lh_m_holder(c)) != NULL);
        LH_ASSERT(c->intent_to_seal ? c->active->grant->lease.version < c->version
                                    : c->active->grant->lease.version == c->version);
        LH_ASSERT(c->active->grant->lease.ending == c->intent_to_seal);
        LH_ASSERT(c->active->grant->fence <= c->file->active->fence || /* TOK-2 */
                  LH_PLANTED("lower-token-admitted-after-roll"));
    }
    /* The engine and the table agree on who has it and at which version. */
    struct lh_lease_info info;
    if (lh_grantor_find(m->leases.engine, c->id, m->now, &info)) {
        LH_ASSERT(info.version == c->active->grant->lease.version &&
                  info.session == c->active->grant->lease.session);
        LH_ASSERT(lh_m_holder(c) != NULL && info.mode == LH_LEASE_EXCLUSIVE);
    }
    /* LEASE-1: nothing is said of a grant that is not durable. */
    LH_ASSERT(!c->active->grant->lease.sent || lh_m_is_durable(m, c->active->grant->ticket));
    check_roll(m, c);
}

/* What is known of replicas that nobody needs: each in the lists of its chunk and its server. */
static void check_extras(const struct lh_master *m)
{
    const struct lh_m_extra *e, *other;
    const struct lh_m_server *s;
    const struct lh_m_kept *k;
    size_t extras = 0, kept = 0, trashed = 0;
    const struct lh_m_file *f;

    TAILQ_FOREACH(e, &m->garbage.extras, all_link) {
        size_t found = 0;
        LH_ASSERT(e->server->session.client.session != 0);
        TAILQ_FOREACH(other, &e->chunk->active->extras, link)
            found += other->server == e->server;
        LH_ASSERT(found == 1);
        extras++;
    }
    for (s = m->servers; s != NULL; s = s->hh.next)
        TAILQ_FOREACH(k, &s->kept, link)
            kept++;
    LH_IDMAP_FOREACH(f, &m->files)
        trashed += f->trashed;
    LH_ASSERT(extras == m->garbage.extra_count && kept == m->garbage.kept_count &&
              trashed == m->trash_count);
}

static void check_file(const struct lh_master *m, struct lh_m_file *f)
{
    uint32_t waiters = 0;
    struct lh_m_waiter *w;

    LH_ASSERT(!f->active->dirty && !f->removed && !f->active->in_work);
    if (f->trashed)
        LH_ASSERT(RB_FIND(lh_m_trash, (struct lh_m_trash *)(uintptr_t)&m->trash, f) == f &&
                  TAILQ_EMPTY(&f->active->waiters) && f->active->prealloc == NULL);
    else
        LH_ASSERT(lh_m_file_by_path(m, f->path) == f);
    LH_ASSERT(!f->active->unsettled || !m->started);
    LH_ASSERT((f->active->fence == 0) == (f->active->lock_name == NULL));
    LH_ASSERT(f->min_replicas >= 1 && f->min_replicas <= f->replication);
    for (size_t i = 0; i < f->chunk_count; i++)
        LH_ASSERT(lh_m_file_chunk(f, i)->file == f && lh_m_file_chunk(f, i)->index == i);
    TAILQ_FOREACH(w, &f->active->waiters, file_link) {
        LH_ASSERT(w->file == f && lh_timer_is_set(&w->timer));
        waiters++;
    }
    LH_ASSERT(waiters == f->active->waiter_count);
}

static void check_server(const struct lh_master *m, const struct lh_m_server *s)
{
    LH_ASSERT(!s->dirty);
    LH_ASSERT(!s->session.announced || !s->session.announcing);
    if (s->session.link != 0) {
        const struct lh_m_link *l = lh_m_stream(m, s->session.link);
        LH_ASSERT(l != NULL && l->session == &s->session);
    }
    lh_lease_client_check(&m->leases, &s->session.client);
    LH_ASSERT(s->session.client.process == s->incarnation);
    LH_ASSERT(!lh_m_forgotten(s) || (s->session.client.count == 0 &&
                                        s->session.client.session == 0 && s->session.link == 0));
}

/* REC-4 and KEEP-1: what repair does, and what it counts. */
static void check_repair(const struct lh_master *m)
{
    const struct lh_m_server *s;
    const struct lh_m_copy *copy;
    struct lh_m_chunk *c;
    size_t conditions[LH_M_CONDITIONS] = {0}, waiting = 0, enqueued = 0;
    uint64_t want_bytes = 0;
    uint32_t copies = 0, grants = 0;

    for (c = lh_m_chunk_from(m, 0); c != NULL; c = lh_m_chunk_from(m, c->id + 1)) {
        uint32_t copies_here = 0;
        conditions[c->condition]++;
        enqueued += c->enqueued;
        grants += c->active->repair.granted;
        waiting += c->active->repair.wanting;
        want_bytes += c->active->repair.wanting ? c->active->repair.want_bytes : 0;
        TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
            copies_here++;
        LH_ASSERT(
            copies_here == c->active->repair.copy_count && copies_here <= c->file->replication);
        for (uint32_t i = 0; i < c->member_count; i++)
            if (c->members[i].joining)
                LH_ASSERT(!c->sealed && lh_m_server_of(m, &c->members[i]) != lh_m_holder(c));
    }
    for (unsigned i = 0; i < LH_M_CONDITIONS; i++)
        LH_ASSERT(conditions[i] == m->repair.conditions[i]);
    LH_ASSERT(waiting == m->repair.waiting && want_bytes == m->repair.want_bytes);
    LH_ASSERT(grants == m->repair.grants);
    TAILQ_FOREACH(copy, &m->copies, link) {
        LH_ASSERT(copy->target != copy->source);
        LH_ASSERT(lh_timer_is_set(&copy->timer) || copy->chunk->removed);
        copies++;
    }
    LH_ASSERT(copies == m->repair.copies && enqueued == m->enqueued.count);
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        uint32_t in = 0, out = 0;
        TAILQ_FOREACH(copy, &m->copies, link) {
            in += copy->target == s;
            out += copy->source == s;
        }
        LH_ASSERT(in == s->copies_in && out == s->copies_out);
        LH_ASSERT(in <= m->config.repair_streams && out <= 2 * m->config.repair_streams);
        LH_ASSERT(in == 0 || s->session.client.session != 0);
    }
}

/* Before the first step there is what loading makes, and nothing is left of what an amendment has
 * replaced. */
static void check_loaded(const struct lh_master *m)
{
    size_t open = 0, leased = 0, waiting = 0, creating = 0, rolls = 0, rolling = 0, held = 0;
    const struct lh_m_creation *creation;
    const struct lh_lease *lease;
    const struct lh_m_chunk *c;
    const struct lh_m_file *f;
    const struct lh_m_server *s;
    struct lh_m_active *mo;
    const struct lh_m_roll *roll;

    LH_IDMAP_FOREACH(c, &m->chunks) {
        LH_ASSERT(!c->removed && !c->enqueued);
        open += !c->sealed;
        leased += lh_m_holder(c) != NULL;
        creating += !c->created;
        rolling += c->active->seal->roll != NULL;
    }
    LH_IDMAP_FOREACH(f, &m->files)
        LH_ASSERT((f->trashed || f->active->fence != 0) == (f->active != &lh_m_file_idle) &&
                  f->chunk_count <= m->chunks.count);
    TAILQ_FOREACH(s, &m->all_servers, all_link)
        held += s->session.client.count;
    TAILQ_FOREACH(lease, &m->leases.waiting, waiting_link)
        waiting++;
    TAILQ_FOREACH(creation, &m->creating, link)
        creating--;
    TAILQ_FOREACH(roll, &m->rolls, link)
        rolls++;
    LH_ASSERT(creating == 0 && rolls == rolling && waiting == leased && held == leased);
    RB_FOREACH(mo, lh_m_leased, (struct lh_m_leased *)(uintptr_t)&m->leased) {
        leased--;
    }
    LH_ASSERT(open == m->open.count && leased == 0 && TAILQ_EMPTY(&m->unsettled) &&
              TAILQ_EMPTY(&m->unsettled_files) && TAILQ_EMPTY(&m->work) && m->enqueued.count == 0);
    LH_ASSERT(m->timers.count <= 1); /* of the service of leases */
}

static void check_calls(const struct lh_master *m)
{
    const struct lh_m_call *call, *last = NULL;
    size_t count = 0;

    TAILQ_FOREACH(call, &m->calls.by_order, link) {
        LH_ASSERT(lh_m_call_find(m, call->client, call->number) == call && call->client != 0 &&
                  !lh_m_call_is_mark(call));
        LH_ASSERT(call->ticket < m->commit.next_ticket);
        LH_ASSERT(!m->started || ((last == NULL || last->order <= call->order) &&
                                     call->order < m->calls.next_order));
        last = call;
        count++;
    }
    LH_ASSERT(count == m->calls.count);
    TAILQ_FOREACH(call, &m->calls.marks, link) {
        LH_ASSERT(lh_m_call_find(m, call->client, 0) == call && lh_m_call_is_mark(call));
        count++;
    }
    LH_ASSERT(count == m->calls.count + m->calls.mark_count);
    LH_ASSERT(!m->started || count == 0 || lh_timer_is_set(&m->calls.timer));
    LH_ASSERT(m->calls.dirty_count == 0 && TAILQ_EMPTY(&m->calls.dropped));
    LH_ASSERT(m->calls.taken.client == 0);
}

static void check_moving(const struct lh_master *m)
{
    const struct lh_m_moving *v = &m->moving;

    LH_ASSERT(!m->started || lh_timer_is_set(&v->timer));
    LH_ASSERT(v->complete <= v->begun && v->move_count <= LH_M_MOVES);
    for (unsigned i = 0; i < v->move_count; i++)
        for (unsigned j = 0; j < i; j++) /* of one chunk, one replica at a time */
            LH_ASSERT(
                v->moves[i].chunk != v->moves[j].chunk || v->moves[i].moved || v->moves[j].moved);
}

static void check_program(const struct lh_master *m, const struct lh_m_program *p)
{
    const struct lh_m_value *v;
    size_t attached = 0;

    LH_ASSERT(lh_m_program_find(m, p->id) == p && !p->dirty && !p->settles && !p->out.gathers);
    LH_ASSERT(p->ticket < m->commit.next_ticket);
    TAILQ_FOREACH(v, &p->attached, attached_link) {
        LH_ASSERT(v->program == p && v->attached && memcmp(v->session, p->id, sizeof p->id) == 0);
        attached++;
    }
    LH_ASSERT(attached == p->attached_count);
    LH_ASSERT(!p->back || (!p->over && p->session.client.former == 0));
    LH_ASSERT(!p->over || ((p->closed || p->session.link == 0) && p->request_count == 0));
    LH_ASSERT(p->session.link != 0 || (p->parked || p->over || !m->started));
    if (p->session.link != 0) {
        const struct lh_m_link *l = lh_m_stream(m, p->session.link);
        LH_ASSERT(l != NULL && l->session == &p->session);
    }
    lh_lease_client_check(&m->leases, &p->session.client);
}

static void check_programs(const struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_name *n;
    const struct lh_m_value_change *c;
    size_t programs = 0, over = 0, values = 0, away = 0, bytes = 0, lookups_away = 0;

    RB_FOREACH(p, lh_m_programs, (struct lh_m_programs *)(uintptr_t)&m->programs.tree) {
        check_program(m, p);
        programs++;
        over += p->over;
        away += p->session.client.promised != 0;
        LH_ASSERT(p->session.client.promised == 0 || p->session.client.former != 0);
        lookups_away += p->awaited_for_lookups;
        LH_ASSERT(!p->awaited_for_lookups || (p->lookups && !p->back && !p->over));
    }
    RB_FOREACH(n, lh_m_name_tree, (struct lh_m_name_tree *)(uintptr_t)&m->names.tree) {
        const struct lh_m_value *v = n->more->value;
        if (v == NULL)
            continue;
        LH_ASSERT(v->name == n && v->revision <= m->history.last);
        LH_ASSERT(v->program == NULL || v->attached);
        values++;
    }
    LH_IDMAP_FOREACH(c, &m->history.changes) {
        LH_ASSERT(!c->dirty && c->revision <= m->history.last);
        bytes += sizeof *c + strlen(c->name) + c->bytes.size;
    }
    LH_ASSERT(programs == m->programs.count && over == m->programs.over);
    LH_ASSERT(values == m->values.count && bytes == m->history.bytes);
    LH_ASSERT(lookups_away == m->programs.lookups_away);
    LH_ASSERT(away == m->leases.away && (!m->started || m->programs.all_back == (away == 0)));
    LH_ASSERT(STAILQ_EMPTY(&m->programs.settling) && TAILQ_EMPTY(&m->programs.saying));
}

void lh_master_check(const struct lh_master *m)
{
    struct lh_m_chunk *c;
    struct lh_m_file *f;
    struct lh_m_server *s;
    const struct lh_m_creation *creation;
    const struct lh_lease *lease;
    const struct lh_m_reply *r;
    const struct lh_m_commit *commit;
    uint64_t ticket = m->commit.durable;

    if (m->stopped)
        return; /* memory may be ahead for good, and nobody acts on it */
    lh_grantor_check(m->leases.engine);
    lh_links_check(&m->links);
    check_pairs(m);
    LH_IDMAP_FOREACH(c, &m->chunks)
        check_chunk(m, c);
    LH_IDMAP_FOREACH(f, &m->files)
        check_file(m, f);
    for (s = m->servers; s != NULL; s = s->hh.next)
        check_server(m, s);
    if (!m->started)
        check_loaded(m);
    check_extras(m);
    check_calls(m);
    check_moving(m);
    check_programs(m);
    lh_m_locks_check(m);
    lh_m_values_check(m);
    check_repair(m);
    TAILQ_FOREACH(lease, &m->leases.waiting, waiting_link)
        LH_ASSERT(lease->waiting);
    TAILQ_FOREACH(creation, &m->creating, link)
        LH_ASSERT(creation->under_way);
    TAILQ_FOREACH(commit, &m->commit.under_way, link)
        LH_ASSERT(commit->ticket == ++ticket);
    LH_ASSERT(!m->started || (!m->dirty && ticket + 1 == m->commit.next_ticket));
    ticket = m->commit.durable;
    TAILQ_FOREACH(r, &m->commit.replies, queue) {
        LH_ASSERT(r->ticket > m->commit.durable && r->ticket >= ticket &&
                  r->ticket < m->commit.next_ticket);
        ticket = r->ticket;
    }
}
