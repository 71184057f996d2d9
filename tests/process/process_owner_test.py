#!/usr/bin/python3
"""A file that has one owner at a time (TOK-2), with three masters on a network whose links are cut:
the owner is killed, paused, or cut off from the masters alone, while it reaches every chunkserver;
masters change in the middle of it. The owners are the program of docs/recipes/write_ahead_log.md,
each on a host of its own.

Each owner counts on from the last record that it reads. So a record that was acknowledged and
lost, or one of a former owner's that comes after its successor has read, shows in the numbers.
Readers follow the file all the while: to all of them the same records have the same positions.
"""

import contextlib
import os
import re
import sys
import time
import unittest

import network
import process_cluster
from process_cluster import CALM, Node, binary, wait_for
from process_masters import MastersTest
from process_recipes import RecipeTest

FILE, LOCK = "/wal", "/locks/wal"
MASTERS = ("m1", "m2", "m3")


class OwnerTest(MastersTest):

    @classmethod
    def setUpClass(cls):
        if network.refused:
            raise unittest.SkipTest(network.refused)
        cls.network = network.Network()
        cls.host = staticmethod(cls.network.host)
        super().setUpClass()

    build = RecipeTest.build
    holder = RecipeTest.holder
    holds = RecipeTest.holds

    def start(self, name, *argv, host):
        node = Node(name, None, None, list(argv), os.path.join(self.folder, name + ".log"), host)
        node.start()
        self.addCleanup(self._end, node)
        return node

    def _end(self, node):
        if node.running():
            node.resume()
            node.kill()
        if self._failed():
            print(f"---- {node.name}: {node.log_text()[-2000:]}", file=sys.stderr)

    def owner(self, name):
        return self.start(name, self.program, self.cluster.master_address, FILE, LOCK,
                          host=self.host(name))

    def records(self):
        """[(position, number, token)], by a reader that begins now."""
        text = self.cluster.command("cat", "--positions", FILE).decode()
        return [tuple(re.split(r"[\t ]", line)) for line in text.splitlines()]

    def takes_over(self, owner, above):
        """Until it has the lock and has stored some records; returns its token."""
        wait_for(f"{owner.name} to hold the lock", lambda: self.holds(owner, LOCK))
        token = self.holder(LOCK)[1]
        self.assertGreater(token, above)
        wait_for(f"records of {owner.name}",
                 lambda: sum(int(t) == token for _, _, t in self.records()) > 3)
        return token

    def refused(self, owner, times):
        wait_for(f"{owner.name} to be refused",
                 lambda: owner.log_text().count("STALE_TOKEN") >= times)

    def change_master(self):
        master, reign = self.cluster.wait_acting()
        master.kill()
        self.cluster.wait_acting(above=reign)
        master.start()

    def cut(self, name, what):
        away = [(name, m) for m in MASTERS]
        back = [(m, name) for m in MASTERS]
        return self.network.cut(*(away if "from" in what else []), *(back if "to" in what else []))

    def test_the_owner_is_lost_in_all_ways(self):
        self.program = self.build("write_ahead_log")
        self.start_masters(**CALM)
        self.cluster.command("create", FILE)
        owner, other = self.owner("first"), None
        token = self.takes_over(owner, 0)
        readers = [self.start(f"reader{i}", binary("leasehold"), "tail", "--follow", "--positions",
                              f"--master={self.cluster.master_address}", "--lines=1000000", FILE,
                              host=self.host("clients")) for i in range(2)]
        other = self.owner("second")
        times = {owner: 0, other: 0}
        for what, master_dies in (("cut off, from and to", False), ("cut off, to", True),
                                  ("cut off, from", False), ("paused", True)):
            began = time.monotonic()
            with contextlib.ExitStack() as stack:
                if what == "paused":
                    owner.pause()
                else:
                    stack.enter_context(self.cut(owner.name, what))
                if master_dies:
                    self.change_master()
                token = self.takes_over(other, token)
            if what == "paused":
                owner.resume()
            times[owner] += 1
            self.refused(owner, times[owner])
            print(f"{owner.name} {what}: {time.monotonic() - began:.2f} s", file=sys.stderr)
            owner, other = other, owner
        owner.kill()
        self.change_master()
        token = self.takes_over(other, token)
        other.kill()

        records = self.records()
        self.assertEqual([int(n) for _, n, _ in records], list(range(1, len(records) + 1)))
        tokens = [int(t) for _, _, t in records]
        self.assertEqual(tokens, sorted(tokens))
        self.assertEqual(len(set(tokens)), 6)
        expected = ["\t".join((p, f"{n} {t}")) for p, n, t in records]
        for reader in readers:
            wait_for(f"{reader.name} to have all",
                     lambda r=reader: len(r.log_text().splitlines()) >= len(expected))
            self.assertEqual(reader.log_text().splitlines(), expected)


if __name__ == "__main__":
    network.enter()
    process_cluster.main()
