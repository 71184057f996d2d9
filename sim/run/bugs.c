#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_core_bugs[] = {
    /* Time. */
    {"wall-clock", "TIME-2",
        "the master measures terms with its wall clock; a jump forward ends leases that are still "
        "held",
        "INV-2"},
    {"holder-counts-from-receipt", "TIME-4",
        "a holder counts its terms from the answer's arrival; one whose answer was delayed and who "
        "is then cut off acts beyond the master's wait",
        "INV-1"},
    {"no-drift-margin", "TIME-4",
        "the holder is told the whole term; cut off, with a slow clock and a fast one at the "
        "master, it acts beyond the master's wait",
        "INV-1"},
    {"grantor-clock-read-before-receipt", "TIME-4",
        "the master renews a session as of the heartbeat before; a holder that is cut off acts a "
        "heartbeat longer than the master waits",
        "INV-2"},
    {"term-shortened-by-setting", "TIME-4",
        "a lease continued after a restart is held for the new, shorter term alone; the answer is "
        "lost and the holder acts on until the old one ends",
        "INV-2"},
    {"lease-checked-only-before-write", "TIME-5",
        "while batches are under way the primary does not look at its lease again; with one that "
        "hangs it orders and answers readers long after the lease",
        "INV-1"},
    {"ordered-without-lease", "TIME-5",
        "whoever has opened a stream may append on it for good; a primary whose timer is late "
        "orders what comes after its lease",
        "INV-1"},
    {"read-without-lease", "TIME-5",
        "a primary that wakes up from a long pause answers a waiting reader before it looks at its "
        "lease; the reader misses what the next primary has acknowledged",
        "INV-6"},

    /* Chunk leases. */
    {"grant-sent-before-durable", "LEASE-1",
        "the grant is sent while it is being written down; the master crashes and gives the same "
        "version to another server",
        "INV-2"},
    {"regrant-when-session-breaks", "LEASE-2",
        "when a session's stream breaks its leases are given to others; the holder acts on",
        "INV-2"},
    {"any-version-released", "LEASE-2",
        "a release frees the lease at whatever version; one that crosses a newer grant frees that",
        "INV-2"},
    {"extension-not-asked", "LEASE-4",
        "only chunks with appends under way at the heartbeat are listed; a primary in use loses "
        "its lease after a chunk's term",
        "INV-9"},
    {"drain-releases-early", "LEASE-5",
        "a recalled lease is released while appends are under way, and they are acknowledged later",
        "INV-1"},
    {"recall-returns-to-its-holder", "LEASE-5",
        "a lease that was recalled is given to any member, its last holder too; the operator's "
        "recall comes to nothing",
        "story"},
    {"lost-primary-kept", "LEASE-5",
        "a primary that lives is never asked to let another; whoever cannot reach it waits as long "
        "as it is cut off",
        "story"},
    {"delayed-grant-revives-lease", "LEASE-6",
        "a grant that was sent twice is acted on again after its version was released; what is "
        "acknowledged then lies beyond the seal, or beside another primary",
        "INV-2"},
    {"leases-forgotten-on-restart", "LEASE-7",
        "a restarted master takes every chunk for free while a holder that it has not heard from "
        "acts on",
        "INV-2"},
    {"restart-waits-by-new-setting", "LEASE-7",
        "a master restarted with a shorter session term waits no longer than that for sessions "
        "that the old one granted",
        "INV-2"},
    {"longest-session-lowered-at-start", "LEASE-7",
        "the shorter term is written down at the start instead of after the wait; a second restart "
        "within the wait forgets the longer one",
        "INV-2"},
    {"old-end-kept-on-continue", "LEASE-7",
        "a continued lease keeps the end that the old master gave; idle, it is given to another "
        "after the new and shorter term",
        "INV-1"},
    {"unshown-lease-kept", "SES-5a",
        "a registration frees nothing; a master that was away for longer than a session waits for "
        "another one, for a lease that its only possible holder has come back without",
        "INV-10"},
    {"shown-grant-forgotten", "SES-5a",
        "a registration leaves out a grant whose version is still being adopted; the master frees "
        "it, and it is acted on until the answer comes",
        "INV-1"},
    {"lease-ends-in-silence", "LEASE-6",
        "a lease that runs out at its holder while the master's answers are late is not given "
        "back; the chunk stands still until a heartbeat tells",
        "INV-8"},
    {"refusals-without-rest", "LEASE-6",
        "a refusal says nothing: the next grant is no higher than what the members have adopted, "
        "and comes at once; a storm of commits and messages for as long as that lasts",
        "INV-8"},
    {"difference-not-resolved", "LEASE-8",
        "the same, and heartbeats are not compared either; the chunk stands still until its term "
        "is over at the master, too",
        "INV-10"},
    {"hint-takes-lease", "INV-9",
        "a client that cannot reach a primary has its lease recalled; one bad link moves a chunk "
        "that works for everybody else",
        "INV-9"},

    /* Versions. */
    {"confirmed-before-durable", "FENCE-1",
        "a version is confirmed when it is written, not when it is synced; after a power loss the "
        "replica is back at the old one",
        "INV-3"},
    {"confirmed-with-unsynced-writes", "FENCE-1",
        "a version that was there before, and equality, are confirmed without a sync of the bytes "
        "below; a power loss takes what was reported as durable",
        "INV-4"},
    {"adopted-without-replica", "FENCE-1",
        "a server that has no replica of a chunk adopts its version all the same, with an empty "
        "log",
        "INV-4"},
    {"old-version-accepted", "FENCE-1",
        "a replica takes messages of versions below its own; an old primary's, delayed, displace "
        "the present one",
        "INV-3"},

    /* Appending. */
    {"offset-given-twice", "APP-2",
        "batches that one reply acknowledges are all told the offset of the first", "INV-4"},
    {"half-close-ignored", "APP-3",
        "a stream that its client has half-closed stays open; a member waits for a primary that "
        "says nothing more",
        "story"},
    {"acknowledged-before-every-member", "APP-3",
        "members that are away do not count; a batch is acknowledged that they lack", "INV-4"},
    {"progress-is-no-life", "APP-3",
        "who waits for a large message, or for the answer to one, does not count what has come of "
        "it; on a slow link it is never stored",
        "INV-8"},
    {"progress-for-ever", "APP-3",
        "a message that has begun to arrive is waited for as long as anything comes of it; on a "
        "link that hardly carries anything it is never sent anew",
        "INV-8"},
    {"acknowledged-before-sync", "APP-3",
        "in a synced file a batch counts as durable once it is written; power fails", "INV-4"},
    {"sync-covers-later-writes", "APP-3",
        "a completed sync vouches for everything written by then, also for what was written while "
        "it ran; power fails",
        "INV-4"},
    {"acknowledged-from-memory", "APP-3",
        "in a buffered file a batch counts as durable before it is written; the process is killed",
        "INV-4"},
    {"part-waits-unnoticed", "REC-3",
        "what is due to a member waits behind another chunk's message on their stream, and nobody "
        "misses an answer; a chunk waits for as long as a large batch of another one does",
        "story"},
    {"busy-member-blamed", "REC-3",
        "a chunk's part waits its turn on a busy stream, and its member is taken for silent; under "
        "load members are left out one after another",
        "story"},
    {"no-room-taken-for-difference", "REC-3",
        "a server that has no room for one more incomplete batch is taken for one whose log "
        "differs; it leaves the set",
        "story"},
    {"slow-member-kept", "REC-3",
        "whatever arrives in pieces is a member's progress, however slowly; one slow link holds up "
        "all writers of a file",
        "INV-8"},
    {"half-batch-committed", "APP-3",
        "a log is written in pieces that end within a batch, and so do the lengths that members "
        "report and the primary commits; readers and seals find half a batch",
        "INV-5"},
    {"writer-table-not-rebuilt", "APP-5",
        "after a restart the log's writers are unknown; a repeat is stored a second time", "INV-4"},
    {"repeat-answered-before-commit", "APP-5",
        "a repeat of an ordered batch is acknowledged at once; the primary dies before a member "
        "has it",
        "INV-4"},
    {"gap-taken", "APP-5",
        "a writer's first batch on a stream may begin behind the sequence number that it opened "
        "with; what it left out is lost",
        "INV-6"},
    {"chunk-full-is-a-verdict", "APP-5a",
        "CHUNK_FULL is believed to say that nothing was stored; of a batch sent before on a "
        "connection that broke there are two copies",
        "INV-6"},
    {"next-chunk-without-asking", "APP-5a",
        "what is unacknowledged goes to the next chunk without asking the sealed one; there are "
        "two copies",
        "INV-6"},
    {"settled-by-unsealed-replica", "APP-5a",
        "a replica that has not recorded the seal says what it knows of a writer; it may not have "
        "the last word",
        "INV-4"},

    /* Reading. */
    {"uncommitted-bytes-read", "APP-6",
        "readers get what is written, committed or not; it vanishes with its primary", "INV-4"},
    {"end-taken-from-secondary", "APP-6",
        "a reader takes any member's word for the end; a secondary lags behind", "INV-6"},
    {"late-read-asked-of-one", "APP-6",
        "a READ that is late is waited for; one slow member holds up its readers", "story"},

    /* Recovery. */
    {"answer-to-another-lane", "APP-4",
        "what a primary answers to one lane of a stream goes to another one", "INV-4"},
    {"rest-goes-to-another-lane", "APP-4",
        "the first bytes of a batch that came in part are put in front of what comes next, on "
        "whatever lane",
        "INV-8"},
    {"answers-lost-with-a-lane", "APP-4",
        "when a lane ends, answers that wait to be sent are dropped, also those to others",
        "INV-8"},
    {"answer-to-another-chunk", "APP-3",
        "what a member answers for one chunk of a stream is counted for another one", "INV-8"},
    {"shortest-log-wins", "REC-2",
        "the new primary goes on with its own log and the others are cut to it; it had lost its "
        "tail in a power loss",
        "INV-4"},
    {"open-before-all-are-equal", "REC-2",
        "the primary opens when its own log is confirmed; readers and repeats get bytes that a "
        "member lacks",
        "INV-5"},
    {"fetched-bytes-not-passed-on", "REC-2",
        "what the primary fetched is not sent to a third member that lacks it; recovery never ends",
        "INV-8"},
    {"equality-header-before-log", "REC-2",
        "the header that vouches for a length is written before the log is synced; a power loss in "
        "between, and the replica calls itself lost",
        "INV-4"},
    {"doubt-ignored", "REC-2a",
        "a machine that went down calls its buffered log whole; acknowledged bytes are gone and "
        "nobody says so",
        "INV-4"},
    {"doubt-cleared-by-adopting", "REC-2a",
        "the boot id is kept when a version is adopted, not when equality is confirmed; a short "
        "log is verified",
        "INV-4"},
    {"loss-not-reported", "REC-2a", "all machines lost power and the longest log wins in silence",
        "INV-4"},

    /* Rolling over. */
    {"roll-on-hint", "FAIL-2a",
        "a client's word that a primary is lost is believed without an inquiry; one bad link ends "
        "a lease that works for everybody else",
        "INV-9"},
    {"roll-fence-before-durable", "FAIL-2a",
        "members are fenced while the intent is being written down; the master crashes, continues "
        "the lease, and the chunk stands still between two versions",
        "INV-3"},
    {"fenced-without-replica", "FENCE-1",
        "a server whose replica is lost answers a fence with an empty log, and the seal is at its "
        "end",
        "INV-4"},
    {"extended-after-intent", "FAIL-2a",
        "the old primary's heartbeats prolong its lease while the chunk is being sealed; it acts "
        "until it is fenced",
        "INV-2"},
    {"continued-after-intent", "FAIL-2a",
        "a primary that registers again goes on with its lease while its chunk is being sealed",
        "INV-2"},
    {"roll-without-fence", "FAIL-2a",
        "a member answers a fence with its length and does not adopt the version; the old primary "
        "commits more behind the seal",
        "INV-4"},
    {"roll-takes-the-longest", "FAIL-2a",
        "the longest log that a member answers becomes the seal's; others lack what it names",
        "INV-4"},
    {"sealed-length-from-doubtful-member", "REC-2a",
        "a machine that lost its page cache gives the sealed length; acknowledged bytes lie behind "
        "it",
        "INV-4"},

    /* Keeping replicas. */
    {"joining-counts-as-full", "REC-4",
        "who joins is a full member at once; the others die before it has what they acknowledged",
        "INV-4"},
    {"copy-not-verified", "REC-5",
        "a copy's checksum is not compared with the seal's; what was there before is of another "
        "log",
        "INV-4"},
    {"longer-log-needs-a-source", "REC-5",
        "a log that goes on behind the seal is refreshed from a source only; when all of those are "
        "lost nobody reads what lies whole on a disk",
        "INV-8"},
    {"repair-source-stale", "REC-4",
        "a member that has not recorded the seal is a source of copies, and has not all of it",
        "KEEP-1"},
    {"member-dropped-before-copy", "KEEP-2",
        "a member that is of no use leaves before there is another one", "KEEP-2"},
    {"garbage-deletes-newest", "KEEP-3",
        "a replica that was to go is removed though its server has become a member again",
        "KEEP-3"},
    {"garbage-ignores-health", "KEEP-3",
        "a replica that no record names is removed while members are away or lost; it was the last "
        "one",
        "KEEP-3"},
    {"seal-taken-on-from-some", "KEEP-4",
        "behind an older copy of the metadata a seal is taken on that some members have shown; one "
        "that is away has what was acknowledged since in another history",
        "KEEP-4"},
    {"garbage-goes-on-after-restore", "KEEP-4",
        "behind an older copy of the metadata replicas are removed as ever; they are of chunks "
        "that it does not know yet",
        "KEEP-4"},

    {"cut-log-gives-a-length", "FAIL-3",
        "a log whose end has rotted is cut as if it were torn, and gives a roll its length; what "
        "was acknowledged lies behind",
        "INV-4"},
    {"loss-before-all-answered", "FAIL-3",
        "a loss is told and the chunk sealed while members that have not answered may have "
        "everything",
        "INV-4"},
    {"lone-cut-log-counts", "FAIL-3",
        "the word of a single log that was truncated at a start suffices, while members that are "
        "away "
        "have what was acknowledged",
        "INV-4"},
    {"copy-stalls-between-heartbeats", "KEEP-1",
        "a copy is given up because no heartbeat has come yet that tells how far it is", "KEEP-1"},
    {"join-waits-for-the-next-grant", "KEEP-1",
        "a copy that outlasts an idle lease finds no primary to join and is given up", "KEEP-1"},
    {"member-dropped-in-recovery", "REC-2a",
        "a member that was drained leaves the set while the primary waits for it, who may be the "
        "only one to have every acknowledged record",
        "INV-4"},
    {"recall-for-one-word", "INV-9",
        "a client's first word that it cannot reach a primary has the lease recalled, and the next "
        "one again",
        "INV-9"},
    {"settle-told-too-early", "FAIL-2a",
        "a chunk is sealed by what one member alone has shown, and clients settle there before "
        "that is on another disk",
        "INV-4"},
    {"lone-log-not-copied", "KEEP-1",
        "a chunk that one member alone has whole waits for the others' grace period, and its "
        "writers with it",
        "expect"},

    /* Failures and disks. */
    {"chain-unchecked-by-scan", "FAIL-4",
        "a server that starts does not check that batches stand where they belong; a write had "
        "gone astray, and its log is called equal",
        "INV-5"},
    {"chain-unchecked-by-read", "FAIL-4",
        "a server does not check that what it gives a reader stands where it belongs; a write had "
        "gone astray",
        "INV-4"},
    {"chain-unchecked-by-copy", "REC-5",
        "a copy goes on behind bytes that came to nothing, and takes the checksum at the end from "
        "its source",
        "INV-5"},
    {"torn-tail-taken-for-rot", "FAIL-3",
        "after a power loss a torn batch with whole ones behind it counts as rot; all replicas are "
        "given up at once",
        "INV-4"},
    {"scrub-reads-but-does-not-check", "FAIL-4",
        "the scrub reads what lies on the disk and looks at no checksum; rot stays", "KEEP-1"},
    {"cut-not-synced", "FAIL-3",
        "the file is cut at a torn tail and not synced; a power loss brings back what lay behind",
        "INV-4"},
    {"torn-tail-kept", "FAIL-3",
        "the scan trusts a batch's header and keeps a torn one; it is confirmed as equal", "INV-5"},
    {"torn-tail-skipped", "FAIL-3",
        "the log goes on before the tear and the file is not cut; an old batch behind it comes "
        "back to life",
        "INV-5"},
    {"whole-chunk-reserved", "FAIL-6",
        "a log reserves its whole chunk with its first record and keeps it; small files take the "
        "disk",
        "story"},
    {"shortage-condemns-replica", "FAIL-6",
        "an operation for which the machine had no descriptor loses its replica; one short of them "
        "for a minute loses all that it is asked for",
        "KEEP-1"},
    {"shortage-of-sync-forgotten", "FAIL-6",
        "a sync that could not be begun is taken for done; power fails, and acknowledged records "
        "are gone",
        "INV-4"},
    {"shortage-taken-for-commit", "FAIL-6",
        "a commit of metadata for which there is no room is taken for done; callers are answered, "
        "and the master's next process knows nothing of it",
        "history"},
    {"pause-blamed-on-others", "REC-3",
        "a primary that was paused takes the clock's word for how long its members were silent, "
        "and has sound ones left out",
        "story"},
    {"fsync-retried", "FAIL-5",
        "a failed sync is tried again, and succeeds without having written anything", "INV-4"},
    {"lost-replica-comes-back", "FAIL-4",
        "a restart clears the mark of a replica in which rot was found", "INV-4"},

    /* Seals. */
    {"seal-reported-before-drained", "SEAL-1",
        "the primary reports the end while batches are under way; members are sealed above what "
        "they have",
        "INV-4"},
    {"seal-recorded-before-durable", "SEAL-1",
        "the primary records its seal when it reports it; the report is lost and the chunk grows "
        "beyond",
        "INV-4"},
    {"seal-header-before-log", "SEAL-1",
        "the header that says sealed is written before the log is synced; power fails in between",
        "INV-4"},

    /* Several masters. */
    {"no-fence", "HA-1",
        "transactions do not compare the head; a master that wakes up writes over its successor's",
        "INV-3"},
    {"acts-unconfirmed", "HA-2",
        "inputs are taken while nobody knows whether the reign goes on; two masters answer",
        "INV-11"},
    {"reads-not-asked-about", "HA-2a",
        "a master that does not know whether its reign goes on answers reads, and asks nobody",
        "history"},
    {"confirmed-from-the-answer", "HA-2",
        "a confirmation counts from an answer that was late, and a successor has begun", "INV-11"},
    {"confirmed-from-the-last-copy", "HA-2",
        "a confirmation counts from the last copy of a transaction; an earlier one was applied",
        "INV-11"},
    {"candidate-too-early", "HA-3",
        "a standby does not wait for the whole term of the reign that it sees", "INV-11"},
    {"candidate-forgets-news", "HA-3",
        "a standby counts from the first head that it saw, not from the newest", "INV-11"},
    {"claims-with-an-old-copy", "HA-3",
        "a candidate that lost compares the winner's head next, without what came with it",
        "INV-3"},
    {"etcd-s-silence-counts", "HA-3",
        "a candidate asks etcd only when its time is over; an election of etcd's costs the reign",
        "story"},
    {"reign-number-used-again", "HA-3",
        "a reign begins with the number of the one before; nobody can tell them apart", "INV-3"},
    {"resigned-for-the-living", "HA-3a",
        "a process has died, and the reign is resigned whoever's it is; two masters act", "INV-11"},
    {"every-death-is-resigned-for", "HA-3a",
        "masters that die of the same call follow each other as fast as they can", "story"},
    {"takeover-waits-less", "HA-4",
        "a new master waits for half of the longest session of the former ones", "INV-2"},
    {"unknown-taken-for-failed", "HA-5",
        "a transaction without an answer is built anew; the first copy is applied in its place",
        "INV-2"},
    {"unknown-taken-for-done", "HA-5",
        "a transaction without an answer is taken for applied; callers are answered", "history"},
    {"lost-copies-waited-for", "HA-5",
        "each member of etcd is sent a transaction once; those that an election loses are waited "
        "for until the reign is over",
        "story"},
    {"head-taken-for-its-own", "HA-5",
        "the loser of two candidates looks at reign and number alone, which are the winner's",
        "INV-11"},
    {"completed-when-sent", "HA-5",
        "callers are answered when a transaction is sent; it is fenced, or its master dies",
        "history"},
    {"commit-cut-in-two", "HA-6",
        "a commit is divided where a transaction is full; its master dies between the halves",
        "INV-4"},
    {"pieces-named-first", "HA-6",
        "a commit counts before its pieces are there; its master dies in between", "INV-2"},
    {"next-commit-before-pieces-are-placed", "HA-6",
        "another commit is written before the pieces are in place, which bring old values back",
        "INV-3"},
    {"taken-call-refused", "HA-7",
        "a call that was taken is refused when the reign is lost; it has been carried out",
        "history"},
    {"gap-not-noticed", "HA-8",
        "heads' numbers are not looked at; etcd loses an event, and its standby takes over",
        "history"},
    {"end-of-reign-not-noticed", "HA-8",
        "a copy without the last writes of a reign takes the next reign's first for what follows",
        "history"},
    {"pages-of-different-revisions", "HA-8",
        "each page of a copy is read as of now; what moved is there twice, or not at all", "check"},
    {"acts-while-resigning", "HA-9",
        "a master that resigns goes on until that is answered; its successor has begun", "INV-11"},
    {"named-to-whom-it-does-not-hear", "HA-9a",
        "a chunkserver names itself to each master that it asks; one whose answers are lost takes "
        "over, and is as useless",
        "story"},
    {"resigned-to-whoever-hears-one", "HA-9a",
        "the active master resigns to a standby that hears a server that it misses, however many "
        "it reaches itself",
        "story"},
    {"resigned-at-once", "HA-9a",
        "a reign need not have lasted; masters of which each is cut off for a moment follow each "
        "other",
        "story"},
    {"call-applied-twice", "HA-12",
        "ids of calls are not looked at; what is repeated is carried out again", "history"},
    {"forgotten-call-carried-out", "HA-12",
        "a repeat whose answer went before its time is carried out again", "history"},
    {"call-result-not-stored", "HA-12",
        "answers are remembered and not written down; the next master does it again", "history"},
    {"call-answered-before-durable", "HA-12",
        "a repeat is answered while the first message's commit is under way", "history"},
    {"cluster-begins-by-itself", "HA-13",
        "a master whose prefix has no head begins a cluster there; the prefix was misspelt",
        "HA-13"},
    {0},
};
