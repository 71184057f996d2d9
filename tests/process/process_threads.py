"""A single thread of a server that is stopped, as one that hangs in a call to the system."""

import contextlib
import ctypes
import os
import platform

from process_cluster import wait_for

READ = {"x86_64": "0", "aarch64": "63"}.get(platform.machine())  # its system call
# ptrace(2).
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def timer_thread(pid):
    """The thread that waits for the timer of the event loop; 0: that cannot be seen here."""
    def found():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as file:
                    call = file.read().split()
                if call[0] == READ and "timerfd" in os.readlink(
                        f"/proc/{pid}/fd/{int(call[1], 16)}"):
                    return int(thread)
        return None
    try:
        return 0 if READ is None else wait_for("the timer's thread", found)
    except PermissionError:
        return 0


@contextlib.contextmanager
def stopped_thread(thread):
    """Yields whether it could be stopped, alone of its process."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if thread == 0 or ptrace(PTRACE_SEIZE, thread, None, None) != 0:
        yield False
        return
    ptrace(PTRACE_INTERRUPT, thread, None, None)
    os.waitpid(thread, WALL)
    try:
        yield True
    finally:
        ptrace(PTRACE_DETACH, thread, None, None)


def has_ended(thread):
    """Of one that is stopped: its process cannot end before this was asked and is true."""
    return os.waitpid(thread, WALL | os.WNOHANG)[0] == thread
