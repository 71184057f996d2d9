/* How long, how many, how often: what bounds the master's work, each with its default. All are
 * fields of struct lh_master_config under the names given here, so that tests and the simulator can
 * make them absurdly small; 0 means the default. None of them decides what is right, only when, and
 * how much at once. */
#pragma once

/* X(name, default in milliseconds, what it is for) */
#define LH_MASTER_TIMES(X)                                                                         \
    /* Rolling over (FAIL-2a). */                                                                  \
    X(inquiry_pause, 50, "a server is asked at most this often whether it lives")                  \
    X(fence_pause, 200, "a fence is sent again after this")                                        \
    X(short_for, 3000, "for so long a primary's word counts that too few of its members answer")   \
    X(roll_patience, 250, "once enough is known: how long others that look alive are waited for")  \
    X(fence_wait, 10000, "who looks alive and does not answer a fence is awaited for so long")     \
    X(suspect_hold, 500, "a caller that lost the primary of a file that waits is held back")       \
    X(find_timeout, 1000, "a master that has just started gives a primary so long to find it")     \
    /* Leases asked back from a primary that lives (INV-9). */                                     \
    X(consent_after, 3000, "it was said twice at least, for so long, that it cannot be reached")   \
    X(consent_rest, 60000, "then not again for this file; twice as long after each further time")  \
    X(consent_rest_max, 3600000, "and not longer")                                                 \
    X(consent_pause, 200, "between two of them, whatever the files")                               \
    /* Grants that are refused. */                                                                 \
    X(refusal_rest, 200, "once each member has refused a grant; then twice as long each time")     \
    X(refusal_rest_max, 10000, "and not longer; who gives a lease back within this refuses it")    \
    /* Copies and repair (KEEP-1, REC-4). */                                                       \
    X(copy_stall, 30000, "a copy without progress for this long is ended")                         \
    X(copy_retry, 1000, "after a copy that failed; twice as long after each further one")          \
    X(copy_retry_max, 64000, "and not longer")                                                     \
    X(meter, 10000, "over which the speed of copies is measured")                                  \
    X(repair_grant, 60000, "a lease granted for repair's sake counts as such; then twice as long") \
    X(repair_pause, 2000, "no such grant earlier than this after the last lease")                  \
    X(repair_round, 5000, "the next round over what is wanting, if nothing happens before")        \
    X(sweep, 60000, "a walk over all chunks, if nothing happens before; and more for each chunk")  \
    /* Servers at the addresses that they gave (SES-8). */                                         \
    X(reach_wait, 2000, "a server that is called at its address has so long to say who it is")     \
    X(reach_retry, 1000, "after a call in vain; then twice as long each time")                     \
    X(reach_retry_max, 8000, "and not longer")                                                     \
    /* Servers that are refused. */                                                                \
    X(refused_keep, 600000, "a refusal of a chunkserver is shown for so long")                     \
    /* Deleting (KEEP-3, KEEP-5). */                                                               \
    X(turn_time, 10000, "a server that shows no piece for so long lets others show theirs")        \
    X(garbage_first, 1000, "from the first replica of no use to a look at it")                     \
    X(garbage_again, 10000, "between two looks")                                                   \
    X(trash_tick, 60000, "the time that a file has left is written down at most this often")       \
    /* Drains and an even load (KEEP-2). */                                                        \
    X(census, 10000, "between two counts of what is where; and more for each chunk")               \
    X(census_draining, 1000, "likewise, while a server is drained")                                \
    X(move_timeout, 600000, "a move that has not happened by then is given up")                    \
    X(move_settle, 10000, "within this after a move servers have told how much room they have")    \
    /* Calls that happen once (HA-12). */                                                          \
    X(call_keep, 600000, "a call's answer is kept for so long; clients repeat for half of it")     \
    X(call_rest, 10, "between two commits that drop old ones, if nothing else is committed")       \
    /* Leases for programs (PS, NL). */                                                            \
    X(program_term, 10000, "of a session that names none")                                         \
    X(program_term_min, 1000, "a shorter one is lengthened to this")                               \
    X(program_term_max, 60000, "a longer one is shortened to this")                                \
    X(showing_max, 60000, "a new master waits so long for who shows what it has, and is heard")    \
    X(cold_look, 20, "between two looks whether tokens may be given after a start (NL-2a)")        \
    X(recall_pause, 1000, "a holder is asked for its lock at most this often")                     \
    X(refusal_log_pause, 1000, "between two lines about somebody who may not do what he asked")    \
    X(capability_term, 600000, "for so long a capability holds (ACC-5)")                           \
    X(capability_key_period, 3600000, "a new key for capabilities is made so often (ACC-6)")       \
    X(cancel_wait_max, 60000, "who cancels a lock waits so long at most; clients repeat")          \
    /* Values (VAL). */                                                                            \
    X(change_wait, 65000, "a change waits so long for caches, if its caller does not say")         \
    X(change_wait_max, 3600000, "and at most")

/* X(name, default, what it is for) */
#define LH_MASTER_COUNTS(X)                                                                        \
    X(step_work, 1024, "chunks, leases or reports that one step looks at; the rest follows")       \
    X(walk_share, 64, "chunks that a step walks over, of all (a sweep, a census)")                 \
    X(sweep_chunk_ns, 50000, "ns for each chunk from one sweep to the next: a look takes 1 us")    \
    X(census_chunk_ns, 10000, "ns for each chunk from one census to the next, of 0.3 us each")     \
    X(copies_max, 64, "copies under way, in the whole cluster")                                    \
    X(repair_grants_max, 8, "leases granted for repair's sake, at a time")                         \
    X(repair_work, 65536, "chunks that a step tries to repair, times servers")                     \
    X(reach_calls, 64, "servers that are called at their addresses at a time (SES-8)")             \
    X(turn_servers, 16, "servers that show their replicas at a time (SES-1a)")                     \
    X(refused_max, 64, "chunkservers of which refusals are kept to be shown")                      \
    X(place_likely_bytes, 65536, "a new chunk takes so much until its servers say what it did")    \
    X(drain_recalls, 4, "leases that a draining server is asked for at a time")                    \
    X(moves_max, 8, "replicas moved for an even load or failure domains, at a time; at most 8")    \
    X(space_moves, 2, "of these, for the sake of space")                                           \
    X(space_band, 100, "per mille of the capacity between the fullest and the emptiest server")    \
    X(moving_tries, 64, "chunks that a step looks for a better place for")                         \
    X(list_default, 1000, "items of a listing's page if the caller does not say")                  \
    X(list_max, 10000, "and at most")                                                              \
    X(list_bytes, 983040, "bytes of a listing's page, but of one item; below a message's most")    \
    X(locate_default, 64, "chunks of a Locate if the caller does not say")                         \
    X(locate_max, 1024, "and at most")                                                             \
    X(calls_max, 100000, "answers of calls that are kept; beyond it the oldest goes")              \
    X(calls_dropped, 64, "of these, so many go in a step")                                         \
    X(programs_max, 100000, "sessions of programs")                                                \
    X(program_locks_max, 100000, "locks and requests of one session, and its cached values")       \
    X(showing_mib_max, 64, "megabytes that a session may show when it attaches")                   \
    X(program_sends, 32, "messages to a program that have not left; then it is not read")          \
    X(program_send_bytes, 1048576, "likewise, bytes")                                              \
    X(programs_send_bytes, 134217728, "likewise, to all; then streams end that have their share")  \
    X(locks_max, 10000000, "locks and cached values, all together")                                \
    X(waits_max, 1000000, "requests for locks that wait, all together")                            \
    X(sharers_max, 65536, "holders of one shared lock")                                            \
    X(cancels_max, 4096, "calls that wait for a cancelled lock's end")                             \
    X(events_max, 32768, "events of chunks' leases that are kept to be looked at")                 \
    X(events_locks_max, 16384, "likewise, of locks")                                               \
    X(events_values_max, 16384, "likewise, of values")                                             \
    X(events_listed, 1000, "of these, at most so many in one answer")                              \
    X(events_session, 16, "a session's requests for locks in a second of which events are kept")   \
    X(formers_max, 1024, "sessions that are over whose titles are kept for that")                  \
    X(names_shown, 16, "holders and waiters of a name in a listing of many")                       \
    X(values_max, 1000000, "values")                                                               \
    X(history_events, 100000, "changes of values that are kept for watchers")                      \
    X(history_bytes, 268435456, "likewise, bytes")                                                 \
    X(history_dropped, 64, "of these, so many go with a change")                                   \
    X(policies_max, 1000, "policies of prefixes")                                                  \
    X(values_bytes_max, 1073741824, "bytes of all values")                                         \
    X(attached_max, 100000, "values that are attached to one session")                             \
    X(changes_max, 64, "changes of one value that wait")                                           \
    X(changes_waiting_max, 65536, "likewise, of all values")                                       \
    X(changes_bytes_max, 268435456, "likewise, their bytes")                                       \
    X(changes_step, 16, "changes that one step commits")                                           \
    X(changes_step_bytes, 524288, "likewise, bytes; one more may begin below it")                  \
    X(drops_step, 128, "caches of one value that are told, or reads answered, before others")      \
    X(late_drops_max, 65536, "values shown while they change, of which it is to be said so yet")   \
    X(follows_max, 16, "changes that delete attached values, at a time")                           \
    X(reads_waiting_max, 65536, "reads that wait for a commit")                                    \
    X(broadcasts_max, 64, "prefixes that one session subscribes to")                               \
    X(watchers_max, 10000, "streams of watchers")                                                  \
    X(watch_events, 1000, "changes in one message to a watcher")                                   \
    X(watch_bytes, 262144, "likewise, bytes; one more may begin below it")                         \
    X(lock_events, 16384, "events of locks that are kept for watchers")                            \
    X(lock_events_bytes, 16777216, "likewise, bytes; the last one may go beyond it")               \
    X(change_promise_percent, 25, "of a change's wait: so long is a read then good for (VAL-2)")   \
    X(call_marks_max, 1000000, "clients some of whose calls' answers went early (HA-12)")          \
    X(reigns_max, 65536, "reigns whose names the store keeps (SES-9)")
