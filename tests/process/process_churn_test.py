#!/usr/bin/python3
"""Servers are killed, hung, stopped and restarted in turn while sixteen writers append: small
records in small chunks, and then records of up to 15 MB among small ones, as shipped, where
descriptors and memory are scarce and readers follow.

At the end nothing that was acknowledged is lost, doubled or out of order, every chunk has all its
replicas again, and they are byte-identical.

LEASEHOLD_CHURN_SECONDS says for how long (25 and 12).
"""

import os
import random
import re
import signal
import subprocess
import threading
import time

import process_cluster
from process_cluster import ClusterTest, Writer, binary, wait_for

PATH = "/churn/log"
WRITERS = 16
SECONDS = os.environ.get("LEASEHOLD_CHURN_SECONDS")

# What each server may have. Of memory less than it takes by default where nobody is short of it.
DESCRIPTORS = 256
MEMORY = 640 << 20


class SlowWriter(Writer):
    """Small records and few of them: it is the faults that count, and all is read back."""

    RECORDS_PER_TICK = 2
    TICK_S = 0.02

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        return b"%03d %08d %s" % (self.number, index, b"x" * filler.choice((0, 7, 90, 300)))


class LargeWriter(Writer):
    """Records of which each is larger than what one write or one message takes."""

    RECORDS_PER_TICK = 1
    TICK_S = 1.5

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        size = filler.choice((1, 2 << 20, 9_000_000, 15_000_000))
        return b"%03d %08d %s" % (self.number, index, bytes((97 + index % 26,)) * size)


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

    def finish(self):
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stdout.close()


class ChurnTest(ClusterTest):

    def kill(self, server, pause):
        server.kill()
        time.sleep(pause)
        server.start()

    def hang(self, server, pause):
        server.signal(signal.SIGSTOP)
        time.sleep(pause)
        server.signal(signal.SIGCONT)

    def stop(self, server, pause):
        self.assertEqual(server.stop(), 0, server.log_text()[-2000:])
        time.sleep(pause)
        server.start()

    def whole(self):
        """Full replication, as the master sees it."""
        info = self.cluster.json("servers")["repair"]
        return info["chunks_degraded"] == 0 and info["copies_running"] == 0

    def leftovers(self):
        """{server: chunks that lie on its disk although it is no member of them}"""
        members = {name: set() for name in self.cluster.servers}
        for chunk in self.cluster.chunks(PATH):
            for member in chunk["members"]:
                members[member["server_id"]].add(chunk["chunk"])
        found = {}
        for name, server in self.cluster.servers.items():
            files = os.listdir(os.path.join(server.data_dir, "chunks"))
            there = {int(f.removesuffix(".chunk"), 16) for f in files if f.endswith(".chunk")}
            more = there - members[name] - {0}  # 0: the disk is probed with it
            if more:
                found[name] = sorted(more)
        return found

    def churn(self, seconds):
        """Faults in turn, one after another; returns how many."""
        cluster = self.cluster
        chance = random.Random(7)
        until = time.monotonic() + seconds
        turns = 0
        while time.monotonic() < until:
            names = sorted(cluster.servers)
            server = cluster.servers[names[turns % len(names)]]
            fault = chance.choice((self.kill, self.kill, self.hang, self.hang, self.stop))
            # Now and then for longer than the grace period: its replicas go elsewhere meanwhile.
            fault(server, chance.choice((0, 0.5, 2, 4, 8)))
            if turns % 7 == 6:
                fault = chance.choice((self.kill, self.hang))
                fault(cluster.master, chance.choice((0, 0.5)))
            cluster.wait_ready()
            self.await_progress(1)
            turns += 1
        return turns

    def test_all_servers_in_turn(self):
        cluster = self.start_cluster(
            servers=4, session_term="3s", chunk_term="6s",
            master_flags=("--grace=5s",), server_flags=("--scrub-period=30s",))
        cluster.command("create", "--chunk-size=1MiB", PATH)
        self.writers = [SlowWriter(cluster, PATH, i) for i in range(WRITERS)]
        self.await_progress(20)
        turns = self.churn(float(SECONDS or 25))
        self.finish_writers()
        wait_for("full replication", self.whole, interval=0.5)
        cluster.assert_replicas_identical(PATH)
        for chunk in cluster.chunks(PATH):
            self.assertEqual(len(chunk["members"]), 3, chunk)
        self.check_file(PATH)
        wait_for(lambda: f"nothing to be left of {self.leftovers()}",
                 lambda: not self.leftovers(), interval=1)
        fsck = cluster.run("fsck", "--deep")
        self.assertEqual(fsck.returncode, 0, fsck.stdout + fsck.stderr)
        print(f"{turns} turns, {sum(w.acknowledged() for w in self.writers)} records, "
              f"{len(cluster.chunks(PATH))} chunks")

    def test_large_records_where_little_is_to_be_had(self):
        cluster = self.start_cluster(
            servers=4, session_term="3s", chunk_term="6s",
            master_flags=("--grace=30s",),
            limits=(f"--nofile={DESCRIPTORS}", f"--data={MEMORY}"))
        cluster.command("create", PATH)
        followers = [Follower(cluster, PATH) for _ in range(3)]
        for f in followers:
            self.addCleanup(f.finish)
        self.writers = ([SlowWriter(cluster, PATH, i) for i in range(WRITERS - 2)] +
                        [LargeWriter(cluster, PATH, i) for i in range(WRITERS - 2, WRITERS)])
        self.await_progress(1)
        turns = self.churn(float(SECONDS or 12))
        self.finish_writers()
        sent = {w.number: w.sent for w in self.writers}

        def seen():
            for f in followers:
                self.assertIsNone(f.complaint)
                self.assertIsNone(f.process.poll(), f"a follower ended, having seen {f.seen}")
            return all(f.seen == sent for f in followers)

        wait_for("the followers to have seen all", seen)
        wait_for("full replication", self.whole, interval=0.5)
        records = self.check_file(PATH)
        fsck = cluster.run("fsck", "--deep")
        self.assertEqual(fsck.returncode, 0, fsck.stdout + fsck.stderr)
        print(f"{turns} turns, {records} records, {len(cluster.chunks(PATH))} chunks")


if __name__ == "__main__":
    process_cluster.main(beside=["ChurnTest.test_large_records_where_little_is_to_be_had"])
