#!/usr/bin/python3
"""The C in README.md, in docs/ and in the comments of the library's headers compiles as it stands,
without a warning, and each function that the documents name is in a header. process_examples_test
and the tests of recipes run what are whole programs."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

HEADER = "client/library/leasehold.h"
HEADERS = (HEADER, "client/library/leasehold_leases.h")
DOCUMENTS = ["README.md", *sorted(glob.glob("docs/*.md") + glob.glob("docs/recipes/*.md"))]

# Named in the documents, and of the simulator's world.
OTHERS = ("lh_sim_",)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


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


def compiled(source, output, *flags):
    """A few statements get a function around them. Returns what the compiler says; "": nothing."""
    if "#include" not in source:
        source = f"#include <leasehold_leases.h>\nvoid e(void);\nvoid e(void)\n{{\n{source}}}\n"
    result = subprocess.run(
        ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-x", "c", "-",
         "-isystem", os.path.dirname(HEADER), "-o", output, *flags],
        input=source, capture_output=True, check=False, encoding="utf-8")
    return result.stderr if result.returncode != 0 else ""


class ExamplesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.object = os.path.join(folder.name, "example.o")

    def test_they_compile(self):
        found = {name: fenced(read(name)) for name in DOCUMENTS}
        found.update({header: indented(read(header)) for header in HEADERS})
        for name, examples in found.items():
            for source in examples:
                with self.subTest(name=name):
                    self.assertEqual(compiled(source, self.object, "-c"), "", source)
        # Should nothing be found any more, this looks for the wrong thing.
        self.assertTrue(found["README.md"] and found[HEADER] and "docs/api.md" in found)

    def test_a_call_that_lacks_an_argument_does_not(self):
        example = indented(read(HEADER))[0]
        wrong = example.replace(', NULL, 10000, &appender', ', 10000, &appender')
        self.assertNotEqual(wrong, example)
        self.assertIn("too few arguments", compiled(wrong, self.object, "-c"))

    def test_functions_that_are_named_are_there(self):
        declared = {f for h in HEADERS for f in re.findall(r"\b(lh_\w+)\(", read(h))}
        named = {(name, function) for name in DOCUMENTS
                 for function in re.findall(r"`(lh_\w+)\(", read(name))
                 if not function.startswith(OTHERS)}
        self.assertTrue(named)
        self.assertEqual(sorted((n, f) for n, f in named if f not in declared), [])


if __name__ == "__main__":
    unittest.main()
