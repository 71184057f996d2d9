"""Sessions, the locks that are held in them, and guards."""

import contextlib
from concurrent.futures import Future
from typing import Any, Callable, Iterator, Optional, Set, TYPE_CHECKING

from leasehold import _native, errors
from leasehold._capi import ffi, lib
from leasehold._native import Seconds
from leasehold.values import Value, value_of

if TYPE_CHECKING:
    from leasehold.cluster import Cluster

STATES = {lib.LH_SESSION_ACTIVE: "active", lib.LH_SESSION_SUSPENDED: "suspended",
          lib.LH_SESSION_EXPIRED: "expired", lib.LH_SESSION_LOST: "lost"}
OnState = Callable[["Session", str], None]
OnRecall = Callable[["Lock", bool, str], None]
OnLost = Callable[["Lock"], None]


class Lock:
    """A lock that was granted. Made by Session.lock(); leaving its `with` block releases it.

    It is a promise about time: ask `left` before each act that needs it, and pass `token` on to
    whatever must refuse a former owner."""

    def __init__(self, session: "Session", name: str, shared: bool, on_recall: Optional[OnRecall],
                 on_lost: Optional[OnLost]) -> None:
        self.session, self.name, self.shared, self.token = session, name, shared, 0
        self._on_recall, self._on_lost = on_recall, on_lost
        self._lock = ffi.new("struct lh_lock *")
        self._number: Any = None
        self._future: "Future[Lock]" = Future()

    def _granted(self, error: int, lock: Any) -> None:
        if error < 0:
            failure = errors.make(error, _native.string(lib.lh_last_error()))
            self._forget()
            if self._future.set_running_or_notify_cancel():
                self._future.set_exception(failure)
            return
        self._lock[0] = lock[0]
        self.token = int(lock.token)
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(self)
        else:  # nobody waits for it any more
            self._forget()
            lib.lh_release(self._lock)

    def _cancelled(self, future: "Future[Lock]") -> None:
        """Nobody waits for it any more, so it waits in no queue either. If it was granted
        meanwhile, that is given back."""
        if future.cancelled() and self._number is not None:
            with contextlib.suppress(errors.Error):
                self.session._call(lib.lh_acquire_cancel, _native.text(self.name), self._number)

    def _forget(self) -> None:
        """Nothing more is heard of it."""
        _native.registry.remove(self._number)
        self.session._locks.discard(self._number)

    def _recalled(self, cancelled: bool, why: str) -> None:
        if self._on_recall is not None:
            self._on_recall(self, cancelled, why)

    def _lost(self) -> None:
        self._forget()
        if self._on_lost is not None:
            self._on_lost(self)

    @property
    def left(self) -> float:
        """For how many seconds it is held if nothing more is heard. 0: stop now."""
        pointer = self.session._try_use()
        if pointer is None:
            return 0.0
        try:
            return float(lib.lh_lock_left_ms(self._lock)) / 1000
        finally:
            self.session._leave()

    @property
    def held(self) -> bool:
        return self.left > 0

    def yield_in(self, seconds: Seconds) -> None:
        """Answers a recall: the lock ends by itself in so many seconds at the latest. None: it is
        kept. NotLeasedError: it is over."""
        self.session._call(lambda _: lib.lh_lock_yield(self._lock, _native.milliseconds(seconds)))

    def release(self) -> None:
        """Gives it up. NotLeasedError: it was released before, or is lost."""
        self._forget()
        self.session._call(lambda _: lib.lh_release(self._lock))

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(errors.NotLeasedError, errors.ClosedError):
            self.release()


def abandon(future: "Future[Lock]") -> None:
    """Nobody waits for the lock any more: the request is withdrawn, or the lock released."""
    if not future.cancel() and future.exception() is None:
        future.result().__exit__()


class Session(_native.Handle):
    """The lease under all that a program holds. Made by Cluster.session(). While the cluster is
    reached it goes on by itself."""

    def __init__(self, cluster: "Cluster", label: Optional[str], term: float,
                 on_state: Optional[OnState], timeout: Seconds) -> None:
        super().__init__("the session")
        options = ffi.new("struct lh_session_options *")
        label_text = _native.text(label)
        options.term_ms = _native.milliseconds(term)
        options.label = label_text
        self._on_state = on_state
        self._cluster = cluster
        self._number = _native.registry.add(self)
        options.on_state = lib.lh_py_state
        options.on_state_arg = self._number
        self._locks: Set[Any] = set()  # their numbers, while the library may call for them
        try:
            cluster._open(self, lib.lh_session_open, options, _native.milliseconds(timeout))
        except BaseException:
            _native.registry.remove(self._number)
            raise

    def _try_use(self) -> Any:
        with self._left:
            if self._pointer is not None:
                self._users += 1
            return self._pointer

    def _changed(self, state: int) -> None:
        if self._on_state is not None:
            self._on_state(self, STATES.get(state, str(state)))

    @property
    def id(self) -> str:
        """32 hexadecimal digits, as `leasehold sessions` shows it."""
        pointer = self._use()
        try:
            return _native.string(lib.lh_session_id(pointer))
        finally:
            self._leave()

    @property
    def left(self) -> float:
        """For how many seconds it is valid if no answer comes any more. 0: it is over."""
        pointer = self._try_use()
        if pointer is None:
            return 0.0
        try:
            return float(lib.lh_session_left_ms(pointer)) / 1000
        finally:
            self._leave()

    def lock(self, name: str, *, shared: bool = False, slots: int = 0, info: bytes = b"",
             on_recall: Optional[OnRecall] = None, on_lost: Optional[OnLost] = None,
             timeout: Seconds = None) -> Lock:
        """Acquires the lock on a name; requests are served in the order in which they come. With a
        timeout of 0: only if it is free (LeaseHeldError).

        `on_recall(lock, cancelled, why)`: somebody waits for it, or has cancelled it. Answer with
        release() or yield_in(), there or later; no answer keeps it. `on_lost(lock)`: it ended
        without release(). Both are called in the library's thread: one that blocks delays the
        others."""
        lock = Lock(self, name, shared, on_recall, on_lost)
        try:
            self._acquire(lock, slots, info, timeout)
            return lock._future.result()
        except BaseException:
            abandon(lock._future)
            raise

    def lock_async(self, name: str, *, shared: bool = False, slots: int = 0, info: bytes = b"",
                   on_recall: Optional[OnRecall] = None, on_lost: Optional[OnLost] = None,
                   timeout: Seconds = None) -> "Future[Lock]":
        """The same without waiting. Cancelling the future withdraws the request."""
        lock = Lock(self, name, shared, on_recall, on_lost)
        try:
            self._acquire(lock, slots, info, timeout)
        except BaseException:
            abandon(lock._future)
            raise
        return lock._future

    def _acquire(self, lock: Lock, slots: int, info: bytes, timeout: Seconds) -> None:
        """Ctrl-C may come at any moment, also when the library has the request and this has not
        returned yet: whoever calls this abandons the future then."""
        options = ffi.new("struct lh_lock_options *")
        data = ffi.from_buffer(info)
        options.shared, options.slots = lock.shared, slots
        options.info, options.info_size = data, len(info)
        if lock._on_recall is not None:
            options.on_recall = lib.lh_py_recalled
        options.on_lost = lib.lh_py_lost
        lock._number = options.arg = _native.registry.add(lock)
        self._locks.add(lock._number)
        lock._future.add_done_callback(lock._cancelled)
        try:
            self._call(lib.lh_acquire_async, _native.text(lock.name), options,
                       _native.milliseconds(timeout), lib.lh_py_granted, lock._number)
        except errors.Error:
            lock._forget()
            raise

    def get(self, name: str, timeout: Seconds = 10.0) -> Value:
        """The value as it is now. The first read asks the master; later ones come from memory,
        without a message, until somebody changes the value. NotFoundError: there is none."""
        out = ffi.new("const struct lh_value **")
        self._call(lib.lh_get, _native.text(name), _native.milliseconds(timeout), out)
        return value_of(out[0])

    def close(self, timeout: Seconds = 10.0) -> None:
        """Ends the session with everything in it, at once."""
        pointer = self._take()
        if pointer is not None:
            lib.lh_session_close(pointer, _native.milliseconds(timeout))
            for number in [self._number, *self._locks]:
                _native.registry.remove(number)
            self._cluster._forgotten(self)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Guard(_native.Handle):
    """Keeps, in a file, the highest token that was admitted for each name, and refuses lower ones.
    Several processes of a machine may share the file. It belongs to the resource: every program
    that acts on the resource goes through it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the guard {path}")
        out = ffi.new("struct lh_guard **")
        _native.check(lib.lh_guard_open(_native.text(path), out))
        self.path = path
        self._pointer = out[0]

    @contextlib.contextmanager
    def enter(self, name: str, token: int, timeout: Seconds = 10.0) -> Iterator[None]:
        """`with guard.enter(name, token):` admits the token, durably, and keeps others out while
        the block acts. StaleTokenError: a higher token was admitted."""
        pointer = self._use()
        try:
            what = _native.text(name)
            _native.check(
                lib.lh_guard_enter(pointer, what, token, _native.milliseconds(timeout)))
            try:
                yield
            finally:
                lib.lh_guard_leave(pointer, what)
        finally:
            self._leave()

    def close(self) -> None:
        pointer = self._take()
        if pointer is not None:
            lib.lh_guard_close(pointer)

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
