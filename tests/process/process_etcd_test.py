#!/usr/bin/python3
"""The helper etcd.py: what a test does to a real etcd has the effect that its name says."""

import os
import shutil
import tempfile
import unittest

import etcd
import process_cluster


class EtcdTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="leasehold-", dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.etcd = etcd.Etcd(self.folder)
        self.addCleanup(self.etcd.cleanup)
        self.etcd.start()

    def test_two_of_three_go_on(self):
        for away, back in (("kill", "start"), ("pause", "resume")):
            leader = self.etcd.leader()
            other = next(m for m in self.etcd.members.values() if m is not leader)
            getattr(leader, away)()
            self.etcd.put(b"a/" + away.encode(), b"x", other)
            getattr(leader, back)()
            self.etcd.wait_ready()
            self.assertIn(b"a/" + away.encode(), self.etcd.get(b"a/", leader))

    def test_a_replaced_member_has_the_data_and_a_wiped_cluster_none(self):
        self.etcd.put(b"a/1", b"\x00\xff")
        self.etcd.replace("etcd2")
        two = self.etcd.members["etcd2"]
        self.assertEqual(self.etcd.get(b"a/", two), {b"a/1": b"\x00\xff"})
        self.etcd.wipe()
        self.etcd.start()
        self.assertEqual(self.etcd.get(b"a/"), {})

    def test_a_restored_cluster_repeats_its_revisions(self):
        first = self.etcd.put(b"a/1", b"x")
        self.etcd.save(os.path.join(self.folder, "saved"))
        second = self.etcd.put(b"a/2", b"x")
        self.assertGreater(second, first)
        self.etcd.delete(b"a/2")
        self.assertEqual(self.etcd.get(b"a/"), {b"a/1": b"x"})
        self.etcd.restore(os.path.join(self.folder, "saved"))
        self.assertEqual(self.etcd.get(b"a/"), {b"a/1": b"x"})
        self.assertEqual(self.etcd.put(b"a/3", b"x"), first + 1)


if __name__ == "__main__":
    process_cluster.main(beside=[
        "EtcdTest.test_a_replaced_member_has_the_data_and_a_wiped_cluster_none",
        "EtcdTest.test_two_of_three_go_on",
    ])
