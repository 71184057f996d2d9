#!/usr/bin/python3
"""`leasehold store copy`: metadata from LMDB to etcd and back, refusals, and copies that end in the
middle."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

import etcd
import process_cluster
from process_cluster import Cluster, ClusterTest, Node, binary, free_port, wait_for

FILES = 20000  # of a store that takes some time


class StoreCopyTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.etcd = etcd.Etcd(self.folder, members=1, flags=("--unsafe-no-fsync",))
        self.addCleanup(self.etcd.cleanup)
        self.etcd.start()
        self.in_etcd = f"etcd:{self.etcd.addresses()}/test"
        self.directory = os.path.join(self.folder, "store")
        self.in_lmdb = "lmdb:" + self.directory

    def argv(self, *args):
        return [binary("leasehold"), "store", "copy", *args]

    def copy(self, *args, limit=None):
        """(status, what it printed)"""
        def limited():
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        result = subprocess.run(self.argv(*args), capture_output=True, text=True, timeout=120,
                                preexec_fn=limited, check=False)
        return result.returncode, result.stdout + result.stderr

    def assert_copied(self, *args):
        status, said = self.copy(*args, "--json")
        self.assertEqual(status, 0, said)
        return json.JSONDecoder().raw_decode(said)[0]  # progress may follow

    def assert_refused(self, part, *args, status=1):
        got, said = self.copy(*args)
        self.assertEqual((got, part in said), (status, True), said)

    def ends_when(self, condition, action, *args):
        """The status of a copy to which that is done once the condition holds, or that is over."""
        process = subprocess.Popen(self.argv(*args), stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        wait_for("the middle of a copy", lambda: condition() or process.poll() is not None,
                 interval=0.002)
        action(process)
        return process.wait()

    def killed_when(self, condition, *args):
        """False: it was over before."""
        return self.ends_when(condition, subprocess.Popen.kill, *args) == -signal.SIGKILL

    def assert_no_master_starts(self, store, part):
        result = subprocess.run(
            [binary("leasehold-master"), f"--store={store}", f"--listen=127.0.0.1:{free_port()}"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, part in result.stderr), (73, True), result.stderr)

    def start_on(self, store):
        """The cluster's master, on another store."""
        master = self.cluster.master
        if master.running():
            self.assertEqual(master.stop(), 0)
        master.argv = [a for a in master.argv if not a.startswith(("--store=", "--data-dir="))]
        master.argv.append("--store=" + store)
        master.start()
        self.cluster.wait_ready()

    def append(self, text):
        self.cluster.command("append", "/log", stdin=text)

    def log(self):
        return self.cluster.command("cat", "/log")

    # A cluster.

    def test_there_and_back(self):
        self.cluster = Cluster(self.folder, master_flags=("--reign-term=300ms",))
        self.cluster.start()
        self.cluster.command("create", "/log")
        self.append(b"one\n")
        self.in_lmdb = "lmdb:" + self.cluster.master.data_dir
        term = self.cluster.json("servers")["master_term"]

        self.assert_refused("in use by another process", self.in_lmdb, self.in_etcd)
        self.assertEqual(self.cluster.master.stop(), 0)
        self.assertGreater(self.assert_copied(self.in_lmdb, self.in_etcd)["pairs"], 3)
        self.assert_no_master_starts(self.in_lmdb, f"went to {self.in_etcd}")

        # Masters on etcd go on where the single one has stopped.
        self.start_on(self.in_etcd)
        self.assertEqual(self.log(), b"one\n")
        self.append(b"two\n")
        reign = self.cluster.json("servers")["master_term"]
        self.assertGreater(reign, term)
        self.assert_refused("a master acts", self.in_etcd, self.in_lmdb)
        self.assert_refused("there is a store under", self.in_lmdb, self.in_etcd)
        self.assert_no_master_starts(self.in_lmdb, f"went to {self.in_etcd}")

        # And back, into the same directory.
        self.cluster.master.kill()
        self.assertGreater(self.assert_copied(self.in_etcd, self.in_lmdb)["reign"], reign)
        self.start_on(self.in_lmdb)
        self.assertEqual(self.log(), b"one\ntwo\n")
        self.append(b"three\n")
        self.assertEqual(self.log(), b"one\ntwo\nthree\n")
        self.assertGreater(self.cluster.json("servers")["master_term"], reign + 1)

        # What is left in etcd is no store to go on with, and says so.
        self.assert_refused("went to lmdb:", self.in_etcd, f"lmdb:{self.folder}/another")
        address = f"127.0.0.1:{free_port()}"
        late = Node("late", address, None, [
            binary("leasehold-master"), f"--store={self.in_etcd}", f"--listen={address}",
            "--reign-term=300ms"], os.path.join(self.folder, "late.log"))
        late.start()
        self.addCleanup(late.kill)
        wait_for("its word", lambda: "content went to lmdb:" in late.log_text())
        said = json.loads(self.cluster.command("masters", "--json", "--master=" + address))
        self.assertIn("content went to lmdb:", said["store_trouble"])

    # Stores without a cluster.

    def fill(self):
        subprocess.run([binary("store_fill"), "--data-dir", self.directory, "--servers", "3",
                        "--files", str(FILES), "--chunks", str(FILES)],
                       check=True, stdout=subprocess.DEVNULL)

    def head(self):
        return self.etcd.get(b"test/head").get(b"test/head", b"")

    def test_refusals(self):
        empty = f"lmdb:{self.folder}/empty"
        self.assert_refused("is no store of a master", empty, self.in_etcd)
        unused = f"lmdb:{self.folder}/unused"
        self.assert_refused("there is no store of masters", self.in_etcd, unused)
        self.assert_no_master_starts(unused, "is not whole")
        self.assert_refused("one store is lmdb:", self.in_etcd, self.in_etcd + "2", status=64)
        self.assert_refused("/PREFIX", empty, "etcd:127.0.0.1:1", status=64)
        self.fill()
        self.etcd.put(b"test/map/x", b"y")
        self.assert_refused("other keys under this prefix", self.in_lmdb, self.in_etcd)
        self.assertEqual(self.etcd.get(b"test/"), {b"test/map/x": b"y"})
        self.assert_refused("etcd does not answer", self.in_lmdb,
                            f"etcd:127.0.0.1:{free_port()}/test", "--timeout=1s", status=69)
        _, said = self.copy(self.in_lmdb, f"etcd:127.0.0.1:{free_port()}/test", "--timeout=3s")
        self.assertIn("pairs read; waiting for etcd", said)
        self.assertNotIn("written", said)

    def test_a_copy_that_ends_in_the_middle(self):
        self.fill()

        # To etcd. Half of it is no store for anybody; the same copy does it again.
        self.assertTrue(self.killed_when(self.halfway, self.in_lmdb, self.in_etcd))
        self.assert_refused("is not whole", self.in_etcd, f"lmdb:{self.folder}/other")
        self.assert_refused("is being filled from", f"lmdb:{self.copy_of_store()}", self.in_etcd)
        pairs = self.assert_copied(self.in_lmdb, self.in_etcd)["pairs"]
        self.assertEqual(len(self.etcd.get(b"test/map/")), pairs)

        # Back. A disk that fails: nothing was moved.
        before = self.head()
        target = os.path.join(self.folder, "full")
        status, said = self.copy(self.in_etcd, "lmdb:" + target, limit=1 << 20)
        self.assertEqual(status, 74, said)
        self.assertNotEqual(self.head(), before)
        self.assert_no_master_starts("lmdb:" + target, "is not whole")

        # Killed: only the same copy goes on, and it is whole.
        def moved():
            return self.head().find(b"lmdb:") > 0
        for attempt in range(10):
            to = f"lmdb:{self.folder}/back{attempt}"
            if self.killed_when(moved, self.in_etcd, to, "--even-if-moved"):
                break
        self.assert_no_master_starts(to, "is not whole")
        self.assert_refused("went to lmdb:", self.in_etcd, f"lmdb:{self.folder}/other")
        self.assertEqual(self.assert_copied(self.in_etcd, to)["pairs"], pairs)
        self.assert_refused("holds a store already", self.in_etcd, to)

    def halfway(self):
        return any(self.etcd.get(b"test/map/f\0\0\0\0\0\0\x20\0"))

    def test_an_operator_interrupts_and_etcd_goes_away(self):
        self.fill()
        interrupt = self.ends_when(self.halfway, lambda p: p.send_signal(signal.SIGINT),
                                   self.in_lmdb, self.in_etcd)
        self.assertEqual(interrupt, 130)
        member = next(iter(self.etcd.members.values()))
        self.etcd.delete(b"test/map/")  # or it would be halfway at once
        self.assertEqual(self.ends_when(self.halfway, lambda _: member.pause(),
                                        self.in_lmdb, self.in_etcd, "--timeout=1s"), 75)
        member.resume()
        self.assertGreater(self.assert_copied(self.in_lmdb, self.in_etcd)["pairs"], FILES)

    def test_what_was_refused_once_is_refused_again(self):
        """From etcd into a directory, from there to another prefix: what is left under the first
        one is old, and masters act on the other one. Only --even-if-moved overrides that."""
        self.fill()
        self.assert_copied(self.in_lmdb, self.in_etcd)
        back = os.path.join(self.folder, "back")
        self.assert_copied(self.in_etcd, "lmdb:" + back)
        self.assert_copied("lmdb:" + back, self.in_etcd + "2")
        shutil.rmtree(back)
        for _ in range(2):
            self.assert_refused("went to lmdb:", self.in_etcd, "lmdb:" + back)

    def test_a_copy_that_is_killed_at_once_does_not_open_an_old_store(self):
        """Likewise, and the directory is still there: its own mark names the other prefix."""
        self.fill()
        self.assert_copied(self.in_lmdb, self.in_etcd)
        back = os.path.join(self.folder, "back")
        self.assert_copied(self.in_etcd, "lmdb:" + back)
        self.assert_copied("lmdb:" + back, self.in_etcd + "2")
        for member in self.etcd.members.values():
            member.pause()
        process = subprocess.Popen(self.argv(self.in_etcd, "lmdb:" + back, "--timeout=10s"))
        time.sleep(1)  # it has opened the directory, and waits for etcd
        self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        for member in self.etcd.members.values():
            member.resume()
        self.assert_refused("went to lmdb:", self.in_etcd, "lmdb:" + back)
        self.assert_no_master_starts("lmdb:" + back, "")

    def test_the_same_copy_does_not_begin_once_more(self):
        """To etcd, from there into another directory; the keys that nobody needs are deleted. Then
        the first copy is run again, with what is old by now."""
        self.fill()
        self.assert_copied(self.in_lmdb, self.in_etcd)
        self.assert_copied(self.in_etcd, f"lmdb:{self.folder}/next")
        self.etcd.delete(b"test/")
        self.assert_refused("went to etcd:", self.in_lmdb, self.in_etcd)
        self.assertEqual(self.etcd.get(b"test/"), {})
        self.assert_copied(self.in_lmdb, self.in_etcd, "--even-if-moved")

    def test_a_store_inside_another_ones_prefix_can_be_taken_from_there(self):
        """Releases before this one allowed such prefixes; now no master starts there."""
        self.fill()
        inner = f"etcd:{self.etcd.addresses()}/test/inner"
        self.assert_copied(self.in_lmdb, inner)
        self.etcd.put(b"test/head", self.etcd.get(b"test/inner/head")[b"test/inner/head"])
        self.assert_no_master_starts(inner, "is inside that of another cluster")
        self.assert_copied(inner, f"lmdb:{self.folder}/next")

    def test_a_directory_is_not_lost_by_a_copy_that_has_not_begun(self):
        """It went to etcd, and etcd is lost before any master was started on it. The way back was
        tried, and ended before anything was heard of etcd. What the directory holds is whole."""
        self.fill()
        self.assert_copied(self.in_lmdb, self.in_etcd)
        self.assert_no_master_starts(self.in_lmdb, f"went to {self.in_etcd}")
        for member in self.etcd.members.values():
            member.pause()
        process = subprocess.Popen(self.argv(self.in_etcd, self.in_lmdb, "--timeout=10s"))
        time.sleep(1)  # it has opened the directory, and waits for etcd
        self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        for member in self.etcd.members.values():
            member.resume()
        self.etcd.delete(b"test/")  # lost, and made anew
        self.assert_copied(self.in_lmdb, self.in_etcd + "2", "--even-if-moved")

    def copy_of_store(self):
        to = os.path.join(self.folder, "elsewhere")
        subprocess.run(["cp", "-r", self.directory, to], check=True)
        return to


if __name__ == "__main__":
    process_cluster.main(beside=[
        "StoreCopyTest.test_a_copy_that_is_killed_at_once_does_not_open_an_old_store",
        "StoreCopyTest.test_a_directory_is_not_lost_by_a_copy_that_has_not_begun",
        "StoreCopyTest.test_the_same_copy_does_not_begin_once_more",
    ])
