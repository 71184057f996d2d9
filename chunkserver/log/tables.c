/* Writer tables of sealed logs: they are asked for when a file goes on elsewhere, and hardly ever
 * after. What is dropped is read back from the log when somebody asks. */
#include "chunkserver/log/tables.h"

#include "chunkserver/log/replica.h"

static void leave(struct lh_cs_replica *r)
{
    if (!r->table.kept)
        return;
    r->table.kept = false;
    DL_DELETE2(r->logs->tables.kept, r, table.before, table.after);
    r->logs->tables.count--;
}

void lh_cs_table_forget(struct lh_cs_replica *r)
{
    leave(r);
    lh_writers_clear(&r->writers);
    r->writers_known = false;
}

/* It may be a log that is copied anew by now, and grows: then its table is needed. */
static void rest(struct lh_cs_replica *r)
{
    if (r->header.sealed)
        lh_cs_table_forget(r);
    else
        leave(r);
}

static struct lh_instant rests_at(const struct lh_cs_replica *r)
{
    return lh_instant_add(r->table.asked_at, lh_milliseconds(r->cs->config.bounds.settle_table_ms));
}

void lh_cs_table_keep(struct lh_cs_replica *r)
{
    struct lh_cs_logs *logs = r->logs;

    leave(r);
    r->table.kept = true;
    r->table.asked_at = r->cs->now;
    DL_APPEND2(logs->tables.kept, r, table.before, table.after);
    logs->tables.count++;
    if (logs->tables.count > r->cs->config.bounds.settle_tables) {
        LH_MARK("writer-table-makes-room");
        rest(logs->tables.kept);
    }
    if (!lh_timer_is_set(&logs->tables.timer))
        lh_timer_set(&r->cs->timers, &logs->tables.timer, rests_at(logs->tables.kept));
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs, tables.timer);

    (void)core;
    while (
        logs->tables.kept != NULL && lh_instant_reached(logs->cs->now, rests_at(logs->tables.kept)))
        rest(logs->tables.kept);
    if (logs->tables.kept != NULL)
        lh_timer_set(&logs->cs->timers, &logs->tables.timer, rests_at(logs->tables.kept));
}

void lh_cs_tables_init(struct lh_cs_logs *logs)
{
    logs->tables.timer.fire = look;
}
