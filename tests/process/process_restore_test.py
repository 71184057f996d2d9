#!/usr/bin/python3
"""Metadata in etcd that goes back to an older copy: masters stop, one with --restored goes on; and
masters that nobody told (SES-9)."""

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

    def given_a_snapshot(self):
        store = etcd.Etcd(self.folder, members=1)
        self.addCleanup(store.cleanup)
        store.start()
        self.cluster = Cluster(self.folder, master_flags=(
            f"--store=etcd:{store.addresses()}/test", "--reign-term=300ms"))
        self.cluster.start()
        self.cluster.command("append", "--create", "/old", stdin=b"one\n")
        store.save(os.path.join(self.folder, "saved"))
        return store

    def token(self):
        return int(self.cluster.command("lock", "/job", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"))

    def live(self):
        return [s["server_id"] for s in self.cluster.json("servers")["servers"]
                if s["state"] == "live"]

    def test_an_older_copy_that_nobody_told(self):
        store = self.given_a_snapshot()
        tokens = [self.token()]
        for _ in range(2):
            self.restart_master()
            tokens += [self.token(), self.token()]
        seen = self.reign()
        master = self.cluster.master
        master.kill()
        store.restore(os.path.join(self.folder, "saved"))

        # etcd has all of its ids, and the master begins a reign that has been.
        master.start()
        wait_for("the servers to be refused",
                 lambda: master.log_text().count("another history") >= 3)
        tokens += [self.token(), self.token()]
        self.assertGreater(self.reign(), seen)
        self.assertEqual(self.live(), [])
        self.assertFalse(self.cluster.json("garbage")["deleting"])

        # Nor does another start hide it.
        master.kill()
        master.start()
        tokens.append(self.token())
        self.assertEqual(self.live(), [])

        # The way back that the manual names.
        self.restart_master("--restored")
        tokens += [self.token(), self.token()]
        self.assertEqual(self.cluster.command("cat", "/old"), b"one\n")
        self.cluster.command("garbage", "--resume")
        self.restart_master()
        tokens.append(self.token())
        self.assertEqual(len(self.live()), 3)
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_an_older_copy(self):
        store = self.given_a_snapshot()

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
