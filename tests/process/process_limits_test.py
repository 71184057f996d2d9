#!/usr/bin/python3
"""What peers can take of a server, and what is left to others meanwhile: few descriptors, many
connections, half messages, cancelled calls, replies that nobody takes. Beside each of it a healthy
appender goes on, and nothing that was acknowledged is lost."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import process_cluster
from process_attacker import Attacker
from process_cluster import CALM, PATIENCE_S, ClusterTest, Node, binary, free_port, wait_for
from process_wire import load_schema

PATH = "/limits/log"
MIB = 1 << 20

CREATE = b"/leasehold.Master/Create"
APPEND = b"/leasehold.ChunkServer/Append"
READ = b"/leasehold.ChunkServer/Read"
WATCH = b"/grpc.health.v1.Health/Watch"


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def resident_mib(node):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) >> 10


class Limits(ClusterTest):

    def start(self, flags=(), descriptors=None, server_flags=()):
        """Three servers and the primary of PATH, with an appender at work."""
        calm = dict(CALM)
        calm["server_flags"] += tuple(server_flags)
        self.cluster = process_cluster.Cluster(self.folder, **calm)
        for node in self.cluster.nodes():
            node.argv += list(flags)
            node.serve_metrics()
            if descriptors is not None:
                node.argv = ["/bin/sh", "-c", f'ulimit -n {descriptors}; exec "$0" "$@"',
                             *node.argv]
        self.cluster.start()
        self.cluster.command("create", PATH)
        self.start_writers(PATH, 1)
        self.primary = self.cluster.servers[self.cluster.primary(PATH)]
        self.master = self.cluster.master
        self.attackers = []
        self.addCleanup(self.hang_up)

    def hang_up(self):
        for attacker in self.attackers:
            attacker.close()
        self.attackers = []

    def connect(self, node, **options):
        attacker = Attacker(node.address, **options)
        self.attackers.append(attacker)
        return attacker

    def assert_well(self):
        """Nobody ended, appends go on, and the file is what was acknowledged."""
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), f"{node.name} ended")
        self.await_progress(200)
        self.finish_writers()
        self.check_file(PATH)

    def assert_gives_back(self, node, mib):
        wait_for(f"{node.name} to be back at {mib} MiB", lambda: resident_mib(node) <= mib)


class ConnectionsTest(Limits):

    def test_idle_connections_make_room(self):
        self.start(descriptors=150)
        for node in (self.primary, self.master):
            # A new one may be turned away, or closed: that is the point.
            for _ in range(200):
                with contextlib.suppress(OSError):
                    self.connect(node)
            wait_for("idle connections to be closed",
                     lambda n=node: n.figure("leasehold_connections_cut_total",
                                                '{why="idle"}') > 0)
            self.assertLess(node.figure("leasehold_connections"), 60)
            self.cluster.command("append", "--create", f"{PATH}.{node.name}", stdin=b"x\n")
        self.hang_up()
        self.assert_well()

    def test_a_shortage_leaves_nobody_deaf(self):
        self.start()
        for node in (self.primary, self.master):
            # Less than it thought it had: the descriptors run out for good reasons or bad ones.
            before = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
            used = len(os.listdir(f"/proc/{node.process.pid}/fd"))
            resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (used + 8, before[1]))
            for _ in range(40):
                with contextlib.suppress(OSError):
                    self.connect(node)
            self.await_progress(100)
            self.hang_up()
            resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, before)
            # Before, nobody was heard from here on, for ever.
            heard = self.connect(node)
            self.assertIsNotNone(next(heard.frames(), None), f"{node.name} is deaf")
        self.assert_well()

    def test_streams_are_no_reason_to_be_cut_for_others(self):
        # Connections with a call are not idle: who has one keeps it, and a new one is turned away.
        self.start(flags=["--max-connections=24"])
        busy = []
        for _ in range(60):
            with contextlib.suppress(OSError):
                attacker = self.connect(self.primary)
                attacker.call(WATCH, b"")
                busy.append(attacker)
                time.sleep(0.01)
        wait_for("some to be turned away",
                 lambda: self.primary.figure("leasehold_connections_refused_total") > 0)
        self.await_progress(200)
        self.hang_up()
        self.cluster.command("cat", PATH)
        self.assert_well()

    def test_too_few_descriptors(self):
        for name in ("leasehold-master", "leasehold-chunkserver"):
            for limit, flags, least in ((90, [], 112), (111, [], 112), (112, [], None),
                                        (127, ["--max-connections=32"], 128),
                                        (128, ["--max-connections=32"], None)):
                port = free_port()
                with subprocess.Popen(
                        ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"', binary(name),
                         f"--listen=127.0.0.1:{port}", f"--data-dir={self.folder}/{name}", *flags],
                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                    if least is None:
                        wait_for(f"{name} with {limit} to answer", lambda: listens(port))
                        process.terminate()
                    said = process.stderr.read().decode()
                    self.assertEqual(process.wait(PATIENCE_S), 71 if least else 0, said)
                if least:
                    self.assertIn(f"this process may open {limit} files", said)
                    self.assertIn(f"it needs at least {least}:", said)

    def test_a_deaf_server_ends(self):
        self.start(flags=["--deaf-after=3s"])
        node = next(n for n in self.cluster.servers.values() if n is not self.primary)
        # Its listening socket is closed from outside, as by a fault in a library.
        listener = self.listener_of(node)
        gdb = subprocess.run(["gdb", "-p", str(node.process.pid), "-batch",
                              "-ex", f"call (int)shutdown({listener}, 2)"],
                             capture_output=True, check=False)
        if b"$1 = 0" not in gdb.stdout:
            self.skipTest("no gdb, or it may not attach")
        self.assertEqual(node.process.wait(PATIENCE_S), 75)
        self.assertIn("deaf: for", node.log_text())
        node.start()
        self.cluster.wait_ready()
        self.assert_well()

    @staticmethod
    def listener_of(node):
        """The descriptor that it listens on."""
        port = int(node.address.rsplit(":", 1)[1])
        inodes = set()
        for family in ("tcp", "tcp6"):
            with open(f"/proc/net/{family}", encoding="ascii") as table:
                inodes |= {line.split()[9] for line in table.readlines()[1:]
                           if line.split()[3] == "0A" and int(line.split()[1][-4:], 16) == port}
        folder = f"/proc/{node.process.pid}/fd"
        for fd in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{fd}")
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return int(fd)
        raise AssertionError("it does not listen")


class MemoryTest(Limits):

    def test_half_messages(self):
        self.start(flags=["--wire-memory=64MiB"], server_flags=["--pending-bytes=64MiB"])
        for node, method in ((self.master, CREATE), (self.primary, APPEND)):
            attackers = [self.connect(node) for _ in range(4)]
            threads = [threading.Thread(target=a.half_messages, args=(method, 20, 33 * MIB, 8))
                       for a in attackers]
            peak = 0
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                peak = max(peak, resident_mib(node))
                time.sleep(0.05)
            self.hang_up()
            # It was a GiB and more.
            self.assertLess(peak, 500, node.name)
            self.assert_gives_back(node, 100)
        self.assert_well()

    def test_calls_that_are_cancelled_at_once(self):
        self.start()
        for node, method in ((self.master, CREATE), (self.primary, APPEND)):
            over = threading.Event()

            def attack(node=node, method=method, over=over):
                while not over.is_set():
                    with contextlib.suppress(OSError):
                        attacker = Attacker(node.address)
                        with contextlib.closing(attacker):
                            while not over.is_set():
                                attacker.resets(method, 5000)
            threads = [threading.Thread(target=attack) for _ in range(4)]
            for thread in threads:
                thread.start()
            peak = 0
            until = time.monotonic() + 5
            while time.monotonic() < until:
                peak = max(peak, resident_mib(node))
                time.sleep(0.05)
            self.await_progress(100)
            self.cluster.command("ls", "/")
            over.set()
            for thread in threads:
                thread.join()
            self.assertLess(peak, 300, node.name)
            self.assertGreater(node.figure("leasehold_connections_cut_total",
                                           '{why="cancelling"}'), 0)
        for name in self.cluster.servers:
            self.assertNotIn("the connection to the master", self.cluster.servers[name].log_text(),
                             "a session broke")
        self.assert_well()

    def test_replies_that_nobody_takes(self):
        self.start(flags=["--reply-memory=64MiB"])
        wait_for("a megabyte", lambda: self.primary.figure(
            "leasehold_chunkserver_ordered_bytes_total") > MIB)
        chunk = self.cluster.held_lease(PATH)["chunk"]
        schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                             os.path.join(self.folder, "schema"))
        request = schema.ReadRequest(chunk=chunk, max_bytes=800000).SerializeToString()
        for _ in range(20):
            attacker = self.connect(self.primary, window=0)
            for _ in range(100):
                attacker.call(READ, request)
            # It lives; it only takes no replies.
            threading.Thread(target=attacker.answer_pings, args=(60,), daemon=True).start()
        peak = 0
        until = time.monotonic() + 5
        while time.monotonic() < until:
            peak = max(peak, resident_mib(self.primary))
            time.sleep(0.05)
        # It was 1.6 GB.
        self.assertLess(peak, 400)
        self.cluster.command("cat", PATH)
        wait_for("replies to be dropped",
                 lambda: self.primary.figure("leasehold_replies_dropped_total") > 0)
        wait_for("room for others",
                 lambda: self.primary.figure("leasehold_replies_waiting_bytes") < 40 * MIB)
        self.hang_up()
        self.assert_gives_back(self.primary, 150)
        self.assert_well()

    def test_too_many_calls(self):
        self.start(flags=["--max-calls=64"])
        for _ in range(8):
            attacker = self.connect(self.master)
            for _ in range(16):
                attacker.call(WATCH, b"")
        wait_for("calls to be refused",
                 lambda: self.master.figure("leasehold_calls_refused_total") > 0)
        self.await_progress(100)
        self.hang_up()
        self.assert_well()


class StartTest(ClusterTest):
    """How a server's process begins, and refuses to."""

    def server(self, *flags, master=False):
        name = "leasehold-master" if master else "leasehold-chunkserver"
        return [binary(name), f"--data-dir={self.folder}/{name}", *flags]

    def test_closed_standard_descriptors(self):
        for master in (True, False):
            address = f"127.0.0.1:{free_port()}"
            argv = self.server(f"--listen={address}", master=master)
            process = subprocess.Popen(["/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *argv])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            folder = f"{self.folder}/{os.path.basename(argv[0])}"
            wait_for("it to listen", lambda a=address: self.connects(a))
            for fd in range(3):
                self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE_S), 0)
            with open(f"{folder}/LOCK", "rb") as lock:
                self.assertNotIn(b"INFO", lock.read())

    @staticmethod
    def connects(address):
        with contextlib.suppress(OSError):
            Attacker(address).close()
            return True
        return False

    def refused(self, *flags, master=False):
        result = subprocess.run(self.server(*flags, master=master), capture_output=True,
                                timeout=PATIENCE_S, check=False)
        return result.returncode, result.stderr.decode()

    def test_listening_on_somebody_elses_address(self):
        for master in (True, False):
            code, text = self.refused("--listen=192.0.2.1:7400", master=master)
            self.assertEqual(code, 69, text)
            self.assertIn("is not an address of this machine", text)

    def test_advertising_what_nobody_can_reach(self):
        for address in ("0.0.0.0:1", "[::]:1", ":7500", "10.0.0.1:0", "10.0.0.1", "10.0.0.1:",
                        "10.0.0.1:x", "10.0.0.1:70000", "unix:"):
            code, text = self.refused("--listen=127.0.0.1:0", f"--advertise={address}")
            self.assertEqual(code, 64, address + ": " + text)
            self.assertIn(f"--advertise {address} is not where others can connect to", text)

    def test_a_socket_that_was_removed_is_told(self):
        folder = tempfile.mkdtemp(prefix="lh")  # a socket's path is short
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "socket")
        node = Node("master", f"unix:{path}", f"{self.folder}/m",
                    [binary("leasehold-master"), f"--listen=unix:{path}",
                     f"--data-dir={self.folder}/m", "--deaf-after=1s"],
                    os.path.join(self.folder, "m.log"))
        node.start()
        self.addCleanup(node.kill)
        wait_for("the socket", lambda: os.path.exists(path))
        os.unlink(path)
        wait_for("a word about it", lambda: "was removed" in node.log_text())
        self.assertTrue(node.running())


if __name__ == "__main__":
    process_cluster.main(beside=[
        "ConnectionsTest.test_a_deaf_server_ends",
        "MemoryTest.test_half_messages",
        "MemoryTest.test_replies_that_nobody_takes",
    ])
