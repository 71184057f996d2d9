/* Does the disk answer, and can it be written (SES-6, REC-8)? */
#include "chunkserver/session/internal.h"

#include <string.h>

#define PROBE_BYTES 8u /* they keep their room when the disk is full */

static void probed(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user probe_disk = {.done = probed};

static void ask(struct lh_cs_session *s, const struct lh_cs_disk_request *request)
{
    lh_cs_disk_ask(s->logs, &probe_disk, NULL, s, request);
}

static void probe_write(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    uint8_t stamp[PROBE_BYTES];

    memcpy(stamp, &cs->now.ns, sizeof stamp);
    struct lh_buf bytes = lh_buf_copy(stamp, sizeof stamp);
    ask(s, &(struct lh_cs_disk_request){.op = LH_DISK_WRITE, .data = &bytes});
}

/* SES-6: a small write and a sync, begun with each registration and each heartbeat unless one is
 * still under way. A disk that begins to hang while there is no session is known when the next one
 * begins. */
void lh_cs_probe(struct lh_cs_session *s)
{
    if (s->disk.probing)
        return;
    s->disk.probing = true;
    lh_cs_logs_probe_begins(s->logs);
    if (s->disk.created)
        probe_write(s);
    else
        ask(s, &(struct lh_cs_disk_request){.op = LH_DISK_CREATE, .length = PROBE_BYTES});
}

/* What is under way tells as much as a probe, and earlier. */
bool lh_cs_disk_fails(const struct lh_cs_session *s)
{
    struct lh_duration limit = lh_duration_max(s->heartbeat, s->cs->config.disk_stall);

    return s->disk.failed || lh_cs_disk_stands_still(s->logs, limit);
}

bool lh_cs_disk_is_read_only(const struct lh_cs_session *s)
{
    struct lh_duration limit = lh_duration_max(s->heartbeat, s->cs->config.disk_stall);

    return s->disk.failed && s->disk.readable && !lh_cs_disk_stands_still(s->logs, limit);
}

/* What the read said that followed the failure. That there is nothing to read is an answer, too. */
static void failed(struct lh_cs_session *s, bool readable)
{
    if (!s->disk.failing && readable)
        lh_fx_log(s->cs->fx, LH_ERROR, "the disk cannot be written, and can be read: %s",
            lh_error_text(s->disk.error));
    else if (!s->disk.failing)
        lh_fx_log(s->cs->fx, LH_ERROR, "the disk fails: %s", lh_error_text(s->disk.error));
    if (readable)
        LH_MARK("disk-read-only");
    lh_cs_logs_probe_ended(s->logs, false);
    s->disk.probing = false; /* the next heartbeat reports it and tries again */
    s->disk.created = false; /* it may have been set aside (FAIL-5a) */
    s->disk.failed = true;
    s->disk.readable = readable;
}

static void probed(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_session *s = t->owner;
    struct lh_cs_host *cs = s->cs;

    (void)bytes;
    if (t->op == LH_DISK_READ) {
        failed(s, error == LH_OK || error == LH_ERR_NOT_FOUND);
        return;
    }
    if (t->op == LH_DISK_CREATE && (error == LH_OK || error == LH_ERR_ALREADY_EXISTS)) {
        s->disk.created = true;
        probe_write(s);
        return;
    }
    /* A full disk answers: chunks that have their space go on. */
    if (error != LH_OK && error != LH_ERR_DISK_FULL) {
        s->disk.error = error;
        ask(s, &(struct lh_cs_disk_request){.op = LH_DISK_READ, .length = PROBE_BYTES});
        return;
    }
    if (t->op == LH_DISK_WRITE && error == LH_OK) {
        ask(s, &(struct lh_cs_disk_request){.op = LH_DISK_SYNC});
        return;
    }
    if (error == LH_OK)
        lh_cs_logs_probe_ended(s->logs, true);
    s->disk.probing = s->disk.failed = s->disk.readable = false;
    if (s->disk.failing && !lh_cs_disk_fails(s)) {
        LH_MARK("disk-answers-again");
        s->disk.failing = false;
        lh_fx_log(cs->fx, LH_WARN, "the disk answers again");
    }
}
