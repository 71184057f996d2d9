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
import signal
import time

import process_cluster
from process_cluster import ClusterTest, Writer, wait_for
from process_load import Follower, SlowWriter

PATH = "/churn/log"
WRITERS = 16
SECONDS = os.environ.get("LEASEHOLD_CHURN_SECONDS")

# What each server may have. Of memory less than it takes by default where nobody is short of it.
DESCRIPTORS = 256
MEMORY = 640 << 20


class SmallWriter(SlowWriter):
    RECORDS_PER_TICK = 2


class LargeWriter(Writer):
    """Records of which each is larger than what one write or one message takes."""

    RECORDS_PER_TICK = 1
    TICK_S = 1.5

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        size = filler.choice((1, 2 << 20, 9_000_000, 15_000_000))
        return b"%03d %08d %s" % (self.number, index, bytes((97 + index % 26,)) * size)


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
        self.writers = [SmallWriter(cluster, PATH, i) for i in range(WRITERS)]
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
        self.writers = ([SmallWriter(cluster, PATH, i) for i in range(WRITERS - 2)] +
                        [LargeWriter(cluster, PATH, i) for i in range(WRITERS - 2, WRITERS)])
        self.await_progress(1)
        turns = self.churn(float(SECONDS or 12))
        self.finish_writers()
        for f in followers:
            f.wait_seen({w.number: w.sent for w in self.writers})
        wait_for("full replication", self.whole, interval=0.5)
        records = self.check_file(PATH)
        fsck = cluster.run("fsck", "--deep")
        self.assertEqual(fsck.returncode, 0, fsck.stdout + fsck.stderr)
        print(f"{turns} turns, {records} records, {len(cluster.chunks(PATH))} chunks")


if __name__ == "__main__":
    process_cluster.main(beside=["ChurnTest.test_large_records_where_little_is_to_be_had"])
