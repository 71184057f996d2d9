#!/usr/bin/python3
"""`leasehold local`: a whole cluster from one command, and its end."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest

import process_cluster
from process_cluster import PATIENCE_S, binary, free_ports, wait_for


class LocalTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self.folder.cleanup)
        self.port = free_ports(0, 101, 102, 103)
        programs = {os.path.dirname(binary(name))
                    for name in ("leasehold-master", "leasehold-chunkserver")}
        self.environment = dict(os.environ, TMPDIR=self.folder.name,
                                PATH=":".join([*programs, os.environ.get("PATH", "")]),
                                LEASEHOLD_MASTER=f"127.0.0.1:{self.port}")

    def start(self, *flags):
        self.output = []
        self.process = subprocess.Popen(
            [binary("leasehold"), "local", f"--port={self.port}", "--session-term=2s", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=self.environment, encoding="utf-8")
        reader = threading.Thread(target=lambda: self.output.extend(self.process.stdout))
        reader.start()
        # Run last in, first out.
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(reader.join)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)

    def wait_ready(self):
        wait_for("the ready line", lambda: any(line.startswith("ready at") for line in self.output))
        return {m.group(1): int(m.group(2)) for line in self.output
                if (m := re.match(r"\s+(\w+)\s.*pid (\d+)", line))}

    def command(self, *args, stdin=b""):
        return subprocess.run([binary("leasehold"), *args], input=stdin, capture_output=True,
                              env=self.environment, timeout=PATIENCE_S, check=True).stdout

    def assert_gone(self, pids):
        for name, pid in pids.items():
            wait_for(f"{name} to be gone", lambda p=pid: not os.path.exists(f"/proc/{p}"))

    def test_start_use_stop(self):
        self.start("--chunkservers=2")
        pids = self.wait_ready()
        self.assertEqual(set(pids), {"master", "cs1", "cs2"})
        self.command("append", "--create", "/hello", stdin=b"one\ntwo\n")
        self.assertEqual(self.command("cat", "/hello"), b"one\ntwo\n")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(PATIENCE_S), 0, self.output)
        self.assert_gone(pids)
        left = [name for name in os.listdir(self.folder.name) if name.startswith("leasehold-local")]
        self.assertEqual(left, [], "a temporary directory is removed")

    def test_what_dies_is_reported_and_can_be_started_again(self):
        folder = os.path.join(self.folder.name, "kept")
        self.start("--chunkservers=3", f"--dir={folder}")
        pids = self.wait_ready()
        self.command("append", "--create", "/hello", stdin=b"one\n")
        os.kill(pids["cs2"], signal.SIGKILL)
        wait_for("the report", lambda: any("cs2" in line and "killed by signal 9" in line
                                           for line in self.output))
        argv = wait_for("how to start it again", lambda: next(
            (line for line in self.output if "--server-id=cs2" in line), None)).split()
        again = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env=self.environment)
        self.addCleanup(again.wait)
        self.addCleanup(again.terminate)
        wait_for("cs2 to be back", lambda: b"cs2" in b"".join(
            line for line in self.command("servers").splitlines() if b" live " in line))
        self.assertEqual(self.command("cat", "/hello"), b"one\n")
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(PATIENCE_S), 0, self.output)
        self.assertIn("cs1", os.listdir(folder), "a directory that was named is kept")

    def test_an_address_in_use_is_named(self):
        self.start("--chunkservers=1")
        pids = self.wait_ready()
        second = subprocess.run(
            [binary("leasehold"), "local", f"--port={self.port}", "--chunkservers=1"],
            stdin=subprocess.DEVNULL, capture_output=True, env=self.environment,
            timeout=PATIENCE_S, check=False)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn(f"127.0.0.1:{self.port}".encode(), second.stderr)
        self.assertTrue(os.path.exists(f"/proc/{pids['master']}"))

    def test_its_servers_do_not_outlive_it(self):
        self.start("--chunkservers=1")
        pids = self.wait_ready()
        self.process.kill()
        self.assert_gone(pids)


if __name__ == "__main__":
    process_cluster.main()
