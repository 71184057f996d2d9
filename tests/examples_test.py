#!/usr/bin/python3
"""The C in README.md, in docs and in the comments of client/library/leasehold.h compiles as it
stands, without a warning."""

import os
import re
import subprocess
import tempfile
import unittest

HEADER = "client/library/leasehold.h"
DOCUMENTS = ("README.md", "docs/api.md", "docs/command.md", "docs/operations.md")


def fenced(text):
    """What stands between ```c and ```."""
    return re.findall(r"^```c\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def indented(header):
    """Runs of indented lines in a header's comments, where one of them ends in a semicolon."""
    runs, run = [], []
    for line in header.splitlines() + [""]:
        match = re.match(r"^ \*(?:   (\S.*)|)$", line)
        if match:
            run.append(match.group(1) or "")
            continue
        if any(line.endswith(";") for line in run):
            runs.append("\n".join(run).strip() + "\n")
        run = []
    return runs


class ExamplesTest(unittest.TestCase):

    def compile(self, name, source):
        if "#include" not in source:
            source = f"#include <leasehold.h>\nvoid e(void);\nvoid e(void)\n{{\n{source}}}\n"
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            path = os.path.join(folder, "example.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            result = subprocess.run(
                ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-c", path,
                 "-isystem", os.path.dirname(HEADER), "-o", os.path.join(folder, "example.o")],
                capture_output=True, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, f"{name}:\n{source}\n{result.stderr}")

    def test_they_compile(self):
        found = {}
        for name in DOCUMENTS:
            with open(name, encoding="utf-8") as file:
                found[name] = fenced(file.read())
        with open(HEADER, encoding="utf-8") as file:
            found[HEADER] = indented(file.read())
        for name, examples in found.items():
            for source in examples:
                with self.subTest(name=name):
                    self.compile(name, source)
        # Should nothing be found any more, this looks for the wrong thing.
        self.assertTrue(found["README.md"] and found[HEADER])


if __name__ == "__main__":
    unittest.main()
