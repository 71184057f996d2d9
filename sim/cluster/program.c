#include "sim/cluster/program.h"

#include "sim/cluster/program_internal.h"
#include "sim/cluster/stranger.h"

#include "batch/batch.h"
#include "proto/codec.h"
#include "sim/cluster/complain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How often a program that has ended looks whether it can give back what it has. */
#define WIND_UP_NS UINT64_C(20000000)

/* How often a program looks whether its client is up again. */
#define LOOK_AGAIN_NS UINT64_C(100000000)

/* A program's own patience with one call; it asks again. */
#define PATIENCE lh_seconds(30)

static bool has_leases(enum lh_sim_program_kind kind)
{
    return kind >= LH_SIM_LOCKER;
}

struct lh_sim_program_spec lh_sim_program_default(enum lh_sim_program_kind kind)
{
    if (has_leases(kind))
        return (struct lh_sim_program_spec){
            .kind = kind,
            .client = 1,
            .count = UINT64_MAX,
            .bytes_min = 0,
            .bytes_max = 200,
            .every = {lh_milliseconds(10), lh_milliseconds(50)},
            .window = 1,
            .names = 1,
            .hold = {lh_milliseconds(100), lh_milliseconds(500)},
            .patience = PATIENCE,
        };
    return (struct lh_sim_program_spec){
        .kind = kind,
        .client = 1,
        .count = UINT64_MAX,
        .records_min = 1,
        .records_max = 3,
        .bytes_min = 0,
        .bytes_max = 2000,
        .every = {lh_milliseconds(10), lh_milliseconds(50)},
        .window = 8,
        .follow = true,
    };
}

/* A batch that a client could not even frame. */
static uint64_t largest_batch(const struct lh_sim_program_spec *s)
{
    return LH_BATCH_FRAME_BYTES +
           (uint64_t)s->records_max * (LH_RECORD_HEADER_BYTES + (uint64_t)s->bytes_max);
}

static bool check_leases(const struct lh_sim_program_spec *s, char *text, size_t text_size)
{
    if (s->names < 1 || s->names > LH_SIM_LEASE_NAMES_MAX)
        return lh_sim_complain(
            text, text_size, "a program uses 1 to %u names", (unsigned)LH_SIM_LEASE_NAMES_MAX);
    if (s->bytes_min > s->bytes_max || s->bytes_max > 65536)
        return lh_sim_complain(text, text_size, "a value has at most 65536 bytes");
    if (s->hold.min.ns > s->hold.max.ns)
        return lh_sim_complain(text, text_size, "the shortest hold is longer than the longest");
    if (s->shared && s->exclusive)
        return lh_sim_complain(text, text_size, "a lock is shared or exclusive");
    if (s->window < 1)
        return lh_sim_complain(text, text_size, "a program has a window of 1 or more");
    return true;
}

bool lh_sim_program_check(
    const struct lh_sim_program_spec *s, size_t clients, char *text, size_t text_size)
{
    if (s->client < 1 || s->client > clients)
        return lh_sim_complain(
            text, text_size, "there is no client %u; clients are 1 to %zu", s->client, clients);
    if (s->name[0] == '\0')
        return lh_sim_complain(text, text_size, "a program needs a name");
    if (s->path[0] != '/')
        return lh_sim_complain(text, text_size, "a path begins with '/', not as \"%s\"", s->path);
    if (s->every.min.ns > s->every.max.ns)
        return lh_sim_complain(text, text_size, "the shortest pause is longer than the longest");
    if (has_leases(s->kind))
        return check_leases(s, text, text_size);
    if (s->kind != LH_SIM_WRITER)
        return true;
    if (s->records_min < 1 || s->records_min > s->records_max)
        return lh_sim_complain(text, text_size,
            "a batch has 1 record or more, and at least as many at "
            "most as at least");
    if (s->bytes_min > s->bytes_max)
        return lh_sim_complain(text, text_size, "the smallest record is larger than the largest");
    if (largest_batch(s) > LH_BATCH_BYTES_LIMIT)
        return lh_sim_complain(text, text_size,
            "batches of %u records of %u bytes are above %u bytes", s->records_max, s->bytes_max,
            (unsigned)LH_BATCH_BYTES_LIMIT);
    if ((s->token == 0) != (s->lock[0] == '\0'))
        return lh_sim_complain(text, text_size, "a lock and its token belong together");
    if (s->window < 1)
        return lh_sim_complain(text, text_size, "a writer's window is at least 1 batch");
    return true;
}

struct lh_instant lh_sim_p_deadline(const struct lh_sim_program *p)
{
    return lh_instant_add(lh_sim_clock(p->node), PATIENCE);
}

/* ---- Calls ---- */

struct request *lh_sim_p_call(
    struct lh_sim_program *p, enum lh_call_kind kind, void (*then)(struct request *r))
{
    struct request *r = lh_sim_request(p->cluster, kind);

    r->program = p;
    r->then = then;
    r->begun = lh_sim_now(p->cluster->sim);
    LH_GROW(p->pending, p->pending_capacity, p->pending_count + 1);
    p->pending[p->pending_count++] = r;
    return r;
}

struct request *lh_sim_p_begin(
    struct lh_sim_program *p, enum lh_call_kind kind, void (*then)(struct request *r))
{
    p->status.begun++;
    p->status.pending++;
    return lh_sim_p_call(p, kind, then);
}

static void take_out(struct request *r)
{
    struct lh_sim_program *p = r->program;
    size_t i = 0;

    while (p->pending[i] != r)
        i++;
    memmove(&p->pending[i], &p->pending[i + 1], (--p->pending_count - i) * sizeof *p->pending);
}

void lh_sim_p_end(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->status.pending--;
    p->status.last_error = r->error;
    if (r->error == LH_OK)
        p->status.succeeded++;
    else
        p->status.failed++;
    take_out(r);
}

/* ---- Writers ---- */

static void tick_in(struct lh_sim_program *p, uint64_t ns);

void lh_sim_p_discard(struct request *r)
{
    struct lh_sim_cluster *c = r->program->cluster;

    take_out(r);
    lh_sim_request_done(c, r);
}

static void opened_appender(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->opening = false;
    if (r->error == LH_OK) {
        p->appender = r->u.open.appender;
        p->writer = r->u.open.writer;
        p->sequence = 1;
    } else if (r->error == LH_ERR_STALE_TOKEN && p->spec.owner[0] != '\0') {
        p->refused = r->u.open.token;
    } else if (r->error == LH_ERR_STALE_TOKEN) {
        p->status.last_error = r->error;
        p->status.ended = true; /* its token is over, for good */
    }
    lh_sim_p_discard(r);
}

/* Of a hundred: who owns the file by a lock appends with the token that it had before. */
#define FORMER 15

static void open_appender(struct lh_sim_program *p)
{
    const char *lock = p->spec.lock;
    uint64_t token = p->spec.token;

    if (p->spec.owner[0] != '\0') {
        const struct lh_sim_program *locker = lh_sim_program_find(p->cluster, p->spec.owner);
        token = locker == NULL || locker->node != p->node ? 0 : lh_sim_p_token(locker, &lock);
        if (p->used != 0 && lh_prng_chance(&p->random, FORMER)) {
            token = p->used;
            lock = p->used_lock;
        }
        if (token == 0 || (token == p->refused && !lh_prng_chance(&p->random, FORMER)))
            return; /* it looks again */
    }
    struct request *r = lh_sim_p_call(p, LH_CALL_APPENDER_OPEN, opened_appender);

    p->opening = true;
    if (p->spec.owner[0] != '\0') {
        r->memory = lh_strdup(lock);
        lock = r->memory;
        p->used = token;
        (void)snprintf(p->used_lock, sizeof p->used_lock, "%s", lock);
    }
    r->u.open.path = p->spec.path;
    r->u.open.lock_name = token == 0 ? NULL : lock;
    r->u.open.token = token;
    r->u.open.deadline = lh_sim_p_deadline(p);
    r->u.open.give_up = LH_DURATION_FOREVER;
    lh_sim_call(p->node, &r->u);
}

/* An appender that failed answers everything with why; a program then opens a new one. */
static void drop_appender(struct lh_sim_program *p)
{
    if (p->appender == NULL)
        return;
    struct request *r = lh_sim_p_call(p, LH_CALL_APPENDER_CLOSE, lh_sim_p_discard);
    r->u.close.appender = p->appender;
    p->appender = NULL;
    lh_sim_call(p->node, &r->u);
}

static void stored(struct request *r)
{
    struct lh_sim_program *p = r->program;
    struct lh_sim_cluster *c = p->cluster;

    lh_sim_p_end(r);
    if (r->error == LH_ERR_STALE_TOKEN && p->spec.token != 0)
        p->status.ended = true; /* for good */
    if ((r->error != LH_OK || p->spec.again) && r->u.submit.appender == p->appender)
        drop_appender(p);
    lh_sim_request_done(c, r);
}

static void submit(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_begin(p, LH_CALL_SUBMIT, stored);
    uint32_t count =
        (uint32_t)lh_prng_between(&p->random, p->spec.records_min, p->spec.records_max);
    uint32_t *sizes = lh_alloc_array(count, sizeof *sizes);
    uint64_t bytes = LH_BATCH_FRAME_BYTES;
    uint8_t *record = lh_alloc(p->spec.bytes_max);
    struct lh_batch_builder b;

    for (uint32_t i = 0; i < count; i++) {
        sizes[i] = (uint32_t)lh_prng_between(&p->random, p->spec.bytes_min, p->spec.bytes_max);
        bytes += LH_RECORD_HEADER_BYTES + sizes[i];
    }
    lh_batch_builder_init(&b, (uint32_t)bytes);
    for (uint32_t i = 0; i < count; i++) {
        lh_sim_fill_record(record, sizes[i], p->writer, p->sequence + i);
        bool fits = lh_batch_builder_add(&b, record, sizes[i]);
        LH_ASSERT(fits);
    }
    free(record);
    free(sizes);
    r->u.submit.appender = p->appender;
    r->u.submit.sequence = p->sequence;
    r->u.submit.count = count;
    r->u.submit.batch = lh_batch_builder_finish(&b, p->writer, p->sequence);
    p->sequence += count;
    lh_sim_call(p->node, &r->u);
}

static void write_on(struct lh_sim_program *p)
{
    if (p->appender == NULL) {
        if (!p->opening)
            open_appender(p);
    } else if (p->status.pending < (p->spec.again ? 1 : p->spec.window)) {
        submit(p);
    }
}

/* ---- Readers ---- */

static void opened_reader(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->opening = false;
    if (r->error == LH_OK)
        p->reader = r->u.reader_open.reader;
    lh_sim_p_discard(r);
}

static void open_reader(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_READER_OPEN, opened_reader);

    p->opening = true;
    r->u.reader_open.offset = p->status.position;
    r->u.reader_open.path = p->spec.path;
    r->u.reader_open.deadline = lh_sim_p_deadline(p);
    r->u.reader_open.follow = p->spec.follow;
    r->u.reader_open.skip_damaged = p->spec.skip_damaged;
    r->u.reader_open.readahead = 256u << 10;
    lh_sim_call(p->node, &r->u);
}

static void drop_reader(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_READER_CLOSE, lh_sim_p_discard);

    r->u.reader_close.reader = p->reader;
    p->reader = NULL;
    lh_sim_call(p->node, &r->u);
}

static void start_over(struct lh_sim_program *p)
{
    drop_reader(p);
    p->status.position = 0;
}

static void fetched(struct request *r)
{
    struct lh_sim_program *p = r->program;
    struct lh_sim_cluster *c = p->cluster;

    lh_sim_p_end(r);
    if (r->error == LH_OK && r->u.fetch.gap.member_count > 0) {
        p->status.position = r->u.fetch.gap.to;
        p->status.gaps++;
    } else if (r->error == LH_OK)
        p->status.position = r->u.fetch.offset + r->u.fetch.batches.size;
    else if (r->error == LH_ERR_CLOSED && p->spec.again)
        drop_reader(p);
    else if (r->error == LH_ERR_CLOSED)
        p->status.ended = true;
    else if (r->error == LH_ERR_NOT_FOUND && r->u.fetch.reader == p->reader)
        start_over(p); /* the file was removed; perhaps one of that name comes back */
    lh_buf_clear(&r->u.fetch.batches);
    lh_client_gap_deinit(&r->u.fetch.gap);
    lh_sim_request_done(c, r);
}

static void read_on(struct lh_sim_program *p)
{
    if (p->reader == NULL) {
        if (!p->opening)
            open_reader(p);
    } else if (p->status.pending == 0) {
        struct request *r = lh_sim_p_begin(p, LH_CALL_FETCH, fetched);
        r->u.fetch.reader = p->reader;
        r->u.fetch.deadline = lh_sim_p_deadline(p);
        lh_sim_call(p->node, &r->u);
    }
}

/* ---- Files ---- */

/* Where clients remember which file has a path: so many names are used, and of a hundred requests
 * so many open one. */
#define LOOKED_UP 4u
#define OPENED    70

void lh_sim_p_answered(struct request *r)
{
    struct lh_sim_cluster *c = r->program->cluster;

    lh_sim_p_end(r);
    lh_wire_free(r->u.master.reply);
    r->u.master.reply = NULL;
    lh_sim_request_done(c, r);
}

struct request *lh_sim_p_ask(struct lh_sim_program *p, enum lh_method method,
    ProtobufCMessage *request, void (*then)(struct request *r))
{
    struct request *r = lh_sim_p_begin(p, LH_CALL_MASTER, then);

    r->memory = request;
    r->u.master.method = method;
    r->u.master.request = request;
    r->u.master.patience = lh_seconds(1);
    r->u.master.deadline = lh_sim_p_deadline(p);
    lh_sim_call(p->node, &r->u);
    return r;
}

/* The request and its two paths in one piece of memory: it outlives this step. */
struct asking {
    union {
        ProtobufCMessage base;
        Leasehold__CreateRequest create;
        Leasehold__RenameRequest rename;
        Leasehold__RemoveRequest remove;
        Leasehold__ListRequest list;
        Leasehold__StatRequest stat;
    } u;
    char path[LH_SIM_PATH_MAX + 32], other[LH_SIM_PATH_MAX + 32];
};

static bool looks_up(const struct lh_sim_program *p)
{
    return p->cluster->config.client.lookups_max > 0;
}

static void draw_path(struct lh_sim_program *p, char *to, size_t size)
{
    uint64_t name = lh_prng_below(&p->random, looks_up(p) ? LOOKED_UP : p->names + 2);

    if (name > p->names)
        p->names = name;
    (void)snprintf(to, size, "%s-%" PRIu64, p->spec.path, name);
}

static void opened_name(struct request *r)
{
    struct lh_sim_program *p = r->program;
    struct lh_sim_cluster *c = p->cluster;
    struct request *close;

    lh_sim_p_end(r);
    if (r->error == LH_OK) {
        close = lh_sim_p_call(p, LH_CALL_READER_CLOSE, lh_sim_p_discard);
        close->u.reader_close.reader = r->u.reader_open.reader;
        lh_sim_call(p->node, &close->u);
    }
    lh_sim_request_done(c, r);
}

static void open_name(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_begin(p, LH_CALL_READER_OPEN, opened_name);
    char *path = lh_alloc(LH_SIM_PATH_MAX + 32);

    draw_path(p, path, LH_SIM_PATH_MAX + 32);
    r->memory = path;
    r->u.reader_open.path = path;
    r->u.reader_open.deadline = lh_sim_p_deadline(p);
    r->u.reader_open.readahead = 256u << 10;
    lh_sim_call(p->node, &r->u);
}

static void ask_on(struct lh_sim_program *p)
{
    if (p->status.pending > 0)
        return;
    if (looks_up(p) && lh_prng_chance(&p->random, OPENED)) {
        open_name(p);
        return;
    }
    struct request *r = lh_sim_p_begin(p, LH_CALL_MASTER, lh_sim_p_answered);
    struct asking *a = lh_alloc(sizeof *a);

    r->memory = a;
    draw_path(p, a->path, sizeof a->path);
    draw_path(p, a->other, sizeof a->other);
    switch (lh_prng_below(&p->random, 6)) {
    case 0:
    case 1:
        leasehold__create_request__init(&a->u.create);
        a->u.create.path = a->path;
        r->u.master.method = LH_METHOD_CREATE;
        break;
    case 2:
        leasehold__rename_request__init(&a->u.rename);
        a->u.rename.from = a->path;
        a->u.rename.to = a->other;
        r->u.master.method = LH_METHOD_RENAME;
        break;
    case 3:
        leasehold__remove_request__init(&a->u.remove);
        a->u.remove.path = a->path;
        r->u.master.method = LH_METHOD_REMOVE;
        break;
    case 4:
        leasehold__list_request__init(&a->u.list);
        a->u.list.prefix = p->spec.path;
        r->u.master.method = LH_METHOD_LIST;
        break;
    default:
        leasehold__stat_request__init(&a->u.stat);
        a->u.stat.path = a->path;
        r->u.master.method = LH_METHOD_STAT;
        break;
    }
    r->u.master.request = &a->u.base;
    r->u.master.patience = lh_seconds(1);
    r->u.master.deadline = lh_sim_p_deadline(p);
    lh_sim_call(p->node, &r->u);
}

/* ---- All of them ---- */

/* The client went down, with everything that was opened and under way. */
static void forget_life(struct lh_sim_program *p)
{
    p->status.lost += p->status.pending;
    p->status.pending = 0;
    p->pending_count = 0; /* the memory is the cluster's */
    p->appender = NULL;
    p->reader = NULL;
    p->opening = false;
    p->status.position = 0; /* what the last life saw must be there again */
    if (p->kind->forget != NULL)
        p->kind->forget(p);
}

static bool has_ended(const struct lh_sim_program *p)
{
    return p->status.ended || p->status.begun >= p->spec.count;
}

bool lh_sim_p_lives(const struct lh_sim_program *p)
{
    return lh_sim_is_up(p->node) && p->life == lh_sim_incarnation(p->node);
}

static void tick(void *arg)
{
    struct lh_sim_program *p = arg;

    p->ticking = false;
    if (!lh_sim_is_up(p->node) || lh_sim_is_paused(p->node)) {
        tick_in(p, LOOK_AGAIN_NS);
        return;
    }
    if (p->life != lh_sim_incarnation(p->node)) {
        forget_life(p);
        p->life = lh_sim_incarnation(p->node);
    }
    if (has_ended(p) && (p->kind->wind_up == NULL || p->kind->wind_up(p))) {
        p->wound_up = true;
        return;
    }
    if (has_ended(p)) {
        tick_in(p, WIND_UP_NS);
        return;
    }
    p->kind->go_on(p);
    tick_in(p, lh_prng_between(&p->random, p->spec.every.min.ns, p->spec.every.max.ns));
}

static void tick_in(struct lh_sim_program *p, uint64_t ns)
{
    LH_ASSERT(!p->ticking);
    p->ticking = true;
    lh_sim_at(p->cluster->sim, lh_nanoseconds(ns), tick, p);
}

static const struct program_kind writer = {.go_on = write_on}, reader = {.go_on = read_on},
                                 files = {.go_on = ask_on};

static const struct program_kind *const kinds[] = {
    [LH_SIM_WRITER] = &writer,
    [LH_SIM_READER] = &reader,
    [LH_SIM_FILES] = &files,
    [LH_SIM_LOCKER] = &lh_sim_locker,
    [LH_SIM_CACHER] = &lh_sim_cacher,
    [LH_SIM_CHANGER] = &lh_sim_changer,
    [LH_SIM_WATCHER] = &lh_sim_watcher_kind,
    [LH_SIM_OPERATOR] = &lh_sim_operator,
};

struct lh_sim_program *lh_sim_program_start(
    struct lh_sim_cluster *c, const struct lh_sim_program_spec *spec)
{
    struct lh_sim_program *p = lh_alloc(sizeof *p);
    char text[128];

    LH_ASSERT(lh_sim_program_check(spec, c->config.clients, text, sizeof text));
    LH_ASSERT(lh_sim_program_find(c, spec->name) == NULL);
    p->cluster = c;
    p->node = lh_sim_client(c, spec->client);
    p->spec = *spec;
    p->kind = kinds[spec->kind];
    p->random.state = lh_mix64(spec->seed + 1);
    p->life = lh_sim_incarnation(p->node);
    if (c->last_program != NULL)
        c->last_program->next = p;
    else
        c->programs = p;
    c->last_program = p;
    tick_in(p, 0);
    return p;
}

void lh_sim_program_end(struct lh_sim_program *p)
{
    p->status.ended = true;
}

void lh_sim_programs_end(struct lh_sim_cluster *c)
{
    for (struct lh_sim_program *p = c->programs; p != NULL; p = p->next)
        lh_sim_program_end(p);
    for (size_t i = 0; i < c->config.strangers; i++)
        lh_sim_stranger_end(c->strangers[i]);
}

const struct lh_sim_program *lh_sim_program_find(const struct lh_sim_cluster *c, const char *name)
{
    for (const struct lh_sim_program *p = c->programs; p != NULL; p = p->next)
        if (strcmp(p->spec.name, name) == 0)
            return p;
    return NULL;
}

const struct lh_sim_program *lh_sim_program_next(
    const struct lh_sim_cluster *c, const struct lh_sim_program *before)
{
    return before == NULL ? c->programs : before->next;
}

const struct lh_sim_program_spec *lh_sim_program_spec(const struct lh_sim_program *p)
{
    return &p->spec;
}

struct lh_sim_program_status lh_sim_program_status(const struct lh_sim_program *p)
{
    struct lh_sim_program_status s = p->status;

    /* Its client went down, or came back, and the program has not looked yet. */
    if (!lh_sim_p_lives(p)) {
        s.lost += s.pending;
        s.pending = 0;
    }
    s.ended = has_ended(p);
    /* What it still has to give back is under way, too. */
    s.pending += s.ended && p->kind->wind_up != NULL && !p->wound_up;
    s.since = UINT64_MAX;
    if (s.pending > 0)
        for (size_t i = 0; i < p->pending_count && s.since == UINT64_MAX; i++)
            s.since = p->pending[i]->begun;
    return s;
}

void lh_sim_programs_deinit(struct lh_sim_cluster *c)
{
    while (c->programs != NULL) {
        struct lh_sim_program *next = c->programs->next;
        if (c->programs->kind->deinit != NULL)
            c->programs->kind->deinit(c->programs);
        free(c->programs->pending);
        free(c->programs);
        c->programs = next;
    }
}
