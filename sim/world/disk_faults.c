/* What is set on a disk for its operations to meet. */
#include "sim/world/disk.h"
#include "sim/world/internal.h"

#include "base/assert.h"

#include <inttypes.h>

void lh_sim_disk_capacity(struct lh_sim_node *node, uint64_t bytes)
{
    if (node->disk.capacity == bytes)
        return;
    if (bytes == UINT64_MAX)
        lh_sim_note(node->sim, "the disk of %s has room again", node->name);
    else
        lh_sim_note(node->sim, "the disk of %s holds %" PRIu64 " bytes", node->name, bytes);
    node->disk.capacity = bytes;
}

uint64_t lh_sim_disk_capacity_of(const struct lh_sim_node *node)
{
    return node->disk.capacity;
}

uint64_t lh_sim_disk_used(const struct lh_sim_node *node)
{
    return node->disk.files.used;
}

bool lh_sim_disk_is_stalled(const struct lh_sim_node *node)
{
    return node->disk.stalled;
}

void lh_sim_disk_slow(struct lh_sim_node *node, struct lh_duration extra)
{
    if (node->disk.extra == extra.ns)
        return;
    lh_sim_note(node->sim, "what the disk of %s does takes %" PRIu64 " ms longer", node->name,
        lh_duration_ms(extra));
    node->disk.extra = extra.ns;
}

void lh_sim_disk_fail(struct lh_sim_node *node, enum lh_disk_op op, int error, uint32_t count)
{
    if (count > 0)
        lh_sim_note(node->sim, "the next %u times that %s wants to %s a file fail: %s", count,
            node->name, lh_sim_disk_op_name(op), lh_error_name(error));
    node->disk.faults[op].error = error;
    node->disk.faults[op].count = count;
}

void lh_sim_disk_starve(struct lh_sim_node *node, bool starved)
{
    if (node->disk.starved == starved)
        return;
    lh_sim_note(node->sim, "%s %s for its disk", node->name,
        starved ? "has no descriptors or memory" : "has descriptors and memory again");
    node->disk.starved = starved;
    if (!starved)
        lh_sim_store_go_on(node);
}

void lh_sim_disk_refuse(struct lh_sim_node *node, int error)
{
    if (node->disk.refuses == error)
        return;
    if (error == LH_OK)
        lh_sim_note(node->sim, "the disk of %s takes changes again", node->name);
    else
        lh_sim_note(
            node->sim, "the disk of %s refuses changes: %s", node->name, lh_error_name(error));
    node->disk.refuses = error;
    node->disk.refuses_sync =
        error != LH_OK && lh_prng_below(&node->sim->streams[LH_SIM_DISK], 2) == 0;
}

bool lh_sim_disk_refuses(const struct lh_sim_node *node)
{
    return node->disk.refuses != LH_OK || node->disk.shut;
}

void lh_sim_disk_mount(struct lh_sim_node *node)
{
    if (!node->disk.shut)
        return;
    lh_sim_crash(node);
    lh_sim_note(node->sim, "the file system of %s is mounted again", node->name);
    node->disk.shut = false;
    node->disk.mounts++;
    lh_sim_files_mount(&node->disk.files);
    lh_sim_notify_lives(node, LH_SIM_LIFE_MOUNTED);
}

void lh_sim_disk_misdirect(struct lh_sim_node *node, uint64_t file, uint64_t offset)
{
    node->disk.misdirect = true; /* noted when it happens */
    node->disk.wrong_file = file;
    node->disk.wrong_offset = offset;
}

void lh_sim_wipe(struct lh_sim_node *node)
{
    struct lh_sim_files *files = &node->disk.files;

    LH_ASSERT(!node->up);
    lh_sim_note(node->sim, "%s has a new and empty disk", node->name);
    while (files->count > 0) {
        uint64_t number = files->list[files->count - 1]->number;
        lh_sim_files_remove(files, number);
        lh_sim_notify_disk(node, number, LH_DISK_REMOVE, 0, 0, LH_ERR_CLOSED);
    }
    lh_sim_store_wipe(node);
}

void lh_sim_file_rot(struct lh_sim_node *node, uint64_t file, uint64_t offset, uint8_t mask)
{
    struct lh_sim_file *f = lh_sim_files_find(&node->disk.files, file);

    LH_ASSERT(f != NULL);
    lh_sim_note(node->sim, "%s: bits of byte %" PRIu64 " of file %" PRIu64 " turn over", node->name,
        offset, file);
    lh_sim_file_turn_bits(f, offset, mask);
    lh_sim_notify_disk(node, file, LH_DISK_WRITE, offset, 1, LH_ERR_CLOSED);
}

void lh_sim_mend_disk(struct lh_sim_node *node)
{
    struct disk *d = &node->disk;

    lh_sim_disk_capacity(node, UINT64_MAX);
    lh_sim_disk_slow(node, lh_nanoseconds(0));
    lh_sim_disk_starve(node, false);
    lh_sim_disk_refuse(node, LH_OK);
    lh_sim_disk_mount(node);
    d->misdirect = false;
    for (size_t op = 0; op < sizeof d->faults / sizeof d->faults[0]; op++)
        d->faults[op].count = 0;
    lh_sim_disk_stall(node, false);
}
