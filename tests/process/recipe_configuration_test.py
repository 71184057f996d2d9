#!/usr/bin/python3
"""docs/recipes/configuration.md: a value that a thousand readers have, changed under them."""

import subprocess

import process_cluster
from process_recipes import RecipeTest

NAME = "/config/limits"
READERS = 1000


class ConfigurationTest(RecipeTest):

    def setUp(self):
        super().setUp()
        self.program = self.build("configuration")

    def start_readers(self, count):
        readers = subprocess.Popen([self.program, self.cluster.master_address, NAME, str(count)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self._end, readers)
        return readers

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def read(self, readers):
        readers.stdin.write(b"\n")
        readers.stdin.flush()
        words = readers.stdout.readline().decode().split()
        return int(words[1]), int(words[3])

    def put(self, value):
        return self.cluster.json("put", NAME, value)["revision"]

    def test_when_put_has_returned_nobody_reads_the_old_value(self):
        first = self.put("rate=1")
        readers = self.start_readers(READERS)
        self.assertEqual(self.read(readers), (first, first))
        for policy in ("default", "broadcast"):
            self.cluster.command("policy", "/config/", f"--set={policy}")
            for i in range(2):
                revision = self.put(f"rate={policy}{i}")
                self.assertEqual(self.read(readers), (revision, revision), policy)
                self.assertEqual(self.read(readers), (revision, revision), policy)

    def test_a_reader_that_stands_still_delays_it_and_reads_nothing_old(self):
        first = self.put("rate=1")
        asleep, awake = self.start_readers(3), self.start_readers(3)
        self.assertEqual(self.read(asleep), (first, first))
        self.assertEqual(self.read(awake), (first, first))
        asleep.send_signal(19)  # SIGSTOP
        second = self.put("rate=2")  # waits for its sessions' end
        self.assertEqual(self.read(awake), (second, second))
        asleep.send_signal(18)
        self.assertEqual(self.read(asleep), (second, second))


if __name__ == "__main__":
    process_cluster.main()
