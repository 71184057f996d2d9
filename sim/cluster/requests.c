/* Clients as nodes, and the calls that are given to their cores. */
#include "sim/cluster/cluster.h"

#include "sim/cluster/internal.h"

#include "proto/codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct request *lh_sim_request(struct lh_sim_cluster *c, enum lh_call_kind kind)
{
    struct request *r = c->idle_requests;

    if (r != NULL)
        c->idle_requests = r->next;
    else
        r = lh_alloc(sizeof *r);
    *r = (struct request){.next = c->requests};
    r->u.call.kind = kind;
    r->u.call.owner = r;
    c->requests = r;
    if (r->next != NULL)
        r->next->previous = r;
    return r;
}

void lh_sim_request_done(struct lh_sim_cluster *c, struct request *r)
{
    LH_ASSERT(r->done);
    free(r->memory);
    r->memory = NULL;
    if (r->next != NULL)
        r->next->previous = r->previous;
    if (r->previous != NULL)
        r->previous->next = r->next;
    else
        c->requests = r->next;
    r->next = c->idle_requests;
    c->idle_requests = r;
}

/* ---- The client as a node ---- */

static bool client_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct lh_sim_cluster *c = arg;
    struct lh_client_config config = c->config.client;
    char cluster[LH_CLUSTER_ID_BYTES];

    (void)node;
    lh_sim_known_cluster(c, cluster);
    config.cluster = cluster;
    config.masters = c->master_names;
    config.master_count = c->config.masters;
    config.seed = lh_prng_next(lh_sim_random(c->sim));
    *core = lh_client_core(lh_client_create(&config));
    return true;
}

static void client_check(void *arg, void *self)
{
    (void)arg;
    lh_client_check(self);
}

static void client_destroy(void *arg, void *self)
{
    (void)arg;
    lh_client_destroy(self);
}

static void completed(void *arg, struct lh_sim_node *node, void *call, int error)
{
    struct lh_sim_cluster *c = arg;
    struct request *r = ((struct lh_call *)call)->owner;

    (void)node;
    if (r->done)
        lh_sim_fail(c->sim, "check", 0, "a call completed twice");
    r->done = true;
    r->error = error;
    if (r->then != NULL)
        r->then(r);
}

static void abandoned(void *arg, struct lh_sim_node *node, void *call)
{
    struct request *r = ((struct lh_call *)call)->owner;

    (void)arg;
    (void)node;
    if (r->u.call.kind == LH_CALL_SUBMIT)
        lh_buf_clear(&r->u.submit.batch);
}

const struct lh_sim_role lh_sim_client_role = {.start = client_start,
    .check = client_check,
    .destroy = client_destroy,
    .completed = completed,
    .abandoned = abandoned};

static bool is_done(void *arg)
{
    return ((const struct request *)arg)->done;
}

int lh_sim_carry(
    struct lh_sim_cluster *c, struct lh_sim_node *node, struct request *r, struct lh_duration bound)
{
    if (!lh_sim_is_up(node))
        return LH_ERR_DEADLINE_EXCEEDED;
    lh_sim_call(node, &r->u);
    /* Somewhat longer, so that it is the core's deadline that ends it. */
    if (!lh_sim_run_until(c->sim, is_done, r, lh_duration_add(bound, lh_seconds(1))))
        return LH_ERR_DEADLINE_EXCEEDED;
    return r->error;
}

static struct lh_instant deadline(const struct lh_sim_node *node, struct lh_duration bound)
{
    return lh_instant_add(lh_sim_clock(node), bound);
}

int lh_sim_ask(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration bound, ProtobufCMessage **reply)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct request *r = lh_sim_request(c, LH_CALL_MASTER);

    r->u.master.method = method;
    r->u.master.request = request;
    r->u.master.patience = bound;
    r->u.master.deadline = deadline(node, bound);
    int error = lh_sim_carry(c, node, r, bound);
    /* A core that keeps it beyond its deadline would read memory that is gone. */
    LH_ASSERT(r->done || !lh_sim_is_up(node) || lh_sim_failure(c->sim) != NULL);
    if (reply != NULL)
        *reply = r->done ? r->u.master.reply : NULL;
    else if (r->done)
        lh_wire_free(r->u.master.reply);
    if (r->done)
        r->u.master.reply = NULL;
    return error;
}

static void answered_aside(struct request *r)
{
    lh_wire_free(r->u.master.reply);
    r->u.master.reply = NULL; /* the request stays the cluster's, which frees what it points to */
}

void lh_sim_ask_aside(struct lh_sim_cluster *c, size_t client, enum lh_method method,
    ProtobufCMessage *request, struct lh_duration patience)
{
    struct lh_sim_node *node = lh_sim_client(c, client);
    struct request *r = lh_sim_request(c, LH_CALL_MASTER);

    r->memory = request;
    r->then = answered_aside;
    r->u.master.method = method;
    r->u.master.request = request;
    r->u.master.patience = patience;
    r->u.master.deadline = deadline(node, patience);
    lh_sim_call(node, &r->u);
    uint64_t over = lh_sim_now(c->sim) + lh_duration_add(patience, lh_seconds(1)).ns;
    if (over > c->asides_over)
        c->asides_over = over;
}

/* ---- Records ---- */

void lh_sim_fill_record(uint8_t *to, uint32_t size, uint64_t writer, uint64_t sequence)
{
    struct lh_prng bytes = {lh_mix64(writer) ^ sequence};

    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word = lh_prng_next(&bytes);
        memcpy(to + at, &word, size - at < 8 ? size - at : 8);
    }
}

static void free_requests(struct request *r)
{
    while (r != NULL) {
        struct request *next = r->next;
        free(r->memory);
        free(r);
        r = next;
    }
}

void lh_sim_requests_deinit(struct lh_sim_cluster *c)
{
    free_requests(c->requests);
    free_requests(c->idle_requests);
}
