/* How much at once and how long at most: every bound of the chunkserver's core that no flag sets.
 * None of them is part of a format or of the protocol: any value from the least on is right, at a
 * cost. So the simulator draws them, down to the least (docs/simulator.md). */
#pragma once

#include <stdint.h>

/* The core has room for so many. */
#define LH_REPLY_BATCHES_MAX 512u

/* X(name, least, default, what it is). The unit is the name's end. */
/* clang-format off */
#define LH_CHUNKSERVER_BOUNDS(X)                                                                   \
    X(write_bytes, 1, 8u << 20, "whole batches in one write of a log; one batch may be larger")    \
    X(sync_pause_ms, 1, 1000,                                                                      \
        "a buffered log is synced this long after its last sync, though nobody waits")             \
    X(sync_least_bytes, 1, 32u << 10, "unless less than this is to be synced")                     \
    X(sync_most_bytes, 1, 16u << 20, "or more than this")                                          \
    X(pair_bytes, 1, 512u << 10, "bytes in one message to another server")                         \
    X(pair_parts, 1, 512, "parts in one message to another server, or answers from there")         \
    X(pair_idle_ms, 1, 10000, "the stream to a server that no chunk needs is closed after this")   \
    X(small_bytes, 1, 16u << 10, "chunks with no more than this to send go before others")         \
    X(arriving_bytes, 64u << 20, 1u << 30, "of batches of which a part has come, of all chunks")   \
    X(member_read_bytes, 1, 4u << 20, "what a member lacks is read in such pieces")                \
    X(flight_bytes, 1, 16u << 20, "bytes to a member without an answer; one batch may be larger")  \
    X(member_least_bytes, 1, 1u << 20, "bytes a second at which a member has to take them")        \
    X(no_delay_bytes, 1, 256u << 10, "what does not wait for the next message to a member")        \
    X(window_bytes, 1, 16u << 20,                                                                  \
        "unanswered bytes of a writer on an append stream, as it is told")                         \
    X(stream_lanes, 1, 16384, "lanes on an append stream")                                         \
    X(stream_writers, 1, 1024, "writers on a lane")                                                \
    X(stream_answers, 1, 65536, "answers that wait on an append stream before it is held")         \
    X(reply_batches, 1, LH_REPLY_BATCHES_MAX, "stored batches in one reply on an append stream")   \
    X(read_bytes, 1, 8u << 20, "what one READ brings; one batch may be larger")                    \
    X(read_least_bytes, 512, 4096,                                                                 \
        "no smaller piece is tried where the disk cannot read a larger one")                       \
    X(search_bytes, 1, 256u << 20,                                                                 \
        "read and checked in vain behind damage, beyond twice the rest of the chunk")              \
    X(refusal_log_pause_ms, 1, 1000, "between two lines about somebody who may not do that")       \
    X(capability_keys, 3, 8, "keys that are kept to check capabilities with (ACC-6)")              \
    X(read_wait_ms, 1, 30000, "how long a READ may wait for more")                                 \
    X(fetch_bytes, 1, 4u << 20, "a new primary fetches what it lacks in such pieces")              \
    X(fetch_timeout_ms, 1, 10000, "and waits so long for one")                                     \
    X(arrival_pause_ms, 1, 30000,                                                                  \
        "a message that has begun to come, and of which nothing more comes for so long, ends its " \
        "stream")                                                                                  \
    X(arrival_ms, 1000, 600000, "and one that is not whole after so long")                         \
    X(scan_bytes, 1, 4u << 20, "a log is read back in such pieces")                                \
    X(thaw_ms, 1, 200, "a disk that has refused a change is asked again after this")               \
    X(doubt_share, 1, 64, "replicas looked at in a step when a sync has failed")                   \
    X(thaw_most_ms, 1, 10000, "and then after twice as long each time, up to this")                \
    X(scan_tries, 1, 6, "a refused read, of the scrub or at a start, is asked for so often")       \
    X(scan_files, 1, 8, "files that are read back at once, at the start")                          \
    X(copy_bytes, 1, 4u << 20, "a copy asks for such pieces")                                      \
    X(copy_timeout_ms, 1, 20000, "and waits so long for one")                                      \
    X(copy_follow_ms, 1, 5000, "and longer by this at the end of an open log")                     \
    X(copy_silence_ms, 1, 10000, "a copy that nobody sent anything for so long is given up")       \
    X(copy_forgotten_ms, 1, 30000, "and one that a new session has not asked for in this time")    \
    X(copy_near_bytes, 1, 256u << 10, "so near the end of an open log a copy may join")            \
    X(scrub_bytes, 1, 1u << 20, "the scrub reads such pieces")                                     \
    X(scrub_look_bytes, 1, 4096, "what a look at a replica counts for, even at an empty one")      \
    X(scrub_least_bytes, 1, 64u << 10, "bytes a second that it reads at least")                    \
    X(scrub_begin_ms, 1, 1000, "after the start: what a server does first is more urgent")         \
    X(scrub_save_replicas, 1, 1024, "its position is kept after so many replicas")                 \
    X(scrub_save_ms, 1, 300000, "or after this time")                                              \
    X(settle_tables, 1, 64, "writer tables of sealed logs that are kept in memory")                \
    X(settle_table_ms, 1, 60000, "each for so long after it was asked for last")                   \
    X(pause_ms, 1, 100, "a core that runs later than it asked for by this much was paused")        \
    X(shortage_pause_ms, 1, 50,                                                                    \
        "what the machine had no descriptor or memory for is asked again after this (FAIL-6) ...") \
    X(shortage_pause_most_ms, 1, 1000, "... growing to this")                                      \
    X(shortage_read_ms, 1, 500, "a READ that waits for that longer is refused")                    \
    X(reserve_least_bytes, 1, 64u << 10, "a log has room reserved from this length on, and ...")   \
    X(reserve_grown_bytes, 1, 4u << 20, "... as much ahead as it holds; from this length on ...")  \
    X(reserve_most_bytes, 1, 64u << 20, "... this much")                                           \
    X(reserve_idle_ms, 1, 10000, "and gives that back when nothing was written to it for so long") \
    X(register_replicas, 1, 512, "leases and replicas in one piece of a registration")             \
    X(register_timeout_ms, 1, 2000,                                                                \
        "a registration without an answer; then it is tried again, or another master is")          \
    X(unreachable_again_ms, 1, 30000, "an unreachable master is logged again so often")
/* clang-format on */

/* 0 takes the default. */
struct lh_chunkserver_bounds {
#define X(name, least, standard, what) uint64_t name;
    LH_CHUNKSERVER_BOUNDS(X)
#undef X
};
