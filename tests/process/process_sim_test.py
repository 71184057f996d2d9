#!/usr/bin/python3
"""The command `leasehold-sim`: what it says, how it ends, and that a failure can be had again."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

import process_cluster
from process_cluster import PATIENCE_S, binary, wait_for

# A mistake that hardly a run survives.
BUG = "acknowledged-before-every-member"

# A run that does not.
SHOWS_BUG = """leasehold scenario 1
repair streams 0
seed 20
file /log
at 1s writer w at client 1 to /log records 1 bytes 100 count 300 every 10ms
at 2s let Gone be a secondary of /log
crash Gone
expect /log takes appends within 5s
settle
"""


def simulator(*args, stdout=subprocess.PIPE, env=None):
    return subprocess.run([binary("leasehold-sim"), *args], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=300, check=False,
                          env=dict(os.environ, **(env or {})))


def seed(number):
    """As the simulator prints it, with its generation."""
    done = simulator("swarm", "--runs=1", "--jobs=1", "--profile=calm", "--first=%d" % number)
    return re.search(r"swarm from seed (\S+) on", done.stdout).group(1)


def children(pid):
    done = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, encoding="utf-8",
                          check=False)
    return [int(child) for child in done.stdout.split()]


class SimTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def assert_ends(self, done, code, *texts):
        """It ended with that code, and said these things on stdout or stderr."""
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        for text in texts:
            self.assertIn(text, said)

    def assert_refused(self, args, *texts):
        done = simulator(*args)
        self.assert_ends(done, 2, *texts)
        self.assertEqual(done.stdout, "", "an error belongs on stderr")
        self.assertRegex(done.stderr, r"\Aleasehold-sim", "an error says whose it is")


class HelpTest(SimTest):

    COMMANDS = ("run", "swarm", "replay", "minimize", "timeline", "scenario", "selftest",
                "smallscope", "bugs", "marks")

    def test_help(self):
        done = simulator("--help")
        self.assert_ends(done, 0, "Exit status", *self.COMMANDS)
        for command in self.COMMANDS:
            self.assert_ends(simulator(command, "--help"), 0, "Usage: leasehold-sim " + command)

    def test_version_names_the_generation_of_seeds(self):
        for args in (["--version"], ["run", "--version"]):
            self.assertRegex(simulator(*args).stdout, r"\Aleasehold-sim .*generation \d+\)\n\Z")

    def test_no_command(self):
        nothing = simulator()
        self.assert_ends(nothing, 2, "usage:")
        self.assertEqual(nothing.stdout, "")
        self.assert_refused(["fly"], "'fly'", "--help")

    def test_lists(self):
        bugs = simulator("bugs")
        self.assert_ends(bugs, 0, BUG)
        self.assertGreaterEqual(len(bugs.stdout.splitlines()), 30)
        self.assert_ends(simulator("marks"), 0, "master/", "chunkserver/", "client/")


class InputTest(SimTest):

    def test_options(self):
        for command in HelpTest.COMMANDS:
            self.assert_refused([command, "--no-such-option"], "--no-such-option", "--help")
        self.assert_refused(["run", "--seed"], "--seed", "value")
        self.assert_refused(["run", "--seed", "1", "more"], "too many arguments")
        self.assert_refused(["swarm", "--jobs=0"], "--jobs", "least is 1")
        self.assert_refused(["swarm", "--runs=0"], "--runs", "least is 1")
        self.assert_refused(["swarm", "--for=soon"], "--for", "'soon'")
        self.assert_refused(["run", "--seed=1", "--profile=rough"], "rough", "swarm", "calm")
        self.assert_refused(["smallscope", "--depth=1000"], "--depth")

    def test_seeds(self):
        self.assert_refused(["run"], "--seed")
        self.assert_refused(["run", "--seed=abc"], "'abc' is not a seed")
        self.assert_refused(["run", "--seed=-1"], "'-1' is not a seed")
        self.assert_refused(["run", "--seed=99999999999999999999"], "is not a seed")
        self.assert_refused(["run", "--seed=417@"], "'417@' is not a seed")
        for command in (["run"], ["replay"], ["minimize", "-o" + self.file("out")],
                        ["timeline", "-o" + self.file("out")]):
            self.assert_refused([*command, "--seed=417@999"], "generation 999")
        self.assert_refused(["swarm", "--first=417@999"], "generation 999")

    def test_bugs_that_do_not_exist(self):
        for command in ("run", "replay"):
            self.assert_refused([command, "--seed=1", "--plant=none"], "'none'", "bugs")
        self.assert_refused(["swarm", "--plant=none"], "--plant", "'none'")
        story = self.file("a.scenario", "leasehold scenario 1\n")
        self.assert_refused(["replay", story, "--plant=none"], "--plant", "'none'")
        self.assert_refused(["selftest", "--bug=none"], "--bug", "'none'")

    def test_contradictions(self):
        self.assert_refused(["replay", "--seed=1", "--from=5s", "--until=5s"], "--until", "--from")
        self.assert_refused(["replay", "--seed=1", "--trace", "--last=5"], "--trace")
        story = self.file("a.scenario", "leasehold scenario 1\n")
        self.assert_refused(["replay", story, "--seed=1"], "not both")
        self.assert_refused(["timeline", story, "--seed=1", "-o" + self.file("out")], "not both")
        self.assert_refused(["minimize", story, "-o" + self.file("out")], "too many arguments")
        own = self.file("own.scenario", f"leasehold scenario 1\nplant {BUG}\n")
        for command in ("replay", "swarm"):
            self.assert_refused([command, own, "--plant=" + BUG], "--plant", own, BUG)
        self.assert_refused(["replay", story, "--profile=calm"], "--profile")

    def test_files_that_cannot_be_read(self):
        missing = self.file("missing.scenario")
        for command in (["scenario"], ["replay"], ["timeline", "-o" + self.file("out")]):
            self.assert_refused([*command, missing], missing, "No such file")
            self.assert_refused([*command, self.folder], self.folder, "directory")
        self.assert_refused(["scenario"], "argument is missing")
        self.assert_refused(["run", "--seed=1", "--config=" + missing], missing)

    def test_mistakes_in_a_scenario(self):
        for text, line, found in (("at 3s pauze chunkserver 1\n", 2, "pauze"),
                                  ("chunkservers 3\nat 3s pause chunkserver 4\n", 3, "4"),
                                  ("seed 1\n\n# so far\nat soon pause master\n", 5, "soon"),
                                  ("expect\n", 2, "expected"),
                                  ("seed 1\n\x01\n", 3, "")):
            story = self.file("wrong.scenario", "leasehold scenario 1\n" + text)
            for command in ("scenario", "replay"):
                self.assert_refused([command, story], f"{story}:{line}:", found)

    def test_outputs_that_cannot_be_written(self):
        nowhere = os.path.join(self.folder, "nowhere", "out")
        self.assert_ends(simulator("timeline", "--seed=1", "-o", nowhere), 7, nowhere)
        self.assert_ends(simulator("timeline", "--seed=1", "-o", "/dev/full"), 7, "/dev/full",
                         "No space left")
        self.assert_refused(["timeline", "--seed=1"], "-o")
        for args in (["run", "--seed=1"], ["replay", "--seed=1"], ["bugs"], ["--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = simulator(*args, stdout=full)
            self.assertEqual(done.returncode, 7, args)
            self.assertIn("cannot write", done.stderr)

    def test_a_reader_that_went_away(self):
        with subprocess.Popen([binary("leasehold-sim"), "replay", "--seed=1"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.wait(60), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")
        story = self.file("a.scenario", SHOWS_BUG)
        for args, status in ((["bugs"], -signal.SIGPIPE), (["--help"], -signal.SIGPIPE),
                             (["run", "--seed=1", "--profile=calm"], -signal.SIGPIPE),
                             (["replay", story, "--plant=" + BUG], 1),
                             (["run", "--seed=x"], 2)):
            reading, writing = os.pipe()
            os.close(reading)
            done = simulator(*args, stdout=writing)
            os.close(writing)
            self.assertEqual(done.returncode, status, (args, done.stderr))
            self.assertNotIn("cannot write", done.stderr)


class RunTest(SimTest):

    def test_a_run(self):
        done = simulator("run", "--seed=1", "--profile=calm")
        self.assert_ends(done, 0, "seed " + seed(1), "virtual time", "events",
                         "appends acknowledged", "faults", "hash")
        again = simulator("run", "--seed=" + seed(1), "--profile=calm")
        def hash_of(text):
            return re.search(r"hash ([0-9a-f]{16})", text).group(1)
        self.assertEqual(hash_of(done.stdout), hash_of(again.stdout))
        other = simulator("run", "--seed=2", "--profile=calm")
        self.assertNotEqual(hash_of(done.stdout), hash_of(other.stdout))

    def test_the_same_run_twice(self):
        self.assert_ends(simulator("run", "--seed=3", "--check-determinism"), 0, "the same again")

    def test_options_from_the_environment(self):
        done = simulator("run", "--profile=calm", env={"LEASEHOLD_SEED": "5"})
        self.assert_ends(done, 0, "seed " + seed(5))

    def test_a_run_that_dies(self):
        """It is told up to there. That nobody reads all of its trace keeps it alive until then."""
        with subprocess.Popen([binary("leasehold-sim"), "replay", "--seed=1", "--trace"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8") as process:
            process.stdout.readline()
            child = wait_for("the run's process", lambda: children(process.pid))[0]
            os.kill(child, signal.SIGABRT)
            output, _ = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 4)
            self.assertIn("the process died here: signal 6", output.splitlines()[-1])

    def test_replay(self):
        whole = simulator("replay", "--seed=1", "--profile=calm").stdout.splitlines()
        self.assertIn("cs1", whole[0])
        self.assertTrue(any("appends" in line or "acknowledged" in line for line in whole))
        last = simulator("replay", "--seed=1", "--profile=calm", "--last=5").stdout.splitlines()
        self.assertEqual(last[-3:], whole[-3:])
        window = simulator("replay", "--seed=1", "--profile=calm", "--from=2s", "--until=3s")
        times = [float(m.group(1).replace(",", "")) for line in window.stdout.splitlines()
                 if (m := re.match(r"\s*([\d,]+\.\d{3})\s", line))]
        self.assertTrue(times)
        self.assertGreaterEqual(min(times), 2000)
        self.assertLessEqual(max(times), 3000)
        wide = simulator("replay", "--seed=1", "--profile=calm", "--columns=200").stdout
        self.assertGreater(max(map(len, wide.splitlines())), 0)
        self.assertNotIn("\x1b[", wide)
        colored = simulator("replay", "--seed=1", "--profile=calm", "--color=always").stdout
        self.assertIn("\x1b[", colored)

    def test_trace(self):
        trace = simulator("replay", "--seed=1", "--profile=calm", "--trace").stdout.splitlines()
        self.assertGreater(len(trace), 1000)


class SwarmTest(SimTest):

    def test_a_number_of_runs(self):
        done = simulator("swarm", "--runs=6", "--jobs=2", "--profile=calm", "--first=1", "--marks")
        self.assert_ends(done, 0, "swarm from seed " + seed(1), "6 runs", "0 failed", "marks:")
        self.assertRegex(done.stdout, r"(?m)^ +\d+  [a-z0-9-]+ +\w+/\w+\.c:\d+$")

    def test_a_text_names_a_seed(self):
        def first_of(text):
            done = simulator("swarm", "--runs=1", "--profile=calm", "--first", text)
            return re.search(r"swarm from seed (\S+) on", done.stdout).group(1)
        self.assertEqual(first_of("commit:1a2b3c"), first_of("commit:1a2b3c"))
        self.assertNotEqual(first_of("commit:1a2b3c"), first_of("commit:1a2b3d"))
        self.assertEqual(first_of(seed(17)), seed(17))

    def test_a_first_failure_ends_it(self):
        done = simulator("swarm", "--runs=200", "--jobs=2", "--first=1", "--plant", BUG)
        self.assert_ends(done, 1, "FAILED", "replay", "minimize", " 1 failed")

    def test_a_bug_is_planted_in_files_too(self):
        story = self.file("a.scenario", SHOWS_BUG)
        swarm = ["swarm", story, "--runs=1", "--profile=calm", "--jobs=1", "--first=1"]
        self.assert_ends(simulator(*swarm), 0, " 0 failed")
        done = simulator(*swarm, "--plant", BUG)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"replay {story} --plant {BUG}", done.stdout)
        replay = simulator("replay", story, "--plant", BUG)
        self.assertEqual(replay.returncode, done.returncode, replay.stdout)

    def test_it_goes_on_when_asked(self):
        done = simulator("swarm", "--runs=60", "--jobs=2", "--first=1", "--plant", BUG,
                         "--keep-going")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("60 runs", done.stdout)
        self.assertGreater(done.stdout.count("FAILED"), 1)

    def test_marks_that_are_missing(self):
        done = simulator("swarm", "--runs=1", "--profile=calm", "--require-marks", "--first=1")
        self.assert_ends(done, 6, "never reached")

    def test_ctrl_c(self):
        with subprocess.Popen([binary("leasehold-sim"), "swarm", "--for=10m", "--jobs=2",
                               "--profile=calm", "--progress=200ms"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8") as process:
            self.assertRegex(process.stderr.readline(), r"swarm: \d+ runs, .* left")
            workers = children(process.pid)
            self.assertEqual(len(workers), 2)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 0, output)
            self.assertIn("interrupted", output)
            self.assertRegex(output, r"\d+ runs from seed")
            for worker in workers:
                wait_for("a worker to be gone",
                         lambda pid=worker: not os.path.exists(f"/proc/{pid}"))

    def test_a_worker_that_dies_is_told_and_replaced(self):
        with subprocess.Popen([binary("leasehold-sim"), "swarm", "--for=10m", "--jobs=2",
                               "--profile=calm", "--progress=200ms", "--keep-going"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8") as process:
            def both():
                workers = children(process.pid)
                return workers if len(workers) == 2 else None

            process.stderr.readline()
            # It may have been between two runs; then it is only replaced.
            while "1 failed" not in process.stderr.readline():
                os.kill(wait_for("two workers", both)[0], signal.SIGKILL)
            wait_for("the one that died to be replaced", both)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 4, output)
            self.assertRegex(output, r"FAILED  assertion \(crash\), seed \d+@\d+ of profile calm\n"
                                     r"  signal 9")

    def test_workers_do_not_outlive_it(self):
        with subprocess.Popen([binary("leasehold-sim"), "swarm", "--for=10m", "--jobs=2",
                               "--profile=calm", "--progress=200ms"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            process.stderr.readline()
            workers = children(process.pid)
            process.kill()
            process.wait()
            for worker in workers:
                wait_for("a worker to be gone",
                         lambda pid=worker: not os.path.exists(f"/proc/{pid}"))


class FailureTest(SimTest):
    """From a planted bug to the scenario that shows it, by the commands that are printed."""

    @classmethod
    def setUpClass(cls):
        done = simulator("swarm", "--runs=200", "--jobs=2", "--first=1", "--plant", BUG)
        cls.block, cls.code = done.stdout, done.returncode

    def commands(self, name):
        return re.search(rf"leasehold-sim ({name} --seed .*)", self.block).group(1).split()

    def rule(self, text):
        return re.search(r"FAILED  (\S+) \((\w+)\)", text).group(1)

    def test_what_led_to_it_is_shown(self):
        events = self.block.split("what led to it:")[1].split("to see it happen")[0]
        self.assertGreater(len(events.splitlines()), 5)
        self.assertIn("!!!!", events)

    def test_the_line_that_is_printed_replays_it(self):
        seed = re.search(r"seed (\d+@\d+)", self.block.split("FAILED")[1]).group(1)
        run = simulator("run", "--seed", seed, "--plant", BUG)
        self.assertEqual(run.returncode, self.code)
        self.assertEqual(self.rule(run.stdout), self.rule(self.block))
        replay = simulator(*self.commands("replay"))
        self.assertEqual(replay.returncode, self.code)
        self.assertIn("!!!! " + self.rule(self.block), replay.stdout)

    def test_it_can_be_looked_at(self):
        page = self.file("failure.html")
        command = self.commands("timeline")
        command[command.index("-o") + 1] = page
        self.assertEqual(simulator(*command).returncode, self.code)
        with open(page, encoding="utf-8") as file:
            self.assertIn("<html", file.read())

    def test_it_can_be_made_small(self):
        story = self.file("failure.scenario")
        command = self.commands("minimize")
        command[command.index("-o") + 1] = story
        done = simulator(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(story, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("plant " + BUG, text)
        self.assertLess(len(re.findall(r"(?m)^at ", text)), 8, text)
        # It says itself how it has to end.
        self.assert_ends(simulator("scenario", story), 0, "ok")
        replay = simulator("replay", story)
        self.assertEqual(replay.returncode, 0, "the file says that this has to happen")
        self.assertIn("!!!! " + self.rule(self.block), replay.stdout)

    def test_an_output_that_cannot_be_written_is_said_before_the_work(self):
        nowhere = os.path.join(self.folder, "nowhere", "out")
        command = self.commands("minimize")
        command[command.index("-o") + 1] = nowhere
        done = simulator(*command)
        self.assert_ends(done, 7, nowhere, "No such file")
        self.assertNotIn("minimize: ", done.stderr.replace("leasehold-sim minimize: ", ""))

    def test_what_does_not_fail_cannot_be_made_small(self):
        story = self.file("fine.scenario")
        done = simulator("minimize", "--seed=1", "--profile=calm", "-o", story)
        self.assert_ends(done, 5, "does not fail")
        self.assertFalse(os.path.exists(story))


class SelftestTest(SimTest):

    def test_a_bug_is_found(self):
        done = simulator("selftest", "--bug", BUG, "--seeds=200")
        self.assert_ends(done, 0, "1 of 1 found")
        row = re.search(rf"(?m)^{BUG} .*$", done.stdout).group(0)
        self.assertRegex(row, r"\d+@\d+$", "the seed that found it")

    def test_one_that_is_not_found(self):
        done = simulator("selftest", "--for=1ms", "--bug", BUG)
        self.assert_ends(done, 5, "NOT FOUND", "0 of 1 found")


class ScenarioTest(SimTest):

    def scenario(self, name, *lines):
        return self.file(name, "leasehold scenario 1\n" + "".join(line + "\n" for line in lines))

    def test_a_story(self):
        story = self.scenario("fine.scenario", "file /log", "at 1s writer w at client 1 to /log",
                              "after 3s expect tail of /log exists", "settle")
        self.assert_ends(simulator("scenario", story), 0, f"{story}: ok")
        self.assert_ends(simulator("replay", story), 0, "cs1")
        page = self.file("story.html")
        self.assert_ends(simulator("timeline", story, "-o", page), 0, "ended as it says")

    def test_a_story_that_ends_otherwise(self):
        story = self.scenario("wrong.scenario", "file /log",
                              "after 1s expect tail of /log is sealed within 1s")
        fine = self.scenario("fine.scenario", "file /log", "wait 1s")
        done = simulator("scenario", story, fine)
        self.assert_ends(done, 5, f"{story}:3: expected", f"{fine}: ok", f"replay {story}")
        self.assertLess(done.stdout.index(story), done.stdout.index(fine))
        self.assert_ends(simulator("replay", story), 5)


    def test_the_documentation(self):
        """Every line that docs/scenarios.md shows is one; its whole scenario ends as it says."""
        several = ["masters 3", "etcd members 3"]
        before = [*several, "file /log", "at 1s writer w at client 1 to /log",
                  "reader r at client 1 of /log", "locker l at client 1 of /job",
                  "cacher h at client 1 of /setting", "let Old be primary of /log"]
        with open("docs/scenarios.md", encoding="utf-8") as file:
            blocks = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", file.read())
        self.assertGreaterEqual({kind for kind, _ in blocks},
                                {"scenario", "settings", "actions", "conditions"})
        for kind, block in blocks:
            lines = block.splitlines()
            if kind == "scenario":
                story = self.file("whole.scenario", block)
                self.assert_ends(simulator("scenario", story), 0)
            elif kind == "conditions":
                story = self.scenario("list.scenario", *before,
                                      *("expect " + line for line in lines if line))
            elif kind == "settings":
                story = self.scenario("list.scenario", *lines)
            elif kind == "actions":
                story = self.scenario("list.scenario", *several, *lines)
            else:
                continue
            # What is only listed need not end well, and it must not be wrong.
            done = simulator("scenario", story)
            self.assertIn(done.returncode, (0, 1, 3, 5), block + done.stderr)


class SmallscopeTest(SimTest):

    def test_a_few_moves(self):
        done = simulator("smallscope", "--depth=4")
        self.assert_ends(done, 0, "states", "4 moves", "no invariant broke")
        done = simulator("smallscope", "--world=cores", "--depth=2")
        self.assert_ends(done, 0, "states", "2 moves", "no invariant broke")


if __name__ == "__main__":
    process_cluster.main()
