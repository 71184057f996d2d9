/* Capabilities, as this server asks for them (ACC-5, ACC-9), and the keys that it is told (ACC-6,
 * ACC-9). */
#include "chunkserver/host/host.h"

#include <inttypes.h>
#include <stdio.h>

static const char *peer_of(const struct lh_cs_host *cs)
{
    return cs->peer == NULL || cs->peer[0] == '\0' ? "a peer without a name" : cs->peer;
}

/* What has run out, or was made with a key that is not here, is nobody's fault. */
static int refuse(struct lh_cs_host *cs, uint64_t chunk, enum lh_capability_verdict verdict)
{
    char said[LH_ACCESS_TEXT_MAX];

    if (verdict == LH_CAPABILITY_OVER || verdict == LH_CAPABILITY_UNKNOWN) {
        if (verdict == LH_CAPABILITY_OVER)
            LH_MARK("capability-over");
        else
            LH_MARK("capability-key-unknown");
        cs->counts.capabilities_stale++;
        return LH_ERR_STALE_CAPABILITY;
    }
    LH_MARK("capability-refused");
    cs->counts.access_refused++;
    (void)snprintf(said, sizeof said, "%.256s, chunk %" PRIu64 ": %s", peer_of(cs), chunk,
        lh_capability_text(verdict));
    lh_access_say(&cs->refusals, cs->fx, cs->now,
        lh_milliseconds(cs->config.bounds.refusal_log_pause_ms), said);
    return LH_ERR_STALE_CAPABILITY;
}

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
    return refuse(cs, chunk, verdict);
}

int lh_cs_may_lead(struct lh_cs_host *cs, uint64_t chunk, uint64_t version,
    const ProtobufCBinaryData *shown, const char **text)
{
    struct lh_party peer;
    enum lh_capability_verdict verdict = LH_CAPABILITY_FORGED;

    if (!cs->config.capabilities || LH_PLANTED("led-by-anybody"))
        return LH_OK;
    lh_access_party(cs->config.access, cs->peer == NULL ? "" : cs->peer, &peer);
    const struct lh_lead lead = {.chunk = chunk, .version = version, .holder = peer.name};
    if (peer.role == LH_ROLE_CHUNKSERVER && peer.name != NULL)
        verdict = lh_capability_check_lead(&cs->lead_keys, &lead, shown->data, shown->len);
    if (verdict == LH_CAPABILITY_HOLDS) {
        LH_MARK("led-by-who-was-granted-it");
        return LH_OK;
    }
    *text = lh_capability_text(verdict);
    return refuse(cs, chunk, verdict);
}

void lh_cs_lead_key(struct lh_cs_host *cs, uint64_t reign, const ProtobufCBinaryData *secret)
{
    if (cs->config.capabilities && secret->len == LH_CAPABILITY_SECRET_BYTES)
        lh_capability_learn(&cs->lead_keys, reign, secret->data, cs->now, lh_nanoseconds(0));
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
