/* What the way through loop, gRPC and sockets costs, without any protocol on top: one process sends
 * Append messages, another answers each with a few bytes (or passes it on to a third first). */
#include "base/alloc.h"
#include "bench/options.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/loop.h"

#include <inttypes.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define CLIENT_LINK 1
#define SAMPLES_MAX (1 << 20)

struct options {
    const char *serve;   /* a server process: where it listens */
    const char *forward; /* and to whom it passes on */
    bool tcp;
    uint64_t threads;
    struct lh_duration time;
    uint64_t size, window; /* 0: the standard set of runs */
};

static struct options o;

/* ---- the serving side ---- */

struct server {
    struct lh_loop *loop;
    uint64_t served; /* relay: whom to answer */
    bool opened;
};

static void answer(uint64_t link, uint64_t sequence, struct lh_effects *fx)
{
    Leasehold__AppendReply r = LEASEHOLD__APPEND_REPLY__INIT;

    r.alive_ms = sequence;
    lh_fx_send(fx, link, &r.base, NULL);
}

static void server_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct server *s = self;

    if (in->kind == LH_IN_LINK_CLOSED && (in->link & LH_LINK_SERVED) != 0 && s->opened) {
        lh_fx_close(fx, CLIENT_LINK + s->served, LH_OK, NULL);
        s->opened = false;
    }
    if (in->kind != LH_IN_MESSAGE)
        return;
    if ((in->link & LH_LINK_SERVED) == 0) {
        const Leasehold__AppendReply *r = in->message;
        answer(LH_LINK_SERVED | s->served, r->alive_ms, fx);
        return;
    }
    const Leasehold__AppendRequest *q = in->message;
    if (o.forward == NULL) {
        answer(in->link, q->parts[0]->lane, fx);
        return;
    }
    s->served = in->link & ~LH_LINK_SERVED;
    if (!s->opened)
        lh_fx_open(fx, CLIENT_LINK + s->served, LH_METHOD_APPEND, o.forward, LH_DURATION_FOREVER);
    s->opened = true;
    lh_fx_send(fx, CLIENT_LINK + s->served, &q->base, &in->payload);
}

static struct lh_instant never(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static _Noreturn void serve(void)
{
    struct server server = {0};
    struct lh_loop_config config = {
        .core = {&server, server_step, never},
        .name = "server",
        .listen = o.serve,
        .threads = (unsigned)o.threads,
    };
    char why[200];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (lh_loop_create(&config, &server.loop, why, sizeof why) != LH_OK) {
        fprintf(stderr, "rpc_bench: %s\n", why);
        exit(1);
    }
    lh_loop_start(server.loop);
    printf("127.0.0.1:%d\n", lh_loop_port(server.loop));
    fflush(stdout);
    for (;;)
        pause();
}

static pid_t spawn_server(const char *listen, const char *forward, char *address, size_t size)
{
    char threads[24];
    char *argv[] = {(char *)"rpc_bench", (char *)"--serve", (char *)(uintptr_t)listen,
        (char *)"--threads", threads, (char *)(uintptr_t)(forward == NULL ? NULL : "--forward"),
        (char *)(uintptr_t)forward, NULL};
    posix_spawn_file_actions_t actions;
    int fds[2];
    pid_t pid;

    snprintf(threads, sizeof threads, "%" PRIu64, o.threads);
    if (pipe(fds) != 0)
        abort();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ) != 0)
        abort();
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    FILE *f = fdopen(fds[0], "r");
    if (f == NULL || fgets(address, (int)size, f) == NULL)
        abort();
    fclose(f);
    address[strcspn(address, "\n")] = '\0';
    if (!o.tcp)
        snprintf(address, size, "%s", listen);
    return pid;
}

/* ---- the sending side ---- */

struct client {
    struct lh_loop *loop;
    const char *address;
    struct lh_buf payload;
    uint64_t window;
    bool
        by_caller; /* each message waits for a thread that calls, instead of following the answer */
    uint64_t sent, answered;
    struct lh_instant until;
    uint64_t *sent_at; /* by sequence, modulo the window */
    uint32_t *samples; /* ns */
    size_t sample_count;
    sem_t done;
};

static void send_one(struct client *c, struct lh_instant now, struct lh_effects *fx)
{
    Leasehold__AppendPart part = LEASEHOLD__APPEND_PART__INIT, *parts[] = {&part};
    Leasehold__AppendRequest q = LEASEHOLD__APPEND_REQUEST__INIT;
    struct lh_buf payload = lh_buf_ref(&c->payload);

    part.lane = ++c->sent;
    q.parts = parts;
    q.n_parts = 1;
    c->sent_at[c->sent % c->window] = now.ns;
    lh_fx_send(fx, CLIENT_LINK, &q.base, &payload);
}

static void client_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct client *c = self;

    switch (in->kind) {
    case LH_IN_CALL:
        if (c->sent == 0)
            lh_fx_open(fx, CLIENT_LINK, LH_METHOD_APPEND, c->address, LH_DURATION_FOREVER);
        for (uint64_t i = 0; i < (c->by_caller ? 1 : c->window); i++)
            send_one(c, in->now, fx);
        break;
    case LH_IN_MESSAGE: {
        const Leasehold__AppendReply *r = in->message;
        c->answered++;
        if (c->sample_count < SAMPLES_MAX)
            c->samples[c->sample_count++] =
                (uint32_t)(in->now.ns - c->sent_at[r->alive_ms % c->window]);
        if (c->by_caller)
            lh_fx_complete(fx, NULL, LH_OK);
        else if (lh_instant_before(in->now, c->until))
            send_one(c, in->now, fx);
        else if (c->answered == c->sent)
            lh_fx_complete(fx, NULL, LH_OK);
        break;
    }
    case LH_IN_LINK_CLOSED:
        fprintf(stderr, "rpc_bench: link closed: %s\n", in->text);
        exit(1);
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default:
        break;
    }
}

static void completed(void *arg, void *call, int error)
{
    struct client *c = arg;

    (void)call;
    (void)error;
    sem_post(&c->done);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double cpu_seconds(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void run(
    const char *label, const char *address, uint64_t size, uint64_t window, bool by_caller)
{
    struct client c = {.address = address, .window = window, .by_caller = by_caller};
    struct lh_loop_config config = {
        .core = {&c, client_step, never},
        .name = "client",
        .threads = (unsigned)o.threads,
        .on_complete = completed,
        .arg = &c,
    };
    char why[200];
    uint8_t *to;

    c.payload = lh_buf_alloc(size, &to);
    memset(to, 'x', size);
    c.sent_at = lh_alloc_array(window, sizeof *c.sent_at);
    c.samples = lh_alloc_array(SAMPLES_MAX, sizeof *c.samples);
    sem_init(&c.done, 0, 0);
    if (lh_loop_create(&config, &c.loop, why, sizeof why) != LH_OK) {
        fprintf(stderr, "rpc_bench: %s\n", why);
        exit(1);
    }
    lh_loop_start(c.loop);
    double cpu = cpu_seconds();
    struct lh_instant begin = lh_clock_now();
    c.until = lh_instant_add(begin, o.time);
    do {
        lh_loop_call(c.loop, NULL);
        while (sem_wait(&c.done) != 0)
            ;
    } while (by_caller && lh_instant_before(lh_clock_now(), c.until));
    double seconds = (double)lh_instant_until(begin, lh_clock_now()).ns / 1e9;
    cpu = cpu_seconds() - cpu;
    lh_loop_stop(c.loop);
    lh_loop_wait(c.loop, LH_DURATION_FOREVER);
    lh_loop_destroy(c.loop);

    qsort(c.samples, c.sample_count, sizeof *c.samples, by_value);
    double n = (double)c.answered;
    printf(
        "%-34s %9.0f msg/s %8.1f MB/s   p50 %7.1f us  p99 %7.1f us   sender's CPU %5.2f us/msg\n",
        label, n / seconds, n * (double)size / seconds / 1e6,
        (double)c.samples[c.sample_count / 2] / 1e3,
        (double)c.samples[c.sample_count * 99 / 100] / 1e3, cpu / n * 1e6);
    fflush(stdout);
    free(c.sent_at);
    free(c.samples);
    lh_buf_clear(&c.payload);
    sem_destroy(&c.done);
}

static void listen_address(const char *who, char *to, size_t size)
{
    if (o.tcp)
        snprintf(to, size, "127.0.0.1:0");
    else
        snprintf(to, size, "unix:/tmp/rpc_bench.%d.%s", (int)getpid(), who);
}

static const struct lh_flag table[] = {
    {LH_FLAG("serve", STRING, &o.serve, NULL), .help = "be a server there"},
    {LH_FLAG("forward", STRING, &o.forward, NULL), .help = "and pass on to there"},
    {LH_FLAG("tcp", BOOL, &o.tcp, "true"), .help = "TCP over the loopback; otherwise Unix sockets"},
    {LH_FLAG("threads", UINT, &o.threads, "1"), .help = "threads in each that wait for the network",
        .min = 1, .max = 64},
    {LH_FLAG("time", DURATION, &o.time, "2s"), .help = "how long each run takes"},
    {LH_FLAG("size", SIZE, &o.size, "0"), .help = "one run with messages of this size"},
    {LH_FLAG("window", UINT, &o.window, "16"), .help = "and this many under way", .min = 1},
};

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "rpc_bench",
        .usage = "[OPTION]...",
        .summary = "Measures messages through loop and gRPC between processes.",
        LH_FLAG_ROWS(table),
    };
    char end[100], relay[100], address[2][100];

    lh_bench_options(&flags, argc, argv);
    if (o.serve != NULL)
        serve();
    listen_address("end", end, sizeof end);
    listen_address("relay", relay, sizeof relay);
    pid_t pids[2];
    pids[0] = spawn_server(end, NULL, address[0], sizeof address[0]);
    pids[1] = spawn_server(relay, address[0], address[1], sizeof address[1]);
    if (o.size != 0) {
        run("as asked", address[0], o.size, o.window, false);
    } else {
        run("100 B, one at a time", address[0], 100, 1, false);
        run("100 B, one at a time, by a caller", address[0], 100, 1, true);
        run("100 B, two hops, by a caller", address[1], 100, 1, true);
        run("100 B, 64 under way", address[0], 100, 64, false);
        run("64 KiB, 16 under way", address[0], 64 << 10, 16, false);
        run("1 MiB, 8 under way", address[0], 1 << 20, 8, false);
        run("1 MiB, two hops, 8 under way", address[1], 1 << 20, 8, false);
    }
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return 0;
}
