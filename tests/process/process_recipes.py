"""The programs of docs/recipes/, compiled as they stand, and run as processes."""

import os
import re
import signal
import sys

from process_cluster import ClusterTest, Node, binary, wait_for
from process_compile import compile_program

RECIPES = "docs/recipes"  # where tests find them (the runfiles)

# A lost chunkserver is none of their business.
OPTIONS = {"servers": 1, "chunk_term": "60s",
           "master_flags": ("--suspect-after=60s", "--create-timeout=60s")}


class RecipeTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self._end_processes)
        self.start_cluster(**OPTIONS)

    def _end_processes(self):
        for node in self.processes:
            if node.running():
                node.signal(signal.SIGCONT)
                node.kill()
            if self._failed():
                print(f"---- {node.name}: {node.log_text()[-2000:]}", file=sys.stderr)

    def build(self, page):
        """The program of that page; returns its path."""
        with open(os.path.join(RECIPES, page + ".md"), encoding="utf-8") as file:
            source = re.search(r"^```c\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE).group(1)
        return compile_program(self.folder, page, source, "-std=c17")

    def start(self, name, *argv):
        """A process with the name, whose output is in its log."""
        node = Node(name, None, None, [str(a) for a in argv],
                    os.path.join(self.folder, name + ".log"))
        node.start()
        self.processes.append(node)
        return node

    def leasehold(self, name, *args):
        """`leasehold` as a process."""
        os.environ["LEASEHOLD_MASTER"] = self.cluster.master_address
        return self.start(name, binary("leasehold"), *args)

    def lines(self, name):
        """Whole lines of a file in the test's folder."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().split("\n")[:-1]

    def await_lines(self, name, count, what=lambda line: True):
        """Until so many lines of the file are such; returns them."""
        def found():
            lines = [line for line in self.lines(name) if what(line)]
            return lines if len(lines) >= count else None
        return wait_for(f"{count} such lines in {name}", found)

    def holder(self, name):
        """(label, token) of the only holder, once there is one."""
        def one():
            names = [n for n in self.cluster.json("holders", name)["names"] if n["name"] == name]
            holders = names[0]["holders"] if names else []
            return (holders[0]["process"], holders[0]["token"]) if len(holders) == 1 else None
        return wait_for(f"a holder of {name}", one)

    def holds(self, node, name):
        """Whether that process holds the lock."""
        return self.holder(name)[0].split(" ")[0] == str(node.process.pid)

    def await_waiting(self, name):
        """Until somebody waits for the lock."""
        def waiting():
            names = [n for n in self.cluster.json("holders", name)["names"] if n["name"] == name]
            return bool(names) and names[0]["waiting"] > 0
        wait_for(f"somebody to wait for {name}", waiting)

    def await_holder(self, node, name):
        wait_for(f"{node.name} to hold {name}", lambda: self.holds(node, name))
