/* libFuzzer target: what reads a stranger's or an operator's bytes around the cores: the frames of
 * connections and what gRPC says of their ends, certificates, the standard service of reflection,
 * statuses of etcd and of servers, the table of roles, config files, the file of a guard. The first
 * byte chooses.
 *
 * reflection.c answers over a link; the functions of links that it calls are here. */
#include "rpc/reflection.c"

#include "access/access.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "client/library/guard_file.h"
#include "rpc/certificate.h"
#include "rpc/frames.h"
#include "rpc/peers.h"
#include "runtime/flags.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t answered;

void lh_rpc_link_put(struct lh_rpc_link *link, struct lh_buf bytes, bool tell)
{
    (void)link;
    (void)tell;
    answered += bytes.size;
    lh_buf_clear(&bytes);
}

void lh_rpc_link_close(struct lh_rpc_link *link, int error, const char *text)
{
    (void)link;
    LH_ASSERT(error == LH_OK || text != NULL);
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
    (void)rpc;
    (void)call;
    (void)method;
    (void)unary_request;
    (void)unary_reply;
    (void)handler;
    return NULL;
}

/* The library's. */
int lh_fail(int error, const char *format, ...);
int lh_fail(int error, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error;
}

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = lh_alloc(size + 1);

    if (size > 0)
        memcpy(text, data, size);
    return text;
}

static void reflect(const uint8_t *data, size_t size)
{
    static const char *const services[] = {"leasehold.Master", NULL};
    static struct lh_rpc rpc = {.config.services = services};
    struct lh_rpc_link link = {.rpc = &rpc};

    (void)pthread_once(&described_once, describe);
    reflection_message(&link, lh_buf_copy(data, size));
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
    const struct lh_rpc_tls names = {"ca.pem", "cert.pem", "key.pem"};
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

static void parse_roles(const uint8_t *data, size_t size)
{
    struct lh_access *access = NULL;
    struct lh_party party;
    char why[512] = "";

    if (lh_access_parse((const char *)data, size, &access, why, sizeof why) != LH_OK) {
        LH_ASSERT(why[0] != '\0' && access == NULL);
        return;
    }
    /* What stands there first is perhaps somebody; a URI of a certificate is, too. */
    char *identity = text_of(data, size);
    identity[strcspn(identity, " \t\n")] = '\0';
    lh_access_party(access, identity, &party);
    (void)lh_party_may(&party, LH_RIGHT_ADMIN);
    (void)lh_party_reaches(&party, "/logs/web", true);
    free(identity);
    lh_access_free(access);
}

/* A file of the process's own with these bytes in it. */
static const char *file_with(const uint8_t *data, size_t size)
{
    static char path[64];

    (void)snprintf(path, sizeof path, "/tmp/leasehold-fuzz-edges-%d", (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    LH_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)close(fd);
    return path;
}

static void read_config_file(const uint8_t *data, size_t size)
{
    static const char *text;
    static bool yes;
    static uint64_t number, bytes;
    static struct lh_duration time;
    static struct lh_flag_list list;
    static const struct lh_flag table[] = {
        {.name = "text", .type = LH_FLAG_STRING, .value = &text, .help = ""},
        {.name = "yes", .type = LH_FLAG_BOOL, .value = &yes, .help = ""},
        {.name = "number", .type = LH_FLAG_UINT, .value = &number, .help = "", .max = 1000},
        {.name = "bytes", .type = LH_FLAG_SIZE, .value = &bytes, .help = ""},
        {.name = "time", .type = LH_FLAG_DURATION, .value = &time, .help = "", .min = 5},
        {.name = "list", .type = LH_FLAG_LIST, .value = &list, .help = ""},
    };
    static const struct lh_flags flags = {.command = "x",
        .usage = "",
        .summary = "",
        .flags = table,
        .count = sizeof table / sizeof table[0]};
    char option[128], *argv[] = {(char *)"x", option, NULL};
    const char *path = file_with(data, size);

    text = NULL; /* what an earlier result had is gone */
    list = (struct lh_flag_list){0};
    (void)snprintf(option, sizeof option, "--config=%s", path);
    struct lh_flags_result r = lh_flags_parse(&flags, 2, argv, NULL, "0");
    LH_ASSERT(r.outcome == LH_FLAGS_OK || r.text != NULL);
    lh_flags_free(&r);
    (void)unlink(path);
}

/* Pages of a few fields each, with checksums that fit unless a byte says otherwise. */
static size_t make_guard(const uint8_t *data, size_t size, uint8_t *file, size_t room)
{
    static const uint8_t header[12] = {'L', 'H', 'G', 'U', 'A', 'R', 'D', '\n', 1};
    size_t at = PAGE;

    const uint8_t first = data[0];

    memset(file, 0, room);
    memcpy(file, header, sizeof header);
    lh_put32(file + 12, lh_crc32c(0, file, 12));
    if (data[0] == 255)
        file[data[1] % 16] ^= 1;
    for (data += 2, size -= 2; size >= 8 && at < room; data += 8, size -= 8, at += PAGE) {
        uint8_t *page = file + at;
        if (data[0] % 8 == 0)
            continue; /* of zeros */
        lh_put32(page, UINT32_C(0x3147484c));
        lh_put64(page + 8, data[1] == 255 ? UINT64_MAX : data[1]);
        lh_put64(page + 16, data[2] == 255 ? UINT64_MAX : data[2]);
        lh_put32(page + 24, data[3] == 255 ? UINT32_MAX : data[3] % 4);
        memcpy(page + 32, data + 4, 3);
        lh_put32(page + 4, lh_crc32c(0, page + 8, PAGE - 8));
        if (data[0] % 8 == 1)
            page[data[7] * 16u] ^= 1;
    }
    return first == 254 && at > 100 ? at - 100 : at;
}

/* Of each name the token that was admitted never falls. */
static void open_guard(const uint8_t *data, size_t size)
{
    static uint8_t bytes[9 * PAGE];
    static const char *const names[] = {"a", "b", "\1"};
    if (size < 2)
        return;
    size_t n = make_guard(data, size, bytes, sizeof bytes);
    const char *path = file_with(bytes, n);
    struct lh_guard_file file;

    if (lh_guard_file_open(path, &file) == LH_OK) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            pthread_mutex_lock(&file.mutex);
            struct lh_guard_name *name = lh_guard_file_name(&file, names[i]);
            pthread_mutex_unlock(&file.mutex);
            if (name != NULL && lh_guard_file_admit(&file, name, 7) == LH_OK)
                LH_ASSERT(lh_guard_file_admit(&file, name, 6) != LH_OK);
        }
        lh_guard_file_close(&file);
    }
    (void)unlink(path);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const uint8_t *, size_t) = {reflect, take_frames, parse_end,
        read_certificates_of, parse_roles, read_config_file, open_guard, read_status};

    if (size < 2)
        return 0;
    all[data[0] % (sizeof all / sizeof all[0])](data + 1, size - 1);
    return 0;
}
