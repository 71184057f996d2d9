/* Whether a chunkserver is heard at the address that it gave (SES-8). The master calls it there and
 * compares who answers with who has registered: before anything is placed there, again when the
 * process or the address is another one, and when others say that they do not reach it. */
#include "master/inventory/inventory.h"

#include "master/tables/changed.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* What `reached` is once this process was heard. Not 0, which is what says that none was. */
static uint64_t wanted(const struct lh_m_server *s)
{
    return s->process == 0 ? 1 : s->process;
}

/* ---- Calls: so many at a time, the others wait for their turn. */

static void call(struct lh_master *m, struct lh_m_server *s)
{
    Leasehold__IdentifyRequest request = LEASEHOLD__IDENTIFY_REQUEST__INIT;

    /* Numbers of other masters that this process was, or will be, are different ones. */
    s->reach.call = LH_MASTER_LINK | (m->term << 40 & (LH_MASTER_LINK - 1)) | ++m->reach.calls;
    s->reach.state = LH_M_REACH_CALLED;
    s->reach.called_at = m->now;
    TAILQ_INSERT_TAIL(&m->reach.called, s, reach.link);
    m->reach.called_count++;
    lh_fx_open(m->fx, s->reach.call, LH_METHOD_IDENTIFY, s->address, m->config.reach_wait);
    lh_fx_send(m->fx, s->reach.call, &request.base, NULL);
}

static void call_next(struct lh_master *m)
{
    struct lh_m_server *s;

    while (m->reach.called_count < m->config.reach_calls &&
           (s = TAILQ_FIRST(&m->reach.waiting)) != NULL) {
        TAILQ_REMOVE(&m->reach.waiting, s, reach.link);
        call(m, s);
    }
}

/* Out of the list that it is in. */
static void leave(struct lh_master *m, struct lh_m_server *s)
{
    if (s->reach.state == LH_M_REACH_WAITING)
        TAILQ_REMOVE(&m->reach.waiting, s, reach.link);
    if (s->reach.state == LH_M_REACH_CALLED) {
        TAILQ_REMOVE(&m->reach.called, s, reach.link);
        m->reach.called_count--;
    }
    s->reach.state = LH_M_REACH_IDLE;
}

static void ask(struct lh_master *m, struct lh_m_server *s)
{
    lh_timer_unset(&m->timers, &s->reach.timer);
    if (s->reach.state != LH_M_REACH_IDLE)
        return;
    s->reach.state = LH_M_REACH_WAITING;
    TAILQ_INSERT_TAIL(&m->reach.waiting, s, reach.link);
    call_next(m);
}

static void ask_again(void *core, struct lh_timer *timer)
{
    ask(core, LH_OWNER(timer, struct lh_m_server, reach.timer));
}

static struct lh_m_server *called_on(const struct lh_master *m, uint64_t link)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->reach.called, reach.link)
        if (s->reach.call == link)
            return s;
    return NULL;
}

/* ---- What follows from an answer. */

static void set_reached(struct lh_master *m, struct lh_m_server *s, uint64_t reached)
{
    bool changes = (s->reached != 0) != (reached != 0);

    if (s->reached == reached)
        return;
    s->reached = reached;
    lh_m_dirty_server(m, s);
    if (!changes)
        return;
    lh_m_unsettled(m);
    lh_m_server_changed(m, s);
    lh_m_touch_waited(m);
}

static void heard(struct lh_master *m, struct lh_m_server *s)
{
    if (s->reached == 0) {
        LH_MARK("server-reached");
        lh_fx_log(m->fx, LH_INFO, "chunkserver %s: heard at %s", s->id, s->address);
    }
    free(s->reach.why);
    s->reach.why = NULL;
    s->reach.failures = 0;
    set_reached(m, s, wanted(s));
}

static void not_heard(struct lh_master *m, struct lh_m_server *s, const char *why)
{
    char text[2 * LH_TEXT_BYTES];

    LH_MARK("server-unreached");
    snprintf(text, sizeof text, "the master did not hear it at %s: %s", s->address, why);
    if (s->reach.why == NULL || strcmp(s->reach.why, text) != 0) {
        free(s->reach.why);
        s->reach.why = lh_strdup(text);
        lh_fx_log(m->fx, LH_WARN,
            "chunkserver %s: %s; nothing is placed there (SES-8): check its --advertise, and what "
            "is between",
            s->id, text);
    }
    set_reached(m, s, 0);
    lh_timer_set(&m->timers, &s->reach.timer,
        lh_instant_add(m->now,
            lh_m_backoff(m->config.reach_retry, m->config.reach_retry_max, s->reach.failures++)));
}

void lh_m_reach_message(struct lh_master *m, uint64_t link, const Leasehold__IdentifyReply *answer)
{
    struct lh_m_server *s = called_on(m, link);
    char why[LH_TEXT_BYTES];

    if (s == NULL)
        return;
    leave(m, s);
    lh_fx_close(m->fx, link, LH_OK, NULL);
    if (strcmp(answer->server_id, s->id) != 0) {
        snprintf(why, sizeof why, "chunkserver \"%.128s\" answers there", answer->server_id);
        not_heard(m, s, why);
    } else if (s->process != 0 && answer->process != s->process) {
        not_heard(m, s, "another process under its name answers there");
    } else {
        heard(m, s);
    }
    call_next(m);
}

void lh_m_reach_closed(struct lh_master *m, uint64_t link, int error, const char *text)
{
    struct lh_m_server *s = called_on(m, link);
    char why[LH_TEXT_BYTES];

    if (s == NULL)
        return;
    leave(m, s);
    snprintf(why, sizeof why, "%s%s%.300s", error == LH_OK ? "no answer" : lh_error_text(error),
        text == NULL ? "" : ": ", text == NULL ? "" : text);
    not_heard(m, s, why);
    call_next(m);
}

/* ---- When it is called. */

void lh_m_reach_end(struct lh_master *m, struct lh_m_server *s)
{
    if (s->reach.state == LH_M_REACH_CALLED)
        lh_fx_close(m->fx, s->reach.call, LH_OK, NULL);
    leave(m, s);
    lh_timer_unset(&m->timers, &s->reach.timer);
    call_next(m);
}

void lh_m_reach_stop(struct lh_master *m)
{
    struct lh_m_server *s;

    while ((s = TAILQ_FIRST(&m->reach.waiting)) != NULL)
        leave(m, s);
    while ((s = TAILQ_FIRST(&m->reach.called)) != NULL)
        lh_m_reach_end(m, s);
}

void lh_m_reach_begin(struct lh_master *m, struct lh_m_server *s, bool identifies, bool moved)
{
    lh_m_reach_end(m, s);
    s->reach.identifies = identifies;
    s->reach.failures = 0;
    s->reach.timer.fire = ask_again;
    free(s->reach.why);
    s->reach.why = NULL;
    if (moved)
        s->reached = 0;
    if (!identifies || s->reached == wanted(s))
        return;
    if (s->reached != 0)
        LH_MARK("server-used-while-called");
    ask(m, s);
}

void lh_m_reach_doubt(struct lh_master *m, struct lh_m_server *s)
{
    if (!s->reach.identifies || s->reached == 0 || !lh_m_live(m, s) ||
        lh_instant_before(m->now, lh_instant_add(s->reach.called_at, m->config.reach_retry)))
        return;
    LH_MARK("server-doubted");
    ask(m, s);
}

const char *lh_m_unheard(const struct lh_m_server *s)
{
    if (lh_m_reached(s))
        return "";
    return s->reach.why != NULL ? s->reach.why : "its address is being called";
}
