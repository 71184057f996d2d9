/* Faults of disks and of the master's store. */
#include "sim/run/fault.h"
#include "sim/world/disk.h"

#include "batch/batch.h"

#include <stdlib.h>
#include <string.h>

/* Descriptors or memory run out: for everything, or for what comes just now. */
static void starve(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_STARVE : LH_SIM_ACT_FAIL_DISK);

    a.who = lh_sim_some_server(n);
    if (a.kind == LH_SIM_ACT_STARVE) {
        a.hold.ns = hold(n);
        if (chance(n, 12))
            a.who = master();
    } else {
        a.op = (enum lh_disk_op)below(n, LH_DISK_OPS);
        a.count = 1 + (uint32_t)below(n, 10);
        a.error = LH_ERR_SHORTAGE;
    }
    lh_sim_perform(n, &a);
}

/* A disk does not answer, or slowly. */
void lh_sim_fault_stall(struct lh_sim_nemesis *n)
{
    if (chance(n, 25)) {
        starve(n);
        return;
    }
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 60) ? LH_SIM_ACT_STALL : LH_SIM_ACT_SLOW_DISK);

    a.who = lh_sim_some_server(n);
    a.hold.ns = hold(n);
    if (a.kind == LH_SIM_ACT_SLOW_DISK)
        a.delay = lh_nanoseconds(spread(n, 1000000, n->mix.term.ns));
    lh_sim_perform(n, &a);
}

/* A disk is nearly full. */
void lh_sim_fault_full(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ROOM);

    a.who = lh_sim_some_server(n);
    a.number = below(n, 4 * LH_CHUNK_BYTES_MIN);
    a.hold.ns = hold(n);
    lh_sim_perform(n, &a);
}

/* A disk takes no changes for a while, or those of all servers, as if they were on one array. */
static void refuse(struct lh_sim_nemesis *n)
{
    static const int errors[] = {
        LH_ERR_IO, LH_ERR_DISK_FULL, LH_ERR_PERMISSION, LH_ERR_SYSTEM, LH_ERR_INVALID_ARGUMENT};
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_REFUSE);
    bool all = chance(n, 40);
    struct lh_sim_who one = lh_sim_some_server(n);

    a.error = errors[below(n, sizeof errors / sizeof errors[0])];
    a.hold.ns = hold(n);
    for (size_t i = 1; i <= (all ? n->servers : 1); i++) {
        a.who = one;
        if (all)
            a.who.number = (uint32_t)i;
        lh_sim_perform(n, &a);
    }
}

/* A file system shuts itself down, and the last syncs before that may have lied (damage). What all
 * servers are on may refuse changes as long. */
void lh_sim_fault_shut_down(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SHUT_DOWN);
    bool all = chance(n, 40);

    if (!lh_sim_may_damage(n, &a.who))
        return;
    a.hold.ns = hold(n);
    uint32_t misled = a.who.number;
    lh_sim_perform(n, &a);
    a.kind = LH_SIM_ACT_REFUSE;
    a.error = LH_ERR_IO;
    for (uint32_t i = 1; all && i <= n->servers; i++) {
        a.who.number = i;
        if (i != misled)
            lh_sim_perform(n, &a);
    }
}

/* Writes or syncs fail, or reads (damage). */
void lh_sim_fault_io_error(struct lh_sim_nemesis *n)
{
    if (chance(n, 40)) {
        refuse(n);
        return;
    }
    static const enum lh_disk_op ops[] = {LH_DISK_WRITE, LH_DISK_SYNC, LH_DISK_READ, LH_DISK_CREATE,
        LH_DISK_TRUNCATE, LH_DISK_REMOVE};
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_FAIL_DISK);

    a.who = lh_sim_some_server(n);
    a.op = ops[chance(n, 60) ? 1 : below(n, sizeof ops / sizeof ops[0])];
    if (a.op == LH_DISK_READ && !lh_sim_may_damage(n, &a.who))
        return;
    a.count = 1 + (uint32_t)below(n, 3);
    bool grows = a.op == LH_DISK_WRITE || a.op == LH_DISK_CREATE;
    a.error = grows && chance(n, 40) ? LH_ERR_DISK_FULL : LH_ERR_IO;
    lh_sim_perform(n, &a);
}

/* Where some batch begins in a chunk's file, or where the last one does; 0: it has none. */
static uint64_t some_batch(
    struct lh_sim_nemesis *n, const uint8_t *file, uint64_t size, bool is_last)
{
    uint64_t chosen = 0, count = 0;
    uint32_t bytes;

    for (uint64_t at = LH_LOG_START; at + LH_BATCH_FRAME_BYTES <= size; at += bytes) {
        memcpy(&bytes, file + at + 8, sizeof bytes);
        if (bytes < LH_BATCH_FRAME_BYTES)
            break;
        if (is_last || below(n, ++count) == 0)
            chosen = at;
    }
    return chosen;
}

/* A bit turns over, or the next write lands elsewhere, maybe just where another batch is
 * (damage). */
void lh_sim_fault_rot(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 60) ? LH_SIM_ACT_ROT : LH_SIM_ACT_MISDIRECT);
    struct lh_sim_node *node;
    const uint8_t *file = NULL;
    uint64_t *files, size;

    if (!lh_sim_may_damage(n, &a.who))
        return;
    node = lh_sim_server(n->cluster, a.who.number);
    size_t count = lh_sim_files(node, &files);
    if (count > 0) {
        struct lh_sim_chunk tail;
        const char *path = lh_sim_some_path(n);
        a.chunk.number = files[below(n, count)];
        /* What is still appended to is read back and compared; a sealed chunk is not. */
        if (path != NULL && chance(n, 60) && lh_sim_tail(n->cluster, path, &tail))
            a.chunk.number = tail.chunk;
        file = a.chunk.number == 0 ? NULL : lh_sim_file(node, a.chunk.number, &size);
    }
    free(files);
    if (file == NULL || size == 0)
        return;
    bool whole = a.kind == LH_SIM_ACT_MISDIRECT && chance(n, 60);
    bool last = a.kind == LH_SIM_ACT_ROT && chance(n, 25);
    uint64_t batch = whole || last ? some_batch(n, file, size, last) : 0;
    a.number = whole && batch > 0 ? batch : batch + below(n, size - batch);
    a.mask = 1u << below(n, 8);
    if (lh_sim_perform(n, &a) && whole)
        lh_sim_restart_soon(n, a.who, n->mix.term.ns);
}

/* Some server that has a file of that number; NULL: none has. */
static struct lh_sim_node *some_holder(struct lh_sim_nemesis *n, uint64_t file)
{
    struct lh_sim_node *chosen = NULL;
    uint64_t size, count = 0;

    for (size_t i = 1; i <= n->servers; i++) {
        struct lh_sim_node *node = lh_sim_server(n->cluster, i);
        if (lh_sim_file(node, file, &size) != NULL && below(n, ++count) == 0)
            chosen = node;
    }
    return chosen;
}

/* A tail rots at one server, and its machine loses power: at its start it takes that for a torn
 * tail, if it lies behind what was confirmed as equal (FAIL-3). For a while nobody else can show
 * that log, and power may fail again at the start (damage). */
void lh_sim_fault_rotten_end(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ROT);
    const char *path = lh_sim_some_path(n);
    uint64_t size, away = n->mix.term.ns * 2 + a_while(n).ns;
    struct lh_sim_node *provoked = n->target;
    struct lh_sim_chunk tail;

    /* What was not synced may be lost with the power, and is not missed. */
    if (n->power_left != UINT32_MAX || path == NULL || !lh_sim_tail(n->cluster, path, &tail))
        return;
    struct lh_sim_node *holder = some_holder(n, tail.chunk);
    if (holder == NULL)
        return;
    n->target = holder;
    bool may = lh_sim_may_damage(n, &a.who);
    n->target = provoked;
    const uint8_t *file = lh_sim_file(holder, tail.chunk, &size);
    uint64_t batch = some_batch(n, file, size, chance(n, 30));
    if (!may || batch == 0)
        return;
    a.chunk.number = tail.chunk;
    a.number = batch + below(n, size - batch);
    a.mask = 1u << below(n, 8);
    if (!lh_sim_perform(n, &a))
        return;
    n->rotten_ends |= UINT64_C(1) << a.who.number;
    for (size_t i = 1; i <= n->servers; i++)
        if (i != a.who.number &&
            lh_sim_file(lh_sim_server(n->cluster, i), tail.chunk, &size) != NULL)
            lh_sim_act_on(n, LH_SIM_ACT_CRASH, server(i), away);
    lh_sim_act_on(n, LH_SIM_ACT_POWER_LOSS, a.who, 1 + a_while(n).ns / 8);
}

/* The disk of a machine is lost, with or without the machine (damage). */
void lh_sim_fault_lose_disk(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who;

    if (!lh_sim_may_damage(n, &who))
        return;
    if (n->mix.scraps && !n->scrapped && chance(n, 30))
        n->scrapped = lh_sim_act_on(n, LH_SIM_ACT_SCRAP, who, 0);
    else
        lh_sim_act_on(n, LH_SIM_ACT_LOSE_DISK, who, a_while(n).ns);
}

static void start_master(void *arg)
{
    struct lh_sim_nemesis *n = arg;

    if (!n->resting)
        lh_sim_act_on(n, LH_SIM_ACT_START, master(), 0);
}

/* A commit of the master's store fails: the master stops, and its supervisor starts it again. */
void lh_sim_fault_store(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_FAIL_STORE);

    a.who = master();
    a.error = LH_ERR_IO;
    if (lh_sim_perform(n, &a))
        lh_sim_at(n->sim, a_while(n), start_master, n);
}
