#!/usr/bin/python3
"""The programs in README.md and docs/ do what is said of them, on a real cluster."""

import re
import subprocess

import process_cluster
from process_cluster import ClusterTest
from process_compile import compile_program


class ExamplesTest(ClusterTest):

    def build(self, source):
        return compile_program(self.folder, "example", source, "-std=c17")

    def output(self, *argv):
        return subprocess.run(argv, capture_output=True, check=True, encoding="utf-8").stdout

    def test_the_program_of_the_readme(self):
        cluster = self.start_cluster()
        with open("README.md", encoding="utf-8") as file:
            source = re.search(r"^```c\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE).group(1)
        self.assertIn("127.0.0.1:7400", source)
        program = self.build(source.replace("127.0.0.1:7400", cluster.master_address))
        cluster.command("create", "/logs/web")
        self.assertEqual(self.output(program), "stored at 0:0\n")
        self.assertEqual(cluster.command("cat", "/logs/web"), b"hello\n")

    def test_the_program_of_the_docs(self):
        cluster = self.start_cluster()
        with open("docs/example.c", encoding="utf-8") as file:
            program = self.build(file.read())
        said = self.output(program, cluster.master_address, "/greetings", "hello", "world")
        self.assertIn("hello", said)
        self.assertIn("world", said)
        self.assertEqual(cluster.command("cat", "/greetings"), b"hello\nworld\n")


if __name__ == "__main__":
    process_cluster.main()
