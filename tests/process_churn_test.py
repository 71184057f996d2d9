#!/usr/bin/python3
"""Servers are killed, hung, stopped and restarted in turn while sixteen writers append.

At the end nothing that was acknowledged is lost, doubled or out of order, every chunk has all its
replicas again, and they are byte-identical.

LEASEHOLD_CHURN_SECONDS says for how long (60).
"""

import os
import random
import signal
import time

import process_cluster
from process_cluster import ClusterTest, Writer, wait_for

PATH = "/churn/log"
WRITERS = 16
SECONDS = float(os.environ.get("LEASEHOLD_CHURN_SECONDS", "60"))


class SlowWriter(Writer):
    """Small records and few of them: it is the faults that count, and all is read back."""

    RECORDS_PER_TICK = 2
    TICK_S = 0.02

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        return b"%03d %08d %s" % (self.number, index, b"x" * filler.choice((0, 7, 90, 300)))


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

    def test_all_servers_in_turn(self):
        cluster = self.start_cluster(
            servers=4, session_term="3s", chunk_term="6s",
            master_flags=("--grace=5s",), server_flags=("--scrub-period=30s",))
        cluster.command("create", "--chunk-size=1MiB", PATH)
        self.writers = [SlowWriter(cluster, PATH, i) for i in range(WRITERS)]
        self.await_progress(20)
        chance = random.Random(7)
        until = time.monotonic() + SECONDS
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
            self.await_progress(5)
            turns += 1
        self.finish_writers()
        wait_for("full replication", self.whole, interval=0.5)
        cluster.assert_replicas_identical(PATH)
        for chunk in cluster.chunks(PATH):
            self.assertEqual(len(chunk["members"]), 3, chunk)
        self.check_file(PATH)
        wait_for(f"nothing to be left of {self.leftovers()}", lambda: not self.leftovers(),
                 interval=1)
        fsck = cluster.run("fsck", "--deep")
        self.assertEqual(fsck.returncode, 0, fsck.stdout + fsck.stderr)
        print(f"{turns} turns, {sum(w.acknowledged() for w in self.writers)} records, "
              f"{len(cluster.chunks(PATH))} chunks")


if __name__ == "__main__":
    process_cluster.main()
