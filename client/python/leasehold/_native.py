"""Between Python and C: texts, times and errors; handles that are not freed while they are used;
and what the library's callback threads call."""

import itertools
import math
import threading
import time
from typing import Any, Callable, Dict, Optional, Union

from leasehold import errors
from leasehold._capi import ffi, lib

Bytes = Union[bytes, bytearray, memoryview]
Seconds = Optional[float]  # None: no limit

# A call that may wait for long waits in pieces of this many seconds, so that signals are noticed
# and a handle can be closed.
PIECE_S = 0.25
PAUSE_S = 0.01  # between two tries that come back at once


def milliseconds(timeout: Seconds) -> int:
    if timeout is None:
        return int(lib.LH_NO_TIMEOUT)
    if not timeout >= 0:
        raise ValueError(f"a timeout of {timeout} seconds")
    return min(math.ceil(timeout * 1000), int(lib.LH_NO_TIMEOUT) - 1)


def text(value: Optional[str]) -> Any:
    """A C string; NULL of None."""
    if value is None:
        return ffi.NULL
    encoded = value.encode("utf-8")
    if b"\0" in encoded:
        raise ValueError("a text with a zero byte")
    return ffi.new("char[]", encoded)


def string(pointer: Any) -> str:
    return "" if pointer == ffi.NULL else str(ffi.string(pointer), "utf-8", "replace")


def memory(pointer: Any, size: int) -> bytes:
    return bytes(ffi.buffer(pointer, size)) if size else b""


def check(code: int) -> int:
    """Raises what a call returned; returns LH_OK or LH_END."""
    if code < 0:
        raise errors.make(code, string(lib.lh_last_error()))
    return code


def only_late(error: errors.Error) -> bool:
    return isinstance(error, errors.DeadlineError)


def passing(error: errors.Error) -> bool:
    """It may be over when the same is tried again."""
    return error.may_retry and not isinstance(error, errors.ClosedError)


def waited(once: Callable[[int], Any], timeout: Seconds,
           again: Callable[[errors.Error], bool] = passing) -> Any:
    """once(milliseconds) until it returns something, or fails otherwise than with an error that is
    tried `again`, or the timeout is over."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        began = time.monotonic()
        left = PIECE_S if end is None else max(0.0, min(end - began, PIECE_S))
        try:
            return once(milliseconds(left))
        except errors.Error as error:
            now = time.monotonic()
            if not again(error) or (end is not None and now >= end):
                raise
            if now - began < PAUSE_S:
                time.sleep(PAUSE_S)


# ---- Handles ----

_callback = threading.local()  # .active: this thread is in one


class Handle:
    """A pointer of the C library that closing frees, once nobody is in a call on it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pointer: Any = None
        self._users = 0
        self._left = threading.Condition()

    def _use(self) -> Any:
        """The pointer; _leave() must follow."""
        with self._left:
            if self._pointer is None:
                raise errors.make(lib.LH_ERR_CLOSED, f"{self._what} is closed")
            self._users += 1
            return self._pointer

    def _leave(self) -> None:
        with self._left:
            self._users -= 1
            if self._users == 0:
                self._left.notify_all()

    def _call(self, function: Any, *args: Any) -> int:
        """function(pointer, ...); raises its error."""
        pointer = self._use()
        try:
            return check(function(pointer, *args))
        finally:
            self._leave()

    def _take(self) -> Any:
        """The pointer, for freeing it: nobody else gets it any more. None: it is freed."""
        if getattr(_callback, "active", False):
            raise RuntimeError(f"{self._what} cannot be closed in a callback")
        with self._left:
            pointer, self._pointer = self._pointer, None
            while self._users > 0:
                self._left.wait()
            return pointer

    def _forked(self) -> None:
        """In a child: its threads are not there, and nothing of it can be used or freed."""
        self._pointer, self._users = None, 0
        self._left = threading.Condition()

    @property
    def closed(self) -> bool:
        return self._pointer is None


# ---- Callbacks ----

class Registry:
    """What callbacks are for, by number: C keeps the number, and one that comes late finds
    nothing."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._things: Dict[int, Any] = {}

    def add(self, thing: Any) -> Any:
        number = next(self._numbers)
        self._things[number] = thing
        return ffi.cast("void *", number)

    def get(self, pointer: Any) -> Any:
        return self._things.get(int(ffi.cast("uintptr_t", pointer)))

    def remove(self, pointer: Any) -> Any:
        return self._things.pop(int(ffi.cast("uintptr_t", pointer)), None)

    def clear(self) -> None:
        self._things.clear()


registry = Registry()


def _called_by_c(function: Callable[..., None]) -> Callable[..., None]:
    """Makes the function that C calls under its name."""
    def called(*args: Any) -> None:
        _callback.active = True
        try:
            function(*args)
        finally:
            _callback.active = False
    ffi.def_extern(name=function.__name__)(called)
    return function


@_called_by_c
def lh_py_appended(arg: Any, error: int, first: Any, count: int) -> None:
    appender = registry.get(arg)
    if appender is not None:
        appender._appended(error, first.offset, first.index, count)


@_called_by_c
def lh_py_granted(arg: Any, error: int, lock: Any) -> None:
    request = registry.get(arg)
    if request is not None:
        request._granted(error, lock)


@_called_by_c
def lh_py_recalled(arg: Any, _lock: Any, cancelled: bool, why: Any) -> None:
    lock = registry.get(arg)
    if lock is not None:
        lock._recalled(bool(cancelled), string(why))


@_called_by_c
def lh_py_lost(arg: Any, _lock: Any) -> None:
    lock = registry.get(arg)
    if lock is not None:
        lock._lost()


@_called_by_c
def lh_py_state(arg: Any, _session: Any, state: int) -> None:
    session = registry.get(arg)
    if session is not None:
        session._changed(state)
