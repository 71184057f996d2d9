#!/usr/bin/python3
"""What the tables of errors of disks have in common: a test for each cell, the library below a
server, and the command line."""

import itertools
import os
import random
import sys
import time
import unittest

from process_cluster import Host, seconds_of

# What a file system may answer. Some say of a call what another one said before (NFS, FUSE).
ANY = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EPERM", "EACCES", "EINVAL", "ENXIO", "ENODEV",
       "ESTALE", "ETIMEDOUT", "EBADF", "ENOTCONN", "ENOMEM")
FEW = ("EIO", "EROFS", "ENOSPC")

# How often it fails, until the test says that it is over.
ONCE, LASTING = "once", "for a time"


def library():
    """The one that is preloaded; beside this file, or as it was built."""
    for folder in ("tests/process", "bazel-bin/tests/process"):
        path = os.path.join(folder, "libborder_faults.so")
        if os.path.exists(path):
            return os.path.abspath(path)
    raise FileNotFoundError("libborder_faults.so")


class Faults(Host):
    """The host of one server: its disk fails as its file says."""

    def __init__(self, folder, name):
        self.control = os.path.join(folder, name + ".faults")
        self.prefix = ("env", f"LD_PRELOAD={library()}", f"BORDER_FAULTS={self.control}")

    def set(self, rules):
        """A whole file takes the place of the one before."""
        with open(self.control + ".new", "w", encoding="ascii") as file:
            file.write("".join(" ".join(map(str, rule)) + "\n" for rule in rules))
        os.rename(self.control + ".new", self.control)

    def clear(self):
        if os.path.exists(self.control):
            os.unlink(self.control)

    def hits(self):
        try:
            with open(self.control + ".hits", encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


class Until(unittest.TestSuite):
    """Tests that are begun before the time is over, in turn for as long as that."""

    def __init__(self, kind, names, ends):
        super().__init__()
        self.kind, self.names, self.ends = kind, names, ends
        self._cleanup = False

    def __iter__(self):
        for name in itertools.cycle(self.names):
            if time.monotonic() >= self.ends:
                return
            yield self.kind(name)


def main(kind, word, seconds):
    """The command line of a file of cells: they are tests of `kind`, whose `ran` has those that
    ran; `word`: what it calls itself; `seconds` of them."""
    sys.dont_write_bytecode = True
    names = [name for name in dir(kind) if name.startswith("test_")]
    for argument in sys.argv[1:]:
        if argument == "--list":
            print("\n".join(name[len("test_"):] for name in names))
            return 0
        if argument.startswith("--for="):
            seconds = seconds_of(argument[len("--for="):])
    chosen = [a for a in sys.argv[1:] if not a.startswith("--")]
    if chosen:
        names = [n for n in names if any(n[len("test_"):].startswith(c) for c in chosen)]
        if not names:
            sys.exit(f"{word}: no cell begins with {' or '.join(chosen)}: see --list")
        tests = unittest.TestSuite(map(kind, names))
    else:
        seed = os.environ.get("LEASEHOLD_BORDER_SEED", "1")
        print(f"{word}: LEASEHOLD_BORDER_SEED={seed}", file=sys.stderr)
        random.Random(seed).shuffle(names)
        tests = Until(kind, names, time.monotonic() + seconds)
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    print(f"{word}: {len(set(kind.ran))} of {len(names)} cells ran, "
          f"{len(result.failures) + len(result.errors)} went wrong, "
          f"{len(result.skipped)} could not be made", file=sys.stderr)
    for test, why in result.skipped:
        print(f"{word}: not {test.id()}: {why}", file=sys.stderr)
    return not result.wasSuccessful()
