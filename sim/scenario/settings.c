#include "sim/scenario/settings.h"

#include "base/probe.h"
#include "lease/term.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/complain.h"

#include <string.h>

/* ---- Phrases ---- */

static bool parse_plant(struct lh_sim_words *w, void *to)
{
    const char *next = lh_sim_words_peek(w);

    if (next == NULL || strlen(next) > LH_SIM_PLANT_NAME_MAX) {
        lh_sim_words_expected(w, "the name of a planted bug");
        return false;
    }
    memset(to, 0, LH_SIM_PLANT_NAME_MAX + 1);
    memcpy(to, next, strlen(next));
    w->at++;
    return true;
}

const struct lh_sim_slot_type lh_sim_slot_plant = {
    parse_plant, lh_sim_print_string, LH_SIM_PLANT_NAME_MAX + 1, NULL};

#define SLOT(name, type, member) LH_SIM_SLOT(name, type, struct lh_sim_settings, member)

static const struct phrase {
    const char *pattern;
    struct lh_sim_slot slots[3]; /* ends with a NULL name */
} phrases[] = {
    {"seed <>", {SLOT("", lh_sim_slot_seed, seed)}},
    {"chunkservers <>", {SLOT("", lh_sim_slot_small, servers)}},
    {"clients <>", {SLOT("", lh_sim_slot_small, clients)}},
    {"strangers <>", {SLOT("", lh_sim_slot_small, strangers)}},
    {"capabilities <>", {SLOT("", lh_sim_slot_flag, capabilities)}},
    {"roles <>", {SLOT("", lh_sim_slot_flag, roles)}},
    {"newcomers <>", {SLOT("", lh_sim_slot_flag, newcomers)}},
    {"masters <>", {SLOT("", lh_sim_slot_small, masters)}},
    {"etcd members <>", {SLOT("", lh_sim_slot_small, etcd)}},
    {"etcd takes <>", {SLOT("", lh_sim_slot_range, etcd_takes)}},
    {"reign term <>", {SLOT("", lh_sim_slot_duration, reign_term)}},
    {"watchers <>", {SLOT("", lh_sim_slot_flag, watchers)}},
    {"session term <>", {SLOT("", lh_sim_slot_duration, session_term)}},
    {"chunk term <>", {SLOT("", lh_sim_slot_duration, chunk_term)}},
    {"drift <> ppm", {SLOT("", lh_sim_slot_small, drift_ppm)}},
    {"replication <>", {SLOT("", lh_sim_slot_small, replication)}},
    {"min replicas <>", {SLOT("", lh_sim_slot_small, min_replicas)}},
    {"chunk size <>", {SLOT("", lh_sim_slot_size, chunk_size)}},
    {"create timeout <>", {SLOT("", lh_sim_slot_duration, create_timeout)}},
    {"member timeout <>", {SLOT("", lh_sim_slot_duration, member_timeout)}},
    {"drain timeout <>", {SLOT("", lh_sim_slot_duration, drain_timeout)}},
    {"on primary loss <>", {SLOT("", lh_sim_slot_loss, on_loss)}},
    {"suspect after <>", {SLOT("", lh_sim_slot_duration, suspect_after)}},
    {"grace <>", {SLOT("", lh_sim_slot_duration, grace)}},
    {"trash retention <>", {SLOT("", lh_sim_slot_duration, trash_retention)}},
    {"repair streams <>", {SLOT("", lh_sim_slot_small, repair_streams)}},
    {"repair rate <> bytes per second", {SLOT("", lh_sim_slot_number, repair_rate)}},
    {"scrub period <>", {SLOT("", lh_sim_slot_duration, scrub_period)}},
    {"balance <>", {SLOT("", lh_sim_slot_flag, balance)}},
    {"delay <>", {SLOT("", lh_sim_slot_range, delay)}},
    {"delay tail <rate> per million up to <most>",
        {SLOT("rate", lh_sim_slot_small, delay_tail.per_million),
            SLOT("most", lh_sim_slot_duration, delay_tail.most)}},
    {"silence noticed after <>", {SLOT("", lh_sim_slot_range, notice)}},
    {"pieces of <>", {SLOT("", lh_sim_slot_size, piece_bytes)}},
    {"wire <>", {SLOT("", lh_sim_slot_seed, wire)}},
    {"write takes <>", {SLOT("", lh_sim_slot_range, write)}},
    {"sync takes <>", {SLOT("", lh_sim_slot_range, sync)}},
    {"read takes <>", {SLOT("", lh_sim_slot_range, read)}},
    {"commit takes <>", {SLOT("", lh_sim_slot_range, commit)}},
    {"disk tail <rate> per million up to <most>",
        {SLOT("rate", lh_sim_slot_small, disk_tail.per_million),
            SLOT("most", lh_sim_slot_duration, disk_tail.most)}},
    {"timers late by <>", {SLOT("", lh_sim_slot_duration, timer_late)}},
    {"clocks leave rho <>", {SLOT("", lh_sim_slot_flag, clocks_beyond_rho)}},
    {"replicas may be lost <>", {SLOT("", lh_sim_slot_flag, replicas_may_be_lost)}},
    {"ruin <>", {SLOT("", lh_sim_slot_flag, ruin)}},
    {"plant <>", {SLOT("", lh_sim_slot_plant, plant)}},
};

#define PHRASES (sizeof phrases / sizeof phrases[0])

#define FILE_SLOT(name, type, member) LH_SIM_SLOT(name, type, struct lh_sim_file_setting, member)

static const struct lh_sim_slot file_slots[] = {
    FILE_SLOT("path", lh_sim_slot_path, path),
    FILE_SLOT("synced", lh_sim_slot_flag, synced),
    FILE_SLOT("replication", lh_sim_slot_small, replication),
    FILE_SLOT("min", lh_sim_slot_small, min_replicas),
    FILE_SLOT("chunk-size", lh_sim_slot_size, chunk_size),
    FILE_SLOT("on-loss", lh_sim_slot_loss, on_loss),
    {0},
};

#define FILE_PHRASE                                                                                \
    "file <path> [synced <synced>] [replication <replication>] [min replicas <min>] "              \
    "[chunk size <chunk-size>] [on primary loss <on-loss>]"

static const struct lh_sim_file_setting no_file;

struct lh_sim_settings lh_sim_settings_default(uint64_t seed)
{
    struct lh_sim_config world = lh_sim_config_default(seed);
    struct lh_master_config master = lh_master_config_default();
    struct lh_sim_settings s;

    /* Every byte, since settings are compared as bytes. */
    memset(&s, 0, sizeof s);
    s.seed = seed;
    s.servers = 3;
    s.clients = 1;
    s.masters = 1;
    s.etcd_takes = lh_sim_etcd_config_default().propose;
    s.reign_term = lh_milliseconds(500);
    s.session_term = lh_seconds(3);
    s.chunk_term = lh_seconds(9);
    s.drift_ppm = master.drift_ppm;
    s.replication = master.replication;
    s.min_replicas = master.min_replicas;
    s.chunk_size = 64u << 10;
    s.create_timeout = master.create_timeout;
    s.on_loss = LEASEHOLD__ON_PRIMARY_LOSS__WAIT;
    s.suspect_after = master.suspect_after;
    s.grace = lh_seconds(300);
    s.repair_streams = 2;
    s.repair_rate = UINT64_MAX;
    s.delay = world.delay;
    s.notice = world.notice;
    s.piece_bytes = world.piece_bytes;
    s.write = world.write;
    s.sync = world.sync;
    s.read = world.read;
    s.commit = world.commit;
    s.delay_tail = world.delay_tail;
    s.disk_tail = world.disk_tail;
    s.timer_late = world.timer_late;
    return s;
}

void lh_sim_settings_print(const struct lh_sim_settings *settings, FILE *to)
{
    struct lh_sim_settings defaults = lh_sim_settings_default(settings->seed);
    char line[LH_SIM_LINE_MAX + 1];

    for (size_t i = 0; i < PHRASES; i++) {
        const struct phrase *p = &phrases[i];
        if (i > 0 && !lh_sim_phrase_differs(p->slots, p->pattern, settings, &defaults))
            continue;
        struct lh_sim_text t = lh_sim_text_at(line, sizeof line);
        lh_sim_phrase_print(p->slots, p->pattern, settings, &defaults, &t);
        (void)fprintf(to, "%s\n", line);
    }
    for (size_t i = 0; i < LH_SIM_BOUNDS_MAX; i++) {
        struct lh_sim_text t = lh_sim_text_at(line, sizeof line);
        if (settings->bounds[i] == 0)
            continue;
        lh_sim_bound_print(&t, i, settings->bounds[i]);
        (void)fprintf(to, "%s\n", line);
    }
    for (uint32_t i = 0; i < settings->file_count; i++) {
        struct lh_sim_text t = lh_sim_text_at(line, sizeof line);
        lh_sim_phrase_print(file_slots, FILE_PHRASE, &settings->files[i], &no_file, &t);
        (void)fprintf(to, "%s\n", line);
    }
}

static bool parse_file(struct lh_sim_settings *settings, struct lh_sim_words *w)
{
    struct lh_sim_file_setting f = no_file;

    if (!lh_sim_phrase_parse(file_slots, FILE_PHRASE, w, &f))
        return false;
    if (settings->file_count == LH_SIM_FILES_MAX) {
        lh_sim_words_expected(w, "at most 64 files");
        return false;
    }
    settings->files[settings->file_count++] = f;
    return true;
}

bool lh_sim_settings_parse_words(struct lh_sim_settings *settings, struct lh_sim_words *w)
{
    size_t begin = w->at;

    for (size_t i = 0; i < PHRASES; i++) {
        struct lh_sim_settings s = *settings;
        w->at = begin;
        if (lh_sim_phrase_parse(phrases[i].slots, phrases[i].pattern, w, &s)) {
            *settings = s;
            return true;
        }
    }
    w->at = begin;
    if (lh_sim_bound_parse(w, settings->bounds))
        return true;
    w->at = begin;
    return parse_file(settings, w);
}

/* ---- What makes sense ---- */

static bool check_file(
    const struct lh_sim_settings *s, uint32_t index, char *text, size_t text_size)
{
    const struct lh_sim_file_setting *f = &s->files[index];
    uint32_t replication = f->replication != 0 ? f->replication : s->replication;
    uint32_t min = f->min_replicas != 0 ? f->min_replicas : s->min_replicas;

    for (uint32_t i = 0; i < index; i++)
        if (strcmp(s->files[i].path, f->path) == 0)
            return lh_sim_complain(text, text_size, "%s is there twice", f->path);
    if (replication > LH_REPLICATION_MAX)
        return lh_sim_complain(
            text, text_size, "%s: the replication must be between 1 and 16", f->path);
    if (min > replication)
        return lh_sim_complain(
            text, text_size, "%s: at least %u replicas, but at most %u", f->path, min, replication);
    if (min > s->servers)
        return lh_sim_complain(text, text_size, "%s: at least %u replicas, but %u chunkservers",
            f->path, min, s->servers);
    if (f->chunk_size != 0 &&
        (f->chunk_size < LH_CHUNK_BYTES_MIN || f->chunk_size > LH_CHUNK_BYTES_MAX))
        return lh_sim_complain(
            text, text_size, "%s: the chunk size must be between 64KiB and 1GiB", f->path);
    return true;
}

/* Slower than anything that somebody would wait for, and far from the end of time. */
#define SLOWEST lh_seconds(3600)

static bool check_durations(const struct lh_sim_settings *s, char *text, size_t text_size)
{
    const struct {
        const char *name;
        struct lh_duration d;
    } durations[] = {{"delay", s->delay.max}, {"delay tail", s->delay_tail.most},
        {"silence noticed after", s->notice.max}, {"write takes", s->write.max},
        {"sync takes", s->sync.max}, {"read takes", s->read.max}, {"commit takes", s->commit.max},
        {"disk tail", s->disk_tail.most}, {"timers late by", s->timer_late},
        {"create timeout", s->create_timeout}, {"member timeout", s->member_timeout},
        {"drain timeout", s->drain_timeout}, {"suspect after", s->suspect_after},
        {"scrub period", s->scrub_period}, {"etcd takes", s->etcd_takes.max}};

    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++)
        if (durations[i].d.ns > SLOWEST.ns)
            return lh_sim_complain(text, text_size, "\"%s\" must be at most 1h", durations[i].name);
    if (s->delay_tail.per_million > 1000000 || s->disk_tail.per_million > 1000000)
        return lh_sim_complain(text, text_size, "a tail must be at most 1000000 per million");
    return true;
}

bool lh_sim_is_planted(const char *name)
{
    size_t count;
    const struct lh_probe *plants = lh_plants(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(plants[i].name, name) == 0)
            return true;
    return false;
}

static bool check_nodes(const struct lh_sim_settings *s, char *text, size_t text_size)
{
    if (s->servers < 1 || s->clients < 1 || s->servers > LH_SIM_NODES_MAX ||
        s->clients > LH_SIM_NODES_MAX || s->strangers > LH_SIM_NODES_MAX ||
        s->servers + s->clients + s->strangers + 1 > LH_SIM_NODES_MAX)
        return lh_sim_complain(text, text_size,
            "there must be a chunkserver and a client, and at most %d of both and of strangers",
            LH_SIM_NODES_MAX - 1);
    if (s->masters < 1 || s->masters > LH_MASTERS_MAX || s->etcd > LH_ETCD_MEMBERS_MAX)
        return lh_sim_complain(text, text_size,
            "there must be a master, and at most %u of them, with at most %u members of etcd",
            LH_MASTERS_MAX, LH_ETCD_MEMBERS_MAX);
    if (s->masters > 1 && s->etcd == 0)
        return lh_sim_complain(text, text_size, "several masters need an etcd");
    if (s->watchers && s->etcd == 0)
        return lh_sim_complain(text, text_size, "watchers need an etcd");
    /* One more stands for what the masters share, and each may have a watcher. */
    if (s->etcd > 0 &&
        s->servers + s->clients + s->strangers + 2 * s->masters + s->etcd + 1 > LH_SIM_NODES_MAX)
        return lh_sim_complain(
            text, text_size, "there must be at most %d nodes in all", LH_SIM_NODES_MAX - 1);
    return true;
}

struct lh_sim_crew lh_sim_settings_crew(const struct lh_sim_settings *s)
{
    return (struct lh_sim_crew){s->masters, s->etcd, s->servers, s->clients};
}

static bool check_plant(const struct lh_sim_settings *s, char *text, size_t text_size)
{
    if (s->plant[0] != '\0' && !lh_sim_is_planted(s->plant))
        return lh_sim_complain(
            text, text_size, "no bug is planted under the name \"%s\"", s->plant);
    return true;
}

int lh_sim_settings_check(const struct lh_sim_settings *s, char *text, size_t text_size)
{
    if (!check_nodes(s, text, text_size))
        return LH_ERR_INVALID_ARGUMENT;
    struct lh_sim_cluster_config config = lh_sim_settings_config(s);
    int error = lh_master_config_check(&config.master, text, text_size);
    if (error != LH_OK)
        return error;
    bool ok = check_durations(s, text, text_size);
    for (uint32_t i = 0; i < s->file_count && ok; i++)
        ok = check_file(s, i, text, text_size);
    if (s->etcd > 0 &&
        (s->reign_term.ns < LH_REIGN_TERM_MIN_NS || s->reign_term.ns > LH_REIGN_TERM_MAX_NS))
        ok = lh_sim_complain(text, text_size, "the reign term must be between 300ms and 1m");
    if (s->piece_bytes == 0)
        ok = lh_sim_complain(text, text_size, "a piece must have a byte");
    return ok && check_plant(s, text, text_size) ? LH_OK : LH_ERR_INVALID_ARGUMENT;
}

struct lh_sim_cluster_config lh_sim_settings_config(const struct lh_sim_settings *s)
{
    struct lh_sim_cluster_config c = lh_sim_cluster_config_default(s->seed);

    c.servers = s->servers;
    c.clients = s->clients;
    c.strangers = s->strangers;
    c.roles = s->roles;
    c.newcomers = s->newcomers;
    c.capabilities = s->capabilities;
    c.masters = s->masters;
    c.etcd_members = s->etcd;
    c.watchers = s->watchers;
    c.etcd.propose = s->etcd_takes;
    c.etcd.read = (struct lh_sim_range){
        lh_nanoseconds(s->etcd_takes.min.ns / 2), lh_nanoseconds(s->etcd_takes.max.ns / 2)};
    c.reigns.reign_term = s->reign_term;
    c.master.session_term = s->session_term;
    c.master.chunk_term = s->chunk_term;
    c.master.drift_ppm = s->drift_ppm;
    c.master.replication = s->replication;
    c.master.min_replicas = s->min_replicas;
    c.master.chunk_size = s->chunk_size;
    c.master.create_timeout = s->create_timeout;
    c.master.on_primary_loss = (enum lh_on_primary_loss)s->on_loss;
    c.master.suspect_after = s->suspect_after;
    c.master.grace = s->grace;
    c.master.repair_streams = s->repair_streams;
    c.master.trash_retention = s->trash_retention;
    c.master.balance = s->balance;
    c.server.repair_rate = s->repair_rate;
    c.server.scrub_period = s->scrub_period.ns == 0 ? LH_DURATION_FOREVER : s->scrub_period;
    c.server.member_timeout = s->member_timeout;
    c.server.drain_timeout = s->drain_timeout;
    c.world.delay = s->delay;
    c.world.delay_tail = s->delay_tail;
    c.world.notice = s->notice;
    c.world.piece_bytes = s->piece_bytes;
    c.world.wire = s->wire;
    c.world.write = s->write;
    c.world.sync = s->sync;
    c.world.read = s->read;
    c.world.commit = s->commit;
    c.world.disk_tail = s->disk_tail;
    c.world.timer_late = s->timer_late;
    lh_sim_bounds_apply(s->bounds, &c);
    c.clocks_beyond_rho = s->clocks_beyond_rho;
    c.replicas_may_be_lost = s->replicas_may_be_lost;
    c.ruin = s->ruin;
    return c;
}
