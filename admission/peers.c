#include "admission/peers.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
/* Calls of so long may come at once, and cost no more than so long of waiting: less than a
 * connection that is not read from takes to be called dead. */
#define AHEAD_NS     (SECOND_NS / 100)
#define AHEAD_MAX_NS (2 * SECOND_NS)
/* Calls of so long may be on their way through gRPC. */
#define UNSEEN_NS (SECOND_NS / 2)

static void map_ipv4(struct lh_end *end, const struct in_addr *ip)
{
    memset(end->ip, 0, 10);
    memset(end->ip + 10, 0xff, 2);
    memcpy(end->ip + 12, ip, 4);
}

bool lh_end_of_address(const struct sockaddr_storage *address, struct lh_end *end)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        map_ipv4(end, &in->sin_addr);
        memcpy(end->port, &in->sin_port, sizeof end->port);
        return true;
    }
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        memcpy(end->ip, &in6->sin6_addr, sizeof end->ip);
        memcpy(end->port, &in6->sin6_port, sizeof end->port);
        return true;
    }
    return false;
}

bool lh_end_of_socket(int fd, struct lh_end *end)
{
    struct sockaddr_storage any = {0};
    socklen_t size = sizeof any;

    return getpeername(fd, (struct sockaddr *)&any, &size) == 0 && lh_end_of_address(&any, end);
}

bool lh_end_of_text(const char *text, struct lh_end *end)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    size_t n;

    if (colon == NULL || strlen(text) < 5)
        return false;
    bool four = strncmp(text, "ipv4:", 5) == 0;
    if (!four && strncmp(text, "ipv6:", 5) != 0)
        return false;
    text += 5;
    if (strncmp(text, "%5B", 3) == 0)
        text += 3;
    else if (*text == '[')
        text++;
    n = strcspn(text, four ? ":" : "%]");
    if (n >= sizeof host)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    unsigned long port = strtoul(colon + 1, NULL, 10);
    end->port[0] = (uint8_t)(port >> 8);
    end->port[1] = (uint8_t)port;
    if (!four)
        return inet_pton(AF_INET6, host, end->ip) == 1;
    struct in_addr ip;
    if (inet_pton(AF_INET, host, &ip) != 1)
        return false;
    map_ipv4(end, &ip);
    return true;
}

static bool is_ipv4(const uint8_t ip[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(ip, mapped, sizeof mapped) == 0;
}

static void drop(struct lh_peers *peers, struct lh_peer *peer, uint64_t now_ns)
{
    if (peer->users > 0 || peer->due_ns > now_ns || peer->calls_due_ns > now_ns ||
        peer->unseen_due_ns > now_ns)
        return;
    HASH_DEL(peers->all, peer);
    free(peer);
}

/* Those without users whose time has come. */
static void collect(struct lh_peers *peers, uint64_t now_ns)
{
    struct lh_peer *peer, *next;

    if (now_ns - peers->collected < SECOND_NS)
        return;
    peers->collected = now_ns;
    HASH_ITER(hh, peers->all, peer, next) {
        drop(peers, peer, now_ns);
    }
}

struct lh_peer *lh_peer_take(struct lh_peers *peers, const uint8_t ip[16], uint64_t now_ns)
{
    uint8_t network[16];
    struct lh_peer *peer;

    memcpy(network, ip, sizeof network);
    if (!is_ipv4(ip))
        memset(network + 8, 0, 8);
    HASH_FIND(hh, peers->all, network, sizeof network, peer);
    if (peer == NULL) {
        collect(peers, now_ns);
        peer = lh_alloc(sizeof *peer);
        memcpy(peer->network, network, sizeof network);
        HASH_ADD(hh, peers->all, network, sizeof peer->network, peer);
    }
    peer->users++;
    return peer;
}

void lh_peer_give(struct lh_peers *peers, struct lh_peer *peer, uint64_t now_ns)
{
    peer->users--;
    drop(peers, peer, now_ns);
}

bool lh_peer_may_begin(struct lh_peer *peer, unsigned rate, uint64_t now_ns)
{
    uint64_t due = peer->due_ns > now_ns ? peer->due_ns : now_ns;

    if (rate == 0)
        return true;
    if (due - now_ns > 2 * SECOND_NS)
        return false;
    peer->due_ns = due + SECOND_NS / rate;
    return true;
}

static uint64_t later(uint64_t due_ns, uint64_t by_ns, uint64_t now_ns)
{
    uint64_t due = (due_ns > now_ns ? due_ns : now_ns) + by_ns;

    return due < now_ns + AHEAD_MAX_NS ? due : now_ns + AHEAD_MAX_NS;
}

void lh_peer_began(struct lh_peer *peer, unsigned calls, unsigned rate, uint64_t now_ns)
{
    peer->calls_due_ns = later(peer->calls_due_ns, SECOND_NS / rate * calls, now_ns);
}

void lh_peer_sent(struct lh_peer *peer, unsigned calls, unsigned rate, uint64_t now_ns)
{
    lh_peer_began(peer, calls, rate, now_ns);
    peer->unseen_due_ns = later(peer->unseen_due_ns, SECOND_NS / rate * calls, now_ns);
}

void lh_peer_seen(struct lh_peer *peer, unsigned rate, uint64_t now_ns)
{
    if (peer->unseen_due_ns > now_ns)
        peer->unseen_due_ns -= SECOND_NS / rate;
}

bool lh_peer_is_busy(const struct lh_peer *peer, uint64_t now_ns)
{
    return peer->calls_due_ns > now_ns;
}

bool lh_peer_is_ahead(const struct lh_peer *peer, bool alone, uint64_t now_ns)
{
    return (!alone && peer->calls_due_ns > now_ns + AHEAD_NS) ||
           peer->unseen_due_ns > now_ns + UNSEEN_NS;
}

void lh_peer_print(const struct lh_peer *peer, char text[LH_PEER_TEXT_BYTES])
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (is_ipv4(peer->network)) {
        (void)inet_ntop(AF_INET, peer->network + 12, text, LH_PEER_TEXT_BYTES);
        return;
    }
    (void)inet_ntop(AF_INET6, peer->network, ip, sizeof ip);
    (void)snprintf(text, LH_PEER_TEXT_BYTES, "%s/64", ip);
}
