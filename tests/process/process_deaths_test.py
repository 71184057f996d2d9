#!/usr/bin/python3
"""The active master of several dies, and its machine runs on: its watcher resigns, so that nobody
waits for the end of its reign (HA-3a). Reigns last for longer than any of these stories."""

import os
import signal
import subprocess
import time

import process_cluster
from process_cluster import Host, wait_for
from process_masters import MastersTest

LONG = "60s"
# Less than a reign.
AT_ONCE_S = 30


class OfItsOwn(Host):
    """A place where the node is the first process, as in a container."""

    prefix = ("unshare", "--pid", "--fork", "--kill-child",
              *(() if os.geteuid() == 0 else ("--map-root-user",)))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def watchers(master):
    """Of any process of that master."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue  # it has just ended
        if (len(words) > 1 and words[1].startswith(b"--watch-of=") and
                f"--listen={master.address}".encode() in words):
            found.append(int(pid))
    return found


class DeathsTest(MastersTest):
    """Three masters, of which one acts."""

    def begin(self, **options):
        cluster = self.start_masters(reign_term=LONG, servers=1, **options)
        for master in cluster.masters:
            cluster.wait_state(master, "ACTIVE", "STANDBY")
        cluster.command("create", "--replication=1", "--min-replicas=1", "/works")
        return cluster

    def assert_followed(self, cluster, reign, die):
        began = time.monotonic()
        die()
        master, newer = cluster.wait_acting(reign)
        self.assertLess(time.monotonic() - began, AT_ONCE_S, "nobody waits for its reign's end")
        self.assertEqual(newer, reign + 1)
        cluster.command("mv", "/works", "/moved")
        cluster.command("mv", "/moved", "/works")
        return master, newer

    def assert_no_watcher(self, master):
        wait_for(f"{master.name} to have no watcher", lambda: not watchers(master))

    def test_killed_and_crashed(self):
        cluster = self.begin(limits=("--core=0",))
        master, reign = cluster.wait_acting()
        for number in (signal.SIGKILL, signal.SIGSEGV):
            self.assertEqual(len(watchers(master)), 1)
            dead = master
            master, reign = self.assert_followed(
                cluster, reign, lambda m=master, n=number: m.signal(n))
            self.assertEqual(dead.process.wait(), -number)
            self.assert_no_watcher(dead)
            self.assertIn(f"watcher: reign {reign - 1} is over: resigned", dead.log_text())
            dead.start()
            cluster.wait_state(dead, "STANDBY")
        # The third one in a row may have died of what the next one is asked, too.
        master.kill()
        wait_for("its watcher to say so",
                 lambda: "3 masters in a row died within 60 s" in master.log_text())
        self.assertIsNone(cluster.acting())

    def test_a_standby_dies(self):
        cluster = self.begin()
        active, reign = cluster.wait_acting()
        dead = next(m for m in cluster.masters if m is not active)
        dead.kill()
        self.assert_no_watcher(dead)
        self.assertEqual(cluster.wait_acting(), (active, reign))

    def test_stopped_in_order(self):
        cluster = self.begin()
        master, reign = cluster.wait_acting()
        # As a service manager does it: all of the master's processes are asked to end.
        for pid in watchers(master):
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(len(watchers(master)), 1, "it ends behind its master")
        self.assert_followed(cluster, reign, lambda: self.assertEqual(master.stop(), 0))
        self.assert_no_watcher(master)
        self.assertNotIn("watcher: reign", master.log_text())

    def test_nobody_watches(self):
        cluster = self.begin()
        master, reign = cluster.wait_acting()
        for pid in watchers(master):
            os.kill(pid, signal.SIGKILL)
        # Nothing follows for its reign.
        wait_for("it to be gone", lambda: not watchers(master))
        self.assertEqual(cluster.wait_acting(), (master, reign))

    def test_where_the_master_would_be_the_first_process(self):
        if subprocess.run([*OfItsOwn.prefix, "true"], check=False).returncode != 0:
            self.skipTest("no namespaces of processes can be made here")
        cluster = self.make_cluster(reign_term=LONG, servers=1)
        for master in cluster.masters:
            master.host = OfItsOwn()
        cluster.start()
        for master in cluster.masters:
            cluster.wait_state(master, "ACTIVE", "STANDBY")
        cluster.command("create", "--replication=1", "--min-replicas=1", "/works")
        active, reign = cluster.wait_acting()
        (first,) = children(active.process.pid)
        (master,) = children(first)
        dead = active
        active, reign = self.assert_followed(
            cluster, reign, lambda: os.kill(master, signal.SIGKILL))
        self.assertEqual(dead.process.wait(process_cluster.PATIENCE_S), 128 + signal.SIGKILL)
        # What the first process is asked the master is asked.
        (first,) = children(active.process.pid)
        self.assert_followed(cluster, reign, lambda: os.kill(first, signal.SIGTERM))
        self.assertEqual(active.process.wait(process_cluster.PATIENCE_S), 0)
        self.assertNotIn("watcher: reign", active.log_text())


if __name__ == "__main__":
    process_cluster.main()
