#!/usr/bin/python3
"""Faults and accidents at random, one or two at a time, of a cluster with three masters on a real
etcd: processes are killed, stand still and are stopped; persons mistype, start things twice, delete
records, fill etcd, move metadata, and restore it from an older copy.

Meanwhile four writers append and one client follows their file, two create, rename and remove
files, one changes a value and another one looks at it, and two take a lock in turn. After each
accident all of them get on again. It is printed how long the longest of them stood still; only more
than a minute of that is a failure. At the end nothing that was acknowledged is lost, doubled or out
of order, no token came twice, names are what the clients were told, `fsck --deep` finds nothing,
and each process ends as it should.

    process_accidents_test.py                        a minute, and each restore; prints the seed
    process_accidents_test.py --for=10m --seed=7     so long, with the accidents of that seed
    process_accidents_test.py --only="store moved"   those alone whose names have these words
    process_accidents_test.py --list                 names the accidents
    process_accidents_test.py --restores             an older copy of etcd alone
"""

import argparse
import os
import random
import sys
import time
import unittest

from process_accidents import ALONE, MINOR, QUOTA, TABLE, Accidents
from process_cluster import seconds_of, wait_for
from process_load import (VALUE, Changer, Follower, Locker, Looker, Pauses, SlowWriter,
                          check_tenures)
from process_masters import MastersTest, Names

PATH = "/accidents/log"
WRITERS = 4
# Of what stands still. Anything below says only how busy the machine is.
LIMIT_S = float(os.environ.get("LEASEHOLD_PAUSE_LIMIT_SECONDS", 60))
OPTIONS = argparse.Namespace()


class LoadedTest(MastersTest):
    """With everything that loads a cluster."""

    def setUp(self):
        super().setUp()
        self.began = time.monotonic()
        self.chance = random.Random(OPTIONS.seed)
        self.clients, self.pauses = [], None
        self.addCleanup(self.end_clients)

    def say(self, text):
        print(f"[{time.monotonic() - self.began:8.2f}] {text}", file=sys.stderr, flush=True)

    # The load.

    def begin(self, *master_flags, **options):
        return self.start_masters(
            servers=4, session_term="3s", chunk_term="6s", limits=("--core=0",),
            master_flags=("--grace=10s", f"--etcd-quota={QUOTA}", *master_flags), **options)

    def load(self, path, revision=0):
        """To a file of its own; the value is at that revision."""
        cluster = self.cluster
        cluster.command("create", "--chunk-size=128KiB", path)
        self.writers = [SlowWriter(cluster, path, i) for i in range(WRITERS)]
        self.follower = Follower(cluster, path)
        self.addCleanup(self.follower.finish)
        self.names = Names(cluster, folder=path + "-names", clients=2, pause=0.05)
        changer = Changer(cluster, revision)
        self.clients = [c.begin() for c in (changer, Looker(changer), Locker(cluster),
                                            Locker(cluster))]
        self.counts = {
            **{f"writer {w.number}": lambda w=w: os.path.getsize(w.positions_path)
               for w in self.writers},
            "follower": lambda f=self.follower: sum(f.seen.copy().values()),
            "names": lambda: os.path.getsize(self.names.output),
            **{type(c).__name__.lower(): lambda c=c: c.turns for c in self.clients[:3]}}
        self.pauses = Pauses(self.counts)
        self.goes_on()

    def goes_on(self):
        """Until everything has got on."""
        before = {name: count() for name, count in self.counts.items()}

        def standing():
            for client in self.clients:
                client.progress()
            for writer in self.writers:
                self.assertIsNone(writer.process.poll(), writer.errors())
            self.assertIsNone(self.names.process.poll(), "the clients of names ended")
            return [name for name, count in self.counts.items() if count() <= before[name]]
        wait_for(lambda: f"{standing()} to get on", lambda: not standing())

    def end_clients(self):
        for client in self.clients:
            client.over.set()
        if self.pauses is not None:
            self.pauses.end()

    def finish_load(self):
        """Everything comes to an end, and was told the truth. Returns a sentence."""
        self.pauses.end()
        turns = [client.finish() for client in self.clients]
        self.finish_writers()
        self.follower.wait_seen({w.number: w.sent for w in self.writers})
        self.follower.finish()
        calls, met, unknown = self.names.finish()
        self.assertEqual((met, unknown), (0, 0), "each call happens once (HA-12)")
        tenures = check_tenures(self.clients[2].output)
        return f"{calls} calls of names, {turns[0]} changes of a value, {tenures} tenures"

    def assert_ends(self):
        """Each process ends in order, and no log has an assertion."""
        for node in list(self.cluster.servers.values()) + self.cluster.masters:
            self.ended_in_order(node)
            self.assertNotIn("assertion failed", node.log_text())


class AccidentsTest(Accidents, LoadedTest):

    def wait_well(self):
        """Every process runs, and everything gets on."""
        self.etcd.wait_ready()
        for node in self.cluster.nodes() + list(self.etcd.members.values()):
            self.assertTrue(node.running(), f"{node.name} has ended with "
                            f"{node.process.returncode}: {node.log_text()[-2000:]}")
        self.cluster.wait_ready()
        self.goes_on()

    def round(self, row):
        rows = [row]
        if row.kind != ALONE and self.chance.random() < 0.5:
            rows.insert(0, self.chance.choice([r for r in TABLE if r.kind == MINOR]))
        self.taken = frozenset()
        steps = []
        for one in rows:
            self.say(f"{one.name}: begins")
            step = one.function(self)
            self.say(f"{one.name}: {next(step)}")
            steps.append(step)
        # Shorter and longer than a reign, and now and then longer than a session.
        pause = self.chance.choice((0, 0.1, 0.5, 1, 2, 4))
        time.sleep(pause)
        self.chance.shuffle(steps)
        for step in steps:
            next(step, None)
        self.wait_well()
        longest = self.pauses.take()
        name = max(longest, key=longest.get)
        self.say(f"for {pause} s; all goes on; {name} stood still for {longest[name]:.1f} s")
        self.longest = max(self.longest, (longest[name], name, " + ".join(r.name for r in rows)))
        self.assertLess(longest[name], LIMIT_S, name)

    def test_accidents_at_random(self):
        self.begin()
        self.load(PATH)
        self.longest = (0, "", "")
        rows = [row for row in TABLE if OPTIONS.only in row.name]
        deck, rounds = [], 0
        while time.monotonic() < self.began + OPTIONS.seconds:
            if not deck:
                deck = self.chance.sample(rows, len(rows))
            self.round(deck.pop())
            rounds += 1
        told = self.finish_load()
        records = self.check_file(PATH)
        self.wait_whole()
        reigns = self.everyone_acts_in_turn()
        wait_for("fsck --deep to find nothing",
                 lambda: self.cluster.run("fsck", "--deep").returncode == 0, interval=0.5)
        self.assert_ends()
        self.say(f"seed {OPTIONS.seed}: {rounds} rounds, {reigns} reigns, {records} records, "
                 f"{told}; longest pause: %.1f s, %s, %s" % self.longest)


class RestoresTest(Accidents, LoadedTest):
    """etcd goes back to an older copy: what the manual says is to be done, and what comes of it if
    nobody does. Then what was acknowledged behind the copy may be lost, and nothing else."""

    def snapshot(self):
        """Returns what was acknowledged before it, for sure."""
        before = [w.positions()[-1] for w in self.writers]
        self.saved = os.path.join(self.folder, f"saved-{self.round}")
        self.etcd.save(self.saved)
        return max(before)

    def chunk_follows(self):
        """Until the file has one more chunk than there was."""
        chunks = len(self.cluster.chunks(self.path))
        wait_for("one more chunk", lambda: len(self.cluster.chunks(self.path)) > chunks)

    def restart_with(self, master, *flags):
        if master.running():
            self.ended_in_order(master)
        master.argv = [a for a in master.argv if a != "--restored"] + list(flags)
        master.start()

    def live(self):
        return [s for s in self.cluster.json("servers")["servers"] if s["live"]]

    def all_stopped(self):
        for node in list(self.cluster.servers.values()) + self.cluster.masters:
            self.ended_in_order(node)
        self.etcd.restore(self.saved)

    def as_the_manual_says(self):
        """"Restoring"."""
        self.all_stopped()
        self.restart_with(self.cluster.master, "--restored")
        self.cluster.wait_acting()
        for node in self.cluster.masters[1:] + list(self.cluster.servers.values()):
            node.start()

    def masters_ran_on(self):
        """They notice."""
        self.etcd.restore(self.saved)
        for master in self.cluster.masters:
            wait_for(f"{master.name} to end", lambda m=master: not m.running())
            self.assertEqual(master.process.returncode, 73, master.log_text()[-2000:])
            self.assertIn("etcd was restored from an older copy", master.log_text())
        self.restart_with(self.cluster.master, "--restored")
        self.cluster.wait_acting()
        for master in self.cluster.masters[1:]:
            master.start()

    def nobody_said_so(self):
        """The servers notice (SES-9), and then the manual's way back, of "Two histories"."""
        self.all_stopped()
        for node in self.cluster.nodes():
            node.start()
        wait_for("the servers to be refused", lambda: any(
            "another history" in m.log_text() for m in self.cluster.masters))
        self.cluster.wait_acting()
        self.assertEqual(self.live(), [])
        self.assertFalse(self.cluster.json("garbage")["deleting"])
        self.restart_with(self.cluster.masters[1], "--restored")
        self.cluster.wait_state(self.cluster.masters[1], "STANDBY", "ACTIVE")
        # Until then another one may be faster.
        wait_for("m2 to act", lambda: self.cluster.run(
            "masters", "--transfer=m2", "--timeout=10s").returncode == 0)

    def check_restored(self, until, written):
        """The file ends at the snapshot, or with a chunk that it had then; and it goes on."""
        cluster = self.cluster
        self.assertFalse(cluster.json("garbage")["deleting"])
        there = self.read_positions(self.path)
        self.assertEqual(there, written[:len(there)])
        self.assertGreaterEqual(there[-1][0], until)
        cluster.command("append", self.path, stdin=b"behind\n")
        again = self.read_positions(self.path)
        self.assertEqual(again[:-1], there)
        self.assertEqual(again[-1][1], b"behind")
        cluster.command("stat", f"{self.path}-old")
        self.assertEqual(cluster.run("stat", f"{self.path}-new").returncode, 1)
        self.say(f"{len(there)} of {len(written)} records are there")

    def test_restores(self):
        # No member is left out meanwhile: an older copy would not know (KEEP-4).
        cluster = self.begin("--suspect-after=60s", server_flags=("--member-timeout=60s",))
        ways = [self.as_the_manual_says, self.masters_ran_on, self.nobody_said_so]
        revision, self.round = 0, 0
        seconds = OPTIONS.seconds if OPTIONS.restores else 0
        while self.round < len(ways) or time.monotonic() < self.began + seconds:
            if self.round % len(ways) == 0:
                self.chance.shuffle(ways)
            way = ways[self.round % len(ways)]
            self.round += 1
            self.path = f"/restored-{self.round}"
            self.say(f"{way.__name__}: begins")
            self.load(self.path, revision)
            cluster.command("create", f"{self.path}-old")
            until = self.snapshot()
            for _ in range(self.chance.choice((1, 2))):
                _, reign = cluster.wait_acting()
                cluster.command("masters", "--transfer")
                cluster.wait_acting(reign)
                cluster.wait_ready()
            cluster.command("create", f"{self.path}-new")
            if self.chance.random() < 0.5:
                self.chunk_follows()
            self.goes_on()
            told = self.finish_load()
            written = self.read_positions(self.path)
            way()
            cluster.wait_ready()
            self.check_restored(until, written)
            last = self.clients[0].revision
            revision = cluster.json("put", VALUE, "restored")["revision"]
            self.assertGreater(revision, last)
            cluster.command("garbage", "--resume")
            for master in cluster.masters:
                if "--restored" in master.argv:
                    self.restart_with(master)
            # What a server reports is believed until a new process of it comes (SES-9).
            for server in cluster.servers.values():
                self.ended_in_order(server)
                server.start()
            cluster.wait_ready()
            self.wait_whole()
            self.say(f"{way.__name__}: done; {told}")
        self.assert_ends()
        self.say(f"seed {OPTIONS.seed}: {self.round} restores")


def main():
    sys.dont_write_bytecode = True
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="seconds", type=seconds_of, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "big"))
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--restores", action="store_true")
    parser.parse_args(namespace=OPTIONS)
    if OPTIONS.list:
        print("\n".join(sorted({f"{row.name} ({row.kind})" for row in TABLE})))
        return 0
    # A third of the seeds have an etcd of one member.
    LoadedTest.etcd_options = {"members": 1 if OPTIONS.seed % 3 == 0 else 3,
                               "flags": [f"--quota-backend-bytes={QUOTA}"]}
    print(f"accidents: --seed={OPTIONS.seed}", file=sys.stderr)
    tests = unittest.TestSuite()
    if not OPTIONS.restores:
        tests.addTest(AccidentsTest("test_accidents_at_random"))
    if OPTIONS.restores or not OPTIONS.only:
        tests.addTest(RestoresTest("test_restores"))
    return not unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
