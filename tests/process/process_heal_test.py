#!/usr/bin/python3
"""The cluster mends itself, on real processes: a server lost for good, rot, a primary that comes
back after its file went on, a master that restarts with files in the trash."""

import os
import shutil
import signal
import time

import process_cluster
from process_cluster import CALM, LOG_START, ClusterTest, wait_for

PATH = "/heal/log"
RECORDS = b"".join(b"%06d %s\n" % (i, b"x" * 500) for i in range(500))


class HealTest(ClusterTest):

    def fill(self, **options):
        """A file of several sealed chunks and a tail."""
        self.start_cluster(**options)
        self.cluster.command("create", "--chunk-size=64KiB", PATH)
        self.cluster.command("append", "--batch-bytes=8KiB", PATH, stdin=RECORDS)

    def await_whole(self):
        """Until all chunks have all of their replicas, and no copy is under way."""
        def whole():
            repair = self.cluster.json("servers")["repair"]
            return repair["chunks_degraded"] == 0 and repair["copies_running"] == 0
        wait_for("full replication", whole, interval=0.2)

    def assert_healthy(self):
        def clean():
            return self.cluster.run("fsck", "--deep").returncode == 0
        wait_for("fsck to find nothing", clean, interval=0.5)

    def members(self):
        return [{m["server_id"] for m in c["members"]} for c in self.cluster.chunks(PATH)]

    def explained(self):
        return " ".join(self.cluster.json("explain", PATH)["sentences"])

    def flip_a_byte(self, server, chunk, offset):
        """Another byte `offset` behind where the chunk's log begins; returns what was there."""
        with open(self.cluster.chunk_file(server, chunk), "r+b") as file:
            file.seek(LOG_START + offset)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        return byte

    def byte_at(self, server, chunk, offset):
        """None while a replica is given up for the next one."""
        try:
            with open(self.cluster.chunk_file(server, chunk), "rb") as file:
                file.seek(LOG_START + offset)
                return file.read(1)
        except FileNotFoundError:
            return None

    # Servers.

    def info(self, name):
        return next(s for s in self.cluster.json("servers")["servers"] if s["server_id"] == name)

    def create_some(self, prefix):
        """Files with a record each; the members of all their chunks, and the chunks' versions."""
        members, versions = set(), set()
        for i in range(12):
            path = f"{prefix}/{i}"
            self.cluster.command("append", "--create", path, stdin=b"a record\n")
            for chunk in self.cluster.chunks(path):
                members |= {m["server_id"] for m in chunk["members"]}
                versions.add(chunk["version"])
        return members, versions

    def test_nothing_is_placed_where_no_server_is_heard(self):
        """SES-8: its address leads nowhere, then to another server, then to itself."""
        self.start_cluster(servers=4, **CALM)
        moved = self.cluster.servers["cs4"]
        moved.stop()
        moved.argv.append("--advertise=127.0.0.1:1")
        moved.start()
        wait_for("it is not heard", lambda: "127.0.0.1:1: " in self.info("cs4")["unheard"])
        self.assertEqual(self.info("cs4")["state"], "unheard")
        self.assertEqual(self.create_some("/nowhere"), ({"cs1", "cs2", "cs3"}, {1}))
        self.assertIn(b"nothing is placed at cs4: the master did not hear it at 127.0.0.1:1",
                      self.cluster.run("servers").stderr)

        moved.stop()
        moved.argv[-1] = f"--advertise={self.cluster.servers['cs1'].address}"
        moved.start()
        wait_for("another one is heard there",
                 lambda: 'chunkserver "cs1" answers there' in self.info("cs4")["unheard"])
        self.assertEqual(self.create_some("/another"), ({"cs1", "cs2", "cs3"}, {1}))

        moved.stop()
        moved.argv.pop()
        moved.start()
        wait_for("it is heard", lambda: self.info("cs4")["state"] == "live")
        self.cluster.servers["cs1"].stop()
        self.assertEqual(self.create_some("/itself"), ({"cs2", "cs3", "cs4"}, {1}))

    def test_a_server_is_lost_for_good(self):
        self.fill(servers=4, master_flags=["--grace=1s"])
        lost = sorted(self.members()[0])[0]
        self.cluster.servers[lost].kill()
        shutil.rmtree(self.cluster.servers[lost].data_dir)
        def replaced():
            return all(lost not in members and len(members) == 3 for members in self.members())
        # The tail waits for its next primary with that: nobody may have its lease meanwhile.
        self.cluster.command("append", PATH, stdin=b"after\n")
        wait_for("all of its replicas elsewhere", replaced, interval=0.2)
        self.await_whole()
        self.cluster.assert_replicas_identical(PATH)
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS + b"after\n")
        # Any of the three that are left has everything.
        for name, server in self.cluster.servers.items():
            if name != lost:
                server.signal(signal.SIGSTOP)
                self.assertEqual(self.cluster.command("cat", PATH), RECORDS + b"after\n")
                server.signal(signal.SIGCONT)
                # A reader may be held up for so long that others take its place: then it joins
                # again, and until it has, the next one cannot be spared.
                self.cluster.wait_ready()
                self.await_whole()
                self.assert_healthy()

    def test_a_server_is_drained_under_appends(self):
        self.start_cluster(servers=4)
        self.cluster.command("create", "--chunk-size=256KiB", PATH)
        self.start_writers(PATH, 2)
        drained = self.cluster.primary(PATH)
        result = self.cluster.json("drain", "--wait", "--give-up=2m", drained)
        self.assertTrue(result["safe_to_stop"])
        for members in self.members():
            self.assertNotIn(drained, members)
        # It is as if it had never been.
        self.assertEqual(self.cluster.servers[drained].stop(), 0)
        shutil.rmtree(self.cluster.servers[drained].data_dir)
        self.await_progress(100)
        self.finish_writers()
        self.await_whole()
        self.check_file(PATH)

    def test_a_primary_that_comes_back_after_its_file_went_on(self):
        self.start_cluster(session_term="60s", chunk_term="60s")
        self.cluster.command("create", "--chunk-size=64MiB", PATH)
        self.start_writers(PATH, 4)
        old = self.cluster.held_lease(PATH)
        self.cluster.servers[old["primary"]].signal(signal.SIGSTOP)
        # FAIL-2a: nobody waits for the lease, which it holds all the time.
        self.await_progress(100)
        self.assertIn(old["chunk"], [e["chunk"] for e in self.cluster.old_leases(PATH)])
        self.assertNotEqual(self.cluster.held_lease(PATH)["chunk"], old["chunk"])
        self.cluster.servers[old["primary"]].signal(signal.SIGCONT)
        self.await_progress(100)
        self.cluster.wait_ready()
        self.await_progress(100)
        self.finish_writers()
        self.await_whole()
        self.check_file(PATH)
        self.assert_healthy()
        for members in self.members():
            self.assertIn(old["primary"], members)

    def test_a_file_that_waits_for_its_primarys_lease(self):
        self.start_cluster(session_term="10s", chunk_term="10s")
        self.cluster.command("create", "--chunk-size=64MiB", "--on-primary-loss=wait", PATH)
        self.start_writers(PATH, 2)
        old = self.cluster.held_lease(PATH)
        self.cluster.servers[old["primary"]].kill()
        wait_for("a reason", lambda: "appends wait" in self.explained())
        self.await_progress(100)
        # FAIL-2: the same chunk, under the next primary.
        new = self.cluster.held_lease(PATH)
        self.assertEqual(new["chunk"], old["chunk"])
        self.assertGreater(new["version"], old["version"])
        self.assertNotEqual(new["primary"], old["primary"])
        self.cluster.servers[old["primary"]].start()
        self.cluster.wait_ready()
        self.finish_writers()
        self.await_whole()
        self.check_file(PATH)

    # Rot.

    def test_the_scrub_finds_rot_and_repair_mends_it(self):
        self.fill(**dict(CALM, session_term="12s",
                         server_flags=["--scrub-period=2s", "--scrub-rate=64MiB"]))
        chunks = self.cluster.chunks(PATH)
        sealed, tail = chunks[0], chunks[-1]
        self.assertFalse(tail["sealed"])
        primary = self.cluster.primary(PATH)
        rotten = []
        for chunk in (sealed, tail):
            server = next(m["server_id"] for m in chunk["members"] if m["server_id"] != primary)
            offset = 100
            rotten.append((server, chunk["chunk"], offset,
                           self.flip_a_byte(server, chunk["chunk"], offset)))
        # Nobody reads the file meanwhile.
        for server, chunk, offset, was in rotten:
            wait_for("the scrub to find it",
                     lambda s=server, c=chunk: f"chunk {c}: the scrub found" in
                     self.cluster.servers[s].log_text())
            wait_for("the replica to be copied anew",
                     lambda s=server, c=chunk, o=offset, w=was: self.byte_at(s, c, o) == w)
        self.await_whole()
        self.cluster.assert_replicas_identical(PATH)
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS)
        self.cluster.command("append", PATH, stdin=b"after\n")
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS + b"after\n")

    # Trash.

    def test_what_is_in_the_trash_outlives_restarts(self):
        self.fill(servers=4, master_flags=["--grace=1s"])
        self.cluster.command("rm", PATH)
        for node in self.cluster.nodes():
            node.kill()
        for node in self.cluster.nodes():
            node.start()
        self.cluster.wait_ready()
        # Its replicas are kept up as any other's (KEEP-5).
        self.cluster.servers["cs1"].kill()
        time.sleep(1)
        self.assertEqual(self.cluster.json("trash")["files"][0]["path"], PATH)
        refused = self.cluster.run("append", "--give-up=2s", PATH, stdin=b"lost\n")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"trash", refused.stderr)
        self.assert_healthy()
        self.cluster.command("restore", PATH)
        for members in self.members():
            self.assertNotIn("cs1", members)
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS)
        self.cluster.command("append", PATH, stdin=b"after\n")
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS + b"after\n")


if __name__ == "__main__":
    process_cluster.main(beside=[
        "HealTest.test_a_file_that_waits_for_its_primarys_lease",
        "HealTest.test_the_scrub_finds_rot_and_repair_mends_it",
    ])
