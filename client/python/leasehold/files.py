"""Files, and the programs' way to append to them and to read them."""

import collections
import threading
from concurrent.futures import Future
from typing import (Any, Callable, Deque, Dict, Iterable, Iterator, NamedTuple, Optional,
                    TYPE_CHECKING, Tuple)

from leasehold import _native, errors
from leasehold._capi import ffi, lib
from leasehold._native import Bytes, Seconds

if TYPE_CHECKING:
    from leasehold.cluster import Cluster
    from leasehold.sessions import Lock

DURABILITIES = {"buffered": lib.LH_BUFFERED, "synced": lib.LH_SYNCED}
ON_PRIMARY_LOSS = {None: lib.LH_LOSS_AS_CONFIGURED, "roll": lib.LH_LOSS_ROLL,
                   "wait": lib.LH_LOSS_WAIT}
MANY = 1024  # records of one call of extend()


class Position(NamedTuple):
    """Where a record is, which never changes. Positions of one file compare as tuples do."""
    offset: int  # bytes from the file's start to the batch that the record came in
    # Of the record in that batch. (A tuple's index() cannot be meant.)
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.offset}:{self.index}"

    @staticmethod
    def parse(text: str) -> "Position":
        """From OFFSET:INDEX, as str() and the command write it."""
        offset, index = text.split(":")
        return Position(int(offset), int(index))


class Record(NamedTuple):
    data: bytes
    position: Position


class FileInfo(NamedTuple):
    file: int  # the file's id, which a rename does not change
    path: str
    durability: str  # "buffered" or "synced"
    replication: int
    min_replicas: int
    chunk_size: int     # bytes
    chunks: int         # so far
    sealed_length: int  # bytes in all chunks but the one that still grows
    created: float      # seconds since 1970 by the master's clock; for showing, not for deciding
    on_primary_loss: Optional[str]  # "roll", "wait", or None: as configured
    trashed: bool
    trash_left: float  # seconds
    lock_name: str     # it takes appends under this lock only; "": under none
    fence: int         # with this token, or a higher one while the lock is held


class Member(NamedTuple):
    server_id: str
    address: str   # "": it has no session with the master now
    joining: bool  # it is being brought up to date


class ChunkInfo(NamedTuple):
    chunk: int
    version: int
    start: int   # its first byte as an offset in the file
    length: int  # bytes; 0 while not sealed
    sealed: bool
    primary: str  # server id of the lease's holder, or ""
    members: Tuple[Member, ...]


def _name_of(table: Any, value: int) -> Any:
    return next((name for name, number in table.items() if number == value), None)


def file_info(c: Any) -> FileInfo:
    return FileInfo(
        c.file, _native.string(c.path), _name_of(DURABILITIES, c.durability), c.replication,
        c.min_replicas, c.chunk_size, c.chunks, c.sealed_length, c.created_unix_ms / 1000,
        _name_of(ON_PRIMARY_LOSS, c.on_primary_loss), bool(c.trashed), c.trash_left_ms / 1000,
        _native.string(c.lock_name), c.fence)


def chunk_info(c: Any) -> ChunkInfo:
    members = tuple(Member(_native.string(m.server_id), _native.string(m.address), bool(m.joining))
                    for m in (c.members[i] for i in range(c.member_count)))
    return ChunkInfo(c.chunk, c.version, c.start, c.length, bool(c.sealed),
                     _native.string(c.primary), members)


# ---- Appending ----

class Appender(_native.Handle):
    """Appends records to a file, in order. Made by Cluster.appender(). Any number of threads may
    use one: their records share batches."""

    def __init__(self, cluster: "Cluster", path: str, batch_bytes: int, memory_bytes: int,
                 give_up: Seconds, lock: Optional["Lock"], timeout: Seconds) -> None:
        super().__init__(f"the appender of {path}")
        options = ffi.new("struct lh_appender_options *")
        options.batch_bytes_max = batch_bytes
        options.memory_bytes_max = memory_bytes
        options.give_up_ms = _native.milliseconds(give_up)
        lock_name = _native.text(lock.name if lock is not None else None)
        options.lock_name, options.token = lock_name, lock.token if lock is not None else 0
        self.path = path
        self._cluster = cluster
        self._pending: Deque["Future[Position]"] = collections.deque()
        self._order = threading.Lock()  # futures stand in the order of their records
        cluster._open(self, lib.lh_appender_open, _native.text(path), options,
                      _native.milliseconds(timeout))
        self._number = _native.registry.add(self)

    @property
    def record_max(self) -> int:
        """The longest record that it takes, in bytes."""
        pointer = self._use()
        try:
            return int(lib.lh_appender_record_max(pointer))
        finally:
            self._leave()

    def append(self, record: Bytes, timeout: Seconds = 10.0) -> Position:
        """Appends one record and returns where it is, once it is stored.

        DeadlineError: it is not acknowledged yet, and the appender goes on trying; flush() says
        what became of it. Appending the record again would store it twice."""
        at = ffi.new("struct lh_position *")
        data = ffi.from_buffer(record)
        self._call(lib.lh_append, data, len(data), _native.milliseconds(timeout), at)
        return Position(at.offset, at.index)

    def append_async(self, record: Bytes, timeout: Seconds = None) -> "Future[Position]":
        """Appends one record; the future has its position, or its error. While the appender's
        memory is used up the call waits at most `timeout` seconds (WouldBlockError: the record was
        not taken). A future cannot be cancelled. Its callbacks are called in the library's thread.
        """
        future: "Future[Position]" = Future()
        future.set_running_or_notify_cancel()
        data = ffi.from_buffer(record)
        pointer = self._use()
        try:
            with self._order:
                self._pending.append(future)
                code = lib.lh_append_async(pointer, data, len(data), lib.lh_py_appended,
                                           self._number, _native.milliseconds(timeout))
                if code < 0:
                    self._pending.pop()
            _native.check(code)
        finally:
            self._leave()
        return future

    def extend(self, records: Iterable[Bytes], timeout: Seconds = None) -> int:
        """Appends many records; returns how many. What becomes of them flush() and close() say.
        While the memory is used up it waits at most `timeout` seconds for each piece."""
        total, piece = 0, []
        for record in records:
            piece.append(record)
            if len(piece) == MANY:
                total += self._extend(piece, timeout)
                piece = []
        return total + (self._extend(piece, timeout) if piece else 0)

    def _extend(self, piece: Any, timeout: Seconds) -> int:
        refs = ffi.new("struct lh_record_ref[]", len(piece))
        buffers = [ffi.from_buffer(record) for record in piece]
        for ref, buffer in zip(refs, buffers):
            ref.data, ref.size = buffer, len(buffer)
        taken = ffi.new("size_t *")
        self._call(lib.lh_append_many, refs, len(piece), ffi.NULL, ffi.NULL,
                   _native.milliseconds(timeout), taken)
        return int(taken[0])

    def _appended(self, error: int, offset: int, index: int, count: int) -> None:
        failure = errors.make(error, _native.string(lib.lh_last_error())) if error < 0 else None
        for i in range(count):
            future = self._pending.popleft()
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(Position(offset, index + i))

    def flush(self, timeout: Seconds = None) -> None:
        """Waits until every record taken before is stored. DeadlineError: not yet. Another error:
        the appender has failed, for good."""
        _native.waited(lambda piece: self._call(lib.lh_flush, piece), timeout, _native.only_late)

    @property
    def stored(self) -> int:
        """Records that are stored so far."""
        stats = ffi.new("struct lh_appender_stats *")
        pointer = self._use()
        try:
            lib.lh_appender_stats(pointer, stats)
        finally:
            self._leave()
        return int(stats.records_stored)

    def close(self, timeout: Seconds = 10.0) -> None:
        """Flushes, closes, and raises what the flush says. Closing again does nothing."""
        pointer = self._take()
        if pointer is None:
            return
        code = lib.lh_appender_close(pointer, _native.milliseconds(timeout))
        _native.registry.remove(self._number)
        self._cluster._forgotten(self)
        _native.check(code)

    def __enter__(self) -> "Appender":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except errors.Error:
            pass  # the error that is under way says more


# ---- Reading ----

class Gap(NamedTuple):
    """Bytes of a file, from `start` to `end`, that no member of their chunk can give."""
    start: int
    end: int
    chunk: int
    members: Dict[str, str]  # what each has answered


OnGap = Callable[[Gap], None]


class Reader(_native.Handle):
    """Reads a file's records, in order: an iterator. Made by Cluster.reader(). It belongs to one
    thread at a time."""

    def __init__(self, cluster: "Cluster", path: str, start: Optional[Position], follow: bool,
                 readahead_bytes: int, on_gap: Optional[OnGap], timeout: Seconds) -> None:
        super().__init__(f"the reader of {path}")
        options = ffi.new("struct lh_reader_options *")
        if start is not None:
            options.start.offset, options.start.index = start
        options.follow = follow
        options.readahead_bytes = readahead_bytes
        options.skip_damaged = on_gap is not None
        self.path, self.follow, self._on_gap = path, follow, on_gap
        self._cluster = cluster
        self._record = ffi.new("struct lh_record *")
        cluster._open(self, lib.lh_reader_open, _native.text(path), options,
                      _native.milliseconds(timeout))

    def next(self, timeout: Seconds = None) -> Optional[Record]:
        """The next record. None: at the end (never when following); a later call looks again.
        DeadlineError, or why it could not go on (UnavailableError, ...): nothing within the
        timeout; call again."""
        record: Optional[Record] = _native.waited(self._next, timeout)
        return record

    def _next(self, timeout_ms: int) -> Optional[Record]:
        while (code := self._call(lib.lh_reader_next, timeout_ms, self._record)) == lib.LH_GAP:
            self._tell_gap()
        if code == lib.LH_END:
            return None
        r = self._record
        return Record(_native.memory(r.data, r.size), Position(r.position.offset, r.position.index))

    def _tell_gap(self) -> None:
        found = ffi.new("struct lh_gap *")
        self._call(lib.lh_reader_gap, found)
        members = {_native.string(found.members[i].server_id):
                   _native.string(lib.lh_error_text(found.members[i].error))
                   for i in range(found.member_count)}
        assert self._on_gap is not None
        self._on_gap(Gap(getattr(found, "from"), found.to, found.chunk, members))

    @property
    def position(self) -> Position:
        """Of the record that next() would return: where to start another time."""
        pointer = self._use()
        try:
            at = lib.lh_reader_position(pointer)
            return Position(at.offset, at.index)
        finally:
            self._leave()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        record = self.next()
        if record is None:
            raise StopIteration
        return record

    def close(self) -> None:
        pointer = self._take()
        if pointer is not None:
            lib.lh_reader_close(pointer)
            self._cluster._forgotten(self)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
