#!/usr/bin/python3
"""docs/recipes/one_owner.md: owners that are killed, stopped, and cancelled."""

import process_cluster
from process_recipes import RecipeTest

NAME = "/jobs/compact"


class OneOwnerTest(RecipeTest):

    def start_owner(self, name):
        return self.start(name, self.program, self.cluster.master_address, NAME,
                          f"{self.folder}/guard", f"{self.folder}/output")

    def await_acts(self, token):
        return self.await_lines("output", 3, lambda line: int(line) == token)

    def test_one_at_a_time_whatever_becomes_of_it(self):
        self.program = self.build("one_owner")
        first = self.start_owner("first")
        self.await_holder(first, NAME)
        token = self.holder(NAME)[1]
        self.await_acts(token)

        # It stands still for longer than its term; the next one goes on.
        second = self.start_owner("second")
        first.pause()
        self.await_holder(second, NAME)
        later = self.holder(NAME)[1]
        self.assertGreater(later, token)
        self.await_acts(later)
        # It wakes up in the middle of its turn, and queues again.
        first.resume()
        self.await_waiting(NAME)

        # An operator ends the turn: "second" hears of it, and releases.
        self.cluster.command("cancel", NAME, "--why=the test says so")
        self.await_holder(first, NAME)
        self.await_lines("second.log", 1, lambda line: "the test says so" in line)

        # A dead owner's session ends by itself.
        self.await_waiting(NAME)
        first.kill()
        self.await_holder(second, NAME)
        self.await_acts(self.holder(NAME)[1])

        tokens = [int(line) for line in self.lines("output")]
        self.assertEqual(tokens, sorted(tokens), "an act with a lower token after a higher one")


if __name__ == "__main__":
    process_cluster.main()
