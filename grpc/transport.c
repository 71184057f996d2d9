/* gRPC as a transport: its tables. */
#include "grpc/foreign.h"
#include "grpc/internal.h"
#include "grpc/rpc.h"

/* Both begin with the transport's part. */
static struct lh_rpc *rpc_of(struct lh_transport *transport)
{
    return (struct lh_rpc *)transport;
}

static const struct lh_rpc *const_rpc_of(const struct lh_transport *transport)
{
    return (const struct lh_rpc *)transport;
}

static struct lh_rpc_link *link_of(struct lh_transport_link *link)
{
    return (struct lh_rpc_link *)link;
}

/* ---- a node's end ---- */

static atomic_bool begun;

bool lh_rpc_was_begun(void)
{
    return atomic_load(&begun);
}

static int create(
    const struct lh_transport_config *config, struct lh_transport **out, char *why, size_t why_size)
{
    struct lh_rpc *rpc;

    atomic_store(&begun, true);
    int error = lh_rpc_create(config, &rpc, why, why_size);
    if (error != LH_OK)
        return error;
    rpc->base.methods = &lh_rpc_transport;
    *out = &rpc->base;
    return LH_OK;
}

static void start(struct lh_transport *transport)
{
    lh_rpc_start(rpc_of(transport));
}

static void destroy(struct lh_transport *transport)
{
    lh_rpc_destroy(rpc_of(transport));
}

static int port(const struct lh_transport *transport)
{
    return const_rpc_of(transport)->port;
}

static uint64_t unsent(const struct lh_transport *transport)
{
    return lh_rpc_unsent(const_rpc_of(transport));
}

static void figures(const struct lh_transport *transport, struct lh_transport_figures *to)
{
    lh_rpc_figures(const_rpc_of(transport), to);
}

static struct lh_tls *tls(const struct lh_transport *transport)
{
    return const_rpc_of(transport)->tls;
}

static void housekeep(struct lh_transport *transport)
{
    lh_rpc_housekeep(rpc_of(transport));
}

static void set_serving(struct lh_transport *transport, bool server, bool services)
{
    lh_rpc_set_serving(rpc_of(transport), server, services);
}

static void ask_who_answers(struct lh_transport *transport)
{
    lh_rpc_ask_who_answers(rpc_of(transport));
}

static struct lh_transport_link *open_link(struct lh_transport *transport, enum lh_method method,
    const char *address, struct lh_duration timeout)
{
    return &lh_rpc_link_open(rpc_of(transport), method, address, timeout)->base;
}

/* Each link's flush begins its batches, and gRPC decides what leaves together. */
static void flush_some(struct lh_transport *transport)
{
    (void)transport;
}

/* What gRPC has in the kernel a child cannot tell from what is not gRPC's. */
static void forks(struct lh_transport *transport, enum lh_fork where)
{
    (void)transport;
    (void)where;
}

const struct lh_transport_methods lh_rpc_transport = {
    .create = create,
    .start = start,
    .destroy = destroy,
    .port = port,
    .unsent = unsent,
    .figures = figures,
    .tls = tls,
    .housekeep = housekeep,
    .set_serving = set_serving,
    .ask_who_answers = ask_who_answers,
    .open = open_link,
    .flush_begin = flush_some,
    .flush_end = flush_some,
    .forks = forks,
};

/* ---- links ---- */

static void set_token(struct lh_transport_link *link, const char *token)
{
    lh_rpc_link_set_token(link_of(link), token);
}

static void ref(struct lh_transport_link *link)
{
    lh_rpc_link_ref(link_of(link));
}

static void unref(struct lh_transport_link *link)
{
    lh_rpc_link_unref(link_of(link));
}

static void put(struct lh_transport_link *link, struct lh_buf bytes, bool notify)
{
    lh_rpc_link_put(link_of(link), bytes, notify);
}

static void close_link(struct lh_transport_link *link, int error, const char *text)
{
    lh_rpc_link_close(link_of(link), error, text);
}

static void read_link(struct lh_transport_link *link)
{
    lh_rpc_link_read(link_of(link));
}

static void flush(struct lh_transport_link *link)
{
    lh_rpc_link_flush(link_of(link));
}

const struct lh_transport_link_methods lh_rpc_link_methods = {
    .set_token = set_token,
    .ref = ref,
    .unref = unref,
    .put = put,
    .close = close_link,
    .read = read_link,
    .flush = flush,
};
