/* The end of a master's core: everything that it remembers is freed. */
#include "master/master.h"

#include "master/calls/calls.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/locks/locks.h"
#include "master/programs/programs.h"
#include "master/seal/seal.h"
#include "master/sessions/sessions.h"
#include "master/tables/answers.h"
#include "master/tables/call.h"
#include "master/tables/chunk.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

static void free_queues(struct lh_master *m)
{
    struct lh_m_reply *r;
    while ((r = TAILQ_FIRST(&m->commit.replies)) != NULL) {
        TAILQ_REMOVE(&m->commit.replies, r, queue);
        lh_buf_clear(&r->message);
        free(r);
    }
    struct lh_m_again *again;
    while ((again = STAILQ_FIRST(&m->commit.again)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->commit.again, link);
        free(again);
    }
    struct lh_m_commit *commit;
    while ((commit = TAILQ_FIRST(&m->commit.under_way)) != NULL) {
        TAILQ_REMOVE(&m->commit.under_way, commit, link);
        free(commit->chunks);
        free(commit->servers);
        free(commit->programs);
        free(commit);
    }
}

/* Programs, names, values and policies. */
static void free_leases(struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_policy *policy;
    struct lh_m_name *n;

    while ((n = RB_ROOT(&m->names.tree)) != NULL) {
        if (n->more->value != NULL)
            lh_buf_clear(&n->more->value->bytes);
        free(n->more->value);
        if (n->more != &lh_m_name_nothing)
            free((void *)(uintptr_t)n->more);
        RB_REMOVE(lh_m_name_tree, &m->names.tree, n);
        free(n);
    }
    for (size_t i = 0; i < m->names.page_count; i++)
        free(m->names.by_number[i]);
    free(m->names.by_number);
    free(m->names.free_numbers);
    lh_m_history_deinit(m);
    lh_m_events_deinit(m);
    while ((policy = RB_ROOT(&m->policies.tree)) != NULL) {
        policy->dirty = false;
        lh_m_policy_free(m, policy);
    }
    while ((p = RB_ROOT(&m->programs.tree)) != NULL) {
        TAILQ_INIT(&p->attached); /* they are gone */
        lh_m_program_free(m, p);
    }
}

void lh_master_destroy(struct lh_master *m)
{
    if (m == NULL)
        return;
    /* First: some take their timers out of the tree themselves, others are freed with theirs. */
    while (m->timers.count > 0)
        lh_timer_unset(&m->timers, m->timers.heap[0]);
    lh_timers_deinit(&m->timers);
    lh_m_values_deinit(m);
    struct lh_link *l, *next;
    LH_LINKS_FOREACH(&m->links, &lh_m_stream_links, l, next)
        lh_m_stream_forget(m, LH_OWNER(l, struct lh_m_link, link));
    struct lh_m_file_active *waited;
    while ((waited = TAILQ_FIRST(&m->waited)) != NULL)
        lh_m_waiter_free(m, TAILQ_FIRST(&waited->waiters));
    struct lh_m_prealloc *prealloc;
    LH_IDMAP_FOREACH(prealloc, &m->preallocs)
        lh_m_prealloc_free(m, prealloc);
    lh_idmap_deinit(&m->preallocs);
    struct lh_m_chunk *c;
    while ((c = lh_idmap_from(&m->chunks, 0)) != NULL)
        lh_m_chunk_free(m, c);
    lh_idmap_deinit(&m->open);
    lh_idmap_deinit(&m->chunks);
    struct lh_m_file *f;
    while ((f = lh_idmap_from(&m->files, 0)) != NULL) {
        lh_idmap_remove(&m->files, f);
        lh_m_file_free(m, f);
    }
    lh_idmap_deinit(&m->files);
    struct lh_m_server *s, *next_server;
    HASH_ITER(hh, m->servers, s, next_server) {
        HASH_DELETE(hh, m->servers, s);
        lh_m_extras_forget(m, s);
        lh_buf_clear(&s->session.announcement);
        free(s->id);
        free(s->machine_id);
        free(s->address);
        free(s->failure_domain);
        free(s->census.obstacle);
        free(s->reach.why);
        free(s->report.items);
        free(s);
    }
    free(m->server_list);
    free(m->reigns.items);
    free(m->enqueued.chunks);
    struct lh_m_tombstone *t;
    while ((t = lh_idmap_from(&m->tombstones, 0)) != NULL) {
        lh_idmap_remove(&m->tombstones, t);
        free(t);
    }
    lh_idmap_deinit(&m->tombstones);
    free_queues(m);
    lh_m_locks_deinit(m);
    free_leases(m);
    lh_m_calls_deinit(m);
    lh_m_refused_deinit(m);
    lh_capability_issuer_deinit(&m->issuer);
    lh_leases_deinit(&m->leases);
    lh_master_know_masters(m, NULL, 0);
    free(m->masters);
    free(m->cluster_id);
    free(m->behind);
    free(m->store_fills);
    free(m);
}
