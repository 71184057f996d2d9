#!/usr/bin/python3
"""Stores that disks and hands have changed: a master serves exactly what it served before, or
refuses with a sentence (PAIR-2); several masters write again what a hand has deleted (PAIR-5), and
wait while etcd has nothing that fits (PAIR-4)."""

import os
import random

import process_cluster
from process_cluster import CALM, ClusterTest, wait_for
from process_masters import MastersTest

FILES = 60
FLIPS = int(os.environ.get("LEASEHOLD_FLIPS", "24"))


class SingleMasterTest(ClusterTest):
    """With LMDB's file."""

    def setUp(self):
        super().setUp()
        self.start_cluster(servers=1)
        self.cluster.command("create", "--replication=1",
                             *[f"/file-number-{i:03}" for i in range(FILES)])
        self.cluster.command("append", "/file-number-000", stdin=b"record\n")
        self.listing = self.cluster.command("ls", "/")
        self.master = self.cluster.master
        self.assertEqual(self.master.stop(), 0)
        self.path = os.path.join(self.master.data_dir, "data.mdb")
        with open(self.path, "rb") as file:
            self.whole = file.read()

    def start_on(self, content):
        """What a master does with it: None, and it serves what was there; else why it refuses."""
        with open(self.path, "wb") as file:
            file.write(content)
        said = len(self.master.log_text())
        self.master.start()
        ready = "ready on"
        wait_for("the master's word", lambda: not self.master.running() or
                 ready in self.master.log_text()[said:])
        if self.master.running():
            self.assertEqual(self.cluster.command("ls", "/"), self.listing)
            self.assertEqual(self.master.stop(), 0)
            return None
        self.master.process.wait()
        self.assertEqual(self.master.process.returncode, 73, self.master.log_text()[said:])
        return self.master.log_text()[said:]

    def test_any_bit(self):
        chance = random.Random(1)
        refused = 0
        for i in range(FLIPS):
            damaged = bytearray(self.whole)
            page = chance.randrange(len(damaged) // 4096) * 4096
            at = page + chance.randrange(40) if i % 2 else chance.randrange(len(damaged))
            damaged[at] ^= 1 << chance.randrange(8)
            why = self.start_on(damaged)
            if why is not None:
                refused += 1
                self.assertIn("backup", why)
        self.assertGreater(refused, 0)
        self.assertIsNone(self.start_on(self.whole))

    def test_a_path_that_is_another_one(self):
        at = self.whole.rindex(b"/file-number-006")
        damaged = bytearray(self.whole)
        damaged[at + 7] ^= 1
        why = self.start_on(damaged)
        if why is not None:  # else it was a page that is not in use any more
            self.assertIn("is not what a master has written", why)
        while b"/file-number-006" in damaged:
            at = damaged.index(b"/file-number-006")
            damaged[at + 7] ^= 1
        self.assertIn("the record of file 7 is not what a master has written",
                      self.start_on(damaged))

    def test_half_a_file(self):
        for size in (len(self.whole) // 2, len(self.whole) - 4096, 8192, 4096, 100):
            why = self.start_on(self.whole[:size])
            if why is not None:
                self.assertIn("data.mdb was damaged", why)
        self.assertIn("it was cut short", self.start_on(self.whole[:len(self.whole) // 2]))


class SeveralMastersTest(MastersTest):
    """With a real etcd."""

    def begin(self):
        cluster = self.start_masters(**CALM)
        for i in range(5):
            cluster.command("create", f"/f{i}")
        for master in cluster.masters:
            cluster.wait_state(master, "STANDBY", "ACTIVE")
        return cluster

    def key(self, cluster, tail):
        return f"{cluster.prefix}/map/".encode() + tail

    def value(self, key):
        found = self.etcd.get(key)
        return found.get(key)

    def test_a_deleted_key_and_a_changed_value(self):
        cluster = self.begin()
        active, reign = cluster.wait_acting()
        file = self.key(cluster, b"f" + (1).to_bytes(8, "big"))
        other = self.key(cluster, b"f" + (2).to_bytes(8, "big"))
        before, before_other = self.value(file), self.value(other)
        self.assertTrue(before)
        # when: a hand deletes one, changes another one, and puts one of its own
        self.etcd.delete(file)
        changed = bytearray(before_other)
        changed[3] ^= 1
        self.etcd.put(other, bytes(changed))
        self.etcd.put(self.key(cluster, b"vmine"), b"nonsense")
        # then: the active master writes all as it was
        wait_for("the deleted pair", lambda: self.value(file) == before)
        wait_for("the changed pair", lambda: self.value(other) == before_other)
        wait_for("the strange pair to go",
                 lambda: not self.value(self.key(cluster, b"vmine")))
        self.assertIn("somebody who is no master has changed or deleted", active.log_text())
        # A standby that loads the store has all of it, and so has the next reign.
        standby = next(m for m in cluster.masters if m is not active)
        standby.kill()
        standby.start()
        cluster.wait_state(standby, "STANDBY")
        active.kill()
        cluster.wait_acting(reign)
        self.assertEqual(cluster.command("ls", "/").decode().split(),
                         [f"/f{i}" for i in range(5)])
        for master in cluster.masters:
            self.assertTrue(master is active or master.running(), master.name)

    def test_nobody_acts_on_a_store_that_lacks_a_pair(self):
        cluster = self.begin()
        _, reign = cluster.wait_acting()
        file = self.key(cluster, b"f" + (1).to_bytes(8, "big"))
        before = self.value(file)
        for master in cluster.masters:
            self.assertEqual(master.stop(), 0)
        self.etcd.delete(file)
        for master in cluster.masters:
            master.start()
        for master in cluster.masters:
            wait_for(f"{master.name} to say so",
                     lambda m=master: "a pair was lost, added or put back" in m.log_text())
            self.assertTrue(master.running())
        self.assertIsNone(cluster.acting())
        # The pair is in etcd's history, from where an operator takes it.
        self.etcd.put(file, before)
        cluster.wait_acting(reign)
        self.assertEqual(cluster.command("stat", "/f0"), cluster.command("stat", "/f0"))


if __name__ == "__main__":
    process_cluster.main()
