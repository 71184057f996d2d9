#!/usr/bin/python3
"""Programs that fork: what was opened before is the parent's alone, and a child opens its own."""

import os
import re
import subprocess

import process_cluster
from process_cluster import CALM, PATIENCE_S, Cluster, ClusterTest
from process_compile import compile_program
from process_tls_test import Certs, secure

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

    def start_secure(self):
        """Returns the folder of a client's certificate."""
        certs = Certs(os.path.join(self.folder, "certs"))
        self.cluster = Cluster(self.folder, servers=1, **CALM)
        secure(self.cluster, certs)
        self.cluster.start()
        return certs.dir_of("admin/test")

    def run_program(self, source, *args):
        with open(source, encoding="utf-8") as file:
            program = compile_program(self.folder, "forks", file.read(), "-std=gnu17",
                                      "-D_GNU_SOURCE", "-pthread", "-Wall", "-Werror")
        self.cluster.command("create", "--replication=1", "/forked", "/children")
        result = subprocess.run([program, self.cluster.master_address, *args], capture_output=True,
                                timeout=3 * PATIENCE_S, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, b"forked\n"), result.stderr)

    def fork_over(self, transport):
        self.start_cluster(servers=1, **CALM)
        self.run_program(SOURCE, "/forked", "/children", transport)

    def test_children_have_clusters_of_their_own_and_the_parent_does_not_notice(self):
        self.fork_over("wire")

    def test_nothing_works_in_a_child_of_a_program_that_used_grpc(self):
        self.fork_over("grpc")

    def test_children_beside_connections_with_tls(self):
        self.run_program(SOURCE, "/forked", "/children", "wire", self.start_secure())

    def test_children_of_a_program_that_is_in_handshakes(self):
        tls_dir = self.start_secure()
        self.run_program("tests/process/forks_handshakes.c", "/forked", tls_dir)

    def test_each_function_is_tried(self):
        with open(SOURCE, encoding="utf-8") as file:
            text = file.read()
        names = list(functions_with_handles())
        self.assertIn("lh_append_many", names)
        self.assertEqual([n for n in names if f"{n}(" not in text], [])


if __name__ == "__main__":
    process_cluster.main()
