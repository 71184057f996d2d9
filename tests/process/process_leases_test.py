#!/usr/bin/python3
"""Locks and values at the command line, with programs and masters that are killed and stopped.

`leasehold lock` must never let its program run beyond the lease: a program here writes down the
time (CLOCK_BOOTTIME) with each of its lines, and whoever has the lock next begins later.
"""

import json
import os
import re
import signal
import subprocess

import process_cluster
from process_cluster import CALM, ClusterTest, binary, wait_for

LOCK, VALUE = "/test/lock", "/test/value"
# Says that it is there, every few milliseconds, does not obey SIGTERM, and neither does its child.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
while True:
    line = "%s %d\\n" % (os.environ["LEASEHOLD_TOKEN"], time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    os.write(1, line.encode())
    time.sleep(0.005)
"""

# Before that: nothing of the program is open there but its output, nor is it of its group.
LEAVING = """import os
if os.fork() > 0:
    os.execvp("sleep", ["sleep", "1000"])
os.setsid()
if os.fork() > 0:
    os._exit(0)
os.closerange(2, 1000)
os.close(0)
"""


class LeasesTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self._end_processes)
        self.start_cluster(servers=1, **CALM)

    def _end_processes(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            process.stderr.close()

    def start(self, *args, output=None):
        """`leasehold` as a process. What it runs writes into `output`."""
        with open(output or os.devnull, "ab") as file:
            process = subprocess.Popen([binary("leasehold"), *args], stdout=file,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                       env=dict(os.environ,
                                                LEASEHOLD_MASTER=self.cluster.master_address))
        self.processes.append(process)
        return process

    def run_with(self, *args, status=0):
        result = self.cluster.run(*args)
        self.assertEqual(result.returncode, status, result.stderr.decode())
        return result

    def holders(self, name=LOCK):
        names = [n for n in self.cluster.json("holders", name)["names"] if n["name"] == name]
        return names[0]["holders"] if names else []

    def waiting(self, name=LOCK):
        names = [n for n in self.cluster.json("holders", name)["names"] if n["name"] == name]
        return names[0]["waiting"] if names else 0

    # lock

    def stubborn(self, *flags):
        """A lock with a program that does not end; returns (process, its output)."""
        output = os.path.join(self.folder, f"stubborn-{len(self.processes)}")
        process = self.start("lock", *flags, "--term=4s", LOCK, "--", "/usr/bin/python3", "-c",
                             STUBBORN, output=output)
        wait_for("the program to run", lambda: os.path.getsize(output) > 1000)
        return process, output

    def last_sign(self, output):
        """When the program was last there."""
        with open(output, encoding="ascii") as file:
            lines = file.read().split("\n")[:-1]
        return max(int(line.split()[1]) for line in lines)

    def next_owner(self):
        """Waits for the lock; returns (its token, when it began)."""
        result = self.run_with("lock", "--term=4s", LOCK, "--", "/usr/bin/python3", "-c",
                               "import os, time; print(os.environ['LEASEHOLD_TOKEN'], "
                               "time.clock_gettime_ns(time.CLOCK_BOOTTIME))")
        token, began = result.stdout.split()
        return int(token), int(began)

    def ends_before_the_next(self, output):
        """The program is over when another one has the lock."""
        with open(output, encoding="ascii") as file:
            token = int(file.readline().split()[0])
        next_token, began = self.next_owner()
        self.assertGreater(next_token, token)
        self.assertLess(self.last_sign(output), began)

    def test_the_programs_status_and_environment(self):
        result = self.run_with("lock", LOCK, "--", "sh", "-c",
                               'echo "$LEASEHOLD_LOCK $LEASEHOLD_TOKEN $LEASEHOLD_SESSION"; exit 7',
                               status=7)
        name, token, session = result.stdout.decode().split()
        self.assertEqual((name, len(session)), (LOCK, 32))
        self.assertGreater(int(token), 0)
        self.run_with("lock", LOCK, "--", "sh", "-c", "kill -KILL $$", status=128 + 9)
        self.run_with("lock", LOCK, "--", "/not/there", status=127)
        self.run_with("lock", LOCK, "--", "/etc/passwd", status=126)
        self.run_with("lock", LOCK, status=64)
        self.run_with("lock", "--margin=3s", "--term=5s", LOCK, "--", "true", status=64)
        # Whatever a program is called, a session can be described.
        odd = os.path.join(self.folder, "x" * 120 + "\n\x1b\u202e\u00fc")
        os.symlink("/bin/true", odd)
        self.run_with("lock", LOCK, "--", odd)
        wait_for("the lock to be free", lambda: not self.holders())

    def test_one_at_a_time(self):
        first = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        self.run_with("lock", "--no-wait", LOCK, "--", "true", status=75)
        self.run_with("lock", "--timeout=200ms", LOCK, "--", "true", status=75)
        second = self.start("lock", LOCK, "--", "true")
        wait_for("one that waits", lambda: self.waiting() == 1)
        first.send_signal(signal.SIGTERM)  # passed on to the program
        self.assertEqual(first.wait(), 128 + signal.SIGTERM)
        self.assertEqual(second.wait(), 0)

    def test_one_that_waits_can_be_ended(self):
        self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        second = self.start("lock", LOCK, "--", "true")
        wait_for("one that waits", lambda: self.waiting() == 1)
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(), 130)
        wait_for("nobody to wait", lambda: self.waiting() == 0)

    def test_one_that_slept_while_it_waited_waits_on(self):
        first = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        second = self.start("lock", "--term=1s", LOCK, "--", "true")
        wait_for("one that waits", lambda: self.waiting() == 1)
        second.send_signal(signal.SIGSTOP)
        wait_for("its session to be over", lambda: self.waiting() == 0)
        second.send_signal(signal.SIGCONT)
        wait_for("it to wait again", lambda: self.waiting() == 1)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(), 0)
        self.assertIn(b"waiting in a new session", second.stderr.read())

    def test_a_term_that_the_master_shortens(self):
        self.cluster.master.kill()
        self.cluster.master.argv.append("--program-term-max=2s")
        self.cluster.master.start()
        self.cluster.wait_ready()
        # With a fifth of the term that was asked for it would be stopped at once.
        begun = os.path.join(self.folder, "begun")
        lock = self.start("lock", "--term=20s", LOCK, "--", "sh", "-c",
                          f"trap 'exit 9' TERM; touch {begun}; sleep 1000 & wait")
        wait_for("the program to begin", lambda: os.path.exists(begun))
        self.assertEqual([s["term_ms"] for s in self.cluster.json("sessions")["sessions"]], [2000])
        lock.send_signal(signal.SIGTERM)
        self.assertEqual(lock.wait(), 9)
        self.assertIn(b"the master shortens --term", lock.stderr.read())
        self.run_with("lock", "--term=20s", "--margin=5s", LOCK, "--", "true", status=64)
        self.run_with("lock", "--term=20s", "--margin=200ms", LOCK, "--", "true")

    def test_without_a_master_it_can_be_ended(self):
        self.cluster.master.kill()
        for args in (("lock", LOCK, "--", "true"), ("register", VALUE, "x", "--", "true")):
            process = self.start(*args)
            wait_for("it to say that it waits", lambda p=process: p.stderr.readline())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(), 128 + signal.SIGINT)
        self.run_with("lock", "--timeout=200ms", LOCK, "--", "true", status=69)

    def test_shared_with_slots(self):
        for _ in range(2):
            self.start("lock", "--shared", "--slots=2", LOCK, "--", "sleep", "1000")
        wait_for("two holders", lambda: len(self.holders()) == 2)
        self.run_with("lock", "--shared", "--slots=2", "--no-wait", LOCK, "--", "true", status=75)

    def test_a_cancelled_lock_ends_the_program(self):
        lock = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        token = self.holders()[0]["token"]
        self.run_with("cancel", LOCK, f"--token={token + 1}", status=1)
        said = self.run_with("cancel", LOCK, f"--token={token}", "--why=the test says so")
        self.assertIn(b"the lock is over", said.stdout)
        self.assertEqual(lock.wait(), 76)
        self.assertIn(b"the test says so", lock.stderr.read())
        self.run_with("cancel", LOCK, status=1)

    def test_a_program_that_does_not_obey_a_cancelled_lock_is_killed_in_time(self):
        _, output = self.stubborn()
        self.run_with("cancel", LOCK)
        self.ends_before_the_next(output)

    def test_who_yields(self):
        lock = self.start("lock", "--yield=5s", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        self.run_with("lock", LOCK, "--", "true")
        self.assertEqual(lock.wait(), 76)

    def test_it_is_stopped_and_its_program_ends_before_the_next_one_begins(self):
        lock, output = self.stubborn()
        lock.send_signal(signal.SIGSTOP)
        self.ends_before_the_next(output)
        lock.send_signal(signal.SIGCONT)
        self.assertEqual(lock.wait(), 76)

    def test_it_is_killed_and_its_program_ends_before_the_next_one_begins(self):
        lock, output = self.stubborn()
        lock.kill()
        self.ends_before_the_next(output)

    def test_the_watchdog_is_stopped_and_the_program_ends_before_the_next_one_begins(self):
        lock, output = self.stubborn()
        for pid in self.watchdogs(lock):
            os.kill(pid, signal.SIGSTOP)
        lock.send_signal(signal.SIGSTOP)
        self.ends_before_the_next(output)
        lock.send_signal(signal.SIGCONT)
        self.assertEqual(lock.wait(), 76)

    def test_the_master_is_gone_and_the_program_ends_in_time(self):
        lock, output = self.stubborn()
        self.cluster.master.pause()
        self.assertEqual(lock.wait(), 76)
        ended = self.last_sign(output)
        self.cluster.master.resume()
        self.cluster.wait_ready()
        self.assertLess(ended, self.next_owner()[1])

    @staticmethod
    def watchdogs(lock):
        """Those that look after the program: children of that process, and theirs; the last one
        is the program's parent."""
        children = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    _, name, rest = re.split(r"[()]", file.read(), maxsplit=2)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name.startswith("lease "):
                children[int(rest.split()[1])] = int(pid)
        found, at = [], lock.pid
        while at in children:
            at = children[at]
            found.append(at)
        return found

    def leaving(self, *flags):
        """As stubborn(), and what does not end has a session of its own, another parent, and
        nothing open but its output."""
        output = os.path.join(self.folder, f"leaving-{len(self.processes)}")
        process = self.start("lock", *flags, "--term=4s", LOCK, "--", "/usr/bin/python3", "-c",
                             LEAVING + STUBBORN, output=output)
        wait_for("the program to run", lambda: os.path.getsize(output) > 1000)
        return process, output

    def test_it_and_its_watchdog_are_killed_and_what_has_left_ends_before_the_next_one_begins(self):
        lock, output = self.leaving()
        victims = [lock.pid, self.watchdogs(lock)[-1]]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                os.kill(pid, number)
        self.ends_before_the_next(output)

    def test_what_has_left_ends_before_the_next_one_begins(self):
        _, output = self.leaving()
        self.run_with("cancel", LOCK)
        self.ends_before_the_next(output)

    def test_a_restarted_master_lets_the_program_go_on(self):
        lock = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        token = self.holders()[0]["token"]
        self.cluster.master.kill()
        self.cluster.master.start()
        wait_for("the same holder", lambda: [h["token"] for h in self.holders()] == [token])
        self.assertIsNone(lock.poll())

    # Values

    def test_put_get_del(self):
        self.run_with("get", VALUE, status=1)
        first = self.cluster.json("put", VALUE, "one")["revision"]
        self.assertEqual(self.cluster.command("get", VALUE), b"one")
        self.cluster.command("put", VALUE, stdin=b"\x00\xff\n")
        value = self.cluster.json("get", VALUE)
        self.assertEqual((value["value"], value["value_base64"], value["size"]), (None, "AP8K", 3))
        self.assertGreater(value["revision"], first)
        self.run_with("put", f"--if-revision={first}", VALUE, "two", status=1)
        self.run_with("put", "--if-revision=0", VALUE, "two", status=1)
        self.run_with("put", "--if-revision=x", VALUE, "two", status=64)
        self.cluster.command("put", f"--if-revision={value['revision']}", VALUE, "two")
        self.cluster.command("del", VALUE)
        self.run_with("del", VALUE, status=1)
        self.run_with("get", VALUE, status=1)

    def test_a_value_under_a_lock(self):
        held = self.run_with("lock", LOCK, "--", binary("leasehold"), "put", f"--lock={LOCK}",
                             VALUE, "mine")
        self.assertIn(b"revision", held.stdout)
        self.run_with("put", VALUE, "other", status=1)
        self.run_with("put", f"--lock={LOCK}", VALUE, "other", status=64)
        self.run_with("put", f"--lock={LOCK}", "--token=1", VALUE, "other", status=1)
        self.assertEqual(self.cluster.command("get", VALUE), b"mine")
        self.cluster.command("put", "--force", VALUE, "other")

    def test_watch(self):
        self.cluster.command("put", "/test/w/a", "1")
        output = os.path.join(self.folder, "watched")
        watch = self.start("watch", "--json", "--count=5", "/test/w/", output=output)
        wait_for("what is there", lambda: os.path.getsize(output) > 0)
        self.cluster.command("put", "/test/w/b", "2")
        self.cluster.master.kill()
        self.cluster.master.start()
        self.cluster.command("put", "/test/elsewhere", "x")
        self.cluster.command("del", "/test/w/a")
        self.cluster.command("put", "/test/w/b", "3")
        self.assertEqual(watch.wait(), 0)
        with open(output, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        self.assertEqual([(e["event"], e.get("name"), e.get("value")) for e in events],
                         [("reset", None, None), ("put", "/test/w/a", "1"),
                          ("put", "/test/w/b", "2"), ("del", "/test/w/a", None),
                          ("put", "/test/w/b", "3")])
        revisions = [e["revision"] for e in events[1:]]
        self.assertEqual(revisions, sorted(set(revisions)))
        again = self.cluster.command("watch", f"--from={revisions[1]}", "--count=3", "/test/w/")
        self.assertEqual([int(line.split()[0]) for line in again.splitlines()], revisions[1:])

    def test_watch_locks(self):
        output = os.path.join(self.folder, "watched")
        self.run_with("watch", "--locks", "--from=7", status=64)
        holder = self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        watch = self.start("watch", "--locks", "--json", "--count=5", "/test/", output=output)
        wait_for("what is there", lambda: os.path.getsize(output) > 0)
        next_one = self.start("lock", LOCK, "--", "true")
        wait_for("one that waits", lambda: self.waiting() == 1)
        holder.send_signal(signal.SIGTERM)
        self.assertEqual((next_one.wait(), watch.wait()), (0, 0))
        with open(output, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        self.assertEqual([e["event"] for e in events],
                         ["reset", "granted", "released", "granted", "released"])
        self.assertEqual({e["name"] for e in events[1:]}, {LOCK})
        first, second = events[1]["holder"], events[3]["holder"]
        self.assertEqual(first["session"], events[2]["holder"]["session"])
        self.assertNotEqual(first["session"], second["session"])
        self.assertGreater(second["token"], first["token"])

    def test_register(self):
        registered = self.start("register", "--term=4s", VALUE, "here", "--", "sleep", "1000")
        wait_for("the value", lambda: self.cluster.run("get", VALUE).stdout == b"here")
        self.run_with("register", "--timeout=1s", VALUE, "two", "--", "true", status=75)
        session = self.cluster.json("sessions")["sessions"][0]
        self.assertEqual((session["attached"], session["state"]), (1, "connected"))
        registered.kill()
        wait_for("the value to be gone", lambda: self.cluster.run("get", VALUE).returncode == 1)
        self.run_with("register", VALUE, "two", "--", "sh", "-c", "exit 9", status=9)

    def test_policies(self):
        self.cluster.command("policy", "/test/", "--set=no-recall,share=20,term-max=5m")
        (policy,) = self.cluster.json("policy", "/test/")["policies"]
        self.assertEqual((policy["no_recall"], policy["share_percent"], policy["term_max_ms"]),
                         (True, 20, 300000))
        self.run_with("policy", "/test/", "--set=nonsense", status=64)
        self.run_with("policy", "--remove", status=64)
        self.cluster.command("policy", "/test/", "--remove")
        self.run_with("policy", "/test/", status=1)

    def test_explain(self):
        self.run_with("explain", LOCK, status=1)
        self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        self.cluster.command("put", LOCK, "a value, too")
        self.cluster.command("create", "--replication=1", LOCK)
        said = self.cluster.command("explain", LOCK).decode()
        for what in (f"{LOCK}, no chunk yet", f"lock {LOCK}: held", f"value {LOCK}: revision"):
            self.assertIn(what, said)
        self.assertEqual(self.cluster.json("explain", LOCK)["name"]["name"], LOCK)

    def test_append_under_a_lock(self):
        self.cluster.command("append", "--create", "--replication=1", f"--lock={LOCK}", "/log",
                             stdin=b"one\n")
        refused = self.cluster.run("append", "/log", stdin=b"stray\n")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"STALE_TOKEN", refused.stderr)
        self.assertIn(b"1 of 1 record was not acknowledged; none of them is stored",
                      refused.stderr)
        refused = self.cluster.run("append", "--json", "/log", stdin=b"stray\n")
        said = json.loads(refused.stdout)
        self.assertEqual([said[n] for n in ("taken", "records", "unsent")], [1, 0, 1])
        # Under the lock of that name around it; no second one is waited for.
        self.run_with("lock", LOCK, "--", "sh", "-c",
                      f"echo two | {binary('leasehold')} append --lock={LOCK} /log")
        self.assertEqual(self.cluster.command("cat", "/log"), b"one\ntwo\n")
        self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        self.run_with("append", "--timeout=500ms", f"--lock={LOCK}", "/log", status=75)

    def test_an_append_that_is_interrupted_while_it_waits_leaves_the_queue(self):
        self.cluster.command("create", "--replication=1", "/log")
        self.start("lock", LOCK, "--", "sleep", "1000")
        wait_for("a holder", self.holders)
        append = subprocess.Popen(
            [binary("leasehold"), "append", f"--lock={LOCK}", "--timeout=1h", "/log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(os.environ, LEASEHOLD_MASTER=self.cluster.master_address))
        self.processes.append(append)
        wait_for("it to wait", lambda: self.waiting() == 1)
        append.send_signal(signal.SIGINT)
        self.assertEqual(append.wait(), 130)
        self.assertIn(b"interrupted while it waited for the lock", append.stderr.read())
        append.stderr.close()
        self.assertEqual(self.waiting(), 0)

    def test_an_append_whose_lock_is_cancelled_ends_and_stores_what_it_read(self):
        self.cluster.command("create", "--replication=1", "/log")
        append = subprocess.Popen(
            [binary("leasehold"), "append", f"--lock={LOCK}", "/log"], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(os.environ, LEASEHOLD_MASTER=self.cluster.master_address))
        self.processes.append(append)
        append.stdin.write(b"one\n")
        append.stdin.flush()
        wait_for("the record", lambda: self.cluster.run("cat", "/log").stdout == b"one\n")
        self.run_with("cancel", LOCK, "--why=the test says so")
        self.assertEqual(append.wait(), 76)
        append.stdin.close()
        self.assertIn(b"1 record is stored", append.stderr.read())


if __name__ == "__main__":
    process_cluster.main()
