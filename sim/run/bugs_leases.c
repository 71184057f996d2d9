#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_lease_bugs[] = {
    /* Leases for programs: sessions. */
    {"quiet-stream-stays", "HA-10",
        "a session on which nothing is asked stays at a master that froze, whatever others know",
        "story"},
    {"close-answered-early", "PS-1",
        "a program is told that its session is closed before that is durable; the next master "
        "waits for it",
        "story"},
    {"greeting-of-lower-reign-believed", "PS-2",
        "a program shows what it has to a master that is deposed, and takes what that one says",
        "INV-13"},
    {"old-showing-believed", "PS-2",
        "what was shown on an older stream counts; it waited in a socket and says that nothing is "
        "held",
        "INV-13"},
    {"session-renewed-before-shown", "PS-2",
        "a program takes a greeting for an answer; the master does not know yet what is held in "
        "the session, and does not renew it",
        "INV-13"},
    {"renewed-while-it-shows", "PS-2a",
        "a session is renewed before it has shown what it has, at a master that has granted it; a "
        "lock that was cut meanwhile is acted on beyond its end",
        "INV-13"},
    {"showing-wipes-newer-grant", "PS-2",
        "a lock is granted between attaching and showing; the showing does not have it, and it is "
        "free",
        "INV-13"},
    {"lost-lock-shown", "PS-3",
        "a program whose session has run out on its own clock shows its locks all the same",
        "INV-13"},
    {"session-opened-anew-after-expiry", "PS-3",
        "a program whose session has expired opens it again where it is over, and goes on as if "
        "its attached values were still there",
        "INV-17"},
    {"lock-granted-before-all-back", "PS-3",
        "a master that has just begun grants a name whose holder has not shown itself yet",
        "INV-13"},
    {"promise-not-noted", "LEASE-9",
        "a master does not note what it promises before it leaves; the next one on that machine "
        "takes the promise for over",
        "INV-13"},
    {"promises-of-another-boot", "LEASE-9",
        "a master believes what was noted before its machine booted, by a clock that has begun "
        "anew",
        "INV-13"},
    {"promises-of-another-reign", "LEASE-9",
        "a master believes what was noted on its machine, though another one has reigned and "
        "promised since",
        "INV-13"},
    {"change-before-all-back", "PS-3",
        "a master that has just begun changes a value that somebody caches who is not back yet",
        "INV-15"},
    {"session-counted-from-answer", "TIME-4",
        "a program counts its session's term from the arrival of the answer", "INV-13"},

    /* Locks. */
    {"lock-believed-after-session", "NL-3",
        "a program looks at the lock alone, and not at its session", "INV-13"},
    {"waiter-lost-on-release", "NL-1", "a lock is released, and nobody looks at the queue",
        "INV-18"},
    {"shared-starves-exclusive", "NL-1",
        "shared requests pass an exclusive one that came before them", "INV-18"},
    {"token-counter-restarted", "NL-2",
        "a new reign counts its tokens from one, without its number in them", "INV-14"},
    {"token-at-a-cold-start", "NL-2a",
        "a master that knows nothing of its store's history gives a token before any server has "
        "shown that the store is no older copy",
        "story"},
    {"cancel-frees-at-once", "NL-4",
        "who cancels a lock frees its name, and the holder is still writing", "INV-13"},
    {"cut-lease-renewed", "NL-4",
        "a lock that is cut goes on with its session's heartbeats; the one who waits waits for "
        "ever",
        "INV-18"},
    {"cut-lock-renewed-at-holder", "NL-4",
        "a holder takes the next answer to a heartbeat for its cut lock, too", "INV-13"},
    {"lock-event-lost", "NL-6", "of several events of locks a watcher is told of the first alone",
        "INV-17"},

    /* Values. */
    {"drop-confirmed-before-lease", "VAL-1",
        "a program confirms a drop while the answer that brings the lease is still to come, and "
        "takes that",
        "INV-15"},
    {"cache-served-after-drop", "VAL-2",
        "a program confirms that it has dropped a value, and serves it", "INV-15"},
    {"change-before-caches-gone", "VAL-2",
        "a change is made while caches may still serve the old value", "INV-15"},
    {"lease-given-while-changing", "VAL-2",
        "a read gets a cache lease while a change waits, which nobody tells to drop it", "INV-15"},
    {"promise-outlives-awaited-leases", "VAL-2",
        "what is read while a change waits is served for longer than the change waits", "INV-15"},
    {"shown-value-served-while-changing", "VAL-2",
        "a program that attaches again goes on with a value that is changing, for the whole term",
        "INV-15"},
    {"old-drop-confirmation-counts", "VAL-2",
        "a confirmation of an earlier change counts for this one", "INV-15"},
    {"cut-cache-lease-renewed", "VAL-2",
        "a cache lease that is to be dropped goes on with its session's heartbeats", "INV-18"},
    {"conditions-checked-too-early", "VAL-2",
        "conditions of a change are looked at when it comes, and not when it is made", "INV-15"},
    {"stale-token-change-applied", "VAL-3",
        "a change is made with a token whose lock is not in force", "INV-15"},
    {"attached-value-kept", "VAL-4", "a session is over, and what is attached to it stays",
        "INV-17"},
    {"attached-value-removed-early", "VAL-4",
        "values whose session is not back are deleted when a master begins", "INV-17"},
    {"broadcast-promise-stretched", "VAL-5",
        "the master forgets the end of what it has promised of a prefix", "INV-15"},
    {"promise-outlives-last-broadcast", "VAL-5",
        "while a change waits for the last promise of a prefix, others are promised it for the "
        "whole term",
        "INV-15"},
    {"older-bytes-under-a-promise", "VAL-5",
        "a program serves what it read at an earlier revision of a prefix than is promised",
        "INV-15"},
    {"watch-event-lost", "VAL-6", "of several changes a watcher is told of the first alone",
        "INV-17"},
    {"watch-event-twice", "VAL-6", "a watcher that goes on is told again of the last change",
        "INV-17"},

    /* Lookups of files. */
    {"path-changes-before-lookups-dropped", "VAL-7",
        "a file is renamed or removed while programs may still open it by its path from memory",
        "INV-15"},
    {"path-changes-before-all-back", "VAL-7",
        "a master that has just begun renames a file whose path is remembered by a session that is "
        "not back",
        "INV-15"},
    {"lookup-served-after-its-session", "VAL-7",
        "a program opens files from memory by their leases alone, and its session is over",
        "INV-15"},
    {"lookup-leased-before-durable", "VAL-7",
        "a path is remembered whose commit is lost with its master; the next one gives the file's "
        "id to another path",
        "INV-15"},

    /* Where the token counts. */
    {"guard-forgets", "TOK-1", "a guard does not remember the highest token", "INV-16"},

    /* Appenders with tokens. */
    {"token-without-its-lock", "TOK-2",
        "a token above the fence is admitted though nobody holds its lock; who lost the lock long "
        "ago shuts out whoever has it",
        "story"},
    {"lower-token-admitted-after-roll", "TOK-2",
        "once the file has rolled over its fence is not compared with any more; a former owner "
        "appends behind its successor",
        "INV-16"},
    {"fence-not-in-grant", "TOK-2",
        "grants say nothing of the fence; the primary refuses the very owner of the file, and "
        "takes who names no token",
        "INV-8"},
    {"fence-forgotten-at-restart", "TOK-2",
        "a master that starts does not load the fence; a former owner is admitted again", "INV-16"},
    {"lane-without-token-admitted", "TOK-2",
        "a primary looks at tokens only if there is one; a program that names none appends beside "
        "the owner",
        "INV-16"},
    {0},
};
