/* Capabilities, as this server asks for them (ACC-5), and the keys that it is told (ACC-6). */
#include "chunkserver/host/host.h"

#include <inttypes.h>
#include <stdio.h>

int lh_cs_capability(struct lh_cs_host *cs, uint64_t chunk, unsigned rights,
    const ProtobufCBinaryData *shown, struct lh_instant *until, const char **text)
{
    *until = LH_INSTANT_NEVER;
    if (!cs->config.capabilities || LH_PLANTED("capability-not-asked"))
        return LH_OK;
    enum lh_capability_verdict verdict =
        lh_capability_check(&cs->keys, chunk, rights, shown->data, shown->len, cs->now, until);
    if (verdict == LH_CAPABILITY_HOLDS) {
        LH_MARK("capability-holds");
        return LH_OK;
    }
    *text = lh_capability_text(verdict);
    if (verdict == LH_CAPABILITY_OVER || verdict == LH_CAPABILITY_UNKNOWN) {
        if (verdict == LH_CAPABILITY_OVER)
            LH_MARK("capability-over");
        else
            LH_MARK("capability-key-unknown");
        cs->counts.capabilities_stale++;
        return LH_ERR_STALE_CAPABILITY;
    }
    char said[LH_ACCESS_TEXT_MAX];
    LH_MARK("capability-refused");
    cs->counts.access_refused++;
    (void)snprintf(said, sizeof said, "%.256s, chunk %" PRIu64 ": %s",
        cs->peer == NULL || cs->peer[0] == '\0' ? "a peer without a name" : cs->peer, chunk, *text);
    lh_access_say(&cs->refusals, cs->fx, cs->now,
        lh_milliseconds(cs->config.bounds.refusal_log_pause_ms), said);
    return LH_ERR_STALE_CAPABILITY;
}

void lh_cs_capability_keys(
    struct lh_cs_host *cs, uint64_t stamp, Leasehold__CapabilityKey *const *keys, size_t count)
{
    struct lh_instant at = LH_PLANTED("key-age-counts-from-receipt")
                               ? cs->now
                               : (struct lh_instant){stamp}; /* TIME-1 */

    for (size_t i = 0; cs->config.capabilities && i < count; i++)
        if (keys[i]->secret.len == LH_CAPABILITY_SECRET_BYTES)
            lh_capability_learn(&cs->keys, keys[i]->number, keys[i]->secret.data, at,
                lh_nanoseconds(keys[i]->age_ns));
}
