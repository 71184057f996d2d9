#!/usr/bin/python3
"""Faults in the middle of appending, on real processes.

Every story ends the same way: what was acknowledged is all there, once, in each writer's order,
where it was said to be, and the replicas are byte-identical.
"""

import array
import fcntl
import errno
import os
import signal
import subprocess
import termios
import time

import grpc

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest, binary, wait_for
from process_wire import Channel, WireAppender, load_schema

PATH = "/faults/log"
WRITERS = 4


class FaultsTest(ClusterTest):

    def start(self, writers=WRITERS, create=(), chunk_size="4MiB", **options):
        """Small chunks, so that seals and new chunks come into every story; large ones where it is
        about one chunk's primary."""
        self.start_cluster(**options)
        self.cluster.command("create", f"--chunk-size={chunk_size}", *create, PATH)
        self.start_writers(PATH, writers)

    def tail_is_whole(self):
        """Three replicas that count: one that joins does not save the day when another one goes."""
        tail = self.cluster.chunks(PATH)[-1]
        return not tail["sealed"] and [m["joining"] for m in tail["members"]] == [False] * 3

    def finish(self, killed=()):
        for w in self.writers:
            if w.number not in killed:
                self.assertEqual(w.finish(), 0, f"writer {w.number}: {w.errors()}")
                self.assertEqual(w.acknowledged(), w.sent, f"writer {w.number}")
        self.assertGreater(self.check_file(PATH, killed), 0)

    def test_primary_is_killed(self):
        self.start(chunk_size="256MiB", session_term="60s", chunk_term="60s")
        old = self.cluster.held_lease(PATH)
        self.cluster.servers[old["primary"]].kill()
        self.await_progress(200)
        # FAIL-2a: in the next chunk, however much room there was in the old one.
        new = self.cluster.held_lease(PATH)
        self.assertGreater(new["chunk"], old["chunk"])
        self.assertNotEqual(new["primary"], old["primary"])
        # What it had written and nobody else has goes when it is back.
        self.cluster.servers[old["primary"]].start()
        self.finish()

    def test_primary_is_killed_again_and_again(self):
        self.start(servers=4)
        for _ in range(3):
            wait_for("the tail to have three replicas", self.tail_is_whole)
            old = self.cluster.primary(PATH)
            self.cluster.servers[old].kill()
            self.await_progress(100)
            self.cluster.servers[old].start()
            self.cluster.wait_ready()
            self.await_progress(100)
        self.finish()

    def test_primary_is_killed_and_comes_back(self):
        self.start()
        old = self.cluster.primary(PATH)
        self.cluster.servers[old].kill()
        self.cluster.servers[old].start()
        self.await_progress(200)
        self.cluster.wait_ready()
        self.await_progress(200)
        self.finish()

    def test_secondary_is_killed(self):
        self.start(chunk_size="256MiB", session_term="60s", chunk_term="60s",
                   master_flags=["--suspect-after=60s"])
        primary = self.cluster.primary(PATH)
        secondary = next(s for s in self.cluster.servers if s != primary)
        self.cluster.servers[secondary].kill()
        self.await_progress(200)
        # Losing a secondary moves no lease.
        self.assertEqual(self.cluster.primary(PATH), primary)
        self.cluster.servers[secondary].start()
        self.cluster.wait_ready()
        self.await_progress(200)
        self.finish()

    def test_master_is_killed(self):
        self.start(chunk_size="256MiB", **CALM)
        primary = self.cluster.primary(PATH)
        self.cluster.master.kill()
        # Appends go on without a master as long as the lease lasts.
        self.cluster.master.start()
        self.cluster.wait_ready()
        self.await_progress(200)
        # LEASE-7: the holder that came back goes on under its lease.
        self.assertEqual(self.cluster.primary(PATH), primary)
        self.finish()

    def test_a_master_that_stands_still_delays_no_append(self):
        self.start(chunk_size="256MiB", **CALM)
        primary = self.cluster.primary(PATH)
        self.cluster.master.pause()
        self.await_progress(500)
        self.cluster.master.resume()
        self.cluster.wait_ready()
        self.await_progress(100)
        self.assertEqual(self.cluster.primary(PATH), primary)
        self.finish()

    def test_all_are_killed_at_once(self):
        self.start()
        for node in self.cluster.nodes():
            node.signal(signal.SIGKILL)
        for node in self.cluster.nodes():
            node.process.wait()
        for node in self.cluster.nodes():
            node.start()
        self.cluster.wait_ready()
        self.await_progress(200)
        self.finish()

    def test_all_are_killed_at_once_synced(self):
        self.start(create=["--durability=synced"])
        for node in self.cluster.nodes():
            node.signal(signal.SIGKILL)
        for node in self.cluster.nodes():
            node.process.wait()
            node.start()
        self.cluster.wait_ready()
        self.await_progress(50)
        self.finish()

    def test_servers_are_stopped_and_started_one_after_another(self):
        self.start()
        for node in self.cluster.servers.values():
            self.assertEqual(node.stop(), 0, node.log_text()[-2000:])
            self.await_progress(50)
            node.start()
            self.cluster.wait_ready()
            # A chunk that began or went on with two members takes no appends without one of them:
            # whoever stops servers in turn waits until the tail has all its replicas again.
            wait_for("the tail to have three replicas", self.tail_is_whole)
        self.await_progress(100)
        self.finish()

    def test_recall_moves_the_primary_without_waiting(self):
        self.start(chunk_size="256MiB", **CALM)
        old = self.cluster.primary(PATH)
        began = time.monotonic()
        result = self.cluster.json("recall", PATH)
        took = time.monotonic() - began
        self.assertEqual(result["old_primary"], old)
        self.assertNotEqual(result["new_primary"], old)
        self.assertLess(took, 30, "a recall must not wait for the 60 s session term")
        self.await_progress(200)
        self.finish()

    def test_a_client_is_killed_in_mid_append(self):
        self.start()
        self.writers[1].kill()
        killed = {1}
        others = [w for w in self.writers if w.number != 1]
        goals = [(w, w.acknowledged() + 200) for w in others]
        wait_for("the other writers to go on",
                 lambda: all(w.acknowledged() >= goal for w, goal in goals))
        self.finish(killed)

    def test_an_interrupted_append_does_not_wait_for_ever(self):
        self.start_cluster()
        self.cluster.command("create", PATH)
        for server in self.cluster.servers.values():
            server.kill()
        append = subprocess.Popen([binary("leasehold"), "append", PATH], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=self.cluster.environment())
        append.stdin.write(b"nobody is there to store this\n")
        append.stdin.flush()
        wait_for("it to have read the record", lambda: self.unread(append.stdin) == 0)
        # It says so, although its input may go on.
        self.assertIn(b"nothing was stored for 5 s, 1 record is in flight; trying on, see "
                      b"--give-up", append.stderr.readline())
        # And what the master says, who knows that they are gone.
        self.assertTrue(append.stderr.readline().startswith(b"  "))
        append.stdin.close()
        append.send_signal(signal.SIGTERM)
        self.assertEqual(append.wait(PATIENCE_S), 75)
        self.assertIn(b"1 of 1 record was not acknowledged", append.stderr.read())
        append.stdout.close()
        append.stderr.close()

    @staticmethod
    def unread(pipe):
        count = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, count)
        return count[0]

    def test_a_file_that_is_removed_while_records_are_in_flight(self):
        """Nobody can be asked any more whether they were stored, and that is what is said."""
        cluster = self.start_cluster(**CALM)
        for now in ([], ["--now"]):
            path = PATH + "".join(now)
            cluster.command("create", path)
            with subprocess.Popen([binary("leasehold"), "append", path], env=cluster.environment(),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as append:
                append.stdin.write(b"one\n")
                append.stdin.flush()
                wait_for("a record", lambda p=path: cluster.run("cat", p).stdout == b"one\n")
                primary = cluster.servers[cluster.primary(path)]
                primary.pause()
                append.stdin.write(b"two\n")
                append.stdin.flush()
                time.sleep(0.5)  # it is sent
                cluster.command("rm", *now, path)
                append.stdin.close()
                self.assertEqual(append.wait(PATIENCE_S), 1)
                said = append.stderr.read().decode()
                self.assertIn("(NOT_FOUND)", said)
                self.assertIn("1 of 2 records was not acknowledged; each may have been stored "
                              "before the file was removed", said)
            primary.resume()
            cluster.wait_ready()
            if not now:
                cluster.command("restore", path)
                self.assertIn(cluster.command("cat", path), (b"one\n", b"one\ntwo\n"))

    def test_sixteen_appenders_at_once(self):
        self.start(writers=16)
        self.await_progress(300)
        self.finish()

    def test_cold_restart_keeps_everything(self):
        self.start()
        self.finish_writers()
        before = self.read_positions(PATH)
        for node in list(self.cluster.servers.values()) + [self.cluster.master]:
            self.assertEqual(node.stop(), 0, node.log_text()[-2000:])
        self.assertNotIn("stream broke", self.cluster.master.log_text())
        for node in self.cluster.nodes():
            node.start()
        self.cluster.wait_ready()
        self.assertEqual(self.read_positions(PATH), before)
        self.check_file(PATH)


class PausedPrimaryTest(ClusterTest):
    """SIGSTOP for longer than the term: who wakes up is no primary any more."""

    writer_id = 0x5EED

    def test_a_primary_that_slept_through_its_term_orders_nothing(self):
        cluster = self.start_cluster()
        cluster.command("create", "--chunk-size=256MiB", PATH)
        self.start_writers(PATH, 2)
        schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                             os.path.join(self.folder, "schema"))
        lease, channel, wire = wait_for("a record to be stored", lambda: self.store(schema))
        old = lease["primary"]

        # It sleeps; a batch waits in its socket for it to wake up.
        cluster.servers[old].pause()
        self.addCleanup(cluster.servers[old].signal, signal.SIGCONT)
        wire.send([b"000 while asleep"])
        wait_for("another primary", lambda: cluster.primary(PATH) != old)
        self.await_progress(200)
        wait_for("its term to run out",
                 lambda: old not in [e["primary"] for e in cluster.old_leases(PATH)])

        cluster.servers[old].signal(signal.SIGCONT)
        reply = self.receive_or_end(wire)
        self.assertTrue(reply is None or (reply.error != 0 and not reply.stored), reply)
        # Nor does it take a new stream under the lease that it once had.
        again = WireAppender(channel, lease["chunk"], lease["version"], 0xA6A1, 1)
        again.send([b"000 after"])
        reply = self.receive_or_end(again)
        self.assertTrue(reply is None or (reply.error != 0 and not reply.opened), reply)

        cluster.wait_ready()
        self.await_progress(100)
        self.finish_writers()
        text = cluster.command("cat", PATH)
        self.assertEqual(text.count(b"000 before, by %d" % wire.writer), 1)
        self.assertNotIn(b"000 while asleep", text)
        self.assertNotIn(b"000 after", text)
        cluster.assert_replicas_identical(PATH)

    def store(self, schema):
        """(lease, channel, appender), with a record stored, or None: on a slow machine the primary
        may lose its lease before it is reached, and that is no part of the story."""
        lease = self.cluster.held_lease(PATH)
        channel = Channel(schema, lease["address"])
        self.addCleanup(channel.close)
        self.writer_id += 1
        wire = WireAppender(channel, lease["chunk"], lease["version"], self.writer_id, 1)
        reply = self.receive_or_end(wire)
        if reply is None or not reply.opened:
            return None
        wire.send([b"000 before, by %d" % self.writer_id])
        reply = self.receive_or_end(wire)
        return (lease, channel, wire) if reply is not None and reply.stored else None

    @staticmethod
    def receive_or_end(wire):
        try:
            return wire.receive()
        except grpc.RpcError:
            return None


class RoomTest(ClusterTest):
    """What files take of the disks."""

    def taken(self):
        total = 0
        for folder, _, names in os.walk(self.folder):
            if os.path.basename(folder) == "chunks":
                total += sum(os.stat(os.path.join(folder, n)).st_blocks * 512 for n in names)
        return total

    def test_small_files_take_little_room(self):
        cluster = self.start_cluster()
        self.addCleanup(cluster.cleanup)
        for i in range(30):
            cluster.command("append", "--create", f"/small{i}", stdin=b"one line\n")
        self.assertLess(self.taken(), 3 << 20)

    def test_what_was_reserved_ahead_is_given_back(self):
        cluster = self.start_cluster()
        self.addCleanup(cluster.cleanup)
        cluster.command("append", "--create", "/log", stdin=b"x" * 1000 + b"\n" + b"y" * 3000000)
        self.assertGreater(self.taken(), 3 * 4000000)
        process_cluster.wait_for("the room", lambda: self.taken() < 3 * 3200000, 30)


class RemovedFileTest(ClusterTest):
    """Somebody removes a chunk's file behind a running server's back."""

    def test_a_look_at_every_byte_notices_it(self):
        cluster = self.start_cluster()
        self.addCleanup(cluster.cleanup)
        cluster.command("append", "--create", "/log", stdin=b"one line\n" * 1000)
        chunk = cluster.chunks("/log")[0]["chunk"]
        primary = cluster.primary("/log")
        other = next(s for s in sorted(cluster.servers) if s != primary)
        os.unlink(cluster.chunk_file(other, chunk))
        deep = cluster.run("fsck", "--deep")
        self.assertNotEqual(deep.returncode, 0, deep.stdout)
        self.assertIn(other.encode(), deep.stdout + deep.stderr)
        process_cluster.wait_for(
            "the repair", lambda: cluster.run("fsck", "--deep").returncode == 0, 60)
        self.assertEqual(cluster.command("cat", "/log"), b"one line\n" * 1000)
        self.assertTrue(os.path.exists(cluster.chunk_file(other, chunk)))


class FullDiskTest(ClusterTest):
    """Servers on small file systems of their own."""

    MIB = 1 << 20

    def mount(self, name, size_mib):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", path],
            capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("needs the privilege to mount a small tmpfs: "
                          + mounted.stderr.decode(errors="replace").strip())
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False)
        return os.path.join(path, "data")

    @staticmethod
    def fill_up(data_dir):
        with open(os.path.join(data_dir, "..", "filler"), "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096) > 0:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def test_a_full_disk_refuses_clearly_and_loses_nothing(self):
        # Cleanups run last in, first out: the servers must end before their disks go.
        dirs = {f"cs{i}": self.mount(f"disk{i}", 24) for i in (1, 2, 3)}
        cluster = self.start_cluster(data_dirs=dirs)
        self.addCleanup(cluster.cleanup)
        cluster.command("create", "--chunk-size=4MiB", "/small")
        cluster.command("create", "--chunk-size=4MiB", "/big")
        cluster.command("append", "/small", stdin=b"first\n")

        data = os.path.join(self.folder, "data")
        lines = [b"%08d %s" % (i, b"y" * 1000) for i in range(40 * 1024)]
        with open(data, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")
        positions = os.path.join(self.folder, "positions")
        with open(positions, "wb") as out:
            result = subprocess.run(
                [process_cluster.binary("leasehold"), "append", "--positions", "--quiet",
                 "--give-up=20s", "/big", data],
                stdout=out, stderr=subprocess.PIPE, env=cluster.environment(), check=False)
        with open(positions, "rb") as out:
            acknowledged = out.read().count(b"\n")
        errors = result.stderr.decode(errors="replace")
        self.assertNotEqual(result.returncode, 0)
        self.assertGreater(acknowledged, 1000)
        self.assertLess(acknowledged, len(lines))
        self.assertRegex(errors, r"(?i)no space|room for", errors)

        # What was acknowledged is there, in order, and the chunk that has its room goes on.
        found = cluster.command("cat", "/big").split(b"\n")[:-1]
        self.assertGreaterEqual(len(found), acknowledged)
        self.assertEqual(found, lines[:len(found)])
        cluster.command("append", "/small", stdin=b"second\n")
        self.assertEqual(cluster.command("cat", "/small"), b"first\nsecond\n")
        cluster.assert_replicas_identical("/big")
        cluster.assert_replicas_identical("/small")

        # A server whose disk has no room at all starts, and gives what it has.
        self.fill_up(dirs["cs1"])
        for node in cluster.nodes():
            if node.name == "cs1":
                node.stop()
                node.start()
        cluster.wait_ready()
        self.assertEqual(cluster.command("cat", "/small"), b"first\nsecond\n")
        os.unlink(os.path.join(dirs["cs1"], "..", "filler"))

        # Space comes back when a file goes for good, and appending works again.
        cluster.command("rm", "--now", "/big")
        cluster.command("create", "--chunk-size=4MiB", "/next")
        cluster.command("append", "/next", stdin=b"third\n")
        self.assertEqual(cluster.command("cat", "/next"), b"third\n")

    def create_somehow(self, path):
        """A first try may be refused, and be done all the same."""
        self.cluster.run("create", path)
        self.cluster.command("stat", path)

    def test_a_master_without_room_waits_for_it(self):
        dirs = {"master": self.mount("disk", 4)}
        cluster = self.start_cluster(data_dirs=dirs, **CALM)
        self.addCleanup(cluster.cleanup)
        filler = os.path.join(dirs["master"], "..", "filler")
        cluster.command("create", "--chunk-size=1GiB", PATH)
        self.start_writers(PATH, 2)
        self.fill_up(dirs["master"])

        def refused():
            # Freed pages of the store are used first: some are created yet.
            result = cluster.run("create", f"/new/{time.monotonic_ns()}", "--timeout=3s")
            return result if result.returncode != 0 else None

        # It is an error to the caller, who is told why; nothing is claimed that is not durable.
        result = wait_for("the disk to be full", refused)
        self.assertIn(b"the master has no room for its metadata", result.stderr)
        self.assertIn("its disk is full; free some room there, it is tried again each second",
                      cluster.master.log_text())
        # Leases run on, and with them appends; and what nobody tried to change can be read.
        self.await_progress(500)
        cluster.command("stat", PATH)
        self.assertTrue(cluster.command("cat", PATH))
        # With room all goes on by itself.
        os.unlink(filler)
        self.create_somehow("/after")
        self.assertIn("the metadata store can be written again", cluster.master.log_text())
        # A master that starts on a full disk waits, or has pages left for its term.
        self.fill_up(dirs["master"])
        wait_for("the disk to be full", refused)
        cluster.master.kill()
        cluster.master.start()
        wait_for("the disk to be full", refused)
        self.await_progress(100)
        self.assertTrue(cluster.master.running())
        os.unlink(filler)
        cluster.wait_ready()
        self.create_somehow("/again")
        self.await_progress(100)
        self.finish_writers()
        self.check_file(PATH)
        self.assertTrue(cluster.master.running())


if __name__ == "__main__":
    process_cluster.main(beside=[
        "FaultsTest.test_an_interrupted_append_does_not_wait_for_ever",
        "FaultsTest.test_servers_are_stopped_and_started_one_after_another",
        "FullDiskTest.test_a_full_disk_refuses_clearly_and_loses_nothing",
        "FullDiskTest.test_a_master_without_room_waits_for_it",
        "RoomTest.test_what_was_reserved_ahead_is_given_back",
    ])
