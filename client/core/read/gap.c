/* Behind damage (REC-9a). A reader that skips damage asks each member where its next whole batch
 * begins. The first of these places is where it goes on; what lies before is a gap, of which the
 * program is told. No member is left out: the one that does not answer may have what the others
 * have lost. Members are those that the master has named since. */
#include "client/core/read/reader.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lh_client_gap_deinit(struct lh_client_gap *gap)
{
    for (size_t i = 0; i < gap->member_count; i++)
        free(gap->members[i].server_id);
    free(gap->members);
    *gap = (struct lh_client_gap){0};
}

void lh_client_gap_look(struct lh_client_chunk_reader *cr)
{
    if (cr->resync)
        return;
    cr->resync = true;
    cr->confirmed = false;
}

void lh_client_gap_forget(struct lh_client_chunk_reader *cr)
{
    cr->resync = cr->behind_gap = false;
    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        cr->tried[i].said = LH_OK;
        cr->tried[i].next = 0;
    }
}

static void say(struct lh_client_chunk_reader *cr, const char *address, int error, uint64_t next)
{
    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        if (strcmp(cr->chunk.members[i].address, address) != 0)
            continue;
        cr->tried[i].said = error;
        cr->tried[i].next = next;
    }
}

/* Where an unsealed chunk ends no damaged replica can say: then there is no gap yet. */
void lh_client_gap_nothing(struct lh_client_chunk_reader *cr, const char *address, int error)
{
    if (cr->resync && cr->chunk.sealed)
        say(cr, address, error, cr->chunk.length);
}

bool lh_client_gap_answered(
    struct lh_client_chunk_reader *cr, const char *address, const Leasehold__ReadReply *m)
{
    if (!cr->resync || m->offset <= cr->offset ||
        (cr->chunk.sealed && m->offset >= cr->chunk.length))
        return false;
    say(cr, address, LH_ERR_CORRUPT, m->offset);
    return true;
}

void lh_client_gap_refreshed(struct lh_client_chunk_reader *cr, const struct lh_client_chunk *old,
    const struct lh_client_tried *tried)
{
    cr->confirmed = true;
    for (size_t i = 0; i < cr->chunk.member_count; i++)
        for (size_t k = 0; k < old->member_count; k++)
            if (strcmp(cr->chunk.members[i].server_id, old->members[k].server_id) == 0) {
                cr->tried[i].said = tried[k].said;
                cr->tried[i].next = tried[k].next;
            }
}

/* The first place where a member goes on; 0: one has not answered yet, and `reason` says so. */
static uint64_t goes_on_at(struct lh_client_chunk_reader *cr)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < cr->chunk.member_count; i++) {
        const struct lh_client_tried *t = &cr->tried[i];
        if (t->said == LH_OK) {
            char what[160];
            const char *why = "it may have what the others have lost, so nothing is skipped";
            if (cr->chunk.sealed) {
                snprintf(what, sizeof what, "damaged at %" PRIu64 " where %.80s cannot be asked",
                    lh_client_chunk_reader_position(cr), cr->chunk.members[i].server_id);
            } else {
                snprintf(what, sizeof what, "damaged at %" PRIu64 " or at its end",
                    lh_client_chunk_reader_position(cr));
                why = "its last chunk is not sealed, so nothing of it is skipped";
            }
            lh_client_reader_say(cr->reader, LH_ERR_UNAVAILABLE, what, why);
            return 0;
        }
        first = t->next < first ? t->next : first;
    }
    return cr->chunk.member_count > 0 ? first : 0;
}

bool lh_client_gap_pass(struct lh_client_chunk_reader *cr)
{
    struct lh_client_reader *r = cr->reader;

    if (!cr->resync || !cr->confirmed)
        return false;
    uint64_t to = goes_on_at(cr);
    if (to == 0)
        return false;
    struct lh_client_gap *gap = &r->fetch->gap;
    *gap = (struct lh_client_gap){
        .from = lh_client_chunk_reader_position(cr),
        .to = cr->chunk.start + to,
        .chunk = cr->chunk.chunk,
        .members = lh_alloc_array(cr->chunk.member_count, sizeof *gap->members),
        .member_count = cr->chunk.member_count,
    };
    for (size_t i = 0; i < gap->member_count; i++) {
        gap->members[i].server_id = lh_strdup(cr->chunk.members[i].server_id);
        gap->members[i].error = cr->tried[i].said;
    }
    r->fetch->offset = gap->from;
    cr->offset = to;
    cr->checksum_known = false;
    lh_client_gap_forget(cr);
    cr->behind_gap = true;
    lh_client_chunk_reader_helped(cr);
    if (LH_PLANTED("gap-unreported"))
        lh_client_gap_deinit(gap);
    else
        lh_client_reader_end_fetch(r, LH_OK, NULL);
    return true;
}
