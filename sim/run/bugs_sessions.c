/* Mistakes of sessions of chunkservers, and of how these register. */
#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_session_bugs[] = {
    {"late-registration-believed", "SES-1",
        "a registration of a dead process that the network delayed takes over its successor's "
        "session",
        "INV-9"},
    {"first-piece-registers", "SES-1a",
        "a registration is believed with its first piece; what the others show is taken for not "
        "there",
        "INV-2"},
    {"pieces-outlive-their-stream", "SES-1a",
        "pieces of a registration whose stream broke count with the next one; what is gone since "
        "is taken for there",
        "KEEP-1"},
    {"shows-for-ever", "KEEP-1",
        "a server that is in session and has not shown all that it has counts as away for ever",
        "KEEP-1"},
    {"heard-out-with-its-leases", "SES-1a",
        "a server is heard out when its leases have come; the replicas that follow in the session "
        "are taken for missing",
        "KEEP-1"},
    {"registration-resumed-elsewhere", "SES-1a",
        "a registration goes on where the last one's stream broke off; the master never hears what "
        "came before",
        "INV-2"},
    {"numbers-of-a-stored-incarnation", "SES-1b",
        "a process that could not write its incarnation down registers with numbers; one of the "
        "process before it, which was delayed, is above them",
        "INV-9"},
    {"old-challenge-answered", "SES-1b",
        "any challenge that the master ever gave counts; the answer of a dead process takes over "
        "its successor's session",
        "INV-9"},
    {"chunk-lease-outlives-session", "SES-3",
        "a chunk's lease counts as long as its own term runs; a holder without a session acts for "
        "up to the difference of the terms",
        "INV-1"},
    {"one-way-partition-is-health", "SES-4",
        "a server whose heartbeats arrive and that hears nothing is granted leases; files stand "
        "still behind it",
        "INV-8"},
    {"leases-freed-on-reregistration", "SES-5",
        "registering again within one incarnation frees the leases too; the answer is lost and the "
        "same process goes on with them",
        "INV-2"},
    {"heartbeats-from-stalled-disk", "SES-6",
        "a server with a hanging disk goes on renewing; its chunks take no appends all that time",
        "INV-8"},
    {"other-history-believed", "SES-9",
        "a reign is known by its number alone; behind an older copy of the store the same number "
        "comes again",
        "story"},
    {"reign-not-raised", "SES-9",
        "behind an older copy of the store a reign goes on below one that servers have seen, and "
        "gives its tokens again",
        "story"},
    {"restored-accepts-for-ever", "SES-9",
        "a master of a store that was restored once takes in whoever comes from another history, "
        "years later",
        "story"},
    {"foreign-master-believed", "SES-10",
        "what a master of another cluster says of itself counts; one that was started with a wrong "
        "prefix serves clients, or its reign is above all of the own ones",
        "INV-8"},
    {"chooses-one-of-two-clusters", "SES-10",
        "a client that knows no cluster takes the first master that says that it acts", "story"},
    {"calls-name-no-cluster", "SES-10",
        "a client's calls do not say to which cluster it belongs; the master that it used last is "
        "started with a wrong prefix between two of them",
        "history"},
    {"other-clusters-call-obeyed", "SES-10",
        "a chunkserver does not look at which cluster calls it; it has the address that a server "
        "of that one had, and chunks of the same numbers",
        "SES-10"},
    {"servers-name-no-cluster", "SES-10",
        "what servers ask of each other does not say of which cluster they are; a primary leads a "
        "server of another one, and counts it as a member",
        "SES-10"},
    {"foreign-answer-ends-a-server", "SES-10",
        "a chunkserver that is answered by a master of another cluster stops", "story"},
    {0},
};
