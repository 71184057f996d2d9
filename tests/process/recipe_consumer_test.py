#!/usr/bin/python3
"""docs/recipes/consumer.md: consumers that are killed and stopped in the middle of a file."""

import process_cluster
from process_recipes import RecipeTest

FILE, NAME = "/events", "/consumers/events"


class ConsumerTest(RecipeTest):

    def start_consumer(self, name):
        return self.start(name, self.program, self.cluster.master_address, FILE, NAME,
                          f"{self.folder}/output")

    def produce(self, first, count):
        records = "".join(f"{i}\n" for i in range(first, first + count))
        self.cluster.command("append", "--create", "--replication=1", FILE,
                             stdin=records.encode())

    def await_record(self, number):
        self.await_lines("output", 1, lambda line: int(line) == number)

    def test_each_record_is_processed_over_consumers_that_die_and_sleep(self):
        self.program = self.build("consumer")
        self.produce(0, 50)
        first = self.start_consumer("first")
        self.await_record(49)

        second = self.start_consumer("second")
        first.pause()
        self.await_holder(second, NAME)
        self.produce(50, 50)
        self.await_record(99)
        first.resume()  # what it had in hand is refused

        second.kill()
        self.await_holder(first, NAME)
        self.produce(100, 50)
        self.await_record(149)

        # In order, none missing; at a takeover the last one may come twice.
        seen = [int(line) for line in self.lines("output")]
        self.assertEqual(sorted(set(seen)), list(range(150)))
        self.assertEqual(seen, sorted(seen))
        self.assertLessEqual(len(seen), 150 + 2)


if __name__ == "__main__":
    process_cluster.main()
