#include "sim/scenario/action.h"

#include "base/assert.h"
#include "lease/term.h"
#include "proto/leasehold.pb-c.h"
#include "sim/cluster/complain.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Who ---- */

static bool take_number(struct lh_sim_words *w, uint32_t *number)
{
    return lh_sim_slot_small.parse(w, number);
}

/* "cs2", "c1". */
static bool short_name(const char *word, const char *letters, uint32_t *number)
{
    size_t n = strlen(letters);
    unsigned value = 0;
    int used = 0;

    if (strncmp(word, letters, n) != 0 || !isdigit((unsigned char)word[n]) ||
        sscanf(word + n, "%4u%n", &value, &used) != 1 || word[n + (size_t)used] != '\0')
        return false;
    *number = value;
    return true;
}

static bool is_name(const char *word)
{
    return *word >= 'A' && *word <= 'Z' && strlen(word) <= LH_SIM_PROGRAM_NAME_MAX &&
           strspn(word + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
               strlen(word) - 1;
}

static bool parse_of_path(struct lh_sim_words *w, char *path)
{
    return lh_sim_words_take(w, "of") && lh_sim_slot_path.parse(w, path);
}

/* "standby", "standby 2"; a number that is left out is `usual`. */
static bool parse_numbered(
    struct lh_sim_words *w, struct lh_sim_who *who, enum lh_sim_who_kind kind, uint32_t usual)
{
    const char *next = lh_sim_words_peek(w);

    who->kind = kind;
    who->number = usual;
    return next == NULL || !isdigit((unsigned char)*next) || take_number(w, &who->number);
}

/* "secondary of /log", "secondary 2 of /log". */
static bool parse_secondary(struct lh_sim_words *w, struct lh_sim_who *who)
{
    const char *next = lh_sim_words_peek(w);

    who->kind = LH_SIM_WHO_SECONDARY;
    who->number = 1;
    if (next != NULL && isdigit((unsigned char)*next) && !take_number(w, &who->number))
        return false;
    return parse_of_path(w, who->text);
}

static bool parse_every(struct lh_sim_words *w, struct lh_sim_who *who)
{
    if (lh_sim_words_take(w, "chunkserver"))
        who->kind = LH_SIM_WHO_SERVERS;
    else if (lh_sim_words_take(w, "client"))
        who->kind = LH_SIM_WHO_CLIENTS;
    else if (lh_sim_words_take(w, "master"))
        who->kind = LH_SIM_WHO_MASTERS;
    else if (lh_sim_words_take(w, "etcd") && lh_sim_words_take(w, "member"))
        who->kind = LH_SIM_WHO_ETCDS;
    return who->kind != LH_SIM_WHO_NOBODY;
}

static bool parse_who(struct lh_sim_words *w, void *to)
{
    struct lh_sim_who *who = to;
    const char *next = lh_sim_words_peek(w);

    memset(who, 0, sizeof *who);
    if (next != NULL && short_name(next, "cs", &who->number)) {
        who->kind = LH_SIM_WHO_SERVER;
        w->at++;
        return true;
    }
    if (next != NULL && short_name(next, "c", &who->number)) {
        who->kind = LH_SIM_WHO_CLIENT;
        w->at++;
        return true;
    }
    if (next != NULL && is_name(next)) {
        who->kind = LH_SIM_WHO_NAMED;
        memcpy(who->text, next, strlen(next));
        w->at++;
        return true;
    }
    if (next != NULL &&
        (strcmp(next, "the") == 0 || strcmp(next, "a") == 0 || strcmp(next, "an") == 0))
        w->at++;
    if (lh_sim_words_take(w, "master"))
        return parse_numbered(w, who, LH_SIM_WHO_MASTER, 0);
    if (lh_sim_words_take(w, "active")) {
        who->kind = LH_SIM_WHO_ACTIVE;
        return lh_sim_words_take(w, "master");
    }
    if (lh_sim_words_take(w, "standby"))
        return parse_numbered(w, who, LH_SIM_WHO_STANDBY, 1);
    if (lh_sim_words_take(w, "etcd"))
        return lh_sim_words_take(w, "member") && parse_numbered(w, who, LH_SIM_WHO_ETCD, 1);
    if (lh_sim_words_take(w, "chunkserver")) {
        who->kind = LH_SIM_WHO_SERVER;
        return take_number(w, &who->number);
    }
    if (lh_sim_words_take(w, "client")) {
        who->kind = LH_SIM_WHO_CLIENT;
        return take_number(w, &who->number);
    }
    if (lh_sim_words_take(w, "primary")) {
        who->kind = LH_SIM_WHO_PRIMARY;
        return parse_of_path(w, who->text);
    }
    if (lh_sim_words_take(w, "secondary"))
        return parse_secondary(w, who);
    if (lh_sim_words_take(w, "every"))
        return parse_every(w, who);
    if (lh_sim_words_take(w, "everybody")) {
        who->kind = LH_SIM_WHO_EVERYBODY;
        return true;
    }
    lh_sim_words_expected(w, "a name with a capital letter");
    return false;
}

static void print_who(struct lh_sim_text *t, const void *from)
{
    const struct lh_sim_who *who = from;

    switch (who->kind) {
    case LH_SIM_WHO_NOBODY:
        lh_sim_text_add(t, "nobody");
        break;
    case LH_SIM_WHO_MASTER:
        if (who->number == 0)
            lh_sim_text_add(t, "master");
        else
            lh_sim_text_add(t, "master %u", who->number);
        break;
    case LH_SIM_WHO_ACTIVE:
        lh_sim_text_add(t, "active master");
        break;
    case LH_SIM_WHO_STANDBY:
        if (who->number == 1)
            lh_sim_text_add(t, "standby");
        else
            lh_sim_text_add(t, "standby %u", who->number);
        break;
    case LH_SIM_WHO_ETCD:
        lh_sim_text_add(t, "etcd member %u", who->number);
        break;
    case LH_SIM_WHO_MASTERS:
        lh_sim_text_add(t, "every master");
        break;
    case LH_SIM_WHO_ETCDS:
        lh_sim_text_add(t, "every etcd member");
        break;
    case LH_SIM_WHO_SERVER:
        lh_sim_text_add(t, "chunkserver %u", who->number);
        break;
    case LH_SIM_WHO_CLIENT:
        lh_sim_text_add(t, "client %u", who->number);
        break;
    case LH_SIM_WHO_PRIMARY:
        lh_sim_text_add(t, "primary of %s", who->text);
        break;
    case LH_SIM_WHO_SECONDARY:
        if (who->number == 1)
            lh_sim_text_add(t, "secondary of %s", who->text);
        else
            lh_sim_text_add(t, "secondary %u of %s", who->number, who->text);
        break;
    case LH_SIM_WHO_NAMED:
        lh_sim_text_add(t, "%s", who->text);
        break;
    case LH_SIM_WHO_SERVERS:
        lh_sim_text_add(t, "every chunkserver");
        break;
    case LH_SIM_WHO_CLIENTS:
        lh_sim_text_add(t, "every client");
        break;
    case LH_SIM_WHO_EVERYBODY:
        lh_sim_text_add(t, "everybody");
        break;
    }
}

const struct lh_sim_slot_type lh_sim_slot_who = {
    parse_who, print_who, sizeof(struct lh_sim_who), NULL};

/* ---- Where ---- */

static bool parse_where(struct lh_sim_words *w, void *to)
{
    struct lh_sim_where *where = to;

    memset(where, 0, sizeof *where);
    if (lh_sim_words_take(w, "tail"))
        return parse_of_path(w, where->path);
    if (!lh_sim_words_take(w, "chunk"))
        return false;
    const char *next = lh_sim_words_peek(w);
    if (next == NULL || strcmp(next, "0") == 0 || strcmp(next, "unlimited") == 0 ||
        !lh_sim_slot_number.parse(w, &where->number)) {
        lh_sim_words_expected(w, "a chunk's number, from 1");
        return false;
    }
    next = lh_sim_words_peek(w);
    return next == NULL || strcmp(next, "of") != 0 || parse_of_path(w, where->path);
}

static void print_where(struct lh_sim_text *t, const void *from)
{
    const struct lh_sim_where *where = from;

    if (where->path[0] == '\0')
        lh_sim_text_add(t, "chunk %" PRIu64, where->number);
    else if (where->number == 0)
        lh_sim_text_add(t, "tail of %s", where->path);
    else
        lh_sim_text_add(t, "chunk %" PRIu64 " of %s", where->number, where->path);
}

const struct lh_sim_slot_type lh_sim_slot_where = {
    parse_where, print_where, sizeof(struct lh_sim_where), NULL};

/* ---- Other slots ---- */

static const struct lh_sim_choice ops[] = {{"creates", LH_DISK_CREATE}, {"writes", LH_DISK_WRITE},
    {"syncs", LH_DISK_SYNC}, {"reads", LH_DISK_READ}, {"truncates", LH_DISK_TRUNCATE},
    {"removes", LH_DISK_REMOVE}, {"reserves", LH_DISK_RESERVE}, {"replaces", LH_DISK_REPLACE}, {0}};

static const struct lh_sim_choice streams[] = {{"Append", LH_METHOD_APPEND},
    {"Replicate", LH_METHOD_REPLICATE}, {"Session", LH_METHOD_SESSION},
    {"Leases", LH_METHOD_LEASE_SESSION}, {0}};

static const struct lh_sim_choice losses[] = {
    {"roll", LEASEHOLD__ON_PRIMARY_LOSS__ROLL}, {"wait", LEASEHOLD__ON_PRIMARY_LOSS__WAIT}, {0}};

const struct lh_sim_slot_type lh_sim_slot_loss = {.size = sizeof(uint32_t), .choices = losses};

static bool parse_unset(struct lh_sim_words *w, void *to)
{
    (void)w;
    *(bool *)to = false;
    return true;
}

static bool parse_name(struct lh_sim_words *w, void *to)
{
    const char *next = lh_sim_words_peek(w);

    if (next == NULL || !is_name(next)) {
        lh_sim_words_expected(w, "a name with a capital letter, of at most 15 letters and digits");
        return false;
    }
    memset(to, 0, LH_SIM_PROGRAM_NAME_MAX + 1);
    memcpy(to, next, strlen(next));
    w->at++;
    return true;
}

static const struct lh_sim_choice recalls[] = {{"anything", LH_SIM_RECALL_ANY},
    {"released", LH_SIM_RECALL_RELEASES}, {"yielded", LH_SIM_RECALL_YIELDS},
    {"kept", LH_SIM_RECALL_KEEPS}, {"silent", LH_SIM_RECALL_SILENT}, {NULL, 0}};

static const struct lh_sim_slot_type slot_op = {.size = sizeof(enum lh_disk_op), .choices = ops},
                                     slot_method = {.size = sizeof(enum lh_method),
                                         .choices = streams},
                                     slot_recall = {.size = sizeof(enum lh_sim_recall),
                                         .choices = recalls},
                                     slot_unset = {.parse = parse_unset, .size = sizeof(bool)},
                                     slot_name = {parse_name, lh_sim_print_string,
                                         LH_SIM_PROGRAM_NAME_MAX + 1, NULL};

/* ---- Phrases ---- */

#define SLOT(name, type, member) LH_SIM_SLOT(name, type, struct lh_sim_action, member)

static const struct lh_sim_slot slots[] = {
    SLOT("at", lh_sim_slot_duration, at),
    SLOT("who", lh_sim_slot_who, who),
    SLOT("peer", lh_sim_slot_who, peer),
    SLOT("chunk", lh_sim_slot_where, chunk),
    SLOT("hold", lh_sim_slot_duration, hold),
    SLOT("delay", lh_sim_slot_duration, delay),
    SLOT("number", lh_sim_slot_number, number),
    SLOT("bytes", lh_sim_slot_size, number),
    SLOT("count", lh_sim_slot_small, count),
    SLOT("mask", lh_sim_slot_small, mask),
    SLOT("replication", lh_sim_slot_small, replication),
    SLOT("min", lh_sim_slot_small, min_replicas),
    SLOT("chunk-size", lh_sim_slot_size, chunk_size),
    SLOT("client", lh_sim_slot_small, client),
    SLOT("ppm", lh_sim_slot_rate, ppm),
    SLOT("error", lh_sim_slot_error, error),
    SLOT("op", slot_op, op),
    SLOT("method", slot_method, method),
    SLOT("in-step", lh_sim_slot_flag, in_step),
    SLOT("synced", lh_sim_slot_flag, synced),
    SLOT("now", lh_sim_slot_flag, now),
    SLOT("on-loss", lh_sim_slot_loss, on_loss),
    SLOT("path", lh_sim_slot_path, path),
    SLOT("to", lh_sim_slot_path, to),
    SLOT("name", slot_name, name),
    SLOT("program", lh_sim_slot_label, program.name),
    SLOT("its-client", lh_sim_slot_small, program.client),
    SLOT("its-path", lh_sim_slot_path, program.path),
    SLOT("its-seed", lh_sim_slot_seed, program.seed),
    SLOT("its-count", lh_sim_slot_number, program.count),
    SLOT("its-records", lh_sim_slot_span, program.records_min),
    SLOT("its-bytes", lh_sim_slot_span, program.bytes_min),
    SLOT("its-pace", lh_sim_slot_range, program.every),
    SLOT("its-window", lh_sim_slot_small, program.window),
    SLOT("to-the-end", slot_unset, program.follow),
    SLOT("and-damaged", lh_sim_slot_flag, program.skip_damaged),
    SLOT("and-again", lh_sim_slot_flag, program.again),
    SLOT("its-names", lh_sim_slot_small, program.names),
    SLOT("its-term", lh_sim_slot_duration, program.term),
    SLOT("its-hold", lh_sim_slot_range, program.hold),
    SLOT("its-patience", lh_sim_slot_duration, program.patience),
    SLOT("its-shared", lh_sim_slot_flag, program.shared),
    SLOT("its-exclusive", lh_sim_slot_flag, program.exclusive),
    SLOT("its-slots", lh_sim_slot_small, program.slots),
    SLOT("its-recall", slot_recall, program.recall),
    SLOT("its-attached", lh_sim_slot_flag, program.attached),
    SLOT("its-events", lh_sim_slot_flag, program.locks),
    SLOT("its-broadcast", lh_sim_slot_flag, program.broadcast),
    SLOT("its-lock", lh_sim_slot_path, program.lock),
    SLOT("its-token", lh_sim_slot_number, program.token),
    SLOT("its-owner", lh_sim_slot_label, program.owner),
    {0},
};

_Static_assert(sizeof(struct lh_duration) == sizeof(uint64_t), "`at` is printed as a duration");
_Static_assert(offsetof(struct lh_sim_program_spec, records_max) ==
                   offsetof(struct lh_sim_program_spec, records_min) + sizeof(uint32_t),
    "a span is two numbers side by side");
_Static_assert(offsetof(struct lh_sim_program_spec, bytes_max) ==
                   offsetof(struct lh_sim_program_spec, bytes_min) + sizeof(uint32_t),
    "a span is two numbers side by side");

#define THROUGH " [through client <client>]"

static const struct {
    enum lh_sim_action_kind kind;
    const char *pattern;
} phrases[] = {
    {LH_SIM_ACT_START, "start <who>"},
    {LH_SIM_ACT_CRASH, "crash <who> [for <hold>]"},
    {LH_SIM_ACT_RESTART, "restart <who>"},
    {LH_SIM_ACT_POWER_LOSS, "power loss of <who> [for <hold>]"},
    {LH_SIM_ACT_PAUSE, "pause <who> [in its next step <in-step>] [for <hold>]"},
    {LH_SIM_ACT_RESUME, "resume <who>"},
    {LH_SIM_ACT_STOP, "stop <who> [for <hold>]"},
    {LH_SIM_ACT_CLOCK, "set clock of <who> to <ppm> ppm"},
    {LH_SIM_ACT_WALL, "set wall clock of <who> to <number> ms"},
    {LH_SIM_ACT_TIMERS, "let timers of <who> be late by <delay>"},
    {LH_SIM_ACT_KEEP_INCARNATION, "let starts of <who> keep their incarnation for <hold>"},
    {LH_SIM_ACT_CUT, "cut <who> -> <peer> [for <hold>]"},
    {LH_SIM_ACT_HEAL, "heal <who> -> <peer>"},
    {LH_SIM_ACT_ISOLATE, "isolate <who> [from <peer>] [for <hold>]"},
    {LH_SIM_ACT_REJOIN, "rejoin <who> [with <peer>]"},
    {LH_SIM_ACT_BREAK, "break links between <who> and <peer>"},
    {LH_SIM_ACT_BREAK_AT, "break links at <who> to <peer>"},
    {LH_SIM_ACT_HALF_CLOSE, "half-close <method> streams of <who>"},
    {LH_SIM_ACT_SLOW, "slow <who> -> <peer> by <delay> [for <hold>]"},
    {LH_SIM_ACT_BANDWIDTH, "limit <who> -> <peer> to <number> bytes per second [for <hold>]"},
    {LH_SIM_ACT_CLOG, "clog <who> -> <peer> [for <hold>]"},
    {LH_SIM_ACT_UNCLOG, "unclog <who> -> <peer>"},
    {LH_SIM_ACT_DEAFEN, "deafen <who> [for <hold>]"},
    {LH_SIM_ACT_HIDE, "hide <who> [for <hold>]"},
    {LH_SIM_ACT_MISLEAD, "mislead <who> -> <peer> [for <hold>]"},
    {LH_SIM_ACT_BLIND, "blind <who> to silence of <peer> [for <hold>]"},
    {LH_SIM_ACT_STALL, "stall disk of <who> [for <hold>]"},
    {LH_SIM_ACT_UNSTALL, "unstall disk of <who>"},
    {LH_SIM_ACT_STARVE, "starve disk of <who> [for <hold>]"},
    {LH_SIM_ACT_REFUSE, "refuse changes on disk of <who> with <error> [for <hold>]"},
    {LH_SIM_ACT_SHUT_DOWN, "shut down file system of <who> [for <hold>]"},
    {LH_SIM_ACT_SLOW_DISK, "slow disk of <who> by <delay> [for <hold>]"},
    {LH_SIM_ACT_CAPACITY, "limit disk of <who> to <bytes> [for <hold>]"},
    {LH_SIM_ACT_ROOM, "leave <bytes> free on disk of <who> [for <hold>]"},
    {LH_SIM_ACT_FAIL_DISK, "fail next <count> <op> of <who> with <error>"},
    {LH_SIM_ACT_ROT, "rot byte <number> of <chunk> at <who> [mask <mask>]"},
    {LH_SIM_ACT_MISDIRECT, "misdirect next write of <who> to byte <number> of <chunk>"},
    {LH_SIM_ACT_FAIL_STORE, "fail next commit of <who> with <error>"},
    {LH_SIM_ACT_LOSE_DISK, "lose disk of <who> [for <hold>]"},
    {LH_SIM_ACT_SCRAP, "scrap <who>"},
    {LH_SIM_ACT_BACK_UP, "back up store of <who>"},
    {LH_SIM_ACT_RESTORE_STORE, "restore store of <who> [silently <now>]"},
    {LH_SIM_ACT_ETCD_QUORUM, "etcd loses its quorum [for <hold>]"},
    {LH_SIM_ACT_ETCD_AGREES, "etcd has its quorum again"},
    {LH_SIM_ACT_ETCD_ELECTS, "etcd elects a leader and loses <count> per million [for <hold>]"},
    {LH_SIM_ACT_ETCD_AFTER, "etcd fails <count> per million after their effect [for <hold>]"},
    {LH_SIM_ACT_ETCD_BEFORE, "etcd fails <count> per million before their effect [for <hold>]"},
    {LH_SIM_ACT_ETCD_LATE, "etcd applies <count> per million up to <delay> late [for <hold>]"},
    {LH_SIM_ACT_ETCD_LAG, "let <who> lag by <delay> [for <hold>]"},
    {LH_SIM_ACT_ETCD_BREAK, "break etcd watches"},
    {LH_SIM_ACT_ETCD_DELAY, "delay etcd watches by <delay> [for <hold>]"},
    {LH_SIM_ACT_ETCD_LOSE, "etcd watches lose <count> per million [for <hold>]"},
    {LH_SIM_ACT_ETCD_CANCEL, "cancel etcd watches"},
    {LH_SIM_ACT_ETCD_COMPACT, "compact etcd but for <number> revisions"},
    {LH_SIM_ACT_ETCD_FULL, "etcd is full [for <hold>]"},
    {LH_SIM_ACT_ETCD_NEARLY_FULL, "etcd is nearly full [for <hold>]"},
    {LH_SIM_ACT_ETCD_FLIP, "flip bits at <who> [for <hold>]"},
    {LH_SIM_ACT_ETCD_DELETE, "a hand deletes a key of etcd"},
    {LH_SIM_ACT_ETCD_CHANGE, "a hand changes a key of etcd"},
    {LH_SIM_ACT_ETCD_PUT_BACK, "put keys of etcd back"},
    {LH_SIM_ACT_ETCD_KEEP, "keep a snapshot of etcd"},
    {LH_SIM_ACT_ETCD_RESTORE, "restore the snapshot of etcd"},
    {LH_SIM_ACT_ASTRAY, "lead <who> to another cluster [that has not begun <now>] [for <hold>]"},
    {LH_SIM_ACT_RECALL, "recall <path>" THROUGH},
    {LH_SIM_ACT_RELEASE, "release <path>" THROUGH},
    {LH_SIM_ACT_CREATE,
        "create <path> [synced <synced>] [replication <replication>] "
        "[min replicas <min>] [chunk size <chunk-size>] [on primary loss <on-loss>]" THROUGH},
    {LH_SIM_ACT_RENAME, "rename <path> to <to>" THROUGH},
    {LH_SIM_ACT_REMOVE, "remove <path> [now <now>]" THROUGH},
    {LH_SIM_ACT_RESTORE, "restore <path> [to <to>]" THROUGH},
    {LH_SIM_ACT_LIST, "list <path>" THROUGH},
    {LH_SIM_ACT_DRAIN, "drain <who>" THROUGH},
    {LH_SIM_ACT_UNDRAIN, "undrain <who>" THROUGH},
    {LH_SIM_ACT_DECOMMISSION, "decommission <who>" THROUGH},
    {LH_SIM_ACT_RESUME_DELETING, "resume deleting" THROUGH},
    {LH_SIM_ACT_SESSION_TERM, "set session term to <hold>"},
    {LH_SIM_ACT_CHUNK_TERM, "set chunk term to <hold>"},
    {LH_SIM_ACT_DRIFT, "set drift to <count> ppm"},
    {LH_SIM_ACT_TAKE_RIGHTS, "take rights of stranger <number>"},
    {LH_SIM_ACT_GIVE_RIGHTS, "give rights back to stranger <number>"},
    {LH_SIM_ACT_WRITER,
        "writer <program> at client <its-client> to <its-path> [seed <its-seed>] "
        "[count <its-count>] [records <its-records>] [bytes <its-bytes>] [every <its-pace>] "
        "[window <its-window>] [again <and-again>] [under <its-lock>] [token <its-token>] "
        "[as owner <its-owner>]"},
    {LH_SIM_ACT_READER,
        "reader <program> at client <its-client> of <its-path> [seed <its-seed>] "
        "[count <its-count>] [every <its-pace>] [once <to-the-end>] [again <and-again>] "
        "[skipping <and-damaged>]"},
    {LH_SIM_ACT_FILES, "files <program> at client <its-client> under <its-path> "
                       "[seed <its-seed>] [count <its-count>] [every <its-pace>]"},
    {LH_SIM_ACT_LOCKER,
        "locker <program> at client <its-client> of <its-path> [seed <its-seed>] "
        "[count <its-count>] [names <its-names>] [every <its-pace>] [window <its-window>] "
        "[term <its-term>] [hold <its-hold>] [patience <its-patience>] [shared <its-shared>] "
        "[exclusive <its-exclusive>] [slots <its-slots>] [bytes <its-bytes>] "
        "[when asked <its-recall>]"},
    {LH_SIM_ACT_CACHER,
        "cacher <program> at client <its-client> of <its-path> [seed <its-seed>] "
        "[count <its-count>] [names <its-names>] [every <its-pace>] [window <its-window>] "
        "[term <its-term>]"},
    {LH_SIM_ACT_CHANGER,
        "changer <program> at client <its-client> of <its-path> [seed <its-seed>] "
        "[count <its-count>] [names <its-names>] [every <its-pace>] [window <its-window>] "
        "[term <its-term>] [bytes <its-bytes>] [attached <its-attached>]"},
    {LH_SIM_ACT_WATCHER, "watcher <program> at client <its-client> of <its-path> [seed <its-seed>] "
                         "[count <its-count>] [every <its-pace>] [locks <its-events>]"},
    {LH_SIM_ACT_OPERATOR,
        "operator <program> at client <its-client> of <its-path> [seed <its-seed>] "
        "[count <its-count>] [names <its-names>] [every <its-pace>] [window <its-window>] "
        "[broadcast <its-broadcast>]"},
    {LH_SIM_ACT_END, "end <program>"},
    {LH_SIM_ACT_LET, "let <name> be <who>"},
    {LH_SIM_ACT_MEND, "mend everything"},
};

#define PHRASES (sizeof phrases / sizeof phrases[0])

_Static_assert(
    (int)LH_SIM_ACT_OPERATOR - (int)LH_SIM_ACT_WRITER == (int)LH_SIM_OPERATOR - (int)LH_SIM_WRITER,
    "programs' kinds and their actions have one order");

bool lh_sim_action_begins(enum lh_sim_action_kind kind)
{
    return kind >= LH_SIM_ACT_WRITER && kind <= LH_SIM_ACT_OPERATOR;
}

struct lh_sim_action lh_sim_action_default(enum lh_sim_action_kind kind)
{
    struct lh_sim_action a;

    /* Every byte, since actions are compared as bytes. */
    memset(&a, 0, sizeof a);
    a.kind = kind;
    a.client = 1;
    a.mask = 1;
    a.error = LH_OK;
    a.method = LH_METHOD_APPEND;
    a.program = lh_sim_program_default(lh_sim_action_begins(kind)
                                           ? (enum lh_sim_program_kind)(kind - LH_SIM_ACT_WRITER)
                                           : LH_SIM_WRITER);
    return a;
}

void lh_sim_action_print(
    const struct lh_sim_action *action, bool with_time, char *text, size_t text_size)
{
    struct lh_sim_action defaults = lh_sim_action_default(action->kind);
    struct lh_sim_text t = lh_sim_text_at(text, text_size);
    size_t i = 0;

    while (i < PHRASES && phrases[i].kind != action->kind)
        i++;
    LH_ASSERT(i < PHRASES);
    if (with_time)
        lh_sim_phrase_print(slots, "at <at>", action, &defaults, &t);
    lh_sim_phrase_print(slots, phrases[i].pattern, action, &defaults, &t);
}

bool lh_sim_action_parse_words(struct lh_sim_action *action, struct lh_sim_words *w)
{
    size_t begin = w->at;

    for (size_t i = 0; i < PHRASES; i++) {
        struct lh_sim_action a = lh_sim_action_default(phrases[i].kind);
        w->at = begin;
        if (!lh_sim_phrase_parse(slots, phrases[i].pattern, w, &a))
            continue;
        a.at = action->at;
        *action = a;
        return true;
    }
    w->at = begin;
    return false;
}

int lh_sim_action_parse(
    struct lh_sim_action *action, const char *line, char *text, size_t text_size)
{
    struct lh_sim_words w;
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_START);

    int error = lh_sim_words_split(&w, line, strlen(line), text, text_size);
    if (error != LH_OK)
        return error;
    if (!lh_sim_phrase_parse(slots, "at <at>", &w, &a) || !lh_sim_action_parse_words(&a, &w) ||
        !lh_sim_words_end(&w)) {
        lh_sim_words_error(&w, text, text_size);
        return LH_ERR_INVALID_ARGUMENT;
    }
    *action = a;
    return LH_OK;
}

/* ---- What makes sense ---- */

static bool check_who(
    const struct lh_sim_who *who, const struct lh_sim_crew *crew, char *text, size_t text_size)
{
    if (who->kind == LH_SIM_WHO_SERVER && (who->number < 1 || who->number > crew->servers))
        return lh_sim_complain(text, text_size,
            "there is no chunkserver %u; chunkservers are 1 to %zu", who->number, crew->servers);
    if (who->kind == LH_SIM_WHO_CLIENT && (who->number < 1 || who->number > crew->clients))
        return lh_sim_complain(text, text_size, "there is no client %u; clients are 1 to %zu",
            who->number, crew->clients);
    if (who->kind == LH_SIM_WHO_MASTER && who->number > crew->masters)
        return lh_sim_complain(text, text_size, "there is no master %u; masters are 1 to %zu",
            who->number, crew->masters);
    if (who->kind == LH_SIM_WHO_ETCD && (who->number < 1 || who->number > crew->etcd))
        return lh_sim_complain(text, text_size, "there is no etcd member %u; members are 1 to %zu",
            who->number, crew->etcd);
    if (who->kind == LH_SIM_WHO_STANDBY && (who->number < 1 || who->number >= crew->masters))
        return lh_sim_complain(text, text_size,
            "there is no standby %u; of %zu masters one is active", who->number, crew->masters);
    if (who->kind == LH_SIM_WHO_SECONDARY && who->number < 1)
        return lh_sim_complain(text, text_size, "secondaries are counted from 1");
    return true;
}

static bool is_of_masters(const struct lh_sim_who *who)
{
    return who->kind == LH_SIM_WHO_MASTER || who->kind == LH_SIM_WHO_ACTIVE ||
           who->kind == LH_SIM_WHO_STANDBY || who->kind == LH_SIM_WHO_MASTERS;
}

static bool is_of_servers(const struct lh_sim_who *who)
{
    return who->kind == LH_SIM_WHO_SERVER || who->kind == LH_SIM_WHO_PRIMARY ||
           who->kind == LH_SIM_WHO_SECONDARY || who->kind == LH_SIM_WHO_SERVERS;
}

static bool check_etcd(
    const struct lh_sim_action *a, const struct lh_sim_crew *crew, char *text, size_t text_size)
{
    bool leads = a->kind == LH_SIM_ACT_ASTRAY;

    if (a->kind < LH_SIM_ACT_ETCD_QUORUM || a->kind > LH_SIM_ACT_ASTRAY)
        return true;
    if (leads && (is_of_servers(&a->who) || a->who.kind == LH_SIM_WHO_NAMED) && !a->now)
        return true;
    if (crew->etcd == 0)
        return lh_sim_complain(text, text_size, "there is no etcd");
    if (leads && !is_of_masters(&a->who) && a->who.kind != LH_SIM_WHO_NAMED)
        return lh_sim_complain(text, text_size,
            "masters are led to another cluster, and chunkservers to one that has begun");
    if ((a->kind == LH_SIM_ACT_ETCD_LAG || a->kind == LH_SIM_ACT_ETCD_FLIP) &&
        a->who.kind != LH_SIM_WHO_ETCD && a->who.kind != LH_SIM_WHO_ETCDS &&
        a->who.kind != LH_SIM_WHO_NAMED)
        return lh_sim_complain(text, text_size, "only members of etcd lag, and flip bits");
    if (a->count > 1000000)
        return lh_sim_complain(text, text_size, "at most 1000000 of a million");
    return true;
}

/* Longer than any run; and a sum of such durations is far from the end of time. */
#define LONGEST lh_seconds(1000 * 3600)

static bool check_limits(const struct lh_sim_action *a, char *text, size_t text_size)
{
    if (a->at > LONGEST.ns || (a->hold.ns > LONGEST.ns && a->hold.ns != UINT64_MAX) ||
        a->delay.ns > LONGEST.ns)
        return lh_sim_complain(text, text_size, "a time is longer than 1000h");
    switch (a->kind) {
    case LH_SIM_ACT_CLOCK:
        if (a->ppm <= -1000000 || a->ppm > 1000000)
            return lh_sim_complain(
                text, text_size, "a clock's rate error is between -999999 and +1000000 ppm");
        break;
    case LH_SIM_ACT_ROT:
        if (a->mask < 1 || a->mask > 255)
            return lh_sim_complain(text, text_size, "a mask is between 1 and 255");
        break;
    case LH_SIM_ACT_FAIL_DISK:
        if (a->error == LH_OK || a->count < 1)
            return lh_sim_complain(text, text_size, "a disk fails once or more, with an error");
        break;
    case LH_SIM_ACT_SESSION_TERM:
        if (a->hold.ns < LH_SESSION_TERM_MIN_NS || a->hold.ns > LH_SESSION_TERM_MAX_NS)
            return lh_sim_complain(
                text, text_size, "the session term must be between 200ms and 1h");
        break;
    case LH_SIM_ACT_CHUNK_TERM:
        if (a->hold.ns < LH_SESSION_TERM_MIN_NS || a->hold.ns > 24 * LH_SESSION_TERM_MAX_NS)
            return lh_sim_complain(text, text_size, "the chunk term must be between 200ms and 24h");
        break;
    case LH_SIM_ACT_DRIFT:
        if (a->count > LH_DRIFT_PPM_MAX)
            return lh_sim_complain(
                text, text_size, "the clock drift must be at most %u ppm", LH_DRIFT_PPM_MAX);
        break;
    default:
        break;
    }
    return true;
}

static bool check_program(
    const struct lh_sim_action *a, size_t clients, char *text, size_t text_size)
{
    if (!lh_sim_action_begins(a->kind))
        return true;
    if (a->program.every.min.ns < 1000 || a->program.every.max.ns > LONGEST.ns)
        return lh_sim_complain(text, text_size, "a program pauses between 1us and 1000h");
    return lh_sim_program_check(&a->program, clients, text, text_size);
}

bool lh_sim_action_check(const struct lh_sim_action *action, const struct lh_sim_crew *crew,
    char *text, size_t text_size)
{
    if (action->client < 1 || action->client > crew->clients)
        return lh_sim_complain(text, text_size, "there is no client %u; clients are 1 to %zu",
            action->client, crew->clients);
    return check_who(&action->who, crew, text, text_size) &&
           check_who(&action->peer, crew, text, text_size) &&
           check_etcd(action, crew, text, text_size) && check_limits(action, text, text_size) &&
           check_program(action, crew->clients, text, text_size);
}
