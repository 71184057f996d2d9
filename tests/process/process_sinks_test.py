#!/usr/bin/python3
"""Where the programs' lines go: a pipe that nobody reads, one whose reader has ended, and files
that may not grow. No program stands still for it, or ends: what it is for goes on."""

import fcntl
import os
import re
import resource
import signal
import subprocess
import urllib.error
import urllib.request

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest, binary, wait_for
from process_threads import has_ended, stopped_thread, timer_thread

PATH = "/sinks/log"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"  # a line of a log begins so


class Pipe:
    """A small pipe: few lines fill it."""

    def __init__(self):
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 4096)

    def end_reader(self):
        os.close(self.reading)
        self.reading = None

    def read(self):
        """What is in it."""
        os.set_blocking(self.reading, False)
        text = b""
        try:
            while piece := os.read(self.reading, 65536):
                text += piece
        except BlockingIOError:
            pass
        return text.decode(errors="replace")

    def fill(self):
        """Not a byte fits in any more. For the writer it stays a pipe that blocks."""
        writer = os.open(f"/proc/self/fd/{self.writing}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"full\n")
        except BlockingIOError:
            os.close(writer)

    def close(self):
        for fd in (self.reading, self.writing):
            if fd is not None:
                os.close(fd)
        self.reading = self.writing = None


def status(address, path):
    """The HTTP status; an answer within a second, or none."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


class SinksTest(ClusterTest):

    files = 0

    def start(self, *flags):
        """A cluster whose servers' lines go into a pipe each."""
        self.cluster = process_cluster.Cluster(self.folder, **CALM)
        self.pipes = {}
        for node in self.cluster.nodes():
            node.argv += flags
            node.serve_metrics()
            pipe = self.pipes[node.name] = Pipe()
            self.addCleanup(pipe.close)
            node.log = f"/proc/{os.getpid()}/fd/{pipe.writing}"
        self.cluster.start()
        for node in self.cluster.nodes():
            node.log = os.devnull  # what a failed test shows

    def use(self, times=1):
        """Many lines in the logs, at --log-level=debug; the commands come to their end."""
        for _ in range(times):
            self.files += 1
            path = f"{PATH}{self.files}"
            self.cluster.command("append", "--create", path, stdin=b"record\n")
            self.assertEqual(self.cluster.command("cat", path), b"record\n")

    def test_servers_outlive_the_reader_of_their_lines(self):
        self.start("--log-level=debug")
        for pipe in self.pipes.values():
            pipe.end_reader()
        self.use(5)
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), f"{node.name} ended")
            self.assertGreater(node.figure("leasehold_log_lines_dropped_total"), 0)
        for node in self.cluster.nodes():
            self.assertEqual(node.stop(), 0)

    def test_servers_do_not_wait_for_the_reader_of_their_lines(self):
        config = os.path.join(self.folder, "config")
        with open(config, "w", encoding="ascii"):
            pass
        self.start("--log-level=debug", f"--config={config}")
        for pipe in self.pipes.values():
            pipe.fill()
        master = self.cluster.master
        self.use()
        # More than is kept for a reader that comes back: each says that it takes a restart.
        number = 0

        def dropped():
            nonlocal number
            number += 1
            with open(config, "w", encoding="ascii") as file:
                file.write(f"http-host = {number:01800}\n")
            master.signal(signal.SIGHUP)
            return master.figure("leasehold_log_lines_dropped_total") > 0
        wait_for("lines to be dropped", dropped, interval=0.01)
        self.assertEqual(status(master.metrics, "/healthz"), 200)
        self.assertEqual(status(master.metrics, "/readyz"), 200)
        pipe, text = self.pipes["master"], ""

        def said():
            nonlocal text
            text += pipe.read()
            return "lines were dropped" in text and self.use() is None
        wait_for("the number of dropped lines to be said", said)
        *lines, _unfinished = text.split("\n")
        for line in lines:
            if line != "full":  # whole ones
                self.assertRegex(line, f"^{TIME} ")
                self.assertEqual(len(re.findall(TIME, line)), 1, line)
        # They end in order, also while nobody reads.
        for node in self.cluster.nodes():
            self.pipes[node.name].fill()
        for node in self.cluster.nodes():
            node.signal(signal.SIGHUP)
        self.use()
        for node in self.cluster.nodes():
            self.assertEqual(node.stop(), 0, node.name)

    def test_wrong_options_are_said_without_waiting(self):
        config = os.path.join(self.folder, "config")
        with open(config, "w", encoding="ascii"):
            pass
        self.start(f"--config={config}", "--log-level=info")
        for pipe in self.pipes.values():
            pipe.fill()
        with open(config, "w", encoding="ascii") as file:
            file.write("log-level = loud\n")
        for node in self.cluster.nodes():
            node.signal(signal.SIGHUP)
        self.use()
        for node in self.cluster.nodes():
            self.assertEqual(node.stop(), 0, node.name)

    def test_a_lock_and_its_program_outlive_the_reader(self):
        self.start_cluster(session_term="2s")
        master = self.cluster.master
        for ending in (True, False):
            pipe = Pipe()
            self.addCleanup(pipe.close)
            mark = os.path.join(self.folder, f"mark{ending}")
            # The program's own output is elsewhere; it finds its signals as if run by the shell.
            script = ('exec 2>"$0.err"; grep -E "^Sig(Ign|Blk)" /proc/self/status >"$0.signals"; '
                      'echo on >"$0"; while [ ! -e "$0.end" ]; do sleep 0.05; done; exit 7')
            lock = subprocess.Popen(
                [binary("leasehold"), "lock", "--term=60s", "/sinks/lock", "--",
                 "sh", "-c", script, mark],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=pipe.writing,
                env=self.cluster.environment())
            self.addCleanup(lock.kill)
            wait_for("the program", lambda m=mark: os.path.exists(m))
            if ending:
                os.close(pipe.writing)
                pipe.writing = None
                pipe.end_reader()
            else:
                pipe.fill()
            # It says so: the master does not answer, and answers again.
            master.kill()
            master.start()
            self.cluster.wait_ready()
            # And more, of one who waits.
            waiter = subprocess.Popen(
                [binary("leasehold"), "lock", "/sinks/lock", "--", "true"],
                stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=self.cluster.environment())
            self.addCleanup(waiter.kill)
            wait_for("the lock's session to be back", lambda: any(
                s["linked"] and s["locks"] for s in self.cluster.json("sessions")["sessions"]))
            self.assertIsNone(lock.poll(), "lock ended with its program")
            with open(mark + ".end", "w", encoding="ascii"):
                pass
            self.assertEqual(lock.wait(PATIENCE_S), 7)
            self.assertEqual(waiter.wait(PATIENCE_S), 0)
            with open(mark + ".signals", encoding="ascii") as file:
                for line in file:
                    found = int(line.split()[1], 16)
                    for number in (signal.SIGPIPE, signal.SIGXFSZ):
                        self.assertFalse(found >> (number - 1) & 1, line)

    def test_servers_outlive_a_limit_to_files(self):
        self.start_cluster(metrics=True, **CALM)
        self.use()
        for node in self.cluster.nodes():
            resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (1 << 12, -1))

        def not_ready():
            self.cluster.run("create", "--timeout=2s", "/sinks/other")
            self.cluster.run("append", "--timeout=2s", "--give-up=2s", f"{PATH}1", stdin=b"more\n")
            return status(self.cluster.master.metrics, "/readyz") == 503
        wait_for("the master not to be ready", not_ready)
        for node in self.cluster.nodes():
            self.assertNotEqual(node.process.poll(), -signal.SIGXFSZ, node.name)
        self.assertTrue(self.cluster.master.running())
        resource.prlimit(self.cluster.master.process.pid, resource.RLIMIT_FSIZE, (-1, -1))
        wait_for("the master to write again",
                 lambda: status(self.cluster.master.metrics, "/readyz") == 200)


class HangsTest(ClusterTest):

    def test_a_server_ends_though_something_hangs(self):
        self.start_cluster(server_flags=("--stop-timeout=1s",))
        server = self.cluster.servers["cs1"]
        thread = timer_thread(server.process.pid)
        with stopped_thread(thread) as stopped:
            if not stopped:
                self.skipTest("threads cannot be traced here")
            server.signal(signal.SIGTERM)
            wait_for("it to end", lambda: has_ended(thread), interval=0.5)
        self.assertEqual(server.process.wait(PATIENCE_S), 70)
        self.assertIn("something has not ended within 21 s", server.log_text())


class OutputTest(ClusterTest):

    def test_a_command_ends_with_the_reader_of_its_output(self):
        """As other tools do: quietly, as if by the signal that it ignores otherwise."""
        self.start_cluster(**CALM)
        self.cluster.command("append", "--create", PATH, stdin=b"x" * 1000 + b"\n")
        for args in (("ls", "/"), ("cat", PATH), ("--help",), ("servers", "--json")):
            reading, writing = os.pipe()
            os.close(reading)
            result = subprocess.run([binary("leasehold"), *args], stdin=subprocess.DEVNULL,
                                    stdout=writing, stderr=subprocess.PIPE,
                                    env=self.cluster.environment(), check=False)
            os.close(writing)
            self.assertEqual(result.returncode, -signal.SIGPIPE, (args, result.stderr))
            self.assertEqual(result.stderr, b"", args)


if __name__ == "__main__":
    process_cluster.main(beside=["HangsTest.test_a_server_ends_though_something_hangs"])
