#!/usr/bin/python3
"""The benchmarks find their programs, run, and print what they say. Figures are nobody's business
here."""

import os
import subprocess
import unittest

import process_cluster


def bench(name, *arguments):
    done = subprocess.run([os.path.abspath(os.path.join("bench", name)), "--no-build", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          check=False)
    return done.returncode, done.stdout + done.stderr


class BenchTest(unittest.TestCase):

    def test_a_row_of_the_table(self):
        code, output = bench("run", "--seconds=1", "--no-touch", "--no-lease", "--only=200 files",
                             f"--port={process_cluster.free_ports(0, 1, 2, 3)}")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^sync 100 B, 200 files, one each .* [\d,]+ records/s ")
        self.assertRegex(output, r"(?m)^async 100 B, 200 files, one each .* [\d,]+ records/s ")

    def test_a_stall(self):
        code, output = bench("heal", "--runs=1", "--only=recall")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^recall\b.*\d")

    def test_new_files(self):
        code, output = bench("masters", "--rounds=1", "--seconds=1", "--only=new")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^ *median +[\d,]+ +[\d,]+ +(?:[\d.]+|nan); worst ratio ")

    def test_masters_that_are_idle(self):
        code, output = bench("masters", "--idle=1", "--only=idle")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^m\d \(active\) +[\d.]+$")
        self.assertRegex(output, r"(?m)^transactions +[\d.]+ a second$")

    def test_files_that_are_opened_again(self):
        code, output = bench("opens", "--files=20", "--times=2")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^appenders +without .* Stat 40 +Locate 0 +lookups 0$")
        self.assertRegex(output, r"(?m)^records +with .* lookups \d+$")

    def test_a_start_with_many_chunks(self):
        code, output = bench("start", "--chunks=30000", "--files=1000", "--servers=4")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^from start to serving: [\d.]+ s$")
        self.assertRegex(output, r"(?m)^4 registrations with 22,500 replicas each: ")

    def test_a_start_with_many_replicas(self):
        code, output = bench("start", "--replicas=5000")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^a chunkserver with 5,000 sealed replicas$")
        self.assertRegex(output, r"(?m)^from start to session: [\d.]+ s; to the first record ")

    def leases(self, *arguments):
        code, output = bench("leases", "--seconds=1", "--sessions=4", "--window=8", "--rounds=5",
                             "--waiters=6", "--cachers=20", "--changes=2", "--locks=1000",
                             "--lease-sessions=10", "--idle=1", "--takeovers=1",
                             "--takeover-term=1000", *arguments)
        self.assertEqual(code, 0, output)
        return output

    def test_leases_beside_etcd(self):
        output = self.leases("--peer=etcd", "--only=pair", "--only=pairs", "--only=handover",
                             "--only=crowd", "--only=reads", "--only=change", "--only=memory")
        for row in (r"acquire and release, one client, p50 .* us .* us +[\d.]+ x",
                    r"the same, 4 sessions, pipelined .* [\d,.]+ /s +[\d,.]+ /s +[\d.]+ x",
                    r"to the one that waits, p50 .* us .* us +[\d.]+ x",
                    r"to the next of 6, p50 .* us .* us +[\d.]+ x",
                    r"cached reads, one thread .* /s .* /s +[\d,.]+ x",
                    r"changing what 20 sessions cache .* ms .* ms +[\d.]+ x",
                    r"1,000 locks, 10 sessions: memory .* B .* B +-?[\d,.]+ x"):
            self.assertRegex(output, f"(?m)^{row}$")

    def test_leases_when_something_dies(self):
        output = self.leases("--no-peers", "--only=beats", "--only=death", "--only=killed",
                             "--only=paused")
        self.assertRegex(output, r"(?m)^heartbeats of 10 sessions, .* [\d.]+ / [\d.]+ % CPU$")
        for row in ("after a master's death, to the waiter",
                    "taking a log over from a killed owner", "from a paused owner"):
            self.assertRegex(output, rf"(?m)^{row} .* [\d.,]+ ms$")


if __name__ == "__main__":
    os.environ.setdefault("LEASEHOLD_BINARIES", "client/command:master:chunkserver:bench")
    process_cluster.main(beside=[
        "BenchTest.test_a_stall",
        "BenchTest.test_leases_when_something_dies",
        "BenchTest.test_masters_that_are_idle",
        "BenchTest.test_new_files",
    ])
