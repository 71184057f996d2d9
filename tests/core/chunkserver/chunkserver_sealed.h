/* One chunkserver's core with many sealed replicas; the test plays its disk, which holds a header
 * for each of them, and the master. */
#pragma once

#include "base/alloc.h"
#include "chunkserver/chunkserver.h"
#include "chunkserver/log/header.h"
#include "proto/leasehold.pb-c.h"

#include <stdlib.h>

/* The file of a sealed chunk, as far as a start reads it. */
static inline struct lh_buf sealed_file(uint64_t chunk)
{
    struct lh_chunk_header h = {
        .generation = 2,
        .version = 1,
        .chunk_size = 1u << 20,
        .durability = LEASEHOLD__DURABILITY__BUFFERED,
        .sealed = true,
        .sealed_length = 1000,
        .sealed_checksum = 1,
    };
    struct lh_buf slot = lh_chunk_header_encode(chunk, &h), file = {0};

    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_append(&file, &slot, 0, slot.size);
    lh_buf_clear(&slot);
    return file;
}

/* Chunks 1 to `count` are on its disk. `bounds`: NULL takes the defaults. */
static inline struct lh_chunkserver *sealed_server(
    size_t count, const struct lh_chunkserver_bounds *bounds)
{
    static const char *const masters[] = {"m"};
    uint64_t *chunks = lh_alloc_array(count + 1, sizeof *chunks);
    struct lh_chunkserver_config config = {.server_id = "cs1",
        .address = "cs1",
        .failure_domain = "d",
        .machine_id = "machine",
        .cluster_id = "",
        .incarnation = 1,
        .process = 1,
        .masters = masters,
        .master_count = 1,
        .chunks = chunks,
        .chunk_count = count};

    if (bounds != NULL)
        config.bounds = *bounds;
    for (size_t i = 0; i < count; i++)
        chunks[i] = i + 1;
    struct lh_chunkserver *cs = lh_chunkserver_create(&config);
    free(chunks);
    return cs;
}

/* Feeds `in`, or, if that is NULL, the time; carries out what the core asks of its disk, and what
 * comes of that, until there is no more. Every other effect goes to `other`. What is on the disk
 * `file` says. */
static inline void run_files(struct lh_chunkserver *cs, struct lh_instant now, struct lh_input *in,
    void (*other)(const struct lh_effect *e), struct lh_buf (*file)(uint64_t chunk))
{
    struct lh_input timer = {.kind = LH_IN_TIMER};
    struct lh_effects asked = {0}, done = {0};

    if (in == NULL)
        in = &timer;
    in->now = now;
    lh_chunkserver_step(cs, in, &asked);
    while (asked.count > 0) {
        for (size_t i = 0; i < asked.count; i++) {
            const struct lh_effect *e = &asked.items[i];
            struct lh_input disk = {
                .kind = LH_IN_DISK, .now = now, .ticket = e->ticket, .file = e->file, .op = e->op};
            if (e->kind != LH_FX_DISK) {
                if (other != NULL)
                    other(e);
                continue;
            }
            if (e->op == LH_DISK_READ) {
                struct lh_buf whole = file(e->file);
                uint64_t behind = whole.size - e->offset;
                lh_buf_append(
                    &disk.payload, &whole, e->offset, behind < e->length ? behind : e->length);
                lh_buf_clear(&whole);
            }
            lh_chunkserver_step(cs, &disk, &done);
            lh_buf_clear(&disk.payload);
        }
        lh_effects_clear(&asked);
        struct lh_effects next = done;
        done = asked;
        asked = next;
    }
    lh_effects_deinit(&asked);
    lh_effects_deinit(&done);
}

static inline void run_sealed(struct lh_chunkserver *cs, struct lh_instant now, struct lh_input *in,
    void (*other)(const struct lh_effect *e))
{
    run_files(cs, now, in, other, sealed_file);
}
