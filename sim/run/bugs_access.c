#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_access_bugs[] = {
    /* Who answers at an address. */
    {"placed-unheard", "SES-8",
        "chunks are placed at a server that nobody reaches at the address that it gave", "INV-8"},
    {"adopted-for-another-server", "FENCE-1a",
        "whoever is reached at a member's address adopts its version; two members are one server, "
        "and what it has is acknowledged for both",
        "INV-4"},

    /* Who may do what. */
    {"method-without-its-right", "ACC-3",
        "the master looks at nobody's role; who may read at most creates files and registers",
        "ACC-3"},
    {"replica-for-anybody", "ACC-3",
        "a chunkserver takes replicas and appends from whoever has a certificate", "ACC-3"},
    {"answered-by-anybody", "ACC-8",
        "nobody looks whose certificate it is that a server shows: whoever has the address of a "
        "master that is down is obeyed",
        "KEEP-3"},
    {"table-read-in-vain", "ACC-7",
        "a node goes on with its old table of roles: who lost a right has it until a restart",
        "ACC-7"},
    {"capability-not-asked", "ACC-5", "a chunkserver serves whoever has found out a chunk's number",
        "ACC-5"},
    {"capability-of-any-chunk", "ACC-5",
        "the chunk is not in the MAC: what was given for one file opens all others", "ACC-5"},
    {"capability-rights-ignored", "ACC-5",
        "the rights are not looked at: who may read a chunk appends to it", "ACC-5"},
    {"capability-mac-not-compared", "ACC-5",
        "whoever knows a key's number makes capabilities as he likes", "ACC-5"},
    {"capability-never-over", "ACC-5",
        "its end is not looked at: who was let in once is let in for ever", "ACC-5"},
    {"lane-outlives-its-capability", "ACC-5",
        "it is asked for when a writer opens alone: a lane that stays open appends for ever",
        "ACC-5"},
    {"key-age-counts-from-receipt", "ACC-6",
        "a chunkserver takes a key's age for that of the answer's arrival, which was delayed: what "
        "is made with it holds for longer",
        "ACC-5"},
    {"led-by-anybody", "ACC-9",
        "a replica adopts the version of whoever has a chunkserver's certificate", "ACC-9"},
    {"led-at-any-version", "ACC-9",
        "the version is not in the MAC: who was granted one leads at every other", "ACC-9"},
    {"led-by-whoever-has-the-bytes", "ACC-9",
        "the holder is not in the MAC: what was given to one chunkserver is good for each",
        "ACC-9"},
    {"led-by-a-key-of-all", "ACC-9",
        "all chunkservers of a reign have one key to be led by: each makes what it shows to others",
        "ACC-9"},
    {"lease-goes-on-as-granted", "ACC-9",
        "a lease that goes on in another reign is not granted again: members that start in that "
        "reign do not know who leads them, and are given up",
        "expect"},
    {"stale-capability-told", "ACC-5",
        "a program's call ends because servers take no capability that the master gives, and not "
        "because there is no server that helps",
        "ACC-5"},
    {0},
};
