/* libFuzzer target: what reads a stranger's bytes around the cores: the frames of connections and
 * what gRPC says of their ends, certificates, the standard services of health and reflection,
 * statuses of etcd and of servers, capabilities. The first byte chooses.
 *
 * The services answer over links; the functions of links that they call are here. */
#include "access/capability.h"
#include "admission/frames.h"
#include "admission/peers.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "grpc/batches.h"
#include "grpc/internal.h"
#include "grpc/statuses.h"
#include "tls/certificate.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same of capabilities to lead: of the version, or of another one. */
static void check_lead(const uint8_t *data, size_t size)
{
    static const uint8_t secret[LH_CAPABILITY_SECRET_BYTES] = {1};
    const struct lh_lead lead = {.chunk = 5, .version = data[0] % 4, .holder = "cs1"};
    const struct lh_lead other = {.chunk = 5, .version = data[0] / 4 % 4, .holder = "cs1"};
    uint8_t made[LH_CAPABILITY_BYTES], shown[2 * LH_CAPABILITY_BYTES] = {0};
    struct lh_capability_keys keys;

    lh_capability_keys_init(&keys, 2);
    lh_capability_learn(&keys, 7, secret, (struct lh_instant){0}, lh_seconds(0));
    lh_capability_make_lead(secret, 7, &lead, made);
    size = size - 1 < sizeof shown ? size - 1 : sizeof shown;
    memcpy(shown, data + 1, size);
    for (size_t i = 0; i < sizeof made; i++)
        shown[i] ^= made[i];
    bool whole = size <= sizeof made && memcmp(shown, made, sizeof made) == 0;
    size = size < sizeof made ? sizeof made : size;
    LH_ASSERT(
        (lh_capability_check_lead(&keys, &lead, shown, size) == LH_CAPABILITY_HOLDS) == whole);
    LH_ASSERT((lh_capability_check_lead(&keys, &other, shown, size) == LH_CAPABILITY_HOLDS) ==
              (whole && other.version == lead.version));
    lh_capability_keys_deinit(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The one link, of the service that is called. */
static struct lh_rpc_link served;
static unsigned answers;

void lh_rpc_link_put(struct lh_rpc_link *link, struct lh_buf bytes, bool notify)
{
    LH_ASSERT(link == &served);
    (void)notify;
    answers++;
    lh_buf_clear(&bytes);
}

void lh_rpc_link_send(struct lh_rpc_link *link, struct lh_buf bytes)
{
    lh_rpc_link_put(link, bytes, false);
}

void lh_rpc_link_close(struct lh_rpc_link *link, int error, const char *text)
{
    LH_ASSERT(link == &served);
    LH_ASSERT(error == LH_OK || text != NULL);
    answers += error != LH_OK;
}

void lh_rpc_link_ref(struct lh_rpc_link *link)
{
    (void)link;
}

void lh_rpc_link_read(struct lh_rpc_link *link)
{
    (void)link;
}

void lh_rpc_link_flush(struct lh_rpc_link *link)
{
    (void)link;
}

void lh_rpc_link_unref(struct lh_rpc_link *link)
{
    (void)link;
}

void lh_rpc_link_await_end(struct lh_rpc_link *link)
{
    (void)link;
}

struct lh_rpc_link *lh_rpc_link_serve(struct lh_rpc *rpc, const struct served_call *call,
    enum lh_method method, bool unary_request, bool unary_reply, const struct link_handler *handler)
{
    (void)call;
    served = (struct lh_rpc_link){.rpc = rpc,
        .method = method,
        .unary_request = unary_request,
        .unary_reply = unary_reply,
        .handler = handler};
    return &served;
}

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = lh_alloc(size + 1);

    if (size > 0)
        memcpy(text, data, size);
    return text;
}

/* A message to a standard service, and one more where that is allowed. Each has an answer, and a
 * watcher hears of a change. */
static void call_service(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"};
    static const char *const services[] = {"leasehold.Master", NULL};
    const char *path = paths[data[0] % 4];
    struct lh_rpc rpc = {.config.services = services,
        .health_lock = PTHREAD_MUTEX_INITIALIZER,
        .lock = PTHREAD_MUTEX_INITIALIZER};

    bool found = data[0] % 4 < 2 ? lh_rpc_reflection_serve(&rpc, NULL, path, strlen(path))
                                 : lh_rpc_health_serve(&rpc, NULL, path, strlen(path));
    LH_ASSERT(found);
    answers = 0;
    served.handler->message(&served, lh_buf_copy(data + 1, size - 1));
    LH_ASSERT(answers == 1);
    if (served.watching) {
        lh_rpc_set_serving(&rpc, true, true);
        LH_ASSERT(answers == 2);
    } else if (data[0] % 4 < 2) {
        served.handler->message(&served, lh_buf_copy(data + 1, (size - 1) / 2));
        LH_ASSERT(answers == 2);
    }
    served.handler->closed(&served, LH_OK, NULL);
}

/* However the bytes are cut, the same calls are seen. */
static void take_frames(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct lh_frames whole = {0}, cut = {0};

    if (data[0] % 4 != 0) {
        lh_frames_take(&whole, (const uint8_t *)preface, sizeof preface - 1);
        lh_frames_take(&cut, (const uint8_t *)preface, sizeof preface - 1);
    }
    lh_frames_take(&whole, data + 1, size - 1);
    for (size_t at = 1; at < size;) {
        size_t n = 1 + data[at] % 7;
        n = n < size - at ? n : size - at;
        lh_frames_take(&cut, data + at, n);
        at += n;
    }
    LH_ASSERT(whole.begun == cut.begun && whole.cancelled == cut.cancelled);
    LH_ASSERT(whole.opaque == cut.opaque && whole.header_seen == cut.header_seen);
}

static void parse_end(const uint8_t *data, size_t size)
{
    static const char *const begins[] = {"", "ipv4:", "ipv6:%5B", "ipv6:["};
    char *text = text_of(data + 1, size - 1), *all = lh_alloc(size + 16);
    char name[LH_PEER_TEXT_BYTES];
    struct lh_peers peers = {0};
    struct lh_end end;

    (void)snprintf(all, size + 16, "%s%s", begins[data[0] % 4], text);
    if (lh_end_of_text(all, &end)) {
        struct lh_peer *peer = lh_peer_take(&peers, end.ip, 1);
        lh_peer_print(peer, name);
        LH_ASSERT(name[0] != '\0');
        for (unsigned i = 0; i < 8; i++)
            (void)lh_peer_may_begin(peer, data[0] % 3, i);
        lh_peer_give(&peers, peer, UINT64_MAX);
        LH_ASSERT(peers.all == NULL);
    }
    free(text);
    free(all);
}

/* PEM of these bytes as they are, or with them as what is inside. */
static char *pem_of(const uint8_t *data, size_t size, bool inside, const char *kind)
{
    if (!inside)
        return text_of(data, size);
    char *body = lh_alloc(size * 2 + 8), *pem = lh_alloc(size * 2 + 128);
    (void)EVP_EncodeBlock((unsigned char *)body, data, (int)size);
    int at = sprintf(pem, "-----BEGIN %s-----\n", kind);
    for (const char *line = body; *line != '\0'; line += strnlen(line, 64))
        at += sprintf(pem + at, "%.64s\n", line);
    (void)sprintf(pem + at, "-----END %s-----\n", kind);
    free(body);
    return pem;
}

static void read_certificates_of(const uint8_t *data, size_t size)
{
    const struct lh_tls_files names = {"ca.pem", "cert.pem", "key.pem"};
    size_t half = data[0] < 128 ? size : 1 + (size - 1) / 2;
    struct lh_tls_pem pem = {
        .ca = pem_of(data + 1, half - 1, data[0] % 2 == 0, "CERTIFICATE"),
        .cert = pem_of(data + 1, half - 1, data[0] % 2 == 0, "CERTIFICATE"),
        .key = pem_of(data + half, size - half, data[0] % 4 < 2, "PRIVATE KEY"),
    };
    char why[512] = "", host[64];

    int error = lh_certificate_check(&names, (enum lh_tls_use)(data[0] % 3), &pem, why, sizeof why);
    LH_ASSERT(error == LH_OK || why[0] != '\0');
    if (lh_certificate_host(pem.cert, host, sizeof host))
        LH_ASSERT(host[0] != '\0' && strlen(host) < sizeof host);
    free(pem.ca);
    free(pem.cert);
    free(pem.key);
}

static void read_status(const uint8_t *data, size_t size)
{
    char *text = text_of(data + 1, size - 1);
    const char *details = text;

    int error = lh_rpc_error_of((grpc_status_code)(data[0] % 17), data[0] >= 128, &details);
    LH_ASSERT(error <= 0 && details >= text && details <= text + strlen(text));
    grpc_slice message = lh_rpc_status_message(error, details);
    grpc_slice_unref(message);
    free(text);
}

/* What nobody who knows the secret has made for this chunk gives no right on it, whatever its bytes
 * say. By the first byte they are any, or those of a capability with some of them changed. */
static void check_capability(const uint8_t *data, size_t size)
{
    static const uint8_t secret[LH_CAPABILITY_SECRET_BYTES] = {1};
    const struct lh_duration until = lh_seconds(data[0] % 4);
    const struct lh_instant now = {lh_seconds(1 + data[0] / 4 % 4).ns};
    uint8_t made[LH_CAPABILITY_BYTES], shown[2 * LH_CAPABILITY_BYTES] = {0};
    unsigned rights = data[0] / 16 % 4, asked = data[0] / 64;
    struct lh_capability_keys keys;
    struct lh_instant end;

    lh_capability_keys_init(&keys, 2);
    lh_capability_learn(&keys, 7, secret, (struct lh_instant){lh_seconds(1).ns}, lh_seconds(0));
    lh_capability_make(secret, 7, 5, until, rights, made);
    size = size - 1 < sizeof shown ? size - 1 : sizeof shown;
    memcpy(shown, data + 1, size);
    enum lh_capability_verdict any =
        lh_capability_check(&keys, 5, asked, size == 0 ? NULL : shown, size, now, &end);
    if (any == LH_CAPABILITY_HOLDS) { /* libFuzzer learns what bytes are compared with */
        uint8_t other[LH_CAPABILITY_BYTES];
        struct lh_duration end_of = lh_milliseconds(lh_get64(shown + 8));
        lh_capability_make(secret, 7, 5, end_of, shown[16], other);
        LH_ASSERT(memcmp(shown, other, sizeof other) == 0);
    }
    LH_ASSERT(lh_capability_text(any) != NULL);
    for (size_t i = 0; i < sizeof made; i++)
        shown[i] ^= made[i];
    bool same = memcmp(shown, made, sizeof made) == 0;
    enum lh_capability_verdict changed =
        lh_capability_check(&keys, 5, asked, shown, sizeof made, now, &end);
    LH_ASSERT(!same || changed != LH_CAPABILITY_FORGED);
    LH_ASSERT(
        lh_capability_check(&keys, 6, asked, made, sizeof made, now, &end) != LH_CAPABILITY_HOLDS);
    lh_capability_keys_deinit(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const uint8_t *, size_t) = {call_service, take_frames, parse_end,
        read_certificates_of, read_status, check_capability, check_lead};

    if (size < 2)
        return 0;
    all[data[0] % (sizeof all / sizeof all[0])](data + 1, size - 1);
    return 0;
}
