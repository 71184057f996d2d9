"""Leasehold: files of records that only grow, kept on several servers; locks with fencing tokens,
cached values, and watching.

    import leasehold

    with leasehold.connect("127.0.0.1:7400") as cluster:
        cluster.create("/logs/web")
        with cluster.appender("/logs/web") as log:
            log.append(b"hello")
        for record in cluster.read("/logs/web"):
            print(record.position, record.data)

Times are in seconds, sizes in bytes. A timeout of None waits for ever. Every error is an Error.
leasehold.aio is the same for asyncio. A child of os.fork() opens its own.
"""

from leasehold._native import Bytes, Seconds
from leasehold.cluster import Cluster, SessionInfo, connect
from leasehold.errors import (
    AccessError, AlreadyExistsError, CancelledError, ClosedError, CorruptError, DeadlineError,
    Error, InvalidArgumentError, LeaseHeldError, NotFoundError, NotLeasedError, StaleTokenError,
    TooLargeError, UnavailableError, WouldBlockError)
from leasehold.files import Appender, ChunkInfo, FileInfo, Gap, Member, Position, Reader, Record
from leasehold.sessions import Guard, Lock, Session
from leasehold.values import Event, Holder, NameInfo, Value, Watch

__all__ = [
    "AccessError", "AlreadyExistsError", "Appender", "Bytes", "CancelledError", "ChunkInfo",
    "ClosedError", "Cluster", "CorruptError", "DeadlineError", "Error", "Event", "FileInfo", "Gap",
    "Guard", "Holder", "InvalidArgumentError", "LeaseHeldError", "Lock", "Member", "NameInfo",
    "NotFoundError", "NotLeasedError", "Position", "Reader", "Record", "Seconds", "Session",
    "SessionInfo", "StaleTokenError", "TooLargeError", "UnavailableError", "Value", "Watch",
    "WouldBlockError", "connect",
]
