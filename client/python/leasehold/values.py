"""Values, and watching them."""

from typing import Any, Iterator, NamedTuple, Optional, Tuple, TYPE_CHECKING

from leasehold import _native
from leasehold._capi import ffi, lib
from leasehold._native import Seconds

if TYPE_CHECKING:
    from leasehold.cluster import Cluster

KINDS = {lib.LH_WATCH_CHANGED: "changed", lib.LH_WATCH_REMOVED: "removed",
         lib.LH_WATCH_RESET: "reset", lib.LH_WATCH_LOCK_GRANTED: "granted",
         lib.LH_WATCH_LOCK_RELEASED: "released", lib.LH_WATCH_LOCK_ENDED: "ended",
         lib.LH_WATCH_LOCK_CUT: "cut"}


class Value(NamedTuple):
    data: bytes
    revision: int  # of its last change
    ttl: float     # of Cluster.get(): it can be taken for current for so many seconds


class Holder(NamedTuple):
    session: str  # its id
    label: str
    host: str
    process: str
    shared: bool
    token: int   # of an event: 0 if the lock ended by itself
    left: float  # seconds until it ends if it is not renewed; of an event: if it is cut
    cut: bool    # it will not be renewed
    info: bytes


class Event(NamedTuple):
    # "changed", "removed", or "reset": forget everything; all that is there follows. Of locks:
    # "reset", "granted", "released", "ended", or "cut": it will end
    kind: str
    name: str
    data: bytes
    revision: int  # of the change; each has its own
    attached: bool  # to a session
    holder: Optional[Holder]  # of a lock: whose it is, or was


class NameInfo(NamedTuple):
    name: str
    holders: Tuple[Holder, ...]
    waiting: int  # requests
    has_value: bool
    revision: int
    size: int
    token: int     # that the value was changed with last
    attached: str  # the session that the value goes with, or ""
    caches: int    # sessions that may serve it
    changing: bool
    sentences: Tuple[str, ...]  # of explain_name()


def value_of(pointer: Any) -> Value:
    """Copies and frees it."""
    try:
        return Value(_native.memory(pointer.data, pointer.size), pointer.revision,
                     pointer.ttl_ms / 1000)
    finally:
        lib.lh_value_free(pointer)


def _holder(c: Any) -> Holder:
    return Holder(_native.string(c.session), _native.string(c.label), _native.string(c.host),
                  _native.string(c.process), bool(c.shared), c.token, c.left_ms / 1000,
                  bool(c.cut), _native.memory(c.info, c.info_size))


def name_info(c: Any) -> NameInfo:
    return NameInfo(_native.string(c.name),
                    tuple(_holder(c.holders[i]) for i in range(c.holder_count)), c.waiting,
                    bool(c.has_value), c.revision, c.size, c.token, _native.string(c.attached),
                    c.caches, bool(c.changing),
                    tuple(_native.string(c.sentences[i]) for i in range(c.sentence_count)))


class Watch(_native.Handle):
    """What happens under a prefix: an iterator. Made by Cluster.watch(): every change of a value,
    once and in order, over lost connections and new masters. Or by Cluster.watch_locks()."""

    def __init__(self, cluster: "Cluster", prefix: str, revision: Optional[int],
                 timeout: Seconds) -> None:
        super().__init__(f"the watch of {prefix}")
        self.prefix = prefix
        self._cluster = cluster
        self._event = ffi.new("struct lh_watch_event *")
        if revision is None:
            cluster._open(self, lib.lh_watch_locks_open, _native.text(prefix),
                          _native.milliseconds(timeout))
        else:
            cluster._open(self, lib.lh_watch_open, _native.text(prefix), revision,
                          _native.milliseconds(timeout))

    def next(self, timeout: Seconds = None) -> Event:
        """The next event. DeadlineError: none within the timeout; call again."""
        event: Event = _native.waited(self._next, timeout)
        return event

    def _next(self, timeout_ms: int) -> Event:
        self._call(lib.lh_watch_next, timeout_ms, self._event)
        e = self._event
        return Event(KINDS.get(e.kind, str(e.kind)), _native.string(e.name),
                     _native.memory(e.data, e.size), e.revision, bool(e.attached),
                     _holder(e.holder) if e.holder != ffi.NULL else None)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return self.next()

    def close(self) -> None:
        pointer = self._take()
        if pointer is not None:
            lib.lh_watch_close(pointer)
            self._cluster._forgotten(self)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def change_options(if_revision: Optional[int], lock_name: Optional[str], token: int, force: bool,
                   session: Any) -> Tuple[Any, Any]:
    """The options of a change, and what they point to."""
    options = ffi.new("struct lh_change_options *")
    name = _native.text(lock_name)
    options.if_revision = if_revision is not None
    options.revision = if_revision or 0
    options.lock, options.token, options.force = name, token, force
    options.attach = session if session is not None else ffi.NULL
    return options, name
