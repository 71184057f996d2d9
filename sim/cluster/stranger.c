/* Strangers: whom they speak to, and when. Each draws from a stream of its own. */
#include "sim/cluster/stranger_internal.h"

/* ---- Chances ---- */

/* What no program means, or just beside what it does. */
uint64_t lh_sim_x_absurd(struct lh_sim_stranger *x, uint64_t right)
{
    const uint64_t values[] = {0, 1, right + 1, right - 1, UINT64_MAX, UINT64_MAX - 1,
        UINT64_C(1) << 63, UINT64_C(1) << 32, UINT32_MAX, lh_prng_next(&x->random)};

    return values[below(x, sizeof values / sizeof values[0])];
}

/* ---- Whom, and about what ---- */

/* Some file's last chunk, or an older one. False: there is none yet. */
bool lh_sim_x_chunk(struct lh_sim_stranger *x, struct lh_sim_chunk *chunk)
{
    struct lh_sim_cluster *c = x->cluster;
    size_t count = lh_sim_file_count(c);

    if (count == 0)
        return false;
    const char *path = lh_sim_file_path(c, below(x, count));
    size_t chunks = lh_sim_chunk_count(c, path);
    if (chunks > 1 && below(x, 4) == 0)
        return lh_sim_chunk_at(c, path, below(x, chunks), chunk);
    return lh_sim_tail(c, path, chunk);
}

/* The chunk's primary, mostly. */
const char *lh_sim_x_server(struct lh_sim_stranger *x, uint64_t chunk)
{
    struct lh_sim_node *node = below(x, 4) == 0 ? NULL : lh_sim_primary(x->cluster, chunk);

    if (node == NULL)
        node = lh_sim_server(x->cluster, 1 + below(x, lh_sim_servers(x->cluster)));
    return lh_sim_name(node);
}

/* ---- Streams ---- */

struct talk *lh_sim_x_begin(struct lh_sim_stranger *x, enum lh_method method, const char *address)
{
    struct talk *t = &x->talks[x->talk++ % TALKS];

    *t = (struct talk){.link = ++x->links, .method = method};
    lh_fx_open(x->fx, t->link, method, address, LH_DURATION_FOREVER);
    return t;
}

struct talk *lh_sim_x_begin_beside(struct lh_sim_stranger *x, const struct talk *t)
{
    struct talk *beside = &x->talks[x->talk++ % TALKS];

    *beside = (struct talk){.link = t->link, .method = t->method};
    return beside;
}

/* All that it says on the link is over. */
static void forget(struct lh_sim_stranger *x, uint64_t link)
{
    for (size_t i = 0; i < TALKS; i++)
        if (x->talks[i].link == link)
            x->talks[i].link = 0;
    if (x->holder.link == link)
        x->holder = (struct stranger_holder){.last_id = x->holder.last_id};
}

/* One of its streams of that method; NULL: there is none. */
struct talk *lh_sim_x_talk(struct lh_sim_stranger *x, enum lh_method method)
{
    size_t from = below(x, TALKS);

    for (size_t i = 0; i < TALKS; i++) {
        struct talk *t = &x->talks[(from + i) % TALKS];
        if (t->link != 0 && (method == LH_METHOD_NONE || t->method == method))
            return t;
    }
    return NULL;
}

void lh_sim_x_say(struct lh_sim_stranger *x, const struct talk *t, const void *message)
{
    lh_fx_send(x->fx, t->link, message, NULL);
}

/* ---- Its steps ---- */

static void stop_reading(struct lh_sim_stranger *x)
{
    const struct talk *t = lh_sim_x_talk(x, LH_METHOD_NONE);

    if (t == NULL)
        return;
    LH_MARK("stranger-reads-nothing-any-more");
    lh_fx_hold(x->fx, t->link);
}

static void cancel(struct lh_sim_stranger *x)
{
    struct talk *t = lh_sim_x_talk(x, LH_METHOD_NONE);

    if (t == NULL)
        return;
    lh_fx_close(x->fx, t->link, LH_OK, NULL);
    forget(x, t->link);
}

static void misbehave(struct lh_sim_stranger *x)
{
    static void (*const kinds[])(struct lh_sim_stranger * x) = {lh_sim_x_leave_gap,
        lh_sim_x_leave_gap, lh_sim_x_repeat, lh_sim_x_repeat, lh_sim_x_open_wrongly,
        lh_sim_x_open_wrongly, lh_sim_x_send_malformed, lh_sim_x_mistake_lanes, lh_sim_x_read,
        lh_sim_x_read, lh_sim_x_settle, lh_sim_x_replicate, lh_sim_x_replicate,
        lh_sim_x_speak_in_a_session, lh_sim_x_ask_master, lh_sim_x_ask_master, stop_reading,
        cancel};

    lh_sim_x_take_address(x);
    if (lh_sim_x_may_lease(x) && below(x, 3) == 0)
        lh_sim_x_use_leases(x);
    else
        kinds[below(x, sizeof kinds / sizeof kinds[0])](x);
}

static void hear_answer(struct talk *t, const Leasehold__AppendAnswer *m)
{
    if (m->error == LEASEHOLD__ERROR_CODE__OUT_OF_SEQUENCE)
        LH_MARK("stranger-is-out-of-sequence");
    if (m->error != LEASEHOLD__ERROR_CODE__OK)
        t->opened = false;
    else if (m->opened)
        t->opened = true;
}

/* Answers are of no interest, but what tells that a refusal came. */
static void hear(struct lh_sim_stranger *x, const struct lh_input *in)
{
    const Leasehold__AppendReply *m = in->message;

    lh_sim_x_hears_of_chunks(x, in);
    if (in->method == LH_METHOD_LEASE_SESSION)
        lh_sim_x_hears_of_leases(x, in);
    for (size_t i = 0; i < TALKS && in->method == LH_METHOD_APPEND; i++)
        for (size_t k = 0; x->talks[i].link == in->link && k < m->n_answers; k++)
            if (m->answers[k]->lane == x->talks[i].lane)
                hear_answer(&x->talks[i], m->answers[k]);
}

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_sim_stranger *x = self;

    x->fx = fx;
    if (in->kind == LH_IN_MESSAGE && (in->link & LH_LINK_SERVED) != 0) {
        lh_sim_x_is_called(x, in);
    } else if (in->kind == LH_IN_MESSAGE) {
        hear(x, in);
    } else if (in->kind == LH_IN_LINK_CLOSED) {
        forget(x, in->link);
    } else if (in->kind == LH_IN_TIMER && !x->ended) {
        lh_sim_x_beats(x, in->now);
        if (!lh_instant_reached(in->now, x->next))
            return;
        misbehave(x);
        x->next = lh_instant_add(in->now, lh_nanoseconds(1000000 + below(x, 60000000)));
    } else if (in->kind == LH_IN_STOP) {
        lh_fx_stopped(fx, LH_OK);
    }
}

static struct lh_instant deadline(const void *self)
{
    const struct lh_sim_stranger *x = self;

    if (x->ended)
        return LH_INSTANT_NEVER;
    return x->holder.shown ? lh_instant_min(x->next, x->holder.beat_at) : x->next;
}

/* ---- Its node ---- */

static bool start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct lh_sim_stranger *x = arg;

    x->node = node;
    memset(x->talks, 0, sizeof x->talks);
    x->holder = (struct stranger_holder){0};
    *core = (struct lh_core){.self = x, .step = step, .deadline = deadline};
    return true;
}

static void gone(void *arg, void *self)
{
    (void)arg;
    (void)self;
}

const struct lh_sim_role lh_sim_stranger_role = {.start = start, .destroy = gone};

struct lh_sim_stranger *lh_sim_stranger_create(struct lh_sim_cluster *c, uint32_t number)
{
    struct lh_sim_stranger *x = lh_alloc(sizeof *x);

    x->cluster = c;
    x->random.state = lh_mix64(c->config.world.seed ^ UINT64_C(0x737472616e676572) * number);
    lh_sim_x_looks_for_leads(x);
    return x;
}

void lh_sim_stranger_destroy(struct lh_sim_stranger *x)
{
    free(x);
}

void lh_sim_stranger_end(struct lh_sim_stranger *x)
{
    x->ended = true;
}

bool lh_sim_is_stranger(const struct lh_sim_node *node)
{
    return lh_sim_name(node)[0] == 'x';
}
