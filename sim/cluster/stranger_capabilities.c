/* Strangers that show what they should not: capabilities of other chunks, with more rights, for
 * longer, of other keys, long over, and bytes that nobody has made (ACC-5). */
#include "sim/cluster/stranger_internal.h"

#define BYTES     33u /* as docs/formats.md has them */
#define AT_UNTIL  8u
#define AT_RIGHTS 16u

static void keep(struct lh_sim_stranger *x, const Leasehold__ChunkInfo *info)
{
    struct owned_capability *c = &x->owned[(x->last_owned + 1) % CAPABILITIES];

    if (info == NULL || info->capability.len == 0 || info->capability.len > sizeof c->bytes)
        return;
    x->last_owned = (x->last_owned + 1) % CAPABILITIES;
    c->chunk = info->chunk;
    c->size = info->capability.len;
    memcpy(c->bytes, info->capability.data, c->size);
}

void lh_sim_x_hears_of_chunks(struct lh_sim_stranger *x, const struct lh_input *in)
{
    if (in->method == LH_METHOD_OPEN_TAIL) {
        const Leasehold__OpenTailReply *m = in->message;
        keep(x, m->settled);
        keep(x, m->chunk);
    } else if (in->method == LH_METHOD_LOCATE) {
        const Leasehold__LocateReply *m = in->message;
        for (size_t i = 0; i < m->n_chunks; i++)
            keep(x, m->chunks[i]);
    }
}

/* The newest or, with `oldest`, the oldest one of the chunk, or of any other; NULL: it has none. */
static const struct owned_capability *find(
    const struct lh_sim_stranger *x, uint64_t chunk, bool oldest, bool other)
{
    const struct owned_capability *found = NULL;

    for (size_t i = 0; i < CAPABILITIES; i++) {
        const struct owned_capability *c = &x->owned[(x->last_owned + 1 + i) % CAPABILITIES];
        if (c->chunk != 0 && (c->chunk == chunk) != other && (found == NULL || !oldest))
            found = c;
    }
    return found;
}

ProtobufCBinaryData lh_sim_x_capability(struct lh_sim_stranger *x, uint64_t chunk)
{
    ProtobufCBinaryData shown = {BYTES, x->shown};

    if (!x->cluster->config.capabilities)
        return (ProtobufCBinaryData){0};
    uint64_t kind = below(x, 12);
    const struct owned_capability *c = find(x, chunk, kind == 5, kind == 4);
    if (kind == 0)
        return (ProtobufCBinaryData){0};
    LH_MARK("stranger-shows-a-capability");
    for (size_t i = 0; i < BYTES; i++)
        x->shown[i] = (uint8_t)lh_prng_next(&x->random);
    if (c == NULL)
        return shown;
    memcpy(x->shown, c->bytes, c->size);
    shown.len = c->size;
    if (kind == 1)
        x->shown[AT_UNTIL + below(x, 8)] ^= (uint8_t)(1 + below(x, 255));
    else if (kind == 2)
        x->shown[AT_RIGHTS] |= 3;
    else if (kind == 3)
        x->shown[below(x, 8)] ^= (uint8_t)(1 + below(x, 255));
    else if (kind == 6)
        shown.len = below(x, c->size);
    else if (kind == 7)
        x->shown[below(x, c->size)] ^= (uint8_t)(1 + below(x, 255));
    return shown;
}
