#!/usr/bin/python3
"""What is damaged at every member of a chunk (REC-9a), on real servers: reading on behind it, and
`leasehold salvage`."""

import json
import os
import re
import time

import process_cluster
from process_cluster import CALM, LOG_START, ClusterTest

PATH = "/salvage/log"
RECORDS = [b"%06d %s" % (i, b"x" * 500) for i in range(600)]


class SalvageTest(ClusterTest):

    def fill(self):
        """A file of several sealed chunks and a tail; returns the sealed ones."""
        self.start_cluster(servers=3, **CALM)
        self.cluster.command("create", "--chunk-size=64KiB", PATH)
        self.cluster.command("append", "--batch-bytes=8KiB", PATH,
                             stdin=b"".join(r + b"\n" for r in RECORDS))
        sealed = [c for c in self.cluster.chunks(PATH) if c["sealed"]]
        self.assertGreaterEqual(len(sealed), 3)
        return sealed

    def flip(self, chunk, servers, offset):
        for server in servers:
            with open(self.cluster.chunk_file(server, chunk["chunk"]), "r+b") as file:
                file.seek(LOG_START + offset)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 4]))

    def salvage(self, status):
        """A member that is just being copied has nothing to say yet: then not all is decided (69),
        and the command is to be repeated."""
        ends = time.monotonic() + 30
        result = self.cluster.run("salvage", "--json", PATH)
        while result.returncode == 69 != status and time.monotonic() < ends:
            time.sleep(0.1)
            result = self.cluster.run("salvage", "--json", PATH)
        self.assertEqual(result.returncode, status,
                         (result.stdout + result.stderr).decode(errors="replace"))
        return json.loads(result.stdout)

    def read_over(self, *options, status=2, command="cat"):
        """The records that are left, and the gaps that were reported."""
        result = self.cluster.run(command, "--skip-damaged", *options, PATH)
        text = result.stderr.decode()
        self.assertEqual(result.returncode, status, text)
        gaps = [tuple(map(int, g)) for g in re.findall(r"offsets (\d+) to (\d+)", text)]
        self.assertEqual(text.count("left out"), len(gaps), text)
        return result.stdout.splitlines(), gaps

    def test_what_is_damaged_everywhere_is_reported_and_passed(self):
        sealed = self.fill()
        everywhere, somewhere = sealed[1], sealed[2]
        middle = everywhere["length"] // 2 + 100  # in the records of a batch
        self.flip(everywhere, ("cs1", "cs2"), middle)
        self.flip(everywhere, ("cs3",), middle + 1)
        self.flip(somewhere, ("cs2",), somewhere["length"] // 2)

        found = self.salvage(status=2)
        self.assertEqual(found["gaps"], 1)
        by_chunk = {c["chunk"]: c for c in found["chunks"]}
        self.assertEqual(len(by_chunk), len(sealed))
        self.assertEqual(by_chunk[sealed[0]["chunk"]]["verdict"], "whole")
        # A member that is being copied is not read.
        self.assertIn(by_chunk[somewhere["chunk"]]["verdict"], ("mended", "whole", "readable"))
        damaged = by_chunk[everywhere["chunk"]]
        self.assertEqual(damaged["verdict"], "damaged")
        gap, = damaged["damaged"]
        batch, = damaged["batches"]
        self.assertEqual((batch["offset"], batch["bytes"]), (gap["from"], gap["bytes"]))
        self.assertLessEqual(gap["from"], everywhere["start"] + middle)
        self.assertGreater(gap["to"], everywhere["start"] + middle)
        lost = RECORDS[batch["sequence"] - 1:batch["sequence"] - 1 + batch["records"]]
        left = [r for r in RECORDS if r not in lost]

        # Without the option reading ends there, and says what to do.
        result = self.cluster.run("cat", PATH)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines(), RECORDS[:batch["sequence"] - 1])
        self.assertIn(b"leasehold salvage", result.stderr)
        for word in (PATH, str(gap["from"]), "cs1", "cs2", "cs3"):
            self.assertIn(word, result.stderr.decode())

        for _ in range(2):
            self.assertEqual(self.read_over(), (left, [(gap["from"], gap["to"])]))
            for node in self.cluster.servers.values():
                node.kill()
                node.start()
            self.cluster.wait_ready()
        self.assertEqual(self.read_over("-n", str(len(left) - 1), command="tail"),
                         (left[1:], [(gap["from"], gap["to"])]))
        text = self.cluster.run("salvage", PATH).stdout.decode()
        self.assertIn("DAMAGED at every member", text)
        self.assertIn(f"sequences {batch['sequence']} to ", text)

    def test_damaged_headers_and_ends(self):
        sealed = self.fill()
        everyone = ("cs1", "cs2", "cs3")
        self.flip(sealed[0], everyone, 5)  # a header, which has the size
        last = sealed[1]["length"] - 4  # the last bytes of a chunk
        self.flip(sealed[1], everyone, last)
        found = self.salvage(status=2)
        self.assertEqual(found["gaps"], 2)
        records, gaps = self.read_over()
        self.assertEqual([{"from": a, "to": b, "bytes": b - a} for a, b in gaps],
                         [c["damaged"][0] for c in found["chunks"][:2]])
        self.assertEqual(gaps[0][0], 0)
        self.assertEqual(gaps[1][1], sealed[1]["start"] + sealed[1]["length"])
        self.assertEqual(records, [r for r in RECORDS if r in set(records)])
        self.assertGreater(len(records), len(RECORDS) - 40)

    def test_the_chunk_that_is_not_sealed(self):
        """Another batch rots at each of its members: each is whole at two, and no member is. While
        one member is away nobody knows where the chunk ends. When it is back the chunk is sealed,
        its replicas are made whole from each other, and the file goes on."""
        self.start_cluster(servers=3, **CALM)
        self.cluster.command("create", PATH)
        for record in RECORDS[:6]:
            self.cluster.command("append", PATH, stdin=record + b"\n")
        whole = json.loads(self.cluster.command("salvage", "--json", PATH))
        self.assertEqual((whole["chunks_open"], whole["chunks_open_damaged"],
                          whole["open_problems"]), (1, 0, []))
        self.assertRegex(self.cluster.command("salvage", PATH).decode(), "nothing is lost\n$")
        self.cluster.command("recall", "--only-release", PATH)
        chunk, = self.cluster.chunks(PATH)
        away = self.cluster.servers["cs3"]
        away.kill()
        for i, server in enumerate(("cs1", "cs2", "cs3")):
            self.flip(chunk, (server,), 2 * i * len(RECORDS[0]) + 300)

        self.cluster.run("salvage", PATH)
        result = self.cluster.run("salvage", PATH)
        self.assertIn(result.returncode, (2, 69))
        # All can be read, and nobody says that there is nothing more, nor that there is.
        result = self.cluster.run("cat", "--timeout=3s", PATH)
        self.assertEqual(result.stdout.splitlines(), RECORDS[:6])
        self.assertEqual(result.returncode, 69, result.stderr)
        said = self.cluster.command("explain", PATH).decode()
        self.assertNotIn("can be read now", said)

        away.start()
        self.cluster.wait_ready()
        self.cluster.command("append", PATH, stdin=RECORDS[6] + b"\n")
        self.assertEqual(self.cluster.command("cat", PATH).splitlines(), RECORDS[:7])
        first, second = self.cluster.chunks(PATH)
        self.assertEqual((first["chunk"], first["sealed"]), (chunk["chunk"], True))
        self.assertFalse(second["sealed"])
        ends = time.monotonic() + 60
        while self.cluster.run("fsck", "--deep", PATH).returncode != 0:
            self.assertLess(time.monotonic(), ends, self.cluster.run("fsck", PATH).stdout)
            time.sleep(0.5)
        self.assertEqual(self.salvage(status=0)["gaps"], 0)
        self.assertEqual(self.cluster.command("cat", PATH).splitlines(), RECORDS[:7])

    def test_a_member_that_is_away_may_have_it(self):
        sealed = self.fill()
        self.flip(sealed[0], ("cs1", "cs2"), sealed[0]["length"] // 2)
        self.cluster.servers["cs3"].kill()
        found = self.salvage(status=69)
        self.assertEqual(found["chunks"][0]["verdict"], "undecided")
        result = self.cluster.run("cat", "--skip-damaged", "--timeout=3s", PATH)
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertNotIn(b"left out", result.stderr)
        self.cluster.servers["cs3"].start()
        self.cluster.wait_ready()
        self.assertEqual(self.read_over(status=0), (RECORDS, []))
        self.assertEqual(self.salvage(status=0)["gaps"], 0)


if __name__ == "__main__":
    process_cluster.main()
