#!/usr/bin/python3
"""Files that a program opens from memory (VAL-7), while others rename and remove them: a program of
the C library (opens_bench), the command, a master that counts what it is asked."""

import json
import signal
import subprocess
import time

import process_cluster
from process_cluster import CALM, ClusterTest, binary, wait_for

FILES = 20


class LookupsTest(ClusterTest):

    def setUp(self):
        super().setUp()
        cluster = self.start_cluster(servers=1, metrics=True, **CALM)
        cluster.command("create", "--replication=1", *(f"/log-{i + 1}" for i in range(FILES)))
        self.opener = subprocess.Popen(
            [binary("opens_bench"), "--master", cluster.master_address, "--path", "/log",
             "--files", str(FILES), "--lookups", "1000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self._end_opener)
        wait_for("every file is remembered", self.all_remembered)

    def _end_opener(self):
        self.opener.send_signal(signal.SIGCONT)
        self.opener.stdin.close()
        self.opener.wait(process_cluster.PATIENCE_S)
        self.opener.stdout.close()

    def ask(self, command):
        self.opener.stdin.write(command + "\n")
        self.opener.stdin.flush()
        return json.loads(self.opener.stdout.readline())

    def figure(self, name):
        return self.cluster.master.figure(f"leasehold_master_{name}")

    def stats(self):
        return self.cluster.master.figure("leasehold_master_calls_total", '{method="Stat"}')

    def opens(self):
        """How many were opened; the others do not exist."""
        said = self.ask("appenders")
        self.assertEqual(said["failed"], 0)
        return said["opened"]

    def all_remembered(self):
        before = self.stats()
        self.assertEqual(self.opens(), FILES)
        return self.stats() == before

    def test_files_that_were_opened_before_are_not_asked_for(self):
        before = self.stats()
        for _ in range(5):
            self.assertEqual(self.opens(), FILES)
            self.assertEqual(self.ask("readers")["opened"], FILES)
        self.assertEqual(self.stats(), before)
        self.assertEqual(self.figure("lookups_cached"), FILES)
        sentences = self.cluster.json("explain", "/log-1")["sentences"]
        self.assertTrue(any("may open it without asking" in s for s in sentences), sentences)
        labels = [s["label"] for s in self.cluster.json("sessions")["sessions"]]
        self.assertEqual(labels, ["lookups of files"])

    def test_a_path_is_never_opened_as_the_file_that_had_it(self):
        self.cluster.command("mv", "/log-3", "/elsewhere")
        self.assertEqual(self.opens(), FILES - 1)
        self.cluster.command("create", "--replication=1", "/log-3")
        self.cluster.command("append", "/log-3", stdin=b"another file\n")
        self.assertEqual(self.ask("first 3"), {"record": "another file"})
        self.cluster.command("rm", "/log-4")
        self.assertEqual(self.ask("first 4"), {"error": "NOT_FOUND"})
        self.assertEqual(self.figure("path_changes_waited_total"), 2)

    def test_a_closed_program_is_not_waited_for(self):
        self.opener.stdin.close()
        self.opener.wait(process_cluster.PATIENCE_S)
        self.assertEqual(self.figure("lookups_cached"), 0)
        self.cluster.command("rm", "/log-1")
        self.assertEqual(self.figure("path_changes_waited_total"), 0)

    def test_a_program_that_stands_still_is_waited_for(self):
        self.opener.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.cluster.command("mv", "/log-3", "/elsewhere")
        self.assertGreater(time.monotonic() - began, 3)  # its session's term is 10 s
        self.cluster.command("create", "--replication=1", "/log-3")
        self.cluster.command("append", "/log-3", stdin=b"another file\n")
        self.opener.send_signal(signal.SIGCONT)
        self.assertEqual(self.ask("first 3"), {"record": "another file"})

    def test_a_new_master_waits_for_those_who_remember(self):
        self.cluster.master.kill()
        self.cluster.master.start()
        self.cluster.command("mv", "/log-3", "/elsewhere")
        self.assertEqual(self.opens(), FILES - 1)
        wait_for("every other file is remembered",
                 lambda: self.figure("lookups_cached") == FILES - 1)


if __name__ == "__main__":
    process_cluster.main(beside=(
        "LookupsTest.test_a_program_that_stands_still_is_waited_for",
        "LookupsTest.test_a_new_master_waits_for_those_who_remember"))
