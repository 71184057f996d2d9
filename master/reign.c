#include "master/reign.h"

#include "base/prng.h"
#include "master/master.h"
#include "master/sessions/sessions.h"

#include <inttypes.h>

static uint64_t draw_name(const struct lh_master *m)
{
    return lh_mix64(m->config.seed + m->term * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

void lh_m_reign_start(struct lh_master *m)
{
    bool given = m->config.reign_name != 0;

    lh_m_reign_begin(m, given ? m->config.reign_name : draw_name(m), m->config.restored);
}

/* Who has a session comes again, and nothing is granted before this reign is durable: what answers
 * a client waits for the commit that its record is in. Leases go on as when streams break. */
static void end_streams(struct lh_master *m)
{
    struct lh_m_program *p;

    lh_m_streams_end(m, LH_ERR_UNAVAILABLE, "a new reign begins: come again", "a new reign begins");
    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        p->ticket = m->commit.next_ticket;
    }
}

static void look_at_what_was_heard(struct lh_master *m)
{
    char text[LH_TEXT_BYTES];

    for (size_t i = 0; i < 2; i++) {
        if (lh_m_reign_check(m, "who asks for the active master", m->reigns.heard[i].number,
                m->reigns.heard[i].name, 0, text, sizeof text) != LH_OK)
            LH_MARK("reign-heard-of");
        m->reigns.heard[i].number = m->reigns.heard[i].name = 0;
    }
}

void lh_m_reign_step(struct lh_master *m)
{
    look_at_what_was_heard(m);
    uint64_t above = m->reigns.above;

    if (m->reigns.dirty)
        return; /* one began with this step */
    m->reigns.above = 0;
    if (above < m->term || m->stopping)
        return;
    LH_MARK("reign-raised");
    end_streams(m);
    m->term = above + 1;
    lh_m_reign_begin(m, draw_name(m), false);
    lh_m_capabilities_start(m);
    lh_fx_log(m->fx, LH_WARN,
        "reign %" PRIu64 " begins, above the reign %" PRIu64
        " that was seen elsewhere: no token is given twice",
        m->term, above);
}

uint64_t lh_master_reign_name(const struct lh_master *m, uint64_t reign)
{
    return lh_m_reign_name(m, reign);
}

void lh_master_hears(struct lh_master *m, const Leasehold__MastersRequest *request)
{
    if (m->started)
        lh_m_reign_hears(m, request);
}
