#!/usr/bin/python3
"""Clients of names: each creates, renames and removes files of its own through the C library, one
call after the other, and says what came of each.

    process_names.py LIBRARY MASTERS FOLDER CLIENTS PAUSE

A line a call: `create PATH OUTCOME`, `rename PATH PATH OUTCOME`, `remove PATH OUTCOME`, and `stat`
behind each; the outcome is OK or the error's name and text. PAUSE seconds lie between two calls of
a client. The end of the input ends it. It is a program of its own since the library must not be in
a process that forks.
"""

import ctypes
import random
import sys
import threading

TIMEOUT_MS = 120_000
UNKNOWN = "(this call may have been carried out)"
NO_ROOM = "DISK_FULL "
INFO_BYTES = 1024  # more than struct lh_file_info has

over = threading.Event()
output = threading.Lock()


def load(path):
    library = ctypes.CDLL(path)
    for name in ("lh_error_name", "lh_last_error"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


class Client(threading.Thread):
    def __init__(self, library, masters, folder, number, pause):
        super().__init__()
        self.library, self.folder, self.number, self.pause = library, folder, number, pause
        self.cluster = ctypes.c_void_p()
        error = library.lh_cluster_open(masters.encode(), None, ctypes.byref(self.cluster))
        if error != 0:
            sys.exit(library.lh_last_error().decode())
        self.start()

    def call(self, name, *arguments):
        """Calls lh_NAME() and says so; again if its outcome is not known. Returns the outcome."""
        paths = [a for a in arguments if isinstance(a, bytes)]
        outcome = UNKNOWN
        while outcome.endswith(UNKNOWN):
            error = getattr(self.library, "lh_" + name)(self.cluster, *arguments)
            outcome = "OK"
            if error != 0:
                outcome = (self.library.lh_error_name(error).decode() + " " +
                           self.library.lh_last_error().decode())
            with output:
                print(name, *(p.decode() for p in paths), outcome, flush=True)
            over.wait(self.pause)
        return outcome

    def stat(self, path):
        info = ctypes.create_string_buffer(INFO_BYTES)
        self.call("stat", path, ctypes.c_uint64(TIMEOUT_MS), info)
        self.library.lh_file_info_deinit(info)

    def run(self):
        chance = random.Random(self.number)
        timeout = ctypes.c_uint64(TIMEOUT_MS)
        index = 0
        while not over.is_set():
            path = f"{self.folder}/{self.number}-{index}".encode()
            index += 1
            if self.call("create", path, None, timeout, None).startswith(NO_ROOM):
                continue
            self.stat(path)
            if chance.random() < 0.5:
                self.call("rename", path, path + b"-moved", timeout)
                self.stat(path)
                path += b"-moved"
            if chance.random() < 0.5:
                self.call("remove", path, None, timeout, None)
            self.stat(path)
        self.library.lh_cluster_close(self.cluster)


def main():
    library = load(sys.argv[1])
    clients = [Client(library, sys.argv[2], sys.argv[3], i, float(sys.argv[5]))
               for i in range(int(sys.argv[4]))]
    sys.stdin.read()
    over.set()
    for client in clients:
        client.join()


if __name__ == "__main__":
    main()
