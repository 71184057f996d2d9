/* Every error that this project returns, answers or prints, in one table.
 *
 * A function returns 0 or one of the negative LH_ERR_* values. The wire carries the same numbers
 * positive (proto/leasehold.proto, enum ErrorCode; proto/codec.c asserts that the two agree).
 * `advice` says what a caller should do about it:
 *   GIVE_UP      repeating the call unchanged cannot help
 *   RETRY        the same call may succeed later; for an append: its outcome is unknown (APP-5a)
 *   ASK_MASTER   the caller's picture of the cluster is old: ask the master, then retry there */
#pragma once

#include <stddef.h>

enum lh_advice { LH_GIVE_UP, LH_RETRY, LH_ASK_MASTER };

/*    name, number, gRPC status, advice, text */
#define LH_ERRORS(X)                                                                               \
    X(INVALID_ARGUMENT, 1, 3, GIVE_UP, "invalid argument")                                         \
    X(NOT_FOUND, 2, 5, GIVE_UP, "not found")                                                       \
    X(ALREADY_EXISTS, 3, 6, GIVE_UP, "already exists")                                             \
    X(UNAVAILABLE, 4, 14, RETRY, "not reachable now")                                              \
    X(DEADLINE_EXCEEDED, 5, 4, RETRY, "deadline exceeded")                                         \
    X(STALE_VERSION, 6, 9, ASK_MASTER, "the chunk has a newer version")                            \
    X(NOT_PRIMARY, 7, 9, ASK_MASTER, "this server is not the chunk's primary")                     \
    X(NO_REPLICA, 8, 5, ASK_MASTER, "this server holds no replica of the chunk")                   \
    X(CHUNK_FULL, 9, 9, ASK_MASTER, "the chunk takes no more appends")                             \
    X(OUT_OF_SEQUENCE, 10, 9, GIVE_UP, "the batch does not continue its writer's sequence")        \
    X(TOO_LARGE, 11, 3, GIVE_UP, "larger than the limit")                                          \
    X(DISK_FULL, 12, 8, RETRY, "no space left on the disk")                                        \
    X(IO, 13, 13, RETRY, "input/output error")                                                     \
    X(CORRUPT, 14, 15, GIVE_UP, "data does not match its checksum")                                \
    X(UNKNOWN_SESSION, 15, 9, RETRY, "the session has ended")                                      \
    X(STALE_MASTER, 16, 9, RETRY, "a newer master has taken over")                                 \
    X(STALE_REGISTRATION, 17, 9, RETRY, "a newer registration of this server exists")              \
    X(NOT_ENOUGH_SERVERS, 18, 14, RETRY, "too few chunkservers for the requested replication")     \
    X(CANCELLED, 19, 1, RETRY, "cancelled")                                                        \
    X(SHUTTING_DOWN, 20, 14, RETRY, "shutting down")                                               \
    X(MALFORMED, 21, 3, GIVE_UP, "malformed message or record")                                    \
    X(IN_USE, 22, 9, GIVE_UP, "in use by another process")                                         \
    X(WRONG_FORMAT, 23, 9, GIVE_UP, "written by another version of the format")                    \
    X(WRONG_IDENTITY, 24, 9, GIVE_UP, "belongs to another server or cluster")                      \
    X(ADDRESS_IN_USE, 25, 6, GIVE_UP, "the address is in use")                                     \
    X(NO_MEMORY, 26, 8, RETRY, "out of memory or over a configured limit")                         \
    X(UNIMPLEMENTED, 27, 12, GIVE_UP, "not implemented by this server")                            \
    X(LEASE_HELD, 28, 9, RETRY, "the lease is held by another holder")                             \
    X(RECOVERING, 29, 14, RETRY, "the chunk is being recovered")                                   \
    X(WOULD_BLOCK, 30, 8, RETRY, "the buffer is full")                                             \
    X(CLOSED, 31, 9, GIVE_UP, "already closed")                                                    \
    X(NOT_LEASED, 32, 9, RETRY, "nobody holds the lease now")                                      \
    X(PERMISSION, 33, 7, GIVE_UP, "permission denied")                                             \
    X(SYSTEM, 34, 13, GIVE_UP, "the operating system refused")                                     \
    X(SHORTAGE, 35, 8, RETRY, "short of descriptors or memory for the moment")                     \
    X(NOT_ACTIVE, 36, 14, RETRY, "another master is the active one")                               \
    X(STALE_TOKEN, 37, 9, GIVE_UP, "the lock with this token is held no more")                     \
    X(STALE_CAPABILITY, 38, 9, ASK_MASTER, "no capability for the chunk, or none that holds")      \
    X(UNSYNCED, 39, 14, RETRY, "what was written to the file may not be on the disk")

enum lh_error {
    LH_OK = 0,
#define X(name, number, grpc, advice, text) LH_ERR_##name = -(number),
    LH_ERRORS(X)
#undef X
};

/* How many numbers there are, that of LH_OK among them: the size of an array with a place for each
 * error. The table leaves no gaps. */
#define X(name, number, grpc, advice, text) +1
enum { LH_ERROR_NUMBERS = 1 LH_ERRORS(X) };
#undef X

/* The name ("STALE_VERSION"), or "OK", or "UNKNOWN" for a number not in the table. Static. */
const char *lh_error_name(int error);

/* One phrase for a person, without a capital or a full stop. Static. */
const char *lh_error_text(int error);

/* The gRPC status code (0 to 16) for `error`; 2 (UNKNOWN) for a number not in the table. */
int lh_error_grpc(int error);

enum lh_advice lh_error_advice(int error);

/* The lh_error of a number from the wire (0 or positive); an unknown one becomes LH_ERR_SYSTEM. */
int lh_error_from_wire(unsigned code);

/* The lh_error that says best what `system_errno` says. */
int lh_error_from_errno(int system_errno);

/* Puts the sentence in `why`, cut to `why_size` bytes with its end, and returns `error`. */
int lh_why(int error, char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define LH_MUST_USE __attribute__((warn_unused_result))
