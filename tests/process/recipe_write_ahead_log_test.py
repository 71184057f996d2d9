#!/usr/bin/python3
"""docs/recipes/write_ahead_log.md: writers that are killed, and that sleep."""

import process_cluster
from process_cluster import wait_for
from process_recipes import RecipeTest

FILE, LOCK = "/wal", "/locks/wal"


class WriteAheadLogTest(RecipeTest):

    def start_writer(self, name):
        return self.start(name, self.program, self.cluster.master_address, FILE, LOCK)

    def log(self):
        """[(number, token)]"""
        text = self.cluster.command("cat", FILE).decode()
        return [tuple(map(int, line.split())) for line in text.splitlines()]

    def await_records(self, token, count=3):
        wait_for(f"{count} records with token {token}",
                 lambda: sum(t == token for _, t in self.log()) >= count)

    def taken_over(self, writer):
        """Until that one writes; returns its token."""
        self.await_holder(writer, LOCK)
        token = self.holder(LOCK)[1]
        self.await_records(token)
        return token

    def test_no_record_is_lost_and_none_comes_after_its_writers_time(self):
        self.program = self.build("write_ahead_log")
        self.cluster.command("create", "--replication=1", FILE)
        first = self.start_writer("first")
        token = self.taken_over(first)

        # From one that sleeps.
        second = self.start_writer("second")
        first.pause()
        later = self.taken_over(second)
        self.assertGreater(later, token)
        first.resume()
        wait_for("the one that slept to be refused", lambda: "STALE_TOKEN" in first.log_text())

        # From one that is dead.
        second.kill()
        self.taken_over(first)

        # No other way in.
        refused = self.cluster.run("append", FILE, stdin=b"stray\n")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"STALE_TOKEN", refused.stderr)

        first.kill()
        log = self.log()
        self.assertEqual([n for n, _ in log], list(range(1, len(log) + 1)))
        tokens = [t for _, t in log]
        self.assertEqual(tokens, sorted(tokens))


if __name__ == "__main__":
    process_cluster.main()
