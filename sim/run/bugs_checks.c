/* Steps and checks that are left out, each of which looks as if another one made it superfluous. */
#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_check_bugs[] = {
    {"cut-before-its-mark-is-durable", "FAIL-3",
        "a log is truncated at a start while the mark that says so is not on the disk yet; power "
        "fails, and a log without its end looks whole",
        "INV-4"},
    {"confirmed-by-length-alone", "REC-2",
        "a member confirms equality by its log's length; behind an older copy of the master's "
        "store it has another log of that length",
        "INV-5"},
    {"report-taken-for-equality", "REC-2",
        "a member whose header vouches for its log counts as equal, however long the log is that "
        "the primary goes on with",
        "INV-4"},
    {"compared-by-length-alone", "REC-5",
        "a log that is as long as the seal is taken for the sealed one; behind an older copy of "
        "the master's store it is another one",
        "INV-5"},
    {"chain-below-the-end-not-compared", "REC-5",
        "a log that is longer than the seal is cut to it, whatever the running checksum there says",
        "INV-5"},
    {"seal-recorded-over-another-log", "SEAL-1",
        "a member at the sealed version records the seal if its log is as long, and has another "
        "one",
        "INV-5"},
    {"seal-of-an-older-version", "SEAL-1",
        "the report of a full chunk is late, and has the master seal it though the same primary "
        "has been granted a newer version since",
        "INV-2"},
    {"own-damage-is-a-verdict", "REC-8",
        "a primary that has found rot in its own log tells its clients CORRUPT, which says that "
        "what they sent is; their appenders end",
        "INV-8"},
    {"table-outlives-its-log", "APP-5",
        "all that is remembered of a writer lies behind a cut, and its log says that it has what "
        "came before that in its sequence",
        "INV-4"},
    {"silence-goes-on-after-an-answer", "HA-10",
        "a session's stream is answered, and the time for the first question goes on; the client "
        "doubts and leaves a master that answers",
        "story"},
    {"unsure-primary-kept", "REC-2a",
        "a primary that is not sure of its log waits for members that it cannot reach, though the "
        "master hears them and appends wait; none of them is asked to take over",
        "story"},
    {"lone-log-decides-at-once", "FAIL-2a",
        "the log of a single member gives the sealed length while another one's process is just "
        "being restarted",
        "INV-4"},
    {"garbage-by-silent-members", "KEEP-3",
        "a replica is deleted while a member was not heard from for most of its session; its "
        "machine may be gone",
        "KEEP-3"},
    {"garbage-by-deaf-members", "KEEP-3",
        "a replica is deleted while a member hears nothing from the master, which could not have "
        "it copied",
        "KEEP-3"},
    {"garbage-by-unsealed-members", "KEEP-3",
        "a replica is deleted while a member of a sealed chunk has not recorded the seal, and may "
        "lack what it covers",
        "KEEP-3"},
    {"garbage-by-too-few-members", "KEEP-3",
        "a replica is deleted when all members are well, and there are fewer than there should be",
        "KEEP-3"},
    {"seals-not-looked-at", "PAIR-2",
        "seals and sums of what is loaded are not looked at; masters act on pairs that a disk has "
        "changed",
        "story"},
    {"sum-not-looked-at", "PAIR-2",
        "number and sum of all pairs are not looked at; masters act on a store from which a pair "
        "was deleted",
        "story"},
    {"standby-ends-over-damage", "PAIR-4",
        "a master that loads what does not fit ends; when etcd's members are whole again nobody "
        "is there",
        "story"},
    {"foreign-changes-stay", "PAIR-5",
        "the active master does not write again what another hand has deleted; no standby can load "
        "the store",
        "story"},
    {"resigns-over-whatever-there-is", "HA-1",
        "a resignation compares nothing; one that takes effect late puts the head of its own reign "
        "over its successor's",
        "INV-12"},
    {"confirmed-from-a-later-copy", "HA-2",
        "a write that was answered only as an earlier copy's confirms from the answer on; the "
        "master acts beside its successor",
        "INV-11"},
    {"timers-fire-unconfirmed", "HA-2",
        "a master that is not confirmed takes no messages, and acts by its timers", "INV-11"},
    {"settled-at-any-version", "APP-5a",
        "a client settles at a replica of another version than the master has named", "INV-4"},
    {"promise-ends-with-its-policy", "VAL-5",
        "a prefix is broadcast no more, and what was promised of it is forgotten at once",
        "INV-15"},
    {"forgotten-changes-ignored", "VAL-5",
        "a master that starts gives a prefix the revision of what it finds there; a deletion that "
        "the history has forgotten is undone in caches",
        "INV-15"},
    {"deletions-forgotten-at-start", "VAL-5",
        "a master that starts gives a prefix the revision of the values that it has; the last "
        "change was a deletion, and caches go on with what was deleted",
        "INV-15"},
    {"unheard-cache-lease-not-waited-for", "VAL-2",
        "a program shows a value to a new master and is given a shorter term; the answer is lost, "
        "and it serves the value for the old one",
        "INV-15"},
    {"incomplete-replica-gives-a-length", "FAIL-2a",
        "a replica that is being copied answers a fence; behind an older copy of the master's "
        "store it counts as a full member's, and gives the sealed length",
        "INV-4"},
    {0},
};
