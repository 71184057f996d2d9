/* Who answers at this server's address (SES-8). */
#include "chunkserver/session/session.h"

static void message(struct lh_cs_link *l, const void *request, struct lh_buf *payload)
{
    struct lh_cs_host *cs = l->cs;
    Leasehold__IdentifyReply m = LEASEHOLD__IDENTIFY_REPLY__INIT;
    uint64_t link = l->id;

    (void)request;
    (void)payload;
    m.server_id = (char *)(uintptr_t)cs->config.server_id;
    m.process = cs->config.process;
    lh_fx_send(cs->fx, link, &m.base, NULL);
    lh_cs_link_close(cs, link, LH_OK, NULL);
}

static void closed(struct lh_cs_link *gone, const char *text)
{
    (void)gone;
    (void)text;
}

const struct lh_cs_link_user lh_cs_identify_links = {.message = message, .closed = closed};
