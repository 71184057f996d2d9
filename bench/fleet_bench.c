/* Very many chunkservers register at a master, and send heartbeats: as far as the master sees, for
 * they have no disks. bench/start --fleet starts the master, on what store_fill made of the same
 * numbers.
 *
 *   fleet_bench --port PORT --servers N --chunks N --files N [--open N] [--whole] [--time T]
 *
 * Each has a connection of its own (an address of the loopback), shows its leases, those of the
 * open chunks that it is the first member of, and then its replicas. --whole: in the order of
 * earlier releases, a session beginning only when all were shown.
 *
 * Two lines of JSON are printed. The first when all have registered: when the last session began
 * and the last replica was sent, from the start, in ms; how many leases were continued; and how
 * long heartbeats were unanswered, at most. The second `time` later: how many heartbeats were
 * answered since, and again how long they were unanswered. */
#include "base/alloc.h"
#include "base/step.h"
#include "bench/options.h"
#include "bench/records.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/loop.h"

#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 512u

static struct {
    uint64_t port, servers, chunks, files, open;
    bool whole;
    struct lh_duration time;
} o;

struct server {
    uint64_t pieces, next_chunk, next_lease; /* the latter: a file's */
    uint64_t session, last_stamp;
    uint64_t heartbeat_ns;
    struct lh_instant beat_at, beaten_at; /* the next one; the one that is not answered, or 0 */
    bool more;
};

static struct {
    struct server *servers; /* by number - 1; links have the same numbers */
    struct lh_loop *loop;
    struct lh_instant began, all_sessions, all_shown, registered; /* the last: both of them */
    uint64_t sessions, shown, continued, beats, longest_ns;
    sem_t done;
} f;

static bool is_open(uint64_t chunk)
{
    return chunk + o.files > o.chunks && (chunk - 1) % o.files < o.open;
}

/* The next one from `chunk` on with a replica there: three follow each other, in each round over
 * the servers. */
static uint64_t next_of(uint64_t chunk, uint64_t n)
{
    uint64_t first = (n + o.servers - LH_BENCH_MEMBERS) % o.servers;
    uint64_t place = (chunk + o.servers - first) % o.servers;

    return place < LH_BENCH_MEMBERS ? chunk : chunk + o.servers - place;
}

static uint64_t last_of(uint64_t file)
{
    return o.chunks - (o.chunks - file) % o.files;
}

/* Of the files from that one on, the next whose last chunk is open and granted there. */
static uint64_t next_lease(uint64_t file, uint64_t n)
{
    while (file <= o.open && last_of(file) % o.servers + 1 != n)
        file++;
    return file;
}

static void send_piece(uint64_t n, struct lh_instant now, struct lh_effects *fx)
{
    struct server *s = &f.servers[n - 1];
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;
    static Leasehold__ReplicaReport reports[PIECE], *report_pointers[PIECE];
    static Leasehold__ChunkVersion held[PIECE], *held_pointers[PIECE];
    char name[32], address[64];

    (void)snprintf(name, sizeof name, "cs%" PRIu64, n);
    (void)snprintf(address, sizeof address, "%s:7401", name);
    if (s->pieces == 0) {
        r.server_id = r.machine_id = name;
        r.incarnation = r.process = 1;
        r.address = address;
        r.capacity_bytes = r.free_bytes = UINT64_C(1) << 50;
    }
    for (; s->next_lease <= o.open && r.n_held < PIECE;
         s->next_lease = next_lease(s->next_lease + 1, n)) {
        leasehold__chunk_version__init(&held[r.n_held]);
        held[r.n_held].chunk = last_of(s->next_lease);
        held[r.n_held].version = LH_BENCH_VERSION;
        held_pointers[r.n_held] = &held[r.n_held];
        r.n_held++;
    }
    r.leases_shown = s->next_lease > o.open && !o.whole;
    for (; s->next_chunk <= o.chunks && r.n_held + r.n_replicas < PIECE;
         s->next_chunk = next_of(s->next_chunk + 1, n)) {
        Leasehold__ReplicaReport *report = &reports[r.n_replicas];
        leasehold__replica_report__init(report);
        report->chunk = s->next_chunk;
        report->version = LH_BENCH_VERSION;
        report->sealed = !is_open(s->next_chunk);
        report->length = report->sealed ? LH_BENCH_CHUNK_BYTES : 0;
        report->checksum = report->sealed ? lh_bench_checksum(s->next_chunk) : 0;
        report_pointers[r.n_replicas++] = report;
    }
    r.held = held_pointers;
    r.replicas = report_pointers;
    r.registration = 1;
    r.piece = s->pieces++;
    r.more = s->more = s->next_chunk <= o.chunks || s->next_lease <= o.open;
    r.stamp = now.ns;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    m.register_ = &r;
    if (s->more && !r.leases_shown)
        lh_fx_send_notified(fx, n, &m.base, NULL);
    else
        lh_fx_send(fx, n, &m.base, NULL);
    if (!s->more && ++f.shown == o.servers)
        f.all_shown = now;
}

static void begin(uint64_t n, struct lh_instant now, struct lh_effects *fx)
{
    char address[64];

    (void)snprintf(address, sizeof address, "127.1.%u.%u:%" PRIu64, (unsigned)(n / 250),
        (unsigned)(n % 250 + 1), o.port);
    f.servers[n - 1].next_chunk = next_of(1, n);
    f.servers[n - 1].next_lease = next_lease(1, n);
    lh_fx_open(fx, n, LH_METHOD_SESSION, address, LH_DURATION_FOREVER);
    send_piece(n, now, fx);
}

static void beat(uint64_t n, struct lh_instant now, struct lh_effects *fx)
{
    struct server *s = &f.servers[n - 1];
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat h = LEASEHOLD__HEARTBEAT__INIT;

    h.session = s->session;
    h.stamp = now.ns;
    h.last_stamp = s->last_stamp;
    h.free_bytes = UINT64_C(1) << 50;
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    m.heartbeat = &h;
    lh_fx_send(fx, n, &m.base, NULL);
    s->beat_at = lh_instant_add(now, lh_nanoseconds(s->heartbeat_ns));
    if (s->beaten_at.ns == 0)
        s->beaten_at = now;
}

static _Noreturn void fail(uint64_t n, const char *what, const char *text)
{
    fprintf(stderr, "fleet_bench: cs%" PRIu64 ": %s: %s\n", n, what, text);
    exit(1);
}

static void message(
    uint64_t n, const Leasehold__SessionReply *m, struct lh_instant now, struct lh_effects *fx)
{
    struct server *s = &f.servers[n - 1];

    if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED) {
        const Leasehold__Registered *r = m->registered;
        if (r->error != 0)
            fail(n, "refused", r->error_text);
        s->session = r->session;
        s->last_stamp = r->stamp;
        s->heartbeat_ns = r->heartbeat_ns;
        f.continued += r->n_continued;
        if (++f.sessions == o.servers)
            f.all_sessions = now;
        beat(n, now, fx);
    } else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_SHOW_REPLICAS && s->more) {
        send_piece(n, now, fx);
    } else if (m->body_case == LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT) {
        if (m->heartbeat->error != 0) {
            char waited[80];
            (void)snprintf(waited, sizeof waited, "the session is over; sent %" PRIu64 " ms ago",
                lh_duration_ms(lh_instant_until(s->beaten_at, now)));
            fail(n, "its heartbeat", waited);
        }
        uint64_t took = s->beaten_at.ns == 0 ? 0 : lh_instant_until(s->beaten_at, now).ns;
        f.longest_ns = took > f.longest_ns ? took : f.longest_ns;
        f.beats++;
        s->beaten_at.ns = 0;
        s->last_stamp = m->heartbeat->stamp;
    }
}

static struct lh_instant deadline(const void *self)
{
    struct lh_instant at = LH_INSTANT_NEVER;

    (void)self;
    for (uint64_t n = 1; n <= o.servers; n++)
        if (f.servers[n - 1].session != 0)
            at = lh_instant_min(at, f.servers[n - 1].beat_at);
    return f.began.ns != 0 ? at : (struct lh_instant){0};
}

static double ms(struct lh_instant at)
{
    return (double)lh_instant_until(f.began, at).ns / 1e6;
}

static void registered(struct lh_instant now)
{
    printf("{\"all_sessions_ms\": %.0f, \"all_shown_ms\": %.0f, \"continued\": %" PRIu64
           ", \"longest_heartbeat_ms\": %.1f}\n",
        ms(f.all_sessions), ms(f.all_shown), f.continued, (double)f.longest_ns / 1e6);
    fflush(stdout);
    f.registered = now;
    f.beats = f.longest_ns = 0;
}

static void timer(struct lh_instant now, struct lh_effects *fx)
{
    if (f.began.ns == 0) {
        f.began = now;
        for (uint64_t n = 1; n <= o.servers; n++)
            begin(n, now, fx);
    }
    for (uint64_t n = 1; n <= o.servers; n++)
        if (f.servers[n - 1].session != 0 && lh_instant_reached(now, f.servers[n - 1].beat_at))
            beat(n, now, fx);
    if (f.all_shown.ns != 0 && f.all_sessions.ns != 0 && f.registered.ns == 0)
        registered(now);
    else if (f.registered.ns != 0 && lh_instant_reached(now, lh_instant_add(f.registered, o.time)))
        sem_post(&f.done);
}

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    (void)self;
    switch (in->kind) {
    case LH_IN_TIMER:
        timer(in->now, fx);
        break;
    case LH_IN_SENT:
        if (f.servers[in->link - 1].more)
            send_piece(in->link, in->now, fx);
        break;
    case LH_IN_MESSAGE:
        message(in->link, in->message, in->now, fx);
        break;
    case LH_IN_LINK_CLOSED:
        fail(in->link, "its stream ended", in->text == NULL ? "?" : in->text);
    default:
        break;
    }
}

static const struct lh_flag table[] = {
    {LH_FLAG("port", UINT, &o.port, "7400"), .help = "of the master, on all addresses"},
    {LH_FLAG("servers", UINT, &o.servers, "1000"), .help = "chunkservers", .min = 3},
    {LH_FLAG("chunks", UINT, &o.chunks, "1000000"), .help = "chunks", .min = 1},
    {LH_FLAG("files", UINT, &o.files, "100000"), .help = "files", .min = 1},
    {LH_FLAG("open", UINT, &o.open, "0"), .help = "files whose last chunk is open"},
    {LH_FLAG("whole", BOOL, &o.whole, "false"), .help = "leases are not shown first"},
    {LH_FLAG("time", DURATION, &o.time, "30s"), .help = "of heartbeats, at the end"},
};

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "fleet_bench",
        .usage = "[OPTION]...",
        .summary = "Registers very many chunkservers at a master.",
        LH_FLAG_ROWS(table),
    };
    struct lh_loop_config config = {.core = {&f, step, deadline},
        .name = "fleet",
        .threads = 1,
        .connect_timeout = lh_seconds(20),
        .keepalive = lh_seconds(60),
        .keepalive_timeout = lh_seconds(60)};
    char why[200];

    lh_bench_options(&flags, argc, argv);
    f.servers = lh_alloc_array(o.servers, sizeof *f.servers);
    sem_init(&f.done, 0, 0);
    if (lh_loop_create(&config, &f.loop, why, sizeof why) != LH_OK) {
        fprintf(stderr, "fleet_bench: %s\n", why);
        return 1;
    }
    lh_loop_start(f.loop);
    while (sem_wait(&f.done) != 0)
        ;
    lh_loop_lock(f.loop);
    printf("{\"heartbeats\": %" PRIu64 ", \"longest_heartbeat_ms\": %.1f}\n", f.beats,
        (double)f.longest_ns / 1e6);
    fflush(stdout);
    _Exit(0);
}
