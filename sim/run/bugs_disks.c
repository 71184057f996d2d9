#include "sim/run/bugs_internal.h"

/* What an error of a disk is taken for (REC-6 to REC-10, FAIL-5). */
const struct lh_sim_bug lh_sim_disk_bugs[] = {
    {"doubt-dies-with-its-process", "FAIL-5",
        "that a sync has failed is known to one process alone; the next one takes what is in "
        "memory for what is on the disk",
        "INV-4"},
    {"doubted-log-counts-where-it-ends", "FAIL-5",
        "a later process takes a log in doubt that ends with a whole batch for all that there was",
        "INV-4"},
    {"failed-sync-of-one-file-alone", "FAIL-5",
        "when a sync has failed nobody asks about what was synced just before", "INV-4"},
    {"two-in-doubt-are-sure", "FAIL-5",
        "two logs of a synced file that a later process found in doubt say together where it ended",
        "INV-4"},
    {"answers-of-a-log-in-doubt", "FAIL-4",
        "a primary of which a sync has failed still sends what it had decided to answer before",
        "INV-4"},
    {"rewritten-log-counts-as-whole", "FAIL-5",
        "a buffered log of which a sync has failed is rewritten as far as it can be read, and "
        "counts as verified",
        "INV-4"},
    {"rewritten-log-not-truncated", "FAIL-5",
        "what has rotted of a log whose file is in doubt is left out of the new file, which does "
        "not say so",
        "INV-4"},
    {"fenced-in-memory", "REC-7",
        "a member whose disk refuses the version answers its fence; started again, it serves the "
        "old primary",
        "INV-4"},
    {"header-number-comes-twice", "REC-6",
        "a header that was refused, and may be on the disk all the same, gives its number to the "
        "next one",
        "INV-3"},
    {"damaged-replica-is-not-read", "REC-9",
        "nothing of a damaged replica is read; what is whole at one of them only is unreadable",
        "settle"},
    {"refused-header-stands", "REC-6",
        "a header whose write was refused, and which is on the disk all the same, is left there "
        "when the disk takes changes again; the master counts a replica that is none",
        "KEEP-1"},
    {"lost-log-ends-at-its-damage", "REC-9",
        "an open log in which a start finds damage ends there: nothing is read behind it, and the "
        "chunk is sealed there",
        "story"},
    {"damaged-log-gives-no-length", "REC-9",
        "a damaged log does not say how far it went: a chunk that is damaged at every member never "
        "ends, and its file takes no appends any more",
        "story"},
    {"damaged-chunk-never-sealed", "REC-9",
        "an open chunk that is damaged at every member is left alone", "story"},
    {"damaged-logs-not-heard", "REC-9",
        "when no log is sure, the longest of those that are not damaged decides, though a damaged "
        "one has acknowledged batches whole behind that",
        "story"},
    {"damaged-file-goes-first", "REC-9",
        "the file that is damaged is removed before what replaces it adds up", "settle"},
    {"gap-unreported", "REC-9a",
        "a reader goes on behind a batch that no member can give, and its program is not told",
        "INV-6"},
    {"left-out-replica-forgotten", "KEEP-3",
        "a removal that was refused before its preallocated chunk came into use is never asked for "
        "again",
        "KEEP-3"},
    {0},
};
