/* SetServer: what the operator wants of a chunkserver. */
#include "master/calls/calls.h"

#include "master/calls/internal.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/tables/changed.h"
#include "master/tables/dirty.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"

/* Preallocated chunks with a replica there are given back: they would be moved as soon as they are
 * used. */
static void drop_preallocs(struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_m_prealloc *prealloc;

    LH_IDMAP_FOREACH(prealloc, &m->preallocs)
        if (lh_m_prealloc_member(prealloc, s) != NULL) {
            LH_MARK("drain-drops-preallocated");
            lh_m_prealloc_drop(m, prealloc->file);
        }
}

static void set_admin(struct lh_master *m, struct lh_m_server *s, Leasehold__ServerAdmin admin)
{
    s->admin = admin;
    lh_m_dirty_server(m, s);
    if (lh_m_drained(s))
        drop_preallocs(m, s);
    lh_m_unsettled(m);
    lh_m_moving_restart(m, s);
    lh_fx_log(m->fx, LH_INFO, "chunkserver %s: %s, by the operator's word", s->id,
        admin == LEASEHOLD__SERVER_ADMIN__ACTIVE     ? "takes leases and replicas"
        : admin == LEASEHOLD__SERVER_ADMIN__DRAINING ? "drained"
                                                     : "decommissioned");
    lh_m_touch_waited(m);
    lh_m_sweep(m);
}

/* The server that the request names. NULL: `*error` and `text` say why. */
static struct lh_m_server *named_server(const struct lh_master *m,
    const Leasehold__SetServerRequest *request, int *error, char *text, size_t text_size)
{
    struct lh_m_server *s;

    *error = LH_OK;
    if ((unsigned)request->admin > LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING) {
        *error = LH_ERR_INVALID_ARGUMENT;
        snprintf(text, text_size, "what a chunkserver should be is not known to this release");
        return NULL;
    }
    HASH_FIND_STR(m->servers, request->server_id, s);
    if (s == NULL || (s->incarnation == 0 && !lh_m_drained(s))) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(text, text_size,
            "no chunkserver \"%.128s\" has registered: `leasehold servers` lists those that have",
            request->server_id);
        return NULL;
    }
    if (lh_m_forgotten(s) && request->admin == LEASEHOLD__SERVER_ADMIN__DRAINING) {
        *error = LH_ERR_NOT_FOUND;
        snprintf(
            text, text_size, "chunkserver %s was decommissioned: there is nothing to drain", s->id);
        return NULL;
    }
    return s;
}

void lh_m_set_server(struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request)
{
    Leasehold__SetServerReply reply = LEASEHOLD__SET_SERVER_REPLY__INIT;
    Leasehold__ServerInfo info;
    char text[LH_TEXT_BYTES];
    int error;
    struct lh_m_server *s = named_server(m, request, &error, text, sizeof text);

    if (s == NULL) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = text;
        lh_m_reply(m, link, 1, &reply.base);
        return;
    }
    if (s->admin != request->admin) {
        set_admin(m, s, request->admin);
        lh_m_moving_advance(m);
    }
    lh_m_server_view(m, s, &info);
    reply.server = &info;
    if (lh_m_too_few_left(m, s, text, sizeof text))
        reply.error_text = text; /* done as asked, but to be known */
    lh_m_reply(m, link, s->ticket, &reply.base);
}
