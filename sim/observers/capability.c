/* ACC-5: nobody is served a chunk who has not shown what a master made for it, with the right, and
 * lately. This part knows nothing of keys: it writes down the bytes that masters give out, and
 * compares. What counts is when a request is taken: an answer may leave late. */
#include "sim/observers/capability.h"
#include "sim/cluster/internal.h"

#include "batch/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 64u

enum { READS = 1, APPENDS = 2 };

/* A capability that a master has said. */
struct given {
    uint8_t bytes[BYTES_MAX];
    uint64_t chunk;
    unsigned rights;
    uint64_t at; /* true ns, when it was last said */
    uint64_t term_ns;
    UT_hash_handle hh;
};

/* What a request on a link has shown; of an append stream, for one lane. */
struct shown_key {
    uint64_t link, lane;
};

struct shown {
    struct shown_key key;
    bool fits;
    char why[128]; /* not */
    uint64_t chunk;
    uint64_t ends;          /* APPEND: true ns; of what holds longest */
    uint64_t writer, first; /* APPEND: of a batch that came after that; 0: none did */
    UT_hash_handle hh;
};

struct capabilities {
    struct given *given;
    struct shown *shown;
    struct shown *asked; /* OpenTail, by link: `fits`: it only reads */
    struct leads *leads; /* leads.c */
};

static struct capabilities *book(struct lh_sim_observers *o)
{
    if (o->capabilities == NULL)
        o->capabilities = lh_alloc(sizeof *o->capabilities);
    return o->capabilities;
}

struct leads **lh_ob_capability_leads(struct lh_sim_observers *o)
{
    return &book(o)->leads;
}

static void free_all(struct shown **all)
{
    struct shown *s, *next;

    HASH_ITER(hh, *all, s, next) {
        HASH_DEL(*all, s);
        free(s);
    }
}

void lh_ob_capability_deinit(struct lh_sim_observers *o)
{
    struct given *g, *next;

    if (o->capabilities == NULL)
        return;
    HASH_ITER(hh, o->capabilities->given, g, next) {
        HASH_DEL(o->capabilities->given, g);
        free(g);
    }
    free_all(&o->capabilities->shown);
    free_all(&o->capabilities->asked);
    lh_ob_leads_free(o->capabilities->leads);
    free(o->capabilities);
}

static struct shown *find(struct shown *all, uint64_t link, uint64_t lane)
{
    struct shown_key key = {link, lane};
    struct shown *s;

    HASH_FIND(hh, all, &key, sizeof key, s);
    return s;
}

static struct shown *get(struct shown **all, uint64_t link, uint64_t lane)
{
    struct shown *s = find(*all, link, lane);

    if (s == NULL) {
        s = lh_alloc(sizeof *s);
        s->key = (struct shown_key){link, lane};
        HASH_ADD(hh, *all, key, sizeof s->key, s);
    }
    return s;
}

/* ---- What masters give. */

static void give(struct lh_sim_observers *o, const struct lh_sim_node *master,
    const Leasehold__ChunkInfo *info, unsigned rights)
{
    struct capabilities *c = book(o);
    uint8_t bytes[BYTES_MAX] = {0};
    struct given *g;

    if (info == NULL || info->capability.len == 0)
        return;
    LH_ASSERT(info->capability.len <= sizeof bytes);
    memcpy(bytes, info->capability.data, info->capability.len);
    HASH_FIND(hh, c->given, bytes, sizeof bytes, g);
    if (g == NULL) {
        g = lh_alloc(sizeof *g);
        memcpy(g->bytes, bytes, sizeof bytes);
        g->chunk = info->chunk;
        HASH_ADD(hh, c->given, bytes, sizeof g->bytes, g);
    }
    const struct lh_master_config *config = lh_sim_running_config(o->cluster, master);
    g->rights |= rights;
    g->at = lh_sim_now(o->sim);
    g->term_ns = lh_duration_max(config->capability_term, config->session_term).ns;
}

static void master_says(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->method == LH_METHOD_LOCATE) {
        const Leasehold__LocateReply *m = (const Leasehold__LocateReply *)s->message;
        for (size_t i = 0; i < m->n_chunks; i++)
            give(o, s->node, m->chunks[i], READS);
    } else if (s->method == LH_METHOD_LIST_CHUNKS) {
        const Leasehold__ListChunksReply *m = (const Leasehold__ListChunksReply *)s->message;
        for (size_t i = 0; i < m->n_chunks; i++)
            give(o, s->node, m->chunks[i]->chunk, READS);
    } else if (s->method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailReply *m = (const Leasehold__OpenTailReply *)s->message;
        struct shown *asked = find(book(o)->asked, s->link, 0);
        give(o, s->node, m->chunk, asked != NULL && asked->fits ? READS : READS | APPENDS);
        give(o, s->node, m->settled, READS);
    }
}

/* ---- What is shown. */

/* How far the clocks of a master and a server may have gone apart since the server heard of a key,
 * and with it an end. */
static uint64_t share(const struct lh_sim_observers *o, const struct given *g)
{
    const double rho = (double)o->cluster->config.master.drift_ppm / 1e6;

    return (uint64_t)(3 * rho * (double)(lh_sim_now(o->sim) + g->term_ns)) + 2000000;
}

/* Notes what a request has shown. 0: it does not fit; else when it ends, true ns. */
static uint64_t fits(struct lh_sim_observers *o, uint64_t chunk, unsigned rights,
    const ProtobufCBinaryData *shown, char *why, size_t why_size)
{
    uint8_t bytes[BYTES_MAX] = {0};
    const char *what = NULL;
    struct given *g = NULL;

    if (shown->len > 0 && shown->len <= sizeof bytes) {
        memcpy(bytes, shown->data, shown->len);
        HASH_FIND(hh, book(o)->given, bytes, sizeof bytes, g);
    }
    if (g == NULL)
        what = shown->len == 0 ? "nothing" : "what no master has made";
    else if (g->chunk != chunk)
        what = "what was made for another chunk";
    else if ((g->rights & rights) != rights)
        what = "what gives another right";
    else if (g->at + g->term_ns + share(o, g) < lh_sim_now(o->sim))
        what = "what has run out";
    (void)snprintf(why, why_size, "%s", what == NULL ? "" : what);
    return what != NULL ? 0 : g->at + g->term_ns + share(o, g);
}

/* The first batch of the only part of a message. */
static bool batch_of(const struct lh_sim_sight *s, struct lh_batch_header *h)
{
    const Leasehold__AppendRequest *m = (const Leasehold__AppendRequest *)s->message;
    uint8_t header[LH_BATCH_HEADER_BYTES];

    return m->n_parts == 1 && s->payload != NULL &&
           lh_buf_read(s->payload, 0, header, sizeof header) &&
           lh_batch_header_decode(header, h) == LH_OK;
}

static void takes_part(
    struct lh_sim_observers *o, const struct lh_sim_sight *s, const Leasehold__AppendPart *part)
{
    struct shown *lane = get(&book(o)->shown, s->link, part->lane);
    struct lh_batch_header h;

    if (part->writer != 0) {
        char why[sizeof lane->why];
        uint64_t ends = fits(o, part->chunk, APPENDS, &part->capability, why, sizeof why);
        if (ends > lane->ends)
            lane->ends = ends;
        /* A writer that is refused leaves the lane to those who were not. */
        lane->fits = lane->fits || ends != 0;
        lane->chunk = part->chunk;
        if (!lane->fits)
            memcpy(lane->why, why, sizeof why);
    } else if (part->bytes > 0 && lane->fits && lane->ends < lh_sim_now(o->sim) &&
               lane->writer == 0 && batch_of(s, &h)) {
        lane->writer = h.writer;
        lane->first = h.sequence;
    }
}

static void ask(struct lh_sim_observers *o, const struct lh_sim_sight *s, uint64_t chunk,
    const ProtobufCBinaryData *capability)
{
    struct shown *asked = get(&book(o)->shown, s->link, 0);

    asked->chunk = chunk;
    asked->fits = fits(o, chunk, READS, capability, asked->why, sizeof asked->why) != 0;
}

void lh_ob_capability_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->message == NULL || s->direction != LH_REQUEST)
        return;
    if (s->method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailRequest *m = (const Leasehold__OpenTailRequest *)s->message;
        get(&book(o)->asked, s->link, 0)->fits = m->reads;
    } else if (s->method == LH_METHOD_READ) {
        const Leasehold__ReadRequest *m = (const Leasehold__ReadRequest *)s->message;
        if (m->mode != LEASEHOLD__READ_MODE__RECOVERY && m->mode != LEASEHOLD__READ_MODE__COPY)
            ask(o, s, m->chunk, &m->capability);
    } else if (s->method == LH_METHOD_SETTLE) {
        const Leasehold__SettleRequest *m = (const Leasehold__SettleRequest *)s->message;
        ask(o, s, m->chunk, &m->capability);
    } else if (s->method == LH_METHOD_APPEND) {
        const Leasehold__AppendRequest *m = (const Leasehold__AppendRequest *)s->message;
        for (size_t i = 0; i < m->n_parts; i++)
            takes_part(o, s, m->parts[i]);
    }
}

/* ---- What is served. */

static void fail(struct lh_sim_observers *o, const struct lh_sim_sight *s, const struct shown *by,
    const char *why)
{
    lh_sim_fail(o->sim, "ACC-5", by->chunk, "%s serves chunk %" PRIu64 " to %s, who has shown %s",
        lh_sim_name(s->node), by->chunk, s->peer == NULL ? "?" : lh_sim_name(s->peer), why);
}

static void serves(
    struct lh_sim_observers *o, const struct lh_sim_sight *s, Leasehold__ErrorCode error)
{
    const struct shown *asked = find(book(o)->shown, s->link, 0);

    if (error == LEASEHOLD__ERROR_CODE__OK && asked != NULL && !asked->fits)
        fail(o, s, asked, asked->why);
}

static void answers(
    struct lh_sim_observers *o, const struct lh_sim_sight *s, const Leasehold__AppendAnswer *m)
{
    const struct shown *lane = find(book(o)->shown, s->link, m->lane);

    if (lane == NULL)
        return;
    if (m->opened && !lane->fits)
        fail(o, s, lane, lane->why);
    for (size_t i = 0; i < m->n_stored && lane->writer != 0; i++)
        if (m->stored[i]->writer == lane->writer && m->stored[i]->sequence == lane->first)
            fail(o, s, lane, "what had run out when the batch came");
}

void lh_ob_capability_does(struct lh_sim_observers *o, const struct lh_sim_sight *s)
{
    if (s->effect->kind != LH_FX_SEND || s->direction != LH_REPLY || s->message == NULL)
        return;
    master_says(o, s);
    if (o->cluster->config.clocks_beyond_rho)
        return; /* ends are as wrong as clocks are */
    if (s->method == LH_METHOD_READ) {
        serves(o, s, ((const Leasehold__ReadReply *)s->message)->error);
    } else if (s->method == LH_METHOD_SETTLE) {
        serves(o, s, ((const Leasehold__SettleReply *)s->message)->error);
    } else if (s->method == LH_METHOD_APPEND) {
        const Leasehold__AppendReply *m = (const Leasehold__AppendReply *)s->message;
        for (size_t i = 0; i < m->n_answers; i++)
            answers(o, s, m->answers[i]);
    }
}

/* ---- What programs hear. */

/* LH_CALL_SERVER is no call of a program: the library's own, of one server. */
void lh_ob_capability_completed(struct lh_sim_observers *o, const struct lh_call *call, int error)
{
    if (error == LH_ERR_STALE_CAPABILITY && call->kind != LH_CALL_SERVER)
        lh_sim_fail(o->sim, "ACC-5", 0,
            "a program is told of a capability that was not taken, which is its client's to renew: "
            "%s",
            call->text);
}
