#include "runtime/transport.h"

static struct lh_duration or_ms(struct lh_duration d, uint64_t ms)
{
    return d.ns == 0 ? lh_milliseconds(ms) : d;
}

struct lh_transport_config lh_transport_defaults(const struct lh_transport_config *config)
{
    struct lh_transport_config c = *config;

    c.keepalive = or_ms(c.keepalive, 2000);
    c.keepalive_timeout = or_ms(c.keepalive_timeout, 2000);
    c.connect_timeout = or_ms(c.connect_timeout, 2000);
    c.grace = or_ms(c.grace, 200);
    c.reply_timeout = or_ms(c.reply_timeout, 10000);
    c.handshake_timeout = or_ms(c.handshake_timeout, 20000);
    c.request_timeout = or_ms(c.request_timeout, 30000);
    return c;
}
