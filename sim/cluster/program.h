/* Programs that use Leasehold inside the world: writers, readers, one that moves files about, and
 * programs with leases of their own (program_*.c): locks, cached values, changes, watches, and an
 * operator. Each goes on by itself, outlives its client's crashes as a supervised program would
 * (it starts again with a new writer or reader), and draws from a seed of its own: taking one
 * program out of a run leaves what the others draw as it was.
 *
 * A program checks nothing. What it asked and was told can be seen at its client node (watch.h). */
#pragma once

#include "sim/cluster/cluster.h"

enum lh_sim_program_kind {
    LH_SIM_WRITER, /* appends batches to `path` */
    LH_SIM_READER, /* reads `path` from its start */
    LH_SIM_FILES,  /* creates, renames, lists and removes files whose paths begin with `path` */
    /* Of leases for programs; their names begin with `path`, or are it if there is one. */
    LH_SIM_LOCKER,   /* acquires locks, holds them, uses their tokens, releases them */
    LH_SIM_CACHER,   /* reads values through the cache of a session */
    LH_SIM_CHANGER,  /* puts and deletes values, with and without conditions */
    LH_SIM_WATCHER,  /* is told of every change */
    LH_SIM_OPERATOR, /* cancels locks, lists names and sessions, sets policies */
};

/* What a locker does when it is asked for its lock (NL-4). */
enum lh_sim_recall {
    LH_SIM_RECALL_ANY,      /* one of the others each time */
    LH_SIM_RECALL_RELEASES, /* gives it up */
    LH_SIM_RECALL_YIELDS,   /* lets it end in some time, and goes on until then */
    LH_SIM_RECALL_KEEPS,    /* says that it keeps it */
    LH_SIM_RECALL_SILENT,   /* says nothing */
    LH_SIM_RECALLS
};

#define LH_SIM_PROGRAM_NAME_MAX 15
#define LH_SIM_PATH_MAX         63

struct lh_sim_program_spec {
    enum lh_sim_program_kind kind;
    char name[LH_SIM_PROGRAM_NAME_MAX + 1];
    uint32_t client; /* number, from 1 */
    char path[LH_SIM_PATH_MAX + 1];
    uint64_t seed;
    uint64_t count;                    /* batches, fetches or operations; UINT64_MAX: no end */
    uint32_t records_min, records_max; /* WRITER: of a batch; at least 1 */
    uint32_t bytes_min, bytes_max;     /* WRITER: of a record */
    struct lh_sim_range every;         /* between the beginnings of two operations */
    uint32_t window;                   /* WRITER: batches under way at most; at least 1 */
    char lock[LH_SIM_PATH_MAX + 1];    /* WRITER: that it appends under (TOK-2) ... */
    uint64_t token;                    /* ... with this token; 0: without one */
    char owner[LH_SIM_PROGRAM_NAME_MAX + 1]; /* WRITER: it appends with the tokens of this locker
                                                of the same client, and not before it has one */
    bool follow;                             /* READER: waits at the file's end instead of ending */
    bool skip_damaged; /* READER: goes on behind what no member can give (REC-9a) */
    bool again; /* READER that does not follow: at the end it goes on with a new reader there.
                   WRITER: each batch comes from a new writer, as of programs that append once */
    /* Of leases. */
    uint32_t names;              /* so many; at least 1 */
    struct lh_duration term;     /* of the session; 0: the master's default */
    struct lh_sim_range hold;    /* LOCKER: for so long it wants a lock */
    struct lh_duration patience; /* LOCKER: it waits so long for one; forever: while it lives */
    bool shared;    /* LOCKER: all of its locks; else of LOCKERs that are drawn some are */
    bool exclusive; /* LOCKER: none of its locks is shared */
    uint32_t slots; /* LOCKER, of shared ones; 0: what belongs to the name */
    enum lh_sim_recall recall; /* LOCKER */
    bool attached;             /* CHANGER: what it puts goes with its session */
    bool locks;                /* WATCHER: of locks, and not of values */
    bool broadcast; /* OPERATOR: it does nothing but have what is under `path` broadcast */
};

#define LH_SIM_LEASE_NAMES_MAX 16u

/* A program of that kind with everything set but name, client, path and seed. */
struct lh_sim_program_spec lh_sim_program_default(enum lh_sim_program_kind kind);

/* False: `text` says what is wrong with it. */
bool lh_sim_program_check(
    const struct lh_sim_program_spec *spec, size_t clients, char *text, size_t text_size);

struct lh_sim_program;

/* Begins now. The spec was checked; its name is nobody's in this cluster. Lives as long as the
 * cluster. */
struct lh_sim_program *lh_sim_program_start(
    struct lh_sim_cluster *c, const struct lh_sim_program_spec *spec);

/* It begins no further operations; what is under way goes on. */
void lh_sim_program_end(struct lh_sim_program *p);
void lh_sim_programs_end(struct lh_sim_cluster *c); /* all of them, and strangers */

/* Does it hold the lock on that name, may it serve its value from its memory, by its own clock at
 * this moment? */
bool lh_sim_program_holds(const struct lh_sim_program *p, const char *name);
bool lh_sim_program_caches(const struct lh_sim_program *p, const char *name);

/* NULL: no program of that name was started. */
const struct lh_sim_program *lh_sim_program_find(const struct lh_sim_cluster *c, const char *name);

struct lh_sim_program_status {
    uint64_t begun;     /* operations, of all its lives */
    uint64_t succeeded; /* WRITER: acknowledged. READER: answered with bytes. LOCKER: granted.
                           Others: answered */
    uint64_t failed;    /* answered with an error */
    uint64_t pending;   /* under way at the running client */
    uint64_t lost;      /* under way when their client went down: nobody will ever know */
    uint64_t position;  /* READER: the next byte of the file that it will ask for. WATCHER: the next
                           revision */
    uint64_t since;     /* true ns of the oldest pending operation's beginning; UINT64_MAX: none */
    uint64_t gaps;      /* READER: that it was told of */
    bool ended;         /* begins no further operations */
    int last_error;
};

struct lh_sim_program_status lh_sim_program_status(const struct lh_sim_program *p);

/* All programs, in the order of their start; NULL after the last. `before` NULL: the first. */
const struct lh_sim_program *lh_sim_program_next(
    const struct lh_sim_cluster *c, const struct lh_sim_program *before);
const struct lh_sim_program_spec *lh_sim_program_spec(const struct lh_sim_program *p);
