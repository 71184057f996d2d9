"""A cluster of real processes for tests: start, kill, pause, restart, and compare what is left.

A test must not depend on how fast the machine is, or on what else runs there. So it waits for what
it needs, never for a time in which that should have come; a limit to waiting is there only to end a
test that hangs (PATIENCE_S). What is true only while a term runs gets a term of a minute and more;
what needs the end of a term gets a short one; and where nothing is to fail, nothing is given up
early either (CALM).

The binaries come from Bazel's runfiles (the working directory) or from the folders in
LEASEHOLD_BINARIES (separated by colons).
"""

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

PATIENCE_S = float(os.environ.get("LEASEHOLD_PATIENCE_SECONDS", 120))

# Options of a cluster: nobody is taken for lost because a process got no processor for some time. A
# connection that breaks is noticed at once all the same.
CALM = {
    "session_term": "60s",
    "chunk_term": "60s",
    "master_flags": ("--suspect-after=60s", "--create-timeout=60s", "--ping-timeout=60s"),
    "server_flags": ("--member-timeout=60s", "--ping-timeout=60s"),
}

LOG_START = 8192  # where a chunk's log begins in its file (docs/formats.md)
BATCH_HEADER = struct.Struct("<IIIIQQ")
BATCH_MAGIC = int.from_bytes(b"LHB2", "little")


def binary(name):
    folders = os.environ.get("LEASEHOLD_BINARIES",
                             "client/command:master:chunkserver:sim/command:bench").split(":")
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise FileNotFoundError(f"{name} is not in {folders}")


def use_built(root):
    """What was built in the source tree is run; a test has the programs beside itself."""
    built = os.path.join(root, "bazel-bin")
    if os.path.isdir(built):
        os.environ["LEASEHOLD_BINARIES"] = ":".join(
            os.path.join(built, d) for d in ("client/command", "master", "chunkserver", "bench"))


def _bound(port, shared):
    """A socket that is bound to the port of 127.0.0.1, or None."""
    s = socket.socket()
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)
        s.bind(("127.0.0.1", port))
        return s
    except OSError:
        s.close()
        return None


_reserved = []  # sockets, until this process ends


def _reserve(port):
    """Takes a port, so that nobody else finds it free. False if it is not free.

    The kernel lets a server that asks to share the port, as all servers do, bind it beside a socket
    that shares it and does not listen; to everybody else it is in use, also while that server is
    down. The socket was not shared when it was bound, so no two tests can reserve one port."""
    s = _bound(port, False)
    if s is None:
        return False
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
    server = _bound(port, True)
    if server is None:
        s.close()  # another kernel, where it cannot be kept: it is free at least
        return True
    server.close()
    _reserved.append(s)
    return True


def free_ports(*offsets):
    """The first of a group of ports, so far apart, that nobody uses, outside the range that the
    kernel hands out by itself. They are kept for this process and its children."""
    while True:
        port = random.randrange(20000, 32000)
        if all(_reserve(port + offset) for offset in offsets):
            return port


def free_port():
    return free_ports(0)


def seconds_of(text):
    """Of an option such as --for=10m."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def wait_for(what, condition, timeout=PATIENCE_S, interval=0.05):
    """Waits until condition() is true and returns that; fails after `timeout` seconds by the name
    `what`, which may be a function: it is called then."""
    until = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            name = what() if callable(what) else what
            raise AssertionError(f"after {timeout:.0f} s still not: {name}")
        time.sleep(interval)


# What a test's servers may need at once (each replica reserves room for a chunk), and what must be
# left over at its end: with less, what failed says nothing about Leasehold.
ROOM_BEFORE = 4 << 30
ROOM_AFTER = 256 << 20


def need_room(folder, bytes_needed):
    """Fails with a sentence that says so if the disk of the machine that runs the test is full."""
    free = shutil.disk_usage(folder).free
    if free < bytes_needed:
        raise AssertionError(f"no room on this machine: {folder} has {free >> 20} MiB left, and "
                             f"this test needs {bytes_needed >> 20} MiB")


class Host:
    """Where a process runs: beside the test, on ports that nobody else uses. network.py has hosts
    with addresses of their own."""

    prefix = ()  # of the command line of a process there

    def address(self):
        return f"127.0.0.1:{free_port()}"


def beside(_name):
    """The host of a node, by the node's name; of clients it is that of "clients"."""
    return Host()


class Node:
    """One server process and how to start it again."""

    def __init__(self, name, address, data_dir, argv, log, host=Host()):
        self.name, self.address, self.data_dir = name, address, data_dir
        self.argv, self.log, self.host = argv, log, host
        self.limits = ()  # of processes that start from now on, as prlimit's options
        self.process = None
        self.paused = False

    def start(self):
        self.paused = False
        with open(self.log, "ab") as log:
            # No preexec_fn: with one Python forks, and the handlers that gRPC has for this may
            # end the child, or the test, while another thread opens or closes a channel.
            limited = ("prlimit", *self.limits) if self.limits else ()
            self.process = subprocess.Popen([*self.host.prefix, *limited, *self.argv],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """Returns when every thread of it stands still: a signal takes its time."""
        self.paused = True
        self.signal(signal.SIGSTOP)
        wait_for("the process stands still", self.stands_still, interval=0.002)

    def stands_still(self):
        threads = f"/proc/{self.process.pid}/task"
        states = []
        for thread in os.listdir(threads):
            with open(f"{threads}/{thread}/stat", encoding="ascii", errors="replace") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        return all(state in "TtZX" for state in states)

    def resume(self):
        self.paused = False
        self.signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: as a crash."""
        if self.running():
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def stop(self, timeout=PATIENCE_S):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def serve_metrics(self):
        """From its next start on; then `figure` can be asked."""
        self.metrics = f"127.0.0.1:{free_port()}"
        self.argv.append(f"--metrics-listen={self.metrics}")

    def figure(self, name, label="", tls=None):
        """One of its figures, with the label as it is printed, 0 if there is none yet; `tls`: the
        context, for HTTPS."""
        url = f"{'https' if tls else 'http'}://{self.metrics}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=tls) as reply:
            text = reply.read().decode()
        found = re.search(rf"^{re.escape(name + label)} (\S+)$", text, re.MULTILINE)
        if not found and f"# TYPE {name} " not in text:
            raise AssertionError(f"{self.name} serves no {name}")
        return float(found.group(1)) if found else 0

    def log_text(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()


class Cluster:
    """A master and chunkservers cs1, cs2, ... with short terms, each in a folder of its own."""

    def __init__(self, folder, servers=3, session_term="2s", chunk_term="2s", data_dirs=None,
                 master_flags=(), server_flags=(), limits=(), host=beside):
        self.folder, self.host = folder, host
        self.limits = limits
        self.masters = self._make_masters((data_dirs or {}).get("master"), [
            binary("leasehold-master"), f"--session-term={session_term}",
            f"--chunk-term={chunk_term}", *master_flags])
        self.master = self.masters[0]
        self.master_address = ",".join(m.address for m in self.masters)
        self.servers = {}
        for i in range(1, servers + 1):
            name = f"cs{i}"
            self.servers[name] = self._node(
                name, (data_dirs or {}).get(name),
                [binary("leasehold-chunkserver"), f"--server-id={name}",
                 f"--failure-domain={name}", f"--master={self.master_address}", *server_flags])

    def _make_masters(self, data_dir, argv):
        """One; process_masters.py makes several."""
        return [self._node("master", data_dir, argv)]

    def _node(self, name, data_dir, argv):
        host = self.host(name)
        address = host.address()
        data_dir = data_dir or os.path.join(self.folder, name)
        node = Node(name, address, data_dir,
                    argv + [f"--listen={address}", f"--data-dir={data_dir}"],
                    os.path.join(self.folder, name + ".log"), host)
        node.limits = self.limits
        return node

    def nodes(self):
        return self.masters + list(self.servers.values())

    def begin(self):
        """On etcd masters wait until somebody begins a cluster. Gives what came of that; None:
        there is no etcd."""
        said = [a for a in self.master.argv if a.startswith("--store=etcd:")]
        if not said:
            return None
        flags = [a for a in self.master.argv if a.startswith(("--tls-", "--etcd-")) and
                 not a.startswith("--etcd-quota")]
        return subprocess.run(
            [*self.master.host.prefix, binary("leasehold"), "store", "init",
             said[0].partition("=")[2], *flags], capture_output=True, check=False)

    def start(self):
        begun = self.begin()
        if begun is not None and begun.returncode != 0 and b" already" not in begun.stderr:
            raise AssertionError(f"no cluster begins: {begun.stderr.decode()}")
        for node in self.nodes():
            node.start()
        self.wait_ready()

    def wait_ready(self, timeout=PATIENCE_S):
        """Until every server that runs has a session and is known to hear the master."""
        names = [n.name for n in self.servers.values() if n.running()]

        def ready():
            for node in self.nodes():
                if node.process is not None and node.process.poll() not in (None, -signal.SIGKILL):
                    raise AssertionError(f"{node.name} ended with {node.process.returncode}")
            result = self.run("servers", "--json", "--timeout=10s")
            if result.returncode != 0:
                return False
            live = [s["server_id"] for s in json.loads(result.stdout)["servers"]
                    if s["live"] and s["reachable"] and not s["unheard"]]
            return set(names) <= set(live)

        wait_for("all chunkservers live", ready, timeout)

    def cleanup(self):
        for node in self.nodes():
            if node.process is not None:
                if node.running():
                    node.signal(signal.SIGCONT)
                node.kill()

    # The command.

    def environment(self):
        return dict(os.environ, LEASEHOLD_MASTER=self.master_address,
                    LEASEHOLD_TIMEOUT=f"{PATIENCE_S:.0f}s")

    def run(self, *args, stdin=b"", timeout=300):
        return subprocess.run([binary("leasehold"), *args], input=stdin, capture_output=True,
                              env=self.environment(), timeout=timeout, check=False)

    def command(self, *args, **kwargs):
        """Runs the command, which must succeed; returns its standard output."""
        result = self.run(*args, **kwargs)
        if result.returncode != 0:
            raise AssertionError(f"leasehold {' '.join(args)}: status {result.returncode}: "
                                 f"{result.stderr.decode(errors='replace')}")
        return result.stdout

    def json(self, *args, **kwargs):
        return json.loads(self.command(*args, "--json", **kwargs))

    def leases(self):
        """By path: those of the files' tails."""
        return {lease["path"]: lease for lease in self.json("leases")["leases"]
                if lease["state"] != "EXPIRING"}

    def held_lease(self, path):
        """The lease of the file's tail, once there is one."""
        def held():
            lease = self.leases().get(path)
            return lease if lease and lease["state"] == "HELD" else None
        return wait_for(f"a primary of {path}", held)

    def old_leases(self, path):
        """Those that a file has left behind and that run out."""
        return [lease for lease in self.json("leases")["leases"]
                if lease["path"] == path and lease["state"] == "EXPIRING"]

    def primary(self, path):
        """The server that holds the lease of the file's tail, once there is one."""
        return self.held_lease(path)["primary"]

    def chunks(self, path):
        return self.json("stat", "--chunks", path)["chunk_list"]

    # What is on the disks.

    def chunk_file(self, server, chunk):
        return os.path.join(self.servers[server].data_dir, "chunks", f"{chunk:016x}.chunk")

    def read_log(self, server, chunk):
        """The replica's log as bytes: whole batches from where the log starts."""
        with open(self.chunk_file(server, chunk), "rb") as file:
            file.seek(LOG_START)
            data = file.read()
        at = 0
        while at + BATCH_HEADER.size <= len(data):
            _, magic, size, count, writer, _ = BATCH_HEADER.unpack_from(data, at)
            if magic != BATCH_MAGIC or count == 0 or writer == 0 or at + size > len(data):
                break
            at += size
        return data[:at]

    def replicas_differ(self, path):
        """None if every member of every chunk holds the same bytes, else a sentence."""
        for chunk in self.chunks(path):
            logs = {m["server_id"]: self.read_log(m["server_id"], chunk["chunk"])
                    for m in chunk["members"]}
            lengths = {s: len(log) for s, log in logs.items()}
            if chunk["sealed"] and set(lengths.values()) != {chunk["length"]}:
                return f"chunk {chunk['chunk']} sealed at {chunk['length']}, lengths {lengths}"
            if len(set(logs.values())) > 1:
                return f"chunk {chunk['chunk']}: members differ, lengths {lengths}"
        return None

    def assert_replicas_identical(self, path, timeout=PATIENCE_S):
        """The members settle (a last committed length or seal may be under way)."""
        until = time.monotonic() + timeout
        while True:
            difference = self.replicas_differ(path)
            if difference is None:
                return
            if time.monotonic() > until:
                need_room(self.folder, ROOM_AFTER)
                raise AssertionError(difference)
            time.sleep(0.2)


class Writer:
    """`leasehold append` fed with numbered records at an even pace, and what it acknowledged."""

    RECORDS_PER_TICK = 20
    TICK_S = 0.01

    def __init__(self, cluster, path, number, flags=()):
        self.number = number
        self.sent = 0
        self._random = random.Random(number)
        self._stop = threading.Event()
        self.positions_path = os.path.join(
            cluster.folder, f"writer-{path.replace('/', '_')}-{number}.positions")
        self._positions_file = open(self.positions_path, "wb")
        self._errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*cluster.host("clients").prefix, binary("leasehold"), "append", "--positions",
             "--quiet", *flags, path],
            stdin=subprocess.PIPE, stdout=self._positions_file, stderr=self._errors,
            env=cluster.environment())
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def record(self, index):
        """Deterministic: what record `index` of this writer is."""
        filler = random.Random(self.number << 32 | index)
        return b"%03d %08d %s" % (self.number, index, b"x" * filler.choice((0, 7, 90, 600, 3000)))

    def _feed(self):
        try:
            while not self._stop.wait(self.TICK_S):
                lines = [self.record(self.sent + i) for i in range(self.RECORDS_PER_TICK)]
                self.process.stdin.write(b"\n".join(lines) + b"\n")
                self.process.stdin.flush()
                self.sent += self.RECORDS_PER_TICK
        except (BrokenPipeError, ValueError):
            pass

    def positions(self):
        """The acknowledged records' positions, in the order of the records."""
        with open(self.positions_path, "rb") as file:
            lines = file.read().split(b"\n")
        return [tuple(map(int, line.split(b":"))) for line in lines[:-1]]

    def acknowledged(self):
        with open(self.positions_path, "rb") as file:
            return file.read().count(b"\n")

    def close(self):
        self._errors.close()

    def errors(self):
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def finish(self, timeout=PATIENCE_S):
        """Ends the input and waits until everything is acknowledged; returns the exit status."""
        self._stop.set()
        self._thread.join(timeout)
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(timeout)
        self._positions_file.close()
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._stop.set()
        self._thread.join()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self._positions_file.close()


class ClusterTest(unittest.TestCase):
    """A test with a folder of its own, whose logs are shown when it fails."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="leasehold-", dir=os.environ.get("TEST_TMPDIR"))
        self.cluster = None
        self.writers = []
        self.addCleanup(self._clean_up)
        need_room(self.folder, ROOM_BEFORE)

    def start_cluster(self, metrics=False, **options):
        self.cluster = Cluster(self.folder, **options)
        for node in self.cluster.nodes() if metrics else ():
            node.serve_metrics()
        self.cluster.start()
        return self.cluster

    def _failed(self):
        result = self._outcome.result
        return any(test is self or getattr(test, "test_case", None) is self
                   for test, _ in result.failures + result.errors)

    def _clean_up(self):
        for writer in self.writers:
            if writer.process.poll() is None:
                writer.kill()
            writer.close()
        if self.cluster is not None:
            self.cluster.cleanup()
            if self._failed():
                self._show_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _show_logs(self):
        for node in self.cluster.nodes():
            lines = node.log_text().splitlines()
            print(f"---- {self.id()}: {node.name}, last lines of {len(lines)}", file=sys.stderr)
            print("\n".join(lines[-60:]), file=sys.stderr)
        outputs = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if outputs:
            for node in self.cluster.nodes():
                shutil.copy(node.log, os.path.join(outputs, f"{self.id()}.{node.name}.log"))

    # Writers and what they leave behind.

    def start_writers(self, path, count, flags=()):
        self.writers = [Writer(self.cluster, path, i, flags) for i in range(count)]
        self.await_progress(100)

    def await_progress(self, records, timeout=PATIENCE_S):
        """Until every writer has so many more records acknowledged."""
        goals = [(w, w.acknowledged() + records) for w in self.writers]

        def reached():
            for w, _ in goals:
                if w.process.poll() is not None:
                    need_room(self.folder, ROOM_AFTER)
                    self.fail(f"writer {w.number} ended early with {w.process.returncode}: "
                              f"{w.errors()}")
            return all(w.acknowledged() >= goal for w, goal in goals)

        wait_for(f"{records} more records acknowledged by each writer", reached, timeout, 0.1)

    def finish_writers(self):
        for w in self.writers:
            status = w.finish()
            self.assertEqual(status, 0, f"writer {w.number}: {w.errors()}")
            self.assertEqual(w.acknowledged(), w.sent, f"writer {w.number}")

    def records(self, path):
        """Each (position, record) as `cat` reads it, one after another."""
        cat = subprocess.Popen([binary("leasehold"), "cat", "--positions", path],
                               stdout=subprocess.PIPE, env=self.cluster.environment())
        with cat.stdout:
            for line in cat.stdout:
                position, record = line[:-1].split(b"\t", 1)
                yield tuple(map(int, position.split(b":"))), record
        self.assertEqual(cat.wait(), 0, "cat")

    def read_positions(self, path):
        return list(self.records(path))

    def check_file(self, path, killed=()):
        """Acknowledged records all there, once, in order, where they were said to be; replicas
        byte-identical. Of a killed writer a further run of records may be there, in order."""
        need_room(self.folder, ROOM_AFTER)
        writers = {w.number: w for w in self.writers}
        acknowledged = {w.number: w.positions() for w in self.writers}
        found = dict.fromkeys(writers, 0)
        last = (-1, 0)
        for position, record in self.records(path):
            self.assertGreater(position, last, "positions rise")
            last = position
            match = re.match(rb"(\d{3}) (\d{8}) ", record[:13])
            self.assertIsNotNone(match, record[:40])
            number = int(match.group(1))
            i = found[number]
            where = f"writer {number}, record {i}, at {position}"
            self.assertTrue(record == writers[number].record(i), f"{where}: {record[:40]}")
            if i < len(acknowledged[number]):
                self.assertEqual(position, acknowledged[number][i], where)
            found[number] = i + 1
        for number, count in found.items():
            if number in killed:
                self.assertGreaterEqual(count, len(acknowledged[number]))
            else:
                self.assertEqual(count, len(acknowledged[number]), f"writer {number}")
        self.cluster.assert_replicas_identical(path)
        return sum(found.values())


class _Beside:
    """A test that runs in a process of its own."""

    def __init__(self, name):
        self.name = name
        self._folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self._output = open(os.path.join(self._folder.name, "output"), "w+b")
        self._process = subprocess.Popen(
            [sys.executable, sys.argv[0], name], stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=subprocess.STDOUT, env=dict(os.environ, TEST_TMPDIR=self._folder.name))

    def succeeded(self):
        """Waits for it, and shows what it printed."""
        status = self._process.wait()
        self._output.seek(0)
        sys.stderr.write(self._output.read().decode(errors="replace"))
        self._output.close()
        self._folder.cleanup()
        return status == 0


def main(beside=()):
    """Runs the tests of a file one after another. Those of `beside` ("Class.test") wait for most of
    their time: each runs in a process of its own, at the same time as the others."""
    sys.dont_write_bytecode = True
    if len(sys.argv) > 1 or not beside:
        unittest.main(verbosity=2)
    module = sys.modules["__main__"]
    rest = unittest.TestSuite()
    found = set()
    for group in unittest.defaultTestLoader.loadTestsFromModule(module):
        for test in group:
            name = test.id().split(".", 1)[1]
            if name in beside:
                found.add(name)
            else:
                rest.addTest(test)
    if found != set(beside):
        sys.exit(f"there is no test {sorted(set(beside) - found)}")
    others = [_Beside(name) for name in beside]
    passed = unittest.TextTestRunner(verbosity=2).run(rest).wasSuccessful()
    results = [other.succeeded() for other in others]
    sys.exit(not (passed and all(results)))
