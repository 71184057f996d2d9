/* Replies to unary calls. */
#pragma once

#include "master/tables/tables.h"

/* How many items a page of a listing has; 0 is asked for: the `preset` number. */
static inline uint32_t lh_m_page_size(uint32_t asked, uint32_t preset, uint32_t max)
{
    return asked == 0 ? preset : asked < max ? asked : max;
}

/* What an item takes of a page's bytes: what precedes it, too. */
static inline size_t lh_m_page_cost(const ProtobufCMessage *item)
{
    return protobuf_c_message_get_packed_size(item) + 8;
}

/* Counts an item that is the next of a listing's page, which so far has `*bytes`. False: the page
 * is full without it (`list_bytes`). The first one always fits. */
static inline bool lh_m_page_takes(
    const struct lh_master *m, size_t *bytes, const ProtobufCMessage *item)
{
    size_t size = lh_m_page_cost(item);

    if (*bytes > 0 && *bytes + size > m->config.list_bytes)
        return false;
    *bytes += size;
    return true;
}

/* Answers a unary call with what is durable in commit `ticket`: now, or when it is. */
void lh_m_reply(
    struct lh_master *m, uint64_t link, uint64_t ticket, const ProtobufCMessage *message);
/* The commit that what is known of `f` (NULL: of the namespace) depends on. */
uint64_t lh_m_ticket(const struct lh_master *m, const struct lh_m_file *f);
/* Answers a call of that method with an error alone. */
void lh_m_refuse(
    struct lh_master *m, uint64_t link, enum lh_method method, int error, const char *why);
/* A commit is durable: sends the replies that waited for it. */
void lh_m_replies_durable(struct lh_master *m);
/* The oldest commit has no room (`starved`): refuses what waits for it. */
void lh_m_replies_starved(struct lh_master *m);
