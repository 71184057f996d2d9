/* Who answers at the other end of a channel (ACC-8): asked in each handshake, when the certificate
 * and its host have been checked, and before anything of a call is sent.
 *
 * A handshake may outlive its channel, and what is given back to gRPC its rpc: so each answerer has
 * references of its own, and the owner is not asked any more once the rpc is being destroyed. */
#include "grpc/answers.h"
#include "base/alloc.h"
#include "grpc/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL_BYTES 1024u

struct answerer {
    _Atomic uint32_t references;
    struct lh_rpc *rpc;
    enum lh_server_kind kind;
    char *name; /* of the chunkserver that is meant; NULL: any */

    pthread_mutex_t lock; /* for all below; nothing is called with it */
    char *identity;       /* of whoever answered last; NULL: nobody has */
    char *refusal;        /* of whoever was refused last; NULL: nobody, or not any more */
};

struct answerer *lh_rpc_answerer_create(
    struct lh_rpc *rpc, const char *server, enum lh_server_kind kind)
{
    struct answerer *a = lh_alloc(sizeof *a);
    size_t size;

    atomic_init(&a->references, 1);
    a->rpc = rpc;
    atomic_fetch_add_explicit(&rpc->references, 1, memory_order_relaxed);
    a->kind = kind;
    (void)lh_server_address(server, &size);
    if (size > 0) {
        a->name = lh_alloc(size + 1);
        memcpy(a->name, server, size);
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void lh_rpc_answerer_unref(struct answerer *a)
{
    if (a == NULL || atomic_fetch_sub_explicit(&a->references, 1, memory_order_acq_rel) != 1)
        return;
    lh_rpc_unref(a->rpc);
    pthread_mutex_destroy(&a->lock);
    free(a->name);
    free(a->identity);
    free(a->refusal);
    free(a);
}

/* Is the authority of etcd's certificate another one than the cluster's? */
static bool is_apart(const struct answerer *a)
{
    if (a->kind != LH_SERVER_ETCD || a->rpc->tls == NULL)
        return a->kind == LH_SERVER_ETCD;
    struct lh_tls_pem *ours = lh_tls_current(a->rpc->tls);
    struct lh_tls_pem *theirs = lh_tls_current(a->rpc->foreign_tls);
    bool apart = strcmp(ours->ca, theirs->ca) != 0;
    lh_tls_pem_unref(ours);
    lh_tls_pem_unref(theirs);
    return apart;
}

static bool may_answer(const struct answerer *a, const char *identity, char *why)
{
    struct lh_rpc *rpc = a->rpc;
    int error = LH_ERR_SHUTTING_DOWN;

    why[0] = '\0';
    pthread_rwlock_rdlock(&rpc->answers_lock);
    if (!rpc->answers_over)
        error = rpc->config.may_answer(
            rpc->config.arg, a->kind, a->name, identity, is_apart(a), why, REFUSAL_BYTES);
    pthread_rwlock_unlock(&rpc->answers_lock);
    return error == LH_OK;
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = with == NULL ? NULL : lh_strdup(with);
}

static int verify(const char *host, const char *pem, void *arg)
{
    struct answerer *a = arg;
    char identity[LH_LINK_IDENTITY_MAX + 1], why[REFUSAL_BYTES];

    (void)host;
    bool known = lh_tls_owner_of_pem(pem, identity);
    if (!known)
        (void)snprintf(
            why, sizeof why, "who answers there shows a certificate of nobody: %s", identity);
    bool may = known && may_answer(a, identity, why);
    pthread_mutex_lock(&a->lock);
    if (may)
        replace(&a->identity, identity);
    replace(&a->refusal, may ? NULL : why);
    pthread_mutex_unlock(&a->lock);
    return may ? 0 : 1;
}

static void release(void *arg)
{
    lh_rpc_answerer_unref(arg);
}

void lh_rpc_answerer_verify(struct answerer *a, grpc_ssl_verify_peer_options *options)
{
    atomic_fetch_add_explicit(&a->references, 1, memory_order_relaxed);
    *options = (grpc_ssl_verify_peer_options){
        .verify_peer_callback = verify,
        .verify_peer_callback_userdata = a,
        .verify_peer_destruct = release,
    };
}

bool lh_rpc_answerer_holds(struct answerer *a)
{
    char why[REFUSAL_BYTES];

    pthread_mutex_lock(&a->lock);
    char *identity = a->identity == NULL ? NULL : lh_strdup(a->identity);
    pthread_mutex_unlock(&a->lock);
    bool holds = identity == NULL || may_answer(a, identity, why);
    free(identity);
    return holds;
}

char *lh_rpc_answerer_refusal(struct answerer *a)
{
    pthread_mutex_lock(&a->lock);
    char *refusal = a->refusal == NULL ? NULL : lh_strdup(a->refusal);
    pthread_mutex_unlock(&a->lock);
    return refusal;
}
