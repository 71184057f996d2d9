"""What can go wrong: a class for each error that programs tell apart."""

from typing import Dict, Type

from leasehold._capi import ffi, lib

__all__ = ["Error"]


class Error(Exception):
    """An error of the library. `name` is that of the C library without its prefix
    ("STALE_TOKEN"), `code` its number there. The text says what happened to which thing."""

    code: int = 0
    name: str = ""

    @property
    def may_retry(self) -> bool:
        """The same call may succeed later, without a correction of the program or its arguments.
        Not a reason to repeat an append whose outcome is unknown."""
        return bool(lib.lh_error_may_retry(self.code))


class InvalidArgumentError(Error, ValueError):
    """Malformed or out of its range. Correct the program."""


class NotFoundError(Error, LookupError):
    """No such file, chunk, server or value."""


class AlreadyExistsError(Error):
    """The path is taken; a value has another revision; a session has the lock, or waits for it."""


class UnavailableError(Error, ConnectionError):
    """No master, or no server of the chunk, could be reached within the timeout."""


class DeadlineError(Error, TimeoutError):
    """The timeout came first. Of a change or an append the outcome is unknown."""


class LeaseHeldError(Error):
    """Somebody else holds it."""


class NotLeasedError(Error):
    """The lock is not held (any more)."""


class StaleTokenError(Error):
    """Another owner has been admitted, or the lock is not held with this token. Stop acting as
    its owner."""


class WouldBlockError(Error):
    """The appender's memory is used up: the record was not taken."""


class TooLargeError(Error, ValueError):
    """The record or value is longer than allowed."""


class CancelledError(Error):
    """The handle was closed while the call, or the record, was under way."""


class ClosedError(Error):
    """The handle is closed, or the session is lost."""


class AccessError(Error, PermissionError):
    """This program's certificate does not have the right, or a file cannot be opened."""


class CorruptError(Error):
    """Stored data does not match its checksum on any replica that could be reached."""


_CLASSES: Dict[int, Type[Error]] = {
    lib.LH_ERR_INVALID_ARGUMENT: InvalidArgumentError,
    lib.LH_ERR_NOT_FOUND: NotFoundError,
    lib.LH_ERR_ALREADY_EXISTS: AlreadyExistsError,
    lib.LH_ERR_UNAVAILABLE: UnavailableError,
    lib.LH_ERR_DEADLINE_EXCEEDED: DeadlineError,
    lib.LH_ERR_LEASE_HELD: LeaseHeldError,
    lib.LH_ERR_NOT_LEASED: NotLeasedError,
    lib.LH_ERR_STALE_TOKEN: StaleTokenError,
    lib.LH_ERR_WOULD_BLOCK: WouldBlockError,
    lib.LH_ERR_TOO_LARGE: TooLargeError,
    lib.LH_ERR_CANCELLED: CancelledError,
    lib.LH_ERR_CLOSED: ClosedError,
    lib.LH_ERR_CORRUPT: CorruptError,
    lib.LH_ERR_PERMISSION: AccessError,
}
__all__ += [c.__name__ for c in _CLASSES.values()]


def make(code: int, text: str = "") -> Error:
    """The exception for an error of the C library."""
    name = ffi.string(lib.lh_error_name(code)).decode()
    phrase = text or ffi.string(lib.lh_error_text(code)).decode()
    error = _CLASSES.get(code, Error)(f"{name}: {phrase}")
    error.code, error.name = code, name
    return error
