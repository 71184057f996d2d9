/* The table of programs with sessions. */
#include "master/tables/program.h"

#include "master/tables/dirty.h"
#include "master/tables/tables.h"

int lh_m_compare_programs(const struct lh_m_program *a, const struct lh_m_program *b)
{
    return memcmp(a->id, b->id, sizeof a->id);
}

RB_GENERATE(lh_m_programs, lh_m_program, place, lh_m_compare_programs)

static struct lh_m_programs *tree(const struct lh_master *m)
{
    return (struct lh_m_programs *)(uintptr_t)&m->programs.tree;
}

static void key_of(struct lh_m_program *key, const uint8_t *id)
{
    memcpy(key->id, id, sizeof key->id);
}

struct lh_m_program *lh_m_program_find(const struct lh_master *m, const uint8_t *id)
{
    struct lh_m_program key;

    key_of(&key, id);
    return RB_FIND(lh_m_programs, tree(m), &key);
}

struct lh_m_program *lh_m_program_from(const struct lh_master *m, const uint8_t *id)
{
    struct lh_m_program key;

    key_of(&key, id);
    return RB_NFIND(lh_m_programs, tree(m), &key);
}

static char *title_of(const struct lh_m_program *p)
{
    char hex[2 * LH_M_SESSION_ID_BYTES + 1];

    if (p->label[0] != 0)
        return lh_strdup(p->label);
    for (size_t i = 0; i < sizeof p->id; i++)
        snprintf(hex + 2 * i, 3, "%02x", p->id[i]);
    return lh_strdup(hex);
}

struct lh_m_program *lh_m_program_new(struct lh_master *m, const uint8_t *id,
    struct lh_duration term, const char *host, const char *process, const char *label)
{
    struct lh_m_program *p = lh_alloc(sizeof *p);

    memcpy(p->id, id, sizeof p->id);
    p->term = term;
    p->host = lh_strdup(host);
    p->process = lh_strdup(process);
    p->label = lh_strdup(label);
    p->title = title_of(p);
    lh_lease_client_init(&p->session.client, LH_M_PROGRAM);
    p->session.name = p->title;
    RB_INIT(&p->requests);
    TAILQ_INIT(&p->attached);
    RB_INSERT(lh_m_programs, &m->programs.tree, p);
    m->programs.count++;
    return p;
}

/* For "old-showing-believed": it may have several. Of the master's links streams alone take
 * messages. */
static void forget_streams(struct lh_master *m, const struct lh_m_program *p)
{
    for (struct lh_link *l = m->links.by_id; l != NULL; l = l->hh.next) {
        struct lh_m_link *stream = LH_OWNER(l, struct lh_m_link, link);
        if (l->user->message != NULL && stream->session == &p->session)
            stream->session = NULL;
    }
}

void lh_m_program_free(struct lh_master *m, struct lh_m_program *p)
{
    struct lh_m_value *v;

    lh_m_pair_drop(m, &p->pair);
    while ((v = TAILQ_FIRST(&p->attached)) != NULL) {
        TAILQ_REMOVE(&p->attached, v, attached_link);
        v->program = NULL;
        TAILQ_INSERT_TAIL(&m->values.orphans, v, orphan_link);
    }
    if (LH_PLANTED("old-showing-believed"))
        forget_streams(m, p);
    m->programs.unsent -= p->out.unsent;
    if (p->out.gathers)
        TAILQ_REMOVE(&m->programs.saying, p, out.link);
    RB_REMOVE(lh_m_programs, &m->programs.tree, p);
    m->programs.count--;
    lh_buf_clear(&p->session.announcement);
    free(p->out.bytes);
    free(p->host);
    free(p->process);
    free(p->label);
    free(p->identity);
    free(p->title);
    free(p);
}

void lh_m_program_over(struct lh_master *m, struct lh_m_program *p)
{
    if (p->over)
        return;
    p->over = true;
    p->back = false;
    m->programs.over++;
    lh_m_note_over(m, p);
    lh_m_dirty_program(m, p);
}

void lh_m_program_settle(struct lh_master *m, struct lh_m_program *p)
{
    if (!p->over || p->settles)
        return;
    p->settles = true;
    STAILQ_INSERT_TAIL(&m->programs.settling, p, settle_link);
}

static bool is_needed(const struct lh_master *m, const struct lh_m_program *p)
{
    return p->dirty || !lh_m_is_durable(m, p->ticket) || p->locks > 0 || p->caches > 0 ||
           p->request_count > 0 || p->subscriptions != NULL || !TAILQ_EMPTY(&p->attached) ||
           p->session.link != 0 || p->session.client.session != 0 || p->session.client.former != 0;
}

void lh_m_programs_step(struct lh_master *m)
{
    struct lh_m_program *p;

    while ((p = STAILQ_FIRST(&m->programs.settling)) != NULL) {
        STAILQ_REMOVE_HEAD(&m->programs.settling, settle_link);
        p->settles = false;
        if (is_needed(m, p))
            continue;
        m->programs.over--;
        lh_m_program_free(m, p);
    }
}
