#!/usr/bin/python3
"""Errors of the disk below a master whose store is a directory, and below `leasehold store copy`:
each error of each call, at its first start, at a later one, or while it runs, once or for a time.

TABLE says what happens. A cell is a row with one error. Every cell ends the same way: the faults
are over, the master runs, and what was acknowledged is there: names, values, a lock that is held
all the time, and no token is granted twice. So it is after another crash.

    process_border_store_test.py            half a minute of cells; LEASEHOLD_BORDER_SEED draws them
    process_border_store_test.py --for=10m  as many as fit into that time
    process_border_store_test.py --list     names the cells
    process_border_store_test.py CELL...    those that begin so
"""

import collections
import errno
import os
import re
import subprocess
import sys
import time

from border_cells import ANY, LASTING, ONCE, Faults, main
from process_cluster import Cluster, ClusterTest, binary, free_port, wait_for

SECONDS = 35
VALUE, LOCK, HELD = "/border/value", "/border/lock", "/border/held"

# No space, and no memory: what was undone may succeed later.
SPACE, MEMORY = ("ENOSPC", "EDQUOT", "EFBIG"), ("ENOMEM", "EAGAIN")
SHORT = SPACE + MEMORY
OTHERS = tuple(e for e in ANY if e not in SHORT)
# What an operation that needs a descriptor, too, may say.
OPENS = ("EMFILE", "ENFILE", "ENOMEM")

# What the master does: it does not notice; it refuses changes, says so, and goes on by itself; it
# ends with a status after which it is started again, and says why; it ends since the directory
# that it was given cannot be made.
GOES_ON, WAITS, ENDS, REFUSES = "goes on", "waits", "ends", "refuses"
IO, SYSTEM, DATA_DIR = 74, 71, 73
AGAIN = "it is tried again each second"
# With these it is not started again (leasehold-master.service).
FINAL = (64, 73, 78)

FIRST, START, RUN, COPY = "first", "start", "run", "copy"
STORE, LOCKED, READERS = "*/master/data.mdb", "*/master/LOCK", "*/master/lock.mdb"
FORMAT, CLUSTER, TOP = "*/master/FORMAT*", "*/master/CLUSTER*", "*/master"

Row = collections.namedtuple("Row", "when call file errors lasts then")

TABLE = (
    # Commits: pages, the sync of them, and the page that names the newest ones.
    Row(RUN, "write", STORE, SHORT, ONCE, GOES_ON),
    Row(RUN, "write", STORE, SHORT, LASTING, WAITS),
    Row(RUN, "write", STORE, OTHERS, ONCE, ENDS),
    Row(RUN, "write", STORE, OTHERS, LASTING, ENDS),
    Row(RUN, "write", STORE, ("EINTR",), ONCE, GOES_ON),
    Row(RUN, "sync", STORE, SHORT + ("EINTR",), ONCE, GOES_ON),
    Row(RUN, "sync", STORE, SHORT + ("EINTR",), LASTING, WAITS),
    Row(RUN, "sync", STORE, OTHERS, ONCE, ENDS),
    Row(RUN, "sync", STORE, OTHERS, LASTING, ENDS),
    Row(RUN, "header", STORE, SHORT + OTHERS, ONCE, ENDS),
    Row(RUN, "header", STORE, SHORT + OTHERS, LASTING, ENDS),
    Row(RUN, "header", STORE, ("EINTR",), ONCE, GOES_ON),
    # A start: of what is there nothing is taken for damaged, missing or another's.
    Row(START, "mkdir", TOP, ANY, LASTING, GOES_ON),
    Row(START, "open", TOP, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "lock", TOP, OTHERS + ("ENOLCK", "EINTR"), LASTING, GOES_ON),
    Row(START, "look", FORMAT, OTHERS + ("EINTR", "ENOMEM"), LASTING, ENDS),
    Row(START, "create", LOCKED, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "lock", LOCKED, OTHERS + ("ENOLCK", "EINTR"), ONCE, ENDS),
    Row(START, "open", FORMAT, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "read-next", FORMAT, ANY + ("EINTR", "EAGAIN"), ONCE, ENDS),
    Row(START, "open", CLUSTER, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "read-next", CLUSTER, ANY + ("EINTR", "EAGAIN"), ONCE, ENDS),
    Row(START, "open", STORE, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "create", STORE, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "read", STORE, ANY + ("EAGAIN",), ONCE, ENDS),
    Row(START, "read", STORE, ("EINTR",), ONCE, GOES_ON),
    Row(START, "read", STORE, ANY + ("EAGAIN",), LASTING, ENDS),
    Row(START, "map", STORE, ANY + ("EAGAIN", "ENFILE"), ONCE, ENDS),
    Row(START, "create", READERS, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(START, "lock", READERS, OTHERS + ("ENOLCK",), LASTING, ENDS),
    Row(START, "lock", READERS, ("EACCES", "EAGAIN"), ONCE, GOES_ON),
    Row(START, "map", READERS, ANY + ("EAGAIN", "ENFILE"), ONCE, ENDS),
    Row(START, "sync", TOP, ANY, ONCE, ENDS),
    # The first commit is the master's term: before it nobody is answered.
    Row(START, "write", STORE, SHORT, LASTING, WAITS),
    Row(START, "write", STORE, OTHERS, ONCE, ENDS),
    Row(START, "write", STORE, OTHERS, LASTING, ENDS),
    Row(START, "sync", STORE, SHORT + ("EINTR",), LASTING, WAITS),
    Row(START, "sync", STORE, OTHERS, LASTING, ENDS),
    # What the one before has left is written again before it: nothing is lost of that.
    Row(START, "header", STORE, SHORT + ("EINTR",), ONCE, GOES_ON),
    Row(START, "header", STORE, SHORT + ("EINTR",), LASTING, WAITS),
    Row(START, "header", STORE, OTHERS, ONCE, ENDS),
    Row(START, "header", STORE, OTHERS, LASTING, ENDS),
    # The first start of all, in a directory that does not exist.
    Row(FIRST, "mkdir", TOP, tuple(e for e in ANY if e not in ("EACCES", "EPERM", "EROFS")),
        LASTING, ENDS),
    Row(FIRST, "mkdir", TOP, ("EACCES", "EPERM", "EROFS"), LASTING, REFUSES),
    Row(FIRST, "create", FORMAT, ANY + OPENS + ("EINTR",), ONCE, ENDS),
    Row(FIRST, "write-next", FORMAT, ANY + ("EINTR",), ONCE, ENDS),
    Row(FIRST, "sync", FORMAT, ANY + ("EINTR",), ONCE, ENDS),
    Row(FIRST, "rename", FORMAT, ANY, ONCE, ENDS),
    Row(FIRST, "sync", TOP, ANY, ONCE, ENDS),
    Row(FIRST, "create", STORE, ANY + OPENS, ONCE, ENDS),
    Row(FIRST, "header", STORE, OTHERS + SPACE, ONCE, ENDS),
    Row(FIRST, "header", STORE, OTHERS + SPACE, LASTING, ENDS),
    Row(FIRST, "lock", READERS, OTHERS, LASTING, ENDS),
    Row(FIRST, "truncate", READERS, ANY, ONCE, ENDS),
    # Whose the directory is, is written again with a later commit.
    Row(FIRST, "create", CLUSTER, ANY + OPENS + ("EINTR",), ONCE, GOES_ON),
    Row(FIRST, "write-next", CLUSTER, ANY + ("EINTR",), ONCE, GOES_ON),
    Row(FIRST, "sync", CLUSTER, ANY + ("EINTR",), ONCE, GOES_ON),
    Row(FIRST, "rename", CLUSTER, ANY, ONCE, GOES_ON),
    # `leasehold store copy` out of the directory, to an etcd that does not answer.
    Row(COPY, "look", FORMAT, OTHERS, LASTING, ENDS),
    Row(COPY, "create", LOCKED, ANY + OPENS, ONCE, ENDS),
    Row(COPY, "read-next", CLUSTER, ANY, ONCE, ENDS),
    Row(COPY, "read", STORE, ANY, ONCE, ENDS),
    Row(COPY, "map", STORE, ANY, ONCE, ENDS),
)


def number_of(error):
    return getattr(errno, error)


class BorderStoreTest(ClusterTest):
    """A test for each cell."""

    ran = []

    def setUp(self):
        super().setUp()
        self.files, self.tokens, self.sent, self.stored = set(), [], 0, None
        self.held, self.holder = None, None
        self.faults = Faults(self.folder, "master")

    # A client.

    def run_for(self, seconds, *args):
        return self.cluster.run(*args, f"--timeout={seconds * 1000:.0f}ms")

    def put(self, seconds=20):
        """Stores the next number. The result is None if it is acknowledged."""
        self.sent += 1
        result = self.run_for(seconds, "put", VALUE, str(self.sent))
        if result.returncode != 0:
            return result
        self.stored = self.sent
        return None

    def create(self):
        path = f"/border/{len(self.files)}"
        self.cluster.command("create", "--replication=1", path)
        self.files.add(path)

    def lock(self):
        token = int(self.cluster.command("lock", LOCK, "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"))
        self.assertGreater(token, max(self.tokens, default=0))
        self.tokens.append(token)

    def holders(self):
        return [h["token"] for name in self.cluster.json("holders", HELD)["names"]
                for h in name["holders"]]

    def hold(self):
        """A lock until the end of the cell."""
        self.holder = subprocess.Popen(
            [binary("leasehold"), "lock", "--term=60s", HELD, "--", "sleep", "600"],
            env=self.cluster.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_holder)
        (self.held,) = wait_for("a holder", self.holders)
        self.tokens.append(self.held)

    def end_holder(self):
        self.holder.terminate()
        self.holder.wait()

    def begin(self):
        for step in (self.put, self.create, self.lock, self.hold):
            self.assertIsNone(step())

    def check(self):
        """What was acknowledged is there."""
        files = {f["path"] for f in self.cluster.json("ls", "/border/")["files"]}
        self.assertLessEqual(self.files, files)
        if self.stored is not None:
            value = int(self.cluster.command("get", VALUE))
            self.assertTrue(self.stored <= value <= self.sent, (self.stored, value, self.sent))
        if self.held is not None:
            wait_for("its holder is back", lambda: self.holders() == [self.held], 20)
            self.assertIsNone(self.holder.poll())
        self.assertIsNone(self.put())
        self.create()
        self.lock()

    # The master.

    def start_node(self):
        self.said = len(self.cluster.master.log_text())
        self.cluster.master.start()

    def said_now(self):
        return self.cluster.master.log_text()[self.said:]

    def await_ready(self):
        wait_for("it is ready", self.is_ready, interval=0.01)

    def struck(self):
        return len(self.faults.hits()) > self.hits_before

    def set_faults(self, row, error):
        count = 1 if row.lasts == ONCE else -1
        self.hits_before = len(self.faults.hits())
        self.faults.set([(row.call, number_of(error), 0, count, row.file)])

    def is_ready(self):
        return "master: ready on" in self.said_now()

    def assert_says(self, text, error):
        """It says which error of which directory it was, and nothing that is not so."""
        data_dir = self.cluster.master.data_dir
        texts = [os.strerror(number_of(error))]
        if error in ("ENOSPC", "EDQUOT"):
            texts.append("its disk is full")
        if error == "EFBIG":
            texts.append("ulimit -f")
        lines = [line for line in text.splitlines() if data_dir in line and "ready on" not in line]
        self.assertTrue(any(t in line for t in texts for line in lines), text)
        self.assertIsNone(re.search("damaged|backup|delete|MDB_", text), text)

    def ended(self, row):
        master = self.cluster.master
        until = time.monotonic() + 20
        while master.running():
            self.assertLess(time.monotonic(), until, "it has not ended: " + self.said_now())
            if row.when == RUN:
                self.put(0.3)
            time.sleep(0.01)
        return master.process.returncode

    def await_end(self, row, error):
        master = self.cluster.master
        status = self.ended(row)
        expected = (DATA_DIR,) if row.then == REFUSES else (IO, SYSTEM)
        self.assertIn(status, expected, self.said_now())
        if status == SYSTEM:
            self.assertIn(error, OPENS + MEMORY)
        self.assert_says(self.said_now(), error)
        if row.lasts == LASTING and row.then == ENDS:
            self.start_node()  # as a service manager does
            wait_for("it has ended again, waits or is ready", lambda: (
                not master.running() or AGAIN in self.said_now() or self.is_ready()))
            self.assertNotIn(master.process.poll(), FINAL, self.said_now())

    def await_wait(self, row, error):
        """It says what is missing; a change is refused, or unanswered before the master's term."""
        wait_for("the fault has struck", (lambda: self.put(2)) if row.when == RUN else self.struck)
        refused = self.put(2)
        self.assertIsNotNone(refused)
        if row.when == RUN:
            self.assertIn(b" for its metadata", refused.stderr)
        self.assert_says(self.said_now(), error)
        self.assertIn(AGAIN, self.said_now())

    def strike(self, row, error):
        self.set_faults(row, error)
        if row.when != RUN:
            self.start_node()
        if row.then in (ENDS, REFUSES):
            self.await_end(row, error)
        elif row.then == WAITS:
            self.await_wait(row, error)
        else:
            for step in (self.put, self.create, self.lock):
                self.assertIsNone(step())
        self.assertTrue(self.struck(), "the fault has not struck: " + self.said_now())
        if row.then in (GOES_ON, WAITS):
            self.assertTrue(self.cluster.master.running(), self.said_now())
        self.faults.clear()

    def strike_copy(self, row, error):
        self.set_faults(row, error)
        argv = [*self.faults.prefix, binary("leasehold"), "store", "copy", "--timeout=1s",
                "lmdb:" + self.cluster.master.data_dir,
                f"etcd:127.0.0.1:{free_port()}/border"]
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        self.assertIn(result.returncode, (IO, SYSTEM), result.stderr)
        self.assertTrue(self.struck(), result.stderr)
        self.assert_says(result.stderr, error)
        self.faults.clear()
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 69, result.stderr)

    def cell(self, row, error):
        BorderStoreTest.ran.append(self.id())

        def host(_name):
            return self.faults
        if row.when == FIRST:
            self.cluster = Cluster(self.folder, servers=0, host=host)
        else:
            self.start_cluster(servers=0, host=host)
            self.said = 0
            self.begin()
        master = self.cluster.master
        if row.when in (START, COPY):
            master.kill()
        if row.when == COPY:
            self.strike_copy(row, error)
        else:
            self.strike(row, error)
        if not master.running():
            self.start_node()
        self.await_ready()
        self.check()
        with open(os.path.join(master.data_dir, "CLUSTER"), encoding="ascii") as file:
            self.assertRegex(file.read(), "^[0-9a-f]{32}\n$")
        master.kill()
        self.start_node()
        self.await_ready()
        self.check()


def cells():
    for row in TABLE:
        file = re.sub(r"\W", "", os.path.basename(row.file)) or "directory"
        for error in dict.fromkeys(row.errors):
            name = "_".join(("test", row.when, row.call, file, error, row.lasts))
            yield re.sub(r"\W", "_", name), row, error


for _name, _row, _error in cells():
    assert not hasattr(BorderStoreTest, _name), _name
    setattr(BorderStoreTest, _name, lambda self, row=_row, error=_error: self.cell(row, error))

if __name__ == "__main__":
    sys.exit(main(BorderStoreTest, "border_store", SECONDS))
