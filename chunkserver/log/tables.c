/* Writer tables of sealed logs: they are asked for when a file goes on elsewhere, and hardly ever
 * after. What is dropped is read back from the log when somebody asks. */
#include "chunkserver/log/tables.h"

#include "chunkserver/log/internal.h"
#include "chunkserver/log/scan.h"

void lh_cs_table_leave(struct lh_cs_replica *r)
{
    struct lh_cs_logs *logs = r->logs;

    if (!r->active->table.kept)
        return;
    struct lh_cs_active *mo = lh_cs_move(r);
    mo->table.kept = false;
    DL_DELETE2(logs->internal->tables.kept, mo, table.before, table.after);
    logs->internal->tables.count--;
}

void lh_cs_table_forget(struct lh_cs_replica *r)
{
    lh_cs_table_leave(r);
    lh_writers_clear(&r->writers);
    r->writers_known = false;
}

bool lh_cs_table_cut(struct lh_cs_replica *r, uint64_t length)
{
    if (r->end <= length || !r->writers_known || lh_writers_cut(&r->writers, length))
        return true;
    lh_writers_clear(&r->writers);
    r->writers_known = false;
    return false;
}

/* It may be a log that is copied again by now, and grows: then its table is needed. */
static void rest(struct lh_cs_replica *r)
{
    if (r->header.sealed)
        lh_cs_table_forget(r);
    else
        lh_cs_table_leave(r);
}

static struct lh_instant rests_at(const struct lh_cs_logs *logs)
{
    return lh_instant_add(logs->internal->tables.kept->table.asked_at,
        lh_milliseconds(logs->cs->config.bounds.settle_table_ms));
}

void lh_cs_table_keep(struct lh_cs_replica *r)
{
    struct lh_cs_logs *logs = r->logs;
    struct lh_cs_active *mo = lh_cs_move(r);

    lh_cs_table_leave(r);
    mo->table.kept = true;
    mo->table.asked_at = r->logs->cs->now;
    DL_APPEND2(logs->internal->tables.kept, mo, table.before, table.after);
    logs->internal->tables.count++;
    if (logs->internal->tables.count > r->logs->cs->config.bounds.settle_tables) {
        LH_MARK("writer-table-makes-room");
        rest(logs->internal->tables.kept->replica);
    }
    if (!lh_timer_is_set(&logs->internal->tables.timer))
        lh_timer_set(&r->logs->cs->timers, &logs->internal->tables.timer, rests_at(logs));
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs_internal, tables.timer)->logs;

    (void)core;
    while (logs->internal->tables.kept != NULL && lh_instant_reached(logs->cs->now, rests_at(logs)))
        rest(logs->internal->tables.kept->replica);
    if (logs->internal->tables.kept != NULL)
        lh_timer_set(&logs->cs->timers, &logs->internal->tables.timer, rests_at(logs));
}

void lh_cs_tables_init(struct lh_cs_logs *logs)
{
    logs->internal->tables.timer.fire = look;
}

const struct lh_writers *lh_cs_replica_writers(const struct lh_cs_replica *r)
{
    return r->writers;
}

bool lh_cs_table_known(const struct lh_cs_replica *r)
{
    return r->writers_known;
}

void lh_cs_table_asked(struct lh_cs_replica *r)
{
    if (r->active->table.kept)
        lh_cs_table_keep(r);
}

void lh_cs_table_read(struct lh_cs_replica *r)
{
    lh_cs_scan_start(r);
}
