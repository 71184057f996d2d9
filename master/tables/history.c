/* Values and the last changes of them. */
#include "master/tables/history.h"

#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <stddef.h>

static size_t cost_of(const struct lh_m_value_change *c)
{
    return sizeof *c + strlen(c->name) + c->bytes.size;
}

static struct lh_m_value_change *make(uint64_t revision, const char *name)
{
    size_t size = strlen(name);
    struct lh_m_value_change *c = lh_alloc(offsetof(struct lh_m_value_change, name) + size + 1);

    c->revision = revision;
    memcpy(c->name, name, size + 1);
    return c;
}

static void note(struct lh_master *m, const struct lh_m_value_change *c)
{
    const struct lh_m_event event = {
        .subject = lh_m_event_of_name(m, c->name),
        .kind = c->removed ? LEASEHOLD__LEASE_EVENT_KIND__VALUE_REMOVED
                           : LEASEHOLD__LEASE_EVENT_KIND__VALUE_CHANGED,
        .version = c->revision,
        .why = c->attached ? "attached to a session" : NULL,
    };

    lh_m_note(m, &event);
}

static void enter(struct lh_master *m, struct lh_m_value_change *c)
{
    lh_idmap_add(&m->history.changes, c);
    m->history.bytes += cost_of(c);
    if (c->revision > m->history.last)
        m->history.last = c->revision;
}

static void leave(struct lh_master *m, struct lh_m_value_change *c)
{
    LH_ASSERT(!c->dirty);
    lh_m_pair_drop(m, &c->pair);
    lh_idmap_remove(&m->history.changes, c);
    m->history.bytes -= cost_of(c);
    lh_buf_clear(&c->bytes);
    free(c);
}

struct lh_m_value_change *lh_m_history_from(const struct lh_master *m, uint64_t revision)
{
    return lh_idmap_from(&m->history.changes, revision);
}

/* ---- Values. */

static void attach(struct lh_master *m, struct lh_m_value *v, const uint8_t *session)
{
    v->attached = session != NULL;
    if (!v->attached)
        return;
    memcpy(v->session, session, sizeof v->session);
    v->program = lh_m_program_find(m, session);
    if (v->program == NULL) {
        TAILQ_INSERT_TAIL(&m->values.orphans, v, orphan_link);
        return;
    }
    TAILQ_INSERT_TAIL(&v->program->attached, v, attached_link);
    v->program->attached_count++;
}

static void detach(struct lh_master *m, struct lh_m_value *v)
{
    if (!v->attached)
        return;
    v->attached = v->leaving = false;
    if (v->program == NULL) {
        TAILQ_REMOVE(&m->values.orphans, v, orphan_link);
        return;
    }
    TAILQ_REMOVE(&v->program->attached, v, attached_link);
    v->program->attached_count--;
    lh_m_program_settle(m, v->program);
    v->program = NULL;
}

void lh_m_value_leaves(struct lh_master *m, struct lh_m_value *v)
{
    LH_ASSERT(v->attached);
    v->leaving = true;
    if (v->program == NULL) {
        TAILQ_REMOVE(&m->values.orphans, v, orphan_link);
        TAILQ_INSERT_TAIL(&m->values.orphans, v, orphan_link);
    } else {
        TAILQ_REMOVE(&v->program->attached, v, attached_link);
        TAILQ_INSERT_TAIL(&v->program->attached, v, attached_link);
    }
}

static struct lh_m_value *get(struct lh_master *m, struct lh_m_name *name)
{
    struct lh_m_value *v = name->more->value;

    if (v != NULL)
        return v;
    v = lh_alloc(sizeof *v);
    v->name = name;
    lh_m_name_more(name)->value = v;
    m->values.count++;
    return v;
}

static void drop(struct lh_master *m, struct lh_m_value *v)
{
    detach(m, v);
    lh_m_pair_drop(m, &v->pair);
    lh_m_name_more(v->name)->value = NULL;
    m->values.count--;
    m->values.bytes -= v->bytes.size;
    lh_buf_clear(&v->bytes);
    free(v);
}

uint64_t lh_m_value_put(struct lh_master *m, struct lh_m_name *name, struct lh_buf *bytes,
    uint64_t token, struct lh_m_program *program)
{
    struct lh_m_value *v = get(m, name);
    struct lh_m_value_change *c = make(m->history.last + 1, name->text);

    LH_ASSERT(bytes->count <= 1);
    m->values.bytes += bytes->size;
    m->values.bytes -= v->bytes.size;
    lh_buf_clear(&v->bytes);
    v->bytes = lh_buf_take(bytes);
    v->revision = c->revision;
    v->token = token;
    v->changed_at = m->now;
    v->ticket = m->commit.next_ticket;
    detach(m, v);
    attach(m, v, program == NULL ? NULL : program->id);
    c->bytes = lh_buf_ref(&v->bytes);
    c->attached = v->attached;
    memcpy(c->session, v->session, sizeof c->session);
    enter(m, c);
    note(m, c);
    lh_m_dirty_change(m, c);
    return c->revision;
}

uint64_t lh_m_value_remove(struct lh_master *m, struct lh_m_name *name)
{
    struct lh_m_value_change *c = make(m->history.last + 1, name->text);

    drop(m, name->more->value);
    c->removed = true;
    enter(m, c);
    note(m, c);
    lh_m_dirty_change(m, c);
    return c->revision;
}

/* ---- Loading. */

void lh_m_value_load(struct lh_master *m, const char *text, uint64_t revision, const uint8_t *bytes,
    size_t size, const uint8_t *session, uint64_t token)
{
    struct lh_m_value *v = get(m, lh_m_name_get(m, text));
    const struct lh_m_value_change *c = lh_idmap_find(&m->history.changes, revision);

    detach(m, v);
    m->values.bytes += size;
    m->values.bytes -= v->bytes.size;
    lh_buf_clear(&v->bytes);
    v->bytes = c != NULL && !c->removed && c->bytes.size == size && strcmp(c->name, text) == 0
                   ? lh_buf_ref(&c->bytes)
                   : lh_buf_copy(bytes, size);
    v->revision = revision;
    v->token = token;
    attach(m, v, session);
    if (revision > m->history.last)
        m->history.last = revision;
}

void lh_m_values_adopt(struct lh_master *m, struct lh_m_program *p)
{
    struct lh_m_value *v, *next;

    for (v = TAILQ_FIRST(&m->values.orphans); v != NULL; v = next) {
        next = TAILQ_NEXT(v, orphan_link);
        if (memcmp(v->session, p->id, sizeof p->id) != 0)
            continue;
        TAILQ_REMOVE(&m->values.orphans, v, orphan_link);
        v->program = p;
        TAILQ_INSERT_TAIL(&p->attached, v, attached_link);
        p->attached_count++;
    }
}

void lh_m_value_unload(struct lh_master *m, const char *text)
{
    struct lh_m_name *name = lh_m_name_find(m, text);

    if (name == NULL || name->more->value == NULL)
        return;
    drop(m, name->more->value);
    lh_m_name_settle(m, name);
}

void lh_m_history_load(struct lh_master *m, uint64_t revision, const char *name, bool removed,
    const uint8_t *bytes, size_t size, const uint8_t *session)
{
    lh_m_history_forget(m, revision);
    struct lh_m_value_change *c = make(revision, name);
    c->removed = removed;
    c->bytes = lh_buf_copy(bytes, size);
    c->attached = session != NULL;
    if (session != NULL)
        memcpy(c->session, session, sizeof c->session);
    enter(m, c);
}

void lh_m_history_forget(struct lh_master *m, uint64_t revision)
{
    struct lh_m_value_change *c = lh_idmap_find(&m->history.changes, revision);

    if (c != NULL)
        leave(m, c);
}

/* ---- Bounds. */

/* With each change go some of the oldest, so no commit is made for their sake. The last one stays:
 * it says which revision comes next. */
void lh_m_history_step(struct lh_master *m)
{
    struct lh_m_history *h = &m->history;
    struct lh_m_value_change *c;

    if (STAILQ_EMPTY(&m->commit.dirty_changes))
        return;
    for (uint32_t i = 0;
         i < m->config.history_dropped && h->changes.count > 1 &&
         (h->changes.count > m->config.history_events || h->bytes > m->config.history_bytes);
         i++) {
        c = lh_m_history_from(m, 0);
        if (c->dirty)
            break; /* a commit has each key once */
        LH_GROW(h->dropped, h->dropped_capacity, h->dropped_count + 1);
        h->dropped[h->dropped_count++] = c->revision;
        leave(m, c);
    }
}

void lh_m_history_deinit(struct lh_master *m)
{
    struct lh_m_value_change *c;

    while ((c = lh_m_history_from(m, 0)) != NULL) {
        c->dirty = false;
        leave(m, c);
    }
    lh_idmap_deinit(&m->history.changes);
    free(m->history.dropped);
}
