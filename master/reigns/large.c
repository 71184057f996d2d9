/* Commits that one transaction cannot take (HA-6). Their changes are written ahead, as pieces; the
 * transaction whose head names the pieces is the one with which the commit counts; then the changes
 * are put in place, a part at a time, and nothing else is written before that is done. Who loads
 * the store in between takes the pieces in, and who reigns next puts them in place. */
#include "master/reigns/internal.h"

#include <stdlib.h>

bool lh_r_is_large(const struct lh_reigns *r, const struct lh_r_commit *c)
{
    return c->count + 1 > r->config.operations_max || c->bytes > r->config.request_bytes_max;
}

void lh_r_large_begin(struct lh_reigns *r, struct lh_r_commit *c)
{
    struct lh_r_writer *w = &r->writer;
    size_t bytes = 0, capacity = 0;

    LH_MARK("commit-in-pieces");
    w->large = c->changes;
    w->large_count = c->count;
    c->changes = NULL;
    c->count = 0;
    for (size_t i = 0; i < w->large_count; i++) {
        size_t more = lh_r_change_cost(r, &w->large[i]);
        if (bytes > 0 && bytes + more > r->config.request_bytes_max) {
            LH_GROW(w->piece_ends, capacity, w->piece_count + 1);
            w->piece_ends[w->piece_count++] = i;
            bytes = 0;
        }
        bytes += more;
    }
    LH_GROW(w->piece_ends, capacity, w->piece_count + 1);
    w->piece_ends[w->piece_count++] = w->large_count;
    lh_r_large_go(r);
}

void lh_r_large_resume(struct lh_reigns *r, struct lh_change *changes, size_t count)
{
    struct lh_r_writer *w = &r->writer;

    LH_MARK("pieces-of-a-former-reign");
    w->large = changes;
    w->large_count = count;
    w->named = true;
    w->piece_count = (size_t)r->copy.said->pieces;
    w->pieces_put = w->piece_count;
}

static void put_piece(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;
    size_t from = w->pieces_put == 0 ? 0 : w->piece_ends[w->pieces_put - 1];
    size_t count = w->piece_ends[w->pieces_put] - from;
    LeaseholdStored__Piece piece = LEASEHOLD_STORED__PIECE__INIT;
    LeaseholdStored__Change *changes = lh_alloc_array(count, sizeof *changes);
    LeaseholdStored__Change **list = lh_alloc_array(count, sizeof *list);
    LeaseholdStored__Head head = lh_r_head_next(r);
    struct lh_r_txn t = {0};

    for (size_t i = 0; i < count; i++) {
        const struct lh_change *c = &w->large[from + i];
        leasehold_stored__change__init(&changes[i]);
        changes[i].key = (ProtobufCBinaryData){c->key_size, c->key};
        changes[i].value = (ProtobufCBinaryData){c->value == NULL ? 0 : c->value_size, c->value};
        changes[i].gone = c->value == NULL;
        list[i] = &changes[i];
    }
    piece.n_changes = count;
    piece.changes = list;
    struct lh_r_bytes value = lh_r_pack(&piece.base);
    lh_r_txn_put(&t, lh_r_piece_key(r, w->pieces_put), value.data, value.size);
    free(value.data);
    free(changes);
    free(list);
    lh_r_txn_send(r, &t, LH_R_PUT_PIECE, &head);
}

/* The next changes in place; with the last ones the pieces go. */
static void place(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;
    struct lh_r_txn t = {0};
    size_t bytes = 0, i = w->placed;
    LeaseholdStored__Head head = lh_r_head_next(r);

    /* Room for the head, and for the removal of the pieces. */
    for (; i < w->large_count && i - w->placed + 2 < r->config.operations_max; i++) {
        bytes += lh_r_change_cost(r, &w->large[i]);
        if (i > w->placed && bytes > r->config.request_bytes_max)
            break;
        lh_r_txn_change(r, &t, &w->large[i]);
    }
    w->placing = i - w->placed;
    if (i == w->large_count) {
        lh_r_txn_delete(&t, lh_r_key(r, LH_R_PIECE), lh_r_key(r, LH_R_END));
        head.pieces = 0;
    }
    lh_r_txn_send(r, &t, LH_R_PLACE, &head);
}

void lh_r_large_go(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;

    if (w->named) {
        place(r);
    } else if (w->pieces_put < w->piece_count && !LH_PLANTED("pieces-named-first")) {
        put_piece(r);
    } else {
        struct lh_r_txn t = {0};
        LeaseholdStored__Head head = lh_r_head_next(r);
        head.pieces = w->piece_count;
        lh_r_txn_send(r, &t, LH_R_NAME_PIECES, &head);
    }
}

void lh_r_large_applied(struct lh_reigns *r, enum lh_r_write kind)
{
    struct lh_r_writer *w = &r->writer;

    if (kind == LH_R_PUT_PIECE) {
        w->pieces_put++;
    } else if (kind == LH_R_NAME_PIECES) {
        w->named = true;
    } else {
        w->placed += w->placing;
        if (w->placed == w->large_count)
            lh_r_large_clear(r);
    }
}

void lh_r_large_clear(struct lh_reigns *r)
{
    struct lh_r_writer *w = &r->writer;

    lh_changes_free(w->large, w->large_count);
    free(w->piece_ends);
    w->large = NULL;
    w->piece_ends = NULL;
    w->large_count = w->placed = w->placing = w->piece_count = w->pieces_put = 0;
    w->named = false;
}
