/* A program that reads values through the cache of a session, many times, and looks on while it
 * may serve them. (What it could serve at any moment an observer looks at itself.) */
#include "sim/cluster/holder.h"

#include <string.h>

static void got(struct request *r)
{
    struct lh_sim_program *p = r->program;

    lh_sim_p_end(r);
    if (r->error == LH_OK && r->u.get.value != NULL)
        lh_client_value_unref(r->u.get.value);
    r->u.get.value = NULL;
    lh_sim_request_done(p->cluster, r);
}

static void get(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_begin(p, LH_CALL_GET, got);
    char name[LH_SIM_PATH_MAX + 32];

    lh_sim_p_name(p, lh_prng_below(&p->random, p->spec.names), name);
    char *copy = lh_strdup(name);
    r->memory = copy;
    r->u.get.session = p->holder->session;
    r->u.get.name = copy;
    r->u.get.deadline = lh_sim_p_deadline(p);
    lh_sim_call(p->node, &r->u);
}

static void go_on(struct lh_sim_program *p)
{
    if (p->holder == NULL)
        p->holder = lh_alloc(sizeof *p->holder);
    if (!lh_sim_p_session(p))
        return;
    if (p->spec.names > 1 && lh_prng_below(&p->random, 500) == 0)
        lh_sim_p_session_close(p);
    else if (p->status.pending < p->spec.window)
        get(p);
}

static bool wind_up(struct lh_sim_program *p)
{
    return p->holder == NULL || (lh_sim_p_session_wind_up(p) && p->status.pending == 0);
}

static void forget(struct lh_sim_program *p)
{
    if (p->holder != NULL)
        lh_sim_p_session_forget(p);
}

const struct program_kind lh_sim_cacher = {
    .go_on = go_on, .forget = forget, .wind_up = wind_up, .deinit = lh_sim_p_session_deinit};
