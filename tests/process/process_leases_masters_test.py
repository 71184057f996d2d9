#!/usr/bin/python3
"""Locks and values over changes of masters, on a real etcd: holders go on, waiters keep their
places, tokens rise, nothing that was acknowledged is lost."""

import os
import signal
import subprocess

import process_cluster
from process_cluster import CALM, binary, wait_for
from process_masters import MastersTest

LOCK, VALUE = "/test/lock", "/test/value"


class LeasesMastersTest(MastersTest):

    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self._end_processes)
        self.start_masters(servers=1, **CALM)

    def _end_processes(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start(self, *args, output=None):
        with open(output or os.devnull, "ab") as file:
            process = subprocess.Popen(
                [binary("leasehold"), *args], stdout=file, stdin=subprocess.DEVNULL,
                env=dict(os.environ, LEASEHOLD_MASTER=self.cluster.master_address))
        self.processes.append(process)
        return process

    def name(self):
        names = [n for n in self.cluster.json("holders", LOCK)["names"] if n["name"] == LOCK]
        return names[0] if names else {"holders": [], "waiting": 0}

    def lose_master(self, how):
        """The acting one is killed or paused; until another one acts."""
        master, reign = self.cluster.wait_acting()
        (master.kill if how == "kill" else master.pause)()
        self.cluster.wait_acting(above=reign)
        return master

    def test_a_holder_and_its_waiters_go_on(self):
        output = os.path.join(self.folder, "order")
        holder = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", lambda: self.name()["holders"])
        token = self.name()["holders"][0]["token"]
        for i in range(3):
            self.start("lock", LOCK, "--", "sh", "-c", f"echo {i} $LEASEHOLD_TOKEN",
                       output=output)
            wait_for("one more that waits", lambda n=i + 1: self.name()["waiting"] == n)

        for how in ("kill", "pause"):
            master = self.lose_master(how)
            wait_for("holder and waiters to be back", lambda: (
                [h["token"] for h in self.name()["holders"]], self.name()["waiting"])
                == ([token], 3))
            self.assertIsNone(holder.poll())
            if how == "kill":
                master.start()
            else:
                master.resume()

        holder.send_signal(signal.SIGTERM)
        self.assertEqual([p.wait() for p in self.processes[1:]], [0, 0, 0])
        with open(output, encoding="ascii") as file:
            order = [tuple(map(int, line.split())) for line in file]
        self.assertEqual([i for i, _ in order], [0, 1, 2])
        tokens = [token] + [t for _, t in order]
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_values_and_those_who_watch_them(self):
        output = os.path.join(self.folder, "watched")
        revisions = [self.cluster.json("put", VALUE, "0")["revision"]]
        watch = self.start("watch", "--count=7", VALUE, output=output)
        wait_for("what is there", lambda: os.path.getsize(output) > 0)
        registered = self.start("register", "/test/member", "here", "--", "sleep", "1000")
        wait_for("the member", lambda: self.cluster.run("get", "/test/member").returncode == 0)
        for i in range(1, 6):
            if i in (2, 4):
                master = self.lose_master("kill")
                revisions.append(self.cluster.json("put", VALUE, str(i))["revision"])
                master.start()
            else:
                revisions.append(self.cluster.json("put", VALUE, str(i))["revision"])
        self.assertEqual(watch.wait(), 0)
        with open(output, encoding="ascii") as file:
            lines = [line.split() for line in file]
        self.assertEqual(lines[0], ["reset"])
        self.assertEqual([(int(r), v) for r, _, _, v in lines[1:]],
                         [(r, str(i)) for i, r in enumerate(revisions)])
        self.assertEqual(revisions, sorted(set(revisions)))
        # What is attached is there as long as its program.
        self.assertEqual(self.cluster.command("get", "/test/member"), b"here")
        self.assertIsNone(registered.poll())
        registered.send_signal(signal.SIGTERM)
        registered.wait()
        wait_for("the member to be gone",
                 lambda: self.cluster.run("get", "/test/member").returncode == 1)


if __name__ == "__main__":
    process_cluster.main()
