"""A cluster: where everything begins."""

import atexit
import contextlib
import os
import threading
import weakref
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, Set, Tuple, Union

from leasehold import _native, errors
from leasehold._capi import ffi, lib
from leasehold._native import Bytes, Seconds
from leasehold.files import (DURABILITIES, ON_PRIMARY_LOSS, Appender, ChunkInfo, FileInfo, OnGap,
                             Position, Reader, chunk_info, file_info)
from leasehold.sessions import Lock, OnState, Session
from leasehold.values import NameInfo, Value, Watch, change_options, name_info, value_of

PAGE = 1000  # entries of a listing that are asked for at once


class SessionInfo(NamedTuple):
    id: str
    label: str
    host: str
    process: str
    term: float  # seconds, as the others
    left: float
    back: bool    # the master knows what it holds
    linked: bool  # it has a stream
    locks: int
    waiting: int
    values: int  # that it caches
    attached: int


def session_info(c: Any) -> SessionInfo:
    return SessionInfo(
        _native.string(c.id), _native.string(c.label), _native.string(c.host),
        _native.string(c.process), c.term_ms / 1000, c.left_ms / 1000, bool(c.back),
        bool(c.linked), c.locks, c.waiting, c.values, c.attached)


class Cluster(_native.Handle):
    """Made by connect(). Closing it closes all that was opened of it. Any thread may use it."""

    def __init__(self, masters: Union[str, Sequence[str]], try_timeout: float, memory_bytes: int,
                 tls_dir: Optional[str], lookups: int) -> None:
        super().__init__("the cluster")
        options = ffi.new("struct lh_cluster_options *")
        folder = _native.text(tls_dir)
        options.tls_dir = folder
        options.lookups_max = lookups
        options.try_timeout_ms = _native.milliseconds(try_timeout)
        options.memory_bytes_max = memory_bytes
        out = ffi.new("struct lh_cluster **")
        addresses = masters if isinstance(masters, str) else ",".join(masters)
        _native.check(lib.lh_cluster_open(_native.text(addresses), options, out))
        self._children: Set[Any] = set()
        self._opening = threading.Lock()
        self._pointer = out[0]
        _clusters.add(self)

    def _open(self, child: Any, function: Any, *args: Any) -> Any:
        """function(cluster, ..., out): what it opens belongs to the child. The cluster is not
        closed meanwhile, and closes the child when it is."""
        kind = ffi.typeof(function).args[-1].item
        out = ffi.new(ffi.getctype(kind, "*"))
        pointer = self._use()
        try:
            _native.check(function(pointer, *args, out))
            child._pointer = out[0]
            with self._opening:
                self._children.add(child)
        finally:
            self._leave()

    def _forgotten(self, child: Any) -> None:
        with self._opening:
            self._children.discard(child)

    # ---- Files ----

    def create(self, path: str, *, durability: str = "buffered", replication: int = 0,
               min_replicas: int = 0, chunk_size: int = 0, on_primary_loss: Optional[str] = None,
               exist_ok: bool = False, timeout: Seconds = 10.0) -> FileInfo:
        """Creates an empty file. AlreadyExistsError: the path is taken; with `exist_ok` the file
        that is there is described instead. What is 0 or None is the master's default."""
        if durability not in DURABILITIES or on_primary_loss not in ON_PRIMARY_LOSS:
            raise ValueError(f"durability {durability!r}, on_primary_loss {on_primary_loss!r}")
        options = ffi.new("struct lh_file_options *")
        options.durability = DURABILITIES[durability]
        options.replication, options.min_replicas = replication, min_replicas
        options.chunk_size = chunk_size
        options.on_primary_loss = ON_PRIMARY_LOSS[on_primary_loss]
        try:
            return self._info(lib.lh_create, _native.text(path), options,
                              _native.milliseconds(timeout))
        except errors.AlreadyExistsError:
            if not exist_ok:
                raise
            return self.stat(path, timeout)

    def stat(self, path: str, timeout: Seconds = 10.0) -> FileInfo:
        """Describes a file."""
        return self._info(lib.lh_stat, _native.text(path), _native.milliseconds(timeout))

    def _info(self, function: Any, *args: Any) -> FileInfo:
        info = ffi.new("struct lh_file_info *")
        self._call(function, *args, info)
        try:
            return file_info(info)
        finally:
            lib.lh_file_info_deinit(info)

    def _page(self, kind: str, entries: str, convert: Callable[[Any], Any], function: Any,
              *args: Any) -> Tuple[Any, bool]:
        """A list of C's as a list, and whether more follow."""
        found = ffi.new(f"struct {kind} *")
        self._call(function, *args, found)
        try:
            return [convert(getattr(found, entries)[i]) for i in range(found.count)], found.more
        finally:
            getattr(lib, kind + "_deinit")(found)

    def _pages(self, kind: str, entries: str, convert: Callable[[Any], Any],
               ask: Callable[[Any], Tuple[Any, ...]]) -> Iterator[Any]:
        """All entries, page by page: `ask` has the function and its arguments for what follows an
        entry; None: from the start."""
        last, more = None, True
        while more:
            page, more = self._page(kind, entries, convert, *ask(last))
            yield from page
            last = page[-1] if page else last

    def list(self, prefix: str = "", timeout: Seconds = 10.0) -> Iterator[FileInfo]:
        """The files whose path begins with the prefix, in the order of their bytes."""
        return self._pages("lh_file_list", "files", file_info, lambda last: (
            lib.lh_list, _native.text(prefix), _native.text(last and last.path), PAGE,
            _native.milliseconds(timeout)))

    def trash(self, prefix: str = "", timeout: Seconds = 10.0) -> Iterator[FileInfo]:
        """What is in the trash, and had a path that begins with the prefix."""
        return self._pages("lh_file_list", "files", file_info, lambda last: (
            lib.lh_trash, _native.text(prefix), _native.text(last and last.path),
            last.file if last else 0, PAGE, _native.milliseconds(timeout)))

    def locate(self, path: str, offset: int = 0, timeout: Seconds = 10.0) -> Iterator[ChunkInfo]:
        """The file's chunks, from the one that holds the offset, and where they are."""
        return self._pages("lh_chunk_list", "chunks", chunk_info, lambda last: (
            lib.lh_locate, _native.text(path), last.start + last.length if last else offset, PAGE,
            _native.milliseconds(timeout)))

    def rename(self, path: str, to: str, timeout: Seconds = 10.0) -> None:
        """Gives a file another path. Open appenders and readers stay with the file."""
        self._call(lib.lh_rename, _native.text(path), _native.text(to),
                   _native.milliseconds(timeout))

    def remove(self, path: str, *, now: bool = False, timeout: Seconds = 10.0) -> int:
        """Removes a file into the trash (with `now` for good); returns its id, for restore()."""
        options = ffi.new("struct lh_remove_options *", {"now": now})
        result = ffi.new("struct lh_remove_result *")
        self._call(lib.lh_remove, _native.text(path), options, _native.milliseconds(timeout),
                   result)
        return int(result.file)

    def restore(self, path: Optional[str] = None, *, file: int = 0, to: Optional[str] = None,
                timeout: Seconds = 10.0) -> FileInfo:
        """Takes a file out of the trash: the one with the id `file`, or the last one removed that
        had the path."""
        return self._info(lib.lh_restore, _native.text(path), file, _native.text(to),
                          _native.milliseconds(timeout))

    def appender(self, path: str, *, batch_bytes: int = 0, memory_bytes: int = 0,
                 give_up: Seconds = 600.0, lock: Optional[Lock] = None,
                 timeout: Seconds = 10.0) -> Appender:
        """Opens an appender on a file. `give_up`: for how many seconds it tries to store a record
        before it fails for good.

        With a `lock` the file takes appends under that lock only, from then on. The call waits
        until the appender is admitted: then nothing is stored any more that a former owner
        appends, and whoever takes a log over reads it to its end only now."""
        return Appender(self, path, batch_bytes, memory_bytes, give_up, lock, timeout)

    def reader(self, path: str, *, start: Optional[Position] = None, follow: bool = False,
               readahead_bytes: int = 0, on_gap: Optional[OnGap] = None,
               timeout: Seconds = 10.0) -> Reader:
        """Opens a reader on a file, an iterator over its records. With `follow` it waits for more
        at the end, for ever. With `on_gap` it goes on behind what is damaged at every member of
        its chunk, and calls on_gap(gap) first; otherwise it raises CorruptError there."""
        return Reader(self, path, start, follow, readahead_bytes, on_gap, timeout)

    def read(self, path: str, *, start: Optional[Position] = None, follow: bool = False,
             on_gap: Optional[OnGap] = None, timeout: Seconds = 10.0) -> Iterator[Any]:
        """The records of a file: a reader that closes by itself."""
        with self.reader(path, start=start, follow=follow, on_gap=on_gap,
                         timeout=timeout) as reader:
            yield from reader

    # ---- Leases and values ----

    def session(self, *, label: Optional[str] = None, term: float = 0,
                on_state: Optional[OnState] = None, timeout: Seconds = 10.0) -> Session:
        """Opens a session. `term`: seconds, 10 if 0. `on_state(session, state)` is called in the
        library's thread with "active", "suspended", "expired" (its locks
        are lost, and it may go on) or "lost" (final)."""
        return Session(self, label, term, on_state, timeout)

    def cancel(self, name: str, *, token: int = 0, why: str = "",
               timeout: Seconds = 120.0) -> None:
        """Ends the lock of whoever holds the name (with that token, if it is not 0). Returns when
        the lock is over, which may take until its session ends. NotLeasedError: nobody holds it."""
        self._call(lib.lh_cancel, _native.text(name), token, _native.text(why),
                   _native.milliseconds(timeout))

    def get(self, name: str, timeout: Seconds = 10.0) -> Value:
        """The value from the master, without a session and without a lease."""
        out = ffi.new("const struct lh_value **")
        self._call(lib.lh_get_once, _native.text(name), _native.milliseconds(timeout), out)
        return value_of(out[0])

    def put(self, name: str, data: Bytes, *, if_revision: Optional[int] = None,
            lock: Optional[Lock] = None, force: bool = False, attach: Optional[Session] = None,
            timeout: Seconds = 10.0) -> int:
        """Puts a value; returns the change's revision. When it returns nobody serves the old one
        any more.

        `if_revision`: only if the value has it (0: only if there is none; AlreadyExistsError).
        `lock`: only while that lock is held with its token (StaleTokenError). `attach`: the value
        is deleted when the session ends."""
        buffer = ffi.from_buffer(data)
        return self._change(lib.lh_put, name, (buffer, len(buffer)), if_revision, lock, force,
                            attach, timeout)

    def delete(self, name: str, *, if_revision: Optional[int] = None, lock: Optional[Lock] = None,
               force: bool = False, timeout: Seconds = 10.0) -> int:
        """Deletes a value, likewise. NotFoundError: there is none."""
        return self._change(lib.lh_delete, name, (), if_revision, lock, force, None, timeout)

    def _change(self, function: Any, name: str, what: Any, if_revision: Optional[int],
                lock: Optional[Lock], force: bool, attach: Optional[Session],
                timeout: Seconds) -> int:
        revision = ffi.new("uint64_t *")
        with contextlib.ExitStack() as stack:
            session = None
            if attach is not None:
                session = attach._use()
                stack.callback(attach._leave)
            options, _kept = change_options(
                if_revision, lock.name if lock is not None else None,
                lock.token if lock is not None else 0, force, session)
            self._call(function, _native.text(name), *what, options,
                       _native.milliseconds(timeout), revision)
        return int(revision[0])

    def watch(self, prefix: str = "", *, revision: int = 0, timeout: Seconds = 10.0) -> Watch:
        """Watches the values under a prefix from a revision on; 0: begins with "reset" and what is
        there."""
        return Watch(self, prefix, revision, timeout)

    def watch_locks(self, prefix: str = "", *, timeout: Seconds = 10.0) -> Watch:
        """Watches the locks under a prefix: begins with "reset" and "granted" for each that is
        held. Over a lost connection there is another reset, and what happened in between is not
        told."""
        return Watch(self, prefix, None, timeout)

    def names(self, prefix: str = "", timeout: Seconds = 10.0) -> Iterator[NameInfo]:
        """The names that begin with the prefix: who holds them, who waits, what value they have."""
        return self._pages("lh_name_list", "names", name_info, lambda last: (
            lib.lh_names, _native.text(prefix), _native.text(last and last.name), PAGE,
            _native.milliseconds(timeout)))

    def explain_name(self, name: str, timeout: Seconds = 10.0) -> NameInfo:
        """One name, with sentences that say how it stands and what is next."""
        page, _more = self._page("lh_name_list", "names", name_info, lib.lh_explain_name,
                                 _native.text(name), _native.milliseconds(timeout))
        info: NameInfo = page[0]
        return info

    def sessions(self, timeout: Seconds = 10.0) -> Iterator[SessionInfo]:
        """The sessions of all programs."""
        return self._pages("lh_session_list", "sessions", session_info, lambda last: (
            lib.lh_sessions, _native.text(last and last.id), PAGE, _native.milliseconds(timeout)))

    # ---- The end ----

    def close(self) -> None:
        """Closes what is open of it, and itself."""
        pointer = self._take()
        if pointer is None:
            return
        with self._opening:
            children = list(self._children)
        for child in children:
            try:
                child.close()
            except errors.Error:
                pass  # an appender whose last records are unknown says so to their futures
        lib.lh_cluster_close(pointer)
        _clusters.discard(self)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


_clusters: "weakref.WeakSet[Cluster]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The library's threads call Python: they have to be over before it is."""
    for cluster in list(_clusters):
        cluster.close()


def _forget_all() -> None:
    """In a child of os.fork(): what was opened before is the parent's."""
    for cluster in list(_clusters):
        for child in cluster._children:
            child._forked()
        cluster._children.clear()
        cluster._opening = threading.Lock()
        cluster._forked()
    _clusters.clear()
    _native.registry.clear()


os.register_at_fork(after_in_child=_forget_all)


def connect(masters: Union[str, Sequence[str]], *, try_timeout: float = 0, memory_bytes: int = 0,
            tls_dir: Optional[str] = None, lookups: int = 0) -> Cluster:
    """Opens a cluster: `masters` is the master's address, host:port, or those of several, with
    commas or in a list. Nothing is contacted yet. `try_timeout`: how many seconds one try waits for
    a server, 5 if 0. `memory_bytes`: what all appenders together may hold, 512 MiB if 0. `tls_dir`:
    a folder with ca.pem, cert.pem and key.pem, for a cluster that speaks TLS. `lookups`: so many
    paths are remembered with their files, for programs that open the same ones again and again."""
    return Cluster(masters, try_timeout, memory_bytes, tls_dir, lookups)
