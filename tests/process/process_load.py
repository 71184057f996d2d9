"""What goes on while a cluster has accidents, and what of it must hold: a value that is changed and
looked at, a lock that is taken in turn, a file that is followed, and how long things stood still.

Everything is done with the command, one call after another. A client that is told what cannot be
ends, and says so when it is next asked how far it is.
"""

import json
import os
import random
import re
import subprocess
import threading
import time

from process_cluster import PATIENCE_S, Writer, binary, wait_for

VALUE, LOCK = "/accidents/value", "/accidents/lock"
# Nothing more can be put into etcd: a refusal, and nothing has happened.
NO_ROOM = b"etcd's file has grown"
LOCK_LOST = 76
# What holds the lock says so at both ends.
TENURE = 'echo "begin $LEASEHOLD_TOKEN" >> "$0"; sleep 0.05; echo "end $LEASEHOLD_TOKEN" >> "$0"'


class SlowWriter(Writer):
    """Small records and few of them: it is the faults that count, and all is read back."""

    RECORDS_PER_TICK = 1
    TICK_S = 0.02

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        return b"%03d %08d %s" % (self.number, index, b"x" * filler.choice((0, 7, 90, 300)))


class Client(threading.Thread):
    """One that does its turn again and again."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.turns = 0
        self.error = None
        self.over = threading.Event()

    def begin(self):
        self.start()
        return self

    def run(self):
        try:
            while not self.over.wait(0.05):
                self.turn()
                self.turns += 1
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            self.error = error

    def turn(self):
        raise NotImplementedError

    def progress(self):
        if self.error is not None:
            raise AssertionError(f"{type(self).__name__}: {self.error}") from self.error
        return self.turns

    def finish(self):
        self.over.set()
        self.join(PATIENCE_S)
        if self.is_alive():
            raise AssertionError(f"{type(self).__name__} does not come to an end")
        return self.progress()


def expect(condition, *words):
    if not condition:
        raise AssertionError(" ".join(map(str, words)))


class Changer(Client):
    """Changes one value, each time only if it is what this client has put there last. So a change
    that happened twice, or that was lost, is noticed at once (HA-12)."""

    def __init__(self, cluster, after=0):
        super().__init__(cluster)
        self.revision = after
        self.put = {}  # revision: text

    def turn(self):
        text = f"{self.turns} after {self.revision}"
        said = self.cluster.run("put", f"--if-revision={self.revision}", "--json", VALUE, text)
        if said.returncode == 1 and NO_ROOM in said.stdout + said.stderr:
            return
        expect(said.returncode == 0, "put", text, said)
        revision = json.loads(said.stdout)["revision"]
        expect(revision > self.revision, revision, "after", self.revision)
        self.put[revision] = text
        self.revision = revision


class Looker(Client):
    """Looks at that value: never older than what was acknowledged before, and never older than what
    was seen before."""

    def __init__(self, changer):
        super().__init__(changer.cluster)
        self.changer = changer
        self.seen = 0

    def turn(self):
        before = max(self.changer.revision, self.seen)
        if before == 0:
            return
        value = self.cluster.json("get", VALUE)
        self.seen = value["revision"]
        expect(self.seen >= before, "revision", self.seen, "after", before)
        put = self.changer.put.get(self.seen)
        expect(put in (None, value["value"]), value["value"], "is not", put)


class Locker(Client):
    """Takes the lock for a moment. What holds it writes down its token, first and last."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.output = os.path.join(cluster.folder, "tenures")

    def turn(self):
        said = self.cluster.run("lock", LOCK, "--", "sh", "-c", TENURE, self.output)
        expect(said.returncode in (0, LOCK_LOST), "lock", said)


def check_tenures(path):
    """No token came twice or after a higher one, and no two held the lock at once. Returns how many
    there were."""
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file]
    tokens = [0]
    for i, (word, token) in enumerate(lines):
        if word == "begin":
            expect(int(token) > tokens[-1], f"token {token} after {tokens[-1]}, line {i}")
            tokens.append(int(token))
        else:
            expect(int(token) == tokens[-1], f"{token} ended in the time of {tokens[-1]}, line {i}")
    return len(tokens) - 1


class Follower:
    """`leasehold tail -f`, with all that is there when it gets to it: each record once, in the
    file's order."""

    def __init__(self, cluster, path):
        self.seen = {}  # writer: records
        self.complaint = None
        self.process = subprocess.Popen(
            [binary("leasehold"), "tail", "-n", "1000000", "-f", "--positions", path],
            stdout=subprocess.PIPE, env=cluster.environment())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        last = (-1, 0)
        for line in self.process.stdout:
            match = re.match(rb"(\d+):(\d+)\t(\d{3}) (\d{8}) ", line[:64])
            position = tuple(map(int, match.groups()[:2]))
            writer, index = map(int, match.groups()[2:])
            if position <= last or index != self.seen.get(writer, 0):
                self.complaint = self.complaint or line[:64]
            last = position
            self.seen[writer] = index + 1

    def wait_seen(self, sent):
        """Until it has seen so many records of each writer."""
        def all_seen():
            expect(self.complaint is None, "a follower was given", self.complaint)
            expect(self.process.poll() is None, "a follower ended, having seen", self.seen)
            return self.seen == sent
        wait_for("a follower to have seen all", all_seen)

    def finish(self):
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stdout.close()


class Pauses(threading.Thread):
    """How long things stood still: {name: what counts it}."""

    def __init__(self, counts):
        super().__init__(daemon=True)
        self._counts = counts
        self._lock = threading.Lock()
        self._over = threading.Event()
        now = time.monotonic()
        self._last = {name: (None, now) for name in counts}
        self._longest = dict.fromkeys(counts, 0.0)
        self.start()

    def run(self):
        while not self._over.wait(0.02):
            now = time.monotonic()
            with self._lock:
                for name, count in self._counts.items():
                    number, since = self._last[name]
                    self._longest[name] = max(self._longest[name], now - since)
                    if count() != number:
                        self._last[name] = (count(), now)

    def take(self):
        """{name: seconds} since this was asked last; a pause that goes on counts again."""
        with self._lock:
            longest = dict(self._longest)
            self._longest = dict.fromkeys(self._counts, 0.0)
        return longest

    def end(self):
        self._over.set()
        self.join()
