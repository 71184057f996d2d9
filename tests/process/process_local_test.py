#!/usr/bin/python3
"""`leasehold local`: a whole cluster from one command, and its end."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request

import process_cluster
from process_cluster import PATIENCE_S, binary, free_ports, wait_for


class LocalTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self.folder.cleanup)
        self.port = free_ports(0, 1, 2, 80, 81, 82, 101, 102, 103, 201, 301)
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
        page = next(m.group(1) for line in self.output if (m := re.match(r"\s+page (\S+)", line)))
        with urllib.request.urlopen(page + "api/file?path=/hello", timeout=PATIENCE_S) as reply:
            self.assertEqual(json.load(reply)["info"]["path"], "/hello")
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

    def refused(self, *flags, status, environment=None):
        """Returns what it says."""
        result = subprocess.run(
            [binary("leasehold"), "local", f"--port={self.port}", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, env=environment or self.environment,
            timeout=PATIENCE_S, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr

    def masters(self):
        """{name: (state, address)}"""
        return {m["master_id"]: (m["state"], m["address"])
                for m in json.loads(self.command("masters", "--json"))["masters"]}

    def active(self):
        """The id of the master that acts, once there is one."""
        return wait_for("an active master", lambda: next(
            (name for name, (state, _) in self.masters().items() if state == "ACTIVE"), None))

    def test_several_masters(self):
        folder = os.path.join(self.folder.name, "kept")
        self.environment["LEASEHOLD_MASTER"] = ",".join(
            f"127.0.0.1:{self.port + i}" for i in range(3))
        # What is meant for another etcd, and contradicts the options of this one.
        self.environment["ETCD_NAME"] = "other"
        self.start("--chunkservers=2", "--masters=3", f"--dir={folder}")
        pids = self.wait_ready()
        self.assertEqual(set(pids), {"etcd1", "m1", "m2", "m3", "cs1", "cs2"})
        self.assertIn(f"ready at {self.environment['LEASEHOLD_MASTER']};", self.output[-1])
        self.assertEqual({state for state, _ in self.masters().values()}, {"ACTIVE", "STANDBY"})
        self.command("append", "--create", "/hello", stdin=b"one\n")

        # The active one dies, and another one goes on.
        first = self.active()
        os.kill(pids[first], signal.SIGKILL)
        self.command("append", "/hello", stdin=b"two\n")
        self.command("create", "/other")
        second = self.active()
        self.assertNotEqual(second, first)

        # It is started again as it was, and gets its place back.
        argv = wait_for("how to start it again", lambda: next(
            (line for line in self.output if f"--master-id={first}" in line), None)).split()
        again = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env=self.environment)
        self.addCleanup(again.wait)
        self.addCleanup(again.kill)
        wait_for(f"{first} to stand by", lambda: self.masters()[first][0] == "STANDBY")
        # One that has just begun to stand by may be refused as a successor for a moment.
        transfer = [binary("leasehold"), "masters", f"--transfer={first}"]
        said = wait_for("the transfer", lambda: subprocess.run(
            transfer, capture_output=True, env=self.environment, timeout=PATIENCE_S,
            check=False).stdout.decode())
        self.assertIn(f"{second} has resigned, {first} is the active master", said)
        self.assertEqual(self.command("cat", "/hello"), b"one\ntwo\n")
        again.kill()
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(PATIENCE_S), 0, self.output)
        self.assert_gone(pids)

        # The directory stays what it is.
        self.assertIn("--masters", self.refused(f"--dir={folder}", status=1))
        self.assertIn("--etcd=1", self.refused(f"--dir={folder}", "--masters=2", "--etcd=3",
                                               status=1))
        self.start("--chunkservers=2", "--masters=2", f"--dir={folder}")
        self.environment["LEASEHOLD_MASTER"] = f"127.0.0.1:{self.port + 1}"
        pids = self.wait_ready()
        self.assertEqual(self.command("cat", "/hello"), b"one\ntwo\n")

        # Nothing outlives it.
        self.process.kill()
        self.assert_gone(pids)

    def test_several_masters_need_etcd(self):
        said = self.refused("--masters=3", status=71,
                            environment=dict(self.environment, PATH=self.folder.name))
        self.assertIn("apt-get install etcd-server", said)
        left = [name for name in os.listdir(self.folder.name) if name.startswith("leasehold-local")]
        self.assertEqual(left, [])

    def test_a_single_masters_directory_stays_so(self):
        folder = os.path.join(self.folder.name, "kept")
        os.makedirs(os.path.join(folder, "master"))
        self.assertIn("a single master", self.refused(f"--dir={folder}", "--masters=3", status=1))

    def test_an_address_in_use_is_named(self):
        self.start("--chunkservers=1")
        pids = self.wait_ready()
        said = self.refused("--chunkservers=1", status=1)
        self.assertIn(f"127.0.0.1:{self.port}", said)
        self.assertTrue(os.path.exists(f"/proc/{pids['master']}"))

    def test_its_servers_do_not_outlive_it(self):
        self.start("--chunkservers=1")
        pids = self.wait_ready()
        self.process.kill()
        self.assert_gone(pids)


if __name__ == "__main__":
    process_cluster.main()
