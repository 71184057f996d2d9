"""The same for asyncio.

    async with leasehold.aio.connect("127.0.0.1:7400") as cluster:
        async with await cluster.appender("/logs/web") as log:
            await log.append(b"hello")
        async with await cluster.session() as session, await session.lock("/jobs/compact"):
            ...

Appends and locks wait in the library, any number of them at a time. Other calls wait in a few
threads of the cluster (a reader or watch that follows has one of them). A method that is not named
here is that of the class under it (`.sync`), called in such a thread; one that yields returns a
list.
"""

import asyncio
import contextlib
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Awaitable, Callable, Optional, Sequence, TypeVar, Union

from leasehold import cluster as _cluster
from leasehold import errors
from leasehold._native import Bytes, Seconds
from leasehold.files import FileInfo, OnGap, Position, Reader, Record
from leasehold.files import Appender as SyncAppender
from leasehold.sessions import Lock, OnLost, OnRecall, OnState
from leasehold.sessions import Session as SyncSession
from leasehold.sessions import abandon
from leasehold.values import Event, Value, Watch

__all__ = ["Appender", "AsyncLock", "Cluster", "Session", "connect"]

THREADS = 16  # calls other than appends and locks that wait at a time, of one cluster
PIECE_S = 1.0  # an iterator waits in a thread for so long at a time
PAUSE_S = 0.001  # before an append is tried again that found no memory

Result = TypeVar("Result")


def _whole(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What it returns; all of it if that is made little by little."""
    result = function(*args, **kwargs)
    return list(result) if inspect.isgenerator(result) else result


class _Wrapped:
    """Something of the library, and the threads to call it in."""

    def __init__(self, sync: Any, run: Callable[..., Awaitable[Any]]) -> None:
        self.sync = sync
        self._run = run

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.sync, name)
        if not callable(attribute):
            return attribute
        return functools.partial(self._run, _whole, attribute)

    async def close(self) -> None:
        await self._run(self.sync.close)

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class Appender(_Wrapped):
    """Made by Cluster.appender()."""

    sync: SyncAppender

    async def append(self, record: Bytes) -> Position:
        """Appends one record, and returns where it is once it is stored. Records of one task go
        in its order; to have many under way, gather several calls. While the appender's memory is
        used up it waits. If the task is cancelled, the record may be stored or not."""
        while True:
            try:
                future = self.sync.append_async(record, timeout=0)
                break
            except errors.WouldBlockError:
                await asyncio.sleep(PAUSE_S)
        return await asyncio.shield(asyncio.wrap_future(future))

    async def __aenter__(self) -> "Appender":
        return self


class _Iterating:
    """`async for` over something whose next() waits in a thread, in pieces: what a piece has found
    after its task was cancelled is the next one's."""

    def __init__(self, sync: Any, run: Callable[..., Awaitable[Any]]) -> None:
        self.sync = sync
        self._run = run
        self._piece: Optional["asyncio.Future[Any]"] = None

    async def next(self) -> Any:
        while True:
            if self._piece is None:
                self._piece = asyncio.ensure_future(self._run(self.sync.next, PIECE_S))
            piece = self._piece
            try:
                found = await asyncio.shield(piece)
            except errors.Error as error:
                self._piece = None
                if not error.may_retry:
                    raise
                continue
            self._piece = None
            return found

    async def close(self) -> None:
        if self._piece is not None:
            with contextlib.suppress(errors.Error):
                await self._piece
        await self._run(self.sync.close)


class AsyncLock:
    """A lock that was granted; leaving its `async with` block releases it. `sync` has `left`,
    `token` and the rest, which never wait."""

    def __init__(self, sync: Lock) -> None:
        self.sync = sync
        self.name, self.token = sync.name, sync.token

    @property
    def left(self) -> float:
        return self.sync.left

    @property
    def held(self) -> bool:
        return self.sync.held

    def release(self) -> None:
        self.sync.release()

    async def __aenter__(self) -> "AsyncLock":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.sync.__exit__()


class Session(_Wrapped):
    """Made by Cluster.session()."""

    sync: SyncSession

    async def lock(self, name: str, *, shared: bool = False, slots: int = 0, info: bytes = b"",
                   on_recall: Optional[OnRecall] = None, on_lost: Optional[OnLost] = None,
                   timeout: Seconds = None) -> AsyncLock:
        """As Session.lock(). If the task is cancelled, the request is withdrawn. The callbacks
        are called in the library's thread: use loop.call_soon_threadsafe()."""
        future = self.sync.lock_async(name, shared=shared, slots=slots, info=info,
                                      on_recall=on_recall, on_lost=on_lost, timeout=timeout)
        try:
            return AsyncLock(await asyncio.wrap_future(future))
        except asyncio.CancelledError:
            abandon(future)
            raise

    async def get(self, name: str, timeout: Seconds = 10.0) -> Value:
        """As Session.get()."""
        value: Value = await self._run(self.sync.get, name, timeout)
        return value

    async def __aenter__(self) -> "Session":
        return self


class Cluster(_Wrapped):
    """Made by connect()."""

    sync: _cluster.Cluster

    def __init__(self, sync: _cluster.Cluster) -> None:
        super().__init__(sync, self._in_thread)
        self._threads = ThreadPoolExecutor(THREADS, "leasehold")

    async def _in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def create(self, path: str, **options: Any) -> FileInfo:
        info: FileInfo = await self._run(self.sync.create, path, **options)
        return info

    async def stat(self, path: str, timeout: Seconds = 10.0) -> FileInfo:
        info: FileInfo = await self._run(self.sync.stat, path, timeout)
        return info

    async def list(self, prefix: str = "", timeout: Seconds = 10.0) -> Sequence[FileInfo]:
        files: Sequence[FileInfo] = await self._run(_whole, self.sync.list, prefix, timeout)
        return files

    async def rename(self, path: str, to: str, timeout: Seconds = 10.0) -> None:
        await self._run(self.sync.rename, path, to, timeout)

    async def remove(self, path: str, **options: Any) -> int:
        file: int = await self._run(self.sync.remove, path, **options)
        return file

    async def appender(self, path: str, *, lock: Union[AsyncLock, Lock, None] = None,
                       **options: Any) -> Appender:
        """As Cluster.appender()."""
        held = lock.sync if isinstance(lock, AsyncLock) else lock
        return Appender(await self._run(self.sync.appender, path, lock=held, **options), self._run)

    async def session(self, *, label: Optional[str] = None, term: float = 0,
                      on_state: Optional[OnState] = None, timeout: Seconds = 10.0) -> Session:
        """As Cluster.session(); `on_state` is called in the library's thread."""
        return Session(await self._run(self.sync.session, label=label, term=term,
                                       on_state=on_state, timeout=timeout), self._run)

    async def read(self, path: str, *, start: Optional[Position] = None, follow: bool = False,
                   on_gap: Optional[OnGap] = None,
                   timeout: Seconds = 10.0) -> AsyncIterator[Record]:
        """`async for` over the records of a file. With `follow` it never ends. `on_gap` as with
        Cluster.reader(); it is called in a thread of the cluster."""
        reader: Reader = await self._run(self.sync.reader, path, start=start, follow=follow,
                                         on_gap=on_gap, timeout=timeout)
        records = _Iterating(reader, self._run)
        try:
            while (record := await records.next()) is not None:
                yield record
        finally:
            await asyncio.shield(records.close())

    def watch(self, prefix: str = "", *, revision: int = 0,
              timeout: Seconds = 10.0) -> AsyncIterator[Event]:
        """`async for` over the changes under a prefix. It never ends."""
        return self._events(self.sync.watch, prefix, revision=revision, timeout=timeout)

    def watch_locks(self, prefix: str = "", timeout: Seconds = 10.0) -> AsyncIterator[Event]:
        """`async for` over what happens to the locks under a prefix. It never ends."""
        return self._events(self.sync.watch_locks, prefix, timeout=timeout)

    async def _events(self, opens: Callable[..., Watch], *args: Any,
                      **options: Any) -> AsyncIterator[Event]:
        events = _Iterating(await self._run(opens, *args, **options), self._run)
        try:
            while True:
                yield await events.next()
        finally:
            await asyncio.shield(events.close())

    async def get(self, name: str, timeout: Seconds = 10.0) -> Value:
        value: Value = await self._run(self.sync.get, name, timeout)
        return value

    async def put(self, name: str, data: Bytes, *, lock: Union[AsyncLock, Lock, None] = None,
                  attach: Union[Session, SyncSession, None] = None, **options: Any) -> int:
        """As Cluster.put()."""
        held = lock.sync if isinstance(lock, AsyncLock) else lock
        session = attach.sync if isinstance(attach, Session) else attach
        revision: int = await self._run(self.sync.put, name, data, lock=held, attach=session,
                                        **options)
        return revision

    async def delete(self, name: str, *, lock: Union[AsyncLock, Lock, None] = None,
                     **options: Any) -> int:
        held = lock.sync if isinstance(lock, AsyncLock) else lock
        revision: int = await self._run(self.sync.delete, name, lock=held, **options)
        return revision

    async def cancel(self, name: str, *, token: int = 0, why: str = "",
                     timeout: Seconds = 120.0) -> None:
        await self._run(self.sync.cancel, name, token=token, why=why, timeout=timeout)

    async def close(self) -> None:
        await self._run(self.sync.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> "Cluster":
        return self


def connect(masters: Union[str, Sequence[str]], **options: Any) -> Cluster:
    """As leasehold.connect()."""
    return Cluster(_cluster.connect(masters, **options))
