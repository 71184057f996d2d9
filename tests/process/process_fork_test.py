#!/usr/bin/python3
"""Programs that fork: what was opened before is the parent's alone, and a child opens its own."""

import re
import subprocess

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest
from process_compile import compile_program

HEADERS = ("client/library/leasehold.h", "client/library/leasehold_leases.h")
SOURCE = "tests/process/forks.c"
HANDLES = re.compile(r"struct lh_(?:cluster|appender|reader|session|lock|watch) \*\w")


def functions_with_handles():
    """The public functions that take a handle, by their declarations."""
    for header in HEADERS:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        declared = re.findall(r"^\w[\w ]*[ *](lh_\w+)\(([^;{]*)\);", text, re.MULTILINE)
        for name, arguments in declared:
            if HANDLES.search(arguments):
                yield name


class ForkTest(ClusterTest):

    def fork_over(self, transport):
        with open(SOURCE, encoding="utf-8") as file:
            program = compile_program(self.folder, "forks", file.read(), "-std=gnu17",
                                      "-D_GNU_SOURCE", "-pthread", "-Wall", "-Werror")
        self.start_cluster(servers=1, **CALM)
        self.assertEqual(
            self.cluster.run("create", "--replication=1", "/forked", "/children").returncode, 0)
        result = subprocess.run(
            [program, self.cluster.master_address, "/forked", "/children", transport],
            capture_output=True, timeout=3 * PATIENCE_S, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, b"forked\n"), result.stderr)

    def test_children_have_clusters_of_their_own_and_the_parent_does_not_notice(self):
        self.fork_over("wire")

    def test_nothing_works_in_a_child_of_a_program_that_used_grpc(self):
        self.fork_over("grpc")

    def test_each_function_is_tried(self):
        with open(SOURCE, encoding="utf-8") as file:
            text = file.read()
        names = list(functions_with_handles())
        self.assertIn("lh_append_many", names)
        self.assertEqual([n for n in names if f"{n}(" not in text], [])


if __name__ == "__main__":
    process_cluster.main()
