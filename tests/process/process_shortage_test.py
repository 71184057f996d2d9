#!/usr/bin/python3
"""No threads and no descriptors: a program that cannot get one of those that it begins with ends
with a status and a sentence, or does without. It never ends by a signal, and nothing is left of the
shortage when it is over.

Each program is started once for each thread and descriptor that it takes, with shortage_faults.c
below it, until it takes no more; and with each limit of tasks in a cgroup, where there are any."""

import itertools
import os
import signal
import subprocess
import time

import process_cluster
from cgroups import Group
from process_cluster import CALM, PATIENCE_S, ClusterTest, binary, free_port
from process_compile import compile_program
from process_tls_test import Certs, secure

ONE_EACH = ("thread:{}", "epoll:{}", "event:{}", "timer:{}")
ONE = (*ONE_EACH, "thread:{}:on")
SYSTEM = 71
LH_ERR_SYSTEM, LH_ERR_UNAVAILABLE = b"-34", b"-4"
# What each sentence says: which limit is to be raised.
ADVICE = (b"raise the limit of tasks", b"raise the limit of open files")
# A program takes no more than so many.
MOST = 60


def preloaded():
    for folder in ("tests/process", "bazel-bin/tests/process"):
        path = os.path.join(folder, "libshortage_faults.so")
        if os.path.exists(path):
            return os.path.abspath(path)
    raise FileNotFoundError("libshortage_faults.so")


class ShortageTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.hit = os.path.join(self.folder, "hit")
        self.tried = []
        self.group = None  # with a limit of tasks

    def environment(self, rule):
        if self.group is not None:
            return dict(os.environ)
        return dict(os.environ, LD_PRELOAD=preloaded(), SHORTAGE=rule, SHORTAGE_HIT=self.hit)

    def is_hit(self):
        """Whether there was a shortage since the last rule began."""
        if self.group is not None:
            return self.group.read("pids.events").split()[1] != self.hits_before
        return os.path.exists(self.hit)

    def begin(self, kind, n):
        """The rule."""
        if self.group is None:
            if os.path.exists(self.hit):
                os.unlink(self.hit)
        else:
            self.hits_before = self.group.read("pids.events").split()[1]
            self.group.write("pids.max", str(n))
        return kind.format(n)

    def prefix(self):
        return () if self.group is None else self.group.prefix

    def for_each(self, run, kinds=ONE, begin=1):
        """`run` gets each rule, until one has taken nothing away."""
        for kind in kinds:
            for n in itertools.count(begin):
                rule = self.begin(kind, n)
                self.assertLess(n, MOST, "it takes no end of them")
                with self.subTest(rule=rule):
                    run(rule)
                self.tried.append(rule)
                if not self.is_hit():
                    break

    def for_each_limit(self, run):
        """The same, with each limit of tasks."""
        if self.group is None:
            self.for_each(run, ("tasks:{}",), 0)
        else:
            self.for_each(run, ("pids.max={}",), 2)

    def check_end(self, rule, status, text):
        """It was refused, and says why; or it did without."""
        refused = any(a in text for a in ADVICE)
        if refused and status == -signal.SIGTERM:
            status = SYSTEM  # it was about to end; a second reason to stop ends it at once
        self.assertIn(status, (0, SYSTEM), (rule, status, text))
        if status == SYSTEM:
            self.assertTrue(self.is_hit(), (rule, text))
            self.assertTrue(refused, (rule, text))
        self.assertNotIn(b"assertion failed", text)

    # Servers.

    def start_and_stop(self, rule, name, marker, flags):
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as out:
            server = subprocess.Popen(
                [*self.prefix(), binary(name), f"--listen=127.0.0.1:{free_port()}", *flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment(rule))
        try:
            until = time.monotonic() + PATIENCE_S
            text = b""
            while server.poll() is None and marker not in text:
                self.assertLess(time.monotonic(), until, (rule, text))
                time.sleep(0.01)
                with open(log, "rb") as file:
                    text = file.read()
            server.send_signal(signal.SIGTERM)
            status = server.wait(PATIENCE_S)
        finally:
            server.kill()
            server.wait()
        with open(log, "rb") as file:
            self.check_end(rule, status, file.read())

    def run_server(self, name, marker, *flags):
        data = f"--data-dir={os.path.join(self.folder, name)}"

        def run(rule):
            self.start_and_stop(rule, name, marker, (data, *flags))
        if self.group is None:
            self.for_each(run)
        self.for_each_limit(run)

    def test_master(self):
        self.run_server("leasehold-master", b" ready on ")

    def test_master_with_a_page_over_grpc(self):
        self.run_server("leasehold-master", b" ready on ", "--transport=grpc",
                        f"--http-listen=127.0.0.1:{free_port()}",
                        f"--metrics-listen=127.0.0.1:{free_port()}")

    def test_chunkserver(self):
        for flag in "--uring", "--no-uring":
            self.run_server("leasehold-chunkserver", b" incarnation ", "--server-id=cs1",
                            f"--master=127.0.0.1:{free_port()}", flag)

    # Clients.

    def list_files(self):
        for transport in "wire", "grpc":
            def run(rule, transport=transport):
                result = subprocess.run(
                    [*self.prefix(), binary("leasehold"), "ls", "--master",
                     self.cluster.master_address],
                    capture_output=True, check=False, timeout=PATIENCE_S,
                    env=dict(self.environment(rule), LEASEHOLD_TRANSPORT=transport))
                self.check_end(rule, result.returncode, result.stderr)
            if self.group is None:
                self.for_each(run)
            self.for_each_limit(run)

    def test_command(self):
        self.start_cluster(servers=1, **CALM)
        self.list_files()

    def test_limits_of_tasks_of_a_cgroup(self):
        try:
            group = Group("pids", "pids.max")
        except PermissionError as error:
            self.skipTest(str(error))
        self.addCleanup(group.remove)
        self.start_cluster(servers=1, **CALM)
        self.group = group
        self.test_master()
        self.test_chunkserver()
        self.list_files()

    def test_servers_at_their_limit_of_tasks_go_on(self):
        """The kernel has threads of its own for io_uring, which count: without them the disk is not
        broken."""
        groups = {}

        def host(name):
            node = process_cluster.Host()
            if name != "clients":
                groups[name] = Group("pids", "pids.max")
                node.prefix = groups[name].prefix
            return node

        def remove():
            self.cluster.cleanup()
            for group in groups.values():
                group.remove()
        try:
            Group("pids", "pids.max").remove()
        except PermissionError as error:
            self.skipTest(str(error))
        self.start_cluster(servers=3, host=host, **CALM)
        self.addCleanup(remove)
        for group in groups.values():
            group.write("pids.max", group.read("pids.current").strip())
        for durability in "synced", "buffered":
            path = "/" + durability
            self.cluster.command("create", "--replication=3", f"--durability={durability}", path)
            records = b"".join(b"%0999d\n" % i for i in range(2000))
            self.cluster.command("append", path, stdin=records)
            self.assertEqual(self.cluster.command("cat", path), records)
            self.cluster.assert_replicas_identical(path)
        limited = [n for n, g in groups.items() if g.read("pids.events").split()[1] != "0"]
        self.assertTrue(any(name != "master" for name in limited), limited)
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), node.name)
            self.assertNotIn("the disk cannot be written", node.log_text())

    # Programs.

    def build(self):
        with open("tests/process/opens.c", encoding="utf-8") as file:
            return compile_program(self.folder, "opens", file.read(), "-std=gnu17", "-Wall",
                                   "-Werror")

    def open_clusters(self, transport, *kinds, tls_dir=""):
        """The master is asked by the name of its host, so that this is looked up."""
        program = self.build()
        self.cluster.command("create", "--replication=1", "/there")
        address = self.cluster.master_address.replace("127.0.0.1", "localhost")

        def run(rule):
            result = subprocess.run(
                [program, address, transport, tls_dir], capture_output=True, check=False,
                timeout=2 * PATIENCE_S, env=dict(self.environment(rule), SHORTAGE_USE="/there"))
            self.assertEqual((result.returncode, result.stderr), (0, b""), (rule, result))
            error, _, text = result.stdout.partition(b" ")
            self.assertIn(error, (b"0", LH_ERR_SYSTEM), (rule, text))
            if error != b"0":
                self.assertTrue(self.is_hit(), (rule, text))
                self.assertTrue(any(a in text for a in ADVICE), (rule, text))
        self.for_each(run, kinds)

    def test_library_without_descriptors(self):
        """Also those that another library opens, and those for connections."""
        program = self.build()
        self.start_cluster(servers=1, **CALM)
        self.cluster.command("create", "--replication=1", "/there")
        for transport in "wire", "grpc":
            for most in itertools.count(4):  # the dynamic linker takes one
                self.assertLess(most, MOST)
                result = subprocess.run(
                    ["prlimit", f"--nofile={most}:1024", program, self.cluster.master_address,
                     transport, ""], capture_output=True, check=False, timeout=PATIENCE_S,
                    env=dict(os.environ, SHORTAGE_USE="/there", SHORTAGE_WAIT_MS="200"))
                self.assertEqual((result.returncode, result.stderr), (0, b""), (most, result))
                error, _, text = result.stdout.partition(b" ")
                if error == b"0":
                    break
                self.assertIn(error, (LH_ERR_SYSTEM, LH_ERR_UNAVAILABLE), (most, text))
                self.assertIn(b"Too many open files", text)

    def test_library(self):
        self.start_cluster(servers=1, **CALM)
        self.open_clusters("wire", *ONE_EACH)
        self.assertIn("thread:4", self.tried)  # timer, network, callbacks, the look-up

    def test_library_over_grpc(self):
        self.start_cluster(servers=1, **CALM)
        self.open_clusters("grpc", *ONE_EACH)

    def test_library_that_falls_back_to_grpc(self):
        self.start_cluster(servers=1, **dict(
            CALM, master_flags=(*CALM["master_flags"], "--transport=grpc")))
        self.open_clusters("wire", *ONE_EACH)

    def test_library_with_tls(self):
        certs = Certs(os.path.join(self.folder, "certs"))
        self.cluster = process_cluster.Cluster(self.folder, servers=1, **CALM)
        secure(self.cluster, certs)
        self.cluster.start()
        self.open_clusters("wire", *ONE_EACH, tls_dir=certs.dir_of("admin/test"))
        self.assertIn("thread:5", self.tried)  # of handshakes, too


if __name__ == "__main__":
    process_cluster.main()
