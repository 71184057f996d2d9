#include "sim/scenario/bounds.h"

#include <string.h>

enum { AS_U32, AS_U64, AS_MS, AS_DURATION };

#define IN(member) offsetof(struct lh_sim_cluster_config, member)

/* Far beyond what anybody would wait for, or store. */
#define TIME_MOST  (UINT64_C(3600) * 1000000000)
#define BYTES_MOST (UINT64_C(1) << 30)

#define MS(ms) (UINT64_C(1000000) * (ms))

#define TIME(part, core, member, shipped_ms, what)                                                 \
    {#part, #member, LH_SIM_BOUND_TIME, 1, MS(shipped_ms), TIME_MOST, what, IN(core.member),       \
        AS_DURATION, false, false},
#define BYTES(part, core, member, stored, least, shipped, what)                                    \
    {#part, #member, LH_SIM_BOUND_BYTES, least, shipped, BYTES_MOST, what, IN(core.member),        \
        stored, false, false},
#define COUNT(part, core, member, shipped, what)                                                   \
    {#part, #member, LH_SIM_BOUND_COUNT, 1, shipped, shipped, what, IN(core.member), AS_U32,       \
        false, false},
#define NAMED(part, core, member, least, shipped, what)                                            \
    {#part, #member, LH_SIM_BOUND_COUNT, least, shipped, shipped, what, IN(core.member), AS_U64,   \
        false, false},

/* Of what came after seeds were written down (sizes.c). */
#define LATER(part, member, name, shipped_ms, what)                                                \
    {#part, name, LH_SIM_BOUND_TIME, 1, MS(shipped_ms), TIME_MOST, what, IN(member), AS_DURATION,  \
        true, false},
/* Of leases for programs. */
#define LEASE_TIME(part, member, name, shipped_ms, what)                                           \
    {#part, name, LH_SIM_BOUND_TIME, 1, MS(shipped_ms), TIME_MOST, what, IN(member), AS_DURATION,  \
        false, true},
#define LEASE_COUNT(part, core, member, least, shipped, what)                                      \
    {#part, #member, LH_SIM_BOUND_COUNT, least, shipped, shipped, what, IN(core.member), AS_U32,   \
        false, true},
#define LEASE_BYTES(part, core, member, shipped, what)                                             \
    {#part, #member, LH_SIM_BOUND_BYTES, 1, shipped, shipped, what, IN(core.member), AS_U64,       \
        false, true},
#define FINDER(part, core)                                                                         \
    LATER(part, core.finder.answer_timeout, "masters_answer_timeout", 500,                         \
        "a master that is asked which one acts has this long")                                     \
    LATER(part, core.finder.round_patience, "masters_round_patience", 100,                         \
        "a round in which some have answered waits so long for the others")                        \
    LATER(part, core.finder.pause_min, "masters_pause_min", 50, "the first pause before the next") \
    LATER(part, core.finder.pause_max, "masters_pause_max", 250, "and the longest")

/* clang-format off */
static struct lh_sim_bound rows[] = {
#define X(member, preset_ms, what) TIME(master, master, member, preset_ms, what)
    LH_MASTER_TIMES(X)
#undef X
#define X(member, preset, what) COUNT(master, master, member, preset, what)
    LH_MASTER_COUNTS(X)
#undef X
    TIME(master, master, lone_log_after, 13333, "a single log seals if no other is shown so long")
    COUNT(master, master, waiters_max, 65536, "calls that wait for a primary, all together")
    COUNT(master, master, waiters_file_max, 4096, "likewise, for one file")
    {"master", "servers_max", LH_SIM_BOUND_COUNT, LH_SIM_NODES_MAX, 10000, 10000,
        "chunkservers ever registered", IN(master.servers_max), AS_U32, false, false},
    {"master", "replicas_max", LH_SIM_BOUND_COUNT, 1u << 16, 1u << 22, 1u << 22,
        "of a chunkserver", IN(master.replicas_max), AS_U32, false, false},
/* The unit is the name's end: learn_unit(). */
#define X(member, least, preset, what)                                                             \
    NAMED(chunkserver, server.bounds, member, least, preset, what)
    LH_CHUNKSERVER_BOUNDS(X)
#undef X
    TIME(chunkserver, server, reconnect_min, 50, "the first pause before it connects again")
    TIME(chunkserver, server, reconnect_max, 500, "and the longest")
    TIME(chunkserver, server, notice_delay, 5, "an idle primary tells the committed length")
    TIME(chunkserver, server, disk_stall, 500, "a disk that answers nothing for so long hangs")
    TIME(chunkserver, server, alive_interval, 200, "append streams hear of it so often")
    TIME(chunkserver, server, settle_wait, 500, "a settling waits for the seal this long")
    BYTES(chunkserver, server, pending_bytes_max, AS_U64, 1, UINT64_C(512) << 20,
        "uncommitted before streams are held")
    /* With less a pass takes longer than its period, as it should. */
    BYTES(chunkserver, server, scrub_rate, AS_U64, 1u << 20, 16u << 20, "a second, of the scrub")
    TIME(client, client, try_timeout, 5000, "one unanswered request or opening of a stream")
    TIME(client, client, stall_timeout, 5000, "appends without an answer before a new stream")
    TIME(client, client, hang_timeout, 700, "likewise, without any sign of life either")
    TIME(client, client, settle_try, 300, "one unanswered SETTLE, the first time round")
    TIME(client, client, tail_wait, 5000, "for how long the master may wait for a primary")
    TIME(client, client, poll_wait, 10000, "for how long a server may wait for new bytes")
    TIME(client, client, arrival_timeout, 600000, "a whole answer, once it has begun to come")
    TIME(client, client, backoff_min, 10, "the pause after the second failure in a row")
    TIME(client, client, backoff_max, 1000, "and the longest")
    TIME(client, client, silent_min, 5000, "a server that did not answer is asked last so long")
    TIME(client, client, silent_max, 60000, "doubling up to this")
    BYTES(client, client, read_bytes, AS_U32, 1, 2u << 20, "what one READ asks for")
    COUNT(client, client, chunks_ahead, 2, "chunks of a file that a reader reads at once")
    COUNT(client, client, silent_servers, 64, "servers that did not answer, as remembered")
    COUNT(client, client, messages, 2, "messages of a lane under way while they are small")
    BYTES(client, client, full_message_bytes, AS_U64, 1, 256u << 10, "one as large need not wait")
    BYTES(client, client, unanswered_bytes, AS_U64, 1, 16u << 20, "while less than this waits")
    BYTES(client, client, message_bytes, AS_U64, 1, 1u << 20, "of one that carries several batches")
    BYTES(client, client, shared_bytes, AS_U64, 1, 512u << 10, "of one that several lanes share")
    BYTES(client, client, small_bytes, AS_U64, 1, 16u << 10, "lanes with no more go first")
    COUNT(client, client, message_parts, 256, "parts in a message")
    COUNT(client, client, stream_lanes, 4096, "lanes on one stream")
    COUNT(client, client, stream_writers, 256, "writers that ever join one lane")
    TIME(client, client, late_first, 300, "a READ is late, as long as none was answered yet")
    TIME(client, client, late_min, 50, "then late by what is usual, at least this")
    TIME(client, client, late_max, 2000, "and at most this")
    COUNT(client, client, hedge_percent, 10, "of a hundred READs go out a second time, if late")
    COUNT(client, client, hedge_burst, 4, "and so many more, saved up when there were fewer")
    LATER(client, client.repeat_for, "repeat_for", 300000,
        "a call is repeated so long whose outcome is not known")
    LATER(client, client.stream_idle, "stream_idle", 10000,
        "an append stream without a lane is closed after so long")
    LATER(client, client.new_file_wait, "new_file_wait", 500,
        "for how long the master may wait for a primary when a new file is opened")
    LATER(client, client.ask_masters_after, "ask_masters_after", 500,
        "a request is unanswered so long before other masters are asked")
    LEASE_TIME(client, client.suspended_after, "suspended_after", 3333,
        "a program hears of a heartbeat that is unanswered so long")
    LEASE_TIME(client, client.watch_doubt, "watch_doubt", 5000,
        "a watch without changes asks so often which master acts")
    LEASE_COUNT(client, client, sessions, 4096, 4096, "sessions of a program at a time")
    LEASE_COUNT(client, client, session_locks, 64, 65536, "locks and requests of a session")
    LEASE_COUNT(client, client, session_reads, 64, 65536, "reads of a session that wait")
    LEASE_COUNT(client, client, session_ops, 16, 262144, "operations that wait to be sent")
    LEASE_COUNT(client, client, session_prefixes, 1, 64, "broadcast prefixes of a session")
    LEASE_BYTES(client, client, session_message_bytes, 512u << 10, "of operations in a message")
    LEASE_COUNT(client, client, cached_values, 1, 65536, "values that a session caches")
    LEASE_BYTES(client, client, cached_bytes, 64u << 20, "of them")
    LEASE_COUNT(client, client, watches, 4096, 4096, "watches of a program at a time")
    LEASE_COUNT(client, client, watch_replies, 1, 16, "replies that a watch keeps")
    LATER(chunkserver, server.ask_masters_after, "ask_masters_after", 500,
        "a heartbeat is unanswered so long before other masters are asked")
    FINDER(chunkserver, server)
    FINDER(client, client)
    /* Off as shipped: drawn where files are to be looked up. */
    {"client", "lookups_max", LH_SIM_BOUND_COUNT, 0, 0, 65536,
        "paths whose files a client remembers", IN(client.lookups_max), AS_U32, false, true},
    LEASE_COUNT(client, client, lookup_chunks, 1, 256, "chunks that it remembers of a file")
/* Of masters that share an etcd: behind all others, which are drawn before. */
#define X(member, preset_ms, what) TIME(reign, reigns, member, preset_ms, what)
    LH_REIGN_TIMES(X)
#undef X
#define X(member, preset, least_of_it, what)                                                       \
    {"reign", #member, LH_SIM_BOUND_COUNT, least_of_it, preset, preset, what, IN(reigns.member),   \
        AS_U32, false, false},
    LH_REIGN_COUNTS(X)
#undef X
    TIME(reign, reigns, late_after, 500, "what has no answer is asked of another member, too")
    TIME(reign, reigns, again_after, 250, "a transaction without an answer is sent again")
};
/* clang-format on */

#define ROWS (sizeof rows / sizeof rows[0])

_Static_assert(ROWS <= LH_SIM_BOUNDS_MAX, "LH_SIM_BOUNDS_MAX is too small");

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);

    return n >= e && strcmp(name + n - e, end) == 0;
}

static void learn_unit(struct lh_sim_bound *b)
{
    if (b->stored != AS_U64 || b->unit != LH_SIM_BOUND_COUNT)
        return;
    if (ends_with(b->name, "_ms")) {
        b->stored = AS_MS;
        b->unit = LH_SIM_BOUND_TIME;
        b->least *= MS(1);
        b->shipped *= MS(1);
        b->most = TIME_MOST;
    } else if (ends_with(b->name, "_bytes")) {
        b->unit = LH_SIM_BOUND_BYTES;
        b->most = BYTES_MOST;
    }
}

/* They stand behind all others of their kind (master/bounds.h). */
static bool is_of_leases(const struct lh_sim_bound *b)
{
    return strcmp(b->core, "master") == 0 &&
           ((b->offset >= IN(master.program_term) && b->offset < IN(master.step_work)) ||
               b->offset >= IN(master.programs_max));
}

const struct lh_sim_bound *lh_sim_bounds(size_t *count)
{
    static bool learnt;

    for (size_t i = 0; i < ROWS && !learnt; i++) {
        learn_unit(&rows[i]);
        rows[i].leases = rows[i].leases || is_of_leases(&rows[i]);
    }
    learnt = true;
    *count = ROWS;
    return rows;
}

void lh_sim_bounds_apply(const uint64_t *values, struct lh_sim_cluster_config *config)
{
    size_t count;
    const struct lh_sim_bound *all = lh_sim_bounds(&count);

    for (size_t i = 0; i < count; i++) {
        void *to = (char *)config + all[i].offset;
        uint64_t v = values[i];
        if (v == 0)
            continue;
        switch (all[i].stored) {
        case AS_U32:
            *(uint32_t *)to = (uint32_t)v;
            break;
        case AS_U64:
            *(uint64_t *)to = v;
            break;
        case AS_MS:
            *(uint64_t *)to = v < MS(1) ? 1 : v / MS(1);
            break;
        default:
            *(struct lh_duration *)to = lh_nanoseconds(v);
            break;
        }
    }
}

/* ---- As text ---- */

static const struct lh_sim_slot_type *slot_of(const struct lh_sim_bound *b)
{
    return b->unit == LH_SIM_BOUND_TIME    ? &lh_sim_slot_duration
           : b->unit == LH_SIM_BOUND_BYTES ? &lh_sim_slot_size
                                           : &lh_sim_slot_number;
}

void lh_sim_bound_print(struct lh_sim_text *t, size_t row, uint64_t value)
{
    size_t count;
    const struct lh_sim_bound *b = &lh_sim_bounds(&count)[row];

    lh_sim_text_add(t, "bound %s %s", b->core, b->name);
    slot_of(b)->print(t, &value);
}

bool lh_sim_bound_parse(struct lh_sim_words *w, uint64_t *values)
{
    size_t count, begin;
    const struct lh_sim_bound *all = lh_sim_bounds(&count);

    if (!lh_sim_words_take(w, "bound"))
        return false;
    begin = w->at;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        w->at = begin;
        if (w->count < begin + 2 || strcmp(w->word[begin], all[i].core) != 0 ||
            strcmp(w->word[begin + 1], all[i].name) != 0)
            continue;
        w->at += 2;
        if (!slot_of(&all[i])->parse(w, &value))
            return false;
        if (value >= all[i].least && value <= all[i].most) {
            values[i] = value;
            return true;
        }
        w->at--;
        lh_sim_words_expected(w, "a value within the bound's range");
        return false;
    }
    lh_sim_words_expected(w, "a core and a bound (leasehold-sim bounds lists them)");
    return false;
}
