#!/usr/bin/python3
"""Metadata in etcd that goes back to an older copy: masters stop, one with --restored goes on."""

import os

import etcd
import process_cluster
from process_cluster import Cluster, ClusterTest, wait_for


class RestoreTest(ClusterTest):

    def restart_master(self, *flags):
        master = self.cluster.master
        master.kill()
        master.argv = [a for a in master.argv if a != "--restored"] + list(flags)
        master.start()
        self.cluster.wait_ready()

    def reign(self):
        return self.cluster.json("masters")["reign"]

    def test_an_older_copy(self):
        store = etcd.Etcd(self.folder, members=1)
        self.addCleanup(store.cleanup)
        store.start()
        self.cluster = Cluster(self.folder, master_flags=(
            f"--store=etcd:{store.addresses()}/test", "--reign-term=300ms"))
        self.cluster.start()
        self.cluster.command("append", "--create", "/old", stdin=b"one\n")
        store.save(os.path.join(self.folder, "saved"))

        # Since then more reigns began, which chunkservers saw, and a file was created.
        for _ in range(3):
            self.restart_master()
        self.cluster.command("append", "--create", "/new", stdin=b"two\n")
        seen = self.reign()
        self.assertGreaterEqual(seen, 4)
        store.restore(os.path.join(self.folder, "saved"))

        # A master that knows better stops, and says what to do.
        master = self.cluster.master
        wait_for("the master's end", lambda: not master.running())
        self.assertEqual(master.process.returncode, 73)
        self.assertIn("Start one master with --restored", master.log_text())

        # One with --restored is believed by the chunkservers, and deletes nothing.
        self.restart_master("--restored")
        first = self.reign()
        self.assertGreater(first, seen)
        self.assertLess(first, seen + 5)
        self.assertFalse(self.cluster.json("garbage")["deleting"])
        self.assertEqual(self.cluster.command("cat", "/old"), b"one\n")
        self.assertEqual(self.cluster.run("cat", "/new").returncode, 1)

        # It is no restored one for ever.
        self.cluster.command("garbage", "--resume")
        self.restart_master()
        self.assertGreater(self.reign(), first)
        self.assertLess(self.reign(), first + 5)
        self.assertTrue(self.cluster.json("garbage")["deleting"])
        self.cluster.command("append", "/old", stdin=b"three\n")
        self.assertEqual(self.cluster.command("cat", "/old"), b"one\nthree\n")


if __name__ == "__main__":
    process_cluster.main()
