/* What a server or a program has seen of reigns before (SES-9). */
#include "finder/finder.h"
#include "master/sessions/sessions.h"
#include "master/tables/behind.h"

#include <inttypes.h>

/* A reign begins above it before anything else is said. */
static void raise_above(struct lh_master *m, uint64_t number)
{
    if (number >= m->term && number > m->reigns.above && !LH_PLANTED("reign-not-raised"))
        m->reigns.above = number;
}

static int another_history(
    struct lh_master *m, const char *who, uint64_t number, char *text, size_t text_size)
{
    LH_MARK("another-history-refused");
    snprintf(text, text_size,
        "%s has seen another history: reign %" PRIu64
        ", which in this store %s. Was the store restored from an older copy? Then start one "
        "master with --restored. Did it come from another store? Then do not use it here",
        who, number, lh_m_reign_name(m, number) == 0 ? "never was" : "was another one");
    lh_m_set_behind(m, "%s", text);
    raise_above(m, number);
    return LH_ERR_WRONG_IDENTITY;
}

static int is_above(struct lh_master *m, const char *who, uint64_t number, bool accepted,
    char *text, size_t text_size)
{
    if (accepted) {
        LH_MARK("restored-reign-goes-above");
        snprintf(text, text_size, "%s has seen reign %" PRIu64 ": the next one is above it", who,
            number);
        raise_above(m, number);
        return LH_ERR_UNAVAILABLE;
    }
    snprintf(text, text_size,
        "%s has seen master term %" PRIu64 ", this master's is %" PRIu64
        ": another master is running, or the metadata store was restored from a backup: then "
        "start this master with --restored",
        who, number, m->term);
    return LH_ERR_STALE_MASTER;
}

/* By what the store has at that number. Below all that it has, the number alone counts, as where no
 * name was reported. */
static bool fits(const struct lh_master *m, uint64_t number, uint64_t name)
{
    return name == 0 || name == lh_m_reign_name(m, number) || number < m->reigns.items[0].number ||
           LH_PLANTED("other-history-believed");
}

bool lh_m_reign_fits(const struct lh_master *m, uint64_t number, uint64_t name)
{
    return number <= m->term && (m->reigns.count == 0 || fits(m, number, name));
}

int lh_m_reign_check(struct lh_master *m, const char *who, uint64_t number, uint64_t name,
    uint64_t met_in, char *text, size_t text_size)
{
    bool once = met_in < m->reigns.restored ||
                (m->reigns.restored != 0 && LH_PLANTED("restored-accepts-for-ever"));
    bool far = number > m->term && number - m->term >= LH_REIGN_LEAP;

    if (number == 0 || (number <= m->term && fits(m, number, name)))
        return LH_OK;
    if (far || (name == 0 && !once))
        return is_above(m, who, number, false, text, text_size);
    if (!once)
        return another_history(m, who, number, text, text_size);
    LH_MARK("seen-before-the-store-was-restored");
    return number < m->term ? LH_OK : is_above(m, who, number, true, text, text_size);
}

void lh_m_reign_hears(struct lh_master *m, const Leasehold__MastersRequest *request)
{
    if (request->reign_name_seen != 0 && request->reign_seen >= m->term) {
        m->reigns.heard[0].number = request->reign_seen;
        m->reigns.heard[0].name = request->reign_name_seen;
    }
    if (request->reign_heard > m->term && m->behind != NULL)
        m->reigns.heard[1].number = request->reign_heard;
}
